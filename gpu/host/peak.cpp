// The stop-watch around the loops of kernels/peak.cpp; see peak.hpp.
#include "gpu/host/peak.hpp"

#include <algorithm>
#include <system_error>

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/thread_team.hpp"
#include "gpu/stopwatch.hpp"

namespace troupe::gpu {
namespace {

using loop = double (*)(int64_t rounds);

constexpr double sample_seconds = 0.012;  // long beside a wake-up, short beside a disturbance

/// What `rounds` in every member of a team came to.
struct lap {
  double seconds = 0;  ///< of processor time, the longest of the members
  double flops = 0;    ///< a second of processor time, all members together
  double others = 0;   ///< share of the wall's time that the members did not get
};

lap run_rounds(host::thread_team& team, loop burn, int64_t rounds) {
  struct share {
    double operations, processor, wall;
  };
  std::vector<share> done(static_cast<size_t>(team.threads()));
  team.run([&](int member, int) {
    const double wall = seconds_now(time_kind::wall), own = seconds_now(time_kind::thread);
    const double operations = burn(rounds);
    done[static_cast<size_t>(member)] = {operations, seconds_now(time_kind::thread) - own,
                                         seconds_now(time_kind::wall) - wall};
  });
  lap out;
  double processor = 0, wall = 0;
  for (const share& d : done) {
    out.seconds = std::max(out.seconds, d.processor);
    out.flops += d.operations / std::max(d.processor, 1e-9);
    processor += d.processor;
    wall += d.wall;
  }
  out.others = std::clamp(1 - processor / wall, 0.0, 1.0);
  return out;
}

/// Rounds that take about sample_seconds.
int64_t rounds_of_sample(host::thread_team& team, loop burn) {
  int64_t rounds = 1000;
  while (run_rounds(team, burn, rounds).seconds < sample_seconds / 2) rounds *= 2;
  return rounds;
}

peak_sample measure(host::thread_team& team, loop burn, std::string instruction, dtype type) {
  constexpr int samples = 15;
  const int64_t rounds = rounds_of_sample(team, burn);
  std::vector<double> rates;
  double others = 0;
  for (int i = 0; i < samples; ++i) {
    const lap l = run_rounds(team, burn, rounds);
    rates.push_back(l.flops);
    others += l.others / samples;
  }
  std::sort(rates.begin(), rates.end());
  return {std::move(instruction), type, team.threads(), rates[samples / 2], rates.back(), others};
}

error no_threads(const std::system_error& e) {
  return error(errc::unavailable, std::string("cannot start threads: ") + e.what(),
               "raise the limit on threads (ulimit -u), or use fewer");
}

}  // namespace

std::vector<std::string> instruction_sets() {
  int count = 0;
  const auto* tables = host::runnable_kernels(&count);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(tables[i]->name);
  return names;
}

result<std::vector<peak_sample>> measure_peaks(int threads) {
  if (threads < 1) return error(errc::usage, "a peak needs at least one thread");
  try {
    host::thread_team team(threads, "peak");
    const host::kernel_table& k = host::select_kernels();
    std::vector<peak_sample> all;
    all.push_back(measure(team, k.burn_f32, std::string("fma ") + k.name, dtype::f32));
    if (k.burn_dot_bf16 != nullptr) {
      all.push_back(measure(team, k.burn_dot_bf16, "vdpbf16ps", dtype::bf16));
    }
    if (k.burn_tiles_bf16 != nullptr) {
      all.push_back(measure(team, k.burn_tiles_bf16, "tdpbf16ps", dtype::bf16));
    }
    return all;
  } catch (const std::system_error& e) {
    return no_threads(e);
  }
}

class peak_meter::impl {
 public:
  impl(peak_sample first, loop burn)
      : first_(std::move(first)),
        team_(first_.threads, "peak"),
        burn_(burn),
        rounds_(rounds_of_sample(team_, burn)) {}

  const peak_sample& first() const { return first_; }
  double sample() { return run_rounds(team_, burn_, rounds_).flops; }

 private:
  const peak_sample first_;
  host::thread_team team_;
  const loop burn_;
  const int64_t rounds_;
};

peak_meter::peak_meter(std::unique_ptr<impl> body) : impl_(std::move(body)) {}
peak_meter::peak_meter(peak_meter&&) noexcept = default;
peak_meter& peak_meter::operator=(peak_meter&&) noexcept = default;
peak_meter::~peak_meter() = default;

result<peak_meter> peak_meter::make(dtype type, int threads) {
  TROUPE_TRY(ways, measure_peaks(threads));
  const host::kernel_table& k = host::select_kernels();
  const auto fastest =
      std::max_element(ways.begin(), ways.end(), [&](const auto& a, const auto& b) {
        const auto rate = [&](const peak_sample& s) {
          return type == dtype::bf16 || s.type == type ? s.best : 0;
        };
        return rate(a) < rate(b);
      });
  const loop burn = fastest->type == dtype::f32           ? k.burn_f32
                    : fastest->instruction == "tdpbf16ps" ? k.burn_tiles_bf16
                                                          : k.burn_dot_bf16;
  try {
    return peak_meter(std::make_unique<impl>(*fastest, burn));
  } catch (const std::system_error& e) {
    return no_threads(e);
  }
}

const peak_sample& peak_meter::first() const {
  return impl_->first();
}

double peak_meter::sample() {
  return impl_->sample();
}

}  // namespace troupe::gpu

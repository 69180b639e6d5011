// The stop-watch around the loops of kernels/peak.cpp; see peak.hpp.
#include "gpu/host/peak.hpp"

#include <algorithm>
#include <system_error>

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/thread_team.hpp"

namespace troupe::gpu {
namespace {

using loop = double (*)(int64_t rounds);

constexpr double sample_seconds = 0.012;  // long beside a wake-up, short beside a disturbance

/// Seconds `team` needs for `rounds` in every member; adds up what they did.
double time_rounds(host::thread_team& team, loop burn, int64_t rounds, time_kind clock,
                   double& operations) {
  std::vector<double> done(static_cast<size_t>(team.threads()));
  const double start = seconds_now(clock);
  team.run([&](int member, int) { done[static_cast<size_t>(member)] = burn(rounds); });
  const double took = seconds_now(clock) - start;
  operations = 0;
  for (double d : done) operations += d;
  return took;
}

/// Rounds that take about sample_seconds.
int64_t rounds_of_sample(host::thread_team& team, loop burn) {
  int64_t rounds = 1000;
  double operations = 0;
  while (time_rounds(team, burn, rounds, time_kind::wall, operations) < sample_seconds / 2) {
    rounds *= 2;
  }
  return rounds;
}

peak_sample measure(host::thread_team& team, loop burn, std::string instruction, dtype type) {
  constexpr int samples = 15;
  const int64_t rounds = rounds_of_sample(team, burn);
  std::vector<double> rates;
  for (int i = 0; i < samples; ++i) {
    double operations = 0;
    const double seconds = time_rounds(team, burn, rounds, time_kind::wall, operations);
    rates.push_back(operations / seconds);
  }
  std::sort(rates.begin(), rates.end());
  return {std::move(instruction), type, team.threads(), rates[samples / 2], rates.back()};
}

error no_threads(const std::system_error& e) {
  return error(errc::unavailable, std::string("cannot start threads: ") + e.what(),
               "raise the limit on threads (ulimit -u), or use fewer");
}

}  // namespace

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

result<double> measure_peak_flops(dtype type, int threads) {
  TROUPE_TRY(samples, measure_peaks(threads));
  double ceiling = 0;
  for (const peak_sample& s : samples) {
    if (s.type == type || type == dtype::bf16) ceiling = std::max(ceiling, s.best);
  }
  return ceiling;
}

class peak_meter::impl {
 public:
  impl(int threads, loop burn, time_kind clock)
      : team_(threads, "peak"),
        burn_(burn),
        clock_(clock),
        rounds_(rounds_of_sample(team_, burn)) {}

  double sample() {
    double operations = 0;
    const double seconds = time_rounds(team_, burn_, rounds_, clock_, operations);
    return operations / seconds;
  }

 private:
  host::thread_team team_;
  const loop burn_;
  const time_kind clock_;
  const int64_t rounds_;
};

peak_meter::peak_meter(std::unique_ptr<impl> body) : impl_(std::move(body)) {}
peak_meter::peak_meter(peak_meter&&) noexcept = default;
peak_meter& peak_meter::operator=(peak_meter&&) noexcept = default;
peak_meter::~peak_meter() = default;

result<peak_meter> peak_meter::make(dtype type, int threads, time_kind clock) {
  TROUPE_TRY(ways, measure_peaks(threads));
  const host::kernel_table& k = host::select_kernels();
  loop fastest = k.burn_f32;
  double most = 0;
  for (const peak_sample& way : ways) {
    if (type != dtype::bf16 && way.type != type) continue;
    if (way.best <= most) continue;
    most = way.best;
    fastest = way.type == dtype::f32           ? k.burn_f32
              : way.instruction == "tdpbf16ps" ? k.burn_tiles_bf16
                                               : k.burn_dot_bf16;
  }
  try {
    return peak_meter(std::make_unique<impl>(threads, fastest, clock));
  } catch (const std::system_error& e) {
    return no_threads(e);
  }
}

double peak_meter::sample() {
  return impl_->sample();
}

}  // namespace troupe::gpu

// The stop-watch around the loops of kernels/peak.cpp; see peak.hpp.
#include "gpu/host/peak.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/thread_team.hpp"

namespace troupe::gpu {
namespace {

using loop = double (*)(int64_t rounds);

/// Seconds `team` needs for `rounds` in every member; adds up what they did.
double time_rounds(host::thread_team& team, loop burn, int64_t rounds, double& operations) {
  std::vector<double> done(static_cast<size_t>(team.threads()));
  const auto start = std::chrono::steady_clock::now();
  team.run([&](int member, int) { done[static_cast<size_t>(member)] = burn(rounds); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  operations = 0;
  for (double d : done) operations += d;
  return took.count();
}

peak_sample measure(host::thread_team& team, loop burn, std::string instruction, dtype type) {
  constexpr double wanted_seconds = 0.012;  // long beside a wake-up, short beside a disturbance
  constexpr int samples = 15;
  int64_t rounds = 1000;
  double operations = 0;
  while (time_rounds(team, burn, rounds, operations) < wanted_seconds / 2) rounds *= 2;
  std::vector<double> rates;
  for (int i = 0; i < samples; ++i) {
    const double seconds = time_rounds(team, burn, rounds, operations);
    rates.push_back(operations / seconds);
  }
  std::sort(rates.begin(), rates.end());
  return {std::move(instruction), type, team.threads(), rates[samples / 2], rates.back()};
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
    return error(errc::unavailable, std::string("cannot start threads: ") + e.what(),
                 "raise the limit on threads (ulimit -u), or use fewer");
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

}  // namespace troupe::gpu

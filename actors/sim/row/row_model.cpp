// Tables of splitwise-sim, and what clocks make of them.
#include "actors/sim/row/row_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace troupe::sim {

namespace {

struct measured_prompt {
  double tokens, ms, peak;
};
constexpr std::array<measured_prompt, 7> prompts = {{{128, 79.7, 0.691},
                                                     {256, 99.2, 0.723},
                                                     {512, 173.8, 0.876},
                                                     {1024, 289.2, 1.007},
                                                     {2048, 540.4, 1.021},
                                                     {4096, 1348.2, 1.016},
                                                     {8192, 3593.2, 1.026}}};

constexpr double host_idle_w = 1900, host_busy_w = 2150;
constexpr double gpu_idle_w = 80, gpu_prompt_w = 400, gpu_token_w = 250;
constexpr int gpus = 8;
constexpr double power_exponent = 1.2, token_slope = 0.22;
constexpr int brake_below_mhz = 500;

/// The row below which a length lies, the last but one for longer ones.
size_t row_of(double tokens) {
  size_t i = 0;
  while (i + 2 < prompts.size() && tokens > prompts[i + 1].tokens) ++i;
  return i;
}

double between(double tokens, double measured_prompt::*what) {
  const auto i = row_of(tokens);
  const auto &a = prompts[i], &b = prompts[i + 1];
  return a.*what + (b.*what - a.*what) * (tokens - a.tokens) / (b.tokens - a.tokens);
}

int uniform(rng& chance, int low, int high) {
  return static_cast<int>(chance.between(low, high));
}

}  // namespace

row_request draw_request(row_class c, rng& chance) {
  const bool chat = chance.chance(0.5);
  row_request r;
  if (chat) {
    r.prompt_tokens = uniform(chance, 2048, 4096);
    r.output_tokens = uniform(chance, 128, 2048);
  } else if (c == row_class::low) {  // summarize
    r.prompt_tokens = uniform(chance, 2048, 8192);
    r.output_tokens = uniform(chance, 256, 512);
  } else {  // search
    r.prompt_tokens = uniform(chance, 512, 2048);
    r.output_tokens = uniform(chance, 1024, 2048);
  }
  return r;
}

double prompt_s(int tokens) {
  return between(tokens, &measured_prompt::ms) / 1000;
}

double prompt_peak(int tokens) {
  const double known = std::clamp<double>(tokens, prompts.front().tokens, prompts.back().tokens);
  return between(known, &measured_prompt::peak);
}

double service_s(const row_request& r) {
  return prompt_s(r.prompt_tokens) + token_s * r.output_tokens;
}

row_clock clock_of(int mhz) {
  row_clock out;
  out.mhz = mhz;
  const double slower = static_cast<double>(row_max_mhz) / mhz;
  out.power = std::pow(1 / slower, power_exponent);
  out.prompt_x = slower;
  out.token_x = mhz < brake_below_mhz ? slower : 1 + token_slope * (slower - 1);
  return out;
}

double slowdown_of(row_class c, const row_clock& clock) {
  constexpr int draws = 20'000;
  rng chance(mix(static_cast<uint64_t>(c) + 1));
  double at_full = 0, at_clock = 0;
  for (int i = 0; i < draws; ++i) {
    const auto r = draw_request(c, chance);
    const double prompt = prompt_s(r.prompt_tokens), tokens = token_s * r.output_tokens;
    at_full += prompt + tokens;
    at_clock += prompt * clock.prompt_x + tokens * clock.token_x;
  }
  return at_clock / at_full;
}

int64_t row_watts::busy_mw(double gpu_w) const {
  return std::llround(1000 * (host_busy_w + gpus * scale_ * gpu_w));
}

int64_t row_watts::idle_mw() const {
  return std::llround(1000 * (host_idle_w + gpus * gpu_idle_w));
}

int64_t row_watts::prompt_mw(double peak, const row_clock& clock) const {
  return busy_mw(gpu_idle_w + (peak * gpu_prompt_w - gpu_idle_w) * clock.power);
}

int64_t row_watts::token_mw(const row_clock& clock) const {
  return busy_mw(gpu_idle_w + (gpu_token_w - gpu_idle_w) * clock.power);
}

}  // namespace troupe::sim

// What a server of a simulated row draws and how long its requests take, by its clock: BLOOM-176B
// on eight A100-80GB, one request at a time.
//
// Numbers: prompts and tokens as measured for splitwise-sim (MIT, by POLCA's first author), clocks'
// exponent fitted to two points that POLCA quotes (1,110 MHz: peak -20 %, end to end -6 %), the
// host's watts guessed (docs/power.md says what comes of that).
#pragma once

#include <cstdint>
#include <string_view>

#include "actors/sim/rng.hpp"

namespace troupe::sim {

/// Priorities of POLCA: low is capped first.
enum class row_class : uint8_t { low, high };
inline constexpr int row_classes = 2;

inline constexpr int row_max_mhz = 1410;      ///< an A100's clock
inline constexpr double row_server_w = 5400;  ///< of the budget, for each of a row's own servers
inline constexpr int row_own_servers = 40;

struct row_request {
  int prompt_tokens = 0, output_tokens = 0;
};
/// Summarize or chat, search or chat, half each.
row_request draw_request(row_class c, rng& chance);

/// At the full clock; linear between measured lengths and beyond them.
double prompt_s(int tokens);
/// The peak of a prompt's power, of a GPU's 400 W; that of the longest measured beyond it.
double prompt_peak(int tokens);
inline constexpr double token_s = 0.050;
/// Both phases of a request at the full clock.
double service_s(const row_request& r);

/// What a locked clock does.
struct row_clock {
  int mhz = row_max_mhz;
  double power = 1;     ///< of what a busy GPU draws above nothing
  double prompt_x = 1;  ///< times as long
  double token_x = 1;
};
row_clock clock_of(int mhz);

/// Times as long as at the full clock, of requests of a class together.
double slowdown_of(row_class c, const row_clock& clock);

/// Watts of a server and its eight GPUs, in mW; those of busy GPUs times `power_scale`.
class row_watts {
 public:
  explicit row_watts(double power_scale) : scale_(power_scale) {}
  int64_t idle_mw() const;
  int64_t prompt_mw(double peak, const row_clock& clock) const;
  int64_t token_mw(const row_clock& clock) const;

 private:
  int64_t busy_mw(double gpu_w) const;
  double scale_;
};

}  // namespace troupe::sim

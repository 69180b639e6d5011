// `troupe bench predict`, placement: what layers by measured nodes are worth where one of two nodes
// is stopped half of the time.
//
// A job of two stages, a rank of a thread on each, is run with even layers, with
// parallel.placement = "measured", and with every split by hand. From before it measures until the
// job ends, the second node's process is stopped (SIGSTOP) and let go on in turn, as often as long:
// to the job it is a node that is half as quick.
//
// Invariants
//   BPP-1  Rounds are interleaved: each does every way, each beginning with another one.
//   BPP-2  Losses are compared as doubles, each of them, with those of the first run of the same
//     layers by hand. Timing decides nothing but rows.
//   BPP-3  The stopped process is known by a descriptor: no other that has its id later is
//     signalled, and it goes on when nobody holds it any more.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/bench/power_job.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::predict_bench {

struct placement_plan {
  std::filesystem::path folder;   ///< for the job, marked as scratch
  std::vector<std::string> sets;  ///< KEY=VALUE, of all jobs
  int layers = 12;
  int steps = 20;
  int rounds = 1;
  const std::atomic<bool>* stop = nullptr;  ///< a person interrupts
};

inline constexpr std::string_view even_way = "even", measured_way = "measured";
inline bool is_by_hand(std::string_view way) {
  return way != even_way && way != measured_way;
}

/// One job from its start to its end.
struct placement_run {
  std::string layers;           ///< as measured, or by hand; of the even way: empty
  std::vector<double> step_ms;  ///< without the first ones, which warm up
  power_bench::live_losses losses;
};

/// Of a way, over all rounds: "even", "measured", or layers by hand ("8,4").
struct placement_row {
  std::string way;
  std::vector<placement_run> rounds;
};

struct placement_measurement {
  std::vector<placement_row> rows;  ///< even, measured, then by hand
};

/// What follows from it. Times are medians over rounds of the median step.
struct placement_verdict {
  double over_even = 0;  ///< times as quick as even layers
  double of_best = 0;    ///< times as long as the quickest of all ways
  bool same_bits = true;
  bool met() const;
};
placement_verdict verdict_of(const placement_measurement& m);

std::string text_of(const placement_measurement& m);
nlohmann::ordered_json json_of(const placement_measurement& m);

/// The layers that a line of a job tells of as settled, "8,4".
std::optional<std::string> told_layers(std::string_view line);

/// A child of a launch, found by these words, which stands half of the time from when it is there
/// until this goes (BPP-3). Its words may come later than this.
class half_stopped {
 public:
  half_stopped(pid_t launcher, std::vector<std::string> words);
  ~half_stopped();
  half_stopped(half_stopped&&) noexcept;
  half_stopped& operator=(half_stopped&&) noexcept;

  /// How often it was stopped; 0: it was not found.
  int stops() const noexcept;

 private:
  struct running;
  std::unique_ptr<running> running_;
};

/// Errors: unavailable where a job does not train, or says no layers; cancelled.
result<placement_measurement> measure_placement(const placement_plan& plan);

}  // namespace troupe::apps::predict_bench

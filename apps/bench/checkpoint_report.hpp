// What `troupe bench checkpoint` found, and how it is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/checkpoint_ways.hpp"
#include "apps/bench/spread.hpp"
#include "io/disk/calibrate.hpp"

namespace troupe::apps::ckpt_bench {

inline constexpr double gib = 1 << 30;  ///< bytes

/// A sample of numbers, of which the median and the range are told.
class sample {
 public:
  void add(double x) { values_.push_back(x); }
  void add_all(const sample& more) {
    values_.insert(values_.end(), more.values_.begin(), more.values_.end());
  }
  bool empty() const noexcept { return values_.empty(); }
  double median() const { return all().median; }
  spread all() const { return spread_of(values_); }

 private:
  std::vector<double> values_;
};

/// One way's numbers, over all rounds. Empty samples are what the way does not have.
struct way_row {
  way_kind way;
  sample blocked_s;     ///< training held up by one checkpoint, one value each
  sample slowdown;      ///< of all iterations over those without checkpoints, one value a round
  sample finished_s;    ///< one checkpoint from the call to its end (BCK-1)
  sample over_ceiling;  ///< finished over the raw write of the round
  sample over_fio;      ///< finished over fio's write of the round
  sample cpu_s_per_gb;  ///< beyond the iterations' own
  sample peak_bytes;    ///< in memory beyond the state
  sample restore_s;
  sample over_raw_read;
};

struct skipped_way {
  std::string id, reason;
};

/// Everything about one size of state.
struct size_report {
  uint64_t bytes = 0;
  int64_t parameters = 0;
  int chunks = 0;
  int rounds = 0, iterations = 0;
  double iteration_s = 0, update_s = 0;
  uint64_t ring_bytes = 0;
  io::calibration disk;
  sample ceiling_s, fio_s, raw_read_s;
  int unsteady_rounds = 0;   ///< whose ceiling before ours and after differ by more than 15 %
  uint64_t wrong_bytes = 0;  ///< of all restores
  std::vector<way_row> rows;
  std::vector<skipped_way> skipped;

  /// Time to write a state over the time of an iteration.
  double pressure() const;
};

/// One of the aims, judged.
struct aim {
  std::string what;
  std::optional<double> value;  ///< nothing: it does not apply, or was not measured
  double limit = 0;
  std::string why_not;
  bool met() const noexcept { return value && *value <= limit; }
};
std::vector<aim> judge(const size_report& r);

/// For people.
std::string text(const size_report& r);
nlohmann::ordered_json json(const size_report& r);

}  // namespace troupe::apps::ckpt_bench

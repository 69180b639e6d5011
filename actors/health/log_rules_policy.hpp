// Lines of logs against the rules of health.log_rule: how many fit, and the last of them.
//
// Pure: it is handed what was written, and the time.
//
// Invariants
//   LGR-1  A line counts for the first rule that it fits, once.
//   LGR-2  A log is hostile: of a line at most `most_line_bytes` are looked at and kept, and what
//     is told of it is a short printable line without what looks like a secret. Line feed, carriage
//     return and a byte of zero end a line.
//   LGR-3  What the program itself says of a line that fits is none: a finding that is told in a
//     log that is looked at would be found again and again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/config/job.hpp"
#include "io/logs/line_patterns.hpp"
#include "io/logs/log_piece.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// How the evidence of a line begins (LGR-3).
inline constexpr std::string_view own_words = "a line of its logs fits the rule ";

/// What a log writes, cut into lines (LGR-2).
class line_cutter {
 public:
  /// Bytes of a line that are looked at.
  static constexpr size_t most_line_bytes = 4096;

  /// What was written since the last call. `fits` is asked of each line that has ended, is too
  /// long, or stood still for a call; one that fitted when it was asked of first is not asked of
  /// again when it has ended.
  template <class Fits>
  void take(const io::log_piece& piece, Fits fits) {
    if (piece.gap) end(fits);
    if (piece.bytes.empty()) ask(fits);
    std::string_view rest = piece.bytes;
    while (!rest.empty()) {
      const auto at = std::min(rest.find_first_of(ends), rest.size());
      line_.append(rest.substr(0, std::min(at, most_line_bytes - line_.size())));
      if (line_.size() == most_line_bytes) ask(fits);
      if (at < rest.size()) end(fits);
      rest.remove_prefix(std::min(at + 1, rest.size()));
    }
  }

 private:
  static constexpr std::string_view ends{"\n\r\0", 3};

  template <class Fits>
  void ask(Fits& fits) {
    if (line_.size() == asked_bytes_ || fitted_) return;
    asked_bytes_ = line_.size();
    fitted_ = fits(std::string_view(line_));
  }
  template <class Fits>
  void end(Fits& fits) {
    ask(fits);
    line_.clear();
    asked_bytes_ = 0;
    fitted_ = false;
  }

  std::string line_;
  size_t asked_bytes_ = 0;  ///< the line had so many when it was asked of last
  bool fitted_ = false;
};

class log_rules_policy {
 public:
  /// Of a line that is told.
  static constexpr size_t most_told_bytes = 100;

  /// No rules.
  log_rules_policy() = default;
  /// Of rules that config::parse has accepted; one whose expression is none fits no line.
  explicit log_rules_policy(const std::vector<config::log_rule_spec>& rules);

  /// Whether no line can fit: nothing need be read.
  bool is_idle() const noexcept { return names_.empty(); }
  /// What one of the logs wrote, by its number.
  void take(size_t log, const io::log_piece& piece, int64_t now_ns);
  /// The rules that lines have fitted, in their order.
  std::vector<std::unique_ptr<fbs::LogRuleCountT>> counts();

 private:
  struct counted {
    uint64_t lines = 0;
    int64_t last_ns = 0;
    std::string line, told;  ///< as it came; as it is told, empty: not made yet
  };
  bool judge(std::string_view line, int64_t now_ns);
  std::string told(size_t rule, std::string_view line) const;

  std::shared_ptr<const io::line_patterns> patterns_ = std::make_shared<io::line_patterns>();
  std::vector<std::string> names_;  ///< of the rules, as patterns_ numbers them
  std::map<size_t, counted> counted_;
  std::map<size_t, line_cutter> cutters_;
};

/// How many bytes of each log the next look reads, after one that read up to `room` and took so
/// much of its processor's time: rules and lines that are hard for each other make it slow, not
/// long.
size_t next_room(size_t room, int64_t took_ns);

/// How many rules a heartbeat tells of.
inline constexpr size_t most_rules_a_beat = 3;

/// Leaves of a sample what fits into a heartbeat: of the rules the next ones in turn, by the beat's
/// number.
void shorten_for_beat(fbs::MachineVitalsT& sample, uint64_t beat);

}  // namespace troupe::health

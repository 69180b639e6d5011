// When a head that stands by wants to act.
//
// Invariants
//   TKO-1  Not while a head that acts is heard of, nor within the patience after it was heard last,
//     or after a promise to another that may be about to. A head that is started in the place of a
//     lost one (`at_once`) need not wait. Nor before the job is known to run: a person begins it.
//   TKO-2  Not while so few voters are within reach that it could not win: it would only make
//     others promise epochs that nobody acts in.
//   TKO-3  The epoch it asks for is later than any that it has heard of. A round that is lost, or
//     comes to nothing, is followed by a pause that is longer the later its head stands in the
//     list, and doubles as often as that happens: of two that ask at the same time one is first
//     the next time.
//   TKO-4  No voter promises an epoch to another while it hears a head that acts: whoever is cut
//     off from that one alone does not depose it. The one that acts itself does not, either.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace troupe::heads {

class takeover_policy {
 public:
  struct rules {
    int64_t patience_ns = 10'000'000'000;
    int64_t rest_ns = 10'000'000'000;  ///< more than that, for one that was promised an epoch
    int64_t stagger_ns = 500'000'000;  ///< between two heads of the list
    uint32_t place = 0;                ///< in the list, from 0
    bool at_once = false;
    bool job_runs = false;  ///< it is known to
  };

  takeover_policy(const rules& how, int64_t now_ns) : rules_(how) {
    not_before_ns_ = now_ns + (how.at_once ? 0 : how.patience_ns + pause());
  }

  /// A head says that it acts in `epoch`, or is about to.
  void heard_acting(uint32_t epoch, int64_t now_ns) {
    heard_of(epoch);
    rules_.job_runs = true;
    lost_ = 0;
    wait(now_ns, rules_.patience_ns);
    // Else it does not know yet that it acts no more, or a round of others came to nothing.
    if (epoch == latest_) heard_ns_ = now_ns;
  }
  /// The link to the one that acted is gone: whoever starts it again may ask at once (TKO-4).
  void lost_acting() { heard_ns_.reset(); }
  void promised_to_other(uint32_t epoch, int64_t now_ns) {
    heard_of(epoch);
    wait(now_ns, rules_.patience_ns + rules_.rest_ns);
  }
  /// A round of its own came to nothing; `epoch`: the greatest that it was told of.
  void lost_round(uint32_t epoch, int64_t now_ns) {
    heard_of(epoch);
    wait(now_ns, (2 * rules_.stagger_ns) << std::min(lost_++, doublings));
  }
  void heard_of(uint32_t epoch) { latest_ = std::max(latest_, epoch); }

  /// TKO-4.
  bool hears_acting(int64_t now_ns) const {
    return heard_ns_ && now_ns - *heard_ns_ < rules_.patience_ns;
  }
  /// The epoch to ask for now (TKO-1 to TKO-3); none: not yet.
  std::optional<uint32_t> due(int64_t now_ns, size_t reachable, size_t needed) const {
    if (!job_runs() || now_ns < not_before_ns_ || hears_acting(now_ns) || reachable < needed)
      return std::nullopt;
    return latest_ + 1;
  }
  uint32_t latest() const { return latest_; }
  /// It is known that a person has begun the job.
  bool job_runs() const { return rules_.job_runs || rules_.at_once; }

 private:
  int64_t pause() const { return rules_.stagger_ns * rules_.place; }
  void wait(int64_t now_ns, int64_t time_ns) {
    not_before_ns_ = std::max(not_before_ns_, now_ns + time_ns + pause());
  }

  static constexpr int doublings = 5;  ///< of the pause after a round that was lost

  rules rules_;
  int lost_ = 0;  ///< rounds in a row
  uint32_t latest_ = 0;
  std::optional<int64_t> heard_ns_;
  int64_t not_before_ns_ = 0;
};

}  // namespace troupe::heads

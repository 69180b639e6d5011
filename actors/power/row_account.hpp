// What a person is told of a budget's life so far: for how long its classes had less than their
// ceilings and work was held, since when more than T2 is drawn, and the joules of all.
//
// Invariants
//   RAC-1  The time between two ticks is of what held after the first of them; one that comes much
//     later than it is due counts as so many ticks at most: nobody knows of a suspended machine.
//   RAC-2  A reading that is missing is neither below T2 nor above it: what was so stays, and no
//     joule is added for it.
//
// Pure: no clock.
#pragma once

#include <cstdint>
#include <optional>

namespace troupe::power {

/// As of one tick.
struct row_look {
  std::optional<int64_t> drawn_mw;  ///< by all children; none: of one of them it is not known
  int64_t cap_mw = 0;               ///< what the budget has
  double t2 = 0;                    ///< a share of that; 0: it has none
  bool low_capped = false, high_capped = false;  ///< the class has less than its ceilings
  bool braked = false;                           ///< it holds work by itself
};

class row_account {
 public:
  struct totals {
    int64_t low_capped_ns = 0, high_capped_ns = 0, braked_ns = 0;
    double energy_j = 0;
  };

  row_account() = default;
  explicit row_account(int64_t tick_ns) : tick_ns_(tick_ns) {}

  /// Once a tick.
  void tick(const row_look& look, int64_t now_ns);
  /// So far.
  totals sums(int64_t now_ns) const;
  /// For how long more than T2 is drawn; none: it is not.
  std::optional<int64_t> over_t2_ms(int64_t now_ns) const;

 private:
  static constexpr int64_t joined_ticks = 10;

  int64_t tick_ns_ = 1'000'000'000;
  std::optional<row_look> last_ = {};
  int64_t last_ns_ = 0;
  std::optional<int64_t> over_since_ns_ = {};
  totals sums_ = {};
};

}  // namespace troupe::power

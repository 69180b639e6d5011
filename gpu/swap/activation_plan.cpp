// Searches along lines.
#include "gpu/swap/activation_plan.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace troupe::gpu {

namespace {

/// Rates are known by less than this.
constexpr double as_quick = 1.001;
constexpr int64_t looked_at = 16;
constexpr int rounds = 3;
/// Writing activations each step wears a drive: it has to be worth more than rates are wrong by.
constexpr double spill_worth = 1.03;

using clock = std::function<std::optional<double>(const activation_split&)>;

struct timed_split {
  activation_split split;
  double seconds = std::numeric_limits<double>::infinity();
};

/// Choices in an order, from 0 to `last`.
class line {
 public:
  /// `tie_ends`: of choices that are as quick the one nearest to the end; else to the beginning.
  line(int64_t last, std::function<activation_split(int64_t)> split_of, bool tie_ends,
       const clock& seconds)
      : last_(last), split_of_(std::move(split_of)), tie_ends_(tie_ends), seconds_(seconds) {}

  /// `looks`: at these, too.
  std::optional<timed_split> best(std::initializer_list<int64_t> looks) {
    auto pace = std::max<int64_t>(1, last_ / looked_at);
    for (int64_t at = 0; at < last_; at += pace) look_at(at);
    for (const auto at : looks) look_at(at);
    look_at(last_);
    look_near(pace);
    if (least_ == std::numeric_limits<double>::infinity()) return std::nullopt;
    return timed_split{split_of_(best_), best_s_};
  }

 private:
  /// Nearer and nearer, until no neighbour of the best one is better.
  void look_near(int64_t pace) {
    for (;;) {
      const auto before = best_;
      for (const auto at : {before - pace, before + pace})
        if (at >= 0 && at <= last_) look_at(at);
      if (best_ != before) continue;
      if (pace == 1) return;
      pace = (pace + 1) / 2;
    }
  }

  void look_at(int64_t at) {
    if (!tried_.insert(at).second) return;
    const auto took = seconds_(split_of_(at));
    if (!took) return;
    const bool wins_ties = (at > best_) == tie_ends_;
    const bool better = wins_ties ? *took <= least_ * as_quick : *took * as_quick < best_s_;
    least_ = std::min(least_, *took);
    if (!better) return;
    best_ = at;
    best_s_ = *took;
  }

  int64_t last_;
  std::function<activation_split(int64_t)> split_of_;
  bool tie_ends_;
  const clock& seconds_;
  std::set<int64_t> tried_;
  int64_t best_ = 0;
  double best_s_ = std::numeric_limits<double>::infinity();
  double least_ = std::numeric_limits<double>::infinity();  ///< seconds, of any
};

/// Layers that do not spill keep halves, then all.
std::optional<timed_split> best_kept(int64_t layers, bool has_halves, int64_t spill,
                                     const clock& seconds) {
  const auto free = layers - spill;
  const auto split_of = [=](int64_t at) -> activation_split {
    if (!has_halves) return {at, 0, spill};
    const auto keep = std::max<int64_t>(0, at - free);
    return {keep, std::min(at, free - keep), spill};
  };
  return line(has_halves ? 2 * free : free, split_of, true, seconds).best({free});
}

/// Layers before those that keep all spill.
std::optional<timed_split> best_spilled(int64_t layers, const activation_split& kept,
                                        const clock& seconds) {
  const auto split_of = [=](int64_t at) -> activation_split {
    return {kept.keep, std::min(kept.half, layers - kept.keep - at), at};
  };
  return line(layers - kept.keep, split_of, false, seconds).best({});
}

/// Of layers that keep all or spill some do the one, and some the other.
std::optional<timed_split> best_traded(const activation_split& kept, const clock& seconds) {
  const auto both = kept.keep + kept.spill;
  const auto split_of = [=](int64_t at) -> activation_split { return {both - at, kept.half, at}; };
  return line(both, split_of, false, seconds).best({});
}

/// Looks from a choice on, as long as another line from it has a better one.
void descend(timed_split from, int64_t layers, bool has_halves, const clock& seconds) {
  const auto improve = [&](const std::optional<timed_split>& other) {
    const bool better = other && other->seconds * as_quick < from.seconds;
    if (better) from = *other;
    return better;
  };
  for (int round = 0; round < rounds; ++round) {
    const bool spills = improve(best_spilled(layers, from.split, seconds));
    const bool trades = improve(best_traded(from.split, seconds));
    const bool keeps = improve(best_kept(layers, has_halves, from.split.spill, seconds));
    if (!spills && !trades && !keeps) break;
  }
}

/// By what spills and by what is spared of what is computed again, of GPT-2's layer 16 of 24 parts
/// of its products, and 14 with x + attention (step_traffic.cpp: again_flops): of choices that are
/// as quick the first one here is taken.
using place = std::tuple<int64_t, int64_t, int64_t>;
place place_of(const activation_split& s) {
  return {s.spill, -(16 * s.keep + 2 * s.half), -s.keep};
}

/// ACT-2, of choices that spill, or of those that do not.
class quickest {
 public:
  explicit quickest(bool spills) : spills_(spills) {}

  void add(const activation_split& split, double seconds) {
    if ((split.spill > 0) != spills_) return;
    least_ = std::min(least_, seconds);
    all_.emplace(place_of(split), timed_split{split, seconds});
  }
  std::optional<timed_split> get() const {
    for (const auto& [at, one] : all_)
      if (one.seconds <= least_ * as_quick) return one;
    return std::nullopt;
  }

 private:
  bool spills_;
  std::map<place, timed_split> all_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<activation_choice> choices_by_layer(const activation_split& split, int64_t layers) {
  using enum activation_choice;
  std::vector<activation_choice> out;
  const auto spilled = split.keep + split.spill, halved = spilled + split.half;
  for (int64_t left = layers; left > 0; --left)
    out.push_back(left <= split.keep ? keep
                  : left <= spilled  ? spill
                  : left <= halved   ? half
                                     : recompute);
  return out;
}

std::optional<activation_split> choose_activations(int64_t layers, bool has_halves,
                                                   const clock& seconds) {
  std::map<place, std::optional<double>> known;
  quickest kept(false), spilt(true);
  const clock once = [&](const activation_split& s) {
    const auto [it, fresh] = known.try_emplace(place_of(s));
    if (!fresh) return it->second;
    it->second = seconds(s);
    if (it->second) (s.spill > 0 ? spilt : kept).add(s, *it->second);
    return it->second;
  };
  const auto from = best_kept(layers, has_halves, 0, once);
  if (!from) return std::nullopt;
  descend(*from, layers, has_halves, once);
  // Where memory is also what gradients lie in, a few layers that keep all may be worth more than
  // many that keep halves.
  if (const auto whole = has_halves ? best_kept(layers, false, 0, once) : std::nullopt)
    descend(*whole, layers, has_halves, once);
  const activation_split all{0, 0, layers};
  if (const auto took = once(all)) descend({all, *took}, layers, has_halves, once);
  const auto without = kept.get(), with = spilt.get();
  return with && with->seconds * spill_worth < without->seconds ? with->split : without->split;
}

}  // namespace troupe::gpu

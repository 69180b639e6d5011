// Replicas that gather weights when they are fetched, and sum gradients behind backward or under
// it, also where updates come before their norm and are dropped on all: each has a drive and
// streams of a pace of its own, and a collective is over when all have come to it. Nobody waits
// for ever, and all meet for the same chunk.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gpu/swap/chunk_policy.hpp"
#include "gpu/swap/order_watch.hpp"
#include "tests/gpu/chance_machine.hpp"

namespace troupe::gpu {
namespace {

constexpr auto gather_lane = static_cast<size_t>(chunk_lane::gather);
/// What a collective is of, beside chunks whose weights are gathered.
struct collective_of {
  static constexpr int norm = 1000, sum_of = 2000, in_memory = 3000, norms_of = 4000;
};

/// The collectives of a group, by number.
class replica_meeting {
 public:
  explicit replica_meeting(int ranks) : ranks_(ranks) {}

  void begin(size_t number, int what) {
    if (number == met_.size()) met_.push_back({what, 0});
    same_ = same_ && number < met_.size() && met_[number].first == what;
    if (number < met_.size()) ++met_[number].second;
  }
  bool has_all(size_t number) const { return met_[number].second == ranks_; }
  /// All have met for the same things so far.
  bool same() const { return same_; }
  size_t count() const { return met_.size(); }

 private:
  int ranks_;
  bool same_ = true;
  std::vector<std::pair<int, int>> met_;  ///< of what, and how many have come
};

/// The lanes of one of them.
class meeting_machine final : public chance_machine {
 public:
  meeting_machine(std::mt19937& random, replica_meeting& all) : chance_machine(random), all_(all) {}

  size_t enqueue(watched_op op) override {
    const auto act = op.what.what;
    const int what = op.what.chunk + (act == chunk_act::sum_gradient   ? collective_of::sum_of
                                      : act == chunk_act::gather_norms ? collective_of::norms_of
                                                                       : 0);
    if (is_collective(op))
      op.begin = [this, what, begin = std::move(op.begin)] {
        all_.begin(begun_++, what);
        if (begin) begin();
      };
    return chance_machine::enqueue(std::move(op));
  }

  /// Behind an operation of the compute lane, which goes on behind it if it `waits`.
  void meet(int what, size_t behind, bool waits) {
    watched_op op;
    op.what.chunk = what;
    op.lane = gather_lane;
    op.behind = {behind};
    const auto number = enqueue(std::move(op));
    if (!waits) return;
    watched_op waiting;
    waiting.behind = {number};
    enqueue(std::move(waiting));
  }

 private:
  /// And not what only waits or marks in that lane.
  static bool is_collective(const watched_op& op) {
    return op.lane == gather_lane && op.what.chunk != chunk_op::no_chunk;
  }
  bool may_end(const watched_op& op) const override {
    return !is_collective(op) || all_.has_all(begun_ - 1);
  }

  replica_meeting& all_;
  size_t begun_ = 0;
};

/// A stage's replicas, whose steps are the same.
class trained_replicas {
 public:
  enum class way { hold, under_backward, twice, speculate };

  /// `odd`: chunks are in other places on the last one.
  explicit trained_replicas(unsigned seed, bool odd = false) : random_(seed) {
    const int count = 3 + pick(4), frames = 1 + pick(3), ranks = 2 + pick(2);
    way_ = static_cast<way>(pick(4));
    const int gradients = way_ == way::hold || pick(3) == 0 ? 0 : 1 + pick(3);
    most_micro_batches_ = gradients > 0 ? 1 : 3;  // they add up, and are in frames of their own
    for (int c = 0; c < count; ++c) {
      chunk_place p;
      p.on_disk = pick(5) > 0 || way_ == way::speculate;  // what is in memory cannot be dropped
      p.groups = p.on_disk ? 1 + pick(3) : 0;
      const bool end = c == 0 || c + 1 == count;
      p.weight_frame = !p.on_disk || end || pick(5) == 0 ? -1 : c % frames;
      p.grad_frame = !p.on_disk || end || gradients == 0 ? -1 : c % gradients;
      places_.push_back(p);
    }
    if (odd) places_[1] = {true, 0, -1, 1};
    measured_ = pick(3) == 0;
    meeting_.emplace(ranks);
    for (int r = 0; r < ranks; ++r) {
      auto places = places_;
      if (odd && r + 1 == ranks) places[1].weight_frame = -1;
      machines_.emplace_back(random_, *meeting_);
      watches_.emplace_back(std::move(places), 1 + pick(4), machines_.back(), measured_, true);
    }
  }

  /// What went wrong first; empty: nothing.
  std::string run() {
    const int steps = 1 + pick(3);
    for (int step = 1; step <= steps; ++step) {
      const int micro_batches = 1 + pick(most_micro_batches_);
      const bool evaluates = pick(3) == 0, holds = pick(2) == 0;
      for (size_t r = 0; r < watches_.size(); ++r) {
        train(r, step, micro_batches, holds);
        if (evaluates)
          for (int c = 0; c < chunks(); ++c) watches_[r].use_weights(c, step + 1);
        while (pick(20) > 0 && move()) {
        }
      }
    }
    while (move()) {
    }
    for (auto& m : machines_)
      if (m.stuck()) return "replicas wait for each other for ever";
    if (!meeting_->same()) return "replicas meet for different things";
    for (auto& w : watches_) {
      if (w.wrong().empty()) w.check_quiet(steps);
      if (!w.wrong().empty()) return w.wrong();
    }
    return {};
  }

  size_t met() const { return meeting_->count(); }
  way how() const { return way_; }
  bool measured() const { return measured_; }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  int chunks() const { return static_cast<int>(places_.size()); }

  bool move() {
    const auto first = static_cast<size_t>(pick(static_cast<int>(machines_.size())));
    for (size_t i = 0; i < machines_.size(); ++i)
      if (machines_[(first + i) % machines_.size()].move()) return true;
    return false;
  }

  enum class updates { none, count, may_count, dropped };

  /// As rank_engine has it. `holds`: updates that come before their norm count.
  void train(size_t rank, int step, int micro_batches, bool holds) {
    auto& machine = machines_[rank];
    if (way_ == way::hold) return train_holding(rank, step, micro_batches);
    if (way_ == way::speculate) {
      pass(rank, step, micro_batches, holds ? updates::may_count : updates::dropped);
      machine.meet(collective_of::norm, watches_[rank].compute(0), true);
      watches_[rank].settle(step, holds);
      if (!holds) pass(rank, step, micro_batches, updates::count);
      return;
    }
    if (way_ == way::twice) {
      pass(rank, step, micro_batches, updates::none);
      machine.meet(collective_of::norm, watches_[rank].compute(0), true);
    }
    pass(rank, step, micro_batches, updates::count);
    machine.meet(collective_of::norm, watches_[rank].compute(0), true);
    for (int c = 0; c < chunks(); ++c)
      if (measured_ && !watches_[rank].on_disk(c))
        machine.meet(collective_of::norms_of + c, watches_[rank].compute(0), true);
    for (int c = 0; c < chunks(); ++c)
      if (!watches_[rank].on_disk(c)) update_in_memory(rank, c, step);
  }

  /// Each gradient is summed, and its chunk updated or it dropped, as soon as it is made.
  void pass(size_t rank, int step, int micro_batches, updates how) {
    auto& watch = watches_[rank];
    const auto when = how == updates::count ? counts::at_once : counts::once_settled;
    for (int m = 0; m < micro_batches; ++m) {
      for (int c = 0; c < chunks(); ++c) watch.use_weights(c, step);
      for (int c = chunks(); c-- > 0;) {
        watch.use_weights(c, step);
        watch.make_gradient(c, step, m == 0, false);
        if (m + 1 < micro_batches) continue;
        if (c > 0) watch.bring_weights(c - 1);
        watch.sum_gradient(c, step);
        if (how == updates::none) {
          watch.drop_gradient(c);
        } else if (watch.on_disk(c)) {
          if (measured_) watch.share_norms(c, step, when);
          watch.update(c, step, when, how == updates::dropped);
        }
      }
    }
  }

  /// Gradients are held until their norm is known.
  void train_holding(size_t rank, int step, int micro_batches) {
    auto& watch = watches_[rank];
    auto& machine = machines_[rank];
    for (int m = 0; m < micro_batches; ++m) {
      for (int c = 0; c < chunks(); ++c) watch.use_weights(c, step);
      const bool last = m + 1 == micro_batches;
      for (int c = chunks(); c-- > 0;) {
        watch.use_weights(c, step);
        const auto made = watch.make_gradient(c, step, m == 0, last);
        if (!last) continue;
        if (c > 0) watch.bring_weights(c - 1);
        machine.meet(collective_of::sum_of + c, made, false);
      }
    }
    machine.meet(collective_of::norm, watch.compute(0), true);
    if (measured_) {
      for (int c = 0; c < chunks(); ++c) watch.measure(c, step);
      machine.meet(collective_of::norm, watch.compute(0), true);
    }
    for (int c = 0; c < chunks(); ++c)
      if (watch.on_disk(c))
        watch.update(c, step, counts::at_once);
      else
        update_in_memory(rank, c, step);
  }

  /// And its weights are gathered.
  void update_in_memory(size_t rank, int chunk, int step) {
    auto& watch = watches_[rank];
    watch.update(chunk, step, counts::at_once);
    machines_[rank].meet(collective_of::in_memory + chunk, watch.compute(0), true);
  }

  std::mt19937 random_;
  std::vector<chunk_place> places_;
  bool measured_ = false;
  way way_ = way::hold;
  int most_micro_batches_ = 1;
  std::optional<replica_meeting> meeting_;
  std::deque<meeting_machine> machines_;
  std::deque<order_watch> watches_;
};

}  // namespace

TEST_CASE("CHP-9 CHP-11: replicas: 30,000 random orders, each replica at a pace of its own") {
  std::array<size_t, 4> met{}, measured{};
  for (unsigned seed = 1; seed <= 30'000; ++seed) {
    trained_replicas all(seed);
    const auto wrong = all.run();
    REQUIRE_MESSAGE(wrong.empty(), "seed ", seed, ": ", wrong);
    met[static_cast<size_t>(all.how())] += all.met();
    if (all.measured()) measured[static_cast<size_t>(all.how())] += all.met();
  }
  for (const auto of_way : met) CHECK(of_way > 50'000);
  for (const auto of_way : measured) CHECK(of_way > 10'000);
}

TEST_CASE("CHP-9 SWP-9: replicas: what was dropped is read again, and gathered behind that") {
  using kind = chunk_point::kind;
  chunk_policy policy({{true, -1, -1, 1}, {true, 0, -1, 1}}, 2, true);
  for (const int chunk : {0, 1}) {
    policy.fetch_weights(chunk);
    policy.release_weights(chunk);
  }
  for (const int chunk : {1, 0}) {
    policy.sum_gradient(chunk);
    for (const auto& op : policy.share_norms(chunk, counts::once_settled))
      if (op.what == chunk_act::measure) CHECK(op.when == counts::once_settled);
    policy.update(chunk, counts::once_settled);
  }
  policy.settle();
  const auto back = policy.dropped();  // of the one whose weights are in memory
  REQUIRE(back.size() == 1);
  CHECK(back[0].what == chunk_act::read_weights);
  CHECK(back[0].behind[0] == chunk_point{kind::written, 0});
  CHECK(back[0].marks == chunk_point{kind::arrived, 0});
  const auto again = policy.fetch_weights(0);
  REQUIRE(again.size() == 1);
  CHECK(again[0].what == chunk_act::gather_weights);
  CHECK(again[0].behind[0] == chunk_point{kind::arrived, 0});
  const auto shared = policy.fetch_weights(1);
  REQUIRE(shared.size() > 2);  // and waits
  CHECK(shared[0].what == chunk_act::read_weights);
  CHECK(shared[0].behind[1] == chunk_point{kind::written, 1});
  CHECK(shared[1].what == chunk_act::gather_weights);
}

TEST_CASE("CHP-12: replicas: an update under backward waits for the norms that all measured") {
  using kind = chunk_point::kind;
  chunk_policy policy({{true, 0, 0, 2}, {true, 1, 1, 1}, {true, 0, 0, 1}}, 3, true);
  const auto drive_waits = [&](int chunk) {
    std::vector<int> out;
    for (const auto& op : policy.fetch_weights(chunk))
      if (op.on == chunk_lane::compute && op.behind[0]->what == kind::measured)
        out.push_back(op.behind[0]->index);
    return out;
  };
  policy.bring_weights(1);
  policy.sum_gradient(2);
  const auto sharing = policy.share_norms(2);
  REQUIRE(sharing.size() == 4);
  CHECK(sharing[1].what == chunk_act::measure);
  CHECK(sharing[1].behind[1] == chunk_point{kind::summed, 0});
  CHECK(sharing[2].marks == chunk_point{kind::measured, 2});
  CHECK(sharing[3].on == chunk_lane::gather);
  CHECK(sharing[3].what == chunk_act::gather_norms);
  CHECK(sharing[3].behind[0] == chunk_point{kind::measured, 2});
  for (const auto& op : sharing) CHECK(op.on != chunk_lane::compute);
  int updates = 0;
  for (const auto& op : policy.update(2, counts::at_once)) {
    CHECK(op.on != chunk_lane::compute);
    if (op.what != chunk_act::update) continue;
    CHECK(op.behind[1] == chunk_point{kind::norms_known, 2});
    ++updates;
  }
  CHECK(updates == 1);
  // Weights that were gathered before wait for no drive, those behind the norms do.
  CHECK(drive_waits(1).empty());
  CHECK(drive_waits(0) == std::vector{2});
  policy.sum_gradient(2);
  for (const auto& op : policy.update(2, counts::at_once))  // which shares none
    if (op.what == chunk_act::update) CHECK(op.behind[1] == chunk_point{kind::summed, 0});
}

TEST_CASE("CHP-12: replicas: each wait behind norms is told as the drive's or as others'") {
  using kind = chunk_point::kind;
  struct told {
    chunk_point point;
    int chunk;
    bool of_others;
    bool operator==(const told&) const = default;
  };
  const auto waits_of = [](const chunk_policy::ops& ops) {
    std::vector<told> out;
    for (const auto& op : ops)
      if (op.on == chunk_lane::compute)
        out.push_back({op.behind[0].value(), op.chunk, is_of_others(op.behind[0]->what)});
    return out;
  };
  const auto update = [](chunk_policy& policy, int chunk, bool shares) {
    policy.sum_gradient(chunk);
    if (shares) policy.share_norms(chunk);
    policy.update(chunk, counts::at_once);
  };
  // Weights have room in memory, gradients share frames: these alone are waited for.
  chunk_policy cached({{true, -1, 0, 1}, {true, -1, 1, 1}, {true, -1, 0, 2}}, 3, true);
  const std::vector<told> of_sum_alone{{{kind::summed, 0}, 2, true},
                                       {{kind::gradient_free, 0}, 2, false}};
  CHECK(waits_of(cached.fetch_gradient(2)) == of_sum_alone);
  update(cached, 2, true);
  CHECK(waits_of(cached.fetch_weights(1)).empty());
  CHECK(waits_of(cached.fetch_gradient(1)).size() == 2);
  update(cached, 1, true);
  CHECK(waits_of(cached.fetch_gradient(0)) ==
        std::vector<told>{{{kind::summed, 0}, 0, true},
                          {{kind::measured, 2}, 2, false},
                          {{kind::norms_known, 2}, 2, true},
                          {{kind::gradient_free, 0}, 0, false}});
  update(cached, 0, false);
  CHECK(waits_of(cached.fetch_gradient(2)) == of_sum_alone);
  // Weights that come behind a measuring come behind the sum that it is of, too.
  chunk_policy shared({{true, 0, 0, 1}, {true, 1, 1, 1}, {true, 0, 0, 1}}, 3, true);
  shared.fetch_weights(2);
  update(shared, 2, true);
  CHECK(waits_of(shared.fetch_weights(0)) ==
        std::vector<told>{{{kind::slice_read, 0}, 0, false},
                          {{kind::summed, 0}, 2, true},
                          {{kind::measured, 2}, 2, false},
                          {{kind::weights_ready, 0}, 0, true}});
}

TEST_CASE("CHP-11: replicas: an update waits for the sum of its gradient, and compute does not") {
  using kind = chunk_point::kind;
  chunk_policy policy({{true, 0, 0, 2}, {true, 1, 1, 1}, {true, 0, 0, 1}}, 3, true);
  const auto summing = policy.sum_gradient(0);
  REQUIRE(summing.size() == 2);
  CHECK(summing[1].on == chunk_lane::gather);
  CHECK(summing[1].behind[0] == chunk_point{kind::computed});
  CHECK(summing[1].marks == chunk_point{kind::summed, 0});
  int updates = 0;
  for (const auto& op : policy.update(0, counts::at_once)) {
    CHECK(op.on != chunk_lane::compute);
    if (op.what != chunk_act::update) continue;
    CHECK((op.behind[1] == chunk_point{kind::summed, 0}) == (updates++ == 0));
  }
  CHECK(updates == 2);
  // The next one in that frame waits for others first, and then for this rank's update.
  const auto waits = policy.fetch_gradient(2);
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].behind[0] == chunk_point{kind::summed, 0});
  CHECK(waits[1].behind[0] == chunk_point{kind::gradient_free, 0});
  // Behind backward, when compute has waited for all sums, it is as in a job of one rank.
  const auto behind_backward = policy.update(0, counts::at_once);
  CHECK(behind_backward.front().marks == chunk_point{kind::computed});
  policy.sum_gradient(1);
  CHECK(policy.drop_gradient(1).front().on == chunk_lane::gather);
  CHECK(policy.drop_gradient(1).front().on == chunk_lane::compute);
}

TEST_CASE("CHP-9: replicas whose chunks are in other places are seen to wait for each other") {
  int wrong = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) wrong += trained_replicas(seed, true).run() != "";
  CHECK(wrong > 0);
}

TEST_CASE("CHP-9: replicas: weights that were brought or gathered are not gathered again") {
  chunk_policy policy({{true, -1, -1, 1}, {true, 0, -1, 1}, {true, 0, -1, 1}}, 1, true);
  const auto gathered = [](const chunk_policy::ops& ops) {
    return std::count_if(ops.begin(), ops.end(),
                         [](const auto& op) { return op.what == chunk_act::gather_weights; });
  };
  for (const int chunk : {0, 1, 2}) {
    CAPTURE(chunk);
    CHECK(gathered(policy.bring_weights(chunk)) == 1);
    CHECK(gathered(policy.bring_weights(chunk)) == 0);
    CHECK(gathered(policy.fetch_weights(chunk)) == 0);
    policy.release_weights(chunk);
  }
  for (const int chunk : {0, 2}) {
    CAPTURE(chunk);
    policy.update(chunk, counts::at_once);
    CHECK(gathered(policy.fetch_weights(chunk)) == 1);
    CHECK(gathered(policy.fetch_weights(chunk)) == 0);
  }
  policy.all_set_anew();
  CHECK(gathered(policy.fetch_weights(0)) == 1);
  CHECK(gathered(policy.fetch_weights(2)) == 1);
}

TEST_CASE("CHP-9: replicas: compute waits for the own slice, and then for those of others") {
  using kind = chunk_point::kind;
  chunk_policy policy({{true, 0, -1, 1}, {true, 1, -1, 1}}, 1, true);
  for (const int chunk : {0, 1, 1}) {
    CAPTURE(chunk);
    std::vector<std::pair<int, chunk_point>> waits;
    for (const auto& op : policy.fetch_weights(chunk))
      if (op.on == chunk_lane::compute) waits.emplace_back(op.chunk, op.behind[0].value());
    CHECK(waits == std::vector<std::pair<int, chunk_point>>{{chunk, {kind::slice_read, chunk}},
                                                            {chunk, {kind::weights_ready, chunk}}});
  }
}

}  // namespace troupe::gpu

// The order of chunks under every pace: what the policy answers is carried out by a machine whose
// lanes go on as chance has it; what the order lets happen too early order_watch sees.
#include "gpu/swap/chunk_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/swap/order_watch.hpp"
#include "tests/gpu/chance_machine.hpp"

namespace troupe::gpu {
namespace {

/// How one order is drawn.
struct order_shape {
  explicit order_shape(unsigned seed) : random(seed) {
    const int count = 2 + pick(3);
    const int frames = 1 + pick(count);
    const int gradients = 1 + pick(count);
    for (int c = 0; c < count; ++c) {
      chunk_place p;
      p.on_disk = true;
      p.groups = 1 + pick(3);
      p.weight_frame = pick(3) == 0 ? -1 : c % frames;
      p.grad_frame = pick(3) == 0 ? -1 : c % gradients;
      places.push_back(p);
    }
    slots = 1 + pick(4);
    steps = 1 + pick(3);
    speculates = pick(2) == 0;
    measured = pick(3) == 0;
    gathers = pick(3) == 0;
    drives = 1 + pick(2);
  }
  bool links(int chunk) const { return chunk % drives == 0; }
  /// Whether rows of a chunk may be updated first (CHP-10): of the one that backward comes to last.
  bool has_rows(int chunk) const {
    const auto& p = places[static_cast<size_t>(chunk)];
    return chunk == 0 && p.weight_frame < 0 && p.grad_frame < 0 && !measured && !gathers;
  }
  int pick(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

  std::mt19937 random;
  std::vector<chunk_place> places;
  int slots = 1, steps = 1;
  bool speculates = false;
  bool measured = false;  ///< CHP-8
  bool gathers = false;   ///< CHP-9
  int drives = 1;         ///< of which the first has links; chunks go to them in turn
};

/// A stage that trains by a policy's orders, on a chance_machine.
class trained_by_order {
 public:
  explicit trained_by_order(unsigned seed)
      : shape_(seed),
        machine_(shape_.random),
        watch_(shape_.places, shape_.slots, machine_, shape_.measured, shape_.gathers) {}

  /// What went wrong first; empty: nothing.
  std::string run() {
    for (int step = 1; step <= shape_.steps && watch_.wrong().empty(); ++step) {
      const bool settles = shape_.speculates && shape_.pick(2) == 0;
      const bool holds = shape_.pick(2) == 0;
      if (!settles && shape_.pick(4) == 0) pass(step, pass_kind::norm_alone);
      pass(step, settles ? pass_kind::speculates : pass_kind::updates, settles && !holds);
      if (settles) watch_.settle(step, holds);
      if (settles && !holds) pass(step, pass_kind::updates);
      if (shape_.pick(3) == 0) {
        finish_update();
        watch_.capture(shape_.pick(chunks()), step);
      }
      if (shape_.pick(3) == 0) forward(step + 1);  // an evaluation
      while (shape_.pick(3) == 0) save(step);
      while (shape_.pick(3) == 0 && machine_.move()) {
      }
    }
    finish_update();
    while (watch_.wrong().empty() && machine_.move()) {
    }
    watch_.check(!machine_.stuck(), "every lane waits");
    if (watch_.wrong().empty()) watch_.check_quiet(shape_.steps);
    return watch_.wrong();
  }

 private:
  enum class pass_kind { updates, speculates, norm_alone };

  int chunks() const { return watch_.policy().chunks(); }

  /// The update that waits for the rows of the next pass is made without.
  void finish_update() {
    if (const auto step = std::exchange(late_, 0); step > 0)
      watch_.update(0, step, counts::at_once);
  }

  void forward(int step) {
    if (late_ > 0 && shape_.pick(3) > 0) {
      watch_.update(0, std::exchange(late_, 0), counts::at_once, false, true);
      watch_.use_rows(0, step);
      for (int c = 1; c < chunks(); ++c) watch_.use_weights(c, step);
      watch_.use_weights(0, step);
      return;
    }
    finish_update();
    for (int c = 0; c < chunks(); ++c) watch_.use_weights(c, step);
  }

  /// The chunks of a drive with links are taken, those of others copied.
  void save(int step) {
    finish_update();
    watch_.keep(
        step, [has_room = shape_.pick(4) > 0] { return has_room; },
        [this](int chunk) { return shape_.links(chunk); });
    for (int c = 0; c < chunks(); ++c)
      if (!shape_.links(c)) watch_.capture(c, step);
  }

  void pass(int step, pass_kind how, bool dropped = false) {
    forward(step);
    for (int c = chunks(); c-- > 0;) {
      watch_.use_weights(c, step);
      watch_.make_gradient(c, step);
      if (how != pass_kind::norm_alone && shape_.measured && shape_.pick(2) == 0)
        watch_.measure(c, step);  // as replicas do
      if (how == pass_kind::norm_alone)
        watch_.drop_gradient(c);
      else if (how == pass_kind::updates && shape_.has_rows(c) && shape_.pick(2) == 0)
        begin_late(step);
      else
        watch_.update(c, step, how == pass_kind::updates ? counts::at_once : counts::once_settled,
                      dropped);
      if (c > 0 && shape_.pick(2) == 0) watch_.bring_weights(c - 1);
    }
  }

  void begin_late(int step) {
    watch_.begin_update(0);
    late_ = step;
  }

  order_shape shape_;
  chance_machine machine_;
  order_watch watch_;
  int late_ = 0;  ///< the step whose update of the first chunk waits for rows; 0: none does
};

}  // namespace

TEST_CASE("CHP-1 to CHP-8: chunks: 100,000 random orders on lanes of any pace") {
  for (unsigned seed = 1; seed <= 100'000; ++seed) {
    const auto wrong = trained_by_order(seed).run();
    REQUIRE_MESSAGE(wrong.empty(), "seed ", seed, ": ", wrong);
  }
}

TEST_CASE("CHP-10: chunks: rows that are wanted first take the slot that is left for them") {
  for (int slots = 1; slots <= 5; ++slots) {
    chunk_policy policy({{true, -1, -1, 3}}, slots);
    const auto begun = policy.begin_update(0);
    const auto ahead = static_cast<size_t>(std::min(slots - 1, 3));
    REQUIRE(begun.size() == ahead);
    for (size_t i = 0; i < ahead; ++i) CHECK(begun[i].slot == static_cast<int>(i));
    std::vector<chunk_act> on_update;
    int reads = 0;
    for (const auto& op : policy.update(0, counts::at_once, false, true)) {
      if (op.on == chunk_lane::update && op.what != chunk_act::none) on_update.push_back(op.what);
      if (op.what == chunk_act::read_rows) {
        CHECK(op.slot == static_cast<int>(ahead));
        CHECK(op.on == chunk_lane::rows_in);  // not behind groups that are on their way
      }
      reads += op.what == chunk_act::read_state ? 1 : 0;
    }
    CHECK(reads == 3 - static_cast<int>(ahead));
    using enum chunk_act;
    CHECK(on_update == std::vector{update_rows, update, update, update});
  }
}

namespace {

/// Operations as they were asked for, and what each of them comes behind in the end: what was
/// before it in its lane, the points it waits for, and what these come behind.
class asked_order {
 public:
  void add(const chunk_policy::ops& ops) {
    for (const auto& op : ops) {
      std::set<size_t> behind;
      const auto come_behind = [&](size_t before) {
        behind.insert(before);
        behind.insert(behind_[before].begin(), behind_[before].end());
      };
      if (const auto last = last_.find(op.on); last != last_.end()) come_behind(last->second);
      for (const auto& point : op.behind)
        if (point)
          if (const auto by = marked_.find(key(*point)); by != marked_.end())
            come_behind(by->second);
      last_[op.on] = all_.size();
      if (op.marks) marked_[key(*op.marks)] = all_.size();
      all_.push_back(op);
      behind_.push_back(std::move(behind));
    }
  }
  /// From the one of that number on.
  std::vector<size_t> numbers(chunk_act what, size_t from) const {
    std::vector<size_t> out;
    for (size_t i = from; i < all_.size(); ++i)
      if (all_[i].what == what) out.push_back(i);
    return out;
  }
  size_t count() const { return all_.size(); }
  bool is_behind(size_t number, size_t before) const { return behind_[number].contains(before); }
  /// Any from that number on.
  bool is_behind_any(size_t number, size_t from) const {
    return behind_[number].lower_bound(from) != behind_[number].end();
  }

 private:
  static std::pair<int, int> key(const chunk_point& p) {
    return {static_cast<int>(p.what), p.index};
  }

  std::vector<chunk_op> all_;
  std::vector<std::set<size_t>> behind_;
  std::map<chunk_lane, size_t> last_;
  std::map<std::pair<int, int>, size_t> marked_;
};

}  // namespace

TEST_CASE("CHP-10: chunks: rows wait for nothing of their update, whosever turn the slots are at") {
  constexpr int groups_of_table = 6;
  for (int slots = 1; slots <= 8; ++slots)
    for (int groups_of_layer = 0; groups_of_layer <= slots; ++groups_of_layer) {
      CAPTURE(slots);
      CAPTURE(groups_of_layer);
      chunk_policy policy({{true, -1, -1, groups_of_table}, {true, 0, 0, groups_of_layer}}, slots);
      asked_order all;
      all.add(policy.update(1, counts::at_once));  // its slots are taken before
      const auto began = all.count();
      all.add(policy.begin_update(0));
      all.add(policy.update(0, counts::at_once, false, true));
      all.add(policy.fetch_rows(0));
      const auto pass = all.count() - 1;
      const auto rows = all.numbers(chunk_act::read_rows, 0);
      const auto updated = all.numbers(chunk_act::update_rows, 0);
      REQUIRE(rows.size() == 1);
      REQUIRE(updated.size() == 1);
      CHECK_FALSE(all.is_behind_any(rows.front(), began));
      const auto reads = all.numbers(chunk_act::read_state, began);
      REQUIRE(reads.size() == groups_of_table);
      for (size_t i = 0; i < reads.size(); ++i) {
        CAPTURE(i);
        CHECK_FALSE(all.is_behind(updated.front(), reads[i]));
        CHECK_FALSE(all.is_behind(pass, reads[i]));
        const bool begun = static_cast<int>(i) < slots - 1;  // nor do those wait for rows
        if (begun) CHECK_FALSE(all.is_behind(reads[i], rows.front()));
      }
      // Rows take the slot that is free last: groups, of which there are many, begin before.
      for (const auto write : all.numbers(chunk_act::write_state, 0))
        if (slots > 1 && write < began && all.is_behind(reads.front(), write))
          CHECK(all.is_behind(rows.front(), write));
    }
}

TEST_CASE("CHP-4: chunks: every slot takes its turn, whatever is updated, kept or dropped") {
  for (int slots = 1; slots <= 5; ++slots) {
    chunk_policy policy({{true, -1, -1, 3}, {true, -1, -1, 2}}, slots);
    int turn = 0;
    for (int step = 0; step < 4; ++step) {
      for (const int chunk : {1, 0})
        for (const auto& op : policy.update(chunk, counts::once_settled))
          if (op.what == chunk_act::read_state) CHECK(op.slot == turn++ % slots);
      policy.settle();
      policy.dropped();
      policy.keep();
    }
  }
}

TEST_CASE("CHP-1: chunks: weights that are in their frame are not read again, others are") {
  chunk_policy policy({{true, 0, -1, 1}, {true, 1, -1, 1}, {true, 0, -1, 1}}, 2);
  const auto reads = [&](int chunk) {
    const auto ops = policy.fetch_weights(chunk);
    return std::count_if(ops.begin(), ops.end(),
                         [](const auto& op) { return op.what == chunk_act::read_weights; });
  };
  CHECK(reads(0) == 1);
  CHECK(reads(1) == 1);
  CHECK(reads(0) == 0);
  CHECK(reads(2) == 1);  // in the frame of 0
  CHECK(reads(0) == 1);
  CHECK(reads(1) == 0);
  policy.update(1, counts::at_once);
  CHECK(reads(1) == 1);
  policy.masters_set(1);
  CHECK(reads(1) == 1);
}

TEST_CASE("CHP-6: chunks: behind updates that were dropped moments are as they were before") {
  chunk_policy policy({{true, 0, 0, 1}}, 1);
  const auto zero = [&](counts when) {
    const auto ops = policy.update(0, when);
    const auto read = std::find_if(ops.begin(), ops.end(),
                                   [](const auto& op) { return op.what == chunk_act::read_state; });
    REQUIRE(read != ops.end());
    return read->moments_are_zero;
  };
  CHECK(zero(counts::once_settled));
  policy.settle();
  policy.dropped();
  CHECK(zero(counts::at_once));
  CHECK_FALSE(zero(counts::once_settled));
  policy.settle();
  policy.dropped();
  CHECK_FALSE(zero(counts::at_once));
  CHECK_FALSE(policy.moments_set(0));
}

}  // namespace troupe::gpu

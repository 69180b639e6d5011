// The order of chunks under every pace: what the policy answers is carried out by a machine whose
// lanes go on as chance has it; what the order lets happen too early order_watch sees.
#include "gpu/swap/chunk_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
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

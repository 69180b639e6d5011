// The order of spilled activations under every pace: what the policy answers is carried out by a
// machine whose lanes go on as chance has it; spill_watch sees what happens too early.
#include "gpu/swap/spill_watch.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/gpu/chance_machine.hpp"

namespace troupe::gpu {
namespace {

/// How one training is drawn: some slots, each with as many layers that spill.
struct spill_shape {
  explicit spill_shape(unsigned seed) : random(seed) {
    slots = 1 + pick(3);
    layers = 1 + pick(4);
    const int turns = 1 + pick(3);
    for (int r = 0; r < slots * layers; ++r) frames.push_back(r % turns);
    passes = 1 + pick(4);
  }
  int pick(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

  std::mt19937 random;
  int slots = 1, layers = 1, passes = 1;
  std::vector<int> frames;
};

class spilled_by_order {
 public:
  explicit spilled_by_order(unsigned seed)
      : shape_(seed), machine_(shape_.random), watch_(shape_.frames, machine_) {}

  /// What went wrong first; empty: nothing.
  std::string run() {
    const auto& wrong = watch_.wrong();
    for (int pass = 0; pass < shape_.passes && wrong.empty(); ++pass) {
      for (int slot = 0; slot < shape_.slots; ++slot) {
        if (shape_.pick(4) == 0) forward(slot, false);
        forward(slot, true);
        if (shape_.pick(4) == 0) forward(slot, true);  // the passes are made twice
        if (shape_.pick(2) == 0) backward(slot), forward(slot, true);
        while (shape_.pick(3) == 0 && machine_.move()) {
        }
      }
      for (int slot = 0; slot < shape_.slots; ++slot) backward(slot);
    }
    while (wrong.empty() && machine_.move()) {
    }
    if (wrong.empty() && machine_.stuck()) return "every lane waits";
    watch_.check_step_over();
    return wrong;
  }

 private:
  void forward(int slot, bool keeps) {
    for (int layer = 0; layer < shape_.layers; ++layer)
      watch_.forward(slot * shape_.layers + layer, keeps);
  }

  void backward(int slot) {
    for (int layer = shape_.layers; layer-- > 0;) {
      const int record = slot * shape_.layers + layer;
      if (watch_.awaits_backward(record)) watch_.backward(record);
    }
  }

  spill_shape shape_;
  chance_machine machine_;
  spill_watch watch_;
};

}  // namespace

TEST_CASE("SPO-1 to SPO-3: spill: 100,000 random orders on lanes of any pace") {
  for (unsigned seed = 1; seed <= 100'000; ++seed) {
    const auto wrong = spilled_by_order(seed).run();
    REQUIRE_MESSAGE(wrong.empty(), "seed ", seed, ": ", wrong);
  }
}

TEST_CASE("SPO-3: spill: what is in its frame still is not read") {
  spill_policy policy({0, 1, 0, 1});
  const auto reads = [&](int record) {
    const auto ops = policy.fetch(record);
    policy.release(record);
    return ops.front().what == spill_act::read;
  };
  for (int record = 0; record < 4; ++record) {
    policy.take_frame(record);
    policy.spill(record);
  }
  CHECK_FALSE(reads(3));
  CHECK_FALSE(reads(2));
  CHECK(reads(1));
  CHECK(reads(0));
  CHECK(reads(0));  // it was eaten
}

}  // namespace troupe::gpu

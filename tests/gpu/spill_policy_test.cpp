// The order of spilled activations under every pace: what the policy answers is carried out by a
// machine whose lanes go on as chance has it, with frames and a file that know what is in them.
#include "gpu/swap/spill_policy.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <random>
#include <string>
#include <utility>
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
      : shape_(seed),
        machine_(shape_.random),
        policy_(shape_.frames),
        frames_(static_cast<size_t>(policy_.frames())),
        file_(shape_.frames.size(), none),
        made_(shape_.frames.size(), none) {}

  /// What went wrong first; empty: nothing.
  std::string run() {
    for (int pass = 0; pass < shape_.passes && wrong_.empty(); ++pass) {
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
    while (wrong_.empty() && machine_.move()) {
    }
    check(!machine_.stuck(), "every lane waits");
    return wrong_;
  }

 private:
  static constexpr int none = -1, torn = -2;
  struct frame_model {
    int record = none, number = none;  ///< of the pass that made what is in it
    int writes = 0;                    ///< of the drive, out of it
    bool computes = false, fills = false;
    bool eaten = false;  ///< by backward, which nobody reads it behind
    bool idle() const { return writes == 0 && !computes && !fills; }
  };

  void check(bool good, const char* what) {
    if (!good && wrong_.empty()) wrong_ = what;
  }
  frame_model& frame_of(int record) {
    return frames_[static_cast<size_t>(policy_.frame_of(record))];
  }
  int& in_file(int record) { return file_[static_cast<size_t>(record)]; }

  void enqueue(const spill_op& op, watched_op out) {
    out.lane = static_cast<size_t>(op.on);
    for (const auto& b : op.behind)
      if (b)
        if (const auto it = points_.find({static_cast<int>(b->what), b->frame});
            it != points_.end())
          out.behind.push_back(it->second);
    const auto number = machine_.enqueue(std::move(out));
    if (op.marks) points_[{static_cast<int>(op.marks->what), op.marks->frame}] = number;
  }

  void carry_out(const spill_policy::ops& ops) {
    for (const auto& op : ops) {
      watched_op out;
      if (op.what == spill_act::write) write(out, op.record);
      if (op.what == spill_act::read) read(out, op.record);
      enqueue(op, std::move(out));
    }
  }

  void write(watched_op& out, int record) {
    const int made = made_[static_cast<size_t>(record)];
    out.begin = [this, record, made] {
      auto& f = frame_of(record);
      check(f.record == record && f.number == made && !f.fills,
            "what is written is not what the pass has made");
      ++f.writes;
      in_file(record) = torn;
    };
    out.end = [this, record] {
      auto& f = frame_of(record);
      --f.writes;
      check(f.record == record, "a frame takes others while they are written");
      check(!f.eaten, "backward eats what is written still");
      in_file(record) = f.number;
    };
  }

  void read(watched_op& out, int record) {
    const int made = made_[static_cast<size_t>(record)];
    out.begin = [this, record, made] {
      auto& f = frame_of(record);
      check(f.idle(), "a frame is filled while others in it are used");
      check(in_file(record) == made, "a record is read that is not of the latest pass");
      f.fills = true;
    };
    out.end = [this, record] { frame_of(record) = {record, in_file(record)}; };
  }

  void compute(watched_op out) { enqueue({}, std::move(out)); }

  void forward(int slot, bool keeps) {
    for (int layer = 0; layer < shape_.layers; ++layer) {
      const int record = slot * shape_.layers + layer, number = ++passes_;
      carry_out(policy_.take_frame(record));
      watched_op pass;
      pass.begin = [this, record] {
        auto& f = frame_of(record);
        check(f.idle(), "a pass takes a frame while what is in it is used");
        f.record = torn;
        f.computes = true;
      };
      pass.end = [this, record, number] { frame_of(record) = {record, number}; };
      compute(std::move(pass));
      if (keeps) made_[static_cast<size_t>(record)] = number;
      carry_out(keeps ? policy_.spill(record) : policy_.release(record));
    }
  }

  void backward(int slot) {
    for (int layer = shape_.layers; layer-- > 0;) {
      const int record = slot * shape_.layers + layer;
      const int made = std::exchange(made_[static_cast<size_t>(record)], none);
      if (made == none) continue;
      carry_out_read_of(record, made);
      watched_op pass;
      pass.begin = [this, record, made] {
        auto& f = frame_of(record);
        check(f.record == record && f.number == made && !f.fills && !f.eaten,
              "backward uses what is not the latest pass's");
        f.eaten = true;
        f.computes = true;
      };
      pass.end = [this, record] { frame_of(record).computes = false; };
      compute(std::move(pass));
      carry_out(policy_.release(record));
    }
  }

  void carry_out_read_of(int record, int made) {
    made_[static_cast<size_t>(record)] = made;
    carry_out(policy_.fetch(record));
    made_[static_cast<size_t>(record)] = none;
  }

  spill_shape shape_;
  chance_machine machine_;
  spill_policy policy_;
  std::vector<frame_model> frames_;
  std::vector<int> file_;  ///< by record: the pass that made what is there
  std::vector<int> made_;  ///< by record: the latest pass that backward has not eaten
  std::map<std::pair<int, int>, size_t> points_;
  int passes_ = 0;
  std::string wrong_;
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

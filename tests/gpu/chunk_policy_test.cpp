// The order of chunks under every pace: what the policy answers is carried out by a machine whose
// lanes go on as chance has it, with files, slots and frames that know what is in them and who uses
// them. What the order lets happen too early is seen there, whatever it would do to bytes.
#include "gpu/swap/chunk_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace troupe::gpu {
namespace {

using kind = chunk_point::kind;

/// What is done, in the order of its lane. Its effects stand at its begin and at its end.
struct queued_op {
  std::vector<size_t> behind;  ///< numbers of operations
  std::function<void()> begin, end;
  bool begun = false;
};

/// Lanes that each do one operation after the other, at a pace of their own; one is slow.
class chance_machine {
 public:
  static constexpr size_t lanes = 6, snapshot = 5;

  explicit chance_machine(std::mt19937& random) : random_(random), slow_(random() % lanes) {}

  size_t enqueue(size_t lane, queued_op op) {
    ops_.push_back(std::move(op));
    done_.push_back(false);
    queues_[lane].push_back(ops_.size() - 1);
    return ops_.size() - 1;
  }

  /// Something is left, and nothing may.
  bool stuck() const { return stuck_; }

  /// One begin or end of an operation that may; false: none may.
  bool move() {
    std::array<size_t, lanes> able{};
    size_t count = 0;
    bool left = false;
    for (size_t lane = 0; lane < lanes; ++lane) {
      if (queues_[lane].empty()) continue;
      left = true;
      if (may(ops_[queues_[lane].front()])) able[count++] = lane;
    }
    stuck_ = left && count == 0;
    if (count == 0) return false;
    auto drawn = random_() % count;
    if (able[drawn] == slow_ && random_() % 512 > 0) drawn = (drawn + 1) % count;
    step(able[drawn]);
    return true;
  }

 private:
  bool may(const queued_op& op) const {
    return op.begun || std::all_of(op.behind.begin(), op.behind.end(),
                                   [&](size_t before) { return done_[before]; });
  }
  void step(size_t lane) {
    const auto number = queues_[lane].front();
    auto& op = ops_[number];
    if (!std::exchange(op.begun, true)) {
      if (op.begin) op.begin();
      return;
    }
    if (op.end) op.end();
    done_[number] = true;
    queues_[lane].pop_front();
  }

  std::mt19937& random_;
  const size_t slow_;
  bool stuck_ = false;
  std::deque<queued_op> ops_;
  std::vector<bool> done_;
  std::array<std::deque<size_t>, lanes> queues_;
};

/// One file's groups: the update that each is of, and who is at it.
struct model_file {
  static constexpr int torn = -1000;
  std::vector<int> groups;
  std::vector<bool> has_moments;  ///< by group: else they read as zeros
  std::vector<int> readers;       ///< by group
  bool of_checkpoint = false;
};

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
  }
  int pick(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

  std::mt19937 random;
  std::vector<chunk_place> places;
  int slots = 1, steps = 1;
  bool speculates = false;
  bool measured = false;  ///< CHP-8
};

/// A stage that trains by a policy's orders, on a chance_machine.
class trained_by_order {
 public:
  explicit trained_by_order(unsigned seed)
      : shape_(seed), machine_(shape_.random), policy_(shape_.places, shape_.slots) {
    for (const auto& p : shape_.places) {
      chunk_model c;
      const auto count = static_cast<size_t>(p.groups);
      const model_file first{std::vector<int>(count, 0), std::vector<bool>(count),
                             std::vector<int>(count)};
      c.own = c.next = c.spare = first;
      c.in_memory = first.groups;
      c.gradient_of = -1;
      chunks_.push_back(c);
    }
    slots_.resize(static_cast<size_t>(shape_.slots));
    frames_.resize(static_cast<size_t>(policy_.frames(kind::weights_ready)));
    gradients_.resize(static_cast<size_t>(policy_.frames(kind::gradient_free)), none);
  }

  /// What went wrong first; empty: nothing.
  std::string run() {
    for (int step = 1; step <= shape_.steps && wrong_.empty(); ++step) {
      const bool settles = shape_.speculates && shape_.pick(2) == 0;
      const bool holds = shape_.pick(2) == 0;
      if (!settles && shape_.pick(4) == 0) pass(step, pass_kind::norm_alone);
      pass(step, settles ? pass_kind::speculates : pass_kind::updates, settles && !holds);
      if (settles) settle(step, holds);
      if (settles && !holds) pass(step, pass_kind::updates);
      if (shape_.pick(3) == 0) capture(step);
      if (shape_.pick(3) == 0)  // an evaluation
        for (int c = 0; c < policy_.chunks(); ++c) use_weights(c, step + 1);
      while (shape_.pick(3) == 0) keep(step);
      while (shape_.pick(3) == 0 && machine_.move()) {
      }
    }
    while (wrong_.empty() && machine_.move()) {
    }
    check(!machine_.stuck(), "every lane waits");
    if (wrong_.empty()) check_end();
    return wrong_;
  }

 private:
  static constexpr int none = -1, used = 1'000'000;
  enum class pass_kind { updates, speculates, norm_alone };

  struct chunk_model {
    model_file own, next, spare;
    chunk_versions versions;
    bool has_spare = false;
    std::vector<int> in_memory;  ///< weights of their own
    int gradient_of = none;
    int groups_measured = 0;      ///< of the update that comes
    std::vector<size_t> readers;  ///< operations of checkpoints that copy
  };
  struct slot_model {
    enum class holds { nothing, reading, state, updating, updated, writing } what = holds::nothing;
    int chunk = none, group = 0, content = 0;
  };
  struct frame_model {
    int chunk = none, users = 0;
    std::vector<int> content;
    bool filling = false;
  };

  void fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }
  void check(bool good, const char* what) {
    if (!good) fail(what);
  }
  chunk_model& at(int chunk) { return chunks_[static_cast<size_t>(chunk)]; }
  void read_all(int chunk, int more) {
    if (more > 0) check(!keeping_, "a file is read while a checkpoint takes it");
    for (auto& readers : at(chunk).own.readers) readers += more;
  }
  static bool is_read_by_nobody(const model_file& f) {
    return std::all_of(f.readers.begin(), f.readers.end(), [](int n) { return n == 0; });
  }
  int groups(int chunk) const { return shape_.places[static_cast<size_t>(chunk)].groups; }
  bool shares(int chunk) const {
    return shape_.places[static_cast<size_t>(chunk)].weight_frame >= 0;
  }

  // -- from the policy to the machine ------------------------------------------------------------

  size_t enqueue(const chunk_op& op, queued_op q) {
    for (const auto& b : op.behind)
      if (b)
        if (const auto it = points_.find({static_cast<int>(b->what), b->index});
            it != points_.end())
          q.behind.push_back(it->second);
    for (int c = 0; c < policy_.chunks(); ++c)
      if (op.behind_readers == c || op.behind_readers == chunk_op::every_chunk)
        for (const auto r : at(c).readers) q.behind.push_back(r);
    const auto number = machine_.enqueue(static_cast<size_t>(op.on), std::move(q));
    if (!op.marks) return number;
    const int what = static_cast<int>(op.marks->what);
    if (op.marks->index != chunk_point::all) {
      points_[{what, op.marks->index}] = number;
      return number;
    }
    for (int c = 0; c < policy_.chunks(); ++c) points_[{what, c}] = number;
    return number;
  }

  void carry_out(const chunk_policy::ops& ops, int step, bool dropped = false) {
    for (const auto& op : ops) enqueue(op, work_of(op, step, dropped));
  }

  queued_op work_of(const chunk_op& op, int step, bool dropped) {
    switch (op.what) {
      case chunk_act::read_weights:
        return reading_weights(op.chunk);
      case chunk_act::read_state:
        return reading_state(op);
      case chunk_act::measure:
        return measuring(op, step);
      case chunk_act::update:
        return updating(op, step, dropped);
      case chunk_act::write_state:
        return writing_state(op);
      default:
        return {};
    }
  }

  queued_op reading_weights(int chunk) {
    queued_op q;
    q.begin = [this, chunk] {
      read_all(chunk, 1);
      if (!shares(chunk)) return;
      auto& f = frames_[static_cast<size_t>(policy_.weight_frame(chunk))];
      check(f.users == 0 && !f.filling, "a frame takes weights while others in it are used");
      f.filling = true;
    };
    q.end = [this, chunk] {
      auto& c = at(chunk);
      read_all(chunk, -1);
      if (!shares(chunk)) {
        c.in_memory = c.own.groups;
        return;
      }
      auto& f = frames_[static_cast<size_t>(policy_.weight_frame(chunk))];
      f = {chunk, 0, c.own.groups, false};
    };
    return q;
  }

  queued_op reading_state(const chunk_op& op) {
    queued_op q;
    q.begin = [this, op] {
      auto& s = slots_[static_cast<size_t>(op.slot)];
      check(s.what == slot_model::holds::nothing,
            "a slot takes a group before the last is written");
      s = {slot_model::holds::reading, op.chunk, op.group, 0};
      check(!keeping_, "a file is read while a checkpoint takes it");
      ++at(op.chunk).own.readers[static_cast<size_t>(op.group)];
      check(op.moments_are_zero != at(op.chunk).own.has_moments[static_cast<size_t>(op.group)],
            "moments are not as they were");
    };
    q.end = [this, op] {
      auto& s = slots_[static_cast<size_t>(op.slot)];
      auto& c = at(op.chunk);
      --c.own.readers[static_cast<size_t>(op.group)];
      s.what = slot_model::holds::state;
      s.content = c.own.groups[static_cast<size_t>(op.group)];
    };
    return q;
  }

  /// A group in its slot and its gradient, as an update needs them.
  void check_group(const chunk_op& op, int step) {
    const auto& s = slots_[static_cast<size_t>(op.slot)];
    check(s.what == slot_model::holds::state && s.chunk == op.chunk && s.group == op.group,
          "a group is updated before it is read");
    check(s.content == step - 1, "a group is updated that is not of the step before");
    check(gradients_[static_cast<size_t>(policy_.grad_frame(op.chunk))] == step &&
              at(op.chunk).gradient_of == step,
          "a group is updated before its gradient is whole");
  }

  queued_op measuring(const chunk_op& op, int step) {
    queued_op q;
    q.begin = [this, op, step] {
      check_group(op, step);
      slots_[static_cast<size_t>(op.slot)].what = slot_model::holds::updating;
    };
    q.end = [this, op] {
      slots_[static_cast<size_t>(op.slot)] = {};
      ++at(op.chunk).groups_measured;
    };
    return q;
  }

  queued_op updating(const chunk_op& op, int step, bool dropped) {
    queued_op q;
    q.begin = [this, op, step] {
      check_group(op, step);
      check(!shape_.measured || at(op.chunk).groups_measured == groups(op.chunk),
            "a group is updated before all of its chunk were measured");
      slots_[static_cast<size_t>(op.slot)].what = slot_model::holds::updating;
    };
    q.end = [this, op, step, dropped] {
      auto& s = slots_[static_cast<size_t>(op.slot)];
      s.what = slot_model::holds::updated;
      s.content = dropped ? -step : step;
      auto& c = at(op.chunk);
      if (!shares(op.chunk)) c.in_memory[static_cast<size_t>(op.group)] = s.content;
      if (op.group + 1 < groups(op.chunk)) return;
      gradients_[static_cast<size_t>(policy_.grad_frame(op.chunk))] = none;
      c.gradient_of = none;
      c.groups_measured = 0;
    };
    return q;
  }

  model_file& target(const chunk_op& op) {
    auto& c = at(op.chunk);
    return c.versions.target(op.when) == chunk_versions::file::own ? c.own : c.next;
  }

  queued_op writing_state(const chunk_op& op) {
    queued_op q;
    q.begin = [this, op] {
      auto& s = slots_[static_cast<size_t>(op.slot)];
      check(s.what == slot_model::holds::updated && s.chunk == op.chunk && s.group == op.group,
            "a group is written before it is updated");
      s.what = slot_model::holds::writing;
      auto& f = target(op);
      check(!f.of_checkpoint, "a file that a checkpoint has is written");
      check(f.readers[static_cast<size_t>(op.group)] == 0, "a file is written while it is read");
      f.groups[static_cast<size_t>(op.group)] = model_file::torn;
      f.has_moments[static_cast<size_t>(op.group)] = true;
    };
    q.end = [this, op] {
      auto& s = slots_[static_cast<size_t>(op.slot)];
      target(op).groups[static_cast<size_t>(op.group)] = s.content;
      s = {};
      const bool last = op.group + 1 == groups(op.chunk);
      if (at(op.chunk).versions.taken_over(op.when, last)) take_over(op.chunk);
    };
    return q;
  }

  /// The next file takes the name; the checkpoint's goes on without one here.
  void take_over(int chunk) {
    auto& c = at(chunk);
    c.own = std::exchange(c.next, c.spare);
    c.spare.of_checkpoint = false;
    c.versions.own();
  }

  // -- what a step does --------------------------------------------------------------------------

  void compute(queued_op q) { enqueue({}, std::move(q)); }

  void use_weights(int chunk, int step) {
    carry_out(policy_.fetch_weights(chunk), step);
    queued_op q;
    if (!shares(chunk))
      if (const auto it = points_.find({static_cast<int>(kind::arrived), chunk});
          it != points_.end())
        q.behind.push_back(it->second);  // as the store does
    q.begin = [this, chunk, step] {
      if (!shares(chunk)) return check_weights(at(chunk).in_memory, step);
      auto& f = frames_[static_cast<size_t>(policy_.weight_frame(chunk))];
      check(f.chunk == chunk && !f.filling, "weights are used that are not there");
      ++f.users;
      check_weights(f.content, step);
    };
    q.end = [this, chunk, step] {
      if (!shares(chunk)) return check_weights(at(chunk).in_memory, step);
      auto& f = frames_[static_cast<size_t>(policy_.weight_frame(chunk))];
      check(f.chunk == chunk, "a frame takes weights while others in it are used");
      --f.users;
    };
    compute(std::move(q));
    carry_out(policy_.release_weights(chunk), step);
  }

  void check_weights(const std::vector<int>& content, int step) {
    for (const int of : content) check(of == step - 1, "weights are not those of the step before");
  }

  void make_gradient(int chunk, int step) {
    carry_out(policy_.fetch_gradient(chunk), step);
    queued_op q;
    q.begin = [this, chunk] {
      auto& g = gradients_[static_cast<size_t>(policy_.grad_frame(chunk))];
      check(g == none, "a gradient's frame takes another before the update that takes it");
      g = used;
    };
    q.end = [this, chunk, step] {
      gradients_[static_cast<size_t>(policy_.grad_frame(chunk))] = step;
      at(chunk).gradient_of = step;
    };
    compute(std::move(q));
  }

  void drop_gradient(int chunk, int step) {
    queued_op q;
    q.end = [this, chunk] {
      gradients_[static_cast<size_t>(policy_.grad_frame(chunk))] = none;
      at(chunk).gradient_of = none;
    };
    compute(std::move(q));
    carry_out(policy_.drop_gradient(chunk), step);
  }

  void pass(int step, pass_kind how, bool dropped = false) {
    for (int c = 0; c < policy_.chunks(); ++c) use_weights(c, step);
    for (int c = policy_.chunks(); c-- > 0;) {
      use_weights(c, step);
      make_gradient(c, step);
      if (how == pass_kind::norm_alone)
        drop_gradient(c, step);
      else
        carry_out(
            policy_.update(c, how == pass_kind::updates ? counts::at_once : counts::once_settled,
                           shape_.measured),
            step, dropped);
    }
  }

  void settle(int step, bool hold) {
    queued_op norm;
    norm.end = [this, step] { norm_of_ = step; };
    compute(std::move(norm));
    for (const auto& op : policy_.settle()) {
      queued_op q;
      if (op.what == chunk_act::settle) q.begin = [this, step, hold] { take_updates(step, hold); };
      enqueue(op, std::move(q));
    }
    if (!hold) carry_out(policy_.dropped(), step);
  }

  void take_updates(int step, bool hold) {
    check(norm_of_ >= step, "it is judged what counts before the norm is known");
    for (auto& c : chunks_) {
      check(is_read_by_nobody(c.own), "updates count while what was before them is read");
      if (!hold) continue;
      if (c.versions.kept())
        take_over(static_cast<int>(&c - chunks_.data()));
      else
        std::swap(c.own, c.next);
    }
  }

  /// A checkpoint copies the state of a chunk out of its file.
  void capture(int step) {
    const int chunk = shape_.pick(policy_.chunks());
    queued_op q;
    const auto it = points_.find({static_cast<int>(kind::written), chunk});
    if (it != points_.end()) q.behind.push_back(it->second);
    q.begin = [this, chunk] { read_all(chunk, 1); };
    q.end = [this, chunk, step] {
      read_all(chunk, -1);
      for (const int of : at(chunk).own.groups)
        check(of == step, "a checkpoint copies another step's state");
    };
    at(chunk).readers.push_back(machine_.enqueue(chance_machine::snapshot, std::move(q)));
  }

  /// A checkpoint takes the files, where there is room for those behind it.
  void keep(int step) {
    const bool has_room = shape_.pick(4) > 0;
    for (const auto& op : policy_.keep()) {
      queued_op q;
      if (op.what == chunk_act::keep) {
        q.begin = [this] { keeping_ = true; };
        q.end = [this, step, has_room] {
          keeping_ = false;
          for (int chunk = 0; chunk < policy_.chunks(); ++chunk) keep_chunk(chunk, step, has_room);
        };
      }
      enqueue(op, std::move(q));
    }
  }

  void keep_chunk(int chunk, int step, bool has_room) {
    auto& c = at(chunk);
    for (const int of : c.own.groups) check(of == step, "a checkpoint takes another state");
    if (c.versions.kept()) {  // not updated since: it is copied
      check(is_read_by_nobody(c.own), "a file is left while it is read");
      c.next.groups = c.own.groups;
      c.next.has_moments = c.own.has_moments;
      take_over(chunk);
    }
    if (!has_room) return;
    c.versions.keep();
    c.own.of_checkpoint = true;
  }

  void check_end() {
    for (const auto& c : chunks_) {
      for (const int of : c.own.groups)
        check(of == shape_.steps, "a chunk is not of the last step");
      check(is_read_by_nobody(c.own), "somebody reads for ever");
    }
    for (const auto& s : slots_)
      check(s.what == slot_model::holds::nothing, "a slot is not given back");
  }

  order_shape shape_;
  chance_machine machine_;
  chunk_policy policy_;
  std::vector<chunk_model> chunks_;
  std::vector<slot_model> slots_;
  std::vector<frame_model> frames_;
  std::vector<int> gradients_;  ///< by frame: the step that one is whole of
  std::map<std::pair<int, int>, size_t> points_;
  bool keeping_ = false;
  int norm_of_ = 0;  ///< the newest step whose norm is known
  std::string wrong_;
};

}  // namespace

TEST_CASE("CHP-1 to CHP-8: chunks: 100,000 random orders on lanes of any pace") {
  for (unsigned seed = 1; seed <= 100'000; ++seed) {
    const auto wrong = trained_by_order(seed).run();
    REQUIRE_MESSAGE(wrong.empty(), "seed ", seed, ": ", wrong);
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

// What operations do to a model of frames and a file.
#include "gpu/swap/spill_watch.hpp"

#include <algorithm>

namespace troupe::gpu {

namespace {

size_t machine_lane_of(spill_lane on) {
  switch (on) {
    case spill_lane::out:
      return order_machine::spill_out;
    case spill_lane::in:
      return order_machine::spill_in;
    default:
      return static_cast<size_t>(chunk_lane::compute);
  }
}

}  // namespace

spill_watch::spill_watch(std::vector<int> frame_of_record, order_machine& machine)
    : machine_(machine),
      policy_(frame_of_record),
      frames_(static_cast<size_t>(policy_.frames())),
      file_(frame_of_record.size(), none),
      made_(file_),
      awaited_(file_) {}

void spill_watch::check(bool good, std::string_view what) {
  if (!good && wrong_.empty()) wrong_ = what;
}

// -- from the policy to the machine ---------------------------------------------------------------

void spill_watch::enqueue(const spill_op& op, watched_op out) {
  out.lane = machine_lane_of(op.on);
  out.spill = op;
  for (const auto& b : op.behind)
    if (b)
      if (const auto it = points_.find({static_cast<int>(b->what), b->frame}); it != points_.end())
        out.behind.push_back(it->second);
  const auto number = machine_.enqueue(std::move(out));
  if (op.marks) points_[{static_cast<int>(op.marks->what), op.marks->frame}] = number;
}

void spill_watch::carry_out(const spill_policy::ops& ops) {
  for (const auto& op : ops) {
    watched_op out;
    if (op.what == spill_act::write) writing(out, op.record);
    if (op.what == spill_act::read) reading(out, op.record);
    enqueue(op, std::move(out));
  }
}

void spill_watch::writing(watched_op& out, int record) {
  const int number = made(record);
  out.begin = [this, record, number] {
    auto& f = frame_of(record);
    check(f.record == record && f.number == number && !f.fills,
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

void spill_watch::reading(watched_op& out, int record) {
  const int number = made(record);
  out.begin = [this, record, number] {
    auto& f = frame_of(record);
    check(f.idle(), "a frame is filled while others in it are used");
    check(in_file(record) == number, "a record is read that is not of the latest pass");
    f.fills = true;
  };
  out.end = [this, record] {
    frame_model f;
    f.record = record;
    f.number = in_file(record);
    frame_of(record) = f;
  };
}

// -- what a step does, in its order ---------------------------------------------------------------

void spill_watch::forward(int record, bool keeps, int64_t takes) {
  const int number = ++passes_;
  carry_out(policy_.take_frame(record));
  watched_op pass;
  pass.takes = takes;
  pass.begin = [this, record] {
    auto& f = frame_of(record);
    check(f.idle(), "a pass takes a frame while what is in it is used");
    f.record = torn;
    f.computes = true;
  };
  pass.end = [this, record, number, keeps] {
    frame_model f;
    f.record = record;
    f.number = number;
    frame_of(record) = f;
    if (keeps) awaited(record) = number;
  };
  enqueue({}, std::move(pass));
  if (keeps) made(record) = number;
  carry_out(keeps ? policy_.spill(record) : policy_.release(record));
}

void spill_watch::backward(int record, int64_t takes) {
  const int number = made(record);
  check(number != none, "a backward pass has no forward pass before it");
  carry_out(policy_.fetch(record));
  made(record) = none;
  watched_op pass;
  pass.takes = takes;
  pass.begin = [this, record, number] {
    auto& f = frame_of(record);
    check(f.record == record && f.number == number && !f.fills && !f.eaten,
          "backward uses what is not the latest pass's");
    f.eaten = true;
    f.computes = true;
  };
  pass.end = [this, record] {
    frame_of(record).computes = false;
    awaited(record) = none;
  };
  enqueue({}, std::move(pass));
  carry_out(policy_.release(record));
}

void spill_watch::check_step_over() {
  check(std::all_of(awaited_.begin(), awaited_.end(), [](int pass) { return pass == none; }),
        "a step ends while activations wait for their backward pass");
  check(std::all_of(frames_.begin(), frames_.end(), [](const auto& f) { return f.idle(); }),
        "a step ends while somebody has a frame");
}

}  // namespace troupe::gpu

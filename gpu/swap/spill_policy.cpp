// The order of spilled activations: see spill_policy.hpp.
#include "gpu/swap/spill_policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe::gpu {

namespace {

using spill_kind = spill_point::kind;

spill_op on_lane(spill_lane on, spill_act what, int record) {
  spill_op out;
  out.on = on;
  out.what = what;
  out.record = record;
  return out;
}

}  // namespace

spill_policy::spill_policy(std::vector<int> frame_of_record)
    : frame_of_(std::move(frame_of_record)) {
  int frames = 0;
  for (const int f : frame_of_) frames = std::max(frames, f + 1);
  occupants_.assign(static_cast<size_t>(frames), -1);
}

/// The compute lane's own uses of the frame are behind it in its queue.
spill_policy::ops spill_policy::take_frame(int record) {
  auto wait = on_lane(spill_lane::compute, spill_act::none, record);
  wait.behind[0] = {spill_kind::written, frame_of(record)};  // SPO-1
  return {wait};
}

spill_policy::ops spill_policy::spill(int record) {
  occupant_of(record) = record;
  auto made = on_lane(spill_lane::compute, spill_act::none, record);
  made.marks = {spill_kind::computed, 0};
  auto write = on_lane(spill_lane::out, spill_act::write, record);
  write.behind[0] = {spill_kind::computed, 0};  // SPO-2
  write.marks = {spill_kind::written, frame_of(record)};
  return {made, write};
}

spill_policy::ops spill_policy::fetch(int record) {
  ops out;
  const int frame = frame_of(record);
  const bool there = occupant_of(record) == record;
  if (!there) {
    auto read = on_lane(spill_lane::in, spill_act::read, record);
    read.behind[0] = {spill_kind::used, frame};     // SPO-1
    read.behind[1] = {spill_kind::written, frame};  // SPO-1, SPO-2: its own write is not later
    read.marks = {spill_kind::ready, frame};
    out.push_back(read);
  }
  out.push_back(on_lane(spill_lane::compute, spill_act::none, record));
  out.back().behind[0] = {there ? spill_kind::written : spill_kind::ready,
                          frame};  // SPO-2: backward eats it
  return out;
}

/// Backward eats what is there (SM-2).
spill_policy::ops spill_policy::release(int record) {
  occupant_of(record) = -1;
  auto used = on_lane(spill_lane::compute, spill_act::none, record);
  used.marks = {spill_kind::used, frame_of(record)};
  return {used};
}

}  // namespace troupe::gpu

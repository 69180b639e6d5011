// Where the activations that layers spill are: each of a layer in a slot has a place in a file, and
// a frame in memory that it shares with others. Both never change: pointers stay valid, and what a
// device has noted for replays too.
//
// Records are numbered in the order of a forward pass, slots from 0, and take frames in turn: while
// one is used the one before it goes to the drive, or the next one comes from there. Where a pass
// takes the slots of a layer in the reverse order (SM-6) it comes to every other frame as well.
#pragma once

#include <algorithm>
#include <vector>

#include "gpu/model/stage_shape.hpp"

namespace troupe::gpu {

class spill_layout {
 public:
  static constexpr int turns = 2;

  explicit spill_layout(const stage_shape& shape)
      : layers_(shape.spilling()),
        slots_(static_cast<int>(shape.slots)),
        by_layer_(shape.by_layer) {}

  int records() const { return static_cast<int>(layers_.size()) * slots_; }
  int frames() const { return std::min(turns, records()); }
  bool spills(int layer) const { return std::binary_search(layers_.begin(), layers_.end(), layer); }
  /// Of a layer that spills.
  int record_of(int slot, int layer) const {
    const auto number =
        static_cast<int>(std::lower_bound(layers_.begin(), layers_.end(), layer) - layers_.begin());
    return by_layer_ ? number * slots_ + slot : slot * static_cast<int>(layers_.size()) + number;
  }
  int frame_of(int record) const { return record % turns; }
  /// The folder of its file, of so many, and its number there.
  static size_t place_of(int record, size_t places) { return static_cast<size_t>(record) % places; }
  static size_t number_in_place(int record, size_t places) {
    return static_cast<size_t>(record) / places;
  }
  /// Records of a folder, and of so many.
  size_t records_of(size_t place, size_t places) const {
    return records_of(place, places, static_cast<size_t>(records()));
  }
  static size_t records_of(size_t place, size_t places, size_t records) {
    return (records + places - 1 - place) / places;
  }

 private:
  std::vector<int> layers_;
  int slots_;
  bool by_layer_;
};

}  // namespace troupe::gpu

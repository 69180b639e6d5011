// In which order activations that layers spill go to a drive behind their forward pass, and come
// back before backward: which operation waits for which (Fuyou, arXiv 2403.06504, §4.3).
//
// Pure, as chunk_policy.hpp: who asks it carries out what it answers (spiller.hpp), and keeps an
// event for each point. An operation is in the queue of its lane and waits for points besides.
//
// Each record, of a layer in a slot, has a frame that it shares with others (spill_layout.hpp).
// Reading runs ahead of backward as far as there are frames; what is in its frame still when
// backward comes to it is not read.
//
// Invariants
//   SPO-1  A frame takes another record's activations only behind the last use of those in it, by
//          the compute lane and by the drive.
//   SPO-2  A record is written behind the pass that made it and before backward, which may write
//          over it; and read behind its last write.
//   SPO-3  Backward uses what the latest forward pass of that record has made.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::gpu {

enum class spill_lane : uint8_t { compute, out, in };
enum class spill_act : uint8_t { none, write, read };

struct spill_point {
  enum class kind : uint8_t {
    computed,  ///< what the compute lane had
    used,      ///< by compute; by frame
    written,   ///< out of it, to the drive; by frame
    ready,     ///< it was read; by frame
  };
  kind what = kind::computed;
  int frame = 0;
  bool operator==(const spill_point&) const = default;
};
inline constexpr int spill_point_kinds = 4;

/// One operation.
struct spill_op {
  spill_lane on = spill_lane::compute;
  spill_act what = spill_act::none;
  int record = -1;
  std::array<std::optional<spill_point>, 2> behind = {};
  std::optional<spill_point> marks = {};
};

class spill_policy {
 public:
  using ops = std::vector<spill_op>;

  /// The frame of each record.
  explicit spill_policy(std::vector<int> frame_of_record);

  /// The compute lane makes the record's activations from here on.
  ops take_frame(int record);
  /// It has: they go to the drive.
  ops spill(int record);
  /// It uses them from here on, and up to here.
  ops fetch(int record);
  ops release(int record);

  int frames() const { return static_cast<int>(occupants_.size()); }
  int frame_of(int record) const { return frame_of_[static_cast<size_t>(record)]; }

 private:
  int& occupant_of(int record) { return occupants_[static_cast<size_t>(frame_of(record))]; }

  std::vector<int> frame_of_;
  std::vector<int> occupants_;  ///< records whose activations are there for backward; -1: none
};

}  // namespace troupe::gpu

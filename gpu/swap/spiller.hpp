// Brings activations that layers spill to a file in a rank's swap folder behind their forward pass,
// and back into their frames before backward. Results have the bits of activations that are kept.
//
// Order is made by events alone (spill_policy.hpp); nobody who enqueues waits. Each record has its
// place in a file, whose room is reserved at the start, and is written past the page cache where
// that is possible. On a device that the host cannot address each frame has a page-locked
// twin in the host's memory, through which the streams copy.
//
// Invariants
//   SPR-1  What is read is summed (CRC32C, kept in memory), and read once more where the sum is
//          wrong; a second time is an error.
//   SPR-2  After a failure nothing is written or read any more; it is told, once, on a stream's
//          thread. A write that fails is one: activations are of one step, and a rank begins that
//          again.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/model/activation_mover.hpp"
#include "gpu/model/spill_layout.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/swap/drive_work.hpp"
#include "gpu/swap/spill_policy.hpp"
#include "io/base/error_kind.hpp"
#include "io/swap/swap_io.hpp"

namespace troupe::gpu {

/// What of the file was not what was written there.
inline constexpr error_kind<int, int> spill_damaged{
    "spill_damaged", errc::bad_data,
    "the activations of layer {} in slot {} are damaged on the drive: they were read twice",
    "the disk or the memory of this machine gives back other bytes than it was given: see dmesg"};

struct spill_options {
  /// Made here, at least one, each on a drive of its own; records go to them in turn.
  std::vector<std::filesystem::path> files;
  bool verify = true;          ///< SPR-1
  /// Told of the first failure, on a stream's thread; must not wait.
  std::function<void(const status&)> failed = {};
  /// Called around the enqueueing of each operation, for traces; must call `enqueue` once.
  std::function<void(stream& s, spill_act kind, int layer, uint64_t bytes,
                     const std::function<void()>& enqueue)>
      around = {};
  /// The same around what makes a stream wait for activations that are on their way.
  std::function<void(stream& s, int layer, const std::function<void()>& wait)> around_wait = {};
};

class spiller final : public activation_mover {
 public:
  /// Of a model some of whose layers spill; it outlives this. Errors: io (a full disk), no_memory.
  static result<std::unique_ptr<spiller>> make(device& owner, const stage_model& model,
                                               std::shared_ptr<io::swap_io> io,
                                               spill_options options);
  ~spiller() override;

  void take_frame(stream& s, int slot, int layer) override;
  void spill(stream& s, int slot, int layer) override;
  void fetch(stream& s, int slot, int layer) override;
  void release(stream& s, int slot, int layer) override;

 private:
  /// Memory of one frame: where the disk reads and writes, and the device's own where that is
  /// another.
  struct frame {
    std::span<std::byte> host;
    std::shared_ptr<void> owner, pinned;
    void* on_device = nullptr;
  };
  struct place {
    int slot = 0, layer = 0;
  };

  spiller(const stage_model& model, std::shared_ptr<io::swap_io> io, spill_options options);
  status make_frames(device& owner, const stage_model& model);
  event_ptr& event(const spill_point& p) {
    return events_[static_cast<size_t>(p.what)][static_cast<size_t>(p.frame)];
  }
  void carry_out(const spill_policy::ops& ops, stream& compute);
  void move(const spill_op& op, stream& s);
  status write(int record);
  status read(int record);
  io::swap_io::range range_of(int record);

  const spill_layout layout_;
  std::shared_ptr<io::swap_io> io_;
  spill_options options_;
  drive_work work_;  ///< SPR-2
  spill_policy order_;
  std::vector<place> places_;  ///< by record
  std::vector<frame> frames_;
  std::vector<uint32_t> sums_;  ///< by record; the streams' threads', one after the other
  std::vector<io::file_id> files_;
  std::array<std::vector<event_ptr>, spill_point_kinds> events_;  ///< by point
  std::unique_ptr<stream> out_, in_;
};

}  // namespace troupe::gpu

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
//   SPR-2  After a failure that is not mended (SPR-3) nothing is written or read any more; it is
//          told, once, on a stream's thread.
//   SPR-3  Where a write fails what was to be written goes out of its frame, which nobody changes
//          before it is written (SPO-1, SPO-2), into another file, for whose room the stream waits
//          (write_retry.hpp); what is in the file before is read there (spill_files.hpp).
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
#include "gpu/swap/spill_files.hpp"
#include "gpu/swap/spill_policy.hpp"
#include "gpu/swap/write_retry.hpp"
#include "io/swap/swap_io.hpp"

namespace troupe::gpu {

struct spill_options {
  /// Made here, at least one, each on a drive of its own; records go to them in turn.
  std::vector<std::filesystem::path> files;
  bool verify = true;          ///< SPR-1
  room_wait wait = {};         ///< SPR-3
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

  spiller(const stage_model& model, std::shared_ptr<io::swap_io> io, spill_options options);
  status make_frames(device& owner, const stage_model& model);
  event_ptr& event(const spill_point& p) {
    return events_[static_cast<size_t>(p.what)][static_cast<size_t>(p.frame)];
  }
  void carry_out(const spill_policy::ops& ops, stream& compute);
  void move(const spill_op& op, stream& s);
  int layer_of(int record) const { return files_->record(record).layer; }

  const spill_layout layout_;
  std::shared_ptr<io::swap_io> io_;
  spill_options options_;
  drive_work work_;  ///< SPR-2
  spill_policy order_;
  std::vector<frame> frames_;
  std::unique_ptr<spill_files> files_;
  std::array<std::vector<event_ptr>, spill_point_kinds> events_;  ///< by point
  std::unique_ptr<stream> out_, in_;
};

}  // namespace troupe::gpu

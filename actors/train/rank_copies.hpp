// A rank's part in copies in memory: what it ships to its keeper, and what it keeps for others.
//
//   compute --update of step s--> snapshot stream: into the store of this process (state_saver)
//           --> copies stream: sum, seal, put to the keeper's process (copy_link)
//   compute --> end of step s + 1: behind that
//
// Invariants
//   RCP-1  The end of the step after a copy is behind the copy's arrival at the keeper, or its
//     failure: when all ranks have made that step and none has failed, the copy is whole
//     everywhere, and the next one may overwrite the one before it.
//   RCP-2  Nothing of a copy that fails reaches the streams of training. One that found no memory
//     costs that copy; after a failure of the link, which the wait of RCP-1 ends within
//     copy_timeout, this rank takes no more until the next epoch: its loss is then the disk's.
//   RCP-3  Links are connected in the order of their owners by every rank: nobody waits in a ring.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/train/engine.hpp"
#include "gpu/collective/copy_link.hpp"
#include "gpu/collective/pair_links.hpp"
#include "gpu/device.hpp"
#include "io/checkpoint/memory_copies.hpp"

namespace troupe::train {

class rank_copies {
 public:
  /// Of options that have a keeper, or somebody to keep for.
  static result<std::unique_ptr<rank_copies>> make(gpu::device& device,
                                                   const engine_options& options);
  ~rank_copies() { abort(); }

  /// Its ends of its links, as groups of two: the owner is rank 0 of "keep/OWNER".
  result<std::vector<group_offer>> open(const std::string& host);
  /// Blocks.
  status connect(const engine::group_tables& tables, const std::stop_token& ending);

  /// A place for this rank's share of a step; null where that cannot be, which is counted.
  std::shared_ptr<io::checkpoint::memory_copy> begin(uint64_t step,
                                                     const io::checkpoint::copy_shape& shape);
  /// Behind `captured`: sums it, seals it, and has the keeper hold it.
  void ship(gpu::event_ptr captured, std::shared_ptr<io::checkpoint::memory_copy> copy);
  /// Behind the last copy that was shipped (RCP-1); null before the first.
  const gpu::event_ptr& shipped() const noexcept { return shipped_; }

  /// This rank's share of a state, from this process or from the keeper's; all other states are
  /// forgotten, those that are kept for others too. Blocks. Errors: copy_missing, copy_damaged,
  /// those of the link.
  result<std::shared_ptr<const io::checkpoint::memory_copy>> take(
      io::checkpoint::copy_tag tag, bool from_keeper, const io::checkpoint::copy_shape& shape);

  copy_facts facts() const;
  void abort() noexcept;

 private:
  struct pending_link {
    int owner = 0;
    gpu::pair_listener listener;
  };
  explicit rank_copies(const engine_options& options) : options_(options) {}
  void failed(const error& why);
  void kept(int owner, const status& answered);
  void took(int owner, std::unique_ptr<gpu::copy_link> link);

  engine_options options_;
  std::vector<pending_link> pending_;
  mutable std::mutex mutex_;
  std::unique_ptr<gpu::copy_link> to_keeper_;
  std::vector<std::unique_ptr<gpu::copy_keeper>> keepers_;
  bool aborted_ = false;
  std::atomic<bool> unkept_{false};  ///< the keeper's link has failed
  uint64_t copied_step_ = 0, failed_ = 0;
  gpu::event_ptr shipped_;
  std::unique_ptr<gpu::stream> stream_;  ///< ends before what its tasks use
};

}  // namespace troupe::train

// A save, as far as its order on the disk matters: every step through io::disk, so that a power cut
// can be tried at each of them (tests/io/checkpoint/save_crash.cpp).
//
//   ranks rank_save     <dir>/step-N.eE.partial/ is made by whoever comes first; shard: slots,
//                       footer, trailer; fdatasync; then the vote
//   root  commit_save   small files and MANIFEST, each synced; sync of the folder; rename to
//                       step-N; sync of <dir>; then the acknowledgement
//
// Invariants
// SV-1 A folder named step-N holds a whole checkpoint, whatever happens when.
// SV-2 What commit_save has answered for survives a power cut.
// SV-3 A shard's vote is given only for bytes that are on the disk. Their names are the root's
//      affair: its one sync of the folder covers all of them.
// SV-4 Where a complete step-N of the same launch is there already (its commit was not answered),
//      the two folders change places in one step: at no time is there none.
// SV-5 A shard is a new file: what an attempt before left under the same name makes the save fail,
//      and is never added to.
// SV-6 One of another launch, or with anything else in it (a note, a hold), is set aside first, and
//      the name is synced: it is never removed, and never under a partial folder's name.
// SV-7 What bears the name and is no checkpoint of ours stays as it is, and the save fails.
// SV-8 Ranks make the partial folder alone, and none above it: a host that lacks the folder of
//      checkpoints would put its shard on a disk of its own.
// SV-9 The root has read the end of every shard that was voted for before MANIFEST is written:
//      nothing is acknowledged of which a part lies where only its rank sees it.
// SV-10 What a manifest says later (amend_loss) it says in a new file, which takes the place of the
//      old one once it is on the disk, while nobody reads: at no time is there none that is whole.
//
// A rank may vote for more shards than its own: files of single chunks, to which the folder has got
// links (gpu/swap/swapper_keep.cpp). SV-3 and SV-5 are theirs, too.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/base/result.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/save_plan.hpp"
#include "io/disk/shard_writer.hpp"

namespace troupe::io::checkpoint {

/// A small file to lie beside the shards, e.g. config.json.
struct small_file {
  std::string name;
  std::string content;
};

/// One rank's shard on its way. Passive as shard_writer: the owner of the disk fills slots in order
/// and hands it completions; nothing waits.
class rank_save {
 public:
  /// Called once: what the rank votes for, or why not (SV-3). From within filled, take or give_up;
  /// must not destroy the save.
  using voted = std::function<void(const result<shard_facts>&)>;

  /// Makes the folder (SV-8). Errors: bad_config, those of disk::make_dir and disk::open. The disk
  /// outlives it.
  static result<std::unique_ptr<rank_save>> create(disk& d, const std::filesystem::path& partial,
                                                   const manifest_head& head, rank_plan plan,
                                                   voted done);

  /// The slots to fill, in order.
  const capture_plan& captures() const noexcept { return captures_; }
  /// Slot `number` of captures().fills is filled. The error that ended the save, else success.
  status filled(slot lease, uint64_t number);
  /// True when the completion was this shard's.
  bool take(completion& answer) { return writer_->take(answer); }
  void give_up(const error& why) { writer_->give_up(why); }
  /// From any thread.
  shard_progress progress() const noexcept { return writer_->progress(); }

 private:
  explicit rank_save(rank_plan plan);
  status finish();
  void written(const status& outcome);

  rank_plan plan_;
  capture_plan captures_;
  footer footer_;
  encoded_tail tail_;
  uint64_t left_ = 0;  ///< slots that were not handed over yet
  voted done_;
  std::unique_ptr<shard_writer> writer_;
};

/// Reads what pieces lie in the shards of a rank out of their ends, into `facts`: for whoever has
/// no plan of them. The bytes of all pieces. Blocks. Error io where a shard is not there as the
/// facts say.
result<uint64_t> read_pieces(disk& d, const std::filesystem::path& partial, shard_facts& facts);

/// The commit: makes of `partial`, in which all ranks' shards are durable, the complete checkpoint;
/// its path (SV-1, SV-2). Blocks, and takes the disk's answers. Errors: bad_data where the shards
/// do not make a checkpoint; io, also where one is not there (SV-9).
/// After an error the checkpoint may or may not be there; it is whole if it is.
result<std::filesystem::path> commit_save(disk& d, const std::filesystem::path& partial,
                                          const manifest_head& head,
                                          std::vector<shard_facts> shards,
                                          const std::vector<small_file>& others);

/// The commit point, of whoever has written and synced all files of `partial` (as commit_save has):
/// sync of the folder, rename or exchange to step-N, sync of its parent; the complete folder (SV-1,
/// SV-2, SV-4, SV-6). Blocks. Error io, as commit_save's.
result<std::filesystem::path> publish(disk& d, const std::filesystem::path& partial,
                                      const manifest_head& head);

/// Makes the folder of a checkpoint on its way, with its mark, which names the small files as far
/// as they are known; true when it was made now. Errors: those of disk::make_dir and
/// disk::write_small.
result<bool> make_partial(disk& d, const std::filesystem::path& partial, const std::string& job,
                          std::vector<std::string> others = {}, durable mark = durable::no);

/// Has the manifest of a complete checkpoint say the validation loss of its state (SV-10). Blocks.
/// Errors: unavailable while somebody reads the checkpoint; bad_data where its manifest is damaged;
/// io. In each case it is whole, and says it or does not.
status amend_loss(file_system& files, const std::filesystem::path& complete,
                  double validation_loss);

/// Removes a checkpoint's folder with what is in it, unless it holds what no checkpoint has
/// (folder_claim.hpp). Blocks. Errors: permission; io.
status remove_folder(disk& d, const std::filesystem::path& folder);

}  // namespace troupe::io::checkpoint

// The folders that a job writes in: whether they are its to write in, and held while it runs.
//
//   job.output              log.jsonl, audit.jsonl, incidents.jsonl, incidents/, journal, NODE.log,
//                           data.json, model/ (the export), black boxes, power.jsonl*,
//                           power.incarnation, part-times.jsonl and what that is put aside as
//   predict.store           the same as part-times.jsonl, where it is named
//   predict.prior           nothing: a model that is read, if it can be
//   checkpoint.dir          step-N, latest
//   checkpoint.second.dir   step-N
//
// Invariants
//   FLD-1  Before anything is written: no name that the job writes leads to a file that this
//     program did not make. A folder's mark says so; of outputs from before marks, what stands in
//     log.jsonl; of data.json its own content alone, as people give data that name, and of
//     predict.store, which may be any file.
//   FLD-2  One job writes in a folder at a time (io/folder/lock.hpp): each is locked until the job
//     is over. Nodes do not inherit the lock; one that outlives a killed launcher for a moment
//     writes under the name of its epoch, which no later start uses. `ckpt gc` and `ckpt import`
//     take it as well.
//   FLD-3  A second tier that could not be locked is read, and nothing else: without the lock
//     nobody knows whose folders lie there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/base/result.hpp"
#include "io/config/job.hpp"
#include "io/folder/lock.hpp"

namespace troupe::apps {

/// What keeps a job from writing in its folders: the key that names the folder, and why.
struct folder_finding {
  std::string key;
  error why;
};

/// Looks at the folders of a settled job (FLD-1). Leaves nothing behind.
std::vector<folder_finding> check_folders(const config::job& job);

/// The folders of a job, held for as long as this lives (FLD-2).
struct held_folders {
  std::vector<io::folder_lock> locks;
  bool second = false;  ///< the second tier is among them
  std::vector<std::string> warnings;  ///< that were said while they were taken

  /// Tells where the job is reached, to whoever finds the folders held.
  void say_address(const std::string& address);
};

/// What is done about another process that holds a folder.
enum class claim_on_folders : uint8_t {
  if_free,     ///< it is left to it
  break_lock,  ///< the same, but one on another host is not believed to be there
  depose,      ///< it is taken from it: it acts no more (actors/heads)
};

/// As --break-lock has it.
constexpr claim_on_folders claim_of(bool break_lock) {
  return break_lock ? claim_on_folders::break_lock : claim_on_folders::if_free;
}

/// Whether another launcher holds a folder of a job: asked before anything that fails because it is
/// there, such as a look for its port. Errors: timeout (exit 75), named with its holder.
status check_holders(const config::job& job, claim_on_folders how);

/// Makes the folders, locks and marks them. `as`: the process that whoever finds them held is told
/// of. Errors: those of check_folders; timeout (exit 75) where another holds one, named with its
/// holder; io. What keeps the second tier from being held, if nobody else does, is said (FLD-3).
result<held_folders> take_folders(const config::job& job, int as, claim_on_folders how);

/// Locks one folder that is there, as `who` (a job, or a verb that writes where jobs do), and says
/// whose lock was broken. Errors as take_folders; not_found.
result<io::folder_lock> take_folder(const std::filesystem::path& folder, const io::lock_holder& who,
                                    claim_on_folders how);

/// Where this process works, as the shell names it, if it does: a link may lead elsewhere on
/// another host. Empty: it is gone.
std::string working_folder();

}  // namespace troupe::apps

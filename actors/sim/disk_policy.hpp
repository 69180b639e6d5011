// Files that lose what was not synced: the folder of checkpoints all nodes of a simulation share.
//
// Pure. A file or a name is visible to all as soon as it is made, and kept through the crash of
// whoever made it only once it was synced: fsync for the bytes of a file, fsync of the folder for
// the names in it. What a crash takes is drawn by lot, since a kernel may have written it anyway.
//
// Invariants
//   DSK-1  What was synced is never lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/sim/dice.hpp"
#include "io/checkpoint/manifest.hpp"

namespace troupe::sim {

class disk_policy {
 public:
  /// A folder, new and empty; what bore its name is gone.
  void make_folder(const std::string& folder, int writer);
  /// A file in a folder; false where there is no such folder.
  bool write(const std::string& folder, const std::string& file, int writer);
  /// The bytes of a file are durable now; false where there is no such file.
  bool sync(const std::string& folder, const std::string& file);
  /// A folder's other name; what bore it is gone. Undone by a crash of `writer` unless settled.
  bool rename(const std::string& from, const std::string& to, int writer);
  /// Puts a manifest's head with what was written of a folder.
  void describe(const std::string& folder, io::checkpoint::manifest_head head);
  /// A folder and all in it; durable at once.
  void remove(const std::string& folder);
  /// The names of all folders are durable now (the parent folder was synced).
  void settle();

  /// The process `writer` and its host's memory are gone.
  void crash(int writer, dice& lot);

  /// Names of the folders that begin with `prefix`.
  std::vector<std::string> folders(const std::string& prefix) const;
  /// The files of a folder whose bytes are not whole: torn by a crash.
  std::vector<std::string> torn(const std::string& folder) const;
  bool has(const std::string& folder, const std::string& file) const;
  /// Whether the name a folder has now survives a crash of whoever gave it.
  bool settled(const std::string& folder) const;
  /// How often names have changed.
  uint64_t changes() const { return changes_; }
  /// As described; nothing where it was not.
  std::optional<io::checkpoint::manifest_head> head_of(const std::string& folder) const;

 private:
  struct file {
    int writer = 0;
    bool synced = false;
    bool torn = false;
  };
  struct folder {
    std::map<std::string, file> files;
    std::optional<io::checkpoint::manifest_head> head;
    int renamed_by = -1;          ///< not yet settled
    std::string name_before;
  };
  std::map<std::string, folder> folders_;
  uint64_t changes_ = 0;
};

}  // namespace troupe::sim

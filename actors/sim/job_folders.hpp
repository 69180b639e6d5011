// What of a simulated job lies on a real file system: the locks of its folders and its exported
// models, by the code that runs (io/folder, io/checkpoint/export, actors/checkpoint), and what a
// person puts where they go.
//
// Why real: a model of a lock or of a mark would be found right whatever the code does.
//
// Invariants
//   JBF-1  One launcher at a time holds the folders; another is refused and has changed nothing.
//   JBF-2  What a launcher held that was killed, its text still there, is free for the next one.
//   JBF-3  What a person put there stays as it is, byte for byte.
//   JBF-4  An export that is told of is whole, of the checkpoint it was asked for, in `model` where
//     nothing is in its way, and no half of one is left beside it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/folder/lock.hpp"
#include "io/folder/owned.hpp"

namespace troupe::sim {

class job_folders {
 public:
  /// In a folder of its own, in memory where the machine has such: much of it is synced.
  static result<std::unique_ptr<job_folders>> make();

  /// A launcher begins; what is wrong, if anything (JBF-2).
  std::optional<std::string> begin();
  /// It ends, in order or by kill -9, which leaves the texts of its locks.
  void end(bool killed);
  bool held() const { return !locks_.empty(); }
  /// Another launcher of the job begins; what is wrong, if anything (JBF-1).
  std::optional<std::string> rival(bool break_lock);

  /// A person puts a folder, a file or a note where the model goes.
  void disturb(uint64_t random);
  bool disturbed() const { return !foreign_.empty(); }

  /// Where the committer exports to.
  std::filesystem::path output() const { return where_.path() / "output"; }
  /// An export of something else, killed at one of its moments.
  void cut_export(const std::string& what, uint64_t random);

  /// What is wrong with an export that a run told of (JBF-4), or with a person's files (JBF-3).
  /// `source` is what its mark must say that it was made from.
  std::optional<std::string> judge_export(const std::filesystem::path& model,
                                          const std::string& source) const;
  std::optional<std::string> judge_foreign() const;

 private:
  explicit job_folders(io::scratch_folder where);
  result<std::vector<io::folder_lock>> take(bool break_lock) const;
  std::map<std::string, std::string> contents() const;
  status write(const std::filesystem::path& partial, const std::string& what, int cut_at) const;

  io::scratch_folder where_;
  io::lock_holder self_;
  std::vector<io::folder_lock> locks_;
  std::map<std::filesystem::path, std::string> foreign_;  ///< a person's files
};

}  // namespace troupe::sim

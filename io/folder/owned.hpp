// Folders that this program made, and the one way in which it removes anything.
//
// A folder that may be removed one day carries a mark, a small file `.troupe-owned`:
//
//   {"troupe-owned":1,"kind":"model","job":"tiny","files":["config.json","model.safetensors"]}
//
// It says what the folder was made as and which names in it are ours; `#` stands for digits, and
// NAME.tmp-#-# is the temporary of NAME (io/file). Why: names alone say nothing. A job whose output
// is "." has a person's own `model` folder where its export goes.
//
// Invariants
// OWN-1 Nothing is removed but what a claim names: the folder's mark, or what its maker knows in
//       another way (a verified manifest). A folder that holds anything else stays as it is, whole.
// OWN-2 The folder is opened once and everything goes by that descriptor: no symbolic link is
//       followed, no mount point entered, and a component that is swapped leads nowhere else.
// OWN-3 The root, the home, the working folder and what lies above them are never removed.
// OWN-4 What tells whose the files are goes last, the mark at the end, once all else is durably
//       gone; then the folder. A removal that was cut off, by a loss of power too, goes on when
//       asked again.
// OWN-5 A single file is removed only while its name leads to the very file that the caller has
//       open: one that it made, or read and knew.
// OWN-6 A control group has files of the kernel's alone, which go with it: it is removed as one,
//       where it is on such a file system. The kernel keeps one that a process or a group is in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::io {

/// The mark's name in its folder.
inline constexpr std::string_view mark_file = ".troupe-owned";
/// What is read of a mark at most.
inline constexpr size_t max_mark_bytes = 64 << 10;

/// What a folder was made as.
enum class folder_kind : uint8_t {
  output,      ///< a job's: never removed
  checkpoint,  ///< one checkpoint: complete, partial or being deleted
  model,       ///< an exported model
  scratch,     ///< a temporary one, of which everything is ours
};

/// "output", "checkpoint", "model", "scratch".
std::string_view to_string(folder_kind kind);

/// What of a folder is ours.
struct claim {
  folder_kind kind = folder_kind::output;
  std::string job;                 ///< whose it is; empty where that does not matter
  std::vector<std::string> files;  ///< names in it; what is scratch needs none
  std::string of = {};             ///< what it was made from; empty where nobody asks
  std::string told_by = {};        ///< the file beside the mark that says so; empty: the mark
  bool operator==(const claim&) const = default;

  /// Whether a name in the folder is ours; the mark's own, and its temporary's, always are.
  bool names(std::string_view name) const;
};

/// A mark's text, and back. Foreign: bad_data.
std::string mark_text(const claim& c);
result<claim> parse_mark(std::string_view text);

/// What this program did not make, or never removes: what it is.
inline constexpr error_kind<std::string_view> not_ours{
    "not_ours", errc::permission, "{}",
    "it stays as it is: take it away yourself, or name another folder"};

/// Makes the folder (its parent exists) and marks it, durably. One that is there must be empty, or
/// carry a mark of the same kind, which is replaced. Errors: permission where it is neither; io.
status make_owned(const std::filesystem::path& folder, const claim& as);

/// Marks a folder that exists as a job's output, whatever else lies in it. Errors: permission where
/// it is marked as something else; io.
status mark_output(const std::filesystem::path& folder, const std::string& job);

/// The folder's mark. Errors: not_found where there is no folder or no mark, bad_data, io.
result<claim> read_mark(const std::filesystem::path& folder);

/// Whether the folder carries a mark of this kind.
bool is_owned(const std::filesystem::path& folder, folder_kind kind);

/// Whether `remove_claimed` would remove this folder now: errors as there.
status check_claimed(const std::filesystem::path& folder, const claim& ours);

/// Removes a folder of which `ours` claims everything (OWN-1 to OWN-4); an empty one is removed
/// whatever is claimed. Errors: not_found; permission, naming what is not ours; io.
status remove_claimed(const std::filesystem::path& folder, const claim& ours);

/// Removes a folder by the mark that it carries. Errors: as remove_claimed's, and permission where
/// there is no mark of this kind.
status remove_owned(const std::filesystem::path& folder, folder_kind kind);

/// Removes a folder in which there is nothing. Errors: as remove_claimed's.
status remove_empty(const std::filesystem::path& folder);

/// Removes one name in a folder marked as scratch, with all in it; success where there is none.
status remove_from_scratch(const std::filesystem::path& folder, const std::string& name);

/// Removes `name` while it leads to what `fd` has open (OWN-5); success where it leads elsewhere
/// or nowhere. Error io.
status remove_own_file(const std::filesystem::path& name, int fd);

/// Removes a control group (OWN-6); success where there is none. Errors: not_ours where it is
/// something else; io.
status remove_control_group(const std::filesystem::path& group);

/// What lies in a folder, as far as a claim cares.
struct folder_item {
  enum class type : uint8_t { file, folder, other };
  std::string name;
  type what = type::file;
  bool operator==(const folder_item&) const = default;
};

/// The names to remove, in order, the mark last (OWN-4); permission naming what `ours` does not
/// claim (OWN-1). Pure.
result<std::vector<std::string>> removal_order(std::span<const folder_item> all, const claim& ours);

/// Whether the name at this place of the order is the first that tells whose the others are: those
/// before it must be durably gone by then (OWN-4).
bool begins_to_forget(std::span<const std::string> order, size_t place, const claim& ours);

/// A temporary folder that goes with all in it when this goes.
class scratch_folder {
 public:
  /// Makes `parent`/`prefix`XXXXXX. Error io.
  static result<scratch_folder> make(const std::filesystem::path& parent, std::string_view prefix);
  scratch_folder(scratch_folder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  scratch_folder& operator=(scratch_folder&& other) noexcept;
  ~scratch_folder();

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Leaves it where it is; a person wants to read it.
  void keep() noexcept { path_.clear(); }

 private:
  explicit scratch_folder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;  ///< empty: none
};

}  // namespace troupe::io

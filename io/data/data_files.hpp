// Which files a name in data.path stands for: a file, a folder, a pattern ("shards/train_*.bin") or
// what Megatron calls a dataset (a path without the .bin and .idx of its two files).
//
// Invariants
//   DFL-1  The files and their order depend on names alone: of a folder recursively, by path,
//     without hidden entries and links to folders; of a pattern by path. A file that bears a
//     pattern's name is that file.
//   DFL-2  A name that stands for nothing is an error.
//   DFL-3  A pattern that no file has stands for the Megatron datasets that have it.
#pragma once

#include <filesystem>
#include <vector>

#include "io/base/error.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

inline constexpr error_kind<std::string_view> no_file_matches{
    "no_file_matches", errc::not_found, "no file matches {}",
    "patterns know *, ? and [...], and no folders below"};
/// Folders, and patterns, of which nothing is to be trained on.
inline constexpr error_kind<std::string_view> no_text_found{
    "no_text_found", errc::bad_data, "no text file was found in {}",
    "name files of text or JSON, or folders that hold some; hidden files are not read"};
/// A folder whose files are named as parts of a dataset, one of them to measure by.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> several_splits{
    "several_splits", errc::bad_data, "{0} has {1} and {2}, expected training data alone",
    "name each apart, e.g. data.path = \"{0}/{1}\", data.validation_path = \"{0}/{2}\""};

/// A folder of token files that say what they are, and of files to be tokenised.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> tokens_and_text{
    "tokens_and_text", errc::bad_data, "{0} has tokens ({1}) and text ({2}), expected one kind",
    "name the files or a pattern: data.path = \"{0}/*.bin\""};

/// The files of one name, and whether it was a folder.
struct data_files {
  std::vector<std::filesystem::path> files;
  bool of_folder = false;
};

/// Errors: no_file_matches; those of reading a folder. A name of one file is not looked at.
result<data_files> data_files_of(const std::filesystem::path& name);

/// Why a name of data could not be read, with what to do about it where the error itself does not
/// say so: of a file that is not there, and of what is no file at all.
error of_data_name(const std::filesystem::path& name, error why);

/// Refuses a folder's files where some are named as training data and some as data to measure by
/// (train.bin and val.bin): several_splits.
status check_one_split(const std::filesystem::path& folder,
                       const std::vector<std::filesystem::path>& files);

/// Megatron's pair of that name (the path itself, or with .bin or .idx): the .idx, where it is
/// there and begins as one; else nothing.
std::filesystem::path megatron_index_of(const std::filesystem::path& name);

/// Whether a name stands for token files: by what files hold and by their names. A folder does
/// where some file says that it holds tokens, or where those that may are longer than its texts;
/// that both are in it is told where it is opened (tokens_and_text).
bool names_tokens(const std::filesystem::path& name);

}  // namespace troupe::io

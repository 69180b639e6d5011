// What `troupe ckpt` does, a function per verb; ckpt.cpp knows the command line, these do not.
//
// CKPT is a checkpoint's folder, or a folder of checkpoints or of a run: then its newest complete
// one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "io/base/result.hpp"
#include "io/checkpoint/retention.hpp"

namespace troupe::apps::ckpt {

/// What the person typed; each verb uses some of it.
struct arguments {
  std::string path;   ///< CKPT, or a folder
  std::string other;  ///< of diff
  std::string out;    ///< of export and import
  std::string dtype = "auto";
  std::string job;
  std::string by = "person";  ///< of hold and release
  std::string reason;
  uint64_t max_shard_mb = 5000;
  uint32_t slot_mb = 8;
  unsigned threads = 0;
  bool all = false;
  bool dry_run = false;
  bool json = false;
  bool break_lock = false;
  bool force = false;  ///< of export: over what is there
  io::checkpoint::retention rules;
};

/// The folder of checkpoints that a person means, who may name the run's.
std::filesystem::path checkpoints_at(const std::filesystem::path& path);
/// The checkpoint a person means. Errors: not_found with a hint.
result<std::filesystem::path> find(const std::string& path);

/// `ls DIR`: every checkpoint and leftover.
result<int> list(const arguments& a);
/// `show CKPT`: what its manifest says.
result<int> show(const arguments& a);
/// `verify CKPT`: reads every byte; 65 with the damaged places.
result<int> verify(const arguments& a);
/// `diff A B`: 0 if they are equal, 1 if they differ.
result<int> diff(const arguments& a);
/// `export CKPT --safetensors DIR`. Over an earlier export only where that is said; over anything
/// else never.
result<int> export_model(const arguments& a);
/// `import DIR --out DIR`: a Hugging Face folder as step 0, moments zero. The folder of checkpoints
/// is locked meanwhile, as by a job.
result<int> import_model(const arguments& a);
/// `hold CKPT --reason TEXT [--by NAME]`: retention keeps it until it is released.
result<int> hold(const arguments& a);
/// `release CKPT [--by NAME]`.
result<int> release(const arguments& a);
/// `gc DIR [--dry-run]`. The folder is locked while something is removed, as by a job.
result<int> collect(const arguments& a);

/// What the verbs print as JSON: the version of its form, and the text.
inline constexpr int json_format = 1;
std::string text_of(const nlohmann::ordered_json& j);

/// "2026-01-31 23:59:59" UTC; "-" for 0.
std::string time_text(uint64_t ms_since_1970);

}  // namespace troupe::apps::ckpt

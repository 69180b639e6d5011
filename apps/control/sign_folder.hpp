// The folder of signs: small files by which processes of this user on this machine find each other,
// <XDG_RUNTIME_DIR or /tmp/troupe-UID>/troupe/<pid>.<kind>. Clusters leave signs of kind json
// (meeting_point.hpp), power budgets those of kind power (apps/power/budget_sign.hpp).
//
// Invariants
//   MP-1  The folder belongs to this user and nobody else may write to it, or it is not used.
//   MP-2  A file whose process is gone stands for nothing; it is removed when met, and so is what a
//     process that was killed left of its writing.
//   MP-3  XDG_RUNTIME_DIR counts where it is a folder of this user: schedulers, su and containers
//     hand on that of a session that is elsewhere, or another's.
//   MP-4  What a sign holds beside its pid is text, or a list of it, and its pid is the number of a
//     process; a file that is anything else stands for nothing and is left alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/base/result.hpp"

namespace troupe::apps {

/// The folder of signs, made if need be. Errors: permission where it is not this user's own (MP-1);
/// io.
result<std::filesystem::path> own_sign_folder();

/// The same, and the same errors, but nothing is made.
result<std::filesystem::path> look_for_sign_folder();

/// Leaves a file for as long as it lives.
class sign_file {
 public:
  /// `kind`: ".json". A sign that cannot be put up is a remark, not a failure: `lost` is what it
  /// says then.
  sign_file(int pid, std::string_view kind, const nlohmann::ordered_json& sign,
            std::string_view lost);
  ~sign_file();
  sign_file(const sign_file&) = delete;
  sign_file& operator=(const sign_file&) = delete;

 private:
  std::filesystem::path path_;
};

/// The signs of a kind whose processes live (MP-2), of those that have a pid and this key (MP-4).
std::vector<nlohmann::json> living_signs(std::string_view kind, std::string_view key);

/// Whether a sign's address is this host and port; all names of this machine are one.
bool is_at(const std::string& address, const std::string& host, uint16_t port);

/// As an absolute path; an empty one stays empty.
std::string absolute_path(const std::string& path);

}  // namespace troupe::apps

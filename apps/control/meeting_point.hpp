// Where a running cluster of this user is to be found on this machine: `up` leaves a small file,
// the tools read it.
//
//   <XDG_RUNTIME_DIR or /tmp/troupe-UID>/troupe/<pid>.json
//     {"job": ..., "pid": ..., "address": "127.0.0.1:4242", "output": ...,
//      "ca": ..., "certificate": ..., "key": ..., "secret": ...}
//
// Invariants
//   MP-1  The folder belongs to this user and nobody else may write to it, or it is not used.
//   MP-2  A file whose process is gone is no cluster; it is removed when met, and so is what a
//     process that was killed left of its writing.
//   MP-3  XDG_RUNTIME_DIR counts where it is a folder of this user: schedulers, su and containers
//     hand on that of a session that is elsewhere, or another's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster/network.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// A cluster that runs here.
struct meeting_point {
  std::string job;
  int pid = 0;
  std::string address;  ///< "127.0.0.1:4242"
  std::string output;   ///< the job's folder
  std::string secret;   ///< the file with the job's secret; empty: it has certificates, or none
  cluster::network_options network;
};

/// The folder of signs, made if need be. Errors: permission where it is not this user's own (MP-1);
/// io.
result<std::filesystem::path> own_sign_folder();

/// The same, and the same errors, but nothing is made.
result<std::filesystem::path> look_for_sign_folder();

/// Leaves the file for as long as it lives.
class meeting_sign {
 public:
  /// A sign that cannot be put up is a remark, not a failure: --connect still works.
  explicit meeting_sign(const meeting_point& here);
  ~meeting_sign();
  meeting_sign(const meeting_sign&) = delete;
  meeting_sign& operator=(const meeting_sign&) = delete;

 private:
  std::filesystem::path path_;
};

/// The clusters of this user on this machine.
std::vector<meeting_point> meeting_points();

/// The only one of them, or the only one of that name. Errors: not_found; usage where several fit.
result<meeting_point> the_meeting_point(const std::string& job);

/// The one of them that is reached at this host and port, if any.
std::optional<meeting_point> meeting_point_at(const std::string& host, uint16_t port);

}  // namespace troupe::apps

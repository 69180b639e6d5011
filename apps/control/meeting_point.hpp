// Where a running cluster of this user is to be found on this machine: `up` leaves a small file,
// the tools read it.
//
//   <XDG_RUNTIME_DIR or /tmp/troupe-UID>/troupe/<pid>.json
//     {"job": ..., "pid": ..., "address": "127.0.0.1:4242", "output": ...,
//      "ca": ..., "certificate": ..., "key": ...}
//
// Invariants
//   MP-1  The folder belongs to this user and nobody else may write to it, or it is not used.
//   MP-2  A file whose process is gone is no cluster; it is removed when met, and so is what a
//     process that was killed left of its writing.
#pragma once

#include <filesystem>
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
  cluster::network_options network;
};

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

}  // namespace troupe::apps

// Where a running cluster of this user is to be found on this machine: `up` leaves a small file,
// the tools read it.
//
//   <XDG_RUNTIME_DIR or /tmp/troupe-UID>/troupe/<pid>.json
//     {"job": ..., "pid": ..., "address": "127.0.0.1:4242", "output": ...,
//      "ca": ..., "certificate": ..., "key": ..., "secret": ...}
//
// What holds of all signs: sign_folder.hpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/cluster/network.hpp"
#include "apps/control/sign_folder.hpp"
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

/// Leaves the file for as long as it lives.
class meeting_sign {
 public:
  /// A sign that cannot be put up is a remark, not a failure: --connect still works.
  explicit meeting_sign(const meeting_point& here);

 private:
  sign_file file_;
};

/// The clusters of this user on this machine.
std::vector<meeting_point> meeting_points();

/// The only one of them, or the only one of that name. Errors: not_found; usage where several fit.
result<meeting_point> the_meeting_point(const std::string& job);

/// The one of them that is reached at this host and port, if any.
std::optional<meeting_point> meeting_point_at(const std::string& host, uint16_t port);

}  // namespace troupe::apps

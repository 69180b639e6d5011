// The secret of a job without certificates: who holds it, or a key made of it, is let in
// (io/tls/keyring.hpp). It stands beside the meeting point, in a file of this user alone.
//
//   <XDG_RUNTIME_DIR or /tmp/troupe-UID>/troupe/<job>-<hash of its output folder>.secret
//
// Invariants
//   SEC-1  The same job finds the same secret after a restart of its launcher, so that keys that
//     were handed out stay good; a job that is done has none, also where a head that stands by has
//     come too late and made it one.
//   SEC-2  The secret is in files of mode 0600, in pipes and in the sockets between a launcher and
//     its head, never in arguments, environments or logs.
//   SEC-3  Of several heads that begin at the same time, on one machine or on several that share
//     the folder, one makes the secret, and all have it.
#pragma once

#include <filesystem>
#include <string>

#include "io/base/result.hpp"
#include "io/tls/keyring.hpp"

namespace troupe::apps {

class job_secret {
 public:
  /// Takes up the job's secret, or makes one. Errors: permission where the folder or the file is
  /// open to others, bad_data where the file is no secret, io.
  static result<job_secret> open(const std::string& job, const std::filesystem::path& output);

  /// Whether open() would succeed, by a look that makes nothing. Errors: the same.
  static status check(const std::string& job, const std::filesystem::path& output);

  const tls::job_key& key() const noexcept { return key_; }
  const std::filesystem::path& file() const noexcept { return file_; }

  /// No such file was there: this process has made it.
  bool is_made_here() const noexcept { return made_here_; }

  /// Removes the file (SEC-1).
  void job_is_done();

 private:
  job_secret(std::filesystem::path file, tls::job_key key, bool made_here)
      : file_(std::move(file)), key_(std::move(key)), made_here_(made_here) {}

  std::filesystem::path file_;
  tls::job_key key_;
  bool made_here_;
};

}  // namespace troupe::apps

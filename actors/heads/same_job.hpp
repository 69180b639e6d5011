// What all heads of a job must have alike: its settings, but for those that are of a machine
// (where it listens, its certificates, its cache), of what is printed, or of one launch. Each says
// a digest of them; the head that acts says the settings themselves to one whose digest is another.
//
// Invariants
//   SMJ-1  Two configurations have one digest exactly where no setting that counts differs, tables
//     of lists (nodes, rules, drills) included; by chance once in 2^32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::heads {

/// A standby has another configuration than the head that acts, and how they differ.
inline constexpr error_kind<std::string_view, std::string_view> another_configuration{
    "another_configuration", errc::bad_config,
    "the head at {0} acts with another configuration: {1}",
    "start all heads of a job with the same file and --set"};

class shared_settings {
 public:
  /// None: they are not compared.
  shared_settings() = default;
  explicit shared_settings(const config::job& job);

  /// 0: there are none.
  uint32_t digest() const noexcept { return digest_; }
  /// "key = value", sorted.
  const std::vector<std::string>& lines() const noexcept { return lines_; }
  /// The error of one that has these, where the head at `address` acts with those.
  error differ_from(std::vector<std::string> those, std::string_view address) const;

 private:
  std::vector<std::string> lines_;
  uint32_t digest_ = 0;
};

}  // namespace troupe::heads

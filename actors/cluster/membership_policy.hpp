// Who may join: a node that the configuration names, speaks our language, and is not here already.
//
// Pure: it is handed what a node says of itself and answers with a place or a reason.
//
// Invariants
//   MEM-1  A place is taken by one live node at most. One whose node has left is free for another
//     process of that name, which gets ranks in a later epoch only.
//   MEM-2  A node of other message schemas never gets a place: its messages would not verify.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::cluster {

/// What a node says when it knocks.
struct applicant {
  std::string name;
  uint64_t schema_hash = 0;
  std::string program_version;
  std::string instance_id;  ///< differs between any two processes
  uint32_t epoch = 0;       ///< 0: new
};

/// Why a node may not join.
inline constexpr error_kind<std::string_view, std::string_view, uint64_t, std::string_view,
                            uint64_t>
    other_build{"other_build", errc::version_mismatch,
                "node {} runs version {} (schemas {:016x}), the coordinator {} ({:016x})",
                "install the same build of troupe on every host"};
inline constexpr error_kind<std::string_view, uint32_t, uint32_t> from_newer_epoch{
    "from_newer_epoch", errc::version_mismatch, "node {} comes from epoch {}, this is epoch {}",
    "the coordinator it should join is a newer one"};
inline constexpr error_kind<std::string_view, std::string_view> node_not_named{
    "node_not_named", errc::not_found, "no node is called {0}", "the configuration names: {1}"};
inline constexpr error_kind<std::string_view> node_here_already{
    "node_here_already", errc::unavailable, "node {} is here already",
    "stop the other process, or give this one another name"};
inline constexpr error_kind<std::string_view> process_here_already{
    "process_here_already", errc::unavailable, "this process has joined as {} already"};

class membership_policy {
 public:
  /// `open`: a scheduler starts the nodes and names them; an unknown name takes the first free
  /// place.
  membership_policy(std::vector<std::string> names, uint64_t schema_hash, std::string version,
                    uint32_t epoch, bool open = false)
      : names_(std::move(names)),
        present_(names_.size()),
        open_(open),
        schema_hash_(schema_hash),
        version_(std::move(version)),
        epoch_(epoch) {}

  /// The node's index in the cluster, or why not: the kinds above; unavailable where it is full.
  result<uint32_t> admit(const applicant& who);

  /// A node that was refused for another reason.
  void note_refused() noexcept { ++refused_; }

  /// A node has gone.
  void leave(const std::string& name);
  /// Another epoch begins; those who are here stay.
  void live_in(uint32_t epoch) noexcept { epoch_ = epoch; }

  /// Names still missing, in order.
  std::vector<std::string> missing() const;
  /// The index of a name; none where it is not known.
  std::optional<uint32_t> index_of(std::string_view name) const;
  /// By index: as configured, or as the last process there called itself.
  const std::vector<std::string>& names() const noexcept { return names_; }
  uint64_t refused() const noexcept { return refused_; }

 private:
  result<uint32_t> decide(const applicant& who) const;

  std::vector<std::string> names_;
  std::vector<std::optional<std::string>> present_;  ///< instance id
  bool open_;
  uint64_t schema_hash_;
  std::string version_;
  uint32_t epoch_;
  uint64_t refused_ = 0;
};

}  // namespace troupe::cluster

// The medic of a node: examines its machine when it is asked to, exchanges bytes with other nodes
// over the cluster's own links, and forms groups with them over the data plane.
//
// Why an actor of its own, detached: an examination takes seconds, and everything of it blocks.
//
// Invariants
//   MED-1  One examination at a time: it has one thread, and no message is handled meanwhile.
//   MED-2  It does nothing unless it is asked to.
//   MED-3  An examination ends early when its node does.
//   MED-4  Exchanges are bounded: at most 64 of at most 256 KiB, in at most defaults::pair_budget;
//     then what came back so far is the report. One pair or group that it leads is under way,
//     another one is refused.
//   MED-5  It does nothing for who has gone: what waited in its mailbox for longer than `doctor`
//     waits for an answer is refused.
//   MED-6  A group of a test has at most known_sum::most_members members and is formed for a
//     moment: an end that nobody comes to is closed after defaults::group_patience, and an end that
//     is opened takes the place of the one before.
//   MED-7  Who takes no part because it does something else accuses nobody: the test is refused
//     (member_absent). Who took part and did not come to the end is told as that.
//
// Failure policy: done without. Its node hears of its death and says so.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/health/checkup.hpp"
#include "actors/health/pair_policy.hpp"
#include "actors/health/test_group.hpp"
#include "io/base/error_kind.hpp"
#include "messages/actors.hpp"

namespace troupe::health {

/// The bytes of an exchange, and how many of them at most.
inline constexpr size_t pair_bytes = 256 << 10;
inline constexpr uint32_t most_exchanges = 64;

/// Its state while it hears nothing else.
inline constexpr std::string_view examining = "examining";

/// A node that is asked for its own link to itself.
inline constexpr error_kind<std::string_view> same_node{
    "same_node", errc::usage, "node {} cannot exchange bytes with itself"};

/// Another pair is under way.
inline constexpr error_kind<std::string_view> exchange_under_way{
    "exchange_under_way", errc::unavailable, "bytes are exchanged with node {} already",
    "try again in some seconds"};
/// Not one exchange was answered.
inline constexpr error_kind<std::string_view, int64_t> nothing_came_back{
    "nothing_came_back", errc::timeout, "nothing came back from node {} within {} ms"};
/// What came in between takes the medic's thread.
inline constexpr error_kind<std::string_view> exchange_interrupted{
    "exchange_interrupted", errc::cancelled, "the machine of node {} was to be examined meanwhile"};
/// Who asked waits no more.
inline constexpr error_kind<int64_t> nobody_waits{
    "nobody_waits", errc::timeout, "it was asked for {} ms ago, nobody waits for it any more"};
/// The members of a group are not such that there could be one.
inline constexpr error_kind<std::string_view, size_t> invalid_group{
    "invalid_group", errc::usage,
    "invalid members of a group: {}, expected 2 to {} nodes, each once, first who is asked"};
/// A member has no time for it (MED-7).
inline constexpr error_kind<std::string_view, std::string_view> member_absent{
    "member_absent", errc::unavailable, "node {} takes no part in the group: {}",
    "try again in some seconds"};
/// An end was closed meanwhile: its time was over, or another test took its place (MED-6).
inline constexpr error_kind<std::string_view> no_such_end{
    "no_such_end", errc::unavailable, "no end of group {} is open here"};

struct medic_options {
  std::string node;
  uint32_t epoch = 0;
  coordinator_actor coordinator = {};  ///< knows where other nodes are
  examiner examine = {};
  std::stop_token stop = {};
  std::string host = "127.0.0.1";  ///< address that its ends of groups listen at
  group_opener open_group = {};    ///< in place of the data plane's, for tests
};

/// An exchange with another node that is under way.
struct pair_under_way {
  caf::typed_response_promise<msg<fbs::PairReport>> promise;
  message_header cause;
  node_actor peer;
  fbs::PairReportT report;
  uint32_t words = 0, pieces = 0;  ///< small and large exchanges, in all
  exchange_times took;
  int64_t begun_ns = 0, sent_ns = 0;
  std::vector<uint8_t> bytes;
};

/// The test of a group that this medic leads.
struct group_under_way {
  caf::typed_response_promise<msg<fbs::GroupReport>> promise;
  message_header cause;
  std::vector<std::string> names;  ///< by rank, from 0: the own
  std::vector<node_actor> nodes;   ///< those of rank 1 and above
  std::string group;
  uint32_t rounds = 1;
  int64_t begun_ns = 0;
  std::vector<fbs::TestGroupEndT> ends;  ///< by rank
  std::vector<fbs::GroupMemberT> members;
  std::optional<error> refused;  ///< of the first member that takes no part (MED-7)
};

struct medic_state {
  static inline const char* name = "medic";
  medic_options options;
  uint64_t examined = 0;
  std::shared_ptr<pair_under_way> pair = {};
  std::shared_ptr<group_under_way> led = {};
  std::unique_ptr<test_group> end = {};  ///< that listens (MED-6)
  int64_t opened_ns = 0;
  std::unique_ptr<known_sum> numbers = {};  ///< from the first group on
};
using medic_pointer = traced_pointer<medic_actor, medic_state>;

medic_actor::behavior_type medic(medic_pointer self, medic_options options);

}  // namespace troupe::health

// The medic of a node: examines its machine when it is asked to, and exchanges bytes with other
// nodes over the cluster's own links.
//
// Why an actor of its own, detached: an examination takes seconds, and everything of it blocks.
//
// Invariants
//   MED-1  One examination at a time: it has one thread, and no message is handled meanwhile.
//   MED-2  It does nothing unless it is asked to.
//   MED-3  An examination ends early when its node does.
//   MED-4  Exchanges are bounded: at most 64 of at most 256 KiB, one under way.
//
// Failure policy: done without. Its node hears of its death and says so.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/health/checkup.hpp"
#include "io/base/error_kind.hpp"
#include "messages/actors.hpp"

namespace troupe::health {

/// The bytes of an exchange, and how many of them at most.
inline constexpr size_t pair_bytes = 256 << 10;
inline constexpr uint32_t most_exchanges = 64;

/// A node that is asked for its own link to itself.
inline constexpr error_kind<std::string_view> same_node{
    "same_node", errc::usage, "node {} cannot exchange bytes with itself"};

struct medic_options {
  std::string node;
  uint32_t epoch = 0;
  coordinator_actor coordinator = {};  ///< knows where other nodes are
  examiner examine = {};
  std::stop_token stop = {};
};

/// An exchange with another node that is under way.
struct pair_under_way {
  caf::typed_response_promise<msg<fbs::PairReport>> promise;
  message_header cause;
  node_actor peer;
  fbs::PairReportT report;
  uint32_t words = 0, pieces = 0;  ///< small and large exchanges that are left
  std::vector<double> took_us;     ///< of the small ones
  int64_t begun_ns = 0, sent_ns = 0, pieces_ns = 0;
  std::vector<uint8_t> bytes;
};

struct medic_state {
  static inline const char* name = "medic";
  medic_options options;
  uint64_t examined = 0;
};
using medic_pointer = traced_pointer<medic_actor, medic_state>;

medic_actor::behavior_type medic(medic_pointer self, medic_options options);

}  // namespace troupe::health

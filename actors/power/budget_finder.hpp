// Finds the power budget above a pacer or a budget, proves this process there, and connects to it.
//
// Why an actor beside whom it finds it for: it reads files and waits for the network, which its
// thread may; and what it comes to is a message, so that a recording of a pacer holds how the
// budget above its job was reached.
//
// Messages: FindBudget from its owner, answered with BudgetFound and the budget's handle;
// LeaveBudget, once a link has ended. It ends with its owner.
//
// Invariants
//   PPL-2  A process proves itself as the child before it connects, and connects to where it found
//     the budget last. The proof ends with the link: the port may be another's next.
//   PPL-5  Over certificates only who has one of role power is heard as the budget: any other
//     process of the same authority is none.
//
// Failure policy: without it no budget is reached; what is leased lapses (parent_link.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include "actors/base/traced.hpp"
#include "io/base/result.hpp"
#include "io/tls/keyring.hpp"
#include "messages/actors.hpp"

namespace troupe::power {

/// Where a budget is, and how its child proves itself to it.
struct budget_parent {
  std::string name;  ///< empty: it is not known before it answers
  std::string host;
  uint16_t port = 0;
  std::optional<tls::proof> proof;  ///< none: by the certificate of this process
};

struct finder_options {
  std::string child = {};  ///< the owner's name there
  /// Reads small files, each time that it is to be connected.
  std::function<result<budget_parent>()> find;
  /// Told before a connection to the port that a proof is for: the child proves itself so there,
  /// for as long as what is returned is kept.
  std::function<std::shared_ptr<const void>(uint16_t port, const tls::proof& who)> prove;
  /// Makes connections: understands connect_atom as CAF's middleman does.
  std::function<caf::actor(caf::actor_system&)> connector;
};

struct finder_state {
  static inline const char* name = "finder";
  finder_options options;
  std::shared_ptr<const void> proof;  ///< PPL-2
};
using finder_pointer = traced_pointer<finder_actor, finder_state>;

/// Spawn it detached.
finder_actor::behavior_type budget_finder(finder_pointer self, finder_options options);

}  // namespace troupe::power

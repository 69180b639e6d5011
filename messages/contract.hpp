// The contracts of actors as code reads them: the rpc_services of the schemas. Who may send a
// message, whether it is answered, how long its sender waits, whether it overtakes others, of which
// epoch it must be, and what the death of its receiver means stand there and nowhere else.
//
// Invariants
//   CON-1  Every handle of messages/actors.hpp has a service, and the two say the same: the same
//     messages, answers and handles beside them (tests/messages/contract_test.cpp).
//   CON-2  A message has one audience: all calls that take it say the same of it. What no call
//     takes (answers) is a node's.
//   CON-3  A message that carries another (CallActor) is for readers only where it carries a
//     question of readers: whatever else it carries is given by an actor of the cluster, whom
//     nobody asks for his role. Unreadable, it is for nobody but nodes.
//   CON-4  What nodes say to each other is never carried, whoever asks for it: such messages name
//     files and folders, and the actors that take them believe them.
//   CON-5  A call that is answered has a finite timeout.
//   CON-6  What peers of role power may say nobody else may but nodes, and they may say nothing
//     else: it is not on the line from readers to nodes. Where calls say different things of a
//     message, one of them power, it is a node's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "messages/any_msg.hpp"

namespace troupe {

struct message_info;

/// Who may send a message: readers, operators and nodes from the most to the fewest, and beside
/// that line jobs to their power budget (CON-6).
enum class audience : uint8_t {
  reader,     ///< whoever has a certificate: it changes nothing but what its sender sees
  operator_,  ///< operators: it changes the run, a process or a file
  node,       ///< processes of the cluster: what they say to each other
  power,      ///< jobs that a power budget grants watts to
};

/// Of which epoch a message must be.
enum class epoch_rule : uint8_t {
  present,    ///< its receiver's
  if_given,   ///< its receiver's or 0: persons and launchers live in none
  not_older,  ///< its receiver's, or a newer one, which its handler makes the receiver's (live_in)
  any,        ///< whichever
};

/// What the death of an actor means to the others.
enum class death : uint8_t {
  without,    ///< they do without it
  node_lost,  ///< its node ends: that event of the job's table
  run_ended,  ///< the cluster ends
};

/// One thing that may be said to an actor and what it answers (an entry of an rpc_service).
struct call_info {
  std::string service;  ///< "Stage"
  std::string name;     ///< "Step"
  const message_info* request = nullptr;
  const message_info* response = nullptr;   ///< nullptr: it is not answered
  audience from = audience::node;           ///< who may send it
  epoch_rule epoch = epoch_rule::present;   ///< of which epoch it must be
  uint32_t timeout_ms = 0;                  ///< after this the caller gives up; 0: not answered
  int timeout_key = -1;                     ///< of timeout_keys(): the key that replaces timeout_ms
  bool high_priority = false;               ///< overtakes queued messages
  std::vector<std::string> handles;         ///< what travels beside it: "stage", or "stage..."
  std::vector<std::string> answer_handles;  ///< the same of the answer
  std::string doc;                          ///< its sentence
};

/// The contract of one kind of actor.
struct service_info {
  std::string name;  ///< "Stage"
  std::string kind;  ///< "stage": the actor's name in CAF and on the registry
  death on_death = death::without;
  std::string doc;
  std::vector<call_info> calls;  ///< without those of Component, which every actor takes
};

/// All services, by name; Component is one of them.
std::span<const service_info> all_services();

/// The service of a kind of actor ("stage"); nullptr where it has none.
const service_info* find_service(std::string_view kind);

/// The call of a service with this request, or Component's; nullptr where neither takes it.
const call_info* find_call(std::string_view service, uint16_t request);

/// As above, of a kind of actor ("stage").
const call_info* find_call_of(std::string_view kind, uint16_t request);

/// The keys of the configuration that replace timeouts, e.g. "timeouts.step_s".
std::span<const std::string> timeout_keys();

/// Who may send messages of a type (CON-2).
audience audience_of(uint16_t type);

/// Who may send a message that two calls take which say this of it (CON-2, CON-6).
audience stricter_of(audience a, audience b) noexcept;

/// Whether messages of a type answer a call for peers of role power: a power budget sends them to a
/// job, which takes nothing else from it.
bool answers_power(uint16_t type);

/// Whether messages of a type only ask: readers may send them, they are answered, and no handle
/// travels beside them or their answers.
bool is_question(uint16_t type);

/// Who may send this message (CON-3). It must not be empty.
audience audience_of(const any_msg& m);

/// Whether a CallActor may carry a message (CON-4); the reason where it may not (permission).
status may_be_carried(const any_msg& inner);

/// What a CallActor carries, itself for all others; empty where it cannot be read.
any_msg carried_by(const any_msg& m);

/// "reader", "operator", "node" or "power".
std::string_view to_string(audience who);

}  // namespace troupe

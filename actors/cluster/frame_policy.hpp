// What may come over one connection between two processes: CAF's frames (BASP), judged before CAF
// acts on them.
//
// Why: CAF 0.17.6 trusts every peer. A frame without a payload where it wants one ends the process,
// a length is believed up to 4 GiB, and whoever is connected may speak for any other process, end
// any actor and forward to any host. Between the processes of a cluster that is the trust they need
// anyway; a person's tool needs none of it.
//
// Pure: it is handed the fields of a header and what was found in a payload.
//
// Invariants
//   FRM-1  Nothing passes before a handshake, and a payload is bounded before memory is taken for
//     it.
//   FRM-2  From a guest (a peer whose certificate is no node's) only this passes: its handshake,
//     heartbeats, its interest in actors of this process, the end of its own actors by an error of
//     words alone, and messages of our language from those to actors of this process. So the
//     process that a message of a guest names as its sender is the guest, whatever the guest does.
//   FRM-3  A guest never answers, but one of role power that this process has connected to: a power
//     budget. Another guest that listens where a node is looked for is an impostor.
//   FRM-4  A power budget says nothing unasked. It answers a question of an actor of this process
//     once, with one message and no handle beside it, or with an error of words alone. So it
//     answers for no node, and leads to no other process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace troupe::cluster {

/// The fields of a frame's header (BASP of CAF 0.17.6).
struct frame_header {
  enum operation_kind : uint8_t {
    server_handshake = 0,
    client_handshake = 1,
    direct_message = 2,
    routed_message = 3,
    monitor_message = 4,
    down_message = 5,
    heartbeat = 6,
  };

  uint8_t operation = 0;
  bool named_receiver = false;  ///< dest_actor is one of CAF's own, by name
  uint32_t payload_bytes = 0;
  bool response = false;  ///< of a message: answers one of ours
  uint64_t source_actor = 0;
  uint64_t dest_actor = 0;
  uint64_t request = 0;  ///< of a response: the number of what it answers
};

/// What was found in a payload.
struct frame_payload {
  bool readable = false;        ///< what is needed of it could be decoded
  bool source_is_peer = false;  ///< it names the connection's own process as its origin
  bool for_us = false;          ///< it names this process as its destination
  bool name_is_free = false;    ///< of a handshake: nobody else bears that name
  bool of_ours = false;         ///< of a message: one of our language, and nobody to pass it to
  bool of_services = false;     ///< of a message: CAF tells unasked which services it has
  bool has_handles = false;     ///< of a message of ours: handles are beside it
  bool of_error = false;        ///< of a message, or an actor's end: an error of words alone
};

/// What is to be done with a frame.
enum class frame_verdict : uint8_t {
  pass,      ///< it is CAF's
  drop,      ///< it is not wanted, and harmless
  refuse,    ///< it is dropped, and counted as a rejected message
  garbage,   ///< the connection is closed: no peer of ours says that
  impostor,  ///< the connection is closed: it speaks for another, or beyond its role
};

class frame_policy {
 public:
  /// Far above any message (max_message_bytes) with the handles beside it.
  static constexpr uint32_t max_payload_bytes = 4u << 20;
  /// Far above a handshake, which names a process and the interface of an actor.
  static constexpr uint32_t max_handshake_bytes = 64u << 10;

  /// Questions that a budget has yet to answer are remembered, the newest of them. An actor that
  /// has asked so many since waits for the oldest no more.
  static constexpr size_t remembered_questions = 64;

  /// `accepted`: the other side made the connection. `guest`: its certificate is no node's.
  /// `power`: its role is that.
  frame_policy(bool accepted, bool guest, bool power = false)
      : accepted_(accepted), guest_(guest), answers_(power && !accepted) {}

  /// An actor of this process asks the other side something.
  void asked(uint64_t actor, uint64_t request);

  /// Judges a header. What passes with a payload is judged again with that.
  frame_verdict judge(const frame_header& header) const;

  /// Judges a header that passed together with its payload.
  frame_verdict judge(const frame_header& header, const frame_payload& payload);

  /// Whether the other side has said who it is.
  bool greeted() const noexcept { return greeted_; }
  bool guest() const noexcept { return guest_; }
  bool accepted() const noexcept { return accepted_; }
  /// Whether the other side is a guest that answers (FRM-3).
  bool answers() const noexcept { return answers_; }

 private:
  struct question {
    uint64_t actor, request;
    friend bool operator==(const question&, const question&) = default;
  };

  frame_verdict of_guest(const frame_header& header) const;
  frame_verdict of_guest(const frame_header& header, const frame_payload& payload) const;

  frame_verdict of_answer(const frame_header& header, const frame_payload& payload) const;
  bool is_open(const question& one) const;

  bool accepted_, guest_, answers_, greeted_ = false;
  std::deque<question> open_;  ///< those without an answer, the newest behind
};

}  // namespace troupe::cluster

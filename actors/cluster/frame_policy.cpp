// The verdicts of frame_policy.hpp.
#include "actors/cluster/frame_policy.hpp"

#include <algorithm>

namespace troupe::cluster {

namespace {

bool is_handshake(const frame_header& h) {
  return h.operation == frame_header::client_handshake ||
         h.operation == frame_header::server_handshake;
}

}  // namespace

frame_verdict frame_policy::judge(const frame_header& h) const {
  const auto expected = accepted_ ? frame_header::client_handshake : frame_header::server_handshake;
  if (is_handshake(h)) {
    if (h.operation != expected || h.payload_bytes == 0 || h.payload_bytes > max_handshake_bytes)
      return frame_verdict::garbage;  // FRM-1
  } else if (!greeted_ || h.payload_bytes > max_payload_bytes) {
    return frame_verdict::garbage;  // FRM-1
  }
  return guest_ ? of_guest(h) : frame_verdict::pass;
}

void frame_policy::asked(uint64_t actor, uint64_t request) {
  if (!answers_) return;
  open_.push_back({actor, request});
  if (open_.size() > remembered_questions) open_.pop_front();
}

bool frame_policy::is_open(const question& one) const {
  return std::find(open_.begin(), open_.end(), one) != open_.end();
}

/// FRM-2.
frame_verdict frame_policy::of_guest(const frame_header& h) const {
  switch (h.operation) {
    case frame_header::server_handshake:
      return answers_ ? frame_verdict::pass : frame_verdict::impostor;  // FRM-3
    case frame_header::client_handshake:
    case frame_header::heartbeat:
    case frame_header::monitor_message:
    case frame_header::down_message:
      return frame_verdict::pass;
    case frame_header::direct_message:
      // CAF itself looks for services of the other side, and answers such questions.
      if (h.named_receiver) return frame_verdict::drop;
      if (h.response)  // FRM-4
        return is_open({h.dest_actor, h.request}) ? frame_verdict::pass : frame_verdict::drop;
      return h.source_actor != 0 ? frame_verdict::pass : frame_verdict::impostor;
    default:
      return frame_verdict::impostor;
  }
}

frame_verdict frame_policy::judge(const frame_header& h, const frame_payload& p) {
  if (is_handshake(h) && (!p.readable || !p.name_is_free))
    return p.readable ? frame_verdict::impostor : frame_verdict::garbage;
  const auto out = guest_ ? of_guest(h, p) : frame_verdict::pass;
  if (out != frame_verdict::pass) return out;
  if (is_handshake(h)) greeted_ = true;
  if (h.response) std::erase(open_, question{h.dest_actor, h.request});  // FRM-4: once
  return out;
}

/// FRM-4. An answer of ours names who gives it: without a name nobody would be judged by his role
/// at the mailbox.
frame_verdict frame_policy::of_answer(const frame_header& h, const frame_payload& p) const {
  const bool ours = p.of_ours && !p.has_handles && h.source_actor != 0;
  return p.readable && (ours || p.of_error) ? frame_verdict::pass : frame_verdict::refuse;
}

/// FRM-2.
frame_verdict frame_policy::of_guest(const frame_header& h, const frame_payload& p) const {
  switch (h.operation) {
    case frame_header::server_handshake:
    case frame_header::client_handshake:
      return frame_verdict::pass;
    case frame_header::monitor_message:
    case frame_header::down_message:
      if (!p.readable) return frame_verdict::garbage;
      if (!p.source_is_peer || !p.for_us) return frame_verdict::impostor;
      return h.operation == frame_header::monitor_message || p.of_error ? frame_verdict::pass
                                                                        : frame_verdict::refuse;
    case frame_header::direct_message:
      if (h.response) return of_answer(h, p);
      if (p.readable && p.of_services) return frame_verdict::drop;
      return p.readable && p.of_ours && !answers_ ? frame_verdict::pass : frame_verdict::refuse;
    default:
      return frame_verdict::impostor;
  }
}

}  // namespace troupe::cluster

// The verdicts of frame_policy.hpp.
#include "actors/cluster/frame_policy.hpp"

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

/// FRM-2.
frame_verdict frame_policy::of_guest(const frame_header& h) const {
  switch (h.operation) {
    case frame_header::client_handshake:
    case frame_header::heartbeat:
    case frame_header::monitor_message:
    case frame_header::down_message:
      return frame_verdict::pass;
    case frame_header::direct_message:
      // CAF itself looks for services of the other side, and answers such questions.
      if (h.named_receiver || h.response) return frame_verdict::drop;  // FRM-3
      return h.source_actor != 0 ? frame_verdict::pass : frame_verdict::impostor;
    default:
      return frame_verdict::impostor;
  }
}

frame_verdict frame_policy::judge(const frame_header& h, const frame_payload& p) {
  if (is_handshake(h) && (!p.readable || !p.name_is_free))
    return p.readable ? frame_verdict::impostor : frame_verdict::garbage;
  const auto out = guest_ ? of_guest(h, p) : frame_verdict::pass;
  if (is_handshake(h) && out == frame_verdict::pass) greeted_ = true;
  return out;
}

/// FRM-2.
frame_verdict frame_policy::of_guest(const frame_header& h, const frame_payload& p) const {
  switch (h.operation) {
    case frame_header::client_handshake:
      return frame_verdict::pass;
    case frame_header::monitor_message:
    case frame_header::down_message:
      if (!p.readable) return frame_verdict::garbage;
      return p.source_is_peer && p.for_us ? frame_verdict::pass : frame_verdict::impostor;
    case frame_header::direct_message:
      if (p.readable && p.of_services) return frame_verdict::drop;
      return p.readable && p.of_ours ? frame_verdict::pass : frame_verdict::refuse;
    default:
      return frame_verdict::impostor;
  }
}

}  // namespace troupe::cluster

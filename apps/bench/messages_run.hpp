// One measurement of the message benchmark: two actors, a payload, a way between them.
//
// A client keeps `window` payloads under way to an echo and counts the round trips of a span of
// time. Every payload is made anew from the same source bytes and its first and last bytes are read
// at both ends. Both kinds are treated alike; bare CAF gets its best case (the echo moves).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::bench {

/// What carries the payload.
enum class variant : uint8_t {
  msg,   ///< msg<fbs::Bytes>
  bare,  ///< a struct with a std::vector<uint8_t>, CAF's own serialisation
};

/// The way between the two actors.
enum class transport : uint8_t {
  local,     ///< both in one actor system
  loopback,  ///< two actor systems of this process over TCP on 127.0.0.1
  tls,       ///< the same with mutual TLS
};

/// "msg<T>", "bare CAF".
const char* to_string(variant c);
/// "one process", "loopback", "loopback TLS".
const char* to_string(transport t);

/// One phase's outcome.
struct sample {
  uint64_t round_trips = 0;
  double seconds = 0;               ///< wall time
  double cpu_seconds = 0;           ///< processor time of the whole process
  uint64_t page_faults = 0;         ///< minor faults of the whole process
  std::vector<int64_t> latency_ns;  ///< each round trip, only with a window of 1
};

/// A joined pair of systems (or one system) in which both variants can be measured in turn.
class arena {
 public:
  /// Errors: io and unavailable where a port cannot be had or reached; those of tls::make.
  static result<std::unique_ptr<arena>> make(transport way);
  virtual ~arena() = default;

  /// Runs round trips of `payload_bytes` for about `seconds` with `window` under way.
  virtual result<sample> run(variant what, size_t payload_bytes, size_t window, double seconds) = 0;
};

}  // namespace troupe::bench

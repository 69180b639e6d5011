// Waits and records of streams.
#include "actors/train/probe.hpp"

#include <chrono>

#include <fmt/format.h>

#include "actors/base/recorder.hpp"

namespace troupe::train {

namespace {

/// Streams keep real time in production, and there are no streams in a simulation.
int64_t stream_now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

int64_t as_ns(double ms) {
  return static_cast<int64_t>(ms * 1e6);
}

}  // namespace

std::vector<std::string> card_probe::peers_of(const operation& op) const {
  std::vector<std::string> out;
  if (op.peer >= 0) out.push_back(fmt::format("worker/{}", op.peer));
  if (op.peer == -2)  // the replicas of this stage
    for (const int other : at_.group(group_kind::data).members)
      if (other != at_.rank) out.push_back(fmt::format("worker/{}", other));
  return out;
}

uint64_t card_probe::begin(const operation& op) {
  const auto now = stream_now_ns();
  if (op.peer == -1) {
    card_.publish(op.name, fmt::format(R"({{"number":{}}})", op.number), now);
    return 0;
  }
  return card_.begin_waits(peers_of(op), fmt::format("{} {}", op.name, op.number), now);
}

void card_probe::end(const operation& op, uint64_t token, double begin_ms, double end_ms) {
  if (token != 0)
    card_.end_wait(token);
  else
    card_.publish("ready", "", stream_now_ns());
  work_note w;
  w.name = work_name(op.name);
  w.actor = card_.number();
  w.parent = op.span;
  w.trace = op.trace;
  w.number = static_cast<uint64_t>(op.number);
  w.begin_ns = as_ns(begin_ms);
  w.end_ns = as_ns(end_ms);
  w.bytes = op.bytes;
  record_work(w);
}

}  // namespace troupe::train

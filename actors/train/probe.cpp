// Waits and records of streams.
#include "actors/train/probe.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "actors/capture/recorder.hpp"
#include "messages/status_rows.hpp"

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

std::vector<std::string> stats_probe::peers_of(const operation& op) const {
  std::vector<std::string> out;
  const auto add = [&](int rank) {
    if (rank != at_.rank) out.push_back(fmt::format("worker/{}", rank));
  };
  const auto with = facts_of(op.kind).with;
  if (with == op_partner::previous) add(at_.previous().value_or(at_.rank));
  if (with == op_partner::next) add(at_.next().value_or(at_.rank));
  if (with == op_partner::replicas)
    for (const int other : at_.group(group_kind::data).members) add(other);
  return out;
}

void stats_probe::count(const operation& op, double took_ms) {
  uint64_t finished = 0;
  {
    std::lock_guard lock(mutex_);
    times_[static_cast<size_t>(op.kind)].add(took_ms);
    finished = ++finished_;
  }
  stats_.publish([&](auto& values) {
    auto& w = values_of<fbs::WorkerStatusT>(values);
    w.operations = std::max(w.operations, finished);
  });
}

double stats_probe::median_ms(const operation& op) {
  std::lock_guard lock(mutex_);
  return times_[static_cast<size_t>(op.kind)].median_ms();
}

std::string stats_probe::is_at(std::string_view what) {
  std::lock_guard lock(mutex_);
  computes_ = what;
  return std::string(what);
}

bool stats_probe::computes() {
  std::lock_guard lock(mutex_);
  return computes_ != nothing;
}

void stats_probe::waits(pipeline_op kind) {
  stats_.publish(std::string(facts_of(kind).name), stream_now_ns());
}

void stats_probe::goes_on() {
  std::unique_lock lock(mutex_);
  std::string what(computes_);
  lock.unlock();
  stats_.publish(std::move(what), stream_now_ns());
}

uint64_t stats_probe::begin(const operation& op) {
  const auto now = stream_now_ns();
  const auto& facts = facts_of(op.kind);
  if (facts.with == op_partner::none) {
    if (facts.stream == op_stream::compute)
      is_at(facts.name);
    else if (computes())
      return 0;  // PRB-1
    stats_.publish(std::string(facts.name), now);
    stats_.publish([&, median_ms = median_ms(op)](auto& values) {
      auto& w = values_of<fbs::WorkerStatusT>(values);
      w.number = op.number;
      w.median_ms = median_ms;
    });
    return 0;
  }
  return stats_.begin_waits(peers_of(op), fmt::format("{} {}", facts.name, op.number), now);
}

void stats_probe::end(const operation& op, uint64_t token, double begin_ms, double end_ms) {
  const auto& facts = facts_of(op.kind);
  if (token != 0)
    stats_.end_wait(token);
  else if (facts.stream == op_stream::compute)
    stats_.publish(is_at(nothing), stream_now_ns());
  else if (facts.with == op_partner::none && !computes())
    stats_.publish(std::string(nothing), stream_now_ns());
  count(op, end_ms - begin_ms);
  work_note w;
  w.name = work_name(facts.name);
  w.actor = stats_.number();
  w.parent = op.span;
  w.trace = op.trace;
  w.number = static_cast<uint64_t>(op.number);
  w.begin_ns = as_ns(begin_ms);
  w.end_ns = as_ns(end_ms);
  w.bytes = op.bytes;
  records_.note(w);
}

}  // namespace troupe::train

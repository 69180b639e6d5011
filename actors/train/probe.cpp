// Waits and records of streams.
#include "actors/train/probe.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
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

/// Streams of a swap folder, as of stats_probe::moving_.
constexpr std::array swap_streams{op_stream::weights_in, op_stream::state_in,  op_stream::update,
                                  op_stream::state_out,  op_stream::spill_out, op_stream::spill_in};
/// What one does with a chunk, for whoever waits for it.
constexpr std::array<std::string_view, swap_streams.size()> swap_words{"read",  "read",  "update",
                                                                       "write", "write", "read"};
/// The first of those that move activations: of a layer, which its chunk names.
constexpr size_t spill_streams = 4;

size_t swap_stream_of(pipeline_op kind) {
  const auto* at = std::find(swap_streams.begin(), swap_streams.end(), facts_of(kind).stream);
  return static_cast<size_t>(at - swap_streams.begin());
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
  if (with == op_partner::stages)
    for (const int other : at_.group(group_kind::pipeline).members) add(other);
  if (with == op_partner::ends)
    for (const int other : at_.group(group_kind::tied).members) add(other);
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

bool stats_probe::shown_by_swapper(pipeline_op kind) const {
  return swapper_ && swap_stream_of(kind) < swap_streams.size();
}

/// PRB-3. With mutex_ held, so that a counter of bytes never falls.
void stats_probe::count_swaps(const operation& op, bool begins) {
  static const auto read = work_name("read MB"), written = work_name("written MB"),
                    frames = work_name("frames being filled"), slots = work_name("slots at work");
  constexpr double mega = 1e6;
  const auto which = swap_stream_of(op.kind);
  const auto note = [&, at_ns = stream_now_ns()](uint16_t name, double value) {
    records_.note(counter_note{name, swapper_->number(), at_ns, value});
  };
  if (swap_streams[which] == op_stream::weights_in)
    note(frames, under_way_[which]);
  else if (which < spill_streams)  // a group is in one slot while it is read, updated and written
    note(slots, std::accumulate(under_way_.begin() + 1, under_way_.begin() + spill_streams, 0));
  if (begins || op.bytes == 0) return;
  if (swap_words[which] == "read") note(read, static_cast<double>(read_bytes_ += op.bytes) / mega);
  if (swap_words[which] == "write")
    note(written, static_cast<double>(written_bytes_ += op.bytes) / mega);
}

/// PRB-2. Its state is the operation that began last and goes on.
void stats_probe::swaps(const operation& op, bool begins) {
  const auto which = swap_stream_of(op.kind);
  std::lock_guard lock(mutex_);
  under_way_[which] += begins ? 1 : -1;
  moving_[which] = begins ? op.number : under_way_[which] > 0 ? moving_[which] : -1;
  std::string_view state = nothing;
  for (size_t i = 0; i < moving_.size(); ++i)
    if (moving_[i] >= 0) state = swap_words[i];
  count_swaps(op, begins);
  swapper_->publish(std::string(begins ? swap_words[which] : state), stream_now_ns());
  swapper_->publish([&](auto& values) {
    auto& s = values_of<fbs::SwapperStatusT>(values);
    s.weights_chunk = moving_[0];
    s.read_chunk = moving_[1];
    s.update_chunk = moving_[2];
    s.write_chunk = moving_[3];
    s.spill_chunk = moving_[4];
    s.fetch_chunk = moving_[5];
    if (begins) return;
    const auto word = swap_words[which];
    s.read_bytes += word == "read" ? op.bytes : 0;
    s.written_bytes += word == "write" ? op.bytes : 0;
  });
}

/// What is done with a chunk that somebody waits for: a read of it begins behind its write.
std::string_view stats_probe::swap_of(int64_t chunk, bool activations) {
  std::lock_guard lock(mutex_);
  const auto first = activations ? spill_streams : 0;
  const auto last = activations ? moving_.size() : spill_streams;
  for (size_t i = last; i-- > first;)
    if (moving_[i] == chunk) return swap_words[i];
  return "not begun";
}

void stats_probe::waits(pipeline_op kind, int64_t chunk, uint64_t under_way) {
  const auto now = stream_now_ns();
  stats_.publish(std::string(facts_of(kind).name), now);
  if (!swapper_ || chunk < 0) return;
  const bool activations = kind == pipeline_op::await_activations;
  const auto what = fmt::format("{}chunk {} ({}, {} operations under way)",
                                activations ? "the activations of " : "", chunk,
                                swap_of(chunk, activations), under_way);
  wait_ = stats_.begin_wait(swapper_->path(), what, now);
}

void stats_probe::goes_on() {
  if (const auto wait = std::exchange(wait_, 0); wait != 0) stats_.end_wait(wait);
  std::unique_lock lock(mutex_);
  std::string what(computes_);
  lock.unlock();
  stats_.publish(std::move(what), stream_now_ns());
}

uint64_t stats_probe::begin(const operation& op) {
  if (shown_by_swapper(op.kind)) {
    swaps(op, true);
    return 0;
  }
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
  if (shown_by_swapper(op.kind))
    swaps(op, false);
  else if (token != 0)
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

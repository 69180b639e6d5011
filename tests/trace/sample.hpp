// Traces made by hand: processes with clocks of their own, actors, messages, work at given times.
// Times are milliseconds of the coordinator's clock; what is written is each process's own.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "messages/registry.hpp"
#include "trace/batch.hpp"
#include "trace/timeline.hpp"
#include "trace/trace_file.hpp"

namespace troupe::trace {

inline int64_t ms(double x) {
  return std::llround(x * 1e6);
}

class trace_maker {
 public:
  struct actor {
    uint32_t process = 0, number = 0;
    uint64_t key() const { return uint64_t{process} << 32 | number; }
  };
  struct message {
    uint64_t span = 0;
  };

  /// A process whose clock shows `behind_ms` less than the coordinator's.
  uint32_t process(std::string node, double behind_ms, double bound_ms) {
    const auto number = static_cast<uint32_t>(heads_.size() + 100);
    batch_head h;
    h.process = number;
    h.node = std::move(node);
    h.host = "host-" + h.node;
    h.pid = number;
    h.offset_ns = ms(behind_ms);
    h.bound_ns = ms(bound_ms);
    h.unix_ns = h.offset_ns + 1'700'000'000'000'000'000;
    heads_[number] = h;
    return number;
  }

  actor add(uint32_t process, std::string path) {
    auto& c = contents_[process];
    auto a = std::make_unique<fbs::TracedActorT>();
    a->number = static_cast<uint32_t>(c.actors.size() + 1);
    a->path = path;
    a->kind = path.substr(0, path.find('/'));
    const auto number = a->number;
    c.actors.push_back(std::move(a));
    return {process, number};
  }

  uint64_t new_span() { return ++last_span_; }

  /// The part of the waiting that a message between processes spends on the way.
  double way_share = 0;

  /// A handled message of this type; from nobody where `from` is a default one.
  message handle(std::string type, actor from, actor to, double sent, double begin, double end,
                 uint64_t trace, uint64_t parent, uint8_t flags = 0) {
    trace_record r;
    r.begin_ns = local(to.process, begin);
    r.span = new_span();
    r.parent = parent;
    r.trace = trace;
    r.sender = from.number != 0 ? from.key() : 0;
    r.handling_s = static_cast<float>((end - begin) * 1e-3);
    r.sent_ns = local(from.number != 0 ? from.process : to.process, sent);
    const auto way = from.number != 0 && from.process != to.process ? way_share : 0.0;
    r.mailbox_s = static_cast<float>((1 - way) * std::max(0.0, begin - sent) * 1e-3);
    r.actor = to.number;
    r.bytes = 96;
    r.type = find_message(type)->id;
    r.flags = flags;
    contents_[to.process].records.push_back(r);
    return {r.span};
  }

  /// One of CAF's own messages.
  void wake(actor who, double begin, double end) {
    trace_record r;
    r.begin_ns = local(who.process, begin);
    r.handling_s = static_cast<float>((end - begin) * 1e-3);
    r.actor = who.number;
    r.flags = record_flag::system;
    contents_[who.process].records.push_back(r);
  }

  void work(const std::string& name, actor who, double begin, double end, uint64_t trace,
            uint64_t parent, uint64_t number, uint64_t span = 0, uint32_t bytes = 0) {
    auto& c = contents_[who.process];
    auto it = std::find(c.works.begin(), c.works.end(), name);
    if (it == c.works.end()) it = c.works.insert(it, name);
    trace_record r;
    r.begin_ns = local(who.process, begin);
    r.span = span != 0 ? span : new_span();
    r.parent = parent;
    r.trace = trace;
    r.sender = number;
    r.handling_s = static_cast<float>((end - begin) * 1e-3);
    r.actor = who.number;
    r.bytes = bytes;
    r.type = static_cast<uint16_t>(it - c.works.begin() + 1);
    r.kind = record_kind::work;
    c.records.push_back(r);
  }

  void counter(const std::string& name, actor who, double at, double value) {
    auto& c = contents_[who.process];
    auto it = std::find(c.works.begin(), c.works.end(), name);
    if (it == c.works.end()) it = c.works.insert(it, name);
    trace_record r;
    r.begin_ns = local(who.process, at);
    r.sender = std::bit_cast<uint64_t>(value);
    r.actor = who.number;
    r.type = static_cast<uint16_t>(it - c.works.begin() + 1);
    r.kind = record_kind::counter;
    c.records.push_back(r);
  }

  batch_content& content(uint32_t process) { return contents_[process]; }
  batch_head& head(uint32_t process) { return heads_[process]; }

  /// Everything as messages; the maker is of no use afterwards.
  std::vector<msg<fbs::TraceBatch>> batches() {
    std::vector<msg<fbs::TraceBatch>> out;
    for (auto& [number, head] : heads_) {
      auto& c = contents_[number];
      std::stable_sort(c.records.begin(), c.records.end(),
                       [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
      for (const auto& b : make_batches(head, std::move(c)))
        out.push_back(make_msg<fbs::TraceBatch>(message_context{}, b));
    }
    return out;
  }

  timeline build() {
    trace_contents all;
    batch_checker checker;
    for (const auto& b : batches()) {
      auto checked = checker.check(*b);
      REQUIRE_MESSAGE(checked, (checked ? "" : checked.error().message));
      all.records += checked->records.size();
      all.batches.push_back(std::move(*checked));
    }
    all.works = checker.works();
    return timeline::build(std::move(all));
  }

 private:
  int64_t local(uint32_t process, double at_ms) const {
    return ms(at_ms) + base_ns - heads_.at(process).offset_ns;
  }

  static constexpr int64_t base_ns = 5'000'000'000;
  std::map<uint32_t, batch_head> heads_;
  std::map<uint32_t, batch_content> contents_;
  uint64_t last_span_ = 1000;
};

/// Step 7 of two pipeline stages in two processes beside the head, one micro-batch, milliseconds:
///
///   run       RunStep sent at 0.05 and 0.06
///   worker/0  forward 0.45 to 40.45; send 40.45 to 43; ........ backward 66.5 to 96.5; update
///   worker/1  receive 41.55 to 43; forward 43.1 to 53; backward 53.1 to 66
inline trace_maker two_stage_step(double way_share = 0) {
  trace_maker m;
  m.way_share = way_share;
  const auto head = m.process("head", 0, 0), a = m.process("a", 250, 0.02),
             b = m.process("b", -4000, 0.03);
  const auto run = m.add(head, "run");
  const auto stage0 = m.add(a, "stage/0"), worker0 = m.add(a, "worker/0");
  const auto stage1 = m.add(b, "stage/1"), worker1 = m.add(b, "worker/1");
  const auto root = m.new_span();
  m.wake(run, -0.5, 0.1);
  const auto step0 = m.handle("RunStep", run, stage0, 0.05, 0.2, 0.3, root, root, 1);
  const auto step1 = m.handle("RunStep", run, stage1, 0.06, 0.25, 0.35, root, root, 1);
  // stage 0: forward
  const auto f0 = m.handle("RunOp", stage0, worker0, 0.28, 0.4, 0.46, root, step0.span, 1);
  m.work("forward", worker0, 0.45, 40.45, root, f0.span, 3);
  m.work("send_activation", worker0, 40.45, 43.0, root, f0.span, 3, 0, 4096);
  m.wake(worker0, 40.5, 40.6);
  m.handle("OpDone", worker0, stage0, 40.55, 40.7, 40.9, root, f0.span, 2);
  // stage 1: receive, forward, backward
  m.handle("ActivationReady", stage0, stage1, 40.8, 41.2, 41.4, root, step0.span);
  const auto r1 = m.handle("RunOp", stage1, worker1, 41.3, 41.5, 41.55, root, step1.span, 1);
  const auto f1 = m.handle("RunOp", stage1, worker1, 41.35, 41.55, 41.6, root, step1.span, 1);
  const auto b1 = m.handle("RunOp", stage1, worker1, 41.37, 41.6, 41.65, root, step1.span, 1);
  m.work("receive_activation", worker1, 41.55, 43.0, root, r1.span, 3, 0, 4096);
  m.work("forward", worker1, 43.1, 53.0, root, f1.span, 3);
  m.work("backward", worker1, 53.1, 66.0, root, b1.span, 3);
  m.work("send_gradient", worker1, 66.0, 66.4, root, b1.span, 3, 0, 4096);
  m.wake(worker1, 66.0, 66.1);
  m.handle("OpDone", worker1, stage1, 66.05, 66.1, 66.2, root, b1.span, 2);
  // stage 0: backward and update
  m.handle("ActivationReady", stage1, stage0, 66.15, 66.2, 66.3, root, step1.span);
  const auto r0 = m.handle("RunOp", stage0, worker0, 66.22, 66.3, 66.32, root, step0.span, 1);
  const auto b0 = m.handle("RunOp", stage0, worker0, 66.25, 66.32, 66.34, root, step0.span, 1);
  const auto u0 = m.handle("FinishStep", stage0, worker0, 66.28, 66.34, 66.36, root, step0.span, 1);
  m.work("receive_gradient", worker0, 66.32, 66.4, root, r0.span, 3, 0, 4096);
  m.work("backward", worker0, 66.5, 96.5, root, b0.span, 3);
  m.work("update", worker0, 96.5, 99.0, root, u0.span, 7);
  m.wake(worker0, 99.1, 99.2);
  m.handle("StepDone", worker0, stage0, 99.15, 99.3, 99.4, root, u0.span, 2);
  m.handle("StepDone", stage0, run, 99.35, 99.8, 100.2, root, step0.span, 2);
  m.work("step", run, 0, 100, root, 0, 7, root);
  return m;
}

}  // namespace troupe::trace

// The 1F1B schedule: its order, its memory bound, and that any mix of stages and micro-batches
// ends, whatever the order in which announcements arrive.
#include "actors/train/schedule_policy.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <string>

#include <doctest/doctest.h>

using namespace troupe::train;

namespace {

std::string text(const std::vector<scheduled_op>& ops) {
  std::string s;
  for (auto [kind, m, count] : ops) {
    s += kind == pipeline_op::forward ? 'F' : 'B';
    s += std::to_string(m) + ' ';
  }
  return s;
}

struct announcement {
  int stage, micro_batch;
  pipeline_op kind;
};

/// Runs a whole pipeline of policies; announcements between stages arrive in random order.
struct pipeline {
  pipeline(int stages, int micro_batches, bool train, unsigned seed) : random(seed) {
    for (int s = 0; s < stages; ++s) {
      policies.emplace_back(schedule_of{s, stages, micro_batches}, train);
      trace.emplace_back();
    }
  }

  void act(int s) {
    for (auto a : policies[static_cast<size_t>(s)].next()) {
      trace[static_cast<size_t>(s)].push_back(a);
      const auto releases = facts_of(a.what).releases;
      if (releases == op_partner::next && s + 1 < static_cast<int>(policies.size()))
        wire.push_back({s + 1, a.micro_batch, pipeline_op::forward});
      if (releases == op_partner::previous && s > 0)
        wire.push_back({s - 1, a.micro_batch, pipeline_op::backward});
    }
  }

  void run() {
    for (int s = 0; s < static_cast<int>(policies.size()); ++s) act(s);
    while (!wire.empty()) {
      const auto pick = std::uniform_int_distribution<size_t>(0, wire.size() - 1)(random);
      const auto a = wire[pick];
      wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(pick));
      auto& p = policies[static_cast<size_t>(a.stage)];
      CHECK((a.kind == pipeline_op::forward ? p.activation_ready(a.micro_batch)
                                            : p.gradient_ready(a.micro_batch)));
      act(a.stage);
    }
  }

  std::mt19937 random;
  std::vector<step_policy> policies;
  std::vector<std::vector<action>> trace;
  std::deque<announcement> wire;
};

}  // namespace

TEST_CASE("SCH-1: the order is 1F1B") {
  CHECK(text(one_forward_one_backward(0, 1, 3)) == "F0 B0 F1 B1 F2 B2 ");
  CHECK(text(one_forward_one_backward(0, 2, 4)) == "F0 F1 B0 F2 B1 F3 B2 B3 ");
  CHECK(text(one_forward_one_backward(1, 2, 4)) == "F0 B0 F1 B1 F2 B2 F3 B3 ");
  CHECK(text(one_forward_one_backward(0, 4, 8)) ==
        "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7 ");
  CHECK(text(one_forward_one_backward(2, 4, 2)) == "F0 F1 B0 B1 ");
  CHECK(text(one_forward_one_backward(0, 4, 1)) == "F0 B0 ");
}

TEST_CASE("SCH-1, SCH-2: every pipeline ends, each operation once, whatever the arrival order") {
  for (int stages = 1; stages <= 6; ++stages)
    for (int micro_batches = 1; micro_batches <= 9; ++micro_batches)
      for (bool train : {true, false})
        for (unsigned seed = 0; seed < 4; ++seed) {
          CAPTURE(stages);
          CAPTURE(micro_batches);
          CAPTURE(train);
          pipeline p(stages, micro_batches, train, seed);
          p.run();
          for (int s = 0; s < stages; ++s) {
            const auto& trace = p.trace[static_cast<size_t>(s)];
            CHECK(p.policies[static_cast<size_t>(s)].finished());
            CHECK(trace.back().what == pipeline_op::update);
            auto count = [&](pipeline_op k) {
              return std::count_if(trace.begin(), trace.end(), [&](auto a) { return a.what == k; });
            };
            CHECK(count(train ? pipeline_op::forward : pipeline_op::evaluate) == micro_batches);
            CHECK(count(pipeline_op::backward) == (train ? micro_batches : 0));
            CHECK(count(pipeline_op::receive_activation) == (s > 0 ? micro_batches : 0));
            CHECK(count(pipeline_op::receive_gradient) ==
                  (train && s + 1 < stages ? micro_batches : 0));
          }
        }
}

TEST_CASE(
    "SCH-3, SCH-4: a slot is never filled before it was freed, and slots bound what is in flight") {
  for (int stages = 1; stages <= 5; ++stages)
    for (int micro_batches : {1, 2, 5, 11}) {
      pipeline p(stages, micro_batches, true, 7);
      p.run();
      for (int s = 0; s < stages; ++s) {
        std::vector<bool> busy(static_cast<size_t>(p.policies[static_cast<size_t>(s)].slots()));
        CHECK(static_cast<int>(busy.size()) <= stages - s);
        for (auto a : p.trace[static_cast<size_t>(s)]) {
          const bool enters =
              s > 0 ? a.what == pipeline_op::receive_activation : a.what == pipeline_op::forward;
          const auto slot = static_cast<size_t>(a.slot);
          if (enters) {
            CHECK_FALSE(busy[slot]);
            busy[slot] = true;
          }
          if (a.what == pipeline_op::backward) busy[slot] = false;
        }
      }
    }
}

TEST_CASE("announcements that make no sense are refused, not believed") {
  step_policy first({0, 2, 2}, true);
  CHECK_FALSE(first.activation_ready(0));  // the first stage has no previous one
  CHECK_FALSE(first.gradient_ready(0));    // not forwarded yet
  first.next();
  CHECK(first.gradient_ready(0));
  CHECK_FALSE(first.gradient_ready(0));  // twice
  CHECK_FALSE(first.gradient_ready(9));
  step_policy last({1, 2, 2}, true);
  CHECK_FALSE(last.gradient_ready(0));  // the last stage has no next one
  CHECK(last.activation_ready(1));
  CHECK(last.next().empty());  // micro-batch 0 comes first
  CHECK_FALSE(last.activation_ready(-1));
  step_policy evaluating({0, 2, 2}, false);
  evaluating.next();
  CHECK_FALSE(evaluating.gradient_ready(0));
}

TEST_CASE(
    "by layer: all micro-batches in one forward and one backward, each in a slot of its own") {
  const schedule_of job{0, 1, 3, true};
  CHECK(slots_needed(job) == 3);
  step_policy training(job, true);
  CHECK(training.next() == std::vector<action>{{pipeline_op::forward, 0, 0, 3},
                                               {pipeline_op::backward, 0, 0, 3},
                                               {pipeline_op::update, 0, 0}});
  CHECK(training.finished());
  step_policy validating(job, false);
  CHECK(validating.next() ==
        std::vector<action>{{pipeline_op::evaluate, 0, 0, 3}, {pipeline_op::update, 0, 0}});
}

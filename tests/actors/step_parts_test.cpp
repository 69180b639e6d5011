// Where a step's time goes: what streams tell is in one step's parts, once.
#include "actors/train/step_clock.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <vector>

#include "messages/step_parts.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

void done(step_clock& clock, pipeline_op kind, double from_ms, double to_ms, uint64_t work = 0) {
  clock.began(kind, from_ms);
  clock.ended(kind, to_ms, work);
}

}  // namespace

TEST_CASE("STM-1: two operations of a kind at once are one time, and both works") {
  step_clock clock;
  clock.began(pipeline_op::read_state, 0);
  clock.began(pipeline_op::read_state, 1);
  clock.ended(pipeline_op::read_state, 5, 100);
  clock.ended(pipeline_op::read_state, 9, 1000);
  clock.ended(pipeline_op::read_state, 11, 5);  // never began
  const auto parts = clock.take();
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].work == 1100);
  CHECK(parts[0].busy_ms == 9);
}

TEST_CASE("STM-2: the compute stream's work and waits add up to the step") {
  step_clock clock;
  clock.begin_step(100);
  done(clock, pipeline_op::forward, 107, 110, 64);  // waited for 7
  done(clock, pipeline_op::forward, 110, 115, 64);
  done(clock, pipeline_op::backward, 118, 130, 64);  // waited for 3
  done(clock, pipeline_op::reduce_scatter, 120, 140, 4096);
  done(clock, pipeline_op::update, 141, 150, 1000);  // waited for 11
  const auto parts = clock.take();
  CHECK(parts == std::vector<step_part>{{pipeline_op::forward, 8, 7, 128},
                                        {pipeline_op::backward, 12, 3, 64},
                                        {pipeline_op::reduce_scatter, 20, 0, 4096},
                                        {pipeline_op::update, 9, 11, 1000}});
}

TEST_CASE("STM-2: what holds an operation up is no work of it") {
  step_clock clock;
  clock.begin_step(0);
  clock.began(pipeline_op::update, 0);
  clock.held_up(pipeline_op::await_copies, 4);
  clock.held_up(pipeline_op::await_copies, 2);
  clock.ended(pipeline_op::update, 10, 5);
  done(clock, pipeline_op::measure, 10, 13);
  CHECK(clock.take() == std::vector<step_part>{{pipeline_op::measure, 3, 0, 0},
                                               {pipeline_op::update, 4, 0, 5},
                                               {pipeline_op::await_copies, 0, 6, 0}});
}

TEST_CASE("STM-2: whatever a step is made of, its parts on the device add up to it") {
  std::mt19937_64 random(1);
  const auto upto = [&](int most) { return static_cast<double>(random() % (most + 1)); };
  const std::array kinds{pipeline_op::measure, pipeline_op::forward, pipeline_op::backward,
                         pipeline_op::norm,    pipeline_op::update,  pipeline_op::await_replicas};
  for (int steps = 0; steps < 1000; ++steps) {
    step_clock clock;
    const double begin_ms = upto(1000);
    double now_ms = begin_ms;
    clock.begin_step(now_ms);
    for (size_t ops = 1 + random() % 20; ops > 0; --ops) {
      const auto kind = kinds[random() % kinds.size()];
      clock.began(kind, now_ms += upto(4));
      const double held_ms = upto(3), digest_ms = upto(2);
      if (held_ms > 0) clock.held_up(pipeline_op::await_copies, held_ms);
      if (digest_ms > 0) clock.did_within(pipeline_op::digest, digest_ms, 1);
      done(clock, pipeline_op::reduce_scatter, now_ms - upto(9), now_ms + upto(9), 1);
      clock.ended(kind, now_ms += held_ms + digest_ms + upto(5), 1);
    }
    double told_ms = 0;
    for (const auto& p : clock.take())
      if (facts_of(p.kind).stream == op_stream::compute) told_ms += p.busy_ms + p.waited_ms;
    CHECK(told_ms == now_ms - begin_ms);
  }
}

TEST_CASE("step parts: what a device computes is counted on, and waits and transfers are not") {
  step_clock clock;
  CHECK(clock.computed_us() == 0);
  clock.begin_step(100);
  done(clock, pipeline_op::forward, 107, 110, 64);
  done(clock, pipeline_op::reduce_scatter, 110, 140, 4096);
  done(clock, pipeline_op::await_weights, 140, 145);
  done(clock, pipeline_op::await_replicas, 145, 150);
  clock.began(pipeline_op::update, 150);
  clock.held_up(pipeline_op::await_copies, 4);
  clock.ended(pipeline_op::update, 160, 5);
  CHECK(clock.computed_us() == 9'000);
  clock.take();
  done(clock, pipeline_op::backward, 170, 170.5, 64);
  CHECK(clock.computed_us() == 9'500);
}

TEST_CASE("STM-1: what ends after the report is in the next step's parts") {
  step_clock clock;
  clock.begin_step(0);
  clock.began(pipeline_op::all_gather, 5);
  CHECK(clock.take().empty());
  clock.begin_step(10);
  clock.ended(pipeline_op::all_gather, 12, 7);
  CHECK(clock.take() == std::vector<step_part>{{pipeline_op::all_gather, 7, 0, 7}});
  CHECK(clock.take().empty());
}

TEST_CASE(
    "STM-3: one slow replica of four computes longer, and the others wait in what they share") {
  const auto step_of = [](double forward_ms, double slowest_ms) {
    return std::vector<step_part>{
        {pipeline_op::forward, forward_ms, 1, 64},
        {pipeline_op::reduce_scatter, slowest_ms - forward_ms + 5, 0, 400},
        {pipeline_op::update, 3, 5, 1000}};
  };
  const rank_grid grid(4, 1, 1);
  std::vector<std::vector<step_part>> equal(4, step_of(10, 10));
  settle_transfers(grid, equal);
  CHECK(equal == std::vector<std::vector<step_part>>(4, step_of(10, 10)));

  std::vector<std::vector<step_part>> ranks(4, step_of(10, 30));
  ranks[2] = step_of(30, 30);
  settle_transfers(grid, ranks);
  for (const size_t r : {0u, 1u, 3u})
    CHECK(ranks[r] == std::vector<step_part>{{pipeline_op::forward, 10, 1, 64},
                                             {pipeline_op::reduce_scatter, 5, 20, 400},
                                             {pipeline_op::update, 3, 5, 1000}});
  CHECK(ranks[2] == step_of(30, 30));
}

TEST_CASE("STM-3: a transfer is as long for its two ends, and stages share no collective") {
  // Ranks 0 and 1 are replicas of the first stage, 2 and 3 of the second.
  std::vector<std::vector<step_part>> ranks{
      {{pipeline_op::send_activation, 2, 0, 100}, {pipeline_op::all_reduce, 1, 0, 8}},
      {{pipeline_op::send_activation, 6, 0, 100}, {pipeline_op::all_reduce, 4, 0, 8}},
      {{pipeline_op::receive_activation, 12, 0, 100},
       {pipeline_op::send_gradient, 9, 0, 50},
       {pipeline_op::all_reduce, 7, 0, 8}},
      {{pipeline_op::receive_activation, 3, 0, 100}, {pipeline_op::all_reduce, 6, 0, 8}}};
  settle_transfers({2, 1, 2}, ranks);
  CHECK(ranks ==
        std::vector<std::vector<step_part>>{
            {{pipeline_op::send_activation, 2, 0, 100}, {pipeline_op::all_reduce, 1, 0, 8}},
            {{pipeline_op::send_activation, 3, 3, 100}, {pipeline_op::all_reduce, 1, 3, 8}},
            {{pipeline_op::receive_activation, 2, 10, 100},
             {pipeline_op::send_gradient, 9, 0, 50},  // whose receiver tells nothing
             {pipeline_op::all_reduce, 6, 1, 8}},
            {{pipeline_op::receive_activation, 3, 0, 100}, {pipeline_op::all_reduce, 6, 0, 8}}});
}

TEST_CASE(
    "STM-3: stages wait for each other in the sum of norms, the ends for each other's table") {
  // Ranks 0, 2 and 4 are the stages of the first replica, 1, 3 and 5 those of the second.
  std::vector<std::vector<step_part>> ranks{
      {{pipeline_op::all_reduce_tied, 2, 0, 40}, {pipeline_op::all_reduce_stages, 1, 0, 8}},
      {{pipeline_op::all_reduce_tied, 9, 0, 40}, {pipeline_op::all_reduce_stages, 9, 0, 8}},
      {{pipeline_op::all_reduce_stages, 5, 0, 8}},
      {{pipeline_op::all_reduce_stages, 8, 0, 8}},
      {{pipeline_op::all_reduce_tied, 6, 0, 40}, {pipeline_op::all_reduce_stages, 3, 0, 8}},
      {{pipeline_op::all_reduce_tied, 7, 0, 40}, {pipeline_op::all_reduce_stages, 7, 0, 8}}};
  settle_transfers({2, 1, 3}, ranks);
  CHECK(ranks ==
        std::vector<std::vector<step_part>>{
            {{pipeline_op::all_reduce_tied, 2, 0, 40}, {pipeline_op::all_reduce_stages, 1, 0, 8}},
            {{pipeline_op::all_reduce_tied, 7, 2, 40}, {pipeline_op::all_reduce_stages, 7, 2, 8}},
            {{pipeline_op::all_reduce_stages, 1, 4, 8}},
            {{pipeline_op::all_reduce_stages, 7, 1, 8}},
            {{pipeline_op::all_reduce_tied, 2, 4, 40}, {pipeline_op::all_reduce_stages, 1, 2, 8}},
            {{pipeline_op::all_reduce_tied, 7, 0, 40}, {pipeline_op::all_reduce_stages, 7, 0, 8}}});
}

TEST_CASE("STM-3: who has ended more of a step's transfers than others has not waited for that") {
  std::vector<std::vector<step_part>> ranks{{{pipeline_op::all_gather, 10, 0, 1000}},
                                            {{pipeline_op::all_gather, 8, 0, 800}},
                                            {{pipeline_op::all_gather, 0, 0, 0}},
                                            {}};
  settle_transfers({4, 1, 1}, ranks);
  CHECK(ranks[0] == std::vector<step_part>{{pipeline_op::all_gather, 10, 0, 1000}});
  CHECK(ranks[1] == std::vector<step_part>{{pipeline_op::all_gather, 8, 0, 800}});
  CHECK(ranks[2] == std::vector<step_part>{{pipeline_op::all_gather, 0, 0, 0}});
  const auto first = ranks[0];
  ranks.resize(7, first);  // more than the grid has ranks
  settle_transfers({1, 1, 1}, ranks);
  CHECK(ranks[6] == first);
}

TEST_CASE("step parts: of a cluster, the mean of the ranks that have it, and all work") {
  const std::vector<std::vector<step_part>> ranks{
      {{pipeline_op::forward, 10, 2, 64}, {pipeline_op::await_copies, 0, 5, 0}},
      {{pipeline_op::forward, 20, 4, 64}, {pipeline_op::receive_activation, 8, 0, 100}},
      {}};
  CHECK(merged(ranks) == std::vector<step_part>{{pipeline_op::forward, 15, 3, 128},
                                                {pipeline_op::receive_activation, 8, 0, 100},
                                                {pipeline_op::await_copies, 0, 5, 0}});
  CHECK(longest_wait_ms(ranks, pipeline_op::await_copies) == 5);
  CHECK(longest_wait_ms(ranks, pipeline_op::forward) == 4);
  CHECK(longest_wait_ms(ranks, pipeline_op::load) == 0);
  CHECK(merged({}).empty());
}

TEST_CASE("step parts: a kind that this program does not know is left out") {
  troupe::fbs::StepDoneT d;
  d.parts = to_message(
      std::vector<step_part>{{pipeline_op::forward, 1, 2, 3}, {pipeline_op::norm, 4, 5, 6}});
  d.parts[1]->kind = "levitate";
  flatbuffers::FlatBufferBuilder b;
  b.Finish(troupe::fbs::StepDone::Pack(b, &d));
  const auto* read = flatbuffers::GetRoot<troupe::fbs::StepDone>(b.GetBufferPointer());
  CHECK(parts_of(read->parts()) == std::vector<step_part>{{pipeline_op::forward, 1, 2, 3}});
  CHECK(parts_of(nullptr).empty());
  d.parts.push_back(nullptr);  // as unpacked, of which any may be missing
  CHECK(parts_of(d.parts) == std::vector<step_part>{{pipeline_op::forward, 1, 2, 3}});
}

TEST_CASE("step parts: what sets a step apart, by its parts and its pace") {
  using op = pipeline_op;
  using fbs::StepOddity;
  const std::vector<step_part> usual{{op::forward, 60, 10, 8}, {op::update, 30, 0, 4}};
  const auto with = [&](const step_part& more) {
    auto out = usual;
    out.push_back(more);
    return out;
  };
  CHECK(oddity_of(usual, 1024) == StepOddity::none);
  CHECK(oddity_of(usual, 1023) == StepOddity::paced);
  CHECK(oddity_of(with({op::evaluate, 1, 0, 8}), 512) == StepOddity::validates);
  CHECK(oddity_of(with({op::capture, 1, 0, 8}), 1024) == StepOddity::beside_save);
  CHECK(oddity_of(with({op::capture, 1, 0, 8}), 1023) == StepOddity::paced);
  CHECK(oddity_of(with({op::await_copies, 0, 1, 0}), 1024) == StepOddity::none);
  CHECK(oddity_of(with({op::await_copies, 0, 3, 0}), 1024) == StepOddity::saves);
  auto both = with({op::capture, 1, 0, 8});
  both.push_back({op::await_copies, 0, 3, 0});
  CHECK(oddity_of(both, 1024) == StepOddity::saves);
}

TEST_CASE("step parts: what a save alone sets apart has peers, and of two the odder one is told") {
  using fbs::StepOddity;
  CHECK(odder_of(StepOddity::none, StepOddity::beside_save) == StepOddity::beside_save);
  CHECK(odder_of(StepOddity::saves, StepOddity::beside_save) == StepOddity::saves);
  CHECK(odder_of(StepOddity::saves, StepOddity::paced) == StepOddity::paced);
  CHECK(odder_of(StepOddity::validates, StepOddity::none) == StepOddity::validates);
  CHECK(odder_of(StepOddity::validates, StepOddity::paced) == StepOddity::validates);
  for (const auto kind : fbs::EnumValuesStepOddity()) {
    const bool by_save =
        kind == StepOddity::none || kind == StepOddity::beside_save || kind == StepOddity::saves;
    CHECK(has_peers(kind) == by_save);
  }
  CHECK_FALSE(has_peers(static_cast<StepOddity>(200)));  // of another program
}

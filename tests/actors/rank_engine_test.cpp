// Engines of several replicas in one process: what they share is what one has alone, and who waits
// for whom.
#include "actors/train/rank_engine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "gpu/collective/pair_links.hpp"
#include "messages/contract.hpp"
#include "messages/message_list.hpp"
#include "tests/actors/replicas.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::batch;
using troupe::train::test::options_for;
using troupe::train::test::pending;
using troupe::train::test::seq;
using job = troupe::train::test::replicas;

TEST_CASE("a step tells where its time went: each kind, what it did, and no more than the step") {
  job two(2);
  const auto wall_ms = [] {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  two.step(1);
  const auto began_ms = wall_ms();
  std::vector<pending> updates;
  for (size_t r = 0; r < 2; ++r) {
    two.forward(r);
    updates.push_back(two.finish(r, 2));
  }
  for (auto& u : updates) {
    const auto parts = u.get().parts;
    double compute_ms = 0;
    std::map<pipeline_op, step_part> by_kind;
    for (const auto& p : parts) {
      by_kind[p.kind] = p;
      if (facts_of(p.kind).stream == op_stream::compute) compute_ms += p.busy_ms + p.waited_ms;
      CHECK(p.busy_ms >= 0);
      CHECK(p.waited_ms >= 0);
    }
    CHECK(compute_ms <= wall_ms() - began_ms);
    for (const auto kind :
         {pipeline_op::forward, pipeline_op::backward, pipeline_op::norm, pipeline_op::update})
      CHECK(by_kind[kind].busy_ms > 0);
    CHECK(by_kind[pipeline_op::forward].work == batch / 2 * seq);
    CHECK(by_kind[pipeline_op::backward].work == batch / 2 * seq);
    CHECK(by_kind[pipeline_op::reduce_scatter].work > 0);
    CHECK(by_kind[pipeline_op::norm].work == by_kind[pipeline_op::update].work);
    CHECK(by_kind[pipeline_op::update].work > 0);
  }
}

TEST_CASE(
    "STM-2: a step's parts on the device are all of the step: no part of its time is missing") {
  job alone(1, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32, [](engine_options o) {
    o.model.layers = 16;
    o.model.hidden = 128;
    o.model.heads = o.model.kv_heads = 4;
    o.model.head_width = 32;
    o.model.ffn = 512;
    o.shape = gpu::whole_model(o.model, batch, seq, gpu::dtype::f32);
    return rank_engine::make(o);
  });
  alone.step(1);
  // What the wall says beyond the parts is also the test's own wait for a processor: of many steps
  // one is without it, but none is where a part of the step is in no part.
  double least_missing = 1;
  for (int64_t step = 2; step < 200 && least_missing > 0.02; ++step) {
    const auto began = std::chrono::steady_clock::now();
    alone.forward(0);
    const auto parts = alone.finish(0, step).get().parts;
    const double wall_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    double told_ms = 0;
    for (const auto& p : parts)
      if (facts_of(p.kind).stream == op_stream::compute) told_ms += p.busy_ms + p.waited_ms;
    CHECK(told_ms <= wall_ms);
    least_missing = std::min(least_missing, 1 - told_ms / wall_ms);
  }
  CHECK(least_missing <= 0.02);
}

TEST_CASE(
    "replicas that share the optimizer learn what one alone learns, the same bits each time") {
  using rule = gpu::optimizer_step_args::rule;
  for (const auto kind : {rule::adamw, rule::lamb})
    for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16}) {
      const auto alone = job(1, kind, type).steps(8);
      CHECK(alone.back() < alone.front());
      for (const int replicas : {2, 3}) {
        CAPTURE(replicas);
        const auto losses = job(replicas, kind, type).steps(8);
        for (size_t i = 0; i < alone.size(); ++i)
          CHECK(std::abs(losses[i] / alone[i] - 1) < (type == gpu::dtype::f32 ? 1e-5 : 5e-3));
        CHECK(job(replicas, kind, type).steps(8) == losses);
      }
    }
}

TEST_CASE("by layer: replicas learn what they learn with one micro-batch after the other") {
  const auto learn = [](bool by_layer, int replicas) {
    job all(replicas, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32,
            [&](engine_options o) {
              o.model.tied = false;
              o.shape.micro_batch = 1;
              o.shape.by_layer = by_layer;
              o.shape.slots = by_layer ? o.rows() : 1;
              return rank_engine::make(o);
            });
    std::vector<double> losses;
    for (int64_t step = 1; step <= 4; ++step) {
      const int rows = static_cast<int>(batch) / replicas;
      std::vector<pending> updates(all.ranks.size());
      for (size_t r = 0; r < all.ranks.size(); ++r) {
        auto& engine = *all.ranks[r];
        engine.run({pipeline_op::begin}, {});
        const int together = by_layer ? rows : 1;
        for (int m = 0; m < rows; m += together) {
          const auto told = [](const status&) {};
          engine.run({pipeline_op::forward, m, 0, 0, false, 0, together}, told);
          engine.run({pipeline_op::backward, m, 0, 0, m + together == rows, 0, together}, told);
        }
        engine.update(step, 1e-2, updates[r].outcome());
      }
      double loss = 0;
      for (auto& u : updates) {
        const auto outcome = u.get();
        loss += outcome.loss_sum;
        for (const auto& p : outcome.parts)
          if (p.kind == pipeline_op::forward) CHECK(p.work == static_cast<uint64_t>(rows * seq));
      }
      losses.push_back(loss);
    }
    return losses;
  };
  for (const int replicas : {1, 2}) CHECK(learn(true, replicas) == learn(false, replicas));
}

TEST_CASE("ENG-6 ENG-7: an update waits for the copies of its chunk, forward for all its weights") {
  const auto expected = job(2).steps(2);
  job two(2);
  // Somebody still reads the last chunk of rank 1, whose slice of it is therefore late.
  auto& store = two.ranks[1]->model()->store();
  auto reading = store.owner().make_stream({"reader", 1});
  REQUIRE(reading);
  std::promise<void> gate;
  (*reading)->host_task([opened = gate.get_future().share()]() -> status {
    opened.wait();
    return {};
  });
  store.add_reader(store.chunk_count() - 1, (*reading)->record());
  double loss = 0;
  std::vector<pending> updates;
  for (size_t r = 0; r < 2; ++r) {
    two.forward(r);
    updates.push_back(two.finish(r, 1));
  }
  loss += updates[0].get().loss_sum;  // rank 0 is not held up by that
  auto early = two.forward(0);
  CHECK_FALSE(early.within(std::chrono::milliseconds(100)));  // it would read old weights
  CHECK_FALSE(updates[1].within(std::chrono::milliseconds(0)));
  gate.set_value();
  loss += updates[1].get().loss_sum;
  CHECK(loss / static_cast<double>(batch * seq) == expected[0]);
  two.forward(1);
  auto last = std::array{two.finish(0, 2), two.finish(1, 2)};
  const auto held_up = last[0].get();
  CHECK((held_up.loss_sum + last[1].get().loss_sum) / static_cast<double>(batch * seq) ==
        expected[1]);
  const auto waits = std::find_if(held_up.parts.begin(), held_up.parts.end(), [](const auto& p) {
    return p.kind == pipeline_op::await_replicas;
  });
  REQUIRE(waits != held_up.parts.end());  // and not in what its forward was busy with
  CHECK(waits->waited_ms > 0);
  CHECK(waits->busy_ms == 0);
  REQUIRE((*reading)->synchronize());
}

TEST_CASE("ENG-9: a rank that waits for one that never connects hears that it is to end") {
  auto made =
      rank_engine::make(options_for(0, 2, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32));
  REQUIRE(made);
  pending built, connected;
  (*made)->build(built.done());
  built.get();
  auto other =
      rank_engine::make(options_for(1, 2, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32));
  REQUIRE(other);
  const auto own = (*made)->open_groups("127.0.0.1"), theirs = (*other)->open_groups("127.0.0.1");
  REQUIRE(own);
  REQUIRE(theirs);
  (*made)->connect_groups({{own->front().name, {"", theirs->front().addresses[0]}}},
                          connected.done());
  CHECK_FALSE(connected.within(std::chrono::milliseconds(50)));
  (*made)->abort();
  CHECK(connected.why().code == errc::cancelled);
}

TEST_CASE("ENG-9: what waits in any of a rank's groups ends with it") {
  constexpr int data = 2, pipeline = 2;
  auto model = troupe::train::test::small_model();
  model.tied = true;
  const auto stages = gpu::split_stages(model, pipeline, seq);
  auto batches = batch_memory::create({batch, seq}, 1);
  REQUIRE(batches);
  std::vector<std::unique_ptr<rank_engine>> ranks;
  std::vector<std::vector<group_offer>> offers;
  for (int r = 0; r < data * pipeline; ++r) {
    auto o = options_for(r % data, data, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32);
    o.at = {{data, 1, pipeline}, r};
    o.model = model;
    const auto place = o.at.grid.place_of(r);
    auto shape = stages[static_cast<size_t>(place.pipeline)];
    shape.micro_batch = o.shape.micro_batch;
    shape.seq = seq;
    shape.replica = {static_cast<int>(place.data), data};
    o.shape = shape;
    o.group_timeout = std::chrono::seconds(120);
    auto made = rank_engine::make(o);
    REQUIRE(made);
    ranks.push_back(std::move(*made));
    pending built;
    ranks.back()->build(built.done());
    built.get();
    REQUIRE(ranks.back()->attach({batches->path(), batches->slot_bytes(), 1, 0}));
    auto offered = ranks.back()->open_groups("127.0.0.1");
    REQUIRE(offered);
    offers.push_back(std::move(*offered));
  }
  std::vector<pending> connected(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    rank_engine::group_tables meant;
    for (const auto& own : offers[r]) {
      meant.emplace_back(own.name, std::vector<std::string>());
      for (const auto& theirs : offers)
        for (const auto& o : theirs)
          if (o.name == own.name)
            meant.back().second.push_back(o.addresses[static_cast<size_t>(own.rank)]);
    }
    ranks[r]->connect_groups(meant, connected[r].done());
  }
  for (auto& c : connected) c.get();
  const auto chain = grid_rank{{data, 1, pipeline}, 0}.group(group_kind::pipeline);
  const auto last = static_cast<size_t>(chain.members.back());
  CHECK(offers[last].size() == 3);  // data, pipeline, and the tied table's
  pending waits;
  ranks[last]->run({pipeline_op::begin}, {});
  ranks[last]->run({pipeline_op::receive_activation}, {});
  ranks[last]->run({pipeline_op::forward, 0, 0, 0}, waits.done());
  CHECK_FALSE(waits.within(std::chrono::milliseconds(50)));
  ranks[last]->abort();
  REQUIRE(waits.within(std::chrono::seconds(60)));
  waits.why();
}

TEST_CASE("ENG-13: who does not connect is named while the run still waits for it") {
  auto o = options_for(0, 2, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32);
  const auto* asked = find_call_of("worker", message_traits<fbs::DataPlaneTable>::id);
  REQUIRE(asked != nullptr);
  CHECK(o.group_timeout / 3 < std::chrono::milliseconds(asked->timeout_ms) * 3 / 4);
  // It takes a third of that; the others are for who comes late on a busy machine.
  o.group_timeout = std::chrono::seconds(6);
  auto made = rank_engine::make(o);
  REQUIRE(made);
  auto other =
      rank_engine::make(options_for(1, 2, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32));
  REQUIRE(other);
  pending built, connected;
  (*made)->build(built.done());
  built.get();
  const auto own = (*made)->open_groups("127.0.0.1"), theirs = (*other)->open_groups("127.0.0.1");
  REQUIRE(own);
  REQUIRE(theirs);
  const auto began = std::chrono::steady_clock::now();
  (*made)->connect_groups({{own->front().name, {"", theirs->front().addresses[0]}}},
                          connected.done());
  const auto why = connected.why();
  CHECK(std::chrono::steady_clock::now() - began < o.group_timeout);
  CHECK(is_error(why, gpu::rank_missing, "data/0", "rank 1", "127.0.0.1", "ranks 0, 1"));
}

TEST_CASE("a rank holds its share of the state, and the whole of weights and gradients") {
  using gpu::part;
  job three(3, gpu::optimizer_step_args::rule::adamw, gpu::dtype::bf16);
  job one(1, gpu::optimizer_step_args::rule::adamw, gpu::dtype::bf16);
  const auto bytes = [](job& j, size_t rank, part which) {
    auto& store = j.ranks[rank]->model()->store();
    size_t sum = 0;
    for (int c = 0; c < store.chunk_count(); ++c) sum += store.bytes(c, which);
    return sum;
  };
  const size_t padding =
      3 * 32 * sizeof(float) * static_cast<size_t>(one.ranks[0]->model()->store().chunk_count());
  for (const auto which : {part::master, part::m, part::v}) {
    const auto whole = bytes(one, 0, which), share = bytes(three, 1, which);
    CHECK(3 * share >= whole);
    CHECK(3 * share <= whole + padding);
  }
  CHECK(bytes(three, 2, part::grad) <= bytes(one, 0, part::grad) + padding);
}

TEST_CASE("a step tells how much of its rows lies in one document, of its own rows alone") {
  constexpr int64_t micro_batch = 2;
  auto o = options_for(0, 1, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32);
  for (const bool documents : {true, false}) {
    CAPTURE(documents);
    o.shape = gpu::whole_model(o.model, micro_batch, seq, gpu::dtype::f32);
    o.shape.documents = documents;
    auto batches = batch_memory::create({batch, seq, documents}, 1);
    REQUIRE(batches);
    for (int64_t i = 0; i < batch * seq; ++i) {
      const auto at = static_cast<int32_t>(i % seq);
      int32_t* const slot = batches->slot(0);
      slot[i] = slot[batch * seq + i] = at;
      if (!documents) continue;
      const bool parted = i / seq == 2;  // the third row: 3 tokens and 5
      slot[2 * batch * seq + i] = parted && at >= 3 ? 3 : 0;
      slot[3 * batch * seq + i] = parted && at < 3 ? 3 : seq;
    }
    auto made = rank_engine::make(o);
    REQUIRE(made);
    pending built;
    (*made)->build(built.done());
    built.get();
    REQUIRE((*made)->attach({batches->path(), batches->slot_bytes(), 1, 0}));
    for (int64_t step = 1; step <= 2; ++step) {
      (*made)->run({pipeline_op::begin}, {});
      for (int i = 0; i < batch / micro_batch; ++i) {
        (*made)->run({pipeline_op::forward, i, 0, 0}, [](const status&) {});
        (*made)->run({pipeline_op::backward, i, 0, 0, i + 1 == batch / micro_batch},
                     [](const status&) {});
      }
      pending updated;
      (*made)->update(step, 1e-2, updated.outcome());
      CHECK(updated.get().document_pairs == (documents ? 5 * seq * seq + 9 + 25 : 0));
    }
  }
}

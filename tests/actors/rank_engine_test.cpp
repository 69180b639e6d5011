// Engines of several replicas in one process: what they share is what one has alone, and who waits
// for whom.
#include "actors/train/rank_engine.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <future>
#include <map>

#include "gpu/model/init.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

constexpr int64_t batch = 6, seq = 8;

model_config small_model() {
  model_config m;
  m.layers = 2;
  m.hidden = 16;
  m.heads = m.kv_heads = 2;
  m.head_width = 8;
  m.ffn = 24;
  m.vocab = 37;
  m.max_positions = seq;
  return m;
}

engine_options options_for(int rank, int ranks, gpu::optimizer_step_args::rule kind,
                           gpu::dtype type) {
  engine_options o;
  o.at = {{ranks, 1, 1}, rank};
  o.model = small_model();
  o.shape = gpu::whole_model(o.model, batch / ranks, seq, type);
  o.shape.replica = {rank, ranks};
  o.optimizer.kind = kind;
  o.batch = batch;
  o.seed = 3;
  o.checkpoint_slot_bytes = 4096;
  o.checkpoint_ring_bytes = 1 << 20;
  return o;
}

/// A call that completes later.
class pending {
 public:
  rank_engine::completion done() {
    return [p = promise_](const status& s) { p->set_value(s); };
  }
  std::function<void(const status&, step_outcome)> outcome() {
    return [p = promise_, into = outcome_](const status& s, step_outcome o) {
      *into = o;
      p->set_value(s);
    };
  }
  /// Waits for it, which must be good.
  step_outcome get() {
    const auto s = future_.get();
    REQUIRE_MESSAGE(s, (s ? std::string() : render(s.error())));
    return *outcome_;
  }
  /// Waits for it, which must fail.
  error why() {
    const auto s = future_.get();
    REQUIRE_FALSE(s);
    return s.error();
  }
  bool within(std::chrono::milliseconds time) const {
    return future_.wait_for(time) == std::future_status::ready;
  }

 private:
  std::shared_ptr<std::promise<status>> promise_ = std::make_shared<std::promise<status>>();
  std::shared_ptr<step_outcome> outcome_ = std::make_shared<step_outcome>();
  std::future<status> future_ = promise_->get_future();
};

/// All replicas of a job, built and connected.
struct job {
  std::optional<batch_memory> batches;
  std::vector<std::unique_ptr<rank_engine>> ranks;

  explicit job(int replicas,
               gpu::optimizer_step_args::rule kind = gpu::optimizer_step_args::rule::adamw,
               gpu::dtype type = gpu::dtype::f32) {
    auto memory = batch_memory::create(batch, seq, 1);
    REQUIRE(memory);
    batches.emplace(std::move(*memory));
    for (int64_t i = 0; i < batch * seq; ++i) {
      batches->slot(0)[i] = static_cast<int32_t>(i * i % 37);
      batches->slot(0)[batch * seq + i] = static_cast<int32_t>((i + 1) * (i + 1) % 37);
    }
    std::vector<std::vector<std::string>> offered;  // by rank, then by whom it is for
    for (int r = 0; r < replicas; ++r) {
      auto made = rank_engine::make(options_for(r, replicas, kind, type));
      REQUIRE(made);
      ranks.push_back(std::move(*made));
      pending built;
      ranks.back()->build(built.done());
      built.get();
      REQUIRE(ranks.back()->attach(
          {batches->path(), batches->slot_bytes(), 1, r * (batch / replicas)}));
      auto offers = ranks.back()->open_groups("127.0.0.1");
      REQUIRE(offers);
      for (auto& o : *offers) offered.push_back(o.addresses);
    }
    std::vector<pending> connected(ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      rank_engine::group_tables meant{{"data/0", {}}};
      for (const auto& from : offered) meant.front().second.push_back(from[r]);
      ranks[r]->connect_groups(meant, connected[r].done());
    }
    for (auto& c : connected) c.get();
  }

  pending forward(size_t rank) {
    pending out;
    ranks[rank]->run({pipeline_op::begin}, {});
    ranks[rank]->run({pipeline_op::forward, 0, 0, 0}, out.done());
    return out;
  }

  /// Everything of a step behind forward.
  pending finish(size_t rank, int64_t step) {
    ranks[rank]->run({pipeline_op::backward, 0, 0, 0, true}, [](const status&) {});
    pending out;
    ranks[rank]->update(step, 1e-2, out.outcome());
    return out;
  }

  /// The loss of one step of all.
  double step(int64_t number) {
    std::vector<pending> updates;
    for (size_t r = 0; r < ranks.size(); ++r) {
      forward(r);
      updates.push_back(finish(r, number));
    }
    double loss = 0;
    for (auto& u : updates) loss += u.get().loss_sum;
    return loss / static_cast<double>(batch * seq);
  }

  std::vector<double> steps(int64_t last) {
    std::vector<double> out;
    for (int64_t n = 1; n <= last; ++n) out.push_back(step(n));
    return out;
  }
};

}  // namespace

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
  CHECK((last[0].get().loss_sum + last[1].get().loss_sum) / static_cast<double>(batch * seq) ==
        expected[1]);
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

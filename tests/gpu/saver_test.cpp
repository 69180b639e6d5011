// Lazy saves beside updates: what is saved is the state at the call, whatever runs meanwhile.
#include "gpu/model/state_saver.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "gpu/model/init.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/optim/optimizer.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/saving.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

constexpr std::array saved_parts{part::master, part::m, part::v};

/// A small model whose state changes in every step, by the optimizer itself.
struct trainer {
  std::unique_ptr<device> owner = make_host_device(1);
  std::unique_ptr<parameter_store> store;
  std::unique_ptr<optimizer> rule;
  std::unique_ptr<stream> compute;
  int64_t step = 0;

  explicit trainer(const model_config& model = tiny_gpt2(), replica_place place = {}) {
    auto made =
        parameter_store::make(*owner, stage_chunks(model, whole_model(model, 1, 4, dtype::f32)),
                              {.compute = dtype::f32, .training = true, .replica = place});
    REQUIRE(made);
    store = std::move(*made);
    REQUIRE(initialize(*store, model, 5));
    auto opt = optimizer::make(*store, {});
    REQUIRE(opt);
    rule = std::move(*opt);
    auto s = owner->make_stream({"compute", 1});
    REQUIRE(s);
    compute = std::move(*s);
  }

  /// Enqueues a step whose gradients are made up.
  void enqueue_step() {
    ++step;
    for (int c = 0; c < store->chunk_count(); ++c)
      compute->host_task([this, c, at = step]() -> status {
        for (const auto& t : store->info(c).tensors)
          for (int64_t i = 0; i < t.count; ++i)
            store->grad(c)[t.offset + i] = static_cast<float>((i * 7 + at * 13) % 11) - 5.0f;
        return {};
      });
    rule->begin(*compute);
    for (int c = 0; c < store->chunk_count(); ++c) rule->norm(*compute, c);
    rule->clip(*compute);
    for (int c = 0; c < store->chunk_count(); ++c) rule->step(*compute, c, 1e-2f, step);
  }

  /// All saved parts of all chunks; the streams must be at rest.
  std::vector<float> state() const {
    std::vector<float> out;
    for (int c = 0; c < store->chunk_count(); ++c)
      for (auto which : saved_parts) {
        const auto* p = static_cast<const float*>(store->data(c, which));
        out.insert(out.end(), p, p + store->info(c).count);
      }
    return out;
  }
};

/// Gives a replica its slices of a whole state().
void set_slices(parameter_store& store, const std::vector<float>& state) {
  const auto* from = state.data();
  for (int c = 0; c < store.chunk_count(); ++c)
    for (auto which : saved_parts) {
      REQUIRE(store.write(c, which, from));
      from += store.info(c).count;
    }
}

/// The states after each of `steps` steps, from one that never saved.
std::vector<std::vector<float>> states_without_saves(int steps) {
  trainer t;
  std::vector<std::vector<float>> out;
  for (int i = 0; i < steps; ++i) {
    t.enqueue_step();
    REQUIRE(t.compute->synchronize());
    out.push_back(t.state());
  }
  return out;
}

/// What a checkpoint restores to.
std::vector<float> restored_from(const std::filesystem::path& folder) {
  trainer t;
  auto r = cp::reader::open(folder);
  REQUIRE_MESSAGE(r, (r ? "" : r.error().message));
  const auto done = restore_state(*t.store, *r, restored::everything);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  return t.state();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

saver_options on(std::shared_ptr<io::crash_store> store, io::faulty_options how) {
  auto o = only_rank();
  o.open_disk = [store, how](const auto&) -> result<std::unique_ptr<io::disk>> {
    return std::unique_ptr<io::disk>(std::make_unique<io::faulty_disk>(store, how));
  };
  return o;
}

}  // namespace

TEST_CASE(
    "SS-1 a save in every step: each has its step's bits, and training's bits stay the same") {
  constexpr int steps = 6;
  const auto expected = states_without_saves(steps);
  for (uint64_t ring : {2u, 5u, 1000u}) {  // in slots: far smaller than the state, and larger
    CAPTURE(ring);
    scratch dir;
    trainer t;
    auto options = only_rank();
    options.ring_bytes = ring * small_slot;
    auto saver = state_saver::make(*t.store, options);
    REQUIRE_MESSAGE(saver, (saver ? "" : saver.error().message));
    std::vector<std::future<vote>> votes;
    for (uint64_t step = 1; step <= steps; ++step) {  // all enqueued at once: nothing waits (SS-2)
      t.enqueue_step();
      votes.push_back(
          save(**saver, step, dir.path / cp::partial_name(step, 1), t.compute->record()));
    }
    for (uint64_t step = 1; step <= steps; ++step) {
      auto v = votes[step - 1].get();
      REQUIRE_MESSAGE(v, (v ? "" : v.error().message));
      CHECK(same_bits(restored_from(commit(dir.path, step, {*v})), expected[step - 1]));
    }
    REQUIRE(t.compute->synchronize());
    CHECK(same_bits(t.state(), expected.back()));
    const auto facts = (*saver)->facts();
    CHECK(facts.flusher.durable_saves == steps);
    CHECK(facts.captured_bytes == steps * facts.share_bytes);
    CHECK(facts.ring.free + facts.ring.filling + facts.ring.filled + facts.ring.writing <=
          static_cast<int>(std::max<uint64_t>(2, ring)));
  }
}

TEST_CASE("SS-1 the update of a chunk waits for the copy of that chunk, not of those behind it") {
  trainer t;
  scratch dir;
  std::atomic<bool> hold{true};
  auto options = only_rank();
  options.around = [&](stream& s, int chunk, uint64_t, const std::function<void()>& enqueue) {
    if (chunk == 1)
      s.host_task([&]() -> status {
        while (hold) std::this_thread::yield();
        return {};
      });
    enqueue();
  };
  auto saver = state_saver::make(*t.store, options);
  REQUIRE(saver);
  auto done = save(**saver, 1, dir.path / cp::partial_name(1, 1), t.compute->record());
  std::atomic<int> updated{-1};
  for (int c = 0; c < t.store->chunk_count(); ++c) {
    t.rule->step(*t.compute, c, 1e-2f, 1);
    t.compute->notify([&updated, c](const status&) { updated = c; });
  }
  while (updated < 0) std::this_thread::yield();
  CHECK(updated == 0);  // chunk 1 is still being copied, and 0 is updated
  CHECK(t.store->chunk_count() > 2);
  hold = false;
  auto v = done.get();
  REQUIRE(v);
  REQUIRE(t.compute->synchronize());
  CHECK(updated == t.store->chunk_count() - 1);
  CHECK(same_bits(restored_from(commit(dir.path, 1, {*v})), trainer().state()));
}

TEST_CASE("replicas save their slices: together they write the state once") {
  scratch dir;
  constexpr int replicas = 3;
  std::vector<cp::shard_facts> shards;
  uint64_t all = 0;
  const auto expected = states_without_saves(1).back();
  for (int d = 0; d < replicas; ++d) {
    trainer t(tiny_gpt2(), {d, replicas});
    set_slices(*t.store, expected);
    auto options = only_rank();
    options.at = {{replicas, 1, 1}, d};
    auto saver = state_saver::make(*t.store, options);
    REQUIRE(saver);
    auto v = save(**saver, 1, dir.path / cp::partial_name(1, 1), t.compute->record()).get();
    REQUIRE(v);
    CHECK(v->stream_bytes == (*saver)->facts().share_bytes);
    all += v->stream_bytes;
    shards.push_back(*v);
  }
  trainer whole;
  auto one = state_saver::make(*whole.store, only_rank());
  REQUIRE(one);
  CHECK(all == (*one)->facts().share_bytes);
  const auto folder = commit(dir.path, 1, shards, {replicas, 1, 1});
  CHECK(same_bits(restored_from(folder), expected));
}

TEST_CASE("SS-2 SS-4 a disk that answers nothing costs that save, not the training") {
  trainer t;
  auto store = io::crash_store::make();
  io::faulty_options how;
  how.plan = {{io::fault_site::write, 1, io::fault_effect::lose, 0, 0, 1}};  // a slot for good
  auto options = on(store, how);
  options.ring_bytes = 2 * small_slot;
  options.patience = std::chrono::milliseconds(300);
  auto saver = state_saver::make(*t.store, options);
  REQUIRE(saver);
  t.enqueue_step();
  auto stuck = save(**saver, 1, "/one", t.compute->record());
  t.enqueue_step();
  REQUIRE(t.compute->synchronize());
  CHECK(same_bits(t.state(), states_without_saves(2).back()));
  saver->reset();
  auto v = stuck.get();
  REQUIRE_FALSE(v);
}

TEST_CASE("SS-3 SS-4 a full disk is one vote against, the next save is whole") {
  trainer t;
  auto store = io::crash_store::make();
  io::faulty_options how;
  how.plan = {{io::fault_site::write, 2, io::fault_effect::fail, 28, 0, 1}};  // ENOSPC
  auto saver = state_saver::make(*t.store, on(store, how));
  REQUIRE(saver);
  auto bad = save(**saver, 1, "/one", t.compute->record()).get();
  REQUIRE_FALSE(bad);
  CHECK(mentions(bad.error(), "rank-00000.shard"));
  auto good = save(**saver, 2, "/two", t.compute->record()).get();
  REQUIRE_MESSAGE(good, (good ? "" : good.error().message));
  CHECK((*saver)->facts().flusher.failed_saves == 1);
}

TEST_CASE("a saver that ends answers what is under way") {
  trainer t;
  auto options = only_rank();
  scratch dir;
  std::atomic<bool> hold{true};
  t.compute->host_task([&]() -> status {
    while (hold) std::this_thread::yield();
    return {};
  });
  auto saver = state_saver::make(*t.store, options);
  REQUIRE(saver);
  auto open = save(**saver, 1, dir.path / cp::partial_name(1, 1), t.compute->record());
  hold = false;
  saver->reset();
  const auto v = open.get();
  if (!v) CHECK(v.error().code == errc::cancelled);
}

namespace {

std::shared_ptr<cp::memory_copy> place_for(state_saver& saver, uint64_t step) {
  auto made = cp::memory_copy::make(0, {1, step}, saver.shape());
  REQUIRE(made);
  return *made;
}

}  // namespace

TEST_CASE("a copy in memory is the state at the call, and comes back bit by bit") {
  trainer t;
  auto saver = state_saver::make(*t.store, only_rank());
  REQUIRE(saver);
  t.enqueue_step();
  auto into = place_for(**saver, 1);
  const auto copied = (*saver)->copy(1, into, {}, t.compute->record(), {});
  t.enqueue_step();
  REQUIRE(t.compute->synchronize());
  copied->wait_on_host();
  CHECK(into->filled);
  into->sum();
  const auto later = t.state();
  trainer once;
  once.enqueue_step();
  REQUIRE(once.compute->synchronize());
  REQUIRE((*saver)->put_back(*into));
  CHECK(t.state() == once.state());
  CHECK(t.state() != later);
  for (int c = 0; c < t.store->chunk_count(); ++c)
    CHECK(std::memcmp(t.store->weight(c), once.store->weight(c), t.store->bytes(c, part::weight)) ==
          0);
  into->bytes()[0] ^= std::byte{1};
  CHECK(is_error((*saver)->put_back(*into), cp::copy_damaged, 0, uint64_t{1}, uint64_t{0}));
}

TEST_CASE("one copy serves the disk and the memory") {
  scratch dir;
  trainer t;
  auto saver = state_saver::make(*t.store, only_rank());
  REQUIRE(saver);
  t.enqueue_step();
  auto both = place_for(**saver, 1), alone = place_for(**saver, 1);
  auto promise = std::make_shared<std::promise<vote>>();
  auto voted = promise->get_future();
  const auto before = (*saver)->facts().captured_bytes;
  auto first = (*saver)->copy(1, both, dir.path / "p", t.compute->record(),
                              [promise](const vote& v) { promise->set_value(v); });
  auto second = (*saver)->copy(1, alone, {}, t.compute->record(), {});
  REQUIRE(voted.get());
  first->wait_on_host();
  second->wait_on_host();
  CHECK(both->filled);
  CHECK(std::memcmp(both->bytes().data(), alone->bytes().data(), both->bytes().size()) == 0);
  CHECK((*saver)->facts().captured_bytes == before + 2 * (*saver)->facts().share_bytes);
}

TEST_CASE("a last stage's copy of a tied table is in its copy in memory") {
  const auto model = tiny_gpt2();
  auto owner = make_host_device(1);
  auto shape = whole_model(model, 1, 4, dtype::f32);
  shape.first_layer = 1;
  shape.has_embedding = false;
  auto store = parameter_store::make(*owner, stage_chunks(model, shape), {});
  REQUIRE(store);
  REQUIRE(initialize(**store, model, 5));
  int tied = -1;
  for (int c = 0; c < (*store)->chunk_count(); ++c)
    if ((*store)->info(c).tied_copy) tied = c;
  REQUIRE(tied >= 0);
  auto options = only_rank();
  auto saver = state_saver::make(**store, options);
  REQUIRE(saver);
  auto s = owner->make_stream({"compute", 1});
  REQUIRE(s);
  auto into = place_for(**saver, 1);
  (*saver)->copy(1, into, {}, (*s)->record(), {})->wait_on_host();
  into->sum();
  const auto count = (*store)->slice(tied).part;
  const std::vector<float> was((*store)->master(tied), (*store)->master(tied) + count);
  std::fill_n((*store)->master(tied), count, 7.0f);
  REQUIRE((*saver)->put_back(*into));
  CHECK(std::equal(was.begin(), was.end(), (*store)->master(tied)));
}

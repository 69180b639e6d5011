// Shards through the flusher's thread: on real disks with a ring smaller than the state, several at
// a time, and with a disk that fails.
#include "io/checkpoint/flusher.hpp"

#include <doctest/doctest.h>

#include <future>

#include "io/checkpoint/reader.hpp"
#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/disk/backends.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

plan_stage stage_of(int64_t rows) {
  return {sample::chunk("layer.0", {{"h.0.weight", {rows, 64}, false, 0}})};
}

std::byte byte_of(uint64_t step, part which, uint64_t byte) {
  return static_cast<std::byte>(step * 101 + static_cast<uint64_t>(which) * 7 + byte / 4 % 251);
}

manifest_head head_of(uint64_t step, int data_ranks) {
  manifest_head h;
  h.job = "flush";
  h.step = step;
  h.epoch = 1;
  h.layout = {data_ranks, 1, 1};
  h.slot_bytes = 4 * disk_block;
  return h;
}

/// Fills and hands over every slot of a plan, as a capture does.
void capture(flusher& f, uint64_t save, const std::shared_ptr<slots>& ring, const rank_plan& plan,
             uint64_t step) {
  const auto todo = plan_capture(plan, 4 * disk_block);
  for (uint64_t n = 0; n < todo.fills.size(); ++n) {
    auto lease = ring->take(std::chrono::minutes(5));
    REQUIRE(lease);
    for (auto i = todo.fills[n].copies_begin; i < todo.fills[n].copies_end; ++i) {
      const auto& c = todo.copies[i];
      for (uint64_t b = 0; b < c.bytes; ++b)
        lease->bytes()[c.slot_offset + b] = byte_of(step, c.which, c.chunk_byte + b);
    }
    f.filled(save, std::move(*lease), n);
  }
}

using vote_promise = std::promise<result<shard_facts>>;

rank_save::voted into(const std::shared_ptr<vote_promise>& to) {
  return [to](const result<shard_facts>& v) { to->set_value(v); };
}

void each_real_disk(
    const std::function<void(std::unique_ptr<disk>, std::shared_ptr<slots>)>& body) {
  for (auto backend : {disk_backend::uring, disk_backend::threads}) {
    auto ring = test_ring(3);
    disk_options options;
    options.backend = backend;
    options.ring = ring;
    auto made = open_disk(options);
    if (!made && made.error().code == errc::unavailable) {
      MESSAGE("without io_uring: " << made.error().message);
      continue;
    }
    REQUIRE(made);
    body(std::move(*made), ring);
    CHECK(ring->counts().free == 3);
  }
}

}  // namespace

TEST_CASE(
    "flusher: a state larger than the ring, and several saves at a time, are committed whole") {
  each_real_disk([](std::unique_ptr<disk> d, std::shared_ptr<slots> ring) {
    scratch dir;
    auto root = open_disk({disk_backend::threads, 4, 2, {}});
    REQUIRE(root);
    flusher f(std::move(d));
    auto plans = plan_save(std::vector<plan_stage>{stage_of(400)}, {2, 64});
    REQUIRE(plans);
    struct under_way {
      std::filesystem::path partial;
      std::vector<uint64_t> saves;
      std::vector<std::future<result<shard_facts>>> votes;
    };
    std::map<uint64_t, under_way> steps;
    for (uint64_t step = 1; step <= 3; ++step) {
      auto& u = steps[step];
      u.partial = dir.path / partial_name(step, 1);
      for (const auto& plan : *plans) {
        auto vote = std::make_shared<vote_promise>();
        u.votes.push_back(vote->get_future());
        u.saves.push_back(f.begin(u.partial, head_of(step, 2), plan, into(vote)));
      }
    }
    for (auto& [step, u] : steps)
      for (size_t rank = 0; rank < 2; ++rank) capture(f, u.saves[rank], ring, (*plans)[rank], step);
    for (auto& [step, u] : steps) {
      std::vector<shard_facts> shards;
      for (auto& vote : u.votes) {
        auto v = vote.get();
        REQUIRE_MESSAGE(v, (v ? "" : v.error().message));
        shards.push_back(*v);
      }
      auto done = commit_save(**root, u.partial, head_of(step, 2), shards, {});
      REQUIRE(done);
      auto r = reader::open(*done);
      REQUIRE(r);
      auto whole = r->verify();
      REQUIRE(whole);
      CHECK(whole->damages.empty());
      auto bytes = r->read_tensor("h.0.weight", part::exp_avg_sq);
      REQUIRE(bytes);
      REQUIRE(bytes->size() == 400 * 64 * 4);
      uint64_t wrong = 0;
      for (uint64_t b = 0; b < bytes->size(); ++b)
        wrong += (*bytes)[b] != byte_of(step, part::exp_avg_sq, b) ? 1 : 0;
      CHECK(wrong == 0);
    }
    const auto facts = f.facts();
    CHECK(facts.durable_saves == 6);
    CHECK(facts.open_saves == 0);
    CHECK(facts.durable_bytes == 3 * 400 * 64 * 4 * 3);
  });
}

TEST_CASE("flusher: a failed write is one vote against, and the next save works") {
  auto store = crash_store::make();
  auto ring = test_ring(3);
  faulty_options options;
  options.plan = {{fault_site::write, 2, fault_effect::fail, 28, 0, 1}};  // ENOSPC
  auto failing = std::make_unique<faulty_disk>(store, options);
  REQUIRE(failing->make_dir("/c"));
  REQUIRE(failing->make_dir("/c/one"));
  REQUIRE(failing->make_dir("/c/two"));
  {
    flusher f(std::move(failing));
    auto plans = plan_save(std::vector<plan_stage>{stage_of(400)}, {});
    REQUIRE(plans);
    auto bad = std::make_shared<vote_promise>(), good = std::make_shared<vote_promise>();
    capture(f, f.begin("/c/one", head_of(1, 1), plans->front(), into(bad)), ring, plans->front(),
            1);
    const auto no = bad->get_future().get();
    REQUIRE(!no);
    CHECK(mentions(no.error(), "rank-00000.shard"));
    capture(f, f.begin("/c/two", head_of(2, 1), plans->front(), into(good)), ring, plans->front(),
            2);
    CHECK(good->get_future().get());
    CHECK(f.facts().failed_saves == 1);
    CHECK(f.facts().durable_saves == 1);
  }
  CHECK(ring->counts().free == 3);
}

TEST_CASE("flusher: what cannot begin, what is given up and what is cut off are answered once") {
  auto store = crash_store::make();
  auto ring = test_ring(3);
  auto gone = std::make_shared<vote_promise>(), left = std::make_shared<vote_promise>(),
       cut = std::make_shared<vote_promise>();
  {
    auto d = std::make_unique<faulty_disk>(store, faulty_options{});
    REQUIRE(d->make_dir("/c"));
    REQUIRE(d->make_dir("/taken"));
    REQUIRE(d->write_small("/taken/rank-00000.shard", "half", durable::no));
    flusher f(std::move(d));
    auto plans = plan_save(std::vector<plan_stage>{stage_of(400)}, {});
    REQUIRE(plans);
    capture(f, f.begin("/taken", head_of(1, 1), plans->front(), into(gone)), ring,
            plans->front(), 1);
    const auto no = gone->get_future().get();
    REQUIRE(!no);
    CHECK(no.error().code == errc::io);
    auto slow = plans->front();
    slow.rank = 1;
    const auto save = f.begin("/c", head_of(1, 1), slow, into(left));
    f.filled(save, std::move(*ring->take(std::chrono::minutes(5))), 0);
    f.give_up(save, {errc::timeout, "the deadline is over"});
    f.give_up(save, {errc::timeout, "twice"});
    const auto late = left->get_future().get();
    REQUIRE(!late);
    CHECK(late.error().code == errc::timeout);
    auto last = plans->front();
    last.rank = 2;
    f.filled(f.begin("/c", head_of(1, 1), last, into(cut)),
             std::move(*ring->take(std::chrono::minutes(5))), 0);
  }
  const auto end = cut->get_future().get();
  REQUIRE(!end);
  CHECK(end.error().code == errc::cancelled);
  CHECK(ring->counts().free == 3);
}

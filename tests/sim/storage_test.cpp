// The files that the hosts of a simulated cluster share: the time of calls, and what is lost with
// whom.
#include "actors/sim/storage.hpp"

#include <doctest/doctest.h>

#include <stop_token>

#include "actors/sim/shards.hpp"
#include "actors/train/loader.hpp"
#include "io/checkpoint/catalog.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr storage_times times{10, 1};

/// Three nodes with an actor each, in whose name calls are made.
struct hosts {
  world w;
  shared_files files{w, times};
  std::vector<loader_actor> callers;
  int64_t begun = 0;

  static world_options options(uint64_t seed) {
    world_options o;
    o.seed = seed;
    o.nodes = 3;
    return o;
  }
  explicit hosts(uint64_t seed = 1) : w(options(seed)) {
    for (int n = 0; n < 3; ++n)
      callers.push_back(
          w.spawn(n, train::loader, train::spawn_record{1, 0, "any"}, std::stop_token()));
    while (!w.idle()) w.turn();
    REQUIRE(files.timeless().make_dir("/first"));
    REQUIRE(files.timeless().sync_dir("/first"));
    REQUIRE(files.timeless().sync_dir("/"));
    begun = w.now_ns();
  }
  template <class F>
  auto by(int node, F call) {
    const auto stats = w.actors_of(node).front();
    const stats_scope scope(stats.get());
    return call(files.of(node).files());
  }
  void wait(int64_t ns) {
    w.clock().call_at(begun + ns, [] {});
    w.run(begun + ns, [] { return false; });
  }
  std::vector<std::string> names() {
    std::vector<std::string> out;
    const auto all = files.timeless().list("/first");
    REQUIRE(all);
    for (const auto& e : *all) out.push_back(e.name);
    return out;
  }
};

using names = std::vector<std::string>;

status write(io::file_system& f, const std::string& name, io::durable sync) {
  return f.write_small(name, "text", sync);
}

}  // namespace

TEST_CASE("storage: calls take the time of the actor that makes them, and no other's") {
  hosts h;
  REQUIRE(h.by(1, [](auto& f) { return write(f, "/first/a", io::durable::yes); }));
  CHECK(h.w.blocked_until(1) == h.begun + times.name_ns + times.data_ns);
  CHECK(h.w.blocked_until(2) <= h.begun);
  CHECK(h.w.now_ns() == h.begun);
  CHECK_FALSE(h.files.quiet());
  h.wait(times.name_ns + times.data_ns);
  CHECK(h.files.quiet());
}

TEST_CASE("storage: what takes an engine's time takes none of an actor's") {
  hosts h;
  const auto disk = h.files.beside(1, 7);
  REQUIRE(disk->write_small("/first/a", "text", io::durable::yes));
  CHECK(disk->now().count() == h.begun + 7);
  CHECK(h.w.blocked_until(1) <= h.begun);
  CHECK_FALSE(h.files.quiet());
}

TEST_CASE("storage: a process that ends has done what was done by then, and does nothing more") {
  hosts h;
  auto& old = h.files.of(1).files();
  h.by(1, [](auto& f) {
    for (const char* name : {"/first/a", "/first/b", "/first/c"}) REQUIRE(f.make_dir(name));
    return 0;
  });
  h.wait(2 * times.name_ns);
  h.files.end_process(1);
  CHECK(h.names() == names{"a", "b"});
  CHECK(h.files.quiet());
  CHECK_FALSE(old.make_dir("/first/d"));
  CHECK(h.by(1, [](auto& f) { return f.make_dir("/first/e"); }));  // the process after it
}

TEST_CASE(
    "storage: with a host go the bytes that it had not synced, names with the server's alone") {
  int lost_bytes = 0, lost_names = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const int node = seed % 2 == 0 ? 0 : 1;  // the head, on which the files are, and another
    hosts h(seed);
    REQUIRE(h.by(node, [](auto& f) { return write(f, "/first/open", io::durable::no); }));
    REQUIRE(h.by(node, [](auto& f) { return write(f, "/first/synced", io::durable::yes); }));
    REQUIRE(h.by(node, [](auto& f) { return f.sync_dir("/first"); }));
    REQUIRE(h.by(node, [](auto& f) { return write(f, "/first/new", io::durable::yes); }));
    h.wait(1'000);
    h.files.lose(node);
    auto& files = h.files.timeless();
    CHECK(*files.read_small("/first/synced", 10) == "text");
    lost_bytes += *files.read_small("/first/open", 10) != "text";
    const bool there = h.names().size() == 3;
    if (node != 0) CHECK(there);
    lost_names += !there;
  }
  CHECK(lost_bytes > 8);
  CHECK(lost_bytes < 32);
  CHECK(lost_names > 3);
  CHECK(lost_names < 17);
}

namespace {

namespace cp = io::checkpoint;

/// A checkpoint of two ranks by two nodes.
void save(hosts& h, uint64_t step, const std::vector<cp::rank_plan>& plans,
          const std::shared_ptr<io::slots>& ring) {
  cp::manifest_head head;
  head.job = "test";
  head.step = step;
  head.epoch = 3;
  head.layout = {2, 1, 1};
  head.slot_bytes = io::disk_block;
  const auto partial = std::filesystem::path("/first") / cp::partial_name(step, 3);
  std::vector<cp::shard_facts> votes;
  for (int n = 0; n < 2; ++n) {
    const auto disk = h.files.beside(n, 1);
    auto vote = save_share(*disk, ring, partial, head, plans[static_cast<size_t>(n)]);
    REQUIRE(vote);
    votes.push_back(*vote);
  }
  const auto root = h.files.beside(0, 1);
  REQUIRE(cp::commit_save(*root, partial, head, votes, {}));
}

}  // namespace

TEST_CASE("shards: a rank finds what was saved, and notices what is of another save") {
  hosts h;
  cp::plan_chunk chunk;
  chunk.name = "layer";
  chunk.tensors = {{"weight", {40, 30}, false, 0}};
  const std::vector<cp::plan_stage> stages{{chunk}};
  cp::save_options how;
  how.data_ranks = 2;
  how.cut_elements = 64;
  const auto plans = cp::plan_save(stages, how);
  REQUIRE(plans);
  const auto ring = io::slots::make({io::disk_block, 2});
  REQUIRE(ring);
  for (const uint64_t step : {1, 2}) save(h, step, *plans, *ring);
  auto& files = h.files.timeless();
  for (const uint64_t step : {1, 2}) {
    const auto r =
        cp::reader::open(files, std::filesystem::path("/first") / cp::complete_name(step));
    REQUIRE(r);
    for (const auto& plan : *plans) CHECK(check_share(*r, plan));
  }
  CHECK(cp::verify_all(files, "/first/step-00000002"));
  // A shard of the other save under this one's name is refused by its footer, before its words.
  const auto theirs = files.read_small("/first/step-00000001/rank-00000.shard", 1 << 20);
  REQUIRE(theirs);
  REQUIRE(files.write_small("/first/step-00000002/rank-00000.shard", *theirs, io::durable::yes));
  const auto r = cp::reader::open(files, "/first/step-00000002");
  CHECK((!r || !check_share(*r, plans->front())));
}

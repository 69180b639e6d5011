// A committer that is to give up a checkpoint whose files ranks have: which ones it does, and until
// when; on virtual time.
#include "actors/checkpoint/committer.hpp"

#include <chrono>
#include <filesystem>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/retention.hpp"
#include "io/file.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace std::chrono_literals;
namespace cp = troupe::io::checkpoint;
namespace fs = std::filesystem;

namespace {

/// A job with two checkpoints, a rank that has a file of the newer one, and the job's committer.
struct giving_up_one : troupe::test::actor_fixture {
  scratch dir;
  fs::path older, newer, shard = dir / "state";
  troupe::test::partner run = make_partner("run");
  committer_actor target;

  giving_up_one() : actor_fixture(1) {
    older = cp::sample::make(dir / "all", {1, 1, 4});
    newer = cp::sample::make(dir / "all", {1, 1, 6});
    fs::create_hard_link(newer / cp::shard_name(0), shard);
    train::spawn_record record{1};
    record.plan.job.checkpoint.dir = (dir / "all").string();
    target = spawn(checkpoint::committer, record, &io::local_storage());
  }

  msg<fbs::GiveUpCheckpoint> order_of(const fs::path& checkpoint, uint64_t left_ms) const {
    auto sent = context();
    sent.now_ns = now_ns();
    return make_msg<fbs::GiveUpCheckpoint>(sent, [&](auto& m) {
      m.directory = checkpoint.string();
      m.left_ms = left_ms;
    });
  }
  status tell(const msg<fbs::GiveUpCheckpoint>& order) {
    const auto answer = run.answer_of<fbs::Ack>(run.ask(target, order));
    return answer ? status() : status(answer.error());
  }
  status give_up(const fs::path& checkpoint, uint64_t left_ms = 600'000) {
    return tell(order_of(checkpoint, left_ms));
  }
};

bool verifies_whole(const fs::path& checkpoint) {
  const auto r = cp::reader::open(checkpoint);
  if (!r) return false;
  const auto report = r->verify();
  return report && report->damages.empty();
}

}  // namespace

TEST_CASE("ARC-6: committer: a checkpoint in ranks' files is given up, but no held or read one") {
  giving_up_one f;
  const auto bytes = cp::sample::bytes_of(f.shard);
  REQUIRE(cp::add_hold(f.newer, {"alice", "the best one"}));
  const auto held = f.give_up(f.newer);
  REQUIRE_FALSE(held);
  CHECK(held.error().is(cp::not_given_up));
  REQUIRE(cp::release_hold(f.newer, "alice"));
  {
    const auto reading = cp::reading::begin(f.newer);
    REQUIRE(reading);
    const auto read = f.give_up(f.newer);
    REQUIRE_FALSE(read);
    CHECK(read.error().is(cp::not_given_up_yet));
  }
  const auto not_ours = f.dir.path / f.newer.filename();  // in no folder of the job's
  fs::copy(f.newer, not_ours, fs::copy_options::recursive);
  for (const auto& other : {f.dir.path, not_ours}) {
    const auto kept = f.give_up(other);
    REQUIRE_FALSE(kept);
    CHECK(kept.error().is(cp::not_given_up));
  }
  CHECK(verifies_whole(not_ours));
  CHECK(verifies_whole(f.newer));
  CHECK(f.give_up(f.newer));
  CHECK_FALSE(fs::exists(f.newer));
  CHECK(fs::hard_link_count(f.shard) == 1);
  CHECK(cp::sample::bytes_of(f.shard) == bytes);
  CHECK(verifies_whole(f.older));
  CHECK(f.give_up(f.newer));  // it is gone already
}

TEST_CASE("ARC-6: committer: what its run waits for no longer is not begun, however often told") {
  giving_up_one f;
  const auto is_late = [&](const msg<fbs::GiveUpCheckpoint>& order) {
    const auto refused = f.tell(order);
    REQUIRE_FALSE(refused);
    return refused.error().is(cp::given_up_too_late);
  };
  CHECK(is_late(f.order_of(f.newer, 0)));
  const auto first = f.order_of(f.newer, 10'000);
  {
    const auto reading = cp::reading::begin(f.newer);
    REQUIRE(reading);
    const auto read = f.tell(first);
    REQUIRE_FALSE(read);
    CHECK(read.error().is(cp::not_given_up_yet));
    f.pass(6s);
  }
  const auto again = f.order_of(f.newer, 4'000);  // what is left
  f.pass(4s);
  CHECK(is_late(first));
  CHECK(is_late(again));
  CHECK(verifies_whole(f.newer));
  const auto in_time = f.order_of(f.newer, 10'000);
  f.pass(10s - 1ms);
  CHECK(f.tell(in_time));
  CHECK_FALSE(fs::exists(f.newer));
  f.pass(1ms);
  CHECK(is_late(in_time));  // though there is nothing left to do
  CHECK(f.give_up(f.older, std::numeric_limits<uint64_t>::max()));
}

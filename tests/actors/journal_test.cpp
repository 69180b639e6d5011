// What a head kept is what the next one finds.
#include "actors/train/journal.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "actors/heads/elector.hpp"
#include "actors/train/succession.hpp"
#include "io/disk/file_system.hpp"
#include "messages/any_msg.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

struct kept : troupe::test::actor_fixture {
  troupe::test::partner run = make_partner("run");
  journal_actor actor;

  explicit kept(result<kept_journal> from) : actor_fixture(7) {
    REQUIRE(from);
    actor = spawn(journal, std::make_shared<kept_journal>(std::move(*from)));
  }
  bool keeps(const job_memory& memory) {
    return bool(run.answer_of<fbs::Ack>(
        run.ask(actor, make_msg<fbs::JobMemory>(context_of(7), to_message(memory)))));
  }
  bool keeps(const fbs::ClusterMemoryT& memory) {
    return bool(run.answer_of<fbs::Ack>(
        run.ask(actor, make_msg<fbs::ClusterMemory>(context_of(7), memory))));
  }
};

const job_memory lunch{true, "lunch", {{"train.lr", "0.001", "0.003", 112}}};
const job_memory later{false, "", {{"train.lr", "0.002", "0.003", 114}}};

}  // namespace

TEST_CASE("JRA-1: what was answered is found, the newest counts") {
  scratch dir;
  CHECK_FALSE(recall(io::local_files(), dir.path)->memory);
  {
    kept f(begin_journal(io::local_files(), dir.path));
    REQUIRE(f.keeps(lunch));
    CHECK(recall(io::local_files(), dir.path)->memory == lunch);
    REQUIRE(f.keeps(later));
  }
  {
    kept f(recall(io::local_files(), dir.path));
    CHECK(recall(io::local_files(), dir.path)->memory == later);
    REQUIRE(f.keeps(lunch));
  }
  CHECK(recall(io::local_files(), dir.path)->memory == lunch);
}

TEST_CASE("JRA-1: a new launch knows nothing of the one before") {
  scratch dir;
  {
    kept f(begin_journal(io::local_files(), dir.path));
    REQUIRE(f.keeps(lunch));
  }
  CHECK_FALSE(begin_journal(io::local_files(), dir.path)->memory);
  CHECK_FALSE(recall(io::local_files(), dir.path)->memory);
}

TEST_CASE("JRA-2: a file of a person's stays as it is, and a journal is an error") {
  scratch dir;
  std::ofstream(dir / "journal") << "dear diary";
  CHECK_FALSE(begin_journal(io::local_files(), dir.path));
  CHECK_FALSE(recall(io::local_files(), dir.path));
  std::ifstream in(dir / "journal");
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == "dear diary");
}

// -- several heads --------------------------------------------------------------------------------

namespace {

/// The journal of a head of several, whose elector is the test.
struct kept_by_majority : troupe::test::actor_fixture {
  troupe::test::partner run = make_partner("run"), elector = make_partner("elector");
  journal_actor actor;

  explicit kept_by_majority(result<kept_journal> from) : actor_fixture(7) {
    REQUIRE(from);
    from->elector = elector.as<elector_actor>();
    actor = spawn(journal, std::make_shared<kept_journal>(std::move(*from)));
  }
  uint64_t say(const job_memory& memory) {
    return run.ask(actor, make_msg<fbs::JobMemory>(context_of(7), to_message(memory)));
  }
};

template <class T>
std::string held_content(const typename T::NativeTableType& what) {
  const auto bytes = encode(make_msg<T>({}, what));
  return {bytes.begin(), bytes.end()};
}

/// What a majority held of the head before.
heads::held_records held_of(const job_memory& memory, const std::vector<std::string>& nodes,
                            uint64_t launch = 0) {
  fbs::ClusterMemoryT cluster;
  cluster.nodes = nodes;
  cluster.launch = launch;
  return {{message_traits<fbs::JobMemory>::id,
           {4, 2, held_content<fbs::JobMemory>(to_message(memory))}},
          {message_traits<fbs::ClusterMemory>::id,
           {4, 1, held_content<fbs::ClusterMemory>(cluster)}}};
}

}  // namespace

TEST_CASE("JRA-3: a record is acknowledged once the elector says that a majority holds it") {
  scratch dir;
  kept_by_majority f(begin_journal(io::local_files(), dir.path));
  const auto number = f.say(lunch);
  const auto asked = f.elector.take<fbs::ShareRecord>();
  CHECK(is_error(f.run.answer_of<fbs::Ack>(number), ""));  // not yet
  CHECK(recall(io::local_files(), dir.path)->memory == lunch);  // on its own disk first
  const auto& bytes = *asked->content();
  const auto shared = decode({bytes.data(), bytes.size()});
  REQUIRE(shared);
  REQUIRE(cast<fbs::JobMemory>(*shared));
  CHECK(memory_in(cast<fbs::JobMemory>(*shared).unpack()) == lunch);
  asked.answer<fbs::Ack>();
  CHECK(f.run.answer_of<fbs::Ack>(number));
  CHECK(f.elector.idle());
}

TEST_CASE("JRA-3: what the elector fails with is the answer, be it silent too") {
  scratch dir;
  kept_by_majority f(begin_journal(io::local_files(), dir.path));
  const auto refused = f.say(lunch);
  f.elector.take<fbs::ShareRecord>().refuse(heads::outvoted(9, "two:4002"));
  const auto answer = f.run.answer_of<fbs::Ack>(refused);
  REQUIRE_FALSE(answer);
  CHECK(answer.error() == heads::outvoted(9, "two:4002"));
  const auto silent = f.say(later);
  f.elector.take<fbs::ShareRecord>();
  f.pass(std::chrono::seconds(11));
  REQUIRE_FALSE(f.run.answer_of<fbs::Ack>(silent));
  CHECK_FALSE(f.run.answer_of<fbs::Ack>(silent).error().kind.empty());  // an answer, not none
}

TEST_CASE("JRA-3: a head that acts for another begins with what a majority held, and keeps it") {
  scratch dir;
  {
    kept f(begin_journal(io::local_files(), dir.path));  // of an earlier time at this head
    REQUIRE(f.keeps(later));
  }
  auto begun = begin_journal_from(io::local_files(), dir.path, held_of(lunch, {"a", "c"}));
  REQUIRE(begun);
  CHECK(begun->memory == lunch);
  REQUIRE(begun->cluster);
  CHECK(begun->cluster->nodes == std::vector<std::string>{"a", "c"});
  const auto found = recall(io::local_files(), dir.path);
  REQUIRE(found);
  CHECK(found->memory == lunch);
  REQUIRE(found->cluster);
  CHECK(found->cluster->nodes == std::vector<std::string>{"a", "c"});
}

TEST_CASE("JRA-3: where no majority held anything it begins with nothing") {
  scratch dir;
  {
    kept f(begin_journal(io::local_files(), dir.path));
    REQUIRE(f.keeps(later));
  }
  const auto begun = begin_journal_from(io::local_files(), dir.path, {});
  REQUIRE(begun);
  CHECK_FALSE(begun->memory);
  CHECK_FALSE(begun->cluster);
  CHECK_FALSE(recall(io::local_files(), dir.path)->memory);
}

TEST_CASE("SUC-2: journal: a head that goes on has the launch of the first, and no other launch") {
  scratch dir;
  config::job job;
  job.job.output = dir.path.string();
  const head_before lost{.lost = lost_head{"was killed", 4, 4, 0}};
  CHECK(succeed(io::local_files(), job, 1, lost).first_launch == 0);  // nobody has told
  auto first = succeed(io::local_files(), job, 1, {});
  REQUIRE(first.journal);
  CHECK(first.first_launch == 0);
  {
    kept f(std::move(*first.journal));
    fbs::ClusterMemoryT told;
    told.launch = 7;
    REQUIRE(f.keeps(told));
  }
  CHECK(succeed(io::local_files(), job, 1, lost).first_launch == 7);
  CHECK(succeed(io::local_files(), job, 1, lost).first_launch == 7);  // and the one after it

  auto elected = lost;  // another machine, by what voters hold
  elected.won.emplace().held = held_of(lunch, {"a"}, 9);
  CHECK(succeed(io::local_files(), job, 1, elected).first_launch == 9);

  CHECK(succeed(io::local_files(), job, 1, {}).first_launch == 0);  // a person's
  CHECK(succeed(io::local_files(), job, 1, lost).first_launch == 0);
}

// What a head kept is what the next one finds.
#include "actors/train/journal.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "io/disk/file_system.hpp"
#include "tests/actors/actor_fixture.hpp"
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

// [[inject]]: what a drill says, how it is called, and what is refused.
#include "io/config/drills.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/load.hpp"
#include "io/config/show.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::config;

namespace {

const std::string job_of_four =
    "cluster = {nodes = 4}\nparallel = {data = 2, pipeline = 2}\n"
    "model = {layers = 4, heads = 4, hidden = 64}\ndata = {path = 'text'}\n";

result<job> with_drills(const std::string& text) {
  return parse(job_of_four + text, "job.toml");
}

}  // namespace

TEST_CASE("J-8: drills: each says whom, what and when, and is written as it was read") {
  CHECK(with_drills("")->inject.empty());
  const auto got = with_drills(
      "[[inject]]\nwho = 'rank 2'\nwhat = 'slow'\nfrom_step = 5\nevery = 10\nfactor = 3\n"
      "[[inject]]\nwho = 'node1'\nwhat = 'drop'\n");
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->inject == std::vector<drill_spec>{{"rank 2", drill_kind::slow, 5, 10, 3},
                                               {"node1", drill_kind::drop, 1, 0, 0}});
  CHECK(parse(to_toml(*got), "again")->inject == got->inject);  // J-4
  CHECK(rank_of(got->inject[0]) == 2);
  CHECK_FALSE(rank_of(got->inject[1]));
}

TEST_CASE("drills: what each does is said in a sentence") {
  struct row {
    drill_spec drill;
    const char *when, *what;
  };
  for (const auto& [drill, when, what] : {
           row{{"rank 2", drill_kind::slow, 5, 10, 2.5},
               "step 5, then every 10 steps",
               "rank 2 computes 2.5 times as long"},
           row{{"rank 2", drill_kind::hang, 30, 0, 0}, "step 30", "rank 2 hangs"},
           row{{"rank 0", drill_kind::wrong_bit, 4, 0, 0},
               "step 4",
               "a bit of the weights of rank 0 turns before they are compared next"},
           row{{"rank 0", drill_kind::wrong_product, 4, 0, 0},
               "step 4",
               "a bit of what rank 0 computes to be compared next turns"},
           row{{"node1", drill_kind::fail, 7, 1, 0},
               "each step from 7 on",
               "the process of node1 is killed"},
           row{{"node1", drill_kind::disk_slow, 7, 0, 20},
               "step 7",
               "node1 writes the next checkpoint 20 times as long"},
           row{{"node1", drill_kind::drop, 7, 0, 0},
               "step 7",
               "nothing that the process of node1 says arrives any more"},
       }) {
    CHECK(drill_steps_text(drill) == when);
    CHECK(drill_text(drill) == what);
  }
}

TEST_CASE("J-8: drills: what is wrong with one is said with its place") {
  struct wrong {
    std::string text, place, what;
  };
  const std::string drill = "[[inject]]\n", whose = drill + "who = 'rank 1'\n",
                    hangs = "what = 'hang'\n";
  std::string many;
  for (size_t i = 0; i <= most_drills; ++i) many += whose + hangs;
  for (const auto& w : {
           wrong{drill + "who = 'rank 4'\n" + hangs, "job.toml:6:7", "the job has ranks 0 to 3"},
           wrong{drill + "who = 'nod1'\n" + hangs, "job.toml:6:7", "did you mean \"node1\"?"},
           wrong{drill + "who = 'rank -1'\n" + hangs, "job.toml:6:7", "expected \"rank N\""},
           wrong{drill + "who = 'rank 1x'\n" + hangs, "job.toml:6:7", "expected \"rank N\""},
           wrong{drill + "who = 1\n" + hangs, "job.toml:6:7", "expected a string"},
           wrong{drill + hangs, "job.toml:5:1", "needs a who"},
           wrong{whose, "job.toml:5:1", "needs a what"},
           wrong{whose + "what = 'hangs'\n", "job.toml:7:8", "did you mean \"hang\"?"},
           wrong{whose + hangs + "from_stop = 3\n", "job.toml:8:1",
                 "did you mean inject.from_step?"},
           wrong{whose + hangs + "from_step = 0\n", "job.toml:8:13", "from 1"},
           wrong{whose + hangs + "every = -1\n", "job.toml:8:9", "from 0"},
           wrong{whose + hangs + "factor = 3\n", "job.toml:8:10", "hang has no factor"},
           wrong{whose + "what = 'slow'\n", "job.toml:5:1", "slow needs a factor above 1, got 0"},
           wrong{whose + "what = 'disk_slow'\nfactor = 1\n", "job.toml:8:10", "above 1, got 1"},
           wrong{whose + "what = 'slow'\nfactor = 1001\n", "job.toml:8:10", "from 0 to 1000"},
           wrong{"inject = 3\n", "job.toml:5:1", "expected [[inject]] tables"},
           wrong{many, "job.toml:5:1", "at most 64"},
       }) {
    CAPTURE(w.text);
    const auto got = with_drills(w.text);
    REQUIRE_FALSE(got);
    const auto said = render(got.error());
    CAPTURE(said);
    CHECK(said.find(w.place) != std::string::npos);
    CHECK(said.find(w.what) != std::string::npos);
  }
}

TEST_CASE("drills: a wrong bit that nobody could find is refused") {
  const std::string bit = "[[inject]]\nwho = 'rank 0'\nwhat = 'wrong_bit'\n";
  CHECK(with_drills(bit));
  const auto alone = parse(
      "model = {layers = 4, heads = 4, hidden = 64}\ndata = {path = 't'}\n" + bit, "job.toml");
  REQUIRE_FALSE(alone);
  CHECK(render(alone.error()).find("there is one replica") != std::string::npos);
  const auto blind = with_drills("health = {digest_every = 0}\n" + bit);
  REQUIRE_FALSE(blind);
  CHECK(render(blind.error()).find("do not compare their weights") != std::string::npos);
}

TEST_CASE("drills: a wrong product that nobody would compute again is refused") {
  const std::string product = "[[inject]]\nwho = 'rank 0'\nwhat = 'wrong_product'\n";
  CHECK(with_drills(product));
  CHECK(parse("model = {layers = 4, heads = 4, hidden = 64}\ndata = {path = 't'}\n" + product,
              "job.toml"));  // one replica holds what it computes against itself
  const auto blind = with_drills("health = {recheck_every = 0}\n" + product);
  REQUIRE_FALSE(blind);
  CHECK(render(blind.error()).find("no layer is computed") != std::string::npos);
}

TEST_CASE("drills: they are shown and explained as other tables are") {
  CHECK(explain("inject.who"));
  CHECK(explain("inject")->find("--allow-injection") != std::string::npos);
  CHECK(reference_markdown().find("## [[inject]]") != std::string::npos);
  CHECK(json_schema().find("\"inject\"") != std::string::npos);
}

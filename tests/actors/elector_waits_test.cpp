// The elector of a standby that has no business there: its settings are others than those of the
// head that acts, the job is over, or nobody acts.
#include "tests/actors/scripted_electorate.hpp"

using namespace troupe;
using namespace troupe::heads;
using namespace troupe::heads::test;
using namespace std::chrono_literals;

// -- one that is none of the job's, and one that waits --------------------------------------------

TEST_CASE("ELC-6: a standby with other settings than the head that acts is refused, once") {
  const auto here = settings_of_job(300), there = settings_of_job(400);
  scripted_electorate f({.own = 1, .settings = here});
  f.hear(0, 4);
  f.pass(300ms);
  const auto asked = f.wanted<fbs::FindHead>(f.others[0]);
  CHECK(asked->job() == here.digest());
  asked.answer<fbs::HeadFound>([&](auto& found) {
    found.name = three_heads[0];
    found.epoch = 4;
    found.job = there.digest();
    found.settings = there.lines();
  });
  REQUIRE(f.refusals.size() == 1);
  CHECK(is_error(f.refusals[0], another_configuration, three_heads[0], "train.steps", 400, 300));
  CHECK(f.refusals[0].code == errc::bad_config);
  f.pass(300ms);
  f.answer_how(0, 4, 0, there);
  CHECK(f.refusals.size() == 1);
  f.others[0].die();
  f.pass(60s);
  CHECK_FALSE(f.was_asked(f.others[2]));  // and wants nothing any more
}

TEST_CASE("ELC-6: the same settings, those of one that stands by, and none said are no fault") {
  const auto here = settings_of_job(300), there = settings_of_job(400);
  for (const auto& [epoch, settings] :
       {std::pair{4u, here}, {0u, there}, {4u, shared_settings()}}) {
    CAPTURE(epoch);
    scripted_electorate f({.own = 1, .settings = here});
    f.hear(0, epoch);
    f.pass(300ms);
    f.answer_how(0, epoch, 0, settings);
    CHECK(f.refusals.empty());
  }
}

TEST_CASE("ELC-6: a head says its settings to another one whose digest differs, and to no other") {
  const auto here = settings_of_job(300), there = settings_of_job(400);
  scripted_electorate f({.acting = 5, .settings = here});
  const auto found = [&](uint32_t job) {
    const auto answer = f.seek(f.others[1], three_heads[1], 0, 0, job);
    REQUIRE(answer);
    CHECK((*answer)->job() == here.digest());
    return answer->unpack().settings;
  };
  CHECK(found(there.digest()) == here.lines());
  CHECK(found(here.digest()).empty());
  CHECK(found(0).empty());
}

TEST_CASE("ELC-7: a standby that finds no head that acts says so, ever less often") {
  scripted_electorate f({.own = 1});
  f.hear(2);
  f.pass(19s);
  CHECK(f.says_that_it_waits(0, ""));
  f.pass(2s);
  CHECK(f.says_that_it_waits(1, "2 of 3 heads and nodes"));
  CHECK(f.says_that_it_waits(1, "`troupe up`"));
  f.pass(38s);
  CHECK(f.says_that_it_waits(1, ""));
  f.pass(3s);
  CHECK(f.says_that_it_waits(2, ""));
  f.hear(0, 4);
  f.others[0].die();
  f.others[2].die();  // no majority is left that it could ask
  f.pass(19s);
  CHECK(f.says_that_it_waits(2, ""));
  f.pass(2s);
  CHECK(f.says_that_it_waits(3, ""));
  CHECK(f.tells.back().find(three_heads[0]) != std::string::npos);
  CHECK(f.tells.back().find("1 of 3 heads and nodes") != std::string::npos);
}

TEST_CASE("ELC-7: a standby that comes back after the job's end finds that, and ends") {
  scripted_electorate f({.own = 1});
  f.ended = "all steps are done";
  f.pass(19s);
  CHECK(f.overs.empty());  // a head that begins may be about to say so
  f.pass(2s);
  CHECK(f.overs == std::vector<std::string>{"all steps are done"});
  f.pass(120s);
  CHECK(f.overs.size() == 1);
  CHECK(f.says_that_it_waits(0, ""));
  scripted_electorate hears({.own = 1});  // an earlier end is none of a job that runs
  hears.ended = "long ago";
  hears.hear(0, 4);
  hears.pass_with(60s, {{0, 4}});
  CHECK(hears.overs.empty());
}

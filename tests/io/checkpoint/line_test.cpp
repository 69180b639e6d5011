// Lines of checkpoints: what descends from what, what a start leaves behind, what retention counts.
#include "io/checkpoint/line.hpp"

#include "io/checkpoint/retention.hpp"
#include "tests/errors.hpp"
#include "tests/io/checkpoint/copying.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

constexpr uint64_t first_launch = 0xa1, second_launch = 0xa2, other_launch = 0xb1;

/// Of a launch that resumed from step 20 of the first one.
lineage after_20(uint64_t step) {
  return {{first_launch, 20}, {second_launch, step}};
}

sample::made made_by(uint64_t epoch, const lineage& line) {
  sample::made what;
  what.step = line.back().step;
  what.epoch = epoch;
  what.line = line;
  return what;
}

catalog_entry saved_by(uint64_t epoch, const lineage& line, std::optional<double> loss = {}) {
  catalog_entry e;
  e.name = {line.back().step, std::nullopt, folder_state::complete};
  e.path = complete_name(line.back().step);
  e.head = manifest_head{};
  e.head->step = line.back().step;
  e.head->epoch = epoch;
  e.head->line = line;
  e.head->validation_loss = loss;
  return e;
}

catalog_entry unreadable_at(uint64_t step) {
  catalog_entry e;
  e.name = {step, std::nullopt, folder_state::complete};
  e.path = complete_name(step);
  e.problem = error{errc::bad_data, "cut short"};
  return e;
}

std::vector<uint64_t> steps_of(const std::vector<catalog_entry>& some) {
  std::vector<uint64_t> out;
  for (const auto& e : some) out.push_back(e.name.step);
  return out;
}

void spoil_slot(const std::filesystem::path& checkpoint) {
  auto bytes = sample::bytes_of(checkpoint / "rank-00000.shard");
  sample::flip(bytes[100], 1);
  sample::write_bytes(checkpoint / "rank-00000.shard", bytes);
}

using step_list = std::vector<uint64_t>;

}  // namespace

TEST_CASE("LN-1: what leads to what") {
  struct row {
    lineage line, later;
    bool leads;
  };
  const std::vector<row> rows = {
      {{{first_launch, 10}}, {{first_launch, 30}}, true},
      {{{first_launch, 30}}, {{first_launch, 30}}, true},
      {{{first_launch, 30}}, {{first_launch, 10}}, false},
      {{{first_launch, 20}}, after_20(25), true},
      {{{first_launch, 21}}, after_20(25), false},  // the second launch did not have it
      {after_20(25), after_20(40), true},
      {after_20(25), {{first_launch, 99}}, false},
      {{{other_launch, 5}}, after_20(40), false},
      {{{0, 10}}, {{0, 20}}, true},
      {{{0, 10}}, {{0, 20}, {first_launch, 30}}, true},
      {{}, after_20(40), false},
      {{{first_launch, 10}}, {}, false},
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    CHECK(leads_to(rows[i].line, rows[i].later) == rows[i].leads);
  }
}

TEST_CASE("LN-2: a line grows by a launch, and is bounded") {
  CHECK(continued({}, 7, 3) == lineage{{7, 3}});
  CHECK(continued({{7, 3}}, 8, 9) == lineage{{7, 3}, {8, 9}});
  lineage line{{7, 0}};
  for (uint64_t n = 1; n < 2 * max_launches; ++n) line = continued(line, 7 + n, n);
  CHECK(line.size() == max_launches);
  CHECK(name_of(line) == "0000000000000007");
  CHECK(line.back().step == 2 * max_launches - 1);
  CHECK(draw_launch() != draw_launch());
}

TEST_CASE("MF-5: a line that does not lead to its checkpoint is refused") {
  scratch dir;
  auto m = reader::open(sample::make(dir.path, made_by(1, after_20(120))))->content();
  CHECK(check(m));
  for (const lineage& bad : {lineage{{1, 119}}, lineage{{1, 130}, {2, 120}}, lineage{{1, 121}},
                             lineage(max_launches + 1, {1, 120})}) {
    m.head.line = bad;
    CHECK_FALSE(check(m));
  }
}

TEST_CASE("CT-3: auto goes on with the line of the newest launch, whatever the steps say") {
  scratch dir;
  for (const uint64_t step : {10, 20, 30, 40})
    sample::make(dir.path, made_by(1, {{first_launch, step}}));
  CHECK(newest_that_verifies(local_files(), {&dir.path, 1})->path == dir / "step-00000040");
  sample::make(dir.path, made_by(2, after_20(25)));
  CHECK(newest_that_verifies(local_files(), {&dir.path, 1})->path == dir / "step-00000025");
  spoil_slot(dir / "step-00000025");
  CHECK(newest_that_verifies(local_files(), {&dir.path, 1})->path == dir / "step-00000020");
  sample::make(dir.path, made_by(3, {{other_launch, 5}}));
  CHECK(newest_that_verifies(local_files(), {&dir.path, 1})->path == dir / "step-00000005");
  spoil_slot(dir / "step-00000005");
  CHECK_FALSE(newest_that_verifies(local_files(), {&dir.path, 1})
                  ->path);  // a person says what is to be done
}

TEST_CASE("CT-3: what another tier has of a past that was left is not taken") {
  scratch dir;
  const std::filesystem::path tiers[] = {dir / "first", dir / "second"};
  for (const uint64_t step : {20, 40}) sample::make(tiers[1], made_by(1, {{first_launch, step}}));
  sample::make(tiers[0], made_by(2, after_20(30)));
  CHECK(newest_that_verifies(local_files(), tiers)->path == tiers[0] / "step-00000030");
  spoil_slot(tiers[0] / "step-00000030");
  CHECK(newest_that_verifies(local_files(), tiers)->path == tiers[1] / "step-00000020");
}

TEST_CASE("what a start leaves behind") {
  const std::vector<catalog_entry> all = {
      saved_by(1, {{first_launch, 40}}), unreadable_at(35),
      saved_by(1, {{first_launch, 20}}), unreadable_at(15),
      saved_by(2, {{other_launch, 10}}), saved_by(1, {{first_launch, 5}})};
  CHECK(steps_of(left_behind(all, {})) == step_list{40, 35, 20, 15, 10, 5});
  CHECK(steps_of(left_behind(all, {{first_launch, 20}})) == step_list{40, 35, 10});
  CHECK(steps_of(left_behind(all, {{first_launch, 40}})) == step_list{10});
  CHECK(steps_of(left_behind(all, {{other_launch, 10}})) == step_list{40, 35, 20, 15, 5});
}

TEST_CASE("CT-4: what is set aside keeps every byte, and nothing takes it by itself") {
  scratch dir;
  for (const uint64_t step : {10, 20}) sample::make(dir.path, made_by(1, {{first_launch, step}}));
  REQUIRE(set_aside(local_files(), *list(dir.path)));
  CHECK(sample::names_in(dir.path) ==
        std::set<std::string>{"step-00000010.aside-1", "step-00000020.aside-1"});
  CHECK_FALSE(newest_that_verifies(local_files(), {&dir.path, 1})->path);
  CHECK(next_epoch(*list(dir.path)) == 2);
  sample::make(dir.path, made_by(2, {{other_launch, 10}}));
  const auto one = list(dir.path);
  REQUIRE(set_aside(local_files(), left_behind(*one, {})));
  CHECK(sample::names_in(dir.path).contains("step-00000010.aside-2"));
  for (const auto& name : sample::names_in(dir.path)) CHECK(verify_all(dir / name));
  REQUIRE(caretaker({0xc1, {}, {}}).retain(dir.path, {1, 0, 0}));
  CHECK(sample::names_in(dir.path).size() == 3);
}

TEST_CASE("RT-4: what another line holds is neither counted nor given up") {
  const std::vector<catalog_entry> all = {
      saved_by(1, {{first_launch, 40}}), saved_by(1, {{first_launch, 30}}),
      saved_by(2, after_20(28)), saved_by(2, after_20(24)), saved_by(1, {{first_launch, 20}})};
  const standing now{after_20(1000), [](const catalog_entry&) { return true; }};
  step_list gone;
  for (const auto& d : plan_removal(all, {1, 0, 0}, now, 0)) gone.push_back(d.name.step);
  CHECK(gone == step_list{20, 24});
}

TEST_CASE("RT-5: only what is known to be whole fills a rule's number") {
  struct row {
    retention rules;
    std::set<uint64_t> sound;
    step_list gone;
  };
  std::vector<catalog_entry> all;
  for (const uint64_t step : {50, 40, 30, 20, 10})
    all.push_back(saved_by(1, {{first_launch, step}}, 1.0 + static_cast<double>(step) / 100));
  const std::vector<row> rows = {
      {{1, 0, 0}, {50, 40, 30, 20, 10}, {10, 20, 30, 40}},
      {{1, 0, 0}, {40}, {10, 20, 30}},  // 50 is damaged: it stays, and 40 counts
      {{2, 0, 0}, {50, 20}, {10}},      // between them nothing is known
      {{2, 0, 0}, {50}, {}},            // the second may be any of them
      {{1, 0, 0}, {}, {}},              // nothing is known to be whole
      {{0, 20, 0}, {50, 40, 30, 20, 10}, {10, 30}},
      {{0, 0, 1}, {50, 40, 30, 20, 10}, {20, 30, 40}},
      {{0, 0, 1}, {50, 20}, {30, 40}},  // 10 may be better and whole
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    const standing now{{{first_launch, 1000}},
                       [&](const catalog_entry& e) { return rows[i].sound.contains(e.name.step); }};
    step_list gone;
    for (const auto& d : plan_removal(all, rows[i].rules, now, 0)) gone.push_back(d.name.step);
    CHECK(gone == rows[i].gone);
  }
}

TEST_CASE("RT-5: a launch trusts what it saved, while its files are there") {
  scratch dir;
  const origin own{second_launch, {{first_launch, 20}}, dir / "step-00000020"};
  for (const uint64_t step : {10, 20}) sample::make(dir.path, made_by(1, {{first_launch, step}}));
  for (const uint64_t step : {30, 40}) sample::make(dir.path, made_by(2, own.at(step)));
  std::filesystem::remove(dir / "step-00000040/rank-00000.shard");
  caretaker keeper(own);
  REQUIRE(keeper.retain(dir.path, {2, 0, 0}));  // 40 does not count: 30 and 20 are the newest two
  CHECK(sample::names_in(dir.path) ==
        std::set<std::string>{"step-00000020", "step-00000030", "step-00000040"});
}

TEST_CASE("RT-6: what a launch began from, and its copy, stay until a newer one was read back") {
  for (const std::string began_from : {"step-00000020", "elsewhere/step-00000020"}) {
    CAPTURE(began_from);
    scratch dir;
    const origin own{second_launch, {{first_launch, 20}}, dir / began_from};
    sample::make(dir.path, made_by(1, {{first_launch, 20}}));
    sample::make(dir.path, made_by(2, own.at(30)));
    spoil_slot(dir / "step-00000030");
    caretaker keeper(own);
    const auto kept = keeper.retain(dir.path, {1, 0, 0});
    REQUIRE_FALSE(kept);
    CHECK(kept.error().code == errc::bad_data);
    CHECK(mentions(kept.error(), (dir / "step-00000020").string()));  // not the damaged one alone
    CHECK(verify_all(dir / "step-00000020"));
    sample::make(dir.path, made_by(2, own.at(40)));
    REQUIRE(keeper.retain(dir.path, {1, 0, 0}));
    CHECK(sample::names_in(dir.path) == std::set<std::string>{"step-00000040"});
  }
}

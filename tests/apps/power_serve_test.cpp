// `troupe power serve`: its count of lives, its journal, what it makes of its file, and the process
// with the tools that speak to it.
#include "apps/power/power_serve.hpp"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/power/node_parent.hpp"
#include "apps/power/budget_disk.hpp"
#include "apps/power/budget_sign.hpp"
#include "io/tls/certs.hpp"
#include "io/tls/keyring.hpp"
#include "tests/apps/ended.hpp"
#include "tests/apps/runtime_folder.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::apps::power_verb;

namespace fs = std::filesystem;

namespace {

constexpr const char* two_jobs =
    "name = 'row0'\nbudget_w = 70\n"
    "[[child]]\nname = 'gpt-a'\npriority = 'high'\nfloor_w = 20\nstatic_w = 40\nceiling_w = 60\n"
    "[[child]]\nname = 'gpt-b'\nfloor_w = 15\nstatic_w = 20\nceiling_w = 60\npaused_w = 5\n";

constexpr std::chrono::seconds long_enough{60};

config::power_tree tree_of(const scratch& folder, const std::string& toml = two_jobs) {
  put_file(folder / "p.toml", toml);
  const auto tree = read_budget((folder / "p.toml").string());
  REQUIRE_MESSAGE(tree, (tree ? "" : render(tree.error())));
  return *tree;
}

std::string with_budget(const std::string& watts) {
  std::string out = two_jobs;
  return out.replace(out.find("= 70"), 4, "= " + watts);
}

/// 0: there was none.
uint64_t life_counted_in(const fs::path& file) {
  const auto next = next_epoch(file);
  return next ? *next : 0;
}

}  // namespace

TEST_CASE("PSV-6: power serve: a budget shows a certificate of its role, and knows children so") {
  const scratch folder;
  const auto pki = (folder / "pki").string();
  REQUIRE(tls::make(pki, {{"row0", {"127.0.0.1"}, tls::role::power}, {"node0", {}}}));
  const auto with_certificate = [&](const std::string& whose) {
    put_file(folder / "p.toml", two_jobs + fmt::format("certificate = 'b-head'\n[tls]\nca = "
                                                       "'{0}/ca.pem'\ncertificate = "
                                                       "'{0}/{1}.pem'\nkey = '{0}/{1}.key'\n",
                                                       pki, whose));
    return read_budget((folder / "p.toml").string());
  };
  const auto tree = with_certificate("{node}");  // its name
  REQUIRE_MESSAGE(tree, (tree ? "" : render(tree.error())));
  const auto options = budget_options_of(*tree, 1);
  CHECK(options.children[0].certificate == "gpt-a");
  CHECK(options.children[1].certificate == "b-head");
  for (const auto& whose : {"node0", "none"}) {
    CAPTURE(std::string(whose));
    const auto refused = with_certificate(whose);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::bad_config);
  }
  CHECK(budget_options_of(tree_of(folder), 1).children[0].certificate.empty());
}

TEST_CASE("PTR-5: power serve: a budget on all addresses is not its own parent by one of them") {
  const scratch folder;
  const auto pki = (folder / "pki").string();
  REQUIRE(tls::make(pki, {{"row0", {"127.0.0.1"}, tls::role::power}}));
  const auto under = [&](const std::string& place) {
    put_file(folder / "p.toml",
             fmt::format("listen = '0.0.0.0'\nport = 4242\nparent = '{1}'\n{2}[tls]\nca = "
                         "'{0}/ca.pem'\ncertificate = '{0}/row0.pem'\nkey = '{0}/row0.key'\n",
                         pki, place, two_jobs));
    return read_budget((folder / "p.toml").string());
  };
  std::array<char, 256> name{};
  REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  const auto refused = under(fmt::format("{}:4242", name.data()));
  REQUIRE(!refused);
  CHECK(refused.error().is(power::own_parent));
  const auto other = under(fmt::format("{}:4243", name.data()));
  CHECK_MESSAGE(other, (other ? "" : render(other.error())));
}

TEST_CASE("PSV-1: power serve: each life has an epoch above the one before, on the disk") {
  const scratch folder;
  const auto file = folder / "power.epoch";
  CHECK(life_counted_in(file) == 1);
  CHECK(content(file) == "{\"epoch\":1}\n");
  CHECK(life_counted_in(file) == 2);
  CHECK(life_counted_in(file) == 3);
  CHECK(content(file) == "{\"epoch\":3}\n");
  CHECK(next_epoch(file, 2).has_value());
  CHECK(next_epoch(file, 9).has_value());
  CHECK(content(file) == "{\"epoch\":10}\n");
}

TEST_CASE("PSV-1: power serve: a count that cannot be read is not begun anew") {
  const scratch folder;
  const auto file = folder / "power.epoch";
  for (const auto* text :
       {"", "{", "3", "{}", "{\"epoch\":-1}", "{\"epoch\":\"3\"}", "{\"epoch\":1.5}",
        "{\"epoch\":18446744073709551615}", "{\"epoch\":1,\"more\":2}"}) {
    CAPTURE(text);
    put_file(file, text);
    const auto next = next_epoch(file);
    REQUIRE_FALSE(next);
    CHECK(next.error().code == errc::bad_data);
    CHECK(mentions(next.error(), file));
    CHECK(content(file) == text);
  }
  put_file(file, std::string(5000, ' '));
  CHECK(next_epoch(file).error().code == errc::bad_data);
  CHECK(next_epoch(folder / "absent" / "power.epoch").error().code != errc::none);
}

TEST_CASE("power serve: the actor has what the file says, in milliwatts") {
  const scratch folder;
  const auto tree = tree_of(folder);
  const auto o = budget_options_of(tree, 7);
  CHECK(o.name == "row0");
  CHECK(o.epoch == 7);
  CHECK(o.budget_mw == 70'000);
  CHECK(o.rules.mode == power::budget_mode::shares);
  CHECK(o.rules.tick_ns == 1'000'000'000);
  CHECK(o.rules.ttl_ns == 10'000'000'000);
  CHECK(o.rules.noise_mw == 150);
  CHECK(o.rules.fresh_ns == 2'500'000'000);
  CHECK(o.rules.pulls_brake);
  CHECK(o.rules.row.release_groups == 2);
  REQUIRE(o.children.size() == 2);
  CHECK(o.children[0].name == "gpt-a");
  CHECK(o.children[0].terms.priority == power::power_class::high);
  CHECK(o.children[0].terms.floor_mw == 20'000);
  CHECK(o.children[0].terms.static_share_mw == 40'000);
  CHECK(o.children[0].terms.ceiling_mw == 60'000);
  CHECK(o.children[1].terms.priority == power::power_class::low);
  CHECK(o.children[1].terms.paused_mw == 5'000);
  CHECK(budget_sentence(tree) ==
        "row0 has 70 W for 2 children, whose static shares are 60 W together");
  const auto j = nlohmann::json::parse(budget_json(tree));
  CHECK(j["budget_w"] == 70);
  CHECK(j["static_w"] == 60);
  CHECK(j["children"][0]["priority"] == "high");
}

TEST_CASE("PWR-1: power serve: where others' work may run who never came counts at its ceiling") {
  const scratch folder;
  const auto counted_in = [&](const std::string& of_last_child) {
    const auto tree = tree_of(folder, two_jobs + of_last_child);
    const auto o = budget_options_of(tree, 1);
    std::vector<power::budget_child> terms;
    for (const auto& c : o.children) terms.push_back(c.terms);
    const power::budget_policy policy(o.rules, terms, o.epoch, 0);
    CHECK(nlohmann::json::parse(budget_json(tree))["children"][1]["others_work"] ==
          o.children[1].terms.others_work);
    return policy.counted_mw(1);
  };
  CHECK(counted_in("") == 20'000);
  CHECK(counted_in("others_work = false\n") == 20'000);
  CHECK(counted_in("others_work = true\n") == 60'000);
}

TEST_CASE("power serve: whose steps may be shifted is what its file says, by default nobody's") {
  const scratch folder;
  for (const bool may : {false, true}) {
    const auto tree = tree_of(folder, std::string(two_jobs) + (may ? "phase = true\n" : ""));
    const auto o = budget_options_of(tree, 1);
    CHECK(!o.children[0].shifts);
    CHECK(o.children[1].shifts == may);
    CHECK(nlohmann::json::parse(budget_json(tree))["children"][1]["phase"] == may);
  }
}

TEST_CASE("power serve: thresholds have the rungs of their policy, and paces for clocks") {
  const scratch folder;
  const std::string of_row = "mode = 'thresholds'\n";
  const auto tree = tree_of(folder, of_row + two_jobs);
  const auto o = budget_options_of(tree, 1);
  CHECK(o.rules.mode == power::budget_mode::thresholds);
  CHECK(o.rules.clock_exponent == 1);
  REQUIRE(o.rules.row.rung_count == 3);
  CHECK(o.rules.row.rungs[0].threshold == 0.80);
  CHECK(o.rules.row.rungs[1].threshold == 0.89);
  CHECK(budget_sentence(tree) ==
        "row0 has 70 W for 2 children, whose static shares are 60 W together; by polca they may "
        "have more while less than 80 % of it is drawn");
  const auto ladder =
      budget_options_of(tree_of(folder, of_row + "policy = 'ladder'\nt1 = 0.7\n" + two_jobs), 1);
  REQUIRE(ladder.rules.row.rung_count == 5);
  CHECK(ladder.rules.row.rungs[0].threshold == 0.7);
  CHECK(ladder.rules.row.rungs[3].threshold == 0.95);

  CHECK(o.rules.row.hysteresis == 0.05);
  CHECK(o.rules.row.settle_up_ns == 5'500'000'000);
  CHECK(o.rules.row.settle_down_ns == o.rules.row.settle_up_ns);
  CHECK(ladder.rules.row.settle_up_ns == 4'500'000'000);
  CHECK(ladder.rules.row.settle_down_ns == 10'000'000'000);
  const auto own = budget_options_of(
      tree_of(folder, of_row +
                          "hysteresis = 0.08\nsettle_ms = 9000\nundo_ms = 20000\nbrake_hold_ms = "
                          "60000\nrelease_gap_ms = 5000\nunruly_ticks = 5\n" +
                          two_jobs + "idle_w = 12\n"),
      1);
  CHECK(own.rules.row.hysteresis == 0.08);
  CHECK(own.rules.row.settle_up_ns == 9'000'000'000);
  CHECK(own.rules.row.settle_down_ns == 20'000'000'000);
  CHECK(own.rules.row.brake_hold_ns == 60'000'000'000);
  CHECK(own.rules.row.release_gap_ns == 5'000'000'000);
  CHECK(own.rules.unruly_ticks == 5);
  CHECK(own.children[0].terms.idle_mw == 0);
  CHECK(own.children[1].terms.idle_mw == 12'000);
  put_file(folder / "h.toml", of_row + "t1 = 0.3\nhysteresis = 0.3\n" + two_jobs);
  const auto never_undone = read_budget((folder / "h.toml").string());
  REQUIRE_FALSE(never_undone);
  CHECK(never_undone.error().code == errc::bad_config);

  put_file(folder / "q.toml", of_row + "t1 = 0.9\n" + two_jobs);
  const auto wrong = read_budget((folder / "q.toml").string());
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == errc::bad_config);
}

TEST_CASE("power serve: the journal in words has the news of each line") {
  std::string line;
  power::budget_journal journal([&](const std::string& told) { line = told; }, {"gpt-a", "b"});
  const auto words = [&] { return journal_words(line); };
  const power::power_report report{{1, 1}, {1, 1}, 40'500, 38'000, 60'000};
  journal.begins("row0", power::budget_mode::shares, 70'000, 3);
  CHECK(words() == "row0: begins 70 W, epoch 3");
  journal.begins("row0", power::budget_mode::shares, 55'000, 3, 70'000);
  CHECK(words() == "row0: begins 55 W, epoch 3, set instead of 70 W");
  journal.begins("row0", power::budget_mode::shares, 55'000, 3, {}, "demand.csv");
  CHECK(words() == "row0: begins 55 W, epoch 3, by demand.csv");
  journal.heard_first(0, report);
  CHECK(words() == "gpt-a: heard; in force 40.5 W");
  journal.unsafe_t2(0.89, 0.71);
  CHECK(words() == "unsafe t2: above 71 % no cap may bind in time");
  const power::power_grant before{{1, 1}, {1, 1}, 40'500, 1'000'000'000, false};
  auto grant = before;
  journal.granted(0, before, std::nullopt, {{1, 1}, {}, 40'500, std::nullopt, 60'000});
  CHECK(words() == "gpt-a: grant 40.5 W; in force 40.5 W, wishes 60 W");
  grant.cap_mw = 44'000;
  journal.granted(0, grant, before, report);
  CHECK(words() == "gpt-a: grant 44 W, was 40.5 W; in force 40.5 W, draws 38 W, wishes 60 W");
  grant.shed = true;
  journal.granted(0, grant, before, report);
  CHECK(words() ==
        "gpt-a: grant 44 W, was 40.5 W, is to pause; in force 40.5 W, draws 38 W, wishes 60 W");
  journal.set(55'000, 70'000, 7'200'000, "alice");
  CHECK(words() == "budget 55 W, was 70 W, for 7200 s, by alice");
  journal.set_ends(70'000, 55'000);
  CHECK(words() == "budget 70 W, was 55 W: the time that it was set for is over");
  journal.follows(55'000, 70'000, "demand.csv");
  CHECK(words() == "budget 55 W, was 70 W, by demand.csv");
  journal.refused("x", "row0 has no child x");
  CHECK(words() == "x: refused: row0 has no child x");
  journal.conditions(1, {true, false}, 21'000, std::nullopt);
  CHECK(words() == "b: silent; counts 21 W");
  journal.conditions(1, {false, false}, 21'000, std::nullopt);
  CHECK(words() == "b: back; counts 21 W");
  journal.conditions(1, {false, true}, 30'000, 30'000);
  CHECK(words() == "b: unruly; counts 30 W, draws 30 W");
  journal.short_of_floors(true, 30'000, 41'000);
  CHECK(words() == "short of floors 30 W; counts 41 W");
  journal.superseded(0, 5);
  CHECK(words() == "gpt-a: superseded, epoch 5");
  journal.kept(error(errc::io, "write power.state: No space left on device"));
  CHECK(words() == "record not written: write power.state: No space left on device");
  journal.kept({});
  CHECK(words() == "record written again");
  CHECK(journal_words("no JSON") == "no JSON");
}

TEST_CASE("power serve: the journal in words says what a budget has by the one above it") {
  std::string line;
  power::budget_journal journal([&](const std::string& told) { line = told; }, {"gpt-a"});
  journal.own_lease("row0", {44'000, true, 9'000'000'000}, 0);
  CHECK(journal_words(line) == "row0: lease 44 W, was 0 W");
  journal.own_lease("row0", {30'000, false}, 44'000);
  CHECK(journal_words(line) == "row0: lease lapsed 30 W, was 44 W");
  journal.parent_not_heard("row0", "nothing is published there");
  CHECK(journal_words(line) == "row0: parent not heard: nothing is published there");
}

TEST_CASE("power serve: a budget below another one says so, and its key must be of role power") {
  const scratch folder;
  const auto tree = tree_of(folder, std::string("parent = 'auto:feed0'\n") + two_jobs);
  CHECK(budget_sentence(tree) ==
        "row0 has 70 W for 2 children, whose static shares are 60 W together; it is a child of "
        "another budget (auto:feed0)");
  CHECK(nlohmann::json::parse(budget_json(tree))["parent"] == "auto:feed0");
  put_file(folder / "k.toml", std::string("parent = '127.0.0.1:9'\nparent_key = '") +
                                  (folder / "absent.key").string() + "'\n" + two_jobs);
  const auto read = read_budget((folder / "k.toml").string());
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::not_found);
}

TEST_CASE("power serve: the journal has each line with its time") {
  const scratch folder;
  budget_journal journal(folder / "power.jsonl", false);
  journal.take(R"({"event":"begins","epoch":1})", 12.5);
  journal.take("no JSON", 13);
  REQUIRE(journal.settle(long_enough));
  CHECK(content(folder / "power.jsonl") ==
        "{\"unix_s\":12.5,\"event\":\"begins\",\"epoch\":1}\n"
        "{\"unix_s\":13.0,\"text\":\"no JSON\"}\n");
}

TEST_CASE("PSV-3: power serve: a journal that cannot be written stops nothing, and goes on") {
  const scratch folder;
  budget_journal journal(folder / "later" / "power.jsonl", false);
  journal.take(R"({"event":"one"})", 1);
  journal.take(R"({"event":"two"})", 2);
  REQUIRE(journal.settle(long_enough));
  CHECK_FALSE(fs::exists(folder / "later"));
  fs::create_directory(folder / "later");
  journal.take(R"({"event":"three"})", 3);
  REQUIRE(journal.settle(long_enough));
  CHECK(content(folder / "later" / "power.jsonl") == "{\"unix_s\":3.0,\"event\":\"three\"}\n");
}

TEST_CASE("PSV-1: power serve: a later life counts what the record says that jobs may draw") {
  const scratch folder;
  const auto tree = tree_of(folder);
  auto life = begin_life(tree, folder.path);
  REQUIRE(life);
  CHECK(life->epoch == 1);
  CHECK(life->children[0].terms.remembered_mw == 0);
  REQUIRE(life->keeper);
  life->keeper->keep(1, power::record_text({1, {{"gpt-a", 44'000}}, {}}));
  REQUIRE(static_cast<record_file&>(*life->keeper).settle(long_enough));
  life = begin_life(tree, folder.path);
  REQUIRE(life);
  CHECK(life->epoch == 2);
  CHECK(life->budget_mw == 70'000);
  CHECK(life->children[0].terms.remembered_mw == 44'000);
  CHECK(life->children[1].terms.remembered_mw == 0);
}

TEST_CASE("PSV-5: power serve: whom a record names and the file does not is not forgotten") {
  const scratch folder;
  const auto tree = tree_of(folder);
  const auto record = power::record_text({1, {{"gone", 9000}, {"gpt-a", 44'000}}, {}});
  put_file(folder / "power.state", record);
  const auto life = begin_life(tree, folder.path);
  REQUIRE_FALSE(life);
  CHECK(life.error().code == errc::bad_config);
  CHECK(mentions(life.error(), "gone"));
  CHECK(mentions(life.error(), 9));
  CHECK(mentions(life.error(), folder / "power.state"));
  CHECK(content(folder / "power.state") == record);
  CHECK_FALSE(fs::exists(folder / "power.epoch"));
}

TEST_CASE("PSV-1: power serve: a record that cannot be read begins no life") {
  const scratch folder;
  const auto tree = tree_of(folder);
  put_file(folder / "power.state", "{\"epoch\":1,\"child");
  const auto life = begin_life(tree, folder.path);
  REQUIRE_FALSE(life);
  CHECK(life.error().code == errc::bad_data);
  CHECK(mentions(life.error(), folder / "power.state"));
  CHECK_FALSE(fs::exists(folder / "power.epoch"));
  CHECK(content(folder / "power.state") == "{\"epoch\":1,\"child");
  put_file(folder / "power.state", power::record_text({41, {}, {}}));
  put_file(folder / "power.epoch", "{\"epoch\":3}\n");  // of a copy of long ago
  const auto later = begin_life(tree, folder.path);
  REQUIRE(later);
  CHECK(later->epoch == 42);
}

TEST_CASE("PSV-4: power serve: what was set holds until the file names another budget") {
  const scratch folder;
  const auto record = power::record_text(
      {1, {{"gpt-a", 44'000}}, power::budget_set{65'000, 70'000, "alice", "noon"}});
  put_file(folder / "power.state", record);
  auto tree = tree_of(folder);
  auto life = begin_life(tree, folder.path);
  REQUIRE(life);
  CHECK(life->budget_mw == 65'000);
  REQUIRE(life->set);
  CHECK(life->set->instead_of_mw == 70'000);
  CHECK(content(folder / "power.state") == record);
  const auto found = read_record(folder / "power.state");
  REQUIRE(found);
  CHECK(set_sentence(tree, *found)
            .starts_with("row0 has 65 W, set by alice at noon, not the 70 W of its file"));

  tree = tree_of(folder, with_budget("80"));
  CHECK(set_sentence(tree, *found) ==
        "row0 has 80 W by its file; the 65 W that were set by alice at noon hold no more: it named "
        "70 W then");
  life = begin_life(tree, folder.path);
  REQUIRE(life);
  CHECK(life->budget_mw == 80'000);
  CHECK(!life->set);
  CHECK(life->children[0].terms.remembered_mw == 44'000);
  tree = tree_of(folder);  // as it was: it does not come back
  life = begin_life(tree, folder.path);
  REQUIRE(life);
  CHECK(life->budget_mw == 70'000);
  CHECK(!life->set);
  CHECK(set_sentence(tree, {}).empty());

  put_file(folder / "power.state", power::record_text({1, {}, power::budget_set{59'000, 70'000}}));
  life = begin_life(tree, folder.path);
  REQUIRE(life);
  CHECK(life->budget_mw == 70'000);  // static shares are 60 W
}

TEST_CASE("PSV-4: power serve: whether what a person has set or a file holds is said") {
  const scratch folder;
  const auto tree = tree_of(folder, "follow = 'demand.csv'\n" + std::string(two_jobs));
  power::budget_record record{1, {}, power::budget_set{65'000, 70'000}};
  CHECK(set_sentence(tree, record) ==
        "row0 has 65 W, set, not what demand.csv says, nor the 70 W of its file: until that names "
        "another budget, or `troupe power budget 70`");
  record.set->instead_of_mw = 80'000;
  CHECK(set_sentence(tree, record) ==
        "row0 follows demand.csv by its file; the 65 W that were set hold no more: it named 80 W "
        "then");
}

TEST_CASE("power serve: what a budget follows is read, and refused with its file") {
  const scratch folder;
  const auto file = folder / "demand.csv";
  const auto tree = tree_of(folder, "follow = '" + file.string() + "'\n" + two_jobs);
  CHECK(read_schedule(tree, 0).error().code == errc::not_found);
  put_file(file, "unix_s,watts\n100,70\n2000,60\n");
  const auto got = read_schedule(tree, 1000);
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  REQUIRE(*got);
  CHECK((*got)->at_mw(0) == 70'000);
  CHECK((*got)->at_mw(1'000'000'000'000) == 60'000);
  CHECK(budget_sentence(tree, *got) ==
        "row0 has 70 W for 2 children, whose static shares are 60 W together; it follows " +
            file.string() + ": 60 to 70 W in 2 rows");
  for (const auto* text :
       {"", "t_s,watts\n0,59\n", "t_s,watts\n0,nan\n", "t_s,watts\n0,\n", "t_s,kw\n0,70\n"}) {
    CAPTURE(text);
    put_file(file, text);
    const auto refused = read_schedule(tree, 1000);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::bad_data);
    CHECK(mentions(refused.error(), file));
  }
  const auto none = read_schedule(tree_of(folder), 0);
  REQUIRE(none);
  CHECK_FALSE(none->has_value());
}

TEST_CASE("power serve: a file is judged without serving it") {
  const scratch folder;
  put_file(folder / "p.toml", two_jobs);
  put_file(folder / "bad.toml", std::string(two_jobs) + "floor_W = 1\n");
  const auto troupe = [&](const std::string& words) {
    return run_in(folder.path, "'" TROUPE_PROGRAM "' power " + words);
  };
  const auto sound = troupe("serve p.toml --check");
  CHECK(sound.code == 0);
  CHECK(sound.out == "row0 has 70 W for 2 children, whose static shares are 60 W together\n");
  CHECK(nlohmann::json::parse(troupe("serve p.toml --check --json").out)["budget"] == "row0");
  put_file(folder / "follows.toml", "follow = 'demand.csv'\n" + std::string(two_jobs));
  CHECK(troupe("serve follows.toml --check").code == 66);
  put_file(folder / "demand.csv", "t_s,watts\n0,50\n");
  CHECK(troupe("serve follows.toml").code == 65);
  CHECK(troupe("serve bad.toml --check").code == 78);
  CHECK(troupe("serve bad.toml").code == 78);
  CHECK(troupe("serve absent.toml --check").code == 66);
  CHECK(troupe("serve").code == 64);
  put_file(folder / "below.toml", "parent = 'auto:row9'\n" + std::string(two_jobs));
  CHECK(troupe("serve below.toml --check").code == 0);
  const auto dry = troupe("serve below.toml --dry-run");  // it would grant what it has not
  CHECK(dry.code == 64);
  CHECK(dry.talk.find("auto:row9") != std::string::npos);
  CHECK_FALSE(fs::exists(folder / "power"));
}

TEST_CASE("power budget: what is no budget, no time or no place is refused before a connection") {
  const scratch folder;
  const auto troupe = [&](const std::string& words) {
    return run_in(folder.path, "XDG_RUNTIME_DIR=\"$PWD\" '" TROUPE_PROGRAM "' power " + words).code;
  };
  CHECK(troupe("budget") == 64);
  CHECK(troupe("budget 0") == 64);
  CHECK(troupe("budget nan") == 64);
  CHECK(troupe("budget 1e12") == 64);
  CHECK(troupe("budget 55 --for 2") == 64);
  CHECK(troupe("budget 60kW") == 64);
  CHECK(troupe("budget 60W") == 66);
  CHECK(troupe("budget 55") == 66);
  CHECK(troupe("brake") == 64);
  CHECK(troupe("brake maybe") == 64);
  CHECK(troupe("brake on row0") == 64);
  CHECK(troupe("brake row0 row1 on") == 64);
  CHECK(troupe("brake on") == 66);
  CHECK(troupe("brake row0 off") == 66);
  CHECK(troupe("tree") == 66);
  CHECK(troupe("tree row0") == 66);
  CHECK(troupe("tree --connect nowhere") == 64);
  CHECK(troupe("tree --json --prometheus") == 64);
  CHECK(troupe("tree --connect 127.0.0.1:9") == 69);
}

TEST_CASE("power budget: a place and the name of another budget are refused together") {
  const scratch folder;
  const runtime_folder set(folder.path);
  const apps::budget_sign sign({"row0", getpid(), "127.0.0.1:9", folder / "absent.secret"});
  for (const std::string words : {"budget 55 --budget row1", "tree row1", "brake row1 on"}) {
    CAPTURE(words);
    const auto got = run_in(folder.path, "XDG_RUNTIME_DIR=\"$PWD\" '" TROUPE_PROGRAM "' power " +
                                             words + " --connect 127.0.0.1:9");
    CHECK(got.code == 66);
    CHECK(got.talk.find("is row0, not row1") != std::string::npos);
  }
}

TEST_CASE("power budget: where none answers, what helps is said of budgets") {
  const scratch folder;
  const runtime_folder set(folder.path);
  const auto secret = folder / "row0.secret";
  REQUIRE(tls::job_key::make()->write(secret));
  const apps::budget_sign sign({"row0", getpid(), "127.0.0.1:9", secret});  // nobody listens there
  const auto got = run_in(folder.path, "XDG_RUNTIME_DIR=\"$PWD\" '" TROUPE_PROGRAM "' power tree");
  CHECK(got.code == 69);
  CHECK(got.talk.find("no power budget answers at 127.0.0.1:9") != std::string::npos);
  CHECK(got.talk.find("of this very budget") != std::string::npos);
  CHECK(got.talk.find("certificate") == std::string::npos);
}

// What is served is found by its sign, once; a second life counts on.
// A second server is refused at once; one that is not would serve for good, and is ended.
TEST_CASE("power serve: a served budget is shown and set, is held once, and ends at a signal") {
  const scratch folder;
  put_file(folder / "p.toml", two_jobs);
  put_file(folder / "serve.sh",
           "export XDG_RUNTIME_DIR=\"$PWD\"\n"
           "rm -f talk && mkfifo talk\n"
           "\"$1\" power serve p.toml 2>talk &\n"
           "server=$!\n"
           "while read -r line; do\n"
           "  echo \"said $line\"\n"
           "  case \"$line\" in *'row0 serves '*' W to 2 children at 127.0.0.1:'*)\n"
           "    ls troupe/*.power >/dev/null && echo signed\n"
           "    \"$1\" power tree --json >tree.json; echo \"tree $?\"\n"
           "    \"$1\" power budget 50 >low.txt; echo \"low $?\"\n"
           "    \"$1\" power budget 65 --budget row0 --for 2h >set.txt; echo \"set $?\"\n"
           "    \"$1\" power tree row0 >tree.txt; echo \"tree $?\"\n"
           "    timeout 60 \"$1\" power serve p.toml; echo \"second $?\"\n"
           "    \"$1\" power budget 66 >last.txt; echo \"last $?\"\n"
           "    kill -TERM $server;;\n"
           "  esac\n"
           "done <talk\n"
           "wait $server; echo \"ended $?\"\n"
           "ls troupe/*.power 2>/dev/null || echo unsigned\n");
  const auto serve = [&] { return run_in(folder.path, "bash serve.sh '" TROUPE_PROGRAM "'"); };
  const auto first = serve();
  CAPTURE(first.out);
  CAPTURE(first.talk);
  const auto said = [&](const char* line) {
    return ("\n" + first.out).find("\n" + std::string(line) + "\n") != std::string::npos;
  };
  CHECK(said("signed"));
  CHECK(said("tree 0"));
  CHECK_FALSE(said("low 0"));  // static shares are 60 W together
  CHECK(said("set 0"));
  CHECK(said("second 75"));
  CHECK(said("last 0"));
  CHECK(said("ended 0"));
  CHECK(said("unsigned"));
  const auto tree = nlohmann::json::parse(content(folder / "tree.json"), nullptr, false);
  REQUIRE(tree.is_object());
  CHECK(tree["budget"] == "row0");
  CHECK(tree["budget_w"] == 70);
  CHECK(tree["epoch"] == 1);
  REQUIRE(tree["children"].size() == 2);
  CHECK(tree["children"][0]["name"] == "gpt-a");
  CHECK(tree["children"][0]["priority"] == "high");
  CHECK(tree["children"][0]["heard"] == false);
  CHECK(content(folder / "set.txt").find("65 W") != std::string::npos);
  CHECK(content(folder / "tree.txt").find("of 65 W") != std::string::npos);
  CHECK(fs::exists(folder / "power/row0/power.jsonl"));
  const auto next = serve();
  CAPTURE(next.out);
  CHECK(first.out.find("row0 serves 70 W to") != std::string::npos);
  CHECK(next.out.find("row0 serves 66 W to") != std::string::npos);
  CHECK(content(folder / "power/row0/power.epoch") == "{\"epoch\":2}\n");
  const auto again =
      run_in(folder.path, "'" TROUPE_PROGRAM "' power replay power/row0/power.inputs --json");
  CHECK_MESSAGE(again.code == 0, again.talk);
  const auto replayed = nlohmann::json::parse(again.out, nullptr, false);
  REQUIRE(replayed.is_object());
  CHECK(replayed["same"] == true);
  CHECK(replayed["lives"] == 2);
}

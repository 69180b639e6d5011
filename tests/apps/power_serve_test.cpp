// `troupe power serve`: its count of lives, its journal, what it makes of its file, and the process
// with the tools that speak to it.
#include "apps/power/power_serve.hpp"

#include <unistd.h>

#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/power/budget_sign.hpp"
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

/// 0: there was none.
uint64_t life_counted_in(const fs::path& file) {
  const auto next = next_epoch(file);
  return next ? *next : 0;
}

}  // namespace

TEST_CASE("PSV-1: power serve: each life has an epoch above the one before, on the disk") {
  const scratch folder;
  const auto file = folder / "power.epoch";
  CHECK(life_counted_in(file) == 1);
  CHECK(content(file) == "{\"epoch\":1}\n");
  CHECK(life_counted_in(file) == 2);
  CHECK(life_counted_in(file) == 3);
  CHECK(content(file) == "{\"epoch\":3}\n");
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
  put_file(folder / "p.toml", two_jobs);
  const auto tree = read_budget((folder / "p.toml").string());
  REQUIRE_MESSAGE(tree, (tree ? "" : render(tree.error())));
  const auto o = budget_options_of(*tree, 7);
  CHECK(o.name == "row0");
  CHECK(o.epoch == 7);
  CHECK(o.budget_mw == 70'000);
  CHECK(o.rules.mode == power::budget_mode::shares);
  CHECK(o.rules.tick_ns == 1'000'000'000);
  CHECK(o.rules.ttl_ns == 10'000'000'000);
  CHECK(o.rules.noise_mw == 150);
  REQUIRE(o.children.size() == 2);
  CHECK(o.children[0].name == "gpt-a");
  CHECK(o.children[0].terms.priority == power::power_class::high);
  CHECK(o.children[0].terms.floor_mw == 20'000);
  CHECK(o.children[0].terms.static_share_mw == 40'000);
  CHECK(o.children[0].terms.ceiling_mw == 60'000);
  CHECK(o.children[1].terms.priority == power::power_class::low);
  CHECK(o.children[1].terms.paused_mw == 5'000);
  CHECK(budget_sentence(*tree) ==
        "row0 has 70 W for 2 children, whose static shares are 60 W together");
  const auto j = nlohmann::json::parse(budget_json(*tree));
  CHECK(j["budget_w"] == 70);
  CHECK(j["static_w"] == 60);
  CHECK(j["children"][0]["priority"] == "high");
}

TEST_CASE("power serve: the journal in words has the news of each line") {
  std::string line;
  power::budget_journal journal([&](const std::string& told) { line = told; }, {"gpt-a", "b"});
  const auto words = [&] { return journal_words(line); };
  const power::power_report report{{1, 1}, {1, 1}, 40'500, 38'000, 60'000};
  journal.begins("row0", power::budget_mode::shares, 70'000, 3);
  CHECK(words() == "row0: begins 70 W, epoch 3");
  journal.heard_first(0, report);
  CHECK(words() == "gpt-a: heard; in force 40.5 W");
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
  CHECK(journal_words("no JSON") == "no JSON");
}

TEST_CASE("power serve: the journal has each line with its time") {
  const scratch folder;
  budget_journal journal(folder / "power.jsonl", false);
  journal.take(R"({"event":"begins","epoch":1})", 12.5);
  journal.take("no JSON", 13);
  CHECK(content(folder / "power.jsonl") ==
        "{\"unix_s\":12.5,\"event\":\"begins\",\"epoch\":1}\n"
        "{\"unix_s\":13.0,\"text\":\"no JSON\"}\n");
}

TEST_CASE("PSV-3: power serve: a journal that cannot be written stops nothing, and goes on") {
  const scratch folder;
  budget_journal journal(folder / "later" / "power.jsonl", false);
  journal.take(R"({"event":"one"})", 1);
  journal.take(R"({"event":"two"})", 2);
  CHECK_FALSE(fs::exists(folder / "later"));
  fs::create_directory(folder / "later");
  journal.take(R"({"event":"three"})", 3);
  CHECK(content(folder / "later" / "power.jsonl") == "{\"unix_s\":3.0,\"event\":\"three\"}\n");
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
  CHECK(troupe("serve bad.toml --check").code == 78);
  CHECK(troupe("serve bad.toml").code == 78);
  CHECK(troupe("serve absent.toml --check").code == 66);
  CHECK(troupe("serve").code == 64);
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
  CHECK(troupe("budget 55") == 66);
  CHECK(troupe("tree") == 66);
  CHECK(troupe("tree row0") == 66);
  CHECK(troupe("tree --connect nowhere") == 64);
  CHECK(troupe("tree --connect 127.0.0.1:9") == 69);
}

TEST_CASE("power budget: a place and the name of another budget are refused together") {
  const scratch folder;
  const runtime_folder set(folder.path);
  const apps::budget_sign sign({"row0", getpid(), "127.0.0.1:9", folder / "absent.secret"});
  for (const std::string words : {"budget 55 --budget row1", "tree row1"}) {
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
           "  case \"$line\" in *'row0 serves 70 W to 2 children at 127.0.0.1:'*)\n"
           "    ls troupe/*.power >/dev/null && echo signed\n"
           "    \"$1\" power tree --json >tree.json; echo \"tree $?\"\n"
           "    \"$1\" power budget 50 >low.txt; echo \"low $?\"\n"
           "    \"$1\" power budget 65 --budget row0 --for 2h >set.txt; echo \"set $?\"\n"
           "    \"$1\" power tree row0 >tree.txt; echo \"tree $?\"\n"
           "    timeout 60 \"$1\" power serve p.toml; echo \"second $?\"\n"
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
  serve();
  CHECK(content(folder / "power/row0/power.epoch") == "{\"epoch\":2}\n");
}

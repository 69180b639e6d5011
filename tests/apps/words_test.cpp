// The console's words: how a line is cut, what it means, and what may stand at its end.
#include "apps/control/commands.hpp"
#include "apps/control/split_line.hpp"

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::apps;

namespace {

using strings = std::vector<std::string>;

fbs::ClusterViewT view() {
  fbs::ClusterViewT v;
  v.nodes.push_back(std::make_unique<fbs::ActorListT>());
  v.nodes.back()->node = "node0";
  for (const char* path : {"stage/0", "stage/1", "worker/0"}) {
    v.nodes.back()->actors.push_back(std::make_unique<fbs::ActorInfoT>());
    v.nodes.back()->actors.back()->path = path;
  }
  return v;
}

}  // namespace

TEST_CASE("a line in its words, as a shell parts them (SPT-1)") {
  for (const auto& [line, words] : {
           std::pair("", strings{}),
           {"  pause   now ", strings{"pause", "now"}},
           {"pause \"a b\" c", strings{"pause", "a b", "c"}},
           {"pause 'a \"b\" \\' c", strings{"pause", "a \"b\" \\", "c"}},
           {"a \"\" '' b", strings{"a", "", "", "b"}},
           {"wor'ker/'\"*\" x", strings{"worker/*", "x"}},
           {"don\\'t a\\ b \\\\", strings{"don't", "a b", "\\"}},
           {R"("a\"b" "c\d" "\\")", strings{R"(a"b)", R"(c\d)", "\\"}},
           {"stage/[01] x}", strings{"stage/[01]", "x}"}},
           {R"(send run Pause '{"reason": "a b"}')",
            strings{"send", "run", "Pause", R"({"reason": "a b"})"}},
       }) {
    CAPTURE(line);
    const auto got = split_words(line);
    REQUIRE(got);
    CHECK(*got == words);
  }
}

TEST_CASE("JSON that begins a word needs no quotes (SPT-2)") {
  CHECK(*split_words(R"(send run Pause {"reason": "a b"})") ==
        strings{"send", "run", "Pause", R"({"reason": "a b"})"});
  CHECK(*split_words(R"(send x Y {"a": [1, 2], "b": {"c": "}\""}} z)") ==
        strings{"send", "x", "Y", R"({"a": [1, 2], "b": {"c": "}\""}})", "z"});
}

TEST_CASE("what a line leaves open is said, and what is still typed is taken as it is") {
  for (const auto& [line, what, closing] : {std::tuple("pause 'to look", "single quotes", "'"),
                                            {"a \"b c", "double quotes", "\""},
                                            {R"(send x Y {"a": 1)", "brackets", "}"},
                                            {R"(send x Y {"a)", "double quotes", "\""},
                                            {"x [{}", "brackets", "]"}}) {
    CAPTURE(line);
    CHECK(is_error(parse_line(line), unclosed, what, closing));
    CHECK(words_so_far(line).words.size() >= 2);
    CHECK(words_so_far(line).within);
  }
  CHECK(words_so_far("kill 'wor").words == strings{"kill", "wor"});
  CHECK(words_so_far("kill 'wor").open == '\'');
  CHECK_FALSE(words_so_far("kill worker/0 ").within);
  for (const auto& [line, json] : {std::pair(R"(send x Y {"a)", true),
                                   {"x [{}", true},
                                   {R"(send x Y '{"a)", false},
                                   {"x {}'", false},
                                   {"x ''{", false}}) {
    CAPTURE(line);
    CHECK(words_so_far(line).json == json);
  }
}

TEST_CASE("a line means what its words say") {
  const auto sent = parse_line(R"(send "a b; \"c\"" Pause {"reason": "x  y\n"} )");
  REQUIRE(sent);
  const auto& send = std::get<commands::send>(sent->what);
  CHECK(send.actor == "a b; \"c\"");
  CHECK(send.message == "Pause");
  CHECK(send.fields == R"({"reason": "x  y\n"})");
  CHECK(send.timeout_ms == 0);
  CHECK_FALSE(sent->again);
  const auto called = parse_line("call 250 run Pause");
  REQUIRE(called);
  CHECK(std::get<commands::send>(called->what).timeout_ms == 250);
  CHECK(std::get<commands::send>(called->what).fields.empty());
  CHECK(std::get<commands::pause>(parse_line("pause  to look")->what).reason == "to look");
  CHECK(std::get<commands::stop>(parse_line("stop")->what).reason == "stopped from the console");
  CHECK(std::get<commands::set>(parse_line("set train.lr -1")->what).value == "-1");
  CHECK(std::get<commands::log>(parse_line("log debug node1")->what).node == "node1");
  CHECK(std::holds_alternative<commands::incidents>(parse_line("incidents")->what));
  CHECK(std::get<commands::incident>(parse_line("incident 12")->what).number == 12);
  CHECK_FALSE(std::get<commands::expect>(parse_line("expect")->what).why);
  CHECK(std::get<commands::expect>(parse_line("expect why 3")->what).why == 3);
  for (const char* none : {"incident", "incident x", "incident 0", "incident -1", "incident 1 2",
                           "expect why", "expect why node3", "expect 3"})
    CHECK(is_error(parse_line(none), another_form));
  CHECK(std::holds_alternative<commands::quit>(parse_line("exit")->what));
  CHECK(std::holds_alternative<commands::nothing>(parse_line("  ")->what));
  const auto watched = parse_line("watch actors stage/*");
  REQUIRE(watched);
  CHECK(watched->again);
  CHECK(std::get<commands::actors>(watched->what).actor == "stage/*");
}

TEST_CASE("power: what machines draw, or another budget for them") {
  CHECK(std::get<commands::power>(parse_line("power")->what).budget_w.empty());
  CHECK(std::get<commands::power>(parse_line("power budget 55.5")->what).budget_w == "55.5");
  CHECK(std::get<commands::power>(parse_line("power why")->what).why);
  CHECK(!std::get<commands::power>(parse_line("power")->what).why);
  for (const char* none :
       {"power why me too", "power budget", "power row0 55", "power budget 55 for",
        "power budget row0 55 for", "power budget row0 55 2h"})
    CHECK(is_error(parse_line(none), another_form));
}

TEST_CASE("power: of a served budget its name, a time, and the brake") {
  const auto said = [](const char* line) {
    const auto parsed = parse_line(line);
    REQUIRE(parsed);
    return std::get<commands::power>(parsed->what);
  };
  CHECK(said("power row0").name == "row0");
  CHECK(said("power why gpt-b").name == "gpt-b");
  CHECK(said("power why gpt-b").why);
  const auto set = said("power budget row0 55 for 2h");
  CHECK(set.name == "row0");
  CHECK(set.budget_w == "55");
  CHECK(set.for_time == "2h");
  CHECK(said("power budget row0 55").for_time.empty());
  CHECK(said("power budget 55 for 90s").name.empty());
  CHECK(said("power budget 55 for 90s").for_time == "90s");
  CHECK(!said("power budget 55").brake);
  CHECK(said("power brake row0 on").brake == true);
  CHECK(said("power brake row0 on").name == "row0");
  CHECK(said("power brake off").brake == false);
  for (const char* none :
       {"power brake", "power brake row0", "power brake row0 maybe", "power brake row0 on now"})
    CHECK(is_error(parse_line(none), another_form));
}

TEST_CASE("rewind: a step, and how many steps' data are passed over") {
  const auto plain = parse_line("rewind 120"), skips = parse_line("rewind 120 skip 20");
  REQUIRE((plain && skips));
  CHECK(std::get<commands::rewind>(plain->what).step == 120);
  CHECK(std::get<commands::rewind>(plain->what).skip_steps == 0);
  CHECK(std::get<commands::rewind>(skips->what).step == 120);
  CHECK(std::get<commands::rewind>(skips->what).skip_steps == 20);
}

TEST_CASE("a line without the form of its word is told the form") {
  for (const auto& [line, form] : {std::pair("send run", "send ACTOR MESSAGE [JSON]"),
                                   {"call 0 run Pause", "call MS ACTOR MESSAGE [JSON]"},
                                   {"call soon run Pause", "call MS ACTOR MESSAGE [JSON]"},
                                   {"call 3600001 run Pause", "call MS ACTOR MESSAGE [JSON]"},
                                   {"checkpoint", "checkpoint now"},
                                   {"set train.lr", "set KEY VALUE"},
                                   {"rewind", "rewind STEP [skip N]"},
                                   {"rewind 3 skip", "rewind STEP [skip N]"},
                                   {"rewind 3 past 4", "rewind STEP [skip N]"},
                                   {"rewind -3", "rewind STEP [skip N]"},
                                   {"rewind 3 skip 4x", "rewind STEP [skip N]"},
                                   {"drain", "drain NODE"},
                                   {"kill a b", "kill ACTOR"},
                                   {"log", "log LEVEL [NODE]"},
                                   {"watch", "watch WORD ..."}}) {
    CAPTURE(line);
    CHECK(is_error(parse_line(line), another_form, form));
  }
  const auto twice = parse_line("watch watch actors");
  CHECK(is_error(twice, another_form, "watch WORD ..."));
  CHECK(is_error(parse_line("pauze"), unknown_word, "pauze"));
}

TEST_CASE("completion: words, actors, messages, fields, keys") {
  const auto v = view();
  CHECK(completions(v, "pau") == strings{"pause"});
  CHECK(completions(v, "send sta") == strings{"stage/0", "stage/1"});
  CHECK(completions(v, "kill w") == strings{"worker/0"});
  CHECK(completions(v, "watch status w") == strings{"worker/0"});
  CHECK(completions(v, "wat") == strings{"watch"});
  CHECK(completions(v, "send stage/0 Pau") == strings{"Pause"});
  CHECK(completions(v, "call 100 stage/0 Pau") == strings{"Pause"});
  CHECK(completions(v, "send stage/0 RunSt").empty());  // what nodes say to each other
  CHECK(completions(v, "send stage/0 CallA").empty());
  CHECK(completions(v, "help RunSt") == strings{"RunStep"});
  CHECK(completions(v, "drain ") == strings{"node0"});
  CHECK(completions(v, "checkpoint ") == strings{"now"});
  CHECK(completions(v, "rewind 12 ") == strings{"skip"});
  CHECK(completions(v, "set train.l") == strings{"train.lr"});
  CHECK(completions(v, "send run Pause {\"re") == strings{"{\"reason\":"});
  CHECK(completions(v, "send run SetValue {\"key\":\"train.lr\",\"v") ==
        strings{"{\"key\":\"train.lr\",\"value\":"});
  CHECK(completions(v, "send run Nothing {\"re").empty());
  CHECK(completions(v, "send run Pause ") == strings{"{\"reason\":"});
  CHECK(completions(v, "send run SetValue {\"key\":\"\", ") ==
        strings{"{\"key\":\"\", \"value\":"});
  // A name, or a bracket, in what a field has is not the message's.
  CHECK(completions(v, "send run SetValue {\"key\":{\"value\":1},") ==
        strings{"{\"key\":{\"value\":1},\"value\":"});
  CHECK(completions(v, "send run SetValue {\"key\":\"{\",") ==
        strings{"{\"key\":\"{\",\"value\":"});
  // Where no name of a field may stand: in no JSON, in a value, behind one, behind all of it,
  // within one.
  for (const char* none :
       {"send run Pause ab", "send run Pause x\\{\"re", "send run SetValue {\"key\":\"v",
        "send run SetValue {\"key\":\"x\"", "send run SetValue {\"key\":\"x\"}",
        "send run SetValue {\"key\":\"x\"} ", "send run SetValue {\"key\":{",
        "send run SetValue {\"key\":{\"a\":1,\"", "send run SetValue {\"key\":[1,"}) {
    CAPTURE(none);
    CHECK(completions(v, none).empty());
  }
  CHECK(completions(v, "nonsense x").empty());
}

TEST_CASE("completion: what is typed stays as it is, with its quotes") {
  const auto v = view();
  for (const auto& [line, more] : {std::pair("pau", "se "),
                                   {"status wo", "rker/0 "},
                                   {"status 'wo", "rker/0' "},
                                   {"status \"wo", "rker/0\" "},
                                   {"status 'wo'r", "ker/0 "},
                                   {"status w\\o", "rker/0 "},
                                   {"status 'worker/0'", " "},
                                   {"kill '", ""},
                                   {"kill st", "age/"},
                                   {"kill 'st", "age/"},
                                   {"kill stage/", ""},
                                   {"drain ", "node0 "},
                                   {"status 'wo ", ""},
                                   {"send run Pause {\"re", "ason\":"},
                                   {"send run Pause '{\"re", "ason\":"},
                                   {"send run Pause \"{\\\"re", ""},
                                   {"send run Pause ", "{\"reason\":"},
                                   {"send run Pause '", "{\"reason\":"},
                                   {"send run Pause \"", ""},
                                   {"send run Pause ''", ""},
                                   {"send run Pause '{\"'", ""},
                                   {"nonsense x", ""}}) {
    CAPTURE(line);
    CHECK(complete_line(v, line).more == more);
  }
  CHECK(complete_line(v, "kill 'stage/").all == strings{"stage/0", "stage/1"});
  CHECK(complete_line(v, "status 'wo ").all.empty());
}

TEST_CASE("every word has its line of help and a usage that begins with it") {
  CHECK(words().size() > 10);
  for (const auto& w : words()) {
    CAPTURE(w.name);
    CHECK(w.usage.substr(0, w.name.size()) == w.name);
    CHECK(!w.help.empty());
  }
}

TEST_CASE("a console's first line says that it may only look, where that is so") {
  const auto operators = greeting("j", "127.0.0.1:1", "alice", true);
  CHECK(operators == "connected to j at 127.0.0.1:1 as alice; help lists the words, Tab completes");
  const auto readers = greeting("j", "127.0.0.1:1", "bob", false);
  CHECK(readers.find("as bob, read-only: its role is reader") != std::string::npos);
}

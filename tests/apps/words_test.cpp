// The console's words: how a line is cut, and what may stand at its end.
#include "apps/control/commands.hpp"

#include <doctest/doctest.h>

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

TEST_CASE("a line in its words") {
  CHECK(split_words("") == strings{});
  CHECK(split_words("  pause   now ") == strings{"pause", "now"});
  CHECK(split_words("pause \"a b\" c") == strings{"pause", "a b", "c"});
  CHECK(split_words(R"(send run Pause {"reason": "a b"})") ==
        strings{"send", "run", "Pause", R"({"reason": "a b"})"});
  CHECK(split_words(R"(send x Y {"a": [1, 2], "b": {"c": "}"}} z)") ==
        strings{"send", "x", "Y", R"({"a": [1, 2], "b": {"c": "}"}})", "z"});
  CHECK(split_words("a \"\" b") == strings{"a", "", "b"});
}

TEST_CASE("completion: words, actors, messages, fields, keys") {
  const auto v = view();
  CHECK(completions(v, "pau") == strings{"pause"});
  CHECK(completions(v, "send sta") == strings{"stage/0", "stage/1"});
  CHECK(completions(v, "kill w") == strings{"worker/0"});
  CHECK(completions(v, "send stage/0 Pau") == strings{"Pause"});
  CHECK(completions(v, "call 100 stage/0 Pau") == strings{"Pause"});
  CHECK(completions(v, "send stage/0 RunSt").empty());  // what nodes say to each other
  CHECK(completions(v, "send stage/0 CallA").empty());
  CHECK(completions(v, "help RunSt") == strings{"RunStep"});
  CHECK(completions(v, "drain ") == strings{"node0"});
  CHECK(completions(v, "checkpoint ") == strings{"now"});
  CHECK(completions(v, "set train.l") == strings{"train.lr"});
  CHECK(completions(v, "send run Pause {\"re") == strings{"{\"reason\":"});
  CHECK(completions(v, "send run SetValue {\"key\":\"train.lr\",\"v") ==
        strings{"{\"key\":\"train.lr\",\"value\":"});
  CHECK(completions(v, "send run Nothing {\"re").empty());
  CHECK(completions(v, "nonsense x").empty());
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

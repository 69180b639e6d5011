// A person at a terminal who has a model go on from what he types.
#include <unistd.h>

#include <csignal>

#include "tests/cluster/bad_outputs.hpp"
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

struct generating {
  terminal screen;
  program model;
  std::string shown;  ///< since the last keys

  explicit generating(const fs::path& checkpoint)
      : model({"generate", "--checkpoint", checkpoint.string(), "--tokenizer", "bytes", "--tokens",
               "6", "--temperature", "0"},
              0, {.terminal = screen.path}) {
    REQUIRE(shows("Ctrl-D ends"));
    REQUIRE(shows("> "));
  }
  bool shows(const std::string& text) {
    const auto there = [&] { return (shown += screen.shown()).find(text) != shown.npos; };
    return model.until(there, screen.master.get());
  }
  void presses(const std::string& keys) {
    shown.clear();
    REQUIRE(write(screen.master.get(), keys.data(), keys.size()) ==
            static_cast<ssize_t>(keys.size()));
  }
};

}  // namespace

TEST_CASE(
    "generate: at a terminal each line is a prompt, answered before the next, and Ctrl-D ends") {
  job_files job;
  job.losses({"train.steps=2"});
  const auto said = run({"generate", "--checkpoint", job.checkpoint(2).string(), "--tokenizer",
                         "bytes", "--tokens", "6", "--temperature", "0", "--prompt", "aaa bbb"});
  REQUIRE(said.code == 0);
  generating talk(job.checkpoint(2));
  for (int i = 0; i < 2; ++i) {
    talk.presses("aaa bbb\n");
    REQUIRE(talk.shows("\n> "));
    // What was typed, echoed; the prompt and what the model goes on with, where it can be shown.
    const auto answer = talk.shown.find("aaa bbb", talk.shown.find('\n'));
    CHECK(answer != std::string::npos);
    CHECK(talk.shown.substr(answer, 7) == said.out.substr(0, 7));
    CHECK(talk.shown.find("\n> ", answer) > answer + 7);
  }
  talk.presses("\n");  // no prompt: it is asked again, and nothing is generated
  REQUIRE(talk.shows("> "));
  CHECK(talk.shown.find("error") == std::string::npos);
  talk.presses("\x04");
  CHECK(talk.model.wait() == 0);
}

TEST_CASE("generate: Ctrl-C at a terminal ends it with 130, amid a line and before one") {
  job_files job;
  job.losses({"train.steps=2"});
  for (const bool amid_a_line : {false, true}) {
    generating talk(job.checkpoint(2));
    talk.presses(amid_a_line ? "half a li\x03" : "\x03");
    CHECK(talk.model.wait() == 130);
  }
}

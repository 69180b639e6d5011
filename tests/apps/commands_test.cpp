// The verbs through the built program: exit codes, what goes to stdout and what to stderr.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "apps/commands.hpp"
#include "apps/completion.hpp"
#include "tests/apps/command_folder.hpp"

using namespace troupe::commands_test;

TEST_CASE("commands: a wrong command line ends with 64 and the nearest word") {
  folder here;
  CHECK(sh(here, "troupe").code == 64);
  auto verb = sh(here, "troupe confg check x");
  CHECK(verb.code == 64);
  CHECK(verb.out.empty());
  CHECK(verb.talk.find("did you mean config?") != std::string::npos);
  CHECK(sh(here, "troupe set train.lr 1e-4").talk.find("troupe console -c 'set train.lr 1e-4'") !=
        std::string::npos);
  CHECK(sh(here, "troupe config check x --sets a").talk.find("did you mean --set?") !=
        std::string::npos);
  CHECK(sh(here, "troupe config check").talk.find("see `troupe config check --help`") !=
        std::string::npos);
  CHECK(sh(here, "troupe config explain trian").code == 64);
  const auto below = sh(here, "troupe generate --checkpoint x --prompt y --temperature -1");
  CHECK(below.code == 64);
  CHECK(below.talk.find("--temperature: invalid value -1, expected 0 or more") !=
        std::string::npos);
}

TEST_CASE("commands: a key is for a job or for a power budget, which has no nodes") {
  folder here;
  const auto key = [&](const std::string& arguments) {
    return sh(here, "XDG_RUNTIME_DIR=\"$PWD\" troupe key --out new.key " + arguments);
  };
  const auto node = key("--role node --budget row0");
  CHECK(node.code == 64);
  CHECK(node.talk.find("power budget") != std::string::npos);
  CHECK(key("--role reader --name alice --budget row0 --job gpt-a").code == 64);
  CHECK(key("--role power --name gpt-a --connect 127.0.0.1:1").code == 64);
  CHECK(key("--role power --name gpt-a").code != 0);  // none is served
  CHECK(key("--role operator --name alice --budget row0").code != 0);
  CHECK_FALSE(fs::exists(here.path / "new.key"));
}

TEST_CASE("commands: help and version are data") {
  folder here;
  auto help = sh(here, "troupe --help");
  CHECK(help.code == 0);
  CHECK(help.talk.empty());
  CHECK(help.out.find("Examples:") != std::string::npos);
  CHECK(sh(here, "troupe config show --help").code == 0);
  CHECK(sh(here, "troupe help").out == help.out);
  const auto unknown = sh(here, "troupe help generaet");
  CHECK(unknown.code == 64);
  CHECK(unknown.talk.find("did you mean generate?") != std::string::npos);
  CHECK(sh(here, "troupe help data inspect").out == sh(here, "troupe data inspect --help").out);
  // Examples are of the verb that is asked for, and defaults are shown.
  const auto prepare = sh(here, "troupe data prepare --help").out;
  CHECK(prepare.find("troupe data inspect") == std::string::npos);
  CHECK(prepare.find("TEXT=bytes") != std::string::npos);
  auto version = sh(here, "troupe version --json");
  CHECK(nlohmann::json::parse(version.out)["version"] == troupe::cluster::own_version());
  CHECK(nlohmann::json::parse(version.out)["instruction_sets"][0] == "generic");
  CHECK(nlohmann::json::parse(version.out)["onednn"].is_string());
  CHECK(sh(here, "troupe version").out.find(troupe::cluster::own_version()) != std::string::npos);
  CHECK(sh(here, "troupe --version").out == sh(here, "troupe version").out);
}

TEST_CASE("commands: config check talks, config show prints data that reads back") {
  folder here;
  here.write("run.toml", job);
  auto sound = sh(here, "troupe config check run.toml --no-files");
  CHECK(sound.code == 0);
  CHECK(sound.out.empty());
  CHECK(sound.talk ==
        "run.toml: sound; 2 nodes, 2 workers (data 2 x pipeline 1), 1000 steps of 2048 "
        "tokens\n");
  const auto one = sh(here, "troupe config check run.toml --no-files --set cluster.nodes=1");
  CHECK(one.talk.find("sound; 1 node, 1 worker (data 1 ") != std::string::npos);
  const auto few = sh(here,
                      "troupe config check run.toml --no-files --set train.steps=5 --set "
                      "train.warmup_steps=9");
  CHECK(few.code == 78);
  CHECK(few.talk.find("--set train.warmup_steps=0") != std::string::npos);
  here.write("warm.toml", std::string(job) + "[train]\nsteps = 500\nwarmup_steps = 20\n");
  for (const char* verb : {"config check --no-files", "config check --no-files --json", "plan",
                           "sim", "config show"}) {
    CAPTURE(verb);
    const auto shorter = sh(here, fmt::format("troupe {} warm.toml --set train.steps=5", verb));
    CHECK(shorter.code == 0);
    const auto said = shorter.talk + shorter.out;
    CHECK(said.find("train.warmup_steps = 20 of warm.toml") != std::string::npos);
    CHECK(said.find("is shortened to 5") != std::string::npos);
  }
  here.write("text", std::string(600, 'a'));
  auto ready = sh(here, "troupe config check run.toml");
  CHECK(ready.code == 0);
  CHECK(ready.talk.starts_with("run.toml: sound, and could start here; 2 nodes"));
  auto shown = sh(here,
                  "TROUPE_TRAIN__LR=0.5 troupe config show run.toml --set train.steps=5 --set "
                  "job.name=x > shown.toml && troupe config show shown.toml --json");
  REQUIRE_MESSAGE(shown.code == 0, shown.talk);
  auto j = nlohmann::json::parse(shown.out);
  CHECK(j["train.lr"]["value"] == 0.5);
  CHECK(j["train.steps"]["value"] == 5);
  CHECK(j["job.name"]["value"] == "x");
  CHECK(here.read("shown.toml").find("# environment TROUPE_TRAIN__LR") != std::string::npos);
}

TEST_CASE("commands: a bad configuration ends with 78 and a line per problem") {
  folder here;
  here.write("bad.toml", job + "[train]\nstesp = 3\nlr = \"x\"\n");
  auto bad = sh(here, "troupe config check bad.toml");
  CHECK(bad.code == 78);
  CHECK(bad.out.empty());
  CHECK(bad.talk.find("error: bad.toml:10:1: train.stesp: unknown key\n"
                      "hint: did you mean train.steps?\n"
                      "error: bad.toml:11:6: train.lr: expected a number") == 0);
  here.write("one.toml", job + "[train]\nstesp = 3\n");
  CHECK(sh(here, "troupe config check one.toml").talk ==
        "error: one.toml:10:1: train.stesp: unknown key\nhint: did you mean train.steps?\n");
  here.write("run.toml", job);
  const auto batch = sh(here, "troupe config check run.toml --no-files --set train.batch=7");
  CHECK(batch.code == 78);
  CHECK(batch.talk.find("--set: train.batch = 7 is not divisible") != std::string::npos);
  auto json = sh(here, "troupe config check bad.toml --json");
  CHECK(json.code == 78);
  CHECK(nlohmann::json::parse(json.out)["problems"].size() == 2);
  CHECK(nlohmann::json::parse(json.out)["sources"].empty());  // they are not known
  CHECK(sh(here, "troupe config check none.toml").code == 66);
  CHECK(sh(here, "TROUPE_TRAIN__LRR=1 troupe config show bad.toml").code == 78);
}

TEST_CASE("commands: config check says what would keep a job from starting") {
  folder here;
  here.write("run.toml", job);
  here.write("text", "too short");
  here.write("zeros.bin", std::string(2048, '\0'));
  std::string latin;  // Latin-1, and long enough not to be counted
  for (int i = 0; i < 40'000; ++i) latin += "Gr\xf6\xdf ";
  here.write("latin.txt", latin);
  std::string records;
  for (int i = 0; i < 2000; ++i) records += "{\"content\": \"" + std::string(200, 'a') + "\"}\n";
  here.write("records.jsonl", records);
  struct {
    const char *settings, *words;
    int code;
  } const cases[] = {
      {"data.path=absent.txt", "absent.txt", 66},
      {"data.path=text", "tokens", 78},  // fewer than a window
      {"data.validation_path=absent.txt", "absent.txt", 66},
      {"data.tokenizer=absent.json", "absent.json", 66},
      {"data.path=zeros.bin", "model.vocab", 78},
      {"data.path=records.jsonl", "line 1: field \"text\" not found, found content", 65},
      {"data.path='*.parquet'", "no file matches", 66},
      {"data.path=latin.txt --set "
       "data.tokenizer=" TROUPE_SOURCE_DIR "/tests/io/fixtures/gpt2.tokenizer.json",
       "latin.txt: the text is not valid UTF-8", 65},
      {"model.path=absent", "absent", 66},
      {"checkpoint.resume=absent", "checkpoint.resume", 66},
      {"cluster.tls.ca=a.pem --set cluster.tls.certificate=b.pem --set cluster.tls.key=c.key",
       "troupe certs", 78},
      {"model.hidden=65536 --set model.layers=64", "the job needs", 78},
      {"model.hidden=1000000 --set model.layers=4096", "impossible model", 78},
      {"model.vocab=255", "the tokenizer makes 256", 78},
      {"cluster.threads=4096", "expected at most", 78},
      {"cluster.listen=192.0.2.7 --set cluster.insecure=true", "not an address of this machine",
       78},
      {"job.output=text/run", "text is not a folder", 74},
      {"checkpoint.second.dir=runs/troupe/checkpoints/second", "lies in the first", 78},
      {"data.validation_path=text", "is trained on, too", 78},
      {"'data.source=[{path=\"text\"},{path=\"text\",name=\"x\"}]'", "text of x is in another", 78},
      {"'data.source=[{path=\"text\"},{path=\"absent\",name=\"x\"}]'", "data.source: x: ", 66},
  };
  for (const auto& c : cases) {
    CAPTURE(c.settings);
    if (std::string(c.settings) == "data.path=text")
      here.write("text", "too short");
    else
      here.write("text", std::string(600, 'a'));
    auto found = sh(here, std::string("troupe config check run.toml --set ") + c.settings);
    INFO(found.talk);
    CHECK(found.code == c.code);
    CHECK(found.talk.find(c.words) != std::string::npos);
    CHECK(sh(here, std::string("troupe up run.toml --set cluster.join_timeout_ms=9000 --set ") +
                       c.settings)
              .code == c.code);
    CHECK(
        sh(here, std::string("troupe config check run.toml --no-files --set ") + c.settings).code ==
        0);
    CHECK(sh(here, std::string("troupe config show run.toml --set ") + c.settings).code == 0);
    CHECK_FALSE(fs::exists(here.path / "runs"));
    auto json = sh(here, std::string("troupe config check run.toml --json --set ") + c.settings);
    CHECK(json.code == c.code);
    REQUIRE(nlohmann::json::parse(json.out)["problems"].size() == 1);
  }
}

TEST_CASE("commands: what is not there is told with its line, and all of it at once") {
  folder here;
  here.write("run.toml",
             "[model]\npath = \"no-model\"\n[data]\npath = \"absent.txt\"\n"
             "tokenizer = \"gpt2\"\nvalidation_path = \"held.txt\"\n");
  const auto found = sh(here, "troupe config check run.toml");
  INFO(found.talk);
  CHECK(found.code == 78);
  CHECK(found.talk.find("error: run.toml:2:1: model.path: ") != std::string::npos);
  CHECK(found.talk.find("error: run.toml:4:1: data.path: ") != std::string::npos);
  CHECK(found.talk.find("error: run.toml:5:1: data.tokenizer: ") != std::string::npos);
  CHECK(found.talk.find("error: run.toml:6:1: data.validation_path: ") != std::string::npos);
  CHECK(found.talk.find("hint: name a file or folder of this machine: nothing is fetched") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(sh(here, "troupe config check run.toml --json").out);
  REQUIRE(json["problems"].size() == 4);
  for (const auto& problem : json["problems"]) CHECK(problem.contains("line"));
  CHECK(sh(here, "troupe up run.toml").code == 78);
  // One alone keeps its code; a hub's name is told what to do where a model gives the vocabulary.
  here.write("text", std::string(600, 'a'));
  here.write("one.toml",
             "[data]\npath = \"text\"\ntokenizer = \"gpt2\"\n[model]\nlayers = 4\nheads = 4\n"
             "hidden = 64\nvocab = 300\n");
  const auto one = sh(here, "troupe config check one.toml");
  INFO(one.talk);
  CHECK(one.code == 66);
  CHECK(one.talk.find("error: one.toml:3:1: data.tokenizer: ") != std::string::npos);
  CHECK(one.talk.find("nothing is fetched from a hub") != std::string::npos);
}

TEST_CASE("commands: config check of a file that is no job says whose it is") {
  folder here;
  for (const char* text :
       {"name = \"row0\"\nbudget_w = 70\n[[child]]\nname = \"a\"\n", "[[child]]\nname = \"a\"\n"}) {
    here.write("power.toml", text);
    const auto found = sh(here, "troupe config check power.toml");
    INFO(found.talk);
    CHECK(found.code == 78);
    CHECK(found.talk.starts_with("error: power.toml: a budget of `troupe power serve`"));
    CHECK(found.talk.find("hint: `troupe power serve power.toml`") != std::string::npos);
    CHECK(std::count(found.talk.begin(), found.talk.end(), '\n') == 2);
  }
  // Weights of a folder that nobody named: the folder is what is missing, not the model's shape.
  here.write("text", std::string(600, 'a'));
  here.write("oracle.toml", "[model]\ninit = \"pretrained\"\n[data]\npath = \"text\"\n");
  const auto oracle = sh(here, "troupe config check oracle.toml");
  INFO(oracle.talk);
  CHECK(oracle.code == 78);
  CHECK(oracle.talk ==
        "error: oracle.toml:2:1: model.init: \"pretrained\" needs model.path\n"
        "hint: name the folder: --set model.path=FOLDER\n");
}

TEST_CASE("commands: man says in which page a subcommand is") {
  folder here;
  for (const char* asked : {"predict-export", "\"predict export\""}) {
    const auto found = sh(here, std::string("troupe man ") + asked);
    CHECK(found.code == 64);
    CHECK(found.talk.find("`troupe man predict`") != std::string::npos);
  }
  CHECK(sh(here, "troupe man nonsense").talk.find("`troupe man ") == std::string::npos);
}

TEST_CASE("commands: config check names a key without effect, in its notes as JSON, too") {
  folder here;
  here.write("run.toml", job);
  here.write("text", std::string(600, 'a'));
  const std::string line =
      "warning: data.document_end = 10 has no effect: attention is not reset between documents; "
      "set data.reset_attention = true, or leave it out";
  const std::string set = " --set data.document_end=10";
  const std::string used = set + " --set data.reset_attention=true";
  for (const char* files : {"", " --no-files"}) {
    CAPTURE(files);
    const auto check = std::string("troupe config check run.toml") + files;
    CHECK(sh(here, check + set).talk.starts_with(line + "\nrun.toml: sound"));
    CHECK(sh(here, check + used).talk.starts_with("run.toml: sound"));
    const auto notes_with = [&](const std::string& sets) {
      return nlohmann::json::parse(sh(here, check + " --json" + sets).out)["notes"];
    };
    CHECK(notes_with(set) == nlohmann::json::array({line}));
    CHECK(notes_with(used) == nlohmann::json::array());
  }
}

TEST_CASE("commands: config check says what each source has of the windows, and how often") {
  folder here;
  here.write("run.toml", job);
  here.write("text", std::string(600, 'a'));
  const auto found =
      sh(here,
         "troupe config check run.toml --set 'data.source=[{path=\"text\",weight=3,name=\"t\"}]'");
  INFO(found.talk);
  CHECK(found.code == 0);
  CHECK(found.talk.find("data (t): 100 % of the windows, 600 tokens in 2 training windows, 0 held "
                        "out; 4000 passes over 1000 steps: its windows repeat\n") !=
        std::string::npos);
}

TEST_CASE("commands: config check --json has each source's share, and what is counted of it") {
  folder here;
  here.write("run.toml", job);
  here.write("text", std::string(600, 'a'));
  here.write("more", std::string(100000, 'a'));
  const auto found = [&](const std::string& sources, const std::string& options) {
    auto ended = sh(here, "troupe config check run.toml --json " + options +
                              " --set 'data.source=" + sources + "'");
    return std::pair{ended.code, nlohmann::json::parse(ended.out)};
  };
  const std::string two = "[{path=\"text\",weight=3,name=\"t\"},{path=\"more\"}]";
  const auto [code, j] = found(two, "");
  CHECK(code == 0);
  CHECK(j["problems"] == nlohmann::json::array());
  REQUIRE(j["sources"].size() == 2);
  CHECK(j["sources"][0] == nlohmann::json{{"name", "t"},
                                          {"path", {"text"}},
                                          {"weight", 3.0},
                                          {"share", 0.75},
                                          {"windows", 6000},
                                          {"tokens", 600},
                                          {"training_windows", 2},
                                          {"held_out_windows", 0},
                                          {"passes", 3000.0}});
  const nlohmann::json uncounted{
      {"name", "more"}, {"path", {"more"}}, {"weight", 1.0}, {"share", 0.25}, {"windows", 2000}};
  CHECK(j["sources"][1] == uncounted);  // text that is enough, whatever its tokens
  const auto unread = found(two, "--no-files").second;
  CHECK(unread["sources"][1] == uncounted);
  CHECK_FALSE(unread["sources"][0].contains("tokens"));
  const auto [absent, k] = found("[{path=\"text\"},{path=\"absent\"}]", "");
  CHECK(absent == 66);
  CHECK(k["problems"].size() == 1);
  REQUIRE(k["sources"].size() == 2);
  CHECK(k["sources"][0]["tokens"] == 600);
  CHECK_FALSE(k["sources"][1].contains("tokens"));
  const auto alone = sh(here, "troupe config check run.toml --json");
  const auto one = nlohmann::json::parse(alone.out)["sources"];
  REQUIRE(one.size() == 1);
  CHECK_FALSE(one[0].contains("name"));
  CHECK(one[0]["passes"] == 4000);
}

TEST_CASE("commands: plan names what is trained on, and each source's share of the windows") {
  folder here;
  here.write("run.toml", job);
  const std::string two =
      " --set 'data.source=[{path=\"text\",weight=3,name=\"t\"},{path=\"more\"}]'";
  CHECK(sh(here, "troupe plan run.toml").out.find("\ndata: text, 8000 windows in 1000 steps\n") !=
        std::string::npos);
  CHECK(sh(here, "troupe plan run.toml" + two)
            .out.find("\ndata (t): 75 % of the windows, 6000 in 1000 steps\n"
                      "data (more): 25 % of the windows, 2000 in 1000 steps\n") !=
        std::string::npos);
  const auto j = nlohmann::json::parse(sh(here, "troupe plan run.toml --json" + two).out);
  REQUIRE(j["sources"].size() == 2);
  CHECK(
      j["sources"][0] ==
      nlohmann::json{
          {"name", "t"}, {"path", {"text"}}, {"weight", 3.0}, {"share", 0.75}, {"windows", 6000}});
  CHECK(j["sources"][1]["share"] == 0.25);
}

TEST_CASE("commands: a full disk is an I/O error, not a success") {
  if (!fs::exists("/dev/full")) {
    MESSAGE("SKIPPED: there is no /dev/full");
    return;
  }
  folder here;
  auto full = sh(here, "troupe config schema > /dev/full");
  CHECK(full.code == 74);
}

TEST_CASE("commands: closed standard descriptors lead nowhere, not into what is opened first") {
  folder here;
  CHECK(sh(here, "troupe version >&-").code == 0);
  CHECK(sh(here, "troupe version <&- >&- 2>&-").code == 0);
  const auto verb = sh(here, "troupe confg 2>&-");
  CHECK(verb.code == 64);
  CHECK(verb.out.empty());
}

TEST_CASE("commands: certs makes a CA once, refuses to overwrite, and says what to write") {
  folder here;
  auto made = sh(here, "troupe certs pki --node n0=10.0.0.1,gpu0 --operator alice --json");
  REQUIRE_MESSAGE(made.code == 0, made.talk);
  auto list = nlohmann::json::parse(made.out);
  REQUIRE(list.size() == 3);
  CHECK(list[0]["name"] == "coordinator");
  CHECK(list[1]["hosts"] == nlohmann::json{"n0", "10.0.0.1", "gpu0"});
  CHECK(list[2]["role"] == "operator");
  CHECK(sh(here, "openssl verify -CAfile pki/ca.pem pki/n0.pem").code == 0);
  CHECK(sh(here, "troupe certs pki --node n0").code == 77);
  auto later = sh(here, "troupe certs pki --node n1");
  CHECK(later.code == 0);
  CHECK(later.talk.find("certificate = \"pki/{node}.pem\"") != std::string::npos);
  CHECK(sh(here, "troupe certs pki --node ../x").code == 64);
}

TEST_CASE("commands: data prepare writes tokens that data inspect reads") {
  folder here;
  here.write("a.txt", "to be or not to be\n");
  auto made = sh(here, "troupe data prepare a.txt --out a.bin --json");
  REQUIRE_MESSAGE(made.code == 0, made.talk);
  CHECK(nlohmann::json::parse(made.out)["vocab"] == 256);
  auto seen = sh(here, "troupe data inspect a.bin --tokenizer bytes --show 5 --json");
  REQUIRE_MESSAGE(seen.code == 0, seen.talk);
  auto facts = nlohmann::json::parse(seen.out)[0];
  CHECK(facts["format"] == "llmc");
  CHECK(facts["first_text"] == "to be");
  CHECK(facts["largest_token"] == 't');
  CHECK(sh(here, "troupe data inspect a.txt --format llmc").code == 65);
  CHECK(sh(here, "troupe data inspect none.bin").code == 66);
  CHECK(sh(here, "troupe data prepare none --out b.bin").code == 66);
}

TEST_CASE("commands: data prepare takes records and patterns, and goes on in a folder") {
  folder here;
  here.write("a-1.jsonl", "{\"content\": \"to be\"}\n{\"content\": \"or not\"}\n");
  here.write("a-2.jsonl", "{\"content\": \"to be\"}\n");
  const std::string prepare =
      "troupe data prepare 'a-*.jsonl' --text-field content --out t/ --shard-tokens 8 --json";
  auto made = sh(here, prepare);
  REQUIRE_MESSAGE(made.code == 0, made.talk);
  auto facts = nlohmann::json::parse(made.out);
  CHECK(facts["documents"] == 3);
  CHECK(facts["tokens"] == 20);  // two empty lines between three documents
  CHECK(facts["files"].size() == 2);
  CHECK(sh(here, prepare).talk.find("2 of 2 shards were there already") != std::string::npos);
  auto seen = sh(here, "troupe data inspect t --json");
  REQUIRE_MESSAGE(seen.code == 0, seen.talk);
  CHECK(nlohmann::json::parse(seen.out)[0]["first_text"] == "to be\n\nor not\n\n");
  CHECK(sh(here, "troupe data prepare a-1.jsonl --out b.bin").code == 65);  // has no "text"
  CHECK(sh(here, "troupe data prepare 'b-*' --out b.bin").code == 66);
  // What is in a folder already and is of something else stays.
  CHECK(sh(here, "troupe data prepare a-1.jsonl --text-field content --out t/").code == 77);
}

TEST_CASE("commands: gpu without a GPU says what is missing and ends in 69") {
  folder here;
  const auto e = sh(here, "troupe gpu --json");
  if (e.code == 0) {
    CHECK(nlohmann::json::parse(e.out).contains("devices"));
    return;
  }
  CHECK(e.code == 69);
  CHECK(e.out.empty());
  CHECK(e.talk.find("hint: ") != std::string::npos);
}

TEST_CASE("commands: bash completes verbs, flags and keys") {
  folder here;
  auto complete = [&](const std::string& words, int at) {
    return sh(here, "source <(troupe completion bash); compopt() { :; }; COMP_WORDS=(" + words +
                        "); COMP_CWORD=" + std::to_string(at) +
                        "; _troupe; printf \"%s\\n\" \"${COMPREPLY[@]}\"")
        .out;
  };
  CHECK(complete("troupe conf", 1) == "config\n");
  CHECK(complete("troupe config e", 2) == "explain\n");
  CHECK(complete("troupe config explain train.warm", 3) == "train.warmup_steps\n");
  CHECK(complete("troupe config show x --s", 4) == "--set\n");
  CHECK(complete("troupe config show x --set train.lr", 5) == "train.lr=\n");
  CHECK(sh(here, "troupe completion tcsh").code == 64);
}

TEST_CASE("commands: zsh accepts its script") {
  if (std::system("command -v zsh >/dev/null 2>&1") != 0) {
    MESSAGE("SKIPPED: zsh is not installed");
    return;
  }
  folder here;
  CHECK(sh(here, "troupe completion zsh > _troupe && zsh -n _troupe").code == 0);
  auto loaded = sh(here,
                   "zsh -f -c \"autoload -U compinit; compinit -D; source ./_troupe; "
                   "whence -w _troupe\"");
  CHECK(loaded.out == "_troupe: function\n");
}

TEST_CASE("commands: every verb and every flag has a sentence") {
  troupe::apps::shell shell;
  troupe::apps::add_all(shell);
  auto visit = [](auto&& self, const troupe::apps::command& app) -> void {
    CAPTURE(app.name());
    CHECK(app.about().size() > 8);
    for (const auto& a : app.arguments()) CHECK(a.about.size() > 4);
    for (const auto* sub : app.subcommands()) self(self, *sub);
  };
  visit(visit, shell.app);
}

TEST_CASE("commands: trace stragglers tells of a timeline, draws it, and refuses what is none") {
  folder here;
  const auto event = [](const char* name, int rank, int ts, int dur) {
    return fmt::format(R"({{"ph":"X","name":"{}","pid":{},"tid":0,"ts":{},"dur":{},"args":)"
                       R"({{"step":1,"mb_id":0,"model_chunk":0,"seq_id":0}}}},)",
                       name, rank, ts, dur);
  };
  std::string json = "[";
  for (int r = 0; r < 2; ++r) {
    const int slow = r == 0 ? 3 : 1;
    json += event("forward-compute", r, 0, 100'000 * slow);
    json += event("backward-compute", r, 100'000 * slow, 200'000 * slow);
    json += event("grads-reduce-scatter", r, 300'000 * slow, 1'000'000 - 300'000 * slow);
    json += fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":0,"args":)"
                        R"({{"name":"PP rank 0, TP rank 0, compute"}}}},)",
                        r);
  }
  json.back() = ']';
  here.write("t.json", json);
  here.write("t.yaml", "dp_size: 2\npp_size: 1\nvpp_size: 1\n");
  const auto told =
      sh(here, "troupe trace stragglers --chrome t.json --layout t.yaml --svg heat.svg");
  REQUIRE_MESSAGE(told.code == 0, told.talk);
  CHECK(told.out.find("1.00 s a step, 400 ms without data rank 0, stage 0: slow_device") !=
        std::string::npos);
  CHECK(here.read("heat.svg").ends_with("</svg>\n"));
  const auto data = nlohmann::json::parse(
      sh(here, "troupe trace stragglers --chrome t.json --layout t.yaml --json").out);
  CHECK(data["t_s"] == doctest::Approx(1.0));
  CHECK(data["ideal_s"] == doctest::Approx(0.7));
  CHECK(data["cells"].size() == 2);
  CHECK(data["classes"][0]["class"] == "slow_device");
  here.write("t.json", json.substr(0, 200));
  const auto cut = sh(here, "troupe trace stragglers --chrome t.json --layout t.yaml");
  CHECK(cut.code == 65);
  CHECK(cut.out.empty());
  CHECK(cut.talk.find("t.json: not JSON: ") != std::string::npos);
  CHECK(cut.talk.find("hint: ") != std::string::npos);
  CHECK(sh(here, "troupe trace stragglers --chrome t.json").code == 64);
}

TEST_CASE("commands: sim --days says what does not go together, and where a mix is wrong") {
  folder here;
  const auto days = [&](const std::string& more) {
    return sh(here, "troupe sim --days 1 --nodes 64 --workers 8 --measure-nodes 8 " + more);
  };
  CHECK(days("--as megascal").code == 64);
  CHECK(sh(here, "troupe sim --days 1 --as megascale --spares 2").code == 64);
  CHECK(sh(here, "troupe sim --mix llama3").talk.find("without --days") != std::string::npos);
  CHECK(sh(here, "troupe sim --nodes 5000").code == 64);
  CHECK(days("--fuzz 3").code == 64);
  CHECK(days("--mix lama3").talk.find("llama3") != std::string::npos);
  CHECK(days("--mix none.csv").code == 66);
  here.write("m.csv", "cause,per_1000_node_days,symptom,scope\nFan,20,lost_hots,node\n");
  const auto wrong = days("--mix m.csv");
  CHECK(wrong.code == 65);
  CHECK(wrong.talk.find("line 2") != std::string::npos);
  CHECK(wrong.talk.find("lost_host?") != std::string::npos);
}

TEST_CASE("commands: sim --days --json has its keys, and draws a picture") {
  folder here;
  here.write("m.csv", "cause,per_1000_node_days,symptom,scope\nFan,20,lost_host,node\n");
  const auto done = sh(here,
                       "troupe sim --days 3 --nodes 64 --workers 8 --measure-nodes 8 --mix m.csv "
                       "--spares 1 --seed 2 --svg days.svg --json");
  REQUIRE(done.code == 0);
  const auto j = nlohmann::json::parse(done.out);
  double sum = 0;
  for (const auto* entry :
       {"useful", "repeated", "start", "detect", "diagnose", "re_form", "restore",
        "checkpoint_stall", "paused", "waiting_for_nodes", "head_away"})
    sum += j.at(std::string(entry) + "_s").get<double>();
  CHECK(sum == doctest::Approx(j.at("wall_s").get<double>()));
  CHECK(j.at("wall_s") == 3 * 86'400);
  const double useful_s = j.at("useful_s"), slower_s = j.at("slower_s");
  CHECK(j.at("effective") == doctest::Approx((useful_s - slower_s) / sum));
  for (const auto* key : {"noticed_s", "named_s", "back_s"}) CHECK(j.at(key).at("p99") > 0);
  CHECK(j.at("incidents").at("Fan") > 0);
  for (const auto* key : {"effective_worst_hour", "unaided", "steps_repeated", "false_evictions",
                          "spares_used", "fewer_replicas", "jobs_ended"})
    CHECK(j.at(key).is_number());
  CHECK(j.at("not_in_the_product_yet").empty());
  CHECK(j.at("configuration").at("cluster.spares") == 1);
  CHECK(j.at("configuration").at("checkpoint.memory.every") == 1);
  CHECK(j.at("assumptions").at("person_s").at("source").is_string());
  const auto picture = here.read("days.svg");
  CHECK(picture.starts_with("<svg"));
  CHECK(picture.ends_with("</svg>\n"));
}

TEST_CASE("commands: sim --days has as many spares as plan asks for, and says what is planned") {
  folder here;
  const std::string days =
      "troupe sim --days 1 --nodes 128 --workers 8 --measure-nodes 8 --rate 6.5 ";
  const auto told = sh(here, days).out;
  CHECK(told.find("with 4 spares (`troupe plan --failures 6.50` asks for them)") != told.npos);
  CHECK(told.find("does not have yet") == told.npos);
  const auto asked = sh(here, days + "--planned --spares 3 --copies 0").out;
  CHECK(asked.find("with 3 spares, checkpoints every 50 steps, copies in memory never") !=
        asked.npos);
  CHECK(asked.find("with what it does not have yet: a host whose device") != asked.npos);
  const auto j = nlohmann::json::parse(sh(here, days + "--planned --json").out);
  CHECK(j.at("not_in_the_product_yet").size() == 1);
  CHECK(j.at("configuration").at("cluster.spares") == 4);
}

TEST_CASE("commands: swap gc names and removes what killed processes left, and nothing else") {
  folder here;
  const auto made = sh(here,
                       "mkdir -p d/j-rank-00000/files d/theirs/files && "
                       "printf '{\"troupe-owned\":1,\"kind\":\"scratch\",\"job\":\"j\","
                       "\"files\":[]}\n' > d/j-rank-00000/.troupe-owned && "
                       "head -c 8192 /dev/zero > d/j-rank-00000/files/chunk-0000 && "
                       "cp d/j-rank-00000/files/chunk-0000 d/theirs/files");
  REQUIRE(made.code == 0);
  CHECK(sh(here, "troupe swap gc nowhere").code == 66);
  const auto dry = sh(here, "troupe swap gc d --dry-run");
  CHECK(dry.code == 0);
  CHECK(dry.out.find("would remove d/j-rank-00000 (8.0 KiB, of job j)") != std::string::npos);
  const auto j = nlohmann::json::parse(sh(here, "troupe swap gc d --json").out);
  CHECK(j["removed"].size() == 1);
  CHECK(j["bytes"] == 8192);
  CHECK(sh(here, "ls d").out == "theirs\n");
  CHECK(sh(here, "troupe swap gc d").out.find("nothing in d is left") == 0);
}

TEST_CASE("commands: plan says with how many replicas a job goes on, and what these need") {
  folder here;
  here.write("j.toml", job);
  const std::string four = "troupe plan j.toml --set cluster.nodes=4 --set train.batch=12";
  const auto j = nlohmann::json::parse(sh(here, four + " --json --set train.micro_batch=1").out);
  REQUIRE(j.at("fewer_replicas").size() == 3);
  CHECK(j.at("fewer_replicas")[0].at("replicas") == 3);
  CHECK(j.at("fewer_replicas")[2].at("device_bytes_needed") > j.at("device_bytes_needed"));
  CHECK(sh(here, four).out.find(" of 4 replicas go on\n") != std::string::npos);
  CHECK(sh(here, four + " --set recovery.fewer_replicas=false").out.find("is waited for") !=
        std::string::npos);
}

TEST_CASE("commands: plan says how long a step takes here, or why that is not known") {
  folder here;
  here.write("j.toml", job);
  const std::string plan = "XDG_CACHE_HOME=$PWD/cache troupe plan j.toml --set cluster.device=host";
  const auto told = nlohmann::json::parse(sh(here, plan + " --json").out).at("expected");
  CHECK(told.at("step_s") > 0);
  CHECK(told.at("least_s") < told.at("most_s"));
  CHECK(told.at("measured").at("flops_s") > 0);
  CHECK(told.at("counts") == "layer");  // nothing ran here
  const auto text = sh(here, plan).out;
  CHECK(text.find("\nexpected here, roughly: ") != text.npos);
  CHECK(text.find("\n  this counts, as no run of such work is remembered here\n") != text.npos);
  for (const auto* flags : {"--no-measure", "--memory 80GiB"}) {
    CAPTURE(flags);
    const auto line = plan + " " + flags;
    CHECK(
        nlohmann::json::parse(sh(here, line + " --json").out).at("expected").contains("not_known"));
    CHECK(sh(here, line).out.find("how long a step takes is not known: ") != std::string::npos);
  }
}

TEST_CASE("commands: plan says how many spares a failure rate asks for") {
  folder here;
  here.write("j.toml", job);
  const auto plan = sh(here, "troupe plan j.toml --json --failures 600");
  const auto j = nlohmann::json::parse(plan.out);
  CHECK(j.at("spare_nodes_p99") == 2);
  CHECK(j.at("failures_per_1000_node_days") == 600);
  REQUIRE(j.at("fewer_replicas").size() == 1);  // of two
  CHECK(j.at("fewer_replicas")[0].at("replicas") == 1);
  CHECK(j.at("fewer_replicas")[0].at("device_bytes_needed") > 0);
  const auto never = sh(here, "troupe plan j.toml --json --set recovery.fewer_replicas=false");
  CHECK(nlohmann::json::parse(never.out).at("fewer_replicas").empty());
  CHECK(sh(here, "troupe plan j.toml").out.find("0 spare nodes") != std::string::npos);
  const auto alone = sh(here, "troupe plan j.toml --failures 1 --set cluster.nodes=1").out;
  CHECK(alone.find(" at 1 failure per 1,000 node-days of 1 node; ") != std::string::npos);
}

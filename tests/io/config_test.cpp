// The configuration: every key through every layer, every problem with its place, and the round
// trip that sends a job to the nodes.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/text.hpp"
#include "io/config/load.hpp"
#include "io/config/properties.hpp"
#include "io/config/show.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::config;
namespace fs = std::filesystem;

namespace {

/// A folder of its own for a test, removed at its end.
struct folder {
  fs::path path;
  folder() {
    std::string name = (fs::temp_directory_path() / "troupe-config-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~folder() { fs::remove_all(path); }
  folder(const folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

/// The least a job needs.
const std::string least = "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";

std::string rendered(const std::vector<problem>& problems) {
  std::string all;
  for (const auto& p : problems) all += render(p) + "\n";
  return all;
}

/// What read() complains about for the least job with --set flags.
std::string complaints(const std::vector<std::string>& sets) {
  folder here;
  auto out = read({here.write("run.toml", least), {}, sets});
  auto text = rendered(out.problems);
  CHECK(text.find("TOML") == std::string::npos);
  return text;
}

/// Another value of the key's type that its bounds allow.
value another(const property& p, const value& now) {
  switch (p.kind) {
    case value_kind::integer: {
      auto next = std::get<int64_t>(now) + 1;
      return p.limits.contains(static_cast<double>(next)) ? next : next - 2;
    }
    case value_kind::real: {
      double half = std::get<double>(now) / 2 + 0.125;
      return half;
    }
    case value_kind::boolean:
      return !std::get<bool>(now);
    case value_kind::text:
      return std::get<std::string>(now) + "x \"\\\n\t\x01 é";
    case value_kind::texts:
      return std::vector<std::string>{"a", "b c", "\"d\""};
    case value_kind::choice:
      break;
  }
  auto word = std::get<std::string>(now);
  return std::string(p.choices.size() == 1 || p.choices[0] != word ? p.choices[0] : p.choices[1]);
}

}  // namespace

TEST_CASE("every key is read, changed and written through its property (PR-1)") {
  for (const auto& p : properties()) {
    CAPTURE(p.key);
    job j;
    auto before = get(p, j);
    auto other = another(p, before);
    REQUIRE(set(p, j, other));
    CHECK(get(p, j) == other);
    if (p.choices.size() != 1) CHECK_FALSE(j == job{});
    CHECK(p.about.size() > 10);
    CHECK(p.about.back() != '.');
    CHECK(p.choices.size() < 16);
    CHECK(p.key.find('.') != p.key.npos);
    CHECK_FALSE(section_about(p.key.substr(0, p.key.rfind('.'))).empty());
    REQUIRE(set(p, j, before));
    CHECK(j == job{});
  }
}

TEST_CASE("no two properties share a member or a key, and each section's members are all there") {
  std::set<std::string_view> keys;
  std::set<void*> members;
  job j;
  for (const auto& p : properties()) {
    CHECK(keys.insert(p.key).second);
    CHECK(members.insert(p.at(&j)).second);
  }
  // A member added to job.hpp without a row fails to compile here or leaves the count behind.
  [[maybe_unused]] auto [a1, a2, a3] = j.job;
  [[maybe_unused]] auto [c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17,
                         c18, c19, c20] = j.cluster;
  [[maybe_unused]] auto [t1, t2, t3] = c20;
  [[maybe_unused]] auto [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17,
                         m18, m19] = j.model;
  [[maybe_unused]] auto [d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12, d13] = j.data;
  [[maybe_unused]] auto [r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15, r16, r17,
                         r18, r19, r20, r21, r22] = j.train;
  [[maybe_unused]] auto [p1, p2, p3, p4, p5, p6] = j.parallel;
  [[maybe_unused]] auto [k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11, k12, k13, k14] =
      j.checkpoint;
  [[maybe_unused]] auto [y1, y2] = k13;
  [[maybe_unused]] auto [s1, s2, s3, s4, s5, s6, s7] = k14;
  [[maybe_unused]] auto [x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13] = j.swap;
  [[maybe_unused]] auto [g1, g2, g3, g4, g5, g6, g7, g8] = x13;
  [[maybe_unused]] auto [v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13] = j.recovery;
  [[maybe_unused]] auto [u1, u2, u3, u4] = v13[0];
  [[maybe_unused]] auto [h1, h2, h3, h4, h5, h6, h7, h8, h9, h10, h11] = j.health;
  [[maybe_unused]] auto [o1, o2, o3] = h11[0];
  [[maybe_unused]] auto [w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14,
                         w15] = j.power;
  [[maybe_unused]] auto [b1, b2, b3, b4, b5, b6, b7] = j.predict;
  [[maybe_unused]] auto [l1, l2] = j.log;
  [[maybe_unused]] auto [i1, i2, i3, i4, i5] = drill_spec{};
  CHECK(rule_properties().size() == 4);
  CHECK(log_rule_properties().size() == 3);
  CHECK(drill_properties().size() == 5);
  CHECK(keys.size() == 3 + (20 - 2) + 3 + 19 + (13 - 1) + 22 + 6 + (14 - 2) + 2 + 7 + (13 - 1) + 8 +
                           4 + 12 + 10 + 2 + 14 + 7);  // less tables, which have rows of their own
}

TEST_CASE("the least job is settled: nothing is left open that can be derived") {
  folder here;
  auto got = load({here.write("run.toml", least), {}, {}});
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  const auto& j = got->value;
  CHECK(j.cluster.node == std::vector<node_spec>{{"node0", "localhost", 1}});
  CHECK(j.parallel.data == 1);
  CHECK(j.train.micro_batch == 8);
  CHECK(j.model.family == model_family::gpt2);
  CHECK(j.model.kv_heads == 4);
  CHECK(j.model.ffn == 256);
  CHECK(j.model.max_seq_len == 256);
  CHECK(j.model.tied == true);
  CHECK(j.job.output == "runs/troupe");
  CHECK(j.checkpoint.dir == "runs/troupe/checkpoints");
  CHECK(j.data.cache == "runs/troupe/cache");
  CHECK(to_string(got->origins.at("train.micro_batch")) == "default, derived");
  CHECK(to_string(got->origins.at("train.lr")) == "default");
  CHECK(to_string(got->origins.at("model.hidden")) == here.path.string() + "/run.toml:4:1");
}

TEST_CASE("llama's defaults are its own") {
  folder here;
  auto got = load({here.write("run.toml", least), {}, {"model.family=llama", "model.hidden=256"}});
  REQUIRE(got);
  CHECK(got->value.model.ffn == 704);  // 8/3 * 256 = 682.7, rounded up to a multiple of 64
  CHECK(got->value.model.tied == false);
  auto exact =
      load({here.write("run.toml", least), {}, {"model.family=llama", "model.hidden=192"}});
  REQUIRE(exact);
  CHECK(exact->value.model.ffn == 512);  // already a multiple
}

TEST_CASE("flag beats environment beats file beats include beats default, and each says so") {
  folder here;
  here.write("base.toml", "[train]\nlr = 0.1\nbeta1 = 0.5\nsteps = 7\nbatch = 16\n" + least);
  auto file = here.write(
      "sub/run.toml", "include = [\"../base.toml\"]\n[train]\nlr = 0.2\nbeta1 = 0.6\nsteps = 8\n");
  auto got = load({file,
                   {"TROUPE_TRAIN__LR=0.3", "TROUPE_TRAIN__BETA1=0.7", "TROUPE_HOME=/x",
                    "PATH=/bin", "TROUPE_DATA__TOKENIZER=12", "TROUPE_DATA__PATH=[\"a\", \"b\"]"},
                   {"train.lr=0.4", "job.name=a", "job.name=b"}});
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->value.train.lr == 0.4);
  CHECK(got->value.train.beta1 == 0.7);
  CHECK(got->value.train.steps == 8);
  CHECK(got->value.train.batch == 16);
  CHECK(got->value.job.name == "b");
  CHECK(got->value.data.tokenizer == "12");  // a string key takes text as it is
  CHECK(got->value.data.path == std::vector<std::string>{"a", "b"});
  auto from = [&](const char* key) { return to_string(got->origins.at(key)); };
  CHECK(from("train.lr") == "--set");
  CHECK(from("train.beta1") == "environment TROUPE_TRAIN__BETA1");
  CHECK(from("train.steps") == file + ":5:1");
  CHECK(from("train.batch") == (here.path / "base.toml").string() + ":5:1");
  REQUIRE(got->files.size() == 2);
  CHECK(got->files[1] == file);
}

TEST_CASE("all problems come at once, each with line, column, key and the nearest name") {
  folder here;
  auto file = here.write(
      "run.toml",
      "[training]\nsteps = 3\n"
      "[train]\nlrr = 1\n  stesp = 2\nbatch = \"many\"\nbeta1 = 1.0\noptimizer = \"adam\"\n"
      "[model]\nlayers = 4\nheads = 3\nhidden = 64\n"
      "[data]\npath = \"x\"\nseq_len = 5\nshuffle = 1\n[cluster]\nport = 70000\n"
      "join_timeout_ms = 1979-05-27\n");
  auto out = read({file, {"TROUPE_TRAIN__LRATE=1"}, {"train.stepz=3", "nonsense"}});
  auto text = rendered(out.problems);
  for (const char* expected : {
           "run.toml:1:2: training: unknown section; did you mean [train]?",
           "run.toml:4:1: train.lrr: unknown key; did you mean train.lr?",
           "run.toml:5:3: train.stesp: unknown key; did you mean train.steps?",
           "run.toml:6:9: train.batch: expected an integer from 1 to 1000000, got the string "
           "\"many\"",
           "run.toml:7:9: train.beta1: expected a number from 0 to below 1, got the number 1.0",
           "run.toml:8:13: train.optimizer: expected one of \"adamw\", \"lamb\", got the string "
           "\"adam\"; did you mean \"adamw\"?",
           "run.toml:15:1: data.seq_len: unknown key; did you mean train.seq_len?",
           "run.toml:16:11: data.shuffle: expected true or false, got the integer 1",
           "run.toml:18:8: cluster.port: expected an integer from 0 to 65535, got the integer "
           "70000",
           "run.toml:19:19: cluster.join_timeout_ms: expected an integer from 100 to 86400000, got "
           "a date",
           "environment TROUPE_TRAIN__LRATE: train.lrate: unknown key",
           "--set: train.stepz: unknown key; did you mean train.steps?",
           "--set: expected KEY=VALUE, got nonsense",
       }) {
    CAPTURE(std::string(expected));
    CHECK_MESSAGE(text.find(expected) != std::string::npos, text);
  }
  auto failed = load({file, {}, {}});
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == errc::bad_config);
  CHECK(exit_code(failed.error().code) == 78);
}

TEST_CASE("a syntax error has its place and does not drag others along") {
  folder here;
  auto out = read({here.write("run.toml", "[train]\nlr = = 3\n"), {}, {}});
  REQUIRE(out.problems.size() == 1);
  CHECK(to_string(out.problems[0].at).ends_with("run.toml:2:6"));
}

TEST_CASE("impossible combinations are told with the key and the line at fault") {
  struct row {
    std::vector<std::string> sets;
    const char* expected;
  };
  const row rows[] = {
      {{"train.batch=10", "train.micro_batch=3"},
       "train.micro_batch: train.batch = 10 is not divisible"},
      {{"cluster.nodes=3", "train.batch=8"},
       "train.batch = 8 is not divisible by parallel.data = 3"},
      {{"parallel.data=2"},
       "parallel.data * parallel.pipeline = 2 * 1 must be the number of workers, 1"},
      {{"cluster.nodes=8", "parallel.pipeline=8"}, "8 stages cannot share 4 layers"},
      {{"cluster.nodes=2", "parallel.pipeline=2", "parallel.schedule=by_layer"},
       "\"by_layer\" needs a pipeline of one stage"},
      {{"model.heads=3"}, "hidden = 64 is not divisible by heads = 3"},
      {{"model.family=llama", "model.kv_heads=3"}, "heads = 4 is not divisible by kv_heads = 3"},
      {{"model.kv_heads=2"}, "gpt2 has as many key and value heads as heads"},
      {{"model.family=llama", "model.hidden=36"}, "rotary positions need an even head width"},
      {{"model.max_seq_len=128"}, "train.seq_len = 256 is more than model.max_seq_len = 128"},
      {{"cluster.dead_after_ms=1000"}, "must be more than heartbeat_interval_ms = 1000"},
      {{"cluster.dead_after_ms=2000"}, "must not be less than suspect_after_ms = 3000"},
      {{"cluster.suspect_after_ms=500"}, "suspect_after_ms = 500 must be more than"},
      {{"cluster.listen=0.0.0.0"}, "cluster.listen: \"0.0.0.0\" is not loopback, and TLS is off"},
      {{"cluster.listen=128.0.0.1"}, "is not loopback"},
      {{"cluster.tls.ca=a", "cluster.tls.key=b"},
       "cluster.tls needs ca, certificate and key, all three"},
      {{"cluster.launch=external"}, "needs a fixed port"},
      {{"cluster.launch=ssh"}, "\"ssh\" needs the hosts"},
      {{"cluster.launch=ssh", "cluster.node=[{name=\"a\", host=\"far\"}]"},
       "nodes on other hosts cannot reach 127.0.0.1"},
      {{"cluster.node=[{name=\"a\", host=\"far\"}]"}, "cluster.launch is \"local\", but \"far\""},
      {{"cluster.node=[{name=\"a\"},{name=\"a\"}]"}, "duplicate node name \"a\""},
      {{"cluster.node=[{name=\"a\", hots=\"b\"}]"}, "did you mean cluster.node.host?"},
      {{"cluster.node=[{name=\"../a\"}]"}, "cluster.node.name: expected letters"},
      {{"cluster.node=[{host=\"localhost\"}]"}, "every [[cluster.node]] needs a name"},
      {{"cluster.node=[{name=\"a\", workers=65}]"}, "from 0 to 64"},
      {{"cluster.node=3"}, "expected [[cluster.node]] tables, got an integer"},
      {{"job.name=a/b"}, "job.name: expected letters, digits"},
      {{"job.output=x/{nam}"}, "only {name} can stand in braces"},
      {{"data.path="}, "data.path: is required"},
      {{"model.layers=0"}, "model.layers: is required without model.path"},
      {{"model.init=pretrained"}, "\"pretrained\" needs model.path"},
      {{"train.validate_every=5"}, "there is nothing to validate on"},
      {{"train.warmup_steps=2000"}, "warmup_steps = 2000 is more than steps = 1000"},
      {{"train.schedule=wsd", "train.warmup_steps=500", "train.decay_steps=501"},
       "more than steps"},
      {{"train.stochastic_rounding=true"}, "there is nothing to round"},
      {{"train.eps=0"}, "a number above 0"},
      {{"train.lr=nan"}, "train.lr: expected a number from 0 to 100, got the number nan"},
      {{"train.lr=inf"}, "train.lr: expected a number"},
      {{"train=3"}, "train: is a section; name one of its keys"},
      {{"job.name=\"\xff\""}, "not valid UTF-8"},
      {{"train.steps=1\nlr=2"}, "expected an integer from 1 to 1000000000, got the string"},
      {{"checkpoint.resume="}, "expected \"auto\", \"never\" or the path"},
      {{"checkpoint.memory.every=1", "recovery.enabled=false"}, "are for recoveries alone"},
      {{"checkpoint.memory.bytes=0"}, "expected an integer from 4096"},
      {{"checkpoint.dir=a", "checkpoint.second.dir=a"}, "the second tier is the first"},
      {{"checkpoint.dir=a", "checkpoint.second.dir=./b/../a/"}, "the second tier is the first"},
      {{"checkpoint.second.dir={output}/checkpoints"}, "the second tier is the first"},
      {{"checkpoint.second.dir=x/{name}"}, "only {output} can stand in braces"},
      {{"checkpoint.second.keep=1"}, "checkpoint.second.dir: is required where"},
      {{"checkpoint.second.bytes_per_second=-1"}, "expected an integer from 0"},
  };
  for (const auto& r : rows) {
    CAPTURE(std::string(r.expected));
    auto text = complaints(r.sets);
    CHECK_MESSAGE(text.find(r.expected) != std::string::npos, text);
  }
}

TEST_CASE("the second tier is a section of its own, and {output} stands in its folder") {
  folder here;
  auto got = load({here.write("run.toml", least + "[checkpoint.second]\nkeep = 2\nevery = 10\n" +
                                              "dir = \"{output}/shared\"\n"),
                   {},
                   {"checkpoint.second.bytes_per_second=1000", "checkpoint.keep_best=3"}});
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  const auto& c = got->value.checkpoint;
  CHECK(c.second.dir == "runs/troupe/shared");
  CHECK(c.second.keep == 2);
  CHECK(c.second.every == 10);
  CHECK(c.second.bytes_per_second == 1000);
  CHECK(c.second.wait_s == 600);
  CHECK(c.keep_best == 3);
  auto again = parse(to_toml(got->value), "again");  // J-4
  REQUIRE_MESSAGE(again, (again ? "" : render(again.error())));
  CHECK(*again == got->value);
}

TEST_CASE("one mistake is one problem (L-1)") {
  for (const char* flag : {"train.batch=0", "model.heads=x", "cluster.nodes=0", "parallel.data=-1",
                           "cluster.heartbeat_interval_ms=fast", "cluster.listen=0.0.0.0"}) {
    CAPTURE(std::string(flag));
    auto text = complaints({flag});
    CHECK_MESSAGE(std::count(text.begin(), text.end(), '\n') == 1, text);
  }
  auto mistyped = least;
  mistyped.replace(mistyped.find("hidden"), 6, "hiddne");
  folder here;
  CHECK(read({here.write("run.toml", mistyped), {}, {}}).problems.size() == 1);
}

TEST_CASE("tensors between hosts in the clear need an explicit word, even with TLS") {
  const std::vector<std::string> tls{"cluster.tls.ca=a", "cluster.tls.certificate=b",
                                     "cluster.tls.key=c"};
  const std::string two_hosts =
      R"(cluster.node=[{name="a",host="10.0.0.1"},{name="b",host="10.0.0.2"}])";
  const std::string one_host =
      R"(cluster.node=[{name="a",host="10.0.0.1"},{name="b",host="10.0.0.1"}])";
  const std::string word = "clear_text_tensors";
  struct row {
    std::vector<std::string> sets;
    bool refused;
  };
  const row rows[] = {
      {{"cluster.launch=ssh", "cluster.listen=10.0.0.9", two_hosts}, true},
      {{"cluster.launch=ssh", "cluster.listen=10.0.0.9", one_host}, false},
      {{"cluster.launch=external", "cluster.listen=0.0.0.0", "cluster.port=1", "cluster.nodes=2"},
       true},
      {{"cluster.launch=external", "cluster.listen=0.0.0.0", "cluster.port=1"}, false},
      {{"cluster.launch=external", "cluster.port=1", "cluster.nodes=2"}, false},
      {{"cluster.listen=0.0.0.0", "cluster.nodes=2"}, false},
  };
  auto with = [](std::vector<std::string> sets, const std::vector<std::string>& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  };
  for (const auto& r : rows) {
    CAPTURE(r.sets.back());
    CAPTURE(r.sets.size());
    const auto found = complaints(with(r.sets, tls));
    INFO(found);
    CHECK((found.find(word) != found.npos) == r.refused);
    CHECK(found.empty() != r.refused);
    CHECK(complaints(with(with(r.sets, tls), {"cluster.clear_text_tensors=true"})).empty());
    CHECK(complaints(with(r.sets, {"cluster.insecure=true"})).empty());
  }
  // Without TLS that is the one thing to say.
  CHECK(complaints(rows[0].sets).find(word) == std::string::npos);
}

TEST_CASE("the templates for schedulers are sound jobs") {
  auto text_of = [](const std::string& name) {
    std::ifstream in(std::string(TROUPE_SOURCE_DIR "/configs/") + name);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  struct {
    const char *file, *variable;
  } const templates[] = {
      {"kubernetes/troupe.yaml", R"re(name: (TROUPE_CLUSTER__\w+), value: "?([^"}]*))re"},
      {"slurm/troupe.sbatch", R"re(export (TROUPE_CLUSTER__\w+)=(.*))re"}};
  const std::pair<const char*, const char*> known[] = {
      {"$SLURM_NTASKS", "2"}, {"$head", "host0"}, {"$port", "29400"}, {"$certs", "certs"}};
  for (const auto& t : templates) {
    CAPTURE(std::string(t.file));
    const auto text = text_of(t.file);
    const std::regex variable(t.variable);
    std::vector<std::string> environment;
    for (std::sregex_iterator i(text.begin(), text.end(), variable), end; i != end; ++i) {
      auto value = (*i)[2].str();
      for (const auto& [name, with] : known)
        if (auto at = value.find(name); at != value.npos)
          value.replace(at, std::string(name).size(), with);
      environment.push_back((*i)[1].str() + "=" + value);
    }
    REQUIRE(environment.size() == 9);
    folder here;
    const auto file = here.write("run.toml", least);
    CHECK(rendered(read({file, environment, {}}).problems).empty());
    std::erase(environment, "TROUPE_CLUSTER__CLEAR_TEXT_TENSORS=true");
    CHECK(read({file, environment, {}}).problems.size() == 1);
  }
}

TEST_CASE("a cross-check points at the line of a key that somebody wrote") {
  folder here;
  auto out =
      read({here.write("run.toml", least + "[train]\nseq_len = 512\n[parallel]\npipeline = 5\n"),
            {},
            {"model.max_seq_len=64"}});
  auto text = rendered(out.problems);
  CHECK(text.find("run.toml:8:1: train.seq_len = 512 is more than") != text.npos);
  CHECK(text.find("run.toml:10:1: parallel.pipeline: 5 stages cannot share 4 layers") != text.npos);
}

TEST_CASE("includes: cycles, depth, absence and wrong types are refused, a diamond is fine") {
  folder here;
  auto problems_of = [&](const std::string& file) {
    return rendered(read({file, {}, {}}).problems);
  };
  here.write("b.toml", "include = 'a.toml'\n");
  CHECK(problems_of(here.write("a.toml", "include = 'b.toml'\n")).find("a.toml includes itself") !=
        std::string::npos);
  for (int i = 0; i < 12; i++)
    here.write("deep" + std::to_string(i) + ".toml",
               "include = 'deep" + std::to_string(i + 1) + ".toml'\n");
  CHECK(problems_of((here.path / "deep0.toml").string()).find("deeper than 8") !=
        std::string::npos);
  auto absent = problems_of(here.write("c.toml", "\ninclude = ['nowhere.toml', 3]\n"));
  CHECK(absent.find("c.toml:2:12: ") != absent.npos);
  CHECK(absent.find("nowhere.toml: no such file") != absent.npos);
  CHECK(absent.find("c.toml:2:28: include: expected a path, got an integer") != absent.npos);
  here.write("top.toml", least);
  here.write("left.toml", "include = 'top.toml'\n[train]\nsteps = 1\nlr = 0.1\n");
  here.write("right.toml", "include = 'top.toml'\n[train]\nlr = 0.2\n");
  auto got = load({here.write("d.toml", "include = ['left.toml', 'right.toml']\n"), {}, {}});
  REQUIRE(got);
  CHECK(got->value.train.steps == 1);
  CHECK(got->value.train.lr == 0.2);
  CHECK_FALSE(parse("include = 'x.toml'\n" + least, "message"));
}

TEST_CASE("includes: each file is read once, in the last of its places (L-4)") {
  folder here;
  // Without L-4: 12^7 reads of the last one.
  for (int i = 0; i < 8; i++) {
    std::string text = "include = [";
    for (int k = 0; k < 12 && i < 7; k++) text += fmt::format("'fan{}.toml', ", i + 1);
    here.write(fmt::format("fan{}.toml", i), text + "]\n" + (i == 7 ? least : ""));
  }
  auto fan = load({(here.path / "fan0.toml").string(), {}, {}});
  REQUIRE(fan);
  CHECK(fan->files.size() == 8);
  // Eight that include each other: every cycle is named, none is followed.
  for (int i = 0; i < 8; i++) {
    std::string text = "include = [";
    for (int k = 0; k < 8; k++) text += fmt::format("'ring{}.toml', ", k);
    here.write(fmt::format("ring{}.toml", i), text + "]\n");
  }
  auto ring = read({(here.path / "ring0.toml").string(), {}, {}});
  CHECK(rendered(ring.problems).find("ring0.toml includes itself") != std::string::npos);
  CHECK(ring.problems.size() <= 64);
  // The base stands between the two: it wins over the first and loses to what names it.
  here.write("base.toml", least + "[train]\nlr = 0.1\nsteps = 5\n");
  here.write("first.toml", "include = 'base.toml'\n[train]\nlr = 0.2\nsteps = 6\nbatch = 4\n");
  here.write("last.toml", "include = 'base.toml'\n[train]\nsteps = 7\n");
  auto got = load({here.write("all.toml", "include = ['first.toml', 'last.toml']\n"), {}, {}});
  REQUIRE(got);
  CHECK(got->value.train.lr == 0.1);
  CHECK(got->value.train.steps == 7);
  CHECK(got->value.train.batch == 4);
  CHECK(got->files.size() == 4);
  std::string many = "include = [";
  for (int i = 0; i < 3000; i++) many += "'base.toml',";
  auto bound = read({here.write("many.toml", many + "]\n"), {}, {}});
  CHECK(rendered(bound.problems).find("more than 1024 includes in all") != std::string::npos);
  CHECK(bound.problems.size() == 1);
}

TEST_CASE("a file that is not there, not a file, or too large is told so") {
  folder here;
  auto missing = load({(here.path / "no.toml").string(), {}, {}});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == errc::not_found);
  CHECK_FALSE(load({here.path.string(), {}, {}}));
  auto large = load({here.write("large.toml", std::string((1 << 20) + 1, '#')), {}, {}});
  REQUIRE_FALSE(large);
  CHECK(large.error().code == errc::bad_config);
  CHECK(mentions(large.error(), "1 MiB"));
  CHECK(mentions(large.error(), here.path / "large.toml"));
}

TEST_CASE("nodes are a number or a list, the stronger layer wins, the same layer must agree") {
  folder here;
  auto list = "[[cluster.node]]\nname = 'a'\n[[cluster.node]]\nname = 'b'\nworkers = 2\n";
  auto file = here.write("list.toml", least + list + "[train]\nbatch = 12\n");
  auto got = load({file, {}, {}});
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->value.cluster.nodes == 2);
  CHECK(got->value.workers() == 3);
  CHECK(got->value.parallel.data == 3);
  CHECK(got->value.cluster.node[1] == node_spec{"b", "localhost", 2});
  auto counted = load({file, {}, {"cluster.nodes=4"}});
  REQUIRE(counted);
  CHECK(counted->value.cluster.node.size() == 4);
  CHECK(counted->value.cluster.node[3].name == "node3");
  auto both = here.write("both.toml", least + "[cluster]\nnodes = 3\n" + list);
  CHECK(rendered(read({both, {}, {}}).problems).find("leave one of the two out") !=
        std::string::npos);
}

TEST_CASE("a job survives its own text, whatever its keys hold (J-4)") {
  folder here;
  auto got =
      load({here.write("run.toml", least),
            {},
            {"cluster.node=[{name=\"a\",workers=2},{name=\"b\",host=\"::1\",workers=2}]",
             "parallel.pipeline=2", "train.lr=3.0000000000000004e-4", "train.eps=1e-30",
             "train.sample_prompt=He said:\t\"no\\yes\"\n\x7f é", "data.path=[\"a b\",\"c#d\"]",
             "model.family=llama", "train.schedule=wsd", "job.seed=9000000000000000",
             "cluster.tls.ca=ca.pem", "cluster.tls.certificate={node}.pem",
             "cluster.tls.key={node}.key", "cluster.listen=10.0.0.1"}});
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  auto again = parse(to_toml(got->value), "text");
  REQUIRE_MESSAGE(again, (again ? "" : render(again.error())));
  CHECK(*again == got->value);
  CHECK(again->train.lr == 3.0000000000000004e-4);
  CHECK(again->train.sample_prompt == "He said:\t\"no\\yes\"\n\x7f é");
  auto shown = parse(show(*got), "shown");  // with its comments
  REQUIRE(shown);
  CHECK(*shown == got->value);
  auto settled = settle(got->value);
  REQUIRE(settled);
  CHECK(*settled == got->value);
}

TEST_CASE("settle derives and checks a job made by code") {
  job j;
  j.model.layers = 2;
  j.model.heads = 2;
  j.model.hidden = 32;
  j.data.path = {"text"};
  j.cluster.nodes = 2;
  auto settled = settle(j);
  REQUIRE_MESSAGE(settled, (settled ? "" : render(settled.error())));
  CHECK(settled->cluster.node.size() == 2);
  CHECK(settled->parallel.data == 2);
  CHECK(settled->micro_batches() == 1);
  j.model.heads = 3;
  CHECK_FALSE(settle(j));
}

TEST_CASE("model.path leaves the shape to the folder") {
  folder here;
  auto got =
      load({here.write("run.toml", "[model]\npath = 'gpt2'\n[data]\npath = 'x.bin'\n"), {}, {}});
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->value.model.family == or_auto<model_family>());
  CHECK(got->value.model.layers == 0);
  CHECK(got->value.model.init == weight_init::pretrained);
  CHECK(parse(to_toml(got->value), "text"));
}

TEST_CASE("garbage is refused without a crash") {
  for (std::string text :
       {std::string(5000, '['), std::string("a = \"\xff\xfe\""), std::string("\0", 1),
        std::string(300, '{'), std::string("train = 1\n[train]\nlr = 1"),
        std::string("[[train]]\nlr = 1"), std::string("\"train.lr\" = 3\n") + least,
        std::string("[train]\nsteps = 99999999999999999999\n")}) {
    CHECK_FALSE(parse(text, "garbage"));
  }
}

TEST_CASE("edit distance and the nearest name") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abcd", "acbd") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(nearest_key("train.lerning_rate") == "");
  CHECK(nearest_key("train.warmup") == "train.warmup_steps");
  CHECK(nearest_key("train.warmup_step") == "train.warmup_steps");
  CHECK(nearest_key("modle.layers") == "model.layers");
  CHECK(nearest_key("cluster.tls.cert") == "cluster.tls.certificate");
  CHECK(nearest_key(std::string(100000, 'a')) == "");
}

TEST_CASE("explain knows keys, sections and near misses") {
  auto key = explain("train.beta2");
  REQUIRE(key);
  for (const char* part :
       {"train.beta2", "a number from 0 to below 1", "0.95", "TROUPE_TRAIN__BETA2"})
    CHECK(key->find(part) != key->npos);
  CHECK(explain("cluster.tls"));
  CHECK(explain("cluster.node.host"));
  CHECK(explain("trian").error().hint == "did you mean train?");
  CHECK(explain("train.stpes").error().hint == "did you mean train.steps?");
  CHECK(explain("lr").error().hint == "did you mean train.lr?");  // not the section log
}

TEST_CASE("types of numbers may be named as config.json names them") {
  for (const auto& [word, type] :
       {std::pair{"float32", compute_dtype::f32}, std::pair{"bfloat16", compute_dtype::bf16}}) {
    const auto named =
        parse(fmt::format("[model]\nlayers = 4\nheads = 4\nhidden = 64\ndtype = \"{}\"\n[data]\n"
                          "path = \"x\"\n",
                          word),
              "test");
    REQUIRE_MESSAGE(named, (named ? "" : render(named.error())));
    CHECK(named->model.dtype == type);
  }
}

TEST_CASE("the JSON forms are JSON and know every key") {
  folder here;
  auto got = load({here.write("run.toml", least), {}, {}});
  REQUIRE(got);
  auto shown = nlohmann::json::parse(show_json(*got));
  CHECK(shown["model.layers"]["value"] == 4);
  CHECK(shown["cluster.node"]["value"][0]["name"] == "node0");
  auto schema = nlohmann::json::parse(json_schema());
  for (const auto& p : properties()) {
    CAPTURE(p.key);
    auto* at = &schema["properties"];
    std::string_view rest = p.key;
    for (size_t dot; (dot = rest.find('.')) != rest.npos; rest.remove_prefix(dot + 1))
      at = &(*at)[std::string(rest.substr(0, dot))]["properties"];
    CHECK(at->contains(std::string(rest)));
    CHECK(shown.contains(std::string(p.key)));
  }
  auto bad = read({here.write("bad.toml", "x = 1\n"), {}, {}});
  auto problems = problems_json(bad.problems);
  CHECK(problems[0]["line"] == 1);
}

TEST_CASE("docs/configuration.md is what the property list says") {
  auto root = fs::path(TROUPE_SOURCE_DIR);
  std::ifstream in(root / "docs" / "configuration.md");
  REQUIRE_MESSAGE(in, "docs/configuration.md is missing");
  std::stringstream text;
  text << in.rdbuf();
  CHECK_MESSAGE(text.str() == reference_markdown(),
                "run: troupe config schema --markdown > docs/configuration.md");
}

TEST_CASE("every configuration that ships is sound") {
  auto root = fs::path(TROUPE_SOURCE_DIR);
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root / "configs")) {
    if (entry.path().extension() != ".toml" || entry.path().stem() == "power") continue;
    CAPTURE(entry.path().string());
    std::vector<std::string> sets;
    if (entry.path().stem() == "oracle") sets = {"model.path=folder", "data.path=tokens.bin"};
    auto got = load({entry.path().string(), {}, sets});
    CHECK_MESSAGE(got, (got ? "" : render(got.error())));
    count++;
  }
  CHECK(count >= 4);
}

TEST_CASE("a node that has no file yet takes its cluster section from environment and flags") {
  auto got = cluster_without_file({"TROUPE_CLUSTER__TLS__CA=ca.pem", "TROUPE_X=1",
                                   "TROUPE_CLUSTER__TLS__CERTIFICATE={node}.pem"},
                                  {"cluster.tls.key=keys/{node}/{node}.key"});
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(tls_of(got->tls, "n7") == tls_section{"ca.pem", "n7.pem", "keys/n7/n7.key"});
  CHECK_FALSE(cluster_without_file({"TROUPE_CLUSTER__TLS__CA=ca.pem"}, {}));
  CHECK_FALSE(cluster_without_file({"TROUPE_CLUSTER__TLS__CAA=ca.pem"}, {}));
  CHECK_FALSE(cluster_without_file({}, {"cluster.insecure=maybe"}));
}

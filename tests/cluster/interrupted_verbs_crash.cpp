// Ctrl-C in what is not `up`: the verbs that work for long or write. Each ends with 130, nothing of
// it runs on, nothing half written has the name of something whole, and the next one that does the
// same is in nobody's way. When it comes is drawn by seed, and it may be too late then; so each of
// the short ones is also held at a known point, where it always comes in time.
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <random>

#include "tests/cluster/held.hpp"
#include "tests/cluster/moments.hpp"
#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr int ctrl_c = 128 + SIGINT;

/// Whether it had not ended by itself before; then it has 130.
bool interrupted(program& p) {
  REQUIRE(kill(p.pid(), SIGINT) == 0);
  const int code = p.wait();
  INFO(p.err());
  CHECK((code == ctrl_c || code == 0));
  return code == ctrl_c;
}

/// Ctrl-C where the verb is about to open `part`; `words(n)`: of the n-th try, as the first may be
/// past that point before it is held. True where it was done.
bool interrupted_where_it_opens(std::string_view part,
                                const std::function<std::vector<std::string>(int)>& words) {
  for (int n = 0; n < 20; ++n) {
    program p(words(n));
    const auto came = interrupt_at_open(p, part);
    const int code = p.wait();
    INFO(p.err());
    if (!came) {
      MESSAGE("SKIPPED: nobody may trace a process here (ptrace)");
      return false;
    }
    REQUIRE(code != 128 + SIGKILL);  // it hung
    if (!*came) continue;
    CHECK(code == ctrl_c);
    return true;
  }
  FAIL("it was never held at ", part);
  return false;
}

/// A job that was trained to its end.
struct trained_job {
  job_files job;
  std::string checkpoint;

  trained_job() {
    job.losses({"train.steps=4", "model.hidden=192", "checkpoint.every=2"});
    checkpoint = job.checkpoint(4).string();
  }
};

std::vector<std::string> words_of_export(const trained_job& trained, const fs::path& to) {
  return {"ckpt", "export", trained.checkpoint, "--safetensors", to.string(), "--force"};
}

/// Rows whose label is a product, and how to read them.
void write_rows(const fs::path& data, const std::string& name, int count, std::ofstream& split) {
  std::ofstream rows(data / (name + ".csv"));
  rows << "host,cpu,cores,mhz,score\n";
  for (int i = 0; i < count; ++i) {
    const int cores = 4 + i % 13, mhz = 2000 + 37 * (i % 29);
    rows << fmt::format("h{},m{},{},{},{}\n", i, i % 11, cores, mhz, cores * mhz);
    split << fmt::format("{},h{},train\n", name, i);
  }
  std::ofstream(data / (name + ".toml"))
      << "id = \"host\"\ncpu_model = \"cpu\"\nlabels = [\"score\"]\n"
         "[[feature]]\ncolumn = \"cores\"\ngroup = \"cpu\"\nkind = \"log\"\n"
         "[[feature]]\ncolumn = \"mhz\"\ngroup = \"cpu\"\nkind = \"log\"\nunit = \"MHz\"\n";
}

}  // namespace

TEST_CASE("interrupted verbs: what never comes to the point where it is held is killed in time") {
  const job_files job;
  const auto pipe = (job / "pipe").string();  // which nobody writes to
  program p({"--version"}, 0, {}, 0, fmt::format("mkfifo '{0}' && read line < '{0}'", pipe));
  const auto came = interrupt_at_open(p, "nowhere", std::chrono::seconds(1));
  if (!came) {
    MESSAGE("SKIPPED: nobody may trace a process here (ptrace)");
    return;
  }
  CHECK_FALSE(*came);
  CHECK(p.wait() == 128 + SIGKILL);
}

TEST_CASE("interrupted verbs: an export is whole or has another name, and the next one is made") {
  const trained_job trained;
  const auto out = trained.job / "out";
  const auto whole = text_of(trained.job / "run/model/model.safetensors");
  REQUIRE_FALSE(whole.empty());
  std::mt19937_64 random(1);
  int before_its_end = 0;
  for (int n = 0; n < 6; ++n) {
    const auto when = draw_moment_of(random, sight::publish);
    INFO(n, ": ", render(when));
    lookout watch(trained.job / "none", {}, out);
    program p(words_of_export(trained, out / "model"));
    if (watch.await(p, when)) before_its_end += interrupted(p) ? 1 : 0;
    if (fs::exists(out / "model")) CHECK(text_of(out / "model/model.safetensors") == whole);
  }
  MESSAGE(before_its_end, " of 6 exports were interrupted before their end");
  CHECK(run(words_of_export(trained, out / "model")).code == 0);
  CHECK(text_of(out / "model/model.safetensors") == whole);
  CHECK(names_with(out, "partial").empty());
}

TEST_CASE("interrupted verbs: an export that is held at its tensors leaves no model") {
  const trained_job trained;
  fs::path last;
  const auto words = [&](int n) {
    last = trained.job / fmt::format("out{}", n);
    fs::create_directory(last);
    return words_of_export(trained, last / "model");
  };
  if (!interrupted_where_it_opens("model.safetensors.tmp", words)) return;
  CHECK_FALSE(fs::exists(last / "model"));
  CHECK_FALSE(names_with(last, "partial").empty());  // it was at work
  CHECK(run(words_of_export(trained, last / "model")).code == 0);
  CHECK(text_of(last / "model/model.safetensors") ==
        text_of(trained.job / "run/model/model.safetensors"));
  CHECK(names_with(last, "partial").empty());
}

TEST_CASE("interrupted verbs: an import that is held at its shard, or at its manifest, is none") {
  const trained_job trained;
  const auto model = (trained.job / "run/model").string();
  for (const std::string part : {"rank-00000.shard", "MANIFEST"}) {
    CAPTURE(part);
    fs::path last;
    const auto words_to = [&](const fs::path& out) {
      return std::vector<std::string>{"ckpt", "import", model, "--out", out.string()};
    };
    const auto words = [&](int n) {
      last = trained.job / fmt::format("imported-{}-{}", part, n);
      return words_to(last);
    };
    if (!interrupted_where_it_opens(".partial/" + part, words)) return;
    CHECK(complete_in(last).empty());
    CHECK_FALSE(names_with(last, "partial").empty());
    const auto next = run(words_to(last));
    CHECK_MESSAGE(next.code == 0, next.err);
    REQUIRE(complete_in(last) == std::vector<int>{0});
    CHECK(run({"ckpt", "verify", last.string()}).code == 0);
  }
}

TEST_CASE("interrupted verbs: a verification that is held at a shard ends and changes nothing") {
  const trained_job trained;
  const auto before = text_of(fs::path(trained.checkpoint) / "rank-00000.shard");
  const auto words = [&](int) {
    return std::vector<std::string>{"ckpt", "verify", trained.checkpoint};
  };
  if (!interrupted_where_it_opens("rank-00000.shard", words)) return;
  CHECK(text_of(fs::path(trained.checkpoint) / "rank-00000.shard") == before);
  CHECK(run(words(0)).code == 0);
}

TEST_CASE("interrupted verbs: an import is whole or partial, and the next one is made") {
  const trained_job trained;
  const auto model = (trained.job / "run/model").string();
  std::mt19937_64 random(2);
  int before_its_end = 0;
  for (int n = 0; n < 6; ++n) {
    const auto when = draw_moment(random, false);
    INFO(n, ": ", render(when));
    const auto out = trained.job / fmt::format("imported{}", n);
    lookout watch(out);
    program p({"ckpt", "import", model, "--out", out.string()});
    if (watch.await(p, when)) before_its_end += interrupted(p) ? 1 : 0;
    if (complete_in(out).empty()) {
      const auto next = run({"ckpt", "import", model, "--out", out.string()});
      CHECK_MESSAGE(next.code == 0, next.err);
    }
    REQUIRE(complete_in(out) == std::vector<int>{0});
    CHECK(run({"ckpt", "verify", out.string()}).code == 0);
  }
  MESSAGE(before_its_end, " of 6 imports were interrupted before their end");
}

TEST_CASE("interrupted verbs: a verification ends at once and changes nothing") {
  const trained_job trained;
  std::mt19937_64 random(3);
  for (int n = 0; n < 6; ++n) {
    program p({"ckpt", "verify", trained.checkpoint});
    spin(draw_spin(random, 30'000));
    interrupted(p);
  }
  CHECK(run({"ckpt", "verify", trained.checkpoint}).code == 0);
}

TEST_CASE("interrupted verbs: generate ends amid its text") {
  const trained_job trained;
  program p(
      {"generate", "--checkpoint", trained.checkpoint, "--prompt", "a", "--tokens", "100000000"});
  REQUIRE(p.until([&] { return !p.out().empty(); }));
  CHECK(interrupted(p));
}

TEST_CASE("interrupted verbs: bench checkpoint leaves nothing in its folder") {
  const job_files job;
  const auto folder = job / "bench";
  fs::create_directory(folder);
  program p({"bench", "checkpoint", "--gib", "0.05", "--rounds", "1000", "--dir", folder.string()});
  REQUIRE(p.until([&] { return has_entry(folder) && !p.err().empty(); }));
  CHECK(interrupted(p));
  CHECK_FALSE(has_entry(folder));
}

TEST_CASE("interrupted verbs: bench predict ends also in parts behind those that start processes") {
  const job_files job;
  const auto folder = job / "bench";
  fs::create_directory(folder);
  program p({"bench", "predict", "--only", "cost,blame", "--rounds", "1", "--steps", "6", "--ranks",
             "16", "--node-steps", "1000000000", "--dir", folder.string()});
  REQUIRE(p.until([&] { return !p.out().empty(); }));  // what the job has cost
  REQUIRE(eventually([&] { return !hears_signals(p.pid()); }));
  CHECK(interrupted(p));
  CHECK_FALSE(has_entry(folder));
}

TEST_CASE("interrupted verbs: simulated clusters end with their processes") {
  program p({"sim", "--fuzz", "100000000", "--jobs", "2"});
  std::vector<watched> children;
  REQUIRE(eventually([&] {
    std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", p.pid()));
    for (pid_t child; in >> child;) children.emplace_back(child);
    return !children.empty();
  }));
  CHECK(interrupted(p));
  for (const auto& child : children) CHECK(child.gone());
}

TEST_CASE("interrupted verbs: predict train leaves the model that was there") {
  const job_files job;
  const auto data = job / "data", models = job / "models";
  fs::create_directory(data);
  {
    std::ofstream split(job / "s.csv");
    split << "dataset,row_id,split\n";
    write_rows(data, "a", 20, split);
    write_rows(data, "b", 1000, split);  // which takes many seconds
  }
  const std::vector<std::string> train{"predict",     "train",        "--data",
                                       data.string(), "--split",      (job / "s.csv").string(),
                                       "-o",          models.string()};
  REQUIRE(run(with(train, {"--kind", "mean"})).code == 0);
  const auto before = text_of(models / "b.tpm"), a_before = text_of(models / "a.tpm");
  REQUIRE_FALSE(before.empty());
  program p(with(train, {"--kind", "ncpp", "--passes", "500"}));
  REQUIRE(p.until([&] { return !p.out().empty(); }));  // the first model is there
  CHECK(interrupted(p));
  CHECK(text_of(models / "b.tpm") == before);
  CHECK(text_of(models / "a.tpm") != a_before);
  CHECK(names_with(models, "tpm").size() == 2);
}

// What is wrong is said with its place and ends with its exit code; nothing starts on a bad job.
#include "io/folder/owned.hpp"
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

bool says(const finished& f, const std::string& text) {
  return f.err.find(text) != std::string::npos;
}

/// Names with ".partial" and incomplete step folders under the checkpoints.
std::vector<std::string> checkpoints(const job_files& job) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& e : fs::directory_iterator(job / "run/checkpoints", ignored))
    out.push_back(e.path().filename().string());
  return out;
}

}  // namespace

TEST_CASE("errors: a bad configuration ends with 78 and starts nothing") {
  job_files job;
  for (const char* bad : {"train.stepz=3", "train.batch=many", "parallel.pipeline=3",
                          "model.heads=5", "cluster.listen=0.0.0.0"}) {
    CAPTURE(bad);
    const auto f = run(job.up({bad}));
    INFO(f.err);
    CHECK(f.code == 78);
    CHECK(f.out.empty());
    CHECK_FALSE(says(f, "coordinator of"));
    CHECK_FALSE(fs::exists(job / "run"));
  }
}

TEST_CASE("errors: command lines") {
  CHECK(run({"--help"}).code == 0);
  CHECK(run({"up", "--help"}).code == 0);
  CHECK(run({"up", "--no-such-flag", "x.toml"}).code == 64);
  CHECK(run({"upp"}).code == 64);
  CHECK(run({"up", "/nonexistent/job.toml"}).code == 66);
  CHECK(run({"node", "--join", "nowhere", "--name", "a"}).code == 64);
}

TEST_CASE("errors: missing data is named and nothing is left") {
  job_files job;
  const auto missing = (job / "absent.txt").string();
  const auto f = run(job.up(with({"data.path=" + missing}, layout(2, 1))));
  INFO(f.err);
  CHECK(f.code == 66);
  CHECK(says(f, missing));
}

TEST_CASE("errors: a token beyond the vocabulary is refused before the first step") {
  job_files job;
  {
    std::ofstream bin(job / "tokens.bin", std::ios::binary);
    for (int i = 0; i < 4000; ++i) {
      const uint16_t id = i == 1234 ? 777 : static_cast<uint16_t>(i % 200);
      bin.write(reinterpret_cast<const char*>(&id), sizeof(id));
    }
  }
  const std::vector<std::string> data{"data.path=" + (job / "tokens.bin").string(),
                                      "data.format=nanogpt"};
  const auto f = run(job.up(with(data, {"model.vocab=256"})));
  INFO(f.err);
  CHECK(f.code == 65);
  CHECK(says(f, "777"));
  CHECK(f.out.empty());
  CHECK(job.losses(with(data, {"model.vocab=778", "train.steps=2"})).size() == 2);
}

TEST_CASE("errors: a full disk is a warning for a periodic checkpoint and 74 for the last") {
  job_files job;
  // Room for logs and batches (tens of KiB), not for the weights (hundreds).
  program up(job.up(with(layout(2, 1), {"checkpoint.every=5", "checkpoint.room_wait_s=0"})),
             100 << 10);
  CHECK(up.wait() == 74);
  INFO(up.err());
  CHECK(up.objects("step").size() == 20);
  CHECK(up.err().find("warning: checkpoint of step 5 failed") != std::string::npos);
  CHECK(up.err().find("warning: checkpoint of step 15 failed") == std::string::npos);  // FSV-1
  CHECK(up.err().find("warning: checkpoint of step 20 failed, as ") != std::string::npos);
  CHECK(up.err().find("error: ") != std::string::npos);
  for (const auto& name : checkpoints(job)) CHECK(name.ends_with(".partial"));
}

TEST_CASE("errors: a run whose checkpoints fail keeps the older ones") {
  job_files job;
  job.losses({"train.steps=3"});
  program up(job.up({"train.steps=6", "checkpoint.room_wait_s=0"}), 100 << 10);
  CHECK(up.wait() == 74);
  CHECK(fs::exists(job.checkpoint(3)));
  CHECK_FALSE(fs::exists(job.checkpoint(6)));
  CHECK(job.losses({"train.steps=6"}).size() == 3);
}

TEST_CASE("errors: a damaged checkpoint is skipped by name, alone it is refused") {
  job_files job;
  job.losses({"train.steps=3"});
  const auto shard = job.checkpoint(3) / "rank-00000.shard";
  REQUIRE(fs::exists(shard));
  job.losses({"train.steps=4"});
  fs::resize_file(job.checkpoint(4) / "rank-00000.shard", fs::file_size(shard) / 2);
  const auto over = run(job.up({"train.steps=4"}));
  INFO(over.err);
  CHECK(over.code == 0);
  CHECK(says(over, "step-00000004 is damaged and skipped"));
  CHECK(says(over, "resuming after step 3"));
  for (int step : {3, 4})
    fs::resize_file(job.checkpoint(step) / "rank-00000.shard", fs::file_size(shard) / 2);
  const auto f = run(job.up({"train.steps=6"}));
  INFO(f.err);
  CHECK(f.code == 65);
  CHECK(says(f, "rank-00000.shard"));
  CHECK(says(f, "checkpoint.resume=never"));
  CHECK(f.out.empty());
}

TEST_CASE("errors: ranks that cannot load a checkpoint fall back together to one that is whole") {
  job_files job;
  const auto sets = with(layout(2, 2), {"checkpoint.every=1"});
  const auto truth = job.losses(with(sets, {"train.steps=6"}));
  for (int step : {5, 6}) fs::remove_all(job.checkpoint(step));
  // What only the last rank reads, and no length tells.
  {
    std::fstream shard(job.checkpoint(4) / "rank-00003.shard",
                       std::ios::binary | std::ios::in | std::ios::out);
    shard.seekp(4096);
    shard.put('x');
  }
  program up(job.up(with(sets, {"train.steps=6"})));
  CHECK(up.wait() == 0);
  INFO(up.err());
  const auto at = [&](const char* what) { return up.err().find(what); };
  CHECK(at("resuming after step 4") < at("step-00000004 cannot be loaded"));
  CHECK(at("step-00000004 cannot be loaded") < at("step-00000004 is damaged and skipped"));
  CHECK(at("step-00000004 is damaged and skipped") < at("resuming after step 3"));
  CHECK(at("resuming after step 3") != std::string::npos);
  CHECK(up.losses() == std::vector(truth.begin() + 3, truth.end()));
}

TEST_CASE(
    "errors: a flipped bit in any file of a checkpoint is named, and nothing is trained from it") {
  job_files job;
  job.losses(with(layout(1, 2), {"train.steps=3"}));
  std::vector<fs::path> files;
  for (const auto& e : fs::directory_iterator(job.checkpoint(3)))
    if (e.path().filename() != troupe::io::mark_file) files.push_back(e.path());
  CHECK(files.size() == 7);  // two shards, config, the tokenizer and its config, state, MANIFEST
  auto flip = [](const fs::path& file) {
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto at = static_cast<std::streamoff>(fs::file_size(file) / 4);
    bytes.seekg(at);
    const int damaged = bytes.get() ^ 4;
    bytes.seekp(at);
    bytes.put(static_cast<char>(damaged));
  };
  for (const auto& file : files) {
    const auto name = file.filename().string();
    CAPTURE(name);
    flip(file);
    const auto f = run(job.up(with(layout(1, 2), {"train.steps=6"})));
    INFO(f.err);
    CHECK(f.code == 65);
    CHECK(says(f, name));
    CHECK(f.out.find(R"("type":"step")") == f.out.npos);
    const bool is_shard = file.extension() == ".shard";  // who loads it finds that out
    CHECK(says(f, "coordinator of") == is_shard);
    const auto g = run(
        {"generate", "--checkpoint", job.checkpoint(3).string(), "--prompt", "a", "--tokens", "1"});
    INFO(g.err);
    CHECK(g.code == 65);
    CHECK(says(g, name));
    flip(file);
  }
  CHECK(job.losses(with(layout(1, 2), {"train.steps=6"})).size() == 3);
}

TEST_CASE("errors: what an interrupted save left is removed at the next start, and said") {
  job_files job;
  const auto left = job / "run/checkpoints/step-00000002.e1.partial";
  fs::create_directories(left);
  std::ofstream(left / "rank-00000.shard") << "half";
  std::ofstream(left / troupe::io::mark_file);  // as a power cut may leave it
  const auto f = run(job.up({"train.steps=2"}));
  CHECK(f.code == 0);
  CHECK(says(f, "step-00000002.e1.partial"));
  CHECK_FALSE(fs::exists(left));
}

TEST_CASE("errors: a checkpoint of another model is refused") {
  job_files job;
  job.losses({"train.steps=3"});
  const auto f = run(job.up({"train.steps=6", "model.hidden=128"}));
  INFO(f.err);
  CHECK((f.code == 65 || f.code == 78));
  CHECK(f.out.empty());
}

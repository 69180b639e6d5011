// Data as they come: a long tokenising tells how far it is, once; the same tokens are the same run,
// whatever files they come in.
#include <algorithm>
#include <csignal>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/cluster/job_files.hpp"
#include "tests/io/megatron_pair.hpp"
#include "tests/io/packed.hpp"

using namespace troupe::cluster_test;

TEST_CASE("data: a long tokenising tells of its progress, the next start finds it done") {
  job_files job;
  fs::create_directories(job / "corpus");
  const std::string line = "all work and no play makes a long text of which nobody reads a word\n";
  std::string text;
  while (text.size() < 1 << 20) text += line;
  for (int i = 0; i < 24; ++i) std::ofstream(job / fmt::format("corpus/{:02}.txt", i)) << text;
  const auto sets = with(layout(2, 1), {"data.path=" + (job / "corpus").string(), "train.steps=2",
                                        "checkpoint.resume=never"});
  const auto first = run(job.up(sets));
  INFO(first.err);
  CHECK(first.code == 0);
  CHECK(first.err.find("tokenising: ") != std::string::npos);
  CHECK(first.err.find(" % of 24.0 MiB") != std::string::npos);
  CHECK(first.out.find("tokenising") == std::string::npos);
  const auto second = run(job.up(sets));
  CHECK(second.code == 0);
  CHECK(second.err.find("tokenising: ") == std::string::npos);
}

TEST_CASE(
    "data: the same documents give the same losses, as text, records, shards and Megatron's") {
  job_files job;
  std::ifstream in(job / "data.txt");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto half = text.find('\n', text.size() / 2) + 1;
  const std::string one = text.substr(0, half), two = text.substr(half);
  int runs = 0;
  const auto losses = [&](const std::vector<std::string>& sets) {
    const auto output = (job / fmt::format("run-{}", ++runs)).string();
    return job.losses(with({"train.steps=3", "job.output=" + output}, sets));
  };
  std::ofstream(job / "part-1.txt") << one;
  std::ofstream(job / "part-2.txt") << two;
  const auto path = [&](const std::string& name) { return "data.path=" + (job / name).string(); };
  const auto wanted = losses({path("part-?.txt")});
  REQUIRE(wanted.size() == 3);
  // One source is that path, whatever its weight; the records are of its own field.
  const auto source = [&](const std::string& name, const std::string& more) {
    return fmt::format(R"({{path="{}"{}}})", (job / name).string(), more);
  };
  CHECK(losses({"data.source=[" + source("part-?.txt", ", weight=7") + "]"}) == wanted);
  const auto record = [](const std::string& body) {
    return nlohmann::json{{"id", 1}, {"body", body}}.dump();
  };
  const auto lines = record(one) + "\n" + record(two) + "\n";
  std::ofstream(job / "all.jsonl") << lines;
  std::ofstream(job / "all.json") << "[" << record(one) << ",\n" << record(two) << "]";
  std::ofstream(job / "all.jsonl.gz") << troupe::packed_by_gzip(lines);
  std::ofstream(job / "all.jsonl.zst") << troupe::packed_by_zstd(lines);
  for (const char* name : {"all.jsonl", "all.json", "all.jsonl.gz", "all.jsonl.zst"}) {
    CAPTURE(name);
    CHECK(losses({path(name), "data.text_field=body"}) == wanted);
  }
  // Shards that were prepared, and Megatron's: each parts its documents itself.
  const auto made = run({"data", "prepare", (job / "all.jsonl").string(), "--text-field", "body",
                         "--shard-tokens", "4000", "--out", (job / "shards").string() + "/"});
  CHECK(made.code == 0);
  CHECK(names_with(job / "shards", ".bin").size() > 1);
  CHECK(losses({path("shards"), "model.vocab=256"}) == wanted);
  std::vector<int64_t> ids;
  for (const char c : one + "\n\n" + two) ids.push_back(static_cast<unsigned char>(c));
  troupe::megatron_pair::of<uint8_t>(1, {ids}, {0, 1}).write(job / "set_text_document");
  CHECK(losses({path("set_text_document"), "model.vocab=256"}) == wanted);
}

TEST_CASE("data: what is wrong with records and folders is said before a run begins") {
  job_files job;
  std::ofstream(job / "bad.jsonl") << "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n";
  const auto refused = [&](const std::string& name) {
    const auto done = run(job.up({"data.path=" + (job / name).string(), "model.vocab=256"}));
    CHECK(done.code != 0);
    return done.err;
  };
  CHECK(refused("bad.jsonl").find("bad.jsonl: line 2: field \"text\" not found, found txt") !=
        std::string::npos);
  fs::create_directories(job / "folder");
  for (const char* name : {"train.bin", "val.bin"})
    std::ofstream(job / "folder" / name) << std::string(40'000, '\1');
  CHECK(refused("folder").find("has train.bin and val.bin") != std::string::npos);
  CHECK(refused("*.parquet").find("no file matches") != std::string::npos);
}

TEST_CASE("data: a resumed run is told of other text, also where a start before it failed") {
  job_files job;
  const std::string warning = "warning: the files of data.path do not hold what they held";
  const auto told_of = [&](const finished& f) { return f.err.find(warning) != std::string::npos; };
  REQUIRE_FALSE(told_of(run(job.up({"train.steps=2"}))));
  std::ofstream(job / "data.txt", std::ios::app) << "and more of it\n";
  // Its nodes never come.
  const auto failed = run(job.up(
      {"train.steps=4", "cluster.launch=external", free_port(), "cluster.join_timeout_ms=100"}));
  INFO(failed.err);
  CHECK(failed.code != 0);
  CHECK(told_of(failed));
  const auto trained = run(job.up({"train.steps=4"}));
  INFO(trained.err);
  CHECK(trained.code == 0);
  CHECK(told_of(trained));
  const auto warnings = [&] {
    const auto lines = objects_in(job / "run/log.jsonl");
    return std::count_if(lines.begin(), lines.end(), [&](const nlohmann::json& line) {
      return line.value("type", "") == "warning" &&
             line.dump().find(warning.substr(9)) != std::string::npos;
    });
  };
  const auto in_log = warnings();
  CHECK(in_log > 0);
  const auto next = run(job.up({"train.steps=6"}));
  CHECK(next.code == 0);
  CHECK_FALSE(told_of(next));
  CHECK(warnings() == in_log);
}

TEST_CASE("data: an interrupted `data prepare` keeps its whole shards, and goes on") {
  job_files job;
  much_text(job);
  const auto out = job / "shards";
  const std::vector<std::string> line{"data",
                                      "prepare",
                                      (job / "big.txt").string(),
                                      "--tokenizer",
                                      TROUPE_SOURCE_DIR "/tests/io/fixtures/gpt2.tokenizer.json",
                                      "--shard-tokens",
                                      "100000",
                                      "--out",
                                      out.string() + "/"};
  for (const auto& [signal, code, shard] :
       {std::tuple{SIGINT, 130, 1}, {SIGTERM, 143, 4}, {SIGHUP, 129, 7}}) {
    CAPTURE(signal);
    const auto name = [&](int i) { return out / fmt::format("tokens-{:05}.bin", i); };
    // On a busy machine those before may have come further: what is waited for is of this one.
    for (int i = shard; fs::remove(name(i)); ++i) continue;
    program first(line);
    REQUIRE(eventually([&] { return fs::exists(name(shard)); }));
    first.signal(signal);
    CHECK(first.wait() == code);
    CHECK(first.err().find("the same command goes on") != std::string::npos);
    CHECK(names_with(out, ".tmp").empty());
  }
  const auto second = run(line);
  CHECK(second.code == 0);
  CHECK(second.err.find(" shards were there already") != std::string::npos);
}

// A bit that turns in the memory of a rank: its replicas outvote it, its node is replaced, and the
// job goes on from a checkpoint that was compared.
//
// The bit is one of the embedding of a byte that the data do not have: its weights stay as they
// were drawn, so the test knows what to look for in the process's memory.
#include <csignal>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/turned_bit.hpp"

using namespace troupe::cluster_test;

namespace {

constexpr size_t pattern_bytes = 64;

/// The first weights of the embedding of byte 255 in a model folder.
std::string unused_weights(const fs::path& model) {
  std::ifstream in(model / "model.safetensors", std::ios::binary);
  uint64_t header_bytes = 0;
  REQUIRE(in.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes));
  std::string header(header_bytes, ' ');
  REQUIRE(in.read(header.data(), static_cast<std::streamsize>(header_bytes)));
  const auto table = nlohmann::json::parse(header)["model.embed_tokens.weight"];
  REQUIRE(table["dtype"] == "F32");
  REQUIRE(table["shape"][0] > 255);
  const auto row_bytes = table["shape"][1].get<uint64_t>() * sizeof(float);
  in.seekg(static_cast<std::streamoff>(sizeof header_bytes + header_bytes +
                                       table["data_offsets"][0].get<uint64_t>() +
                                       255 * row_bytes));
  std::string out(pattern_bytes, ' ');
  REQUIRE(in.read(out.data(), pattern_bytes));
  return out;
}

struct bit_run {
  job_files job;
  program up;

  explicit bit_run(int replicas)
      : up(job.up(with(with(endless, layout(replicas, 1)),
                       {"model.family=llama", "train.batch=12", "train.weight_decay=0",
                        "checkpoint.every=0", "health.digest_every=1"}))) {
    REQUIRE(up.until_step(3));
  }
  std::string said(const std::vector<std::string>& words) const {
    return run(with(words, {"--connect", "127.0.0.1:" + std::to_string(up.port())})).out;
  }
  void say(const std::string& line) const { said({"console", "-c", line}); }
  int newest_step() {
    up.listen();
    return up.objects("step").back()["step"];
  }
  /// Turns a bit of a node between two steps, later than a checkpoint that was compared; the step
  /// of that.
  int disturb(const char* node) {
    say("checkpoint now");
    REQUIRE(eventually([&] { return fs::exists(job / "run/checkpoints/latest"); }));
    const auto saved = fs::canonical(job / "run/checkpoints/latest");
    const int step = std::stoi(saved.filename().string().substr(5));
    REQUIRE(up.until_step(step + 3));
    const auto exported = run(
        {"ckpt", "export", saved.string(), "--safetensors", (job / "weights").string(), "--force"});
    INFO(exported.err);
    REQUIRE(exported.code == 0);
    const auto pattern = unused_weights(job / "weights");
    say("pause");
    const auto paused = [&] { return said({"status", "run"}).find("paused") != std::string::npos; };
    REQUIRE(eventually(paused));
    const pid_t victim = node_named(up.port(), node);
    REQUIRE(victim > 0);
    REQUIRE(turn_a_bit(victim, pattern) > 0);
    say("resume");
    return step;
  }
  /// Steps that were made again have the losses that they had.
  void check_losses() const {
    std::map<int, double> first;
    for (const auto& s : up.objects("step"))
      CHECK(first.try_emplace(s["step"], s["loss"]).first->second == s["loss"].get<double>());
  }
};

}  // namespace

namespace {

/// A job of so many replicas in which a bit of `node` turns: who is named, and what of.
nlohmann::json fault_of_a_bit(int replicas, const char* node) {
  bit_run r(replicas);
  const int saved = r.disturb(node);
  REQUIRE(r.up.until_error_has("recovered in"));
  REQUIRE(r.up.until_step(r.newest_step() + 20));
  r.up.signal(SIGINT);
  CHECK(r.up.wait() == 130);
  r.check_losses();
  const auto fault = only_object_in(r.job / "run/incidents.jsonl");
  CHECK(fault["finding"] == "wrong_bits");
  CHECK(fault["resumed_after_step"] == saved);
  return fault;
}

}  // namespace

TEST_CASE("wrong bits: whom two replicas outvote is replaced, and no loss differs") {
  const auto fault = fault_of_a_bit(3, "node2");
  CHECK(fault["node"] == "node2");
  CHECK(fault["what"].get<std::string>().find("rank 2") != std::string::npos);
}

TEST_CASE("wrong bits: of two replicas nobody is named, and both begin anew") {
  CHECK(fault_of_a_bit(2, "node1")["node"] == "");
}

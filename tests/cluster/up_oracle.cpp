// The losses of configs/oracle.toml against PyTorch's, through the command line.
#include "tests/cluster/job_files.hpp"

using namespace troupe::cluster_test;

namespace {

/// float32 against PyTorch's float64: 5e-6 at step 1, 2e-5 over all 20.
void match(const std::string& model, const std::vector<std::string>& sets = {}) {
  const auto shared = troupe::shared_folder();
  if (!fs::exists(shared / "oracle" / model)) {
    MESSAGE("SKIPPED: no oracle/" << model << " in the shared data");
    return;
  }
  const auto folder = shared / "oracle" / model;
  std::ifstream file(folder / "expected.json");
  const auto expected =
      nlohmann::json::parse(file)["decay_matrices.stream"]["losses_f64"].get<std::vector<double>>();
  troupe::scratch out;
  std::vector<std::string> arguments{
      "up",           TROUPE_SOURCE_DIR "/configs/oracle.toml",
      "--log-format", "json",
      "--set",        "model.path=" + folder.string(),
      "--set",        "data.path=" + (folder / "tokens_llmc.bin").string(),
      "--set",        "job.output=" + (out / "run").string()};
  for (const auto& s : sets) arguments.insert(arguments.end(), {"--set", s});
  program up(arguments);
  const int code = up.wait();
  INFO(up.err());
  REQUIRE(code == 0);
  const auto losses = up.losses();
  REQUIRE(losses.size() == expected.size());
  CHECK(std::abs(losses[0] - expected[0]) < 5e-6);
  for (size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(losses[i] - expected[i]) < 2e-5);
  }
}

}  // namespace

TEST_CASE("up: gpt2_tiny") {
  match("gpt2_tiny");
}
TEST_CASE("up: gpt2_tiny_hubnames") {
  match("gpt2_tiny_hubnames");
}
TEST_CASE("up: gpt2_lamb") {
  match("gpt2_lamb", {"train.optimizer=lamb", "train.lr=1e-2"});
}
TEST_CASE("up: gpt2_swa16") {
  match("gpt2_swa16");
}
TEST_CASE("up: llama_tiny_sharded on 2 x 2, micro-batches of one") {
  match("llama_tiny_sharded",
        {"cluster.nodes=4", "parallel.data=2", "parallel.pipeline=2", "train.micro_batch=1"});
}
TEST_CASE("up: gpt2_parallel as a pipeline") {
  match("gpt2_parallel", {"cluster.nodes=2", "parallel.pipeline=2"});
}

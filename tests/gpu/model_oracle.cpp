// PyTorch's losses and gradient norms on small models (fixtures/, and shared/oracle), matched in
// float32 and bf16, in one stage and in two, with whole and with split batches, with a document a
// row and with several, in memory and with the state on a drive.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/model/hf_folder.hpp"
#include "tests/gpu/document_rows.hpp"
#include "tests/gpu/local_trainer.hpp"
#include "tests/gpu/oracle_ground.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::gpu {
namespace {

using json = nlohmann::json;
namespace fs = std::filesystem;

/// Where the project's own are, made by fixtures/make_oracles.py.
fs::path own_folder() {
  return fs::path(TROUPE_SOURCE_DIR) / "tests/gpu/fixtures";
}

fs::path oracle_folder() {
  if (const char* shared = std::getenv("TROUPE_SHARED")) return fs::path(shared) / "oracle";
  return fs::path(TROUPE_SOURCE_DIR) / ".." / "shared" / "oracle";
}

json read_json(const fs::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

/// One folder of the oracle.
struct oracle {
  fs::path folder;
  json expected;
  std::vector<int32_t> tokens;
  model_config model;
  int64_t seq = 0;
  std::optional<int32_t> end_of_text;  ///< parts the documents of a row, where attention is reset

  explicit oracle(const std::string& name, const fs::path& in = oracle_folder())
      : folder(in / name) {
    expected = read_json(folder / "expected.json");
    tokens = read_json(folder / "tokens.json").get<std::vector<int32_t>>();
    auto read = read_folder_model(folder);
    REQUIRE(read);
    model = *read;
    seq = expected["seq"];
    if (expected.contains("reset_attention"))
      end_of_text = expected["reset_attention"]["end_of_text"];
  }
};

bool absent(const std::string& name) {
  if (fs::exists(oracle_folder() / name / "expected.json")) return false;
  MESSAGE("SKIPPED: no oracle folder " << name);
  return true;
}

/// How to run it.
struct plan {
  bool lamb = false;
  bool trust_always = true;
  bool decay_all = false;
  bool same_batch = false;
  int64_t stages = 1;
  bool split_batch = false;
  bool recompute = false;
  bool swap = false;  ///< in as little memory as it can be trained with, gradients aside
  dtype compute = dtype::f32;
};

std::unique_ptr<local_trainer> make_trainer(device& owner, const oracle& o, const plan& p,
                                            const fs::path& folder) {
  const json& hyper = o.expected["hyper"];
  local_options options;
  if (p.swap) options.swap = folder;
  options.stages = p.stages;
  options.micro_batch = p.split_batch ? 1 : 2;
  options.micro_batches = p.split_batch ? 2 : 1;
  options.seq = o.seq;
  options.documents = o.end_of_text.has_value();
  options.compute = p.compute;
  options.recompute = p.recompute;
  options.decay = p.decay_all ? decay_scope::all : decay_scope::matrices;
  options.optimizer.kind =
      p.lamb ? optimizer_step_args::rule::lamb : optimizer_step_args::rule::adamw;
  options.optimizer.trust_always = p.trust_always;
  options.optimizer.beta1 = hyper["beta1"];
  options.optimizer.beta2 = hyper["beta2"];
  options.optimizer.eps = hyper["eps"];
  options.optimizer.weight_decay = hyper["weight_decay"];
  options.optimizer.clip_norm = hyper["grad_clip"];
  auto trainer = local_trainer::make(owner, o.model, options);
  REQUIRE(trainer);
  for (size_t i = 0; i < (*trainer)->stage_count(); ++i) {
    const status loaded = load_weights((*trainer)->stage(i).store(), o.model, o.folder);
    REQUIRE_MESSAGE(loaded, (loaded ? std::string() : render(loaded.error())));
  }
  return std::move(*trainer);
}

void check_norms(local_trainer& trainer, const json& step1) {
  auto norms = trainer.tensor_norms();
  REQUIRE(norms);
  const json& expected = step1["grad_norms_f64"];
  CHECK(norms->size() == expected.size());
  for (const auto& [name, value] : expected.items()) {
    const double want = value;
    INFO(name << ": " << (*norms)[name] << " for " << want);
    CHECK(std::abs((*norms)[name] - want) <= 1e-5 * want);
  }
}

/// 20 steps (fewer where there is no time for them) against expected[keys]; every difference at
/// most `tolerance`, the first `first`.
void run(const oracle& o, const plan& p, const json& expected, double first, double tolerance) {
  const auto ground = testing::ground_for_oracle();
  if (!ground.owner) return;
  const scratch folder;
  auto trainer = make_trainer(*ground.owner, o, p, folder.path);
  const std::vector<double> losses = expected["losses_f64"];
  const std::vector<double> norms = expected["grad_norm_f64"];
  const float lr = o.expected["hyper"]["lr"];
  const auto each = static_cast<size_t>(2 * o.seq);  // tokens of a step
  double worst = 0;
  for (size_t k = 0; k < std::min(losses.size(), ground.steps); ++k) {
    const int32_t* at = o.tokens.data() + (p.same_batch ? 0 : k * each);
    std::optional<testing::document_rows> rows;
    if (o.end_of_text) rows.emplace(std::span(at, each), o.seq, *o.end_of_text);
    auto step = trainer->step(at, at + 1, lr, rows ? rows->from() : row_documents{});
    REQUIRE(step);
    worst = std::max(worst, std::abs(step->loss - losses[k]));
    INFO("step " << k + 1 << ": loss " << step->loss << " for " << losses[k]);
    CHECK(std::abs(step->loss - losses[k]) <= (k == 0 ? first : tolerance));
    if (p.compute == dtype::f32) CHECK(std::abs(step->norm / norms[k] - 1) < 1e-4);
    if (k == 0 && p.compute == dtype::f32 && o.expected.contains("step1"))
      check_norms(*trainer, o.expected["step1"]);
  }
  for (size_t i = 0; p.swap && i < trainer->stage_count(); ++i) {
    CHECK(trainer->drive_of(i).facts().read_bytes > 0);
    CHECK(trainer->drive_of(i).facts().written_bytes > 0);
  }
  MESSAGE(o.folder.filename().string() << ": largest difference " << worst);
}

/// Every variant of a folder in f32, one stage.
void run_variants(const std::string& name, bool lamb = false) {
  if (absent(name)) return;
  const oracle o(name);
  const bool all = testing::ground_for_oracle().every_variant;
  for (bool decay_all : {false, true})
    for (bool same_batch : {false, true}) {
      if (!all && (decay_all || same_batch)) continue;
      const std::string key = std::string(decay_all ? "decay_all." : "decay_matrices.") +
                              (same_batch ? "same_batch" : "stream");
      CAPTURE(key);
      plan p{.lamb = lamb, .decay_all = decay_all, .same_batch = same_batch};
      run(o, p, o.expected[key], 5e-6, 2e-5);
      if (!lamb) continue;
      p.trust_always = false;
      run(o, p, o.expected["trust_ratio_only_where_decayed"][key], 5e-6, 2e-5);
    }
}

const char* const main_variant = "decay_matrices.stream";

/// A folder of the project's own: whole, in parts and recomputed, and in bf16.
void run_own(const std::string& name) {
  CAPTURE(name);
  const oracle o(name, own_folder());
  const json& expected = o.expected[main_variant];
  run(o, {}, expected, 5e-6, 2e-5);
  run(o, {.stages = 2, .split_batch = true, .recompute = true}, expected, 5e-6, 2e-5);
  run(o, {.compute = dtype::bf16}, expected, 1e-2, 1e-2);
  run(o, {.recompute = true, .swap = true}, expected, 5e-6, 2e-5);
  run(o, {.swap = true, .compute = dtype::bf16}, expected, 1e-2, 1e-2);
}

}  // namespace

TEST_CASE("oracle f32: gpt2_tiny") {
  run_variants("gpt2_tiny");
}
TEST_CASE("oracle f32: gpt2_tiny_hubnames") {
  run_variants("gpt2_tiny_hubnames");
}
TEST_CASE("oracle f32: gpt2_lamb") {
  run_variants("gpt2_lamb", true);
}
TEST_CASE("oracle f32: gpt2_parallel") {
  run_variants("gpt2_parallel");
}
TEST_CASE("oracle f32: gpt2_parallel_2ln") {
  run_variants("gpt2_parallel_2ln");
}
TEST_CASE("oracle f32: gpt2_swa16") {
  run_variants("gpt2_swa16");
}
TEST_CASE("oracle f32: llama_tiny") {
  run_variants("llama_tiny");
}
TEST_CASE("oracle f32: llama_tiny_sharded") {
  run_variants("llama_tiny_sharded");
}
TEST_CASE("oracle f32: llama_tiny_bf16 weights") {
  run_variants("llama_tiny_bf16");
}

TEST_CASE("oracle: Qwen2's biases and window, Qwen3's norms of heads") {
  for (const char* name : {"qwen2_tiny", "qwen2_tiny_swa16", "qwen3_tiny"}) run_own(name);
}

TEST_CASE("oracle: a row's documents are apart as PyTorch's masks and positions have them") {
  for (const char* name : {"gpt2_documents", "llama_documents", "mistral_documents_swa16"})
    run_own(name);
}

TEST_CASE("oracle f32: two stages, split batches and recomputation change nothing") {
  for (const char* name : {"gpt2_tiny", "gpt2_parallel", "gpt2_parallel_2ln", "llama_tiny"}) {
    if (absent(name)) return;
    const oracle o(name);
    CAPTURE(name);
    const json& expected = o.expected[main_variant];
    run(o, {.stages = 2}, expected, 5e-6, 2e-5);
    run(o, {.split_batch = true}, expected, 5e-6, 2e-5);
    run(o, {.stages = 2, .split_batch = true, .recompute = true}, expected, 5e-6, 2e-5);
  }
}

TEST_CASE("oracle f32: each model with its state on a drive") {
  for (const char* name : {"gpt2_tiny", "gpt2_tiny_hubnames", "gpt2_parallel", "gpt2_parallel_2ln",
                           "gpt2_swa16", "llama_tiny", "llama_tiny_sharded", "llama_tiny_bf16"}) {
    if (absent(name)) return;
    const oracle o(name);
    CAPTURE(name);
    run(o, {.stages = 2, .split_batch = true, .swap = true}, o.expected[main_variant], 5e-6, 2e-5);
  }
  if (absent("gpt2_lamb")) return;
  const oracle o("gpt2_lamb");
  run(o, {.lamb = true, .swap = true}, o.expected[main_variant], 5e-6, 2e-5);
}

TEST_CASE("oracle bf16: losses stay within 1e-2") {
  for (const char* name : {"gpt2_tiny", "gpt2_lamb", "gpt2_parallel", "gpt2_parallel_2ln",
                           "gpt2_swa16", "llama_tiny", "llama_tiny_bf16"}) {
    if (absent(name)) return;
    const oracle o(name);
    CAPTURE(name);
    const bool lamb = std::string(name) == "gpt2_lamb";
    run(o, {.lamb = lamb, .compute = dtype::bf16}, o.expected[main_variant], 1e-2, 1e-2);
  }
}

}  // namespace troupe::gpu

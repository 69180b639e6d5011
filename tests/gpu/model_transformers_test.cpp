// What we write loads in `transformers` unchanged and computes the same: driven by
// transformers_roundtrip.py, where torch and transformers are installed (TROUPE_PYTHON, default
// python3).
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "gpu/model/hf_folder.hpp"
#include "gpu/model/init.hpp"
#include "gpu/model/stage_model.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/saving.hpp"

namespace troupe::gpu {
namespace {

namespace fs = std::filesystem;
constexpr int64_t texts = 2, positions = 9;

/// Writes one model with random weights, and what we compute with it.
void write_model(device& owner, const model_config& model, const fs::path& folder) {
  fs::create_directories(folder);
  stage_shape shape = whole_model(model, texts, positions, dtype::f32);
  shape.training = false;
  auto stage = stage_model::make(owner, model, shape);
  REQUIRE(stage);
  REQUIRE(initialize((*stage)->store(), model, 7));
  // Moments are saved as well, and this stage has none: the weights go by way of one that has.
  auto saved = parameter_store::make(owner, stage_chunks(model, shape), {});
  REQUIRE(saved);
  REQUIRE(initialize(**saved, model, 7));
  testing::export_stages({saved->get()}, model, folder);

  const auto tokens = testing::some_tokens(texts * positions, model.vocab);
  std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
  targets.push_back(-1);
  targets[positions - 1] = -1;
  const auto vocab = static_cast<size_t>(model.vocab);
  std::vector<float> logits(texts * positions * vocab);
  auto s = owner.make_stream({});
  REQUIRE(s);
  (*stage)->evaluate(**s, std::array{stage_model::micro_batch{0, tokens.data(), targets.data()}});
  (*stage)->logits(**s, 0, tokens.data(), 0, texts * positions, logits.data());
  REQUIRE((*s)->synchronize());

  nlohmann::json ours;
  ours["loss"] = *(*stage)->loss_sum() / (texts * (positions - 1));
  for (size_t r = 0; r < texts; ++r) {
    ours["tokens"].push_back(
        std::vector<int32_t>(tokens.begin() + static_cast<ptrdiff_t>(r * positions),
                             tokens.begin() + static_cast<ptrdiff_t>((r + 1) * positions)));
    nlohmann::json row;
    for (size_t t = 0; t < positions; ++t) {
      const float* at = logits.data() + (r * positions + t) * vocab;
      row.push_back(std::vector<float>(at, at + vocab));
    }
    ours["logits"].push_back(row);
  }
  std::ofstream(folder / "ours.json") << ours;
}

std::vector<std::pair<std::string, model_config>> models() {
  const model_config gpt2 = testing::tiny_gpt2();
  model_config untied = gpt2;
  untied.tied = false;
  untied.activation = activation_kind::gelu_erf;
  model_config llama = testing::tiny_llama();
  llama.head_width = 4;
  model_config biased = llama;
  biased.tied = biased.attention_bias = biased.output_bias = true;
  model_config windowed = llama;
  windowed.sliding_window = 4;
  model_config qwen2 = llama;
  qwen2.attention_bias = true;
  model_config qwen2_windowed = qwen2;
  qwen2_windowed.sliding_window = 4;
  qwen2_windowed.tied = true;
  model_config qwen3 = llama;
  qwen3.qk_norm = true;
  return {{"gpt2", gpt2},
          {"gpt2_untied_gelu", untied},
          {"llama", llama},
          {"llama_tied_biased", biased},
          {"mistral", windowed},
          {"qwen2", qwen2},
          {"qwen2_windowed", qwen2_windowed},
          {"qwen3", qwen3}};
}

}  // namespace

TEST_CASE("transformers loads what we write and computes the same") {
  const char* python = std::getenv("TROUPE_PYTHON");
  std::string command = std::string(python ? python : "python3") + " '" TROUPE_SOURCE_DIR
                                                                   "/tests/gpu/"
                                                                   "transformers_roundtrip.py'";
  std::string name = (fs::temp_directory_path() / "troupe-transformers-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  auto owner = make_reference_device();
  for (const auto& [folder, model] : models()) {
    write_model(*owner, model, fs::path(name) / folder);
    command += " '" + name + "/" + folder + "'";
  }
  const int state = std::system((command + " 1>&2").c_str());
  fs::remove_all(name);
  REQUIRE(WIFEXITED(state));
  if (WEXITSTATUS(state) == 77) {
    MESSAGE("SKIPPED: torch or transformers is not installed for this python");
    return;
  }
  CHECK(WEXITSTATUS(state) == 0);
}

}  // namespace troupe::gpu

// Greedy text of each family's model with cached keys and values, against the naive back end that
// computes the whole text again for each token.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gpu/model/generate.hpp"
#include "gpu/model/hf_folder.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/store/store.hpp"
#include "tests/gpu/oracle_ground.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu {
namespace {

namespace fs = std::filesystem;

/// A folder's model in float32 on a device, and what goes on from its texts.
struct folder_generator {
  model_config model;
  std::unique_ptr<parameter_store> store;
  std::unique_ptr<generator> made;

  folder_generator(device& owner, const fs::path& folder) {
    const auto read = read_folder_model(folder);
    REQUIRE(read);
    model = *read;
    stage_shape shape = whole_model(model, 1, 16, dtype::f32);
    shape.training = false;
    auto stored = parameter_store::make(owner, stage_chunks(model, shape), {dtype::f32, false});
    REQUIRE(stored);
    store = std::move(*stored);
    REQUIRE(load_weights(*store, model, folder));
    auto begun = generator::make(*store, model);
    REQUIRE(begun);
    made = std::move(*begun);
  }
};

/// The likeliest `count` tokens behind `text`, all of which is computed for each.
std::vector<int32_t> by_whole_texts(generator& made, std::vector<int32_t> text, int64_t count) {
  std::vector<int32_t> out;
  while (std::ssize(out) < count) {
    const auto logits = made.next_logits(text.data(), std::ssize(text), 0);
    REQUIRE(logits);
    out.push_back(static_cast<int32_t>(std::ranges::max_element(*logits) - logits->begin()));
    text.push_back(out.back());
  }
  return out;
}

}  // namespace

TEST_CASE("GEN-4: greedy text from cached keys and values is that of whole texts, by family") {
  const auto ground = testing::ground_for_oracle();
  if (!ground.owner) return;
  const auto naive = make_reference_device();
  for (const char* name : {"gpt2_documents", "llama_documents", "mistral_documents_swa16",
                           "qwen2_tiny", "qwen2_tiny_swa16", "qwen3_tiny"}) {
    CAPTURE(name);
    const fs::path folder = fs::path(TROUPE_SOURCE_DIR) / "tests/gpu/fixtures" / name;
    std::ifstream file(folder / "tokens.json");
    auto text = nlohmann::json::parse(file).get<std::vector<int32_t>>();
    text.resize(8);
    const folder_generator found(*ground.owner, folder), wanted(*naive, folder);
    generate_options options;
    options.max_tokens = 20;  // past the windows of 16
    options.sampling.temperature = 0;
    const auto cached = found.made->run(text, options);
    REQUIRE(cached);
    CHECK(*cached == by_whole_texts(*wanted.made, text, options.max_tokens));
  }
}

}  // namespace troupe::gpu

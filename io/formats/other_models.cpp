// The table: see other_models.hpp. What models have is by transformers' modeling_*.py (5.24).
#include "io/formats/other_models.hpp"

#include <algorithm>
#include <array>

namespace troupe::io {

namespace {

constexpr std::string_view experts = "a mixture of experts";
constexpr std::string_view pictures = "text and pictures";
constexpr std::string_view state_space = "a state space in the place of attention";
constexpr std::string_view encoder = "an encoder, which sees what comes after a token";
constexpr std::string_view two_halves = "an encoder beside the decoder";
constexpr std::string_view gemma_norms =
    "scaled embeddings, norms after attention and MLP, and windows in some layers";

constexpr std::array known_others = {
    other_model{"bart", two_halves},
    other_model{"bert", encoder},
    other_model{"bloom", "ALiBi in the place of positions"},
    other_model{"cohere", "LayerNorm without biases, a block of one norm, and scaled logits"},
    other_model{"cohere2", "LayerNorm without biases, and windows in some layers"},
    other_model{"dbrx", experts},
    other_model{"deepseek_v2", "a mixture of experts, and latent attention"},
    other_model{"deepseek_v3", "a mixture of experts, and latent attention"},
    other_model{"falcon", "queries, keys and values in one tensor"},
    other_model{"falcon_mamba", state_space},
    other_model{"gemma", "scaled embeddings and a gated GELU"},
    other_model{"gemma2", "scaled embeddings, norms after attention and MLP, and capped logits"},
    other_model{"gemma3",
                "text and pictures; scaled embeddings, norms after attention and MLP, "
                "and windows in some layers"},
    other_model{"gemma3_text", gemma_norms},
    other_model{"glm", "rotary positions in a part of the head"},
    other_model{"glm4", "norms after attention and MLP"},
    other_model{"gpt_bigcode", "one head of keys and values, in one tensor with the queries"},
    other_model{"gpt_neo", "attention that is not scaled, and windows in some layers"},
    other_model{"gpt_neox",
                "rotary positions in a part of the head, and queries, keys and values by turns"},
    other_model{"gpt_oss", "a mixture of experts, and attention sinks"},
    other_model{"gptj", "rotary positions in a part of the head, of values side by side"},
    other_model{"granite", "scaled embeddings, residuals, attention and logits"},
    other_model{"jamba", "a state space in some layers, and a mixture of experts"},
    other_model{"llama4", "text and pictures; a mixture of experts, and layers without positions"},
    other_model{"llama4_text", "a mixture of experts, and layers without positions"},
    other_model{"llava", pictures},
    other_model{"mamba", state_space},
    other_model{"mamba2", state_space},
    other_model{"mistral3", pictures},
    other_model{"mixtral", experts},
    other_model{"mllama", pictures},
    other_model{"mpt", "ALiBi in the place of positions"},
    other_model{"nemotron", "a squared ReLU, and rotary positions in a part of the head"},
    other_model{"olmo", "LayerNorm without weights"},
    other_model{"olmo2", "norms after attention and MLP"},
    other_model{"olmo3", "norms after attention and MLP, and windows in some layers"},
    other_model{"olmoe", experts},
    other_model{"opt", "a ReLU, and learned positions that begin at 2"},
    other_model{"phi", "one LayerNorm a block, and rotary positions in a part of the head"},
    other_model{"phi3", "queries, keys and values in one tensor"},
    other_model{"phimoe", experts},
    other_model{"qwen2_5_vl", pictures},
    other_model{"qwen2_moe", experts},
    other_model{"qwen2_vl", pictures},
    other_model{"qwen3_5", "text and pictures; linear attention in some layers"},
    other_model{"qwen3_moe", experts},
    other_model{"qwen3_next", "linear attention in some layers, and a mixture of experts"},
    other_model{"qwen3_vl", pictures},
    other_model{"roberta", encoder},
    other_model{"rwkv", "a recurrence in the place of attention"},
    other_model{"smollm3", "layers without positions"},
    other_model{"stablelm", "LayerNorm, and rotary positions in a part of the head"},
    other_model{"starcoder2", "LayerNorm and a plain GELU beside rotary positions"},
    other_model{"t5", two_halves},
};

constexpr bool by_name(const other_model& a, const other_model& b) {
  return a.type < b.type;
}
static_assert(std::is_sorted(known_others.begin(), known_others.end(), by_name));

}  // namespace

std::span<const other_model> other_models() {
  return known_others;
}

std::string_view why_not_read(std::string_view type) {
  const auto at = std::lower_bound(known_others.begin(), known_others.end(),
                                   other_model{type, std::string_view{}}, by_name);
  return at != known_others.end() && at->type == type ? at->why : std::string_view{};
}

}  // namespace troupe::io

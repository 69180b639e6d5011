// config.json of GPT-2, Llama and Mistral: what is read, what is refused and how it is said.
#include "io/formats/hf_config.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/formats/json_text.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
using json = nlohmann::json;

namespace {

json gpt2() {
  return {{"model_type", "gpt2"}, {"n_layer", 2}, {"n_head", 4},         {"n_embd", 64},
          {"n_positions", 128},   {"n_ctx", 64},  {"vocab_size", 50257}, {"n_inner", nullptr}};
}

json llama() {
  return {{"model_type", "llama"},         {"num_hidden_layers", 3}, {"num_attention_heads", 8},
          {"num_key_value_heads", 2},      {"hidden_size", 64},      {"intermediate_size", 176},
          {"max_position_embeddings", 64}, {"vocab_size", 32000},    {"rms_norm_eps", 1e-5}};
}

json qwen(std::string_view type) {
  json out = llama();
  out["model_type"] = type;
  return out;
}

json with(json base, std::string_view key, json value) {
  base[std::string(key)] = std::move(value);
  return base;
}

json without(json base, std::string_view key) {
  base.erase(std::string(key));
  return base;
}

}  // namespace

TEST_CASE("GPT-2: shape, and the defaults of transformers") {
  auto c = parse_hf_config(gpt2().dump());
  REQUIRE(c);
  CHECK(c->model.family == model_family::gpt2);
  CHECK(c->model.layers == 2);
  CHECK(c->model.kv_heads == 4);
  CHECK(c->model.head_width == 16);
  CHECK(c->model.ffn == 256);
  CHECK(c->model.max_positions == 128);
  CHECK(c->model.norm_eps == 1e-5);
  CHECK(c->model.tied);
  CHECK(c->model.activation == activation_kind::gelu_tanh);
  CHECK(c->model.sliding_window == 0);
  CHECK(c->model.block == block_form::sequential);
  CHECK(parse_hf_config(with(gpt2(), "n_inner", 100).dump())->model.ffn == 100);
  CHECK(parse_hf_config(with(gpt2(), "sliding_window", 16).dump())->model.sliding_window == 16);
  CHECK(parse_hf_config(with(gpt2(), "activation_function", "gelu").dump())->model.activation ==
        activation_kind::gelu_erf);
}

TEST_CASE("Llama and Mistral: grouped heads, RoPE, window") {
  auto c = parse_hf_config(llama().dump());
  REQUIRE(c);
  CHECK(c->model.family == model_family::llama);
  CHECK(c->model.heads == 8);
  CHECK(c->model.kv_heads == 2);
  CHECK(c->model.head_width == 8);
  CHECK_FALSE(c->model.tied);
  CHECK(c->model.rope_theta == 10000.0);
  CHECK(c->model.rope == rope_scaling{});
  CHECK(c->model.activation == activation_kind::swiglu);
  CHECK_FALSE(c->model.attention_bias);
  CHECK(parse_hf_config(without(llama(), "num_key_value_heads").dump())->model.kv_heads == 8);
  CHECK(parse_hf_config(without(llama(), "rms_norm_eps").dump())->model.norm_eps == 1e-6);
  CHECK(parse_hf_config(with(llama(), "head_dim", 32).dump())->model.head_width == 32);
  auto mistral = with(llama(), "model_type", "mistral");
  CHECK(parse_hf_config(mistral.dump())->model.sliding_window == 4096);
  CHECK(parse_hf_config(with(mistral, "sliding_window", nullptr).dump())->model.sliding_window ==
        0);
  CHECK(parse_hf_config(with(mistral, "sliding_window", 7).dump())->model.sliding_window == 7);
  CHECK(
      parse_hf_config(
          with(llama(), "rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}).dump())
          ->model.rope_theta == 5e5);
}

TEST_CASE("RoPE scaling: llama3 is read, other kinds are refused by name") {
  json scaling = {{"rope_type", "llama3"},
                  {"factor", 32.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 8192}};
  auto c = parse_hf_config(with(llama(), "rope_scaling", scaling).dump());
  REQUIRE(c);
  CHECK(c->model.rope.factor == 32.0);
  CHECK(c->model.rope.original_max_positions == 8192);
  scaling["factor"] = 1;  // rescales nothing, whatever else it says
  scaling["low_freq_factor"] = 2;
  auto unscaled = parse_hf_config(with(llama(), "rope_scaling", scaling).dump());
  REQUIRE(unscaled);
  CHECK(unscaled->model.rope == rope_scaling{});
  CHECK(json::parse(format_hf_config(*unscaled))["rope_scaling"].is_null());
  auto yarn =
      parse_hf_config(with(llama(), "rope_scaling", {{"type", "yarn"}, {"factor", 2}}).dump());
  REQUIRE_FALSE(yarn);
  CHECK(yarn.error() == hf_rope_unsupported("rope_scaling.rope_type", "\"yarn\""));
  scaling.erase("factor");
  auto lacking = parse_hf_config(with(llama(), "rope_scaling", scaling).dump());
  REQUIRE_FALSE(lacking);
  CHECK(is_error(lacking, hf_key_missing, "rope_scaling.factor"));
}

TEST_CASE("Qwen2 and Qwen3: biases, norms of heads, and windows that are off unless they say so") {
  const auto read = [](const json& config) {
    const auto c = parse_hf_config(config.dump());
    REQUIRE_MESSAGE(c, (c ? "" : render(c.error())));
    return c->model;
  };
  const auto qwen2 = read(qwen("qwen2"));
  CHECK(qwen2.attention_bias);
  CHECK_FALSE(qwen2.output_bias);
  CHECK_FALSE(qwen2.qk_norm);
  CHECK(qwen2.head_width == 8);
  const auto qwen3 = read(qwen("qwen3"));
  CHECK_FALSE(qwen3.attention_bias);
  CHECK(qwen3.qk_norm);
  CHECK(qwen3.head_width == 128);
  CHECK(read(with(qwen("qwen3"), "head_dim", 32)).head_width == 32);
  CHECK(read(with(qwen("qwen3"), "attention_bias", true)).output_bias);
  CHECK(read(with(with(qwen("qwen2"), "num_attention_heads", 32), "num_key_value_heads", nullptr))
            .kv_heads == 32);
  CHECK(parse_hf_config(without(qwen("qwen2"), "num_key_value_heads").dump()).error() ==
        hf_value_wrong("num_key_value_heads", "32", "a divisor of num_attention_heads"));
  // sliding_window alone says nothing, as most Qwen folders have it.
  CHECK(read(with(qwen("qwen2"), "sliding_window", 7)).sliding_window == 0);
  const auto sliding = with(with(qwen("qwen2"), "use_sliding_window", true), "sliding_window", 7);
  CHECK(read(with(sliding, "max_window_layers", 0)).sliding_window == 7);
  CHECK(read(with(sliding, "max_window_layers", 3)).sliding_window == 0);
  CHECK(
      read(with(with(sliding, "max_window_layers", 0), "sliding_window", nullptr)).sliding_window ==
      0);
  CHECK(is_error(parse_hf_config(with(sliding, "max_window_layers", 2).dump()), hf_unsupported,
                 "max_window_layers"));
  const json all_slide = json::array({"sliding_attention", "sliding_attention"});
  CHECK(read(with(sliding, "layer_types", all_slide)).sliding_window == 7);
  const json mixed = json::array({"full_attention", "sliding_attention"});
  CHECK(is_error(parse_hf_config(with(sliding, "layer_types", mixed).dump()), hf_unsupported,
                 "layer_types"));
}

TEST_CASE("models that are not read are refused with what they have of their own") {
  for (const auto& [type, why] : {std::pair{"mixtral", "experts"},
                                  {"gemma2", "norms after attention"},
                                  {"gemma3", "windows in some layers"},
                                  {"phi3", "one tensor"}}) {
    const auto refused = parse_hf_config(qwen(type).dump());
    CHECK(is_error(refused, hf_unsupported, "model_type", why));
  }
}

TEST_CASE("dropout is told of, label smoothing refused") {
  const auto asked =
      parse_hf_config(with(with(gpt2(), "attn_pdrop", 0.1), "resid_pdrop", 0.2).dump());
  REQUIRE(asked);
  CHECK(asked->dropout == 0.2);
  CHECK(asked->dropout_key == "resid_pdrop");
  CHECK(parse_hf_config(with(gpt2(), "attn_pdrop", 0.0).dump())->dropout == 0);
  CHECK(parse_hf_config(with(llama(), "attention_dropout", 0.3).dump())->dropout == 0.3);
  CHECK(is_error(parse_hf_config(with(gpt2(), "attn_pdrop", 1.5).dump()), hf_value_wrong,
                 "attn_pdrop"));
  CHECK(is_error(parse_hf_config(with(gpt2(), "attn_pdrop", "x").dump()), hf_value_wrong,
                 "attn_pdrop"));
  CHECK(is_error(parse_hf_config(with(llama(), "label_smoothing_factor", 0.1).dump()),
                 hf_unsupported, "label_smoothing_factor"));
}

TEST_CASE("what a folder says beside the mathematics is carried over, other forms of it are not") {
  json origin = qwen("qwen2");
  origin.update({{"transformers_version", "5.1"},
                 {"attention_dropout", 0.1},
                 {"bos_token_id", 7},
                 {"eos_token_id", {8, 9}},
                 {"initializer_range", 0.03},
                 {"dtype", "bfloat16"},
                 {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}},
                 {"layer_types", json::array({"full_attention", "full_attention"})},
                 {"rms_norm_eps", 1e-6}});
  hf_model_config now{.model = parse_hf_config(origin.dump())->model};
  now.model.norm_eps = 1e-5;  // the job's word
  const auto written = json::parse(format_hf_config(now, origin.dump()));
  CHECK(written["model_type"] == "qwen2");
  CHECK(written["transformers_version"] == "5.1");
  CHECK(written["initializer_range"] == 0.03);
  CHECK(written["attention_dropout"] == 0.1);
  CHECK(written["bos_token_id"] == 7);
  CHECK(written["eos_token_id"] == json::array({8, 9}));
  CHECK(written["rms_norm_eps"] == 1e-5);
  CHECK(written["rope_theta"] == 5e5);
  CHECK(written["torch_dtype"] == "float32");
  for (const char* key : {"dtype", "rope_parameters", "layer_types"}) CHECK(!written.contains(key));
  CHECK(parse_hf_config(written.dump())->model == now.model);
  now.bos_token_id = 3;
  CHECK(json::parse(format_hf_config(now, origin.dump()))["bos_token_id"] == 3);
}

TEST_CASE("what is wrong is said with the key, the value and what was expected") {
  struct row {
    json config;
    std::string_view kind, key, value = {};
  };
  constexpr auto missing = hf_key_missing.name, type = hf_type_wrong.name;
  constexpr auto wrong = hf_value_wrong.name, unsupported = hf_unsupported.name;
  for (const auto& [config, kind, key, value] : {
           row{without(gpt2(), "n_layer"), missing, "n_layer"},
           row{with(gpt2(), "n_layer", "two"), type, "n_layer", "\"two\""},
           row{with(gpt2(), "n_layer", 0), wrong, "n_layer", "0"},
           row{with(gpt2(), "n_layer", -3), wrong, "n_layer", "-3"},
           row{with(gpt2(), "n_layer", 2.0), type, "n_layer", "2.0"},
           row{with(gpt2(), "n_embd", 1e300), type, "n_embd", "1e+300"},
           row{with(gpt2(), "n_embd", uint64_t{1} << 63), wrong, "n_embd", "2^31"},
           row{with(gpt2(), "n_head", 3), wrong, "n_head", "n_embd"},
           row{with(gpt2(), "layer_norm_epsilon", 0), wrong, "layer_norm_epsilon", "0"},
           row{with(gpt2(), "activation_function", "relu"), unsupported, "activation_function",
               "relu"},
           row{with(gpt2(), "scale_attn_weights", false), unsupported, "scale_attn_weights"},
           row{with(gpt2(), "scale_attn_by_inverse_layer_idx", true), unsupported,
               "scale_attn_by_inverse_layer_idx"},
           row{with(gpt2(), "tie_word_embeddings", 1), type, "tie_word_embeddings", "1"},
           row{with(gpt2(), "torch_dtype", "int8"), unsupported, "torch_dtype", "int8"},
           row{with(gpt2(), "eos_token_id", "x"), type, "eos_token_id", "\"x\""},
           row{with(gpt2(), "eos_token_id", json::array({1, "x"})), type, "eos_token_id",
               "[1,\"x\"]"},
           row{with(gpt2(), "model_type", "bert"), unsupported, "model_type", "\"bert\""},
           row{without(gpt2(), "model_type"), missing, "model_type"},
           row{with(llama(), "num_key_value_heads", 3), wrong, "num_key_value_heads",
               "num_attention_heads"},
           row{with(llama(), "hidden_act", "gelu"), unsupported, "hidden_act", "silu"},
           row{with(llama(), "partial_rotary_factor", 0.5), unsupported, "partial_rotary_factor"},
           row{with(llama(), "head_dim", 7), wrong, "head_dim", "7"},
           row{with(llama(), "quantization_config", json::object()), unsupported,
               "quantization_config"},
           row{with(llama(), "rope_scaling", 3), type, "rope_scaling", "3"},
           row{json::array(), hf_no_object.name, "config.json"},
       }) {
    CAPTURE(config.dump());
    auto c = parse_hf_config(config.dump());
    REQUIRE_FALSE(c);
    CHECK(is_error(c, kind, key, value));
  }
  CHECK(parse_hf_config("{").error().code == errc::bad_data);
  CHECK(is_error(parse_hf_config(R"({"n_layer":1,"n_layer":2})"), json_name_twice, "n_layer"));
  CHECK_FALSE(parse_hf_config(std::string(100000, '[')));
}

TEST_CASE("what is written reads back the same, for every option") {
  std::vector<json> sources = {
      gpt2(),
      llama(),
      with(gpt2(), "n_inner", 100),
      with(gpt2(), "use_parallel_residual", true),
      with(gpt2(), "sliding_window", 16),
      with(llama(), "tie_word_embeddings", true),
      with(llama(), "attention_bias", true),
      with(llama(), "eos_token_id", json::array({1, 2})),
      qwen("qwen2"),
      qwen("qwen3"),
      with(with(qwen("qwen3"), "attention_bias", true), "head_dim", 16),
      with(with(with(qwen("qwen2"), "use_sliding_window", true), "sliding_window", 9),
           "max_window_layers", 0),
      with(gpt2(), "attn_pdrop", 0.1),
      with(with(llama(), "model_type", "mistral"), "sliding_window", 9),
      with(with(llama(), "use_parallel_residual", true), "sliding_window", 9),
      with(llama(), "rope_scaling",
           {{"rope_type", "llama3"},
            {"factor", 8.0},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 8192}}),
      with(gpt2(), "torch_dtype", "bfloat16"),
      with(gpt2(), "bos_token_id", 5)};
  for (const auto& source : sources) {
    CAPTURE(source.dump());
    auto c = parse_hf_config(source.dump());
    REQUIRE(c);
    auto back = parse_hf_config(format_hf_config(*c));
    REQUIRE(back);
    CHECK(*back == *c);
  }
}

TEST_CASE("a Llama with a window is written as Mistral, where transformers honours the key") {
  auto c = parse_hf_config(with(llama(), "sliding_window", 5).dump());
  REQUIRE(c);
  auto written = json::parse(format_hf_config(*c));
  CHECK(written["model_type"] == "mistral");
  CHECK(written["architectures"][0] == "MistralForCausalLM");
  CHECK(written["sliding_window"] == 5);
}

TEST_CASE("the weights tell whether a parallel block shares its norm") {
  auto c = *parse_hf_config(with(gpt2(), "use_parallel_residual", true).dump());
  CHECK(c.model.block == block_form::two_norms);
  auto shared = c;
  REQUIRE(resolve_parallel_block(shared.model, false));
  CHECK(shared.model.block == block_form::shared_norm);
  REQUIRE(resolve_parallel_block(c.model, true));
  CHECK(c.model.block == block_form::two_norms);
  auto sequential = *parse_hf_config(gpt2().dump());
  CHECK(resolve_parallel_block(sequential.model, true));
  CHECK_FALSE(resolve_parallel_block(sequential.model, false));
}

TEST_CASE("every config.json of the oracle reads") {
  auto shared = shared_folder();
  if (shared.empty()) {
    MESSAGE("SKIPPED: no shared folder (TROUPE_SHARED)");
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(shared / "oracle")) {
    if (!entry.is_directory()) continue;
    CAPTURE(entry.path().string());
    auto c = read_hf_config(entry.path());
    REQUIRE(c);
    CHECK(c->model.vocab == 251);
    CHECK(c->model.head_width == 16);
  }
  CHECK(read_hf_config(shared / "oracle/gpt2_swa16")->model.sliding_window == 16);
  CHECK(read_hf_config(shared / "oracle/llama_tiny_bf16")->torch_dtype == "bfloat16");
}

// config.json: see hf_config.hpp. Defaults and meanings are those of transformers'
// configuration_gpt2.py, _llama.py, _mistral.py, _qwen2.py and _qwen3.py.
#include "io/formats/hf_config.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/formats/json_text.hpp"
#include "io/formats/other_models.hpp"

namespace troupe::io {

namespace fs = std::filesystem;
using json = nlohmann::json;

namespace {

constexpr size_t max_config_bytes = 16 << 20;
constexpr int64_t max_dimension = int64_t{1} << 31;

/// Reads typed keys; the first thing wrong sticks and later reads give defaults.
class key_reader {
 public:
  explicit key_reader(const json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  /// An integer in [low, 2^31]; required without a default.
  int64_t integer(const char* key, std::optional<int64_t> standard = {}, int64_t low = 1) {
    const json* value = find(key);
    if (value == nullptr) return absent(key, standard, "an integer");
    if (!value->is_number_integer())
      return wrong(hf_type_wrong, key, *value, "an integer"), standard.value_or(low);
    if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{max_dimension})
      return wrong(hf_value_wrong, key, *value, "an integer of at most 2^31"), low;
    auto number = value->get<int64_t>();
    if (number < low)
      wrong(hf_value_wrong, key, *value, fmt::format("an integer of at least {}", low));
    return number;
  }

  /// A finite positive number.
  double number(const char* key, std::optional<double> standard = {}) {
    const json* value = find(key);
    if (value == nullptr) return absent(key, standard, "a number");
    if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0)
      return wrong(hf_value_wrong, key, *value, "a positive number"), 1.0;
    return value->get<double>();
  }

  bool boolean(const char* key, bool standard) {
    const json* value = find(key);
    if (value == nullptr) return standard;
    if (!value->is_boolean()) return wrong(hf_type_wrong, key, *value, "true or false"), standard;
    return value->get<bool>();
  }

  std::string text(const char* key, std::optional<std::string> standard = {}) {
    const json* value = find(key);
    if (value == nullptr) return absent(key, std::move(standard), "a text");
    if (!value->is_string()) return wrong(hf_type_wrong, key, *value, "a text"), "";
    return value->get<std::string>();
  }

  /// Refuses a boolean that is not `wanted`.
  void demand(const char* key, bool wanted, const char* meaning) {
    if (boolean(key, wanted) != wanted) unsupported(key, meaning);
  }

  /// A number in [0, 1); 0 where the key is missing or null.
  double share(const char* key) {
    const json* value = find(key);
    if (value == nullptr) return 0;
    if (value->is_number() && value->get<double>() >= 0 && value->get<double>() < 1)
      return value->get<double>();
    return wrong(hf_value_wrong, key, *value, "a number from 0 to below 1"), 0;
  }

  void unsupported(std::string_view key, std::string_view meaning,
                   const error_kind<std::string_view, std::string_view>& kind = hf_unsupported) {
    if (!fault_) fault_ = kind(fmt::format("{}{}", prefix_, key), meaning);
  }

  /// The value, or null when the key is missing or null.
  const json* find(const char* key) const {
    auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool has(const char* key) const { return object_.contains(key); }

  void wrong(const decltype(hf_value_wrong)& kind, std::string_view key, const json& value,
             std::string_view expected) {
    if (!fault_)
      fault_ = kind(fmt::format("{}{}", prefix_, key),
                    shown(value.dump(-1, ' ', false, json::error_handler_t::replace)), expected);
  }

  void take(key_reader& other) {
    if (!fault_) fault_ = std::move(other.fault_);
  }
  const std::optional<error>& fault() const { return fault_; }

 private:
  template <class T>
  T absent(std::string_view key, std::optional<T> standard, std::string_view expected) {
    if (standard) return std::move(*standard);
    if (!fault_) fault_ = hf_key_missing(fmt::format("{}{}", prefix_, key), expected);
    return T{};
  }

  const json& object_;
  std::string prefix_;
  std::optional<error> fault_;
};

struct activation_name {
  std::string_view name;
  activation_kind kind;
};

/// What transformers calls the activations; the first name of each is the one that is written.
constexpr activation_name activation_names[] = {
    {"gelu_new", activation_kind::gelu_tanh},  {"gelu_pytorch_tanh", activation_kind::gelu_tanh},
    {"gelu_fast", activation_kind::gelu_tanh}, {"gelu", activation_kind::gelu_erf},
    {"silu", activation_kind::swiglu},         {"swish", activation_kind::swiglu}};

activation_kind read_activation(key_reader& keys, const char* key, const char* standard) {
  const auto name = keys.text(key, standard);
  for (const auto& known : activation_names)
    if (known.name == name) return known.kind;
  keys.unsupported(key, shown(name));
  return activation_kind::gelu_tanh;
}

std::string_view name_of(activation_kind kind) {
  for (const auto& known : activation_names)
    if (known.kind == kind) return known.name;
  return {};
}

/// Keys by which a folder asks for dropout.
constexpr const char* dropout_keys[] = {"resid_pdrop",   "embd_pdrop",       "attn_pdrop",
                                        "dropout",       "hidden_dropout",   "attention_dropout",
                                        "resid_dropout", "embedding_dropout"};

void read_regularisation(key_reader& keys, hf_model_config& out) {
  for (const char* key : dropout_keys) {
    const double share = keys.share(key);
    if (share <= out.dropout) continue;
    out.dropout = share;
    out.dropout_key = key;
  }
  for (const char* key : {"label_smoothing", "label_smoothing_factor"})
    if (keys.share(key) > 0) keys.unsupported(key, "label smoothing");
}

void read_common(key_reader& keys, hf_model_config& out) {
  read_regularisation(keys, out);
  out.model.vocab = keys.integer("vocab_size");
  const char* dtype_key = keys.find("torch_dtype") == nullptr ? "dtype" : "torch_dtype";
  out.torch_dtype = keys.text(dtype_key, "float32");
  if (out.torch_dtype != "float32" && out.torch_dtype != "float16" && out.torch_dtype != "bfloat16")
    keys.unsupported(dtype_key, shown(out.torch_dtype));
  if (keys.find("bos_token_id") != nullptr) out.bos_token_id = keys.integer("bos_token_id", {}, 0);
  if (const json* eos = keys.find("eos_token_id"); eos != nullptr && eos->is_array()) {
    for (const auto& id : *eos) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{max_dimension}) {
        keys.wrong(hf_type_wrong, "eos_token_id", *eos, "an integer or a list of integers");
        break;
      }
      out.eos_token_ids.push_back(id.get<int64_t>());
    }
  } else if (eos != nullptr) {
    out.eos_token_ids.push_back(keys.integer("eos_token_id", {}, 0));
  }
  if (keys.find("quantization_config") != nullptr)
    keys.unsupported("quantization_config", "a quantized model");
  if (keys.boolean("use_parallel_residual", false)) out.model.block = block_form::two_norms;
}

void read_gpt2(key_reader& keys, model_config& out) {
  out = model_config::of(model_family::gpt2);
  out.layers = keys.integer("n_layer");
  out.heads = out.kv_heads = keys.integer("n_head");
  out.hidden = keys.integer("n_embd");
  out.ffn = keys.integer("n_inner", 4 * out.hidden);
  out.max_positions = keys.find("n_positions") == nullptr && keys.find("n_ctx") != nullptr
                          ? keys.integer("n_ctx")
                          : keys.integer("n_positions");
  out.norm_eps = keys.number("layer_norm_epsilon", 1e-5);
  out.activation = read_activation(keys, "activation_function", "gelu_new");
  if (out.activation == activation_kind::swiglu)
    keys.unsupported("activation_function", "silu in GPT-2");
  out.tied = keys.boolean("tie_word_embeddings", true);
  out.sliding_window = keys.integer("sliding_window", 0);
  keys.demand("scale_attn_weights", true, "unscaled attention");
  keys.demand("scale_attn_by_inverse_layer_idx", false, "attention scaled by layer");
  keys.demand("add_cross_attention", false, "cross attention");
  if (keys.fault()) return;
  out.head_width = out.hidden / out.heads;
  if (out.hidden % out.heads != 0)
    keys.wrong(hf_value_wrong, "n_head", out.heads, "a divisor of n_embd");
}

/// rope_theta and rope_scaling, in the form of transformers 4 or of 5 (rope_parameters).
void read_rope(key_reader& keys, model_config& out) {
  const json* nested = keys.find("rope_parameters");
  const char* name = nested != nullptr ? "rope_parameters" : "rope_scaling";
  out.rope_theta = keys.number("rope_theta", 10000.0);
  const json* scaling = keys.find(name);
  if (scaling == nullptr) return;
  if (!scaling->is_object()) return keys.wrong(hf_type_wrong, name, *scaling, "an object or null");
  key_reader inner(*scaling, std::string(name) + ".");
  out.rope_theta = inner.number("rope_theta", out.rope_theta);
  auto kind = inner.text(inner.has("rope_type") ? "rope_type" : "type", "default");
  if (kind == "llama3") {
    rope_scaling rope;
    rope.factor = inner.number("factor");
    rope.low_freq_factor = inner.number("low_freq_factor");
    rope.high_freq_factor = inner.number("high_freq_factor");
    rope.original_max_positions = inner.integer("original_max_position_embeddings");
    if (!inner.fault() && rope.high_freq_factor <= rope.low_freq_factor)
      inner.wrong(hf_value_wrong, "high_freq_factor", rope.high_freq_factor,
                  "a number above low_freq_factor");
    if (rope.factor != 1) out.rope = rope;
  } else if (kind != "default") {
    inner.unsupported("rope_type", fmt::format("\"{}\"", shown(kind)), hf_rope_unsupported);
  }
  keys.take(inner);
}

/// The models of the Llama family that transformers has classes for, and what it does where a key
/// is missing.
struct llama_kind {
  std::string_view type, architecture;
  int64_t kv_heads;    ///< 0: as many as heads
  int64_t head_width;  ///< 0: hidden / heads
  int64_t window;
};
constexpr llama_kind llama_kinds[] = {{"llama", "LlamaForCausalLM", 0, 0, 0},
                                      {"mistral", "MistralForCausalLM", 8, 0, 4096},
                                      {"qwen2", "Qwen2ForCausalLM", 32, 0, 4096},
                                      {"qwen3", "Qwen3ForCausalLM", 32, 128, 4096}};

const llama_kind* find_llama_kind(std::string_view type) {
  for (const auto& known : llama_kinds)
    if (known.type == type) return &known;
  return nullptr;
}

bool is_qwen(const llama_kind& kind) {
  return kind.type.starts_with("qwen");
}

void read_biases(key_reader& keys, model_config& out, const llama_kind& kind) {
  const bool asked = kind.type != "qwen2" && keys.boolean("attention_bias", false);
  out.attention_bias = asked || kind.type == "qwen2";
  out.output_bias = asked;
  out.mlp_bias = !is_qwen(kind) && keys.boolean("mlp_bias", false);
  out.qk_norm = kind.type == "qwen3";
}

/// Qwen's window is of the layers from max_window_layers on, and off unless use_sliding_window.
int64_t qwen_window(key_reader& keys, int64_t layers, const llama_kind& kind) {
  if (!keys.boolean("use_sliding_window", false)) return 0;
  const int64_t window =  // null: none
      keys.integer("sliding_window", keys.has("sliding_window") ? 0 : kind.window);
  if (const json* types = keys.find("layer_types"); types != nullptr && types->is_array()) {
    const bool slides = !types->empty() && types->front() == "sliding_attention";
    return slides ? window : 0;  // of mixed ones it is said elsewhere
  }
  const int64_t first = keys.integer("max_window_layers", 28, 0);
  if (first > 0 && first < layers)
    keys.unsupported("max_window_layers", "a sliding window in some of the layers");
  return first == 0 ? window : 0;
}

int64_t read_window(key_reader& keys, int64_t layers, const llama_kind& kind) {
  if (is_qwen(kind)) return qwen_window(keys, layers, kind);
  if (!keys.has("sliding_window")) return kind.window;
  return keys.integer("sliding_window", 0, kind.window > 0 ? 1 : 0);
}

void read_llama(key_reader& keys, model_config& out, const llama_kind& kind) {
  out = model_config::of(model_family::llama);
  out.layers = keys.integer("num_hidden_layers");
  out.heads = keys.integer("num_attention_heads");
  const bool kv_unsaid = kind.kv_heads == 0 || keys.has("num_key_value_heads");  // null: as heads
  out.kv_heads = keys.integer("num_key_value_heads", kv_unsaid ? out.heads : kind.kv_heads);
  out.hidden = keys.integer("hidden_size");
  out.ffn = keys.integer("intermediate_size");
  out.max_positions = keys.integer("max_position_embeddings");
  out.norm_eps = keys.number("rms_norm_eps", 1e-6);
  out.activation = read_activation(keys, "hidden_act", "silu");
  if (out.activation != activation_kind::swiglu) keys.unsupported("hidden_act", "other than silu");
  out.tied = keys.boolean("tie_word_embeddings", false);
  read_biases(keys, out, kind);
  out.sliding_window = read_window(keys, out.layers, kind);
  read_rope(keys, out);
  if (keys.number("partial_rotary_factor", 1.0) != 1.0)
    keys.unsupported("partial_rotary_factor", "rotating a part of the head");
  if (keys.find("layer_types") != nullptr && keys.find("layer_types")->is_array()) {
    for (const auto& one : *keys.find("layer_types"))
      if (one != keys.find("layer_types")->front())
        keys.unsupported("layer_types", "mixing kinds of attention");
  }
  if (keys.fault()) return;
  if (keys.find("head_dim") == nullptr && kind.head_width == 0 && out.hidden % out.heads != 0)
    keys.wrong(hf_value_wrong, "num_attention_heads", out.heads, "a divisor of hidden_size");
  out.head_width =
      keys.integer("head_dim", kind.head_width > 0 ? kind.head_width : out.hidden / out.heads);
  if (out.heads % out.kv_heads != 0)
    keys.wrong(hf_value_wrong, "num_key_value_heads", out.kv_heads,
               "a divisor of num_attention_heads");
  if (out.head_width % 2 != 0)
    keys.wrong(hf_value_wrong, "head_dim", out.head_width, "an even number (RoPE pairs)");
}

void put_common(nlohmann::ordered_json& root, const hf_model_config& c) {
  root["vocab_size"] = c.model.vocab;
  root["tie_word_embeddings"] = c.model.tied;
  if (c.bos_token_id)
    root["bos_token_id"] = *c.bos_token_id;
  else
    root["bos_token_id"] = nullptr;
  if (c.eos_token_ids.empty())
    root["eos_token_id"] = nullptr;
  else if (c.eos_token_ids.size() == 1)
    root["eos_token_id"] = c.eos_token_ids[0];
  else
    root["eos_token_id"] = c.eos_token_ids;
  if (c.dropout > 0) root[c.dropout_key] = c.dropout;
  root["torch_dtype"] = c.torch_dtype;
  root["use_cache"] = true;
  if (c.model.block != block_form::sequential) root["use_parallel_residual"] = true;
}

nlohmann::ordered_json gpt2_json(const hf_model_config& config) {
  const model_config& c = config.model;
  nlohmann::ordered_json root;
  root["model_type"] = "gpt2";
  root["architectures"] = {"GPT2LMHeadModel"};
  root["n_layer"] = c.layers;
  root["n_head"] = c.heads;
  root["n_embd"] = c.hidden;
  if (c.ffn == 4 * c.hidden)
    root["n_inner"] = nullptr;
  else
    root["n_inner"] = c.ffn;
  root["n_positions"] = c.max_positions;
  root["n_ctx"] = c.max_positions;
  root["activation_function"] = name_of(c.activation);
  root["layer_norm_epsilon"] = c.norm_eps;
  root["scale_attn_weights"] = true;
  root["scale_attn_by_inverse_layer_idx"] = false;
  root["reorder_and_upcast_attn"] = false;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) root[key] = 0.0;
  put_common(root, config);
  if (c.sliding_window > 0) root["sliding_window"] = c.sliding_window;
  return root;
}

/// The class of transformers that computes what the model does.
const llama_kind& llama_kind_of(const model_config& c) {
  if (c.qk_norm) return *find_llama_kind("qwen3");
  if (c.attention_bias && !c.output_bias) return *find_llama_kind("qwen2");
  const bool mistral = c.sliding_window > 0 && c.block == block_form::sequential &&
                       !c.attention_bias && !c.mlp_bias && c.rope.factor == 1;
  return *find_llama_kind(mistral ? "mistral" : "llama");
}

void put_window(nlohmann::ordered_json& root, const model_config& c, const llama_kind& kind) {
  if (is_qwen(kind)) {
    root["use_sliding_window"] = c.sliding_window > 0;
    if (c.sliding_window > 0) root["max_window_layers"] = 0;
  }
  if (c.sliding_window > 0) root["sliding_window"] = c.sliding_window;
}

nlohmann::ordered_json llama_json(const hf_model_config& config) {
  const model_config& c = config.model;
  const bool rescaled = c.rope.factor != 1;
  const llama_kind& kind = llama_kind_of(c);
  const bool mistral = kind.type == "mistral";
  nlohmann::ordered_json root;
  root["model_type"] = kind.type;
  root["architectures"] = {kind.architecture};
  root["num_hidden_layers"] = c.layers;
  root["num_attention_heads"] = c.heads;
  root["num_key_value_heads"] = c.kv_heads;
  root["head_dim"] = c.head_width;
  root["hidden_size"] = c.hidden;
  root["intermediate_size"] = c.ffn;
  root["max_position_embeddings"] = c.max_positions;
  root["hidden_act"] = name_of(c.activation);
  root["rms_norm_eps"] = c.norm_eps;
  root["rope_theta"] = c.rope_theta;
  if (rescaled)
    root["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", c.rope.factor},
                            {"low_freq_factor", c.rope.low_freq_factor},
                            {"high_freq_factor", c.rope.high_freq_factor},
                            {"original_max_position_embeddings", c.rope.original_max_positions}};
  else if (!mistral)
    root["rope_scaling"] = nullptr;
  if (kind.type == "llama" || kind.type == "qwen3") root["attention_bias"] = c.attention_bias;
  if (kind.type == "llama") root["mlp_bias"] = c.mlp_bias;
  root["attention_dropout"] = 0.0;
  put_common(root, config);
  put_window(root, c, kind);
  return root;
}

/// What `origin` says beside the mathematics, under what is written. Keys that say the same
/// mathematics in another form are left out: they would contradict it.
void carry_over(nlohmann::ordered_json& root, std::string_view origin) {
  const auto from = nlohmann::ordered_json::parse(origin, nullptr, false);
  if (!from.is_object()) return;
  for (const auto& [key, value] : from.items()) {
    const bool dropout =
        std::find(std::begin(dropout_keys), std::end(dropout_keys), key) != std::end(dropout_keys);
    const bool token = key == "bos_token_id" || key == "eos_token_id";
    if (dropout || (token && root[key].is_null())) root[key] = value;
    const auto other_forms = {"rope_parameters", "rope_theta",        "rope_scaling",  "dtype",
                              "layer_types",     "max_window_layers", "sliding_window"};
    if (std::find(other_forms.begin(), other_forms.end(), key) != other_forms.end()) continue;
    if (!root.contains(key)) root[key] = value;
  }
}

std::string refusal_of(std::string_view type) {
  const auto why = why_not_read(type);
  if (why.empty()) return fmt::format("\"{}\"", shown(type));
  return fmt::format("\"{}\" ({})", type, why);
}

}  // namespace

result<hf_model_config> parse_hf_config(std::string_view text) {
  TROUPE_TRY(root, parse_json(text));
  if (!root.is_object()) return hf_no_object();
  key_reader keys(root);
  hf_model_config config;
  auto type = keys.text("model_type");
  if (keys.fault()) return *keys.fault();
  if (type == "gpt2") {
    read_gpt2(keys, config.model);
  } else if (const llama_kind* kind = find_llama_kind(type)) {
    read_llama(keys, config.model, *kind);
  } else {
    keys.unsupported("model_type", refusal_of(type));
  }
  read_common(keys, config);
  if (keys.fault()) return *keys.fault();
  return config;
}

result<hf_model_config> read_hf_config(const fs::path& path) {
  std::error_code ignored;
  auto file = fs::is_directory(path, ignored) ? path / "config.json" : path;
  TROUPE_TRY(text, read_file(file, max_config_bytes));
  auto config = parse_hf_config(text);
  if (!config) return config.error().within(file.parent_path().string());
  return config;
}

std::string format_hf_config(const hf_model_config& config, std::string_view origin) {
  auto root = config.model.family == model_family::gpt2 ? gpt2_json(config) : llama_json(config);
  if (!origin.empty()) carry_over(root, origin);
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

status resolve_parallel_block(model_config& model, bool has_second_norm) {
  if (model.block == block_form::sequential) {
    if (!has_second_norm)
      return error{errc::bad_data, "the weights hold no second norm, but the blocks are sequential",
                   "for a parallel block, set \"use_parallel_residual\": true in config.json"};
    return {};
  }
  model.block = has_second_norm ? block_form::two_norms : block_form::shared_norm;
  return {};
}

}  // namespace troupe::io

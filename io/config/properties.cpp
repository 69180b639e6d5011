// Reading and writing keys through the property table, and finding the key a person meant.
#include "io/config/properties.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/text.hpp"
#include "io/config/table.hpp"

namespace troupe::config {

namespace {

struct section_row {
  std::string_view name;
  std::string_view about;
};

constexpr std::array section_rows = {
    section_row{"job", "What the run is called, what it starts from, where it writes"},
    section_row{"cluster",
                "The machines: which nodes, who starts them, how they find and trust each "
                "other"},
    section_row{"cluster.node",
                "One node; repeat the [[cluster.node]] table for each, in rank order, spares "
                "aside"},
    section_row{"cluster.tls", "Mutual TLS between the processes; `troupe certs` makes the files"},
    section_row{"model", "The transformer: its shape, or the Hugging Face folder to take it from"},
    section_row{"data", "What is trained on, and what it is validated on"},
    section_row{"data.source",
                "A source of several, which are mixed by weight; instead of data.path "
                "(docs/data.md)"},
    section_row{"train", "Steps, batches, optimizer and learning rate"},
    section_row{"parallel", "How the workers divide the work"},
    section_row{"checkpoint", "When the state is saved, where, and what a start resumes from"},
    section_row{"checkpoint.memory",
                "Copies of the state in memory, to which a run that loses a node goes back"},
    section_row{"checkpoint.second",
                "The second tier: a slower or shared folder with copies of committed checkpoints"},
    section_row{"swap", "What does not fit into memory lives on a drive (docs/swap.md)"},
    section_row{"swap.rates",
                "Rates by which it was chosen what layers keep; `troupe up` sets them "
                "(docs/swap.md)"},
    section_row{"timeouts", "How long an answer may take before the run gives up on it"},
    section_row{"recovery", "What the run does when a node is lost after it has begun"},
    section_row{"recovery.rule",
                "What is done about a finding: the first of its tables with budget left, else the "
                "run ends"},
    section_row{"health", "What is noticed of nodes and ranks (docs/health.md)"},
    section_row{"health.log_rule",
                "What is looked for in the logs of nodes and of their kernels: a line counts for "
                "the first that it fits"},
    section_row{"predict", "What each part of a step should take"},
    section_row{"power", "What the machines draw"},
    section_row{"log", "What is printed while it trains"},
    section_row{"inject",
                "A drill: a fault made on purpose, refused without --allow-injection "
                "(docs/healing.md)"},
};

constexpr auto section_names = [] {
  std::array<std::string_view, section_rows.size()> names{};
  for (size_t i = 0; i < names.size(); i++) names[i] = section_rows[i].name;
  return names;
}();

template <class T>
T& member(const property& p, void* object) {
  return *static_cast<T*>(p.at(object));
}

value get_from(const property& p, const void* object) {
  auto* o =
      const_cast<void*>(object);  // the accessor only finds the member; nothing is written here
  switch (p.kind) {
    case value_kind::integer:
      return member<int64_t>(p, o);
    case value_kind::real:
      return member<double>(p, o);
    case value_kind::boolean:
      return member<bool>(p, o);
    case value_kind::text:
      return member<std::string>(p, o);
    case value_kind::texts:
      return member<std::vector<std::string>>(p, o);
    case value_kind::choice:
      break;
  }
  return std::string(
      p.choices[member<uint8_t>(p, o)]);  // an enum of one byte may be read as a byte
}

std::string described(const value& v) {
  if (std::holds_alternative<int64_t>(v))
    return fmt::format("the integer {}", std::get<int64_t>(v));
  if (std::holds_alternative<double>(v)) return "the number " + to_toml_text(v);
  if (std::holds_alternative<bool>(v)) return to_toml_text(v);
  if (std::holds_alternative<std::string>(v)) return "the string " + to_toml_text(v);
  return "an array";
}

/// config.json's words for types of numbers, and what ours are.
constexpr std::array usual_words{std::pair<std::string_view, std::string_view>{"float32", "f32"},
                                 std::pair<std::string_view, std::string_view>{"bfloat16", "bf16"}};

std::string_view usual_word(std::string_view word) {
  for (const auto& [usual, ours] : usual_words)
    if (word == usual) return ours;
  return word;
}

/// A unit that people write behind a number, and how many of the key's own unit it is: the key has
/// its unit as its ending.
struct written_unit {
  std::string_view ending, unit;
  double is;
};
constexpr std::array written_units = {written_unit{"_ms", "ms", 1},
                                      written_unit{"_ms", "s", 1e3},
                                      written_unit{"_ms", "min", 6e4},
                                      written_unit{"_ms", "m", 6e4},
                                      written_unit{"_ms", "h", 36e5},
                                      written_unit{"_s", "ms", 1e-3},
                                      written_unit{"_s", "s", 1},
                                      written_unit{"_s", "min", 60},
                                      written_unit{"_s", "m", 60},
                                      written_unit{"_s", "h", 3600},
                                      written_unit{"_bytes", "b", 1},
                                      written_unit{"_bytes", "kb", 1e3},
                                      written_unit{"_bytes", "mb", 1e6},
                                      written_unit{"_bytes", "gb", 1e9},
                                      written_unit{"_bytes", "tb", 1e12},
                                      written_unit{"_bytes", "kib", 0x1p10},
                                      written_unit{"_bytes", "mib", 0x1p20},
                                      written_unit{"_bytes", "gib", 0x1p30},
                                      written_unit{"_bytes", "tib", 0x1p40},
                                      written_unit{"_bytes", "k", 0x1p10},
                                      written_unit{"_bytes", "m", 0x1p20},
                                      written_unit{"_bytes", "g", 0x1p30},
                                      written_unit{"_w", "w", 1},
                                      written_unit{"_w", "kw", 1e3}};

/// The number that a text with a unit ("5s", "2 GiB") is in the key's own unit, as a hint; empty
/// where it is none, or out of what the key may be.
std::string hint_of_unit(const property& p, std::string_view text) {
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc()) return {};
  std::string unit;
  for (const char c : text.substr(static_cast<size_t>(end - text.data())))
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& known : written_units) {
    if (known.unit != unit || !p.key.ends_with(known.ending)) continue;
    const double meant = number * known.is;
    if (!p.limits.contains(meant) || std::abs(meant) > 9e15) return {};
    const auto said = p.kind == value_kind::integer
                          ? fmt::format("{}", static_cast<int64_t>(std::llround(meant)))
                          : fmt::format("{}", meant);
    return fmt::format("the unit is the key's ending, and is not written: {}", said);
  }
  return {};
}

error mismatch(const property& p, const value& v) {
  auto text = fmt::format("expected {}, got {}", accepts(p), described(v));
  if (p.kind == value_kind::choice && std::holds_alternative<std::string>(v)) {
    auto near = nearest(std::get<std::string>(v), p.choices);
    if (!near.empty()) return {errc::bad_config, text, fmt::format("did you mean \"{}\"?", near)};
  }
  const bool number = p.kind == value_kind::integer || p.kind == value_kind::real;
  if (const auto* said = std::get_if<std::string>(&v); said != nullptr && number)
    return {errc::bad_config, text, hint_of_unit(p, *said)};
  return {errc::bad_config, text};
}

status set_in(const property& p, void* o, const value& v) {
  auto* integer = std::get_if<int64_t>(&v);
  auto* real = std::get_if<double>(&v);
  auto* text = std::get_if<std::string>(&v);
  switch (p.kind) {
    case value_kind::integer:
      if (!integer || !p.limits.contains(static_cast<double>(*integer))) return mismatch(p, v);
      member<int64_t>(p, o) = *integer;
      return {};
    case value_kind::real: {
      if (!integer && !real) return mismatch(p, v);
      double x = real ? *real : static_cast<double>(*integer);
      if (!std::isfinite(x) || !p.limits.contains(x)) return mismatch(p, v);
      member<double>(p, o) = x;
      return {};
    }
    case value_kind::boolean:
      if (!std::holds_alternative<bool>(v)) return mismatch(p, v);
      member<bool>(p, o) = std::get<bool>(v);
      return {};
    case value_kind::text:
      if (!text) return mismatch(p, v);
      member<std::string>(p, o) = *text;
      return {};
    case value_kind::texts:
      if (text)
        member<std::vector<std::string>>(p, o) =
            text->empty() ? std::vector<std::string>{} : std::vector{*text};
      else if (auto* list = std::get_if<std::vector<std::string>>(&v))
        member<std::vector<std::string>>(p, o) = *list;
      else
        return mismatch(p, v);
      return {};
    case value_kind::choice:
      break;
  }
  const auto word = text ? usual_word(*text) : std::string_view();
  auto found = text ? std::find(p.choices.begin(), p.choices.end(), word) : p.choices.end();
  if (found == p.choices.end()) return mismatch(p, v);
  member<uint8_t>(p, o) = static_cast<uint8_t>(found - p.choices.begin());
  return {};
}

std::string number_text(double x) {
  auto text = fmt::format("{}", x);  // shortest that reads back as the same double
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string_view to_string(value_kind kind) {
  switch (kind) {
    case value_kind::integer:
      return "integer";
    case value_kind::real:
      return "number";
    case value_kind::boolean:
      return "true or false";
    case value_kind::text:
      return "string";
    case value_kind::texts:
      return "string or array of strings";
    case value_kind::choice:
      break;
  }
  return "choice";
}

bool bounds::contains(double x) const {
  if (std::isnan(x)) return false;
  if (min && (above_min ? x <= *min : x < *min)) return false;
  if (max && (below_max ? x >= *max : x > *max)) return false;
  return true;
}

std::string bounds::text() const {
  auto number = [](double x) {
    return x == std::floor(x) && std::abs(x) < 1e16 ? fmt::format("{}", static_cast<int64_t>(x))
                                                    : fmt::format("{}", x);
  };
  if (min && max)
    return fmt::format("{} {} {} {}", above_min ? "above" : "from", number(*min),
                       below_max ? "to below" : "to", number(*max));
  if (min) return fmt::format("{} {}", above_min ? "above" : "at least", number(*min));
  if (max) return fmt::format("{} {}", below_max ? "below" : "at most", number(*max));
  return {};
}

std::span<const property> properties() {
  return detail::job_table();
}
std::span<const property> node_properties() {
  return detail::node_table();
}
std::span<const property> source_properties() {
  return detail::source_table();
}
std::span<const property> rule_properties() {
  return detail::rule_table();
}
std::span<const property> log_rule_properties() {
  return detail::log_rule_table();
}
std::span<const property> drill_properties() {
  return detail::drill_table();
}
std::span<const std::string_view> sections() {
  return section_names;
}

std::string_view section_about(std::string_view section) {
  for (const auto& row : section_rows)
    if (row.name == section) return row.about;
  return {};
}

const property* find_property(std::string_view key) {
  for (const auto& p : properties())
    if (p.key == key) return &p;
  return nullptr;
}

value get(const property& p, const job& j) {
  return get_from(p, &j);
}
value get(const property& p, const node_spec& node) {
  return get_from(p, &node);
}
value get(const property& p, const source_spec& source) {
  return get_from(p, &source);
}
value get(const property& p, const recovery_rule& rule) {
  return get_from(p, &rule);
}
value get(const property& p, const log_rule_spec& rule) {
  return get_from(p, &rule);
}
value get(const property& p, const drill_spec& drill) {
  return get_from(p, &drill);
}
status set(const property& p, job& j, const value& v) {
  return set_in(p, &j, v);
}
status set(const property& p, node_spec& node, const value& v) {
  return set_in(p, &node, v);
}
status set(const property& p, source_spec& source, const value& v) {
  return set_in(p, &source, v);
}
status set(const property& p, recovery_rule& rule, const value& v) {
  return set_in(p, &rule, v);
}
status set(const property& p, log_rule_spec& rule, const value& v) {
  return set_in(p, &rule, v);
}
status set(const property& p, drill_spec& drill, const value& v) {
  return set_in(p, &drill, v);
}
status set(const property& p, power_tree& tree, const value& v) {
  return set_in(p, &tree, v);
}
status set(const property& p, power_child& child, const value& v) {
  return set_in(p, &child, v);
}

std::vector<std::string_view> words_taken(const property& p) {
  std::vector<std::string_view> out(p.choices.begin(), p.choices.end());
  for (const auto& [usual, ours] : usual_words)
    if (std::find(p.choices.begin(), p.choices.end(), ours) != p.choices.end())
      out.push_back(usual);
  return out;
}

std::string accepts(const property& p) {
  if (p.kind == value_kind::choice) {
    std::vector<std::string> words;
    for (auto word : p.choices) words.push_back(quoted(word));
    return words.size() == 1 ? words[0] : fmt::format("one of {}", fmt::join(words, ", "));
  }
  auto limits = p.limits.text();
  auto name = std::string(to_string(p.kind));
  if (p.kind != value_kind::boolean) name = (name[0] == 'i' ? "an " : "a ") + name;
  return limits.empty() ? name : fmt::format("{} {}", name, limits);
}

std::string to_toml_text(const value& v) {
  if (auto* integer = std::get_if<int64_t>(&v)) return fmt::format("{}", *integer);
  if (auto* real = std::get_if<double>(&v)) return number_text(*real);
  if (auto* flag = std::get_if<bool>(&v)) return *flag ? "true" : "false";
  if (auto* text = std::get_if<std::string>(&v)) return troupe::quoted(*text);
  std::vector<std::string> items;
  for (const auto& item : std::get<std::vector<std::string>>(v))
    items.push_back(troupe::quoted(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string value_text(std::string_view key, const job& j) {
  return to_toml_text(get(*find_property(key), j));
}

std::string environment_name(std::string_view key) {
  std::string name = "TROUPE_";
  for (char c : key) {
    if (c == '.')
      name += "__";
    else
      name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

namespace {

/// What nanoGPT, Hugging Face's Trainer, Megatron and TorchTitan call keys of ours.
constexpr std::pair<std::string_view, std::string_view> names_elsewhere[] = {
    {"learning_rate", "train.lr"},
    {"max_lr", "train.lr"},
    {"min_lr", "train.min_lr_ratio"},
    {"max_iters", "train.steps"},
    {"max_steps", "train.steps"},
    {"train_iters", "train.steps"},
    {"num_train_epochs", "train.steps"},
    {"warmup_iters", "train.warmup_steps"},
    {"lr_warmup_iters", "train.warmup_steps"},
    {"lr_decay_style", "train.schedule"},
    {"lr_scheduler_type", "train.schedule"},
    {"dropout_rate", "model.dropout"},
    {"add_bos_token", "data.add_bos"},
    {"block_size", "train.seq_len"},
    {"seq_length", "train.seq_len"},
    {"max_seq_length", "train.seq_len"},
    {"batch_size", "train.batch"},
    {"global_batch_size", "train.batch"},
    {"micro_batch_size", "train.micro_batch"},
    {"per_device_train_batch_size", "train.micro_batch"},
    {"gradient_accumulation_steps", "train.micro_batch"},
    {"grad_clip", "train.clip_norm"},
    {"clip_grad", "train.clip_norm"},
    {"max_grad_norm", "train.clip_norm"},
    {"max_norm", "train.clip_norm"},
    {"adam_beta1", "train.beta1"},
    {"adam_beta2", "train.beta2"},
    {"adam_eps", "train.eps"},
    {"adam_epsilon", "train.eps"},
    {"optim", "train.optimizer"},
    {"eval_interval", "train.validate_every"},
    {"eval_steps", "train.validate_every"},
    {"eval_iters", "train.validate_batches"},
    {"n_layer", "model.layers"},
    {"n_layers", "model.layers"},
    {"num_layers", "model.layers"},
    {"num_hidden_layers", "model.layers"},
    {"n_head", "model.heads"},
    {"n_heads", "model.heads"},
    {"num_heads", "model.heads"},
    {"num_attention_heads", "model.heads"},
    {"n_kv_heads", "model.kv_heads"},
    {"num_key_value_heads", "model.kv_heads"},
    {"num_query_groups", "model.kv_heads"},
    {"n_embd", "model.hidden"},
    {"dim", "model.hidden"},
    {"hidden_size", "model.hidden"},
    {"intermediate_size", "model.ffn"},
    {"ffn_hidden_size", "model.ffn"},
    {"vocab_size", "model.vocab"},
    {"n_positions", "model.max_seq_len"},
    {"max_position_embeddings", "model.max_seq_len"},
    {"torch_dtype", "model.dtype"},
    {"gradient_checkpointing", "model.recompute"},
    {"activation_checkpointing", "model.recompute"},
    {"out_dir", "job.output"},
    {"output_dir", "job.output"},
    {"save_steps", "checkpoint.every"},
    {"save_interval", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
    {"dataset", "data.path"},
    {"data_path", "data.path"},
    {"train_file", "data.path"},
    {"validation_file", "data.validation_path"},
    {"pipeline_model_parallel_size", "parallel.pipeline"},
    {"pipeline_parallel_degree", "parallel.pipeline"},
    {"data_parallel_replicate_degree", "parallel.data"},
};

}  // namespace

std::string nearest_key(std::string_view key) {
  auto leaf = [](std::string_view k) { return k.substr(k.rfind('.') + 1); };
  std::vector<std::string_view> keys;
  for (const auto& p : properties()) {
    if (leaf(p.key) == leaf(key)) return std::string(p.key);  // the right word in the wrong section
    keys.push_back(p.key);
  }
  for (const auto& [theirs, ours] : names_elsewhere)
    if (theirs == leaf(key)) return std::string(ours);
  // The section is most often right: compare the last words there before all keys.
  auto section = key.substr(0, key.size() - leaf(key).size());
  std::vector<std::string_view> leaves;
  for (const auto& p : properties())
    if (!section.empty() && p.key.size() - leaf(p.key).size() == section.size() &&
        p.key.starts_with(section))
      leaves.push_back(leaf(p.key));
  if (auto near = nearest(leaf(key), leaves); !near.empty()) return std::string(section) + near;
  return nearest(key, keys);
}

}  // namespace troupe::config

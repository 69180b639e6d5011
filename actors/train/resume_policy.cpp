// Key by key.
#include "actors/train/resume_policy.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/checkpoint/catalog.hpp"
#include "io/config/load.hpp"
#include "io/config/properties.hpp"

namespace troupe::train {

namespace {

/// Whether a difference in it says something of what is computed.
bool matters(std::string_view key) {
  constexpr std::array sections{"model.", "data.", "train.", "parallel."};
  constexpr std::array besides{"data.cache", "train.sample_prompt", "train.sample_tokens",
                               "model.init",  // first weights are of no use in a resumed run
                               "parallel.placement"};  // the layers themselves are compared
  if (key == "job.seed") return true;
  return std::any_of(sections.begin(), sections.end(),
                     [&](const char* s) { return key.starts_with(s); }) &&
         std::find(besides.begin(), besides.end(), key) == besides.end();
}

/// Keys that are the model's meaning: its tensors are of no use with others. Zero and "auto" are
/// settled by model.path: tensors are compared when they are read.
constexpr std::array shape_keys{"model.family",   "model.layers", "model.heads",
                                "model.kv_heads", "model.hidden", "model.ffn",
                                "model.vocab",    "model.tied",   "model.parallel_block"};

bool is_open(const std::string& value) {
  return value == "0" || value == "\"auto\"";
}

/// Whether the job reads ready tokens, as far as names tell: what is named as a folder, a pattern
/// without an ending and a Megatron dataset may be of either kind.
std::optional<bool> tokens_by_name(const config::data_section& d) {
  using config::data_format;
  if (d.format != data_format::automatic)
    return d.format != data_format::text && d.format != data_format::json;
  const auto end_in = [](const std::string& path, std::initializer_list<std::string_view> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](std::string_view end) { return path.ends_with(end); });
  };
  bool all_tokens = true;
  for (const auto& source : d.sources())
    for (const auto& path : source.path) {
      if (end_in(path, {"/", "*", "_document"})) return std::nullopt;
      all_tokens &= end_in(path, {".bin", ".idx"});
    }
  return all_tokens;
}

/// What is mixed and how; what sources are called does not matter.
std::string mix_text(const config::data_section& d) {
  std::string out;
  for (const auto& s : d.source) {
    out += fmt::format("{}[{}] x {:g}", out.empty() ? "" : ", ", fmt::join(s.path, ", "), s.weight);
    if (!s.text_field.empty() && s.text_field != d.text_field) out += " of " + s.text_field;
  }
  return out.empty() ? "none" : out;
}

error cannot_go_on(const std::string& before, const std::string& after, const std::string& why) {
  return {errc::bad_config, fmt::format("was {} until here and is {}: {}", before, after, why),
          "set it back; or begin anew from the weights alone: checkpoint.resume=never and the "
          "checkpoint as model.path"};
}

/// A key of the model's shape that is another.
struct shape_change {
  std::string key, before, after;
};

std::optional<shape_change> shape_change_of(std::string_view key, const config::job& was,
                                            const config::job& now) {
  if (std::find(shape_keys.begin(), shape_keys.end(), key) == shape_keys.end()) return {};
  auto before = config::value_text(key, was), after = config::value_text(key, now);
  if (before == after || is_open(before) || is_open(after)) return {};
  return shape_change{std::string(key), std::move(before), std::move(after)};
}

/// One model in place of another is one mistake, told by the first key: most others follow from it.
error another_model(const std::vector<shape_change>& changes) {
  const auto& first = changes.front();
  std::string why = "the checkpoint's tensors are of another model";
  if (changes.size() > 1) {
    std::vector<std::string> others;
    for (size_t i = 1; i < changes.size(); ++i) others.push_back(changes[i].key);
    why += fmt::format(" ({} more of its keys are others: {})", others.size(),
                       fmt::join(others, ", "));
  }
  return cannot_go_on(first.before, first.after, why);
}

/// Why going on with the new value means nothing, if it does not.
std::optional<error> senseless(std::string_view key, const config::job& was,
                               const config::job& now) {
  const auto before = config::value_text(key, was), after = config::value_text(key, now);
  const auto refused = [&](const char* why) { return cannot_go_on(before, after, why); };
  if (key == "model.max_seq_len" && was.model.family == model_family::gpt2 && !is_open(before) &&
      !is_open(after))
    return refused("gpt2 has a vector for each position, and the checkpoint has so many");
  if (key == "train.optimizer")
    return refused("the moments in the checkpoint are the other optimizer's");
  if (key == "data.tokenizer" && (was.data.tokenizer == "bytes") != (now.data.tokenizer == "bytes"))
    return refused("the same token would mean something else");
  return {};
}

/// RSM-6. Whoever gives other layers has given them to the nodes as they are listed.
void keep_stages_of(const config::job& was, config::job& job) {
  auto& parallel = job.parallel;
  const auto& before = was.parallel;
  if (parallel.pipeline != before.pipeline) return;
  if (parallel.layers.empty()) {
    parallel.layers = before.layers;
    if (!parallel.layers.empty()) parallel.placement = config::stage_placement::even;
  }
  if (!parallel.nodes.empty() || before.nodes.empty()) return;
  if (parallel.stage_layers() != before.stage_layers()) return;
  auto ordered = job;
  ordered.parallel.nodes = before.nodes;
  if (ordered.order_nodes()) job = std::move(ordered);
}

}  // namespace

resumption resume_policy(const config::job& job, const checkpoint::train_state& saved) {
  resumption out{job, {}, {}};
  for (const auto& s : saved.set) {  // RSM-1
    if (config::find_property(s.key) == nullptr || config::value_text(s.key, job) != s.was)
      continue;
    auto with = config::amend(out.job, fmt::format("{}={}", s.key, s.value));
    if (!with) continue;  // it fits no longer: the difference is said below
    out.job = std::move(*with);
    out.set.push_back(s);
    out.found.remarks.push_back(fmt::format("{} stays {}, set from step {} on; the file says {}",
                                            s.key, s.value, s.step, s.was));
  }
  auto was = config::parse(saved.config_toml, "the checkpoint's configuration");
  if (!was) {
    out.found.remarks.push_back(
        fmt::format("warning: what has changed since step {} is not known: {}", saved.step,
                    was.error().message));
    return out;
  }
  for (const auto& s : saved.set)  // those that no step has used yet
    if (auto with = config::amend(*was, fmt::format("{}={}", s.key, s.value)))
      was = std::move(*with);
  const auto made_with = was->parallel.data;
  if (saved.replicas_configured > 0) was->parallel.data = saved.replicas_configured;  // RSM-5
  if (made_with != was->parallel.data)
    out.found.remarks.push_back(fmt::format("step {} was made with {} of {} replicas", saved.step,
                                            made_with, was->parallel.data));
  keep_stages_of(*was, out.job);
  const auto& parallel = out.job.parallel;
  if (parallel.layers.empty() || parallel.stage_layers() == was->parallel.stage_layers())
    was->parallel.layers = parallel.layers;
  std::vector<shape_change> reshaped;
  for (const auto& p : config::properties()) {  // RSM-2
    const auto before = config::value_text(p.key, *was), after = config::value_text(p.key, out.job);
    if (!matters(p.key) || before == after) continue;
    if (auto change = shape_change_of(p.key, *was, out.job))
      reshaped.push_back(std::move(*change));
    else if (auto why = senseless(p.key, *was, out.job))
      out.found.refuse(std::string(p.key), std::move(*why));
    else
      out.found.remarks.push_back(
          fmt::format("since step {}: {} {} -> {}", saved.step, p.key, before, after));
  }
  if (!reshaped.empty()) out.found.refuse(reshaped.front().key, another_model(reshaped));
  const auto mix_before = mix_text(was->data), mix_after = mix_text(out.job.data);
  if (mix_before != mix_after)
    out.found.remarks.push_back(fmt::format(
        "since step {}: data.source {} -> {}{}", saved.step, mix_before, mix_after,
        out.job.data.source.empty() ? "" : "; each source goes on where this mix would have come"));
  const auto was_tokens = tokens_by_name(was->data), are_tokens = tokens_by_name(out.job.data);
  if (was_tokens && are_tokens && *was_tokens != *are_tokens)
    out.found.refuse(
        "data.path",
        {errc::bad_config,
         fmt::format("{} until here and {} now: the same token may mean something "
                     "else",
                     *was_tokens ? "token files" : "text", *was_tokens ? "text" : "token files"),
         "go on with the same kind of data, or begin anew: checkpoint.resume=never"});
  return out;
}

uint64_t first_row_after(uint64_t tokens, int64_t seq_len) {
  return tokens / static_cast<uint64_t>(seq_len);
}

bool lies_in_place(const std::filesystem::path& checkpoint, const config::checkpoint_section& job) {
  const auto name = checkpoint.filename();
  const auto what = io::checkpoint::parse_folder_name(name.string());
  if (!what || what->state != io::checkpoint::folder_state::complete) return false;
  const auto is_in = [&](const std::string& dir) {
    return !dir.empty() && checkpoint == std::filesystem::path(dir) / name;
  };
  return is_in(job.dir) || is_in(job.second.dir);
}

}  // namespace troupe::train

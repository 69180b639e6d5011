// Names and state files of checkpoints.
#include "actors/checkpoint/catalog.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/formats/manifest.hpp"

namespace troupe::checkpoint {

namespace {

constexpr int format_version = 1;
constexpr size_t max_state_bytes = 4 << 20;
constexpr std::string_view state_name = "train_state.json";
constexpr std::string_view partial_suffix = ".partial";

std::optional<uint64_t> step_of(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto digits = std::string_view(name).substr(prefix.size());
  if (digits.size() < 8 || digits.size() > 18 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  uint64_t step = 0;
  for (char c : digits) step = step * 10 + static_cast<uint64_t>(c - '0');
  return step;
}

}  // namespace

std::string folder_name(uint64_t step) {
  return fmt::format("step-{:08}", step);
}
std::string partial_name(uint64_t step) {
  return folder_name(step) + std::string(partial_suffix);
}

std::vector<entry> list(const std::filesystem::path& dir) {
  std::vector<entry> out;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(dir, ignored)) {
    const auto step = step_of(item.path().filename().string());
    if (step && is_checkpoint(item.path())) out.push_back({item.path(), *step});  // CAT-1
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return out;
}

std::string format_state(const train_state& state) {
  return nlohmann::json{{"format", format_version},
                        {"step", state.step},
                        {"tokens", state.tokens},
                        {"loss", state.loss},
                        {"config", state.config_toml}}
      .dump(1);
}

result<train_state> parse_state(std::string_view text) {
  const auto j = nlohmann::json::parse(text, nullptr, false);
  auto wrong = [](std::string_view what) {
    return error{errc::bad_data, fmt::format("train_state.json: {}", what)};
  };
  if (!j.is_object()) return wrong("not a JSON object");
  auto number = [&](const char* key) { return j.contains(key) && j[key].is_number_unsigned(); };
  if (!number("format") || j["format"] != format_version)
    return error{errc::version_mismatch, "train_state.json: another format",
                 "it was written by another version of Troupe"};
  if (!number("step") || !number("tokens")) return wrong("step or tokens is missing");
  if (!j.contains("config") || !j["config"].is_string()) return wrong("config is missing");
  train_state state;
  state.step = j["step"];
  state.tokens = j["tokens"];
  if (j.contains("loss") && j["loss"].is_number()) state.loss = j["loss"];
  state.config_toml = j["config"];
  return state;
}

result<train_state> read_state_file(const std::filesystem::path& checkpoint) {
  TROUPE_TRY(text, io::read_file(checkpoint / state_name, max_state_bytes));
  return parse_state(text);
}

bool is_checkpoint(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (folder.empty()) return false;
  return std::filesystem::exists(folder / state_name, ignored) ||
         std::filesystem::exists(folder / io::manifest_name, ignored);
}

status verify(const std::filesystem::path& checkpoint, part read) {
  auto wanted = [read](std::string_view name) {
    return read == part::all || !name.starts_with("optimizer");
  };
  auto sound = io::verify_manifest(checkpoint, wanted);
  if (sound) return {};
  auto e = sound.error();
  if (e.code == errc::not_found)
    e = {errc::bad_data, fmt::format("{} has no {}", checkpoint.string(), io::manifest_name)};
  e.hint =
      "use another checkpoint: to resume, name one in checkpoint.resume or take this folder away";
  return e;
}

result<std::vector<std::string>> remove_partial(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(dir, ignored)) {
    const auto name = item.path().filename().string();
    if (!name.ends_with(partial_suffix)) continue;
    if (step_of(name.substr(0, name.size() - partial_suffix.size()))) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const auto& name : names) {
    std::error_code code;
    std::filesystem::remove_all(dir / name, code);
    if (code) return error::system(fmt::format("remove {}", (dir / name).string()), code.value());
  }
  return names;
}

result<std::optional<entry>> resume_from(const std::string& resume,
                                         const std::filesystem::path& dir) {
  if (resume == "never") return std::optional<entry>{};
  if (resume == "auto") {
    auto all = list(dir);
    if (all.empty()) return std::optional<entry>{};
    TROUPE_CHECK(verify(all.back().path, part::all));  // CAT-2
    return std::optional<entry>(all.back());
  }
  if (!is_checkpoint(resume))
    return error{errc::not_found, fmt::format("checkpoint.resume: {} is no checkpoint", resume),
                 "name a step-NNNNNNNN folder, or use \"auto\" or \"never\""};
  TROUPE_CHECK(verify(resume, part::all));
  TROUPE_TRY(state, read_state_file(resume));
  return std::optional<entry>(entry{resume, state.step});
}

std::vector<entry> expired(std::vector<entry> all, int64_t keep) {
  if (keep <= 0 || static_cast<int64_t>(all.size()) <= keep) return {};
  all.resize(all.size() - static_cast<size_t>(keep));
  return all;
}

}  // namespace troupe::checkpoint

// `ckpt ls`, `ckpt show`, `ckpt gc`: what folders and manifests say, without reading tensors.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/ckpt/verbs.hpp"
#include "apps/talk.hpp"
#include "apps/up/folders.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "io/base/text.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/reader.hpp"

namespace troupe::apps::ckpt {

namespace cp = io::checkpoint;
using json = nlohmann::ordered_json;

namespace {

const char* state_text(const cp::catalog_entry& e) {
  switch (e.name.state) {
    case cp::folder_state::partial:
      return "partial";
    case cp::folder_state::deleting:
      return "deleting";
    case cp::folder_state::aside:
      return e.problem ? "set aside, unreadable" : "set aside";
    case cp::folder_state::complete:
      break;
  }
  return e.problem ? "unreadable" : "complete";
}

json facts_of(const cp::manifest_head& h) {
  json j;
  j["job"] = h.job;
  j["step"] = h.step;
  j["epoch"] = h.epoch;
  j["data_ranks"] = h.layout.data;
  j["pipeline_ranks"] = h.layout.pipeline;
  j["slot_bytes"] = h.slot_bytes;
  j["tokens"] = h.tokens;
  j["loss"] = h.loss;
  j["validation_loss"] = h.validation_loss ? json(*h.validation_loss) : json(nullptr);
  j["wall_time_ms"] = h.wall_time_ms;
  const auto line = cp::line_of(h);
  j["line"] = cp::name_of(line);
  j["launches"] = json::array();
  for (const auto& l : line)
    j["launches"].push_back({{"launch", fmt::format("{:016x}", l.launch)}, {"step", l.step}});
  return j;
}

json facts_of(const cp::catalog_entry& e) {
  json j;
  j["path"] = e.path.string();
  j["state"] = state_text(e);
  j["step"] = e.name.step;
  j["bytes"] = e.bytes;
  j["held"] = json::array();
  for (const auto& h : e.holds) j["held"].push_back({{"by", h.by}, {"reason", h.reason}});
  if (e.head) j.update(facts_of(*e.head));
  if (e.name.epoch) j["epoch"] = *e.name.epoch;
  if (e.problem) j["problem"] = e.problem->message;
  return j;
}

std::string line_of(const cp::catalog_entry& e) {
  const auto loss = [](std::optional<double> value) {
    return value ? fmt::format("{:.4f}", *value) : std::string("-");
  };
  const auto& h = e.head;
  const auto epoch = h ? std::optional(h->epoch) : e.name.epoch;
  auto line = fmt::format("{:>10} {:>8} {:>6} {:>10} {:>9} {:>9} {:>9}  {:<19}  {}", e.name.step,
                          h && !h->line.empty() ? cp::name_of(h->line).substr(0, 8) : "-",
                          epoch ? fmt::to_string(*epoch) : "-", bytes_text(e.bytes),
                          h ? fmt::format("{}x{}", h->layout.data, h->layout.pipeline) : "-",
                          loss(h ? std::optional(h->loss) : std::nullopt),
                          loss(h ? h->validation_loss : std::nullopt),
                          time_text(h ? h->wall_time_ms : 0), state_text(e));
  for (const auto& held : e.holds)
    line += fmt::format(", held by {}{}", held.by,
                        held.reason.empty() ? "" : ": " + printable(held.reason));
  if (e.problem) line += ": " + e.problem->message;
  return line + "\n";
}

json tensor_facts(const cp::manifest& m, const cp::tensor_entry& t) {
  json j;
  j["name"] = t.name;
  j["shape"] = t.shape;
  j["transposed"] = t.transposed;
  for (const auto& p : t.parts) {
    json slices = json::array();
    for (const auto& s : p.slices)
      slices.push_back({{"file", m.files[s.file].name},
                        {"first", s.first},
                        {"count", s.count},
                        {"offset", s.stream_offset}});
    j["parts"][std::string(cp::to_string(p.which))] = {{"dtype", io::to_string(p.type)},
                                                       {"slices", slices}};
  }
  return j;
}

json manifest_facts(const cp::manifest& m) {
  json j{{"format", json_format}};
  j.update(facts_of(m.head));
  j["files"] = json::array();
  for (const auto& f : m.files) {
    json file{{"name", f.name}, {"bytes", f.bytes}, {"crc32c", fmt::format("{:08x}", f.crc32c)}};
    if (f.shard) file.update({{"rank", f.rank}, {"stream_bytes", f.stream_bytes}});
    j["files"].push_back(std::move(file));
  }
  j["tensors"] = json::array();
  for (const auto& t : m.tensors) j["tensors"].push_back(tensor_facts(m, t));
  return j;
}

/// "0123456789abcdef, 3 launches".
std::string line_text(const cp::manifest_head& h) {
  if (h.line.empty()) return "none: from before lines were written";
  return fmt::format("{}, {}", cp::name_of(h.line), counted(h.line.size(), "launch", "launches"));
}

std::string manifest_text(const cp::manifest& m, bool tensors) {
  const auto& h = m.head;
  uint64_t elements = 0, bytes = 0;
  for (const auto& t : m.tensors) elements += t.elements();
  for (const auto& f : m.files) bytes += f.bytes;
  auto text = fmt::format(
      "job          {}\nstep         {}\nline         {}\nepoch        {}\nsaved        {}\n"
      "layout       {} data x {} pipeline\ntokens       {}\nloss         {:.6f}\n"
      "validation   {}\nparameters   {} in {}\nsize         {} in {}, slots of {}\n",
      h.job, h.step, line_text(h), h.epoch, time_text(h.wall_time_ms), h.layout.data,
      h.layout.pipeline, h.tokens, h.loss,
      h.validation_loss ? fmt::format("{:.6f}", *h.validation_loss) : "-", elements,
      counted(m.tensors.size(), "tensor"), bytes_text(bytes), counted(m.files.size(), "file"),
      bytes_text(h.slot_bytes));
  for (const auto& f : m.files)
    text += fmt::format("file         {:<28} {:>10}\n", f.name, bytes_text(f.bytes));
  if (!tensors) return text;
  for (const auto& t : m.tensors) {
    std::string parts;
    for (const auto& p : t.parts)
      parts += fmt::format(" {} {} in {}", cp::to_string(p.which), io::to_string(p.type),
                           p.slices.size());
    text += fmt::format("tensor       {} [{}]{}\n", t.name, fmt::join(t.shape, ", "), parts);
  }
  return text;
}

/// Nobody saves into the folder while it is looked through and removed from; to look alone needs no
/// lock, and a folder that is not there has nothing to remove.
result<std::optional<io::folder_lock>> hold_for_removal(const arguments& a) {
  std::optional<io::folder_lock> held;
  std::error_code ignored;
  if (a.dry_run || !std::filesystem::is_directory(a.path, ignored)) return held;
  TROUPE_TRY(lock, take_folder(a.path, io::this_process("ckpt gc"), claim_of(a.break_lock)));
  held.emplace(std::move(lock));
  return held;
}

}  // namespace

std::string text_of(const json& j) {
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string time_text(uint64_t ms_since_1970) {
  if (ms_since_1970 == 0) return "-";
  const auto seconds = static_cast<std::time_t>(ms_since_1970 / 1000);
  std::tm parts{};
  char text[32] = "-";
  if (gmtime_r(&seconds, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::filesystem::path checkpoints_at(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto of_run = path / "checkpoints";
  return std::filesystem::is_directory(of_run, ignored) ? of_run : path;
}

result<std::filesystem::path> find(const std::string& path) {
  std::error_code ignored;
  const auto named = checkpoints_at(path);
  if (std::filesystem::exists(named / cp::manifest_file, ignored)) return named;
  TROUPE_TRY(all, cp::list(named));
  if (const auto* tip = cp::tip_of(all)) return tip->path;
  for (const auto& e : all)
    if (e.name.state == cp::folder_state::complete) return e.path;  // damaged: the verb says how
  return error{errc::not_found, fmt::format("{} is not a checkpoint and contains none", path),
               "name a step-NNNNNNNN folder, the folder they lie in, or a run's (runs/NAME)"};
}

result<int> list(const arguments& a) {
  const auto folder = checkpoints_at(a.path).string();
  TROUPE_TRY(all, cp::list(folder));
  std::error_code ignored;
  if (all.empty() && !std::filesystem::exists(a.path, ignored))
    return error{errc::not_found, fmt::format("{} is not there", a.path),
                 "name the folder of a run (runs/NAME), or one of checkpoints"};
  if (a.json) {
    json j{{"format", json_format}, {"directory", folder}, {"checkpoints", json::array()}};
    for (const auto& e : all) j["checkpoints"].push_back(facts_of(e));
    TROUPE_CHECK(print(text_of(j)));
    return 0;
  }
  if (all.empty()) {
    say(fmt::format("{} holds no checkpoints", folder));
    return 0;
  }
  auto text =
      fmt::format("{:>10} {:>8} {:>6} {:>10} {:>9} {:>9} {:>9}  {:<19}  {}\n", "step", "line",
                  "epoch", "size", "data x pp", "loss", "val loss", "saved (UTC)", "state");
  for (const auto& e : all) text += line_of(e);
  TROUPE_CHECK(print(text));
  return 0;
}

result<int> show(const arguments& a) {
  TROUPE_TRY(path, find(a.path));
  TROUPE_TRY(r, cp::reader::open(path));
  TROUPE_CHECK(
      print(a.json ? text_of(manifest_facts(r.content())) : manifest_text(r.content(), a.all)));
  return 0;
}

result<int> hold(const arguments& a) {
  TROUPE_TRY(path, find(a.path));
  TROUPE_CHECK(cp::add_hold(path, {a.by, a.reason}));
  say(fmt::format("{} is held by {}: {}", path.string(), a.by, printable(a.reason, 80)));
  return 0;
}

result<int> release(const arguments& a) {
  TROUPE_TRY(path, find(a.path));
  TROUPE_CHECK(cp::release_hold(path, a.by));
  say(fmt::format("{} is not held by {} any more", path.string(), a.by));
  return 0;
}

result<int> collect(const arguments& a) {
  TROUPE_TRY(held, hold_for_removal(a));
  TROUPE_TRY(all, cp::list(a.path));
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  const auto* tip = cp::tip_of(all);
  const cp::standing known{
      tip ? cp::line_of(*tip->head) : cp::lineage{},
      [](const cp::catalog_entry& e) { return static_cast<bool>(cp::verify_all(e.path)); }};
  const auto doomed = cp::plan_removal(all, a.rules, known, now);
  json removed = json::array(), kept = json::array();
  std::string text;
  uint64_t bytes = 0;
  for (const auto& d : doomed) {
    auto& files = io::local_files();
    const auto gone = a.dry_run ? cp::check_removal(files, d) : cp::remove(files, d);
    const auto code = gone ? errc::none : gone.error().code;
    if (!gone && code != errc::permission && code != errc::unavailable) return gone.error();
    if (!gone) {
      kept.push_back({{"path", d.path.string()}, {"why", gone.error().message}});
      text += fmt::format("{:>10}  {} stays: {}\n", "-", d.path.string(), gone.error().message);
      continue;
    }
    bytes += d.bytes;
    removed.push_back({{"path", d.path.string()}, {"bytes", d.bytes}, {"why", d.why}});
    text += fmt::format("{:>10}  {}: {}\n", bytes_text(d.bytes), d.path.string(), d.why);
  }
  json j{{"format", json_format},
         {"dry_run", a.dry_run},
         {"bytes", bytes},
         {"removed", removed},
         {"kept", kept}};
  TROUPE_CHECK(print(a.json ? text_of(j) : text));
  say(fmt::format("{} {}, {}", a.dry_run ? "would remove" : "removed",
                  counted(removed.size(), "folder"), bytes_text(bytes)));
  return 0;
}

}  // namespace troupe::apps::ckpt

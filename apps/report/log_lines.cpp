// Plain structs to JSON; what others said is made valid UTF-8.
#include "apps/report/log_lines.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/report/text.hpp"

namespace troupe::report {

namespace {

using nlohmann::ordered_json;

ordered_json line_of_type(const char* type, double unix_s) {
  return {{"type", type}, {"unix_s", unix_time(unix_s)}};
}

std::string written(const ordered_json& line) {
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// What stands behind "epoch": in a line of this program; none if it does not.
std::string_view epoch_in(std::string_view line) {
  constexpr std::string_view key = R"("epoch":)";
  const auto at = line.find(key);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find_first_not_of("0123456789"));
}

}  // namespace

std::string start_json(const run_start& s) {
  auto j = line_of_type("start", s.unix_s);
  j["job"] = s.job;
  j["version"] = s.version;
  j["epoch"] = s.epoch;
  j["step"] = s.step;
  j["steps"] = s.steps;
  j["layout"] = {
      {"nodes", s.nodes}, {"workers", s.workers}, {"data", s.data}, {"pipeline", s.pipeline}};
  j["hosts"] = s.hosts;
  auto& machine = j["machine"];
  machine["host"] = s.machine.name;
  if (!s.machine.processor.empty()) machine["processor"] = s.machine.processor;
  if (s.machine.cores > 0) machine["cores"] = s.machine.cores;
  if (s.machine.memory_bytes > 0) machine["memory_bytes"] = s.machine.memory_bytes;
  for (const auto& [name, version] : s.versions) j["versions"][name] = version;
  if (s.previous_ended) j["previous_ended"] = *s.previous_ended;
  auto settings = ordered_json::parse(s.configuration, nullptr, false);
  if (settings.is_object()) j["configuration"] = std::move(settings);
  return written(j);
}

std::string node_json(const run_node& n) {
  auto j = line_of_type("node", n.unix_s);
  j["epoch"] = n.epoch;
  j["node"] = n.node;
  if (n.is_spare) j["spare"] = true;
  if (!n.host.empty()) j["host"] = n.host;
  if (!n.processor.empty()) j["processor"] = n.processor;
  if (n.cores > 0) j["cores"] = n.cores;
  if (n.memory_bytes > 0) j["memory_bytes"] = n.memory_bytes;
  if (!n.gpus.empty()) j["gpus"] = n.gpus;
  if (!n.gpu_driver.empty()) j["gpu_driver"] = n.gpu_driver;
  return written(j);
}

std::string_view to_string(end_reason reason) {
  constexpr std::array<std::string_view, 6> words{"done",  "stopped",  "signal",
                                                  "error", "replaced", "again"};
  return words[static_cast<size_t>(reason)];
}

std::string end_json(const run_over& e) {
  auto j = line_of_type("end", e.unix_s);
  j["epoch"] = e.epoch;
  j["step"] = e.step;
  j["seconds"] = finite_or_null(e.seconds);
  j["reason"] = to_string(e.reason);
  if (e.code) j["code"] = *e.code;
  if (!e.text.empty()) j["text"] = e.text;
  return written(j);
}

std::optional<bool> has_end(std::string_view tail) {
  std::optional<bool> out;
  std::string_view begun;  // the epoch of the last start that was seen
  while (!tail.empty()) {
    const auto line = tail.substr(0, tail.find('\n'));
    tail.remove_prefix(std::min(tail.size(), line.size() + 1));
    constexpr std::string_view begins = R"({"type":")";
    if (!line.starts_with(begins)) continue;
    const auto type = line.substr(begins.size(), line.find('"', begins.size()) - begins.size());
    // A head that is replaced may say so behind the start of its successor.
    if (type == "end" && (begun.empty() || epoch_in(line) == begun)) out = true;
    if (type == "start") begun = epoch_in(line);
    // What is warned of behind an end is no launch.
    if (type == "start" || type == "step" || type == "resume") out = false;
  }
  return out;
}

std::string resume_json(const run_resumed& r) {
  auto j = line_of_type("resume", r.unix_s);
  j["step"] = r.step;
  j["epoch"] = r.epoch;
  if (!r.checkpoint.empty()) j["checkpoint"] = r.checkpoint;
  if (!r.why.empty()) j["why"] = r.why;
  return written(j);
}

std::string set_json(const run_setting& s) {
  auto j = line_of_type("set", s.unix_s);
  j["key"] = s.key;
  j["value"] = s.value;
  j["who"] = s.who;
  if (s.first_step > 0) j["step"] = s.first_step;
  return written(j);
}

std::string set_text(const run_setting& s) {
  return fmt::format("{} = {}{} ({})", s.key, s.value,
                     s.first_step > 0 ? fmt::format(" from step {} on", s.first_step) : "", s.who);
}

std::string warning_json(double unix_s, int64_t step, const std::string& text) {
  auto j = line_of_type("warning", unix_s);
  j["step"] = step;
  j["text"] = text;
  return written(j);
}

std::string layers_json(double unix_s, const std::string& layers, const std::string& text) {
  auto j = line_of_type("layers", unix_s);
  j["layers"] = layers;
  j["text"] = text;
  return written(j);
}

std::string validation_json(double unix_s, int64_t step, int64_t epoch, double loss) {
  auto j = line_of_type("validation", unix_s);
  j["step"] = step;
  j["epoch"] = epoch;
  j["validation_loss"] = finite_or_null(loss);
  return written(j);
}

std::string validation_line(int64_t step, double loss) {
  return fmt::format("step {} | validation {}", step, fixed(loss, 3));
}

bool begins_log(const std::string& line) {
  const auto j = nlohmann::json::parse(line, nullptr, false);
  if (j.is_discarded())
    return line.starts_with(R"({"type":"start",)") && line.find(R"("job":)") != line.npos &&
           line.find(R"("version":)") != line.npos;
  if (!j.is_object() || !j.contains("type") || !j.contains("step")) return false;
  const auto& type = j["type"];  // of whatever kind
  return (type == "step" && j.contains("loss")) ||
         (type == "start" && j.contains("job") && j.contains("version"));
}

}  // namespace troupe::report

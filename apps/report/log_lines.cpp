// Plain structs to JSON; what others said is made valid UTF-8.
#include "apps/report/log_lines.hpp"

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
  auto settings = ordered_json::parse(s.configuration, nullptr, false);
  if (settings.is_object()) j["configuration"] = std::move(settings);
  return written(j);
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

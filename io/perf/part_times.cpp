// Lines of times: see part_times.hpp.
#include "io/perf/part_times.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/error_kind.hpp"
#include "io/file.hpp"
#include "io/formats/json_text.hpp"
#include "io/perf/summed_lines.hpp"

namespace troupe::io::perf {

namespace {

constexpr int part_line_version = 1;
constexpr summed_file part_file{most_part_times, max_part_time_bytes};

/// No part takes as long, nor is a number of its configuration as large.
constexpr double part_range_s = 1e7, shortest_part_s = 1e-12, feature_range = 1e18;
constexpr size_t features_read = 32;
constexpr double samples_range = 1e15;
/// Of numbers that name something: other programs read them as doubles.
constexpr uint64_t name_range = uint64_t{1} << 53;

/// More names than that are taken by nobody but a fault of ours.
constexpr int names_tried = 1000;

bool is_within(double x, double least, double most) {
  return std::isfinite(x) && x >= least && x <= most;
}

std::optional<std::vector<double>> part_features(const nlohmann::json& j) {
  const auto it = j.find("features");
  if (it == j.end() || !it->is_array() || it->size() > features_read) return std::nullopt;
  std::vector<double> out;
  for (const auto& number : *it) {
    if (!number.is_number()) return std::nullopt;
    out.push_back(number.get<double>());
    if (!(out.back() > 0) || !is_within(out.back(), 0, feature_range)) return std::nullopt;
  }
  return out;
}

std::optional<std::string> part_name(const nlohmann::json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_string()) return std::nullopt;
  auto name = it->get<std::string>();
  if (name.size() > part_name_bytes) return std::nullopt;
  return name;
}

/// Empty where it is not there: an earlier release's line, or a machine that says nothing. PTM-1.
std::optional<std::string> part_print(const nlohmann::json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end()) return std::string();
  if (!it->is_string()) return std::nullopt;
  auto text = it->get<std::string>();
  if (text.empty() || !is_print_text(text)) return std::nullopt;
  return text;
}

double part_number(const nlohmann::json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : std::nan("");
}

/// Not known where it is not there, or is none that we write.
uint64_t naming_number(const nlohmann::json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_number_unsigned()) return 0;
  const auto number = it->get<uint64_t>();
  return number < name_range ? number : 0;
}

}  // namespace

std::string part_time_line(const part_time& time) {
  nlohmann::ordered_json j{{"v", part_line_version},
                           {"part", time.part.substr(0, part_name_bytes)},
                           {"node", time.node.substr(0, part_name_bytes)},
                           {"seconds", time.seconds},
                           {"samples", time.samples},
                           {"features", time.features}};
  if (time.machine.is_known()) j["machine"] = time.machine.kind;
  if (time.machine.is_known() && !time.machine.gpu_ids.empty()) j["gpu_ids"] = time.machine.gpu_ids;
  if (time.run > 0 && time.run < name_range) j["run"] = time.run;
  if (time.work_sum > 0 && time.work_sum < name_range) j["work_sum"] = time.work_sum;
  return summed_line(j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

/// PTM-1.
std::optional<part_time> parse_part_time(std::string_view line) {
  const auto text = summed_text(line, max_part_time_bytes);
  if (text.empty()) return std::nullopt;
  const auto j = parse_json(text, 2);
  if (!j || !j->is_object() || part_number(*j, "v") != part_line_version) return std::nullopt;
  auto part = part_name(*j, "part"), node = part_name(*j, "node");
  auto machine = part_print(*j, "machine"), gpu_ids = part_print(*j, "gpu_ids");
  auto features = part_features(*j);
  const auto seconds = part_number(*j, "seconds"), samples = part_number(*j, "samples");
  if (!machine || !gpu_ids || (machine->empty() && !gpu_ids->empty())) return std::nullopt;
  if (!part || !node || !features || !is_within(seconds, shortest_part_s, part_range_s) ||
      !is_within(samples, 1, samples_range))
    return std::nullopt;
  return part_time{std::move(*part),
                   std::move(*node),
                   std::move(*features),
                   seconds,
                   static_cast<uint64_t>(samples),
                   {std::move(*machine), std::move(*gpu_ids)},
                   naming_number(*j, "run"),
                   naming_number(*j, "work_sum")};
}

result<part_times> read_part_times(const std::filesystem::path& file) {
  TROUPE_TRY(lines, read_summed_lines(file, part_file));
  part_times out;
  for (const auto& line : lines)
    if (auto time = parse_part_time(line))
      out.times.push_back(std::move(*time));
    else
      ++out.left_out;
  return out;
}

status check_part_times(const std::filesystem::path& file) {
  TROUPE_CHECK(read_summed_lines(file, part_file));
  return {};
}

status add_part_times(const std::filesystem::path& file, std::span<const part_time> times) {
  std::vector<std::string> lines;
  for (const auto& t : times) lines.push_back(part_time_line(t));
  return add_summed_lines(file, part_file, lines);
}

result<size_t> forget_part_times(const std::filesystem::path& file, std::string_view node) {
  return drop_summed_lines(file, part_file, [&](std::string_view line) {
    const auto time = parse_part_time(line);
    return time && time->node == node;
  });
}

/// PTM-2.
result<std::filesystem::path> put_part_times_aside(const std::filesystem::path& file) {
  for (int i = 0; i < names_tried; ++i) {
    auto name = file;
    name += i == 0 ? ".damaged" : fmt::format(".damaged{}", i + 1);
    TROUPE_TRY(moved, rename_to_free(file, name));
    if (moved) return name;
  }
  return error{errc::io, fmt::format("no name is free to put {} aside", file.string())};
}

}  // namespace troupe::io::perf

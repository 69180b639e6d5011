// Lines with sums, and medians of them: see past_runs.hpp.
#include "io/perf/past_runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/median.hpp"
#include "io/formats/json_text.hpp"
#include "io/perf/summed_lines.hpp"

namespace troupe::io::perf {

namespace fs = std::filesystem;

namespace {

using json = nlohmann::ordered_json;

constexpr int line_version = 1;
constexpr summed_file past_file{most_past_runs, max_past_run_bytes};
/// No step takes as long, nor does as much; no text is as long.
constexpr double step_range_s = 1e7, largest_flops = 1e30;
constexpr size_t text_bytes = 1024;
constexpr double shortest_step_s = 1e-9;
/// Of a shape: how many, and how large each may be.
constexpr size_t shape_numbers = 32;
constexpr double shape_range = 1e15;

/// Runs of the same work that say how much they differ; fewer are given an interval of their own.
constexpr size_t enough_runs = 3;
constexpr size_t newest_runs = 16;  ///< older ones were another program's
/// No estimate is surer: what a machine does beside differs from day to day.
constexpr double surest = 0.03, sure_of_few = 0.1;

std::optional<double> run_number(const nlohmann::json& j, const char* key, double most) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_number()) return std::nullopt;
  const auto value = it->get<double>();
  if (!std::isfinite(value) || value < 0 || value > most) return std::nullopt;
  return value;
}

std::optional<std::string> run_text(const nlohmann::json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_string()) return std::nullopt;
  auto value = it->get<std::string>();
  if (value.size() > text_bytes) return std::nullopt;
  return value;
}

/// Numbers above 0; none where the line is of a program that kept none.
std::optional<std::vector<double>> run_shape(const nlohmann::json& j) {
  const auto it = j.find("shape");
  if (it == j.end()) return std::vector<double>{};
  if (!it->is_array() || it->size() > shape_numbers) return std::nullopt;
  std::vector<double> out;
  for (const auto& number : *it) {
    if (!number.is_number()) return std::nullopt;
    out.push_back(number.get<double>());
    if (!(out.back() > 0) || out.back() > shape_range) return std::nullopt;
  }
  return out;
}

/// Two-sided, 95 %, by degrees of freedom from 2 on: Student's t.
double t_of(size_t freedom) {
  constexpr std::array<double, 14> t{4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                     2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
  return t[std::min(std::max<size_t>(freedom, 2), t.size() + 1) - 2];
}

past_estimate of_same_work(std::span<const past_run* const> runs) {
  past_estimate out;
  std::vector<double> medians;
  double within = 0;  // of one run, on a logarithmic scale
  for (const auto* r : runs) {
    medians.push_back(r->median_s);
    out.steps += r->steps;
    within =
        std::max({within, std::log(r->high_s / r->median_s), std::log(r->median_s / r->low_s)});
  }
  out.runs = medians.size();
  out.step_s = upper_median(medians);
  double sure = std::max(sure_of_few, within);
  if (out.runs >= enough_runs) {
    double squares = 0;
    for (const double m : medians) squares += std::pow(std::log(m / out.step_s), 2);
    const auto n = static_cast<double>(out.runs);
    // Of one more run: its own deviation, and that of the middle of these.
    sure = std::max(surest, t_of(out.runs - 1) * std::sqrt(squares / (n - 1) * (1 + 1 / n)));
  }
  out.least_s = out.step_s * std::exp(-sure);
  out.most_s = out.step_s * std::exp(sure);
  return out;
}

}  // namespace

std::string past_run_line(const past_run& run) {
  const auto cut = [](const std::string& text) { return text.substr(0, text_bytes / 2); };
  const json j{{"v", line_version},
               {"unix_s", run.unix_s},
               {"job", cut(run.job)},
               {"machine", cut(run.machine)},
               {"work", cut(run.work)},
               {"flops", run.flops},
               {"expected_s", run.expected_s},
               {"steps", run.steps},
               {"median_s", run.median_s},
               {"low_s", run.low_s},
               {"high_s", run.high_s},
               {"shape", run.shape}};
  return summed_line(j.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::optional<past_run> parse_past_run(std::string_view line) {
  const auto text = summed_text(line, max_past_run_bytes);
  if (text.empty()) return std::nullopt;
  const auto j = parse_json(text, 2);
  if (!j || !j->is_object() || run_number(*j, "v", 1e9) != line_version) return std::nullopt;
  const auto job = run_text(*j, "job");
  const auto machine = run_text(*j, "machine");
  const auto work = run_text(*j, "work");
  const auto seconds = [&](const char* key) { return run_number(*j, key, step_range_s); };
  const auto unix_s = run_number(*j, "unix_s", 1e12), steps = run_number(*j, "steps", 1e15);
  const auto flops = run_number(*j, "flops", largest_flops);
  const auto expected = seconds("expected_s"), median = seconds("median_s");
  const auto low = seconds("low_s"), high = seconds("high_s");
  auto shape = run_shape(*j);
  if (!shape || !job || !machine || !work || !unix_s || !flops || !expected || !steps || !median ||
      !low || !high)
    return std::nullopt;
  if (*flops < 1 || *low < shortest_step_s || *low > *median || *median > *high)
    return std::nullopt;
  return past_run{*unix_s,
                  *job,
                  *machine,
                  *work,
                  *flops,
                  *expected,
                  static_cast<uint64_t>(*steps),
                  *median,
                  *low,
                  *high,
                  std::move(*shape)};
}

result<past_runs> read_past_runs(const fs::path& file) {
  TROUPE_TRY(lines, read_summed_lines(file, past_file));
  past_runs out;
  for (const auto& line : lines)
    if (const auto run = parse_past_run(line))
      out.runs.push_back(*run);
    else
      ++out.left_out;
  return out;
}

status add_past_run(const fs::path& file, const past_run& run) {
  const auto line = past_run_line(run);
  if (!parse_past_run(line)) return error{errc::bad_data, "a run took what no run takes"};
  return add_summed_lines(file, past_file, std::span(&line, 1));
}

std::optional<past_estimate> estimate_step(std::span<const past_run> runs, std::string_view machine,
                                           std::string_view work) {
  std::vector<const past_run*> same;
  for (const auto& r : runs)
    if (r.machine == machine && r.work == work) same.push_back(&r);
  if (same.empty()) return std::nullopt;
  return of_same_work(std::span(same).last(std::min(same.size(), newest_runs)));
}

past_ledger ledger_of(std::span<const past_run> runs, std::string_view machine) {
  std::vector<double> off;
  for (const auto& r : runs)
    if (r.machine == machine && r.expected_s > 0)
      off.push_back(std::abs(r.expected_s / r.median_s - 1));
  if (off.empty()) return {};
  const double most = *std::max_element(off.begin(), off.end());
  return {off.size(), upper_median(std::move(off)), most};
}

}  // namespace troupe::io::perf

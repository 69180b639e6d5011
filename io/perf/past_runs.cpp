// Lines with sums, and medians of them: see past_runs.hpp.
#include "io/perf/past_runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
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

constexpr size_t newest_runs = 16;  ///< older ones were another program's
/// No estimate is surer: what a machine does beside differs from day to day. Nor of so few runs.
constexpr double surest = 0.03, sure_of_few = 0.1;
constexpr size_t few_runs = 2;
/// Runs of a work that say by themselves how much they differ: what is lacking to them are
/// pseudo-runs. Other work's are believed like as many as there are.
constexpr size_t settled_runs = 5, settled_by_others = 9;
/// Differences of other work's runs; fewer say nothing.
constexpr size_t enough_differences = 3;
/// Without these: medians of runs differ by so much where steps hardly do, else by that share of
/// what their steps do (nine in ten of which lie within 1.645 deviations).
constexpr double usual_deviation = 0.04, share_of_steps = 0.4;
/// A deviation by the mean distance of two, of normal noise.
constexpr double deviation_by_difference = 0.8862;

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

/// How much runs of one work differ: a deviation of their medians' logarithms.
struct run_spread {
  double deviation = 0;
  size_t settled = settled_runs;  ///< runs of a work from which on it is not asked for
};

/// By other work on such machines.
std::optional<run_spread> spread_of_others(std::span<const past_run> runs, std::string_view machine,
                                           std::string_view work) {
  std::map<std::string_view, double> last;  // a median's logarithm, by work
  std::vector<double> apart;
  for (const auto& r : runs) {
    if (r.machine != machine || r.work == work) continue;
    const double now = std::log(r.median_s);
    const auto [before, is_first] = last.try_emplace(r.work, now);
    if (!is_first) apart.push_back(std::abs(now - before->second));
    before->second = now;
  }
  if (apart.size() < enough_differences) return std::nullopt;
  const auto newest = std::span(apart).last(std::min(apart.size(), newest_runs));
  double sum = 0;
  for (const double a : newest) sum += a;
  return run_spread{deviation_by_difference * sum / static_cast<double>(newest.size()),
                    std::clamp(newest.size() + 1, settled_runs, settled_by_others)};
}

/// By how much steps of a run differ.
run_spread spread_of_steps(std::span<const past_run* const> runs) {
  std::vector<double> within;  // on a logarithmic scale
  for (const auto* r : runs)
    within.push_back(std::max(std::log(r->high_s / r->median_s), std::log(r->median_s / r->low_s)));
  return {std::max(usual_deviation, share_of_steps * upper_median(std::move(within))),
          settled_runs};
}

past_estimate of_same_work(std::span<const past_run* const> runs, const run_spread& usual) {
  past_estimate out;
  std::vector<double> logarithms;
  for (const auto* r : runs) {
    logarithms.push_back(std::log(r->median_s));
    out.steps += r->steps;
  }
  out.runs = logarithms.size();
  const double middle = median(logarithms);
  out.step_s = std::exp(middle);
  double squares = 0;
  for (const double l : logarithms) squares += std::pow(l - middle, 2);
  const size_t pseudo = usual.settled - std::min(usual.settled, out.runs);
  squares += static_cast<double>(pseudo) * std::pow(usual.deviation, 2);
  const size_t freedom = out.runs - 1 + pseudo;
  // Of one more run: its own deviation, and that of the middle of these.
  const double variance =
      squares / static_cast<double>(freedom) * (1 + 1 / static_cast<double>(out.runs));
  const double sure =
      std::max(out.runs <= few_runs ? sure_of_few : surest, t_of(freedom) * std::sqrt(variance));
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
  const auto newest = std::span(same).last(std::min(same.size(), newest_runs));
  const auto usual = spread_of_others(runs, machine, work);
  return of_same_work(newest, usual ? *usual : spread_of_steps(newest));
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

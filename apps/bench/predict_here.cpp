// Small jobs, one after the other, and what the others' runs say of each (predict_here.hpp).
#include "apps/bench/predict_here.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/job_launch.hpp"
#include "apps/bench/power_job.hpp"
#include "apps/bench/spread.hpp"
#include "apps/past_steps.hpp"
#include "apps/talk.hpp"
#include "gpu/predict/random.hpp"
#include "io/folder/owned.hpp"
#include "io/machine/facts.hpp"

namespace troupe::apps::predict_bench {

namespace {

using io::perf::past_run;

constexpr double here_aim_percent = 8;
constexpr std::string_view here_output = "run", here_file = "run.toml", here_cache = "cache";

/// All that are drawn from, in a fixed order.
std::vector<here_configuration> all_configurations() {
  std::vector<here_configuration> out;
  for (const int layers : {1, 2, 3, 4, 6})
    for (const int hidden : {64, 96, 128, 192})
      for (const int batch : {4, 8, 16})
        for (const int seq_len : {32, 64, 128})
          for (const int replicas : {1, 2})
            out.push_back({layers, hidden, batch, seq_len, replicas});
  return out;
}

status write_here_job(const here_plan& plan, const here_configuration& c) {
  std::ofstream file(plan.folder / here_file);
  file << fmt::format(
      "[job]\nname = \"{0}\"\noutput = \"{1}/{2}\"\n"
      "[cluster]\nnodes = {3}\nthreads = 1\ndevice = \"host\"\n[parallel]\ndata = {3}\n"
      "[model]\nfamily = \"llama\"\nlayers = {4}\nhidden = {5}\nheads = {6}\n"
      "[data]\ntokenizer = \"bytes\"\npath = \"{1}/data.txt\"\n"
      "[train]\nsteps = {7}\nbatch = {8}\nseq_len = {9}\nlr = 1e-3\n"
      "[checkpoint]\nevery = 0\n[log]\nformat = \"json\"\n",
      power_bench::own_job_name(), plan.folder.string(), here_output, c.replicas, c.layers,
      c.hidden, c.hidden / 32, plan.steps, c.batch, c.seq_len);
  file.flush();
  if (!file) return error{errc::io, "write the job into " + plan.folder.string()};
  return {};
}

/// Its line among the runs that are remembered, the last one.
result<past_run> run_here(const here_plan& plan, const here_configuration& c, size_t before) {
  TROUPE_CHECK(io::remove_from_scratch(plan.folder, std::string(here_output)));
  TROUPE_CHECK(write_here_job(plan, c));
  const auto cache = plan.folder / here_cache;
  std::vector<std::string> words{"/usr/bin/env", "XDG_CACHE_HOME=" + cache.string(), own_program(),
                                 "up", (plan.folder / here_file).string()};
  for (const auto& s : plan.sets) words.insert(words.end(), {"--set", s});
  TROUPE_TRY(job, job_launch::start(words, plan.stop));
  for (;;) {
    auto line = job.hear();
    if (!line) {
      job.end();
      return line.error();
    }
    if (!*line) break;
  }
  const auto file = past_runs_file(io::fact_store{cache / "troupe"});
  TROUPE_TRY(past, io::perf::read_past_runs(file));
  if (past.runs.size() != before + 1 || past.runs.back().shape.empty())
    return error{errc::unavailable, "the job's steps are not remembered: " + job.last_words()};
  return past.runs.back();
}

/// A run's numbers, by their logarithms.
std::vector<double> here_place(const past_run& r) {
  std::vector<double> out;
  for (const double x : r.shape) out.push_back(std::log(x));
  out.push_back(std::log(r.flops));
  return out;
}

/// By how much each number differs among the runs, at least a little.
std::vector<double> here_scale(const std::vector<std::vector<double>>& places) {
  const auto n = static_cast<double>(places.size());
  std::vector<double> out;
  for (size_t j = 0; j < places.front().size(); ++j) {
    double mean = 0, square = 0;
    for (const auto& p : places) mean += p[j] / n;
    for (const auto& p : places) square += (p[j] - mean) * (p[j] - mean) / n;
    out.push_back(square > 0 ? std::sqrt(square) : 1.0);
  }
  return out;
}

/// Seconds a FLOP, of the other that is nearest.
double nearest_rate(const past_run& asked, std::span<const past_run> others) {
  std::vector<std::vector<double>> places;
  for (const auto& r : others) places.push_back(here_place(r));
  const auto scale = here_scale(places);
  const auto at = here_place(asked);
  double least = std::numeric_limits<double>::infinity(), rate = 0;
  for (size_t i = 0; i < others.size(); ++i) {
    double d = 0;
    for (size_t j = 0; j < at.size(); ++j) d += std::pow((at[j] - places[i][j]) / scale[j], 2);
    if (d >= least) continue;
    least = d;
    rate = others[i].median_s / others[i].flops;
  }
  return rate;
}

double here_off(double seconds, double came_s) {
  return 100 * std::abs(seconds / came_s - 1);
}

double ours_off(const here_foretold& r) {
  return r.ours ? here_off(r.ours->step_s, r.came_s) : 100.0;
}

}  // namespace

std::vector<here_configuration> here_configurations(int count, uint64_t seed) {
  auto out = all_configurations();
  gpu::predict::random_numbers draw(seed);
  for (size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[draw.below(i)]);
  out.resize(std::min(out.size(), static_cast<size_t>(std::max(count, 0))));
  return out;
}

std::vector<here_foretold> foretell_each(std::span<const past_run> runs) {
  std::vector<here_foretold> out;
  if (runs.size() < 2) return out;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& asked = runs[i];
    std::vector<past_run> others(runs.begin(), runs.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<double> rates;
    for (const auto& r : others) rates.push_back(r.median_s / r.flops);
    out.push_back({asked.median_s, estimate_by_other_work(others, asked.shape, asked.flops),
                   median(rates) * asked.flops, nearest_rate(asked, others) * asked.flops});
  }
  return out;
}

bool here_verdict::met() const {
  return ours <= here_aim_percent;
}

here_verdict verdict_of(const here_measurement& m) {
  here_verdict out;
  if (m.runs.empty()) return {100, 100, 100, 0, 0};
  std::vector<double> ours, roofline, nearest;
  for (const auto& r : m.runs) {
    ours.push_back(ours_off(r));
    roofline.push_back(here_off(r.roofline_s, r.came_s));
    nearest.push_back(here_off(r.nearest_s, r.came_s));
    if (!r.ours) {
      ++out.unsaid;
      continue;
    }
    if (r.ours->least_s <= r.came_s && r.came_s <= r.ours->most_s)
      out.held += 100.0 / static_cast<double>(m.runs.size());
  }
  out.ours = median(ours);
  out.roofline = median(roofline);
  out.nearest = median(nearest);
  return out;
}

result<here_measurement> measure_here(const here_plan& plan) {
  TROUPE_CHECK(write_words(plan.folder / "data.txt"));
  here_measurement out;
  out.configurations = here_configurations(plan.configurations, plan.seed);
  std::vector<past_run> runs;
  for (const auto& c : out.configurations) {
    TROUPE_TRY(run, run_here(plan, c, runs.size()));
    say(fmt::format("{} of {}: {} layers of {}, {} x {} tokens, {} ranks: {:.2f} ms a step",
                    runs.size() + 1, out.configurations.size(), c.layers, c.hidden, c.batch,
                    c.seq_len, c.replicas, 1e3 * run.median_s));
    runs.push_back(std::move(run));
  }
  out.runs = foretell_each(runs);
  return out;
}

std::string text_of(const here_measurement& m) {
  auto out = fmt::format("{:>6} {:>6} {:>6} {:>6} {:>6} {:>10} {:>12} {:>8} {:>10} {:>9}\n",
                         "layers", "width", "batch", "length", "ranks", "step ms", "foretold ms",
                         "off %", "roofline %", "nearest %");
  for (size_t i = 0; i < m.runs.size(); ++i) {
    const auto& c = m.configurations[i];
    const auto& r = m.runs[i];
    out +=
        fmt::format("{:>6} {:>6} {:>6} {:>6} {:>6} {:>10.2f} {:>12} {:>8.1f} {:>10.1f} {:>9.1f}\n",
                    c.layers, c.hidden, c.batch, c.seq_len, c.replicas, 1e3 * r.came_s,
                    r.ours ? fmt::format("{:.2f}", 1e3 * r.ours->step_s) : "-", ours_off(r),
                    here_off(r.roofline_s, r.came_s), here_off(r.nearest_s, r.came_s));
  }
  const auto v = verdict_of(m);
  return out + fmt::format(
                   "each by the runs of all others, medians: off by {:.1f} % (aim {:g}), roofline "
                   "alone {:.1f} %, the nearest run {:.1f} %;\n{:.0f} % within their intervals, {} "
                   "of which nothing is said. The aim is {}\n",
                   v.ours, here_aim_percent, v.roofline, v.nearest, v.held, v.unsaid,
                   v.met() ? "met" : "missed");
}

nlohmann::ordered_json json_of(const here_measurement& m) {
  auto rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < m.runs.size(); ++i) {
    const auto& c = m.configurations[i];
    const auto& r = m.runs[i];
    rows.push_back({{"layers", c.layers},
                    {"hidden", c.hidden},
                    {"batch", c.batch},
                    {"seq_len", c.seq_len},
                    {"replicas", c.replicas},
                    {"step_ms", 1e3 * r.came_s},
                    {"foretold_ms", r.ours ? nlohmann::ordered_json(1e3 * r.ours->step_s)
                                           : nlohmann::ordered_json(nullptr)},
                    {"roofline_ms", 1e3 * r.roofline_s},
                    {"nearest_ms", 1e3 * r.nearest_s}});
  }
  const auto v = verdict_of(m);
  return {{"rows", std::move(rows)},
          {"error_percent", v.ours},
          {"aim_percent", here_aim_percent},
          {"roofline_error_percent", v.roofline},
          {"nearest_error_percent", v.nearest},
          {"held_percent", v.held},
          {"unsaid", v.unsaid},
          {"met", v.met()}};
}

}  // namespace troupe::apps::predict_bench

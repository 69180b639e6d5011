// Jobs in turn, and made-up steps of many ranks (predict_cost.hpp).
#include "apps/bench/predict_cost.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/bench/job_launch.hpp"
#include "apps/bench/spread.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::predict_bench {

namespace {

constexpr std::string_view cost_output = "run", cost_file = "run.toml";
constexpr size_t cost_warming = 4;
constexpr int head_stages = 16;
constexpr double ratio_aim = 1.005, rank_bytes_aim = 4096;

status write_cost_job(const cost_plan& plan) {
  TROUPE_CHECK(write_words(plan.folder / "data.txt"));
  std::ofstream file(plan.folder / cost_file);
  file << fmt::format(
      "[job]\nname = \"{}\"\noutput = \"{}/{}\"\n"
      "[cluster]\nnodes = 2\nthreads = 1\ndevice = \"host\"\n[parallel]\ndata = 2\n"
      "[model]\nfamily = \"llama\"\nlayers = 4\nhidden = 128\nheads = 4\n"
      "[data]\ntokenizer = \"bytes\"\npath = \"{}/data.txt\"\n"
      "[train]\nsteps = {}\nbatch = 8\nseq_len = 128\nlr = 1e-3\n"
      "[checkpoint]\nevery = 0\n[log]\nformat = \"json\"\n",
      power_bench::own_job_name(), plan.folder.string(), cost_output, plan.folder.string(),
      plan.steps);
  file.flush();
  if (!file) return error{errc::io, "write the job into " + plan.folder.string()};
  return {};
}

status hear_cost_job(job_launch& job, const cost_plan& plan, cost_run& out) {
  for (;;) {
    TROUPE_TRY(line, job.hear());
    if (!line) break;
    const auto s = job_step_of(*line);
    if (!s) continue;
    out.losses[s->step] = s->loss;
    if (out.losses.size() > cost_warming) out.step_ms.push_back(s->ms);
  }
  if (out.losses.empty() || out.losses.rbegin()->first != plan.steps || out.step_ms.empty())
    return error{errc::unavailable, "the job does not train: " + job.last_words()};
  return {};
}

result<cost_run> run_cost_job(const cost_plan& plan, bool with) {
  TROUPE_CHECK(io::remove_from_scratch(plan.folder, std::string(cost_output)));
  std::vector<std::string> words{own_program(), "up", (plan.folder / cost_file).string()};
  for (const auto& s : plan.sets) words.insert(words.end(), {"--set", s});
  words.insert(words.end(), {"--set", fmt::format("predict.enabled={}", with)});
  TROUPE_TRY(job, job_launch::start(words, plan.stop));
  cost_run out;
  if (auto heard = hear_cost_job(job, plan, out); !heard) {
    job.end();
    return heard.error();
  }
  return out;
}

std::vector<double> medians_of(const std::vector<cost_run>& runs) {
  std::vector<double> out;
  for (const auto& r : runs) out.push_back(median(r.step_ms));
  return out;
}

/// BPC-1.
std::vector<double> ratios_of(const cost_measurement& m) {
  std::vector<double> out;
  const auto with = medians_of(m.with), without = medians_of(m.without);
  for (size_t i = 0; i < std::min(with.size(), without.size()); ++i)
    out.push_back(with[i] / without[i]);
  return out;
}

/// BPC-2.
bool has_one_loss(const cost_measurement& m) {
  if (m.without.empty()) return true;
  const auto same = [&](const cost_run& r) {
    return std::ranges::equal(r.losses, m.without.front().losses, [](const auto& a, const auto& b) {
      return a.first == b.first && same_loss(a.second, b.second);
    });
  };
  return std::ranges::all_of(m.with, same) && std::ranges::all_of(m.without, same);
}

uint64_t bytes_of_rank(const cost_measurement& m) {
  return m.expecting.bytes_per_rank + m.learning.bytes_per_rank;
}

std::string cost_row(std::string_view way, const std::vector<cost_run>& runs) {
  const auto ms = spread_of(medians_of(runs));
  return fmt::format("{:<10} {:>10.2f} ms a step ({:.2f}-{:.2f})\n", way, ms.median, ms.least,
                     ms.most);
}

std::string head_row(std::string_view what, double cpu_s, uint64_t steps, uint64_t bytes) {
  return fmt::format("{:<10} {:>10.2f} ms of a core a step, {:.1f} KiB a rank", what,
                     1e3 * cpu_s / static_cast<double>(std::max<uint64_t>(steps, 1)),
                     static_cast<double>(bytes) / 1024);
}

}  // namespace

cost_verdict verdict_of(const cost_measurement& m) {
  cost_verdict out;
  out.ratio = spread_of(ratios_of(m)).median;
  out.same_bits = has_one_loss(m);
  if (!(out.ratio > 0 && out.ratio <= ratio_aim))
    out.missed.push_back(
        fmt::format("steps take {:.4f} times as long as without (aim {:g})", out.ratio, ratio_aim));
  if (const auto bytes = static_cast<double>(bytes_of_rank(m)); bytes > rank_bytes_aim)
    out.missed.push_back(
        fmt::format("{:.1f} KiB a rank (aim {:g})", bytes / 1024, rank_bytes_aim / 1024));
  return out;
}

result<cost_measurement> measure_cost(const cost_plan& plan) {
  if (plan.steps <= static_cast<int>(cost_warming))
    return error{errc::usage, fmt::format("{} are too few, expected more than {}",
                                          counted(plan.steps, "step"), cost_warming)};
  TROUPE_CHECK(write_cost_job(plan));
  cost_measurement out;
  for (int round = 0; round < plan.rounds; ++round)
    for (const bool with : {round % 2 == 0, round % 2 != 0}) {
      TROUPE_TRY(run, run_cost_job(plan, with));
      say(fmt::format("round {} of {}, {}: {:.2f} ms a step", round + 1, plan.rounds,
                      with ? "with" : "without", median(run.step_ms)));
      (with ? out.with : out.without).push_back(std::move(run));
    }
  out.grid = {std::max(1, plan.ranks / head_stages), 1, head_stages};
  out.head_steps = static_cast<uint64_t>(plan.head_steps);
  out.learned_steps = static_cast<uint64_t>(plan.learned_steps);
  out.expecting = cost_of_expecting(out.grid, out.head_steps);
  out.learning = cost_of_learning(out.grid, out.learned_steps);
  return out;
}

std::string text_of(const cost_measurement& m) {
  const auto ratio = spread_of(ratios_of(m));
  const auto v = verdict_of(m);
  return cost_row("with", m.with) + cost_row("without", m.without) +
         fmt::format("with over without: {:.4f} ({:.4f}-{:.4f}), the median of {}; losses are {}\n",
                     ratio.median, ratio.least, ratio.most, counted(m.with.size(), "round"),
                     v.same_bits ? "the same" : "not the same") +
         fmt::format("a head of {} ranks, {} held against what was, {} learned from:\n",
                     m.grid.ranks(), counted(m.head_steps, "step"),
                     counted(m.learned_steps, "step")) +
         head_row("expecting", m.expecting.cpu_s, m.head_steps, m.expecting.bytes_per_rank) + "\n" +
         head_row("learning", m.learning.cpu_s(), m.learned_steps, m.learning.bytes_per_rank) +
         fmt::format("; {:.2f} s in {}\n", m.learning.fit_s, counted(m.learning.fits, "fit")) +
         fmt::format("aims: steps {:g} times as long as without, {:g} KiB a rank for both: {}\n",
                     ratio_aim, rank_bytes_aim / 1024,
                     v.met()            ? "met"
                     : v.missed.empty() ? "met, but for the losses"
                                        : fmt::format("missed: {}", fmt::join(v.missed, "; ")));
}

nlohmann::ordered_json json_of(const cost_measurement& m) {
  const auto v = verdict_of(m);
  return {{"with_ms", json_of(spread_of(medians_of(m.with)))},
          {"without_ms", json_of(spread_of(medians_of(m.without)))},
          {"ratio", json_of(spread_of(ratios_of(m)))},
          {"rounds", m.with.size()},
          {"same_bits", v.same_bits},
          {"head",
           {{"ranks", m.grid.ranks()},
            {"steps", m.head_steps},
            {"expecting_cpu_s", m.expecting.cpu_s},
            {"expecting_bytes_per_rank", m.expecting.bytes_per_rank},
            {"learned_steps", m.learned_steps},
            {"learning_cpu_s", m.learning.cpu_s()},
            {"learning_fit_s", m.learning.fit_s},
            {"learning_bytes_per_rank", m.learning.bytes_per_rank}}},
          {"missed", v.missed},
          {"met", v.met()}};
}

}  // namespace troupe::apps::predict_bench

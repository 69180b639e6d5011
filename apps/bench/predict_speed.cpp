// Fits as processes of their own, questions here (predict_speed.hpp).
#include "apps/bench/predict_speed.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/bench/checkpoint_process.hpp"
#include "apps/bench/job_launch.hpp"
#include "apps/bench/spread.hpp"
#include "apps/bench/stopwatch.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "gpu/predict/predictor.hpp"
#include "io/perf/model_file.hpp"
#include "io/perf/readers.hpp"

namespace troupe::apps::predict_bench {

namespace {

constexpr double peak_aim_mib = 300, question_aim_ms = 1;
constexpr double fit_given_s = 3600;  ///< a net against hangs
constexpr double interrupt_look_s = 0.2;

std::filesystem::path split_of(const speed_plan& plan) {
  return plan.data / "splits_public.csv";
}

/// The line that the fit ends with. Its progress and its errors are on stderr, which is ours.
result<nlohmann::json> hear_fit(const speed_plan& plan, const std::vector<std::string>& words) {
  TROUPE_TRY(child, ckpt_bench::child_process::start(words));
  const auto begun = std::chrono::steady_clock::now();
  std::string last;
  while (!child->has_ended()) {
    if (plan.stop != nullptr && *plan.stop) return error{errc::cancelled, "interrupted"};
    if (seconds_since(begun) > fit_given_s)
      return error{errc::timeout, fmt::format("no model was made in {:.0f} s", fit_given_s)};
    if (auto line = child->hear(interrupt_look_s)) last = std::move(*line);
  }
  auto said = nlohmann::json::parse(last, nullptr, false);
  if (!said.is_object() || !said.contains("peak_bytes"))
    return error{errc::unavailable, "troupe predict train made no model",
                 "its own words are above: " + fmt::format("{}", fmt::join(words, " "))};
  return said;
}

status measure_fit(const speed_plan& plan, speed_row& row) {
  const auto& dataset = row.set.dataset;
  std::vector<std::string> words{own_program(),
                                 "predict",
                                 "train",
                                 "--data",
                                 plan.data.string(),
                                 "--split",
                                 split_of(plan).string(),
                                 "--dataset",
                                 dataset,
                                 "--seed",
                                 "0",
                                 "-o",
                                 plan.folder.string(),
                                 "--json"};
  if (plan.passes > 0) words.insert(words.end(), {"--passes", fmt::format("{}", plan.passes)});
  TROUPE_TRY(said, hear_fit(plan, words));
  row.fit_s.push_back(said.value("fit_s", 0.0));
  row.processor_s.push_back(said.value("fit_processor_s", 0.0));
  row.peak_mib.push_back(said.value("peak_bytes", 0.0) / (1 << 20));
  row.rows = said.value("train_rows", size_t{0});
  row.kind = said.value("kind", std::string());
  say(fmt::format("{}: {} in {:.1f} s", dataset, row.kind, row.fit_s.back()));
  return {};
}

/// BPV-2.
status measure_questions(const speed_plan& plan, speed_row& row) {
  TROUPE_TRY(model, io::perf::read_model(plan.folder / (row.set.dataset + ".tpm")));
  TROUPE_TRY(split, io::perf::read_split(split_of(plan)));
  TROUPE_TRY(table, io::perf::read_dataset(plan.data, row.set.dataset,
                                           [](std::string_view) { return false; }));
  TROUPE_TRY(asked, io::perf::rows_of(split, table, io::perf::split_part::test));
  gpu::predict::predictor p(std::move(model));
  for (const auto* r : asked) {
    const auto begun = std::chrono::steady_clock::now();
    const auto answer = p.ask({r});
    const double took_ms = seconds_since(begun) * 1e3;
    if (answer.size() == 1) row.ask_ms.push_back(took_ms);
  }
  return {};
}

std::string spread_text(const std::vector<double>& x) {
  const auto s = spread_of(x);
  return fmt::format("{:.1f} ({:.1f}-{:.1f})", s.median, s.least, s.most);
}

}  // namespace

speed_verdict verdict_of(const speed_measurement& m) {
  speed_verdict out;
  for (const auto& row : m.rows) {
    const auto& name = row.set.dataset;
    if (const double s = spread_of(row.fit_s).median; s > row.set.fit_aim_s)
      out.missed.push_back(
          fmt::format("{}: a fit takes {:.1f} s (aim {:g})", name, s, row.set.fit_aim_s));
    if (const double mib = spread_of(row.peak_mib).most; mib > peak_aim_mib)
      out.missed.push_back(
          fmt::format("{}: a fit takes {:.0f} MiB (aim {:g})", name, mib, peak_aim_mib));
    if (row.ask_ms.empty()) out.missed.push_back(name + ": nothing was asked");
    if (const double ms = spread_of(row.ask_ms).median; ms > question_aim_ms)
      out.missed.push_back(
          fmt::format("{}: a question takes {:.2f} ms (aim {:g})", name, ms, question_aim_ms));
  }
  return out;
}

std::optional<std::string> missing_of(const speed_plan& plan) {
  std::error_code ignored;
  if (!std::filesystem::exists(split_of(plan), ignored)) return split_of(plan).string();
  const auto there = io::perf::datasets_in(plan.data);
  for (const auto& set : plan.sets)
    if (std::ranges::find(there, set.dataset) == there.end())
      return fmt::format("{} in {}", set.dataset, plan.data.string());
  return std::nullopt;
}

result<speed_measurement> measure_speed(const speed_plan& plan) {
  speed_measurement out;
  out.threads = predict::threads_of({});
  for (const auto& set : plan.sets) {
    speed_row row;
    row.set = set;
    out.rows.push_back(std::move(row));
  }
  for (int round = 0; round < plan.rounds; ++round)
    for (auto& row : out.rows) TROUPE_CHECK(measure_fit(plan, row));
  for (auto& row : out.rows) TROUPE_CHECK(measure_questions(plan, row));
  return out;
}

std::string text_of(const speed_measurement& m) {
  auto out = fmt::format("{:<18} {:>6} {:<18} {:>20} {:>6} {:>12} {:>9} {:>14} {:>9}\n", "data set",
                         "rows", "kind", "fit s", "aim", "processor s", "peak MiB", "question ms",
                         "slowest");
  for (const auto& row : m.rows) {
    const auto asked = spread_of(row.ask_ms);
    out += fmt::format("{:<18} {:>6} {:<18} {:>20} {:>6g} {:>12.1f} {:>9.0f} {:>14.4f} {:>9.3f}\n",
                       row.set.dataset, row.rows, row.kind, spread_text(row.fit_s),
                       row.set.fit_aim_s, spread_of(row.processor_s).median,
                       spread_of(row.peak_mib).most, asked.median, asked.most);
  }
  const auto v = verdict_of(m);
  return out +
         fmt::format(
             "fits with all their choices, on {} threads, reading included. Aims: a fit within its "
             "own (medians), {:g} MiB,\n{:g} ms a question (median): {}\n",
             m.threads, peak_aim_mib, question_aim_ms,
             v.met() ? "met" : fmt::format("missed: {}", fmt::join(v.missed, "; ")));
}

nlohmann::ordered_json json_of(const speed_measurement& m) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& row : m.rows)
    rows.push_back({{"dataset", row.set.dataset},
                    {"train_rows", row.rows},
                    {"kind", row.kind},
                    {"fit_s", json_of(spread_of(row.fit_s))},
                    {"fit_aim_s", row.set.fit_aim_s},
                    {"fit_processor_s", json_of(spread_of(row.processor_s))},
                    {"peak_mib", json_of(spread_of(row.peak_mib))},
                    {"questions", row.ask_ms.size()},
                    {"question_ms", json_of(spread_of(row.ask_ms))}});
  const auto v = verdict_of(m);
  return {
      {"threads", m.threads}, {"rows", std::move(rows)}, {"missed", v.missed}, {"met", v.met()}};
}

}  // namespace troupe::apps::predict_bench

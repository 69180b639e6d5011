// Past runs before a layer, in words and numbers: see counted_expectation.hpp.
#include "apps/counted_expectation.hpp"

#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/kept_expectation.hpp"
#include "apps/report/report.hpp"
#include "io/base/counted.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

std::string_view why_past_counts(const past_expectation& e) {
  if (e.elsewhere)
    return e.step.basis == io::perf::past_basis::same_work
               ? "whole steps of this work were measured on these machines"
               : "whole steps of work like it were measured on these machines";
  return e.step.basis == io::perf::past_basis::same_work
             ? "whole steps of this work were measured here, and a layer's time leaves out a part"
             : "whole steps of work like it were measured here, and a layer's time leaves out a "
               "part";
}

constexpr std::string_view why_layer_counts = "no run of such work is remembered here";

/// Of all steps of the job.
double run_seconds(const train::job_plan& plan, double step_s) {
  return static_cast<double>(plan.job.train.steps) * step_s;
}

double tokens_a_second(const train::job_plan& plan, double step_s) {
  return static_cast<double>(plan.job.tokens_per_step()) / step_s;
}

std::string counted_past_text(const train::job_plan& plan, const past_expectation& e) {
  return fmt::format(
      "expected: {}\n  this counts, as {}: {} tokens/s, {} for {}\n", past_text(e),
      why_past_counts(e), grouped(static_cast<int64_t>(tokens_a_second(plan, e.step.step_s))),
      report::duration(run_seconds(plan, e.step.step_s)), counted(plan.job.train.steps, "step"));
}

/// A layer's lines beside those that count: each two letters further in.
std::string set_in(const std::string& lines) {
  std::string out = "  ";
  for (size_t i = 0; i < lines.size(); ++i) {
    out += lines[i];
    if (lines[i] == '\n' && i + 1 < lines.size()) out += "  ";
  }
  return out;
}

/// In place of what `out` says of a step, which goes to `beside`.
void count_past(nlohmann::ordered_json& out, const char* beside, const train::job_plan& plan,
                const past_expectation& past) {
  if (out.contains("step_s")) {
    auto& set_aside = out[beside];
    for (const auto* key : {"step_s", "least_s", "most_s", "tokens_per_s", "run_s"})
      set_aside[key] = out.at(key);
  }
  out["step_s"] = past.step.step_s;
  out["least_s"] = past.step.least_s;
  out["most_s"] = past.step.most_s;
  out["tokens_per_s"] = tokens_a_second(plan, past.step.step_s);
  out["run_s"] = run_seconds(plan, past.step.step_s);
  out["counts"] = "past";
  out["why"] = why_past_counts(past);
  out["past"] = past_json(past);
}

}  // namespace

std::string counted_text(const train::job_plan& plan, const known_expectations& known) {
  std::string out = known.past ? counted_past_text(plan, *known.past) : "";
  if (!known.layer) return out;
  const auto& [step, worker] = *known.layer;
  if (!known.past)
    return expected_text(plan, step, worker) +
           fmt::format("  this counts, as {}\n", why_layer_counts);
  return out + set_in(times_text(plan, step, "beside it, by a layer alone, roughly") +
                      measured_text(worker));
}

nlohmann::ordered_json counted_json(const train::job_plan& plan, const known_expectations& known) {
  nlohmann::ordered_json out;
  if (known.layer) out = expected_json(known.layer->step, known.layer->worker);
  if (!known.past) {
    out["counts"] = "layer";
    out["why"] = why_layer_counts;
    return out;
  }
  count_past(out, "layer", plan, *known.past);
  return out;
}

std::string counted_there_text(const train::job_plan& plan, const expected_there& expected,
                               const std::optional<past_expectation>& past) {
  if (!past) return there_text(plan, expected, "expected there, roughly");
  return counted_past_text(plan, *past) +
         set_in(there_text(plan, expected, "beside it, by probes, roughly"));
}

nlohmann::ordered_json counted_there_json(const train::job_plan& plan, const other_machines& others,
                                          const expected_there& expected,
                                          const std::optional<past_expectation>& past) {
  auto out = there_json(plan, others, expected);
  if (past) count_past(out, "probes", plan, *past);
  return out;
}

std::optional<told_expectation> expected_at_start(const config::job& job, double flops,
                                                  const io::fact_store& store) {
  if (const auto past = expect_by_past(job, flops, store))
    return told_expectation{past_text(*past), as_expected_ms(*past)};
  const auto kept = kept_expectation(job, store);
  if (!kept) return std::nullopt;
  const auto text = [](double ms) { return trace::duration_text(std::llround(1e6 * ms)); };
  return told_expectation{
      fmt::format("{} a step ({} to {}), by a layer that `plan` measured: {}", text(kept->step),
                  text(kept->least), text(kept->most), why_layer_counts),
      *kept};
}

}  // namespace troupe::apps

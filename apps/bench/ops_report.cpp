// The loop over operations and its table.
#include "apps/bench/ops_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "apps/ceiling.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps {

namespace {

result<ops_row> time_row(gpu::stream& s, const ops_case& c, const ops_plan& plan) {
  ops_row row = {c.name, c.flops, c.bytes, c.per_step, {}, plan.most, 0};
  ops_timing timing = plan.timing;
  if (plan.sample_peak)
    timing.between = [&] { row.most.flops = std::max(row.most.flops, plan.sample_peak()); };
  TROUPE_TRY(seconds, time_calls(s, c.enqueue, timing));
  row.seconds = seconds;
  row.floor_s = row.most.floor_s(c);
  return row;
}

}  // namespace

double ops_report::step_s() const {
  double sum = 0;
  for (const auto& row : rows) sum += row.step_s();
  return sum;
}

double ops_report::step_flops() const {
  double sum = 0;
  for (const auto& row : rows) sum += row.flops * static_cast<double>(row.per_step);
  return sum;
}

double ops_report::peak_flops() const {
  double best = 0;
  for (const auto& row : rows) best = std::max(best, row.most.flops);
  return best;
}

result<ops_report> time_ops(gpu::device& on, gpu::stream& s, const ops_plan& plan) {
  const auto known = bench_shapes().find(plan.model);
  if (known == bench_shapes().end()) return error(errc::usage, "no shape named " + plan.model);
  ops_report report = {plan.model, plan.type, known->second, {}, {}};
  if (plan.batch > 0) report.shape.batch = plan.batch;
  TROUPE_TRY(cases, ops_cases::make(on, s, report.shape, plan.type));
  for (const ops_case& c : cases->all()) {
    if (c.name.find(plan.only) == std::string::npos) continue;
    if (gpu::seconds_now(gpu::time_kind::wall) > plan.until_s) {
      report.left_out.push_back(c.name);
      continue;
    }
    TROUPE_TRY(row, time_row(s, c, plan));
    report.rows.push_back(std::move(row));
  }
  if (report.rows.empty() && report.left_out.empty()) {
    return error(errc::usage, "no operation has that in its name");
  }
  return report;
}

std::string ops_heading() {
  return fmt::format("{:<38} {:>10} {:>15} {:>9} {:>9} {:>10} {:>9}\n", "operation", "ms",
                     "least - most", "% of step", "GB/s", "GFLOP/s", "% of floor");
}

std::string text(const ops_report& r) {
  std::string out = fmt::format("{} {}, {} x {} tokens, {}\n", r.model, gpu::to_string(r.type),
                                r.shape.batch, r.shape.seq, counted(r.shape.layers, "layer"));
  const double step = r.step_s();
  for (const ops_row& row : r.rows) {
    const spread& t = row.seconds;
    out += fmt::format(
        "  {:<36} {:>10.4f} {:>15} {:>9} {:>9.1f} {:>10} {:>9}\n", row.name, t.median * 1e3,
        fmt::format("{:.4f}-{:.4f}", t.least * 1e3, t.most * 1e3),
        row.per_step ? fmt::format("{:.1f}", 100 * row.step_s() / step) : "",
        row.bytes / t.median * 1e-9,
        row.flops > 0 ? fmt::format("{:.1f}", row.flops / t.median * 1e-9) : "",
        row.floor_s > 0 ? fmt::format("{:.1f}", 100 * share_of_peak(row.floor_s, t.median)) : "");
  }
  if (!r.left_out.empty()) {
    return out + fmt::format("  no time was left for {} of the operations, from \"{}\" on\n",
                             r.left_out.size(), r.left_out.front());
  }
  return out + fmt::format(
                   "  all of a step {:>26.3f} ms, {:.0f} tokens/s, {:.1f} % of the {:.0f} "
                   "GFLOP/s peak\n",
                   step * 1e3, static_cast<double>(r.shape.tokens()) / step,
                   100 * share_of_peak(r.step_flops() / step, r.peak_flops()),
                   r.peak_flops() * 1e-9);
}

nlohmann::ordered_json json(const ops_report& r) {
  const double step = r.step_s();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ops_row& row : r.rows) {
    rows.push_back({{"op", row.name},
                    {"seconds", row.seconds.median},
                    {"least", row.seconds.least},
                    {"most", row.seconds.most},
                    {"per_step", row.per_step},
                    {"share", row.step_s() / step},
                    {"flops", row.flops},
                    {"bytes", row.bytes},
                    {"floor_seconds", row.floor_s}});
  }
  return {{"model", r.model},     {"dtype", gpu::to_string(r.type)}, {"batch", r.shape.batch},
          {"seq", r.shape.seq},   {"layers", r.shape.layers},        {"peak_flops", r.peak_flops()},
          {"step_seconds", step}, {"ops", std::move(rows)},          {"left_out", r.left_out}};
}

result<std::unique_ptr<gpu::device>> open_bench_device(const std::string& name, int threads,
                                                       const gpu::cuda_options& options) {
  if (name == "host") return gpu::make_host_device(threads);
  int ordinal = 0;
  const std::string number = name.starts_with("cuda:") ? name.substr(5) : "0";
  const auto [end, wrong] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
  const bool read = wrong == std::errc() && end == number.data() + number.size() && ordinal >= 0;
  if (!read || (name != "cuda" && !name.starts_with("cuda:"))) {
    return error(errc::usage, "no device is called " + name, "say host, cuda or cuda:1");
  }
  return gpu::make_cuda_device(ordinal, options);
}

std::string epilogues_told() {
  const auto counts = gpu::cuda_epilogues();
  if (counts.fused + counts.separate == 0) return "";
  return fmt::format("epilogues: {} within their products, {} in passes of their own\n",
                     counts.fused, counts.separate);
}

}  // namespace troupe::apps

// A table in, a table out.
#include "apps/bench/swap_model.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpu/swap/limit_model.hpp"
#include "io/file.hpp"

namespace troupe::apps::swap_bench {

namespace {

constexpr size_t max_table_bytes = 1 << 20;

/// What the model says of a run.
struct predicted_run {
  double forward_s = 0, backward_s = 0, limit_s = 0, ratio = 0;
};

predicted_run predict(const gpu::published_run& run) {
  const auto phases = gpu::phases_of(run);
  predicted_run out;
  gpu::phase_work whole;
  for (const auto& phase : phases) whole += phase;
  out.forward_s = gpu::limit_of(phases[0], run.rates).seconds;
  out.backward_s = gpu::limit_of(phases[1], run.rates).seconds;
  out.limit_s = gpu::limit_of(whole, run.rates).seconds;
  if (run.measured_s > 0) out.ratio = (out.forward_s + out.backward_s) / run.measured_s;
  return out;
}

}  // namespace

result<std::string> model_check(const std::string& file, bool as_json) {
  TROUPE_TRY(table, io::read_file(file, max_table_bytes));
  TROUPE_TRY(runs, gpu::parse_published_runs(table, file));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  auto text = fmt::format("{:<28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n", "run", "T_f s", "T_b s",
                          "T_f + T_b", "limit s", "measured", "ratio");
  double sum = 0, most = 0;
  for (const auto& run : runs) {
    const auto p = predict(run);
    sum += p.ratio;
    most = std::max(most, p.ratio);
    text += fmt::format("{:<28} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>6.2f}\n", run.name,
                        p.forward_s, p.backward_s, p.forward_s + p.backward_s, p.limit_s,
                        run.measured_s, p.ratio);
    rows.push_back({{"name", run.name},
                    {"forward_s", p.forward_s},
                    {"backward_s", p.backward_s},
                    {"limit_s", p.limit_s},
                    {"measured_s", run.measured_s},
                    {"ratio", p.ratio}});
  }
  const double mean = runs.empty() ? 0 : sum / static_cast<double>(runs.size());
  text += fmt::format("mean ratio {:.3f}, largest {:.3f}\n", mean, most);
  if (!as_json) return text;
  return nlohmann::ordered_json{{"bench", "swap model"},
                                {"runs", std::move(rows)},
                                {"mean_ratio", mean},
                                {"largest_ratio", most}}
             .dump() +
         "\n";
}

}  // namespace troupe::apps::swap_bench

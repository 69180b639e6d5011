// What the rounds have come to, for people and as JSON.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/swap_run.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"

namespace troupe::apps::swap_bench {

std::string text(const swap_measurement& m) {
  std::string out = fmt::format(
      "{} {}, {:.1f} M parameters, {} tokens a step, clip_norm {}, {}: {} of {}, {} "
      "discarded; loss {:.4f}, state {:016x} in all\n"
      "drive: read {:.2f} GB/s, write {:.2f}, both at once save {:.2f} of the shorter; products "
      "{:.0f} GFLOP/s; updates {:.2f} G/s; sums {:.1f} GB/s\n",
      m.plan.model, m.plan.dtype, static_cast<double>(m.parameters) / 1e6, m.plan.tokens,
      m.plan.clip_norm, m.plan.recompute ? "recomputed" : "kept activations",
      counted(m.plan.rounds, "round"), counted(m.plan.steps, "step"), m.discarded, m.loss,
      m.state_hash, m.rates.read_bytes_s / 1e9, m.rates.write_bytes_s / 1e9, m.rates.duplex,
      m.rates.flops_s / 1e9, m.rates.updates_s / 1e9, m.rates.processors.sum_bytes_s / 1e9);
  out += apart_text(m.rounds_apart);
  out += fmt::format("{:<10} {:>9} {:>19} {:>9} {:>11} {:>9} {:>9} {:>11} {:>11} {:>10}\n", "way",
                     "s a step", "range", "of limit", "bound by", "expected", "least", "in memory",
                     "read", "written");
  if (!m.not_compared.empty())
    out += fmt::format("bytes are not compared with the kernel's: {}\n", m.not_compared);
  for (const auto& r : m.results) {
    if (!r.skipped.empty()) {
      out += fmt::format("{:<10} skipped: {}\n", to_string(r.of), r.skipped);
      continue;
    }
    if (r.seconds.empty()) {
      out += fmt::format("{:<10} no round counts: the drive was not steady\n", to_string(r.of));
      continue;
    }
    const auto took = r.took();
    out += fmt::format(
        "{:<10} {:>9.3f} {:>19} {:>9.2f} {:>11} {:>9.3f} {:>9.3f} {:>11} {:>11} {:>10}\n",
        to_string(r.of), took.median, fmt::format("{:.3f} to {:.3f}", took.least, took.most),
        took.median > 0 ? r.limit_s / took.median : 0, to_string(r.part), r.expected_s, r.least_s,
        bytes_text(r.memory_bytes), bytes_text(r.read_bytes), bytes_text(r.written_bytes));
    if (is_swept(r.of))
      out += fmt::format("{:<10} {} all, {} their input and x + attention\n", "",
                         counted(r.kept.keep, "layer keeps", "layers keep"), r.kept.half);
    if (r.redone_steps > 0)
      out += fmt::format("{:<10} {} made again\n", "", counted(r.redone_steps, "step"));
  }
  return out;
}

nlohmann::ordered_json json(const swap_measurement& m) {
  nlohmann::ordered_json out{{"model", m.plan.model},
                             {"device", m.plan.device},
                             {"dtype", m.plan.dtype},
                             {"parameters", m.parameters},
                             {"tokens", m.plan.tokens},
                             {"clip_norm", m.plan.clip_norm},
                             {"recompute", m.plan.recompute},
                             {"rounds", m.plan.rounds},
                             {"discarded", m.discarded},
                             {"apart", apart_json(m.rounds_apart)},
                             {"loss", m.loss},
                             {"state", fmt::format("{:016x}", m.state_hash)},
                             {"read_bytes_s", m.rates.read_bytes_s},
                             {"write_bytes_s", m.rates.write_bytes_s},
                             {"duplex", m.rates.duplex},
                             {"flops_s", m.rates.flops_s},
                             {"updates_s", m.rates.updates_s},
                             {"processor_flops_s", m.rates.processors.flops_s},
                             {"processor_updates_s", m.rates.processors.updates_s},
                             {"processor_sum_bytes_s", m.rates.processors.sum_bytes_s}};
  out["not_compared"] = m.not_compared;
  out["ways"] = nlohmann::ordered_json::array();
  for (const auto& r : m.results)
    out["ways"].push_back({{"way", to_string(r.of)},
                           {"skipped", r.skipped},
                           {"keep_layers", r.kept.keep},
                           {"half_layers", r.kept.half},
                           {"spill_layers", r.kept.spill},
                           {"seconds", json_of(r.took())},
                           {"limit_s", r.limit_s},
                           {"bound_by", to_string(r.part)},
                           {"expected_s", r.expected_s},
                           {"least_s", r.least_s},
                           {"compute_s", r.compute_s},
                           {"disk_s", r.disk_s},
                           {"processors_s", r.processors_s},
                           {"memory_bytes", r.memory_bytes},
                           {"disk_bytes", r.disk_bytes},
                           {"read_bytes", r.read_bytes},
                           {"written_bytes", r.written_bytes},
                           {"counted",
                            {{"engine_read_bytes", r.counted.engine_read_bytes},
                             {"engine_written_bytes", r.counted.engine_written_bytes},
                             {"kernel_read_bytes", r.counted.kernel_read_bytes},
                             {"kernel_written_bytes", r.counted.kernel_written_bytes}}},
                           {"redone_steps", r.redone_steps}});
  return out;
}

}  // namespace troupe::apps::swap_bench

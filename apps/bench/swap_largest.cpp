// By bisection: one layer more never needs less.
#include "apps/bench/swap_largest.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/swap_trainer.hpp"
#include "io/base/text.hpp"

namespace troupe::apps::swap_bench {

namespace {

bool fits(swap_plan plan, way w, int64_t layers, uint64_t free_bytes) {
  plan.layers = layers;
  auto o = options_of(plan);
  auto where = residency_of(w, plan, o);
  if (!where) return false;
  o.shape.where = std::move(*where);
  const auto sizes = gpu::plan_stage(o.model, o.shape);
  return sizes.total() <= plan.host_bytes && sizes.on_disk <= free_bytes;
}

/// Two steps of it: the first one's moments are not read.
result<largest_model> prove(swap_plan plan, way w, int64_t layers) {
  largest_model out;
  out.layers = layers;
  if (layers == 0) return out;
  plan.layers = layers;
  TROUPE_TRY(made, trainer::make(w, plan));
  out.parameters = made->parameters();
  out.memory_bytes = made->memory_bytes();
  out.disk_bytes = made->disk_bytes();
  for (int step = 0; step < 2; ++step) {
    if (plan.stop && *plan.stop) return error{errc::cancelled, "interrupted"};
    TROUPE_TRY(took, made->run(1));
    out.step_s = took;
  }
  return out;
}

nlohmann::ordered_json json(const largest_model& m) {
  return {{"layers", m.layers},
          {"parameters", m.parameters},
          {"memory_bytes", m.memory_bytes},
          {"disk_bytes", m.disk_bytes},
          {"step_s", m.step_s}};
}

std::string text(const largest_model& m) {
  if (m.layers == 0) return fmt::format("{:>38}", "not one layer fits");
  return fmt::format("{:>7} {:>11.1f} M {:>10.2f} s step", m.layers,
                     static_cast<double>(m.parameters) / 1e6, m.step_s);
}

}  // namespace

int64_t most_layers_that_fit(const swap_plan& plan, way w, uint64_t free_bytes) {
  int64_t fitting = 0, beyond = deepest_layers + 1;
  while (beyond - fitting > 1) {
    // From below by doubling: what is far too deep takes long to plan.
    const auto next = beyond > deepest_layers
                          ? std::min(std::max<int64_t>(1, 2 * fitting), deepest_layers)
                          : (fitting + beyond) / 2;
    if (next <= fitting) break;
    (fits(plan, w, next, free_bytes) ? fitting : beyond) = next;
  }
  return fitting;
}

result<largest_row> measure_largest(const swap_plan& plan) {
  std::error_code failed;
  const auto space = std::filesystem::space(plan.dir, failed);
  if (failed) return error::system("look for room in " + plan.dir.string(), failed.value());
  largest_row out;
  out.host_bytes = plan.host_bytes;
  TROUPE_TRY(held,
             prove(plan, way::inmem, most_layers_that_fit(plan, way::inmem, space.available)));
  out.in_memory = held;
  TROUPE_TRY(moved, prove(plan, way::ours, most_layers_that_fit(plan, way::ours, space.available)));
  out.swapped = moved;
  return out;
}

std::string text(const std::vector<largest_row>& rows, const swap_plan& plan) {
  auto out = fmt::format(
      "the most layers of {} ({}, {} tokens a step) that make two steps:\n{:>10} "
      "{:>38} {:>38}\n",
      plan.model, plan.dtype, plan.tokens, "memory", "all of it in memory", "state on the drive");
  for (const auto& r : rows)
    out += fmt::format("{:>10} {:>38} {:>38}\n", bytes_text(r.host_bytes), text(r.in_memory),
                       text(r.swapped));
  return out;
}

nlohmann::ordered_json json(const std::vector<largest_row>& rows, const swap_plan& plan) {
  nlohmann::ordered_json out{{"bench", "swap largest"},
                             {"model", plan.model},
                             {"dtype", plan.dtype},
                             {"tokens", plan.tokens},
                             {"rows", nlohmann::json::array()}};
  for (const auto& r : rows)
    out["rows"].push_back({{"host_bytes", r.host_bytes},
                           {"in_memory", json(r.in_memory)},
                           {"swapped", json(r.swapped)}});
  return out;
}

}  // namespace troupe::apps::swap_bench

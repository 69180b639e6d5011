// Steps that are made up, and what hearing of them takes.
#include "apps/sim_expecting.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/health/blame_policy.hpp"
#include "actors/predict/learning_policy.hpp"
#include "gpu/stopwatch.hpp"
#include "io/base/counted.hpp"
#include "io/base/splitmix.hpp"
#include "messages/msg.hpp"
#include "messages/step_parts.hpp"

namespace troupe::apps {

namespace {

using op = train::pipeline_op;

/// What a rank in the middle of a pipeline with replicas tells of, in milliseconds of a step.
constexpr std::array parts_of_middle{
    std::pair{op::forward, 720.0},           std::pair{op::backward, 1440.0},
    std::pair{op::receive_activation, 40.0}, std::pair{op::receive_gradient, 40.0},
    std::pair{op::send_activation, 40.0},    std::pair{op::send_gradient, 40.0},
    std::pair{op::reduce_scatter, 200.0},    std::pair{op::norm, 5.0},
    std::pair{op::all_reduce, 1.0},          std::pair{op::update, 300.0},
    std::pair{op::all_gather, 150.0}};

/// Of [0.98, 1.02).
double noise_of(uint64_t number) {
  return 0.98 + 0.04 * static_cast<double>(splitmix(number) >> 11) * 0x1p-53;
}

/// So many unlike steps that no two ranks are alike for long.
std::vector<msg<fbs::StepDone>> made_up_steps() {
  constexpr uint64_t kinds = 64;
  std::vector<msg<fbs::StepDone>> out;
  for (uint64_t k = 0; k < kinds; ++k)
    out.push_back(make_msg<fbs::StepDone>({}, [&](auto& done) {
      std::vector<train::step_part> parts;
      for (const auto& [kind, ms] : parts_of_middle)
        parts.push_back({kind, ms * noise_of(kinds * parts.size() + k), 0, 1 << 20});
      done.parts = train::to_message(parts);
    }));
  return out;
}

uint64_t heap_bytes() {
  return mallinfo2().uordblks;
}

/// As actors/train/run_times.cpp tells of steps.
constexpr uint64_t ranks_told_of_step = 256;
constexpr uint64_t ranks_of_node = 8;
constexpr uint32_t layers_of_rank = 2;

config::job learned_job(const rank_grid& grid) {
  config::job out;
  out.parallel.data = grid.data;
  out.parallel.pipeline = grid.pipeline;
  out.model.layers = layers_of_rank * grid.pipeline;
  return out;
}

/// Of ranks from the first one on.
predict::learned_step learned_step_of(const std::vector<msg<fbs::StepDone>>& made_up,
                                      const rank_grid& grid, uint64_t step, uint64_t first) {
  const auto ranks = static_cast<uint64_t>(grid.ranks());
  predict::learned_step out;
  out.epoch = 1;
  out.took_ms = 3000 * noise_of(step);
  out.replicas = static_cast<uint32_t>(grid.data);
  for (uint64_t i = 0; i < std::min(ranks, ranks_told_of_step); ++i) {
    const auto rank = (first + i) % ranks;
    const auto& said = made_up[splitmix(ranks * step + rank) % made_up.size()];
    out.ranks.push_back({static_cast<uint32_t>(rank), "node" + std::to_string(rank / ranks_of_node),
                         layers_of_rank, 8, train::parts_of(said->parts())});
  }
  return out;
}

}  // namespace

expecting_cost cost_of_expecting(const rank_grid& grid, uint64_t steps) {
  const auto made_up = made_up_steps();
  const auto ranks = static_cast<uint64_t>(grid.ranks());
  const auto before = heap_bytes();
  expecting_cost out;
  health::blame_policy policy({}, grid);
  for (uint64_t step = 1; step <= steps; ++step) {
    const double begun_s = gpu::seconds_now(gpu::time_kind::thread);
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      const auto& said = made_up[splitmix(ranks * step + rank) % made_up.size()];
      if (policy.hear(1, step, rank, train::parts_of(said->parts()))) policy.may_find();
    }
    out.cpu_s += gpu::seconds_now(gpu::time_kind::thread) - begun_s;
    const auto now = heap_bytes();
    out.bytes_per_rank = std::max(out.bytes_per_rank, (now - std::min(now, before)) / ranks);
  }
  return out;
}

learning_cost cost_of_learning(const rank_grid& grid, uint64_t steps) {
  const auto made_up = made_up_steps();
  const auto ranks = static_cast<uint64_t>(grid.ranks());
  const auto before = heap_bytes();
  learning_cost out;
  predict::learning_policy policy(learned_job(grid));
  for (uint64_t step = 1; step <= steps; ++step) {
    const double begun_s = gpu::seconds_now(gpu::time_kind::thread);
    policy.hear(learned_step_of(made_up, grid, step, (step - 1) * ranks_told_of_step % ranks));
    policy.take_suspects();
    const double heard_s = gpu::seconds_now(gpu::time_kind::thread);
    if (policy.fit_due()) policy.fit();
    out.hear_s += heard_s - begun_s;
    out.fit_s += gpu::seconds_now(gpu::time_kind::thread) - heard_s;
    const auto now = heap_bytes();
    out.bytes_per_rank = std::max(out.bytes_per_rank, (now - std::min(now, before)) / ranks);
  }
  out.samples = policy.samples();
  out.fits = policy.fits();
  return out;
}

std::string expecting_text(const expecting_cost& cost, double without_s) {
  return fmt::format(
      "expecting what parts of steps take: {:.2f} s of processor time beside {:.2f} s ({:+.1f} %), "
      "{:.1f} KiB a rank\n",
      cost.cpu_s, without_s, 100 * cost.cpu_s / std::max(without_s, 1e-9),
      static_cast<double>(cost.bytes_per_rank) / 1024);
}

nlohmann::ordered_json expecting_json(const expecting_cost& cost, double without_s) {
  return {{"cpu_s", cost.cpu_s},
          {"cpu_s_without", without_s},
          {"more_percent", 100 * cost.cpu_s / std::max(without_s, 1e-9)},
          {"bytes_per_rank", cost.bytes_per_rank}};
}

std::string learning_text(const learning_cost& cost, double without_s) {
  return fmt::format(
      "learning what parts of steps take: {:.2f} s of processor time beside {:.2f} s ({:+.1f} %), "
      "{:.2f} s of it in {}; {:.1f} KiB a rank\n",
      cost.cpu_s(), without_s, 100 * cost.cpu_s() / std::max(without_s, 1e-9), cost.fit_s,
      counted(cost.fits, "fit"), static_cast<double>(cost.bytes_per_rank) / 1024);
}

nlohmann::ordered_json learning_json(const learning_cost& cost, double without_s) {
  return {{"cpu_s", cost.cpu_s()},
          {"fit_s", cost.fit_s},
          {"fits", cost.fits},
          {"samples", cost.samples},
          {"cpu_s_without", without_s},
          {"more_percent", 100 * cost.cpu_s() / std::max(without_s, 1e-9)},
          {"bytes_per_rank", cost.bytes_per_rank}};
}

}  // namespace troupe::apps

// Tables whose labels are made by a known rule, for tests of predictors.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "gpu/predict/encoder.hpp"
#include "gpu/predict/random.hpp"

namespace troupe {

/// Machines of 40 CPU models: score = cores^.9 * mhz / 1000 * tier, with 2 % noise; and the
/// clock counts for more where the tier is gold, for less where it is not, as no line can say.
inline io::perf::perf_table planted_table(int rows, uint64_t seed) {
  using enum io::perf::feature_kind;
  io::perf::perf_table t{"planted",
                         {{"cores", "cpu", "1", log_number},
                          {"mhz", "cpu", "MHz", log_number},
                          {"mem_gb", "memory", "GB", log_number},
                          {"tier", "cpu", "1", category, true}},
                         {"score"},
                         {}};
  gpu::predict::random_numbers draw(seed);
  for (int i = 0; i < rows; ++i) {
    io::perf::perf_row r;
    r.id = "r" + std::to_string(10'000 + i);
    const auto model = draw.below(40);
    r.cpu_model = "model" + std::to_string(model);
    const double cores = std::exp(1 + 4 * draw.unit()), mhz = 2000 + 2000 * draw.unit();
    const double memory = cores * std::exp(2 * draw.uniform());
    const bool gold = model % 2 == 0;
    r.numbers = {cores, mhz, memory, io::perf::absent};
    r.words = {"", "", "", gold ? "gold" : "silver"};
    const double bend = (gold ? 0.4 : -0.4) * (mhz - 3000) / 1000;
    r.labels = {std::pow(cores, 0.9) * mhz / 1000 * (gold ? 1.3 : 1) *
                std::exp(bend + 0.02 * draw.normal())};
    t.rows.push_back(std::move(r));
  }
  return t;
}

/// The same, but rows come from 60 machines whose own factor no feature explains.
inline io::perf::perf_table planted_twins(int rows, uint64_t seed) {
  const auto machines = planted_table(60, seed);
  auto t = machines;
  t.rows.clear();
  gpu::predict::random_numbers draw(seed + 1);
  std::vector<double> factor;
  for (int m = 0; m < 60; ++m) factor.push_back(std::exp(0.1 * draw.normal()));
  for (int i = 0; i < rows; ++i) {
    const auto m = draw.below(60);
    auto r = machines.rows[m];
    r.id = "r" + std::to_string(10'000 + i);
    r.labels[0] *= factor[m] * std::exp(0.01 * draw.normal());
    t.rows.push_back(std::move(r));
  }
  return t;
}

inline gpu::predict::row_list rows_in(const io::perf::perf_table& t) {
  gpu::predict::row_list out;
  for (const auto& r : t.rows) out.push_back(&r);
  return out;
}

/// Every other row.
inline std::pair<gpu::predict::row_list, gpu::predict::row_list> halves_of(
    const io::perf::perf_table& t) {
  std::pair<gpu::predict::row_list, gpu::predict::row_list> out;
  for (size_t i = 0; i < t.rows.size(); ++i)
    (i % 2 == 0 ? out.first : out.second).push_back(&t.rows[i]);
  return out;
}

}  // namespace troupe

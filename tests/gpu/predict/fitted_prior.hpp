// A prior that is a trunk fitted to all rows of a table, for tests.
#pragma once

#include <doctest/doctest.h>

#include <utility>

#include "gpu/predict/fit.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "io/base/result.hpp"
#include "io/perf/table.hpp"

namespace troupe::gpu::predict::testing {

inline speed_prior fitted_prior(const io::perf::perf_table& of) {
  row_list rows;
  for (const auto& r : of.rows) rows.push_back(&r);
  fit_options options;
  options.kind = "trunk";
  auto model = fit_predictor(of, rows, {}, options);
  REQUIRE_MESSAGE(model, (model ? "" : render(model.error())));
  auto prior = speed_prior::of(std::move(*model), "fleet.tpm");
  REQUIRE_MESSAGE(prior, (prior ? "" : render(prior.error())));
  return std::move(*prior);
}

}  // namespace troupe::gpu::predict::testing

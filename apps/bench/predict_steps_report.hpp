// The steps of `troupe bench predict` as a table and as JSON, and what is to be reached.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "apps/bench/predict_steps.hpp"

namespace troupe::apps::predict_bench {

/// Whether what is aimed at was reached: an error of 12, 6 and 1.5 % on the average of all orders
/// after 40, 80 and 160 rows, from there on intervals that hold for 88 to 99 % of rows, 6.7 % of
/// the clusters; a fit within a second, a question within a millisecond (medians).
struct steps_verdict {
  bool errors = true, intervals = true, clusters = true, speed = true;
  bool all() const { return errors && intervals && clusters && speed; }
};
steps_verdict verdict_of(const steps_measurement& m);

std::string text_of(const steps_measurement& m);
nlohmann::ordered_json json_of(const steps_measurement& m);

}  // namespace troupe::apps::predict_bench

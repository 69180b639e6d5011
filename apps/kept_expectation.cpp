// One fact, which names its job.
#include "apps/kept_expectation.hpp"

#include <chrono>
#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "apps/past_steps.hpp"

namespace troupe::apps {

namespace {

constexpr const char* expectation_fact = "expected-step";

}  // namespace

void keep_expectation(const config::job& job, const report::expected_ms& expected,
                      const io::fact_store& store) {
  store.keep(expectation_fact, {{"of", work_of(job)},
                                {"step_ms", expected.step},
                                {"least_ms", expected.least},
                                {"most_ms", expected.most}});
}

std::optional<report::expected_ms> kept_expectation(const config::job& job,
                                                    const io::fact_store& store) {
  const auto kept = store.find(
      expectation_fact, std::chrono::duration_cast<std::chrono::hours>(defaults::ceiling_memory));
  if (!kept || !kept->is_object() || kept->value("of", nlohmann::json()) != work_of(job))
    return std::nullopt;
  const auto number = [&](const char* name) {
    const auto value = kept->value(name, nlohmann::json());
    return value.is_number() ? value.get<double>() : 0;
  };
  const report::expected_ms out{number("step_ms"), number("least_ms"), number("most_ms")};
  const auto is_time = [](double ms) { return std::isfinite(ms) && ms > 0; };
  if (!is_time(out.step) || !is_time(out.least) || !is_time(out.most)) return std::nullopt;
  return out;
}

}  // namespace troupe::apps

// Samples, and the best of them: see ceiling.hpp.
#include "apps/ceiling.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"

namespace troupe::apps {

namespace {

constexpr double most_flops = 1e18;  ///< a second; more is no measurement of a processor

/// What is kept, if it can be right; else 0.
double kept_flops(const io::fact_store& store, const std::string& fact) {
  const auto young = std::chrono::duration_cast<std::chrono::hours>(defaults::ceiling_memory);
  const auto kept = store.find(fact, young);
  if (!kept || !kept->is_object()) return 0;
  const auto flops = kept->find("flops");
  if (flops == kept->end() || !flops->is_number()) return 0;
  const auto value = flops->get<double>();
  return std::isfinite(value) && value > 0 && value < most_flops ? value : 0;
}

/// "peak-fma-avx2-2": the way and how many threads went it.
std::string fact_of(const gpu::peak_sample& first) {
  auto way = first.instruction;
  std::replace(way.begin(), way.end(), ' ', '-');
  return fmt::format("peak-{}-{}", way, first.threads);
}

}  // namespace

double share_of_peak(double flops, double ceiling) {
  return std::min(flops / ceiling, 1.0);  // CEIL-2
}

ceiling::ceiling(gpu::peak_meter meter, std::string fact, io::fact_store store)
    : meter_(std::move(meter)),
      fact_(std::move(fact)),
      store_(std::move(store)),
      flops_(kept_flops(store_, fact_)) {}

result<ceiling> ceiling::make(gpu::dtype type, int threads, io::fact_store store) {
  TROUPE_TRY(meter, gpu::peak_meter::make(type, threads));
  const double first = meter.first().best;
  auto fact = fact_of(meter.first());
  ceiling out(std::move(meter), std::move(fact), std::move(store));
  out.saw(first);
  return out;
}

double ceiling::sample() {
  const double flops = meter_.sample();
  saw(flops);
  return flops;
}

void ceiling::saw(double flops) {
  if (flops <= flops_) return;  // CEIL-1
  flops_ = flops;
  store_.keep(fact_, {{"flops", flops}});
}

}  // namespace troupe::apps

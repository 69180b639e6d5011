// The same measuring and settling as of a job that swaps.
#include "apps/swap/to_fit.hpp"

#include <fmt/format.h>

#include "actors/train/machine.hpp"
#include "actors/train/swap_forecast.hpp"
#include "actors/train/swap_ranks.hpp"
#include "apps/swap/rates.hpp"
#include "apps/talk.hpp"
#include "gpu/swap/limit_model.hpp"
#include "io/base/text.hpp"

namespace troupe::apps::swap {

std::optional<timed_way> time_swapping_to_fit(const train::job_plan& plan, uint64_t process_bytes,
                                              bool measures) {
  if (process_bytes == 0) return std::nullopt;
  auto way = train::swapping_to_fit(plan, process_bytes);
  if (!way) return std::nullopt;
  timed_way out{std::move(*way)};
  if (!measures || out.way.disk_bytes == 0 || !out.way.has_room()) return out;
  const auto rates = measure_rates(out.way.plan);
  if (!rates) {
    say("rates are not measured: " + render(rates.error()));
    return out;
  }
  settle_layers_here(out.way.plan, *rates);
  const auto forecast = train::forecast_swap(out.way.plan);
  if (!forecast) return out;
  out.expected_s = train::expected_seconds(*forecast, *rates);
  out.limit_s = gpu::limit_of(forecast->work.whole(), *rates).seconds;
  return out;
}

std::string timed_text(const timed_way& t) {
  if (!t.expected_s)
    return fmt::format("it fits by swapping: {}\n", train::swap_to_fit_text(t.way));
  return fmt::format("it fits by swapping: {}; a step takes {:.3g} s at least, {:.3g} s expected\n",
                     train::swap_to_fit_text(t.way), *t.limit_s, *t.expected_s);
}

nlohmann::ordered_json timed_json(const timed_way& t) {
  const auto& swap = t.way.plan.job.swap;
  nlohmann::ordered_json out{{"settings", t.way.settings},     {"dir", swap.dir},
                             {"host_bytes", swap.host_bytes},  {"floor_bytes", t.way.floor_bytes},
                             {"disk_bytes", t.way.disk_bytes}, {"has_room", t.way.has_room()}};
  if (t.way.plan.gpu_at.bytes > 0)
    out["device_floor_bytes"] =
        train::device_floor_bytes(t.way.plan, train::threads_here(t.way.plan.job.cluster));
  if (t.expected_s) out["expected_s"] = *t.expected_s;
  if (t.limit_s) out["limit_s"] = *t.limit_s;
  return out;
}

}  // namespace troupe::apps::swap

// The line of a step, for people and for machines.
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/report/report.hpp"
#include "apps/report/text.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"

namespace troupe::report {

namespace {

/// 3.0e-4: two digits and an exponent without padding.
std::string short_exponent(double x) {
  if (!std::isfinite(x)) return fixed(x, 1);
  if (x == 0) return "0";
  auto text = fmt::format("{:.1e}", x);  // 3.0e-04
  auto e = text.find('e');
  return fmt::format("{}e{}", text.substr(0, e), std::stoi(text.substr(e + 1)));
}

/// 212 ms, 8.4 ms, 0.42 ms: three digits at least.
std::string milliseconds(double ms) {
  if (!std::isfinite(ms)) return "- ms";
  return fmt::format("{:.{}f} ms", ms, ms >= 100 ? 0 : ms >= 1 ? 1 : 2);
}

}  // namespace

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "-";
  auto s = static_cast<int64_t>(std::llround(seconds));
  auto hours = s / 3600, minutes = s / 60 % 60;
  if (hours >= 24) return fmt::format("{} d {} h", hours / 24, hours % 24);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, s % 60);
  return fmt::format("{}:{:02}", minutes, s % 60);
}

std::string step_line(const step_report& r) {
  auto line = fmt::format("step {}/{} | loss {}", r.step, r.steps, fixed(r.loss, 3));
  if (r.validation_loss) line += " | validation " + fixed(*r.validation_loss, 3);
  line += fmt::format(" | norm {} | lr {} | {}", fixed(r.grad_norm, 2), short_exponent(r.lr),
                      milliseconds(r.step_ms));
  if (std::isfinite(r.peak_ratio)) line += fmt::format(" | {:.1f} % of peak", r.peak_ratio * 100);
  auto tokens = std::isfinite(r.tokens_per_s) && std::abs(r.tokens_per_s) < 1e18
                    ? grouped(std::llround(r.tokens_per_s))
                    : "-";
  line += fmt::format(" | {} tok/s", tokens);
  if (r.swap && r.swap->limit_ms > 0 && r.step_ms > 0)
    line += fmt::format(" | {:.2f} of the limit ({})", r.swap->limit_ms / r.step_ms,
                        r.swap->bound_by);
  if (r.swap && r.swap->limit_kept_ms > 0 && r.step_ms > 0)
    line += fmt::format(", {:.2f} by what the drive keeps", r.swap->limit_kept_ms / r.step_ms);
  if (r.swap)
    line += fmt::format(" | {} read, {} written", bytes_text(r.swap->read_bytes),
                        bytes_text(r.swap->written_bytes));
  if (r.power) line += fmt::format(" | {}{:.0f} W", r.power->modelled ? "~" : "", r.power->power_w);
  if (r.pace_percent < 100) line += fmt::format(" | pace {:.0f} %", r.pace_percent);
  return line + fmt::format(" | ETA {}", duration(r.eta_s));
}

std::string rewriting_line(const step_report& r, int columns) {
  auto line = step_line(r);  // ASCII, so bytes are columns
  if (columns > 0 && line.size() >= static_cast<size_t>(columns))
    line.resize(static_cast<size_t>(columns) - 1);  // the last column would wrap some terminals
  return "\r\x1b[K" + line;
}

std::string step_json(const step_report& r) {
  nlohmann::ordered_json j;
  j["type"] = "step";
  j["step"] = r.step;
  j["steps"] = r.steps;
  j["loss"] = finite_or_null(r.loss);
  if (r.validation_loss) j["validation_loss"] = finite_or_null(*r.validation_loss);
  j["grad_norm"] = finite_or_null(r.grad_norm);
  j["lr"] = finite_or_null(r.lr);
  j["step_ms"] = finite_or_null(r.step_ms);
  j["peak_ratio"] = finite_or_null(r.peak_ratio);
  j["tokens_per_s"] = finite_or_null(r.tokens_per_s);
  j["eta_s"] = finite_or_null(r.eta_s);
  j["checkpoint_wait_ms"] = finite_or_null(r.checkpoint_wait_ms);
  j["saved_step"] = r.saved_step;
  j["epoch"] = r.epoch;
  if (r.unix_s > 0) j["unix_s"] = unix_time(r.unix_s);
  if (r.tokens > 0) j["tokens"] = r.tokens;
  if (r.replicas > 0) j["replicas"] = r.replicas;
  if (r.process_peak_bytes > 0) j["process_peak_bytes"] = r.process_peak_bytes;
  if (r.power) {
    j["power_w"] = finite_or_null(r.power->power_w);
    j["power_source"] = r.power->modelled ? "modelled" : "measured";
    if (r.power->energy_j >= 0) j["energy_j"] = finite_or_null(r.power->energy_j);
  }
  if (!r.slack.empty()) j["slack"] = r.slack;
  if (r.pace_percent < 100 || r.power_wait_ms > 0) {
    j["pace_percent"] = finite_or_null(r.pace_percent);
    j["power_wait_ms"] = finite_or_null(r.power_wait_ms);
  }
  if (r.swap) {
    j["read_bytes"] = r.swap->read_bytes;
    j["written_bytes"] = r.swap->written_bytes;
    j["passes"] = r.swap->passes;
    j["swap_wait_ms"] = finite_or_null(r.swap->wait_ms);
    if (r.swap->limit_ms > 0) {
      j["limit_ms"] = finite_or_null(r.swap->limit_ms);
      j["of_limit"] = finite_or_null(r.step_ms > 0 ? r.swap->limit_ms / r.step_ms : 0);
      j["bound_by"] = r.swap->bound_by;
    }
    if (r.swap->limit_kept_ms > 0) j["limit_kept_ms"] = finite_or_null(r.swap->limit_kept_ms);
  }
  for (const auto& p : r.parts)
    j["parts"].push_back(nlohmann::ordered_json{{"kind", p.kind},
                                                {"busy_ms", finite_or_null(p.busy_ms)},
                                                {"waited_ms", finite_or_null(p.waited_ms)},
                                                {"work", p.work}});
  return j.dump();
}

}  // namespace troupe::report

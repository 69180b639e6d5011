// The end of a run, for people and for machines.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/report/report.hpp"
#include "apps/report/text.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "io/base/text.hpp"
#include "trace/text.hpp"

namespace troupe::report {

namespace {

/// Mean of the last tenth of the losses (at least one): a single step's loss is noisy.
double settled_loss(const std::vector<point>& losses) {
  auto count = std::max<size_t>(1, losses.size() / 10);
  double sum = 0;
  for (auto i = losses.size() - count; i < losses.size(); i++) sum += losses[i].value;
  return sum / static_cast<double>(count);
}

/// Text with its control characters shown as \xNN, line breaks and tabs kept, each line indented:
/// what a model wrote must not steer a terminal.
std::string harmless(const std::string& text) {
  std::string out = "  ";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\n  ";
    else if ((byte < 0x20 && c != '\t') || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "\n";
}

std::string losses_text(const summary& s) {
  const auto& first = s.losses.front();
  const auto& last = s.losses.back();
  auto text = fmt::format("loss        {} at step {}, {} at step {}", fixed(first.value, 4),
                          first.step, fixed(last.value, 4), last.step);
  if (s.losses.size() >= 20)
    text +=
        fmt::format(" (mean of the last {}: {})", s.losses.size() / 10,
                    fixed(settled_loss(s.losses), 4));
  text += "\n";
  if (s.validations.empty()) return text;
  auto best = std::min_element(s.validations.begin(), s.validations.end(),
                               [](auto& a, auto& b) { return a.value < b.value; });
  return text + fmt::format("validation  {} at step {}, best {} at step {}\n",
                            fixed(s.validations.back().value, 4), s.validations.back().step,
                            fixed(best->value, 4), best->step);
}

/// "12 saved, 1.4 GB; training was held up for 3.1 ms in all (0.02 %)": of the time of steps and
/// waits, since most of a wait lies between two steps.
std::string checkpoints_text(const summary& s) {
  auto text = fmt::format("            {} saved, {:.1f} MB; training was held up for {:.1f} ms",
                          grouped(s.checkpoints), static_cast<double>(s.checkpoint_bytes) / 1e6,
                          s.checkpoint_wait_ms);
  const auto all_ms = s.seconds * 1e3 + s.checkpoint_wait_ms;
  if (all_ms > 0) text += fmt::format(" ({:.2f} %)", 100 * s.checkpoint_wait_ms / all_ms);
  if (s.skipped_checkpoints > 0)
    text += fmt::format("; {} left out: the disk was too slow", grouped(s.skipped_checkpoints));
  return text + "\n";
}

/// "energy      ~1,234 J, 0.35 J a token; power held training up for 12.3 s (3.1 %)"
std::string energy_text(const summary& s) {
  const bool known = s.power && s.power->energy_j >= 0;
  if (!known && s.power_wait_ms == 0) return "";
  std::string text = "energy      not known";
  if (known) {
    const char* mark = s.power->modelled ? "~" : "";
    text = fmt::format("energy      {}{} J", mark, grouped(std::llround(s.power->energy_j)));
    if (s.tokens > 0)
      text += fmt::format(", {}{:.3g} J a token", mark,
                          s.power->energy_j / static_cast<double>(s.tokens));
  }
  if (s.power_wait_ms > 0)
    text += fmt::format("; power held training up for {:.1f} s", s.power_wait_ms / 1e3);
  if (s.power_wait_ms > 0 && s.seconds > 0)
    text += fmt::format(" ({:.1f} %)", s.power_wait_ms / 10 / s.seconds);
  return text + "\n";
}

double seen_ms(const summary& s) {
  return 1e3 * s.seconds / static_cast<double>(s.steps);
}

/// What was expected of a step beside what came, where there were steps.
std::string expected_text(const summary& s) {
  if (!s.expected || s.steps == 0) return "";
  const auto text = [](double ms) { return trace::duration_text(std::llround(1e6 * ms)); };
  return fmt::format("expected    {} a step ({} to {}), seen {}\n", text(s.expected->step),
                     text(s.expected->least), text(s.expected->most), text(seen_ms(s)));
}

}  // namespace

std::string summary_text(const summary& s, const canvas& on) {
  auto rate = s.seconds > 0 ? static_cast<double>(s.tokens) / s.seconds : 0;
  auto text = fmt::format("trained     {} {}, {} {} in {} ({} tok/s)\n", grouped(s.steps),
                          plural(s.steps, "step"), grouped(s.tokens), plural(s.tokens, "token"),
                          duration(s.seconds), grouped(std::llround(rate)));
  text += expected_text(s);
  if (s.recoveries > 0)
    text += fmt::format("            {}, {} made again; effective {:.1f} %\n",
                        counted(s.recoveries, "recovery", "recoveries"),
                        counted(s.steps_repeated, "step"), s.effective_percent);
  if (!s.losses.empty()) text += losses_text(s);
  if (!s.resumed.empty()) text += "resumed     " + s.resumed + "\n";
  if (s.settings_before > 0)
    text += fmt::format("set         {} before these\n", counted(s.settings_before, "other"));
  for (const auto& setting : s.settings) text += "set         " + printable(setting) + "\n";
  if (auto drawing = curve(s.losses, on); !drawing.empty()) text += "\nloss\n" + drawing + "\n";
  if (s.process_peak_bytes > 0)
    text += fmt::format("memory      {} at most, of the largest process with ranks\n",
                        bytes_text(s.process_peak_bytes));
  text += energy_text(s);
  if (!s.checkpoint.empty()) text += "checkpoint  " + s.checkpoint + "\n";
  if (s.checkpoints > 0) text += checkpoints_text(s);
  if (!s.model.empty()) text += "model       " + s.model + "\n";
  if (!s.log.empty()) text += "log         " + s.log + "\n";
  if (s.sample.empty()) return text;
  return text + "\nsample:\n" + harmless(s.prompt + s.sample);
}

std::string summary_json(const summary& s) {
  nlohmann::ordered_json j;
  j["type"] = "summary";
  j["seconds"] = finite_or_null(s.seconds);
  j["steps"] = s.steps;
  j["tokens"] = s.tokens;
  if (s.expected && s.steps > 0) {
    j["expected_step_ms"] = finite_or_null(s.expected->step);
    j["seen_step_ms"] = finite_or_null(seen_ms(s));
  }
  if (!s.losses.empty()) {
    j["first_loss"] = finite_or_null(s.losses.front().value);
    j["final_loss"] = finite_or_null(s.losses.back().value);
  }
  if (!s.validations.empty()) j["validation_loss"] = finite_or_null(s.validations.back().value);
  if (s.process_peak_bytes > 0) j["process_peak_bytes"] = s.process_peak_bytes;
  if (s.power && s.power->energy_j >= 0) {
    j["energy_j"] = finite_or_null(s.power->energy_j);
    j["energy_source"] = s.power->modelled ? "modelled" : "measured";
    if (s.tokens > 0)
      j["energy_a_token_j"] = finite_or_null(s.power->energy_j / static_cast<double>(s.tokens));
  }
  if (s.power_wait_ms > 0) j["power_wait_ms"] = finite_or_null(s.power_wait_ms);
  if (!s.checkpoint.empty()) j["checkpoint"] = s.checkpoint;
  j["checkpoints"] = s.checkpoints;
  j["checkpoint_bytes"] = s.checkpoint_bytes;
  j["skipped_checkpoints"] = s.skipped_checkpoints;
  j["checkpoint_wait_ms"] = finite_or_null(s.checkpoint_wait_ms);
  j["effective_percent"] = finite_or_null(s.effective_percent);
  j["recoveries"] = s.recoveries;
  j["steps_repeated"] = s.steps_repeated;
  if (!s.model.empty()) j["model"] = s.model;
  if (!s.log.empty()) j["log"] = s.log;
  if (!s.sample.empty()) {
    j["prompt"] = s.prompt;
    j["sample"] = s.sample;
  }
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace troupe::report

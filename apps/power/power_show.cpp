// Reading a budget's trace, its sums, and words.
#include "apps/power/power_show.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/power/power.hpp"
#include "apps/report/report.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/file.hpp"
#include "io/formats/number_table.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;

/// A tick holds for as many usual ones at most.
constexpr double joined_steps = 10;
constexpr size_t strip_margin = 8;

double usual_step_s(const std::vector<power::budget_trace_row>& ticks) {
  std::vector<double> steps;
  for (size_t i = 1; i < ticks.size(); ++i) steps.push_back(ticks[i].t_s - ticks[i - 1].t_s);
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

struct show_arguments {
  std::string file, svg;
  bool json = false;
};

result<int> show(const show_arguments& a) {
  TROUPE_TRY(told, read_budget_trace(a.file));
  if (!a.svg.empty()) TROUPE_CHECK(io::write_atomic(a.svg, budget_svg(told)));
  TROUPE_CHECK(print(a.json ? trace_json(told) + "\n" : budget_text(told)));
  return 0;
}

/// A row of characters, one a column.
std::string strip_text(std::string_view name, const std::vector<trace_column>& columns,
                       const std::function<char(const trace_column&)>& mark_of) {
  auto out = fmt::format("{:<{}}", name, strip_margin);
  for (const auto& c : columns) out += c.ticks == 0 ? ' ' : mark_of(c);
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

char cap_mark(double share) {
  return share >= 1 ? '.' : share > 0.85 ? '-' : share > 0.7 ? '=' : '#';
}

std::string for_seconds(double s) {
  return s < 100 ? fmt::format("{:.3g} s", s) : report::duration(s);
}

}  // namespace

std::vector<trace_column> columns_of(const std::vector<power::budget_trace_row>& ticks,
                                     size_t count) {
  std::vector<trace_column> out(count);
  const double from_s = ticks.front().t_s, span_s = ticks.back().t_s - from_s;
  for (const auto& t : ticks) {
    const double part = (t.t_s - from_s) / span_s * static_cast<double>(count);
    auto& c = out[std::min(count - 1, static_cast<size_t>(part))];
    c.least_w = c.ticks == 0 ? t.watts : std::min(c.least_w, t.watts);
    c.most_w = std::max(c.most_w, t.watts);
    ++c.ticks;
    c.mean_w += (t.watts - c.mean_w) / static_cast<double>(c.ticks);
    c.low = std::min(c.low, t.low);
    c.high = std::min(c.high, t.high);
    c.brake = std::max(c.brake, t.brake);
    c.last = t;
  }
  // Ticks are not as even as columns: one without any is no gap beside ones that have few.
  for (size_t i = 1; i + 1 < count; ++i)
    if (out[i].ticks == 0 && out[i - 1].ticks > 0 && out[i + 1].ticks > 0) out[i] = out[i - 1];
  return out;
}

trace_sums sums_of(const std::vector<power::budget_trace_row>& ticks) {
  trace_sums out;
  out.span_s = ticks.back().t_s - ticks.front().t_s;
  out.step_s = usual_step_s(ticks);
  uint64_t before = ticks.front().brakes;
  for (size_t i = 0; i < ticks.size(); ++i) {
    const auto& t = ticks[i];
    out.most_w = std::max(out.most_w, t.watts);
    out.modelled = out.modelled || t.modelled;
    out.brakes += t.brakes >= before ? t.brakes - before : t.brakes;  // a later life counts anew
    before = t.brakes;
    if (i + 1 == ticks.size()) break;
    const double s = std::min(ticks[i + 1].t_s - t.t_s, joined_steps * out.step_s);
    const auto add = [s](double& to, bool is) { to += is ? s : 0; };
    out.known_s += s;
    out.energy_j += t.watts * s;
    add(out.over_s, t.watts > t.budget_w);
    add(out.low_capped_s, t.low < 1);
    add(out.high_capped_s, t.high < 1);
    add(out.set_s, t.brake == power::trace_brake::set);
    add(out.pulled_s, t.brake == power::trace_brake::pulled);
  }
  out.mean_w = out.energy_j / out.known_s;
  return out;
}

result<budget_told> read_budget_trace(const std::string& file) {
  TROUPE_TRY(text, io::read_file(file, io::number_table::most_bytes));
  const auto table = io::parse_number_table(text);
  if (!table) return table.error().within(file);
  auto ticks = power::budget_trace_of(*table);
  if (!ticks) return ticks.error().within(file);
  return budget_told{file, std::move(*ticks)};
}

std::string budget_text(const budget_told& told) {
  const auto s = sums_of(told.ticks);
  report::canvas canvas;
  canvas.columns = std::min(100, terminal_columns(1, 80));
  canvas.utf8 = speaks_utf8();
  canvas.unit = "second";
  const auto columns = columns_of(told.ticks, std::min<size_t>(1000, told.ticks.size()));
  std::vector<report::point> points;
  for (const auto& c : columns)
    if (c.ticks > 0)
      points.push_back({std::llround(c.last.t_s - told.ticks.front().t_s), c.mean_w});
  std::string out;
  const char* wave = s.modelled ? "~" : "";
  if (const auto curve = report::curve(points, canvas); !curve.empty())
    out += fmt::format("{}watts, of {:.4g}\n{}\n", wave, told.ticks.back().budget_w, curve);
  const auto across = static_cast<size_t>(canvas.columns) - strip_margin;
  const auto strips = columns_of(told.ticks, std::min(across, told.ticks.size()));
  out += strip_text("low", strips, [](const auto& c) { return cap_mark(c.low); }) +
         strip_text("high", strips, [](const auto& c) { return cap_mark(c.high); }) +
         strip_text("brake", strips,
                    [](const auto& c) { return c.brake == power::trace_brake::off ? '.' : 'B'; });
  out += "        of ceilings: . all, - above 85 %, = above 70 %, # less; B: work is held\n\n";
  out +=
      fmt::format("power   {0}{1:.4g} W in the mean, {0}{2:.4g} W at most; {0}{3:.4g} J in {4}\n",
                  wave, s.mean_w, s.most_w, s.energy_j, for_seconds(s.span_s));
  out += fmt::format("over    the budget for {}\n", for_seconds(s.over_s));
  out += fmt::format("capped  low for {}, high for {}\n", for_seconds(s.low_capped_s),
                     for_seconds(s.high_capped_s));
  out += fmt::format("brakes  {}, for {}; a person's, or another budget's, for {}\n", s.brakes,
                     for_seconds(s.pulled_s), for_seconds(s.set_s));
  if (s.known_s < s.span_s * 0.99)
    out += fmt::format("        of {} it is not known what was drawn\n",
                       for_seconds(s.span_s - s.known_s));
  return out;
}

std::string trace_json(const budget_told& told) {
  const auto s = sums_of(told.ticks);
  return ordered_json{{"type", "power_trace"},
                      {"ticks", told.ticks.size()},
                      {"from_unix_s", told.ticks.front().t_s},
                      {"span_s", s.span_s},
                      {"step_s", s.step_s},
                      {"known_s", s.known_s},
                      {"budget_w", told.ticks.back().budget_w},
                      {"mean_w", s.mean_w},
                      {"most_w", s.most_w},
                      {"energy_j", s.energy_j},
                      {"modelled", s.modelled},
                      {"over_s", s.over_s},
                      {"low_capped_s", s.low_capped_s},
                      {"high_capped_s", s.high_capped_s},
                      {"brakes", s.brakes},
                      {"braked_s", s.pulled_s},
                      {"set_brake_s", s.set_s}}
      .dump();
}

void add_show(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand("show", "What a served budget saw: watts, caps and brakes");
  auto a = std::make_shared<show_arguments>();
  verb->add_option("file", a->file, "power.csv of the budget's folder, or one before it")
      ->required()
      ->takes(offered::file);
  verb->add_option("--svg", a->svg, "Draw it into this file");
  verb->add_flag("--json", a->json, "As one JSON object");
  verb->footer(
      "Examples:\n"
      "  troupe power show power/row0/power.csv --svg row0.svg\n"
      "  troupe power plan power/row0/power.csv --servers 40 --budget-w 216000");
  on_run(sh, verb, [a] { return show(*a); });
}

}  // namespace troupe::apps::power_verb

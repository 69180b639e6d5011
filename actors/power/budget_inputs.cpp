// Lines out of what a policy is given, and a policy out of lines.
#include "actors/power/budget_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/config/power_tree.hpp"
#include "io/formats/json_text.hpp"

namespace troupe::power {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view inputs_kind = "budget";
constexpr int inputs_version = 1, inputs_depth = 5;
/// Reports that a tick's line takes: of each child, and some more.
constexpr size_t events_a_child = 4, further_events = 64;
constexpr int64_t inputs_far_ns = std::numeric_limits<int64_t>::max() / 4;
/// Bounds of what may be in rules, so that no policy is made that takes memory without end.
constexpr int64_t inputs_hour_ns = 3'600'000'000'000, inputs_tick_ns = 1'000'000;
constexpr int64_t greatest_mhz_of_rules = 1'000'000;

// -- what lines are made of: each listed once, to be written and to be read -----------------------

template <class Rung, class Visit>
void rung_cells(Rung& r, Visit&& cell) {
  cell(r.threshold), cell(r.lp_mhz), cell(r.hp_mhz), cell(r.at_once);
}

template <class Rules, class Visit>
void rules_cells(Rules& r, Visit&& cell) {
  cell(r.mode), cell(r.tick_ns), cell(r.ttl_ns), cell(r.actuation_ns), cell(r.noise_mw);
  cell(r.unruly_ticks), cell(r.fresh_ns), cell(r.pulls_brake), cell(r.clock_exponent);
  cell(r.thresholds.t1), cell(r.thresholds.t2), cell(r.thresholds.t3);
  auto& row = r.row;
  cell(row.rung_count), cell(row.hysteresis), cell(row.max_mhz), cell(row.brake_mhz);
  cell(row.settle_up_ns), cell(row.settle_down_ns), cell(row.brake_at);
  cell(row.brake_actuation_ns), cell(row.brake_hold_ns), cell(row.release_groups);
  cell(row.release_gap_ns), cell(row.stale_ticks);
  for (auto& rung : row.rungs) rung_cells(rung, cell);
}

template <class Child, class Visit>
void child_cells(Child& c, Visit&& cell) {
  cell(c.priority), cell(c.floor_mw), cell(c.static_share_mw), cell(c.ceiling_mw);
  cell(c.paused_mw), cell(c.idle_mw), cell(c.others_work), cell(c.remembered_mw);
}

template <class Report, class Visit>
void report_cells(Report& r, Visit&& cell) {
  cell(r.id.incarnation), cell(r.id.sent_ns), cell(r.drawn_mw);
  cell(r.order.epoch), cell(r.order.sequence), cell(r.in_force_mw), cell(r.wish_mw);
  cell(r.works), cell(r.held);
}

/// Appends to an array.
struct cell_writer {
  json& to;
  template <class T>
  void operator()(const T& x) const {
    if constexpr (std::is_enum_v<T>)
      to.push_back(static_cast<int>(x));
    else if constexpr (std::is_same_v<T, bool>)
      to.push_back(x ? 1 : 0);
    else
      to.push_back(x);
  }
  void operator()(const std::optional<int64_t>& x) const { to.push_back(x ? json(*x) : json()); }
};

/// Reads an array; once something is not as expected, nothing more.
struct cell_reader {
  const json* from = nullptr;
  size_t at = 0;
  bool sound = true;

  explicit cell_reader(const json& j, size_t begin = 0)
      : from(&j), at(begin), sound(j.is_array()) {}

  template <class T>
  void operator()(T& x) {
    const auto* j = next();
    if (j == nullptr) return;
    if constexpr (std::is_same_v<T, bool>) {
      const auto i = whole<int64_t>(*j);
      if (i == 0 || i == 1)
        x = i == 1;
      else
        sound = false;
    } else if constexpr (std::is_enum_v<T>) {  // all of them have two values, or row_brake's four
      constexpr int64_t last = std::is_same_v<T, row_brake> ? 3 : 1;
      const auto i = whole<int64_t>(*j);
      sound = sound && i >= 0 && i <= last;
      if (sound) x = static_cast<T>(i);
    } else if constexpr (std::is_floating_point_v<T>) {
      sound = sound && j->is_number() && std::isfinite(j->get<T>());
      if (sound) x = j->get<T>();
    } else {
      x = whole<T>(*j);
    }
  }
  void operator()(std::optional<int64_t>& x) {
    const auto* j = next();
    if (j == nullptr) return;
    x.reset();
    if (!j->is_null()) x = whole<int64_t>(*j);
  }
  /// Whether that was all of it, and as expected.
  bool ended() const { return sound && at == from->size(); }

 private:
  const json* next() {
    sound = sound && at < from->size();
    return sound ? &(*from)[at++] : nullptr;
  }
  template <class T>
  T whole(const json& j) {
    if (j.is_number_unsigned() && std::in_range<T>(j.get<uint64_t>())) return j.get<T>();
    if (j.is_number_integer() && !j.is_number_unsigned() && std::in_range<T>(j.get<int64_t>()))
      return j.get<T>();
    sound = false;
    return T{};
  }
};

const json* member_of(const json& j, const char* name) {
  const auto it = j.find(name);
  return it == j.end() ? nullptr : &*it;
}

bool is_time(int64_t ns) {
  return ns >= 0 && ns <= inputs_far_ns;
}

bool is_watts(int64_t mw) {
  return mw >= 0 && mw <= beyond_mw;
}

bool is_drawn_alone(const power_report& r, const power_report& before) {
  auto same = before;
  same.id.sent_ns = r.id.sent_ns;
  same.drawn_mw = r.drawn_mw;
  return same.id == r.id && same.order == r.order && same.in_force_mw == r.in_force_mw &&
         same.wish_mw == r.wish_mw && same.works == r.works && same.held == r.held;
}

/// Only what is there: most ticks grant nothing, and change nothing.
ordered_json decided_json(const budget_decision& d) {
  ordered_json out = ordered_json::object();
  auto grants = ordered_json::array();
  for (const auto& [child, g] : d.grants)
    grants.push_back({child, g.order.sequence, g.cap_mw, g.ttl_ns, g.shed ? 1 : 0,
                      g.answers.incarnation, g.answers.sent_ns});
  if (!grants.empty()) out["g"] = std::move(grants);
  const auto& row = d.row;
  if (row.lp_mhz) out["lp_mhz"] = *row.lp_mhz;
  if (row.hp_mhz) out["hp_mhz"] = *row.hp_mhz;
  if (row.brake) out["brake"] = *row.brake;
  if (row.release_group) out["release_group"] = *row.release_group;
  if (row.reason != row_reason::steady) out["reason"] = to_string(row.reason);
  if (d.thresholds_stand) out["thresholds_stand"] = true;
  if (d.short_of_floors) out["short_of_floors"] = true;
  return out;
}

/// Of rules that came from a file: check() bounds the rest.
bool are_bounded(const budget_rules& r) {
  const auto& row = r.row;
  const auto is_span = [](int64_t ns) { return ns >= 0 && ns <= inputs_hour_ns; };
  const auto is_clock = [](int mhz) { return mhz > 0 && mhz <= greatest_mhz_of_rules; };
  bool out = r.tick_ns >= inputs_tick_ns && is_span(r.fresh_ns) && is_span(row.settle_up_ns) &&
             is_span(row.settle_down_ns) && is_span(row.brake_actuation_ns) &&
             is_span(row.brake_hold_ns) && is_span(row.release_gap_ns) && is_clock(row.max_mhz) &&
             is_clock(row.brake_mhz) && row.release_groups >= 1 && row.stale_ticks >= 1 &&
             row.rung_count <= row_rules::most_rungs && r.clock_exponent > 0;
  for (size_t i = 0; i < std::min(row.rung_count, row_rules::most_rungs); ++i)
    out = out && is_clock(row.rungs[i].lp_mhz) && is_clock(row.rungs[i].hp_mhz);
  return out;
}

}  // namespace

// -- writing --------------------------------------------------------------------------------------

struct budget_inputs::writer {
  sink to;
  std::vector<std::optional<power_report>> last;  ///< of each child, as it was written
  std::vector<int64_t> covered_mw;                ///< the same
  json events = json::array();                    ///< since the last tick
  int64_t tick_ns = 0;                            ///< the last one's time
  uint64_t number = 0;                            ///< of lines in this life
};

budget_inputs::budget_inputs() = default;
budget_inputs::~budget_inputs() = default;
budget_inputs::budget_inputs(budget_inputs&&) noexcept = default;
budget_inputs& budget_inputs::operator=(budget_inputs&&) noexcept = default;

budget_inputs::budget_inputs(sink to, const budget_terms& terms) {
  if (!to) return;
  auto rules = json::array();
  rules_cells(terms.rules, cell_writer{rules});
  auto children = json::array();
  for (const auto& c : terms.children) {
    auto cells = json::array();
    child_cells(c, cell_writer{cells});
    children.push_back(std::move(cells));
  }
  to(ordered_json{{"power", inputs_kind},
                  {"version", inputs_version},
                  {"budget", terms.budget},
                  {"epoch", terms.epoch},
                  {"now_ns", terms.now_ns},
                  {"brake", static_cast<int>(terms.brake)},
                  {"rules", std::move(rules)},
                  {"children", std::move(children)}}
         .dump());
  writer_ = std::make_unique<writer>();
  writer_->to = std::move(to);
  writer_->last.resize(terms.children.size());
  writer_->tick_ns = terms.now_ns;
}

/// BIN-4
bool budget_inputs::has_room() {
  if (!writer_) return false;
  auto& w = *writer_;
  if (w.events.size() < events_a_child * w.last.size() + further_events) return true;
  w.to(ordered_json{{"n", w.number}, {"ends", "too many reports in a tick"}}.dump());
  writer_.reset();
  return false;
}

void budget_inputs::heard(size_t child, const power_report& r, int64_t now_ns) {
  if (!has_room()) return;
  auto& last = writer_->last[child];
  if (r.actuation_ns != (last ? last->actuation_ns : 0))
    writer_->events.push_back(json::array({child, r.actuation_ns}));
  json cells = {child, now_ns - writer_->tick_ns};
  if (last && is_drawn_alone(r, *last)) {
    cells.push_back(r.id.sent_ns);
    cell_writer{cells}(r.drawn_mw);
  } else {
    report_cells(r, cell_writer{cells});
  }
  last = r;
  writer_->events.push_back(std::move(cells));
}

void budget_inputs::let_go() {
  if (has_room()) writer_->events.push_back(json::array());
}

void budget_inputs::ticked(const own_cap& own, const budget_sample& seen, int64_t now_ns,
                           const budget_decision& decided) {
  if (!writer_) return;
  auto& w = *writer_;
  ordered_json line{{"n", w.number++}, {"t", now_ns}};
  if (!w.events.empty()) line["e"] = std::exchange(w.events, json::array());
  line["own"] = json{own.cap_mw, own.leased ? 1 : 0, own.left_ns};
  auto sample = json::array();
  cell_writer{sample}(seen.drawn_mw);
  cell_writer{sample}(seen.brake_armed);
  line["seen"] = std::move(sample);
  if (!std::ranges::equal(w.covered_mw, seen.covered_mw)) {
    w.covered_mw.assign(seen.covered_mw.begin(), seen.covered_mw.end());
    line["covered"] = w.covered_mw;
  }
  if (auto d = decided_json(decided); !d.empty()) line["d"] = std::move(d);
  w.tick_ns = now_ns;
  w.to(line.dump());
}

// -- deciding again -------------------------------------------------------------------------------

struct budget_replayer::life {
  budget_policy policy;
  std::vector<std::optional<power_report>> last;
  std::vector<int64_t> covered_mw;
  std::vector<int64_t> acts_ns;  ///< of each child, as it has told
  int64_t tick_ns = 0;
  uint64_t number = 0;

  /// A child has measured how long its caps take.
  std::string hear_actuation(const json& e) {
    cell_reader in(e);
    size_t child = 0;
    int64_t takes_ns = 0;
    in(child), in(takes_ns);
    if (!in.ended() || child >= acts_ns.size() || !is_time(takes_ns))
      return "a time of no child, or that no cap takes";
    acts_ns[child] = takes_ns;
    return {};
  }

  /// One report, or a person's word, before a tick at that time; why it is none.
  std::string hear(const json& e, int64_t until_ns) {
    if (e.is_array() && e.empty()) {
      policy.let_go();
      return {};
    }
    constexpr size_t actuation_cells = 2;
    if (e.is_array() && e.size() == actuation_cells) return hear_actuation(e);
    cell_reader in(e);
    size_t child = 0;
    int64_t after_ns = 0;
    in(child), in(after_ns);
    if (!in.sound || child >= last.size() || !is_time(after_ns) || tick_ns + after_ns > until_ns)
      return "a report of no child, or of no time before its tick";
    constexpr size_t short_cells = 4;
    power_report r;
    if (e.size() == short_cells) {
      if (!last[child]) return "a report that leaves out what none before has said";
      r = *last[child];
      in(r.id.sent_ns), in(r.drawn_mw);
    } else {
      report_cells(r, in);
    }
    if (!in.ended()) return "a report that is none";
    r.actuation_ns = acts_ns[child];
    last[child] = r;
    policy.hear(child, r, tick_ns + after_ns);
    return {};
  }

  std::string cover(const json& j) {
    const auto wrong = "what is covered is not a number of each child";
    if (!j.is_array() || (!j.empty() && j.size() != last.size())) return wrong;
    covered_mw.assign(j.size(), 0);
    cell_reader in(j);
    for (auto& mw : covered_mw) in(mw);
    return in.ended() && std::ranges::all_of(covered_mw, is_watts) ? "" : wrong;
  }
};

namespace {

struct tick_inputs {
  int64_t now_ns = 0;
  own_cap own;
  std::optional<int64_t> drawn_mw;
  bool brake_armed = false;
};

/// Of a line; none: it is no tick.
std::optional<tick_inputs> tick_in(const json& line) {
  const auto* at = member_of(line, "t");
  const auto* own = member_of(line, "own");
  const auto* seen = member_of(line, "seen");
  if (at == nullptr || own == nullptr || seen == nullptr) return std::nullopt;
  tick_inputs out;
  const auto time = json::array({*at});
  cell_reader t(time), o(*own), s(*seen);
  t(out.now_ns);
  o(out.own.cap_mw), o(out.own.leased), o(out.own.left_ns);
  s(out.drawn_mw), s(out.brake_armed);
  const bool sound = t.ended() && o.ended() && s.ended() && is_time(out.now_ns) &&
                     is_watts(out.own.cap_mw) && out.own.left_ns >= 0 &&
                     is_watts(out.drawn_mw.value_or(0));
  return sound ? std::optional(out) : std::nullopt;
}

/// Errors: why it is none.
result<budget_terms> terms_in(const json& line, size_t number) {
  const auto wrong = [&](const char* what) { return bad_budget_inputs(number, what); };
  budget_terms out;
  const auto* rules = member_of(line, "rules");
  const auto* children = member_of(line, "children");
  auto first = json::array();
  for (const auto* name : {"version", "epoch", "now_ns", "brake"})
    first.push_back(line.value(name, json()));
  int version = 0;
  cell_reader in(first);
  in(version), in(out.epoch), in(out.now_ns), in(out.brake);
  if (!in.ended() || rules == nullptr || children == nullptr || !children->is_array() ||
      !is_time(out.now_ns) || out.epoch > beyond_lives)
    return wrong("terms that lack something");
  if (version != inputs_version) return wrong("the version is another");
  if (children->size() > config::most_power_children) return wrong("too many children");
  cell_reader of_rules(*rules);
  rules_cells(out.rules, of_rules);
  if (!of_rules.ended() || !are_bounded(out.rules)) return wrong("rules that are none");
  int64_t shares_mw = 0;
  for (const auto& c : *children) {
    auto& child = out.children.emplace_back();
    cell_reader of_child(c);
    child_cells(child, of_child);
    if (!of_child.ended() || !is_watts(child.static_share_mw)) return wrong("a child that is none");
    shares_mw = std::min(beyond_mw, shares_mw + child.static_share_mw);
  }
  if (const auto s = check(out.rules, out.children, shares_mw); !s)
    return bad_budget_inputs(number, s.error().message);
  const auto* name = member_of(line, "budget");
  if (name != nullptr && name->is_string()) out.budget = name->get<std::string>();
  return out;
}

bool has_terms(const json& line) {
  const auto* kind = member_of(line, "power");
  return kind != nullptr && *kind == inputs_kind;
}

/// Errors: why it is none.
result<json> line_in(std::string_view text, bool is_whole, size_t number) {
  constexpr auto most = budget_replayer::most_line_bytes;
  if (text.size() > most) return bad_budget_inputs(number, fmt::format("more than {} bytes", most));
  if (!is_whole) return bad_budget_inputs(number, "cut short: no end of the line");
  auto line = io::parse_json(text, inputs_depth);
  if (!line) return bad_budget_inputs(number, line.error().message);
  if (!line->is_object()) return bad_budget_inputs(number, "no object");
  return std::move(*line);
}

}  // namespace

budget_replayer::budget_replayer() = default;
budget_replayer::~budget_replayer() = default;

result<bool> budget_replayer::take_line(const json& line, size_t number) {
  if (has_terms(line)) {
    TROUPE_TRY(terms, terms_in(line, number));
    const auto children = terms.children.size();
    row_state row;
    row.brake = terms.brake;
    budget_policy policy(terms.rules, std::move(terms.children), terms.epoch, terms.now_ns, row);
    life_.reset(new life{std::move(policy), {}, {}, {}, terms.now_ns, 0});
    life_->last.resize(children);
    life_->acts_ns.resize(children);
    found_.budget = terms.budget;
    ++found_.lives;
    return true;
  }
  if (line.contains("ends")) {  // BIN-4
    life_.reset();
    return true;
  }
  const auto tick = tick_in(line);
  const auto n = json::array({line.value("n", json())});
  uint64_t order = 0;
  cell_reader of_order(n);
  of_order(order);
  if (!tick || !of_order.ended()) return bad_budget_inputs(number, "neither terms nor a tick");
  if (!life_) {
    ++found_.passed_over;
    return true;
  }
  auto& l = *life_;
  if (order != l.number++)
    return bad_budget_inputs(
        number, fmt::format("tick {} where {} is next: lines are missing", order, l.number - 1));
  if (tick->now_ns < l.tick_ns) return bad_budget_inputs(number, "its time goes back");
  if (const auto* events = member_of(line, "e"); events != nullptr)
    for (const auto& e : *events)
      if (const auto why = l.hear(e, tick->now_ns); !why.empty())
        return bad_budget_inputs(number, why);
  if (const auto* covered = member_of(line, "covered"); covered != nullptr)
    if (const auto why = l.cover(*covered); !why.empty()) return bad_budget_inputs(number, why);
  l.tick_ns = tick->now_ns;
  const auto& now =
      l.policy.tick(tick->own, {tick->drawn_mw, tick->brake_armed, l.covered_mw}, tick->now_ns);
  ++found_.ticks;
  found_.grants += now.grants.size();
  const auto expected = json::parse(decided_json(now).dump());  // unordered, to be compared
  const auto written = line.value("d", json::object());
  if (expected == written) return true;
  found_.first_difference = {number, decided_json(now).dump(), written.dump()};
  return false;
}

/// A line that is none, or behind one that is missing, ends its life: a disk may have been full, or
/// without power. A later life is decided from its own terms; without one it is an error.
result<bool> budget_replayer::take(std::string_view text) {
  std::optional<error> bad;
  for (size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto lives = found_.lives;
    const auto line = line_in(text.substr(0, end), end < text.size(), number);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto same = line ? take_line(*line, number) : result<bool>(line.error());
    if (same && !*same) return false;
    if (found_.lives > lives) bad.reset();
    if (same) continue;
    if (!bad) bad = same.error();
    life_.reset();
    ++found_.passed_over;
  }
  if (bad) return *bad;
  return true;
}

bool is_budget_inputs(std::string_view text) {
  const auto first = text.substr(0, text.find('\n'));
  if (first.size() > budget_replayer::most_line_bytes) return false;
  const auto line = io::parse_json(first, inputs_depth);
  return line && line->is_object() && (has_terms(*line) || tick_in(*line));
}

}  // namespace troupe::power

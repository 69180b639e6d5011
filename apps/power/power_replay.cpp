// `troupe power replay`: a row's policy, or a budget's, once more over what it has seen.
//
// A journal's decisions are made again, line by line, until one differs. It keeps those that
// changed something: that another version would have changed nothing between them is not said. A
// trace of watts has none: it is shown what the policy would have decided, and can be journalled
// for another version. What a budget was given (power.inputs) is decided again tick by tick, life
// by life, with the files before it that are kept.
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/power/budget_inputs.hpp"
#include "actors/power/row_journal.hpp"
#include "apps/power/journal_file.hpp"
#include "apps/power/power.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "io/file.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;

std::string clock_text(const char* name, const std::optional<int>& mhz) {
  return mhz ? fmt::format("  {} {} MHz", name, *mhz) : "";
}

/// "     86.0 s   89.4 %  above      low 1110 MHz".
std::string decision_text(const power::row_record& r) {
  const auto& c = r.decided.commands;
  auto out =
      fmt::format("{:>12.1f} s  {}  {:<10}", static_cast<double>(r.now_ns) / 1e9,
                  r.sample.drawn ? fmt::format("{:6.1f} %", 100 * *r.sample.drawn) : "       -",
                  power::to_string(c.reason));
  out += clock_text("low", c.lp_mhz) + clock_text("high", c.hp_mhz);
  if (c.brake == true) out += "  brake";
  if (c.release_group) out += fmt::format("  release of group {}", *c.release_group);
  return out + "\n";
}

status needs_no_terms(const replay_arguments& a) {
  for (const auto& [name, option] : a.policy.without_table)
    if (option->count() > 0)
      return error{errc::usage, fmt::format("{} has no meaning with a journal", name),
                   "its first line has the terms of the policy"};
  if (!a.journal.empty())
    return error{errc::usage, "--journal has no meaning with a journal", "it is one"};
  return {};
}

std::string_view text_in(const io::mapped_file& file) {
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string budget_replay_text(const replay_arguments& a, const std::string& file,
                               const power::budget_replay& found) {
  std::string out;
  if (found.passed_over > 0)
    out = fmt::format(
        "{} lines are passed over: the terms of their life are kept no more, or a line before is "
        "torn or missing\n",
        found.passed_over);
  if (const auto& first = found.first_difference)
    return out + fmt::format(
                     "{}: line {} differs after {} ticks that are the same\n\n"
                     "decided   {}\njournal   {}\n",
                     file, first->line, found.ticks - 1, first->expected, first->found);
  return out + fmt::format("{}: all {} ticks of {} in {} are the same ({})\n", a.file, found.ticks,
                           printable(found.budget), counted(found.lives, "life", "lives"),
                           counted(found.grants, "grant", "grants"));
}

/// The oldest file that is kept first.
result<int> replay_budget(const replay_arguments& a) {
  TROUPE_CHECK(needs_no_terms(a));
  power::budget_replayer replayer;
  auto names = power_verb::journal_names(a.file);
  std::string file;
  bool same = true;
  std::optional<error> bad;  ///< of a file before, whose life no later one follows yet
  for (auto name = names.rbegin(); same && name != names.rend(); ++name) {
    const auto mapped = io::mapped_file::open(*name);
    if (!mapped && mapped.error().code == errc::not_found) continue;
    if (!mapped) return mapped.error();
    file = *name;
    const auto lives = replayer.found().lives;
    const auto went_on = replayer.take(text_in(**mapped));
    if (replayer.found().lives > lives) bad.reset();
    if (!went_on && !bad) bad = went_on.error().within(file);
    same = went_on ? *went_on : true;
  }
  if (same && bad) return *bad;
  const auto& found = replayer.found();
  if (found.lives == 0)
    return power::bad_budget_inputs(1, "the terms of this life are kept no more").within(a.file);
  if (!a.json) {
    TROUPE_CHECK(print(budget_replay_text(a, file, found)));
    return same ? 0 : 1;
  }
  ordered_json j{{"budget", found.budget}, {"lives", found.lives},
                 {"ticks", found.ticks},   {"grants", found.grants},
                 {"same", same},           {"passed_over", found.passed_over}};
  if (const auto& first = found.first_difference)
    j["first_difference"] = {{"file", file},
                             {"line", first->line},
                             {"expected", ordered_json::parse(first->expected)},
                             {"found", ordered_json::parse(first->found)}};
  TROUPE_CHECK(print(j.dump() + "\n"));
  return same ? 0 : 1;
}

result<int> replay_journal(const replay_arguments& a, std::string_view text) {
  TROUPE_CHECK(needs_no_terms(a));
  auto replayed = power::row_journal::replay(text);
  if (!replayed) return replayed.error().within(a.file);
  const auto& first = replayed->first_difference;
  if (a.json) {
    ordered_json j{{"policy", power::to_string(replayed->terms.rule)},
                   {"decisions", replayed->decisions},
                   {"brakes", replayed->brakes},
                   {"same", !first}};
    if (first)
      j["first_difference"] = {{"line", first->line},
                               {"expected", ordered_json::parse(first->expected)},
                               {"found", ordered_json::parse(first->found)}};
    TROUPE_CHECK(print(j.dump() + "\n"));
  } else if (first) {
    TROUPE_CHECK(print(
        fmt::format("{}: line {} differs after {} that are the same\n\n"
                    "decided   {}journal   {}",
                    a.file, first->line, replayed->decisions - 1, first->expected, first->found)));
  } else {
    TROUPE_CHECK(print(fmt::format(
        "{}: all {} kept decisions of {} are the same (brakes: {}); ticks "
        "that changed nothing are not kept\n",
        a.file, replayed->decisions, power::to_string(replayed->terms.rule), replayed->brakes)));
  }
  return first ? 1 : 0;
}

/// How many samples are one reading, the greatest of them, as for a plan; 1: none was asked for.
size_t samples_a_reading(const policy_arguments& p, const power::row_trace& trace) {
  if (p.telemetry->count() == 0) return 1;
  return static_cast<size_t>(std::max(1.0, std::floor(p.row.telemetry_s / trace.step_s + 1e-6)));
}

double greatest_w(const power::row_trace& trace, size_t from, size_t to) {
  double out = 0;
  for (size_t i = from; i < to; ++i) out = std::max(out, trace.row_w(i));
  return out;
}

result<int> replay_trace(replay_arguments& a) {
  TROUPE_CHECK(settle(a.policy));
  if (a.policy.budget->count() == 0)
    return error{errc::usage, "a trace of watts wants --budget-w", "what the breaker carries"};
  TROUPE_TRY(trace, read_trace(a.file));
  auto terms = terms_of(a.policy.row);
  const auto step_ns = power::step_ns_of(trace);
  if (!step_ns) return step_ns.error().within(a.file);
  const auto each = samples_a_reading(a.policy, trace);
  terms.tick_ns = *step_ns * static_cast<int64_t>(each);
  std::optional<io::atomic_file> journal;
  if (!a.journal.empty()) {
    TROUPE_TRY(file, io::atomic_file::create(a.journal));
    journal.emplace(std::move(file));
    TROUPE_CHECK(journal->write(power::to_line(terms)));
  }
  const power::row_policy policy(terms.rules());
  power::row_record r;
  size_t decisions = 0, readings = 0;
  for (size_t i = 0; i < trace.samples(); i += each) {
    r.before = r.decided.state;
    r.now_ns = static_cast<int64_t>(++readings) * terms.tick_ns;
    const double drawn_w = greatest_w(trace, i, std::min(i + each, trace.samples()));
    // A trace has no gaps, so what caps let through is never asked for.
    r.sample = {drawn_w / a.policy.row.budget_w, 1, false};
    r.decided = policy.decide(r.before, r.sample, r.now_ns);
    if (!r.is_worth_keeping()) continue;
    ++decisions;
    if (journal) TROUPE_CHECK(journal->write(power::to_line(r)));
    if (!a.json) TROUPE_CHECK(print(decision_text(r)));
  }
  if (journal) TROUPE_CHECK(journal->commit());
  const auto brakes = r.decided.state.brakes;
  if (a.json)
    TROUPE_CHECK(print(ordered_json{{"policy", a.policy.policy},
                                    {"samples", trace.samples()},
                                    {"readings", readings},
                                    {"decisions", decisions},
                                    {"brakes", brakes}}
                           .dump() +
                       "\n"));
  else
    TROUPE_CHECK(print(
        fmt::format("{} decisions in {} readings; brakes: {}\n", decisions, readings, brakes)));
  return 0;
}

}  // namespace

power::row_terms terms_of(const sim::row_options& o) {
  return {o.rule, o.thresholds, std::llround(o.actuation_s * 1e9),
          std::llround(o.telemetry_s * 1e9), o.release_groups};
}

result<int> run_replay(replay_arguments& a) {
  TROUPE_TRY(file, io::mapped_file::open(a.file));
  const auto text = text_in(*file);
  if (power::is_budget_inputs(text)) return replay_budget(a);
  if (text.starts_with('{')) return replay_journal(a, text);
  return replay_trace(a);
}

}  // namespace troupe::apps::power_verb

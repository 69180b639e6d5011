// Lines to decisions and back.
#include "actors/power/row_journal.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/formats/json_text.hpp"

namespace troupe::power {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kind_name = "row";
constexpr int journal_version = 1;
constexpr int64_t day_ns = 86'400'000'000'000;
constexpr std::array<std::string_view, 4> brake_names = {"off", "arming", "on", "releasing"};
constexpr int bound_of_groups = 1 << 20;

template <class T>
ordered_json or_none(const std::optional<T>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}

ordered_json state_json(const row_state& s) {
  return {{"level", s.level},
          {"brake", brake_names[static_cast<size_t>(s.brake)]},
          {"brake_ns", s.brake_ns},
          {"brakes", s.brakes},
          {"released_groups", s.released_groups},
          {"command_ns", or_none(s.command_ns)},
          {"silent_ticks", s.silent_ticks}};
}

/// Reads members of one line; the first that is not as expected is remembered.
class line_reader {
 public:
  explicit line_reader(const json& j) : j_(j) {}

  int64_t integer(const char* name, int64_t low, int64_t high) {
    const auto* it = member(name);
    if (it == nullptr) return low;
    return within(*it, name, low, high);
  }
  std::optional<int64_t> integer_or_null(const char* name, int64_t low, int64_t high) {
    const auto* it = member(name);
    if (it == nullptr || it->is_null()) return {};
    return within(*it, name, low, high);
  }
  double number(const char* name) {
    const auto* it = member(name);
    if (it == nullptr) return 0;
    if (!it->is_number()) return fail(name, "a number"), 0;
    return it->get<double>();
  }
  std::optional<double> number_or_null(const char* name) {
    const auto* it = member(name);
    if (it == nullptr || it->is_null()) return {};
    return number(name);
  }
  bool boolean(const char* name) {
    const auto* it = member(name);
    if (it == nullptr) return false;
    if (!it->is_boolean()) return fail(name, "true or false"), false;
    return it->get<bool>();
  }
  std::optional<bool> boolean_or_null(const char* name) {
    const auto* it = member(name);
    if (it == nullptr || it->is_null()) return {};
    return boolean(name);
  }
  template <size_t N>
  size_t one_of(const char* name, const std::array<std::string_view, N>& names) {
    const auto* it = member(name);
    if (it == nullptr) return 0;
    if (it->is_string()) {
      const auto& text = it->get_ref<const std::string&>();
      const auto at = std::find(names.begin(), names.end(), text);
      if (at != names.end()) return static_cast<size_t>(at - names.begin());
    }
    return fail(name, fmt::format("one of {}", fmt::join(names, ", "))), 0;
  }
  row_state state(const char* name, size_t levels) {
    row_state s;
    const auto* it = member(name);
    if (it == nullptr) return s;
    if (!it->is_object()) return fail(name, "an object"), s;
    line_reader in(*it);
    constexpr auto far = std::numeric_limits<int64_t>::max() / 4;
    s.level = static_cast<size_t>(in.integer("level", 0, static_cast<int64_t>(levels)));
    s.brake = static_cast<row_brake>(in.one_of("brake", brake_names));
    s.brake_ns = in.integer("brake_ns", 0, far);
    s.brakes = static_cast<uint32_t>(in.integer("brakes", 0, UINT32_MAX));
    s.released_groups = static_cast<int>(in.integer("released_groups", 0, bound_of_groups));
    s.command_ns = in.integer_or_null("command_ns", 0, far);
    s.silent_ticks = static_cast<int>(in.integer("silent_ticks", 0, 1000));
    if (wrong_.empty() && !in.wrong_.empty()) wrong_ = fmt::format("{}: {}", name, in.wrong_);
    return s;
  }

  const std::string& wrong() const { return wrong_; }

 private:
  const json* member(const char* name) {
    const auto it = j_.find(name);
    if (it != j_.end()) return &*it;
    if (wrong_.empty()) wrong_ = fmt::format("no {}", name);
    return nullptr;
  }
  int64_t within(const json& x, const char* name, int64_t low, int64_t high) {
    // Numbers above 2^63 are unsigned to the parser.
    if (x.is_number_integer() && !(x.is_number_unsigned() && x.get<uint64_t>() > INT64_MAX)) {
      const auto i = x.get<int64_t>();
      if (i >= low && i <= high) return i;
    }
    return fail(name, fmt::format("an integer from {} to {}", low, high)), low;
  }
  void fail(const char* name, const std::string& expected) {
    if (wrong_.empty()) wrong_ = fmt::format("{} is not {}", name, expected);
  }

  const json& j_;
  std::string wrong_;
};

row_record record_of(line_reader& in, const row_rules& rules) {
  row_record r;
  constexpr auto far = std::numeric_limits<int64_t>::max() / 4;
  r.now_ns = in.integer("t_ns", 0, far);
  r.before = in.state("before", rules.rung_count);
  r.sample = {in.number_or_null("drawn"), in.number("at_caps"), in.boolean("unruly")};
  auto& d = r.decided;
  d.state = in.state("after", rules.rung_count);
  const auto mhz = [&](const char* name) -> std::optional<int> {
    const auto x = in.integer_or_null(name, 0, 1'000'000);
    return x ? std::optional(static_cast<int>(*x)) : std::nullopt;
  };
  d.commands.lp_mhz = mhz("lp_mhz");
  d.commands.hp_mhz = mhz("hp_mhz");
  d.commands.brake = in.boolean_or_null("brake");
  if (const auto g = in.integer_or_null("release_group", 0, bound_of_groups))
    d.commands.release_group = static_cast<int>(*g);
  d.commands.reason = static_cast<row_reason>(in.one_of("reason", row_reason_names));
  return r;
}

/// What stands between two lines and cannot: a decision that is not there. RJN-3
std::string missing_between(const row_record& last, const row_record& next) {
  const auto& a = last.decided.state;
  const auto& b = next.before;
  if (next.now_ns <= last.now_ns) return "its time is not after that of the line before";
  if (a.level != b.level || a.command_ns != b.command_ns || a.brakes != b.brakes ||
      a.released_groups != b.released_groups || a.brake != b.brake || a.brake_ns != b.brake_ns)
    return "its state before is not the one after the line before: a decision is missing";
  return {};
}

/// Of the first line. Readings before it may have been missing.
bool is_initial(row_state s) {
  s.silent_ticks = 0;
  return s == row_state{};
}

}  // namespace

row_rules row_terms::rules() const {
  auto out = rules_of(rule, thresholds, actuation_ns, tick_ns);
  out.release_groups = release_groups;
  return out;
}

bool row_record::is_worth_keeping() const {
  const auto& c = decided.commands;
  return c.lp_mhz || c.hp_mhz || c.brake || c.release_group ||
         decided.state.level != before.level || decided.state.brake != before.brake;
}

std::string to_line(const row_terms& t) {
  return ordered_json{{"power", kind_name},
                      {"version", journal_version},
                      {"policy", to_string(t.rule)},
                      {"t1", t.thresholds.t1},
                      {"t2", t.thresholds.t2},
                      {"t3", t.thresholds.t3},
                      {"actuation_ns", t.actuation_ns},
                      {"tick_ns", t.tick_ns},
                      {"release_groups", t.release_groups}}
             .dump() +
         "\n";
}

std::string to_line(const row_record& r) {
  const auto& c = r.decided.commands;
  return ordered_json{{"t_ns", r.now_ns},
                      {"drawn", or_none(r.sample.drawn)},
                      {"at_caps", r.sample.at_caps},
                      {"unruly", r.sample.unruly},
                      {"reason", to_string(c.reason)},
                      {"lp_mhz", or_none(c.lp_mhz)},
                      {"hp_mhz", or_none(c.hp_mhz)},
                      {"brake", or_none(c.brake)},
                      {"release_group", or_none(c.release_group)},
                      {"before", state_json(r.before)},
                      {"after", state_json(r.decided.state)}}
             .dump() +
         "\n";
}

namespace {

result<row_terms> terms_of(const json& j, size_t line) {
  line_reader in(j);
  row_terms t;
  const bool ours = j.is_object() && j.value("power", json()) == kind_name;
  if (!ours) return bad_row_journal(line, "no terms of a row's policy");
  if (in.integer("version", 0, INT32_MAX) != journal_version)
    return bad_row_journal(line, fmt::format("the version is not {}", journal_version));
  t.rule = static_cast<row_rule>(in.one_of("policy", row_rule_names));
  t.thresholds = {in.number("t1"), in.number("t2"), in.number("t3")};
  t.actuation_ns = in.integer("actuation_ns", 0, day_ns);
  t.tick_ns = in.integer("tick_ns", 1, day_ns);
  t.release_groups = static_cast<int>(in.integer("release_groups", 1, bound_of_groups));
  if (!in.wrong().empty()) return bad_row_journal(line, in.wrong());
  if (auto s = check(t.rule, t.thresholds); !s) return bad_row_journal(line, s.error().message);
  return t;
}

}  // namespace

result<row_replay> row_journal::replay(std::string_view text) {
  row_replay out;
  std::optional<row_policy> policy;
  std::optional<row_record> last;
  for (size_t line = 1; !text.empty(); ++line) {
    const auto end = text.find('\n');
    if (std::min(end, text.size()) > most_line_bytes)
      return bad_row_journal(line, fmt::format("more than {} bytes", most_line_bytes));
    if (end == text.npos) return bad_row_journal(line, "cut short: no end of the line");
    auto parsed = io::parse_json(text.substr(0, end), 4);
    text.remove_prefix(end + 1);
    if (!parsed) return bad_row_journal(line, parsed.error().message);
    if (!policy) {
      TROUPE_TRY(terms, terms_of(*parsed, line));
      out.terms = terms;
      policy.emplace(terms.rules());
      continue;
    }
    if (!parsed->is_object()) return bad_row_journal(line, "no object");
    line_reader in(*parsed);
    const auto found = record_of(in, policy->rules());
    if (!in.wrong().empty()) return bad_row_journal(line, in.wrong());
    if (!last && !is_initial(found.before))
      return bad_row_journal(line, "it does not begin at the beginning: decisions are missing");
    if (last)
      if (auto why = missing_between(*last, found); !why.empty())
        return bad_row_journal(line, std::move(why));
    auto expected = found;
    expected.decided = policy->decide(found.before, found.sample, found.now_ns);
    ++out.decisions;
    out.brakes += found.decided.commands.brake.value_or(false) ? 1 : 0;
    if (expected.decided.state != found.decided.state ||
        expected.decided.commands != found.decided.commands) {
      out.first_difference = {line, to_line(expected), to_line(found)};
      return out;
    }
    last = found;
  }
  if (!policy) return bad_row_journal(1, "no terms of a row's policy");
  return out;
}

}  // namespace troupe::power

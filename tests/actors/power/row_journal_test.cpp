// The journal of a row's policy: what is written is decided again, what differs is found.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/power/row_journal.hpp"
#include "actors/sim/rng.hpp"

using namespace troupe;
using namespace troupe::power;

namespace {

row_terms journal_terms(row_rule rule) {
  return {rule, {}, 6'000'000'000, 2'000'000'000, 2};
}

/// A journal of a row that goes up and down, with readings that are missing.
std::vector<std::string> lines_of(row_rule rule, uint64_t seed) {
  const auto terms = journal_terms(rule);
  const row_policy policy(terms.rules());
  std::vector<std::string> out = {to_line(terms)};
  sim::rng chance(seed);
  row_record r;
  double power = 0.7;
  for (int i = 0; i < 5000; ++i) {
    power = std::clamp(power + 0.06 * (chance.unit() - 0.5), 0.5, 1.1);
    r.before = r.decided.state;
    r.now_ns += terms.tick_ns;
    r.sample = {power, 1.2, chance.chance(0.05)};
    if (chance.chance(0.1)) r.sample.drawn.reset();
    r.decided = policy.decide(r.before, r.sample, r.now_ns);
    if (r.is_worth_keeping()) out.push_back(to_line(r));
  }
  return out;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& l : lines) out += l;
  return out;
}

std::string with(std::string line, const std::string& from, const std::string& to) {
  const auto at = line.find(from);
  REQUIRE(at != line.npos);
  return line.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("RJN-1: row journal: what was decided is decided again, bit by bit, with every policy") {
  for (size_t rule = 0; rule < row_rule_names.size(); ++rule) {
    CAPTURE(row_rule_names[rule]);
    const auto lines = lines_of(static_cast<row_rule>(rule), rule + 1);
    REQUIRE(lines.size() > 20);
    const auto replayed = row_journal::replay(text_of(lines));
    REQUIRE(replayed);
    CHECK(!replayed->first_difference);
    CHECK(replayed->decisions == lines.size() - 1);
    CHECK(replayed->brakes > 0);
  }
}

TEST_CASE("row journal: the first decision that differs is told, with its line and both") {
  auto lines = lines_of(row_rule::polca, 4);
  lines[0] = with(lines[0], "\"t1\":0.8", "\"t1\":0.81");
  const auto replayed = row_journal::replay(text_of(lines));
  REQUIRE(replayed);
  REQUIRE(replayed->first_difference);
  const auto& d = *replayed->first_difference;
  CHECK(d.found == lines[d.line - 1]);
  CHECK(d.expected != d.found);
  CHECK(replayed->decisions == d.line - 1);
}

TEST_CASE("RJN-3: row journal: a line that is missing or stands elsewhere is seen") {
  auto lines = lines_of(row_rule::polca, 4);
  auto gone = lines;
  gone.erase(gone.begin() + 5);
  auto twice = lines;
  twice.insert(twice.begin() + 5, lines[5]);
  for (const auto& wrong : {gone, twice}) {
    const auto replayed = row_journal::replay(text_of(wrong));
    REQUIRE(!replayed);
    CHECK(replayed.error().is(bad_row_journal));
  }
}

TEST_CASE("RJN-3: row journal: any line that is missing before another is seen") {
  const auto lines = lines_of(row_rule::none, 3);  // the brake alone
  REQUIRE(lines.size() > 20);
  for (size_t i = 1; i + 1 < 20; ++i) {
    CAPTURE(i);
    auto gone = lines;
    gone.erase(gone.begin() + static_cast<std::ptrdiff_t>(i));
    const auto replayed = row_journal::replay(text_of(gone));
    REQUIRE(!replayed);
    CHECK(replayed.error().is(bad_row_journal));
  }
}

TEST_CASE("RJN-2: row journal: what is no journal is refused with its line") {
  const auto lines = lines_of(row_rule::polca, 4);
  const auto refused = [&](const std::string& text) {
    const auto replayed = row_journal::replay(text);
    return !replayed && replayed.error().is(bad_row_journal) && !replayed.error().hint.empty();
  };
  CHECK(refused(""));
  CHECK(refused("{}\n"));
  CHECK(refused("[1]\n"));
  CHECK(refused("t_s,watts\n"));
  CHECK(refused(with(lines[0], "\"version\":1", "\"version\":2")));
  CHECK(refused(with(lines[0], "polca", "plca")));
  CHECK(refused(with(lines[0], "\"t1\":0.8", "\"t1\":8")));
  CHECK(refused(lines[0] + "7\n"));
  CHECK(refused(lines[0] + lines[1].substr(0, 40)));
  CHECK(refused(lines[0] + lines[1].substr(0, lines[1].size() - 1)));
  CHECK(refused(lines[0] + with(lines[1], "\"level\":0", "\"level\":9")));
  CHECK(refused(lines[0] + with(lines[1], "\"level\":0", "\"level\":-1")));
  CHECK(refused(lines[0] + with(lines[1], "\"level\":0", "\"level\":18446744073709551615")));
  CHECK(refused(lines[0] + with(lines[1], "\"reason\"", "\"raeson\"")));
  CHECK(refused(lines[0] + with(lines[1], "\"unruly\":", "\"unruly\":0.")));
  CHECK(refused(std::string(row_journal::most_line_bytes + 1, ' ') + "\n"));
}

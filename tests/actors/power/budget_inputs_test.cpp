// What a budget was given is decided again: all of it alike, and what another policy, or another
// line, would have made otherwise is found.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/power/budget_inputs.hpp"
#include "actors/sim/rng.hpp"
#include "tests/actors/power/budget_family.hpp"

using namespace troupe;
using namespace troupe::power;
using troupe::test::budget_second;

namespace {

constexpr size_t kept_children = 3;

/// A life of a budget whose children wish for more and less, are silent, draw too much, start again
/// and lie, and whose own watts fall; as the lines that are kept of it.
struct kept_life {
  budget_terms terms;
  std::vector<std::string> lines;
  budget_inputs inputs;
  budget_policy policy;
  size_t grants = 0, brakes = 0;

  explicit kept_life(budget_mode mode, uint64_t seed, int ticks = 600, bool measures = false)
      : terms(terms_with(mode)),
        inputs([this](const std::string& line) { lines.push_back(line); }, terms),
        policy(terms.rules, terms.children, terms.epoch, terms.now_ns) {
    sim::rng chance(seed), caps(seed + 1000);
    std::vector<int64_t> acts_ns(kept_children);
    std::vector<lease_policy> children;
    for (size_t i = 0; i < kept_children; ++i) children.emplace_back(30'000, 1, 30'000);
    std::vector<int64_t> covered(kept_children, 30'000);
    int64_t now = terms.now_ns, own_mw = 100'000;
    for (int i = 0; i < ticks; ++i) {
      now += budget_second;
      if (chance.chance(0.05)) own_mw = chance.between(90'000, 160'000);
      if (chance.chance(0.02)) covered.assign(kept_children, chance.between(30'000, 90'000));
      for (size_t c = 0; c < kept_children; ++c) {
        if (chance.chance(0.01)) children[c] = lease_policy(30'000, uint64_t(i) + 2, 30'000);
        children[c].read_back(children[c].tick(now - 1000));
        auto told = children[c].report(now - 1000, chance.between(20'000, 90'000), 90'000);
        if (chance.chance(0.2)) told.wish_mw = chance.between(0, 90'000);
        if (chance.chance(0.1)) told.drawn_mw.reset();
        told.works = !chance.chance(0.1);
        if (measures && caps.chance(0.1)) acts_ns[c] = caps.between(0, 40) * budget_second;
        told.actuation_ns = acts_ns[c];
        if (!chance.chance(0.05)) hear(c, told, now - 500);
      }
      if (chance.chance(0.01)) {
        policy.let_go();
        inputs.let_go();
      }
      const own_cap own{own_mw, !chance.chance(0.02)};
      budget_sample seen{chance.between(60'000, 150'000), !chance.chance(0.02), covered};
      if (chance.chance(0.05)) seen.drawn_mw.reset();
      const auto& decided = policy.tick(own, seen, now);
      inputs.ticked(own, seen, now, decided);
      grants += decided.grants.size();
      brakes += decided.row.brake.value_or(false) ? 1 : 0;
      for (const auto& g : decided.grants) children[g.child].hear(g.grant, now);
    }
  }

  void hear(size_t child, const power_report& r, int64_t now_ns) {
    if (policy.hear(child, r, now_ns) != report_verdict::impossible) inputs.heard(child, r, now_ns);
  }

  static budget_terms terms_with(budget_mode mode) {
    budget_terms out{"row0", 3, 1000 * budget_second, row_brake::off, test::rules_with(mode), {}};
    out.rules.pulls_brake = true;
    out.rules.row.release_groups = 2;
    for (size_t i = 0; i < kept_children; ++i)
      out.children.push_back({i == 0 ? power_class::high : power_class::low, 10'000, 30'000, 90'000,
                              1000, 5000, i == 1, 0});
    return out;
  }
};

std::string kept_text(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& l : lines) out += l + "\n";
  return out;
}

std::string with_replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

/// Whether all of it is decided alike.
bool same_again(budget_replayer& again, const std::string& text) {
  const auto out = again.take(text);
  REQUIRE_MESSAGE(out, (out ? std::string() : render(out.error())));
  return *out;
}

error refused_inputs(const std::string& text) {
  budget_replayer again;
  const auto out = again.take(text);
  REQUIRE_FALSE(out);
  return out.error();
}

}  // namespace

TEST_CASE("BIN-1: what a budget was given is decided again, in both modes, all of it alike") {
  for (const auto mode : {budget_mode::shares, budget_mode::thresholds})
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const kept_life life(mode, seed);
      REQUIRE(life.lines.size() == 601);
      budget_replayer again;
      CHECK(same_again(again, kept_text(life.lines)));
      CHECK_FALSE(again.found().first_difference);
      CHECK(again.found().budget == "row0");
      CHECK(again.found().lives == 1);
      CHECK(again.found().ticks == 600);
      CHECK(again.found().grants == life.grants);
      CHECK(life.grants > 600);
      CHECK(is_budget_inputs(kept_text(life.lines)));
      if (mode == budget_mode::thresholds) CHECK(life.brakes > 0);
    }
}

TEST_CASE("BIN-1, BGT-12: how long caps of children take is given, too, and decides alike again") {
  size_t differs = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const kept_life life(budget_mode::shares, seed, 600, true);
    budget_replayer again;
    CHECK(same_again(again, kept_text(life.lines)));
    CHECK(again.found().ticks == 600);
    auto lines = life.lines;
    for (auto& text : lines) {
      auto line = nlohmann::json::parse(text);
      if (!line.contains("e")) continue;
      auto& events = line["e"];
      for (size_t i = events.size(); i-- > 0;)
        if (events[i].size() == 2) events.erase(i);
      text = line.dump();
    }
    budget_replayer without;
    differs += same_again(without, kept_text(lines)) ? 0 : 1;
  }
  CHECK(differs > 0);
}

TEST_CASE("BIN-2: a time of no child, or that no cap takes, is refused") {
  const kept_life life(budget_mode::shares, 1, 50);
  for (const auto* event : {"[3,1000000000]", "[0,-1]", "[0,\"a\"]", "[0,9223372036854775807]"}) {
    auto lines = life.lines;
    auto tick = nlohmann::json::parse(lines[10]);
    tick["e"].insert(tick["e"].begin(), nlohmann::json::parse(event));
    lines[10] = tick.dump();
    CHECK(refused_inputs(kept_text(lines)).is(bad_budget_inputs));
  }
}

TEST_CASE(
    "budget inputs: another rule, another report or another decision is found, with its line") {
  const kept_life life(budget_mode::shares, 1);
  auto lines = life.lines;
  auto terms = nlohmann::json::parse(lines[0]);
  terms["rules"][4] = 5000;  // noise_mw
  lines[0] = terms.dump();
  budget_replayer other_rule;
  CHECK_FALSE(same_again(other_rule, kept_text(lines)));
  REQUIRE(other_rule.found().first_difference);
  CHECK(other_rule.found().first_difference->line > 1);
  CHECK(other_rule.found().first_difference->expected !=
        other_rule.found().first_difference->found);

  lines = life.lines;
  const auto at =
      static_cast<size_t>(std::find_if(lines.begin() + 300, lines.end(),
                                       [](const auto& l) { return l.find("\"g\":") != l.npos; }) -
                          lines.begin());
  REQUIRE(at < lines.size());
  auto tick = nlohmann::json::parse(lines[at]);
  tick["d"]["g"][0][2] = 1;  // the cap
  lines[at] = tick.dump();
  budget_replayer other_cap;
  CHECK_FALSE(same_again(other_cap, kept_text(lines)));
  REQUIRE(other_cap.found().first_difference);
  CHECK(other_cap.found().first_difference->line == at + 1);
  CHECK(other_cap.found().ticks == at);
}

TEST_CASE(
    "budget inputs: lives follow each other over files, and what has no terms is passed over") {
  const kept_life first(budget_mode::shares, 1, 50), second(budget_mode::shares, 2, 60);
  auto lines = first.lines;
  lines.erase(lines.begin(), lines.begin() + 20);
  budget_replayer again;
  CHECK(same_again(again, kept_text(lines)));
  CHECK(again.found().lives == 0);
  CHECK(again.found().passed_over == 31);
  const std::vector<std::string> half(second.lines.begin(), second.lines.begin() + 30);
  CHECK(same_again(again, kept_text(half)));  // the rest of it is in the next file
  const std::vector<std::string> rest(second.lines.begin() + 30, second.lines.end());
  CHECK(same_again(again, kept_text(rest)));
  CHECK(again.found().lives == 1);
  CHECK(again.found().ticks == 60);
}

TEST_CASE("BIN-3: a tick that is missing in a life is told, and taken for no difference") {
  const kept_life life(budget_mode::shares, 1, 50);
  auto lines = life.lines;
  lines.erase(lines.begin() + 25);
  const auto why = refused_inputs(kept_text(lines));
  CHECK(why.is(bad_budget_inputs));
  lines = life.lines;
  std::swap(lines[25], lines[26]);
  CHECK(refused_inputs(kept_text(lines)).is(bad_budget_inputs));
}

TEST_CASE("BIN-3: behind a torn or a missing line the next life is decided again") {
  const kept_life first(budget_mode::shares, 1, 50), second(budget_mode::shares, 2, 60);
  const auto next = kept_text(second.lines);
  auto missing = first.lines, torn = first.lines;
  missing.erase(missing.begin() + 25);
  torn[25].resize(torn[25].size() / 2);
  for (const auto& lines : {missing, torn}) {
    budget_replayer again;
    CHECK(same_again(again, kept_text(lines) + next));
    CHECK(again.found().lives == 2);
    CHECK(again.found().ticks == 24 + 60);
    CHECK(again.found().passed_over == lines.size() - 25);
    budget_replayer by_files;
    CHECK_FALSE(by_files.take(kept_text(lines)));
    CHECK(same_again(by_files, next));
    CHECK(by_files.found().ticks == 24 + 60);
  }
}

TEST_CASE("BIN-2: what is no line of a budget's inputs is refused and reaches no policy") {
  const kept_life life(budget_mode::shares, 1, 20);
  const auto text = kept_text(life.lines);
  const auto terms = nlohmann::json::parse(life.lines[0]);
  const auto with_terms = [&](const char* name, size_t i, const nlohmann::json& x) {
    auto changed = terms;
    changed[name][i] = x;
    return changed.dump() + "\n";
  };
  for (const auto& wrong :
       {std::string("{}\n"),
        std::string("[]\n"),
        std::string("x\n"),
        text.substr(0, text.size() - 1),
        with_replaced(text, "\"version\":1", "\"version\":2"),
        with_replaced(text, "\"brake\":0", "\"brake\":7"),
        with_terms("rules", 0, 2),
        with_terms("rules", 1, 0),
        with_terms("rules", 5, 17),
        with_terms("rules", 12, 9),
        with_terms("rules", 16, int64_t{1} << 60),
        with_terms("rules", 21, 0),
        with_terms("children", 0, nlohmann::json::array()),
        with_terms("children", 0, nlohmann::json(-1)),
        with_replaced(text, "\"own\":[", "\"own\":[-1,"),
        with_replaced(text, "\"own\":[", "\"owm\":["),
        with_replaced(text, "\"e\":[[0,", "\"e\":[[3,"),
        with_replaced(text, "\"e\":[[0,", "\"e\":[[0,-"),
        with_replaced(text, "\"e\":[[0,", "\"e\":[[0,9"),
        with_replaced(text, "\"covered\":[", "\"covered\":[1,"),
        life.lines[0] + "\n" + R"({"n":0,"t":1001000000000,"e":[[0,1,5,null]],)" +
            R"("own":[1,1,1],"seen":[null,0]})" + "\n",
        text + std::string(budget_replayer::most_line_bytes + 1, ' ') + "\n"})
    CHECK(refused_inputs(wrong).is(bad_budget_inputs));
  CHECK_FALSE(is_budget_inputs("t_s,watts\n0,1\n"));
  CHECK_FALSE(is_budget_inputs(R"({"power":"row","version":1})"
                               "\n"));
}

TEST_CASE("BIN-4: who reports without end in a tick ends what is kept of that life, and no more") {
  std::vector<std::string> lines;
  const auto terms = kept_life::terms_with(budget_mode::shares);
  budget_inputs inputs([&](const std::string& line) { lines.push_back(line); }, terms);
  power_report r;
  for (int i = 0; i < 100'000; ++i) {
    r.id = {1, i};
    inputs.heard(0, r, terms.now_ns + i);
  }
  inputs.ticked({}, {}, terms.now_ns + budget_second, {});
  REQUIRE(lines.size() == 2);
  const kept_life next(budget_mode::shares, 2, 10);
  lines.insert(lines.end(), next.lines.begin(), next.lines.end());
  budget_replayer again;
  CHECK(same_again(again, kept_text(lines)));
  CHECK(again.found().lives == 2);
  CHECK(again.found().ticks == 10);
}

TEST_CASE("budget inputs: a report that differs by what is drawn takes little room") {
  const kept_life life(budget_mode::shares, 1, 10);
  std::vector<std::string> lines;
  budget_inputs inputs([&](const std::string& line) { lines.push_back(line); }, life.terms);
  for (int i = 1; i <= 2; ++i) {
    const int64_t now = life.terms.now_ns + i * budget_second;
    for (size_t c = 0; c < kept_children; ++c)
      inputs.heard(c, {{1'795'996'982'000'000'000, now}, {3, 17}, 44'000, 41'000 + i, 90'000}, now);
    inputs.ticked({100'000}, {{}, true}, now, {});
  }
  REQUIRE(lines.size() == 3);
  CHECK(lines[2].size() < 80 + 45 * kept_children);
}

TEST_CASE("budget inputs: where nobody keeps them nothing is made") {
  budget_inputs none({}, kept_life::terms_with(budget_mode::shares));
  none.heard(0, {}, 0);
  none.let_go();
  none.ticked({}, {}, 0, {});
  budget_inputs empty;
  empty.heard(7, {}, 0);
  empty.ticked({}, {}, 0, {});
}

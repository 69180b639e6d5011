// Turns, and whether they can be taken: by what the ledger knows to be there.
#include "tests/cluster/turns.hpp"

#include <algorithm>

namespace troupe::cluster_test {

namespace {

constexpr std::string_view course_names[] = {"", "from an older one", "from one set aside",
                                             "from nothing"};
constexpr std::string_view trouble_names[] = {"", "a damaged one", "an emptied first tier"};
constexpr std::string_view rival_names[] = {"", "a second launcher while all are stopped",
                                            "a second launcher"};

/// Those of the first tier that may be damaged: there is another to go on with.
std::vector<ledger::copy> victims(const ledger& account) {
  auto out = account.whole();
  std::erase_if(out, [&](const ledger::copy& c) {
    auto then = account;
    then.spoiled(c);
    return c.tier != 0 || c.aside || then.expected() < 0;
  });
  return out;
}

turn random_turn(std::mt19937_64& random) {
  constexpr course hows[] = {course::rewind, course::rewind, course::go_back, course::fresh};
  const auto one_in = [&](uint64_t n) { return random() % n == 0; };
  turn t;
  if (one_in(3)) t.how = hows[random() % std::size(hows)];
  if (one_in(6)) t.what = one_in(2) ? trouble::damage : trouble::emptied;
  if (t.what == trouble::damage) t.how = course::go_on;  // it may hit what the return is to
  if (t.how != course::go_on && one_in(2)) {
    t.at = sight::aside;  // before anybody else could see it run
    return t;
  }
  if (one_in(6)) t.who = one_in(2) ? rival::frozen : rival::running;
  if (one_in(10)) t.at = one_in(3) ? sight::copied : sight::copy;
  if (one_in(20)) t.at = sight::publish;
  return t;
}

}  // namespace

std::string render(const turn& t) {
  std::string out;
  for (const auto part :
       {course_names[static_cast<size_t>(t.how)], trouble_names[static_cast<size_t>(t.what)],
        rival_names[static_cast<size_t>(t.who)]})
    if (!part.empty()) out += (out.empty() ? "" : ", ") + std::string(part);
  if (t.at) out += fmt::format("{}a kill at {}", out.empty() ? "" : ", ", to_string(*t.at));
  return out.empty() ? "nothing else" : out;
}

std::string_view to_string(deed d) {
  constexpr std::string_view names[deeds] = {"returns to an older one",
                                             "to one set aside",
                                             "fresh starts",
                                             "damaged ones",
                                             "emptied first tiers",
                                             "launchers refused frozen",
                                             "refused beside a running one"};
  return names[static_cast<size_t>(d)];
}

std::vector<deed> deeds_of(const turn& t) {
  std::vector<deed> out;
  if (t.how == course::rewind) out.push_back(deed::rewound);
  if (t.how == course::go_back) out.push_back(deed::went_back);
  if (t.how == course::fresh) out.push_back(deed::began_anew);
  if (t.what == trouble::damage) out.push_back(deed::damaged);
  if (t.what == trouble::emptied) out.push_back(deed::emptied);
  if (t.who == rival::frozen) out.push_back(deed::refused_frozen);
  if (t.who == rival::running) out.push_back(deed::refused_running);
  return out;
}

turn_deck::turn_deck(int steps, bool rivals)
    : steps_(steps),
      first_round_{{.how = course::fresh, .at = sight::aside},
                   {.how = course::rewind},
                   {.what = trouble::emptied, .who = rival::frozen},
                   {.what = trouble::damage},
                   {.at = sight::copied},
                   {.at = sight::copy},
                   {.how = course::go_back, .who = rival::running},
                   {.at = sight::publish}} {
  for (auto& t : first_round_)
    if (!rivals) t.who = rival::none;
}

/// Copies that a return may be to; in the first round not to a job that was done, which is over
/// before it can be killed.
std::vector<ledger::copy> turn_deck::destinations(const turn& t, const ledger& account) const {
  const int newest = account.step_of(account.expected());
  const bool first = std::find(first_round_.begin(), first_round_.end(), t) != first_round_.end();
  auto out = account.whole();
  std::erase_if(out, [&](const ledger::copy& c) {
    const int step = account.step_of(c.id);
    return t.how == course::rewind ? c.aside || step >= newest
                                   : !c.aside || (first && step >= steps_);
  });
  return out;
}

bool turn_deck::is_possible(const turn& t, const ledger& account, bool second_tier) const {
  auto then = account;
  if (t.what == trouble::damage && victims(account).empty()) return false;
  if (t.what == trouble::emptied) {
    if (!second_tier || account.expected(0) < 0) return false;
    then.emptied(0);
  }
  // Whoever goes on from the last step has nothing to do: the first tier stays as it was made.
  const bool harms = t.what != trouble::none && t.how == course::go_on;
  if (harms && account.step_of(account.expected(0)) >= steps_) return false;
  const bool copies = t.at == sight::copy || t.at == sight::copied;
  if ((copies || t.who == rival::running) && !second_tier) return false;
  if (t.how == course::fresh) return then.expected() >= 0;
  return t.how == course::go_on || !destinations(t, then).empty();
}

turn turn_deck::draw(std::mt19937_64& random, const ledger& account, bool second_tier) const {
  for (const auto& t : first_round_)
    if (is_possible(t, account, second_tier)) return t;
  const bool needs_aside =
      std::any_of(first_round_.begin(), first_round_.end(),
                  [](const turn& left) { return left.how == course::go_back; });
  const auto t = needs_aside ? turn{.how = course::fresh} : random_turn(random);
  return is_possible(t, account, second_tier) ? t : turn{};
}

void turn_deck::taken(const turn& t) {
  const auto found = std::find(first_round_.begin(), first_round_.end(), t);
  if (found != first_round_.end()) first_round_.erase(found);
}

std::string turn_deck::first_round_left() const {
  std::string out;
  for (const auto& t : first_round_) out += (out.empty() ? "" : "; ") + render(t);
  return out;
}

std::optional<ledger::copy> turn_deck::destination(const turn& t, const ledger& account,
                                                   std::mt19937_64& random) const {
  if (t.how != course::rewind && t.how != course::go_back) return std::nullopt;
  const auto some = destinations(t, account);
  REQUIRE_FALSE(some.empty());
  return some[random() % some.size()];
}

ledger::copy turn_deck::to_damage(const ledger& account, std::mt19937_64& random) {
  const auto some = victims(account);
  REQUIRE_FALSE(some.empty());
  return some[random() % some.size()];
}

}  // namespace troupe::cluster_test

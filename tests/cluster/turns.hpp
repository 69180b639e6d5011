// What else happens in the launch of a job that is killed: where it begins, what befell its first
// tier before, who else wants its folders, and a moment of what only some launches do. The first
// turns are of each kind once, always the first of them that can be taken; a start from nothing
// sets aside what one of them returns to. All else is chance.
#pragma once

#include <array>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cluster/ledger.hpp"
#include "tests/cluster/moments.hpp"

namespace troupe::cluster_test {

/// Where a launch begins.
enum class course : uint8_t {
  go_on,    ///< where the last one ended
  rewind,   ///< at an older checkpoint of its line, by path
  go_back,  ///< at one that was set aside, by path
  fresh,    ///< from nothing
};
/// What befalls the first tier before.
enum class trouble : uint8_t { none, damage, emptied };
/// A second launcher of the job: while all of the first one are stopped, or run; then a slow second
/// tier keeps the first from its end.
enum class rival : uint8_t { none, frozen, running };

struct turn {
  course how = course::go_on;
  trouble what = trouble::none;
  rival who = rival::none;
  std::optional<sight> at = {};  ///< the kill is at such a moment
  bool operator==(const turn&) const = default;
};
/// "from an older one, a second launcher".
std::string render(const turn& t);

/// What is counted of turns.
enum class deed : uint8_t {
  rewound,
  went_back,
  began_anew,
  damaged,
  emptied,
  refused_frozen,
  refused_running,
};
inline constexpr size_t deeds = 7;
std::string_view to_string(deed d);
std::vector<deed> deeds_of(const turn& t);

class turn_deck {
 public:
  static constexpr int kinds = 8;  ///< turns of the first round

  /// Of jobs of so many steps; in the first round with second launchers, or none.
  turn_deck(int steps, bool rivals);

  /// The next that can be taken as things are.
  turn draw(std::mt19937_64& random, const ledger& account, bool second_tier) const;
  /// It was taken, to its kill.
  void taken(const turn& t);
  /// What of the first round was not; in words, empty: all was.
  std::string first_round_left() const;

  /// Where a turn that says so begins: nothing for one from nothing.
  std::optional<ledger::copy> destination(const turn& t, const ledger& account,
                                          std::mt19937_64& random) const;
  /// A checkpoint of the first tier without which there is still one to go on with.
  static ledger::copy to_damage(const ledger& account, std::mt19937_64& random);

 private:
  std::vector<ledger::copy> destinations(const turn& t, const ledger& account) const;
  bool is_possible(const turn& t, const ledger& account, bool second_tier) const;

  int steps_;
  std::vector<turn> first_round_;
};

}  // namespace troupe::cluster_test

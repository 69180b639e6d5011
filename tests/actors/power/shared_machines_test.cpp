// Who works where.
#include "actors/power/shared_machines.hpp"

#include <set>
#include <string>

#include <doctest/doctest.h>

using namespace troupe::power;

namespace {

using by_machine = machine_counts;

/// So many that only this child has.
std::set<std::string> many_machines(size_t count, const std::string& child) {
  std::set<std::string> out;
  for (size_t i = 0; i < count; ++i) out.insert(child + std::to_string(i));
  return out;
}

}  // namespace

TEST_CASE(
    "SHM-1: machines are shared by the children that said that they work there, until each says "
    "otherwise") {
  shared_machines m(3);
  CHECK(m.shared_by(0).empty());
  m.hear(0, {"boot0", "boot1"});
  CHECK(m.shared_by(0).empty());
  m.hear(1, {"boot0"});
  m.hear(2, {"boot0", "boot2"});
  CHECK(m.shared_by(0) == by_machine{{"boot0", 3}});
  CHECK(m.shared_by(2) == by_machine{{"boot0", 3}});
  m.hear(1, {"boot0"});  // once more
  CHECK(m.shared_by(1) == by_machine{{"boot0", 3}});
  m.hear(2, {"boot1"});
  CHECK(m.shared_by(0) == by_machine{{"boot0", 2}, {"boot1", 2}});
  CHECK(m.shared_by(2) == by_machine{{"boot1", 2}});
  m.hear(0, {});
  CHECK(m.shared_by(0).empty());
  CHECK(m.shared_by(1).empty());
}

TEST_CASE(
    "SHM-1: machines that are shared above, too, have one more for each that is known there") {
  shared_machines m(2);
  m.hear(0, {"boot0", "boot1"});
  m.hear(1, {"boot0"});
  CHECK(m.all() == by_machine{{"boot0", 2}, {"boot1", 1}});
  const by_machine above = {{"boot0", 2}, {"boot1", 3}, {"boot2", 5}};
  CHECK(m.shared_by(0, above) == by_machine{{"boot0", 3}, {"boot1", 3}});
  CHECK(m.shared_by(1, above) == by_machine{{"boot0", 3}});
}

TEST_CASE("SHM-2: machines beyond all that are kept are not counted, until a child names fewer") {
  constexpr auto most = shared_machines::most_names;
  shared_machines m(3);
  CHECK(m.hear(0, many_machines(most - 1, "a")));
  CHECK(m.hear(1, {"a0"}));
  CHECK_FALSE(m.hear(2, {"a0"}));
  CHECK(m.shared_by(1) == by_machine{{"a0", 2}});
  CHECK(m.shared_by(2).empty());
  // What it had before is not counted either, and a report that is told again changes nothing.
  CHECK_FALSE(m.hear(1, {"a0", "a1"}));
  CHECK(m.shared_by(0).empty());
  CHECK(m.hear(2, {"a0"}));
  CHECK(m.hear(2, {"a0"}));
  CHECK(m.shared_by(0) == by_machine{{"a0", 2}});
  CHECK(m.all().size() == most - 1);
  CHECK(m.hear(0, {}));
  CHECK(m.hear(1, {"a0", "a1"}));
  CHECK(m.shared_by(2) == by_machine{{"a0", 2}});
}

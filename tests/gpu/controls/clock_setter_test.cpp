// A clock beside what computes: who waits for whom, which wish counts, and what is looked at later.
#include "gpu/controls/clock_setter.hpp"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/controls/operation_clocks.hpp"
#include "tests/gpu/controls/made_clock.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;
using namespace std::chrono_literals;
using troupe::gpu::controls::made::made_clock;

namespace {

using clocks = std::vector<int>;
/// No look of its own accord.
constexpr clock_setter_terms never{1h, 1h};

/// What a setter says of its failure, as a future.
struct awaited_failure {
  std::promise<std::string> said;
  std::future<std::string> text = said.get_future();
  std::function<void(const error&)> teller() {
    return [this](const error& e) { said.set_value(e.message); };
  }
};

}  // namespace

TEST_CASE("CKS-1, CKS-2: clock setter: a call that hangs holds nobody up, and the newest counts") {
  const auto device = std::make_shared<made_clock>();
  clock_setter setter(device, {}, never);
  CHECK(setter.is_at_least(highest_clock_mhz));
  device->hang(true);
  setter.wish(1000);
  CHECK(device->asked(1) == clocks{1000});
  CHECK_FALSE(setter.is_at_least(1001));  // it may have come down
  for (const int mhz : {900, 1200, 1100}) setter.wish(mhz);
  CHECK(device->asked(1) == clocks{1000});
  device->hang(false);
  CHECK(device->done(2) == clocks{1000, 1100});
}

TEST_CASE("CKS-2: clock setter: what is wished for later is replaced until then") {
  const auto device = std::make_shared<made_clock>();
  clock_setter setter(device, {}, never);
  setter.wish(1000, 1h);
  setter.wish(900);
  CHECK(device->done(1) == clocks{900});
  setter.wish(1400, 1ms);
  CHECK(device->done(2) == clocks{900, 1400});
}

TEST_CASE("CKS-2: clock setter: what is wished for later leaves what is due") {
  const auto device = std::make_shared<made_clock>();
  clock_setter setter(device, {}, never);
  device->hang(true);
  setter.wish(1000);
  CHECK(device->asked(1) == clocks{1000});
  setter.wish(900);
  setter.wish(1400, 1h);
  setter.wish(1300, 1h);
  device->hang(false);
  CHECK(device->done(2) == clocks{1000, 900});
}

TEST_CASE(
    "CKS-3: clock setter: a clock that is not in force lets the device go, and is said once") {
  const auto device = std::make_shared<made_clock>();
  awaited_failure failure;
  clock_setter setter(device, failure.teller(), {1ms, 1h});
  setter.wish(1000);
  device->await_checks(1);
  CHECK_FALSE(setter.has_failed());
  device->lie();
  setter.wish(900);
  CHECK(failure.text.get() == "it is higher");
  CHECK(device->done(3) == clocks{1000, 900, highest_clock_mhz});
  CHECK(setter.has_failed());
  setter.wish(800);
  CHECK(setter.is_at_least(highest_clock_mhz));
}

TEST_CASE(
    "CKS-3: clock setter: where clocks change all the time, one is looked at before the next") {
  const auto device = std::make_shared<made_clock>();
  clock_setter setter(device, {}, {1h, 0ms});
  setter.wish(1000);
  CHECK(device->done(1) == clocks{1000});
  setter.wish(900);
  device->await_checks(1);
  CHECK(device->done(2) == clocks{1000, 900});
}

TEST_CASE("CKS-5: clock setter: one that stays set is looked at again, and a note of it is told") {
  const auto device = std::make_shared<made_clock>();
  std::promise<std::string> said;
  clock_setter setter(device, {}, {1ms, 1ms},
                      [&](const std::string& note) { said.set_value(note); });
  setter.wish(1000);
  device->await_checks(3);  // without another wish: each millisecond there is one
  device->note("others compute there");
  CHECK(said.get_future().get() == "others compute there");
  device->await_checks(6);
  CHECK(device->done(1) == clocks{1000});
  CHECK_FALSE(setter.has_failed());
}

TEST_CASE(
    "CKS-5: clock setter: for whom a clock is given back is looked at until nobody is there") {
  const auto device = std::make_shared<made_clock>();
  clock_setter setter(device, {}, {1ms, 1ms});
  device->give_back_to(2);
  setter.wish(1000);
  device->await_checks(2);
  CHECK(setter.given_back_to() == 2);  // the first look is through
  setter.wish(highest_clock_mhz);
  device->done(2);
  device->give_back_to(0);
  const auto until = std::chrono::steady_clock::now() + 60s;  // it is looked at all the same
  while (setter.given_back_to() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  CHECK(setter.given_back_to() == 0);
}

TEST_CASE("CKS-3: clock setter: a clock that is refused ends it, too") {
  const auto device = std::make_shared<made_clock>();
  awaited_failure failure;
  clock_setter setter(device, failure.teller(), never);
  device->refuse();
  setter.wish(1000);
  CHECK(failure.text.get() == "nobody may");
  CHECK(device->done(2) == clocks{1000, highest_clock_mhz});
}

TEST_CASE("CKS-4: clock setter: a device that is left below its highest clock is let go") {
  const auto device = std::make_shared<made_clock>();
  {
    clock_setter setter(device, {}, never);
    setter.wish(1000);
    device->done(1);
  }
  CHECK(device->done(2) == clocks{1000, highest_clock_mhz});
}

TEST_CASE(
    "OCL-1, OCL-2: operations: a hanging call delays none, and behind the last all is highest") {
  const auto device = std::make_shared<made_clock>();
  operation_clocks of(device, {}, never);
  const auto table = clock_table_of({{1000, 3600, 3000}, {900, 3600, 3000}}, 0.01);
  device->hang(true);
  of.begin_pass(table);
  CHECK(device->asked(1) == clocks{1000});
  for (int pass = 0; pass < 3; ++pass) {  // while that call is made
    for (int i = 0; i < 2; ++i) {
      of.began();
      of.ended();
    }
    of.begin_pass(pass < 2 ? table : nullptr);
  }
  CHECK(device->asked(1) == clocks{1000});
  device->hang(false);
  CHECK(device->done(2) == clocks{1000, highest_clock_mhz});
  CHECK_FALSE(of.has_failed());
}

TEST_CASE("OCL-2: operations: a lower clock is asked for as the last one at a higher has ended") {
  const auto device = std::make_shared<made_clock>();
  operation_clocks of(device, {}, never);
  of.begin_pass(clock_table_of({{1400, 3600, 3600}, {900, 3600, 3000}}, 0.01));
  CHECK(device->done(1) == clocks{1400});
  of.began();
  of.ended();
  CHECK(device->done(2) == clocks{1400, 900});
  of.began();
  of.ended();
  CHECK(device->done(3) == clocks{1400, 900, highest_clock_mhz});
}

TEST_CASE(
    "OCL-3: operations: one that begins below its clock is late, but in a table's first pass") {
  const auto device = std::make_shared<made_clock>();
  operation_clocks of(device, {}, never);
  const auto table = clock_table_of({{900, 3600, 3000}, {1200, 3600, 3000}}, 0.01);
  const auto other = clock_table_of({{900, 3600, 3000}, {1200, 3600, 3000}}, 0.01);
  for (const auto& now : {table, other}) {  // the same numbers are the same table
    of.begin_pass(now);
    device->done(1);
    of.began();
    of.began();  // sooner than anybody said
  }
  CHECK(of.take_late() == 1);
  CHECK(of.take_late() == 0);
}

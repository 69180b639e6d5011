// All devices of a made machine at one pace: those that a job governs are left to it, and what was
// found is back at the end.
#include "gpu/controls/machine_controls.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/controls/open_actuator.hpp"
#include "gpu/controls/seat.hpp"
#include "gpu/controls/setting_port.hpp"
#include "io/folder/lock.hpp"
#include "tests/gpu/controls/made_devices.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;
using namespace troupe::gpu::controls::made;

namespace {

const control_owner the_agent{"rack7", 0, 7};

struct impatient_devices : made_devices {
  impatient_devices() { at.patience = at.seat_patience = std::chrono::milliseconds(1); }

  result<std::unique_ptr<machine_controls>> try_controls(
      std::vector<setting_kind> words, const control_owner& owner = the_agent) const {
    auto devices = devices_of_machine(at, words);
    REQUIRE(devices);
    return machine_controls::make(at, std::move(*devices), owner);
  }
  std::unique_ptr<machine_controls> controls(setting_kind kind) const {
    auto out = try_controls({kind});
    REQUIRE_MESSAGE(out, (out ? "" : render(out.error())));
    return std::move(*out);
  }
};

}  // namespace

TEST_CASE("MCT-2: machine controls: a pace is in force until the end, which has what was found") {
  const impatient_devices m;
  const auto controls = m.controls(setting_kind::cpufreq);
  REQUIRE(controls->set(256));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1500000\n");
  CHECK(m.record_count() == 1);
  controls->end();
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
  CHECK(m.record_count() == 0);
  REQUIRE(controls->set(256));  // it has ended
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
}

TEST_CASE("MCT-1: machine controls: a device that a job governs is left to it until that ends") {
  impatient_devices m;
  auto of_job = m.governor(setting_kind::cpufreq);
  REQUIRE(of_job->set(512));
  const auto found = m.values(setting_kind::cpufreq);
  const auto another = m.make(setting_kind::cpufreq, 0, "tidy", 2);
  REQUIRE_FALSE(another);
  m.at.seat_patience = std::chrono::hours(1);  // MCT-3: it is not waited for
  const auto controls = m.controls(setting_kind::cpufreq);
  for (int i = 0; i < 2; ++i) {
    bool is_any_set = true;
    const auto done = controls->set(256, &is_any_set);
    REQUIRE_FALSE(done);
    CHECK_FALSE(is_any_set);
    CHECK(done.error().is(setting_governed));
    CHECK(done.error().message == another.error().message);  // it names who has it
  }
  CHECK(m.values(setting_kind::cpufreq) == found);
  of_job.reset();
  bool is_any_set = false;
  REQUIRE(controls->set(256, &is_any_set));
  CHECK(is_any_set);
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1500000\n");
}

TEST_CASE("MCT-2: machine controls: where heat alone keeps a device no job is said to have it") {
  const impatient_devices m;
  auto taken = take_seat(m.at, {setting_kind::cpufreq, ""}, std::string(restorer_name));
  REQUIRE(taken);
  std::optional<troupe::io::folder_lock> seat(std::move(*taken));
  const auto controls = m.controls(setting_kind::cpufreq);
  CHECK(controls->set(256).error().is(setting_governed));
  seat.reset();
  m.cool(2);
  CHECK(controls->set(256).error().is(setting_held_lower));
  m.cool(0);
  CHECK(controls->set(256));
}

TEST_CASE("MCT-2: machine controls: what reads back above what was written is not set") {
  const impatient_devices m;
  const auto controls = m.controls(setting_kind::rapl);
  m.files->lies = true;
  CHECK(controls->set(256).error().is(setting_not_in_force));
  m.files->lies = false;
  CHECK(controls->set(256));
}

TEST_CASE("machine controls: without the right nothing is changed") {
  const impatient_devices m;
  m.files->refused = "policy0";
  const auto made = machine_controls::make(m.at, {{{setting_kind::cpufreq, ""}}}, the_agent);
  REQUIRE_FALSE(made);
  CHECK(made.error().is(setting_refused));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
  CHECK(m.record_count() == 0);
}

TEST_CASE("machine controls: of two words for processors the second stands in for the first") {
  const impatient_devices m;
  {
    const auto both = m.try_controls({setting_kind::cpufreq, setting_kind::rapl});
    REQUIRE(both);
    CHECK((*both)->words() == std::vector<std::string_view>{"cpufreq"});
    REQUIRE((*both)->set(256));
    CHECK(m.values(setting_kind::rapl)["intel-rapl:0"] == "150000000\n");  // one at a time
  }
  m.files->refused = "policy0";
  {
    const auto second = m.try_controls({setting_kind::cpufreq, setting_kind::rapl});
    REQUIRE(second);
    CHECK((*second)->words() == std::vector<std::string_view>{"rapl"});
    REQUIRE((*second)->set(512));
    CHECK(m.values(setting_kind::rapl)["intel-rapl:0"] == "93750000\n");
    CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
  }
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1"})
    fill(m.at.devices / "class/powercap" / zone / "enabled", "0\n");
  const auto none = m.try_controls({setting_kind::cpufreq, setting_kind::rapl});
  REQUIRE_FALSE(none);
  CHECK(none.error().is(setting_refused));
  CHECK(m.record_count() == 0);
}

TEST_CASE("MCT-1: machine controls: a device that a job has by one word is tried on by no other") {
  const impatient_devices m;
  auto of_job = m.governor(setting_kind::cpufreq);
  const auto controls = m.try_controls({setting_kind::cpufreq, setting_kind::rapl});
  REQUIRE(controls);
  CHECK((*controls)->words().empty());
  CHECK((*controls)->set(256).error().is(setting_governed));
  CHECK(m.values(setting_kind::rapl)["intel-rapl:0"] == "150000000\n");
}

TEST_CASE("MCT-4: machine controls: words for GPUs that are not there let nothing begin") {
  impatient_devices m;
  m.at.gpu_library = []() -> result<const troupe::gpu::nvml::library*> {
    return error{errc::unavailable, "none"};
  };
  const std::vector words{setting_kind::cpufreq, setting_kind::nvml_clocks};
  CHECK(devices_of_machine(m.at, words).error().is(no_such_setting));
  CHECK(m.files->done.empty());
}

TEST_CASE("SGV-8: machine controls: what a killed agent has left is in force under the next one") {
  const impatient_devices m;
  const control_owner agent{"rack7", 0, 7, true}, next{"rack7", 0, 8, true};
  const auto found = m.values(setting_kind::cpufreq);
  m.files->dies_behind = 3;
  REQUIRE(in_another_process([&] {
            const auto first = m.try_controls({setting_kind::cpufreq}, agent);
            static_cast<void>((*first)->set(256));
          }) == killed_code);
  m.files->dies_behind = -1;
  const auto slow = m.values(setting_kind::cpufreq);
  CHECK(slow.at("policy1") == "1500000\n");
  m.files->done.clear();
  {
    const auto controls = m.try_controls({setting_kind::cpufreq}, next);
    REQUIRE(controls);
    CHECK((*controls)->adopted_at() == 256);
    CHECK(m.files->done == std::vector<std::string>{"policy0=1500000", "policy1=1500000"});
    (*controls)->leave();  // it did not come to hold the machine
  }
  CHECK(m.values(setting_kind::cpufreq) == slow);
  CHECK(m.record_count() == 1);
  {
    const auto controls = m.try_controls({setting_kind::cpufreq}, next);
    REQUIRE(controls);
    REQUIRE((*controls)->set(1024));
    CHECK(m.values(setting_kind::cpufreq) == found);
    REQUIRE((*controls)->set(64));
  }
  CHECK(m.values(setting_kind::cpufreq) == found);
  CHECK(m.record_count() == 0);
  CHECK((*m.try_controls({setting_kind::cpufreq}, next))->adopted_at() == whole_pace);
}

TEST_CASE("SGV-8: machine controls: what an agent leaves in order stays for the next one, too") {
  const impatient_devices m;
  const control_owner agent{"rack7", 0, 7, true}, next{"rack7", 0, 8, true};
  const auto found = m.values(setting_kind::cpufreq);
  {
    const auto first = m.try_controls({setting_kind::cpufreq}, agent);
    REQUIRE(first);
    CHECK((*first)->held_at() == whole_pace);
    REQUIRE((*first)->set(256));
    CHECK((*first)->held_at() == 256);
    (*first)->stay();
    REQUIRE((*first)->set(512));  // it is over
  }
  CHECK(m.values(setting_kind::cpufreq).at("policy1") == "1500000\n");
  CHECK(m.record_count() == 1);
  {
    const auto second = m.try_controls({setting_kind::cpufreq}, next);
    REQUIRE(second);
    CHECK((*second)->adopted_at() == 256);
    CHECK((*second)->held_at() == 256);
    REQUIRE((*second)->set(1024));
    CHECK((*second)->held_at() == whole_pace);
  }
  CHECK(m.values(setting_kind::cpufreq) == found);
  CHECK(m.record_count() == 0);
}

TEST_CASE("MCT-4: machine controls: where one device is refused what was taken over stays") {
  const impatient_devices m;
  const control_owner agent{"rack7", 0, 7, true};
  m.files->dies_behind = 3;
  REQUIRE(in_another_process([&] {
            const auto first = m.try_controls({setting_kind::cpufreq}, agent);
            static_cast<void>((*first)->set(256));
          }) == killed_code);
  m.files->dies_behind = -1;
  const auto slow = m.values(setting_kind::cpufreq);
  m.files->refused = "intel-rapl:0";
  const auto made = machine_controls::make(
      m.at, {{{setting_kind::cpufreq, ""}}, {{setting_kind::rapl, ""}}}, agent);
  REQUIRE_FALSE(made);
  CHECK(made.error().is(setting_refused));
  CHECK(m.values(setting_kind::cpufreq) == slow);
  CHECK(m.values(setting_kind::rapl)["intel-rapl:1"] == "150000000\n");
  CHECK(m.record_count() == 1);
}

namespace {

/// The processors by their clock, and the packages by their limit, as two devices.
result<std::unique_ptr<machine_controls>> controls_of_two(const made_devices& m,
                                                          const control_owner& owner) {
  return machine_controls::make(m.at, {{{setting_kind::cpufreq, ""}}, {{setting_kind::rapl, ""}}},
                                owner);
}

}  // namespace

TEST_CASE("MCT-5: machine controls: what an agent has left by its second word goes on by that") {
  const impatient_devices m;
  const control_owner agent{"rack7", 0, 7, true}, next{"rack7", 0, 8, true};
  const std::vector both{setting_kind::cpufreq, setting_kind::rapl};
  m.cool(2);  // the clock is not known in the heat
  {
    const auto first = m.try_controls(both, agent);
    REQUIRE(first);
    REQUIRE((*first)->words() == std::vector<std::string_view>{"rapl"});
    REQUIRE((*first)->set(256));
    (*first)->stay();
  }
  m.cool(0);
  const auto slow = m.values(setting_kind::rapl);
  REQUIRE(slow.at("intel-rapl:0") != "150000000\n");
  {
    const auto second = m.try_controls(both, next);
    REQUIRE(second);
    CHECK((*second)->words() == std::vector<std::string_view>{"rapl"});
    CHECK((*second)->adopted_at() == 256);
    CHECK(m.values(setting_kind::rapl) == slow);
    (*second)->leave();
  }
  {  // MCT-1: not where a job has them by the other word
    const auto of_job = m.governor(setting_kind::cpufreq);
    const auto third = m.try_controls(both, next);
    REQUIRE(third);
    CHECK((*third)->words().empty());
    CHECK(m.values(setting_kind::rapl) == slow);
  }
  const auto of_no_agent = m.try_controls(both, the_agent);
  REQUIRE(of_no_agent);
  CHECK((*of_no_agent)->words() == std::vector<std::string_view>{"cpufreq"});
}

TEST_CASE("MCT-5: machine controls: what is held of some devices is, where another is a job's") {
  const impatient_devices m;
  const control_owner agent{"rack7", 0, 7, true}, next{"rack7", 0, 8, true};
  auto of_job = m.governor(setting_kind::rapl);
  {
    const auto first = controls_of_two(m, agent);
    REQUIRE(first);
    CHECK((*first)->held_at() == whole_pace);
    CHECK((*first)->set(256).error().is(setting_governed));
    CHECK((*first)->held_at() == 256);
    CHECK((*first)->set(whole_pace).error().is(setting_governed));
    CHECK((*first)->held_at() == whole_pace);
    CHECK((*first)->set(256).error().is(setting_governed));
    (*first)->stay();
  }
  const auto slow = m.values(setting_kind::cpufreq);
  REQUIRE(slow.at("policy1") == "1500000\n");
  {  // the least that one was left at, so that none is made faster
    const auto second = controls_of_two(m, next);
    REQUIRE(second);
    CHECK((*second)->adopted_at() == 256);
    CHECK((*second)->held_at() == 256);
    (*second)->leave();
  }
  of_job.reset();
  const auto third = controls_of_two(m, next);  // the packages begin as they were found
  REQUIRE(third);
  CHECK((*third)->adopted_at() == 256);
  CHECK(m.values(setting_kind::cpufreq) == slow);
}

TEST_CASE("MCT-5: machine controls: what does not read back may be held all the same") {
  const impatient_devices m;
  const auto controls = m.controls(setting_kind::rapl);
  m.files->lies = true;
  CHECK(controls->set(256).error().is(setting_not_in_force));
  CHECK(controls->held_at() == 256);
  m.files->lies = false;
  REQUIRE(controls->set(whole_pace));
  CHECK(controls->held_at() == whole_pace);
}

TEST_CASE("OPA-2: open actuator: processors that another job has are asked for by no other word") {
  const impatient_devices m;
  const auto other = m.make(setting_kind::cpufreq, 0, "other", 2);
  REQUIRE(other);
  const auto limit = m.values(setting_kind::rapl);
  const std::vector<std::string> both{"cpufreq", "rapl"}, last{"cpufreq", "rapl", "pace"};
  const std::vector threads{11};
  const auto refused = open_actuator(both, m.at, {"tiny", 0}, threads, "");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(setting_governed));
  const auto pauses = open_actuator(last, m.at, {"tiny", 0}, threads, "");
  REQUIRE(pauses);
  CHECK_FALSE(pauses->control);
  CHECK(pauses->passed.size() == 1);
  CHECK(m.values(setting_kind::rapl) == limit);
}

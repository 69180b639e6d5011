// Settings of devices on a made tree: what is changed, in which order, and what was found is back,
// whenever the process is killed.
#include "gpu/controls/setting_governor.hpp"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "gpu/controls/control_journal.hpp"
#include "gpu/controls/restore.hpp"
#include "gpu/controls/thread_quota.hpp"
#include "tests/gpu/controls/made_devices.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;
using namespace troupe::gpu::controls::made;

namespace {

constexpr auto both_kinds = {setting_kind::cpufreq, setting_kind::rapl};

bool are_undone(const result<std::vector<restored>>& all) {
  if (!all) return false;
  for (const auto& r : *all)
    if (!r.outcome) return false;
  return true;
}

}  // namespace

TEST_CASE("SGV-2: setting governor: what was found is set at its end, not what the maker says") {
  const made_devices m;
  auto governor = m.governor(setting_kind::cpufreq);
  REQUIRE(governor->set(256));
  REQUIRE(governor->set(256));  // it is set
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1500000\n");
  governor->end();
  CHECK(m.files->done == std::vector<std::string>{"policy0=3000000", "policy1=3000000",
                                                  "policy0=1500000", "policy1=1500000",
                                                  "policy0=3000000", "policy1=3000000"});
  CHECK(m.record_count() == 0);
  REQUIRE(governor->set(100));  // it has ended
  governor.reset();
  CHECK(m.files->done.size() == 6);
}

TEST_CASE("setting governor: how long a setting takes until it was read back is measured") {
  const made_devices m;
  const auto governor = m.governor(setting_kind::cpufreq);
  CHECK(!governor->facts().p99_ns);
  REQUIRE(governor->set(1024));  // as it was found
  CHECK(!governor->facts().p50_ns);
  REQUIRE(governor->set(256));
  const auto facts = governor->facts();
  REQUIRE((facts.p50_ns && facts.p99_ns));
  CHECK(*facts.p50_ns > 0);
  CHECK(*facts.p50_ns <= *facts.p99_ns);
}

TEST_CASE("setting governor: packages have their long-term limit set, and nothing else") {
  const made_devices m;
  {
    const auto governor = m.governor(setting_kind::rapl);
    REQUIRE(governor->set(512));
    CHECK(m.values(setting_kind::rapl) ==
          std::map<std::string, std::string>{{"intel-rapl:0", "93750000\n"},
                                             {"intel-rapl:0:0", "150000000\n"},
                                             {"intel-rapl:1", "93750000\n"}});
    REQUIRE(governor->set(1024));
    CHECK(m.values(setting_kind::rapl)["intel-rapl:0"] == "150000000\n");
    CHECK(governor->facts().saves_energy);
    REQUIRE(governor->set(100));
  }
  CHECK(m.values(setting_kind::rapl)["intel-rapl:1"] == "150000000\n");
}

TEST_CASE("SGV-1: setting governor: what was found is on the disk before, or nothing changes") {
  const made_devices m;
  {
    const auto governor = m.governor(setting_kind::rapl);
    CHECK(m.files->was_recorded);
    CHECK(m.record_count() == 1);
  }
  m.files->done.clear();
  auto at = m.at;
  fill(m.folder / "file", "");
  for (const auto& nowhere : {m.folder / "file/records", fs::path{}}) {
    at.settings = nowhere;
    const auto made = setting_governor::make(at, {setting_kind::rapl, ""}, {"tiny", 0});
    REQUIRE_FALSE(made);
    CHECK(made.error().is(setting_refused));
  }
  CHECK(m.files->done.empty());
}

TEST_CASE("SGV-2: setting governor: killed at any moment, what was found is there again") {
  for (const auto kind : both_kinds)
    for (const bool before : {true, false}) {
      int kills = 0;
      for (int ended = killed_code; ended == killed_code && kills < 32; ++kills) {
        CAPTURE(to_string(kind));
        CAPTURE(kills);
        CAPTURE(before);
        const made_devices m;
        const auto found = m.values(kind);
        (before ? m.files->dies_before : m.files->dies_behind) = kills;
        ended = in_another_process([&] { live(m, kind); });
        m.files->dies_before = m.files->dies_behind = -1;
        CHECK(are_undone(restore(m.at, false)));
        CHECK(m.values(kind) == found);
        CHECK(m.record_count() == 0);
      }
      CHECK(kills == 9);  // two settings: tried, set, set, and set back; the last one is not killed
    }
}

TEST_CASE("SGV-2: restore: killed itself at any moment, the next one ends it") {
  for (const bool before : {true, false})
    for (const int moment : {0, 1}) {
      CAPTURE(before);
      CAPTURE(moment);
      const made_devices m;
      const auto found = m.values(setting_kind::rapl);
      leave(m, setting_kind::rapl);
      CHECK(m.values(setting_kind::rapl) != found);
      (before ? m.files->dies_before : m.files->dies_behind) = moment;
      CHECK(in_another_process([&] { static_cast<void>(restore(m.at, false)); }) == killed_code);
      m.files->dies_before = m.files->dies_behind = -1;
      CHECK(m.record_count() == 1);
      CHECK(are_undone(restore(m.at, false)));
      CHECK(m.values(setting_kind::rapl) == found);
      CHECK(m.record_count() == 0);
    }
}

TEST_CASE("SGV-2: setting governor: what a dead one left is taken back before all else") {
  for (const auto kind : both_kinds) {
    const made_devices m;
    const auto found = m.values(kind);
    leave(m, kind);
    {
      const auto governor = m.governor(kind);
      CHECK(m.values(kind) == found);
      REQUIRE(governor->set(300));
    }
    CHECK(m.values(kind) == found);
  }
}

TEST_CASE("SGV-1: setting governor: what empties the folder of a session leaves what was found") {
  made_devices m;
  const auto found = m.values(setting_kind::cpufreq);
  leave(m, setting_kind::cpufreq);
  fs::remove_all(m.at.records);
  auto at = m.at;
  at.records = m.folder / "of another session";  // as with sudo instead of a root login
  CHECK(are_undone(restore(at, false)));
  CHECK(m.values(setting_kind::cpufreq) == found);
}

TEST_CASE("SGV-2: setting governor: what was left and stays is never taken for found") {
  const made_devices m;
  leave(m, setting_kind::cpufreq);
  m.files->refused = "policy1";
  const auto held = m.make(setting_kind::cpufreq);
  CHECK_FALSE(held);
  CHECK(m.record_count() == 1);
  CHECK(m.values(setting_kind::cpufreq)["policy0"] == "3000000\n");
  m.files->refused.clear();
  fill(m.at.settings / "cpufreq.control", "junk");
  const auto made = m.make(setting_kind::cpufreq);
  REQUIRE_FALSE(made);
  CHECK(made.error().is(no_control_record));
}

TEST_CASE("SGV-2: restore: without the right what was left stays, and the reason has a remedy") {
  const made_devices m;
  leave(m, setting_kind::cpufreq);
  m.files->refused = "policy1";
  const auto left = restore(m.at, false);
  REQUIRE(left);
  REQUIRE(left->size() == 1);
  REQUIRE_FALSE(left->front().outcome);
  CHECK(left->front().outcome.error().is(undo_refused));
  CHECK(m.make(setting_kind::cpufreq).error().is(undo_refused));  // and so is a job told
  CHECK(m.record_count() == 1);
}

TEST_CASE("CRE-2: setting governor: after a reboot a record is void, and nothing is set by it") {
  const made_devices m;
  leave(m, setting_kind::cpufreq);
  fill(m.at.processes / "sys/kernel/random/boot_id", "boot-2\n");
  const auto now = m.values(setting_kind::cpufreq);
  SUBCASE("by restore") {
    CHECK(are_undone(restore(m.at, false)));
    CHECK(m.values(setting_kind::cpufreq) == now);
  }
  SUBCASE("by the next one") {
    m.governor(setting_kind::cpufreq).reset();
    CHECK(m.values(setting_kind::cpufreq) == now);
  }
  CHECK(m.record_count() == 0);
}

TEST_CASE("SGV-3: setting governor: one a machine, and another job is told who") {
  made_devices m;
  m.at.seat_patience = {};
  auto governor = m.governor(setting_kind::cpufreq);
  const auto other = m.make(setting_kind::cpufreq, 0, "other");
  REQUIRE_FALSE(other);
  CHECK(other.error().is(setting_governed));
  CHECK(other.error().message.find("tiny") != std::string::npos);
  const auto of_that_name = m.make(setting_kind::cpufreq, 0, "tiny", 2);
  REQUIRE_FALSE(of_that_name);
  CHECK(of_that_name.error().is(setting_governed));
  const auto packages = m.make(setting_kind::rapl, 0, "other");  // another device
  CHECK(packages);
  governor.reset();
  const auto later = m.make(setting_kind::cpufreq, 0, "other");
  CHECK(later);
}

TEST_CASE("SGV-3: setting governor: other ranks of the job set nothing, and take over") {
  const made_devices m;
  const auto found = m.values(setting_kind::cpufreq);
  auto first = m.governor(setting_kind::cpufreq, 0);
  const auto second = m.governor(setting_kind::cpufreq, 1);
  m.files->done.clear();
  REQUIRE(second->set(256));
  CHECK(m.files->done.empty());
  REQUIRE(first->set(256));
  first.reset();
  CHECK(m.values(setting_kind::cpufreq) == found);
  REQUIRE(second->set(256));
  CHECK(m.values(setting_kind::cpufreq)["policy0"] == "1500000\n");
  second->end();
  CHECK(m.values(setting_kind::cpufreq) == found);
}

TEST_CASE("SGV-3: restore: what a living process has set stays") {
  const made_devices m;
  const auto governor = m.governor(setting_kind::rapl);
  REQUIRE(governor->set(512));
  const auto all = restore(m.at, false);
  REQUIRE(are_undone(all));
  REQUIRE(all->size() == 1);
  CHECK(all->front().verdict == record_verdict::in_use);
  CHECK(m.values(setting_kind::rapl)["intel-rapl:0"] == "93750000\n");
  fs::remove_all(m.at.processes / fmt::format("{}", ::getpid()));  // nobody knows the process
  const auto again = restore(m.at, false);
  REQUIRE((again && again->size() == 1));
  CHECK(again->front().verdict == record_verdict::in_use);
  CHECK(m.values(setting_kind::rapl)["intel-rapl:0"] == "93750000\n");
}

TEST_CASE("SGV-4: setting governor: what does not read back is not set") {
  const made_devices m;
  auto governor = m.governor(setting_kind::rapl);
  REQUIRE(governor->set(256));
  m.files->lies = true;
  const auto set = governor->set(128);
  REQUIRE_FALSE(set);
  CHECK(set.error().is(setting_not_in_force));
  governor.reset();
  CHECK(m.record_count() == 1);  // nor is what was found
  m.files->lies = false;
  CHECK(are_undone(restore(m.at, false)));  // the process lives, and governs no more
  CHECK(m.values(setting_kind::rapl)["intel-rapl:0"] == "150000000\n");
  CHECK(m.record_count() == 0);
}

TEST_CASE("SGV-6: setting governor: what was taken back of a record is others' to change") {
  const made_devices m;
  leave(m, setting_kind::cpufreq);
  m.files->refused = "policy1";
  CHECK_FALSE(m.make(setting_kind::cpufreq));
  m.files->refused.clear();
  fill(m.at.devices / "devices/system/cpu/cpufreq/policy0/scaling_max_freq", "2000000\n");
  CHECK(are_undone(restore(m.at, false)));
  CHECK(m.values(setting_kind::cpufreq)["policy0"] == "2000000\n");
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
  CHECK(m.record_count() == 0);
}

TEST_CASE("SGV-6: setting governor: processors that are offline are no other's hindrance") {
  const made_devices m;
  leave(m, setting_kind::cpufreq);
  m.files->away = "policy1";
  const auto slow = m.values(setting_kind::cpufreq)["policy1"];
  {
    const auto governor = m.governor(setting_kind::cpufreq);
    REQUIRE(governor->set(256));
    CHECK(m.values(setting_kind::cpufreq)["policy0"] == "1500000\n");
    CHECK(m.values(setting_kind::cpufreq)["policy1"] == slow);
  }
  CHECK(m.values(setting_kind::cpufreq)["policy0"] == "3000000\n");
  CHECK(m.record_count() == 1);
  CHECK_FALSE(are_undone(restore(m.at, false)));
  m.files->away.clear();
  CHECK(are_undone(restore(m.at, false)));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
  CHECK(m.record_count() == 0);
}

TEST_CASE("SGV-6: setting governor: processors that go offline end no job, and are set once back") {
  const made_devices m;
  const auto governor = m.governor(setting_kind::cpufreq);
  m.files->away = "policy1";
  REQUIRE(governor->set(256));
  CHECK(m.values(setting_kind::cpufreq)["policy0"] == "1500000\n");
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
  m.files->away.clear();
  REQUIRE(governor->set(256));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1500000\n");
}

TEST_CASE("SGV-7: setting governor: a clock that is held down for heat is none that was found") {
  for (const char* type : {"Processor\n", "cpufreq-cpu0\n", "thermal-cpufreq-0\n"}) {
    const made_devices m;
    const auto cooler = m.at.devices / "class/thermal/cooling_device0";
    fill(cooler / "type", type);
    fill(cooler / "cur_state", "2\n");
    fill(m.at.devices / "class/thermal/cooling_device1/type", "Fan\n");
    fill(m.at.devices / "class/thermal/cooling_device1/cur_state", "3\n");
    const auto made = m.make(setting_kind::cpufreq);
    REQUIRE_FALSE(made);
    CHECK(made.error().is(setting_held_lower));
    CHECK(m.files->done.empty());
    CHECK(m.record_count() == 0);
    CHECK(m.make(setting_kind::rapl));
    fill(cooler / "cur_state", "0\n");
    CHECK(m.make(setting_kind::cpufreq));
  }
}

TEST_CASE("SGV-7: setting governor: what was set again is, though heat holds it lower") {
  for (const bool is_hot : {true, false}) {
    CAPTURE(is_hot);
    const made_devices m;
    auto governor = m.governor(setting_kind::cpufreq);
    REQUIRE(governor->set(256));
    m.cool(is_hot ? 2 : 0);
    m.files->lies = true;  // it reads 1.5 GHz, whatever is asked for
    governor.reset();
    CHECK(m.record_count() == (is_hot ? 0 : 1));  // without heat that is no clock that was found
  }
}

TEST_CASE("SGV-7: setting governor: what was found before is known while the machine is hot") {
  const made_devices m;
  m.governor(setting_kind::cpufreq).reset();
  m.cool(2);
  const auto policy0 = m.at.devices / "devices/system/cpu/cpufreq/policy0/scaling_max_freq";
  fill(policy0, "1200000\n");  // it is slowed by the work of the job that begins anew
  const auto found =
      std::map<std::string, std::string>{{"policy0", "3000000\n"}, {"policy1", "3000000\n"}};
  {
    const auto governor = m.governor(setting_kind::cpufreq);
    REQUIRE(governor->set(256));
    CHECK(m.values(setting_kind::cpufreq)["policy0"] == "1500000\n");
  }
  CHECK(m.values(setting_kind::cpufreq) == found);
  fill(policy0, "3200000\n");  // by somebody else: what it is without heat is not known
  CHECK(m.make(setting_kind::cpufreq).error().is(setting_held_lower));
}

TEST_CASE("SGV-7: setting governor: who takes over in the heat knows what was found, or waits") {
  for (const bool is_known : {true, false}) {
    CAPTURE(is_known);
    const made_devices m;
    auto first = m.governor(setting_kind::cpufreq, 0);
    auto at = m.at;  // of another process
    at.known = std::make_shared<known_settings>();
    if (!is_known) fs::remove(m.at.settings / "cpufreq.control");
    const auto second = setting_governor::make(at, {setting_kind::cpufreq, ""}, {"tiny", 1, 1});
    REQUIRE(second);
    m.cool(2);
    first.reset();
    REQUIRE((*second)->set(256));  // no step ends by heat
    CHECK(m.values(setting_kind::cpufreq)["policy0"] == (is_known ? "1500000\n" : "3000000\n"));
    m.cool(0);
    REQUIRE((*second)->set(256));
    CHECK(m.values(setting_kind::cpufreq)["policy0"] == "1500000\n");
  }
}

TEST_CASE("SGV-2: restore: a record of another name than its device's is said, and stays") {
  const made_devices m;
  leave(m, setting_kind::rapl);
  const auto left = m.values(setting_kind::rapl);
  fs::rename(m.at.settings / "rapl.control", m.at.settings / "x.control");
  for (const bool trial : {true, false}) {
    const auto all = restore(m.at, trial);
    REQUIRE((all && all->size() == 1));
    REQUIRE_FALSE(all->front().outcome);
    CHECK(all->front().outcome.error().is(no_control_record));
  }
  CHECK(m.values(setting_kind::rapl) == left);
  CHECK(m.record_count() == 1);
}

TEST_CASE("setting governor: without the right nothing is changed, and the reason has a remedy") {
  for (const char* refused : {"policy0", "policy1"}) {
    const made_devices m;
    const auto found = m.values(setting_kind::cpufreq);
    m.files->refused = refused;
    const auto made = m.make(setting_kind::cpufreq);
    REQUIRE_FALSE(made);
    CHECK(made.error().is(setting_refused));
    CHECK(made.error().code == errc::permission);
    CHECK_FALSE(made.error().hint.empty());
    CHECK(m.values(setting_kind::cpufreq) == found);
    CHECK(m.record_count() == 0);
  }
}

TEST_CASE("setting governor: a machine without such settings says so") {
  const made_devices m;
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1"})
    fill(m.at.devices / "class/powercap" / zone / "enabled", "0\n");
  CHECK(m.make(setting_kind::rapl).error().is(no_such_setting));
  fs::remove_all(m.at.devices);
  for (const auto kind : both_kinds) CHECK(m.make(kind).error().is(no_such_setting));
  CHECK(m.files->done.empty());
}

TEST_CASE("SGV-5: restore: nothing is written outside the tree of devices") {
  const made_devices m;
  leave(m, setting_kind::rapl);
  const auto left = m.values(setting_kind::rapl);
  auto elsewhere = m.at;
  elsewhere.devices = m.folder / "other";
  const auto all = restore(elsewhere, false);
  REQUIRE((all && all->size() == 1));
  REQUIRE_FALSE(all->front().outcome);
  CHECK(all->front().outcome.error().code == errc::permission);
  CHECK(m.values(setting_kind::rapl) == left);
  CHECK(m.record_count() == 1);
}

// -- what outlives its owner ----------------------------------------------------------------------

namespace {

const control_owner an_agent{"rack7", 0, 7, true};

result<std::unique_ptr<setting_governor>> agents(const made_devices& m, setting_kind kind) {
  return setting_governor::make(m.at, {kind, ""}, an_agent);
}

/// An agent that is killed with the n-th write; the paces that it means to set.
int agent_dies(const made_devices& m, setting_kind kind, int moment) {
  m.files->dies_behind = moment;
  const int ended = in_another_process([&] {
    const auto made = agents(m, kind);
    if (!made) return;
    for (const int pace : {256, 64, 512})
      if (!(*made)->set(pace)) return;
  });
  m.files->dies_behind = -1;
  return ended;
}

uint64_t number_of(const made_devices& m, setting_kind kind, const std::string& name) {
  return std::stoull(m.values(kind).at(name));
}

}  // namespace

TEST_CASE(
    "SGV-8: setting governor: an agent killed at any moment leaves the next what it has set") {
  for (const auto kind : both_kinds)
    for (int moment = 0; moment < 8; ++moment) {
      CAPTURE(to_string(kind));
      CAPTURE(moment);
      const made_devices m;
      const auto found = m.values(kind);
      REQUIRE(agent_dies(m, kind, moment) == killed_code);
      const auto* name = kind == setting_kind::cpufreq ? "policy0" : "intel-rapl:0";
      const auto left = number_of(m, kind, name);
      {
        const auto next = agents(m, kind);
        REQUIRE(next);
        REQUIRE((*next)->adopted_at());
        CHECK(number_of(m, kind, name) == left);
        REQUIRE((*next)->set(1024));
        CHECK(m.values(kind) == found);  // what was found first, and not what was taken over
        REQUIRE((*next)->set(100));
      }
      CHECK(m.values(kind) == found);
      CHECK(m.record_count() == 0);
    }
}

TEST_CASE("SGV-8: setting governor: a pace is in the record before it is set") {
  const made_devices m;
  REQUIRE(agent_dies(m, setting_kind::rapl, 2) == killed_code);  // behind the first of two
  CHECK(number_of(m, setting_kind::rapl, "intel-rapl:0") <
        number_of(m, setting_kind::rapl, "intel-rapl:1"));
  const auto next = agents(m, setting_kind::rapl);
  REQUIRE(next);
  CHECK((*next)->adopted_at() == 256);
  CHECK(number_of(m, setting_kind::rapl, "intel-rapl:0") ==
        number_of(m, setting_kind::rapl, "intel-rapl:1"));
}

TEST_CASE("SGV-8: setting governor: what a job has left no agent goes on from") {
  const made_devices m;
  const auto found = m.values(setting_kind::cpufreq);
  leave(m, setting_kind::cpufreq);
  const auto agent = agents(m, setting_kind::cpufreq);
  REQUIRE(agent);
  CHECK_FALSE((*agent)->adopted_at());
  CHECK(m.values(setting_kind::cpufreq) == found);
}

TEST_CASE(
    "SGV-8: setting governor: a job that takes the device takes back what an agent has left") {
  const made_devices m;
  const auto found = m.values(setting_kind::cpufreq);
  REQUIRE(agent_dies(m, setting_kind::cpufreq, 3) == killed_code);
  m.governor(setting_kind::cpufreq).reset();
  CHECK(m.values(setting_kind::cpufreq) == found);
  CHECK(m.record_count() == 0);
}

TEST_CASE("SGV-8: restore: what an agent has left a person takes back, and no job that starts") {
  const made_devices m;
  const auto found = m.values(setting_kind::cpufreq);
  REQUIRE(agent_dies(m, setting_kind::cpufreq, 3) == killed_code);
  const auto slow = m.values(setting_kind::cpufreq);
  const auto by_job = restore(m.at, false, left_by::jobs);
  REQUIRE(by_job);
  CHECK(by_job->empty());
  CHECK(m.values(setting_kind::cpufreq) == slow);
  CHECK(are_undone(restore(m.at, false)));
  CHECK(m.values(setting_kind::cpufreq) == found);
  CHECK(m.record_count() == 0);
}

TEST_CASE("SGV-8: restore: what an agent has left a rank that is given a quota leaves, too") {
  made_devices m;
  m.at.mount = m.folder / "no groups";
  REQUIRE(agent_dies(m, setting_kind::cpufreq, 3) == killed_code);
  const auto slow = m.values(setting_kind::cpufreq);
  const auto quota = thread_quota::make(m.at, {"tiny", 0}, std::vector{11});
  CHECK_FALSE(quota);  // there are no groups here: it has looked what dead ones left before that
  CHECK(m.values(setting_kind::cpufreq) == slow);
  CHECK(m.record_count() == 1);
}

TEST_CASE("SGV-8: setting governor: after a reboot there is nothing to go on from") {
  for (const bool by_job : {true, false}) {
    const made_devices m;
    REQUIRE(agent_dies(m, setting_kind::rapl, 3) == killed_code);
    fill(m.at.processes / "sys/kernel/random/boot_id", "boot-2\n");
    if (by_job) {
      CHECK(are_undone(restore(m.at, false, left_by::jobs)));
      CHECK(m.record_count() == 0);
      continue;
    }
    const auto next = agents(m, setting_kind::rapl);
    REQUIRE(next);
    CHECK_FALSE((*next)->adopted_at());
  }
}

TEST_CASE("SGV-8: setting governor: an agent's orderly end leaves nothing") {
  const made_devices m;
  const auto found = m.values(setting_kind::cpufreq);
  {
    const auto agent = agents(m, setting_kind::cpufreq);
    REQUIRE(agent);
    REQUIRE((*agent)->set(128));
    (*agent)->leave();  // it has taken over nothing
    CHECK((*agent)->governs());
  }
  CHECK(m.values(setting_kind::cpufreq) == found);
  CHECK(m.record_count() == 0);
}

TEST_CASE("SGV-8: setting governor: processors that come meanwhile are held like the others") {
  const made_devices m;
  REQUIRE(agent_dies(m, setting_kind::cpufreq, 3) == killed_code);
  const auto fresh = m.at.devices / "devices/system/cpu/cpufreq/policy2";
  fill(fresh / "scaling_max_freq", "2000000\n");
  fill(fresh / "cpuinfo_min_freq", "400000\n");
  {
    const auto next = agents(m, setting_kind::cpufreq);
    REQUIRE(next);
    CHECK(m.values(setting_kind::cpufreq)["policy2"] == "1000000\n");
  }
  CHECK(m.values(setting_kind::cpufreq)["policy2"] == "2000000\n");
  CHECK(m.values(setting_kind::cpufreq)["policy0"] == "3000000\n");
}

TEST_CASE("SGV-9: setting governor: of a clock and a pace the lower holds, and both end with it") {
  const made_devices m;
  auto governor = m.governor(setting_kind::cpufreq);
  const auto beside = m.governor(setting_kind::cpufreq, 1);
  CHECK(governor->sets_clocks());
  CHECK_FALSE(beside->sets_clocks());  // it governs none
  CHECK(governor->clocks_mhz().front() == 3000);
  CHECK(beside->clocks_mhz().empty());
  REQUIRE(beside->set_clock(500));
  REQUIRE(governor->set_clock(1200));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1200000\n");
  REQUIRE(governor->set(256));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1200000\n");
  REQUIRE(governor->set_clock(2000));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1500000\n");  // the pace's
  REQUIRE(governor->set(1024));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "2000000\n");
  CHECK(governor->check_clock());
  m.files->lies = true;
  REQUIRE(governor->set_clock(1000));
  CHECK_FALSE(governor->check_clock());
  m.files->lies = false;
  governor->end();
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
  CHECK_FALSE(m.governor(setting_kind::rapl)->sets_clocks());
}

TEST_CASE("SGV-9: setting governor: a clock that one policy refuses is the others' all the same") {
  const made_devices m;
  const auto governor = m.governor(setting_kind::cpufreq);
  m.files->refused = "policy0";
  const auto set = governor->set_clock(1200);
  REQUIRE_FALSE(set);
  CHECK(set.error().code == errc::permission);
  CHECK(m.values(setting_kind::cpufreq)["policy0"] == "3000000\n");
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1200000\n");
  REQUIRE_FALSE(governor->set_clock(highest_clock_mhz));  // as whoever hears of it lets go
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "3000000\n");
  m.files->refused.clear();
  CHECK(governor->set_clock(1200));
  CHECK(m.values(setting_kind::cpufreq)["policy0"] == "1200000\n");
}

TEST_CASE("SGV-4: setting governor: what a clock has written, or lost, holds no pace unread") {
  const made_devices m;
  const auto policy = m.at.devices / "devices/system/cpu/cpufreq/policy1/scaling_max_freq";
  const auto governor = m.governor(setting_kind::cpufreq);
  m.files->lies = true;
  REQUIRE(governor->set_clock(1500));  // as a quarter's
  const auto held = governor->set(256);
  REQUIRE_FALSE(held);
  CHECK(held.error().is(setting_not_in_force));
  m.files->lies = false;
  REQUIRE(governor->set(256));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1500000\n");
  REQUIRE(governor->set_clock(highest_clock_mhz));
  fill(policy, "3000000\n");  // somebody else
  CHECK_FALSE(governor->check_clock());
  REQUIRE(governor->set(256));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == "1500000\n");
}

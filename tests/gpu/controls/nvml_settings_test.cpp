// Clocks and limits of GPUs that exist on paper: set, read back, and what was found is there again.
#include "gpu/controls/nvml_settings.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "gpu/controls/machine_controls.hpp"
#include "gpu/controls/open_actuator.hpp"
#include "gpu/controls/restore.hpp"
#include "gpu/controls/setting_governor.hpp"
#include "gpu/controls/thread_quota.hpp"
#include "tests/gpu/meters/fake_nvml.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;

namespace fs = std::filesystem;
namespace nvml = troupe::gpu::nvml;

namespace {

using words = std::vector<std::string>;

/// A machine with two GPUs; the first has a limit that somebody chose, not the maker's.
struct gpu_machine {
  scratch folder;
  nvml::library functions = nvml::fake::functions();
  control_place at;

  gpu_machine() {
    nvml::fake::fresh().gpus[0].power_limit_mw = 650'000;
    at.settings = folder / "settings";
    at.processes = folder / "proc";
    at.patience = at.seat_patience = {};
    at.gpu_library = [this]() -> result<const nvml::library*> { return &functions; };
    const auto process = at.processes / fmt::format("{}", ::getpid());
    fs::create_directories(process);
    std::ofstream(process / "stat")
        << "7 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 500 7\n";
    fs::create_directories(at.processes / "sys/kernel/random");
    std::ofstream(at.processes / "sys/kernel/random/boot_id") << "boot-1\n";
  }
  gpu_machine(const gpu_machine&) = delete;
  gpu_machine& operator=(const gpu_machine&) = delete;

  static nvml::fake::gpu& card(size_t index) { return nvml::fake::current().gpus[index]; }
  result<std::unique_ptr<setting_governor>> make(setting_kind kind,
                                                 const std::string& uuid = "GPU-0",
                                                 const char* job = "tiny") const {
    return setting_governor::make(at, {kind, uuid}, {job, 0});
  }
  std::unique_ptr<setting_governor> governor(setting_kind kind) const {
    auto made = make(kind);
    REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
    return std::move(*made);
  }
  /// As if the process were gone, and left its record.
  void forget_process() const { fs::remove_all(at.processes / fmt::format("{}", ::getpid())); }
};

/// Calls of a driver that go on once there are two of them at once, within a minute.
class two_calls {
 public:
  static two_calls& of_drivers() {
    static two_calls all;
    return all;
  }
  /// From the next one on.
  void await_each_other() {
    std::lock_guard lock(mutex_);
    waits_ = true;
    here_ = 0;
  }
  void meet() {
    std::unique_lock lock(mutex_);
    if (!waits_) return;
    ++here_;
    told_.notify_all();
    if (!told_.wait_for(lock, std::chrono::minutes(1), [this] { return here_ == 2; })) here_ = -1;
  }
  /// From now on none waits.
  bool have_met() {
    std::lock_guard lock(mutex_);
    waits_ = false;
    return here_ == 2;
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  bool waits_ = false;
  int here_ = 0;
};

}  // namespace

TEST_CASE("SGV-2: nvml settings: a limit is what was found again, not the maker's") {
  const gpu_machine m;
  auto governor = m.governor(setting_kind::nvml_limit);
  REQUIRE(governor->set(512));  // of 200 to 650 W
  CHECK(m.card(0).power_limit_mw == 425'000);
  REQUIRE(governor->set(0));
  CHECK(m.card(0).power_limit_mw == 200'000);
  REQUIRE(governor->set(1024));
  CHECK(m.card(0).power_limit_mw == 650'000);
  REQUIRE(governor->set(100));
  CHECK(governor->facts().saves_energy);
  governor.reset();
  CHECK(m.card(0).power_limit_mw == 650'000);
  CHECK(m.card(1).power_limit_mw == 700'000);
  CHECK(m.card(1).limits_mw.empty());
  CHECK(nvml::fake::current().sessions == 0);
}

TEST_CASE("SGV-2: nvml settings: a clock lock follows the root of the pace, and goes at its end") {
  const gpu_machine m;
  auto governor = m.governor(setting_kind::nvml_clocks);
  REQUIRE(governor->set(256));
  CHECK(m.card(0).locked_mhz == std::pair(345U, 990U));
  REQUIRE(governor->set(1));
  CHECK(m.card(0).locked_mhz == std::pair(345U, 345U));
  governor.reset();
  CHECK_FALSE(m.card(0).locked_mhz);
  CHECK_FALSE(m.card(1).locked_mhz);
}

TEST_CASE("SGV-2: nvml settings: what a dead process left is taken back by restore") {
  for (const auto kind : {setting_kind::nvml_limit, setting_kind::nvml_clocks}) {
    CAPTURE(to_string(kind));
    const gpu_machine m;
    auto governor = m.governor(kind);
    REQUIRE(governor->set(256));
    const char* call = kind == setting_kind::nvml_limit ? "set_power_limit" : "unlock_clocks";
    m.card(0).refusals[call] = nvml::unknown;  // it ends without being able to undo it
    governor.reset();
    m.card(0).refusals.clear();
    m.forget_process();
    const auto all = restore(m.at, false);
    REQUIRE((all && all->size() == 1));
    CHECK(all->front().outcome);
    CHECK(m.card(0).power_limit_mw == 650'000);
    CHECK_FALSE(m.card(0).locked_mhz);
    CHECK(restore(m.at, false)->empty());
  }
}

TEST_CASE("SGV-3: nvml settings: a GPU has one governor, of its clocks or its limit") {
  const gpu_machine m;
  const auto governor = m.governor(setting_kind::nvml_limit);
  const auto clocks = m.make(setting_kind::nvml_clocks, "GPU-0", "other");
  REQUIRE_FALSE(clocks);
  CHECK(clocks.error().is(setting_governed));
  const auto beside = m.make(setting_kind::nvml_clocks, "GPU-1", "other");
  CHECK(beside);
}

TEST_CASE("SGV-4: nvml settings: a driver that takes what does not bind is found out") {
  for (const auto kind : {setting_kind::nvml_limit, setting_kind::nvml_clocks}) {
    const gpu_machine m;
    const auto governor = m.governor(kind);
    m.card(0).lies = true;
    const auto set = governor->set(256);
    REQUIRE_FALSE(set);
    CHECK(set.error().is(setting_not_in_force));
    m.card(0).lies = false;
  }
}

TEST_CASE("NVS-1: nvml settings: a GPU in parts, or with others' work on it, is not changed") {
  struct row {
    bool in_parts;
    unsigned processes;
  };
  for (const auto kind : {setting_kind::nvml_limit, setting_kind::nvml_clocks})
    for (const auto& r : {row{true, 1}, row{false, 2}, row{false, 9}}) {
      CAPTURE(r.in_parts);
      CAPTURE(r.processes);
      const gpu_machine m;
      m.card(0).is_in_parts = r.in_parts;
      m.card(0).processes = r.processes;
      const auto made = m.make(kind);
      REQUIRE_FALSE(made);
      CHECK(made.error().is(shared_device));
      CHECK(m.card(0).limits_mw.empty());
      CHECK_FALSE(m.card(0).locked_mhz);
    }
}

TEST_CASE("NVS-1: nvml settings: where the machine is held all GPUs are, whoever computes there") {
  const gpu_machine m;
  m.card(0).processes = 9;
  constexpr std::array words{setting_kind::nvml_limit};
  const auto targets = devices_of_machine(m.at, words);
  REQUIRE((targets && targets->size() == nvml::fake::current().gpus.size()));
  {
    const auto made = machine_controls::make(m.at, *targets, {"rack7", 0, 7});
    REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
    REQUIRE((*made)->set(0));
    CHECK(m.card(0).power_limit_mw == 200'000);
    CHECK(m.card(1).power_limit_mw == 200'000);
  }
  CHECK(m.card(0).power_limit_mw == 650'000);
  CHECK(m.card(1).power_limit_mw == 700'000);
  m.card(1).is_in_parts = true;
  CHECK(machine_controls::make(m.at, *targets, {"rack7", 0, 7}).error().is(shared_device));
  CHECK(m.card(0).power_limit_mw == 650'000);
}

TEST_CASE(
    "NVS-1: nvml settings: a killed process whose work is still being torn down is no other") {
  gpu_machine m;
  static int looks;
  looks = 0;
  m.functions.compute_processes = [](nvml::device_handle, unsigned* count, nvml::process_info*) {
    *count = ++looks < 3 ? 2U : 1U;
    return int{nvml::success};
  };
  CHECK(m.make(setting_kind::nvml_limit).error().is(shared_device));  // there is no patience
  m.at.patience = std::chrono::seconds(60);
  CHECK(m.make(setting_kind::nvml_limit));
}

TEST_CASE("nvml settings: without the right nothing is changed, and the reason has a remedy") {
  for (const auto kind : {setting_kind::nvml_limit, setting_kind::nvml_clocks}) {
    const gpu_machine m;
    m.card(0).refusals = {{"set_power_limit", nvml::no_permission},
                          {"lock_clocks", nvml::no_permission}};
    const auto made = m.make(kind);
    REQUIRE_FALSE(made);
    CHECK(made.error().is(setting_refused));
    CHECK_FALSE(made.error().hint.empty());
    CHECK(m.card(0).power_limit_mw == 650'000);
    CHECK_FALSE(m.card(0).locked_mhz);
    CHECK(restore(m.at, false)->empty());
  }
}

TEST_CASE("SGV-2: nvml settings: a lock that was made and cannot be asked about is undone") {
  gpu_machine m;
  m.functions.clock = nullptr;
  const auto made = m.make(setting_kind::nvml_clocks);
  REQUIRE_FALSE(made);
  CHECK(made.error().is(setting_refused));
  CHECK_FALSE(m.card(0).locked_mhz);
  CHECK(restore(m.at, false)->empty());
}

TEST_CASE("nvml settings: without a driver, such a GPU or such a function there is none") {
  gpu_machine m;
  CHECK(m.make(setting_kind::nvml_limit, "GPU-7").error().is(no_such_setting));
  m.functions.graphics_clocks = nullptr;
  CHECK(m.make(setting_kind::nvml_clocks).error().is(no_such_setting));
  m.at.gpu_library = []() -> result<const nvml::library*> {
    return error{errc::unavailable, "none"};
  };
  CHECK(m.make(setting_kind::nvml_limit).error().is(no_such_setting));
}

TEST_CASE("open actuator: each word has its devices, and is refused on others") {
  const gpu_machine m;
  const std::vector threads{11};
  const control_owner owner{"tiny", 0};
  const auto gpu = open_actuator(words{"nvml_limit"}, m.at, owner, {}, "GPU-0");
  REQUIRE(gpu);
  CHECK(gpu->control->facts().name == "nvml_limit");
  CHECK(gpu->passed.empty());
  CHECK(open_actuator(words{"nvml_clocks"}, m.at, owner, threads, "").error().is(no_such_setting));
  for (const char* word : {"cgroup", "cpufreq", "rapl"})
    CHECK(open_actuator(words{word}, m.at, owner, {}, "GPU-1").error().is(no_computing_threads));
  CHECK(open_actuator(words{"else"}, m.at, owner, threads, "").error().code == errc::bug);
  CHECK(open_actuator(words{"nvml_clocks", "else"}, m.at, owner, threads, "").error().code ==
        errc::bug);
}

TEST_CASE("OPA-1: open actuator: of several words the first that the device offers is taken") {
  const gpu_machine m;
  const control_owner owner{"tiny", 0};
  {
    const auto clock = open_actuator(words{"nvml_clocks", "nvml_limit"}, m.at, owner, {}, "GPU-0");
    REQUIRE(clock);
    CHECK(clock->control->facts().name == "nvml_clocks");
  }
  m.card(0).refusals["lock_clocks"] = nvml::no_permission;
  {
    const auto limit = open_actuator(words{"cpufreq", "nvml_clocks", "nvml_limit", "pace"}, m.at,
                                     owner, {}, "GPU-0");
    REQUIRE(limit);
    CHECK(limit->control->facts().name == "nvml_limit");
    CHECK(limit->passed.size() == 2);  // the processors' is none of a GPU's
    REQUIRE(limit->control->set(512));
    CHECK(m.card(0).power_limit_mw == 425'000);
  }
  CHECK(m.card(0).power_limit_mw == 650'000);
  m.card(0).refusals["set_power_limit"] = nvml::no_permission;
  const auto pauses =
      open_actuator(words{"nvml_clocks", "nvml_limit", "pace"}, m.at, owner, {}, "GPU-0");
  REQUIRE(pauses);
  CHECK_FALSE(pauses->control);
  CHECK(pauses->passed.size() == 2);
  const auto none = open_actuator(words{"nvml_clocks", "nvml_limit"}, m.at, owner, {}, "GPU-0");
  REQUIRE_FALSE(none);
  CHECK(none.error().is(setting_refused));
  CHECK(none.error().message == pauses->passed[0] + "; " + pauses->passed[1]);
  CHECK(restore(m.at, false)->empty());
}

TEST_CASE("OPA-1: open actuator: what a dead process left slow is passed over by no other word") {
  const gpu_machine m;
  auto governor = m.governor(setting_kind::nvml_limit);
  REQUIRE(governor->set(256));
  m.card(0).refusals["set_power_limit"] = nvml::unknown;
  governor.reset();  // it could not be undone
  const auto made =
      open_actuator(words{"nvml_clocks", "pace"}, m.at, {"tiny", 0}, std::vector{11}, "GPU-0");
  REQUIRE_FALSE(made);
  CHECK_FALSE(is_not_offered(made.error()));
  m.card(0).refusals.clear();
  CHECK(restore(m.at, false)->size() == 1);
}

TEST_CASE("OPA-2: open actuator: a GPU that another job has is not waited for twice") {
  gpu_machine m;
  const auto other = m.make(setting_kind::nvml_limit, "GPU-0", "other");
  REQUIRE(other);
  const auto pauses =
      open_actuator(words{"nvml_clocks", "nvml_limit", "pace"}, m.at, {"tiny", 0}, {}, "GPU-0");
  REQUIRE(pauses);
  CHECK_FALSE(pauses->control);
  CHECK(pauses->passed.size() == 1);
}

TEST_CASE("SGV-8: nvml settings: what an agent has left stays as it is under the next one") {
  constexpr std::array both{setting_kind::nvml_clocks, setting_kind::nvml_limit};
  for (const auto kind : both) {
    CAPTURE(to_string(kind));
    const gpu_machine m;
    const control_owner agent{"rack7", 0, 7, true};
    auto first = setting_governor::make(m.at, {kind, "GPU-0", true}, agent);
    REQUIRE(first);
    REQUIRE((*first)->set(256));
    const char* call = kind == setting_kind::nvml_limit ? "set_power_limit" : "unlock_clocks";
    m.card(0).refusals[call] = nvml::unknown;  // as if it were killed
    first->reset();
    m.card(0).refusals.clear();
    const auto limit = m.card(0).power_limit_mw;
    const auto clocks = m.card(0).locked_mhz;
    const auto calls = m.card(0).limits_mw.size();
    {
      const auto next = setting_governor::make(m.at, {kind, "GPU-0", true}, agent);
      REQUIRE(next);
      CHECK((*next)->adopted_at() == 256);
      CHECK(m.card(0).power_limit_mw == limit);
      CHECK(m.card(0).locked_mhz == clocks);
      for (auto i = calls; i < m.card(0).limits_mw.size(); ++i)
        CHECK(m.card(0).limits_mw[i] == limit);
    }
    CHECK(m.card(0).power_limit_mw == 650'000);
    CHECK_FALSE(m.card(0).locked_mhz);
  }
}

TEST_CASE("SGV-9: nvml settings: an operation's clock is locked, below the pace's, and let go") {
  const gpu_machine m;
  auto governor = m.governor(setting_kind::nvml_clocks);
  CHECK(governor->sets_clocks());
  REQUIRE(governor->set_clock(990));
  CHECK(m.card(0).locked_mhz == std::pair(345U, 990U));
  CHECK(governor->check_clock());
  REQUIRE(governor->set(1024));  // the whole pace raises nothing
  CHECK(m.card(0).locked_mhz == std::pair(345U, 990U));
  REQUIRE(governor->set(1));
  CHECK(m.card(0).locked_mhz == std::pair(345U, 345U));
  REQUIRE(governor->set_clock(highest_clock_mhz));
  CHECK(m.card(0).locked_mhz == std::pair(345U, 345U));
  governor.reset();
  CHECK_FALSE(m.card(0).locked_mhz);
  CHECK_FALSE(m.governor(setting_kind::nvml_limit)->sets_clocks());
}

TEST_CASE(
    "MCT-7: nvml settings: of a machine's GPU no clock is a job's while several compute there") {
  const gpu_machine m;
  const auto governor = setting_governor::make(m.at, {setting_kind::nvml_clocks, "GPU-0", true},
                                               {"rack7", 0, 7, true});
  REQUIRE(governor);
  CHECK((*governor)->sets_clocks());
  CHECK_FALSE((*governor)->clocks_mhz().empty());
  m.card(0).processes = 2;
  CHECK_FALSE((*governor)->sets_clocks());
  CHECK((*governor)->clocks_mhz().empty());
  m.card(0).processes = 1;
  CHECK((*governor)->sets_clocks());
}

TEST_CASE("SGV-10: nvml settings: who comes while a clock is in force is not slowed by it") {
  for (const bool is_machines : {false, true}) {
    CAPTURE(is_machines);
    gpu_machine m;
    m.at.alone_for = {};
    const auto made = setting_governor::make(
        m.at, {setting_kind::nvml_clocks, "GPU-0", is_machines}, {"tiny", 0, 7, is_machines});
    REQUIRE(made);
    auto& governor = **made;
    REQUIRE(governor.set_clock(990));
    CHECK(governor.check_clock());
    CHECK(m.card(0).locked_mhz == std::pair(345U, 990U));
    CHECK(governor.take_note().empty());
    CHECK(governor.given_back_to() == 0);
    m.card(0).processes = 4;
    CHECK(governor.check_clock());
    CHECK(m.card(0).locked_mhz->second > 990);
    CHECK(governor.take_note().find("GPU-0") != std::string::npos);
    CHECK(governor.given_back_to() == 3);
    m.card(0).processes = 200;  // more than are asked for
    CHECK(governor.check_clock());
    CHECK(governor.given_back_to() > 3);
    REQUIRE(governor.set_clock(1200));  // nor is one that is asked for meanwhile
    CHECK(m.card(0).locked_mhz->second > 1200);
    REQUIRE(governor.set(1));  // a pace holds all
    CHECK(m.card(0).locked_mhz == std::pair(345U, 345U));
    REQUIRE(governor.set(1024));
    CHECK(governor.check_clock());
    CHECK(governor.take_note().empty());
    m.card(0).processes = 1;
    CHECK(governor.check_clock());
    CHECK(m.card(0).locked_mhz == std::pair(345U, 1200U));
    CHECK_FALSE(governor.take_note().empty());
    CHECK(governor.given_back_to() == 0);
  }
}

TEST_CASE(
    "MCT-8: nvml settings: a device that takes long keeps no other of a machine from its pace") {
  gpu_machine m;
  m.functions.set_power_limit = [](nvml::device_handle device, unsigned mw) {
    two_calls::of_drivers().meet();
    return nvml::fake::functions().set_power_limit(device, mw);
  };
  constexpr std::array words{setting_kind::nvml_limit};
  const auto targets = devices_of_machine(m.at, words);
  REQUIRE((targets && targets->size() == 2));
  const auto made = machine_controls::make(m.at, *targets, {"rack7", 0, 7});
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  two_calls::of_drivers().await_each_other();
  CHECK((*made)->set(0));
  CHECK(two_calls::of_drivers().have_met());
  CHECK(m.card(0).power_limit_mw == 200'000);
  CHECK(m.card(1).power_limit_mw == 200'000);
}

TEST_CASE(
    "MCT-7: nvml settings: who comes to a machine's GPU while a job has clocks there is told of") {
  gpu_machine m;
  m.at.alone_for = {};
  const setting_target gpu{setting_kind::nvml_clocks, "GPU-0", true};
  const auto made = machine_controls::make(m.at, {{gpu}}, {"rack7", 0, 7});
  REQUIRE(made);
  auto& controls = **made;
  REQUIRE(controls.set_clock(gpu, 990));
  m.card(0).processes = 2;
  CHECK(controls.check_clock(gpu));
  CHECK(m.card(0).locked_mhz->second > 990);
  CHECK(controls.given_back_to(gpu) == 1);
  CHECK_FALSE(controls.take_note(gpu).empty());
  CHECK(controls.take_note(gpu).empty());
}

TEST_CASE("SGV-10: nvml settings: clocks come back only once nobody was seen there for a while") {
  gpu_machine m;
  m.at.alone_for = std::chrono::hours(1);
  const auto governor = m.governor(setting_kind::nvml_clocks);
  REQUIRE(governor->set_clock(990));
  m.card(0).processes = 2;
  CHECK(governor->check_clock());
  m.card(0).processes = 1;
  CHECK(governor->check_clock());
  CHECK(m.card(0).locked_mhz->second > 990);
}

TEST_CASE("SGV-9: nvml settings: a clock that does not bind is found out as it is looked at") {
  const gpu_machine m;
  const auto governor = m.governor(setting_kind::nvml_clocks);
  m.card(0).lies = true;
  REQUIRE(governor->set_clock(990));
  const auto looked = governor->check_clock();
  REQUIRE_FALSE(looked);
  CHECK(looked.error().is(setting_not_in_force));
  m.card(0).lies = false;
}

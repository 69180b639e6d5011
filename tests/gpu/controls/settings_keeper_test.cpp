// Who sets a machine's settings again when the process that changed them was killed.
#include "gpu/controls/settings_keeper.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/gpu/controls/made_devices.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;
using namespace troupe::gpu::controls::made;

namespace {

/// A process that governs, as a child of a process that adopts its keeper and waits for both; how
/// that one ended. `end`: a signal, or 0 for an orderly end, for which a package stays
/// slow: nothing can be written there.
int govern_and_end(const made_devices& m, setting_kind kind, int end) {
  return in_another_process([&] {
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) ::_exit(2);
    const pid_t governs = ::fork();
    if (governs == 0) {
      auto keeper = keep_settings(m.at, {});
      if (!keeper || !*keeper) ::_exit(3);
      m.lives(::getpid());
      auto governor = m.make(kind);
      if (!governor || !(*governor)->set(256)) ::_exit(4);
      if (end != 0) ::raise(end);
      m.files->refused = "intel-rapl:0";  // here, and not for the keeper
      governor->reset();
      { const auto goes = std::move(*keeper); }
      ::_exit(0);
    }
    int ended = 0;
    bool is_right = false;
    for (pid_t child = 0; (child = ::waitpid(-1, &ended, 0)) > 0;)
      if (child == governs) is_right = end != 0 ? WIFSIGNALED(ended) : ended == 0;
    ::_exit(is_right ? 0 : 5);
  });
}

}  // namespace

TEST_CASE("KPS-2: settings keeper: what was found is back after kill -9, without anybody's doing") {
  for (const auto kind : {setting_kind::cpufreq, setting_kind::rapl}) {
    CAPTURE(to_string(kind));
    const made_devices m;
    const auto found = m.values(kind);
    CHECK(govern_and_end(m, kind, SIGKILL) == 0);
    CHECK(m.values(kind) == found);
    CHECK(m.record_count() == 0);
  }
}

TEST_CASE("KPS-2: settings keeper: an orderly end is not its to look after") {
  const made_devices m;
  const auto found = m.values(setting_kind::rapl);
  CHECK(govern_and_end(m, setting_kind::rapl, 0) == 0);
  CHECK(m.values(setting_kind::rapl) != found);
  CHECK(m.record_count() == 1);
}

TEST_CASE("KPS-1: settings keeper: what a successor governs stays, and is its own to set back") {
  made_devices m;
  m.at.patience = {};
  const auto found = m.values(setting_kind::rapl);
  leave(m, setting_kind::rapl);
  {
    const auto governor = m.governor(setting_kind::rapl);
    REQUIRE(governor->set(256));
    const auto slow = m.values(setting_kind::rapl);
    restore_left_settings(m.at, {});
    CHECK(m.values(setting_kind::rapl) == slow);
    CHECK(m.record_count() == 1);
  }
  CHECK(m.values(setting_kind::rapl) == found);
  CHECK(m.record_count() == 0);
}

TEST_CASE("SGV-8: settings keeper: what a machine's agent has left is none of its") {
  made_devices m;
  m.at.patience = {};
  m.files->dies_behind = 3;
  REQUIRE(in_another_process([&] {
            const auto agent =
                setting_governor::make(m.at, {setting_kind::rapl, ""}, {"rack7", 0, 7, true});
            static_cast<void>((*agent)->set(256));
          }) == killed_code);
  m.files->dies_behind = -1;
  const auto slow = m.values(setting_kind::rapl);
  leave(m, setting_kind::cpufreq);
  restore_left_settings(m.at, {});
  CHECK(m.values(setting_kind::rapl) == slow);
  CHECK(m.values(setting_kind::cpufreq).at("policy0") == "3000000\n");
  CHECK(m.record_count() == 1);
}

TEST_CASE("KPS-3: settings keeper: on a hot machine the next process knows what was found") {
  made_devices m;
  m.at.patience = {};
  const auto found = m.values(setting_kind::cpufreq);
  leave(m, setting_kind::cpufreq);
  m.cool(2);
  m.files->lies = true;  // it reads what it did, whatever is asked for
  restore_left_settings(m.at, {});
  CHECK(m.files->done == std::vector<std::string>{"policy0=3000000", "policy1=3000000"});
  CHECK(m.record_count() == 1);
  m.at.known = std::make_shared<known_settings>();  // of another process
  {
    const auto governor = m.governor(setting_kind::cpufreq);
    m.cool(0);
    m.files->lies = false;
    REQUIRE(governor->set(256));
    CHECK(m.values(setting_kind::cpufreq).at("policy0") == "1500000\n");
  }
  CHECK(m.values(setting_kind::cpufreq) == found);
  CHECK(m.record_count() == 0);
}

TEST_CASE("KPS-1: settings keeper: a second one finds nothing, and who changes none has none") {
  made_devices m;
  m.at.patience = {};
  leave(m, setting_kind::cpufreq);
  restore_left_settings(m.at, {});
  const auto found = m.values(setting_kind::cpufreq);
  CHECK(found.at("policy0") == "3000000\n");
  fill(m.at.devices / "devices/system/cpu/cpufreq/policy0/scaling_max_freq", "2000000\n");
  restore_left_settings(m.at, {});
  CHECK(m.values(setting_kind::cpufreq).at("policy0") == "2000000\n");
  const auto none = keep_settings(control_place{}, {});
  REQUIRE(none);
  CHECK_FALSE(*none);
}

// An engine whose device the agent of its machine sets, and that goes on once that is gone.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/controls/agent_server.hpp"
#include "tests/actors/replicas.hpp"
#include "tests/gpu/controls/made_devices.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::replicas;

namespace {

namespace controls = troupe::gpu::controls;

/// It may set nothing itself.
struct asking_engine {
  controls::made::made_devices devices;
  std::unique_ptr<controls::agent_server> agent;
  std::mutex mutex;
  std::vector<std::string> noticed;
  bool is_let_go = false;
  std::condition_variable told;
  std::optional<replicas> one;

  asking_engine() {
    auto held = controls::machine_controls::make(
        devices.at, {{{controls::setting_kind::cpufreq, ""}}}, {"rack7", 0, 7});
    REQUIRE(held);
    controls::agent_server_options options;
    options.socket = devices.folder / "agent.sock";
    options.agent = "rack7";
    options.tell = [this](const controls::agent_event& e) {
      std::lock_guard lock(mutex);
      is_let_go = is_let_go || e.what == controls::agent_event::type::let_go;
      told.notify_all();
    };
    auto started = controls::agent_server::start(options, std::move(*held));
    REQUIRE(started);
    agent = std::move(*started);
    one.emplace(1, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32, [&](engine_options o) {
      o.job = "tiny";  // an agent asks for whom
      o.control = {"cpufreq"};
      o.controls = {};
      o.agent_socket = (devices.folder / "agent.sock").string();
      o.on_notice = [this](const std::string& text) {
        std::lock_guard lock(mutex);
        noticed.push_back(text);
      };
      return rank_engine::make(o);
    });
  }
  step_outcome step(int64_t number, work_pace pace) {
    op_order begin{pipeline_op::begin};
    begin.pace = pace;
    one->ranks[0]->run(begin, {});
    one->ranks[0]->run({pipeline_op::forward, 0, 0, 0}, [](const status&) {});
    return one->finish(0, number).get();
  }
  std::string policy0() { return devices.values(controls::setting_kind::cpufreq)["policy0"]; }
  /// Its engine has gone, so that comes: within a minute, whatever the machine does.
  bool until_let_go() {
    std::unique_lock lock(mutex);
    return told.wait_for(lock, std::chrono::seconds(60), [&] { return is_let_go; });
  }
  size_t notices() {
    std::lock_guard lock(mutex);
    return noticed.size();
  }
};

}  // namespace

TEST_CASE("ENG-14: engine: where the agent that sets its device is gone it goes on, and says so") {
  asking_engine asking;
  CHECK(asking.one->ranks[0]->facts().saves_energy);
  CHECK_FALSE(asking.one->ranks[0]->facts().pauses);
  CHECK_FALSE(asking.step(1, {512}).pauses);
  CHECK(asking.policy0() == "2121000\n");
  asking.agent.reset();
  CHECK(asking.policy0() == "3000000\n");
  CHECK(asking.notices() == 0);
  const auto next = asking.step(2, {512});
  CHECK(next.loss_sum > 0);
  CHECK(next.pauses);
  CHECK(asking.step(3, {512}).pauses);
  CHECK(asking.notices() == 1);
}

TEST_CASE("ENG-14: engine: its device is the machine's again once it has ended") {
  asking_engine asking;
  asking.step(1, {512});
  CHECK(asking.policy0() == "2121000\n");
  asking.one.reset();
  REQUIRE(asking.until_let_go());
  CHECK(asking.policy0() == "3000000\n");
}

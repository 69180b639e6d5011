// An engine whose device the agent of its machine sets, and that goes on once that is gone.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/controls/agent_server.hpp"
#include "gpu/controls/operation_clocks.hpp"
#include "tests/actors/replicas.hpp"
#include "tests/gpu/controls/made_devices.hpp"
#include "tests/gpu/controls/scripted_agent.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::replicas;

namespace {

namespace controls = troupe::gpu::controls;

/// It may set nothing itself.
struct asking_engine {
  controls::made::made_devices devices;
  std::mutex mutex;
  std::vector<std::string> noticed;
  bool is_let_go = false;
  std::condition_variable told;
  std::unique_ptr<controls::agent_server> agent;
  std::optional<replicas> one;

  explicit asking_engine(bool takes_slack = false) {
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
      o.clocks_operations = takes_slack;
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

/// An agent that has set all it is asked for, and finds others on the device at each look.
struct agent_among_others {
  controls::made::scripted_agent agent;
  std::jthread answers{[this] {
    agent.welcome();
    while (const auto r = agent.hear()) {
      const bool looks = r->verb == controls::agent_verb::check_clock;
      const bool takes = r->verb == controls::agent_verb::take;
      agent.answer({r->sequence,
                    controls::agent_outcome::done,
                    looks ? "others compute on it" : "",
                    "rack7",
                    {},
                    takes ? std::vector{3000, 1500} : std::vector<int>(),
                    looks ? 2U : 0U});
    }
  }};
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

TEST_CASE(
    "ENG-15: engine: its operations have the clocks that the agent sets, until that is gone") {
  asking_engine asking(true);
  auto& engine = *asking.one->ranks[0];
  REQUIRE(engine.facts().sets_clocks);
  CHECK(engine.facts().clocks_mhz.front() == 3000);
  asking.step(1, {});  // the pace is set
  const auto table = controls::clock_table_of({{1200, 3600, 3000}, {1500, 3600, 3000}}, 0.01);
  op_order begin{pipeline_op::begin};
  begin.clocks = table;
  engine.run(begin, {});
  engine.run({pipeline_op::forward, 0, 0, 0}, [](const status&) {});
  // None of its operations has the highest clock by then, so a lower one comes, and stays. While a
  // made file is written it is empty.
  const auto is_low = [&] {
    const auto clock = asking.policy0();
    return clock == "1200000\n" || clock == "1500000\n";
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_low() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK(is_low());
  CHECK(asking.one->finish(0, 2).get().loss_sum > 0);
  asking.agent.reset();
  CHECK(asking.policy0() == "3000000\n");
  const auto next = asking.step(3, {});
  CHECK(next.loss_sum > 0);
  CHECK(next.pauses);
}

TEST_CASE("ENG-15: engine: for whom its clocks are given back is noticed, and told with the step") {
  agent_among_others others;
  std::promise<std::string> noticed;
  replicas one(1, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32, [&](engine_options o) {
    o.job = "tiny";
    o.control = {"cpufreq"};
    o.controls = {};
    o.controls.agent_patience = std::chrono::minutes(1);
    o.clocks_operations = true;
    o.agent_socket = others.agent.name.string();
    o.on_notice = [&, told = false](const std::string& text) mutable {
      if (!std::exchange(told, true)) noticed.set_value(text);
    };
    return rank_engine::make(o);
  });
  op_order begin{pipeline_op::begin};
  begin.clocks = controls::clock_table_of({{1200, 3600, 3000}, {1500, 3600, 3000}}, 0.01);
  one.ranks[0]->run(begin, {});
  one.ranks[0]->run({pipeline_op::forward, 0, 0, 0}, [](const status&) {});
  auto told = noticed.get_future();
  REQUIRE(told.wait_for(std::chrono::minutes(1)) == std::future_status::ready);
  CHECK(told.get() == "others compute on it (power.slack)");
  const auto done = one.finish(0, 1).get();
  CHECK(done.clocks_given_back_to == 2);
  CHECK_FALSE(done.clocks_failed);
}

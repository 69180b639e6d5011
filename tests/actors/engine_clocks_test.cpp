// Operations with clocks of their own on a made machine whose settings may hang: who waits for
// whom, and what is told.
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "tests/actors/replicas.hpp"
#include "tests/gpu/controls/made_devices.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::pending;
using troupe::train::test::replicas;

namespace {

namespace controls = troupe::gpu::controls;

/// Settings that are written at once, or hang until they are let go.
class hanging_files final : public controls::group_files {
 public:
  status write(const std::filesystem::path& file, std::string_view text) override {
    std::unique_lock lock(mutex_);
    if (refuses_) return error{errc::permission, "nobody may"};
    if (hangs_) {
      is_hanging_ = true;
      told_.notify_all();
      told_.wait(lock, [&] { return !hangs_; });
      is_hanging_ = false;
    }
    std::ofstream(file, std::ios::trunc) << text << "\n";
    return {};
  }
  void hang(bool on) {
    std::lock_guard lock(mutex_);
    hangs_ = on;
    told_.notify_all();
  }
  void refuse(bool on) {
    std::lock_guard lock(mutex_);
    refuses_ = on;
  }
  void await_hanging() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return is_hanging_; });
  }
  bool is_hanging() {
    std::lock_guard lock(mutex_);
    return is_hanging_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  bool hangs_ = false, is_hanging_ = false, refuses_ = false;
};

struct clocked_engine {
  controls::made::made_devices devices;
  std::shared_ptr<hanging_files> files = std::make_shared<hanging_files>();
  std::string noticed;
  std::mutex mutex;
  std::condition_variable told;
  std::optional<replicas> one;

  explicit clocked_engine(bool takes_slack = true) {
    one.emplace(1, gpu::optimizer_step_args::rule::adamw, gpu::dtype::f32, [&](engine_options o) {
      o.control = {"cpufreq"};
      o.controls = devices.at;
      o.controls.groups = files;
      o.clocks_operations = takes_slack;
      o.on_notice = [this](const std::string& text) {
        std::lock_guard lock(mutex);
        noticed = text;
        told.notify_all();
      };
      return rank_engine::make(o);
    });
  }
  /// Whatever a test ended by: nothing waits for a setting that hangs.
  ~clocked_engine() { files->hang(false); }
  clocked_engine(const clocked_engine&) = delete;
  clocked_engine& operator=(const clocked_engine&) = delete;
  rank_engine& engine() { return *one->ranks[0]; }
  /// Up to its backward: none of its operations has the highest clock by then.
  void begin(controls::clock_table_ptr clocks, work_pace pace = {}) {
    op_order begin{pipeline_op::begin};
    begin.clocks = std::move(clocks);
    begin.pace = pace;
    engine().run(begin, {});
    const auto ignored = [](const status&) {};
    engine().run({pipeline_op::forward, 0, 0, 0}, ignored);
  }
  step_outcome end(int64_t number) { return one->finish(0, number).get(); }
  step_outcome step(int64_t number, controls::clock_table_ptr clocks, work_pace pace = {}) {
    begin(std::move(clocks), pace);
    return end(number);
  }
  std::string policy0() { return devices.values(controls::setting_kind::cpufreq)["policy0"]; }
};

controls::clock_table_ptr clocks_at(int first_mhz, int second_mhz) {
  return controls::clock_table_of({{first_mhz, 3600, 3000}, {second_mhz, 3600, 3000}}, 0.01);
}

}  // namespace

TEST_CASE("ENG-15: engine: a clock that hangs delays no operation, and losses are the same") {
  clocked_engine plain(false);
  clocked_engine clocked;
  CHECK(clocked.engine().facts().sets_clocks);
  CHECK(clocked.engine().facts().saves_energy);
  CHECK(clocked.engine().facts().clocks_mhz.front() == 3000);
  clocked.step(1, nullptr);  // the pace is set
  plain.step(1, nullptr);
  clocked.files->hang(true);
  for (int64_t step = 2; step <= 4; ++step) {
    clocked.begin(clocks_at(1200, 1500));
    if (step == 2) clocked.files->await_hanging();  // at its end the wish would be the highest
    CHECK(clocked.end(step).loss_sum == plain.step(step, nullptr).loss_sum);
    CHECK(clocked.files->is_hanging());
  }
  CHECK(clocked.step(5, nullptr).loss_sum > 0);
  CHECK(clocked.files->is_hanging());
  clocked.files->hang(false);
}

TEST_CASE("ENG-15: engine: what began below its clock is told with the step, and no other") {
  clocked_engine clocked;
  clocked.step(1, nullptr);
  CHECK(clocked.step(2, clocks_at(1200, 1500)).late_clocks == 0);  // its clocks are asked for
  CHECK(clocked.step(3, clocks_at(1200, 1500)).late_clocks <= 1);
  CHECK(clocked.step(4, nullptr).late_clocks == 0);
  clocked.one.reset();
  CHECK(clocked.policy0() == "3000000\n");  // what was found
}

TEST_CASE("ENG-15: engine: a clock that is refused ends no step, and is said") {
  clocked_engine clocked;
  clocked.step(1, nullptr);
  clocked.files->refuse(true);
  clocked.begin(clocks_at(1200, 1500));
  {
    std::unique_lock lock(clocked.mutex);
    clocked.told.wait(lock, [&] { return !clocked.noticed.empty(); });
    CHECK(clocked.noticed.find("nobody may") != std::string::npos);
  }
  CHECK(clocked.end(2).loss_sum > 0);
  CHECK(clocked.step(3, clocks_at(1200, 1500)).clocks_failed);
  clocked.files->refuse(false);
}

TEST_CASE("PWR-4: engine: below the whole pace no operation has a clock of its own") {
  clocked_engine clocked;
  clocked.step(1, nullptr);
  clocked.step(2, clocks_at(800, 800), {512});
  CHECK(clocked.policy0() == "2121000\n");  // the pace's
  clocked_engine without(false);
  CHECK_FALSE(without.engine().facts().sets_clocks);
}

TEST_CASE("engine: what holds its pace is named, and how long that takes once it was measured") {
  clocked_engine clocked(false);
  CHECK(clocked.engine().facts().control == "cpufreq");
  const auto whole = clocked.step(1, nullptr);
  CHECK(whole.actuation_p50_ns == -1);  // nothing had to be set
  CHECK(whole.actuation_p99_ns == -1);
  const auto paced = clocked.step(2, nullptr, {512});
  CHECK(paced.actuation_p50_ns > 0);
  CHECK(paced.actuation_p99_ns >= paced.actuation_p50_ns);
  const auto same = clocked.step(3, nullptr, {512});
  CHECK(same.actuation_p99_ns == paced.actuation_p99_ns);
}

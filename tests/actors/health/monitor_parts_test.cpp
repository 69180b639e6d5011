// MON-10: which part of a rank's step takes longer than it did is told, and whose it is.
#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include "tests/actors/health/training_replicas.hpp"

using namespace troupe;
using namespace troupe::health;
using troupe::health::test::training_replicas;
using parts_strings = std::vector<std::string>;

TEST_CASE("MON-10: a rank whose backward takes a fifth longer is told of, until it does no more") {
  training_replicas f(false, 10);
  f.make_steps(20, 400, 400);
  CHECK(f.names().empty());
  const auto before = f.step;
  f.make_steps(8, 400, 480);
  CHECK(f.names() == parts_strings{"slow_part b 1"});
  const auto all = f.findings().findings;
  REQUIRE(all.size() == 1);
  CHECK(all[0]->text ==
        fmt::format("slow: backward takes 480 ms a step, 400 +- 0 until step {}", before));
  CHECK(all[0]->seen == doctest::Approx(20));
  CHECK(all[0]->wanted == 10);
  CHECK(f.taken_out().empty());
  f.make_steps(45, 400, 400);
  CHECK(f.names().empty());
}

TEST_CASE("MON-10: what else is wrong with the node that could make it slow stands beside it") {
  training_replicas f(false, 10);
  f.starved = true;
  f.make_steps(20, 400, 400);
  REQUIRE(f.names() == parts_strings{"cpu_starved b"});
  f.make_steps(8, 400, 480);
  REQUIRE(f.names() == parts_strings{"cpu_starved b", "slow_part b 1"});
  const auto text = f.findings().findings[1]->text;
  CHECK(text.starts_with("slow: backward takes 480 ms a step, 400 +- 0 until step "));
  CHECK(text.ends_with(" (cpu_starved)"));
}

TEST_CASE("MON-10: where both get slower, or nobody is asked for, no part is told of") {
  training_replicas both(false, 10);
  both.make_steps(20, 400, 400);
  both.make_steps(10, 500, 500);
  CHECK(both.names().empty());
  training_replicas none(false, 0);
  none.make_steps(20, 400, 400);
  none.make_steps(8, 400, 480);
  CHECK(none.names().empty());
}

TEST_CASE("MON-10: steps that a pace made longer are not learned from, and an epoch begins anew") {
  training_replicas f(false, 10);
  f.make_steps(20, 400, 400);
  f.pace = 512;
  f.make_steps(9, 400, 480);
  CHECK(f.names().empty());
  f.pace = 1024;
  f.make_steps(8, 400, 480);
  CHECK(f.names() == parts_strings{"slow_part b 1"});
  ++f.epoch;
  f.make_steps(40, 400, 480);  // as it is from the epoch's first step on
  CHECK(std::ranges::count(f.names(), "slow_part b 1") == 0);
}

TEST_CASE("MON-10: of a job whose every step is beside a save, who gets slow is told of") {
  training_replicas f(false, 10);
  f.is_saving(true);
  f.make_steps(30, 400, 400);
  CHECK(f.names().empty());
  const auto known = f.findings(true);
  CHECK(known.quiet_steps >= known.quiet_steps_needed);
  CHECK_FALSE(known.parts.empty());
  f.make_steps(8, 400, 480);
  CHECK(f.names() == parts_strings{"slow_part b 1"});
}

TEST_CASE("MON-10: steps beside a save are not held against those without one") {
  training_replicas f(false, 10);
  f.make_steps(20, 400, 400);
  f.is_saving(true);
  f.make_steps(9, 400, 480);
  CHECK(f.names().empty());
  f.is_saving(false);
  f.make_steps(8, 400, 480);
  CHECK(f.names() == parts_strings{"slow_part b 1"});
}

TEST_CASE("MON-10: who asks is told what each part should take, and what is suspected of it") {
  training_replicas f(false, 10);
  f.make_steps(4, 400, 400);
  const auto early = f.findings(true);
  CHECK(early.parts.empty());
  CHECK(early.quiet_steps > 0);
  CHECK(early.quiet_steps < early.quiet_steps_needed);
  f.starved = true;
  f.make_steps(26, 400, 400);
  CHECK(f.findings().parts.empty());  // nobody asked
  f.make_steps(8, 400, 480);
  const auto all = f.findings(true);
  CHECK(all.quiet_steps >= all.quiet_steps_needed);
  CHECK(all.parts_left_out == 0);
  REQUIRE(all.parts.size() >= 2);
  const auto& slow = *all.parts[0];
  CHECK(slow.node == "b");
  CHECK(slow.rank == 1);
  CHECK(slow.part == "backward");
  CHECK(slow.suspected == "slow");
  CHECK(slow.expected_ms == 400);
  CHECK(slow.spread_ms == 0);
  CHECK(slow.seen_ms == doctest::Approx(480));
  CHECK(slow.off_percent == doctest::Approx(20));
  CHECK(slow.since_step > 0);
  CHECK(slow.beside == parts_strings{"cpu_starved"});
  const auto& other = *all.parts[1];
  CHECK(other.node == "a");
  CHECK(other.rank == 0);
  CHECK(other.suspected.empty());
  CHECK(other.since_step == 0);
  CHECK(other.part == "backward");
  CHECK(other.seen_ms == doctest::Approx(400));
}

namespace {

/// Says what a machine is.
void say_hello(training_replicas& f, const char* node, const char* processor,
               const parts_strings& gpus = {}, uint64_t memory_bytes = 0, uint32_t cores = 8,
               uint32_t machine_cpus = 0) {
  f.coordinator.tell(f.target, make_msg<fbs::Hello>({}, [&](auto& h) {
                       h.node = node;
                       h.hardware = std::make_unique<fbs::HardwareFactsT>();
                       h.hardware->cpu_model = processor;
                       h.hardware->cores = cores;
                       h.hardware->machine_cpus = machine_cpus;
                       h.hardware->gpus = gpus;
                       h.hardware->memory_bytes = memory_bytes;
                     }));
}

auto machine_at(uint16_t gpu_mhz, uint16_t cpu_mhz) {
  return [=](fbs::MachineVitalsT& m) {
    m.cpu_mhz = cpu_mhz;
    m.gpu_mhz = gpu_mhz;
    m.gpus.emplace_back(std::make_unique<fbs::GpuVitalsT>())->device = "gpu0";
  };
}

}  // namespace

TEST_CASE("MON-10: what sets a slow node's machine apart from its peers stands there in values") {
  training_replicas f(false, 10);
  say_hello(f, "a", "x");
  say_hello(f, "b", "x");
  f.first_machine = f.second_machine = machine_at(1980, 3000);
  f.make_steps(20, 400, 400);
  f.make_steps(8, 400, 480);
  REQUIRE(f.names() == parts_strings{"slow_part b 1"});
  CHECK(f.findings().findings[0]->text.find("GPU") == std::string::npos);
  f.second_machine = machine_at(1410, 2995);
  f.make_steps(2, 400, 480);
  CHECK(
      f.findings().findings[0]->text.ends_with("; its GPU runs at 1,410 MHz, the other at 1,980"));
  const auto all = f.findings(true);
  REQUIRE(all.parts.size() >= 2);
  CHECK(all.parts[0]->differs == "its GPU runs at 1,410 MHz, the other at 1,980");
  CHECK(all.parts[1]->differs.empty());  // nothing is suspected of it
}

TEST_CASE("MON-10: machines of unlike kinds, and of kinds that nobody knows, are not compared") {
  for (const bool is_known : {false, true}) {
    training_replicas f(false, 10);
    if (is_known) {
      say_hello(f, "a", "x");
      say_hello(f, "b", "y");
    }
    f.first_machine = machine_at(1980, 3000);
    f.second_machine = machine_at(1410, 2000);
    f.make_steps(20, 400, 400);
    f.make_steps(8, 400, 480);
    REQUIRE(f.names() == parts_strings{"slow_part b 1"});
    CHECK(f.findings(true).parts.at(0)->differs.empty());
    CHECK(f.findings().findings[0]->text.find("MHz") == std::string::npos);
  }
}

TEST_CASE(
    "MON-10: machines are of one kind whatever their memory, and in whatever order GPUs come") {
  for (const char* other : {"GPU 2", "GPU 3"}) {
    training_replicas f(false, 10);
    say_hello(f, "a", "x", {"GPU 1", "GPU 2"}, uint64_t{64} << 30);
    say_hello(f, "b", "x", {other, "GPU 1"}, uint64_t{32} << 30);
    f.first_machine = machine_at(1980, 3000);
    f.second_machine = machine_at(1410, 3000);
    f.make_steps(20, 400, 400);
    f.make_steps(8, 400, 480);
    REQUIRE(f.names() == parts_strings{"slow_part b 1"});
    const bool is_alike = std::string(other) == "GPU 2";
    CHECK(f.findings(true).parts.at(0)->differs.empty() != is_alike);
  }
}

TEST_CASE(
    "MON-10: a node that may use fewer processors is of its machine's kind, and told by that") {
  for (const uint32_t machine_cpus : {8u, 0u}) {
    CAPTURE(machine_cpus);
    training_replicas f(false, 10);
    say_hello(f, "a", "x", {}, 0, 8, machine_cpus);
    say_hello(f, "b", "x", {}, 0, 2, machine_cpus);
    f.rank_threads = {8, 2};
    f.first_machine = [](auto& m) { m.cpus = 8; };
    f.second_machine = [](auto& m) {
      m.cpus = 8;
      m.quota_cpus = 2;
    };
    f.make_steps(20, 400, 400);
    f.make_steps(8, 400, 480);
    REQUIRE(f.names() == parts_strings{"slow_part b 1"});
    // Of how many processors the machine has nobody else knows.
    const std::string differs =
        machine_cpus > 0
            ? "its rank has 2 threads, the other 8; it may use 2 processors, the other 8"
            : "";
    CHECK(f.findings(true).parts.at(0)->differs == differs);
  }
}

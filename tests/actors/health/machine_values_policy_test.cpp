// MVL-1 to MVL-3: what sets a machine apart is told in values, and nothing that says nothing.
#include "actors/health/machine_values_policy.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "messages/msg.hpp"
#include "messages/schemas/cluster_generated.h"

using namespace troupe;
using namespace troupe::health;

namespace {

machine_values usual_values() {
  return {.gpu_mhz = 1980,
          .gpu_limit_w = 700,
          .gpu_c = 60,
          .threads = 8,
          .cpus = 8,
          .cpu_mhz = 3000,
          .disk_sync_ms = 2};
}

std::string differs_from_two(const machine_values& own) {
  const std::vector<machine_values> others{usual_values(), usual_values()};
  return differing_values(own, others);
}

}  // namespace

TEST_CASE("machine values: each that makes a node slower is told beside the others'") {
  struct row {
    std::optional<double> machine_values::*value;
    double alike, worse;
    const char* text;
  };
  const row rows[] = {
      {&machine_values::gpu_mhz, 1950, 1410, "its GPU runs at 1,410 MHz, the others at 1,980"},
      {&machine_values::gpu_limit_w, 690, 300, "its GPU may draw 300 W, the others 700"},
      {&machine_values::gpu_c, 69, 88, "its GPU has 88 degrees, the others 60"},
      {&machine_values::threads, 8, 2, "its rank has 2 threads, the others 8"},
      {&machine_values::cpus, 8, 2, "it may use 2 processors, the others 8"},
      {&machine_values::cpus, 8, 0.5, "it may use 0.5 processors, the others 8"},
      {&machine_values::cpu_mhz, 2900, 800, "its processors run at 800 MHz, the others at 3,000"},
      {&machine_values::disk_sync_ms, 15, 120, "its disk syncs in 120 ms, the others in 2"}};
  CHECK(differs_from_two(usual_values()).empty());
  for (const auto& r : rows) {
    CAPTURE(r.text);
    auto own = usual_values();
    own.*r.value = r.alike;
    CHECK(differs_from_two(own).empty());
    own.*r.value = r.worse;
    CHECK(differs_from_two(own) == r.text);
    std::vector<machine_values> quick(3, usual_values());  // MVL-2
    for (auto& q : quick) q.*r.value = r.worse;
    CHECK(differing_values(usual_values(), quick).empty());
  }
}

TEST_CASE("machine values: one that is off among the others hides nothing, and makes nothing up") {
  auto own = usual_values(), odd = usual_values();
  odd.gpu_mhz = 300;
  const std::vector<machine_values> others{usual_values(), odd, usual_values()};
  CHECK(differing_values(own, others).empty());
  own.gpu_mhz = 1410;
  CHECK(differing_values(own, others) == "its GPU runs at 1,410 MHz, the others at 1,980");
}

TEST_CASE("MVL-1: what is not told, or no machine has, says nothing") {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto infinite = std::numeric_limits<double>::infinity();
  for (const auto bad : {std::optional<double>{}, std::optional(nan), std::optional(-1.0),
                         std::optional(0.0), std::optional(infinite), std::optional(1e300)}) {
    auto own = usual_values();
    own.gpu_mhz = own.gpu_limit_w = own.threads = own.cpus = own.cpu_mhz = bad;
    if (!bad || *bad != 0) own.disk_sync_ms = bad;
    if (!bad || !(*bad <= 0)) own.gpu_c = bad;
    CHECK(differs_from_two(own).empty());
    const std::vector<machine_values> others(3, own);
    auto slow = usual_values();
    slow.gpu_mhz = slow.gpu_limit_w = slow.threads = slow.cpus = slow.cpu_mhz = 1;
    CHECK(differing_values(slow, others).empty());
  }
  CHECK(differing_values(usual_values(), {}).empty());
}

TEST_CASE("MVL-2: no more values are told than a sentence holds") {
  const auto text = differs_from_two({.gpu_mhz = 1,
                                      .gpu_limit_w = 1,
                                      .gpu_c = 99,
                                      .threads = 1,
                                      .cpus = 1,
                                      .cpu_mhz = 1,
                                      .disk_sync_ms = 1e4});
  CHECK(text ==
        "its GPU runs at 1 MHz, the others at 1,980; its GPU may draw 1 W, the others 700; its "
        "rank has 1 threads, the others 8");
}

namespace {

/// Of a node that tells of so many ranks and of its machine.
msg<fbs::Heartbeat> told_vitals(size_t ranks, const fbs::MachineVitalsT& machine,
                                uint16_t threads) {
  return make_msg<fbs::Heartbeat>({}, [&](auto& h) {
    h.vitals = std::make_unique<fbs::VitalsT>();
    auto& v = *h.vitals;
    for (size_t i = 0; i < ranks; ++i) v.ranks.push_back(std::make_unique<fbs::RankVitalsT>());
    v.machine = std::make_unique<fbs::MachineVitalsT>(machine);
    v.rank_threads = threads;
  });
}

}  // namespace

TEST_CASE("MVL-3: of GPUs it speaks where each has a rank, and of none else") {
  fbs::MachineVitalsT m;
  m.cpu_mhz = 2500;
  m.cpus = 8;
  m.gpu_mhz = 1410;
  m.gpu_limit_w = 300;
  m.gpu_c = 88;
  for (int i = 0; i < 3; ++i) m.gpus.emplace_back(std::make_unique<fbs::GpuVitalsT>());
  const auto all = values_in(*told_vitals(3, m, 4)->vitals());
  CHECK(all.gpu_mhz == 1410);
  CHECK(all.gpu_limit_w == 300);
  CHECK(all.gpu_c == 88);
  CHECK(all.cpu_mhz == 2500);
  CHECK(all.cpus == 8);
  CHECK(all.threads == 4);
  const auto some = values_in(*told_vitals(2, m, 4)->vitals());
  CHECK_FALSE(some.gpu_mhz);
  CHECK_FALSE(some.gpu_limit_w);
  CHECK_FALSE(some.gpu_c);
  CHECK(some.cpu_mhz == 2500);
  // What is not told says nothing (MVL-1).
  const auto nothing = values_in(*told_vitals(1, {}, 0)->vitals());
  CHECK(differing_values(all, std::vector{nothing, nothing}).empty());
  CHECK(differing_values(nothing, std::vector{all, all}).empty());
  const auto nobody =
      make_msg<fbs::Heartbeat>({}, [](auto& h) { h.vitals = std::make_unique<fbs::VitalsT>(); });
  const auto silent = values_in(*nobody->vitals());
  CHECK_FALSE(silent.threads);
  CHECK_FALSE(silent.cpus);
}

TEST_CASE("machine values: what a process may use is the least of its binding and its quota") {
  struct row {
    uint16_t cpus;
    float quota;
    std::optional<double> may_use;
  };
  for (const auto& r : {row{8, 0, 8}, row{8, 2.5, 2.5}, row{2, 4, 2}, row{0, 4, 4}, row{0, 0, {}},
                        row{8, -1, 8}, row{8, std::numeric_limits<float>::quiet_NaN(), 8}}) {
    CAPTURE(r.cpus);
    CAPTURE(r.quota);
    fbs::MachineVitalsT m;
    m.cpus = r.cpus;
    m.quota_cpus = r.quota;
    CHECK(values_in(*told_vitals(1, m, 1)->vitals()).cpus == r.may_use);
  }
}

TEST_CASE("machine values: more threads than processors need no other machine to be told") {
  CHECK(crowded_threads({.threads = 8, .cpus = 2}, 1) == "its rank has 8 threads on 2 processors");
  CHECK(crowded_threads({.threads = 4, .cpus = 4}, 2) ==
        "its 2 ranks have 4 threads each on 4 processors");
  CHECK(crowded_threads({.threads = 4, .cpus = 8}, 2).empty());
  CHECK(crowded_threads({.threads = 4}, 2).empty());
  CHECK(crowded_threads({.cpus = 1}, 2).empty());
  CHECK(crowded_threads({.threads = 4, .cpus = 1}, 0).empty());
}

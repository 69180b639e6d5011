// The checks on this machine: they find nothing where nothing is wrong, and what is put in.
#include "actors/health/checkup.hpp"

#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/health/checkup_policy.hpp"
#include "actors/health/checks.hpp"
#include "tests/actors/health/spoiled_group.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

struct examined {
  scratch folder;
  checkup_options options;

  examined() {
    options.folder = folder.path;
    options.store.folder = folder / "facts";
    options.gpus = gpu_choice::none;
  }
  fbs::CheckupReportT run(bool bits_only = false, std::stop_token stop = {}) {
    fbs::RunCheckupT asked;
    asked.bits_only = bits_only;
    return run_checkup(asked, options, stop);
  }
  std::map<std::string, fbs::CheckVerdict> verdicts(bool bits_only) {
    std::map<std::string, fbs::CheckVerdict> out;
    for (const auto& c : run(bits_only).checks)
      out[c->check] = std::max(out[c->check], c->verdict);
    return out;
  }
};

}  // namespace

TEST_CASE("checkup: each check of a machine has a result, and none leaves a file") {
  examined e;
  const auto report = e.run();
  std::map<std::string, int> seen;
  for (const auto& c : report.checks) {
    CAPTURE(c->check);
    ++seen[c->check];
    CHECK((c->seen >= 0 || !c->text.empty()));
    CHECK(c->took_ms >= 0);
    if (entry_of(c->check).bits) CHECK(c->verdict != fbs::CheckVerdict::bad);
  }
  for (const auto& entry : checks_in_order())
    if (!entry.name.starts_with("gpu_")) CHECK(seen[std::string(entry.name)] == 1);
  CHECK_FALSE(report.hardware.empty());
  for (const auto& left : std::filesystem::directory_iterator(e.folder.path))
    CHECK(left.path().filename() == "facts");  // EXM-3
}

TEST_CASE("checkup: of a core that computes one wrong bit, that core is bad, however busy it is") {
  examined e;
  e.options.spoil_product = [](int, std::span<float> p) { p[5] += 1; };
  CHECK(e.verdicts(true)["cpu_product"] == fbs::CheckVerdict::bad);
  e.options.spoil_product = {};
  CHECK(e.verdicts(true)["cpu_product"] == fbs::CheckVerdict::ok);
}

TEST_CASE("checkup: a bit of memory that turns is bad") {
  examined e;
  e.options.spoil_memory = [](std::span<uint64_t> words) { words[words.size() / 2] ^= 1 << 7; };
  const auto v = e.verdicts(true);
  CHECK(v.at("memory_pattern") == fbs::CheckVerdict::bad);
  CHECK(v.at("cpu_product") == fbs::CheckVerdict::ok);
}

TEST_CASE("EXM-1: cores for which there is no time are not asked, and it says how many were") {
  examined e;
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  const auto cores = CPU_COUNT(&allowed);
  std::vector<int> asked;
  const auto spend = [&](int core, std::span<float>) {
    if (asked.empty() || asked.back() != core) asked.push_back(core);
    checkup_under_way late{false, e.options, {}};
    const deadline until(late, "cpu_product");
    while (!until.over()) {
    }
  };
  e.options.spoil_product = spend;
  const auto report = e.run(true);
  CHECK(asked.size() == 1);
  const auto& cpu = *report.checks.front();
  CHECK(cpu.check == "cpu_product");
  CHECK(cpu.verdict == fbs::CheckVerdict::ok);
  if (cores > 1) CHECK(cpu.part == fmt::format("1 of {} cpus", cores));
}

TEST_CASE("checkup: processes of one host begin with different cores") {
  examined e;
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed)) cores.push_back(i);
  int first = -1;
  e.options.spoil_product = [&](int core, std::span<float>) { first = first < 0 ? core : first; };
  e.run(true);
  CHECK(first == cores[static_cast<size_t>(getpid()) % cores.size()]);
}

TEST_CASE("checkup: a process that has opened no GPU looks at none, and says so") {
  examined e;
  e.options.gpus = gpu_choice::opened;
  for (const auto& c : e.run().checks) {
    if (c->check != "gpu_product") continue;
    CHECK(c->verdict == fbs::CheckVerdict::unknown);
    CHECK(c->part.empty());
    CHECK_FALSE(c->text.empty());
  }
}

TEST_CASE("EXM-1: a checkup that is stopped begins no further check") {
  examined e;
  std::stop_source stop;
  stop.request_stop();
  CHECK(e.run(false, stop.get_token()).checks.empty());
}

TEST_CASE("EXM-2: a folder that is not there is unknown and says why") {
  examined e;
  e.options.folder = e.folder / "nowhere";
  for (const auto& c : e.run().checks) {
    if (!c->check.starts_with("disk_")) continue;
    CHECK(c->verdict == fbs::CheckVerdict::unknown);
    CHECK_FALSE(c->text.empty());
  }
}

TEST_CASE("checkup: devices exchange known parts, and one that gives others is named") {
  examined e;
  e.options.exchanging = {"host", "host", "host"};
  const auto exchange_in = [&] {
    for (auto& c : e.run().checks)
      if (c->check == "gpu_all_to_all") return std::move(*c);
    return fbs::CheckResultT();
  };
  auto c = exchange_in();
  CAPTURE(c.text);
  CHECK(c.verdict == fbs::CheckVerdict::ok);
  CHECK(c.part == "3 devices");
  CHECK(c.seen == 0);
  e.options.open_group = troupe::health::test::spoiling(false, true);
  c = exchange_in();
  CHECK(c.verdict == fbs::CheckVerdict::bad);
  CHECK(c.seen == 3);  // one element, at each of them
  CHECK(c.text == "the first of them are of what host gave");
  e.options.open_group = [](const gpu::group_options&) {
    return result<std::unique_ptr<gpu::pending_group>>(error{errc::unavailable, "no such group"});
  };
  c = exchange_in();
  CHECK(c.verdict == fbs::CheckVerdict::unknown);
  CHECK(c.text == "no such group");
  e.options.exchanging = {"host"};
  c = exchange_in();
  CHECK(c.verdict == fbs::CheckVerdict::unknown);
  CHECK(c.text.find("nothing to exchange") != std::string::npos);
}

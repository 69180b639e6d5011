// `troupe predict probe` through the built program, and the pieces that need no machine.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/predict/probe.hpp"
#include "io/perf/hw_profile.hpp"
#include "io/perf/hw_reader.hpp"
#include "io/perf/hw_rows.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;

namespace {

/// With a cache of its own: nothing is kept of other tests, nor of this machine's user.
ended probe(const scratch& in, const std::string& arguments) {
  return run_in(in.path,
                "XDG_CACHE_HOME=\"$PWD/cache\" '" TROUPE_PROGRAM "' predict probe " + arguments);
}

}  // namespace

TEST_CASE("a machine is probed once, and told as kept until it is asked for anew") {
  scratch dir;
  const auto first = probe(dir, "--json");
  REQUIRE_MESSAGE(first.code == 0, first.talk);
  const auto measured = nlohmann::json::parse(first.out);
  CHECK(measured["kept"] == false);
  CHECK(measured["profile"]["probe"]["probe_threads"] > 0);
  CHECK(measured["profile"]["memory"]["mem_gib"] > 0);
  const auto again = probe(dir, "--json");
  REQUIRE_MESSAGE(again.code == 0, again.talk);
  const auto kept = nlohmann::json::parse(again.out);
  if (io::perf::boot_id().empty() || !measured["not_measured"].empty()) {
    CHECK(kept["kept"] == false);
    MESSAGE("SKIPPED: not all was measured here, or the machine's start is not known");
    return;
  }
  CHECK(kept["kept"] == true);
  CHECK(kept["profile"]["probe"] == measured["profile"]["probe"]);
  const auto anew = probe(dir, "--json --again");
  REQUIRE_MESSAGE(anew.code == 0, anew.talk);
  CHECK(nlohmann::json::parse(anew.out)["kept"] == false);
  const auto table = probe(dir, "");
  REQUIRE(table.code == 0);
  for (const char* word : {"cpu ", "memory ", "mem_gib", "probe_threads", "workload: "})
    CHECK(table.out.find(word) != std::string::npos);
  CHECK(table.talk.find("--again") != std::string::npos);
}

TEST_CASE("a probed machine's row is learned from and asked by") {
  scratch dir;
  std::filesystem::create_directory(dir / "data");
  const auto made = probe(dir, "-o data/fleet.csv --id node1 --label score");
  REQUIRE_MESSAGE(made.code == 0, made.talk);
  CHECK(made.out.empty());
  // A person has more machines of the kind, and has measured them.
  const auto text = tree_of(dir.path)["data/fleet.csv"].substr(5);
  const auto heading = text.substr(0, text.find('\n') + 1);
  const auto row = text.substr(heading.size() + std::string("node1").size());
  REQUIRE(row.ends_with(",\n"));
  std::string fleet = heading, split = "dataset,row_id,split\n";
  for (int i = 0; i < 20; ++i) {
    fleet += fmt::format("node{}{}{}\n", i, row.substr(0, row.size() - 1), 100 + i % 3);
    split += fmt::format("fleet,node{},{}\n", i, i % 4 == 3 ? "test" : "train");
  }
  put_file(dir / "data/fleet.csv", fleet);
  put_file(dir / "s.csv", split);
  const auto predict = [&](const std::string& arguments) {
    return run_in(dir.path, "'" TROUPE_PROGRAM "' predict " + arguments);
  };
  const auto trained = predict("train --data data --split s.csv --kind trunk -o m");
  REQUIRE_MESSAGE(trained.code == 0, trained.talk);
  // The same machine, from the cache, in a table of its own: its label's column is no feature.
  const auto own = probe(dir, "-o mine.csv --id mine --label score");
  REQUIRE_MESSAGE(own.code == 0, own.talk);
  CHECK(own.talk.find("has no column") == std::string::npos);
  const auto other = probe(dir, "-o mine.csv --id ' mine ' --label speed");
  REQUIRE_MESSAGE(other.code == 0, other.talk);
  CHECK(other.talk.find("mine.csv has no column speed") != std::string::npos);
  const auto asked = predict("ask m/fleet.tpm --row mine.csv");
  REQUIRE_MESSAGE(asked.code == 0, asked.talk);
  CHECK(asked.out.find("\nfleet,mine,score,") != std::string::npos);
}

TEST_CASE("plan asks about machines that are not here by what they were probed to do") {
  scratch dir;
  put_file(dir / "x.txt", "a text");
  put_file(dir / "j.toml",
           "[cluster]\nnodes = 2\ndevice = \"host\"\n[model]\nlayers = 4\nheads = 4\nhidden = 64\n"
           "vocab = 256\n[data]\npath = \"x.txt\"\n[parallel]\npipeline = 2\n"
           "[train]\nsteps = 10\nbatch = 8\nmicro_batch = 2\nseq_len = 32\n");
  const auto plan = [&](const std::string& arguments) {
    return run_in(dir.path,
                  "XDG_CACHE_HOME=\"$PWD/cache\" '" TROUPE_PROGRAM "' plan j.toml " + arguments);
  };
  // Not measured here: where a probe is not begun in time, no two measurements are alike.
  io::perf::hw_profile machine;
  machine.mem_gib = 64;
  machine.probe_threads = 4;
  machine.gemm_gflop_s = 100;
  machine.gemm_bf16_gflop_s = 200;
  machine.adamw_mparam_s = 1000;
  for (const auto* id : {"a", "b"})
    REQUIRE(io::perf::add_hw_row(dir / "fleet.csv", id, machine, "score"));
  put_file(dir / "like.json",
           R"({"profile":{"memory":{"mem_gib":64},"probe":{"probe_threads":4,)"
           R"("gemm_gflop_s":100,"gemm_bf16_gflop_s":200,"adamw_mparam_s":1000}}})");
  const auto like = plan("--like like.json --json"), nodes = plan("--nodes fleet.csv --json");
  REQUIRE_MESSAGE(like.code == 0, like.talk);
  REQUIRE_MESSAGE(nodes.code == 0, nodes.talk);
  const auto one = nlohmann::json::parse(like.out)["expected"];
  CHECK(one["step_s"] > 0);
  CHECK(one["stages"].size() == 2);
  CHECK(one["measured_placement"]["layers"] == "2,2");
  auto two = nlohmann::json::parse(nodes.out)["expected"];
  CHECK(two["machines"][1]["name"] == "b");
  CHECK(two["step_s"] == one["step_s"]);
  CHECK(plan("--like like.json").out.find("expected there") != std::string::npos);
  // A row too few, both at once, and a machine that was never probed.
  CHECK(plan("--like fleet.csv").code == 64);
  CHECK(plan("--like like.json --nodes fleet.csv").code == 64);
  put_file(dir / "bare.json", R"({"profile":{"cpu":{"cpus":8}}})");
  const auto bare = plan("--like bare.json");
  CHECK(bare.code == 65);
  CHECK(bare.talk.find("predict probe") != std::string::npos);
}

TEST_CASE("a probe without its folder, or into what is no table, ends as that and leaves nothing") {
  scratch dir;
  CHECK(probe(dir, "--folder nowhere").code == 66);
  CHECK(probe(dir, "-o machine.txt").code == 64);
  put_file(dir / "other.csv", "a,b\n1,2\n");
  CHECK(probe(dir, "-o other.csv").code == 65);
  CHECK(tree_of(dir.path)["other.csv"] == "file a,b\n1,2\n");
  put_file(dir / "people.csv", "row_id,age\nx,2\n");
  CHECK(probe(dir, "-o people.csv").code == 65);
  // Nor is anything measured for it.
  for (const auto& [name, what] : tree_of(dir.path))
    CHECK(name.find("hardware-probes") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "machine.txt"));
  CHECK_FALSE(std::filesystem::exists(dir / "other.toml"));
}

TEST_CASE("the group gpu is of what the driver and CUDA say, and absent without a device") {
  io::perf::hw_profile none;
  apps::predict::add_gpus(none, {});
  CHECK(none == io::perf::hw_profile{});
  apps::gpu_picture picture;
  picture.driver_version = "550.1";
  auto& one = picture.devices.emplace_back();
  one.driver = gpu::nvml::gpu_identity{0, "Some GPU", "GPU-1"};
  one.reading.emplace();
  one.reading->memory_total_bytes = uint64_t{80} << 30;
  one.reading->power_limit_mw = 700'000;
  one.reading->sm_mhz = 1410;
  one.reading->memory_mhz = 2619;
  one.reading->temperature_c = 61;
  one.reading->slowed_by = {"power limit", "heat"};
  picture.devices.emplace_back();
  io::perf::hw_profile said, wanted;
  apps::predict::add_gpus(said, picture);
  wanted.gpus = 2;
  wanted.gpu_driver = "550.1";
  wanted.gpu_name = "Some GPU";
  wanted.gpu_gib = 80;
  wanted.gpu_limit_w = 700;
  wanted.gpu_sm_mhz = 1410;
  wanted.gpu_memory_mhz = 2619;
  wanted.gpu_temperature_c = 61;
  wanted.gpu_slowed_by = "power limit, heat";
  CHECK(said == wanted);
  picture.devices.front().reading->slowed_by->clear();
  apps::predict::add_gpus(said, picture);
  CHECK(said.gpu_slowed_by == std::string("none"));
  picture.devices.front()
      .reading->slowed_by.reset();  // not known: not told, and not that nothing does
  io::perf::hw_profile silent;
  apps::predict::add_gpus(silent, picture);
  CHECK_FALSE(silent.gpu_slowed_by);
}

TEST_CASE("a profile's text has its units, and names what is not known") {
  io::perf::hw_profile profile;
  profile.triad_gb_s = 41.25;
  const auto text = apps::predict::profile_text(profile, 0);
  CHECK(text.find("41.25 GB/s") != std::string::npos);
  CHECK(text.find("chase_ns") != std::string::npos);
  CHECK(text.find("cpu: nothing") != std::string::npos);
}

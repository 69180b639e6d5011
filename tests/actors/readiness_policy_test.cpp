// What a machine must have for a job: tables of machines that do not exist.
#include "actors/train/readiness_policy.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/train/batch_memory.hpp"
#include "actors/train/gpu_budget.hpp"
#include "actors/train/memory_estimate.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_forecast.hpp"
#include "actors/train/swap_ranks.hpp"
#include "actors/train/swap_to_fit.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "tests/errors.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

constexpr auto small_job_text =
    "[model]\nlayers = 2\nheads = 4\nhidden = 64\n[data]\npath = \"absent\"\n"
    "[train]\nsteps = 4\nbatch = 8\nseq_len = 32\n";

job_plan plan_for(const std::vector<std::string>& sets) {
  auto plan = make_plan(job_of_text(small_job_text, sets));
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  return *plan;
}

machine small_machine() {
  machine m;
  m.memory_bytes = uint64_t{4} << 30;
  m.memory_whose = "this machine";
  m.cores = 4;
  m.no_gpus = {errc::unavailable, "there is no driver", "install one"};
  return m;
}

}  // namespace

TEST_CASE("readiness: what a job needs is refused where the machine lacks it, with numbers") {
  struct {
    std::vector<std::string> sets;
    std::string_view key, kind, fact;
  } const cases[] = {
      {{"model.hidden=16384", "model.layers=100"}, "", memory_lacking.name, "(this machine)"},
      {{"cluster.nodes=8", "model.hidden=4096"}, "", memory_lacking.name, "the job"},
      {{"cluster.threads=4096"}, "cluster.threads", cores_lacking.name, "64"},
      {{"cluster.nodes=2", "cluster.threads=33"}, "cluster.threads", cores_lacking.name, "66"},
      {{"cluster.nodes=2", "parallel.data=2", "checkpoint.memory.every=1",
        "checkpoint.memory.bytes=2000000"},
       "checkpoint.memory.bytes",
       copies_lacking.name,
       "node0"},
      {{"cluster.device=cuda"}, "cluster.device", gpus_lacking.name, "no driver"},
      {{"train.batch=1000000", "train.micro_batch=1", "train.seq_len=4000"},
       "train.batch",
       batch_too_large.name,
       "1000000"},
  };
  CHECK(judge(plan_for({}), small_machine()).problems.empty());
  CHECK(judge(plan_for({"cluster.threads=64"}), small_machine()).problems.empty());
  for (const auto& c : cases) {
    const auto found = judge(plan_for(c.sets), small_machine()).problems;
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == c.key);
    CHECK(is_error(found[0].why, c.kind, c.fact));
    CHECK_FALSE(found[0].why.hint.empty());
  }
}

TEST_CASE("readiness: nodes that are elsewhere are not judged by this machine (RDY-1)") {
  const std::vector<std::string> sets{"cluster.port=29400",  "cluster.launch=external",
                                      "model.hidden=16384",  "model.layers=100",
                                      "cluster.device=cuda", "cluster.threads=4096"};
  CHECK(judge(plan_for(sets), small_machine()).problems.empty());
}

TEST_CASE("readiness: on GPUs their memory counts, and the host's for the rest") {
  auto m = small_machine();
  m.gpus = {{"A", uint64_t{1} << 30}, {"B", uint64_t{1} << 30}};
  const std::vector<std::string> large{"cluster.nodes=2", "model.hidden=2048",
                                       "checkpoint.ring_bytes=16777216"};
  const auto found = judge(plan_for(large), m).problems;
  REQUIRE(found.size() == 1);
  CHECK(is_error(found[0].why, memory_lacking, "GPU", 0, "(A)"));
  m.gpus[0].memory_bytes = m.gpus[1].memory_bytes = uint64_t{80} << 30;
  CHECK(judge(plan_for(large), m).problems.empty());
  m.memory_bytes = 64 << 20;
  CHECK(judge(plan_for(large), m).problems.size() == 1);
}

TEST_CASE("readiness: a GPU has room for its products' workspace and a slab of logits") {
  auto m = small_machine();
  m.gpus = {{"A", uint64_t{80} << 30}};
  const auto plan = plan_for({"cluster.device=cuda", "train.micro_batch=4", "model.hidden=256"});
  const auto stage = largest_stage_bytes(plan_stages(plan));
  const auto tokens = static_cast<uint64_t>(4 * plan.job.train.seq_len);
  const auto logits = tokens * static_cast<uint64_t>((plan.model.vocab + 7) / 8 * 8) * 4;
  const auto slab = (logits + 256 + 8 * tokens) * 9 / 8;  // small blocks have room to grow in
  m.gpus[0].memory_bytes = stage + (uint64_t{32} << 20) + slab;
  CHECK(fits_memory(plan, m));
  m.gpus[0].memory_bytes = stage + (uint64_t{32} << 20) + logits;
  CHECK_FALSE(fits_memory(plan, m));
}

TEST_CASE("readiness: what would make a job fit is said, and does") {
  auto m = small_machine();
  const auto plan = plan_for({"train.batch=64", "train.seq_len=512", "model.hidden=256"});
  const auto needed = share_of_machine(plan, plan_stages(plan), true).total();
  m.memory_bytes = needed;
  CHECK(fits_memory(plan, m));
  m.memory_bytes = needed - 1;
  const auto refused = fits_memory(plan, m);
  REQUIRE_FALSE(refused);
  const auto& hint = refused.error().hint;
  const auto at = hint.find("train.micro_batch=");
  REQUIRE(at != std::string::npos);
  const auto setting = hint.substr(at, hint.find(' ', at) - at);
  CHECK(fits_memory(plan_for({"train.batch=64", "train.seq_len=512", "model.hidden=256", setting}),
                    m));
}

TEST_CASE("readiness: where only swapping makes a job fit, its settings are said, and do") {
  const scratch dir;
  const std::vector<std::string> large{"model.layers=24",
                                       "model.hidden=512",
                                       "model.dtype=bf16",
                                       "train.batch=1",
                                       "train.micro_batch=1",
                                       "model.recompute=true",
                                       "cluster.threads=1",
                                       "checkpoint.ring_bytes=16777216",
                                       "job.output=" + (dir / "run").string()};
  auto m = small_machine();
  m.memory_bytes = uint64_t{600} << 20;
  const auto plan = plan_for(large);
  const auto refused = fits_memory(plan, m);
  REQUIRE_FALSE(refused);
  CHECK(ways_to_fit(plan, process_limit(plan, m)).empty());
  const auto way = swapping_to_fit(plan, process_limit(plan, m));
  REQUIRE(way);
  CHECK(way->disk_bytes > 0);
  REQUIRE(way->rooms.size() == 1);
  CHECK(way->floor_bytes < m.memory_bytes);
  auto sets = large;
  for (const auto& setting : way->settings) {
    CHECK(mentions(refused.error(), setting));
    sets.push_back(setting);
  }
  const auto swapped = plan_for(sets);
  CHECK(swapped.job.swap.dir == std::vector<std::string>{(dir / "run/swap").string()});
  CHECK(judge(swapped, m).problems.empty());
  CHECK(forecast_swap(swapped));

  m.memory_bytes = way->floor_bytes / 2;  // of which nothing swaps
  CHECK_FALSE(swapping_to_fit(plan, process_limit(plan, m)));
  CHECK_FALSE(fits_memory(plan, m));
  m.memory_bytes = uint64_t{600} << 20;
  auto copied = plan;
  copied.job.checkpoint.memory.every = 1;
  CHECK_FALSE(swapping_to_fit(copied, process_limit(plan, m)));  // not with swapping
  m.gpus = {{"A", uint64_t{1} << 30}};
  CHECK(process_limit(plan, m) == 0);
}

TEST_CASE("readiness: a refused budget names the one that is accepted, of the threads there are") {
  const std::vector<std::string> swapping{"model.layers=12",  "model.hidden=256",
                                          "model.vocab=1000", "cluster.threads=4",
                                          "swap.dir=/swap",   "train.batch=4"};
  const auto with = [&](uint64_t bytes) {
    auto plan = plan_for(swapping);
    plan.job.swap.host_bytes = static_cast<int64_t>(bytes);
    return plan;
  };
  const auto floor = swap_floor_bytes(with(1), 4);
  for (const auto too_few : {uint64_t{1}, floor / 2, floor - 1}) {
    CAPTURE(too_few);
    const auto found = judge(with(too_few), small_machine()).problems;
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == "swap.host_bytes");
    CHECK(is_error(found[0].why, gpu::budget_too_small));
    CHECK(mentions(found[0].why, fmt::format("swap.host_bytes={}", floor)));
  }
  CHECK(judge(with(floor), small_machine()).problems.empty());
}

namespace {

const std::vector<std::string> swapping_on_gpu{
    "model.layers=12", "model.hidden=256",    "model.vocab=1000", "cluster.threads=1",
    "swap.dir=/swap",  "cluster.device=cuda", "train.batch=4"};

machine machine_with_gpu(uint64_t bytes) {
  auto m = small_machine();
  m.gpus = {{"A", bytes}};
  return m;
}

}  // namespace

TEST_CASE("readiness: of ranks on a GPU each budget has its floor, and what is named is accepted") {
  const auto m = machine_with_gpu(uint64_t{8} << 30);
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    auto sets = swapping_on_gpu;
    sets.insert(sets.end(), {fmt::format("cluster.nodes={}", ranks),
                             fmt::format("parallel.data={}", ranks), "train.micro_batch=1"});
    const auto with = [&](uint64_t device, uint64_t host) {
      auto plan = plan_for(sets);
      plan.job.swap.device_bytes = static_cast<int64_t>(device);
      plan.job.swap.host_bytes = static_cast<int64_t>(host);
      place_on_gpus(plan, m);
      return plan;
    };
    CHECK(with(1, 1).gpu_at.bytes == uint64_t{8} << 30);
    CHECK(with(1, 1).gpu_at.ranks == ranks);  // of one GPU
    const auto device = device_floor_bytes(with(1, 1), 1);
    const auto host = swap_floor_bytes(with(device, 1), 1);
    const auto judged = [&](uint64_t device_bytes, uint64_t host_bytes) {
      return judge(with(device_bytes, host_bytes), m).problems;
    };
    const auto on_device = fmt::format("swap.device_bytes={}", device);
    const auto on_host = fmt::format("swap.host_bytes={}", host);
    auto found = judged(device - 1, host);
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == "swap.device_bytes");
    CHECK(is_error(found[0].why, gpu::device_budget_too_small));
    CHECK(mentions(found[0].why, on_device));
    CHECK_FALSE(mentions(found[0].why, on_host));
    found = judged(device, host - 1);
    REQUIRE(found.size() == 1);
    CHECK(found[0].key == "swap.host_bytes");
    CHECK(is_error(found[0].why, gpu::twins_too_large));
    CHECK(mentions(found[0].why, on_host));
    CHECK_FALSE(mentions(found[0].why, on_device));
    found = judged(1, 1);
    REQUIRE(found.size() == 1);
    CHECK(mentions(found[0].why, on_device));
    CHECK(mentions(found[0].why, on_host));
    CHECK(judged(device, host).empty());
    const auto forecast = forecast_swap(with(device, host));
    REQUIRE(forecast);
    CHECK(forecast->of_gpu.floor_bytes == device);
    CHECK(forecast->floor_bytes == host);
    CHECK(forecast->of_gpu.device_bytes == device);
    CHECK(static_cast<uint64_t>(ranks) *
              (forecast->of_gpu.stage_bytes + forecast->of_gpu.overhead_bytes) <=
          device);
    CHECK(forecast->of_gpu.twin_bytes + forecast->overhead_bytes <= host);
  }
}

TEST_CASE("readiness: a GPU gives what it has less its reserve, whatever the host has") {
  auto plan = plan_for(swapping_on_gpu);
  plan.job.swap.host_bytes = int64_t{512} << 20;
  place_on_gpus(plan, machine_with_gpu(uint64_t{80} << 30));
  CHECK(device_bytes_of(plan.job, plan.gpu_at) == uint64_t{79} << 30);
  CHECK(device_bytes_of(plan.job, {uint64_t{4} << 30, 1}) == uint64_t{7} << 29);
  CHECK_FALSE(forecast_swap(plan));  // all of it is in the GPU's memory
  plan.job.swap.host_bytes = static_cast<int64_t>(swap_floor_bytes(plan, 1));
  CHECK(fits_swap_budget(plan, 1));
  --plan.job.swap.host_bytes;  // of which the process has the rest
  CHECK(fits_swap_budget(plan, 1).error().is(gpu::twins_too_large));
  plan.job.swap.host_bytes = int64_t{512} << 20;
  auto rank = planned_options(plan, plan.ranks.front(), 1);
  const auto own = device_budget_bytes(plan.job, rank);
  CHECK(own == (uint64_t{79} << 30) - device_overhead_bytes(rank));
  for (const auto agreed : {own - 1, own + 1}) {  // with its replicas
    rank.swap_device_bytes = agreed;
    CHECK(device_budget_bytes(plan.job, rank) == std::min(own, agreed));
  }
  plan.job.swap.device_bytes = int64_t{90} << 30;
  CHECK(device_bytes_of(plan.job, plan.gpu_at) == uint64_t{80} << 30);
  auto elsewhere = plan_for(swapping_on_gpu);
  place_on_gpus(elsewhere, small_machine());  // without one
  CHECK(elsewhere.gpu_at.bytes == 0);
  elsewhere.job.cluster.launch = config::launch_mode::ssh;
  elsewhere.job.swap.host_bytes = 1;
  place_on_gpus(elsewhere, small_machine());
  CHECK(fits_swap_budget(elsewhere, 1));  // its nodes know their GPUs
  elsewhere.job.swap.device_bytes = 1;
  place_on_gpus(elsewhere, small_machine());
  const auto refused = fits_swap_budget(elsewhere, 1);
  REQUIRE_FALSE(refused);
  const auto floor = device_floor_bytes(elsewhere, 1);
  CHECK(mentions(refused.error(), fmt::format("swap.device_bytes={}", floor)));
}

TEST_CASE("readiness: processes that share a GPU may each hold their ranks' shares of it") {
  auto plan = plan_for(swapping_on_gpu);
  plan.job.swap.host_bytes = int64_t{1} << 40;
  place_on_gpus(plan, machine_with_gpu(uint64_t{80} << 30));
  auto rank = planned_options(plan, plan.ranks.front(), 1);
  struct row {
    int64_t ranks, workers;  // of the GPU, of a process
    uint64_t share;
  };
  for (const auto& r : {row{1, 1, 1}, row{4, 1, 4}, row{4, 2, 2}, row{4, 4, 1}}) {
    CAPTURE(r.ranks);
    CAPTURE(r.workers);
    rank.gpu_at.ranks = r.ranks;
    plan.job.cluster.node.front().workers = r.workers;
    REQUIRE(settle_swap(rank, plan.job));
    CHECK(rank.device_bytes == (uint64_t{79} << 30) / r.share);
  }
}

TEST_CASE("readiness: twins of what is on a GPU are part of what its machine must have") {
  auto m = machine_with_gpu(uint64_t{8} << 30);
  auto plan = plan_for(swapping_on_gpu);
  plan.job.swap.host_bytes = int64_t{2} << 30;
  place_on_gpus(plan, m);
  plan.job.swap.device_bytes = static_cast<int64_t>(device_floor_bytes(plan, 1));
  const auto forecast = forecast_swap(plan);
  REQUIRE(forecast);
  const auto stages = plan_stages(plan);
  CHECK(largest_stage_bytes(stages) == forecast->of_gpu.stage_bytes);
  const auto share = share_of_machine(plan, stages, false);
  CHECK(share.twins > 0);
  CHECK(share.twins == forecast->of_gpu.twin_bytes);
  m.memory_bytes = share.total();
  CHECK(fits_memory(plan, m));
  --m.memory_bytes;
  CHECK_FALSE(fits_memory(plan, m));
}

TEST_CASE("readiness: a floor of GPUs elsewhere is enough for GPUs of that size") {
  auto plan = plan_for({"model.hidden=8192", "model.heads=64", "model.vocab=500000",
                        "train.micro_batch=8", "swap.dir=/swap", "cluster.device=cuda"});
  plan.job.cluster.launch = config::launch_mode::ssh;
  plan.job.swap.host_bytes = int64_t{1} << 42;
  const auto with = [&](uint64_t bytes) {
    plan.job.swap.device_bytes = static_cast<int64_t>(bytes);
    place_on_gpus(plan, small_machine());
    return plan;
  };
  const auto floor = device_floor_bytes(with(1), 1);
  REQUIRE(floor > uint64_t{32} << 30);  // where more logits are there at once
  CHECK(fits_swap_budget(with(floor), 1));
  CHECK_FALSE(fits_swap_budget(with(floor - 1), 1));
}

TEST_CASE("readiness: a GPU that is too small for any plan is told from a setting") {
  const auto m = machine_with_gpu(uint64_t{64} << 20);
  auto plan = plan_for(swapping_on_gpu);
  plan.job.swap.host_bytes = int64_t{2} << 30;
  place_on_gpus(plan, m);
  const auto refused = fits_swap_budget(plan, 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(gpu::device_budget_too_small));
  CHECK_FALSE(mentions(refused.error(), "swap.device_bytes="));
  CHECK(mentions(refused.error(), "parallel.pipeline"));
}

TEST_CASE("readiness: where a GPU is too small swapping is said to fit, and does") {
  const scratch dir;
  const std::vector<std::string> large{"model.layers=24",
                                       "model.hidden=512",
                                       "train.batch=1",
                                       "train.micro_batch=1",
                                       "model.recompute=true",
                                       "cluster.threads=1",
                                       "cluster.device=cuda",
                                       "checkpoint.ring_bytes=16777216",
                                       "job.output=" + (dir / "run").string()};
  const auto m = machine_with_gpu(uint64_t{600} << 20);
  auto plan = plan_for(large);
  CHECK_FALSE(swapping_to_fit(plan, process_limit(plan, m)));  // whose GPU is not known
  place_on_gpus(plan, m);
  CHECK(process_limit(plan, m) > 0);
  const auto way = swapping_to_fit(plan, process_limit(plan, m));
  REQUIRE(way);
  CHECK(way->disk_bytes > 0);
  const auto refused = fits_memory(plan, m);
  REQUIRE_FALSE(refused);
  auto sets = large;
  for (const auto& setting : way->settings) {
    CHECK(mentions(refused.error(), setting));
    sets.push_back(setting);
  }
  auto swapped = plan_for(sets);
  place_on_gpus(swapped, m);
  CHECK(judge(swapped, m).problems.empty());
  CHECK(forecast_swap(swapped));
}

TEST_CASE("readiness: shapes that nothing could hold are refused before they are counted") {
  const std::vector<std::vector<std::string>> cases{
      {"model.layers=4096", "model.hidden=1000000", "model.ffn=4000000"},
      {"train.batch=1000000", "train.micro_batch=1000000", "train.seq_len=16000000",
       "model.hidden=1000000"},
      {"train.batch=1000000", "train.micro_batch=1", "train.seq_len=16000000",
       "model.hidden=1000000"},
  };
  for (const auto& sets : cases) {
    CAPTURE(sets.front());
    const auto plan = make_plan(job_of_text(small_job_text, sets));
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::bad_config);
    CHECK(plan.error().message.find("expected at most") != std::string::npos);
  }
}

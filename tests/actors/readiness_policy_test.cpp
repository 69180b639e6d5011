// What a machine must have for a job: tables of machines that do not exist.
#include "actors/train/readiness_policy.hpp"

#include <fmt/format.h>

#include "actors/train/batch_memory.hpp"
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

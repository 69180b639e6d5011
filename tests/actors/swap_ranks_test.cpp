// Which numbers of replicas fit the memory that a job gives them.
#include "actors/train/swap_ranks.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "actors/base/timeouts.hpp"
#include "actors/job/replicas_policy.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/swap_folder.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/config/load.hpp"
#include "io/folder/owned.hpp"
#include "messages/message_list.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

/// Four replicas of a model whose slices are shorter than a group of state.
job_plan plan_of_four(int64_t host_bytes) {
  auto job = config::parse(
      "[model]\nlayers = 12\nheads = 4\nhidden = 256\nvocab = 1000\n"
      "[data]\npath = \"x.txt\"\n[train]\nbatch = 4\nmicro_batch = 1\n"
      "[parallel]\ndata = 4\n[cluster]\nnodes = 4\n[swap]\ndir = \"/swap\"\n",
      "test");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  auto plan = make_plan(*job);
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  plan->job.swap.host_bytes = host_bytes;
  return *plan;
}

int64_t floor_of(const job_plan& plan) {
  return static_cast<int64_t>(swap_floor_bytes(plan, threads_here(plan.job.cluster)));
}

using numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("replicas that swap: numbers whose slices need more memory than there is are left out") {
  const auto all = plan_of_four(int64_t{1} << 40);
  CHECK(replica_counts_that_fit(all) == numbers{4, 2, 1});
  const auto two = with_replicas(all, 2);
  REQUIRE(two);
  const auto floor4 = floor_of(all), floor2 = floor_of(*two);
  REQUIRE(floor4 < floor2);
  CHECK(fits_swap_budget(plan_of_four(floor4), threads_here(all.job.cluster)));
  const auto fitting = replica_counts_that_fit(plan_of_four(floor2 - 1));
  CHECK(std::find(fitting.begin(), fitting.end(), 4) != fitting.end());
  CHECK(std::find(fitting.begin(), fitting.end(), 2) == fitting.end());
  const auto at_two = replica_counts_that_fit(plan_of_four(floor2));
  CHECK(std::find(at_two.begin(), at_two.end(), 2) != at_two.end());
  CHECK(replica_counts_that_fit(plan_of_four(1)) == numbers{4});  // its own is for others to judge
  auto no_swap = plan_of_four(1);
  no_swap.job.swap.dir.clear();
  CHECK(replica_counts_that_fit(no_swap) == numbers{4, 2, 1});
}

TEST_CASE("what is too little for nodes elsewhere is told with the device that may be enough") {
  const auto hint_of = [](config::launch_mode launch, config::device_kind device) {
    auto plan = plan_of_four(1);
    plan.job.cluster.launch = launch;
    plan.job.cluster.device = device;
    const auto fits = fits_swap_budget(plan, threads_here(plan.job.cluster));
    return fits ? std::string() : fits.error().hint;
  };
  using enum config::launch_mode;
  using enum config::device_kind;
  const auto names_device = [](const std::string& hint) {
    return hint.find("cluster.device=cuda") != hint.npos;
  };
  CHECK(names_device(hint_of(external, automatic)));
  for (const auto& hint : {hint_of(external, host), hint_of(local, automatic)}) {
    CHECK(hint.find("swap.host_bytes=") != hint.npos);
    CHECK_FALSE(names_device(hint));
  }
  CHECK(hint_of(external, cuda).empty());  // the run looks at their GPUs
}

TEST_CASE("replicas that swap: fewer of them have larger shares of the GPU that they are on") {
  auto all = plan_of_four(int64_t{1} << 40);
  const int threads = threads_here(all.job.cluster);
  all.gpu_at = {uint64_t{8} << 30, 4};
  const auto floor = device_floor_bytes(all, threads);
  all.job.swap.device_bytes = static_cast<int64_t>(floor);
  auto two = with_replicas(all, 2);
  REQUIRE(two);
  CHECK(two->gpu_at.ranks == 2);
  CHECK(fits_swap_budget(*two, threads));
  two->gpu_at.ranks = 4;
  CHECK_FALSE(fits_swap_budget(*two, threads));  // whose slices are longer
  CHECK(replica_counts_that_fit(all) == numbers{4, 2, 1});
  all.gpu_at.ranks = 3;  // on one of two GPUs
  CHECK(with_replicas(all, 2)->gpu_at.ranks == 2);
  CHECK(with_replicas(all, 1)->gpu_at.ranks == 1);
}

TEST_CASE("ENG-11: replicas speculate where the drives of all have room, or where they are told") {
  scratch dir;
  auto plan = plan_of_four(int64_t{1} << 40);
  plan.job.swap.dir = {dir / "swap"};
  plan.job.swap.host_bytes = floor_of(plan);
  const int threads = threads_here(plan.job.cluster);
  const auto settled = [&](std::optional<bool> told) {
    auto o = planned_options(plan, plan.ranks.front(), threads);
    o.swap_second_version = told;
    REQUIRE(settle_swap(o, plan.job));
    return o;
  };
  const auto by_itself = settled({});
  CHECK(by_itself.shape.where.speculates == has_room_for_versions(plan.job, by_itself));
  for (const bool told : {false, true}) {
    const auto o = settled(told);
    CHECK(o.shape.where.speculates == told);
    CHECK(gpu::update_order_of(o.shape.where, true) ==
          (told ? gpu::update_order::speculate : gpu::update_order::twice));
  }
  plan.job.swap.clip = config::clip_way::twice;
  CHECK_FALSE(settled(true).shape.where.speculates);
  plan.job.swap.clip = config::clip_way::speculate;
  CHECK(settled(false).shape.where.speculates);  // room or not: that is looked at before
  plan.job.swap.clip = config::clip_way::automatic;
  plan.job.swap.dir = {"/proc/none"};  // which has room for nothing
  CHECK_FALSE(has_room_for_versions(plan.job, by_itself));
}

TEST_CASE("ENG-11: a replica alone on its machine looks for room for two versions, not for any") {
  scratch dir;
  auto plan = plan_of_four(int64_t{1} << 40);
  plan.job.swap.dir = {dir / "swap"};
  plan.job.swap.host_bytes = floor_of(plan);
  plan.job.cluster.launch = config::launch_mode::external;
  plan.job.checkpoint.dir = plan.job.job.output = "/dev/shm/none";  // another drive's matter
  plan.job.checkpoint.export_model = false;
  const auto threads = threads_here(plan.job.cluster);
  auto o = planned_options(plan, plan.ranks.front(), threads);
  o.swap_dirs = swap_dirs_of(plan.job, 0);
  CHECK(has_room_for_versions(plan.job, o));
  o.model.vocab = int64_t{1} << 41;  // petabytes
  CHECK_FALSE(has_room_for_versions(plan.job, o));
}

TEST_CASE(
    "ENG-11: a rank alone knows the room of each of its drives, and weights may have no files") {
  scratch dir;
  auto plan = plan_of_four(int64_t{1} << 40);
  plan.job.swap.dir = {dir / "a", dir / "b"};
  plan.job.train.batch = 1;  // a micro-batch
  plan.job.parallel.data = 1;
  plan.job.cluster.node.resize(1);
  const auto alone = make_plan(plan.job);
  REQUIRE(alone);
  plan = *alone;
  plan.job.swap.host_bytes = int64_t{1} << 40;
  plan.job.swap.host_bytes = floor_of(plan);
  auto o = planned_options(plan, plan.ranks.front(), threads_here(plan.job.cluster));
  REQUIRE(settle_swap(o, plan.job));
  CHECK(o.shape.where.speculates);
  CHECK_FALSE(o.shape.where.derives_weights);
}

TEST_CASE("replicas of a stage agree on the least memory that one of them is left") {
  auto plan = plan_of_four(1);
  CHECK(agrees_on_bytes(plan.job));
  CHECK(agreed_bytes(plan, {7, 5, 9, 6}) == std::vector<uint64_t>{5, 5, 5, 5});
  const auto grid = rank_grid(2, 1, 2);
  for (int rank = 0; rank < 4; ++rank) plan.ranks.at(static_cast<size_t>(rank)).at = {grid, rank};
  std::vector<uint64_t> expected;
  for (const auto& r : plan.ranks) expected.push_back(r.at.place().pipeline == 0 ? 1 : 3);
  std::vector<uint64_t> left;
  for (const auto& r : plan.ranks)
    left.push_back(expected[left.size()] + (r.at.place().data == 0 ? 0 : 1));
  CHECK(agreed_bytes(plan, left) == expected);
  plan.job.parallel.data = 1;
  CHECK_FALSE(agrees_on_bytes(plan.job));
  plan.job.parallel.data = 2;
  plan.job.swap.dir.clear();
  CHECK_FALSE(agrees_on_bytes(plan.job));
}

TEST_CASE(
    "ranks take a checkpoint's files together, where their drive has no room for all of theirs") {
  CHECK_FALSE(must_consume({{5, 5}}));
  CHECK(must_consume({{5, 4}}));
  CHECK(must_consume({{5, 9}, {5, 9}}));  // either would fit
  CHECK_FALSE(must_consume({{5, 10}, {5, 10}}));
  CHECK_FALSE(must_consume({{5, 9}, {0, 0}}));   // the other one is on another drive
  CHECK_FALSE(must_consume({{5, 10}, {5, 8}}));  // one has given more back than it needs
  CHECK_FALSE(must_consume({{0, 0}, {0, 0}}));
  auto job = plan_of_four(1).job;
  CHECK(asks_ranks_first(job));  // for their memory
  job.parallel.data = 1;
  CHECK_FALSE(asks_ranks_first(job));
  job.swap.consume = true;
  CHECK(asks_ranks_first(job));
}

TEST_CASE("a rank that is all in memory asks nothing of a swap folder that is memory") {
  if (!std::filesystem::exists("/dev/shm")) return;
  auto plan = plan_of_four(int64_t{1} << 40);
  plan.job.swap.consume = true;
  plan.job.swap.dir = {"/dev/shm/swap"};
  plan.job.checkpoint.dir = "/dev/shm/checkpoints";
  const auto share = [&] {
    return drive_share_of(plan.job, settled_options(plan, plan.ranks.front(), 1));
  };
  REQUIRE(share());
  CHECK(share()->file_bytes == 0);
  plan.job.swap.host_bytes = floor_of(plan);
  REQUIRE_FALSE(share());
  CHECK(share().error().is(swap_is_memory));
}

TEST_CASE("what a rank's last process has left is room for its files, in whatever folder it is") {
  scratch dir;
  auto plan = plan_of_four(1);
  plan.job.swap.host_bytes = floor_of(plan);
  plan.job.swap.consume = true;
  plan.job.swap.dir = {(dir / "swap-{rank}").string()};
  plan.job.checkpoint.dir = (dir / "checkpoints").string();
  const auto share = [&](size_t rank) {
    const auto said = drive_share_of(plan.job, settled_options(plan, plan.ranks.at(rank), 1));
    REQUIRE_MESSAGE(said, (said ? "" : render(said.error())));
    return said->file_bytes;
  };
  const auto leave = [&](size_t rank, const std::string& job, uint64_t bytes) {
    const auto at = swap_dirs_of(plan.job, static_cast<int>(rank)).front() /
                    fmt::format("{}-rank-{:05}", job, rank);
    std::filesystem::create_directories(at.parent_path());
    REQUIRE(io::make_owned(at, {io::folder_kind::scratch, job, {}}));
    std::filesystem::create_directories(at / "files");
    std::ofstream(at / "files/chunk").put('x');
    std::filesystem::resize_file(at / "files/chunk", bytes);
  };
  const auto& job = plan.job.job.name;
  const auto first = share(0), second = share(1), third = share(2);
  REQUIRE(first > 1);
  REQUIRE(second > 1);
  leave(0, job, first - 1);
  leave(1, job, second + 1);
  leave(2, job + "-of-another", 5);
  CHECK(share(0) == 1);
  CHECK(share(1) == 0);
  CHECK(share(2) == third);
}

TEST_CASE("a step that waits for room on a drive is not given up before its patience has ended") {
  auto job = plan_of_four(1).job;
  job.swap.patience_s = 90;
  const call_timeouts with(job);
  job.swap.dir.clear();
  const call_timeouts without(job);
  const auto more = [&](const char* service, auto type) {
    const auto* call = find_call(service, type);
    REQUIRE(call != nullptr);
    return with.of(*call) - without.of(*call);
  };
  CHECK(more("Stage", message_traits<fbs::RunStep>::id) == std::chrono::seconds(90));
  CHECK(more("Worker", message_traits<fbs::FinishStep>::id) == std::chrono::seconds(90));
  CHECK(more("Worker", message_traits<fbs::SaveCheckpoint>::id) == std::chrono::seconds(90));
  CHECK(more("Worker", message_traits<fbs::LoadCheckpoint>::id) == std::chrono::seconds(0));
  auto plan = plan_of_four(int64_t{1} << 40);
  plan.job.swap.patience_s = 90;
  const auto rank = settled_options(plan, plan.ranks.front(), threads_here(plan.job.cluster));
  CHECK(rank.group_timeout == defaults::group_timeout + std::chrono::seconds(90));
}

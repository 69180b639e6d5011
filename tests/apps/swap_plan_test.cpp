// What `troupe plan` says of a job that swaps, or would have to: why it clips as it does, what it
// can lose, how long its drive lasts.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/train/machine.hpp"
#include "actors/train/swap_forecast.hpp"
#include "actors/train/swap_ranks.hpp"
#include "apps/swap/drives.hpp"
#include "apps/swap/rates.hpp"
#include "apps/swap/to_fit.hpp"
#include "tests/apps/ended.hpp"
#include "tests/apps/plan_of_text.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using nlohmann::json;

namespace {

constexpr auto swapping_text =
    "[model]\nlayers = 12\nheads = 4\nhidden = 256\nvocab = 1000\n[data]\npath = \"text.txt\"\n"
    "[train]\nsteps = 4\nbatch = 1\nmicro_batch = 1\nseq_len = 64\n"
    "[checkpoint]\nring_bytes = 16777216\n[cluster]\nthreads = 1\ndevice = \"host\"\n";

/// A variable of the environment as long as this lives.
class environment {
 public:
  environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  environment(const environment&) = delete;
  ~environment() {
    if (before_.empty())
      ::unsetenv(name_);
    else
      ::setenv(name_, before_.c_str(), 1);
  }

 private:
  const char* name_;
  std::string before_;
};

train::job_plan plan_of(const std::vector<std::string>& sets) {
  return plan_of_text(swapping_text, sets);
}

std::string floor_setting(const std::string& dir) {
  auto plan = plan_of({"swap.dir=" + dir});
  plan.job.swap.host_bytes = 1;
  return fmt::format("swap.host_bytes={}", train::swap_floor_bytes(plan, 1));
}

}  // namespace

TEST_CASE("swap: plan says why steps are clipped as they are") {
  using enum gpu::update_order;
  config::job job;
  job.train.clip_norm = 1;
  const auto why = [&](gpu::update_order order) { return apps::swap::clip_reason(order, job); };
  CHECK(why(under_backward) == "train.clip_norm is 0");
  const auto in_memory = why(behind_backward), second = why(speculate), neither = why(twice);
  CHECK(in_memory != second);
  CHECK(second != neither);
  job.swap.clip = config::clip_way::twice;
  CHECK(why(twice) == "swap.clip");
  CHECK(why(behind_backward) == in_memory);  // which asks for less than was allowed
  job.swap.clip = config::clip_way::hold;
  CHECK(why(behind_backward) == "swap.clip");
  job.swap.clip = config::clip_way::speculate;
  CHECK(why(speculate) == "swap.clip");
  CHECK(why(twice) == neither);  // no room for what was asked
  job.parallel.data = 2;
  CHECK(why(behind_backward) == in_memory);  // replicas sum chunk by chunk
  CHECK(why(speculate) == "swap.clip");
  CHECK(why(twice) == neither);
  job.swap.clip = config::clip_way::automatic;
  CHECK(why(speculate) == second);
  job.swap.clip = config::clip_way::hold;
  CHECK(why(behind_backward) == "swap.clip");
  const std::string_view first = "stages share a norm";
  job.train.optimizer = config::optimizer_kind::lamb;
  CHECK(why(behind_backward) == "swap.clip");  // they share norms chunk by chunk, too
  job.train.optimizer = config::optimizer_kind::adamw;
  job.parallel = {};
  job.parallel.pipeline = 2;
  CHECK(why(behind_backward) == first);
  CHECK(apps::swap::clip_reason(behind_backward, job, true) == first);
  job.parallel = {};
  job.swap.clip = config::clip_way::automatic;
  CHECK(apps::swap::clip_reason(behind_backward, job, true) != in_memory);
}

TEST_CASE("swap: plan says that weights have no files, and why") {
  train::swap_forecast f;
  config::job job;
  const auto says = [&] {
    return apps::swap::forecast_text(f, job).find("weights are rounded") != std::string::npos;
  };
  CHECK(apps::swap::weights_text(f).empty());  // float32
  CHECK(apps::swap::weights_reason(f, job).empty());
  CHECK_FALSE(says());
  f.weights = gpu::weights_choice::stored;
  CHECK(apps::swap::weights_text(f) == "stored");
  CHECK_FALSE(says());
  const auto usual = apps::swap::weights_reason(f, job);
  f.weights = gpu::weights_choice::derived;
  CHECK(apps::swap::weights_text(f) == "derived");
  CHECK(says());
  const auto room = apps::swap::weights_reason(f, job);
  CHECK(room != usual);
  f.order = gpu::update_order::speculate;
  CHECK(apps::swap::weights_reason(f, job) != room);
  job.swap.weights = config::weights_choice::derived;
  CHECK(apps::swap::weights_reason(f, job) == "swap.weights");
}

TEST_CASE("swap: plan says which gradients are on the drive between micro-batches") {
  using enum gpu::update_order;
  train::swap_forecast f;
  const auto says = [&](std::string_view what) {
    return apps::swap::forecast_text(f, {}).find(what) != std::string::npos;
  };
  CHECK(apps::swap::clip_text(f) == "hold");
  CHECK_FALSE(says("no room for all gradients"));
  f.gradients_on_disk = true;
  CHECK(apps::swap::clip_text(f) == "hold, on the drive");
  CHECK(says("clipping: hold, on the drive ("));
  CHECK(says("memory has no room for all gradients"));
  f.order = under_backward;
  CHECK(apps::swap::clip_text(f) == "none");
  CHECK(says("memory has no room for all gradients"));
}

TEST_CASE("swap: a pipeline's stages need no memory for all of their gradients") {
  const auto staged = [](std::vector<std::string> sets) {
    sets.insert(sets.end(),
                {"swap.dir=/swap", "train.batch=4", "parallel.pipeline=2", "cluster.nodes=2"});
    return plan_of(sets);
  };
  const auto floor_of = [](train::job_plan plan) {
    plan.job.swap.host_bytes = 1;
    return train::swap_floor_bytes(plan, 1);
  };
  const auto few = floor_of(staged({"model.layers=40"}));
  auto plan = staged({"model.layers=80"});
  const auto many = floor_of(plan);
  plan.job.swap.host_bytes = static_cast<int64_t>(many);
  const auto forecast = train::forecast_swap(plan);
  REQUIRE(forecast);
  CHECK(forecast->gradients_on_disk);
  CHECK(forecast->order == gpu::update_order::behind_backward);
  // Inputs of the 20 layers more that each has take some, their gradients none.
  const auto layer = static_cast<uint64_t>(plan.model.parameters()) / 80 * sizeof(float);
  CHECK(many - few < 20 * layer);
}

TEST_CASE("swap: what a drive is rated for lasts so many steps") {
  train::swap_forecast f;
  f.traffic.backward.written_bytes = 2'000'000'000;
  config::job job;
  CHECK_FALSE(apps::swap::rated_steps(f, job.swap));
  job.swap.rated_tbw = 600;
  CHECK(apps::swap::rated_steps(f, job.swap) == 300'000);
  CHECK(apps::swap::forecast_text(f, job).find("swap.rated_tbw = 600 last 300000 steps") !=
        std::string::npos);
  f.traffic = {};
  CHECK_FALSE(apps::swap::rated_steps(f, job.swap));  // nothing is written
}

TEST_CASE("swap: plan says that without a checkpoint before the last a kill costs the run") {
  scratch dir;
  const auto sets = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"swap.dir=" + (dir / "swap").string(), floor_setting("/swap"),
                             "job.output=" + (dir / "run").string()});
    return more;
  };
  const auto alone = apps::swap::earlier_checkpoint_of(plan_of(sets({})));
  REQUIRE(alone);
  const auto plan = plan_of(sets({}));
  const auto needs = train::swap_needs_of(plan);
  CHECK(needs.beside.export_bytes == static_cast<uint64_t>(plan.model.parameters()) * 4);
  // The files, what the first checkpoint keeps of them, and the model at the end.
  CHECK(alone->needed_bytes > needs.bytes() + needs.beside.bytes + needs.beside.export_bytes);
  config::job job;
  CHECK(apps::swap::drives_text(job, {}, alone).find("a kill costs the run") != std::string::npos);
  CHECK(apps::swap::drives_text(job, {}, std::nullopt).empty());
  CHECK_FALSE(apps::swap::earlier_checkpoint_of(plan_of(sets({"checkpoint.every=2"}))));
  CHECK(apps::swap::earlier_checkpoint_of(plan_of(sets({"checkpoint.every=4"}))));
  CHECK_FALSE(apps::swap::earlier_checkpoint_of(plan_of(sets({"train.steps=1"}))));
}

TEST_CASE("swap: plan --json has each number that its text has") {
  scratch dir;
  std::ofstream(dir / "text.txt") << std::string(4096, 'a');
  std::ofstream(dir / "job.toml") << swapping_text;
  const auto done = run_in(dir.path, "XDG_CACHE_HOME=cache " TROUPE_PROGRAM
                                     " plan job.toml --json --no-measure --set swap.dir=swap --set "
                                     "swap.rated_tbw=600 --set " +
                                         floor_setting("/swap"));
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto told = json::parse(done.out).at("swap");
  CHECK(told.at("overhead_bytes") > 0);
  CHECK(told.at("overhead_bytes") < told.at("floor_bytes"));
  CHECK(told.at("gathered_bytes_per_step") == 0);
  CHECK_FALSE(told.at("clip_why").get<std::string>().empty());
  CHECK(told.at("least_read_bytes_per_step") <= told.at("read_bytes_per_step"));
  CHECK(told.at("least_written_bytes_per_step") <= told.at("written_bytes_per_step"));
  CHECK(told.at("wear").at("steps").get<double>() ==
        doctest::Approx(600e12 / told.at("written_bytes_per_step").get<double>()));
  CHECK(told.at("export_bytes_beside") > 0);
  CHECK(told.at("drive_remarks").is_array());
  CHECK(told.at("earlier_checkpoint").at("needed_bytes") > told.at("disk_bytes"));
}

TEST_CASE("swap: of a job that does not fit, plan says how it would by swapping") {
  scratch dir;
  std::ofstream(dir / "text.txt") << std::string(4096, 'a');
  std::ofstream(dir / "job.toml") << swapping_text;
  const auto done = run_in(dir.path, "XDG_CACHE_HOME=cache " TROUPE_PROGRAM
                                     " plan job.toml --json --memory 220MiB --set model.layers=40");
  CHECK(done.code == 78);
  const auto told = json::parse(done.out).at("swap_to_fit");
  REQUIRE(told.at("settings").size() == 2);
  for (const std::string setting : told.at("settings"))
    CHECK(done.talk.find("--set " + setting) != std::string::npos);
  CHECK(told.at("floor_bytes") <= told.at("host_bytes"));
  CHECK(told.at("disk_bytes") > 0);
  CHECK(told.at("has_room") == true);
  CHECK_FALSE(told.contains("expected_s"));  // whose memory that is nobody can measure
}

TEST_CASE("swap: where rates can be measured, what does not fit is told how long its steps take") {
  scratch dir;
  const environment cache("XDG_CACHE_HOME", (dir / "cache").string());
  const auto plan = plan_of({"model.layers=40", "job.output=" + (dir / "run").string()});
  constexpr uint64_t has = uint64_t{260} << 20;
  const auto unmeasured = apps::swap::time_swapping_to_fit(plan, has, false);
  REQUIRE(unmeasured);
  CHECK_FALSE(unmeasured->expected_s);
  const auto timed = apps::swap::time_swapping_to_fit(plan, has, true);
  REQUIRE(timed);
  REQUIRE(timed->expected_s);
  CHECK(*timed->limit_s > 0);
  CHECK(*timed->expected_s >= *timed->limit_s * (1 - 1e-9));
  CHECK(apps::swap::timed_text(*timed).find("s expected") != std::string::npos);
  CHECK(apps::swap::timed_json(*timed).at("expected_s") == *timed->expected_s);
  CHECK_FALSE(apps::swap::time_swapping_to_fit(plan, 0, true));
  CHECK_FALSE(apps::swap::time_swapping_to_fit(plan, uint64_t{64} << 20, true));  // no floor
}

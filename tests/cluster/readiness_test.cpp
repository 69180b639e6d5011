// `troupe config check` and `troupe up` on drawn configurations, by the real program: they end with
// the same number, and what is refused has left nothing behind.
#include <sys/stat.h>

#include <cstdlib>

#include <fmt/ranges.h>

#include "io/config/load.hpp"
#include "tests/apps/runtime_folder.hpp"
#include "tests/cluster/job_files.hpp"
#include "tests/io/config_mutations.hpp"

using namespace troupe::cluster_test;
using troupe::config_mutations;

namespace {

/// Keys whose values decide how long a run takes, or how patient it is, not whether it may start:
/// on a slow machine one of no patience ends, and its check knows nothing of that.
const std::vector<std::string> left_alone{"cluster.launch",
                                          "cluster.heartbeat",
                                          "cluster.suspect",
                                          "cluster.dead",
                                          "cluster.join",
                                          "cluster.port",
                                          "train.steps",
                                          "train.sample",
                                          "train.validate",
                                          "checkpoint.second.wait",
                                          "checkpoint.second.bytes_per_second",
                                          "timeouts.",
                                          "recovery.quiet_ms",
                                          "recovery.wait_s",
                                          "recovery.return_s",
                                          "recovery.most_per_hour",
                                          "recovery.stuck_after_s",
                                          "recovery.head_",
                                          "health.stuck_after_s",
                                          "log.",
                                          "cluster.advertise",
                                          "model.init_std",
                                          "model.rope_theta",
                                          "model.norm_eps",
                                          "train.lr",
                                          "train.eps",
                                          "train.weight_decay",
                                          "power.budget_w",  // what cannot be kept is waited for
                                          "power.ramp_w_s",
                                          "power.parent"};

/// Whether a step of it takes no time worth mentioning, nor what it holds much memory: positions
/// have weights, or tables, for as many as there may be.
bool is_quick(const troupe::config::job& job) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double hidden = real(std::max<int64_t>(1, job.model.hidden));
  const double widths =
      hidden * (real(4 * job.model.hidden + job.model.ffn) * real(job.model.layers) +
                real(job.model.vocab + 256));
  return widths * real(job.tokens_per_step()) < 1e9 && hidden * real(job.model.max_seq_len) < 1e7 &&
         job.workers() <= 4 && job.cluster.threads <= 4;
}

}  // namespace

TEST_CASE("readiness: config check and up end with the same number on drawn configurations") {
  const char* wanted = std::getenv("TROUPE_CONFIGS_UP");
  const uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 40;
  int started = 0, refused = 0;
  for (uint64_t seed = 1; static_cast<uint64_t>(started + refused) < count; ++seed) {
    const troupe::scratch here;
    troupe::make_mutation_files(here.path);
    const auto before = fs::current_path();
    fs::current_path(here.path);
    std::ofstream("job.toml") << config_mutations::base();
    const auto sets = config_mutations(1'000'000 + seed).draw(left_alone);
    CAPTURE(fmt::format("--set {}", fmt::join(sets, " --set ")));
    const auto read = troupe::config::read({"job.toml", {}, sets});
    std::vector<std::string> check{"config", "check", "job.toml"}, up{"up", "job.toml"};
    for (auto* words : {&check, &up})
      for (const auto& set : sets) words->insert(words->end(), {"--set", set});
    if (!read.problems.empty() || is_quick(read.config.value)) {
      const auto checked = run(check);
      CHECK_FALSE(fs::exists("run"));
      const auto done = run(up);
      INFO(checked.err);
      INFO(done.err);
      CHECK(done.code == checked.code);
      if (checked.code != 0) CHECK_FALSE(fs::exists("run"));
      ++(checked.code == 0 ? started : refused);
    }
    fs::current_path(before);
  }
  MESSAGE(fmt::format("{} started, {} were refused", started, refused));
  CHECK(started > 0);
  CHECK(refused > 0);
}

TEST_CASE("readiness: a runtime folder of another session is no obstacle, one open to others is") {
  const job_files job;
  auto check = job.up({"train.steps=2"});
  check.front() = "check";
  check.insert(check.begin(), "config");
  const auto both = [&](int code) {
    const auto checked = run(check), done = run(job.up({"train.steps=2"}));
    INFO(checked.err);
    INFO(done.err);
    CHECK(checked.code == code);
    CHECK(done.code == code);
    return checked.err;
  };
  const troupe::runtime_folder set(job / "runtime");
  REQUIRE(mkdir((job / "runtime").c_str(), 0700) == 0);
  REQUIRE(mkdir((job / "runtime/troupe").c_str(), 0700) == 0);
  REQUIRE(chmod((job / "runtime/troupe").c_str(), 0777) == 0);
  CHECK(both(77).find("nobody else may write") != std::string::npos);
  CHECK_FALSE(fs::exists(job / "run"));
  fs::remove_all(job / "runtime");  // as after a logout
  both(0);
}

// Whether what a job would write over is its own: findings without a start.
#include "apps/up/folders.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/config/job.hpp"
#include "io/perf/part_times.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;

namespace {

/// Whether a job that names this file is refused for it.
bool is_store_refused(const scratch& in, const std::filesystem::path& store, bool enabled = true) {
  config::job job;
  job.job.output = (in / "run").string();
  job.predict.store = store.string();
  job.predict.enabled = enabled;
  const auto found = apps::check_folders(job);
  const auto it = std::ranges::find(found, "predict.store", &apps::folder_finding::key);
  if (it == found.end()) return false;
  CHECK(it->why.code == errc::bad_config);
  CHECK(it->why.message.find(store.string()) != std::string::npos);
  return true;
}

}  // namespace

TEST_CASE("FLD-1: a file of a person's own is not taken for kept times") {
  const scratch dir;
  put_file(dir / "run.toml", "[job]\nname = \"t\"\n");
  put_file(dir / "one.json", "{\"mine\": true}\n");
  const auto before = tree_of(dir.path);
  CHECK(is_store_refused(dir, dir / "run.toml"));
  CHECK(is_store_refused(dir, dir / "one.json"));
  CHECK(is_store_refused(dir, dir.path));
  CHECK_FALSE(is_store_refused(dir, dir / "run.toml", false));
  CHECK_FALSE(is_store_refused(dir, dir / "new.jsonl"));
  CHECK(tree_of(dir.path) == before);
  const std::vector<io::perf::part_time> times{{"step", "", {1, 2}, 0.5, 1}};
  REQUIRE(io::perf::add_part_times(dir / "times.jsonl", times));
  CHECK_FALSE(is_store_refused(dir, dir / "times.jsonl"));
}

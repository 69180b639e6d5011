// Whether what a job would write over is its own: findings without a start.
#include "apps/up/folders.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/predict/fit.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "io/config/job.hpp"
#include "io/perf/model_file.hpp"
#include "io/perf/part_times.hpp"
#include "tests/errors.hpp"
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

/// The mean of a score, of machines with one number.
io::perf::ModelT model_with_column(const std::string& name, const std::string& group,
                                   const std::string& unit) {
  io::perf::perf_table t{
      "fleet", {{name, group, unit, io::perf::feature_kind::log_number}}, {"score"}, {}};
  for (int i = 0; i < 20; ++i) {
    io::perf::perf_row r;
    r.id = "r" + std::to_string(10 + i);
    r.numbers = {2.0 + i};
    r.words = {""};
    r.labels = {100.0 + i};
    t.rows.push_back(std::move(r));
  }
  gpu::predict::row_list rows;
  for (const auto& r : t.rows) rows.push_back(&r);
  gpu::predict::fit_options options;
  options.kind = "trunk";
  auto model = gpu::predict::fit_predictor(t, rows, {}, options);
  REQUIRE_MESSAGE(model, (model ? "" : render(model.error())));
  return std::move(*model);
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

TEST_CASE("predict.prior: what is no model, or none of machines, is a finding of its key") {
  const scratch dir;
  const auto finding_of = [&](const std::string& file) -> std::optional<error> {
    config::job job;
    job.job.output = (dir / "run").string();
    job.predict.prior = file.empty() ? "" : (dir / file).string();
    const auto found = apps::check_folders(job);
    const auto it = std::ranges::find(found, "predict.prior", &apps::folder_finding::key);
    if (it == found.end()) return std::nullopt;
    CHECK(it->why.code == errc::bad_config);
    CHECK_FALSE(it->why.hint.empty());
    return it->why;
  };
  CHECK_FALSE(finding_of(""));
  CHECK(finding_of("none.tpm"));
  put_file(dir / "damaged.tpm", "TRPRED\r\n and so on");
  const auto damaged = finding_of("damaged.tpm");
  REQUIRE(damaged);
  CHECK(damaged->message.find("damaged.tpm") != std::string::npos);
  put_file(dir / "fleet.tpm", io::perf::encode(model_with_column("cpus", "cpu", "1")));
  CHECK_FALSE(finding_of("fleet.tpm"));
  put_file(dir / "other.tpm", io::perf::encode(model_with_column("gears", "cpu", "1")));
  const auto other = finding_of("other.tpm");
  REQUIRE(other);
  CHECK(is_error(*other, gpu::predict::no_speed_prior, "other.tpm", "gears in 1"));
}

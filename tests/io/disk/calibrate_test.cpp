// Calibration: measured within its budget, nothing left behind, kept results trusted only if they
// can be right.
#include "io/disk/calibrate.hpp"

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "tests/io/disk/backends.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

namespace fs = std::filesystem;

calibrate_options quick(const fs::path& cache) {
  calibrate_options options;
  options.chunk_and_depth = {{disk_block, 2}, {16 * disk_block, 2}, {size_t{1} << 20, 2}};
  options.budget_bytes = 1 << 20;  // a share a try: the last one is too large for its own
  options.store.folder = cache;
  return options;
}

fs::path only_file(const fs::path& folder) {
  fs::path found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    REQUIRE(found.empty());
    found = entry.path();
  }
  REQUIRE_FALSE(found.empty());
  return found;
}

}  // namespace

TEST_CASE("CA-2 a disk is measured within the budget and nothing stays behind") {
  scratch dir;
  REQUIRE(fs::create_directory(dir / "here"));
  for (auto backend : {disk_backend::automatic, disk_backend::threads}) {
    auto options = quick(dir / "cache");
    options.backend = backend;
    auto found = measure_disk(dir / "here", options);
    REQUIRE(found);
    CHECK(found->tried.size() == 2);
    for (const auto& r : found->tried) {
      CHECK(r.write_bytes_s > 0);
      CHECK(r.read_bytes_s > 0);
      CHECK(r.duplex >= 0);
      CHECK(r.duplex <= 1);
      CHECK(found->best.write_bytes_s >= 0.95 * r.write_bytes_s);
    }
    CHECK(fs::is_empty(dir / "here"));
  }
  auto options = quick(dir / "cache");
  options.budget_bytes = 100;
  CHECK(measure_disk(dir / "here", options).error().code == errc::bad_config);
  CHECK(measure_disk(dir / "none", options).error().code == errc::not_found);
}

TEST_CASE("CA-1 a result is kept, and used only if it can be right") {
  scratch dir;
  auto options = quick(dir / "cache");
  CHECK_FALSE(kept_calibration(dir.path, options));
  auto first = calibrate(dir.path, options);
  REQUIRE(first);
  auto again = calibrate(dir.path, options);
  REQUIRE(again);
  CHECK(again->tried.empty());  // not measured
  CHECK(again->best.chunk_bytes == first->best.chunk_bytes);
  CHECK(again->best.depth == first->best.depth);
  CHECK(again->best.write_bytes_s == first->best.write_bytes_s);
  CHECK(again->device == first->device);

  auto file = only_file(dir / "cache");
  auto good = nlohmann::json::parse(*read_file(file, 1 << 16));
  const std::vector<std::pair<std::string, nlohmann::json>> wrong = {
      {"device", "9:9 ef53 1"}, {"chunk_bytes", 0},   {"chunk_bytes", 1000},
      {"chunk_bytes", -4096},   {"depth", 0},         {"depth", 1e9},
      {"depth", nullptr},       {"write_bytes_s", 0}, {"read_bytes_s", 1e300},
      {"duplex", nullptr},      {"duplex", 1.5},      {"duplex", -0.1},
  };
  for (const auto& [key, value] : wrong) {
    CAPTURE(key);
    CAPTURE(value.dump());
    auto bad = good;
    bad["value"][key] = value;
    REQUIRE(write_atomic(file, bad.dump()));
    CHECK_FALSE(kept_calibration(dir.path, options));
  }
  REQUIRE(write_atomic(file, good.dump()));
  CHECK(kept_calibration(dir.path, options));
  REQUIRE(write_atomic(file, "{"));
  auto measured = calibrate(dir.path, options);  // what cannot be right is measured anew
  REQUIRE(measured);
  CHECK_FALSE(measured->tried.empty());
  CHECK(kept_calibration(dir.path, options));
}

TEST_CASE(
    "results are kept under XDG_CACHE_HOME, or measured each time where nothing can be kept") {
  scratch dir;
  const char* before = std::getenv("XDG_CACHE_HOME");
  std::string saved = before != nullptr ? before : "";
  auto options = quick({});
  ::setenv("XDG_CACHE_HOME", (dir / "xdg").c_str(), 1);
  auto first = calibrate(dir.path, options);
  auto again = calibrate(dir.path, options);
  REQUIRE(write_atomic(dir / "plain", "a file"));
  ::setenv("XDG_CACHE_HOME", (dir / "plain").c_str(), 1);
  auto nowhere = calibrate(dir.path, options);
  if (before != nullptr)
    ::setenv("XDG_CACHE_HOME", saved.c_str(), 1);
  else
    ::unsetenv("XDG_CACHE_HOME");
  REQUIRE(first);
  REQUIRE(again);
  REQUIRE(nowhere);
  CHECK_FALSE(first->tried.empty());
  CHECK(again->tried.empty());
  CHECK_FALSE(nowhere->tried.empty());
  CHECK(only_file(dir / "xdg" / "troupe").extension() == ".json");
}

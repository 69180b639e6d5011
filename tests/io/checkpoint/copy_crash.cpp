// A copy into a second tier with the power cut at every moment: the tier holds what was copied
// before, or the newer copy, byte for byte; and without any single one of its syncs it does not.
#include "io/checkpoint/copy.hpp"

#include <doctest/doctest.h>

#include "io/disk/faulty_disk.hpp"
#include "tests/io/checkpoint/copying.hpp"
#include "tests/io/checkpoint/cut_removal.hpp"
#include "tests/io/disk/crash_images.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

const std::filesystem::path tier = "/second";

/// The sources: steps 1 and 2, and step 2 again by the next epoch.
struct sources {
  scratch where;
  std::vector<std::shared_ptr<sample::memory_source>> list;
  sources() {
    for (const auto& [name, step, epoch] :
         {std::tuple{"a", 1, 1}, std::tuple{"b", 2, 1}, std::tuple{"c", 2, 2}})
      list.push_back(std::make_shared<sample::memory_source>(sample::make(
          where / name, {1, 2, static_cast<uint64_t>(step), static_cast<uint64_t>(epoch),
                         static_cast<uint64_t>(epoch), std::nullopt})));
  }
};

std::shared_ptr<crash_store> three_copies(const sources& from, std::optional<size_t> without = {}) {
  auto store = crash_store::make();
  faulty_disk d(store, {});
  REQUIRE(d.make_dir(tier));
  REQUIRE(d.sync_dir("/"));
  if (without) store->ignore_sync(*without);
  for (size_t i = 0; i < from.list.size(); ++i) {
    REQUIRE(sample::copy_by(d, from.list[i], tier));
    store->mark(fmt::format("{}", i + 1));
  }
  return store;
}

/// Which copy a restart finds, 1 to 3 (0: none); nothing where it is no whole one.
std::optional<size_t> found_in(const sources& from, faulty_disk& d) {
  auto entries = d.list(tier);
  if (!entries) return 0;
  uint64_t newest = 0;
  for (const auto& e : *entries)
    if (const auto name = parse_folder_name(e.name); name && name->state == folder_state::complete)
      newest = std::max(newest, name->step);
  if (newest == 0) return 0;
  for (size_t i = from.list.size(); i-- > 0;) {
    const auto& files = from.list[i]->files;
    const bool same = std::all_of(files.begin(), files.end(), [&](const auto& file) {
      auto text = d.read_small(tier / complete_name(newest) / file.first, 1 << 20);
      return text && std::ranges::equal(as_bytes(*text), file.second);
    });
    if (same) return i + 1;
  }
  return std::nullopt;
}

struct copy_verdict {
  size_t images = 0, wrong = 0;
  std::string first;
};

copy_verdict cut_everywhere(const sources& from, const std::shared_ptr<crash_store>& store,
                            size_t samples) {
  copy_verdict v;
  image_limits limits;
  limits.enumerate = 4;
  limits.samples = samples;
  for (size_t point = 0; point <= store->points(); ++point) {
    const auto marks = store->marks_before(point);
    const size_t promised = marks.empty() ? 0 : std::stoull(marks.back());
    auto images = crash_images(store, point, limits);
    while (auto image = images.next()) {
      ++v.images;
      faulty_disk d(image, {});
      const auto found = found_in(from, d);
      const bool stray = leaves_a_stray(d, tier);  // which no copy would be made into again
      if (found && *found >= promised && !stray) continue;
      if (v.wrong++ == 0)
        v.first = fmt::format("before \"{}\", kept: {}", store->text(point), images.kept());
    }
  }
  return v;
}

}  // namespace

TEST_CASE(
    "copy: a power cut at any moment leaves the newest copy that was told of or a newer one") {
  const sources from;
  const auto store = three_copies(from);
  const auto v = cut_everywhere(from, store, 32);
  INFO(v.first);
  CHECK(v.wrong == 0);
  CHECK(v.images > 1000);
  MESSAGE(v.images << " images of " << store->points() << " points, " << store->syncs()
                   << " syncs");
}

TEST_CASE("copy: without any one of its syncs some power cut loses what was told of") {
  const sources from;
  const auto syncs = three_copies(from)->syncs();
  for (size_t n = 2; n <= syncs; ++n) {  // the first is of the test's own folder
    const auto v = cut_everywhere(from, three_copies(from, n), 16);
    CAPTURE(n);
    CAPTURE(v.images);
    CHECK(v.wrong > 0);
  }
}

// A save of several ranks with the power cut at every moment: what is restored is the newest
// acknowledged checkpoint, or a newer complete one, byte for byte. And without any single one of
// its syncs it is not: then some cut loses what was acknowledged, or leaves a folder of which
// nobody knows any more whose it is, so every sync is needed.
#include "io/checkpoint/save.hpp"

#include <doctest/doctest.h>

#include "io/checkpoint/reader.hpp"
#include "io/file.hpp"
#include "tests/io/checkpoint/crash_saves.hpp"
#include "tests/io/checkpoint/cut_removal.hpp"
#include "tests/io/disk/crash_images.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

/// Two checkpoints; then, in another epoch, the second one again.
std::shared_ptr<crash_store> three_saves(std::optional<size_t> without = {}) {
  auto store = crash_store::make();
  {
    faulty_disk d(store, {});
    REQUIRE(d.make_dir(dir));
    REQUIRE(d.sync_dir("/"));
  }
  if (without) store->ignore_sync(*without);
  save(store, 1, 1);
  save(store, 2, 1);
  save(store, 2, 2);
  return store;
}

/// What a restart restores: the newest step, epoch 0 where its bytes are not those of that step.
std::pair<uint64_t, uint64_t> restored(faulty_disk& d) {
  auto entries = d.list(dir);
  if (!entries) return {0, 1};
  uint64_t newest = 0;
  for (const auto& e : *entries)
    if (const auto name = parse_folder_name(e.name); name && name->state == folder_state::complete)
      newest = std::max(newest, name->step);
  if (newest == 0) return {0, 1};
  auto r = reader::open(d, dir / complete_name(newest));
  if (!r) return {newest, 0};
  auto whole = r->verify();
  if (!whole || !whole->damages.empty()) return {newest, 0};
  for (uint32_t stage = 0; stage < 2; ++stage) {
    auto bytes = r->read_tensor(fmt::format("h.{}.weight", stage), part::exp_avg);
    if (!bytes) return {newest, 0};
    for (uint64_t b = 0; b < bytes->size(); ++b)
      if ((*bytes)[b] != content_of(newest, stage, part::exp_avg, b)) return {newest, 0};
  }
  return {newest, r->content().head.epoch};
}

std::pair<uint64_t, uint64_t> last_promise(const std::vector<std::string>& marks) {
  if (marks.empty()) return {0, 1};
  const auto& text = marks.back();
  return {std::stoull(text), std::stoull(text.substr(text.find(' ')))};
}

struct save_verdict {
  size_t images = 0, wrong = 0;
  std::string first;
};

save_verdict cut_everywhere(const std::shared_ptr<crash_store>& store, size_t samples) {
  save_verdict v;
  image_limits limits;
  limits.enumerate = 5;
  limits.samples = samples;
  const auto removal = removal_begins(*store);
  for (size_t point = 0; point <= store->points(); ++point) {
    const auto promised = last_promise(store->marks_before(point));
    auto images = crash_images(store, point, limits);
    while (auto image = images.next()) {
      ++v.images;
      faulty_disk d(image, {});
      const auto found = restored(d);
      const bool stray = point >= removal && leaves_a_stray(d, dir);
      if (found.second != 0 && found >= promised && !stray) continue;
      if (v.wrong++ == 0)
        v.first =
            fmt::format("before \"{}\", kept: {}; restored step {} epoch {}{}", store->text(point),
                        images.kept(), found.first, found.second, stray ? "; a stray is left" : "");
    }
  }
  return v;
}

/// What the documentation says of this test, and the test itself, must not drift apart.
void check_said(const std::string& page, const std::string& words) {
  const auto text = read_file(std::filesystem::path(TROUPE_SOURCE_DIR) / "docs" / page, 1 << 20);
  REQUIRE(text);
  CHECK_MESSAGE(text->find(words) != std::string::npos, page, " does not say \"", words, "\"");
}

}  // namespace

TEST_CASE(
    "save: a power cut at any moment leaves the newest acknowledged checkpoint or a newer one") {
  const auto store = three_saves();
  const auto v = cut_everywhere(store, 48);
  INFO(v.first);
  CHECK(v.wrong == 0);
  CHECK(v.images > 1000);
  MESSAGE(v.images << " images of " << store->points() << " points, " << store->syncs()
                   << " syncs");
  check_said("testing.md", fmt::format("at each of {} moments", store->points()));
  check_said("checkpoints.md", fmt::format("at each of the {} moments", store->points()));
  check_said("checkpoints.md", fmt::format("of {} images none", v.images));
}

TEST_CASE("save: without any one of its syncs some power cut loses what was acknowledged") {
  const auto syncs = three_saves()->syncs();
  check_said("checkpoints.md", fmt::format("without any of the {},", syncs - 1));
  for (size_t n = 2; n <= syncs; ++n) {  // the first is of the test's own folder
    const auto v = cut_everywhere(three_saves(n), 24);
    CAPTURE(n);
    CAPTURE(v.images);
    CHECK(v.wrong > 0);
  }
}

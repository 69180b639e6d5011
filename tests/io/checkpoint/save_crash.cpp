// A save of several ranks with the power cut at every moment: what is restored is the newest
// acknowledged checkpoint, or a newer complete one, byte for byte. And without any single one of
// its syncs it is not: then some cut loses what was acknowledged, so every sync is needed.
#include "io/checkpoint/save.hpp"

#include <doctest/doctest.h>

#include <deque>

#include "io/checkpoint/reader.hpp"
#include "io/file.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/disk/backends.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

constexpr uint32_t ranks = 4;  // 2 x 2
const std::filesystem::path dir = "/checkpoints";

/// A stage of one tensor, small enough that a shard is two slots.
plan_stage stage_of(int number) {
  return {sample::chunk(fmt::format("layer.{}", number),
                        {{fmt::format("h.{}.weight", number), {40, 30}, false, 0}})};
}

/// The bytes of a part of a stage's chunk at a step.
std::byte content_of(uint64_t step, uint32_t stage, part which, uint64_t byte) {
  return static_cast<std::byte>(step * 101 + stage * 31 + static_cast<uint64_t>(which) * 7 +
                                byte / 4);
}

manifest_head head_of(uint64_t step, uint64_t epoch) {
  manifest_head h;
  h.job = "crash";
  h.step = step;
  h.epoch = epoch;
  h.layout = {2, 2};
  h.slot_bytes = disk_block;
  return h;
}

/// One rank's part, by a process and a disk of its own.
shard_facts save_rank(const std::shared_ptr<crash_store>& store, const std::filesystem::path& to,
                      const manifest_head& head, const rank_plan& plan) {
  faulty_disk d(store, {});
  auto ring = test_ring(2, disk_block);
  std::optional<result<shard_facts>> vote;
  auto s = rank_save::create(d, to, head, plan, [&](const auto& v) { vote = v; });
  REQUIRE(s);
  const auto& todo = (*s)->captures();
  for (uint64_t n = 0; n < todo.fills.size(); ++n) {
    auto lease = ring->try_take();
    REQUIRE(lease);
    for (auto i = todo.fills[n].copies_begin; i < todo.fills[n].copies_end; ++i) {
      const auto& c = todo.copies[i];
      for (uint64_t b = 0; b < c.bytes; ++b)
        lease->bytes()[c.slot_offset + b] =
            content_of(head.step, plan.pipeline_rank, c.which, c.chunk_byte + b);
    }
    REQUIRE((*s)->filled(std::move(*lease), n));
    if (vote) break;
    for (auto& c : d.wait(1, long_enough)) (*s)->take(c);
  }
  while (!vote)  // and no longer: what is still under way then is what the vote did not wait for
    for (auto& c : d.wait(1, long_enough)) (*s)->take(c);
  REQUIRE(vote);
  REQUIRE(*vote);
  return **vote;
}

/// A save from the first step to the acknowledgement.
void save(const std::shared_ptr<crash_store>& store, uint64_t step, uint64_t epoch) {
  faulty_disk root(store, {});
  const auto head = head_of(step, epoch);
  const std::vector<plan_stage> stages{stage_of(0), stage_of(1)};
  auto plans = plan_save(stages, {2, 64, {}});
  REQUIRE(plans);
  REQUIRE(plans->size() == ranks);
  const auto partial = dir / partial_name(step, epoch);
  std::vector<shard_facts> votes;
  for (const auto& plan : *plans) votes.push_back(save_rank(store, partial, head, plan));
  auto done = commit_save(root, partial, head, votes, {{"config.json", "{}"}});
  REQUIRE(done);
  store->mark(fmt::format("{} {}", step, epoch));
}

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

/// Files of a folder of an image, read whole.
class image_source final : public file_source {
 public:
  image_source(faulty_disk& d, std::filesystem::path folder)
      : disk_(d), folder_(std::move(folder)) {}
  result<std::shared_ptr<const source_file>> open(const std::string& name) const override {
    struct in_memory final : source_file {
      std::string bytes;
      uint64_t size() const noexcept override { return bytes.size(); }
      status read_at(uint64_t offset, std::span<std::byte> out) const override {
        if (offset > bytes.size() || out.size() > bytes.size() - offset)
          return error{errc::bad_data, "the file ends before"};
        if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
        return {};
      }
    };
    auto out = std::make_shared<in_memory>();
    TROUPE_TRY(bytes, disk_.read_small(folder_ / name, 1 << 20));
    out->bytes = std::move(bytes);
    return std::shared_ptr<const source_file>(out);
  }

 private:
  faulty_disk& disk_;
  std::filesystem::path folder_;
};

/// What a restart restores: the newest step, epoch 0 where its bytes are not those of that step.
std::pair<uint64_t, uint64_t> restored(faulty_disk& d) {
  auto entries = d.list(dir);
  if (!entries) return {0, 1};
  uint64_t newest = 0;
  for (const auto& e : *entries)
    if (const auto name = parse_folder_name(e.name); name && name->state == folder_state::complete)
      newest = std::max(newest, name->step);
  if (newest == 0) return {0, 1};
  auto r = reader::open(std::make_shared<image_source>(d, dir / complete_name(newest)));
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
  crash_store::image_limits limits;
  limits.enumerate = 5;
  limits.samples = samples;
  for (size_t point = 0; point <= store->points(); ++point) {
    const auto promised = last_promise(store->marks_before(point));
    auto images = store->crash_at(point, limits);
    while (auto image = images.next()) {
      ++v.images;
      faulty_disk d(image, {});
      const auto found = restored(d);
      if (found.second != 0 && found >= promised) continue;
      if (v.wrong++ == 0)
        v.first = fmt::format("before \"{}\", kept: {}; restored step {} epoch {}",
                              store->text(point), images.kept(), found.first, found.second);
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

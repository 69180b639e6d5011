// Damage of every kind: named by its place, never read, never a crash.
#include "io/checkpoint/reader.hpp"

#include <atomic>
#include <random>

#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;
using sample::memory_source;

namespace {

sample::made two_by_two() {
  sample::made what;
  what.pipeline = 2;
  what.data = 2;
  return what;
}

/// What a verification says: the error or the first damage.
status verdict(const std::shared_ptr<memory_source>& source) {
  auto r = reader::open(source);
  if (!r) return r.error();
  auto report = r->verify({1, {}});
  if (!report) return report.error();
  return report->damages.empty() ? status{} : as_error(report->damages.front());
}

/// Reads everything.
status restore(const std::shared_ptr<memory_source>& source) {
  auto r = reader::open(source);
  if (!r) return r.error();
  const part all[] = {part::master, part::exp_avg, part::exp_avg_sq};
  const auto batches = batches_of(r->content(), all, 1 << 20);
  REQUIRE(batches.size() == 1);
  std::vector<std::byte> out(1 << 20);
  auto read = r->read(batches[0], out, {1, {}});
  return read ? status{} : read.error();
}

/// Whether it failed and named that.
template <class Fact>
bool names(const status& s, const Fact& fact) {
  return !s && mentions(s.error(), fact);
}

/// The first tensor of which there is something in a slot.
std::string first_in_slot(const manifest& m, uint32_t file, uint64_t slot) {
  const auto streams = streams_of(m);
  for (const auto& range : streams[file])
    if (range.offset + range.bytes > slot * sample::slot_bytes) return m.tensors[range.tensor].name;
  return {};
}

/// Fails as a worn disk does.
class worn_source : public file_source {
 public:
  worn_source(std::shared_ptr<const file_source> inner, std::string name, uint64_t from)
      : inner_(std::move(inner)), name_(std::move(name)), from_(from) {}
  result<std::shared_ptr<const source_file>> open(const std::string& name) const override {
    TROUPE_TRY(file, inner_->open(name));
    if (name != name_) return file;
    return std::shared_ptr<const source_file>(std::make_shared<one>(file, from_));
  }

 private:
  struct one : source_file {
    one(std::shared_ptr<const source_file> f, uint64_t at) : inner(std::move(f)), from(at) {}
    uint64_t size() const noexcept override { return inner->size(); }
    status read_at(uint64_t offset, std::span<std::byte> out) const override {
      if (offset <= from && from < offset + out.size()) return error::system("read", EIO);
      return inner->read_at(offset, out);
    }
    std::shared_ptr<const source_file> inner;
    uint64_t from;
  };
  std::shared_ptr<const file_source> inner_;
  std::string name_;
  uint64_t from_;
};

}  // namespace

TEST_CASE("replicas that there is nothing left for write a shard without a stream") {
  scratch dir;
  sample::made few;
  few.data = 400;  // more than the last stage has units to cut
  few.pipeline = 4;
  auto r = reader::open(sample::make(dir.path, few));
  REQUIRE_MESSAGE(r, (r ? "" : r.error().message));
  const auto& files = r->content().files;
  CHECK(std::any_of(files.begin(), files.end(),
                    [](const auto& f) { return f.shard && f.stream_bytes == 0; }));
  auto whole = r->verify();
  REQUIRE(whole);
  CHECK(whole->damages.empty());
}

TEST_CASE("a sound checkpoint verifies, with progress to the last byte, by any number of threads") {
  scratch dir;
  const auto folder = sample::make(dir.path, two_by_two());
  auto r = reader::open(folder);
  REQUIRE_MESSAGE(r, r.error().message);
  uint64_t total = 0;
  for (const auto& f : r->content().files) total += f.bytes;
  for (const unsigned threads : {1u, 3u, 16u}) {
    uint64_t last = 0, all = 0;
    auto report = r->verify({threads, [&](uint64_t done, uint64_t of) {
                               CHECK(done >= last);
                               last = done;
                               all = of;
                               return true;
                             }});
    REQUIRE(report);
    CHECK(report->damages.empty());
    CHECK(report->bytes == total);
    CHECK(last == total);
    CHECK(all == total);
  }
  auto stopped = r->verify({2, [](uint64_t, uint64_t) { return false; }});
  REQUIRE(!stopped);
  CHECK(stopped.error().code == errc::cancelled);
  auto config = r->read_file("config.json");
  REQUIRE(config);
  CHECK(*config == sample::small_files()[0].content);
  CHECK(!r->read_file("rank-00000.shard"));
  CHECK(!r->read_file("config.json", 3));
}

TEST_CASE("RD-2: each flipped byte of every file is found, and its place is named") {
  scratch dir;
  const auto folder = sample::make(dir.path, two_by_two());
  auto source = std::make_shared<memory_source>(folder);
  REQUIRE(verdict(source));
  REQUIRE(restore(source));
  auto r = reader::open(source);
  REQUIRE(r);
  std::mt19937_64 random(2);
  for (uint32_t i = 0; i < r->content().files.size(); ++i) {
    const auto& f = r->content().files[i];
    auto& bytes = source->files[f.name];
    const uint64_t data_end = f.shard ? f.stream_bytes : 0;
    for (uint64_t at = 0; at < bytes.size(); ++at) {
      if (at < data_end && random() % 64 != 0) continue;  // data are sampled, the rest is whole
      if (at >= data_end && f.shard && bytes[at] == std::byte{0} && random() % 16 != 0) continue;
      sample::flip(bytes[at], static_cast<unsigned>(random()));
      const auto said = verdict(source);
      CAPTURE(f.name);
      CAPTURE(at);
      CHECK(names(said, f.name));
      if (at < data_end) {
        const auto slot = at / sample::slot_bytes;
        CHECK(is_error(said, checksum_wrong, slot, first_in_slot(r->content(), i, slot)));
        CHECK(names(restore(source), f.name));
      }
      bytes[at] = sample::bytes_of(folder / f.name)[at];
    }
  }
  CHECK(verdict(source));
}

TEST_CASE("each flipped byte of MANIFEST is found when it is opened") {
  scratch dir;
  auto source = std::make_shared<memory_source>(sample::make(dir.path, two_by_two()));
  auto& bytes = source->files["MANIFEST"];
  size_t accepted = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    sample::flip(bytes[at], static_cast<unsigned>(at));
    accepted += names(verdict(source), "MANIFEST") ? 0 : 1;
    sample::flip(bytes[at], static_cast<unsigned>(at));
  }
  CHECK(accepted == 0);
  CHECK(verdict(source));
}

TEST_CASE("every cut of every file is found, and so is what is longer or missing") {
  scratch dir;
  const auto good = memory_source(sample::make(dir.path, two_by_two()));
  for (const auto& file : good.files) {
    const auto& name = file.first;
    const auto& content = file.second;
    CAPTURE(name);
    auto source = std::make_shared<memory_source>(good);
    auto& bytes = source->files[name];
    for (size_t length = 0; length<content.size(); length += content.size()> 4096 ? 509 : 1) {
      bytes = {content.begin(), content.begin() + static_cast<ptrdiff_t>(length)};
      CHECK(names(verdict(source), name));
      CHECK(names(restore(source), name));
    }
    bytes = content;
    bytes.push_back(std::byte{0});
    CHECK(names(verdict(source), name));
    source->files.erase(name);
    CHECK(!verdict(source));
  }
}

TEST_CASE("RD-1: what lies elsewhere is still read, what is damaged is not, and is named") {
  scratch dir;
  auto source = std::make_shared<memory_source>(sample::make(dir.path));
  auto r = reader::open(source);
  REQUIRE(r);
  const auto streams = streams_of(r->content());
  const auto& range = streams[0][streams[0].size() / 2];
  const auto& victim = r->content().tensors[range.tensor];
  sample::flip(source->files["rank-00000.shard"][range.offset + 1], 3);
  const uint64_t slot = range.offset / sample::slot_bytes;
  int read = 0, refused = 0;
  for (const auto& t : r->content().tensors)
    for (const auto& p : t.parts) {
      const auto& s = p.slices[0];
      const bool touches = s.stream_offset / sample::slot_bytes <= slot &&
                           (s.stream_offset + s.count * 4 - 1) / sample::slot_bytes >= slot;
      auto values = r->read_tensor(t.name, p.which);
      CHECK(values.has_value() == !touches);
      ++(values ? read : refused);
      if (!values) CHECK(is_error(values, checksum_wrong, slot));
    }
  CHECK(read > 0);
  CHECK(refused > 0);
  auto report = r->verify();
  REQUIRE(report);
  REQUIRE(report->damages.size() == 1);
  const auto& d = report->damages[0];
  CHECK(d.slot == slot);
  const auto name = fmt::format("{} of {}", to_string(range.which), victim.name);
  CHECK(std::find(d.tensors.begin(), d.tensors.end(), name) != d.tensors.end());
}

TEST_CASE("a shard of another checkpoint is not taken for this one's") {
  scratch dir;
  auto what = two_by_two();
  const auto good = memory_source(sample::make(dir.path, what));
  const auto swapped = [&](const sample::made& other, const char* from, const char* to) {
    scratch there;
    auto source = std::make_shared<memory_source>(good);
    source->files[to] = memory_source(sample::make(there.path, other)).files[from];
    return std::pair(verdict(source), restore(source));
  };
  const char* shard = "rank-00001.shard";
  auto older = what;
  older.step = 100;
  auto fenced = what;
  fenced.epoch = 2;
  auto values = what;
  values.seed = 1;
  for (const auto& other : {older, fenced, values}) {
    const auto [verified, restored] = swapped(other, shard, shard);
    CHECK(names(verified, shard));
    CHECK(names(restored, shard));
  }
  CHECK(names(swapped(what, "rank-00003.shard", shard).first, shard));
  CHECK(swapped(what, shard, shard).first);
}

TEST_CASE("each sum that a manifest holds of a shard is compared by itself") {
  scratch dir;
  const auto good = memory_source(sample::make(dir.path, two_by_two()));
  auto m = parse_manifest(good.files.at("MANIFEST"));
  REQUIRE(m);
  const auto with = [&](const std::function<void(file_entry&)>& spoil) {
    auto other = *m;
    spoil(other.files[1]);
    auto text = encode_manifest(other);
    REQUIRE(text);
    auto source = std::make_shared<memory_source>(good);
    source->files["MANIFEST"].assign(as_bytes(*text).begin(), as_bytes(*text).end());
    return std::pair(verdict(source), restore(source));
  };
  const auto as_it_is = with([](file_entry&) {});
  CHECK(as_it_is.first);
  CHECK(as_it_is.second);
  for (const auto& said : {with([](file_entry& f) { f.crc32c ^= 1; }),
                           with([](file_entry& f) { f.slot_digest ^= 1; })}) {
    CHECK(names(said.first, "rank-00001.shard"));
    CHECK(names(said.second, "rank-00001.shard"));
  }
}

TEST_CASE("limits: a footer beyond its length is refused before any of it is read") {
  scratch dir;
  const auto folder = sample::make(dir.path);
  auto m = parse_manifest(sample::bytes_of(folder / "MANIFEST"));
  REQUIRE(m);
  auto& shard = m->files.front();
  REQUIRE(shard.shard);
  shard.bytes = aligned(shard.stream_bytes) + aligned(max_footer_bytes + trailer_bytes) + alignment;
  std::filesystem::resize_file(folder / shard.name, shard.bytes);  // takes no room
  const auto text = encode_manifest(*m);
  REQUIRE(text);
  sample::write_bytes(folder / "MANIFEST", as_bytes(*text));
  auto r = reader::open(folder);
  REQUIRE(r);
  const auto report = r->verify();
  REQUIRE(report);
  REQUIRE(report->damages.size() == 1);
  CHECK(report->damages[0].file == shard.name);
  CHECK(report->damages[0].why == footer_too_long());
  const auto values = r->read_tensor(m->tensors.front().name, part::master);
  REQUIRE_FALSE(values);
  CHECK(is_error(values, footer_too_long, shard.name));
}

TEST_CASE("a disk that cannot read is named like damage, and a sink's error comes through") {
  scratch dir;
  const auto folder = sample::make(dir.path, two_by_two());
  auto plain = folder_source(local_files(), folder);
  auto r = reader::open(
      std::make_shared<worn_source>(plain, "rank-00002.shard", sample::slot_bytes + 5));
  REQUIRE(r);
  auto report = r->verify();
  REQUIRE(report);
  REQUIRE(report->damages.size() == 1);
  CHECK(report->damages[0].file == "rank-00002.shard");
  CHECK(report->damages[0].slot == 1);
  CHECK(is_error(report->damages[0].why, "EIO"));

  auto sound = reader::open(folder);
  REQUIRE(sound);
  const part masters[] = {part::master};
  auto plan = plan_restore(sound->content(), batches_of(sound->content(), masters, 1 << 20)[0]);
  REQUIRE(plan);
  std::atomic<int> calls{0};
  auto stopped = sound->read(*plan, [&](uint64_t, std::span<const std::byte>) -> status {
    ++calls;
    return error{errc::no_memory, "the device is full"};
  });
  REQUIRE(!stopped);
  CHECK(stopped.error().code == errc::no_memory);
  CHECK(calls <= 16);
}

TEST_CASE("a folder without a manifest, or with another file of that name, says what it is") {
  scratch dir;
  auto none = reader::open(dir.path);
  REQUIRE(!none);
  CHECK(none.error().code == errc::not_found);
  REQUIRE(write_atomic(dir / "MANIFEST", "troupe manifest 1\n"));
  auto other = reader::open(dir.path);
  REQUIRE(!other);
  CHECK(other.error().code == errc::bad_data);
}

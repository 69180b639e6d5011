// The files of spilled activations on drives that fail: what is read is what was written last, and
// all of it, wherever it has gone; what cannot be written goes on in another file; and training
// with such a drive has the bits of training in memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "gpu/swap/spill_files.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/failing_ground.hpp"

namespace troupe::gpu {
namespace {

using testing::bytes_needed;
using testing::failing_ground;
using testing::filler_bytes;
using testing::swap_case;
using testing::swap_trainer;

constexpr uint64_t bytes_each = 2 * io::disk_block;

/// Records of layers in one slot, in one file, on a disk that fails as planned.
class spilled_records {
 public:
  explicit spilled_records(int records, std::vector<io::planned_fault> plan,
                           std::chrono::nanoseconds latency = {})
      : written_(static_cast<size_t>(records)) {
    io::swap_io_options o;
    o.piece_bytes = io::disk_block;
    o.open_disk = [=, store = store_](size_t depth) -> result<std::unique_ptr<io::disk>> {
      io::faulty_options how;
      how.depth = depth;
      how.plan = plan;
      how.reorder = true;
      how.latency = latency;
      auto made = std::make_unique<io::faulty_disk>(store, how);
      TROUPE_TRY(there, made->make_dir("/swap"));
      static_cast<void>(there);
      return std::unique_ptr<io::disk>(std::move(made));
    };
    auto io = io::swap_io::make(std::move(o));
    REQUIRE(io);
    std::vector<spill_files::place> of;
    for (int r = 0; r < records; ++r) of.push_back({0, 10 + r});
    files_ = std::make_unique<spill_files>(std::shared_ptr<io::swap_io>(std::move(*io)),
                                           std::move(of), bytes_each,
                                           spill_files::options{{"/swap/activations"}, true, {}});
    REQUIRE(files_->make());
  }

  /// Other bytes each time.
  status write(int record) {
    const auto fill = static_cast<std::byte>(++fills_);
    written_[static_cast<size_t>(record)] = fill;
    const auto memory = memory_of(fill);
    return files_->write(record, memory->bytes(), memory);
  }
  /// Whether they are what was written last.
  status read(int record) {
    const auto memory = memory_of(std::byte{0});
    TROUPE_CHECK(files_->read(record, memory->bytes(), memory));
    for (const auto b : memory->bytes())
      if (b != written_[static_cast<size_t>(record)]) return error{errc::bug, "other bytes"};
    return {};
  }

  std::vector<std::string> names() const {
    std::vector<io::dir_entry> all;
    REQUIRE(store_->list("/swap", all) == 0);
    std::vector<std::string> out;
    for (const auto& f : all)
      if (!f.folder) out.push_back(f.name);
    return out;
  }

 private:
  static std::shared_ptr<io::io_buffer> memory_of(std::byte fill) {
    auto out = std::make_shared<io::io_buffer>(io::io_buffer::allocate(bytes_each));
    std::fill(out->bytes().begin(), out->bytes().end(), fill);
    return out;
  }

  const std::shared_ptr<io::crash_store> store_ = io::crash_store::make(uint64_t{64} << 20);
  std::unique_ptr<spill_files> files_;
  std::vector<std::byte> written_;  ///< by record; of the thread that writes, before others read
  std::atomic<int> fills_{0};
};

using file_names = std::vector<std::string>;

/// The pieces of a record are written one after the other: of which it is the first.
constexpr int first_write_of(int nth_record) {
  return 1 + 2 * nth_record;
}

io::planned_fault failing_write(int nth, int times = 1) {
  return {io::fault_site::write, nth, io::fault_effect::fail, EIO, 0, times};
}

io::planned_fault failing_activation(int nth) {
  auto out = failing_write(nth);
  out.file = "activations";
  return out;
}

/// Of a step of the case below, in the order in which forward passes write them.
struct activation_traffic {
  int layers = 0, pieces_each = 0;
};

swap_case with_activations(dtype type = dtype::f32) {
  swap_case c;
  c.type = type;
  c.model.layers = 5;
  c.spills = true;
  return c;
}

activation_traffic activations_of(const swap_case& c) {
  failing_ground ground;
  const swap_trainer swapped(*ground.owner, c, ground.options());
  std::vector<io::dir_entry> files;
  REQUIRE(ground.store->list("/swap", files) == 0);
  uint64_t bytes = 0;
  for (const auto& f : files)
    if (f.name == "activations") bytes = f.bytes;
  const auto layers = static_cast<int>(c.model.layers);
  REQUIRE(bytes > 0);
  return {layers, static_cast<int>(bytes / io::disk_block) / layers};
}

int files_named(const failing_ground& ground, const char* folder, const std::string& begin) {
  std::vector<io::dir_entry> files;
  REQUIRE(ground.store->list(folder, files) == 0);
  int out = 0;
  for (const auto& f : files) out += f.name.rfind(begin, 0) == 0 && !f.folder ? 1 : 0;
  return out;
}

}  // namespace

TEST_CASE("SPF-1: activations that were not written, or were read before, are not read") {
  spilled_records r(2, {});
  CHECK(is_error(r.read(1).error(), spill_not_written, 11, 0));
  REQUIRE(r.write(1));
  CHECK(r.read(1));
  CHECK(is_error(r.read(1).error(), spill_not_written, 11, 0));
  REQUIRE(r.write(1));
  REQUIRE(r.write(1));  // another pass before its backward
  CHECK(r.read(1));
  CHECK(r.names() == file_names{"activations"});
}

TEST_CASE(
    "SPR-3 SPF-2: activations go on in another file, and the others are read where they are") {
  constexpr int records = 4;
  for (int fails = 0; fails < records; ++fails)
    for (const int piece : {0, 1}) {
      CAPTURE(fails);
      CAPTURE(piece);
      spilled_records r(records, {failing_write(first_write_of(fails) + piece)});
      for (int i = 0; i < records; ++i) CHECK(r.write(i));
      // Nothing needs the first one where none was in it.
      CHECK(r.names().size() == (fails == 0 ? 1 : 2));
      for (int i = records; i-- > 0;) CHECK(r.read(i));
      CHECK(r.names() == file_names{"activations.1"});
      for (int i = 0; i < records; ++i) CHECK(r.write(i));
      for (int i = records; i-- > 0;) CHECK(r.read(i));
      CHECK(r.names() == file_names{"activations.1"});
    }
}

TEST_CASE("SPF-2: a file that takes no writes goes with the last record that another one has") {
  spilled_records r(3, {failing_write(first_write_of(4))});
  for (int i = 0; i < 3; ++i) REQUIRE(r.write(i));
  CHECK(r.read(2));
  REQUIRE(r.write(0));  // the fourth
  CHECK(r.names() == file_names{"activations"});
  REQUIRE(r.write(1));  // fails, and has another file: 0 is in the first
  CHECK(r.names() == file_names{"activations", "activations.1"});
  REQUIRE(r.write(2));
  CHECK(r.names() == file_names{"activations", "activations.1"});
  REQUIRE(r.write(0));
  CHECK(r.names() == file_names{"activations.1"});
  for (const int i : {0, 2, 1}) CHECK(r.read(i));
}

TEST_CASE("SPR-3: a file that takes another's place may fail as well, and has what it has") {
  spilled_records r(4, {failing_write(first_write_of(1)), failing_write(first_write_of(3))});
  for (int i = 0; i < 4; ++i) CHECK(r.write(i));
  CHECK(r.names().size() == 3);
  for (int i = 4; i-- > 0;) CHECK(r.read(i));
  CHECK(r.names() == file_names{"activations.2"});
}

TEST_CASE("SPF-1 SPR-3: activations that no file takes are none, and those before are read still") {
  spilled_records r(3, {failing_write(first_write_of(2), 1 << 20)});
  REQUIRE(r.write(0));
  REQUIRE(r.write(1));
  const auto failed = r.write(2);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().kind == "EIO");
  CHECK(is_error(r.read(2).error(), spill_not_written, 12, 0));
  CHECK(r.read(1));
  REQUIRE_FALSE(r.write(0));  // what it had before does not count any more
  CHECK(is_error(r.read(0).error(), spill_not_written, 10, 0));
}

TEST_CASE("SPR-1 SPF-2: what is read of a file that takes no writes is summed as ever") {
  for (const int times : {2, 4}) {  // of both pieces
    spilled_records r(2, {failing_write(first_write_of(1)),
                          {io::fault_site::read, 1, io::fault_effect::invert, 0, 0, times}});
    REQUIRE(r.write(0));
    REQUIRE(r.write(1));
    if (times == 2)
      CHECK(r.read(0));  // the second time
    else
      CHECK(is_error(r.read(0).error(), spill_damaged, 10, 0));
    CHECK(r.read(1));
  }
}

TEST_CASE("SPR-3 SPF-1: a write fails while backward reads others of its file") {
  constexpr int halves = 8;
  for (int fails = 0; fails < halves; ++fails) {
    CAPTURE(fails);
    spilled_records r(2 * halves, {failing_write(first_write_of(halves + fails))},
                      std::chrono::microseconds(20));
    for (int i = 0; i < halves; ++i) REQUIRE(r.write(i));
    std::vector<status> read(halves), written(halves);
    std::thread backward([&] {
      for (int i = halves; i-- > 0;) read[static_cast<size_t>(i)] = r.read(i);
    });
    for (int i = 0; i < halves; ++i) written[static_cast<size_t>(i)] = r.write(halves + i);
    backward.join();
    for (int i = 0; i < halves; ++i) {
      CHECK(read[static_cast<size_t>(i)]);
      CHECK(written[static_cast<size_t>(i)]);
      CHECK(r.read(halves + i));
    }
    CHECK(r.names() == file_names{"activations.1"});
  }
}

TEST_CASE("SPR-3: where activations cannot be written training goes on with the same bits") {
  for (const auto type : {dtype::f32, dtype::bf16}) {
    const auto c = with_activations(type);
    const auto [layers, pieces] = activations_of(c);
    failing_ground reference;
    const auto expected = swap_trainer(*reference.owner, c, {}).train(3);
    for (int layer = 0; layer < layers; ++layer) {
      CAPTURE(layer);
      failing_ground ground;
      ground.how.seed = static_cast<unsigned>(layer + 1);
      ground.how.reorder = true;
      ground.how.plan = {failing_activation(1 + layer * pieces + layer % pieces)};
      swap_trainer swapped(*ground.owner, c, ground.options());
      CHECK(swapped.train(3) == expected);
      swapped.wait();
      CHECK(swapped.failure());
      CHECK(ground.heard->with("it goes on in /swap/activations.1") == 1);
      CHECK(files_named(ground, "/swap", "activations") == 1);
      CHECK(files_named(ground, "/swap", "activations.1") == 1);
    }
  }
}

TEST_CASE("SPR-3: without room in its folder activations go on in another one") {
  const auto c = with_activations();
  const auto [layers, pieces] = activations_of(c);
  failing_ground reference;
  const auto expected = swap_trainer(*reference.owner, c, {}).train(2);
  for (int layer = 0; layer + 1 < layers; ++layer) {
    CAPTURE(layer);
    failing_ground ground;
    const int opened = swap_trainer(*ground.owner, c, {}).store().chunk_count() + 2;
    ground.how.plan = {failing_activation(1 + layer * pieces),
                       {io::fault_site::open, opened + 1, io::fault_effect::fail, ENOSPC}};
    io::faulty_disk other(ground.store, {});
    REQUIRE(other.make_dir("/other"));
    auto options = ground.options();
    options.places = {{"/swap"}, {"/other"}};
    swap_trainer swapped(*ground.owner, c, std::move(options));
    CHECK(swapped.train(2) == expected);
    swapped.wait();
    CHECK(swapped.failure());
    CHECK(ground.heard->with(layer % 2 == 0 ? "it goes on in /other/activations."
                                            : "it goes on in /swap/activations.") == 1);
    CHECK(ground.heard->with("has no room") == 0);
    CHECK(files_named(ground, "/swap", "activations") +
              files_named(ground, "/other", "activations") ==
          2);
  }
}

TEST_CASE("SPR-3: activations wait for room, and end the rank where none comes") {
  testing::waits_for_room(with_activations(), [](swap_trainer&) {});
}

}  // namespace troupe::gpu

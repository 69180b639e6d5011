// Writes to swap files that fail: training goes on in another file, with the bits of training in
// memory, waits for room where there is none, and ends where none comes.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <future>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "io/disk/faulty_disk.hpp"
#include "io/disk/thread_disk.hpp"
#include "io/file.hpp"
#include "tests/cluster/mounts.hpp"
#include "tests/gpu/failing_ground.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::gpu {
namespace {

namespace fs = std::filesystem;
using testing::bytes_needed;
using testing::failing_ground;
using testing::filler_bytes;
using testing::heard_notices;
using testing::swap_case;
using testing::swap_trainer;
using testing::writes_before;

/// Pieces that it writes before the first step and in all, where none is written in parts: a
/// fault's place between the two is met in every order.
std::pair<int, int> writes_of(const swap_case& c, int steps) {
  failing_ground ground;
  swap_trainer swapped(*ground.owner, c, ground.options());
  const auto count = [&] {
    return static_cast<int>(swapped.swap().facts().written_bytes / io::disk_block);
  };
  const int before = count();
  swapped.train(steps);
  swapped.wait();
  return {before, count()};
}

/// Layers whose gradients leave shared frames behind each of three passes.
swap_case with_gradients(dtype type = dtype::f32) {
  swap_case c;
  c.type = type;
  c.model.layers = 4;
  c.micro_batches = 3;
  return c;
}

/// What a swapper does with such gradients: files of them, and pieces of the disk's that it writes
/// of them behind each pass. Those of a step's first passes come before it writes anything else.
struct gradient_traffic {
  int files = 0, pieces = 0;
};
gradient_traffic gradients_of(const swap_case& c) {
  failing_ground ground;
  swap_trainer swapped(*ground.owner, c, ground.options());
  const auto& store = swapped.store();
  const auto& where = store.options().where;
  gradient_traffic out;
  for (int chunk = 0; chunk < store.chunk_count(); ++chunk) {
    if (!where.gradient_on_disk(chunk)) continue;
    const auto& slice = store.slice(chunk);
    const gradient_file file(slice, swap_layout(slice, where, c.type));
    out.pieces += static_cast<int>(file.whole_bytes() / io::disk_block);
    ++out.files;
  }
  REQUIRE(out.files >= 2);
  REQUIRE(out.pieces >= 2 * out.files);
  return out;
}

/// The machine's disk, one of whose writes fails.
class failing_disk final : public io::thread_disk {
 public:
  failing_disk(const io::disk_options& options, int nth) : thread_disk(options, ""), nth_(nth) {}
  ~failing_disk() override { drain(std::chrono::seconds(10)); }

 protected:
  void raw_submit(const raw_request& request) override {
    if (request.op == io::disk_op::write && --nth_ == 0)
      failed_.push_back({request.id, -EIO});
    else
      thread_disk::raw_submit(request);
  }
  bool raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) override {
    const bool some = !failed_.empty();
    answers.insert(answers.end(), failed_.begin(), failed_.end());
    failed_.clear();
    return thread_disk::raw_reap(block && !some, until, answers);
  }

 private:
  int nth_;
  std::vector<raw_answer> failed_;
};

}  // namespace

TEST_CASE("SWP-11: where a write fails training goes on in another file, with the same bits") {
  for (const auto type : {dtype::f32, dtype::bf16}) {
    swap_case c{testing::tiny_gpt2(), type};
    failing_ground reference;
    const auto expected = swap_trainer(*reference.owner, c, {}).train(3);
    constexpr int tries = 12;
    for (int i = 1; i <= tries; ++i) {
      CAPTURE(i);
      failing_ground ground;
      ground.how.seed = static_cast<unsigned>(i);
      ground.how.reorder = true;
      ground.how.short_move = 0.2;
      c.groups = 1 + i % 4;
      const auto [before, all] = writes_of(c, 3);
      const int nth = before + (all - before) * i / tries;
      CAPTURE(nth);
      ground.how.plan = {{io::fault_site::write, nth, io::fault_effect::fail, EIO}};
      swap_trainer swapped(*ground.owner, c, ground.options());
      CHECK(swapped.train(3) == expected);
      swapped.wait();
      CHECK(swapped.failure());
      CHECK(ground.heard->with("it goes on in /swap/") == 1);
      std::vector<io::dir_entry> moved;
      CHECK(ground.store->list("/swap/moved", moved) == 0);
      CHECK(moved.empty());
    }
  }
}

TEST_CASE("GRF-3 SWP-11: a gradient that cannot be written goes on in another file, bit by bit") {
  for (const auto type : {dtype::f32, dtype::bf16}) {
    const auto c = with_gradients(type);
    const int before = writes_before(c), pieces = gradients_of(c).pieces;
    failing_ground reference;
    const auto expected = swap_trainer(*reference.owner, c, {}).train(2);
    constexpr int tries = 6;
    for (int i = 0; i < tries; ++i) {
      CAPTURE(i);
      failing_ground ground;
      ground.how.seed = static_cast<unsigned>(i + 1);
      ground.how.reorder = true;
      // From the first pass's first to the second's last.
      const int nth = before + 1 + (2 * pieces - 1) * i / (tries - 1);
      ground.how.plan = {{io::fault_site::write, nth, io::fault_effect::fail, EIO}};
      swap_trainer swapped(*ground.owner, c, ground.options());
      CHECK(swapped.train(2) == expected);
      swapped.wait();
      CHECK(swapped.failure());
      CHECK(ground.heard->with("it goes on in /swap/gradients-") == 1);
      std::vector<io::dir_entry> moved;
      CHECK(ground.store->list("/swap/moved-gradients", moved) == 0);
      CHECK(moved.empty());
    }
  }
}

TEST_CASE("GRF-3 SWP-11: without room in its folder a gradient goes on in another one") {
  const auto c = with_gradients();
  const int before = writes_before(c);
  const auto gradients = gradients_of(c);
  failing_ground reference;
  const auto expected = swap_trainer(*reference.owner, c, {}).train(2);
  for (int i = 1; i <= 4; ++i) {
    CAPTURE(i);
    failing_ground ground;
    const int opened = swap_trainer(*ground.owner, c, {}).store().chunk_count() + gradients.files;
    ground.how.plan = {
        {io::fault_site::write, before + gradients.pieces * i / 3, io::fault_effect::fail, EIO},
        {io::fault_site::open, opened + 1, io::fault_effect::fail, ENOSPC}};
    io::faulty_disk other(ground.store, {});
    REQUIRE(other.make_dir("/other"));
    auto options = ground.options();
    options.places = {{"/swap"}, {"/other"}};
    swap_trainer swapped(*ground.owner, c, std::move(options));
    CHECK(swapped.train(2) == expected);
    swapped.wait();
    CHECK(swapped.failure());
    CHECK(ground.heard->with("it goes on in /swap/gradients-") +
              ground.heard->with("it goes on in /other/gradients-") ==
          1);
    CHECK(ground.heard->with("has no room") == 0);
  }
}

TEST_CASE("GRF-3 SWP-11: a gradient waits for room, and ends the rank where none comes") {
  testing::waits_for_room(with_gradients(), [](swap_trainer& swapped) {
    const auto written = swapped.swap().facts().written_bytes;
    swapped.enqueue_step(3);
    swapped.wait();
    CHECK(swapped.swap().facts().written_bytes == written);
  });
}

TEST_CASE("SWP-11 SWP-9: so do updates that may be dropped, whether they count or not") {
  for (const bool holds : {true, false}) {
    swap_case c{testing::tiny_gpt2(), dtype::bf16};
    c.speculates = true;
    failing_ground reference;
    const auto expected =
        swap_trainer(*reference.owner, {testing::tiny_gpt2(), dtype::bf16}, {}).train(3);
    const int before = writes_before(c);
    for (int i = 1; i <= 8; ++i) {
      CAPTURE(i);
      failing_ground ground;
      ground.how.plan = {{io::fault_site::write, before + 23 * i, io::fault_effect::fail, EIO}};
      swap_trainer swapped(*ground.owner, c, ground.options());
      for (int step = 1; step <= 3; ++step) swapped.enqueue_speculating_step(step, holds);
      swapped.wait();
      CHECK(swapped.failure());
      CHECK(swapped.state() == expected);
      CHECK(ground.heard->with("it goes on in /swap/") == 1);
    }
  }
}

TEST_CASE("SWP-11: without room in its folder a file goes on in another one, and is kept there") {
  for (const bool speculates : {false, true}) {
    swap_case c{testing::tiny_gpt2(), dtype::bf16};
    c.speculates = speculates;
    failing_ground reference;
    const auto expected =
        swap_trainer(*reference.owner, {testing::tiny_gpt2(), dtype::bf16}, {}).train(6);
    const int before = writes_before(c);
    for (int i = 1; i <= 6; ++i) {
      CAPTURE(i);
      failing_ground ground;
      swap_trainer in_memory(*ground.owner, c, {});
      // State and weights of each chunk are there; the next file is the first that is made anew.
      const int opened = in_memory.store().chunk_count() * 2 * (speculates ? 2 : 1);
      ground.how.plan = {{io::fault_site::write, before + 31 * i, io::fault_effect::fail, EIO},
                         {io::fault_site::open, opened + 1, io::fault_effect::fail, ENOSPC}};
      io::faulty_disk other(ground.store, {});
      REQUIRE(other.make_dir("/other"));
      auto options = ground.options();
      options.places = {{"/swap", true}, {"/other", true}};
      options.job = "job";
      swap_trainer swapped(*ground.owner, c, std::move(options));
      std::promise<bool> voted;
      for (int step = 1; step <= 6; ++step) {
        if (speculates)
          swapped.enqueue_speculating_step(step, step % 3 != 0);
        else
          swapped.enqueue_step(step);
        keep_order order;
        order.partial = "/step-4";
        order.head.job = "job";
        order.head.step = 4;
        if (step == 4)
          swapped.swap().keep(order, [&](const auto& shards) { voted.set_value(bool(shards)); });
      }
      swapped.wait();
      CHECK(voted.get_future().get());
      CHECK(swapped.failure());
      CHECK(swapped.state() == expected);
      CHECK(ground.heard->with("it goes on in /") == 1);
      CHECK(ground.heard->with("has no room") == 0);
    }
  }
}

TEST_CASE("SWP-7 SWP-11: a chunk that has moved to a drive without links is left to be copied") {
  const swap_case c;
  failing_ground reference;
  const auto expected = swap_trainer(*reference.owner, c, {}).train(4);
  const auto [before, all] = writes_of(c, 3);
  int left = 0;
  for (int i = 1; i <= 6; ++i) {
    CAPTURE(i);
    failing_ground ground;
    const int opened = swap_trainer(*ground.owner, c, {}).store().chunk_count();
    ground.how.plan = {
        {io::fault_site::write, before + (all - before) * i / 7, io::fault_effect::fail, EIO},
        {io::fault_site::open, opened + 1, io::fault_effect::fail, ENOSPC}};
    io::faulty_disk other(ground.store, {});
    REQUIRE(other.make_dir("/other"));
    auto options = ground.options();
    options.places = {{"/swap", true}, {"/other", false}};
    options.job = "job";
    swap_trainer swapped(*ground.owner, c, std::move(options));
    const auto first = swapped.swap().linked();
    for (int step = 1; step <= 3; ++step) swapped.enqueue_step(step);
    swapped.wait();
    const auto linked = swapped.swap().linked();
    int lost = 0;
    for (size_t chunk = 0; chunk < first.size(); ++chunk) lost += first[chunk] && !linked[chunk];
    CHECK(lost == ground.heard->with("it goes on in /other/"));
    left += lost;
    keep_order order;
    order.partial = "/step-3";
    order.head.job = "job";
    order.head.step = 3;
    std::promise<std::ptrdiff_t> kept;
    swapped.swap().keep(order, [&](const auto& shards) {
      kept.set_value(shards ? static_cast<std::ptrdiff_t>(shards->size()) : -1);
    });
    CHECK(kept.get_future().get() == std::count(linked.begin(), linked.end(), true));
    swapped.enqueue_step(4);
    swapped.wait();
    CHECK(swapped.failure());
    CHECK(swapped.state() == expected);
  }
  CHECK(left > 0);
}

TEST_CASE(
    "SWP-11: of two drives one that refuses names, by seed, costs no bit, and mostly no rank") {
  swap_case c;
  c.type = dtype::bf16;
  failing_ground reference;
  const auto expected = swap_trainer(*reference.owner, c, {}).train(3);
  const int before = writes_before(c);
  int went_on = 0;
  for (unsigned seed = 1; seed <= 48; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    failing_ground ground;
    swap_trainer in_memory(*ground.owner, c, {});
    // At the start each chunk's folder is asked for, and its state and weights are opened.
    const int chunks = in_memory.store().chunk_count(), opened = chunks * 2;
    using site = io::fault_site;
    const std::array<std::pair<site, int>, 4> sites{{{site::make_dir, chunks + 2},
                                                     {site::open, opened + 1},
                                                     {site::rename, 1},
                                                     {site::remove, 1}}};
    const auto [where, first] = sites[random() % sites.size()];
    const int nth = first + static_cast<int>(random() % 3);
    const int times = 1 + static_cast<int>(random() % 2);
    const int failure = std::array{EIO, EROFS, ENOSPC}[random() % 3];
    ground.how.plan = {
        {site::write, before + static_cast<int>(random() % 150), io::fault_effect::fail, EIO},
        {where, nth, io::fault_effect::fail, failure, 0, times}};
    io::faulty_disk other(ground.store, {});
    REQUIRE(other.make_dir("/other"));
    auto options = ground.options();
    options.places = {{"/swap", false}, {"/other", false}};
    swap_trainer swapped(*ground.owner, c, std::move(options));
    for (int step = 1; step <= 3; ++step) swapped.enqueue_step(step);
    swapped.wait();
    const bool fine = swapped.failure().has_value();
    went_on += fine ? 1 : 0;
    if (fine) CHECK(swapped.state() == expected);
    // A folder or the new file that cannot be made, once: another drive takes it. What is opened
    // next is the old file, without which there is no state.
    const bool is_made = where == site::make_dir || (where == site::open && nth == opened + 1);
    if (is_made && times == 1) CHECK(fine);
  }
  CAPTURE(went_on);
  CHECK(went_on >= 36);
}

TEST_CASE("SWP-11: without room for another file a step waits, says for how much, and goes on") {
  const swap_case c;
  failing_ground ground(bytes_needed(c) + filler_bytes + io::disk_block);
  const auto expected = swap_trainer(*ground.owner, c, {}).train(3);
  ground.how.plan = {{io::fault_site::write, writes_before(c) + 40, io::fault_effect::fail, EIO}};
  auto options = ground.options();
  int looks = 0;
  options.waits = [&] {
    if (++looks == 3) ground.give_room();
  };
  ground.fill();
  swap_trainer swapped(*ground.owner, c, std::move(options));
  CHECK(swapped.train(3) == expected);
  swapped.wait();
  CHECK(swapped.failure());
  CHECK(looks == 3);
  CHECK(ground.heard->with("has no room for another file of") == 1);
  CHECK(ground.heard->with("KiB") == 1);
  CHECK(ground.heard->with("there is room again") == 1);
}

TEST_CASE("SWP-11 SWP-6: where no room comes in time, or the rank ends, nothing more is written") {
  const swap_case c;
  for (const bool ends : {false, true}) {
    CAPTURE(ends);
    failing_ground ground(bytes_needed(c) + filler_bytes + io::disk_block);
    ground.how.plan = {{io::fault_site::write, writes_before(c) + 40, io::fault_effect::fail, EIO}};
    auto options = ground.options();
    std::stop_source ending;
    options.ending = ending.get_token();
    options.patience = std::chrono::milliseconds(ends ? 600'000 : 20);
    options.waits = [&] {
      if (ends) ending.request_stop();
    };
    ground.fill();
    swap_trainer swapped(*ground.owner, c, std::move(options));
    swapped.enqueue_step(1);
    swapped.wait();
    REQUIRE_FALSE(swapped.failure());
    CHECK(swapped.failure().error().code == errc::io);
    CHECK(swapped.failure().error().kind == "ENOSPC");
    const auto written = swapped.swap().facts().written_bytes;
    swapped.enqueue_step(2);
    swapped.wait();
    CHECK(swapped.swap().facts().written_bytes == written);
  }
}

TEST_CASE("SWP-11 SWP-6: a drive that takes no write any more ends the training") {
  failing_ground ground;
  ground.how.plan = {
      {io::fault_site::write, writes_before({}) + 40, io::fault_effect::fail, EIO, 0, 1 << 20}};
  swap_trainer swapped(*ground.owner, {}, ground.options());
  for (int step = 1; step <= 3; ++step) swapped.enqueue_step(step);
  swapped.wait();
  REQUIRE_FALSE(swapped.failure());
  CHECK(swapped.failure().error().kind == "EIO");
}

TEST_CASE("GRF-3 SWP-6: a drive that takes no gradient any more ends the training") {
  const auto c = with_gradients();
  failing_ground ground;
  ground.how.plan = {
      {io::fault_site::write, writes_before(c) + 2, io::fault_effect::fail, EIO, 0, 1 << 20}};
  swap_trainer swapped(*ground.owner, c, ground.options());
  for (int step = 1; step <= 2; ++step) swapped.enqueue_step(step);
  swapped.wait();
  REQUIRE_FALSE(swapped.failure());
  CHECK(swapped.failure().error().kind == "EIO");
}

TEST_CASE("SWP-11 SWP-5: what of the file has changed on the disk meanwhile is not moved") {
  const swap_case c{testing::tiny_gpt2(), dtype::f32, 2048, 1};
  constexpr uint64_t group_bytes = 3 * 2048 * sizeof(float);
  const int before = writes_before(c);
  int found = 0;
  for (int i = 1; i <= 12; ++i) {
    failing_ground ground;
    ground.how.plan = {{io::fault_site::write, before + 6 * i, io::fault_effect::fail, EIO}};
    auto options = ground.options();
    options.verify = false;  // moving compares all the same
    swap_trainer swapped(*ground.owner, c, std::move(options));
    io::faulty_disk other(ground.store, {});
    std::vector<io::dir_entry> files;
    REQUIRE(ground.store->list("/swap", files) == 0);
    for (const auto& f : files) {
      if (f.bytes <= group_bytes) continue;
      const auto file = other.open("/swap/" + f.name, {io::open_mode::update, false, 0});
      REQUIRE(file);
      auto wrong = io::io_buffer::allocate(io::disk_block);
      std::fill(wrong.bytes().begin(), wrong.bytes().end(), std::byte{7});
      REQUIRE(other.write(*file, f.bytes - io::disk_block, std::move(wrong), 1));
    }
    while (other.under_way() > 0) other.wait(1, std::chrono::seconds(1));
    swapped.enqueue_step(1);
    swapped.wait();
    if (!swapped.failure()) {
      CHECK(swapped.failure().error().is(swap_damaged));
      ++found;
    }
  }
  CHECK(found > 0);  // where a file has more than what was written
}

TEST_CASE("SWP-11: on a full ext4 a step goes on once something is removed there") {
  if (auto why = cluster_test::why_no_mounts()) {
    MESSAGE("SKIPPED: ", *why);
    return;
  }
  scratch dir;
  cluster_test::mounts all;
  const auto image = dir / "image", drive = dir / "drive";
  REQUIRE(
      cluster_test::shell(fmt::format("truncate -s 16M '{0}' && mkfs.ext4 -q -F -b 4096 -m 0 '{0}'",
                                      image.string()))
          .code == 0);
  if (const auto failed = all.mount_image(image, drive)) {
    MESSAGE("SKIPPED: ", *failed);
    return;
  }
  const swap_case c;
  const auto owner = make_reference_device();
  const auto expected = swap_trainer(*owner, c, {}).train(3);
  const auto filler = drive / "filler";
  heard_notices heard;
  swap_options o;
  o.places = {{drive / "swap"}};
  fs::create_directory(drive / "swap");
  o.look_again = std::chrono::milliseconds(5);
  o.notice = [&](const std::string& text) { heard.add(text); };
  int looks = 0;
  o.waits = [&] {
    if (++looks == 2) fs::remove(filler);
  };
  o.io.piece_bytes = io::disk_block;
  o.io.open_disk = [nth =
                        writes_before(c) + 40](size_t depth) -> result<std::unique_ptr<io::disk>> {
    io::disk_options by_default;
    by_default.depth = depth;
    return std::unique_ptr<io::disk>(std::make_unique<failing_disk>(by_default, nth));
  };
  {
    swap_trainer swapped(*owner, c, std::move(o));
    REQUIRE(swapped.swap().facts().written_bytes > 0);
    {
      const io::unique_fd fd{::open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
      REQUIRE(fd);
      struct statvfs facts {};
      REQUIRE(::fstatvfs(fd.get(), &facts) == 0);
      REQUIRE(::posix_fallocate(fd.get(), 0, static_cast<off_t>(facts.f_bavail * facts.f_frsize)) ==
              0);
    }  // closed, so that its room is free once it is removed
    CHECK(swapped.train(3) == expected);
    swapped.wait();
    CHECK(swapped.failure());
  }
  CHECK(looks >= 2);
  CHECK(heard.with("has no room for another file of") == 1);
  CHECK(heard.with("there is room again") == 1);
}

}  // namespace troupe::gpu

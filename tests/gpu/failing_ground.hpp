// A disk in memory, some of whose writes fail and whose room others take, and what those who swap
// on it tell of that, for tests.
#pragma once

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/disk/faulty_disk.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"

namespace troupe::gpu::testing {

/// What a swapper tells, from its streams' threads.
class heard_notices {
 public:
  void add(const std::string& text) {
    std::lock_guard lock(mutex_);
    all_.push_back(text);
  }
  int with(const std::string& words) const {
    std::lock_guard lock(mutex_);
    int out = 0;
    for (const auto& n : all_) out += n.find(words) != n.npos ? 1 : 0;
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

inline constexpr uint64_t filler_bytes = uint64_t{1} << 20;

/// A disk in memory, whose room others take.
struct failing_ground {
  std::shared_ptr<device> owner = make_reference_device();
  std::shared_ptr<io::crash_store> store;
  io::faulty_options how = {};
  std::shared_ptr<heard_notices> heard = std::make_shared<heard_notices>();

  explicit failing_ground(uint64_t capacity = uint64_t{64} << 20)
      : store(io::crash_store::make(capacity)) {}

  swap_options options() const {
    swap_options o;
    o.places = {{"/swap"}};
    o.look_again = std::chrono::milliseconds(1);
    o.notice = [heard = heard](const std::string& text) { heard->add(text); };
    o.io.piece_bytes = io::disk_block;
    o.io.depth = 3;
    o.io.open_disk = [how = how, store = store](size_t depth) -> result<std::unique_ptr<io::disk>> {
      auto options = how;
      options.depth = depth;
      auto made = std::make_unique<io::faulty_disk>(store, options);
      TROUPE_TRY(there, made->make_dir("/swap"));
      static_cast<void>(there);
      return std::unique_ptr<io::disk>(std::move(made));
    };
    return o;
  }
  /// Takes all but a block of the room that a second file of such a chunk would need.
  void fill() {
    io::faulty_disk other(store, {});
    REQUIRE(other.make_dir("/other"));
    REQUIRE(other.open("/other/filler", {io::open_mode::create, false, filler_bytes}));
  }
  void give_room() const {
    io::faulty_disk other(store, {});
    REQUIRE(other.remove_folder("/other", {io::folder_kind::scratch, {}, {}}));
    store->settle(std::numeric_limits<int64_t>::max());  // what was removed is free by now
  }
  uint64_t bytes_of_files() const {
    std::vector<io::dir_entry> files;
    REQUIRE(store->list("/swap", files) == 0);
    uint64_t bytes = 0;
    for (const auto& f : files) bytes += f.bytes;
    return bytes;
  }
};

inline uint64_t bytes_needed(const swap_case& c) {
  failing_ground ground;
  const swap_trainer swapped(*ground.owner, c, ground.options());
  return ground.bytes_of_files();
}

/// Pieces that a disk writes before the first step.
inline int writes_before(const swap_case& c) {
  failing_ground ground;
  swap_trainer swapped(*ground.owner, c, ground.options());
  return static_cast<int>(swapped.swap().facts().written_bytes / io::disk_block);
}

/// Of two steps that move such state: one of the first step's writes fails, and there is room for
/// another file once it was looked for three times, never, or until the rank ends. `after`: of a
/// run that has failed.
template <class After>
void waits_for_room(const swap_case& c, After after) {
  enum class fate { room_comes, none_comes, rank_ends };
  for (const auto fate : {fate::room_comes, fate::none_comes, fate::rank_ends}) {
    failing_ground ground(bytes_needed(c) + filler_bytes + io::disk_block);
    const auto expected = swap_trainer(*ground.owner, c, {}).train(2);
    ground.how.plan = {{io::fault_site::write, writes_before(c) + 2, io::fault_effect::fail, EIO}};
    auto options = ground.options();
    std::stop_source ending;
    options.ending = ending.get_token();
    if (fate == fate::none_comes) options.patience = std::chrono::milliseconds(20);
    int looks = 0;
    options.waits = [&] {
      ++looks;
      if (fate == fate::rank_ends) ending.request_stop();
      if (fate == fate::room_comes && looks == 3) ground.give_room();
    };
    ground.fill();
    swap_trainer swapped(*ground.owner, c, std::move(options));
    for (int step = 1; step <= 2; ++step) swapped.enqueue_step(step);
    swapped.wait();
    // Of the other the time may be over before it has said so.
    if (fate != fate::none_comes) CHECK(ground.heard->with("has no room for another file of") == 1);
    if (fate == fate::room_comes) {
      CHECK(swapped.failure());
      CHECK(swapped.state() == expected);
      CHECK(looks == 3);
      CHECK(ground.heard->with("there is room again") == 1);
      continue;
    }
    REQUIRE_FALSE(swapped.failure());
    CHECK(swapped.failure().error().code == errc::io);
    CHECK(swapped.failure().error().kind == "ENOSPC");
    after(swapped);
  }
}

}  // namespace troupe::gpu::testing

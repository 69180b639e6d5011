// The disks that every test of the common promises goes through, and small helpers to use one.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/disk/disk.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::io {

inline constexpr std::chrono::seconds long_enough{30};

/// A text without a period that a wrong offset could hide behind.
inline std::string noise(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text(bytes, '\0');
  for (auto& c : text) c = static_cast<char>(random());
  return text;
}

inline std::shared_ptr<slots> test_ring(int count, size_t slot_bytes = 4 * disk_block) {
  slots_options options;
  options.slot_bytes = slot_bytes;
  options.count = count;
  auto ring = slots::make(options);
  REQUIRE(ring);
  return *ring;
}

/// Calls `body` with a disk of each kind and an empty folder on it. io_uring is left out, and said
/// so, where the system refuses it.
inline void each_disk(const std::function<void(disk&, const std::filesystem::path&,
                                               const std::shared_ptr<slots>&)>& body,
                      size_t depth = 4) {
  for (auto backend : {disk_backend::uring, disk_backend::threads}) {
    scratch dir;
    auto ring = test_ring(6);
    disk_options options;
    options.backend = backend;
    options.depth = depth;
    options.ring = ring;
    auto made = open_disk(options);
    if (!made && made.error().code == errc::unavailable) {
      MESSAGE("without io_uring: " << made.error().message);
      continue;
    }
    REQUIRE(made);
    CAPTURE((*made)->facts().backend);
    body(**made, dir.path, ring);
    made->reset();
    CHECK(ring->counts().free == 6);
  }
  auto ring = test_ring(6);
  faulty_options options;
  options.depth = depth;
  {
    faulty_disk faulty(crash_store::make(), options);
    REQUIRE(faulty.make_dir("/t"));
    CAPTURE(faulty.facts().backend);
    body(faulty, "/t", ring);
  }
  CHECK(ring->counts().free == 6);
}

/// A slot whose first `bytes` bytes are `fill`.
inline io_buffer slot_of(const std::shared_ptr<slots>& ring, size_t bytes, char fill) {
  auto lease = ring->try_take();
  REQUIRE(lease);
  std::memset(lease->bytes().data(), fill, bytes);
  return {std::move(*lease), bytes};
}

/// A buffer with a text.
inline io_buffer text_of(std::string_view text) {
  auto buffer = io_buffer::allocate(text.size());
  std::memcpy(buffer.bytes().data(), text.data(), text.size());
  return buffer;
}

inline std::string text_in(const io_buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.bytes().size()};
}

/// The completion of the one operation under way.
inline completion answer_of(disk& d) {
  auto done = d.wait(1, long_enough);
  REQUIRE(done.size() == 1);
  return std::move(done[0]);
}

inline file_id opened(disk& d, const std::filesystem::path& name, open_mode mode,
                      bool direct = false) {
  open_options options;
  options.mode = mode;
  options.direct = direct;
  auto file = d.open(name, options);
  REQUIRE(file);
  return *file;
}

}  // namespace troupe::io

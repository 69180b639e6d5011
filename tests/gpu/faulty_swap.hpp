// A folder to swap in on a disk in memory that is as unsteady as a test wants, for tests.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "gpu/swap/swapper.hpp"
#include "io/disk/crash_store.hpp"
#include "io/disk/faulty_disk.hpp"

namespace troupe::gpu::testing {

inline swap_options on_faulty_disk(io::faulty_options how, size_t piece_bytes = io::disk_block) {
  swap_options o;
  o.places = {{"/swap"}};
  o.io.piece_bytes = piece_bytes;
  o.io.depth = 3;
  o.io.open_disk = [how = std::move(how)](size_t depth) -> result<std::unique_ptr<io::disk>> {
    auto options = how;
    options.depth = depth;
    auto made = std::make_unique<io::faulty_disk>(io::crash_store::make(uint64_t{64} << 20),
                                                  std::move(options));
    TROUPE_TRY(there, made->make_dir("/swap"));
    REQUIRE(there);
    return std::unique_ptr<io::disk>(std::move(made));
  };
  return o;
}

}  // namespace troupe::gpu::testing

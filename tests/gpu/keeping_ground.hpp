// A disk in memory that has swap files and the checkpoints which take them, for tests.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/swap/swapper.hpp"
#include "io/checkpoint/save.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"

namespace troupe::gpu::testing {

using shards = result<std::vector<io::checkpoint::chunk_shard>>;

/// A disk in memory that checkpoints are on, too.
struct keeping_ground {
  std::shared_ptr<device> owner = make_reference_device();
  std::shared_ptr<io::crash_store> store;
  io::faulty_options how = {};

  explicit keeping_ground(uint64_t capacity = uint64_t{64} << 20)
      : store(io::crash_store::make(capacity)) {}

  swap_options options() const {
    swap_options o;
    o.places = {{"/swap", true}};
    o.job = "job";
    o.io.piece_bytes = io::disk_block;
    o.io.depth = 3;
    o.io.open_disk = [*this](size_t depth) -> result<std::unique_ptr<io::disk>> {
      auto options = how;
      options.depth = depth;
      auto made = std::make_unique<io::faulty_disk>(store, options);
      TROUPE_TRY(there, made->make_dir("/swap"));
      REQUIRE(there);
      return std::unique_ptr<io::disk>(std::move(made));
    };
    return o;
  }
};

inline keep_order order_of(uint64_t step, bool last = false) {
  keep_order o;
  o.partial = "/step-" + std::to_string(step);
  o.head.job = "job";
  o.head.step = step;
  o.head.epoch = 1;
  o.last = last;
  return o;
}

inline std::future<shards> keep(swap_trainer& of, keep_order order) {
  auto told = std::make_shared<std::promise<shards>>();
  of.swap().keep(std::move(order), [told](const shards& s) { told->set_value(s); });
  return told->get_future();
}

/// Masters and moments of all chunks as the shards of a step have them, chunk by chunk and part by
/// part, each slot's checksum compared.
inline std::vector<float> state_in(keeping_ground& ground, parameter_store& store, uint64_t step) {
  io::faulty_disk d(ground.store, {});
  std::map<std::pair<std::string, io::checkpoint::part>, std::vector<float>> values;
  for (int c = 0; c < store.chunk_count(); ++c) {
    const auto name = std::filesystem::path("/step-" + std::to_string(step)) /
                      io::checkpoint::shard_name(0, static_cast<uint32_t>(c));
    const auto file = d.open_source(name, io::pages::keep);
    REQUIRE(file);
    std::vector<std::byte> bytes((*file)->size());
    REQUIRE((*file)->read_at(0, bytes));
    const auto end = io::checkpoint::parse_trailer(bytes, bytes.size());
    REQUIRE(end);
    const auto f =
        io::checkpoint::parse_tail(std::span(bytes).subspan(end->footer_offset), bytes.size());
    REQUIRE(f);
    CHECK(f->step == step);
    for (size_t s = 0; s < f->crc32c.size(); ++s)
      CHECK(io::crc32c(std::span(bytes).subspan(s * f->slot_bytes, f->slot_bytes)) == f->crc32c[s]);
    for (const auto& p : f->pieces) {
      auto& into = values[{p.tensor, p.which}];
      into.resize(*io::checkpoint::elements_of(p.shape));
      std::memcpy(into.data() + p.first, bytes.data() + p.stream_offset, p.bytes);
    }
  }
  std::vector<float> out;
  for (int c = 0; c < store.chunk_count(); ++c)
    for (const auto which : {io::checkpoint::part::master, io::checkpoint::part::exp_avg,
                             io::checkpoint::part::exp_avg_sq}) {
      std::vector<float> chunk(static_cast<size_t>(store.slice(c).count));
      for (const auto& t : store.info(c).tensors) {
        const auto& tensor = values.at({t.name, which});
        std::copy(tensor.begin(), tensor.end(), chunk.begin() + t.offset);
      }
      out.insert(out.end(), chunk.begin(), chunk.end());
    }
  return out;
}

/// The state of a run that swaps nothing.
inline std::vector<float> trained_in_memory(device& owner, const swap_case& c, int steps) {
  return swap_trainer(owner, c, {}).train(steps);
}

}  // namespace troupe::gpu::testing

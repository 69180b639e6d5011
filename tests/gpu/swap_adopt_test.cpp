// A file of a checkpoint that becomes a chunk's, where a change of names fails: either all is as
// it was, or the file is the chunk's.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/checkpoint/save.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"

namespace troupe::gpu {
namespace {

namespace fs = std::filesystem;
namespace cp = io::checkpoint;
using testing::swap_case;
using testing::swap_trainer;

/// A run that is to go on from its checkpoint of step 2: one that has made step 4 since and has
/// files of three checkpoints, or one that has just begun and makes its files later.
struct going_back {
  std::shared_ptr<device> owner = make_reference_device();
  std::shared_ptr<io::crash_store> store = io::crash_store::make(uint64_t{64} << 20);
  std::shared_ptr<io::faulty_disk*> disk = std::make_shared<io::faulty_disk*>(nullptr);
  std::vector<cp::chunk_shard> kept;  ///< of step 2
  std::optional<swap_trainer> run;

  explicit going_back(bool begins) {
    run.emplace(*owner, swap_case{}, options(false));
    for (uint64_t step = 1; step <= 3; ++step) {
      run->enqueue_step(static_cast<int64_t>(step));
      auto told = keep(step);
      if (step == 2) kept = std::move(told);
    }
    run->enqueue_step(4);  // by which the files of step 3 have old names
    run->wait();
    if (!begins) return;
    run.reset();
    io::faulty_disk root(store, {});
    for (const auto* folder : {"/swap/next", "/swap/old", "/swap/moved", "/swap"})
      static_cast<void>(root.remove_folder(folder, {io::folder_kind::scratch, {}, {}}));
    swap_case c;
    c.starts = false;
    run.emplace(*owner, c, options(true));
  }

  swap_options options(bool later) const {
    swap_options o;
    o.places = {{"/swap", true}};
    o.job = "job";
    o.old_files = 4;
    o.files_later = later;
    o.io.piece_bytes = io::disk_block;
    o.io.depth = 3;
    o.io.open_disk = [store = store,
                      disk = disk](size_t depth) -> result<std::unique_ptr<io::disk>> {
      io::faulty_options how;
      how.depth = depth;
      auto made = std::make_unique<io::faulty_disk>(store, how);
      TROUPE_TRY(there, made->make_dir("/swap"));
      static_cast<void>(there);
      *disk = made.get();
      return std::unique_ptr<io::disk>(std::move(made));
    };
    return o;
  }
  static fs::path folder_of(uint64_t step) { return "/step-" + std::to_string(step); }
  std::vector<cp::chunk_shard> keep(uint64_t step) {
    keep_order order;
    order.partial = folder_of(step);
    order.head.job = "job";
    order.head.step = step;
    order.head.epoch = 1;
    const auto told = std::make_shared<std::promise<result<std::vector<cp::chunk_shard>>>>();
    run->swap().keep(std::move(order), [told](const auto& s) { told->set_value(s); });
    auto shards = told->get_future().get();
    REQUIRE(shards);
    return *shards;
  }
  bool adopt(const cp::chunk_shard& s) {
    cp::file_entry entry;
    entry.name = cp::shard_name(0, s.chunk);
    entry.bytes = s.bytes;
    entry.stream_bytes = s.stream_bytes;
    entry.crc32c = s.footer_crc;
    return run->swap().adopt(static_cast<int>(s.chunk), folder_of(2) / entry.name, entry);
  }
  /// Which file is under which name, of what the run has and of its checkpoints.
  std::map<fs::path, io::crash_store::node_id> names() const {
    std::map<fs::path, io::crash_store::node_id> out;
    for (const auto* folder :
         {"/swap", "/swap/next", "/swap/old", "/step-1", "/step-2", "/step-3"}) {
      std::vector<io::dir_entry> found;
      static_cast<void>(store->list(folder, found));
      for (const auto& f : found) {
        io::crash_store::node_id node = 0;
        const auto name = fs::path(folder) / f.name;
        if (store->open(name, io::open_mode::read, node) == 0) out.emplace(name, node);
      }
    }
    return out;
  }
  /// Takes what is not taken yet; makes the next steps up to 5.
  std::vector<float> go_on(uint32_t taken) {
    for (const auto& s : kept) {
      if (s.chunk != taken) CHECK(adopt(s));
      run->store().publish_weights(run->compute(), static_cast<int>(s.chunk), 2);
    }
    REQUIRE(run->compute().synchronize());
    const auto awaits = run->swap().awaits_checkpoint();
    REQUIRE(awaits);
    if (*awaits) {  // the others have names of other files
      io::faulty_disk root(store, {});
      REQUIRE(root.remove_folder(folder_of(2), {io::folder_kind::scratch, {}, {}}));
      store->settle(std::numeric_limits<int64_t>::max());
    }
    for (int64_t step = 3; step <= 5; ++step) run->enqueue_step(step);
    run->wait();
    CHECK(run->failure());
    return run->state();
  }
};

}  // namespace

TEST_CASE(
    "SWP-16: where a checkpoint's file cannot have the chunk's name all names are as before") {
  const auto owner = make_reference_device();
  const auto truth = swap_trainer(*owner, {}, {}).train(5);
  constexpr uint32_t none = std::numeric_limits<uint32_t>::max();
  for (const bool begins : {false, true})
    for (const auto site : {io::fault_site::make_dir, io::fault_site::link, io::fault_site::rename,
                            io::fault_site::remove}) {
      int refused = 0;
      for (int nth = 1;; ++nth) {
        CAPTURE(begins);
        CAPTURE(static_cast<int>(site));
        CAPTURE(nth);
        REQUIRE(nth < 100);
        going_back x(begins);
        const auto& shard = x.kept.at(1);
        const auto own = fs::path("/swap") / fmt::format("chunk-{:04}", shard.chunk);
        const auto before = x.names();
        const int made = (*x.disk)->count(site);
        (*x.disk)->plan({site, made + nth});
        const bool taken = x.adopt(shard);
        const bool met = (*x.disk)->count(site) >= made + nth;
        const auto after = x.names();
        const auto wanted = before.at(x.folder_of(2) / cp::shard_name(0, shard.chunk));
        if (taken)
          CHECK(after.at(own) == wanted);
        else
          CHECK(after == before);
        if (!met) {  // no more of them
          CHECK(taken);
          break;
        }
        refused += taken ? 0 : 1;
        CHECK(x.go_on(taken ? shard.chunk : none) == truth);
      }
      // What is removed comes behind the new name.
      CHECK((refused > 0) == (site != io::fault_site::remove));
    }
}

}  // namespace troupe::gpu

// Checkpoints that take a swapper's files by links, with the power cut at every moment: of a run
// that saves each step, whose older checkpoints expire while what is trained goes into files that
// those had; and of one that goes on in its checkpoint's own files. What has a checkpoint's name is
// whole, and what was acknowledged, or a newer one, has the bits of that step.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/retention.hpp"
#include "io/checkpoint/save.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/swap_trainer.hpp"
#include "tests/io/disk/crash_images.hpp"

namespace troupe::gpu {
namespace {

namespace checkpoint = io::checkpoint;
using testing::swap_case;
using testing::swap_trainer;

const std::filesystem::path saved_dir = "/checkpoints";
const checkpoint::origin cut_run{7, {}, {}};

/// A tensor's values of a part.
using saved_values = std::map<std::pair<std::string, checkpoint::part>, std::vector<float>>;

/// A disk in memory whose power goes, and the run on it.
class cut_ground {
 public:
  explicit cut_ground(dtype type) : type_(type) {
    REQUIRE(root_.make_dir(saved_dir));
    REQUIRE(root_.sync_dir("/"));
    swap_trainer memory(*owner_, what(true), {});
    for (int step = 0; step <= most_steps; ++step) {
      if (step > 0) memory.enqueue_step(step);
      REQUIRE(memory.compute().synchronize());
      truth_.push_back(values_of(memory.store()));
    }
  }

  /// `later`: its state comes out of a checkpoint's files.
  swap_trainer& begin(bool later) {
    swap_options o;
    o.places = {{"/swap", true}};
    o.job = "job";
    o.old_files = 2;
    o.files_later = later;
    o.io.piece_bytes = io::disk_block;
    o.io.depth = 3;
    o.io.open_disk = [store = store_](size_t depth) -> result<std::unique_ptr<io::disk>> {
      io::faulty_options how;
      how.depth = depth;
      how.reorder = true;
      auto made = std::make_unique<io::faulty_disk>(store, how);
      TROUPE_TRY(there, made->make_dir("/swap"));
      REQUIRE(there);
      return std::unique_ptr<io::disk>(std::move(made));
    };
    run_.emplace(*owner_, what(!later), std::move(o));
    return *run_;
  }
  /// The run's process ends, and its folder goes.
  void end() {
    run_.reset();
    REQUIRE(root_.remove_folder("/swap", {io::folder_kind::scratch, {}, {}}));
  }

  /// From the links to the acknowledgement.
  void save(uint64_t step, bool last) {
    keep_order order;
    order.partial = saved_dir / checkpoint::partial_name(step, 1);
    order.head = head_of(step);
    order.last = last;
    auto vote = own_share(order);
    std::promise<result<std::vector<checkpoint::chunk_shard>>> told;
    run_->swap().keep(order, [&told](const auto& chunks) { told.set_value(chunks); });
    auto chunks = told.get_future().get();
    REQUIRE_MESSAGE(chunks, (chunks ? std::string() : render(chunks.error())));
    vote.chunks = kept_ = std::move(*chunks);
    const auto done = checkpoint::commit_save(root_, order.partial, order.head, {vote}, {});
    REQUIRE_MESSAGE(done, (done ? std::string() : render(done.error())));
    store_->mark(std::to_string(step));
  }
  void keep_two() {
    checkpoint::retention rules;
    rules.keep_last = 2;
    REQUIRE(checkpoint::caretaker(cut_run, root_).retain(saved_dir, rules));
  }
  /// The run has its state out of the checkpoint saved last, in whose files it goes on.
  void consume(uint64_t step) {
    const auto folder = saved_dir / checkpoint::complete_name(step);
    for (const auto& s : kept_) {
      const auto name = checkpoint::shard_name(0, s.chunk);
      checkpoint::file_entry entry;
      entry.name = name;
      entry.bytes = s.bytes;
      entry.stream_bytes = s.stream_bytes;
      entry.crc32c = s.footer_crc;
      REQUIRE(run_->swap().adopt(static_cast<int>(s.chunk), folder / name, entry));
      run_->store().publish_weights(run_->compute(), static_cast<int>(s.chunk),
                                    static_cast<int64_t>(step));
    }
    REQUIRE(run_->compute().synchronize());
    const auto awaits = run_->swap().awaits_checkpoint();
    REQUIRE(awaits);
    CHECK(*awaits);
    store_->mark("0");  // from here on nothing is promised
    REQUIRE(checkpoint::give_up(root_, folder));
  }

  /// Cuts the power at every moment, and says what is wrong first.
  std::string cut_everywhere(size_t& images_seen) const {
    io::image_limits limits;
    limits.enumerate = 3;
    limits.samples = 6;
    for (size_t point = 0; point <= store_->points(); ++point) {
      const auto marks = store_->marks_before(point);
      const uint64_t promised = marks.empty() ? 0 : std::stoull(marks.back());
      io::crash_images images(store_, point, limits);
      while (const auto image = images.next()) {
        ++images_seen;
        io::faulty_disk d(image, {});
        if (const auto wrong = wrong_with(d, promised); !wrong.empty())
          return fmt::format("before \"{}\", kept: {}; {}", store_->text(point), images.kept(),
                             wrong);
      }
    }
    return {};
  }

  const io::crash_store& store() const { return *store_; }

 private:
  static constexpr int most_steps = 5;

  swap_case what(bool starts) const {
    swap_case c{testing::tiny_gpt2(), type_};
    c.starts = starts;
    return c;
  }

  static checkpoint::manifest_head head_of(uint64_t step) {
    checkpoint::manifest_head h;
    h.job = "job";
    h.step = step;
    h.epoch = 1;
    h.layout = {1, 1, 1};
    h.slot_bytes = io::disk_block;
    h.line = cut_run.at(step);
    return h;
  }

  /// The rank's own shard, which has nothing: all chunks are linked.
  checkpoint::shard_facts own_share(const keep_order& order) {
    io::faulty_disk d(store_, {});
    std::optional<result<checkpoint::shard_facts>> vote;
    auto made = checkpoint::rank_save::create(d, order.partial, order.head, {},
                                              [&](const auto& v) { vote = v; });
    REQUIRE(made);
    while (!vote)
      for (auto& c : d.wait(1, std::chrono::seconds(30))) (*made)->take(c);
    REQUIRE(*vote);
    return **vote;
  }

  static saved_values values_of(parameter_store& store) {
    saved_values out;
    for (int c = 0; c < store.chunk_count(); ++c)
      for (const auto& [which, saved] : {std::pair{part::master, checkpoint::part::master},
                                         {part::m, checkpoint::part::exp_avg},
                                         {part::v, checkpoint::part::exp_avg_sq}}) {
        std::vector<float> all(static_cast<size_t>(store.slice(c).count));
        REQUIRE(store.read(c, which, all.data()));
        for (const auto& t : store.info(c).tensors) {
          const auto from = all.begin() + t.offset;
          out[{t.name, saved}].assign(
              from, from + static_cast<int64_t>(*checkpoint::elements_of(t.shape)));
        }
      }
    return out;
  }

  std::string wrong_with(io::faulty_disk& d, uint64_t promised) const {
    const auto all = checkpoint::list(d, saved_dir);
    if (!all) return promised == 0 ? "" : render(all.error());
    uint64_t newest = 0;
    for (const auto& e : *all) {
      if (e.name.state != checkpoint::folder_state::complete) continue;
      if (const auto whole = checkpoint::verify_all(d, e.path); !whole)
        return e.path.string() + ": " + render(whole.error());
      newest = std::max(newest, e.name.step);
    }
    if (newest < promised) return fmt::format("step {} for {}", newest, promised);
    return newest == 0 ? "" : differs_from_truth(d, newest);
  }

  std::string differs_from_truth(io::faulty_disk& d, uint64_t step) const {
    const auto r = checkpoint::reader::open(d, saved_dir / checkpoint::complete_name(step));
    if (!r) return render(r.error());
    for (const auto& [what, values] : truth_.at(step)) {
      const auto bytes = r->read_tensor(what.first, what.second);
      if (!bytes) return render(bytes.error());
      if (bytes->size() != values.size() * sizeof(float) ||
          std::memcmp(bytes->data(), values.data(), bytes->size()) != 0)
        return fmt::format("{} of step {} is another", what.first, step);
    }
    return {};
  }

  dtype type_;
  std::shared_ptr<device> owner_ = make_reference_device();
  std::shared_ptr<io::crash_store> store_ = io::crash_store::make(uint64_t{64} << 20);
  io::faulty_disk root_{store_, {}};
  std::vector<saved_values> truth_;  ///< by step
  std::optional<swap_trainer> run_;
  std::vector<checkpoint::chunk_shard> kept_;  ///< of the checkpoint saved last
};

}  // namespace

TEST_CASE(
    "SWP-7 SWP-12: a power cut at any moment of a run that saves by links costs no checkpoint") {
  for (const auto type : {dtype::f32, dtype::bf16}) {
    cut_ground ground(type);
    auto& run = ground.begin(false);
    for (int step = 1; step <= 5; ++step) {
      run.enqueue_step(step);
      ground.save(static_cast<uint64_t>(step), step == 5);
      ground.keep_two();
    }
    run.wait();
    CHECK(run.failure());
    size_t images = 0;
    CHECK(ground.cut_everywhere(images) == "");
    CHECK(images > 1000);
    MESSAGE(images << " images of " << ground.store().points() << " points");
  }
}

TEST_CASE("SWP-10: a power cut at any moment finds a checkpoint whole, or given up") {
  cut_ground ground(dtype::f32);
  auto& first = ground.begin(false);
  for (int step = 1; step <= 2; ++step) first.enqueue_step(step);
  ground.save(2, true);
  ground.end();
  auto& run = ground.begin(true);
  ground.consume(2);
  for (int step = 3; step <= 4; ++step) run.enqueue_step(step);
  ground.save(4, false);
  run.enqueue_step(5);
  ground.save(5, true);
  run.wait();
  CHECK(run.failure());
  size_t images = 0;
  CHECK(ground.cut_everywhere(images) == "");
  CHECK(images > 1000);
  MESSAGE(images << " images of " << ground.store().points() << " points");
}

}  // namespace troupe::gpu

// Gradients that leave their frames for the drive, under every pace: several micro-batches add to
// them, updates come behind all of them or with the last; and, against a real disk, what is read of
// one that was not written, or is damaged.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gpu/store/store.hpp"
#include "gpu/swap/chunk_policy.hpp"
#include "gpu/swap/gradient_files.hpp"
#include "gpu/swap/order_watch.hpp"
#include "io/disk/disk.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/chance_machine.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/turn_bit.hpp"

namespace troupe::gpu {
namespace {

/// How one order is drawn: chunks between two that are in frames of their own, as tables are.
struct gradient_draw {
  explicit gradient_draw(unsigned seed) : random(seed) {
    const int count = 2 + pick(4);
    const int frames = 1 + pick(2);
    places.push_back(end());
    for (int c = 0; c < count; ++c) {
      auto p = end();
      p.weight_frame = pick(3) == 0 ? -1 : c % frames;
      p.grad_frame = c % frames;
      p.groups = 1 + pick(3);
      places.push_back(p);
    }
    for (auto& p : places)
      p.grad_on_disk = p.grad_frame >= 0 &&
                       std::count_if(places.begin(), places.end(), [&](const chunk_place& other) {
                         return other.grad_frame == p.grad_frame;
                       }) > 1;
    places.push_back(end());
    slots = 1 + pick(4);
    steps = 1 + pick(3);
    micro_batches = 1 + pick(4);
    holds = pick(2) == 0;
    measured = pick(3) == 0;
    gathers = pick(3) == 0;
  }
  static chunk_place end() {
    chunk_place p;
    p.on_disk = true;
    p.groups = 1;
    return p;
  }
  int pick(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

  std::mt19937 random;
  std::vector<chunk_place> places;
  int slots = 1, steps = 1, micro_batches = 1;
  bool holds = true;  ///< updates come behind backward
  bool measured = false, gathers = false;
};

class trained_with_gradients {
 public:
  explicit trained_with_gradients(unsigned seed)
      : draw_(seed),
        machine_(draw_.random),
        watch_(draw_.places, draw_.slots, machine_, draw_.measured, draw_.gathers) {}

  /// What went wrong first; empty: nothing.
  std::string run() {
    for (int step = 1; step <= draw_.steps && watch_.wrong().empty(); ++step) {
      for (int m = 0; m < draw_.micro_batches; ++m) pass(step, m);
      if (draw_.holds) update_all(step);
      if (draw_.pick(3) == 0) forward(step + 1);  // an evaluation
      while (draw_.pick(3) == 0 && machine_.move()) {
      }
    }
    while (watch_.wrong().empty() && machine_.move()) {
    }
    watch_.check(!machine_.stuck(), "every lane waits");
    if (watch_.wrong().empty()) watch_.check_quiet(draw_.steps);
    if (watch_.wrong().empty()) watch_.check_gradients_taken();
    return watch_.wrong();
  }

 private:
  int chunks() const { return watch_.policy().chunks(); }

  void forward(int step) {
    for (int c = 0; c < chunks(); ++c) watch_.use_weights(c, step);
  }

  void pass(int step, int micro_batch) {
    const bool last = micro_batch + 1 == draw_.micro_batches;
    forward(step);
    for (int c = chunks(); c-- > 0;) {
      watch_.use_weights(c, step);
      const bool updates = last && !draw_.holds;
      // What is held in memory the engine sums by itself.
      const bool sums = last && draw_.gathers && (updates || watch_.gradient_on_disk(c));
      watch_.make_gradient(c, step, micro_batch == 0, last && !sums);
      if (sums) watch_.sum_gradient(c, step);
      if (watch_.gradient_on_disk(c) && !updates) watch_.store_gradient(c, step, last);
      if (updates) watch_.update(c, step, counts::at_once);
      if (c > 0 && draw_.pick(2) == 0) watch_.bring_weights(c - 1);
    }
  }

  void update_all(int step) {
    if (draw_.measured && draw_.gathers)
      for (int c = 0; c < chunks(); ++c) watch_.measure(c, step);
    for (int c = 0; c < chunks(); ++c) watch_.update(c, step, counts::at_once);
  }

  gradient_draw draw_;
  chance_machine machine_;
  order_watch watch_;
};

}  // namespace

TEST_CASE("CHP-13: chunks: gradients go to the drive and back at any pace of lanes") {
  for (unsigned seed = 1; seed <= 50'000; ++seed) {
    const auto wrong = trained_with_gradients(seed).run();
    REQUIRE_MESSAGE(wrong.empty(), "seed ", seed, ": ", wrong);
  }
}

TEST_CASE(
    "CHP-13: chunks: a gradient is read as soon as its frame is its own, if more adds to it") {
  // Layers 1 to 4 in two frames; 0 is a table.
  std::vector<chunk_place> places(5);
  for (int c = 0; c < 5; ++c) {
    auto& p = places[static_cast<size_t>(c)];
    p.on_disk = true;
    p.groups = 2;
    if (c > 0) p.grad_frame = c % 2;
    p.grad_on_disk = c > 0;
  }
  chunk_policy policy(places, 3);
  const auto reads = [](const chunk_policy::ops& ops) {
    std::vector<int> out;
    for (const auto& op : ops)
      if (op.what == chunk_act::read_gradient) out.push_back(op.chunk);
    return out;
  };
  const auto pass = [&](bool last, bool is_first) {
    std::vector<std::vector<int>> out;
    for (int c = 4; c > 0; --c) {
      CHECK(reads(policy.fetch_gradient(c)).empty());  // it was on its way before
      out.push_back(reads(policy.store_gradient(c, last)));
    }
    CHECK(out[0] == (is_first ? std::vector<int>{} : std::vector{2}));  // whose frame it leaves
    CHECK(out[1] == (is_first ? std::vector<int>{} : std::vector{1}));
    CHECK(out[2] == (last ? std::vector<int>{} : std::vector{4}));  // for the next micro-batch
    CHECK(out[3] == (last ? std::vector<int>{} : std::vector{3}));
  };
  for (int step = 0; step < 2; ++step) {
    pass(false, true);
    pass(false, false);
    pass(true, false);
    for (int c = 0; c < 5; ++c)
      for (const auto& op : policy.update(c, counts::at_once))
        if (op.what == chunk_act::read_state) CHECK(op.passes == (c > 0 ? 3 : 0));
  }
}

namespace {

/// One chunk's gradient in a file, and memory for it.
class stored_gradient {
 public:
  stored_gradient(const std::filesystem::path& file, int replica, int replicas, bool verify = true)
      : slice(slice_of(elements, {replica, replicas})),
        state(slice.part, 2048, io::chunk_weights::masters),
        layout(slice, state) {
    auto made = io::swap_io::make({});
    REQUIRE(made);
    io = std::move(*made);
    files.emplace(io, verify, 4);
    REQUIRE(files->make(3, {file}, layout));
    auto frame = io::io_buffer::make(frame_size(static_cast<size_t>(slice.whole) * sizeof(float)));
    REQUIRE(frame);
    memory = std::make_shared<io::io_buffer>(std::move(*frame));
    fill(0);
  }
  void fill(int salt) {
    auto bytes = memory->bytes();
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>((i * 31 + static_cast<size_t>(salt)) % 251);
  }
  std::vector<std::byte> bytes() const {
    const auto all = memory->bytes();
    return {all.begin(), all.end()};
  }
  status write(int passes, bool whole) {
    return write(passes, whole, [this](placed_file& file, io::swap_io::range what) {
      what.file = file.id;
      return io->write({&what, 1}, memory);
    });
  }
  status write(int passes, bool whole, const gradient_files::put& to) {
    return files->write(3, {passes, whole}, memory->bytes(), to);
  }
  status read(int passes) { return files->read(3, {passes, false}, memory->bytes(), memory); }
  /// As an update does.
  status read_group(int passes, int group) {
    TROUPE_TRY(one, files->group(3, {passes, true}, group, memory->bytes().data()));
    TROUPE_CHECK(io->read({&one, 1}, memory));
    return files->check(3, group, one.memory);
  }

  static constexpr int64_t elements = 5000;
  chunk_slice slice;
  io::chunk_file state;
  gradient_file layout;
  std::shared_ptr<io::swap_io> io;
  std::optional<gradient_files> files;
  std::shared_ptr<io::io_buffer> memory;
};

}  // namespace

TEST_CASE("GRF-1: a gradient that was not written is not read, and is named by its micro-batch") {
  scratch dir;
  stored_gradient g(dir / "gradients", 0, 1);
  const auto is_missing = [&](const status& s, int passes, int there) {
    REQUIRE_FALSE(s);
    CHECK(is_error(s.error(), gradient_not_written, 3, passes, there));
  };
  is_missing(g.read(1), 1, 0);
  is_missing(g.read_group(1, 0), 1, 0);
  REQUIRE(g.write(1, false));
  const auto first = g.bytes();
  is_missing(g.read(2), 2, 1);
  is_missing(g.read_group(1, 0), 1, 1);  // which is not the last micro-batch's
  g.fill(1);
  REQUIRE(g.read(1));
  CHECK(g.bytes() == first);
  g.fill(2);
  REQUIRE(g.write(2, true));
  is_missing(g.read(1), 1, 2);
  for (int group = 0; group < g.state.groups(); ++group) CHECK(g.read_group(2, group));
}

TEST_CASE("GRF-3: a gradient that could not be written is none, and goes into another file") {
  for (const bool whole : {false, true}) {
    scratch dir;
    stored_gradient g(dir / "gradients", 0, 1);
    REQUIRE(g.write(1, false));
    const error why{errc::io, "no write"};
    const auto failed =
        g.write(2, whole, [&](placed_file&, const io::swap_io::range&) -> status { return why; });
    REQUIRE_FALSE(failed);
    CHECK(failed.error().message == why.message);
    CHECK(is_error(g.read(1).error(), gradient_not_written, 3, 1, 0));  // it may be overwritten
    const auto second = g.bytes();
    const auto other = dir / "other";
    REQUIRE(g.write(2, whole, [&](placed_file& file, io::swap_io::range what) -> status {
      CHECK(file.name == dir / "gradients");
      TROUPE_TRY(made, g.io->create(other, g.layout.file_bytes()));
      file = {other, made, 1};
      what.file = made;
      return g.io->write({&what, 1}, g.memory);
    }));
    g.fill(3);
    if (whole) {
      for (int group = 0; group < g.state.groups(); ++group) CHECK(g.read_group(2, group));
    } else {
      REQUIRE(g.read(2));
      CHECK(g.bytes() == second);
    }
    REQUIRE(g.write(1, false));  // what comes next is there, too
    turn_bit(other, 77);
    CHECK(is_error(g.read(1).error(), gradient_damaged, 3, 1));
  }
}

TEST_CASE("GRF-2: a byte of a gradient that changed on the drive is found, and its chunk named") {
  for (const int replicas : {1, 2})
    for (const bool whole : {false, true})
      for (const bool verify : {true, false}) {
        CAPTURE(replicas);
        CAPTURE(whole);
        scratch dir;
        stored_gradient g(dir / "gradients", replicas - 1, replicas, verify);
        REQUIRE(g.write(2, whole));
        turn_bit(dir / "gradients",
                 static_cast<std::streamoff>(whole ? g.layout.slice_offset() : 0) + 77);
        const auto read = whole ? g.read_group(2, 0) : g.read(2);
        CHECK(static_cast<bool>(read) == !verify);
        if (!read) CHECK(is_error(read.error(), gradient_damaged, 3, 2));
        REQUIRE(g.state.groups() > 1);
        if (whole) CHECK(g.read_group(2, g.state.groups() - 1));
      }
}

}  // namespace troupe::gpu

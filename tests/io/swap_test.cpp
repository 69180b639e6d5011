// Swap files: where arrays lie in them, and that calls from several threads move every byte or say
// why not, whatever the disk does.
#include "io/swap/swap_io.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "io/disk/faulty_disk.hpp"
#include "io/disk/thread_disk.hpp"
#include "io/swap/chunk_shard.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::io {
namespace {

using range = swap_io::range;

/// Memory whose place and length suit a disk.
struct swap_block {
  explicit swap_block(size_t bytes)
      : memory(std::make_shared<io_buffer>(io_buffer::allocate(bytes))) {}
  std::span<std::byte> bytes() const { return memory->bytes(); }
  void fill(unsigned seed) const {
    for (size_t i = 0; i < bytes().size(); ++i)
      bytes()[i] = static_cast<std::byte>((i * 7 + i / 251 + seed) % 256);
  }
  std::shared_ptr<io_buffer> memory;
};

bool same_bytes(const swap_block& a, const swap_block& b) {
  return std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

std::unique_ptr<swap_io> swap_over(faulty_options how, size_t depth = 4) {
  swap_io_options o;
  o.piece_bytes = disk_block;
  o.depth = depth;
  o.open_disk = [how](size_t d) -> result<std::unique_ptr<disk>> {
    auto options = how;
    options.depth = d;
    auto store = crash_store::make(uint64_t{64} << 20);
    auto made = std::make_unique<faulty_disk>(store, options);
    TROUPE_TRY(there, made->make_dir("/swap"));
    REQUIRE(there);
    return std::unique_ptr<disk>(std::move(made));
  };
  auto out = swap_io::make(std::move(o));
  REQUIRE(out);
  return std::move(*out);
}

/// The real disk, which notes whether it ever had reads and writes at once, and where it was read.
class watched_disk final : public thread_disk {
 public:
  watched_disk(size_t depth, bool& mixed, std::vector<uint64_t>* read_at = nullptr)
      : thread_disk(with_depth(depth), ""), mixed_(mixed), read_at_(read_at) {}

 protected:
  void raw_submit(const raw_request& request) override {
    under_way_[request.id] = request.op;
    if (read_at_ != nullptr && request.op == disk_op::read) read_at_->push_back(request.offset);
    bool reads = false, writes = false;
    for (const auto& [id, op] : under_way_) {
      reads = reads || op == disk_op::read;
      writes = writes || op == disk_op::write;
    }
    mixed_ = mixed_ || (reads && writes);
    thread_disk::raw_submit(request);
  }
  bool raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) override {
    const auto first = answers.size();
    const bool woken = thread_disk::raw_reap(block, until, answers);
    for (size_t i = first; i < answers.size(); ++i) under_way_.erase(answers[i].id);
    return woken;
  }

 private:
  static disk_options with_depth(size_t depth) {
    disk_options out;
    out.depth = depth;
    return out;
  }

  std::map<uint64_t, disk_op> under_way_;
  bool& mixed_;
  std::vector<uint64_t>* read_at_;  ///< of the disk's thread
};

}  // namespace

TEST_CASE("CHF-1 CHF-2: arrays are whole blocks, equally long, and cover all elements") {
  for (const int64_t elements : {1, 5, 2047, 2048, 2049, 100'000, 1'234'567})
    for (const int64_t most : {1, 2048, 5000, 1 << 20})
      for (const auto weights :
           {chunk_weights::masters, chunk_weights::stored, chunk_weights::derived}) {
        const chunk_file f(elements, most, weights);
        CAPTURE(elements);
        CAPTURE(most);
        int64_t next = 0;
        uint64_t end = 0, weights_end = 0;
        CHECK(f.array_bytes() % disk_block == 0);
        CHECK(f.weights_array_bytes() % disk_block == 0);
        for (int g = 0; g < f.groups(); ++g) {
          CHECK(f.first(g) == next);
          CHECK(f.count(g) > 0);
          CHECK(f.group_offset(g) == end);
          for (const auto p : {state_part::master, state_part::exp_avg, state_part::exp_avg_sq}) {
            CHECK(f.offset(g, p) == end);
            end += f.array_bytes();
          }
          CHECK(f.array_bytes() >= static_cast<uint64_t>(f.count(g)) * 4);
          CHECK(f.used_bytes(g, 4) <= f.array_bytes());
          CHECK(f.used_bytes(g, 4) - static_cast<uint64_t>(f.count(g)) * 4 < disk_block);
          CHECK(f.weights_offset(g) == weights_end);
          weights_end += f.weights_array_bytes();
          next += f.count(g);
        }
        CHECK(next == elements);
        CHECK(f.state_bytes() == end);
        CHECK(f.all_weights_bytes() == weights_end);
        CHECK((weights_end > 0) == (weights == chunk_weights::stored));
        const bool others = weights != chunk_weights::masters;
        CHECK(f.rounded_array_bytes() == (others ? f.array_bytes() / 2 : 0));
        const auto zeros = f.groups() * f.group_elements() - elements;
        CHECK(zeros < f.groups() * group_grain);
      }
}

TEST_CASE("CHF-4: a chunk's file is a shard whose pieces are its tensors, each element once") {
  checkpoint::plan_chunk chunk;
  chunk.name = "layer.3";
  chunk.tensors = {{"a", {70, 50}, true, 0}, {"b", {13}, false, 3504}, {"c", {4000}, false, 3520}};
  checkpoint::manifest_head head;
  head.job = "job";
  head.step = 7;
  head.epoch = 2;
  for (const int64_t most : {2048, 4096, 1 << 20}) {
    const chunk_file layout(7536, most, chunk_weights::stored);
    CAPTURE(most);
    std::vector<group_sums> sums(static_cast<size_t>(layout.groups()));
    for (size_t g = 0; g < sums.size(); ++g)
      for (size_t p = 0; p < state_parts; ++p) sums[g][p] = static_cast<uint32_t>(10 * g + p);
    const auto footer = chunk_footer(layout, chunk, 0, head, 0, sums);
    REQUIRE(checkpoint::check(footer));
    CHECK(footer.slot_bytes == layout.array_bytes());
    if (layout.groups() > 1) CHECK(footer.crc32c[3] == 10u);
    for (const auto& t : chunk.tensors)
      for (const auto which :
           {checkpoint::part::master, checkpoint::part::exp_avg, checkpoint::part::exp_avg_sq}) {
        uint64_t next = 0;
        for (const auto& p : footer.pieces) {
          if (p.tensor != t.name || p.which != which) continue;
          CHECK(p.first == next);
          next += p.count;
          const auto element = static_cast<int64_t>(t.offset + p.first);
          const auto group = static_cast<int>(element / layout.group_elements());
          CHECK(p.stream_offset == layout.offset(group, static_cast<state_part>(which)) +
                                       static_cast<uint64_t>(element - layout.first(group)) * 4);
        }
        CHECK(next == *checkpoint::elements_of(t.shape));
      }
    // Its end is as long as the room that is kept for it, whatever its numbers are.
    const auto tail = checkpoint::encode_tail(footer);
    const auto room = chunk_tail_bytes(layout, chunk, 0, "job");
    REQUIRE(tail);
    REQUIRE(room);
    CHECK(*room == tail->bytes.size());
    CHECK(tail->offset == layout.state_bytes());
    const auto parsed = checkpoint::parse_tail(tail->bytes, tail->file_bytes);
    REQUIRE(parsed);
    CHECK(*parsed == footer);
  }
}

TEST_CASE("a file that was synced has another name, and a name another file") {
  faulty_options how;
  auto swap = swap_over(how);
  const auto one = swap->create("/swap/one", disk_block);
  const auto two = swap->create("/swap/two", disk_block);
  REQUIRE(one);
  REQUIRE(two);
  const swap_block out(disk_block), in(disk_block);
  out.fill(1);
  const range all{*one, 0, out.bytes()};
  REQUIRE(swap->write({&all, 1}, out.memory));
  REQUIRE(swap->sync(*one));
  REQUIRE(swap->change([](disk& d) { return d.link("/swap/one", "/swap/kept"); }));
  CHECK_FALSE(swap->change([](disk& d) { return d.link("/swap/one", "/swap/kept"); }));
  REQUIRE(swap->change([](disk& d) { return d.rename("/swap/two", "/swap/one"); }));
  file_id kept = file_id::none;
  REQUIRE(swap->change([&](disk& d) -> status {
    TROUPE_TRY(opened, d.open("/swap/kept", {}));
    kept = opened;
    return {};
  }));
  const range back{kept, 0, in.bytes()};
  REQUIRE(swap->read({&back, 1}, in.memory));
  CHECK(same_bytes(in, out));
}

TEST_CASE("SWI-3: a file whose sync failed is dead, and the call says so") {
  faulty_options how;
  how.plan = {{fault_site::fdatasync, 1, fault_effect::fail, EIO}};
  auto swap = swap_over(how);
  const auto one = swap->create("/swap/one", disk_block);
  REQUIRE(one);
  const swap_block out(disk_block);
  const range all{*one, 0, out.bytes()};
  REQUIRE(swap->write({&all, 1}, out.memory));
  CHECK_FALSE(swap->sync(*one));
  CHECK_FALSE(swap->sync(*one));
  CHECK_FALSE(swap->write({&all, 1}, out.memory));
}

TEST_CASE("SWI-1: every byte comes back, whatever the disk's order and however little it moves") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    faulty_options how;
    how.seed = seed;
    how.reorder = true;
    how.short_move = 0.3;
    how.interrupted = 0.1;
    auto swap = swap_over(how, 1 + seed % 5);
    const auto file = swap->create("/swap/a", 40 * disk_block);
    REQUIRE(file);
    const swap_block out(24 * disk_block), in(24 * disk_block), other(8 * disk_block);
    out.fill(seed);
    // In two ranges, out of order.
    const range parts[] = {{*file, 16 * disk_block, out.bytes().subspan(0, 20 * disk_block)},
                           {*file, 2 * disk_block, out.bytes().subspan(20 * disk_block)}};
    REQUIRE(swap->write(parts, out.memory));
    const range back[] = {{*file, 2 * disk_block, in.bytes().subspan(20 * disk_block)},
                          {*file, 16 * disk_block, in.bytes().subspan(0, 20 * disk_block)}};
    REQUIRE(swap->read(back, in.memory));
    CHECK(same_bytes(in, out));
    // What was reserved and not written reads as zeros.
    const range zeros{*file, 6 * disk_block, other.bytes()};
    REQUIRE(swap->read({&zeros, 1}, other.memory));
    CHECK(std::all_of(other.bytes().begin(), other.bytes().end(),
                      [](std::byte b) { return b == std::byte{0}; }));
    CHECK(swap->facts().written_bytes == 24 * disk_block);
    CHECK(swap->facts().read_bytes == 32 * disk_block);
  }
}

namespace {

constexpr size_t moving_threads = 4;
constexpr int moving_rounds = 8;

swap_io_options watched(bool& mixed) {
  swap_io_options o;
  o.piece_bytes = 16 * disk_block;
  o.open_disk = [&mixed](size_t depth) -> result<std::unique_ptr<disk>> {
    return std::unique_ptr<disk>(std::make_unique<watched_disk>(depth, mixed));
  };
  return o;
}

/// Threads that write and read files of their own; how often what came back was right.
int moved_by_threads(swap_io& swap, const scratch& dir, const std::string& name,
                     const std::function<void()>& meanwhile = {}) {
  constexpr size_t bytes = size_t{1} << 20;
  std::atomic<int> sound{0};
  std::atomic<size_t> over{0};
  std::vector<std::thread> all;
  for (size_t t = 0; t < moving_threads; ++t) {
    const auto file = swap.create(dir / (name + std::to_string(t)), bytes);
    REQUIRE(file);
    all.emplace_back([&swap, &sound, &over, t, file = *file] {
      const swap_block out(bytes), in(bytes);
      for (int round = 0; round < moving_rounds; ++round) {
        out.fill(static_cast<unsigned>(t) * 100 + static_cast<unsigned>(round));
        const range to{file, 0, out.bytes()}, from{file, 0, in.bytes()};
        if (swap.write({&to, 1}, out.memory) && swap.read({&from, 1}, in.memory) &&
            same_bytes(in, out))
          ++sound;
      }
      ++over;
    });
  }
  while (meanwhile && over < moving_threads) meanwhile();
  for (auto& t : all) t.join();
  return sound;
}

constexpr int all_sound = static_cast<int>(moving_threads) * moving_rounds;

}  // namespace

TEST_CASE("SWI-5: where they take turns the disk has never reads and writes at once, and all end") {
  scratch dir;
  bool mixed = false;
  auto o = watched(mixed);
  o.mixes = false;
  {
    auto made = swap_io::make(std::move(o));
    REQUIRE(made);
    CHECK(moved_by_threads(**made, dir, "f") == all_sound);
  }
  CHECK_FALSE(mixed);
}

TEST_CASE("SWI-5: what is asked for behind a change to turns waits for what the disk has") {
  scratch dir;
  bool mixed = false;
  {
    auto made = swap_io::make(watched(mixed));
    REQUIRE(made);
    auto& swap = **made;
    constexpr size_t bytes = size_t{4} << 20;
    const auto file = swap.create(dir / "f", bytes);
    REQUIRE(file);
    const swap_block out(bytes), in(disk_block);
    for (int round = 0; round < 20; ++round) {
      swap.set_mixes(true);
      std::thread writes([&] {
        const range to{*file, 0, out.bytes()};
        CHECK(swap.write({&to, 1}, out.memory));
      });
      while (swap.facts().under_way == 0 && swap.facts().written_bytes < bytes * (round + 1u))
        std::this_thread::yield();
      swap.set_mixes(false);
      const range from{*file, 0, in.bytes()};
      CHECK(swap.read({&from, 1}, in.memory));
      writes.join();
    }
  }
  CHECK_FALSE(mixed);
}

TEST_CASE("SWI-5: turns that are asked for later are kept from then on, and all end meanwhile") {
  scratch dir;
  bool mixed = false;
  {
    auto made = swap_io::make(watched(mixed));
    REQUIRE(made);
    auto& swap = **made;
    bool mixes = true;
    CHECK(moved_by_threads(swap, dir, "changes", [&] { swap.set_mixes(mixes = !mixes); }) ==
          all_sound);
    swap.set_mixes(false);
    REQUIRE(swap.change([&](disk&) -> status {  // on the disk's own thread
      mixed = false;
      return {};
    }));
    CHECK(moved_by_threads(swap, dir, "turns") == all_sound);
  }
  CHECK_FALSE(mixed);
}

TEST_CASE("SWI-6: what was begun first in a line is read first, and others move beside it") {
  scratch dir;
  constexpr size_t blocks = 16, bytes = blocks * disk_block;
  bool mixed = false;
  std::vector<uint64_t> read_at;
  {
    swap_io_options o;
    o.piece_bytes = disk_block;
    o.depth = 3;
    o.open_disk = [&](size_t depth) -> result<std::unique_ptr<disk>> {
      return std::unique_ptr<disk>(std::make_unique<watched_disk>(depth, mixed, &read_at));
    };
    auto made = swap_io::make(std::move(o));
    REQUIRE(made);
    auto& swap = **made;
    const auto file = swap.create(dir / "f", 3 * bytes);
    REQUIRE(file);
    const swap_block out(3 * bytes);
    out.fill(1);
    const range to{*file, 0, out.bytes()};
    REQUIRE(swap.write({&to, 1}, out.memory));
    const swap_block first(bytes), second(bytes), other(bytes);
    const auto begin = [&](const swap_block& into, uint64_t at, uint64_t line) {
      const range from{*file, at * bytes, into.bytes()};
      auto begun = swap.begin_read({&from, 1}, into.memory, line);
      REQUIRE(begun);
      return *begun;
    };
    const auto one = begin(first, 2, 1), two = begin(second, 0, 1), beside = begin(other, 1, 2);
    CHECK(swap.finish(two));
    CHECK(swap.finish(beside));
    CHECK(swap.finish(one));
    for (const auto& [in, at] : {std::pair(&first, 2), {&second, 0}, {&other, 1}})
      CHECK(std::memcmp(in->bytes().data(), out.bytes().data() + static_cast<size_t>(at) * bytes,
                        bytes) == 0);
    // One that nobody finishes has its memory as long as the disk does.
    static_cast<void>(begin(first, 0, 1));
  }
  read_at.resize(3 * blocks);
  const auto of = [&](uint64_t at) {  // when its first and its last block were asked for
    const auto is_its = [&](uint64_t offset) { return offset / bytes == at; };
    const auto begin = std::find_if(read_at.begin(), read_at.end(), is_its);
    const auto end = std::find_if(read_at.rbegin(), read_at.rend(), is_its);
    return std::pair(begin - read_at.begin(), read_at.rend() - end);
  };
  CHECK(of(2).second <= of(0).first);
}

TEST_CASE("several threads' calls go on beside each other, on the real disk") {
  scratch dir;
  auto made = swap_io::make({});
  REQUIRE(made);
  auto& swap = **made;
  constexpr size_t threads = 4, bytes = size_t{5} << 20;
  std::vector<file_id> files;
  for (size_t t = 0; t < threads; ++t) {
    auto file = swap.create(dir / ("f" + std::to_string(t)), bytes);
    REQUIRE(file);
    files.push_back(*file);
  }
  std::atomic<int> sound{0};
  std::vector<std::thread> all;
  for (size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      const swap_block out(bytes), in(bytes);
      for (unsigned round = 0; round < 5; ++round) {
        out.fill(static_cast<unsigned>(t) * 100 + round);
        const range to{files[t], 0, out.bytes()}, from{files[t], 0, in.bytes()};
        if (swap.write({&to, 1}, out.memory) && swap.read({&from, 1}, in.memory) &&
            same_bytes(in, out))
          ++sound;
      }
    });
  for (auto& t : all) t.join();
  CHECK(sound == threads * 5);
  CHECK(swap.facts().written_bytes == threads * bytes * 5);
}

TEST_CASE("SWI-1 SWI-3: an error is told, and a file whose write failed is dead") {
  faulty_options how;
  how.plan = {{fault_site::read, 3, fault_effect::fail, EIO},
              {fault_site::write, 9, fault_effect::fail, ENOSPC}};
  auto swap = swap_over(how);
  const auto file = swap->create("/swap/a", 8 * disk_block);
  const auto other = swap->create("/swap/b", 8 * disk_block);
  REQUIRE(file);
  REQUIRE(other);
  const swap_block some(8 * disk_block);
  const range all{*file, 0, some.bytes()}, there{*other, 0, some.bytes()};
  REQUIRE(swap->write({&all, 1}, some.memory));
  const auto read = swap->read({&all, 1}, some.memory);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::io);
  CHECK(swap->read({&all, 1}, some.memory));  // a read that fails has broken nothing
  const auto written = swap->write({&all, 1}, some.memory);
  REQUIRE_FALSE(written);
  CHECK_FALSE(swap->write({&all, 1}, some.memory));
  CHECK(swap->write({&there, 1}, some.memory));  // another file goes on
}

TEST_CASE("a change of names that was given up is never made, one that was begun is waited for") {
  swap_io_options o;
  o.patience = std::chrono::milliseconds(20);
  const auto made = swap_io::make(o);
  REQUIRE(made);
  auto& files = **made;
  std::promise<void> begun, may_end;
  status first;
  std::thread slow([&] {
    first = files.change([&](disk&) -> status {
      begun.set_value();
      may_end.get_future().wait();
      return {};
    });
  });
  begun.get_future().wait();
  bool called = false;
  const auto second = files.change([&](disk&) -> status {
    called = true;
    return {};
  });
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::timeout);
  may_end.set_value();
  slow.join();
  CHECK(first);  // it has been waited for as long as the second, and longer
  CHECK(files.change([](disk&) { return status(); }));
  CHECK_FALSE(called);
}

TEST_CASE("a file that is there is not taken over, and a call that is never answered ends") {
  faulty_options how;
  how.plan = {{fault_site::write, 1, fault_effect::lose}};
  swap_io_options o;
  o.patience = std::chrono::milliseconds(20);
  auto store = crash_store::make(uint64_t{64} << 20);
  o.open_disk = [how, store](size_t) -> result<std::unique_ptr<disk>> {
    auto made = std::make_unique<faulty_disk>(store, how);
    TROUPE_TRY(there, made->make_dir("/swap"));
    REQUIRE(there);
    return std::unique_ptr<disk>(std::move(made));
  };
  auto made = swap_io::make(std::move(o));
  REQUIRE(made);
  // So short a patience may be over before the thread of the disk has had the processor.
  auto file = (*made)->create("/swap/a", disk_block);
  while (!file && file.error().code == errc::timeout) file = (*made)->create("/swap/a", disk_block);
  REQUIRE(file);
  CHECK_FALSE((*made)->create("/swap/a", disk_block));
  const swap_block some(disk_block);
  const range all{*file, 0, some.bytes()};
  do {
    const auto lost = (*made)->write({&all, 1}, some.memory);
    REQUIRE_FALSE(lost);
    REQUIRE(lost.error().code == errc::timeout);
  } while ((*made)->facts().under_way == 0);
  const std::weak_ptr<io_buffer> memory = some.memory;
  CHECK(memory.use_count() > 1);  // SWI-2: kept for the disk
}

}  // namespace troupe::io

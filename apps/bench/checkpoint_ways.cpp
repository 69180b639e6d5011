// Rivals and ours behind one interface.
#include "apps/bench/checkpoint_ways.hpp"

#include <array>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "gpu/model/state_saver.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/save.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::ckpt_bench {

namespace cp = io::checkpoint;
namespace fs = std::filesystem;

namespace {

constexpr size_t write_bytes = 8 << 20;   ///< of one system call; looked at `stop` between them
constexpr size_t piece_bytes = 64 << 20;  ///< of the chunked way
constexpr int chunk_threads = 4;          ///< TorchSnapshot's

/// A new file, written through the page cache.
class new_file {
 public:
  static result<std::shared_ptr<new_file>> create(const fs::path& name,
                                                  const std::atomic<bool>& stop) {
    io::unique_fd fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd) return error::system(fmt::format("create {}", name.string()), errno);
    return std::make_shared<new_file>(std::move(fd), stop);
  }
  new_file(io::unique_fd fd, const std::atomic<bool>& stop) : fd_(std::move(fd)), stop_(stop) {}

  status write(std::span<const std::byte> bytes, uint64_t offset) {
    while (!bytes.empty()) {
      if (stop_) return error{errc::cancelled, "interrupted"};
      const auto part = bytes.first(std::min(bytes.size(), write_bytes));
      const auto n = ::pwrite(fd_.get(), part.data(), part.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return error::system("write a checkpoint", errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return {};
  }
  status sync() {
    if (::fsync(fd_.get()) != 0) return error::system("fsync a checkpoint", errno);
    return {};
  }

 private:
  io::unique_fd fd_;
  const std::atomic<bool>& stop_;
};

/// Training stands still while everything is written.
class synchronous final : public way {
 public:
  using way::way;
  status checkpoint(uint64_t step) override {
    const auto asked = clock::now();
    const auto name = file_of(step);
    TROUPE_TRY(file, new_file::create(name, around_.stop));
    uint64_t at = 0;
    for (const auto& r : around_.trainer.regions()) {
      TROUPE_CHECK(file->write(r, at));
      at += r.size();
    }
    TROUPE_CHECK(file->sync());
    finished(asked, name);
    return {};
  }
  status drain() override { return {}; }
};

/// CheckFreq-like: training stands still while everything is copied into new memory (and until the
/// flush before is done); the flush runs beside it.
class copy_then_flush final : public way {
 public:
  using way::way;
  status checkpoint(uint64_t step) override {
    const auto asked = clock::now();
    TROUPE_CHECK(flush_.wait());
    const auto regions = around_.trainer.regions();
    size_t bytes = 0;
    for (const auto& r : regions) bytes += r.size();
    auto copy = std::shared_ptr<std::byte[]>(new std::byte[bytes]);
    size_t at = 0;
    for (const auto& r : regions) {
      std::memcpy(copy.get() + at, r.data(), r.size());
      at += r.size();
    }
    flush_.post([this, asked, copy, bytes, name = file_of(step)]() -> status {
      TROUPE_TRY(file, new_file::create(name, around_.stop));
      TROUPE_CHECK(file->write({copy.get(), bytes}, 0));
      TROUPE_CHECK(file->sync());
      finished(asked, name);
      return {};
    });
    return {};
  }
  status drain() override { return flush_.wait(); }

 private:
  worker_pool flush_{1};
};

/// TorchSnapshot-like: pieces are staged, then written, by four threads; training stands still
/// until all are staged (and until the checkpoint before is written). Its memory budget holds
/// everything, so staging never waits for writes.
class chunked final : public way {
 public:
  using way::way;
  status checkpoint(uint64_t step) override {
    const auto asked = clock::now();
    TROUPE_CHECK(workers_.wait());
    const auto name = file_of(step);
    TROUPE_TRY(file, new_file::create(name, around_.stop));
    auto pieces = std::make_shared<std::vector<piece>>(cut());
    for (size_t i = 0; i < pieces->size(); ++i)
      workers_.post([pieces, i]() -> status {
        auto& p = (*pieces)[i];
        p.staged.reset(new std::byte[p.from.size()]);
        std::memcpy(p.staged.get(), p.from.data(), p.from.size());
        return {};
      });
    TROUPE_CHECK(workers_.wait());
    auto left = std::make_shared<std::atomic<size_t>>(pieces->size());
    for (size_t i = 0; i < pieces->size(); ++i)
      workers_.post([this, pieces, i, left, file, name, asked]() -> status {
        auto& p = (*pieces)[i];
        TROUPE_CHECK(file->write({p.staged.get(), p.from.size()}, p.offset));
        p.staged.reset();
        if (--*left > 0) return {};
        if (syncs_) TROUPE_CHECK(file->sync());
        finished(asked, name);
        return {};
      });
    return {};
  }
  status drain() override { return workers_.wait(); }

 private:
  struct piece {
    std::span<const std::byte> from;
    uint64_t offset = 0;
    std::unique_ptr<std::byte[]> staged;
  };
  std::vector<piece> cut() const {
    std::vector<piece> out;
    uint64_t offset = 0;
    for (auto r : around_.trainer.regions())
      while (!r.empty()) {
        const auto n = std::min(r.size(), piece_bytes);
        out.push_back({r.first(n), offset, nullptr});
        r = r.subspan(n);
        offset += n;
      }
    return out;
  }
  worker_pool workers_{chunk_threads};
};

/// DataStates as published: lazy copies through a ring while training goes on, one wait for all of
/// them before the update, and files that nobody syncs.
class copy_wait final : public way {
 public:
  copy_wait(surroundings around, std::shared_ptr<io::slots> ring)
      : way(std::move(around), false), ring_(std::move(ring)) {}
  ~copy_wait() override { ending_ = true; }

  status before_update() override { return copies_.wait(); }
  status checkpoint(uint64_t step) override {
    const auto asked = clock::now();
    const auto name = file_of(step);
    TROUPE_TRY(file, new_file::create(name, around_.stop));
    copies_.post([this, asked, name, file]() -> status { return copy(asked, name, file); });
    return {};
  }
  status drain() override {
    TROUPE_CHECK(copies_.wait());
    return flushes_.wait();
  }

 private:
  status copy(clock::time_point asked, const fs::path& name,
              const std::shared_ptr<new_file>& file) {
    uint64_t at = 0;
    for (auto r : around_.trainer.regions())
      while (!r.empty()) {
        auto lease = ring_->take(std::chrono::milliseconds(100));
        if (around_.stop || ending_) return error{errc::cancelled, "interrupted"};
        if (!lease) continue;
        const auto n = std::min(r.size(), ring_->slot_bytes());
        std::memcpy(lease->bytes().data(), r.data(), n);
        auto shared = std::make_shared<io::slot>(std::move(*lease));
        flushes_.post([file, shared, n, at] { return file->write(shared->bytes().first(n), at); });
        r = r.subspan(n);
        at += n;
      }
    flushes_.post([this, asked, name]() -> status {
      finished(asked, name);
      return {};
    });
    return {};
  }

  std::shared_ptr<io::slots> ring_;
  std::atomic<bool> ending_{false};
  worker_pool flushes_{1};
  worker_pool copies_{1};  ///< ends before the flushes it posts to
};

/// Ours, as training runs it: the saver of a rank, and the committer's commit.
class ours final : public way {
 public:
  static result<std::unique_ptr<way>> make(const surroundings& around) {
    auto out = std::make_unique<ours>(around, true);
    TROUPE_TRY(disk, io::open_disk({io::disk_backend::threads, 1, 1, {}}));  // as the committer's
    out->disk_ = std::move(disk);
    gpu::saver_options o;
    o.job = "bench";
    o.epoch = 1;
    o.ring_bytes = around.ring_bytes;
    TROUPE_TRY(saver, gpu::state_saver::make(around.trainer.store(), std::move(o)));
    out->saver_ = std::move(saver);
    return std::unique_ptr<way>(std::move(out));
  }
  using way::way;

  status checkpoint(uint64_t step) override {
    const auto asked = clock::now();
    const auto partial = around_.dir / cp::partial_name(step, 1);
    {
      std::lock_guard lock(mutex_);
      ++open_;
    }
    saver_->save(
        step, partial, around_.trainer.updated(),
        [this, asked, step, partial](const result<cp::shard_facts>& vote) {
          commits_.post([=, this]() -> status {
            if (!vote) return vote.error();
            return commit(asked, step, partial, *vote);
          });
          std::lock_guard lock(mutex_);
          --open_;
          voted_.notify_all();
        });
    return {};
  }
  status drain() override {
    {
      std::unique_lock lock(mutex_);
      voted_.wait(lock, [this] { return open_ == 0; });
    }
    return commits_.wait();
  }

 private:
  status commit(clock::time_point asked, uint64_t step, const fs::path& partial,
                const cp::shard_facts& vote) {
    cp::manifest_head head;
    head.job = "bench";
    head.epoch = 1;
    head.step = step;
    head.slot_bytes = gpu::saver_slot_bytes;
    TROUPE_TRY(folder, cp::commit_save(*disk_, partial, head, {vote}, {{"config.json", "{}\n"}}));
    finished(asked, folder);
    return {};
  }

  std::mutex mutex_;
  std::condition_variable voted_;
  size_t open_ = 0;
  std::unique_ptr<io::disk> disk_;
  worker_pool commits_{1};
  std::unique_ptr<gpu::state_saver> saver_;  ///< ends first: its votes are posted to the above
};

constexpr std::array ways{
    way_facts{"none", "no checkpoint", false},
    way_facts{"sync", "synchronous write + fsync", true},
    way_facts{"checkfreq", "copy, then flush + fsync (CheckFreq)", true},
    way_facts{"chunked-fsync", "4 threads, fsync (TorchSnapshot)", true},
    way_facts{"chunked", "4 threads (TorchSnapshot)", false},
    way_facts{"datastates", "copy-wait (DataStates)", false},
    way_facts{"ours", "ours", true},
    way_facts{"torch", "torch.save + fsync", true},
};

}  // namespace

// -- worker_pool ----------------------------------------------------------------------------------

worker_pool::worker_pool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { live(); });
}

worker_pool::~worker_pool() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  came_.notify_all();
  for (auto& t : threads_) t.join();
}

void worker_pool::post(std::function<status()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  came_.notify_one();
}

status worker_pool::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return queue_.empty() && busy_ == 0; });
  return std::exchange(outcome_, {});
}

void worker_pool::live() {
  std::unique_lock lock(mutex_);
  for (;;) {
    came_.wait(lock, [this] { return over_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    ++busy_;
    lock.unlock();
    auto outcome = work();
    work = nullptr;  // what it held goes before anyone is told
    lock.lock();
    if (outcome_ && !outcome) outcome_ = outcome;
    if (--busy_ == 0 && queue_.empty()) idle_.notify_all();
  }
}

// -- way ------------------------------------------------------------------------------------------

fs::path way::file_of(uint64_t step) const {
  return around_.dir / fmt::format("step-{}.state", step);
}

void way::finished(clock::time_point asked, fs::path what) {
  std::lock_guard lock(mutex_);
  finished_s_.push_back(std::chrono::duration<double>(clock::now() - asked).count());
  std::swap(newest_, what);
  if (what.empty()) return;
  around_.janitor.post([dir = around_.dir, old = what.filename().string()] {
    return io::remove_from_scratch(dir, old);
  });
}

std::span<const way_facts> all_ways() {
  return ways;
}

result<std::unique_ptr<way>> make_way(std::string_view id, const surroundings& around) {
  if (id == "ours") return ours::make(around);
  if (id == "sync") return std::unique_ptr<way>(std::make_unique<synchronous>(around, true));
  if (id == "checkfreq")
    return std::unique_ptr<way>(std::make_unique<copy_then_flush>(around, true));
  if (id == "chunked-fsync" || id == "chunked")
    return std::unique_ptr<way>(std::make_unique<chunked>(around, id == "chunked-fsync"));
  if (id != "datastates") return std::unique_ptr<way>();
  const auto count = std::max<uint64_t>(2, around.ring_bytes / gpu::saver_slot_bytes);
  TROUPE_TRY(ring, io::slots::make({gpu::saver_slot_bytes, static_cast<int>(count)}));
  return std::unique_ptr<way>(std::make_unique<copy_wait>(around, std::move(ring)));
}

}  // namespace troupe::apps::ckpt_bench

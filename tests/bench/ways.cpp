// Each of the field's ways, rebuilt in its essence on the store that ours works on.
//
// BCK-3 They write whole arrays without checksums; ours sums every byte.
#include "tests/bench/ways.hpp"

#include <array>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "gpu/model/state_saver.hpp"
#include "io/file.hpp"
#include "tests/bench/torch.hpp"

namespace troupe::apps::ckpt_bench {

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
template <bool syncs>
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
        if (syncs) TROUPE_CHECK(file->sync());
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
  static result<std::unique_ptr<way>> make(const surroundings& around) {
    const auto count = std::max<uint64_t>(2, around.ring_bytes / gpu::saver_slot_bytes);
    TROUPE_TRY(ring, io::slots::make({gpu::saver_slot_bytes, static_cast<int>(count)}));
    return std::unique_ptr<way>(std::make_unique<copy_wait>(around, std::move(ring)));
  }
  copy_wait(surroundings around, std::shared_ptr<io::slots> ring)
      : way(std::move(around)), ring_(std::move(ring)) {}
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

template <class Way>
result<std::unique_ptr<way>> make(const surroundings& around) {
  return std::unique_ptr<way>(std::make_unique<Way>(around));
}

constexpr std::array rivals{
    way_kind{.id = "sync",
             .text = "synchronous write + fsync",
             .durable = true,
             .make = make<synchronous>},
    way_kind{.id = "checkfreq",
             .text = "copy, then flush + fsync (CheckFreq)",
             .durable = true,
             .copies = 1,
             .make = make<copy_then_flush>},
    way_kind{.id = "chunked-fsync",
             .text = "4 threads, fsync (TorchSnapshot)",
             .durable = true,
             .copies = 1,
             .make = make<chunked<true>>},
    way_kind{.id = "chunked",
             .text = "4 threads (TorchSnapshot)",
             .copies = 1,
             .make = make<chunked<false>>},
    way_kind{.id = "datastates", .text = "copy-wait (DataStates)", .make = copy_wait::make},
    way_kind{.id = "torch",
             .text = "torch.save + fsync",
             .durable = true,
             .copies = 2,
             .make = make_torch,
             .possible = torch_is_here},
};

}  // namespace

std::span<const way_kind> rival_ways() {
  return rivals;
}

}  // namespace troupe::apps::ckpt_bench

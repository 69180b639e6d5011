// Copies to the host, the inner group's operation, copies back: piece by piece, all on the caller's
// stream.
#include "gpu/collective/staged.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <mutex>
#include <utility>

#include "io/base/memory_account.hpp"
#include "io/disk/disk.hpp"

namespace troupe::gpu {
namespace {

/// Host memory that the operations of one stream use in turn (SGB-1).
struct staging_buffer {
  io::io_buffer memory;
  std::shared_ptr<void> pinned;  ///< ends before the memory does

  std::byte* at(size_t offset) const { return memory.bytes().data() + offset; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory.bytes().data());
  }
};

/// SGB-2. They outlive the group as long as a stream may use one.
class staging_buffers {
 public:
  using lease = std::shared_ptr<const staging_buffer>;

  explicit staging_buffers(device& owner) : owner_(owner) {}

  result<lease> of(const stream& s) {
    const std::lock_guard lock(mutex_);
    auto& held = held_[&s];
    if (!held) {
      TROUPE_TRY(made, make());
      held = std::move(made);
    }
    return held;
  }

 private:
  /// Copies are slower where it cannot be page-locked.
  result<lease> make() {
    const io::memory_holder holder("exchanges through the host");
    TROUPE_TRY(memory, io::io_buffer::make(staging_bytes));
    auto out = std::make_shared<staging_buffer>();
    out->memory = std::move(memory);
    if (auto pinned = owner_.pin(out->at(0), staging_bytes)) out->pinned = std::move(*pinned);
    return lease(std::move(out));
  }

  device& owner_;
  std::mutex mutex_;
  std::map<const stream*, lease> held_;  ///< guarded by mutex_
};

/// Calls `piece(first, count)` for one after the other of `all` things, of which `most` fit.
template <class F>
void in_pieces(size_t all, size_t most, F&& piece) {
  assert(most > 0);
  for (size_t first = 0; first < all; first += most) piece(first, std::min(most, all - first));
}

class staged_communicator final : public communicator {
 public:
  staged_communicator(device& owner, std::unique_ptr<communicator> inner)
      : buffers_(owner), inner_(std::move(inner)) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }

  void all_reduce_sum(stream& s, float* data, int64_t count) override { reduce(s, data, count); }
  void all_reduce_sum(stream& s, double* data, int64_t count) override { reduce(s, data, count); }

  void reduce_scatter_sum(stream& s, float* data, int64_t part) override {
    if (size() == 1) return;
    const auto each = static_cast<size_t>(part), all = static_cast<size_t>(size()),
               own = static_cast<size_t>(rank());
    through_host(s, [&](const staging_buffer& host) {
      in_pieces(each, staging_bytes / sizeof(float) / all, [&](size_t first, size_t count) {
        const size_t bytes = count * sizeof(float);
        for (size_t r = 0; r < all; ++r) s.copy(host.at(r * bytes), data + r * each + first, bytes);
        inner_->reduce_scatter_sum(s, host.as<float>(), static_cast<int64_t>(count));
        s.copy(data + own * each + first, host.at(own * bytes), bytes);
      });
    });
  }

  void all_gather(stream& s, void* data, size_t part_bytes) override {
    if (size() == 1) return;
    auto* const bytes = static_cast<std::byte*>(data);
    const auto all = static_cast<size_t>(size()), own = static_cast<size_t>(rank());
    through_host(s, [&](const staging_buffer& host) {
      in_pieces(part_bytes, staging_bytes / all, [&](size_t first, size_t count) {
        s.copy(host.at(own * count), bytes + own * part_bytes + first, count);
        inner_->all_gather(s, host.at(0), count);
        for (size_t r = 0; r < all; ++r)
          if (r != own) s.copy(bytes + r * part_bytes + first, host.at(r * count), count);  // COM-5
      });
    });
  }

  void send(stream& s, const void* data, size_t bytes, int peer, uint64_t tag) override {
    const auto* const from = static_cast<const std::byte*>(data);
    through_host(s, [&](const staging_buffer& host) {
      in_pieces(bytes, staging_bytes, [&](size_t first, size_t count) {
        s.copy(host.at(0), from + first, count);
        inner_->send(s, host.at(0), count, peer, tag);
      });
    });
  }

  void receive(stream& s, void* data, size_t bytes, int peer, uint64_t tag) override {
    auto* const to = static_cast<std::byte*>(data);
    through_host(s, [&](const staging_buffer& host) {
      in_pieces(bytes, staging_bytes, [&](size_t first, size_t count) {
        inner_->receive(s, host.at(0), count, peer, tag);
        s.copy(to + first, host.at(0), count);
      });
    });
  }

  void abort() noexcept override { inner_->abort(); }

 private:
  template <class T>
  void reduce(stream& s, T* data, int64_t count) {
    if (size() == 1) return;
    through_host(s, [&](const staging_buffer& host) {
      in_pieces(static_cast<size_t>(count), staging_bytes / sizeof(T), [&](size_t first, size_t n) {
        s.copy(host.at(0), data + first, n * sizeof(T));
        inner_->all_reduce_sum(s, host.as<T>(), static_cast<int64_t>(n));
        s.copy(data + first, host.at(0), n * sizeof(T));
      });
    });
  }

  /// Enqueues what uses the stream's buffer, which is there until the stream has passed that.
  template <class F>
  void through_host(stream& s, F&& enqueue) {
    auto host = buffers_.of(s);
    if (!host) return s.host_task([why = host.error()]() -> status { return why; });
    enqueue(**host);
    s.notify([held = std::move(*host)](const status&) {});
  }

  staging_buffers buffers_;
  std::unique_ptr<communicator> inner_;
};

class staged_pending final : public pending_group {
 public:
  staged_pending(device& owner, std::unique_ptr<pending_group> inner)
      : owner_(owner), inner_(std::move(inner)) {}

  const std::vector<std::string>& addresses() const noexcept override {
    return inner_->addresses();
  }

  result<std::unique_ptr<communicator>> connect(const std::vector<std::string>& offered) override {
    TROUPE_TRY(connected, inner_->connect(offered));
    return std::unique_ptr<communicator>(
        std::make_unique<staged_communicator>(owner_, std::move(connected)));
  }

 private:
  device& owner_;
  std::unique_ptr<pending_group> inner_;
};

}  // namespace

std::unique_ptr<pending_group> make_staged_group(device& owner,
                                                 std::unique_ptr<pending_group> inner) {
  return std::make_unique<staged_pending>(owner, std::move(inner));
}

}  // namespace troupe::gpu

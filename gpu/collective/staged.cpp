// Copies to the host, the inner group's operation, copies back: all on the caller's stream.
#include "gpu/collective/staged.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace troupe::gpu {
namespace {

/// Host buffers that operations borrow (SGB-1). They outlive the group as long as one is lent.
class staging_pool : public std::enable_shared_from_this<staging_pool> {
 public:
  explicit staging_pool(device& owner) : owner_(owner) {}

  struct piece {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
    std::shared_ptr<void> pinned;  ///< ends before the memory does
  };
  using lease = std::shared_ptr<piece>;

  lease take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto fits =
        std::find_if(free_.begin(), free_.end(), [&](const auto& p) { return p->bytes >= bytes; });
    std::unique_ptr<piece> found;
    if (fits != free_.end()) {
      found = std::move(*fits);
      free_.erase(fits);
    } else {
      found = std::make_unique<piece>();
      found->memory.reset(new std::byte[bytes]);
      found->bytes = bytes;
      if (auto pinned = owner_.pin(found->memory.get(), bytes)) found->pinned = std::move(*pinned);
    }
    return lease(found.release(), [pool = shared_from_this()](piece* p) { pool->put_back(p); });
  }

 private:
  void put_back(piece* p) {
    const std::lock_guard lock(mutex_);
    free_.emplace_back(p);
  }

  device& owner_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<piece>> free_;
};

class staged_communicator final : public communicator {
 public:
  staged_communicator(device& owner, std::unique_ptr<communicator> inner)
      : pool_(std::make_shared<staging_pool>(owner)), inner_(std::move(inner)) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }

  void all_reduce_sum(stream& s, float* data, int64_t count) override { reduce(s, data, count); }
  void all_reduce_sum(stream& s, double* data, int64_t count) override { reduce(s, data, count); }

  void reduce_scatter_sum(stream& s, float* data, int64_t part) override {
    if (size() == 1) return;
    const size_t bytes = static_cast<size_t>(part * size()) * sizeof(float);
    const auto host = pool_->take(bytes);
    s.copy(host->memory.get(), data, bytes);
    inner_->reduce_scatter_sum(s, reinterpret_cast<float*>(host->memory.get()), part);
    const auto own = static_cast<size_t>(part * rank());
    s.copy(data + own, reinterpret_cast<float*>(host->memory.get()) + own,
           static_cast<size_t>(part) * sizeof(float));
    give_back(s, host);
  }

  void all_gather(stream& s, void* data, size_t part_bytes) override {
    if (size() == 1) return;
    const size_t bytes = part_bytes * static_cast<size_t>(size());
    const auto host = pool_->take(bytes);
    const size_t own = part_bytes * static_cast<size_t>(rank());
    s.copy(host->memory.get() + own, static_cast<std::byte*>(data) + own, part_bytes);
    inner_->all_gather(s, host->memory.get(), part_bytes);
    copy_between(s, data, *host, 0, own);  // COM-5
    copy_between(s, data, *host, own + part_bytes, bytes);
    give_back(s, host);
  }

  void send(stream& s, const void* data, size_t bytes, int peer, uint64_t tag) override {
    const auto host = pool_->take(bytes);
    s.copy(host->memory.get(), data, bytes);
    inner_->send(s, host->memory.get(), bytes, peer, tag);
    give_back(s, host);
  }

  void receive(stream& s, void* data, size_t bytes, int peer, uint64_t tag) override {
    const auto host = pool_->take(bytes);
    inner_->receive(s, host->memory.get(), bytes, peer, tag);
    s.copy(data, host->memory.get(), bytes);
    give_back(s, host);
  }

  void abort() noexcept override { inner_->abort(); }

 private:
  template <class T>
  void reduce(stream& s, T* data, int64_t count) {
    if (size() == 1) return;
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    const auto host = pool_->take(bytes);
    s.copy(host->memory.get(), data, bytes);
    inner_->all_reduce_sum(s, reinterpret_cast<T*>(host->memory.get()), count);
    s.copy(data, host->memory.get(), bytes);
    give_back(s, host);
  }

  /// Bytes [from, to) of the buffer to the same place in `data`.
  static void copy_between(stream& s, void* data, const staging_pool::piece& host, size_t from,
                           size_t to) {
    if (from < to)
      s.copy(static_cast<std::byte*>(data) + from, host.memory.get() + from, to - from);
  }

  /// Keeps the buffer until the stream has passed this point.
  static void give_back(stream& s, staging_pool::lease host) {
    s.notify([host = std::move(host)](const status&) {});
  }

  std::shared_ptr<staging_pool> pool_;
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

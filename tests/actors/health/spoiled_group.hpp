// A group of a test in which one member gives other numbers than it should.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/health/test_group.hpp"

namespace troupe::health::test {

/// A group whose sums or parts one member changes.
class spoiled_group final : public gpu::communicator {
 public:
  spoiled_group(std::unique_ptr<gpu::communicator> inner, bool sums, bool parts)
      : inner_(std::move(inner)), sums_(sums), parts_(parts) {}
  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  void all_reduce_sum(gpu::stream& s, float* data, int64_t count) override {
    if (sums_ && count > 5)  // the last meeting is about one number
      s.host_task([data] {
        data[5] += 1;
        return status();
      });
    inner_->all_reduce_sum(s, data, count);
  }
  void all_reduce_sum(gpu::stream& s, double* data, int64_t count) override {
    inner_->all_reduce_sum(s, data, count);
  }
  void reduce_scatter_sum(gpu::stream& s, float* data, int64_t part) override {
    inner_->reduce_scatter_sum(s, data, part);
  }
  void all_gather(gpu::stream& s, void* data, size_t part_bytes) override {
    if (parts_)
      s.host_task([this, data, part_bytes] {
        auto* own = static_cast<char*>(data) + static_cast<size_t>(rank()) * part_bytes;
        own[0] = static_cast<char>(own[0] ^ 1);
        return status();
      });
    inner_->all_gather(s, data, part_bytes);
  }
  void send(gpu::stream& s, const void* d, size_t n, int peer, uint64_t tag) override {
    inner_->send(s, d, n, peer, tag);
  }
  void receive(gpu::stream& s, void* d, size_t n, int peer, uint64_t tag) override {
    inner_->receive(s, d, n, peer, tag);
  }
  void abort() noexcept override { inner_->abort(); }

 private:
  std::unique_ptr<gpu::communicator> inner_;
  bool sums_, parts_;
};

class spoiled_end final : public gpu::pending_group {
 public:
  spoiled_end(std::unique_ptr<gpu::pending_group> inner, bool sums, bool parts)
      : inner_(std::move(inner)), sums_(sums), parts_(parts) {}
  const std::vector<std::string>& addresses() const noexcept override {
    return inner_->addresses();
  }
  result<std::unique_ptr<gpu::communicator>> connect(
      const std::vector<std::string>& offered) override {
    TROUPE_TRY(made, inner_->connect(offered));
    return std::unique_ptr<gpu::communicator>(
        std::make_unique<spoiled_group>(std::move(made), sums_, parts_));
  }

 private:
  std::unique_ptr<gpu::pending_group> inner_;
  bool sums_, parts_;
};

/// Of member 1 of each group.
inline group_opener spoiling(bool sums, bool parts) {
  return [=](const gpu::group_options& o) -> result<std::unique_ptr<gpu::pending_group>> {
    TROUPE_TRY(inner, gpu::open_gloo_group(o));
    if (o.rank != 1) return inner;
    return std::unique_ptr<gpu::pending_group>(
        std::make_unique<spoiled_end>(std::move(inner), sums, parts));
  };
}

}  // namespace troupe::health::test

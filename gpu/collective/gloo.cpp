// The data plane between hosts: Gloo's algorithms over connections of ours (tensor_links.hpp).
//
// Ranks prove themselves to each other (pair_links.hpp), but what they say is neither hidden nor
// signed: beyond loopback tensors are in the clear, which is why the configuration demands an
// explicit word for it (cluster.clear_text_tensors). Gloo reports failures by exceptions; each one
// becomes an error here (COM-3).
#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/context.h>

#include "gpu/collective/communicator.hpp"
#include "gpu/collective/pair_links.hpp"
#include "gpu/collective/tensor_links.hpp"
#include "io/base/memory_account.hpp"
#include "io/disk/disk.hpp"

namespace troupe::gpu {

namespace {

constexpr uint32_t collective_tag = 1;
/// Point-to-point tags live above the slots that Gloo's collectives build from their own tag.
constexpr uint64_t point_to_point_slot = uint64_t{1} << 60;
/// A step of a reduce-scatter, one slot each.
constexpr uint64_t reduce_scatter_slot = uint64_t{1} << 62;

class gloo_context : public gloo::Context {
 public:
  gloo_context(const group_options& options, std::shared_ptr<tensor_links> links)
      : gloo::Context(options.rank, options.size), links_(std::move(links)) {
    setTimeout(options.timeout);
    if (links_) links_->setTimeout(options.timeout);
    transportContext_ = links_;
  }

  void abort() noexcept {
    if (links_) links_->fail("the group was aborted");
  }

 private:
  std::shared_ptr<tensor_links> links_;  ///< none in a group of one
};

/// Runs Gloo calls and turns what they throw into an error.
template <class F>
status guarded(const std::string& group, F&& fn) {
  try {
    return fn();
  } catch (const std::exception& e) {
    return error{errc::unavailable, fmt::format("group {}: {}", group, e.what()),
                 "a peer has died or the network is down"};
  }
}

class gloo_communicator final : public communicator {
 public:
  gloo_communicator(group_options options, std::shared_ptr<gloo_context> context)
      : options_(std::move(options)), context_(std::move(context)) {}

  ~gloo_communicator() override { abort(); }

  int rank() const noexcept override { return options_.rank; }
  int size() const noexcept override { return options_.size; }

  void all_reduce_sum(stream& s, float* data, int64_t count) override {
    all_reduce(s, data, count);
  }
  void all_reduce_sum(stream& s, double* data, int64_t count) override {
    all_reduce(s, data, count);
  }

  void reduce_scatter_sum(stream& s, float* data, int64_t part) override {
    if (size() == 1) return;
    s.host_task([this, data, part] { return run([&] { return reduce_scatter(data, part); }); });
  }

  void all_gather(stream& s, void* data, size_t part_bytes) override {
    if (size() == 1) return;
    s.host_task([this, data, part_bytes] {
      return run([&]() -> status {
        gloo::AllgatherOptions o(context_);  // without an input: in place
        o.setOutput(static_cast<uint8_t*>(data), part_bytes * static_cast<size_t>(size()));
        o.setTag(collective_tag);
        o.setTimeout(options_.timeout);
        gloo::allgather(o);
        return {};
      });
    });
  }

  void send(stream& s, const void* data, size_t bytes, int peer, uint64_t tag) override {
    s.host_task([this, data, bytes, peer, tag] {
      return run([&]() -> status {
        auto buffer = context_->createUnboundBuffer(const_cast<void*>(data), bytes);
        buffer->send(peer, point_to_point_slot + tag);
        if (!buffer->waitSend(options_.timeout)) return aborted();
        return {};
      });
    });
  }

  void receive(stream& s, void* data, size_t bytes, int peer, uint64_t tag) override {
    s.host_task([this, data, bytes, peer, tag] {
      return run([&]() -> status {
        auto buffer = context_->createUnboundBuffer(data, bytes);
        buffer->recv(peer, point_to_point_slot + tag);
        if (!buffer->waitRecv(options_.timeout)) return aborted();
        return {};
      });
    });
  }

  void abort() noexcept override {
    if (!aborted_.exchange(true)) context_->abort();
  }

 private:
  status aborted() const {
    return error{errc::cancelled, fmt::format("group {} was aborted", options_.name)};
  }

  template <class F>
  status run(F&& fn) {
    if (aborted_) return aborted();
    return guarded(options_.name, std::forward<F>(fn));
  }

  template <class T>
  void all_reduce(stream& s, T* data, int64_t count) {
    if (size() == 1) return;
    s.host_task([this, data, count] {
      return run([&]() -> status {
        gloo::AllreduceOptions o(context_);
        o.setOutput(data, static_cast<size_t>(count));
        o.setReduceFunction([](void* c, const void* a, const void* b, size_t n) {
          auto* out = static_cast<T*>(c);
          const auto* x = static_cast<const T*>(a);
          const auto* y = static_cast<const T*>(b);
          for (size_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
        });
        o.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        o.setTag(collective_tag);
        o.setTimeout(options_.timeout);
        gloo::allreduce(o);
        return {};
      });
    });
  }

  /// Part p starts at rank p + 1 and grows by every rank's own on its way round to rank p.
  status reduce_scatter(float* data, int64_t part) {
    if (received_.bytes().empty()) {
      const io::memory_holder holder("sums of replicas");
      TROUPE_TRY(made, io::io_buffer::make(group_memory_bytes));
      received_ = std::move(made);
    }
    const auto at = [&](int steps_back) {
      return data + part * ((rank() + size() - steps_back) % size());
    };
    for (int step = 1; step < size(); ++step)
      TROUPE_CHECK(
          pass_on(at(step), at(step + 1), part, reduce_scatter_slot + static_cast<uint64_t>(step)));
    return {};
  }

  /// Sends `count` elements to the next rank and adds what the previous one sends to `sum`: in
  /// pieces, so that little memory is needed and one is added while another comes.
  status pass_on(float* sent, float* sum, int64_t count, uint64_t slot) {
    constexpr auto most = static_cast<int64_t>(group_memory_bytes / 2 / sizeof(float));
    struct piece {
      int64_t first = 0, count = 0;
      const float* received = nullptr;
      std::unique_ptr<gloo::transport::UnboundBuffer> out, in;
    };
    const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
    auto* const memory = reinterpret_cast<float*>(received_.bytes().data());
    const auto begin = [&](int64_t first) {
      piece p{first, std::min(most, count - first), memory + first / most % 2 * most, {}, {}};
      const auto bytes = static_cast<size_t>(p.count) * sizeof(float);
      p.out = context_->createUnboundBuffer(sent + first, bytes);
      p.in = context_->createUnboundBuffer(const_cast<float*>(p.received), bytes);
      p.out->send(next, slot);
      p.in->recv(previous, slot);
      return p;
    };
    if (count == 0) return {};
    for (auto p = begin(0);;) {
      const auto following = p.first + p.count;
      auto after = following < count ? begin(following) : piece{};
      if (!p.in->waitRecv(options_.timeout) || !p.out->waitSend(options_.timeout)) return aborted();
      for (int64_t i = 0; i < p.count; ++i) sum[p.first + i] += p.received[i];
      if (following == count) return {};
      p = std::move(after);
    }
  }

  group_options options_;
  std::shared_ptr<gloo_context> context_;
  std::atomic<bool> aborted_{false};
  io::io_buffer received_;  ///< of scattered sums, which come one after the other (COM-1)
};

class gloo_pending final : public pending_group {
 public:
  static result<std::unique_ptr<pending_group>> open(const group_options& options) {
    if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
      return error{errc::bug, fmt::format("group {}: rank {} of {}", options.name, options.rank,
                                          options.size)};
    auto group = std::make_unique<gloo_pending>();
    group->options_ = options;
    group->addresses_.resize(static_cast<size_t>(options.size));
    if (options.size > 1) {
      auto listener = pair_listener::open(options.host);
      if (!listener) return listener.error().within("group " + options.name);
      group->listener_ = std::move(*listener);
      for (int peer = 0; peer < options.size; ++peer)
        if (peer != options.rank)
          group->addresses_[static_cast<size_t>(peer)] = group->listener_.address();
    }
    return std::unique_ptr<pending_group>(std::move(group));
  }

  const std::vector<std::string>& addresses() const noexcept override { return addresses_; }

  result<std::unique_ptr<communicator>> connect(const std::vector<std::string>& offered) override {
    if (offered.size() != addresses_.size())
      return error{errc::bad_data, fmt::format("group {}: the addresses are of the wrong number of "
                                               "ranks",
                                               options_.name)};
    std::shared_ptr<gloo_context> context;
    if (options_.size == 1) {
      context = std::make_shared<gloo_context>(options_, nullptr);
    } else {
      TROUPE_TRY(sockets, listener_.connect(options_.name, options_.rank, offered,
                                            options_.connect_timeout, options_.ending));
      auto made = guarded(options_.name, [&]() -> status {
        context = std::make_shared<gloo_context>(
            options_, std::make_shared<tensor_links>(options_.rank, std::move(sockets)));
        return {};
      });
      if (!made) return made.error();
    }
    return std::unique_ptr<communicator>(
        std::make_unique<gloo_communicator>(options_, std::move(context)));
  }

 private:
  group_options options_;
  pair_listener listener_;  ///< of a group of more than one
  std::vector<std::string> addresses_;
};

}  // namespace

result<std::unique_ptr<pending_group>> open_gloo_group(const group_options& options) {
  return gloo_pending::open(options);
}

}  // namespace troupe::gpu

// The data plane between hosts by Gloo's TCP transport.
//
// Debian's Gloo is built without TLS: beyond loopback its bytes are in the clear, which is why the
// configuration demands an explicit word for it (cluster.clear_text_tensors). Gloo reports failures
// by exceptions; each one becomes an error here (COM-3).
#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/context.h>
#include <gloo/transport/tcp/device.h>

#include "gpu/collective/communicator.hpp"

namespace troupe::gpu {

namespace {

constexpr size_t max_address_bytes = 256;
constexpr uint32_t collective_tag = 1;
/// Point-to-point tags live above the slots that Gloo's collectives build from their own tag.
constexpr uint64_t point_to_point_slot = uint64_t{1} << 60;
/// A step of a reduce-scatter, one slot each.
constexpr uint64_t reduce_scatter_slot = uint64_t{1} << 62;
/// Nobody ever sends here.
constexpr uint64_t abort_slot = uint64_t{1} << 61;

class gloo_context : public gloo::Context {
 public:
  gloo_context(int own_rank, int members) : gloo::Context(own_rank, members) {}
  void adopt(std::shared_ptr<gloo::transport::Device> device,
             std::shared_ptr<gloo::transport::Context> transport) {
    device_ = std::move(device);
    transportContext_ = std::move(transport);
  }
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
    if (aborted_.exchange(true) || size() == 1) return;
    try {
      // Closing a pair wakes nobody who waits for it. A transfer that times out does: Gloo then
      // fails every operation of the context.
      uint8_t nothing = 0;
      auto buffer = context_->createUnboundBuffer(&nothing, sizeof(nothing));
      buffer->recv(rank() == 0 ? 1 : 0, abort_slot);
      buffer->waitRecv(std::chrono::milliseconds(1));
    } catch (const std::exception&) {  // the time-out itself, or a pair that is broken already
    }
    try {
      context_->closeConnections();
    } catch (const std::exception&) {  // closing what is already broken: nothing is left to do
    }
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
    const auto bytes = static_cast<size_t>(part) * sizeof(float);
    const auto at = [&](int steps_back) {
      return data + part * ((rank() + size() - steps_back) % size());
    };
    const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
    if (received_.size() < static_cast<size_t>(part)) received_.resize(static_cast<size_t>(part));
    for (int step = 1; step < size(); ++step) {
      const auto slot = reduce_scatter_slot + static_cast<uint64_t>(step);
      auto out = context_->createUnboundBuffer(at(step), bytes);
      auto in = context_->createUnboundBuffer(received_.data(), bytes);
      out->send(next, slot);
      in->recv(previous, slot);
      if (!in->waitRecv(options_.timeout) || !out->waitSend(options_.timeout)) return aborted();
      float* sum = at(step + 1);
      for (int64_t i = 0; i < part; ++i) sum[i] += received_[static_cast<size_t>(i)];
    }
    return {};
  }

  group_options options_;
  std::shared_ptr<gloo_context> context_;
  std::atomic<bool> aborted_{false};
  std::vector<float> received_;  ///< of scattered sums, which come one after the other (COM-1)
};

/// An address of Gloo's is a sockaddr_storage and a number: more than a hundred zeros around ten
/// bytes. A group of n ranks has n^2 of them, so runs of zeros are told by their length: (zeros,
/// others, the others) until the end.
std::string pack_zeros(const std::vector<char>& bytes) {
  constexpr size_t longest = 255;
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const auto begin = at;
    while (at < bytes.size() && at - begin < longest && bytes[at] == 0) ++at;
    const auto others = at;
    while (at < bytes.size() && at - others < longest && bytes[at] != 0) ++at;
    out += static_cast<char>(others - begin);
    out += static_cast<char>(at - others);
    out.append(bytes.data() + others, at - others);
  }
  return out;
}

/// False where the bytes, which come from other processes, are not the packed form of `size` bytes:
/// Gloo casts them to a sockaddr.
bool unpack_zeros(std::string_view packed, size_t size, std::vector<char>& out) {
  if (packed.size() > max_address_bytes) return false;
  out.clear();
  while (packed.size() >= 2) {
    const size_t zeros = static_cast<unsigned char>(packed[0]);
    const size_t others = static_cast<unsigned char>(packed[1]);
    packed.remove_prefix(2);
    if (packed.size() < others || zeros + others > size - out.size()) return false;
    out.resize(out.size() + zeros);
    out.insert(out.end(), packed.begin(), packed.begin() + static_cast<ptrdiff_t>(others));
    packed.remove_prefix(others);
  }
  return packed.empty() && out.size() == size;
}

class gloo_pending final : public pending_group {
 public:
  static result<std::unique_ptr<pending_group>> open(const group_options& options) {
    if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
      return error{errc::bug, fmt::format("group {}: rank {} of {}", options.name, options.rank,
                                          options.size)};
    auto group = std::make_unique<gloo_pending>();
    group->options_ = options;
    group->context_ = std::make_shared<gloo_context>(options.rank, options.size);
    group->context_->setTimeout(options.timeout);
    group->addresses_.resize(static_cast<size_t>(options.size));
    if (options.size > 1) {
      auto made = guarded(options.name, [&] { return group->listen(); });
      if (!made) return made.error();
    }
    return std::unique_ptr<pending_group>(std::move(group));
  }

  const std::vector<std::string>& addresses() const noexcept override { return addresses_; }

  result<std::unique_ptr<communicator>> connect(const std::vector<std::string>& offered) override {
    if (offered.size() != addresses_.size())
      return misfit("the addresses are of the wrong number of ranks");
    std::vector<std::vector<char>> whole(offered.size());
    for (size_t peer = 0; peer < offered.size(); ++peer)
      if (peer != static_cast<size_t>(options_.rank) &&
          !unpack_zeros(offered[peer], address_bytes_, whole[peer]))
        return misfit("an address has the wrong length");
    auto connected = guarded(options_.name, [&]() -> status {
      for (int peer = 0; peer < options_.size; ++peer) {
        if (peer == options_.rank) continue;
        transport_->getPair(peer)->connect(whole[static_cast<size_t>(peer)]);
      }
      return {};
    });
    if (!connected) return connected.error();
    if (transport_) context_->adopt(device_, transport_);
    return std::unique_ptr<communicator>(
        std::make_unique<gloo_communicator>(options_, std::move(context_)));
  }

 private:
  status listen() {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = options_.host;
    device_ = gloo::transport::tcp::CreateDevice(attributes);
    transport_ = device_->createContext(options_.rank, options_.size);
    transport_->setTimeout(options_.connect_timeout);
    for (int peer = 0; peer < options_.size; ++peer) {
      if (peer == options_.rank) continue;
      const auto bytes = transport_->createPair(peer)->address().bytes();
      address_bytes_ = bytes.size();
      addresses_[static_cast<size_t>(peer)] = pack_zeros(bytes);
    }
    return {};
  }

  error misfit(std::string_view what) const {
    return {errc::bad_data, fmt::format("group {}: {}", options_.name, what)};
  }

  group_options options_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> transport_;
  std::shared_ptr<gloo_context> context_;
  std::vector<std::string> addresses_;
  size_t address_bytes_ = 0;  ///< of one of Gloo's
};

/// Gloo writes to sockets without MSG_NOSIGNAL: a peer that dies between two of our writes would
/// end this process with SIGPIPE, too (COM-3). Who wants that signal has set a handler.
void make_broken_pipes_errors() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

}  // namespace

result<std::unique_ptr<pending_group>> open_gloo_group(const group_options& options) {
  make_broken_pipes_errors();
  return gloo_pending::open(options);
}

}  // namespace troupe::gpu

// The ends of a group over NCCL: ids, the order of connecting, operations.
#include "gpu/cuda/nccl_group.hpp"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpu/cuda/device.hpp"
#include "gpu/cuda/nccl_watch.hpp"
#include "gpu/cuda/stream.hpp"

namespace troupe::gpu::cuda {

namespace {

using clock = nccl_channel::clock;

constexpr size_t id_bytes = sizeof(ncclUniqueId);
static_assert(id_bytes == 128, "two ids must fit into an address");

/// The ways to and from a neighbour; null without one.
struct neighbour {
  nccl_channel* send = nullptr;
  nccl_channel* receive = nullptr;
};

class nccl_communicator final : public communicator {
 public:
  nccl_communicator(const group_options& options, const nccl_library& library,
                    std::shared_ptr<nccl_watch> watch)
      : rank_(options.rank),
        size_(options.size),
        library_(library),
        watch_(std::move(watch)),
        limit_(options.connect_timeout) {}
  ~nccl_communicator() override { watch_->stop(); }

  /// Channels are the watch's, and connected.
  void use(nccl_channel* world, neighbour below, neighbour above) {
    world_ = world;
    below_ = below;
    above_ = above;
  }

  /// The first operation of every channel connects what it needs and shows that it works; later
  /// ones may take `limit` each.
  status warm_up(device& gpu, std::chrono::milliseconds limit);

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  void all_reduce_sum(stream& s, float* data, int64_t count) override {
    all_reduce(s, data, count, ncclFloat32);
  }
  void all_reduce_sum(stream& s, double* data, int64_t count) override {
    all_reduce(s, data, count, ncclFloat64);
  }

  void reduce_scatter_sum(stream& s, float* data, int64_t part) override {
    enqueue(s, *world_, "ncclReduceScatter",
            [call = library_.reduce_scatter, data, part, rank = rank_](auto comm, auto queue) {
              return call(data, data + part * rank, static_cast<size_t>(part), ncclFloat32, ncclSum,
                          comm, queue);
            });
  }

  void all_gather(stream& s, void* data, size_t part_bytes) override {
    enqueue(s, *world_, "ncclAllGather",
            [call = library_.all_gather, data, part_bytes, rank = rank_](auto comm, auto queue) {
              const auto* own =
                  static_cast<uint8_t*>(data) + part_bytes * static_cast<size_t>(rank);
              return call(own, data, part_bytes, ncclUint8, comm, queue);
            });
  }

  void send(stream& s, const void* data, size_t bytes, int peer, uint64_t /*tag*/) override {
    auto* link = neighbour_at(peer).send;
    if (!link) return refuse(s, peer);
    // A link has two members: the one that sends is 0 on the way up, 1 on the way down.
    enqueue(s, *link, "ncclSend",
            [call = library_.send, data, bytes, to = peer > rank_ ? 1 : 0](auto comm, auto queue) {
              return call(data, bytes, ncclUint8, to, comm, queue);
            });
  }

  void receive(stream& s, void* data, size_t bytes, int peer, uint64_t /*tag*/) override {
    auto* link = neighbour_at(peer).receive;
    if (!link) return refuse(s, peer);
    enqueue(s, *link, "ncclRecv",
            [call = library_.receive, data, bytes, from = peer > rank_ ? 1 : 0](
                auto comm, auto queue) { return call(data, bytes, ncclUint8, from, comm, queue); });
  }

  void abort() noexcept override {
    watch_->fail({errc::cancelled, fmt::format("group {} was aborted", watch_->options().name)});
  }

 private:
  neighbour neighbour_at(int peer) const {
    return peer == rank_ - 1 ? below_ : peer == rank_ + 1 ? above_ : neighbour{};
  }

  void refuse(stream& s, int peer) {
    s.host_task([name = watch_->options().name, peer, rank = rank_]() -> status {
      return error{errc::bug,
                   fmt::format("group {}: no link between the ranks {} and {}", name, rank, peer)};
    });
  }

  template <class T>
  void all_reduce(stream& s, T* data, int64_t count, ncclDataType_t type) {
    enqueue(s, *world_, "ncclAllReduce",
            [call = library_.all_reduce, data, count, type](auto comm, auto queue) {
              return call(data, data, static_cast<size_t>(count), type, ncclSum, comm, queue);
            });
  }

  /// The operation, and behind it what tells the stream that the group has failed meanwhile: an
  /// aborted operation ends as if it were done.
  template <class Call>
  void enqueue(stream& s, nccl_channel& channel, const char* what, Call call) {
    auto& queue = static_cast<cuda_stream&>(s);
    auto started = queue.record();
    queue.enqueue(
        what, [watch = watch_, &channel, what, call, limit = limit_](cudaStream_t raw) -> status {
          TROUPE_CHECK(watch->failure());
          auto launched = channel.launch(
              what, [&](ncclComm_t comm) { return call(comm, raw); }, clock::now() + limit);
          if (launched) return {};
          watch->fail(launched.error());
          return watch
              ->failure();  // the first one: this call may have failed of the end it brought
        });
    watch_->under_way(what, std::move(started), queue.record(), limit_);
    queue.verify([watch = watch_] { return watch->failure(); });
  }

  const int rank_, size_;
  const nccl_library& library_;
  const std::shared_ptr<nccl_watch> watch_;
  std::chrono::milliseconds limit_;  ///< of one operation
  nccl_channel* world_ = nullptr;
  neighbour below_, above_;
};

status nccl_communicator::warm_up(device& gpu, std::chrono::milliseconds limit) {
  TROUPE_TRY(s, gpu.make_stream({"nccl", 1}));
  TROUPE_TRY(memory, gpu.allocate(2 * sizeof(double)));
  double value = 1;
  auto* count = memory.as<double>();
  s->copy(count, &value, sizeof(value));
  all_reduce_sum(*s, count, 1);
  // The pairs (0,1), (2,3).. first, in each pair upward first: the order of connecting.
  for (int odd : {0, 1}) {
    const bool lower = rank_ % 2 == odd;
    const int peer = lower ? rank_ + 1 : rank_ - 1;
    if (!neighbour_at(peer).send) continue;
    for (bool up : {true, false})
      if (up == lower)
        send(*s, count + 1, sizeof(double), peer, 0);
      else
        receive(*s, count + 1, sizeof(double), peer, 0);
  }
  s->copy(&value, count, sizeof(value));
  TROUPE_CHECK(s->synchronize());
  if (value != size_)
    return error{errc::unavailable, fmt::format("group {}: NCCL counts {} ranks, there are {}",
                                                watch_->options().name, value, size_)};
  limit_ = limit;
  return {};
}

class nccl_pending final : public pending_group {
 public:
  nccl_pending(const group_options& options, cuda_device& gpu, const nccl_library& library,
               const nccl_tuning& tuning)
      : options_(options), gpu_(gpu), library_(library), tuning_(tuning) {}

  /// Makes the ids that others need.
  status open() {
    addresses_.resize(static_cast<size_t>(options_.size));
    const bool last = options_.rank + 1 == options_.size;
    if (last) {
      TROUPE_CHECK(make_id(world_id_));
      for (int r = 0; r + 1 < options_.size; ++r)
        addresses_[static_cast<size_t>(r)].assign(world_id_.internal, id_bytes);
    } else if (options_.transfers) {
      auto& entry = addresses_[static_cast<size_t>(options_.rank) + 1];
      for (auto& id : link_ids_) {
        TROUPE_CHECK(make_id(id));
        entry.append(id.internal, id_bytes);
      }
    }
    return {};
  }

  const std::vector<std::string>& addresses() const noexcept override { return addresses_; }

  result<std::unique_ptr<communicator>> connect(const std::vector<std::string>& offered) override;

 private:
  status make_id(ncclUniqueId& id) {
    const auto answer = library_.get_unique_id(&id);
    if (answer == ncclSuccess) return {};
    return error{
        errc::unavailable,
        fmt::format("group {}: ncclGetUniqueId: {}", options_.name, library_.error_string(answer)),
        "NCCL_DEBUG=WARN says more; NCCL_SOCKET_IFNAME chooses the network"};
  }

  size_t expected_bytes(size_t from, size_t to) const {
    const auto size = static_cast<size_t>(options_.size);
    if (from + 1 == size) return to == from ? 0 : id_bytes;
    return options_.transfers && to == from + 1 ? 2 * id_bytes : 0;
  }

  /// The offers come from other processes.
  status check(const std::vector<std::string>& offered) const {
    auto wrong = [&](std::string_view what) {
      return error{errc::bad_data, fmt::format("group {}: {}", options_.name, what)};
    };
    const auto size = static_cast<size_t>(options_.size);
    if (offered.size() != size) return wrong("the addresses are of the wrong number of ranks");
    for (size_t r = 0; r < size; ++r)
      if (offered[r].size() != expected_bytes(r, static_cast<size_t>(options_.rank)))
        return wrong("an address has the wrong length");
    return {};
  }

  static ncclUniqueId id_at(const std::string& address, size_t index) {
    ncclUniqueId id;
    std::memcpy(id.internal, address.data() + index * id_bytes, id_bytes);
    return id;
  }

  /// Both links of this rank and the one at `peer`, upward first.
  result<neighbour> connect_pair(nccl_watch& watch, int peer,
                                 const std::vector<std::string>& offered,
                                 clock::time_point deadline) {
    const bool lower = peer > options_.rank;
    std::array<nccl_channel*, 2> links{};
    for (size_t way : {0, 1}) {
      const auto id = lower ? link_ids_[way] : id_at(offered[static_cast<size_t>(peer)], way);
      links[way] = &watch.add_channel();
      TROUPE_CHECK(links[way]->connect(id, lower ? 0 : 1, 2, link_blocks, deadline));
    }
    return lower ? neighbour{links[0], links[1]} : neighbour{links[1], links[0]};
  }

  const group_options options_;
  cuda_device& gpu_;
  const nccl_library& library_;
  const nccl_tuning tuning_;
  ncclUniqueId world_id_{};
  std::array<ncclUniqueId, 2> link_ids_{};  ///< up and down, between this rank and the next
  std::vector<std::string> addresses_;
};

result<std::unique_ptr<communicator>> nccl_pending::connect(
    const std::vector<std::string>& offered) {
  TROUPE_CHECK(check(offered));
  TROUPE_CUDA_TRY(cudaSetDevice(gpu_.ordinal()));
  const auto deadline = clock::now() + options_.connect_timeout;
  auto watch = std::make_shared<nccl_watch>(
      library_, nccl_watch_options{options_.name, tuning_.watch_period, tuning_.close_limit,
                                   options_.ending});
  auto group = std::make_unique<nccl_communicator>(options_, library_, watch);
  if (options_.rank + 1 != options_.size) world_id_ = id_at(offered.back(), 0);
  auto& world = watch->add_channel();
  TROUPE_CHECK(world.connect(world_id_, options_.rank, options_.size, 0, deadline));
  neighbour below, above;
  for (int odd : {0, 1}) {
    const bool lower = options_.rank % 2 == odd;
    const int peer = lower ? options_.rank + 1 : options_.rank - 1;
    if (!options_.transfers || peer < 0 || peer >= options_.size) continue;
    TROUPE_TRY(links, connect_pair(*watch, peer, offered, deadline));
    (lower ? above : below) = links;
  }
  group->use(&world, below, above);
  watch->start();
  TROUPE_CHECK(group->warm_up(gpu_, options_.timeout));
  return std::unique_ptr<communicator>(std::move(group));
}

}  // namespace

result<std::unique_ptr<pending_group>> open_nccl_group(const group_options& options, device& gpu,
                                                       const nccl_library& library,
                                                       const nccl_tuning& tuning) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    return error{errc::bug,
                 fmt::format("group {}: rank {} of {}", options.name, options.rank, options.size)};
  auto* ours = dynamic_cast<cuda_device*>(&gpu);
  if (!ours)
    return error{errc::bug, fmt::format("group {}: not a CUDA device", options.name),
                 "open_gloo_group is for the host's"};
  auto group = std::make_unique<nccl_pending>(options, *ours, library, tuning);
  TROUPE_CHECK(group->open());
  return std::unique_ptr<pending_group>(std::move(group));
}

}  // namespace troupe::gpu::cuda

namespace troupe::gpu {

result<std::unique_ptr<pending_group>> open_nccl_group(const group_options& options, device& gpu) {
  TROUPE_TRY(library, cuda::load_nccl());
  return cuda::open_nccl_group(options, gpu, *library);
}

}  // namespace troupe::gpu

// One world for all ranks of the process, behind one mutex.
#include "tests/gpu/nccl/fake_nccl.hpp"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/gpu/emulator/runtime.hpp"

namespace troupe::gpu::cuda::fake_nccl {

namespace {

/// A collective that members arrive at, or a transfer.
struct meeting {
  std::vector<void*> data;  ///< by rank
  int arrived = 0;
  bool done = false;
};

struct clique {
  explicit clique(int members) : size(members) {}
  const int size;
  int joined = 0;
  bool broken = false;  ///< a member has gone while others had work, or before all joined
  int gone = 0;
  std::map<int, std::shared_ptr<meeting>> collectives;                         ///< by number
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<meeting>>> offers;  ///< by from, to
};

/// What outlives ncclComm: operations in streams hold it.
struct member {
  std::shared_ptr<clique> group;
  int rank = 0;
  int enqueued = 0;     ///< operations called
  int turn = 0;         ///< of the operations, whose turn it is
  int collectives = 0;  ///< called
  int launching = 0;    ///< called and not yet in their stream
  bool aborted = false;
  bool finalizing = false;
};

struct world_state {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::shared_ptr<clique>> cliques;
  int ids = 0;
  int stuck = 0;  ///< operations that wait
  facts counts;
  int held = 0;  ///< launches that have begun
  bool holding = false;
  bool silent = false;
  ncclResult_t broken = ncclSuccess;
};

world_state& world() {
  static world_state w;
  return w;
}

/// Group calls of this thread: what waits for the end of the group.
thread_local int group_depth = 0;
thread_local std::vector<std::shared_ptr<member>> group_aborts;

}  // namespace
}  // namespace troupe::gpu::cuda::fake_nccl

/// The handle that NCCL's header leaves open.
struct ncclComm {
  std::shared_ptr<troupe::gpu::cuda::fake_nccl::member> self;
};

namespace troupe::gpu::cuda::fake_nccl {

namespace {

using lock_type = std::unique_lock<std::mutex>;

/// An operation as its stream runs it: `work` is called with the world's lock when it is the
/// operation's turn, and may wait with wait_for().
struct operation {
  std::shared_ptr<member> self;
  int number = 0;
  std::function<void(member&, lock_type&)> work;
};

/// False: the operation was aborted.
template <class Condition>
bool wait_for(member& m, lock_type& lock, Condition condition) {
  auto& w = world();
  ++w.stuck;
  w.changed.notify_all();
  w.changed.wait(lock, [&] { return m.aborted || condition(); });
  --w.stuck;
  return !m.aborted;
}

void execute(const operation& op) {
  lock_type lock(world().mutex);
  auto& m = *op.self;
  if (wait_for(m, lock, [&] { return m.turn == op.number; })) op.work(m, lock);
  ++m.turn;
  world().changed.notify_all();
}

/// What every call on a communicator begins with.
bool usable(const ncclComm_t comm) {
  const auto& m = *comm->self;
  const bool good = m.group->joined == m.group->size && m.launching == 0 && !m.finalizing;
  if (!good) ++world().counts.bad_calls;
  return good;
}

/// Puts the operation into the stream from a thread of its own, as NCCL does.
ncclResult_t launch(ncclComm_t comm, cudaStream_t stream,
                    std::function<void(member&, lock_type&)> work) {
  lock_type lock(world().mutex);
  if (!usable(comm)) return ncclInvalidUsage;
  auto self = comm->self;
  auto op = std::make_shared<operation>(operation{self, self->enqueued++, std::move(work)});
  ++self->launching;
  std::thread([self, stream, op = std::move(op)] {
    {
      lock_type held(world().mutex);
      ++world().held;
      world().changed.notify_all();
      world().changed.wait(held, [] { return !world().holding; });
      --world().held;
    }
    troupe_emulator_enqueue(stream, [op] { execute(*op); });
    lock_type relock(world().mutex);
    --self->launching;
    world().changed.notify_all();
  }).detach();
  return ncclInProgress;
}

/// All members arrive; the last one does `together` for all.
ncclResult_t collective(ncclComm_t comm, cudaStream_t stream, void* own,
                        std::function<void(const std::vector<void*>&)> together) {
  int number = 0;
  {
    std::lock_guard lock(world().mutex);
    number = comm->self->collectives++;
  }
  return launch(comm, stream,
                [number, own, together = std::move(together)](member& m, lock_type& lock) {
                  auto& g = *m.group;
                  auto& place = g.collectives[number];
                  if (!place) place = std::make_shared<meeting>();
                  const auto at = place;
                  at->data.resize(static_cast<size_t>(g.size));
                  at->data[static_cast<size_t>(m.rank)] = own;
                  if (++at->arrived == g.size && g.gone == 0) {
                    together(at->data);
                    at->done = true;
                    g.collectives.erase(number);
                    world().changed.notify_all();
                  }
                  wait_for(m, lock, [&] { return at->done; });
                });
}

template <class T>
void add_up(const std::vector<void*>& all, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T sum = 0;
    for (auto* data : all) sum += static_cast<T*>(data)[i];
    for (auto* data : all) static_cast<T*>(data)[i] = sum;
  }
}

/// A member leaves; those who still need it are told, unless deaths are silent.
void leave(member& m) {
  auto& w = world();
  ++m.group->gone;
  if (!w.silent) m.group->broken = true;
  --w.counts.alive;
  w.changed.notify_all();
}

/// An abort returns when the device has let go of the communicator.
void await_idle(const std::shared_ptr<member>& m) {
  lock_type lock(world().mutex);
  world().changed.wait(lock, [&] { return m->launching == 0 && m->turn == m->enqueued; });
}

// -- the functions -------------------------------------------------------------------------------

ncclResult_t get_version(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  std::lock_guard lock(world().mutex);
  std::memset(id->internal, 0, sizeof(id->internal));
  std::strcpy(id->internal, ("fake " + std::to_string(++world().ids)).c_str());
  return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                       ncclConfig_t* config) {
  std::lock_guard lock(world().mutex);
  if (config->blocking != 0 || rank < 0 || rank >= size) {
    ++world().counts.bad_calls;
    return ncclInvalidArgument;
  }
  auto& g = world().cliques[std::string(id.internal, sizeof(id.internal))];
  if (!g) g = std::make_shared<clique>(size);
  auto m = std::make_shared<member>();
  m->group = g;
  m->rank = rank;
  ++g->joined;
  ++world().counts.alive;
  *comm = new ncclComm{m};
  return ncclInProgress;
}

ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t* state) {
  std::lock_guard lock(world().mutex);
  const auto& m = *comm->self;
  const bool needed = m.turn != m.enqueued || m.group->joined < m.group->size;
  if (m.launching > 0)
    *state = ncclInProgress;
  else if (world().broken != ncclSuccess)
    *state = world().broken;
  else if (m.group->broken && needed)
    *state = ncclRemoteError;
  else if (m.group->joined < m.group->size || (m.finalizing && needed))
    *state = ncclInProgress;
  else
    *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t finalize(ncclComm_t comm) {
  std::lock_guard lock(world().mutex);
  if (!usable(comm)) return ncclInvalidUsage;
  comm->self->finalizing = true;
  return ncclInProgress;
}

ncclResult_t destroy(ncclComm_t comm) {
  std::lock_guard lock(world().mutex);
  if (!comm->self->finalizing) ++world().counts.bad_calls;
  leave(*comm->self);
  ++world().counts.destroyed;
  delete comm;
  return ncclSuccess;
}

ncclResult_t abort(ncclComm_t comm) {
  auto m = comm->self;
  {
    std::lock_guard lock(world().mutex);
    m->aborted = true;
    leave(*m);
    ++world().counts.aborted;
    if (group_depth == 0) ++world().counts.aborted_alone;
    delete comm;
  }
  if (group_depth > 0)
    group_aborts.push_back(std::move(m));
  else
    await_idle(m);
  return ncclSuccess;
}

const char* error_string(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "an error";
}

const char* last_error(ncclComm_t) {
  return "";
}

ncclResult_t group_start() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  if (--group_depth > 0) return ncclSuccess;
  for (auto& m : std::exchange(group_aborts, {})) await_idle(m);
  return ncclSuccess;
}

size_t bytes_of(ncclDataType_t type) {
  return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : 1;
}

ncclResult_t all_reduce(const void*, void* data, size_t count, ncclDataType_t type, ncclRedOp_t,
                        ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, data, [=](const std::vector<void*>& all) {
    type == ncclFloat64 ? add_up<double>(all, count) : add_up<float>(all, count);
  });
}

/// In place: the members' buffers are `rank` parts before what they named.
std::vector<void*> whole(const std::vector<void*>& parts, size_t part_bytes) {
  std::vector<void*> out;
  for (size_t r = 0; r < parts.size(); ++r)
    out.push_back(static_cast<uint8_t*>(parts[r]) - r * part_bytes);
  return out;
}

ncclResult_t reduce_scatter(const void*, void* own, size_t part, ncclDataType_t, ncclRedOp_t,
                            ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, own, [=](const std::vector<void*>& parts) {
    const auto all = whole(parts, part * sizeof(float));
    for (size_t r = 0; r < parts.size(); ++r)
      for (size_t i = 0; i < part; ++i) {
        float sum = 0;
        for (auto* data : all) sum += static_cast<float*>(data)[r * part + i];
        static_cast<float*>(parts[r])[i] = sum;
      }
  });
}

ncclResult_t all_gather(const void* own, void*, size_t part, ncclDataType_t type, ncclComm_t comm,
                        cudaStream_t stream) {
  const auto bytes = part * bytes_of(type);
  return collective(comm, stream, const_cast<void*>(own), [=](const std::vector<void*>& parts) {
    for (auto* to : whole(parts, bytes))
      for (size_t r = 0; r < parts.size(); ++r)
        if (auto* place = static_cast<uint8_t*>(to) + r * bytes; place != parts[r])
          std::memcpy(place, parts[r], bytes);
  });
}

ncclResult_t send(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  const auto bytes = count * bytes_of(type);
  return launch(comm, stream, [=](member& m, lock_type& lock) {
    auto offer = std::make_shared<meeting>();
    // A copy: the receiver takes it even when this member is aborted meanwhile.
    std::vector<uint8_t> copy(bytes);
    std::memcpy(copy.data(), data, bytes);
    offer->data.push_back(copy.data());
    auto& queue = m.group->offers[{m.rank, peer}];
    queue.push_back(offer);
    world().changed.notify_all();
    if (!wait_for(m, lock, [&] { return offer->done; })) std::erase(queue, offer);
  });
}

ncclResult_t receive(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     cudaStream_t stream) {
  const auto bytes = count * bytes_of(type);
  return launch(comm, stream, [=](member& m, lock_type& lock) {
    auto& queue = m.group->offers[{peer, m.rank}];
    if (!wait_for(m, lock, [&] { return !queue.empty(); })) return;
    std::memcpy(data, queue.front()->data[0], bytes);
    queue.front()->done = true;
    queue.pop_front();
    world().changed.notify_all();
  });
}

}  // namespace

const nccl_library& library() {
  static const nccl_library table{get_version,    get_unique_id, init_rank, get_async_error,
                                  finalize,       destroy,       abort,     error_string,
                                  last_error,     group_start,   group_end, all_reduce,
                                  reduce_scatter, all_gather,    send,      receive};
  return table;
}

facts seen() {
  std::lock_guard lock(world().mutex);
  return world().counts;
}

void await_stuck(int operations) {
  lock_type lock(world().mutex);
  world().changed.wait(lock, [&] { return world().stuck >= operations; });
}

void hold_launches(bool on) {
  {
    std::lock_guard lock(world().mutex);
    world().holding = on;
  }
  world().changed.notify_all();
}

void await_held(int calls) {
  lock_type lock(world().mutex);
  world().changed.wait(lock, [&] { return world().held >= calls; });
}

void silent_deaths(bool on) {
  std::lock_guard lock(world().mutex);
  world().silent = on;
}

void break_everything(ncclResult_t error) {
  std::lock_guard lock(world().mutex);
  world().broken = error;
}

}  // namespace troupe::gpu::cuda::fake_nccl

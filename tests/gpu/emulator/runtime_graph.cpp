// Emulated stream capture and graphs.
//
// A captured graph is the list of its operations in the order they were enqueued, over all of its
// streams: what an operation depends on stands before it. A launch runs the list in one stream.
#include <algorithm>
#include <cstring>
#include <set>

#include "tests/gpu/emulator/runtime_state.hpp"

namespace troupe::gpu::cuda::emulator {

/// How far each stream of a capture had come, by a stream's or an event's knowledge.
using progress = std::map<cudaStream_t, int>;

struct capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool spoiled = false;
  std::vector<operation> list;
  std::map<cudaStream_t, progress> streams;  // those in it, and what each has seen of all
  std::map<cudaEvent_t, progress> events;    // recorded in it
};

namespace {

struct capture_state {
  std::mutex mutex;
  std::vector<std::shared_ptr<capture>> open;  // guarded by mutex
  std::set<cudaGraph_t> graphs;                // guarded by mutex
  std::set<cudaGraphExec_t> executables;       // guarded by mutex
};

capture_state& captures() {
  static capture_state one;
  return one;
}

std::atomic<int> open_captures{0};  // calls need the lock only while there is one

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/// The capture `s` is in; captures().mutex is held.
std::shared_ptr<capture> capture_of(cudaStream_t s) {
  for (const auto& c : captures().open) {
    if (c->streams.contains(s)) return c;
  }
  return nullptr;
}

std::shared_ptr<capture> capture_of(cudaEvent_t e) {
  for (const auto& c : captures().open) {
    if (c->events.contains(e)) return c;
  }
  return nullptr;
}

void merge(progress& into, const progress& other) {
  for (const auto& [s, count] : other) into[s] = std::max(into[s], count);
}

}  // namespace

bool captured(cudaStream_t s, operation& o) {
  if (open_captures.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard lock(captures().mutex);
  const auto c = capture_of(s);
  if (c == nullptr) return false;
  ++c->streams[s][s];
  c->list.push_back(std::move(o));
  return true;
}

bool is_capturing(cudaStream_t s) {
  if (open_captures.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard lock(captures().mutex);
  return capture_of(s) != nullptr;
}

cudaError_t spoil_capture(cudaStream_t s, const char*) {
  std::lock_guard lock(captures().mutex);
  if (const auto c = capture_of(s)) c->spoiled = true;
  return cudaErrorStreamCaptureUnsupported;
}

bool captured_record(cudaEvent_t e, cudaStream_t s, bool external) {
  if (open_captures.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard lock(captures().mutex);
  const auto c = capture_of(s);
  if (c == nullptr) return false;
  if (external) {
    ++c->streams[s][s];
    c->list.push_back({operation::kind::external_record, nullptr, e});
  } else {
    c->events[e] = c->streams[s];
  }
  return true;
}

bool captured_wait(cudaStream_t s, cudaEvent_t e, bool external, cudaError_t& outcome) {
  if (open_captures.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard lock(captures().mutex);
  const auto mine = capture_of(s), theirs = external ? nullptr : capture_of(e);
  if (mine == nullptr && theirs == nullptr) return false;
  outcome = cudaSuccess;
  if (external) {
    ++mine->streams[s][s];
    mine->list.push_back({operation::kind::external_wait, nullptr, e});
  } else if (theirs == nullptr || (mine != nullptr && mine != theirs)) {
    mine->spoiled = true;  // a captured stream depends on what is not in its graph
    outcome = cudaErrorStreamCaptureIsolation;
  } else {
    merge(theirs->streams[s], theirs->events[e]);  // `s` joins
  }
  return true;
}

void forget_event(cudaEvent_t e) {
  if (open_captures.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard lock(captures().mutex);
  for (const auto& c : captures().open) c->events.erase(e);
}

bool capture_forbids() {
  if (open_captures.load(std::memory_order_relaxed) == 0) return false;
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  std::lock_guard lock(captures().mutex);
  bool forbidden = false;
  for (const auto& c : captures().open) {
    const bool concerned =
        c->mode == cudaStreamCaptureModeGlobal
            ? thread_mode == cudaStreamCaptureModeGlobal || c->thread == std::this_thread::get_id()
            : c->mode == cudaStreamCaptureModeThreadLocal &&
                  c->thread == std::this_thread::get_id();
    if (concerned) c->spoiled = forbidden = true;
  }
  return forbidden;
}

}  // namespace troupe::gpu::cuda::emulator

using namespace troupe::gpu::cuda::emulator;

struct CUgraph_st {
  std::vector<operation> list;
};

struct CUgraphExec_st {
  std::vector<operation> list;
};

namespace troupe::gpu::cuda::emulator {

void count_graphs(live_objects& out) {
  std::lock_guard lock(captures().mutex);
  out.graphs = static_cast<int>(captures().graphs.size() + captures().executables.size());
}

}  // namespace troupe::gpu::cuda::emulator

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  std::swap(thread_mode, *mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (!knows(s)) {
    return leave(misuse("a capture of the default stream or one that does not exist",
                        cudaErrorInvalidResourceHandle));
  }
  std::lock_guard lock(captures().mutex);
  if (capture_of(s) != nullptr) return leave(cudaErrorIllegalState);
  auto c = std::make_shared<capture>();
  c->origin = s;
  c->mode = mode;
  c->thread = std::this_thread::get_id();
  c->streams[s] = {{s, 0}};
  captures().open.push_back(std::move(c));
  ++open_captures;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* out) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  std::lock_guard lock(captures().mutex);
  const auto c = capture_of(s);
  *out = c == nullptr ? cudaStreamCaptureStatusNone
         : c->spoiled ? cudaStreamCaptureStatusInvalidated
                      : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  *graph = nullptr;
  std::lock_guard lock(captures().mutex);
  const auto c = capture_of(s);
  if (c == nullptr) return leave(cudaErrorIllegalState);
  if (c->origin != s) return leave(cudaErrorStreamCaptureUnmatched);
  std::erase(captures().open, c);
  --open_captures;
  if (c->spoiled) return leave(cudaErrorStreamCaptureInvalidated);
  progress& seen = c->streams[s];
  for (const auto& [stream, own] : c->streams) {
    const auto count = own.find(stream);
    if (count != own.end() && seen[stream] < count->second)
      return leave(cudaErrorStreamCaptureUnjoined);
  }
  auto* made = new CUgraph_st{std::move(c->list)};
  captures().graphs.insert(made);
  *graph = made;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  std::lock_guard lock(captures().mutex);
  if (!captures().graphs.contains(graph)) return leave(cudaErrorInvalidValue);
  auto* fresh = new CUgraphExec_st{graph->list};
  captures().executables.insert(fresh);
  *made = fresh;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const auto entered = enter(__func__);
  std::lock_guard lock(captures().mutex);
  if (captures().graphs.erase(graph) == 0) return leave(cudaErrorInvalidValue);
  delete graph;
  return leave(entered);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const auto entered = enter(__func__);
  std::lock_guard lock(captures().mutex);
  if (captures().executables.erase(executable) == 0) return leave(cudaErrorInvalidValue);
  delete executable;
  return leave(entered);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t s) {
  if (auto e = enter(__func__); e != cudaSuccess) return leave(e);
  if (!knows(s)) {
    return leave(misuse("a graph is launched on the default stream or one that does not exist",
                        cudaErrorInvalidResourceHandle));
  }
  std::vector<operation> list;
  {
    std::lock_guard lock(captures().mutex);
    if (!captures().executables.contains(executable)) return leave(cudaErrorInvalidValue);
    list = executable->list;
  }
  for (operation& o : list) {
    if (o.what == operation::kind::external_record) {
      record_now(o.event, s);
    } else if (o.what == operation::kind::external_wait) {
      wait_now(s, o.event);
    } else {
      push(s, std::move(o));
    }
  }
  return cudaSuccess;
}

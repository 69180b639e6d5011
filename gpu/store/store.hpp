// The ParameterStore: where every parameter of a pipeline stage lives, in flat chunks.
//
// Why: a chunk (one layer, the token table, the position table, the head) is the unit of reduction,
// update, snapshot, swap and transfer. The optimizer, the all-reduce and the checkpoint read the
// same store rather than keep books of their own.
//
// A chunk is an ordered list of named tensors at fixed offsets in `count` elements, and up to five
// arrays ("parts"): weight (compute dtype), master (f32), m, v (f32 optimizer state), grad (f32).
//
// Data-parallel replicas share the optimizer (ZeRO stage 1, Rajbhandari et al. 2020; MegaScale
// section 3.2): a chunk is cut into as many equal slices as there are replicas, and a replica keeps
// master, m and v of its own slice alone. Weight and grad are whole everywhere, with so much
// padding at the end that the slices are equal; weights that share a frame are while they are in
// it. One replica's slice is the chunk.
// In f32 training the master slice is a view of the weights.
//
// Not all of it need be in memory (residency.hpp): chunks may share frames for weights and
// gradient, and their state may be on disk. Whoever uses a chunk's weights or gradient says so, by
// fetch and release; where everything is in memory that means no more than PS-6.
//
// Who may touch what (the phases of a step; order between streams is made with events):
//   weight: read by forward and backward; of the own slice written by the optimizer, of the others'
//     by the gathering behind it; written by loading.
//   master: read and written by the optimizer and by loading; read by snapshots.
//   m, v: the same as master.
//   grad: added to by forward (head) and backward; after the chunk's backward summed over replicas,
//     of the own slice, and zeroed outside of it; read and zeroed by the optimizer.
//
// Invariants
// PS-1 Offsets and order of tensors depend on the model alone, never on the pipeline layout: the
//   same chunk has the same bytes in every layout.
// PS-2 q, k, v (and gate, up) are adjacent, so that they are one matrix.
// PS-3 The elements between tensors are padding: zero in every part, for ever.
// PS-4 weight_version(chunk) grows whenever weight values change.
// PS-5 Whoever writes master, m or v of a chunk, or its weights where they are the master, first
//   calls await_readers(chunk) on its stream.
// PS-6 Whoever reads the weights of a chunk first calls fetch_weights(chunk) on its stream: others'
//   slices of them, or all, may still be on their way; and release_weights(chunk) behind the last
//   use of that visit. Who reads some rows alone may call fetch_rows(chunk) for them before.
// PS-7 Slices are a function of the chunk's elements and the number of replicas alone; together
//   they are the chunk, and none overlaps another.
// PS-8 How a weight is rounded by chance depends on the job's seed, the step, the name of the
//   chunk's first tensor and the element's number in the chunk: on no layout, and alike for a tied
//   copy and its twin.
// PS-9 Whoever begins to add to the gradient of a chunk first calls fetch_gradient(chunk).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/ops.hpp"
#include "gpu/store/residency.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

/// How a tensor lies in a Hugging Face file compared with the store's [out, in].
enum class file_layout : uint8_t {
  same,
  transposed,  ///< the file holds [in, out] (GPT-2's Conv1D)
};

/// One named tensor of a chunk.
struct tensor_info {
  std::string name;  ///< full Hugging Face name, e.g. "transformer.h.0.attn.c_attn.weight"
  std::vector<int64_t> shape;  ///< in the store: [out, in], or [n]
  int64_t offset = 0;          ///< first element within the chunk
  int64_t count = 0;           ///< elements
  bool decay = false;          ///< weight decay applies
  file_layout layout = file_layout::same;

  /// The shape in a Hugging Face file.
  std::vector<int64_t> file_shape() const;
};

/// One chunk: its tensors and how they may be used.
struct chunk_info {
  std::string
      name;  ///< "embedding", "positions", "layer.3", "head"; the same in every pipeline layout
  int64_t layer = -1;  ///< of the whole model; -1 where it is not a layer
  std::vector<tensor_info> tensors;
  int64_t count = 0;  ///< elements, padding included
  /// A second copy of the token table, for a tied head that lives on another stage than the
  /// embedding: not saved, not counted in the gradient norm.
  bool tied_copy = false;

  /// One span per tensor, padding given to the tensor before it: covers [0, count) in order.
  std::vector<parameter_span> spans() const;
};

/// Which of the replicas of a stage this is; each keeps one slice of every chunk's state.
struct replica_place {
  int rank = 0;   ///< in [0, ranks)
  int ranks = 1;  ///< how many share the state
};

/// One replica's slice of a chunk (PS-7).
struct chunk_slice {
  int64_t first = 0;  ///< its first element in the chunk; may lie behind the chunk's last
  int64_t count = 0;  ///< elements of the chunk in it; fewer than `part` at the chunk's end
  int64_t part = 0;   ///< elements allocated: the same for every replica
  int64_t whole = 0;  ///< `part` times the replicas: elements of weight and grad
};
chunk_slice slice_of(int64_t chunk_elements, const replica_place& replica);

/// Spans cut to the elements [first, first + count) and counted from `first` on; `skipped`: how
/// many lie wholly before it. Those wholly behind are left out.
std::vector<parameter_span> spans_within(const std::vector<parameter_span>& spans, int64_t first,
                                         int64_t count, int64_t& skipped);

/// What of a tensor lies in a range of its chunk.
struct tensor_piece {
  const tensor_info* tensor = nullptr;
  int64_t first = 0;  ///< its first element in the tensor
  int64_t count = 0;
  int64_t at = 0;  ///< where it begins in the range
};

/// Calls `each` for every tensor that lies in the elements [first, first + count) of the chunk, in
/// order, until one fails.
template <class F>
status for_each_piece(const chunk_info& chunk, int64_t first, int64_t count, F each) {
  for (const auto& t : chunk.tensors) {
    const int64_t begin = std::max(t.offset, first);
    const int64_t end = std::min(t.offset + t.count, first + count);
    if (begin < end)
      TROUPE_CHECK(each(tensor_piece{&t, begin - t.offset, end - begin, begin - first}));
  }
  return {};
}

/// Appends a tensor at the next free offset; `adjacent` leaves no padding before it (PS-2).
void add_tensor(chunk_info& chunk, tensor_info tensor, bool adjacent = false);

/// Pads the chunk's end; call once after its last tensor.
void finish_chunk(chunk_info& chunk);

/// The arrays of a chunk.
enum class part : uint8_t { weight, master, m, v, grad };

/// Names a tensor of a store.
struct tensor_ref {
  int chunk = -1;
  int tensor = -1;
};

/// What a store holds.
struct store_options {
  dtype compute = dtype::f32;  ///< of the weight part
  bool training = true;        ///< false: weight and master only
  replica_place replica = {};  ///< several replicas only in training
  /// bf16 weights are rounded by chance (gpu/stochastic_rounding.hpp) with this seed of the job's;
  /// absent: to the nearest.
  std::optional<uint64_t> rounding_seed = {};
  residency where = {};  ///< other than in memory only in training
};

class parameter_store {
 public:
  /// Of what write() has in memory of a chunk whose state is, too.
  static constexpr int64_t piece_elements = int64_t{1} << 20;

  /// Allocates every part that is in memory, zeroed. Fails with no_memory. Where some are not, a
  /// mover is set before anything else is called.
  static result<std::unique_ptr<parameter_store>> make(device& owner,
                                                       std::vector<chunk_info> chunks,
                                                       const store_options& options);

  device& owner() const noexcept { return *owner_; }
  const store_options& options() const noexcept { return options_; }
  int chunk_count() const noexcept { return static_cast<int>(chunks_.size()); }
  const chunk_info& info(int chunk) const { return chunks_[index(chunk)].info; }
  /// What of the chunk this store keeps the state of.
  const chunk_slice& slice(int chunk) const { return chunks_[index(chunk)].slice; }
  /// The spans of the slice, for the optimizers, counted from its first element; they live as long
  /// as the store.
  const std::vector<parameter_span>& spans(int chunk) const { return chunks_[index(chunk)].spans; }
  /// The tensor that spans(chunk)[0] is (a piece of).
  int64_t first_tensor(int chunk) const { return chunks_[index(chunk)].first_tensor; }

  /// Who brings what is not in memory; it is called until it is set to null.
  void set_mover(chunk_mover* mover) noexcept { mover_ = mover; }
  /// Whether master, m and v of the chunk are on disk (RES-1).
  bool state_on_disk(int chunk) const { return options_.where.of(chunk).state_on_disk; }

  /// Device memory of one part: of the whole chunk for weight and grad, of the slice for master, m
  /// and v. Null where the store was made without it, and for state on disk.
  void* data(int chunk, part which) const;
  /// What keeps that memory.
  std::shared_ptr<void> memory_of(int chunk, part which) const {
    return chunks_[index(chunk)].parts[static_cast<size_t>(which)];
  }
  /// Bytes of the frame that the chunk's weights are in: of the largest that it is shared with, and
  /// whole blocks of a disk.
  size_t frame_bytes(int chunk) const {
    return chunks_[index(chunk)].parts[static_cast<size_t>(part::weight)]->bytes();
  }
  void* weight(int chunk) const { return data(chunk, part::weight); }
  float* master(int chunk) const { return static_cast<float*>(data(chunk, part::master)); }
  float* m(int chunk) const { return static_cast<float*>(data(chunk, part::m)); }
  float* v(int chunk) const { return static_cast<float*>(data(chunk, part::v)); }
  float* grad(int chunk) const { return static_cast<float*>(data(chunk, part::grad)); }

  /// The slice's first element in the weight or grad part.
  void* weight_slice(int chunk) const;
  float* grad_slice(int chunk) const { return grad(chunk) + slice(chunk).first; }

  /// First element of one tensor in the weight or grad part.
  const void* weight(tensor_ref ref) const;
  float* grad(tensor_ref ref) const;
  const tensor_info& info(tensor_ref ref) const {
    return info(ref.chunk).tensors[static_cast<size_t>(ref.tensor)];
  }

  /// By full name; a tied copy is found only if nothing else has the name.
  std::optional<tensor_ref> find(std::string_view name) const;
  /// By chunk name; -1 if there is none.
  int find_chunk(std::string_view name) const;

  /// Bytes allocated for one part of one chunk; 0 for a master that is the weight, and where the
  /// part is absent.
  size_t bytes(int chunk, part which) const;

  /// PS-4.
  uint64_t weight_version(int chunk) const { return chunks_[index(chunk)].version; }
  void weights_changed(int chunk) { ++chunks_[index(chunk)].version; }

  /// Copies the slice's master to its weights (a cast; nothing where they are the same memory) and
  /// counts a new version. Rounded as the update of step `after` rounded its copies (PS-8); after
  /// 0, the start, to the nearest.
  void publish_weights(stream& s, int chunk, int64_t after = 0);
  /// The same rounding of `count` masters of the slice from `first` on, to memory anywhere.
  void round_weights(stream& s, int chunk, void* weights, const float* masters, int64_t first,
                     int64_t count, int64_t after);

  /// Whether weights are rounded by chance.
  bool rounds_by_chance() const noexcept {
    return options_.rounding_seed && options_.compute == dtype::bf16;
  }
  /// PS-8: the chunk's own.
  uint64_t rounding_seed(int chunk) const;

  /// Sets master, m or v from the info().count values of the whole chunk, of which the slice is
  /// kept; with master all weights are set, too, but where state is on disk those of the slice
  /// alone. A piece at a time is in memory. Blocks; the chunk must be quiet, none of its weights on
  /// their way from other ranks, and where there are other replicas its gradients are zero
  /// afterwards. For start-up and tests.
  status write(int chunk, part which, const value_source& values);
  status write(int chunk, part which, const float* host);
  /// Reads the slice().count values of master, m or v. Blocks like write().
  status read(int chunk, part which, float* host) const;
  /// Reads `count` values of state on disk, from element `first` of the slice on. Blocks; from any
  /// thread, behind what await_state() awaits.
  status read_from_disk(int chunk, part which, int64_t first, int64_t count, float* host) const {
    return mover_->read(chunk, which, first, count, host);
  }
  /// Makes `s` wait for the chunk's state on disk to be that of the last update enqueued.
  void await_state(stream& s, int chunk) const {
    if (state_on_disk(chunk)) mover_->await_state(s, chunk);
  }

  /// Registers a reader (a snapshot copy) of weight, master, m, v that is done at `until`.
  void add_reader(int chunk, event_ptr until);
  /// Whether a registered reader of the chunk is not done.
  bool has_readers(int chunk) const;
  /// Makes `s` wait for every registered reader of the chunk that is not done, and forgets them
  /// (PS-5).
  void await_readers(stream& s, int chunk);

  /// Says that the chunk's weights are whole only behind `whole` (PS-6). By the thread that
  /// enqueues reads of them.
  void weights_arrive(int chunk, event_ptr whole);
  /// Makes `s` wait until the weights are whole and in their frame (PS-6).
  void fetch_weights(stream& s, int chunk);
  /// The same of some rows of the table of `width` elements a row that the chunk begins with.
  /// False: all weights are awaited.
  bool fetch_rows(stream& s, int chunk, int64_t width, row_ids ids);
  /// Makes `s` wait for `whole`, behind which others' slices have come, as its watch sees it.
  void await_others(stream& s, const event_ptr& whole);
  /// Called where a stream has to wait for weights to be whole, with what enqueues that: it calls
  /// it, and may enqueue something before and behind it.
  using arrival_watch = std::function<void(stream& s, const std::function<void()>& wait)>;
  void set_arrival_watch(arrival_watch watch) { arrival_watch_ = std::move(watch); }
  /// What `s` has now is the last use of that visit.
  void release_weights(stream& s, int chunk);
  /// Makes `s` wait until the gradient's frame is the chunk's (PS-9). It is zero then, or what this
  /// step has added already.
  void fetch_gradient(stream& s, int chunk);

 private:
  struct chunk_state {
    chunk_info info;
    chunk_slice slice;
    std::vector<parameter_span> spans;
    int64_t first_tensor = 0;
    std::shared_ptr<buffer> parts[5];  ///< null: absent
    uint64_t version = 1;
    std::vector<event_ptr> readers;
    event_ptr arriving;
  };

  parameter_store(device& owner, const store_options& options)
      : owner_(&owner), options_(options) {}
  static size_t index(int chunk) noexcept { return static_cast<size_t>(chunk); }
  status allocate(std::vector<chunk_info> chunks);
  result<std::shared_ptr<buffer>> memory_for(int chunk, part which,
                                             std::vector<std::shared_ptr<buffer>>& frames) const;
  size_t size_of_frame(part which, int frame) const;
  bool in_memory(int chunk, part which) const;
  bool present(part which) const noexcept;
  bool weight_is_master() const noexcept { return options_.compute == dtype::f32; }
  void write_piece(stream& s, int chunk, part which, int64_t first, int64_t count,
                   const float* host);
  void write_weights(stream& s, int chunk, int64_t first, int64_t count, const float* host);

  device* owner_;
  store_options options_;
  std::vector<chunk_state> chunks_;
  chunk_mover* mover_ = nullptr;
  arrival_watch arrival_watch_;
};

}  // namespace troupe::gpu

// Layer norm and RMS norm with the residual sum before them; forward and backward.
//
// A row of up to 1,024 values (768 backward) belongs to a warp, a wider one to a block; it is read
// once and kept in registers: the variance is of the differences from the mean (two passes over
// registers). Backward, a block walks over many rows, copies them to shared memory two rows ahead
// of the one it works on, and keeps its columns' share of dweight and dbias in registers; the
// blocks' shares are then added by a second kernel in the order of the blocks, whose number depends
// on the shape alone: the same bits every time (OPS-2).
//
// Floor, with s = size_of(type), N tokens, C width:
//   forward   bytes N C s (2 + residual + sum_out) + 8 N; FLOPs about 8 N C
//   backward  bytes N C s (3 + dresidual) + 8 N (+ 16 C per block, in the cache); FLOPs 14 N C
#include "gpu/cuda/kernels/launch.hpp"

#include <algorithm>

#include "gpu/cuda/kernels/columns.hpp"
#include "gpu/cuda/kernels/pieces.hpp"

namespace troupe::gpu::cuda {
namespace {

/// How a row is spread over threads: `warps` of them, each thread with `pieces` pieces of `vec`
/// values, a row's width of threads apart. Narrow rows: one warp each, `rows` of them in a block.
struct row_plan {
  int vec, pieces, warps, rows;
  int threads() const { return 32 * warps * rows; }
};

/// The least that holds `width` values, with at most `narrow_pieces` pieces a thread for one warp.
row_plan plan_row(int64_t width, bool by_pieces, int narrow_pieces) {
  const auto pieces_of_warp = [&](int64_t vec) {
    return static_cast<int>((width + 32 * vec - 1) / (32 * vec));
  };
  const auto spread = [](int needed, int pieces) { return (needed + pieces - 1) / pieces; };
  constexpr int narrow_rows = 4;
  if (by_pieces) {
    const int needed = pieces_of_warp(wide);
    if (needed <= narrow_pieces) return {wide, needed, 1, narrow_rows};
    const int pieces = needed <= 64 ? 2 : 4;
    return {wide, pieces, spread(needed, pieces), 1};
  }
  const int needed = pieces_of_warp(1);
  if (needed <= 4) return {1, needed == 1 ? 1 : 4, 1, narrow_rows};
  const int pieces = needed <= 128 ? 4 : 32;
  return {1, pieces, spread(needed, pieces), 1};
}

/// Where a thread stands: the first row of its warp or block, the distance to the next, its place
/// within the row.
struct row_place {
  int64_t row, stride;
  int thread, threads;
};
__device__ __forceinline__ row_place place_of_thread(int row_warps) {
  if (row_warps > 1) return {block_index(), grid_blocks(), thread_index(), 32 * row_warps};
  const int rows = block_threads() / 32;
  return {int64_t{block_index()} * rows + warp_index(), int64_t{grid_blocks()} * rows, lane(), 32};
}

/// The row's sum, in each of its threads.
__device__ __forceinline__ float row_sum(float v, int row_warps, float* scratch) {
  return row_warps > 1 ? block_sum(v, scratch) : warp_sum(v);
}

template <class T, int vec, int pieces>
__global__ void SIMT_BLOCK(1024, 1) norm_forward_kernel(norm_forward_args a, int row_warps) {
  const row_place at = place_of_thread(row_warps);
  if (at.row >= a.tokens) return;  // a whole warp, and none of a row of several
  float* scratch = shared_memory<float>();
  const int width = static_cast<int>(a.width);
  const int64_t base = at.row * a.width;
  const auto column = [&](int i) { return (i * at.threads + at.thread) * vec; };
  piece<T, vec> x[pieces], residual[pieces];
  for (int i = 0; i < pieces; ++i) {
    if (column(i) >= width) continue;
    x[i] = load<T, vec>(a.x, base + column(i));
    if (a.residual != nullptr) residual[i] = load<T, vec>(a.residual, base + column(i));
  }
  float s[pieces][vec], total = 0;
  for (int i = 0; i < pieces; ++i) {
    if (column(i) >= width) continue;
    expand(x[i], s[i]);
    if (a.residual != nullptr) {
      float more[vec];
      expand(residual[i], more);
      for (int k = 0; k < vec; ++k) s[i][k] += more[k];
    }
    if (a.sum_out != nullptr) {  // what is normed is what backward will see: the stored sum
      const piece<T, vec> rounded = shrink<T, vec>(s[i]);
      store<T, vec>(a.sum_out, base + column(i), rounded);
      expand(rounded, s[i]);
    }
    for (int k = 0; k < vec; ++k) total += s[i][k];
  }
  const bool layer = a.kind == norm_kind::layer;
  const float mean = layer ? row_sum(total, row_warps, scratch) / static_cast<float>(width) : 0.0f;
  float squares = 0;
  for (int i = 0; i < pieces; ++i) {
    if (column(i) >= width) continue;
    for (int k = 0; k < vec; ++k) squares += (s[i][k] - mean) * (s[i][k] - mean);
  }
  squares = row_sum(squares, row_warps, scratch + 32);
  const float rstd = 1.0f / sqrtf(squares / static_cast<float>(width) + a.eps);
  if (at.thread == 0) {
    if (a.mean != nullptr) a.mean[at.row] = mean;
    a.rstd[at.row] = rstd;
  }
  for (int i = 0; i < pieces; ++i) {
    if (column(i) >= width) continue;
    float weight[vec], bias[vec] = {};
    expand(load<T, vec>(a.weight, column(i)), weight);
    if (a.bias != nullptr) expand(load<T, vec>(a.bias, column(i)), bias);
    for (int k = 0; k < vec; ++k) s[i][k] = (s[i][k] - mean) * rstd * weight[k] + bias[k];
    store<T, vec>(a.y, base + column(i), s[i]);
  }
}

enum row_tensor { row_x, row_dy, row_past, row_tensors };

/// A thread's pieces of the rows it goes over. Staged: copied to shared memory two rows ahead, with
/// no register held and no barrier, as each thread reads what it copied itself. Else read where
/// they lie.
template <class T, int vec, int pieces, bool staged>
struct row_source {
  const norm_backward_args& a;
  const row_place& at;
  piece<T, vec>* memory;  ///< [stages][row_tensors][pieces][threads of the block]

  static constexpr int stages = 2;
  __device__ __forceinline__ int column(int i) const { return (i * at.threads + at.thread) * vec; }
  __device__ __forceinline__ const void* base(row_tensor which) const {
    return which == row_x ? a.x : which == row_dy ? a.dy : a.dresidual;
  }
  __device__ __forceinline__ piece<T, vec>* place(int stage, row_tensor which, int i) const {
    const int slot = (stage * row_tensors + which) * pieces + i;
    return memory + slot * block_threads() + thread_index();
  }

  /// Starts copying a row, if there is one, as one group.
  __device__ __forceinline__ void fetch(int64_t row, int stage) const {
    if constexpr (staged) {
      if (row < a.tokens) copy(row, stage);
      copy_async_commit();
    }
  }
  __device__ __forceinline__ void copy(int64_t row, int stage) const {
    for (int i = 0; i < pieces; ++i) {
      if (column(i) >= a.width) continue;
      for (const row_tensor which : {row_x, row_dy, row_past}) {
        if (base(which) == nullptr) continue;
        auto* to = reinterpret_cast<char*>(place(stage, which, i));
        const auto* from = static_cast<const T*>(base(which)) + row * a.width + column(i);
        for (size_t byte = 0; byte < sizeof(piece<T, vec>); byte += 16)
          copy_async_16(to + byte, reinterpret_cast<const char*>(from) + byte, true);
      }
    }
  }
  /// Waits until at most `groups` of the latest rows are missing.
  template <int groups>
  __device__ __forceinline__ void wait() const {
    if constexpr (staged) copy_async_wait<groups>();
  }
  __device__ __forceinline__ void get(row_tensor which, int i, int64_t row, int stage,
                                      float (&to)[vec]) const {
    if constexpr (staged) {
      expand(*place(stage, which, i), to);
    } else {
      expand(load<T, vec>(base(which), row * a.width + column(i)), to);
    }
  }
};

/// Both sums of a row at once. `scratch`: 64 floats that the call before the last may have used.
__device__ __forceinline__ void row_sums(float& one, float& other, int row_warps, float* scratch) {
  one = warp_sum(one);
  other = warp_sum(other);
  if (row_warps == 1) return;
  if (lane() == 0) {
    scratch[warp_index()] = one;
    scratch[32 + warp_index()] = other;
  }
  sync_block();
  one = warp_sum(lane() < row_warps ? scratch[lane()] : 0.0f);
  other = warp_sum(lane() < row_warps ? scratch[32 + lane()] : 0.0f);
}

/// Writes the block's sums of one gradient: its row's threads' own, or those of its warps added in
/// order by way of `shared` [warps][width].
template <int vec, int pieces>
__device__ __forceinline__ void write_partial(const float (&sums)[pieces][vec], int width,
                                              const row_place& at, int row_warps, float* shared,
                                              float* out) {
  const bool narrow = row_warps == 1;
  float* to = narrow ? shared + warp_index() * width : out;
  for (int i = 0; i < pieces; ++i) {
    const int column = (i * at.threads + at.thread) * vec;
    if (column >= width) continue;
    for (int k = 0; k < vec; ++k) to[column + k] = sums[i][k];
  }
  if (!narrow) return;
  sync_block();
  for (int c = thread_index(); c < width; c += block_threads()) {
    float total = 0;
    for (int w = 0; w < block_threads() / 32; ++w) total += shared[w * width + c];
    out[c] = total;
  }
  sync_block();
}

/// `bound`: threads a block has at most; `resident`: how many such blocks are to fit together.
template <class T, int vec, int pieces, bool staged, int bound, int resident>
__global__ void SIMT_BLOCK(bound, resident)
    norm_backward_kernel(norm_backward_args a, int row_warps, float* partial) {
  float* scratch = shared_memory<float>();  // 128; then the rows, and when they are done the sums
  const row_place at = place_of_thread(row_warps);
  using source = row_source<T, vec, pieces, staged>;
  const source rows{a, at, reinterpret_cast<piece<T, vec>*>(scratch + 128)};
  const int width = static_cast<int>(a.width);
  const float per_width = 1.0f / static_cast<float>(width);
  rows.fetch(at.row, 0);
  rows.fetch(at.row + at.stride, 1);
  piece<T, vec> weights[pieces];
  for (int i = 0; i < pieces; ++i)
    if (rows.column(i) < width) weights[i] = load<T, vec>(a.weight, rows.column(i));
  float dweight[pieces][vec] = {}, dbias[pieces][vec] = {};
  int stage = 0;
  for (int64_t row = at.row; row < a.tokens; row += at.stride, stage ^= 1) {
    const float mean = a.kind == norm_kind::layer ? a.mean[row] : 0.0f, rstd = a.rstd[row];
    rows.template wait<source::stages - 1>();
    float sum_g = 0, sum_gh = 0;
    for (int i = 0; i < pieces; ++i) {
      if (rows.column(i) >= width) continue;
      float x[vec], dy[vec], weight[vec];
      rows.get(row_x, i, row, stage, x);
      rows.get(row_dy, i, row, stage, dy);
      expand(weights[i], weight);
      for (int k = 0; k < vec; ++k) {
        const float normed = (x[k] - mean) * rstd, g = dy[k] * weight[k];
        dweight[i][k] += dy[k] * normed;
        dbias[i][k] += dy[k];
        sum_g += g;
        sum_gh += g * normed;
      }
    }
    // Scratch alternates, so that one barrier a row is enough.
    row_sums(sum_g, sum_gh, row_warps, scratch + 64 * stage);
    const float mean_g = a.kind == norm_kind::layer ? sum_g * per_width : 0.0f;
    const float mean_gh = sum_gh * per_width;
    for (int i = 0; i < pieces; ++i) {
      if (rows.column(i) >= width) continue;
      float x[vec], dy[vec], weight[vec], dx[vec] = {};
      rows.get(row_x, i, row, stage, x);
      rows.get(row_dy, i, row, stage, dy);
      expand(weights[i], weight);
      if (a.dresidual != nullptr) rows.get(row_past, i, row, stage, dx);
      for (int k = 0; k < vec; ++k)
        dx[k] += rstd * (dy[k] * weight[k] - mean_g - (x[k] - mean) * rstd * mean_gh);
      store<T, vec>(a.dx, row * a.width + rows.column(i), dx);
    }
    rows.fetch(row + source::stages * at.stride, stage);
  }
  rows.template wait<0>();
  sync_block();
  float* out = partial + int64_t{block_index()} * width;
  write_partial(dweight, width, at, row_warps, scratch, out);
  if (a.dbias != nullptr)
    write_partial(dbias, width, at, row_warps, scratch, out + int64_t{grid_blocks()} * width);
}

template <class T, int vec, int pieces>
cudaError_t forward(cudaStream_t s, const norm_forward_args& a, const row_plan& p) {
  return launch(norm_forward_kernel<T, vec, pieces>, {blocks_for(a.tokens, p.rows)}, p.threads(),
                64 * sizeof(float), s, a, p.warps);
}

template <class T>
cudaError_t forward(cudaStream_t s, const norm_forward_args& a, const row_plan& p) {
  if (p.vec == 1) {
    if (p.pieces == 1) return forward<T, 1, 1>(s, a, p);
    if (p.pieces == 4) return forward<T, 1, 4>(s, a, p);
    return forward<T, 1, 32>(s, a, p);
  }
  if (p.pieces == 1) return forward<T, wide, 1>(s, a, p);
  if (p.pieces == 2) return forward<T, wide, 2>(s, a, p);
  if (p.pieces == 3) return forward<T, wide, 3>(s, a, p);
  return forward<T, wide, 4>(s, a, p);
}

constexpr int narrow_forward = 4, narrow_backward = 3;  ///< pieces of a row of one warp

row_plan backward_plan(const norm_backward_args& a) {
  return plan_row(a.width, moves_wide(a.type, a.width, {a.dy, a.x, a.weight, a.dresidual, a.dx}),
                  narrow_backward);
}

/// As many blocks as are resident together: their registers allow 640 threads, 512 of the largest.
int64_t backward_blocks(const norm_backward_args& a, const row_plan& p) {
  const int of_one = p.pieces == 3 ? 4 : std::max(1, 640 / p.threads());
  return std::min<int64_t>(int64_t{multiprocessors} * of_one, blocks_for(a.tokens, p.rows));
}

/// Shared memory of a block; that of the rows is used again for the sums of narrow ones.
size_t backward_shared(const norm_backward_args& a, const row_plan& p, bool staged) {
  const size_t of_thread = static_cast<size_t>(p.pieces * p.vec) * size_of(a.type);
  const size_t rows = staged ? 2 * row_tensors * of_thread * static_cast<size_t>(p.threads()) : 0;
  const size_t sums = p.warps == 1 ? static_cast<size_t>(p.rows * a.width) * sizeof(float) : 0;
  return std::max(128 * sizeof(float) + rows, sums);
}

template <class T, int vec, int pieces, bool staged, int bound, int resident = 1>
cudaError_t backward(cudaStream_t s, const norm_backward_args& a, const row_plan& p,
                     float* partial) {
  return launch(norm_backward_kernel<T, vec, pieces, staged, bound, resident>,
                {static_cast<unsigned>(backward_blocks(a, p))}, p.threads(),
                backward_shared(a, p, staged), s, a, p.warps, partial);
}

template <class T>
cudaError_t backward(cudaStream_t s, const norm_backward_args& a, const row_plan& p,
                     float* partial) {
  if (p.vec == 1) {
    if (p.pieces == 1) return backward<T, 1, 1, false, 128>(s, a, p, partial);
    if (p.pieces == 4) return backward<T, 1, 4, false, 1024>(s, a, p, partial);
    return backward<T, 1, 32, false, 1024>(s, a, p, partial);
  }
  if (p.pieces == 1) return backward<T, wide, 1, true, 128, 5>(s, a, p, partial);
  if (p.pieces == 3) return backward<T, wide, 3, true, 128, 4>(s, a, p, partial);
  const bool staged = backward_shared(a, p, true) <= max_shared_bytes;
  if (p.pieces == 2 && p.threads() <= 512) return backward<T, wide, 2, true, 512>(s, a, p, partial);
  if (p.pieces == 2 && staged) return backward<T, wide, 2, true, 1024>(s, a, p, partial);
  if (p.pieces == 2) return backward<T, wide, 2, false, 1024>(s, a, p, partial);
  return backward<T, wide, 4, false, 1024>(s, a, p, partial);
}

}  // namespace

cudaError_t launch_norm_forward(cudaStream_t s, const norm_forward_args& a, void*) {
  if (a.width > max_norm_width) return cudaErrorInvalidValue;
  const bool by_pieces =
      moves_wide(a.type, a.width, {a.x, a.residual, a.weight, a.bias, a.sum_out, a.y});
  const row_plan p = plan_row(a.width, by_pieces, narrow_forward);
  return a.type == dtype::bf16 ? forward<bf16>(s, a, p) : forward<float>(s, a, p);
}

size_t scratch_bytes(const norm_backward_args& a) {
  const int64_t floats = 2 * backward_blocks(a, backward_plan(a)) * a.width;
  return static_cast<size_t>(floats) * sizeof(float);
}

cudaError_t launch_norm_backward(cudaStream_t s, const norm_backward_args& a, void* scratch) {
  if (a.width > max_norm_width) return cudaErrorInvalidValue;
  const row_plan p = backward_plan(a);
  auto* partial = static_cast<float*>(scratch);
  const cudaError_t done =
      a.type == dtype::bf16 ? backward<bf16>(s, a, p, partial) : backward<float>(s, a, p, partial);
  if (done != cudaSuccess) return done;
  return launch_add_partial_sums(s, partial, backward_blocks(a, p), a.width, a.dweight, a.dbias);
}

}  // namespace troupe::gpu::cuda

// Embeddings: rows of a table by token, and the gradient of the table.
//
// Backward. Many positions may hold the same token, and float sums must not depend on timing
// (OPS-2), so the positions are sorted by token first, and equal ones are added in order:
//   1. Sort: least significant digit first, at most 9 bits a digit (two passes up to V = 2^18).
//     A pass cuts the positions into tiles of 512; in each, one thread per digit value goes over
//     the tile and counts (then, places) its own: stable, and nothing to race for. About 4 us a
//     kernel at N = 64k, three kernels a pass, whatever C is.
//   2. Pieces: the sorted positions are cut into pieces of 64. A block adds up its piece's runs of
//     equal tokens, for up to 1,024 columns; a run within the piece goes straight to the table
//     (no other block touches that row), one that crosses an end of the piece to a partial sum.
//   3. Runs over several pieces: the block of the piece where the run begins adds the run's partial
//     sums in order. A token in 5 % of 64k positions is a chain of 51 such sums; were all positions
//     of one token, of 1,024.
// So dout is read once, each row of the table that occurs is read and written once, and partial
// sums are at most 1/32 of dout's elements. Sums over positions (position table): a thread adds its
// column over the batch; where rows hold several documents, over all that reach its position, row
// by row in the order they have (OPS-2). For that it walks from document to document, each a read
// that waits for the one before (all threads of a position read the same): little where documents
// have hundreds of tokens; a row of T documents of one token is T such reads.
//
// Floor, with s = size_of(type), N = B T, U different tokens:
//   forward   bytes N C s (2, or 3 with positions) + 4 N; FLOPs N C with positions
//   backward  bytes N C s (twice with positions) + 8 U C (+ 8 T C); FLOPs N C (2 N C)
// and 4 N bytes more for documents.
#include "gpu/cuda/kernels/launch.hpp"

#include <algorithm>
#include <bit>

#include "gpu/cuda/kernels/pieces.hpp"

namespace troupe::gpu::cuda {
namespace {

constexpr int block = 256;

template <class T, int vec, bool in_documents>
__global__ void embedding_forward_kernel(embedding_forward_args a, int64_t items) {
  const int64_t item = int64_t{block_index()} * block + thread_index();
  if (item >= items) return;
  const divided at = divide(item, static_cast<int>(a.width / vec));
  const int64_t column = int64_t{at.remainder} * vec;
  const int64_t token = a.tokens[at.quotient];
  SIMT_ASSERT(token >= 0 && token < a.vocab);
  piece<T, vec> row = load<T, vec>(a.token_table, token * a.width + column);
  if (a.position_table != nullptr) {
    const int64_t position = position_of<in_documents>(at.quotient, a.seq, a.documents);
    float sum[vec], more[vec];
    expand(row, sum);
    expand(load<T, vec>(a.position_table, position * a.width + column), more);
    for (int k = 0; k < vec; ++k) sum[k] += more[k];
    row = shrink<T, vec>(sum);
  }
  store<T, vec>(a.out, at.quotient * a.width + column, row);
}

template <class T, int vec>
cudaError_t forward(cudaStream_t s, const embedding_forward_args& a) {
  const int64_t items = a.batch * a.seq * (a.width / vec);
  const auto kernel = a.documents.first != nullptr ? embedding_forward_kernel<T, vec, true>
                                                   : embedding_forward_kernel<T, vec, false>;
  return launch(kernel, {blocks_for(items, block)}, block, 0, s, a, items);
}

// -- sorting the positions by token ---------------------------------------------------------------

constexpr int tile = 512;  ///< positions a block sorts
constexpr int most_digit_bits = 9;

/// Positions and their tokens, in some order. `position` null: 0, 1, 2, ...
struct sequence {
  const int32_t* token;
  const int32_t* position;
};

/// Reads the tile's digits into shared memory and returns how many there are.
__device__ __forceinline__ int read_digits(const int32_t* token, int64_t count, int shift,
                                           int values, int* digits) {
  const int64_t begin = int64_t{block_index()} * tile;
  const int here = static_cast<int>(count - begin < tile ? count - begin : tile);
  for (int i = thread_index(); i < here; i += block_threads())
    digits[i] = (token[begin + i] >> shift) & (values - 1);
  sync_block();
  return here;
}

/// counts[digit][tile]: how often the digit's value occurs in the tile. One thread per value.
__global__ void count_digits_kernel(const int32_t* token, int64_t count, int shift, int values,
                                    int* counts) {
  int* digits = shared_memory<int>();
  const int here = read_digits(token, count, shift, values, digits);
  const int mine = thread_index();
  int found = 0;
  for (int i = 0; i < here; ++i) found += digits[i] == mine;
  if (mine < values) counts[int64_t{mine} * grid_blocks() + block_index()] = found;
}

/// Replaces each count by the sum of those before it. One block; a thread has a run of `share`.
__global__ void SIMT_BLOCK(1024, 1) offsets_kernel(int* counts, int count, int share) {
  int* warp_totals = shared_memory<int>();
  const int64_t begin = int64_t{thread_index()} * share;
  const int64_t end = begin + share < count ? begin + share : count;
  int mine = 0;
  for (int64_t i = begin; i < end; ++i) mine += counts[i];
  int upto = mine;  // with those of the lanes before
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = shuffle(upto, lane() - distance < 0 ? 0 : lane() - distance);
    if (lane() >= distance) upto += other;
  }
  if (lane() == 31) warp_totals[warp_index()] = upto;
  sync_block();
  int before = upto - mine;
  for (int w = 0; w < warp_index(); ++w) before += warp_totals[w];
  for (int64_t i = begin; i < end; ++i) {
    const int here = counts[i];
    counts[i] = before;
    before += here;
  }
}

/// Moves each position of the tile to its place by the digit, in the order they have.
__global__ void place_kernel(sequence from, int64_t count, int shift, int values,
                             const int* offsets, int32_t* token, int32_t* position) {
  int* digits = shared_memory<int>();
  const int here = read_digits(from.token, count, shift, values, digits);
  const int mine = thread_index();
  if (mine >= values) return;
  const int64_t begin = int64_t{block_index()} * tile;
  int64_t to = offsets[int64_t{mine} * grid_blocks() + block_index()];
  for (int i = 0; i < here; ++i) {
    if (digits[i] != mine) continue;
    token[to] = from.token[begin + i];
    position[to++] =
        from.position != nullptr ? from.position[begin + i] : static_cast<int32_t>(begin + i);
  }
}

struct sort_plan {
  int passes, bits;  ///< of digits; of each
  int values() const { return 1 << bits; }
  int threads() const { return std::max(32, values()); }
};
sort_plan plan_sort(int64_t vocab) {
  const int all = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(vocab - 1))));
  const int passes = (all + most_digit_bits - 1) / most_digit_bits;
  return {passes, (all + passes - 1) / passes};
}

/// Working memory: two orders to sort between, counts, partial sums.
struct embedding_memory {
  int32_t* token[2];
  int32_t* position[2];
  int* counts;
  float* partial;
};

/// Sorts and returns which of the two orders holds the outcome, or fails.
cudaError_t sort_positions(cudaStream_t s, const embedding_backward_args& a,
                           const embedding_memory& m, sequence& sorted) {
  const int64_t count = a.batch * a.seq;
  const sort_plan p = plan_sort(a.vocab);
  const unsigned tiles = blocks_for(count, tile);
  const int counters = p.values() * static_cast<int>(tiles);
  sorted = {a.tokens, nullptr};
  for (int pass = 0; pass < p.passes; ++pass) {
    const int shift = pass * p.bits;
    int32_t *token = m.token[pass % 2], *position = m.position[pass % 2];
    cudaError_t done = launch(count_digits_kernel, {tiles}, p.threads(), tile * sizeof(int), s,
                              sorted.token, count, shift, p.values(), m.counts);
    if (done == cudaSuccess)
      done = launch(offsets_kernel, {1}, 1024, 32 * sizeof(int), s, m.counts, counters,
                    (counters + 1023) / 1024);
    if (done == cudaSuccess)
      done = launch(place_kernel, {tiles}, p.threads(), tile * sizeof(int), s, sorted, count, shift,
                    p.values(), m.counts, token, position);
    if (done != cudaSuccess) return done;
    sorted = {token, position};
  }
  return cudaSuccess;
}

// -- adding up runs of equal tokens ---------------------------------------------------------------

constexpr int run_piece = 64;  ///< sorted positions a block adds up
constexpr int run_threads = 128;
constexpr int in_flight = 4;  ///< rows a thread reads ahead

/// The runs of one piece. Partial sums: [pieces][2][width], first of a run that began before the
/// piece, second of one that begins in it and goes on after it.
template <class T, int vec>
__global__ void SIMT_BLOCK(run_threads, 1)
    add_runs_kernel(const void* dout, int width, sequence sorted, int64_t count, float* table,
                    float* partial) {
  auto* tokens = shared_memory<int32_t>();  // of the piece, and of the positions at both sides
  int32_t* positions = tokens + run_piece + 2;
  const int64_t begin = int64_t{block_index()} * run_piece;
  const int here = static_cast<int>(count - begin < run_piece ? count - begin : run_piece);
  for (int i = thread_index(); i < here + 2; i += run_threads) {
    const int64_t at = begin + i - 1;
    tokens[i] = at >= 0 && at < count ? sorted.token[at] : -1;
    if (i < here) positions[i] = sorted.position[begin + i];
  }
  sync_block();
  const int column = (block_index_y() * run_threads + thread_index()) * vec;
  if (column >= width) return;
  float* leading = partial + int64_t{block_index()} * 2 * width + column;
  // What the sum of the run that ends at i is added to, if its row is this block's alone.
  const auto whole_run_ends = [&](int i, bool began_before) {
    return i < here && tokens[i + 1] != tokens[i + 2] && !began_before;
  };
  float sum[vec] = {};
  bool began_before = tokens[0] == tokens[1];
  for (int i = 0; i < here; i += in_flight) {
    piece<T, vec> row[in_flight];
    piece<float, vec> old[in_flight] = {};
    bool ends_whole[in_flight];
    bool before = began_before;
    for (int j = 0; j < in_flight; ++j) {
      ends_whole[j] = whole_run_ends(i + j, before);
      if (i + j >= here) continue;
      row[j] = load<T, vec>(dout, int64_t{positions[i + j]} * width + column);
      if (ends_whole[j])
        old[j] = load<float, vec>(table, int64_t{tokens[i + j + 1]} * width + column);
      if (tokens[i + j + 1] != tokens[i + j + 2]) before = false;
    }
    for (int j = 0; j < in_flight; ++j) {
      if (i + j >= here) continue;
      float v[vec];
      expand(row[j], v);
      for (int k = 0; k < vec; ++k) sum[k] += v[k];
      const bool run_ends = tokens[i + j + 1] != tokens[i + j + 2];
      if (ends_whole[j]) {
        for (int k = 0; k < vec; ++k) old[j].v[k] += sum[k];
        store<float, vec>(table, int64_t{tokens[i + j + 1]} * width + column, old[j]);
      } else if (run_ends || i + j + 1 == here) {
        store<float, vec>(leading, began_before ? 0 : width, sum);
      }
      if (!run_ends) continue;
      began_before = false;
      for (int k = 0; k < vec; ++k) sum[k] = 0;
    }
  }
}

/// The run that begins in a piece and goes on after it: adds its partial sums, in order.
template <int vec>
__global__ void SIMT_BLOCK(run_threads, 1)
    join_runs_kernel(const int32_t* token, int64_t count, int width, const float* partial,
                     float* table) {
  const int column = (block_index_y() * run_threads + thread_index()) * vec;
  const int64_t mine = block_index();
  const int64_t next = (mine + 1) * run_piece;
  if (column >= width || next >= count) return;
  const int32_t run = token[next];
  if (token[next - 1] != run) return;
  const int64_t begin = mine * run_piece;
  if (token[begin] == run && begin > 0 && token[begin - 1] == run) return;  // began before
  float sum[vec];
  expand(load<float, vec>(partial, (2 * mine + 1) * width + column), sum);
  for (int64_t p = mine + 1;; p += in_flight) {
    piece<float, vec> part[in_flight] = {};
    bool goes_on = false;
    for (int j = 0; j < in_flight; ++j) {
      goes_on = (p + j) * run_piece < count && token[(p + j) * run_piece] == run;
      if (goes_on) part[j] = load<float, vec>(partial, 2 * (p + j) * width + column);
    }
    for (int j = 0; j < in_flight; ++j)
      for (int k = 0; k < vec; ++k) sum[k] += part[j].v[k];
    if (!goes_on) break;
  }
  float old[vec];
  expand(load<float, vec>(table, int64_t{run} * width + column), old);
  for (int k = 0; k < vec; ++k) old[k] += sum[k];
  store<float, vec>(table, int64_t{run} * width + column, old);
}

/// d_position_table[t] += the sum of dout[b][t] over b.
template <class T, int vec>
__global__ void add_positions_kernel(embedding_backward_args a, int64_t items) {
  const int64_t item = int64_t{block_index()} * block + thread_index();
  if (item >= items) return;
  const int64_t at = item * vec, distance = a.seq * a.width;
  float sum[vec] = {};
  for (int64_t b = 0; b < a.batch; b += in_flight) {
    piece<T, vec> row[in_flight] = {};
    for (int j = 0; j < in_flight; ++j)
      if (b + j < a.batch) row[j] = load<T, vec>(a.dout, at + (b + j) * distance);
    for (int j = 0; j < in_flight; ++j) {
      float v[vec];
      expand(row[j], v);
      for (int k = 0; k < vec; ++k) sum[k] += v[k];
    }
  }
  float old[vec];
  expand(load<float, vec>(a.d_position_table, at), old);
  for (int k = 0; k < vec; ++k) old[k] += sum[k];
  store<float, vec>(a.d_position_table, at, old);
}

/// d_position_table[p] += the sum of dout[b][d + p] over b and its documents, which begin at d.
template <class T, int vec>
__global__ void add_document_positions_kernel(embedding_backward_args a, int64_t items) {
  const int64_t item = int64_t{block_index()} * block + thread_index();
  if (item >= items) return;
  const divided at = divide(item, static_cast<int>(a.width / vec));
  const int64_t position = at.quotient, column = int64_t{at.remainder} * vec;
  float sum[vec] = {};
  for (int64_t b = 0; b < a.batch; ++b) {
    const int32_t* ends = a.documents.end + b * a.seq;
    for (int64_t first = 0; first + position < a.seq;) {
      const int64_t end = ends[first];
      SIMT_ASSERT(end > first && end <= a.seq);
      if (first + position < end) {
        float v[vec];
        expand(load<T, vec>(a.dout, (b * a.seq + first + position) * a.width + column), v);
        for (int k = 0; k < vec; ++k) sum[k] += v[k];
      }
      first = end;
    }
  }
  float old[vec];
  expand(load<float, vec>(a.d_position_table, item * vec), old);
  for (int k = 0; k < vec; ++k) old[k] += sum[k];
  store<float, vec>(a.d_position_table, item * vec, old);
}

template <class T, int vec>
cudaError_t backward(cudaStream_t s, const embedding_backward_args& a, const embedding_memory& m) {
  sequence sorted{};
  cudaError_t done = sort_positions(s, a, m, sorted);
  if (done != cudaSuccess) return done;
  const int64_t count = a.batch * a.seq;
  const int width = static_cast<int>(a.width);
  const grid_size grid{blocks_for(count, run_piece), blocks_for(a.width, run_threads * vec)};
  done = launch(add_runs_kernel<T, vec>, grid, run_threads, (2 * run_piece + 2) * sizeof(int32_t),
                s, a.dout, width, sorted, count, a.d_token_table, m.partial);
  if (done == cudaSuccess)
    done = launch(join_runs_kernel<vec>, grid, run_threads, 0, s, sorted.token, count, width,
                  m.partial, a.d_token_table);
  if (done != cudaSuccess || a.d_position_table == nullptr) return done;
  const int64_t items = a.seq * a.width / vec;
  const auto kernel = a.documents.first != nullptr ? add_document_positions_kernel<T, vec>
                                                   : add_positions_kernel<T, vec>;
  return launch(kernel, {blocks_for(items, block)}, block, 0, s, a, items);
}

/// Cuts the working memory up; returns its size.
size_t lay_out(const embedding_backward_args& a, void* base, embedding_memory& m) {
  const auto count = static_cast<size_t>(a.batch * a.seq);
  const auto values = static_cast<size_t>(plan_sort(a.vocab).values());
  size_t used = 0;
  const auto take = [&](auto*& to, size_t elements) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(static_cast<char*>(base) + used);
    used += (elements * sizeof(*to) + 255) / 256 * 256;
  };
  for (int i = 0; i < 2; ++i) {
    take(m.token[i], count);
    take(m.position[i], count);
  }
  take(m.counts, values * blocks_for(a.batch * a.seq, tile));
  take(m.partial, 2 * blocks_for(a.batch * a.seq, run_piece) * static_cast<size_t>(a.width));
  return used;
}

}  // namespace

cudaError_t launch_embedding_forward(cudaStream_t s, const embedding_forward_args& a, void*) {
  const bool by_pieces = moves_wide(a.type, a.width, {a.token_table, a.position_table, a.out});
  if (a.type == dtype::bf16) return by_pieces ? forward<bf16, wide>(s, a) : forward<bf16, 1>(s, a);
  return by_pieces ? forward<float, wide>(s, a) : forward<float, 1>(s, a);
}

size_t scratch_bytes(const embedding_backward_args& a) {
  embedding_memory m{};
  return lay_out(a, nullptr, m);
}

cudaError_t launch_embedding_backward(cudaStream_t s, const embedding_backward_args& a,
                                      void* scratch) {
  embedding_memory m{};
  lay_out(a, scratch, m);
  const bool by_pieces = moves_wide(a.type, a.width, {a.dout}) &&
                         moves_wide(dtype::f32, a.width, {a.d_token_table, a.d_position_table});
  if (a.type == dtype::bf16)
    return by_pieces ? backward<bf16, wide>(s, a, m) : backward<bf16, 1>(s, a, m);
  return by_pieces ? backward<float, wide>(s, a, m) : backward<float, 1>(s, a, m);
}

}  // namespace troupe::gpu::cuda

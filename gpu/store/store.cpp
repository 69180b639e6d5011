// The ParameterStore's bookkeeping; the invariants stand in store.hpp.
#include "gpu/store/store.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "io/base/memory_account.hpp"

namespace troupe::gpu {

namespace {

/// Elements a tensor starts at a multiple of: 64 bytes in bf16, 128 in f32.
constexpr int64_t alignment = 32;

int64_t align_up(int64_t n) {
  return (n + alignment - 1) / alignment * alignment;
}

size_t floats(int64_t count) {
  return static_cast<size_t>(count) * sizeof(float);
}

}  // namespace

std::vector<int64_t> tensor_info::file_shape() const {
  if (layout == file_layout::transposed) return {shape[1], shape[0]};
  return shape;
}

std::vector<parameter_span> chunk_info::spans() const {
  std::vector<parameter_span> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t end = i + 1 < tensors.size() ? tensors[i + 1].offset : count;
    out.push_back({tensors[i].offset, end - tensors[i].offset, tensors[i].decay});
  }
  return out;
}

void add_tensor(chunk_info& chunk, tensor_info tensor, bool adjacent) {
  tensor.count = 1;
  for (int64_t n : tensor.shape) tensor.count *= n;
  tensor.offset = adjacent ? chunk.count : align_up(chunk.count);
  chunk.count = tensor.offset + tensor.count;
  chunk.tensors.push_back(std::move(tensor));
}

void finish_chunk(chunk_info& chunk) {
  chunk.count = align_up(chunk.count);
}

chunk_slice slice_of(int64_t chunk_elements, const replica_place& replica) {
  chunk_slice out;
  out.part = align_up((chunk_elements + replica.ranks - 1) / replica.ranks);
  out.whole = out.part * replica.ranks;
  out.first = out.part * replica.rank;
  out.count = std::clamp<int64_t>(chunk_elements - out.first, 0, out.part);
  return out;
}

std::vector<parameter_span> spans_within(const std::vector<parameter_span>& spans, int64_t first,
                                         int64_t count, int64_t& skipped) {
  std::vector<parameter_span> out;
  skipped = 0;
  for (const auto& s : spans) {
    const int64_t begin = std::max(s.offset, first);
    const int64_t end = std::min(s.offset + s.count, first + count);
    if (begin < end)
      out.push_back({begin - first, end - begin, s.decay});
    else if (out.empty())
      ++skipped;
  }
  return out;
}

bool parameter_store::present(part which) const noexcept {
  if (which == part::weight) return true;
  if (which == part::master) return !weight_is_master();
  return options_.training;
}

result<std::unique_ptr<parameter_store>> parameter_store::make(device& owner,
                                                               std::vector<chunk_info> chunks,
                                                               const store_options& options) {
  assert(options.training || options.replica.ranks == 1);
  assert(!options.where.any_on_disk() || options.training);
  std::unique_ptr<parameter_store> store(new parameter_store(owner, options));
  TROUPE_CHECK(store->allocate(std::move(chunks)));
  return store;
}

status parameter_store::allocate(std::vector<chunk_info> chunks) {
  for (auto& info : chunks) {
    chunk_state state;
    state.slice = slice_of(info.count, options_.replica);
    state.spans =
        spans_within(info.spans(), state.slice.first, state.slice.count, state.first_tensor);
    state.info = std::move(info);
    chunks_.push_back(std::move(state));
  }
  std::vector<std::shared_ptr<buffer>> weight_frames, grad_frames, none;
  for (int chunk = 0; chunk < chunk_count(); ++chunk)
    for (part which : {part::weight, part::master, part::m, part::v, part::grad}) {
      if (!in_memory(chunk, which)) continue;
      auto& frames = which == part::weight ? weight_frames
                     : which == part::grad ? grad_frames
                                           : none;
      auto memory = memory_for(chunk, which, frames);
      if (!memory) return memory.error().within("parameters of " + info(chunk).name);
      chunks_[index(chunk)].parts[static_cast<size_t>(which)] = std::move(*memory);
    }
  return {};
}

bool parameter_store::in_memory(int chunk, part which) const {
  const bool state = which != part::weight && which != part::grad;
  return present(which) && !(state && state_on_disk(chunk));
}

/// A frame's memory is made by the first chunk that uses it.
result<std::shared_ptr<buffer>> parameter_store::memory_for(
    int chunk, part which, std::vector<std::shared_ptr<buffer>>& frames) const {
  const auto home = options_.where.of(chunk);
  const int frame = which == part::weight ? home.weight_frame
                    : which == part::grad ? home.grad_frame
                                          : -1;
  const auto number = static_cast<size_t>(std::max(frame, 0));
  if (frame >= 0 && number < frames.size() && frames[number]) return frames[number];
  // Weights may be read into their own memory as well (SWP-9), which comes in whole blocks, too.
  const bool is_read = which == part::weight && home.state_on_disk;
  const size_t bytes = frame >= 0 ? size_of_frame(which, frame)
                       : is_read  ? frame_size(this->bytes(chunk, which))
                                  : this->bytes(chunk, which);
  const io::memory_holder holder(which == part::weight ? "weights"
                                 : which == part::grad ? "gradients"
                                                       : "masters and moments");
  TROUPE_TRY(memory, owner_->allocate(bytes));
  auto out = std::make_shared<buffer>(std::move(memory));
  if (frame >= 0) {
    frames.resize(std::max(frames.size(), number + 1));
    frames[number] = out;
  }
  return out;
}

/// Of the largest chunk in it; what a disk reads into it comes in whole blocks.
size_t parameter_store::size_of_frame(part which, int frame) const {
  size_t most = 0;
  for (int c = 0; c < chunk_count(); ++c) {
    const auto home = options_.where.of(c);
    if ((which == part::weight ? home.weight_frame : home.grad_frame) == frame)
      most = std::max(most, bytes(c, which));
  }
  return frame_size(most);
}

void* parameter_store::data(int chunk, part which) const {
  if (which == part::master && weight_is_master() && !state_on_disk(chunk))
    return weight_slice(chunk);
  const auto& memory = chunks_[index(chunk)].parts[static_cast<size_t>(which)];
  return memory ? memory->data() : nullptr;
}

void* parameter_store::weight_slice(int chunk) const {
  return static_cast<std::byte*>(weight(chunk)) +
         static_cast<size_t>(slice(chunk).first) * size_of(options_.compute);
}

const void* parameter_store::weight(tensor_ref ref) const {
  return static_cast<const std::byte*>(weight(ref.chunk)) +
         static_cast<size_t>(info(ref).offset) * size_of(options_.compute);
}

float* parameter_store::grad(tensor_ref ref) const {
  float* first = grad(ref.chunk);
  return first ? first + info(ref).offset : nullptr;
}

std::optional<tensor_ref> parameter_store::find(std::string_view name) const {
  std::optional<tensor_ref> found;
  for (int c = 0; c < chunk_count(); ++c) {
    const auto& tensors = info(c).tensors;
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].name != name) continue;
      if (!info(c).tied_copy) return tensor_ref{c, static_cast<int>(t)};
      found = tensor_ref{c, static_cast<int>(t)};
    }
  }
  return found;
}

int parameter_store::find_chunk(std::string_view name) const {
  for (int c = 0; c < chunk_count(); ++c)
    if (info(c).name == name) return c;
  return -1;
}

size_t parameter_store::bytes(int chunk, part which) const {
  if (!present(which)) return 0;
  if (which == part::weight)
    return static_cast<size_t>(slice(chunk).whole) * size_of(options_.compute);
  return floats(which == part::grad ? slice(chunk).whole : slice(chunk).part);
}

uint64_t parameter_store::rounding_seed(int chunk) const {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a (Fowler, Noll, Vo)
  for (const char letter : info(chunk).tensors.front().name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return hash ^ options_.rounding_seed.value_or(0);
}

void parameter_store::round_weights(stream& s, int chunk, void* weights, const float* masters,
                                    int64_t first, int64_t count, int64_t after) {
  if (rounds_by_chance() && after > 0)
    owner_->ops().round_by_chance(s, {.count = count,
                                      .destination = weights,
                                      .source = masters,
                                      .seed = rounding_seed(chunk),
                                      .step = after,
                                      .first = slice(chunk).first + first});
  else
    owner_->ops().cast(s, {weights, options_.compute, masters, dtype::f32, count});
}

void parameter_store::publish_weights(stream& s, int chunk, int64_t after) {
  const auto& own = slice(chunk);
  if (state_on_disk(chunk))
    s.host_task([this, chunk, after] { return mover_->publish(chunk, after); });
  else if (!weight_is_master() && own.count > 0)
    round_weights(s, chunk, weight_slice(chunk), master(chunk), 0, own.count, after);
  weights_changed(chunk);  // PS-4
}

/// Of the piece that begins at element `first` of the chunk, what is the slice's; with masters the
/// weights of all of it.
void parameter_store::write_piece(stream& s, int chunk, part which, int64_t first, int64_t count,
                                  const float* host) {
  const auto& own = slice(chunk);
  const int64_t begin = std::max(first, own.first);
  const int64_t end = std::min(first + count, own.first + own.count);
  const bool is_weight = which == part::master && weight_is_master();
  if (begin < end && !is_weight)
    s.copy(static_cast<float*>(data(chunk, which)) + (begin - own.first), host + (begin - first),
           floats(end - begin));
  if (which == part::master) write_weights(s, chunk, first, count, host);
}

void parameter_store::write_weights(stream& s, int chunk, int64_t first, int64_t count,
                                    const float* host) {
  auto* weights = static_cast<std::byte*>(weight(chunk)) +
                  static_cast<size_t>(first) * size_of(options_.compute);
  if (weight_is_master()) {
    s.copy(weights, host, floats(count));
  } else if (options_.replica.ranks == 1) {
    round_weights(s, chunk, weights, master(chunk) + first, first, count, 0);
  } else {
    // Nowhere are the masters of other slices; on their way they lie where the gradients will.
    float* way = grad(chunk) + first;
    s.copy(way, host, floats(count));
    owner_->ops().cast(s, {weights, options_.compute, way, dtype::f32, count});
    s.zero(way, floats(count));
  }
}

status parameter_store::write(int chunk, part which, const value_source& values) {
  assert(which == part::master || which == part::m || which == part::v);
  auto s = owner_->make_stream({.name = "load"});
  if (!s) return s.error();
  await_readers(**s, chunk);  // PS-5
  if (which == part::master) weights_changed(chunk);  // PS-4
  if (state_on_disk(chunk)) {
    TROUPE_CHECK((*s)->synchronize());
    return mover_->write(chunk, which, values);
  }
  const int64_t all = info(chunk).count;
  std::vector<float> piece(static_cast<size_t>(std::min(all, piece_elements)));
  for (int64_t first = 0; first < all; first += piece_elements) {
    const int64_t count = std::min(piece_elements, all - first);
    TROUPE_CHECK(values(first, count, piece.data()));
    write_piece(**s, chunk, which, first, count, piece.data());
    TROUPE_CHECK((*s)->synchronize());
  }
  return {};
}

status parameter_store::write(int chunk, part which, const float* host) {
  return write(chunk, which, [host](int64_t first, int64_t count, float* out) -> status {
    std::copy_n(host + first, count, out);
    return {};
  });
}

status parameter_store::read(int chunk, part which, float* host) const {
  assert(which == part::master || which == part::m || which == part::v);
  auto s = owner_->make_stream({.name = "save"});
  if (!s) return s.error();
  await_state(**s, chunk);
  if (state_on_disk(chunk)) {
    TROUPE_CHECK((*s)->synchronize());
    return mover_->read(chunk, which, 0, slice(chunk).count, host);
  }
  if (slice(chunk).count > 0) (*s)->copy(host, data(chunk, which), floats(slice(chunk).count));
  return (*s)->synchronize();
}

void parameter_store::add_reader(int chunk, event_ptr until) {
  chunks_[index(chunk)].readers.push_back(std::move(until));
}

bool parameter_store::has_readers(int chunk) const {
  const auto& readers = chunks_[index(chunk)].readers;
  return std::any_of(readers.begin(), readers.end(), [](const auto& r) { return r && !r->done(); });
}

void parameter_store::await_readers(stream& s, int chunk) {
  for (auto& reader : chunks_[index(chunk)].readers)
    if (reader && !reader->done()) s.wait(std::move(reader));
  chunks_[index(chunk)].readers.clear();
}

void parameter_store::weights_arrive(int chunk, event_ptr whole) {
  chunks_[index(chunk)].arriving = std::move(whole);
}

void parameter_store::fetch_weights(stream& s, int chunk) {
  if (mover_ != nullptr && state_on_disk(chunk)) mover_->fetch_weights(s, chunk);
  auto& arriving = chunks_[index(chunk)].arriving;
  if (arriving && arriving->done()) arriving.reset();
  if (arriving) await_others(s, arriving);
}

bool parameter_store::fetch_rows(stream& s, int chunk, int64_t width, row_ids ids) {
  const bool moves = mover_ != nullptr && state_on_disk(chunk);
  if (moves && mover_->fetch_rows(s, chunk, width, ids)) return true;
  fetch_weights(s, chunk);
  return false;
}

void parameter_store::await_others(stream& s, const event_ptr& whole) {
  if (whole->done()) return;
  const auto wait = [&] { s.wait(whole); };
  if (arrival_watch_)
    arrival_watch_(s, wait);
  else
    wait();
}

void parameter_store::release_weights(stream& s, int chunk) {
  if (mover_ != nullptr && state_on_disk(chunk)) mover_->release_weights(s, chunk);
}

void parameter_store::fetch_gradient(stream& s, int chunk) {
  if (mover_ != nullptr && state_on_disk(chunk)) mover_->fetch_gradient(s, chunk);
}

}  // namespace troupe::gpu

// The ParameterStore's bookkeeping; the invariants stand in store.hpp.
#include "gpu/store/store.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

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
  std::unique_ptr<parameter_store> store(new parameter_store(owner, options));
  for (auto& info : chunks) {
    chunk_state state;
    state.slice = slice_of(info.count, options.replica);
    state.spans =
        spans_within(info.spans(), state.slice.first, state.slice.count, state.first_tensor);
    state.info = std::move(info);
    store->chunks_.push_back(std::move(state));
    const int chunk = store->chunk_count() - 1;
    for (part which : {part::weight, part::master, part::m, part::v, part::grad}) {
      if (!store->present(which)) continue;
      auto memory = owner.allocate(store->bytes(chunk, which));
      if (!memory) return memory.error().within("parameters of " + store->info(chunk).name);
      store->chunks_.back().parts[static_cast<size_t>(which)] = std::move(*memory);
    }
  }
  return store;
}

void* parameter_store::data(int chunk, part which) const {
  if (which == part::master && weight_is_master()) return weight_slice(chunk);
  return chunks_[index(chunk)].parts[static_cast<size_t>(which)].data();
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

void parameter_store::publish_weights(stream& s, int chunk, int64_t after) {
  const auto& own = slice(chunk);
  const bool copied = !weight_is_master() && own.count > 0;
  if (copied && rounds_by_chance() && after > 0)
    owner_->ops().round_by_chance(s, {.count = own.count,
                                      .destination = weight_slice(chunk),
                                      .source = master(chunk),
                                      .seed = rounding_seed(chunk),
                                      .step = after,
                                      .first = own.first});
  else if (copied)
    owner_->ops().cast(
        s, {weight_slice(chunk), options_.compute, master(chunk), dtype::f32, own.count});
  weights_changed(chunk);  // PS-4
}

void parameter_store::write_slice(stream& s, int chunk, part which, const float* host) {
  const auto& own = slice(chunk);
  if (own.count > 0) s.copy(data(chunk, which), host + own.first, floats(own.count));
}

void parameter_store::write_weights(stream& s, int chunk, const float* host) {
  const int64_t count = info(chunk).count;
  if (weight_is_master()) {
    s.copy(weight(chunk), host, floats(count));
    weights_changed(chunk);  // PS-4
    return;
  }
  write_slice(s, chunk, part::master, host);
  if (options_.replica.ranks == 1) return publish_weights(s, chunk);
  // Nowhere are the masters of other slices; on their way they lie where the gradients will.
  s.copy(grad(chunk), host, floats(count));
  owner_->ops().cast(s, {weight(chunk), options_.compute, grad(chunk), dtype::f32, count});
  s.zero(grad(chunk), floats(count));
  weights_changed(chunk);  // PS-4
}

status parameter_store::write(int chunk, part which, const float* host) {
  assert(which == part::master || which == part::m || which == part::v);
  auto s = owner_->make_stream({.name = "load"});
  if (!s) return s.error();
  await_readers(**s, chunk);  // PS-5
  await_weights(**s, chunk);
  if (which == part::master)
    write_weights(**s, chunk, host);
  else
    write_slice(**s, chunk, which, host);
  return (*s)->synchronize();
}

status parameter_store::read(int chunk, part which, float* host) const {
  assert(which == part::master || which == part::m || which == part::v);
  auto s = owner_->make_stream({.name = "save"});
  if (!s) return s.error();
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

void parameter_store::await_weights(stream& s, int chunk) {
  auto& arriving = chunks_[index(chunk)].arriving;
  if (arriving && arriving->done()) arriving.reset();
  if (arriving) s.wait(arriving);
}

}  // namespace troupe::gpu

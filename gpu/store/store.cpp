// The ParameterStore's bookkeeping; the invariants stand in store.hpp.
#include "gpu/store/store.hpp"

#include <fmt/format.h>

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

bool parameter_store::present(part which) const noexcept {
  if (which == part::weight) return options_.compute != dtype::f32;
  return which == part::master || options_.training;
}

result<std::unique_ptr<parameter_store>> parameter_store::make(device& owner,
                                                               std::vector<chunk_info> chunks,
                                                               const store_options& options) {
  std::unique_ptr<parameter_store> store(new parameter_store(owner, options));
  for (auto& info : chunks) {
    chunk_state state;
    state.spans = info.spans();
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
  if (which == part::weight && options_.compute == dtype::f32) which = part::master;
  return chunks_[index(chunk)].parts[static_cast<size_t>(which)].data();
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
  const dtype type = which == part::weight ? options_.compute : dtype::f32;
  return static_cast<size_t>(info(chunk).count) * size_of(type);
}

size_t parameter_store::bytes() const {
  size_t sum = 0;
  for (int c = 0; c < chunk_count(); ++c)
    for (part which : {part::weight, part::master, part::m, part::v, part::grad})
      sum += bytes(c, which);
  return sum;
}

uint64_t parameter_store::rounding_seed(int chunk) const {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a (Fowler, Noll, Vo)
  for (const char letter : info(chunk).tensors.front().name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return hash ^ options_.rounding_seed.value_or(0);
}

void parameter_store::publish_weights(stream& s, int chunk, int64_t after) {
  if (rounds_by_chance() && after > 0)
    owner_->ops().round_by_chance(s, {.count = info(chunk).count,
                                      .destination = weight(chunk),
                                      .source = master(chunk),
                                      .seed = rounding_seed(chunk),
                                      .step = after});
  else if (options_.compute != dtype::f32)
    owner_->ops().cast(s, weight(chunk), options_.compute, master(chunk), dtype::f32,
                       info(chunk).count);
  weights_changed(chunk);  // PS-4
}

status parameter_store::write(int chunk, part which, const float* host) {
  assert(which != part::weight && present(which));
  auto s = owner_->make_stream({.name = "load"});
  if (!s) return s.error();
  await_readers(**s, chunk);  // PS-5
  (*s)->copy(data(chunk, which), host, bytes(chunk, which));
  if (which == part::master) publish_weights(**s, chunk);
  return (*s)->synchronize();
}

status parameter_store::read(int chunk, part which, float* host) const {
  assert(which != part::weight && present(which));
  auto s = owner_->make_stream({.name = "save"});
  if (!s) return s.error();
  (*s)->copy(host, data(chunk, which), bytes(chunk, which));
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

}  // namespace troupe::gpu

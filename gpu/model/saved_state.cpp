// Tensors of a checkpoint to their places in the store's chunks.
#include "gpu/model/saved_state.hpp"

#include <array>
#include <cassert>

#include <fmt/format.h>

namespace troupe::gpu {

namespace cp = io::checkpoint;

namespace {

/// A tensor must be in the checkpoint as the store has it.
status fits(const cp::manifest& m, const cp::tensor_entry* found, const tensor_info& wanted,
            cp::part which) {
  if (!found)
    return error{errc::bad_data,
                 fmt::format("the checkpoint of step {} lacks {}", m.head.step, wanted.name),
                 "it is of another model: compare `troupe ckpt show` with the [model] section"};
  if (found->shape != wanted.shape)
    return error{
        errc::bad_data,
        fmt::format("{} has another shape in the checkpoint than in the model", wanted.name),
        "it is of another model: compare `troupe ckpt show` with the [model] section"};
  const auto* part = found->find(which);
  if (!part || part->type != io::tensor_dtype::f32)
    return error{errc::bad_data, fmt::format("the checkpoint lacks {} of {} in float32",
                                             cp::to_string(which), wanted.name)};
  return {};
}

/// The elements of a part of a chunk, at their places in it.
result<std::vector<cp::want>> wants_of(const chunk_info& info, const cp::manifest& m,
                                       cp::part which) {
  const auto tensors = cp::by_name(m);
  std::vector<cp::want> wants;
  for (const auto& t : info.tensors) {
    const auto at = tensors.find(t.name);
    TROUPE_CHECK(fits(m, at == tensors.end() ? nullptr : &m.tensors[at->second], t, which));
    wants.push_back({t.name, which, 0, static_cast<uint64_t>(t.count),
                     static_cast<uint64_t>(t.offset) * sizeof(float)});
  }
  return wants;
}

}  // namespace

cp::plan_stage saved_chunks(std::span<const chunk_info> chunks) {
  cp::plan_stage out;
  for (const auto& chunk : chunks) {
    if (chunk.tied_copy) continue;
    assert(out.size() == static_cast<size_t>(&chunk - chunks.data()));
    cp::plan_chunk saved;
    saved.name = chunk.name;
    for (const auto& t : chunk.tensors)
      saved.tensors.push_back(
          {t.name, t.shape, t.layout == file_layout::transposed, static_cast<uint64_t>(t.offset)});
    out.push_back(std::move(saved));
  }
  return out;
}

part store_part(cp::part which) {
  switch (which) {
    case cp::part::exp_avg:
      return part::m;
    case cp::part::exp_avg_sq:
      return part::v;
    case cp::part::master:
    case cp::part::weight:
      break;
  }
  return part::master;
}

std::span<const cp::part> parts_of(restored what) {
  static constexpr std::array all{cp::part::master, cp::part::exp_avg, cp::part::exp_avg_sq};
  return std::span(all).first(what == restored::everything ? all.size() : 1);
}

status restore_part(parameter_store& store, const cp::reader& from, int chunk, cp::part which,
                    unsigned threads) {
  TROUPE_TRY(wants, wants_of(store.info(chunk), from.content(), which));
  cp::work_options how;
  how.threads = threads;
  const auto bytes = static_cast<size_t>(store.info(chunk).count) * sizeof(float);
  if (store.owner().host_accessible())  // PS-3: the padding between tensors is left as it is
    return from.read(wants, {static_cast<std::byte*>(store.data(chunk, store_part(which))), bytes},
                     how);
  std::vector<float> values(static_cast<size_t>(store.info(chunk).count), 0.0f);
  TROUPE_CHECK(from.read(wants, std::as_writable_bytes(std::span(values)), how));
  return store.write(chunk, store_part(which), values.data());
}

status restore_state(parameter_store& store, const cp::reader& from, restored what,
                     unsigned threads) {
  TROUPE_TRY(s, store.owner().make_stream({"restore", 1}));
  for (int c = 0; c < store.chunk_count(); ++c) {
    for (const auto part : parts_of(what))
      TROUPE_CHECK(restore_part(store, from, c, part, threads));
    store.publish_weights(*s, c);
  }
  return s->synchronize();
}

}  // namespace troupe::gpu

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

class restorer {
 public:
  restorer(parameter_store& store, const cp::reader& from, unsigned threads)
      : store_(store), from_(from), tensors_(cp::by_name(from.content())) {
    how_.threads = threads;
  }

  status chunk(int c, std::span<const cp::part> parts) {
    const auto& info = store_.info(c);
    const auto elements = static_cast<size_t>(info.count);
    values_.assign(elements * parts.size(), 0.0f);  // PS-3: padding is zero
    std::vector<cp::want> wants;
    for (size_t p = 0; p < parts.size(); ++p)
      for (const auto& t : info.tensors) {
        const auto at = tensors_.find(t.name);
        const auto* found = at == tensors_.end() ? nullptr : &from_.content().tensors[at->second];
        TROUPE_CHECK(fits(from_.content(), found, t, parts[p]));
        wants.push_back({t.name, parts[p], 0, static_cast<uint64_t>(t.count),
                         (p * elements + static_cast<size_t>(t.offset)) * sizeof(float)});
      }
    TROUPE_CHECK(from_.read(wants, std::as_writable_bytes(std::span(values_)), how_));
    for (size_t p = 0; p < parts.size(); ++p)
      TROUPE_CHECK(store_.write(c, store_part(parts[p]), values_.data() + p * elements));
    return {};
  }

 private:
  parameter_store& store_;
  const cp::reader& from_;
  std::unordered_map<std::string_view, uint32_t> tensors_;
  cp::work_options how_;
  std::vector<float> values_;  ///< the parts of one chunk, one behind the other
};

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

status restore_state(parameter_store& store, const cp::reader& from, restored what,
                     unsigned threads) {
  constexpr std::array all{cp::part::master, cp::part::exp_avg, cp::part::exp_avg_sq};
  const auto parts = std::span(all).first(what == restored::everything ? all.size() : 1);
  restorer r(store, from, threads);
  for (int c = 0; c < store.chunk_count(); ++c) TROUPE_CHECK(r.chunk(c, parts));
  return {};
}

}  // namespace troupe::gpu

// Tensors of a checkpoint to their places in the store's chunks.
#include "gpu/model/saved_state.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "gpu/model/pinned_upload.hpp"

namespace troupe::gpu {

namespace cp = io::checkpoint;

namespace {

/// A tensor must be in the checkpoint as the store has it.
status fits(const cp::manifest& m, const cp::tensor_entry* found, const tensor_info& wanted,
            cp::part which) {
  if (!found) return checkpoint_lacks(m.head.step, wanted.name);
  if (found->shape != wanted.shape) return shape_differs(wanted.name);
  const auto* part = found->find(which);
  if (!part || part->type != io::tensor_dtype::f32)
    return error{errc::bad_data, fmt::format("the checkpoint lacks {} of {} in float32",
                                             cp::to_string(which), wanted.name)};
  return {};
}

/// Carries bytes from slots to their places in a store. What one part of one chunk takes is a range
/// of the plan's space; gaps between the ranges keep copies from spanning two.
class restorer {
 public:
  restorer(parameter_store& store, const cp::reader& from) : store_(store), from_(from) {}

  /// Everything that is wanted; nothing is written before all of it was found fitting, others'
  /// slices included: replicas agree on that.
  status find(restored what) {
    constexpr std::array all{cp::part::master, cp::part::exp_avg, cp::part::exp_avg_sq};
    const auto tensors = cp::by_name(from_.content());
    for (int c = 0; c < store_.chunk_count(); ++c)
      for (const auto which : std::span(all).first(what == restored::everything ? all.size() : 1)) {
        const bool on_disk = store_.state_on_disk(c);
        if (on_disk) apart_.push_back({c, which});
        const uint64_t begin = on_disk ? 0 : next_place(c, which);
        for (const auto& t : store_.info(c).tensors) {
          const auto at = tensors.find(t.name);
          const auto* found = at == tensors.end() ? nullptr : &from_.content().tensors[at->second];
          TROUPE_CHECK(fits(from_.content(), found, t, which));
          if (!on_disk) want_part(t, which, store_.slice(c), begin, wants_);
        }
      }
    return {};
  }

  status carry(unsigned threads, const std::stop_token& ending, const chunk_taker& take) {
    cp::work_options how;
    how.threads = threads;
    how.progress = [&ending](uint64_t, uint64_t) { return !ending.stop_requested(); };
    TROUPE_CHECK(carry_to_memory(how));
    std::optional<int> taken;  // arrays of a chunk stand together
    for (const auto& each : apart_) {
      if (taken == each.chunk) continue;
      if (take && each.which == cp::part::master && take(each.chunk)) taken = each.chunk;
      if (ending.stop_requested()) return error{errc::cancelled, "the rank ends"};
      if (taken != each.chunk) TROUPE_CHECK(carry_to_disk(each, how));
    }
    return {};
  }

 private:
  /// One part of one chunk whose state is on disk.
  struct array {
    int chunk = 0;
    cp::part which = cp::part::master;
  };
  /// Values of an array from element `first` on.
  struct window {
    int64_t first = 0;
    std::vector<float> values = {};
    bool has(int64_t from, int64_t count) const {
      return from >= first && from + count <= first + std::ssize(values);
    }
  };
  /// A slot that is read in part is read, and summed, as a whole: some groups at a time.
  static constexpr int64_t window_elements = int64_t{4} << 20;

  status carry_to_memory(const cp::work_options& how) {
    TROUPE_TRY(loading, store_.owner().make_stream({.name = "load"}));
    for (int c = 0; c < store_.chunk_count(); ++c) store_.await_readers(*loading, c);  // PS-5
    TROUPE_CHECK(loading->synchronize());
    if (wants_.empty()) return {};
    TROUPE_TRY(plan, cp::plan_restore(from_.content(), wants_));
    if (!store_.owner().host_accessible()) {
      TROUPE_TRY(made, pinned_upload::make(*loading));
      upload_ = std::move(made);
    }
    const status read = from_.read(
        plan, [&](uint64_t to, std::span<const std::byte> b) { return put(to, b); }, how);
    upload_.reset();
    const status copied = loading->synchronize();
    return read ? copied : read;
  }

  status look_at(const array& a, int64_t first, int64_t count, const cp::work_options& how,
                 window& w) {
    const auto& chunk = store_.info(a.chunk);
    w.first = first;
    w.values.assign(static_cast<size_t>(std::min(chunk.count - first, count)), 0.0f);
    std::vector<cp::want> wants;
    for (const auto& t : chunk.tensors)
      want_part(t, a.which, {first, std::ssize(w.values), 0, 0}, 0, wants);
    if (wants.empty()) return {};
    TROUPE_TRY(plan, cp::plan_restore(from_.content(), wants));
    const auto put_there = [&](uint64_t to, std::span<const std::byte> bytes) -> status {
      std::memcpy(reinterpret_cast<std::byte*>(w.values.data()) + to, bytes.data(), bytes.size());
      return {};
    };
    return from_.read(plan, put_there, how);
  }

  /// By way of memory for some of it.
  status carry_to_disk(const array& a, const cp::work_options& how) {
    window w;
    return store_.write(a.chunk, store_part(a.which),
                        [&](int64_t first, int64_t count, float* out) -> status {
                          if (!w.has(first, count))
                            TROUPE_CHECK(
                                look_at(a, first, std::max(count, window_elements), how, w));
                          std::copy_n(w.values.data() + (first - w.first), count, out);
                          return {};
                        });
  }

  static constexpr uint64_t gap = 64;
  struct place {
    uint64_t first = 0;  ///< of the plan's space
    std::byte* data = nullptr;
  };

  /// Where the slice's part of a chunk begins in the plan's space.
  uint64_t next_place(int chunk, cp::part which) {
    places_.push_back({next_, static_cast<std::byte*>(store_.data(chunk, store_part(which)))});
    next_ += static_cast<uint64_t>(store_.slice(chunk).part) * sizeof(float) + gap;
    return places_.back().first;
  }

  /// What of a tensor is in the slice that begins at `begin`.
  static void want_part(const tensor_info& t, cp::part which, const chunk_slice& own,
                        uint64_t begin, std::vector<cp::want>& into) {
    const int64_t first = std::max(t.offset, own.first);
    const int64_t last = std::min(t.offset + t.count, own.first + own.count);
    if (first >= last) return;
    into.push_back({t.name, which, static_cast<uint64_t>(first - t.offset),
                    static_cast<uint64_t>(last - first),
                    begin + static_cast<uint64_t>(first - own.first) * sizeof(float)});
  }

  /// By several threads at once.
  status put(uint64_t to, std::span<const std::byte> bytes) {
    const auto after = std::upper_bound(places_.begin(), places_.end(), to,
                                        [](uint64_t x, const place& p) { return x < p.first; });
    const auto& at = *(after - 1);
    auto* destination = at.data + (to - at.first);
    if (upload_)
      upload_->put(destination, bytes);
    else
      std::memcpy(destination, bytes.data(), bytes.size());
    return {};
  }

  parameter_store& store_;
  const cp::reader& from_;
  std::vector<place> places_;  ///< by `first`
  uint64_t next_ = 0;
  std::vector<cp::want> wants_;
  std::vector<array> apart_;               ///< that do not go to memory
  std::unique_ptr<pinned_upload> upload_;  ///< to a device that the host cannot write to
};

}  // namespace

cp::plan_stage saved_chunks(std::span<const chunk_info> chunks, int replicas) {
  cp::plan_stage out;
  for (const auto& chunk : chunks) {
    if (chunk.tied_copy) continue;
    assert(out.size() == static_cast<size_t>(&chunk - chunks.data()));
    cp::plan_chunk saved;
    saved.name = chunk.name;
    saved.slice_elements = static_cast<uint64_t>(slice_of(chunk.count, {0, replicas}).part);
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

int64_t updates_of(const cp::reader& from, restored what) {
  return what == restored::everything ? static_cast<int64_t>(from.content().head.step) : 0;
}

status restore_state(parameter_store& store, const cp::reader& from, restored what,
                     unsigned threads, const std::stop_token& ending, const chunk_taker& take) {
  restorer r(store, from);
  TROUPE_CHECK(r.find(what));
  TROUPE_CHECK(r.carry(threads, ending, take));
  TROUPE_TRY(publishing, store.owner().make_stream({.name = "publish"}));
  const int64_t after = updates_of(from, what);
  for (int c = 0; c < store.chunk_count(); ++c) store.publish_weights(*publishing, c, after);
  return publishing->synchronize();
}

}  // namespace troupe::gpu

// From elements to slots.
#include "io/checkpoint/restore_plan.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace troupe::io::checkpoint {

namespace {

constexpr uint64_t max_destination = uint64_t{1} << 62;

struct placed {
  uint32_t file = 0;
  uint64_t slot = 0;
  slot_copy copy;
};

/// The wanted elements of one slice, cut at the slots.
void place(const manifest& m, const slice& s, uint64_t first, uint64_t count, uint64_t width,
           uint64_t to, std::vector<placed>& out) {
  const uint64_t slot_bytes = slot_bytes_of(m, s.file);
  uint64_t at = s.stream_offset + (first - s.first) * width;
  for (uint64_t left = count * width; left > 0;) {
    const uint64_t slot = at / slot_bytes;
    const uint64_t from = at % slot_bytes;
    const uint64_t bytes = std::min(left, slot_bytes - from);
    out.push_back({s.file, slot, {from, bytes, to}});
    at += bytes;
    to += bytes;
    left -= bytes;
  }
}

status place(const manifest& m, const tensor_entry& t, const want& w, std::vector<placed>& out) {
  const auto* found = t.find(w.which);
  if (!found)
    return error{errc::not_found,
                 fmt::format("the checkpoint has no {} of {}", to_string(w.which), w.tensor)};
  const uint64_t elements = t.elements();
  if (w.first > elements || w.count > elements - w.first || w.destination > max_destination)
    return error{errc::bad_data, fmt::format("{} has {} elements; {} from {} on are wanted",
                                             w.tensor, elements, w.count, w.first)};
  const uint64_t width = size_of(found->type);
  const uint64_t last = w.first + w.count;
  auto s = std::upper_bound(found->slices.begin(), found->slices.end(), w.first,
                            [](uint64_t at, const slice& one) { return at < one.first; });
  if (s != found->slices.begin()) --s;
  for (uint64_t at = w.first; at < last; ++s) {
    const uint64_t count = std::min(last, s->first + s->count) - at;
    place(m, *s, at, count, width, w.destination + (at - w.first) * width, out);
    at += count;
  }
  return {};
}

void add(const manifest& m, const placed& p, restore_plan& plan) {
  const bool same =
      !plan.reads.empty() && plan.reads.back().file == p.file && plan.reads.back().slot == p.slot;
  if (!same) {
    const uint64_t slot_bytes = slot_bytes_of(m, p.file), offset = p.slot * slot_bytes;
    const uint64_t bytes = std::min(slot_bytes, m.files[p.file].stream_bytes - offset);
    plan.reads.push_back({p.file, p.slot, offset, bytes, plan.copies.size(), plan.copies.size()});
    plan.read_bytes += bytes;
  }
  auto& read = plan.reads.back();
  auto* before = read.copies_end > read.copies_begin ? &plan.copies.back() : nullptr;
  if (before && before->from + before->bytes == p.copy.from &&
      before->to + before->bytes == p.copy.to)
    before->bytes += p.copy.bytes;
  else
    plan.copies.push_back(p.copy);
  read.copies_end = plan.copies.size();
  plan.wanted_bytes += p.copy.bytes;
}

}  // namespace

result<restore_plan> plan_restore(const manifest& m, std::span<const want> wants) {
  const auto index = by_name(m);
  std::vector<placed> all;
  for (const auto& w : wants) {
    const auto t = index.find(w.tensor);
    if (t == index.end())
      return error{errc::not_found, fmt::format("the checkpoint has no tensor {}", w.tensor)};
    TROUPE_CHECK(place(m, m.tensors[t->second], w, all));
  }
  std::sort(all.begin(), all.end(), [](const placed& a, const placed& b) {
    return std::tie(a.file, a.slot, a.copy.from, a.copy.to) <
           std::tie(b.file, b.slot, b.copy.from, b.copy.to);
  });
  restore_plan plan;
  for (const auto& p : all) add(m, p, plan);
  return plan;
}

std::vector<std::vector<want>> batches_of(const manifest& m, std::span<const part> parts,
                                          uint64_t batch_bytes) {
  std::vector<std::vector<want>> batches;
  uint64_t used = batch_bytes;  // full: the first want opens a batch
  for (const auto& t : m.tensors)
    for (const part which : parts) {
      const auto* p = t.find(which);
      if (!p) continue;
      const uint64_t width = size_of(p->type);
      const uint64_t elements = t.elements();
      for (uint64_t at = 0; at < elements;) {
        const uint64_t room = std::max<uint64_t>(batch_bytes / width, 1);
        const uint64_t count = std::min(elements - at, room);
        if (used > batch_bytes || count * width > batch_bytes - used || batches.empty()) {
          batches.emplace_back();
          used = 0;
        }
        batches.back().push_back({t.name, which, at, count, used});
        used += count * width;
        at += count;
      }
    }
  return batches;
}

}  // namespace troupe::io::checkpoint

// Comparing checkpoints in batches that fit memory.
#include "io/checkpoint/diff.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace troupe::io::checkpoint {

namespace {

constexpr uint64_t batch_bytes = 64 << 20;
constexpr part all_parts[] = {part::master, part::exp_avg, part::exp_avg_sq, part::weight};

using key = std::pair<std::string_view, part>;

/// Where the differences of what both have are added up.
using tally = std::map<key, tensor_difference*>;

double value_at(const std::byte* at, tensor_dtype type) {
  if (type == tensor_dtype::f32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return type == tensor_dtype::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

void compare(std::span<const std::byte> a, std::span<const std::byte> b, tensor_dtype type,
             tensor_difference& into) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  const size_t width = size_of(type);
  for (size_t at = 0; at < a.size(); at += width) {
    if (std::memcmp(a.data() + at, b.data() + at, width) == 0) continue;
    ++into.differing;
    const double distance = std::abs(value_at(a.data() + at, type) - value_at(b.data() + at, type));
    into.largest = std::isfinite(distance) ? std::max(into.largest, distance)
                                           : std::numeric_limits<double>::infinity();
  }
  into.how = comparison::differs;
}

/// All parts of `a` against `b`, then what only `b` has; values are not compared yet.
std::vector<tensor_difference> pair_up(const manifest& a, const manifest& b) {
  std::vector<tensor_difference> out;
  const auto in_a = by_name(a);
  const auto in_b = by_name(b);
  for (const auto& t : a.tensors) {
    const auto other = in_b.find(t.name);
    for (const auto& p : t.parts) {
      const auto* same = other == in_b.end() ? nullptr : b.tensors[other->second].find(p.which);
      tensor_difference d{t.name, p.which, comparison::equal, t.elements(), 0, 0};
      if (!same)
        d.how = comparison::only_a;
      else if (same->type != p.type || b.tensors[other->second].shape != t.shape)
        d.how = comparison::other_shape;
      out.push_back(std::move(d));
    }
  }
  for (const auto& t : b.tensors) {
    const auto other = in_a.find(t.name);
    for (const auto& p : t.parts)
      if (other == in_a.end() || !a.tensors[other->second].find(p.which))
        out.push_back({t.name, p.which, comparison::only_b, t.elements(), 0, 0});
  }
  return out;
}

/// Leaves of the batches only what both have; destinations stay as they were.
void keep_common(std::vector<std::vector<want>>& batches, const tally& common) {
  for (auto& batch : batches)
    std::erase_if(batch, [&](const want& w) { return !common.contains({w.tensor, w.which}); });
  std::erase_if(batches, [](const auto& batch) { return batch.empty(); });
}

}  // namespace

std::string_view to_string(comparison how) noexcept {
  switch (how) {
    case comparison::equal:
      return "equal";
    case comparison::differs:
      return "differs";
    case comparison::other_shape:
      return "other_shape";
    case comparison::only_a:
      return "only_a";
    case comparison::only_b:
      return "only_b";
  }
  return "?";
}

result<std::vector<tensor_difference>> diff(const reader& a, const reader& b,
                                            const work_options& options) {
  auto out = pair_up(a.content(), b.content());
  tally common;
  for (auto& d : out)
    if (d.how == comparison::equal) common.emplace(key{d.tensor, d.which}, &d);
  auto batches = batches_of(a.content(), all_parts, batch_bytes);
  keep_common(batches, common);
  std::vector<std::pair<restore_plan, restore_plan>> plans;
  uint64_t total = 0, largest = 0;
  for (const auto& batch : batches) {
    TROUPE_TRY(from_a, plan_restore(a.content(), batch));
    TROUPE_TRY(from_b, plan_restore(b.content(), batch));
    total += from_a.read_bytes + from_b.read_bytes;
    largest = std::max(largest, batch.back().destination + batch.back().count * sizeof(float));
    plans.emplace_back(std::move(from_a), std::move(from_b));
  }
  std::vector<std::byte> left(largest), right(largest);
  byte_counter counter(options.progress, total);
  const auto into = [](std::vector<std::byte>& buffer) {
    return [&buffer](uint64_t to, std::span<const std::byte> bytes) -> status {
      std::memcpy(buffer.data() + to, bytes.data(), bytes.size());
      return {};
    };
  };
  const auto types = by_name(a.content());
  for (size_t i = 0; i < batches.size(); ++i) {
    TROUPE_CHECK(a.read(plans[i].first, into(left), {options.threads, {}}));
    TROUPE_CHECK(b.read(plans[i].second, into(right), {options.threads, {}}));
    for (const auto& w : batches[i]) {
      const auto type = a.content().tensors[types.at(w.tensor)].find(w.which)->type;
      const uint64_t bytes = w.count * size_of(type);
      compare(std::span(left).subspan(w.destination, bytes),
              std::span(right).subspan(w.destination, bytes), type,
              *common.at({w.tensor, w.which}));
    }
    TROUPE_CHECK(counter.add(plans[i].first.read_bytes + plans[i].second.read_bytes));
  }
  return out;
}

}  // namespace troupe::io::checkpoint

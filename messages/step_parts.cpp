// Sums over ranks and kinds: see step_parts.hpp.
#include "messages/step_parts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "messages/text.hpp"

namespace troupe::train {

namespace {

/// Waiting for a save of less than this share of a step does not hold it up.
constexpr double held_up_share = 0.02;
constexpr uint32_t full_speed_of_1024 = 1024;

/// The later, the less like others.
constexpr std::array<fbs::StepOddity, peer_kinds> kinds_with_peers{
    fbs::StepOddity::none, fbs::StepOddity::beside_save, fbs::StepOddity::saves};

/// What the receiver of something that is sent does.
pipeline_op receiving(pipeline_op sent) {
  const auto* at = std::find_if(operations.begin(), operations.end(),
                                [&](const op_facts& f) { return f.other_end == sent; });
  return at == operations.end() ? pipeline_op::count : at->kind;
}

/// The place, in a table of kinds by rank, of what a rank does with others: a collective has that
/// of its first member, a transfer of two that of who receives. None of what it does alone.
std::optional<size_t> transfer_of(const grid_rank& at, pipeline_op kind) {
  const auto& facts = facts_of(kind);
  if (facts.with == op_partner::none) return std::nullopt;
  auto rank = at.rank;
  if (is_group(facts.with)) {
    auto first = at.place();
    (facts.with == op_partner::replicas ? first.data : first.pipeline) = 0;
    rank = at.grid.rank_of(first);
  } else if (facts.other_end == pipeline_op::count) {
    const auto other = facts.with == op_partner::previous ? at.previous() : at.next();
    kind = receiving(kind);
    if (!other || kind == pipeline_op::count) return std::nullopt;
    rank = *other;
  }
  return static_cast<size_t>(rank) * operations.size() + static_cast<size_t>(kind);
}

}  // namespace

std::vector<step_part> parts_in(const step_part_table& all) {
  std::vector<step_part> out;
  for (const auto& f : operations) {
    auto p = all[static_cast<size_t>(f.kind)];
    p.kind = f.kind;
    if (p.busy_ms > 0 || p.waited_ms > 0 || p.work > 0) out.push_back(p);
  }
  return out;
}

std::vector<std::unique_ptr<fbs::StepPartT>> to_message(std::span<const step_part> parts) {
  std::vector<std::unique_ptr<fbs::StepPartT>> out;
  for (const auto& p : parts) {
    auto& to = *out.emplace_back(std::make_unique<fbs::StepPartT>());
    to.kind = facts_of(p.kind).name;
    to.busy_ms = p.busy_ms;
    to.waited_ms = p.waited_ms;
    to.work = p.work;
  }
  return out;
}

std::vector<step_part> parts_of(
    const flatbuffers::Vector<flatbuffers::Offset<fbs::StepPart>>* parts) {
  std::vector<step_part> out;
  if (parts == nullptr) return out;
  out.reserve(std::min<size_t>(parts->size(), operations.size()));
  for (const auto* p : *parts)
    if (const auto* facts = operation_named(text_of(p->kind())))
      out.push_back({facts->kind, p->busy_ms(), p->waited_ms(), p->work()});
  return out;
}

std::vector<step_part> parts_of(std::span<const std::unique_ptr<fbs::StepPartT>> parts) {
  std::vector<step_part> out;
  out.reserve(std::min(parts.size(), operations.size()));
  for (const auto& p : parts)
    if (const auto* facts = p ? operation_named(p->kind) : nullptr)
      out.push_back({facts->kind, p->busy_ms, p->waited_ms, p->work});
  return out;
}

void settle_transfers(const rank_grid& grid, std::span<std::vector<step_part>> of_ranks) {
  const auto ranks = std::min(of_ranks.size(), static_cast<size_t>(grid.ranks()));
  const auto each = [&](auto what) {
    for (size_t r = 0; r < ranks; ++r)
      for (auto& p : of_ranks[r])
        if (const auto at = transfer_of({grid, static_cast<int>(r)}, p.kind); at && p.work > 0)
          what(*at, p);
  };
  struct took {
    double busy_ms = 0, work = 0;
  };
  std::vector<took> least(static_cast<size_t>(grid.ranks()) * operations.size());
  each([&](size_t at, const step_part& p) {
    const took own{p.busy_ms, static_cast<double>(p.work)};
    auto& so_far = least[at];
    if (so_far.work == 0 || own.busy_ms * so_far.work < so_far.busy_ms * own.work) so_far = own;
  });
  each([&](size_t at, step_part& p) {
    const auto work = static_cast<double>(p.work);
    const double busy_ms = std::min(p.busy_ms, least[at].busy_ms * work / least[at].work);
    p.waited_ms += p.busy_ms - busy_ms;
    p.busy_ms = busy_ms;
  });
}

std::vector<step_part> merged(std::span<const std::vector<step_part>> of_ranks) {
  step_part_table sums{};
  std::array<int, operations.size()> ranks{};
  for (const auto& parts : of_ranks)
    for (const auto& p : parts) {
      const auto at = static_cast<size_t>(p.kind);
      sums[at].busy_ms += p.busy_ms;
      sums[at].waited_ms += p.waited_ms;
      sums[at].work += p.work;
      ++ranks[at];
    }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (ranks[i] == 0) continue;
    sums[i].busy_ms /= ranks[i];
    sums[i].waited_ms /= ranks[i];
  }
  return parts_in(sums);
}

double longest_wait_ms(std::span<const std::vector<step_part>> of_ranks, pipeline_op kind) {
  double out = 0;
  for (const auto& parts : of_ranks)
    for (const auto& p : parts)
      if (p.kind == kind) out = std::max(out, p.waited_ms);
  return out;
}

fbs::StepOddity oddity_of(std::span<const step_part> parts, uint32_t pace_of_1024) {
  double whole_ms = 0, held_ms = 0;
  bool is_copied = false;
  for (const auto& p : parts) {
    if (p.kind == pipeline_op::evaluate) return fbs::StepOddity::validates;
    is_copied = is_copied || p.kind == pipeline_op::capture;
    if (facts_of(p.kind).stream == op_stream::compute) whole_ms += p.busy_ms + p.waited_ms;
    if (p.kind == pipeline_op::await_copies) held_ms += p.waited_ms;
  }
  if (pace_of_1024 < full_speed_of_1024) return fbs::StepOddity::paced;
  if (held_ms > held_up_share * whole_ms) return fbs::StepOddity::saves;
  return is_copied ? fbs::StepOddity::beside_save : fbs::StepOddity::none;
}

size_t peer_kind_of(fbs::StepOddity kind) {
  const auto at = std::ranges::find(kinds_with_peers, kind);
  return static_cast<size_t>(at - kinds_with_peers.begin());
}

bool has_peers(fbs::StepOddity kind) {
  return peer_kind_of(kind) < peer_kinds;
}

fbs::StepOddity odder_of(fbs::StepOddity a, fbs::StepOddity b) {
  return peer_kind_of(b) > peer_kind_of(a) ? b : a;
}

}  // namespace troupe::train

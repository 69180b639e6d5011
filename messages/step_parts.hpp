// The parts of a step: what a rank tells of where its time went, one for each kind of operation
// (operations.hpp), and what whoever hears all ranks makes of them. Knows no CAF.
//
// A transfer takes until all who make it have come, and a rank knows only when it came itself. So a
// rank tells the time from there to the end, and whoever hears all ranks of the step puts it right
// (settle_transfers): busy is what it took the one that had to wait least, and the rest is waited.
// One slow replica is then slow in what it computes, and the others wait in what they share.
//
// Invariants
//   STM-3  Settled, a transfer is as long for all who make it, for each unit of its work: who comes
//     last waits for nobody. busy_ms + waited_ms stays what the rank told.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/base/rank_grid.hpp"
#include "messages/operations.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::train {

/// What one kind of operation took of a step.
struct step_part {
  pipeline_op kind = pipeline_op::count;
  /// While it was done; until it is settled, a transfer's includes the wait for its other ends.
  double busy_ms = 0;
  /// While the compute stream had nothing to do before it; of a settled transfer, while others had
  /// not come to it; else 0.
  double waited_ms = 0;
  /// How much was done, in the kind's unit.
  uint64_t work = 0;

  bool operator==(const step_part&) const = default;
};

/// By kind.
using step_part_table = std::array<step_part, operations.size()>;

/// In the table's order, without those that are nothing.
std::vector<step_part> parts_in(const step_part_table& all);

/// As a message holds them, and back. Foreign: kinds that are unknown here are left out.
std::vector<std::unique_ptr<fbs::StepPartT>> to_message(std::span<const step_part> parts);
std::vector<step_part> parts_of(
    const flatbuffers::Vector<flatbuffers::Offset<fbs::StepPart>>* parts);
std::vector<step_part> parts_of(std::span<const std::unique_ptr<fbs::StepPartT>> parts);

/// Divides the time of what several ranks do together into busy and waited (STM-3). By rank, of one
/// step of all; with what some have ended in the next step it is right on the average.
void settle_transfers(const rank_grid& grid, std::span<std::vector<step_part>> of_ranks);

/// The parts of a cluster's step: of each kind the mean time over the ranks that have it, and the
/// sum of their work.
std::vector<step_part> merged(std::span<const std::vector<step_part>> of_ranks);

/// What sets a rank's step apart, by its parts and the share of its speed that it was made with.
fbs::StepOddity oddity_of(std::span<const step_part> parts, uint32_t pace_of_1024);

/// Of a step whose ranks say both: what makes it less like others. No save, a save beside it, one
/// that held it up, and then what has_peers() is false of; of two of these the first.
fbs::StepOddity odder_of(fbs::StepOddity a, fbs::StepOddity b);

/// Whether steps of this kind are held against each other: with a checkpoint after every step there
/// are no others. False where how odd a step is differs from one to the next.
bool has_peers(fbs::StepOddity kind);
/// Kinds of steps that have peers, and the place of one among them.
inline constexpr size_t peer_kinds = 3;
size_t peer_kind_of(fbs::StepOddity kind);

/// The longest wait of a kind on any rank, in milliseconds.
double longest_wait_ms(std::span<const std::vector<step_part>> of_ranks, pipeline_op kind);

}  // namespace troupe::train

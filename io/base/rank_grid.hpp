// A rank's place: how a job's ranks are numbered over data x tensor x pipeline, which of them are
// neighbours, which form a group, and which rows of a batch each reads. Whatever needs one of these
// asks here, so that the numbers are the same in a plan, in the data plane and in a checkpoint.
//
// Layout: pipeline-major, rank = (pipeline * data ranks + data) * tensor ranks + tensor. The ranks
// that exchange the most bytes are neighbours (MegaScale §3.2). Nothing splits tensors yet: tensor
// is 1, and rank = pipeline * data ranks + data.
//
// Invariants
//   GRD-1  place_of and rank_of are inverse to each other over all ranks of a grid.
//   GRD-2  The groups of one kind have no rank in common; those of data and of pipeline hold every
//     rank.
//   GRD-3  Where the data ranks divide a batch, each of its rows is of one data rank, in their
//     order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Where a rank stands on each axis, from 0.
struct grid_place {
  int data = 0;
  int tensor = 0;
  int pipeline = 0;
  bool operator==(const grid_place&) const = default;
};

/// Rows [first, first + count) of a batch.
struct row_range {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const row_range&) const = default;
};

/// How many ranks there are on each axis.
struct rank_grid {
  int data = 1;      ///< replicas, which share a batch
  int tensor = 1;    ///< ranks that share each tensor of a stage
  int pipeline = 1;  ///< stages, which share the layers

  constexpr rank_grid() = default;
  /// Not of two numbers: which they are would be left to guess.
  constexpr rank_grid(int data_ranks, int tensor_ranks, int pipeline_ranks)
      : data(data_ranks), tensor(tensor_ranks), pipeline(pipeline_ranks) {}
  bool operator==(const rank_grid&) const = default;

  /// Whether there is a rank on each axis, and at most so many in all. All else asks for it.
  bool possible(int64_t most_ranks) const noexcept;

  int64_t ranks() const noexcept { return int64_t{data} * tensor * pipeline; }
  bool holds(int64_t rank) const noexcept { return rank >= 0 && rank < ranks(); }

  /// Of a rank that the grid holds (GRD-1).
  grid_place place_of(int rank) const noexcept;
  int rank_of(const grid_place& place) const noexcept;

  /// Rows of a batch that each data rank reads.
  int64_t rows_each(int64_t batch) const noexcept { return batch / data; }
  /// Those of one data rank (GRD-3).
  row_range rows_of(int data_rank, int64_t batch) const noexcept;
};

/// Why ranks form a group.
enum class group_kind : uint8_t {
  data,      ///< replicas of a stage: sums of gradients, weights from each other
  pipeline,  ///< the stages of a replica: activations and their gradients
  tied,      ///< its first and its last stage, which both hold a tied table
};

/// Ranks that exchange something, and one of them.
struct rank_group {
  group_kind kind = group_kind::data;
  int number = 0;            ///< which of its kind
  std::vector<int> members;  ///< ranks of the job, by their rank in the group
  int rank = 0;              ///< in the group

  /// "data/0" of the first stage, "pipe/1" and "tied/1" of the second replica.
  std::string name() const;
  int size() const noexcept { return static_cast<int>(members.size()); }
};

/// One rank of a grid that holds it.
struct grid_rank {
  rank_grid grid;
  int rank = 0;

  grid_place place() const noexcept { return grid.place_of(rank); }
  bool first() const noexcept { return place().pipeline == 0; }
  bool last() const noexcept { return place().pipeline + 1 == grid.pipeline; }

  /// The first stage embeds tokens, the last has targets, and where a row may hold several
  /// `documents` every stage has to know their borders.
  bool reads_batches(bool documents) const noexcept { return documents || first() || last(); }

  /// Neighbours along the pipeline; none before the first stage and behind the last.
  std::optional<int> previous() const noexcept { return along_pipeline(-1); }
  std::optional<int> next() const noexcept { return along_pipeline(+1); }

  /// Its group of a kind; alone in it where there is nobody else. Of kind tied for the first and
  /// the last stage only.
  rank_group group(group_kind kind) const;
  /// Those of more than one rank, in the order of their kinds; `tied`: the model has a tied table.
  std::vector<rank_group> groups(bool tied) const;

 private:
  std::optional<int> along_pipeline(int by) const noexcept;
};

}  // namespace troupe

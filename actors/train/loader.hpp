// The loader: one host's data. Opens (and where it is text, tokenises) the data, lays batches out
// in shared memory ahead of the stages, those rows of them that its ranks read, and says in which
// slot each lies.
//
// It is a detached actor: tokenising and page faults of mapped files may block it, and nothing
// else.
//
// Invariants
//   LDR-1  Which tokens a batch holds depends on the configuration and the step alone
//     (io::mixed_order).
//   LDR-2  A slot is filled anew only when every consumer has asked for a later batch of the same
//     split: asking for batch n says that batches before n are done with.
//   LDR-3  Every token handed out is smaller than the model's vocabulary: checked once, when the
//     data is opened.
//   LDR-4  A consumer ahead of the others waits for its answer; it asks for one batch at a time, in
//     order.
//   LDR-5  An opening that fails changes nothing; one more that succeeds begins anew.
//   LDR-6  Where attention begins anew with each document, every stage is told the same borders:
//     those that the tokens of the row itself have (io::find_documents).
//   LDR-7  Asked once more for what is open already, while nobody has asked for a batch of it, it
//     answers as before: who waits for data that take long asks again and again (RUN-7).
//
// Failure policy: escalate to the run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/job/spawn_record.hpp"
#include "actors/train/batch_memory.hpp"
#include "io/base/error_kind.hpp"
#include "io/config/job.hpp"
#include "io/data/source_mix.hpp"
#include "io/data/token_file.hpp"
#include "messages/actors.hpp"
#include "messages/receive.hpp"

namespace troupe::train {

/// What a request for a batch is refused with: the rank, the batch, and the one before (LDR-4).
inline constexpr error_kind<> loader_not_open{"loader_not_open", errc::bug,
                                              "the loader is not open"};
inline constexpr error_kind<uint32_t> no_consumer{"no_consumer", errc::not_found,
                                                  "rank {} is not a consumer of this loader"};
inline constexpr error_kind<> nothing_held_out{"nothing_held_out", errc::not_found,
                                               "no data is held out for validation"};
inline constexpr error_kind<uint32_t, uint64_t, uint64_t> waits_for_another{
    "waits_for_another", errc::bug, "rank {} asks for batch {} while it waits for batch {}"};
inline constexpr error_kind<uint32_t, uint64_t, uint64_t> batch_out_of_order{
    "batch_out_of_order", errc::bug, "rank {} asks for batch {} after batch {}"};

/// A request for a batch that has no free slot yet.
struct waiting_request {
  msg<fbs::BatchRequest> request;
  caf::typed_response_promise<msg<fbs::BatchReady>> answer;
};

/// One split's tokens and the slots it may use.
struct split_feed {
  std::vector<io::token_files> tokens;  ///< by source
  std::optional<io::mixed_order> order;
  bool held_out = false;  ///< rows come from the order's validation windows
  int64_t first_slot = 0;
  int64_t slots = 1;
  uint64_t first = 1;                    ///< batch that it begins with
  uint64_t filled = 0;                   ///< the last batch that was laid out
  std::map<uint32_t, uint64_t> asked;    ///< by consumer: its latest batch
  std::vector<waiting_request> waiting;  ///< one batch a consumer (LDR-4)

  /// The batch every consumer is done with, at least.
  uint64_t floor() const;
};

struct loader_state {
  static inline const char* name = "loader";
  std::vector<uint8_t> opened;  ///< the order that opened it; none: a batch was asked for. LDR-7
  config::job job;
  std::vector<uint32_t> data_ranks;  ///< whose rows are laid out, in the order of a slot
  std::optional<int32_t> document_end;  ///< token; where rows are told their documents
  std::optional<batch_memory> memory;
  std::array<split_feed, 2> feeds;  ///< by fbs::Split
  std::stop_token over;
};

/// The loader of the host of `node`. `over`: told when nobody needs it any more, since it hears no
/// message while it tokenises.
loader_actor::behavior_type loader(traced_pointer<loader_actor, loader_state> self,
                                   const spawn_record& record, const std::stop_token& over);

}  // namespace troupe::train

// The votes for a checkpoint, in messages that stay small however many ranks there are.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "io/base/result.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::checkpoint {

/// Shards that the votes of one message tell of at most: some 350 KiB, a third of what a message
/// may be. One vote is never cut, whatever it tells of.
inline constexpr size_t shards_per_message = 4096;

using vote_list = std::vector<std::unique_ptr<fbs::SavedT>>;

/// The length of all shards that a vote tells of, in bytes.
uint64_t saved_bytes(const fbs::Saved& vote);

/// The votes, in their order, in pages of `most` shards; at least one page.
std::vector<vote_list> in_pages(const std::vector<msg<fbs::Saved>>& votes,
                                size_t most = shards_per_message);

/// Votes that came before the commit of their checkpoint.
class kept_votes {
 public:
  /// errc::bad_data beyond `most` votes for a step, or for a fourth step: two saves are under way
  /// at most, and a third may be given up.
  status keep(fbs::SaveVotesT page, size_t most);
  /// Those of a step, and then `rest`; they are kept no more.
  vote_list take(uint64_t step, vote_list rest);
  void forget(uint64_t step) { by_step_.erase(step); }

 private:
  std::map<uint64_t, vote_list> by_step_;
};

}  // namespace troupe::checkpoint

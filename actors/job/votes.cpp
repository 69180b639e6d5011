// Pages on one side, kept by step on the other.
#include "actors/job/votes.hpp"

#include <iterator>

#include <fmt/format.h>

namespace troupe::checkpoint {

namespace {

constexpr size_t most_steps = 3;

void move_to_end(vote_list& to, vote_list& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

uint64_t saved_bytes(const fbs::Saved& vote) {
  uint64_t bytes = vote.bytes();
  if (vote.chunks())
    for (const auto* c : *vote.chunks()) bytes += c->bytes();
  return bytes;
}

std::vector<vote_list> in_pages(const std::vector<msg<fbs::Saved>>& votes, size_t most) {
  std::vector<vote_list> out(1);
  size_t shards = 0;
  for (const auto& vote : votes) {
    const size_t of_vote = 1 + (vote->chunks() ? vote->chunks()->size() : 0);
    if (shards > 0 && shards + of_vote > most) {
      out.emplace_back();
      shards = 0;
    }
    shards += of_vote;
    out.back().push_back(std::make_unique<fbs::SavedT>(vote.unpack()));
  }
  return out;
}

status kept_votes::keep(fbs::SaveVotesT page, size_t most) {
  const auto it = by_step_.find(page.step);
  const auto there = it == by_step_.end() ? 0 : it->second.size();
  if (there + page.shards.size() > most || (it == by_step_.end() && by_step_.size() == most_steps))
    return error{errc::bad_data,
                 fmt::format("{} votes for checkpoint {}, beside {} for it and votes for {} steps",
                             page.shards.size(), page.step, there, by_step_.size())};
  move_to_end(by_step_[page.step], page.shards);
  return {};
}

vote_list kept_votes::take(uint64_t step, vote_list rest) {
  auto out = by_step_.extract(step);
  if (!out) return rest;
  move_to_end(out.mapped(), rest);
  return std::move(out.mapped());
}

}  // namespace troupe::checkpoint

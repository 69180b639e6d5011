// Which state is whole.
#include "actors/train/copies_policy.hpp"

#include <algorithm>

namespace troupe::train {

namespace {

const held_copy* find(std::span<const std::vector<held_copy>> held, size_t where, size_t rank,
                      const copy_tag& tag) {
  const auto it = std::find_if(held[where].begin(), held[where].end(), [&](const held_copy& c) {
    return c.rank == static_cast<int>(rank) && c.tag == tag;
  });
  return it == held[where].end() ? nullptr : &*it;
}

}  // namespace

void copies_policy::ordered(copy_tag tag, checkpoint::train_state state) {
  states_[tag] = std::move(state);
  if (states_.size() > states_kept) states_.erase(states_.begin());
}

/// What may be whole: the states that were ordered here, or by the head before (CPY-3).
std::map<copy_tag, checkpoint::train_state> copies_policy::candidates(
    std::span<const std::vector<held_copy>> held) const {
  auto out = states_;
  for (const auto& of_process : held)
    for (const auto& c : of_process) {
      const bool believed =
          believed_.epoch > 0 && (c.tag.epoch == believed_.epoch || c.tag == believed_.from);
      if (believed && c.state.tokens > 0)
        out.try_emplace(c.tag,
                        checkpoint::train_state{c.tag.step, c.state.tokens, c.state.loss, {}});
    }
  return out;
}

std::optional<copy_choice> copies_policy::choose(std::span<const std::vector<held_copy>> held,
                                                 uint64_t above) const {
  if (held.size() != keepers_.size()) return std::nullopt;
  const auto all = candidates(held);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    const auto& [tag, state] = *it;
    if (tag.step <= above) continue;  // CPY-2
    copy_choice out{tag, state, std::vector<bool>(held.size()), 0};
    size_t there = 0;
    for (size_t r = 0; r < held.size(); ++r) {
      if (find(held, r, r, tag) != nullptr) {
        ++there;
      } else if (const auto* kept = find(held, static_cast<size_t>(keepers_[r]), r, tag)) {
        ++there;
        out.from_keeper[r] = true;
        out.fetched_bytes += kept->bytes;
      }
    }
    if (there == held.size()) return out;  // CPY-1
  }
  return std::nullopt;
}

void copies_policy::gone_back(std::optional<copy_tag> to) {
  std::erase_if(states_, [&](const auto& s) { return !to || s.first != *to; });
  believed_ = {};
}

void copies_policy::load_failed(const error& why) {
  if (why.is(io::checkpoint::copy_damaged) || why.is(io::checkpoint::copy_missing))
    gone_back(std::nullopt);
}

}  // namespace troupe::train

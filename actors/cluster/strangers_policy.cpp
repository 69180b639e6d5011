// The waiting line of strangers_policy.hpp.
#include "actors/cluster/strangers_policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe::cluster {

descriptor_shares shares_of(int64_t descriptors) {
  descriptor_shares out;
  out.reserve = std::clamp<int64_t>(descriptors / 4, 16, 1024);
  const auto rest = std::max<int64_t>(descriptors - out.reserve, 0);
  const stranger_bounds most;
  out.strangers.in_all = std::clamp<size_t>(static_cast<size_t>(rest / 2), 8, most.in_all);
  out.strangers.per_address = out.strangers.in_all / 2;
  return out;
}

std::optional<int64_t> strangers_policy::came(int64_t connection, const std::string& address,
                                              int64_t now_ns) {
  settled(connection);  // a number that is used again
  std::optional<line::iterator> gives_way;
  if (const auto it = by_address_.find(address);
      it != by_address_.end() && it->second.all >= bounds_.per_address)
    gives_way = one_of(address);
  else if (waiting_.size() >= bounds_.in_all)
    gives_way = one_of(fullest());
  std::optional<int64_t> out;
  if (gives_way) {
    out = (*gives_way)->connection;
    leave(*gives_way);
  }
  by_connection_[connection] =
      waiting_.insert(waiting_.end(), {connection, address, now_ns, false});
  ++by_address_[address].all;
  return out;
}

void strangers_policy::spoke(int64_t connection) {
  const auto it = by_connection_.find(connection);
  if (it == by_connection_.end() || std::exchange(it->second->spoke, true)) return;
  ++by_address_[it->second->address].spoke;
}

void strangers_policy::settled(int64_t connection) {
  if (const auto it = by_connection_.find(connection); it != by_connection_.end())
    leave(it->second);
}

std::vector<int64_t> strangers_policy::overdue(int64_t now_ns) {
  std::vector<int64_t> out;
  while (!waiting_.empty() && now_ns - waiting_.front().since_ns >= bounds_.patience_ns) {
    out.push_back(waiting_.front().connection);
    leave(waiting_.begin());
  }
  return out;
}

/// STR-4.
strangers_policy::line::iterator strangers_policy::one_of(const std::string& address) {
  const auto& n = by_address_.at(address);
  const bool of_those_who_spoke = n.spoke > n.all / 2;
  return std::find_if(waiting_.begin(), waiting_.end(), [&](const stranger& s) {
    return s.spoke == of_those_who_spoke && s.address == address;
  });
}

const std::string& strangers_policy::fullest() const {
  return std::max_element(by_address_.begin(), by_address_.end(),
                          [](const auto& a, const auto& b) { return a.second.all < b.second.all; })
      ->first;
}

void strangers_policy::leave(line::iterator who) {
  const auto it = by_address_.find(who->address);
  if (who->spoke) --it->second.spoke;
  if (--it->second.all == 0) by_address_.erase(it);
  by_connection_.erase(who->connection);
  waiting_.erase(who);
}

}  // namespace troupe::cluster

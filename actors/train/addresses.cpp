// Lists, and the turning of rows into columns.
#include "actors/train/addresses.hpp"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "messages/text.hpp"

namespace troupe::train {

void add_address(fbs::AddressesT& list, std::string_view address) {
  assert(address.size() <= UINT16_MAX);
  list.lengths.push_back(static_cast<uint16_t>(address.size()));
  list.data.insert(list.data.end(), address.begin(), address.end());
}

result<address_list> address_list::of(const fbs::Addresses* list) {
  address_list out;
  if (list == nullptr) return out;
  const size_t have = list->data() != nullptr ? list->data()->size() : 0;
  const size_t count = list->lengths() != nullptr ? list->lengths()->size() : 0;
  out.starts_.reserve(count + 1);
  uint64_t at = 0;
  for (uint32_t i = 0; i < count; ++i) {
    out.starts_.push_back(static_cast<uint32_t>(at));
    at += list->lengths()->Get(i);
    if (at > have) return error{errc::bad_data, "a list of addresses ends within one"};
  }
  if (at != have)
    return error{errc::bad_data, "invalid list of addresses: bytes that belong to no address"};
  out.starts_.push_back(static_cast<uint32_t>(at));
  if (have > 0) out.bytes_ = reinterpret_cast<const char*>(list->data()->data());
  return out;
}

std::vector<std::string> address_list::all() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < size(); ++i) out.emplace_back(at(i));
  return out;
}

status address_book::add(const msg<fbs::DataPlaneOffer>& offer) {
  auto& mine = of_rank_.emplace_back();
  offers_.push_back(offer);
  if (!offer->groups()) return {};
  for (const auto* g : *offer->groups()) {
    const auto name = text_of(g->name());
    const auto wrong = [&name](std::string_view what) {
      return error{errc::bad_data, fmt::format("group {}: {}", name, what)};
    };
    TROUPE_TRY(list, address_list::of(g->addresses()));
    if (list.size() != g->size()) return wrong("a rank's address list has the wrong length");
    const auto [it, fresh] = groups_.try_emplace(name);
    auto& members = it->second.members;
    if (fresh) members.resize(g->size());
    if (members.size() != g->size()) return wrong("its members disagree on its size");
    if (g->rank() >= members.size()) return wrong("a rank beyond its size");
    if (members[g->rank()].size() != 0) return rank_taken_twice(name, g->rank());
    members[g->rank()] = std::move(list);
    mine.push_back({&it->first, &it->second, g->rank()});
  }
  return {};
}

status address_book::check() const {
  for (const auto& [name, g] : groups_)
    for (const auto& member : g.members)
      if (member.size() == 0)
        return error{errc::bad_data, fmt::format("group {} lacks a member", name)};
  return {};
}

std::vector<std::unique_ptr<fbs::GroupTableT>> address_book::tables_for(size_t rank) const {
  std::vector<std::unique_ptr<fbs::GroupTableT>> out;
  for (const auto& of : of_rank_[rank]) {
    auto& table = *out.emplace_back(std::make_unique<fbs::GroupTableT>());
    table.name = *of.name;
    table.addresses = std::make_unique<fbs::AddressesT>();
    table.addresses->lengths.reserve(of.where->members.size());
    for (const auto& member : of.where->members) add_address(*table.addresses, member.at(of.rank));
  }
  return out;
}

}  // namespace troupe::train

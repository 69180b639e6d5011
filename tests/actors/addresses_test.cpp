// Addresses of groups: lists in messages, and the turning of what ranks offer into what they need.
#include "actors/train/addresses.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace troupe;
using namespace troupe::train;

namespace {

msg<fbs::DataPlaneOffer> offer_of(uint32_t rank, const std::vector<fbs::GroupOfferT>& groups) {
  return make_msg<fbs::DataPlaneOffer>({}, [&](auto& o) {
    o.rank = rank;
    for (const auto& g : groups) o.groups.push_back(std::make_unique<fbs::GroupOfferT>(g));
  });
}

std::string address(const std::string& group, uint32_t from, uint32_t to) {
  return from == to ? "" : fmt::format("{}:{}>{}", group, from, to);
}

fbs::GroupOfferT end_of(const std::string& name, uint32_t rank, uint32_t size) {
  fbs::GroupOfferT g;
  g.name = name;
  g.rank = rank;
  g.size = size;
  g.addresses = std::make_unique<fbs::AddressesT>();
  for (uint32_t to = 0; to < size; ++to) add_address(*g.addresses, address(name, rank, to));
  return g;
}

std::vector<std::string> list_in(const fbs::AddressesT& t) {
  const auto m = make_msg<fbs::DataPlaneTable>({}, [&](auto& table) {
    table.groups.push_back(std::make_unique<fbs::GroupTableT>());
    table.groups.back()->addresses = std::make_unique<fbs::AddressesT>(t);
  });
  const auto list = address_list::of(m->groups()->Get(0)->addresses());
  REQUIRE_MESSAGE(list, (list ? "" : list.error().message));
  return list->all();
}

}  // namespace

TEST_CASE("addresses: a book gives each rank what the others made for it") {
  constexpr uint32_t data = 3, pipeline = 2;
  address_book book;
  for (uint32_t p = 0; p < pipeline; ++p)
    for (uint32_t d = 0; d < data; ++d)
      REQUIRE(book.add(offer_of(p * data + d, {end_of(fmt::format("data/{}", p), d, data),
                                               end_of(fmt::format("pipe/{}", d), p, pipeline)})));
  REQUIRE(book.check());
  for (uint32_t p = 0; p < pipeline; ++p)
    for (uint32_t d = 0; d < data; ++d) {
      const auto tables = book.tables_for(p * data + d);
      REQUIRE(tables.size() == 2);
      CHECK(tables[0]->name == fmt::format("data/{}", p));
      const auto column = list_in(*tables[0]->addresses);
      REQUIRE(column.size() == data);
      for (uint32_t from = 0; from < data; ++from)
        CHECK(column[from] == address(fmt::format("data/{}", p), from, d));
      CHECK(list_in(*tables[1]->addresses) ==
            std::vector<std::string>{address(fmt::format("pipe/{}", d), 0, p),
                                     address(fmt::format("pipe/{}", d), 1, p)});
    }
}

TEST_CASE("addresses: what a rank of the largest group needs is one message") {
  constexpr uint32_t size = 1536;
  fbs::AddressesT longest;
  for (uint32_t i = 0; i < size; ++i) add_address(longest, std::string(256, 'x'));
  const auto m = make_msg<fbs::DataPlaneTable>({}, [&](auto& table) {
    table.groups.push_back(std::make_unique<fbs::GroupTableT>());
    table.groups.back()->addresses = std::make_unique<fbs::AddressesT>(longest);
  });
  CHECK(m.header().length < 400'000);
}

TEST_CASE("addresses ADR-1: a list that does not add up is refused") {
  for (const auto& [lengths, bytes] : std::vector<std::pair<std::vector<uint16_t>, size_t>>{
           {{1, 2}, 2}, {{1, 2}, 4}, {{}, 1}, {{65535, 65535}, 65534}}) {
    const auto m = make_msg<fbs::DataPlaneOffer>({}, [&](auto& o) {
      o.groups.push_back(std::make_unique<fbs::GroupOfferT>());
      o.groups.back()->addresses = std::make_unique<fbs::AddressesT>();
      o.groups.back()->addresses->lengths = lengths;
      o.groups.back()->addresses->data.resize(bytes);
    });
    const auto list = address_list::of(m->groups()->Get(0)->addresses());
    REQUIRE_FALSE(list);
    CHECK(list.error().code == errc::bad_data);
  }
  CHECK(address_list::of(nullptr)->size() == 0);
}

TEST_CASE("addresses ADR-2: offers that do not make groups are refused") {
  const auto refused = [](const std::vector<fbs::GroupOfferT>& ends) {
    address_book book;
    for (uint32_t rank = 0; rank < ends.size(); ++rank)
      if (auto good = book.add(offer_of(rank, {ends[rank]})); !good)
        return good.error().code == errc::bad_data;
    const auto good = book.check();
    return !good && good.error().code == errc::bad_data;
  };
  CHECK_FALSE(refused({end_of("data/0", 0, 2), end_of("data/0", 1, 2)}));
  CHECK(refused({end_of("data/0", 0, 2)}));
  CHECK(refused({end_of("data/0", 0, 2), end_of("data/0", 0, 2)}));
  CHECK(refused({end_of("data/0", 0, 2), end_of("data/0", 1, 3)}));
  CHECK(refused({end_of("data/0", 2, 2)}));
  auto huge = end_of("data/0", 0, 2);
  huge.size = 4'000'000'000;
  CHECK(refused({huge}));
  auto none = end_of("data/0", 0, 2);
  none.addresses.reset();
  CHECK(refused({none, end_of("data/0", 1, 2)}));
}

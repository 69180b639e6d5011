// The addresses by which the ranks of a group find each other: lists of blobs in messages, and the
// book in which the run turns what each rank offers into what each rank needs.
//
// Why turned: a group of n ranks where each connects to each has n^2 addresses, far beyond one
// message for n = 1,536; a rank needs the n that the others made for it.
//
// Invariants
//   ADR-1  A list from a message is checked before it is used: its lengths add up to its bytes.
//   ADR-2  A book gives tables only when every member of every group has offered once, each an
//     address list of the group's size.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::train {

/// Appends a blob, at most 64 KiB - 1.
void add_address(fbs::AddressesT& list, std::string_view address);

/// A list as it lies in a message, which outlives it (ADR-1).
class address_list {
 public:
  address_list() = default;
  /// Nothing for an absent list. Errors: bad_data.
  static result<address_list> of(const fbs::Addresses* list);

  size_t size() const noexcept { return starts_.empty() ? 0 : starts_.size() - 1; }
  std::string_view at(size_t index) const {
    return {bytes_ + starts_[index], starts_[index + 1] - starts_[index]};
  }
  std::vector<std::string> all() const;

 private:
  const char* bytes_ = nullptr;
  std::vector<uint32_t> starts_;  ///< and the end of the last
};

/// Two members of a group offer one rank of it.
inline constexpr error_kind<std::string_view, uint32_t> rank_taken_twice{
    "rank_taken_twice", errc::bad_data, "group {}: two members of rank {}"};

/// Holds the offers of all ranks: about 22 bytes for each of a group's n^2 addresses.
class address_book {
 public:
  /// The offer of the next rank, from 0 on. Errors: bad_data (ADR-2).
  status add(const msg<fbs::DataPlaneOffer>& offer);
  /// After the last offer. Errors: bad_data where a group lacks a member (ADR-2).
  status check() const;
  /// What a rank needs to connect to its groups.
  std::vector<std::unique_ptr<fbs::GroupTableT>> tables_for(size_t rank) const;

 private:
  struct group {
    std::vector<address_list> members;  ///< by rank in the group; empty: has not offered
  };
  struct membership {
    const std::string* name;
    const group* where;
    size_t rank;  ///< in the group
  };

  std::map<std::string, group> groups_;
  std::vector<std::vector<membership>> of_rank_;
  std::vector<msg<fbs::DataPlaneOffer>> offers_;  ///< the lists lie in them
};

}  // namespace troupe::train

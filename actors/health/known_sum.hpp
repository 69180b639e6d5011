// A sum over the members of a group whose bits are known, and parts that are known wherever they
// come from: what tells a way between machines, or an adder, that errs. Pure: no group, no clock.
//
// Why whole numbers: their sums are exact in float32, so that every order of adding gives the same
// bits, those of a loop over integers.
//
// Invariants
//   KSM-1  What is wanted is computed from integers, never from what a member gave: a part that its
//     memory has changed is seen.
//   KSM-2  No sum of most_members parts passes 2^24: all values between are
//     exact, whatever the order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe::health {

class known_sum {
 public:
  static constexpr size_t elements = size_t{64} << 10;  ///< of a sum
  static constexpr size_t gathered = size_t{4} << 10;   ///< of each member's part of a gather
  static constexpr size_t most_members = 64;

  known_sum();

  /// The whole number at a place, from 0 to elements.
  static constexpr int32_t number(uint32_t place) {
    uint32_t n = place * 2654435761u + 12345u;
    n = (n ^ (n >> 15)) * 2246822519u;
    n ^= n >> 13;
    return static_cast<int32_t>(n >> 14) - (1 << 17);  // KSM-2: 18 bits
  }

  /// What a member gives: its first out.size() elements.
  void part_of(size_t rank, std::span<float> out) const;

  /// An element that is not the known one.
  struct difference {
    size_t place = 0;
    double seen = 0, wanted = 0;
  };
  struct sum_errors {
    uint64_t wrong = 0;                      ///< elements
    std::optional<difference> first = {};  ///< none: all are right
  };
  /// Of a sum over so many members.
  static sum_errors errors_of_sum(std::span<const float> sum, size_t members);

  struct part_errors {
    uint64_t wrong = 0;  ///< elements
    int from = -1;       ///< the first member of whom such came
    void add(const part_errors& other);
  };
  /// Of the parts of members, one after the other, `gathered` elements each.
  static part_errors errors_of_parts(std::span<const float> parts);

 private:
  std::vector<float> numbers_;  ///< computed once, as in known_product
};

}  // namespace troupe::health

// How the watts of a node are divided among its children.
//
// Floors first. What is left goes to high priority, then to low, up to what each wishes; what
// nobody wishes lies ready for all, up to their ceilings, in the same order. Within a class there
// is one water level: who asks for most is cut first (Dynamo's leaf rule, ISCA'16), and nobody gets
// less than another of its class but by its own wish or ceiling.
//
// Where not even the floors fit, children are shed, of low priority first and the last first: they
// save, pause, and get what they draw while paused.
//
// Pure; allocates nothing.
//
// Invariants
//   DVN-1  The sum of what is given is at most what there is, but for what paused children draw.
//   DVN-2  Nobody is shed while a child of a lower class is not.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::power {

enum class power_class : uint8_t { low, high };
inline constexpr std::array<std::string_view, 2> power_class_names = {"low", "high"};

/// One child's; floor <= ceiling.
struct power_ask {
  power_class priority = power_class::low;
  int64_t floor_mw = 0;    ///< below it nothing useful is done
  int64_t ceiling_mw = 0;  ///< what it can draw at most
  int64_t paused_mw = 0;   ///< what it draws while it is shed
  int64_t wish_mw = 0;
  bool takes_part = true;  ///< else nothing is given to it: its watts are not to be had
};

struct power_share {
  int64_t cap_mw = 0;
  bool shed = false;
};

class division_policy {
 public:
  /// `shares` is as long as `asks`.
  static void divide(int64_t available_mw, std::span<const power_ask> asks,
                     std::span<power_share> shares);
};

}  // namespace troupe::power

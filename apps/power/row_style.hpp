// How pictures of a row look, simulated or served: light or dark, as the reader's screen is.
#pragma once

#include <string_view>

namespace troupe::apps::power_verb {

inline constexpr std::string_view row_style = R"(<style>
text { fill: #222222; font: 12px system-ui, Helvetica, Arial, sans-serif }
.paper { fill: #ffffff } .faint { fill: #666666 } .title { font-size: 19px; font-weight: 600 }
.grid { stroke: #e6e6e6 } .axis { stroke: #666666 } .empty { fill: #f0f0f0 }
.band { fill: #9cc3e6 } .mean { fill: none; stroke: #1f5f99; stroke-width: 1.2 }
.budget { stroke: #c0392b; stroke-width: 1.6 }
.t { stroke: #7d4e00; stroke-width: 1.3; stroke-dasharray: 6 4 }
.brake { fill: #c0392b } .cap1 { fill: #f5d76e } .cap2 { fill: #eb984e } .cap3 { fill: #af4b2b }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e4e4 } .paper { fill: #16191d } .faint { fill: #a0a6ad }
  .grid { stroke: #2c3238 } .axis { stroke: #8a9199 } .empty { fill: #22272c }
  .band { fill: #2f5878 } .mean { stroke: #8cc4f0 } .budget { stroke: #ff6f61 }
  .t { stroke: #f0b04a } .brake { fill: #ff6f61 }
  .cap1 { fill: #8a7a2c } .cap2 { fill: #c27a35 } .cap3 { fill: #f6c9a8 }
}
</style>
)";

/// How far a cap is below all that there is, as a share of it: nothing, or one of three shades.
inline std::string_view cap_shade(double share) {
  if (share >= 1) return {};
  return share > 0.85 ? "cap1" : share > 0.7 ? "cap2" : "cap3";
}

}  // namespace troupe::apps::power_verb

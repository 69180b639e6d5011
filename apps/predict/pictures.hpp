// Pictures of predictions, as SVG text. Pure: no files. Colours follow the reader's scheme.
#pragma once

#include <string>
#include <vector>

#include "apps/predict/metrics.hpp"

namespace troupe::apps::predict {

/// One bar: to the right of zero, or to the left.
struct picture_bar {
  std::string label;
  double length = 0;
  std::string told;  ///< what stands at its end
};

/// Bars below each other in the order given, the title above.
std::string bars_picture(const std::string& title, const std::vector<picture_bar>& bars);

/// Predicted over measured, both by their logarithms, a point a value; flagged ones look another
/// way. At least one value; what was measured is above 0, and what was not predicted above 0 lies
/// at the bottom.
std::string measured_picture(const std::string& title, const std::vector<judged_value>& values);

}  // namespace troupe::apps::predict

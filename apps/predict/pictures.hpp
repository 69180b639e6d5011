// Pictures of predictions: as SVG text, whose colours follow the reader's scheme, and as text for a
// terminal. Pure: no files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/predict/metrics.hpp"
#include "apps/report/report.hpp"

namespace troupe::apps::predict {

/// One bar: to the right of zero, or to the left.
struct picture_bar {
  std::string label;
  double length = 0;
  std::string told;  ///< what stands at its end
  /// Where on its line a stroke is drawn: what its length is to be.
  std::optional<double> mark = std::nullopt;
  /// Whether it has the other colour, as one to the left of zero has.
  bool other = false;
};

/// Bars below each other in the order given, the title above, a note below it.
std::string bars_picture(const std::string& title, const std::vector<picture_bar>& bars,
                         const std::string& note = "");
std::string bars_text(const std::string& title, const std::vector<picture_bar>& bars,
                      const report::canvas& on);

/// Predicted over measured, both by their logarithms, a point a value; flagged ones look another
/// way. At least one value; what was measured is above 0, and what was not predicted above 0 lies
/// at the bottom.
std::string measured_picture(const std::string& title, const std::vector<judged_value>& values);
/// The same in cells: how many values lie in each, and the line that they should lie on.
std::string measured_text(const std::string& title, const std::vector<judged_value>& values,
                          const report::canvas& on);

/// How many values an interval holds, over how many it should. At least one point.
std::string coverage_picture(const std::string& title, const std::vector<coverage_point>& points);

/// The loss of a network over its passes.
struct learning_curve {
  std::vector<int> passes;
  std::vector<double> learned, held;  ///< of rows learned from; of others, if there were any
};
/// At least two points.
std::string learning_picture(const std::string& title, const learning_curve& curve);
std::string learning_text(const std::string& title, const learning_curve& curve,
                          const report::canvas& on);

/// One of what a network attends to.
struct attended_bar {
  std::string label;
  double share = 0;   ///< of 1
  double points = 0;  ///< of MAPE that are lost without it
};
/// Two bars for each: attention's share, and points by the greatest of them.
std::string attention_picture(const std::string& title, const std::vector<attended_bar>& all,
                              const std::string& note);

}  // namespace troupe::apps::predict

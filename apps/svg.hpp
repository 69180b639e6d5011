// Pieces of pictures, as text: SVG has no state worth a library. Colours are classes of the
// picture's own style, which follows the reader's scheme, light or dark.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace troupe::apps::svg {

/// Of labels: small print, which begins, ends or stands in the middle where it is put.
inline constexpr std::string_view faint = "class=\"faint\"",
                                  faint_end = "text-anchor=\"end\" class=\"faint\"",
                                  faint_middle = "text-anchor=\"middle\" class=\"faint\"";

/// Words of others, as a picture may have them.
inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

/// `what` must be the program's own words, or escaped().
inline std::string label(double x, double y, std::string_view what, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, what);
}

inline std::string line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, kind);
}

inline std::string area(double x, double y, double w, double h, std::string_view kind) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" class=\"{}\"/>\n", x, y,
      w, h, kind);
}

/// The next of 1, 2, 5, 10, 20 ... that is not less: of axes.
inline double round_up(double x) {
  const double unit = std::pow(10, std::floor(std::log10(std::max(x, 1e-9))));
  for (const double times : {1.0, 2.0, 5.0})
    if (x <= times * unit * (1 + 1e-9)) return times * unit;
  return 10 * unit;
}

inline std::string opening(double w, double h) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n",
      w, h);
}

}  // namespace troupe::apps::svg

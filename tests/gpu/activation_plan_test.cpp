// The search for what layers keep: over made-up times, whose best choice is known.
#include "gpu/swap/activation_plan.hpp"

#include <algorithm>
#include <limits>

#include <doctest/doctest.h>

using namespace troupe::gpu;

namespace {

/// A step of layers, each of which spares `keep` or `half` seconds and takes so many bytes. Beyond
/// `room` bytes nothing fits, and each byte makes the drive's time longer.
struct made_up {
  int64_t layers = 0;
  double keep = 3, half = 1, keep_bytes = 9, half_bytes = 1, room = 1e9, drive = 0;
  double byte_s = 0;  ///< of the drive
  mutable int asked = 0;

  std::optional<double> operator()(const activation_split& s) const {
    ++asked;
    const auto k = static_cast<double>(s.keep), h = static_cast<double>(s.half);
    const double bytes = k * keep_bytes + h * half_bytes;
    if (bytes > room) return std::nullopt;
    const double products = 10.0 * static_cast<double>(layers) - k * keep - h * half;
    return std::max(products, drive + bytes * byte_s);
  }
  /// Of all choices in their order.
  double least() const {
    double out = std::numeric_limits<double>::infinity();
    for (int64_t at = 0; at <= 2 * layers; ++at) {
      const auto keep = std::max<int64_t>(0, at - layers);
      if (const auto t = (*this)({keep, std::min(at, layers - keep)})) out = std::min(out, *t);
    }
    return out;
  }
  std::optional<activation_split> chosen(bool has_halves = true) const {
    return choose_activations(layers, has_halves,
                              [this](const activation_split& s) { return (*this)(s); });
  }
};

}  // namespace

TEST_CASE("ACT-1 ACT-2: of all choices on its line the best is found, with few looks") {
  for (const int64_t layers : {1, 2, 5, 12, 48, 96, 1000})
    for (const double drive : {0.0, 8.5 * static_cast<double>(layers), 1e9})
      for (const double byte_s : {0.0, 0.3, 2.0})
        for (const double room : {0.0, 3.0, 7.5 * static_cast<double>(layers), 1e9}) {
          CAPTURE(layers);
          CAPTURE(drive);
          CAPTURE(byte_s);
          CAPTURE(room);
          made_up m{layers};
          m.drive = drive;
          m.byte_s = byte_s;
          m.room = room;
          const auto best = m.chosen();
          REQUIRE(best);
          CHECK(m.asked <= 60);
          const auto took = m(*best);
          REQUIRE(took);
          CHECK(*took <= m.least() * 1.0011);
        }
}

TEST_CASE("ACT-2: where the time is the same the choice that computes least is taken") {
  made_up m{12};
  m.drive = 1e6;
  CHECK(m.chosen() == activation_split{12, 0});
  m.room = 40;
  CHECK(m.chosen() == activation_split{3, 9});
}

TEST_CASE("ACT-1: where a block has no x + attention layers keep all or nothing, if it fits") {
  made_up m{10};
  m.room = 5 * m.keep_bytes;
  CHECK(m.chosen(false) == activation_split{5, 0});
  m.room = -1;
  CHECK_FALSE(m.chosen());
}

TEST_CASE("activations by layer: the last ones keep all, those before them half") {
  using enum activation_choice;
  CHECK(choices_by_layer({1, 2}, 5) ==
        std::vector<activation_choice>{recompute, recompute, half, half, keep});
  CHECK(choices_by_layer({9, 2}, 2) == std::vector<activation_choice>{keep, keep});
  CHECK(choices_by_layer({0, 0}, 1) == std::vector<activation_choice>{recompute});
}

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
  double byte_s = 0;     ///< of the drive
  double spill_s = 1e9;  ///< of the drive, for a layer that spills: by default it never pays
  mutable int asked = 0;

  std::optional<double> operator()(const activation_split& s) const {
    ++asked;
    const auto k = static_cast<double>(s.keep), h = static_cast<double>(s.half);
    const auto d = static_cast<double>(s.spill);
    const double bytes = k * keep_bytes + h * half_bytes;
    if (bytes > room) return std::nullopt;
    const double products = 10.0 * static_cast<double>(layers) - (k + d) * keep - h * half;
    return std::max(products, drive + bytes * byte_s + d * spill_s);
  }
  made_up with(double spill_seconds) const {
    auto out = *this;
    out.spill_s = spill_seconds;
    return out;
  }
  /// Of all choices in their order.
  double least() const {
    double out = std::numeric_limits<double>::infinity();
    for (int64_t at = 0; at <= 2 * layers; ++at) {
      const auto whole = std::max<int64_t>(0, at - layers);
      if (const auto t = (*this)({whole, std::min(at, layers - whole)})) out = std::min(out, *t);
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
          CHECK(m.asked <= 200);
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
  m.keep = 8;  // as of GPT-2: of 16 parts that are computed again x + attention spares 2
  m.half_bytes = 3;
  m.room = m.keep_bytes;
  CHECK(m.chosen() == activation_split{1, 0});
}

TEST_CASE("ACT-1: where a block has no x + attention layers keep all or nothing, if it fits") {
  made_up m{10};
  m.room = 5 * m.keep_bytes;
  CHECK(m.chosen(false) == activation_split{5, 0});
  m.room = -1;
  CHECK_FALSE(m.chosen());
}

TEST_CASE("ACT-2: layers spill as far as the drive has nothing else to do") {
  made_up m{12};
  m.room = 0;  // nothing is kept: 120 s of products, 84 where all spill
  m.drive = 20;
  m.spill_s = 1;
  CHECK(m.chosen() == activation_split{0, 0, 12});
  m.spill_s = 10;  // 100 s of the drive: 8 spill, and their products are 96 s
  CHECK(m.chosen() == activation_split{0, 0, 7});
  m.drive = 121;
  CHECK(m.chosen() == activation_split{0, 0, 0});
  m.drive = 20;
  m.spill_s = 0.001;
  m.room = 5 * m.keep_bytes;  // what is kept is not worth a write
  CHECK(m.chosen() == activation_split{5, 0, 7});
  m.drive = 1e6;  // as long, whatever spills
  CHECK(m.chosen()->spill == 0);
}

TEST_CASE("ACT-2: of all choices none is quicker by far than that which is found") {
  for (const double room : {0.0, 20.0, 60.0})
    for (const double drive : {0.0, 70.0, 100.0, 130.0})
      for (const double spill_s : {0.1, 2.0, 8.0})
        for (const double byte_s : {0.0, 0.5, 2.0}) {
          made_up m{12};
          m.room = room;
          m.drive = drive;
          m.spill_s = spill_s;
          m.byte_s = byte_s;
          double least = std::numeric_limits<double>::infinity();
          for (int64_t keep = 0; keep <= 12; ++keep)
            for (int64_t spill = 0; keep + spill <= 12; ++spill)
              for (int64_t half = 0; keep + spill + half <= 12; ++half)
                if (const auto t = m({keep, half, spill})) least = std::min(least, *t);
          CAPTURE(room);
          CAPTURE(drive);
          CAPTURE(spill_s);
          CAPTURE(byte_s);
          const auto best = m.chosen();
          REQUIRE(best);
          CHECK(*m(*best) <= 1.05 * least);
          if (best->spill > 0) {  // it is worth its writes
            m.spill_s = 1e9;
            CHECK(*m(*m.chosen()) > 1.03 * *m.with(spill_s)(*best));
          }
        }
}

TEST_CASE("activations by layer: the last ones keep all, those before them half") {
  using enum activation_choice;
  CHECK(choices_by_layer({1, 2}, 5) ==
        std::vector<activation_choice>{recompute, recompute, half, half, keep});
  CHECK(choices_by_layer({1, 1, 2}, 5) ==
        std::vector<activation_choice>{recompute, half, spill, spill, keep});
  CHECK(choices_by_layer({9, 2}, 2) == std::vector<activation_choice>{keep, keep});
  CHECK(choices_by_layer({0, 0}, 1) == std::vector<activation_choice>{recompute});
}

// The residual network against its PyTorch twin: loss and every gradient, to 1e-5. The twin's
// numbers stand in network_twin.txt, which tests/gpu/twins/predict.py writes: no PyTorch is needed.
#include <cmath>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "gpu/predict/network.hpp"

using namespace troupe;
using namespace troupe::gpu::predict;

namespace {

/// As the twin makes its numbers.
float twin_part(int i, int step, int first, int of, double low, double high) {
  return static_cast<float>(low + (high - low) * ((i * step + first) % of) / of);
}

network_shape twin_shape(const std::string& variant) {
  network_shape s;
  s.group_of_number = {0, 1, 1, 0};
  s.groups = 2;
  s.levels = {3, 2};
  s.outputs = 2;
  s.width = 4;
  s.published = variant == "published";
  s.hidden = s.published ? 4 : 6;
  s.intra = variant != "no-intra";
  s.inter = variant != "no-inter";
  return s;
}

network_rows twin_rows() {
  network_rows rows{5, 4, 2, {}, {}, {}};
  for (int i = 0; i < 20; ++i) {
    rows.z.push_back(twin_part(i, 271, 7, 101, -2, 2));
    rows.masked.push_back(i % 7 == 3 ? 1 : 0);
  }
  for (int i = 0; i < 10; ++i) rows.codes.push_back((i * 5 + 1) % 3);
  rows.weights = {1, 1, 0.25f, 1, 0.5f};
  return rows;
}

}  // namespace

TEST_CASE("loss and every gradient of the network are its PyTorch twin's, to 1e-5") {
  std::ifstream file(TROUPE_SOURCE_DIR "/tests/gpu/predict/network_twin.txt");
  std::string line, variant;
  REQUIRE(static_cast<bool>(std::getline(file, line)));
  const auto rows = twin_rows();
  std::vector<float> targets;
  for (int i = 0; i < 10; ++i) targets.push_back(twin_part(i, 37, 5, 53, -3, 3));
  const std::vector<int> picked = {0, 2, 3, 4};
  int variants = 0;
  double loss = 0;
  size_t count = 0;
  for (; file >> variant >> loss >> count; ++variants) {
    CAPTURE(variant);
    network net(twin_shape(variant), 0);
    REQUIRE(net.parameters().size() == count);
    for (size_t i = 0; i < count; ++i)
      net.parameters()[i] = twin_part(static_cast<int>(i), 7919, 13, 1009, -0.4, 0.4);
    CHECK(std::abs(net.loss(rows, targets, picked) - loss) < 1e-5);
    for (size_t i = 0; i < count; ++i) {
      double twin = 0;
      REQUIRE(static_cast<bool>(file >> twin));
      CHECK_MESSAGE(std::abs(net.gradient()[i] - twin) < 1e-5 * (1 + std::abs(twin)),
                    "parameter " << i << ": " << net.gradient()[i] << ", the twin's " << twin);
    }
  }
  CHECK(variants == 4);
}

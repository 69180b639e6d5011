// Seeded mutations of a fuzzer's seeds, for the tests that run its entry point with any compiler.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

namespace troupe {

/// Changes a few of the bytes behind the first `kept`, which choose the fuzzer's entry point.
inline void mutate(std::vector<uint8_t>& x, std::mt19937_64& random, size_t kept) {
  static const uint8_t interesting[] = {0, 1, 4, 8, 0x7f, 0x80, 0xff, '"', '{', '[', ','};
  for (auto n = 1 + random() % 4; n > 0 && x.size() > kept; --n) {
    auto at = kept + random() % (x.size() - kept);
    switch (random() % 6) {
      case 0:
        x[at] ^= static_cast<uint8_t>(1u << (random() % 8));
        break;
      case 1:
        x[at] = interesting[random() % std::size(interesting)];
        break;
      case 2:
        x[at] = static_cast<uint8_t>(random());
        break;
      case 3:
        x.resize(at);
        break;
      case 4:
        x.insert(x.begin() + static_cast<ptrdiff_t>(at), static_cast<uint8_t>(random()));
        break;
      default: {  // a word copied elsewhere: offsets that point to what other offsets point to
        auto from = kept + random() % (x.size() - kept);
        for (size_t k = 0; k < 4 && from + k < x.size() && at + k < x.size(); ++k)
          x[at + k] = x[from + k];
      }
    }
  }
}

}  // namespace troupe

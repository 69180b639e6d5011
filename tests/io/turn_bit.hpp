// Damages a file, for tests.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace troupe {

/// Turns a bit of the byte at this place.
inline void turn_bit(const std::filesystem::path& file, std::streamoff at) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(at);
  char c = 0;
  f.get(c);
  f.seekp(at);
  f.put(static_cast<char>(c ^ 4));
  REQUIRE(f.good());
}

}  // namespace troupe

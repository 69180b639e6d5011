// A dataset as Megatron-LM's IndexedDatasetBuilder writes it, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/file.hpp"

namespace troupe {

struct megatron_pair {
  std::string index, tokens;

  template <class T>
  static void add(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  /// `documents`: the first sequence of each, then how many sequences there are.
  template <class Stored>
  static megatron_pair of(uint8_t type, const std::vector<std::vector<int64_t>>& sequences,
                          const std::vector<int64_t>& documents) {
    megatron_pair out;
    out.index.assign("MMIDIDX\0\0", 9);
    add(out.index, uint64_t{1});
    add(out.index, type);
    add(out.index, static_cast<uint64_t>(sequences.size()));
    add(out.index, static_cast<uint64_t>(documents.size()));
    for (const auto& s : sequences) add(out.index, static_cast<int32_t>(s.size()));
    std::vector<int64_t> pointers;
    for (const auto& s : sequences) {
      pointers.push_back(static_cast<int64_t>(out.tokens.size()));
      for (auto id : s) add(out.tokens, static_cast<Stored>(id));
    }
    for (auto p : pointers) add(out.index, p);
    for (auto d : documents) add(out.index, d);
    return out;
  }

  void write(const std::filesystem::path& stem) const {
    auto with = [&](const char* end) {
      auto path = stem;
      return path += end;
    };
    REQUIRE(io::write_atomic(with(".idx"), index));
    REQUIRE(io::write_atomic(with(".bin"), tokens));
  }
};

}  // namespace troupe

// Which rows of which data set are learned from (train), chosen by (val) and asked about (test):
// files of lines dataset,row_id,split. The order of their lines changes nothing.
//
// Invariants
// PSP-1 A row of a data set has one part.
// PSP-2 A split by CPU model has each model in one part; a split that is made again from the same
//       rows and seed is the same, whatever the order of the rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/perf/csv.hpp"
#include "io/perf/table.hpp"

namespace troupe::io::perf {

enum class split_part : uint8_t { train, val, test };

/// "train", "val", "test".
std::string_view to_string(split_part part) noexcept;

struct split_place {
  split_part part = split_part::train;
  size_t line = 0;  ///< of the split's file
};

struct split {
  std::string name;                                                ///< the file, as errors call it
  std::map<std::string, std::map<std::string, split_place>> sets;  ///< by data set, by row
};

/// Errors: bad_csv, with the line.
result<split> parse_split(std::string_view text, const std::string& name);
result<split> read_split(const std::filesystem::path& path);

/// The rows of a part, in the order of the table. Errors: bad_csv where an id is not in the table.
result<std::vector<const perf_row*>> rows_of(const split& s, const perf_table& table,
                                             split_part part);

/// How rows are dealt out.
enum class split_by : uint8_t { random, cpu, date };

struct split_shares {
  double val = 0.2, test = 0.2;  ///< the rest is train
};

/// Deals the labelled rows of a table out, by a hash of seed and id, or of seed and CPU model;
/// or by date, the newest to test. Errors: bad_csv where rows have no CPU model or date to go by.
result<std::map<std::string, split_part>> make_split(const perf_table& table, split_by by,
                                                     uint64_t seed, const split_shares& shares);

/// A hash of a seed and a word: FNV-1a, mixed (SplitMix64).
uint64_t seeded_hash(uint64_t seed, std::string_view word) noexcept;

}  // namespace troupe::io::perf

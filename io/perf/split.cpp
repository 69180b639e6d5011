// Splits, read and made.
#include "io/perf/split.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/base/text.hpp"
#include "io/formats/byte_stream.hpp"

namespace troupe::io::perf {

namespace {

std::optional<split_part> part_in(std::string_view word) {
  for (const auto p : {split_part::train, split_part::val, split_part::test})
    if (to_string(p) == word) return p;
  return std::nullopt;
}

/// What rows are dealt out by, in the order of dealing; rows of one key stay together.
result<std::vector<std::pair<std::string, const perf_row*>>> keyed(const perf_table& table,
                                                                   split_by by, uint64_t seed) {
  std::vector<std::pair<std::string, const perf_row*>> out;
  for (const auto& r : table.rows) {
    if (!r.labelled()) continue;
    const auto& word = by == split_by::cpu ? r.cpu_model : by == split_by::date ? r.date : r.id;
    if (word.empty())
      return bad_csv(table.dataset, 0,
                     fmt::format("row {} has no {} to split by", r.id,
                                 by == split_by::cpu ? "CPU model" : "date"));
    out.emplace_back(
        by == split_by::date ? word : fmt::format("{:016x}{}", seeded_hash(seed, word), word), &r);
  }
  // The newest first: test is dealt out before val, and val before train.
  std::sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return by == split_by::date ? a.first > b.first : a.first < b.first;
    return a.second->id < b.second->id;
  });
  return out;
}

}  // namespace

std::string_view to_string(split_part part) noexcept {
  switch (part) {
    case split_part::train:
      return "train";
    case split_part::val:
      return "val";
    case split_part::test:
      return "test";
  }
  return "?";
}

uint64_t seeded_hash(uint64_t seed, std::string_view word) noexcept {
  uint64_t h = 0xcbf29ce484222325 ^ (seed * 0x9e3779b97f4a7c15);
  for (const char c : word) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}

result<split> parse_split(std::string_view text, const std::string& name) {
  TROUPE_TRY(file, parse_csv(text, name));
  TROUPE_TRY(dataset, file.need("dataset"));
  TROUPE_TRY(id, file.need("row_id"));
  TROUPE_TRY(part, file.need("split"));
  split out;
  out.name = name;
  for (const auto& row : file.rows) {
    const auto which = part_in(trimmed(row.cells[part]));
    if (!which)
      return bad_csv(
          name, row.line,
          fmt::format("split is {}; expected train, val or test", troupe::quoted(row.cells[part])));
    const std::string set(trimmed(row.cells[dataset])), word(trimmed(row.cells[id]));
    if (set.empty() || word.empty()) return bad_csv(name, row.line, "no data set or no row id");
    const auto [it, fresh] = out.sets[set].emplace(word, split_place{*which, row.line});
    if (!fresh)
      return bad_csv(
          name, row.line,
          fmt::format("row {} of {} stands in line {} already", word, set, it->second.line));
  }
  return out;
}

result<split> read_split(const std::filesystem::path& path) {
  TROUPE_TRY(file, io::read_unpacked(path, max_csv_bytes));
  return parse_split(file, path.string());
}

result<std::vector<const perf_row*>> rows_of(const split& s, const perf_table& table,
                                             split_part part) {
  std::vector<const perf_row*> out;
  const auto set = s.sets.find(table.dataset);
  if (set == s.sets.end()) return out;
  for (const auto& [id, place] : set->second) {
    if (place.part != part) continue;
    const auto* row = table.find(id);
    if (row == nullptr)
      return bad_csv(s.name, place.line,
                     fmt::format("row {} is not in the data of {}", id, table.dataset));
    out.push_back(row);
  }
  return out;
}

result<std::map<std::string, split_part>> make_split(const perf_table& table, split_by by,
                                                     uint64_t seed, const split_shares& shares) {
  TROUPE_TRY(order, keyed(table, by, seed));
  const auto total = static_cast<double>(order.size());
  const auto tests = std::llround(shares.test * total);
  const auto both = std::llround((shares.test + shares.val) * total);
  std::map<std::string, split_part> out;
  auto part = split_part::test;
  for (size_t i = 0; i < order.size(); ++i) {
    // A new part begins where a new key does.
    if (i == 0 || by == split_by::random || order[i].first != order[i - 1].first) {
      const auto at = static_cast<long long>(i);
      part = at < tests ? split_part::test : at < both ? split_part::val : split_part::train;
    }
    out.emplace(order[i].second->id, part);
  }
  return out;
}

}  // namespace troupe::io::perf

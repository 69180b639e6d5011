// What was measured of this machine, kept for the next program: one store for all of it.
//
// Why: a measurement takes its time and may be disturbed; what a machine can do belongs to the
// machine and not to the minute. Who measures says under which name and what of it must hold.
//
// A fact is one file, ${XDG_CACHE_HOME:-~/.cache}/troupe/MACHINE/NAME.json, where MACHINE is a hash
// of the machine's id, host name and processor (a home may be shared by hosts):
//   {"store": 1, "program": "0.1.0", "machine": MACHINE, "name": NAME, "unix_s": 1800000000,
//    "value": {...}}
//
// Invariants
//   FACT-1  A kept fact is used only if its file is at most most_fact_bytes long and of this store,
//           program, machine and name, and neither of the future nor older than asked for; else it
//           is as absent. What `value` holds is for the caller to believe or not.
//   FACT-2  Files are replaced whole: of two programs that keep a fact at once one has kept it.
//   FACT-3  The store has as many files as the code has names for this machine's parts: newer
//           programs replace what older ones kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace troupe::io {

/// The longest file of a fact, bytes.
inline constexpr size_t most_fact_bytes = 64 << 10;

/// Where facts are kept and what they must be of; each empty or 0: as this machine and program
/// have it.
struct fact_store {
  /// Empty: ${XDG_CACHE_HOME:-~/.cache}/troupe; where there is no such place nothing is kept.
  std::filesystem::path folder = {};
  std::string machine = {};
  std::string program = {};
  int64_t now_unix_s = 0;

  /// The value kept under `name` (letters, digits and '-') within `max_age` (FACT-1).
  std::optional<nlohmann::json> find(std::string_view name, std::chrono::hours max_age) const;

  /// Keeps it, or does not where that cannot be done: it will be measured again.
  void keep(std::string_view name, const nlohmann::json& value) const;

  /// The machine's folder, for files that are no facts; empty where there is no place.
  std::filesystem::path here() const;

 private:
  std::filesystem::path file_of(std::string_view name) const;
};

/// A hash of what tells this machine from others: 16 hexadecimal digits.
const std::string& this_machine();

}  // namespace troupe::io

// Machines as rows of a table of a person's own (readers.hpp): FILE.csv with its schema FILE.toml
// beside it, which `predict train` learns from where labels are filled in, and `predict ask --row`
// asks by.
//
// A row is found by its id: measured again, a machine's features are replaced, and its labels and
// whatever else a person entered stay.
//
// Invariants
//   HWR-1  Machines that add their rows at once, to a table in a shared folder, lose none of them:
//     each reads the table and replaces it while it holds its lock.
//   HWR-2  A row that could not be written leaves the table and the folder as they were: no file
//     of a table that is not there.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/perf/csv.hpp"
#include "io/perf/hw_profile.hpp"

namespace troupe::io::perf {

/// A table that no row of a machine can be added to: the file, and why.
inline constexpr error_kind<std::string_view, std::string_view> no_fleet{
    "no_fleet", errc::bad_data, "{}: {}",
    "name another file, or one that `troupe predict probe -o` has made"};

/// Others have had it for all the time that was waited: the file.
inline constexpr error_kind<std::string_view> fleet_busy{"fleet_busy", errc::unavailable,
                                                         "{} is locked by another process",
                                                         "try again when it has ended"};

/// The schema: every field a feature, one label.
std::string hw_schema(const std::string& label);

/// The columns of a table that rows of machines can be added to; none of one that is not there yet.
/// Errors: usage for a name that is no *.csv, no_fleet, bad_csv, those of files.
result<std::vector<std::string>> fleet_columns(const std::filesystem::path& file);

/// Adds a machine's row to a file, or replaces it; made with its schema where it is not there.
/// A schema that is there stays. Both are replaced whole (HWR-1). Blanks around the id are none of
/// it. Errors: fleet_busy, those of fleet_columns.
status add_hw_row(const std::filesystem::path& file, const std::string& id,
                  const hw_profile& profile, const std::string& label,
                  std::chrono::milliseconds patience = std::chrono::seconds(10));

/// A row, or a file of one machine.
struct hw_machine {
  std::string id;
  hw_profile profile;
};

/// The machines of a table, a row each; other columns are left out. Errors: no_fleet, bad_csv.
result<std::vector<hw_machine>> hw_machines_of(const csv& table);

/// Of a file: a table (*.csv), or one machine as `troupe predict probe --json` tells it. Errors:
/// no_fleet, bad_csv, not_hw_profile, those of files.
result<std::vector<hw_machine>> read_hw_machines(const std::filesystem::path& file);

}  // namespace troupe::io::perf

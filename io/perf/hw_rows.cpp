// Columns by the list of fields.
#include "io/perf/hw_rows.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "io/base/text.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"
#include "io/formats/json_text.hpp"
#include "io/locked_file.hpp"
#include "io/perf/csv.hpp"

namespace troupe::io::perf {

namespace {

constexpr const char* id_column = "row_id";
/// What a table of machines has, and one of anything else hardly does.
constexpr const char* machine_column = "cpu_model";

std::string hw_line(const std::vector<std::string>& cells) {
  std::string out;
  for (const auto& cell : cells) out += csv_cell(cell) + ",";
  out.back() = '\n';
  return out;
}

/// A table without rows.
csv empty_fleet(const std::string& label) {
  csv out{"a new table", {id_column}, {}};
  for (const auto& field : hw_fields()) out.columns.emplace_back(field.name);
  out.columns.push_back(label);
  return out;
}

/// Where a column is; it is added, empty, where it is not there.
size_t column_in(csv& table, std::string_view name) {
  if (const auto at = table.column(name)) return *at;
  table.columns.emplace_back(name);
  for (auto& row : table.rows) row.cells.emplace_back();
  return table.columns.size() - 1;
}

/// The table; none where there is none yet, or an empty file, as its lock's first holder leaves it.
result<std::optional<csv>> read_fleet(const std::filesystem::path& file) {
  std::error_code fault;
  const auto bytes = std::filesystem::file_size(file, fault);
  if (fault == std::errc::no_such_file_or_directory || (!fault && bytes == 0))
    return std::optional<csv>();
  TROUPE_TRY(there, read_csv(file));
  for (const auto* name : {id_column, machine_column})
    if (!there.column(name)) return no_fleet(there.name, fmt::format("it has no column {}", name));
  return std::optional<csv>(std::move(there));
}

/// The text of a table of machines with that one's row.
std::string with_hw_row(csv table, const std::string& id, const hw_profile& profile) {
  const size_t ids = column_in(table, id_column);
  const auto row = std::find_if(table.rows.begin(), table.rows.end(),
                                [&](const csv_row& one) { return trimmed(one.cells[ids]) == id; });
  const auto at = static_cast<size_t>(row - table.rows.begin());
  if (row == table.rows.end()) {
    table.rows.push_back({0, std::vector<std::string>(table.columns.size())});
    table.rows.back().cells[ids] = id;
  }
  for (const auto& field : hw_fields()) {
    const auto column = column_in(table, field.name);
    table.rows[at].cells[column] = hw_cell(profile, field);
  }
  auto text = hw_line(table.columns);
  for (const auto& one : table.rows) text += hw_line(one.cells);
  return text;
}

bool is_there(const std::filesystem::path& file) {
  std::error_code fault;
  return std::filesystem::exists(file, fault);
}

/// The table's own turn is the caller's. A schema that this has made goes with a table that it
/// could not make.
status write_fleet(const std::filesystem::path& file, std::string_view text,
                   const std::string& label) {
  auto schema = file;
  schema.replace_extension(".toml");
  const bool has_schema = is_there(schema);
  // First: a table without a schema is none.
  if (!has_schema) TROUPE_CHECK(write_atomic(schema, hw_schema(label)));
  auto written = write_atomic(behind_links(file), text);
  if (written || has_schema) return written;
  if (const auto made = open_read(schema))
    static_cast<void>(remove_own_file(schema, made->get()));  // HWR-2
  return written;
}

}  // namespace

std::string hw_schema(const std::string& label) {
  auto out = fmt::format(
      "# Machines by `troupe predict probe -o`; fill in {}, or name other columns as labels.\n"
      "id = \"{}\"\ncpu_model = \"cpu_model\"\nlabels = [{}]\n",
      troupe::quoted(label), id_column, troupe::quoted(label));
  for (const auto& field : hw_fields())
    out += fmt::format("\n[[feature]]  # {}\ncolumn = {}\ngroup = {}\nunit = {}\nkind = {}\n",
                       field.what, troupe::quoted(field.name), troupe::quoted(field.group),
                       troupe::quoted(field.unit), troupe::quoted(to_string(field.kind)));
  return out;
}

result<std::vector<std::string>> fleet_columns(const std::filesystem::path& file) {
  if (file.extension() != ".csv")
    return error{errc::usage, fmt::format("{} does not end in .csv", file.string()),
                 "a table is NAME.csv, with its schema in NAME.toml"};
  TROUPE_TRY(table, read_fleet(file));
  return table ? std::move(table->columns) : std::vector<std::string>();
}

status add_hw_row(const std::filesystem::path& file, const std::string& id,
                  const hw_profile& profile, const std::string& label,
                  std::chrono::milliseconds patience) {
  TROUPE_CHECK(fleet_columns(file));  // before a file is made
  const bool is_new = !is_there(file);
  TROUPE_TRY(turn, open_locked(file, patience));
  if (!turn) return fleet_busy(file.string());  // HWR-1
  TROUPE_TRY(table, read_fleet(file));
  const bool is_own = is_new && !table;  // while this waited another may have written it
  const auto text = with_hw_row(table ? std::move(*table) : empty_fleet(label),
                                std::string(trimmed(id)), profile);
  auto added = write_fleet(file, text, label);
  // Whoever waits for the lock asks again for what the name leads to then (LKF-1).
  if (!added && is_own)
    static_cast<void>(remove_own_file(behind_links(file), turn.get()));  // HWR-2
  return added;
}

result<std::vector<hw_machine>> hw_machines_of(const csv& table) {
  const auto ids = table.column(id_column);
  if (!ids) return no_fleet(table.name, fmt::format("it has no column {}", id_column));
  std::vector<hw_machine> out;
  for (const auto& row : table.rows) {
    auto& machine = out.emplace_back();
    machine.id = trimmed(row.cells[*ids]);
    for (const auto& field : hw_fields()) {
      const auto column = table.column(field.name);
      const auto cell = column ? trimmed(row.cells[*column]) : std::string_view();
      if (cell.empty()) continue;
      if (field.text != nullptr) {
        machine.profile.*field.text = std::string(cell);
        continue;
      }
      const auto number = number_in(cell);
      if (!number || !is_hw_number(field, *number))
        return bad_csv(table.name, row.line,
                       fmt::format("invalid {} \"{}\", expected a number {}", field.name, cell,
                                   expected_of(field)));
      machine.profile.*field.number = *number;
    }
    drop_impossible(machine.profile);
  }
  if (out.empty()) return no_fleet(table.name, "it has no row");
  return out;
}

result<std::vector<hw_machine>> read_hw_machines(const std::filesystem::path& file) {
  if (file.extension() == ".csv") {
    TROUPE_TRY(table, read_csv(file));
    return hw_machines_of(table);
  }
  constexpr size_t enough_bytes = 1 << 20;
  TROUPE_TRY(text, read_file(file, enough_bytes));
  auto json = parse_json(text);
  if (!json) return not_hw_profile(file.string(), json.error().message);
  const auto profile = json->is_object() ? json->find("profile") : json->end();
  TROUPE_TRY(machine, hw_of_json(profile == json->end() ? *json : *profile, file.string()));
  return std::vector<hw_machine>{{file.stem().string(), std::move(machine)}};
}

}  // namespace troupe::io::perf

// Columns by the list of fields.
#include "io/perf/hw_rows.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "io/base/text.hpp"
#include "io/file.hpp"
#include "io/formats/json_text.hpp"

namespace troupe::io::perf {

namespace {

constexpr const char* id_column = "row_id";

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

result<std::string> with_hw_row(const std::optional<csv>& table, const std::string& id,
                                const hw_profile& profile, const std::string& label) {
  auto out = table ? *table : empty_fleet(label);
  const auto ids = out.column(id_column);
  if (!ids) return no_fleet(out.name, fmt::format("it has no column {}", id_column));
  const auto row = std::find_if(out.rows.begin(), out.rows.end(),
                                [&](const csv_row& one) { return trimmed(one.cells[*ids]) == id; });
  const auto at = row - out.rows.begin();
  if (row == out.rows.end()) {
    out.rows.push_back({0, std::vector<std::string>(out.columns.size())});
    out.rows.back().cells[*ids] = id;
  }
  for (const auto& field : hw_fields()) {
    const auto column = column_in(out, field.name);
    out.rows[static_cast<size_t>(at)].cells[column] = hw_cell(profile, field);
  }
  auto text = hw_line(out.columns);
  for (const auto& one : out.rows) text += hw_line(one.cells);
  return text;
}

status add_hw_row(const std::filesystem::path& file, const std::string& id,
                  const hw_profile& profile, const std::string& label) {
  if (file.extension() != ".csv")
    return error{errc::usage, fmt::format("{} does not end in .csv", file.string()),
                 "a table is NAME.csv, with its schema in NAME.toml"};
  std::error_code fault;
  std::optional<csv> table;
  if (std::filesystem::exists(file, fault)) {
    TROUPE_TRY(there, read_csv(file));
    table = std::move(there);
  }
  TROUPE_TRY(text, with_hw_row(table, id, profile, label));
  auto schema = file;
  schema.replace_extension(".toml");
  // First: a table without a schema is none.
  if (!std::filesystem::exists(schema, fault)) TROUPE_CHECK(write_atomic(schema, hw_schema(label)));
  return write_atomic(file, text);
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

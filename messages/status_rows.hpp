// What an actor says of itself, as rows: name, unit, value. Console text, `--json` and whatever
// else shows a status are made of them.
//
// STA-1  Every kind of actor has its table in StatusValues (schemas/status.fbs), under its name.
// STA-2  Every number has a unit, but those that only number something (a step, a rank).
// STA-3  Integers keep all of their 64 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "messages/schemas/status_generated.h"
#include "messages/schemas/status_kinds.hpp"

namespace troupe {

struct status_row;

/// A value of a status; nothing where it is not known, e.g. the power of a device without a meter.
struct status_value {
  using table = std::vector<status_row>;
  using list = std::vector<status_value>;
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, table, list> what;
};

/// One value with its name, as in the schema, and its unit: "ms", "bytes", "steps"; empty: none.
struct status_row {
  std::string_view name, unit;
  status_value value;
};

/// The rows of the one kind that is there, in the order of the schema; none for a table that is
/// absent.
std::vector<status_row> status_rows(const fbs::StatusValuesT& values);

/// Rows as one JSON object: {"step":7,"loss":2.5,"parts":[...]}; what is not known is null.
std::string to_json(const std::vector<status_row>& rows);

/// The values of one kind, made where they are absent: `values_of<fbs::RunStatusT>(values).step`.
template <class T>
T& values_of(fbs::StatusValuesT& values) {
  auto& part = values.*std::get<std::unique_ptr<T> fbs::StatusValuesT::*>(detail::status_kinds);
  if (!part) part = std::make_unique<T>();
  return *part;
}

}  // namespace troupe

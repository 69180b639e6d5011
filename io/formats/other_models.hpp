// Kinds of models (`model_type` of a config.json) that people bring and that are not read, each
// with what it has that ours lack: one table, of which errors and docs/models.md say the same.
//
// Invariant
//   KNR-1  No kind that is read stands in the table, and none stands in it twice.
#pragma once

#include <span>
#include <string_view>

namespace troupe::io {

/// A kind of model that is not read, and why.
struct other_model {
  std::string_view type, why;
};

/// All that a reason is known of, by their names.
std::span<const other_model> other_models();

/// What a kind has that ours lack; empty where nothing is known of it.
std::string_view why_not_read(std::string_view type);

}  // namespace troupe::io

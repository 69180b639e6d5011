// A configuration and its keys as text: for people (`config show`, `config explain`), for editors
// (JSON Schema), for the docs (Markdown) and for scripts (JSON). All of it is made from the
// property table.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/base/result.hpp"
#include "io/config/load.hpp"

namespace troupe::config {

/// The resolved job as TOML, each line with a comment that says where the value came from.
std::string show(const loaded& config);

/// The same as one JSON object: {"train.lr": {"value": 0.001, "origin": "run.toml:4:1"}, ...}.
std::string show_json(const loaded& config);

/// What each key holds, as one JSON object on one line: {"train.lr": 0.001, ...}.
std::string values_json(const job& j);

/// A key or a section ("train.lr", "train") in a few lines; not_found with the nearest name
/// otherwise.
result<std::string> explain(std::string_view name);

/// docs/configuration.md.
std::string reference_markdown();

/// A JSON Schema (draft 7) of the TOML file, for editors that check while one types.
std::string json_schema();

/// The problems as JSON: [{"file": ..., "line": ..., "column": ..., "key": ..., "problem": ...}].
nlohmann::ordered_json problems_json(const std::vector<problem>& problems);

}  // namespace troupe::config

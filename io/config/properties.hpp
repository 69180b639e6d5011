// The one list of everything a user can configure.
//
// Why: a key exists exactly once, here, with its type, default, bounds and sentence; reading files,
// the environment and --set, telling unknown keys, `config show|explain|schema` and
// docs/configuration.md are all loops over this list, so none of them can forget a key or disagree
// about it.
//
// PR-1 Every member of job.hpp has a property and every property a member (the types are checked by
// the
//      compiler, the completeness by a test that changes every member through its property).
// PR-2 The default of a property is what a default-made job holds: it is written only in job.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::config {

struct power_tree;
struct power_child;

/// The types a key can have in TOML.
enum class value_kind : uint8_t { integer, real, boolean, text, texts, choice };

/// "integer", "number", "true or false", "string", "string or array of strings", "choice".
std::string_view to_string(value_kind kind);

/// A value of any key; a choice travels as its word.
using value = std::variant<int64_t, double, bool, std::string, std::vector<std::string>>;

/// Closed or half-open interval of a number; a missing end has no bound.
struct bounds {
  std::optional<double> min = {};
  std::optional<double> max = {};
  bool above_min = false;         ///< min itself is not allowed
  bool below_max = false;         ///< max itself is not allowed
  bool contains(double x) const;  ///< false for NaN
  std::string text() const;  ///< "at least 1", "from 0 to 65535", "above 0"; empty without bounds
};

/// One key.
struct property {
  std::string_view key;    ///< dotted, e.g. "train.lr"; of a [[cluster.node]]: "cluster.node.name"
  std::string_view about;  ///< one sentence, with the unit, without a full stop
  value_kind kind;
  bounds limits;
  std::span<const std::string_view> choices;  ///< words of a choice, in the order of its enum
  void* (*at)(void* object);  ///< the member in a job (or a node_spec); used by get and set
};

/// Every key of a job, in the order of the documentation. Those of one [[cluster.node]] are apart.
std::span<const property> properties();
/// The keys of one [[cluster.node]], as "cluster.node.x".
std::span<const property> node_properties();
/// Every key of one [[data.source]] table, in the order of the documentation.
std::span<const property> source_properties();
/// Every key of one [[recovery.rule]] table, in the order of the documentation.
std::span<const property> rule_properties();
/// Every key of one [[health.log_rule]] table, in the order of the documentation.
std::span<const property> log_rule_properties();
/// Every key of one [[inject]] table, in the order of the documentation.
std::span<const property> drill_properties();
/// One sentence about a section, e.g. "train"; empty for an unknown one.
std::string_view section_about(std::string_view section);
/// Section names in the order of the documentation.
std::span<const std::string_view> sections();

/// The property of a key in properties(), or nullptr.
const property* find_property(std::string_view key);

/// What a key holds in a job.
value get(const property& p, const job& j);
/// The same of a [[cluster.node]] key.
value get(const property& p, const node_spec& node);
/// The same of a [[data.source]] key.
value get(const property& p, const source_spec& source);
/// The same of a [[recovery.rule]] key.
value get(const property& p, const recovery_rule& rule);
/// The same of a [[health.log_rule]] key.
value get(const property& p, const log_rule_spec& rule);
/// The same of an [[inject]] key.
value get(const property& p, const drill_spec& drill);
/// Stores a value whose type fits p.kind (an integer is accepted for a number) and whose bounds and
/// choices hold; otherwise says what was expected, e.g. "expected an integer from 0 to 65535, got
/// 70000".
status set(const property& p, job& j, const value& v);
/// The same for a [[cluster.node]] key.
status set(const property& p, node_spec& node, const value& v);
/// The same for a [[data.source]] key.
status set(const property& p, source_spec& source, const value& v);
/// The same for a [[recovery.rule]] key.
status set(const property& p, recovery_rule& rule, const value& v);
/// The same for a [[health.log_rule]] key.
status set(const property& p, log_rule_spec& rule, const value& v);
/// The same for an [[inject]] key.
status set(const property& p, drill_spec& drill, const value& v);

/// The same for the keys of a POWER.toml, and of one of its [[child]] (power_tree.hpp).
status set(const property& p, power_tree& tree, const value& v);
status set(const property& p, power_child& child, const value& v);

/// The words that set() takes for a choice: its own, then those that others use for them.
std::vector<std::string_view> words_taken(const property& p);

/// What a key accepts, in words: "integer, at least 1" or "one of: f32, bf16".
std::string accepts(const property& p);

/// A value as TOML text that parses to it again.
std::string to_toml_text(const value& v);

/// What a key of properties() holds in a job, as TOML text.
std::string value_text(std::string_view key, const job& j);

/// The environment variable of a key: "train.lr" -> "TROUPE_TRAIN__LR".
std::string environment_name(std::string_view key);

/// The key a mistyped one was most likely meant to be, or empty if none is near.
std::string nearest_key(std::string_view key);

}  // namespace troupe::config

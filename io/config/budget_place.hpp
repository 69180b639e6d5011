// Where the power budget above a job, or above another budget, is, as their configurations name it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/config/heads.hpp"

namespace troupe::config {

/// "auto", "auto:NAME" or HOST:PORT.
struct budget_place {
  std::string name;              ///< of one that this user serves here; empty: which has the child
  std::optional<head_place> at;  ///< none: by its sign
  bool operator==(const budget_place&) const = default;
};

/// None: the text is no place.
std::optional<budget_place> budget_place_of(std::string_view text);

/// The keys that name the budget above, and what proves who is below it: a file with a key, or
/// certificates.
struct parent_keys {
  std::string_view parent, parent_key, tls;
};

/// What is wrong with the values. `has_tls`: there are certificates. Beyond loopback they alone are
/// proof.
struct parent_fault {
  bool of_key = false;  ///< of parent_key
  std::string what, hint;
};
std::optional<parent_fault> fault_of_parent(const parent_keys& keys, const std::string& parent,
                                            const std::string& parent_key, bool has_tls);

}  // namespace troupe::config

// Which faults befall a cluster, and how often: published mixes, or a file of one's own.
//
//   cause,per_1000_node_days,symptom,scope
//   Faulty GPU,1.3383,lost_device,node
//
// Lines begin with the heading above; blank lines and those that begin with # are passed over. A
// symptom is the name of a finding, a scope what is at fault: a node, the machines behind a switch,
// or the job's own program.
//
// Invariants
//   MIX-1  What is refused is named with its line, and an unknown word with the nearest known one.
//   MIX-2  What is read holds 1 to `most_causes` causes with rates from 0 to `rate_ceiling`, and
//     survives its own text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/findings.hpp"
#include "io/base/result.hpp"

namespace troupe::sim {

inline constexpr error_kind<size_t, std::string> bad_mix{
    "bad_mix", errc::bad_data, "line {}: {}",
    "a line is cause,per_1000_node_days,symptom,scope, as docs/fifty-four-days.md shows"};

/// Names that a finding may have.
inline constexpr auto finding_names = [] {
  std::array<std::string_view, health::finding_table.size()> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = health::finding_table[i].name;
  return out;
}();

enum class fault_scope : uint8_t { node, at_switch, job };
std::string_view to_string(fault_scope scope);

struct fault_cause {
  std::string cause;
  double per_1000_node_days = 0;
  std::string symptom;
  fault_scope scope = fault_scope::node;
  bool operator==(const fault_cause&) const = default;
};

struct fault_mix {
  static constexpr size_t most_causes = 256;
  static constexpr size_t most_bytes = 1 << 20;
  static constexpr double rate_ceiling = 1e6;

  std::string name;
  std::vector<fault_cause> causes;
  /// Of the job's own faults, the share that starting it again does not mend.
  double person_share = 0;

  /// Of all causes together, per 1,000 node-days.
  double rate() const;
  /// The same mix, as often as `per_1000_node_days` says.
  fault_mix at_rate(double per_1000_node_days) const;
  /// As a file.
  std::string text() const;
};

/// A row of a published table, or a part of it where it holds faults of more than one kind.
struct counted_cause {
  std::string_view row;  ///< as the table has it
  int count;
  std::string_view symptom;
  fault_scope scope;
};

/// Table 5 of Llama 3 (arXiv 2407.21783): unexpected interruptions in 54 days on 2,048 nodes. Of
/// "Network Switch/Cable" four are thought to be a switch: 1 % of all.
std::span<const counted_cause> llama3_table5();
/// Table 1 of ByteRobust (arXiv 2509.16293), but for the restarts that persons wanted; parted by
/// table 2 where it tells infrastructure from user code.
std::span<const counted_cause> byterobust_table1();

/// By rows of the same name, "Faulty GPU"; symptoms and scopes as above.
fault_mix llama3_mix();
fault_mix byterobust_mix();

/// A file's text. Errors: bad_mix.
result<fault_mix> parse_mix(std::string_view text, std::string name);

}  // namespace troupe::sim

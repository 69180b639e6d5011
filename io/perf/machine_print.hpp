// By what a machine is told from others: what it is made of, so that times which were learned on it
// are not taken for those of other hardware under the same name, and that machines of one kind are
// known as such.
//
// What changes without the hardware is no part of it: names, boots, and how much memory a kernel's
// release keeps for itself. Nor does a machine say all of it each time (MCP-3).
//
// Invariants
//   MCP-1  A print is short and plain: printable ASCII, at most `print_bytes`, whatever a machine
//     says of itself. So it is read back as it was written.
//   MCP-2  GPUs count where a node computes on them, each by its kind and its UUID, in any order.
//   MCP-3  Prints of which one tells no GPUs' UUIDs, as of a driver that sleeps until somebody
//     computes, may be of one machine, and so may those whose memory is a step of rounding apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::io::perf {

/// Of either text of a print.
inline constexpr size_t print_bytes = 160;

struct machine_print {
  /// Processor, cores, memory and GPUs, in words; equal of machines of one kind. Empty: not known.
  std::string kind = {};
  /// Of its GPUs' UUIDs, a sum in hexadecimal digits. Empty: it has none, or they are not known.
  std::string gpu_ids = {};

  bool is_known() const noexcept { return !kind.empty(); }
  auto operator<=>(const machine_print&) const = default;
};

/// What a machine says of itself.
struct machine_facts {
  std::string_view cpu_model;
  uint32_t cores = 0;                           ///< that may be used
  uint64_t memory_bytes = 0;                    ///< that may be used; 0: not known
  std::span<const std::string> gpus = {};       ///< by name, those that are computed on
  std::span<const std::string> gpu_uuids = {};  ///< of the machine
};

/// Not known where there is no processor's model.
machine_print print_of(const machine_facts& facts);

/// Of machines that work together: the kind that they share, or how many kinds and a sum of them.
/// Not known where one of them is not.
machine_print print_of_all(std::span<const machine_print> machines);

/// Whether both may be one machine's: MCP-3. What is not known is none.
bool may_be_same(const machine_print& a, const machine_print& b);

/// Whether it is what these functions make (MCP-1).
bool is_print_text(std::string_view text);

}  // namespace troupe::io::perf

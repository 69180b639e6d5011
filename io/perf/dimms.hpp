// The memory modules of a machine, from its firmware's table (SMBIOS, DMTF DSP0134: structures of
// type 17), which root may read in /sys/firmware/dmi/tables/DMI.
//
// Pure: bytes in, modules out. The bytes are foreign: a structure that does not fit ends the table,
// and what a module does not say is absent.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::io::perf {

struct dimm {
  std::optional<double> gib;   ///< GiB
  std::optional<double> mt_s;  ///< what it runs at, else what it could
  std::optional<double> ranks;
  std::string part;  ///< as its maker has it; empty: not known
};

/// How long a module takes to reach a column at least (tAA), in ns, as its own memory says (SPD;
/// JESD21-C annex L of DDR4, JESD400-5 of DDR5). Nothing of other kinds, or what none can have.
std::optional<double> cas_ns_in(std::string_view spd);

/// Those that are there: an empty slot is none.
std::vector<dimm> dimms_in(std::string_view table);

}  // namespace troupe::io::perf

// What the free text of SPEC's results says: memory, caches, names of processors, versions.
//
// Why: SPEC publishes what a machine is as sentences, "1 TB (16 x 64 GB 2Rx4 PC5-4800B-R, running
// at 4400)"; a predictor needs numbers. What is not said is absent (table.hpp), never 0.
#pragma once

#include <string>
#include <string_view>

#include "io/perf/table.hpp"

namespace troupe::io::perf {

/// Memory modules, and memory on the package.
struct memory_facts {
  double total_gb = absent;
  double dimms = absent;
  double dimm_gb = absent;
  double ranks = absent;        ///< per module, times the dies of a stack: "2S4Rx4" has 8
  double width_bits = absent;   ///< of a memory chip: 4 or 8
  double rated_mts = absent;    ///< MT/s
  double running_mts = absent;  ///< MT/s; as rated where nothing else is said
  bool hbm = false;             ///< some of it is on the package
};
memory_facts parse_memory(std::string_view text);

/// KiB of the first size in a cache's text, of instructions where it says "32 KB I + 48 KB D" and
/// of data where `data`; `absent` where there is none. Such texts are per instance.
double cache_kib(std::string_view text, bool data = true);

/// What a processor's name says of its place in a family.
struct cpu_name {
  std::string tier;        ///< "Xeon Gold 6", "EPYC 7"
  std::string generation;  ///< second digit of its number, or "v4"
  std::string suffix;      ///< the first letter behind its number, "Y" of "Y+", or "none"
};
cpu_name parse_cpu_name(std::string_view text);

/// "2023.2.3" in "C/C++: Version 2023.2.3 of Intel ..."; empty where there is none.
std::string compiler_version(std::string_view text);
/// The number of such a version's first two parts: 2023.2.
double version_number(std::string_view version);
/// The version of an operating system's name: 15.4 of "... Server 15 SP4", 9.2 of "Linux 9.2".
double os_version(std::string_view text);
/// Up to the first blank: "SUSE", "Dell".
std::string first_word(std::string_view text);

}  // namespace troupe::io::perf

// What the kernel's files say of a machine: /proc, /sys, /etc/os-release; the firmware's table of
// memory modules where it may be read. No right is needed, and no file has to be there: in a bare
// virtual machine or a container most fields are absent.
//
// Why a root: tests read trees of their own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/perf/hw_profile.hpp"

namespace troupe::io::perf {

struct hw_source {
  std::filesystem::path root = "/";
  /// "254:0": the device number of the folder whose disk is meant; empty: none.
  std::string disk = {};
};

/// All groups but gpu's driver, probe and workload.
hw_profile read_hw_profile(const hw_source& source);

/// The numbers of "0-3,8,10-11", as the kernel lists processors and nodes; none where it is no such
/// list, or one of more than any machine has.
std::vector<int> numbers_in_list(std::string_view text);

/// The machine's start, by which what was measured since then is known; empty: not known.
std::string boot_id(const std::filesystem::path& root = "/");

/// "254:0" of what a folder lies on; empty where it is not there.
std::string device_under(const std::filesystem::path& folder);

}  // namespace troupe::io::perf

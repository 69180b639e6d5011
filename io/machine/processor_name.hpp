// What a machine's processor is called: by its kernel's name for it where there is one, as on
// x86-64; else, as ARM's kernels tell numbers alone, by the public numbers of its maker and part;
// else by what the device tree calls the machine.
//
// Pure but for processor_name_here(), which reads three small files of the kernel.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::io {

/// Of the first processor in the text of /proc/cpuinfo; `device_tree`: the text of
/// firmware/devicetree/base/model, with its 0 at the end. Printable; empty: not known.
std::string processor_name_of(std::string_view cpuinfo, std::string_view device_tree);

/// Of the machine whose folders proc and sys are under the root.
std::string processor_name_here(const std::filesystem::path& root = "/");

}  // namespace troupe::io

// How much memory this process can still have: of the machine, and of its control group and those
// above it. Whoever takes more is killed by the kernel, or has another process of the group killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace troupe::io {

/// What a control group says of its memory, in bytes.
struct group_memory {
  uint64_t most = 0;      ///< its limit
  uint64_t used = 0;
  uint64_t given_up = 0;  ///< of what is used: pages of files that the kernel takes away first
};

/// The least of them; none where nothing is known. `machine`: what the machine has left.
std::optional<uint64_t> available_memory(std::optional<uint64_t> machine,
                                    std::span<const group_memory> groups);

/// Of this process.
std::optional<uint64_t> available_memory();

/// What the files of a control group's folder say, of version 2 or 1; none where it has no limit.
std::optional<group_memory> memory_of_group(const std::filesystem::path& folder);

/// What a file of the kernel says, at most 64 KiB of it; empty where it does not.
std::string kernel_text(const std::string& path);

}  // namespace troupe::io

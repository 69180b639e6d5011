// What of the maps of a file is in this process' memory, as the kernel counts it (smaps), and the
// most that the process had.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace troupe {

struct map_pages {
  int maps = 0;                 ///< of the file
  uint64_t resident_bytes = 0;  ///< of all of them
  bool read_in_order = false;   ///< one of them has that advice
};

inline map_pages map_pages_of(const std::filesystem::path& file) {
  const auto name = " " + std::filesystem::canonical(file).string();
  map_pages out;
  bool of_file = false;
  std::ifstream in("/proc/self/smaps");
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with(name)) {
      of_file = true;
      ++out.maps;
    } else if (of_file && line.starts_with("Rss:")) {
      out.resident_bytes += std::stoull(line.substr(4)) * 1024;
    } else if (line.starts_with("VmFlags:")) {  // the last line of a map
      out.read_in_order |= of_file && line.find(" sr") != std::string::npos;
      of_file = false;
    }
  }
  return out;
}

/// The most memory that this process had since `forget_peak`.
inline uint64_t peak_bytes() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  return 0;
}

/// False: this kernel keeps the peak.
inline bool forget_peak() {
  std::ofstream out("/proc/self/clear_refs");
  return bool(out << "5" << std::flush);
}

}  // namespace troupe

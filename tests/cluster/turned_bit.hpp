// A bit that turns in the memory of a running process: what a test knows of it is found there.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace troupe::cluster_test {

/// Turns the lowest bit of the first float wherever a process has these bytes; how often.
inline int turn_a_bit(pid_t pid, const std::string& pattern) {
  int turned = 0;
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);) {
    uint64_t from = 0, to = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, access) != 3) continue;
    if (access[0] != 'r' || access[1] != 'w' || to - from > (uint64_t{1} << 30)) continue;
    std::string bytes(to - from, '\0');
    const iovec here{bytes.data(), bytes.size()};
    const iovec there{reinterpret_cast<void*>(from), bytes.size()};
    const auto got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (got <= 0) continue;
    bytes.resize(static_cast<size_t>(got));
    for (size_t at = 0; (at = bytes.find(pattern, at)) != bytes.npos; ++at) {
      char other = static_cast<char>(pattern[0] ^ 1);
      const iovec own{&other, 1};
      const iovec its{reinterpret_cast<void*>(from + at), 1};
      turned += process_vm_writev(pid, &own, 1, &its, 1, 0) == 1 ? 1 : 0;
    }
  }
  return turned;
}

}  // namespace troupe::cluster_test

// What a person leaves a program to write to: a pipe that nobody reads, a full disk, a terminal.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/file.hpp"

namespace troupe::cluster_test {

struct opened_pipe {
  io::unique_fd in, out;  // to write to, to read from
  opened_pipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
  /// Nothing more goes in, as when a pager is left open over night.
  void fill() const {
    REQUIRE(fcntl(in.get(), F_SETFL, O_NONBLOCK) == 0);
    const std::string bytes(4096, '\n');
    while (write(in.get(), bytes.data(), bytes.size()) > 0) continue;
    while (write(in.get(), "\n", 1) > 0) continue;
    REQUIRE(fcntl(in.get(), F_SETFL, 0) == 0);
  }
};

inline std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

inline io::unique_fd dev_full() {
  io::unique_fd fd(open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(fd);
  return fd;
}

/// The test's end of a terminal.
struct terminal {
  io::unique_fd master;
  std::string path;
  terminal() : master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    REQUIRE(master);
    REQUIRE(grantpt(master.get()) == 0);
    REQUIRE(unlockpt(master.get()) == 0);
    char name[128];
    REQUIRE(ptsname_r(master.get(), name, sizeof(name)) == 0);
    path = name;
  }

  /// What was written to it since the last call.
  std::string shown() const {
    std::string out;
    char bytes[4096];
    pollfd there{master.get(), POLLIN, 0};
    while (poll(&there, 1, 0) > 0 && (there.revents & POLLIN) != 0) {
      const auto n = read(master.get(), bytes, sizeof(bytes));
      if (n <= 0) break;
      out.append(bytes, static_cast<size_t>(n));
    }
    return out;
  }
};

}  // namespace troupe::cluster_test

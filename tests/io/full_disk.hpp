// A disk without room, for a test: what is written beyond a length fails, and kills nobody.
#pragma once

#include <sys/resource.h>

#include <csignal>

#include <doctest/doctest.h>

namespace troupe {

/// Files of this process may be so long meanwhile: a disk that is full.
class full_disk {
 public:
  explicit full_disk(rlim_t file_bytes) {
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{file_bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~full_disk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_handler_);
  }
  full_disk(const full_disk&) = delete;

 private:
  rlimit before_{};
  void (*before_handler_)(int) = nullptr;
};

}  // namespace troupe

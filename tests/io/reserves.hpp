// Whether the file system that tests use has the room that is reserved for a file, and says so at
// once. NFSv3, 9p and some of FUSE have no fallocate, and ZFS counts blocks when it has written
// them: what rests on either cannot be tried there.
#pragma once

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/io/scratch.hpp"

namespace troupe {

/// Asked past the disks, which are what is tested. Where it is false a message says so.
inline bool reserves_room() {
  const scratch dir;
  constexpr off_t bytes = 16384, unit = 512;  // of st_blocks
  const int fd = ::open((dir / "reserved").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  REQUIRE(fd >= 0);
  struct stat facts {};
  const bool reserves = ::fallocate(fd, 0, 0, bytes) == 0 && ::fstat(fd, &facts) == 0 &&
                        facts.st_blocks * unit >= bytes;
  ::close(fd);
  if (!reserves)
    MESSAGE("left out: in ", dir.path.string(),
            " there is no fallocate, or what a file takes is counted late");
  return reserves;
}

}  // namespace troupe

// What of a rank's failures is called its swap drive's.
#include "actors/train/drive_failure.hpp"

#include <cerrno>

#include <doctest/doctest.h>

#include "messages/errors.hpp"

namespace troupe::train {

TEST_CASE(
    "DRF-1: a failure of a drive is called so, here and in other processes, and stays itself") {
  const auto hinted = error(errc::io, "read chunk-0003: it is gone", "see dmesg", "EIO");
  for (const auto& why : {hinted, error::system("read chunk-0003", EROFS),
                          error(errc::timeout, "the disk did not answer")}) {
    auto called = told_of_drive(why);
    CHECK(from_caf(to_caf(called.within("rank 1"))).is(swap_drive_fails));
    called.kind = why.kind;
    CHECK(called == why);
  }
}

TEST_CASE("DRF-2: a want of room, or of what a process may have, is no failure of a drive") {
  for (const int wanting : {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM}) {
    const auto why = error::system("make a file", wanting);
    CHECK(told_of_drive(why) == why);
  }
  for (const auto code : {errc::bad_data, errc::cancelled, errc::unavailable}) {
    const error why(code, "the weights are damaged");
    CHECK(told_of_drive(why) == why);
  }
}

}  // namespace troupe::train

// What of a rank's failures is its swap drive's: who reads and writes there knows, and says so by
// the error's kind, which goes to the job with it; the job tries the rules for a disk that fails
// (job_recovery.cpp). Other files and sockets fail with the same code.
//
// Invariants
//   DRF-1  Code, message and hint stay: only what the failure is called differs.
//   DRF-2  A want of room, or of what a process may have, is no failure of a drive.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "io/base/error_kind.hpp"

namespace troupe::train {

/// What a swap folder's drive refused in a step, or did not answer.
inline constexpr error_kind<std::string_view> swap_drive_fails{"swap_drive_fails", errc::io, "{}"};

/// A failure of what a rank moves to and from its swap folder, called so where the drive is at
/// fault (DRF-2); anything else as it was.
inline error told_of_drive(const error& why) {
  constexpr std::array<std::string_view, 5> of_room{"ENOSPC", "EDQUOT", "EFBIG", "EMFILE",
                                                    "ENFILE"};
  const bool refused =
      why.code == errc::io && std::find(of_room.begin(), of_room.end(), why.kind) == of_room.end();
  if (!refused && why.code != errc::timeout) return why;
  return {why.code, why.message, why.hint, swap_drive_fails.name};
}

}  // namespace troupe::train

// Who governs a device: a folder whose lock says it (io/folder/lock.hpp).
//
// A lock is taken, and then written: who looks between the two sees no name, or that of a process
// that was killed. All ranks of a machine begin at the same moment, so that is looked at again. So
// is one of another job: a head that goes on for a lost one, and was told nothing by it, is another
// launch, and ranks of before may end a moment later. A path or a host's name tells no job: two
// containers have the same ones.
//
// Invariants
//   SEA-1  Ranks of one job are those of one name and one launch, a number that is drawn where the
//     job is started, and left to the heads that go on for the first (SUC-2): a name may be any
//     job's.
//   SEA-2  Nobody is told that another job has it before at.seat_patience is over.
//   SEA-5  Whoever has taken it governs once it says so (settle_seat): a rank that may not set the
//     device finds that out with its seat taken, and the others of its job try for themselves then.
//   SEA-3  Seats and records of settings are in a folder of this user that nobody else writes to.
//   SEA-4  The kernel's lock alone tells whether a seat is taken: its folder is one machine's, so a
//     text of another host or boot is a dead container's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "io/base/result.hpp"
#include "io/folder/lock.hpp"

namespace troupe::gpu::controls {

/// As whom a rank holds a seat (SEA-1).
std::string seat_name(const control_owner& owner);
/// As whom what a dead process left is taken back: no job's, for it is over at once.
inline constexpr std::string_view restorer_name = "troupe power restore";

/// What a seat that is taken says.
enum class seat_sight : uint8_t {
  of_this_job,
  of_another,
  unsettled,  ///< it has only been taken, or is free in a moment
};
/// Pure. SEA-5
seat_sight judge_seat(const std::optional<io::lock_holder>& holder, std::string_view own_name);

/// Takes it, once. Errors: folder_in_use; permission (SEA-3); io.
result<io::folder_lock> take_seat(const control_place& at, const setting_target& target,
                                  std::string name);

/// The device is governed from now on: others of the job may count on it (SEA-5). Where that cannot
/// be written they look again until their patience is over.
void settle_seat(io::folder_lock& seat, const control_owner& owner);

/// Takes it, unsettled; none: another rank of the job has it, or still nobody who is known (SEA-2).
/// Errors: as take_seat; folder_in_use where another job has it.
result<std::optional<io::folder_lock>> wait_for_seat(const control_place& at,
                                                     const setting_target& target,
                                                     const control_owner& owner);

/// Whether somebody has it. Makes nothing. Errors: io.
result<bool> is_governed(const control_place& at, const setting_target& target);

}  // namespace troupe::gpu::controls

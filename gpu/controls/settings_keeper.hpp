// The keeper of settings: a child process that sets again what was found on this machine, once its
// process was ended without having done so (io/survivor.hpp): by kill -9, by the kernel
// short of memory, or since it took too long to end.
//
// A setting slows all who use the machine, so it ends with the job, however that ended, for nobody
// may come who starts a node there. The keeper knows nothing of the job: it reads the records that
// are left, as a node that starts does (restore.hpp). It waits before that, for the job may go on:
// another rank, or the next epoch in another process, takes the seat, and takes back what was left
// before all else (SGV-2). Under a budget above jobs nothing else holds: nobody adopts settings of
// a machine whose job is gone, and without a job it draws no more than is counted for it. What the
// agent of a machine has left is none of its: that stays for the next agent (SGV-8), since others'
// work goes on there, and counts at what was in force.
//
// What ends all processes of a group at once (a container's end, a unit of systemd) ends it, too.
// Then the record stays for the next node, or `troupe power restore`.
//
// Invariants
//   KPS-1  What somebody governs by then is not undone: it takes the seat first, as all do (SGV-3),
//     and who has that has written a record of its own.
//   KPS-2  Where nothing is left it ends at once, else after `successor_time` and at.patience.
//   KPS-3  A clock that heat holds lower is set again, and its record stays: the job's next process
//     knows by that alone what was found (SGV-7).
#pragma once

#include <chrono>
#include <optional>

#include "gpu/controls/groups.hpp"
#include "io/base/result.hpp"
#include "io/survivor.hpp"

namespace troupe::gpu::controls {

/// How long the job may take to go on in another process before its settings are set back.
inline constexpr std::chrono::milliseconds successor_time{3000};

/// What it does when its process is dead. Blocks (KPS-2).
void restore_left_settings(control_place at, std::chrono::milliseconds wait);

/// Makes it, while this process has one thread; none where this user may keep no settings, and so
/// changes none. Errors: io.
result<std::optional<io::survivor>> keep_settings(const control_place& at,
                                                  std::chrono::milliseconds wait = successor_time);

}  // namespace troupe::gpu::controls

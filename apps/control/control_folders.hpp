// Where what processes change of their machine is journalled (gpu/controls).
//
// Groups: in the folder of signs, for any user may be given some, and a record that is lost there
// is an empty group. Settings of devices: in one folder of the machine, root's, whichever way
// somebody has become root: the record is the only copy of what was found.
#pragma once

#include "gpu/controls/groups.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// Names another folder of settings, for tests: theirs are not the machine's.
inline constexpr const char* settings_folder_variable = "TROUPE_CONTROLS";

/// Names another tree of the kernel's devices than /sys, for tests: theirs are made ones.
inline constexpr const char* devices_folder_variable = "TROUPE_DEVICES";

/// The folder of groups is made if need be; where it is not this user's own there is none, and no
/// group is made.
gpu::controls::control_place own_controls();

/// The same, but nothing is made. Errors: those of look_for_sign_folder.
result<gpu::controls::control_place> look_for_controls();

}  // namespace troupe::apps

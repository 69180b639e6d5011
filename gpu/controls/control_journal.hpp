// The files of records (control_record.hpp): an edge.
#pragma once

#include <filesystem>
#include <string_view>

#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// Why.
inline constexpr error_kind<std::string_view> undo_refused{
    "undo_refused", errc::permission, "what a dead process left cannot be undone: {}",
    "run `troupe power restore` with the rights that process had: as root or with its "
    "capabilities, "
    "in a container with /sys writable"};

/// Of what was undone, or not: what is needed where this user has not the right to.
status with_remedy(status undone);

/// Of a change that this process makes now.
control_record new_record(const control_place& at, const control_owner& owner);

/// Whether the number of its process means the same here as where it was written.
bool is_seen_here(const control_place& at, const control_record& r);

/// Durably. Errors: io.
status keep_record(const std::filesystem::path& folder, std::string_view name,
                   const control_record& r);
/// Success where there is none. Errors: io.
status forget_record(const std::filesystem::path& file);
/// Its file.
std::filesystem::path record_file(const std::filesystem::path& folder, std::string_view name);

}  // namespace troupe::gpu::controls

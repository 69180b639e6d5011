// What a job's data looked like at its last start: kept in its output, so that a resumed run whose
// files hold something else under the same names says so.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "io/config/job.hpp"

namespace troupe::apps {

inline constexpr const char* data_mark_file = "data.json";  ///< in job.output

/// The names that the job is trained on, and what its files hold (io/data/edges_hash); JSON. Empty
/// where nothing can be said of them.
std::string data_mark_of(const config::job& job, std::span<const std::filesystem::path> files);

/// Whether a file is what a start left there, and not a person's own of that name.
bool is_data_mark(const std::filesystem::path& file);

/// Whether the mark that a start before left in `output` has the same names and other content.
bool data_has_changed(const std::filesystem::path& output, const std::string& mark);

}  // namespace troupe::apps

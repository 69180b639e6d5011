// The job as a coordinator's messages carry it: TOML text.
#pragma once

#include <memory>

#include <flatbuffers/flatbuffers.h>

#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::train {

/// Parsed once a process and job: stages, workers and loaders of all ranks are sent the same text.
/// From any thread. Errors: as of config::parse.
result<std::shared_ptr<const config::job>> received_job(const flatbuffers::String* toml);

}  // namespace troupe::train

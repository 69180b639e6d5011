// The job as a coordinator's messages carry it, TOML text, and a rank's place in it.
#pragma once

#include <memory>

#include <flatbuffers/flatbuffers.h>

#include "io/base/result.hpp"
#include "io/config/job.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::train {

/// What errors call the text.
inline constexpr std::string_view sent_configuration = "the coordinator's configuration";

/// Parsed once a process and job: stages, workers and loaders of all ranks are sent the same text.
/// From any thread. Errors: as of config::parse.
result<std::shared_ptr<const config::job>> received_job(const flatbuffers::String* toml);

/// The rank that an order is for. Error: bad_data unless it has that place in the job.
result<grid_rank> place_in(const config::job& job, const fbs::BuildStage& order);

}  // namespace troupe::train

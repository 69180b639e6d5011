// What a rank tells of a layer that it computed to be compared, as a message holds it, and back.
#pragma once

#include <memory>
#include <optional>

#include "actors/health/recheck_policy.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::train {

/// Null where there is none.
std::unique_ptr<fbs::RecheckT> to_message(std::optional<health::recheck_result> told);
/// Null: nothing was told.
std::optional<health::recheck_result> recheck_of(const fbs::Recheck* told);

}  // namespace troupe::train

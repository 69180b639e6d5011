// Any message of the language as rows: what a person's tools show of an answer.
//
// Apart from status_rows.hpp, which nearly every actor includes.
#pragma once

#include <vector>

#include "messages/any_msg.hpp"
#include "messages/status_rows.hpp"

namespace troupe {

/// The rows of a message; none where it is of no known type. What is not known is nothing, as in
/// a status.
std::vector<status_row> message_rows(const any_msg& m);

}  // namespace troupe

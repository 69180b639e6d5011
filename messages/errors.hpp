// troupe::error <-> caf::error: what went wrong crosses actors and processes with its message and
// its hint.
//
// A handler returns to_caf(error); a caller's error handler reads from_caf(err). In CAF 0.17.6 an
// error is a code, a category atom and a message: ours is (errc, "troupe", {message, hint}). CAF's
// own categories are translated.
//
// ER-1  An error from a peer is foreign: an unknown code or a missing text becomes `bug` with what
//       is there.
// ER-2  Its texts go on to logs, statuses and terminals: they are made printable here.
#pragma once

#include <string>

#include <caf/atom.hpp>
#include <caf/error.hpp>
#include <caf/fwd.hpp>

#include "io/base/error.hpp"
#include "io/base/result.hpp"

namespace troupe {

/// The category of our errors in CAF.
inline constexpr caf::atom_value error_category = caf::atom("troupe");

/// Our error as CAF's; `none` becomes no error.
caf::error to_caf(const error& e);

/// Told of every error that to_caf() turns, on the thread that does: how the registry knows an
/// actor's last error. Set once, before actors run.
void set_error_listener(void (*listener)(const error&)) noexcept;

/// CAF's error as ours: our own category unchanged, CAF's codes by meaning (request_timeout ->
/// timeout, a lost link -> unavailable, user_shutdown -> cancelled ...).
error from_caf(const caf::error& e);

/// How CAF shows an error of ours: "bad_data: text (hint: remedy)". For
/// actor_system_config::add_error_category.
std::string render_caf(uint8_t code, caf::atom_value category, const caf::message& context);

}  // namespace troupe

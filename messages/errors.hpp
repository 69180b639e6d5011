// troupe::error <-> caf::error: what went wrong crosses actors and processes with its message, its
// hint and its kind.
//
// A handler returns to_caf(error); a caller's error handler reads from_caf(err). In CAF 0.17.6 an
// error is a code, a category atom and a message: ours is (errc, "troupe", {message, hint, kind}).
// CAF's own categories are translated. Where a table carries an error (Failure, RunEnded,
// AdmissionFailed) put_error() writes and error_in() reads its fields.
//
// ER-1  An error from a peer is foreign: an unknown code or a missing text becomes `bug` with what
//       is there.
// ER-2  Its texts go on to logs, statuses and terminals: they are made printable here.
#pragma once

#include <string>

#include <caf/atom.hpp>
#include <caf/error.hpp>
#include <caf/fwd.hpp>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "messages/text.hpp"

namespace troupe {

/// The category of our errors in CAF.
inline constexpr caf::atom_value error_category = caf::atom("troupe");

/// A request that nobody answered in time.
inline constexpr error_kind<> no_answer{"no_answer", errc::timeout,
                                        "no answer within the stated time",
                                        "the peer may be busy or have ended: see `troupe status`"};

/// Our error as CAF's; `none` becomes no error.
caf::error to_caf(const error& e);

/// Told of every error that to_caf() turns, on the thread that does: how the registry knows an
/// actor's last error. Set once, before actors run.
void set_error_listener(void (*listener)(const error&)) noexcept;

/// CAF's error as ours: our own category unchanged, CAF's codes by meaning (request_timeout ->
/// timeout, a lost link -> unavailable, user_shutdown -> cancelled ...).
error from_caf(const caf::error& e);

/// Fills the fields of a table that carries an error.
template <class Table>
void put_error(const error& e, Table& into) {
  into.code = static_cast<uint8_t>(e.code);
  into.message = e.message;
  into.hint = e.hint;
  into.kind = e.kind;
}

/// The error that a table carries.
template <class Table>
error error_in(const Table& t) {
  return {static_cast<errc>(t.code()), text_of(t.message()), text_of(t.hint()), text_of(t.kind())};
}

/// How CAF shows an error of ours: "bad_data: text (hint: remedy)". For
/// actor_system_config::add_error_category.
std::string render_caf(uint8_t code, caf::atom_value category, const caf::message& context);

}  // namespace troupe

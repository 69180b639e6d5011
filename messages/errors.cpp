// The translation table of errors.hpp.
#include "messages/errors.hpp"

#include <atomic>

#include <fmt/format.h>
#include <caf/exit_reason.hpp>
#include <caf/message.hpp>
#include <caf/pec.hpp>
#include <caf/sec.hpp>

#include "io/base/printable.hpp"

namespace troupe {

namespace {

errc known_code(uint8_t code) {
  return code <= static_cast<uint8_t>(errc::training) ? static_cast<errc>(code) : errc::bug;
}

std::string text_at(const caf::message& context, size_t index) {
  return context.match_element<std::string>(index) ? context.get_as<std::string>(index)
                                                   : std::string{};
}

error of_ours(const caf::error& e) {
  const auto& context = e.context();
  error out(known_code(e.code()), {}, {});
  if (context.size() > 0) out.message = printable(text_at(context, 0));  // ER-2
  if (context.size() > 1) out.hint = printable(text_at(context, 1));
  if (context.size() > 2) out.kind = printable(text_at(context, 2));
  if (out.message.empty()) out.message = fmt::format("error {} without a text", e.code());  // ER-1
  return out;
}

error of_system(caf::sec code) {
  using caf::sec;
  auto text = "CAF: " + caf::to_string(code);
  switch (code) {
    case sec::request_timeout:
      return no_answer();
    case sec::connection_timeout:
      return {errc::timeout, "the connection was silent for too long"};
    case sec::request_receiver_down:
    case sec::remote_linking_failed:
    case sec::remote_lookup_failed:
    case sec::cannot_connect_to_node:
    case sec::no_route_to_receiving_node:
    case sec::no_actor_published_at_port:
    case sec::disconnect_during_handshake:
    case sec::socket_disconnected:
    case sec::unavailable_or_would_block:
      return {errc::unavailable, text, "is the peer running, and do both sides use TLS?"};
    case sec::incompatible_versions:
    case sec::incompatible_application_ids:
    case sec::unexpected_actor_messaging_interface:
    case sec::unexpected_message:
    case sec::unexpected_response:
    case sec::unknown_type:
      return {errc::version_mismatch, text, "both sides must run the same version"};
    case sec::end_of_stream:
    case sec::invalid_argument:
    case sec::malformed_basp_message:
    case sec::serializing_basp_payload_failed:
      return {errc::bad_data, text};
    case sec::cannot_open_port:
      return {errc::io, text, "another process may hold the port"};
    case sec::network_syscall_failed:
    case sec::socket_operation_failed:
      return {errc::io, text};
    default:
      return {errc::bug, text};
  }
}

error of_exit(caf::exit_reason reason) {
  using caf::exit_reason;
  auto text = "the actor ended: " + caf::to_string(reason);
  switch (reason) {
    case exit_reason::user_shutdown:
    case exit_reason::kill:
    case exit_reason::normal:
      return {errc::cancelled, text};
    case exit_reason::remote_link_unreachable:
    case exit_reason::unreachable:
    case exit_reason::out_of_workers:
      return {errc::unavailable, text};
    default:
      return {errc::bug, text};
  }
}

}  // namespace

namespace {

std::atomic<void (*)(const error&)> error_listener{nullptr};

}  // namespace

void set_error_listener(void (*listener)(const error&)) noexcept {
  error_listener = listener;
}

caf::error to_caf(const error& e) {
  if (auto* listener = error_listener.load(); listener != nullptr && e.code != errc::none)
    listener(e);
  if (e.code == errc::none) return caf::none;
  return {static_cast<uint8_t>(e.code), error_category,
          caf::make_message(e.message, e.hint, e.kind)};
}

error from_caf(const caf::error& e) {
  if (!e) return {errc::none, {}};
  if (e.category() == error_category) return of_ours(e);
  if (e.category() == caf::atom("system")) return of_system(static_cast<caf::sec>(e.code()));
  if (e.category() == caf::atom("exit")) return of_exit(static_cast<caf::exit_reason>(e.code()));
  return {errc::bug, fmt::format("CAF error {} of category {}", e.code(), to_string(e.category()))};
}

std::string render_caf(uint8_t code, caf::atom_value category, const caf::message& context) {
  auto e = of_ours(caf::error(code, category, context));
  auto text = fmt::format("{}: {}", to_string(e.code), e.message);
  return e.hint.empty() ? text : fmt::format("{} (hint: {})", text, e.hint);
}

}  // namespace troupe

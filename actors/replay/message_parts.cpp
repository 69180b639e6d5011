// Element by element.
#include "actors/replay/message_parts.hpp"

#include <optional>

#include <fmt/format.h>
#include <caf/exit_reason.hpp>
#include <caf/message_builder.hpp>
#include <caf/system_messages.hpp>

#include "actors/base/actor_log.hpp"
#include "io/base/counted.hpp"
#include "messages/errors.hpp"
#include "messages/registry.hpp"
#include "messages/type_ids.hpp"

namespace troupe::replay {

namespace {

using part_kind = fbs::ActorLogPartKind;

std::unique_ptr<fbs::FailureT> failure_of(const caf::error& reason) {
  auto out = std::make_unique<fbs::FailureT>();
  put_error(from_caf(reason), *out);
  return out;
}

/// The reason of CAF's own that is told so: it decides by itself whether an actor ends by one.
std::optional<caf::exit_reason> reason_of(const fbs::FailureT& f) {
  using enum caf::exit_reason;
  for (const auto reason : {normal, unhandled_exception, unknown, out_of_workers, user_shutdown,
                            kill, remote_link_unreachable, unreachable})
    if (const auto told = from_caf(caf::make_error(reason));
        told.message == f.message && static_cast<uint8_t>(told.code) == f.code)
      return reason;
  return std::nullopt;
}

/// What handlers make of it by from_caf() is what was recorded.
caf::error error_of(const fbs::ActorLogPartT& part) {
  if (!part.failure) return caf::none;
  const auto& f = *part.failure;
  if (const auto reason = reason_of(f)) return caf::make_error(*reason);
  return to_caf({static_cast<errc>(f.code), f.message, f.hint, f.kind});
}

fbs::ActorLogPartT part_of(const caf::message& content, size_t at) {
  fbs::ActorLogPartT p;
  if (content.match_element<caf::strong_actor_ptr>(at)) {
    p.kind = part_kind::actor;
    p.actors.push_back(handle_name(content.get_as<caf::strong_actor_ptr>(at)));
  } else if (content.match_element<std::vector<caf::strong_actor_ptr>>(at)) {
    p.kind = part_kind::actors;
    for (const auto& a : content.get_as<std::vector<caf::strong_actor_ptr>>(at))
      p.actors.push_back(handle_name(a));
  } else if (content.match_element<caf::atom_value>(at)) {
    p.kind = part_kind::atom;
    p.atom = static_cast<uint64_t>(content.get_as<caf::atom_value>(at));
  } else if (content.match_element<caf::error>(at)) {
    p.kind = part_kind::failure;
    p.failure = failure_of(content.get_as<caf::error>(at));
  } else if (content.match_element<caf::down_msg>(at)) {
    const auto& m = content.get_as<caf::down_msg>(at);
    p.kind = part_kind::down;
    p.actors.push_back(handle_name(m.source));
    p.failure = failure_of(m.reason);
  } else if (content.match_element<caf::exit_msg>(at)) {
    const auto& m = content.get_as<caf::exit_msg>(at);
    p.kind = part_kind::exit;
    p.actors.push_back(handle_name(m.source));
    p.failure = failure_of(m.reason);
  } else {
    p.kind = part_kind::other;
    p.text = content.stringify(at);
  }
  return p;
}

result<caf::message> element_of(const fbs::ActorLogPartT& p, const resolver& who) {
  std::vector<caf::strong_actor_ptr> actors;
  for (const auto& name : p.actors)
    actors.push_back(name.empty() ? caf::strong_actor_ptr{} : who(name));
  const auto first = actors.empty() ? caf::strong_actor_ptr{} : actors.front();
  switch (p.kind) {
    case part_kind::message: {
      TROUPE_TRY(m, decode(p.message));
      return wrap(m);
    }
    case part_kind::actor:
      return caf::make_message(first);
    case part_kind::actors:
      return caf::make_message(std::move(actors));
    case part_kind::atom:
      return caf::make_message(static_cast<caf::atom_value>(p.atom));
    case part_kind::failure:
      return caf::make_message(error_of(p));
    case part_kind::down:
    case part_kind::exit: {
      if (!first) return error{errc::bad_data, "the news of an end names no actor"};
      if (p.kind == part_kind::down)
        return caf::make_message(caf::down_msg{first->address(), error_of(p)});
      return caf::make_message(caf::exit_msg{first->address(), error_of(p)});
    }
    case part_kind::other:
      break;
  }
  return error{errc::bad_data, fmt::format("{} is nothing a file can hold", p.text)};
}

std::string word_of(const fbs::ActorLogPartT& p) {
  switch (p.kind) {
    case part_kind::message: {
      const auto m = decode(p.message);
      const auto* info = m ? find_message(m->type()) : nullptr;
      return info != nullptr ? std::string(info->name) : "a broken message";
    }
    case part_kind::actor:
      return p.actors.empty() || p.actors.front().empty() ? "no handle" : "a handle";
    case part_kind::actors:
      return counted(p.actors.size(), "handle");
    case part_kind::atom:
      return caf::to_string(static_cast<caf::atom_value>(p.atom));
    case part_kind::failure:
      return fmt::format("the error \"{}\"", p.failure ? p.failure->message : "");
    case part_kind::down:
      return "the news that a watched actor ended";
    case part_kind::exit:
      return "the news that a linked actor ended";
    case part_kind::other:
      break;
  }
  return p.text;
}

}  // namespace

part_list parts_of(const caf::message& content) {
  part_list out;
  size_t from = 0;
  if (const auto m = unwrap(content)) {
    out.push_back(std::make_unique<fbs::ActorLogPartT>());
    out.back()->kind = part_kind::message;
    out.back()->message = encode(m);
    from = 1;
  }
  for (size_t i = from; i < content.size(); ++i)
    out.push_back(std::make_unique<fbs::ActorLogPartT>(part_of(content, i)));
  return out;
}

result<caf::message> message_of(const part_list& parts, const resolver& who) {
  caf::message out;
  for (const auto& p : parts) {
    TROUPE_TRY(element, element_of(*p, who));
    out = out.empty() ? element : out + element;
  }
  return out;
}

any_msg message_in(const part_list& parts) {
  for (const auto& p : parts)
    if (p->kind == part_kind::message)
      if (auto m = decode(p->message)) return *m;
  return {};
}

std::string summary_of(const part_list& parts) {
  if (parts.empty()) return "an empty message";
  std::string out;
  for (const auto& p : parts) {
    if (!out.empty()) out += " + ";
    out += word_of(*p);
  }
  return out;
}

}  // namespace troupe::replay

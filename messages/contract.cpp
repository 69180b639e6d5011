// The services of the embedded schema, read once.
#include "messages/contract.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include <flatbuffers/reflection.h>
#include <fmt/format.h>

#include "messages/msg.hpp"
#include "messages/registry.hpp"
#include "messages/schemas/control_generated.h"

namespace troupe {

namespace {

using attributes = flatbuffers::Vector<flatbuffers::Offset<reflection::KeyValue>>;

std::string_view attribute(const attributes* all, const char* key) {
  if (all == nullptr) return {};
  const auto* found = all->LookupByKey(key);
  return found == nullptr || found->value() == nullptr ? std::string_view{}
                                                       : found->value()->string_view();
}

/// Its last part: "Stage" of "troupe.fbs.Stage".
std::string_view local(std::string_view full) {
  return full.substr(full.rfind('.') + 1);
}

/// "a, b" as {"a", "b"}.
std::vector<std::string> listed(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto comma = text.find(", ");
    out.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 2);
  }
  return out;
}

/// An unknown word is the strictest (and a test's business).
audience audience_named(std::string_view word) {
  return word == "reader"     ? audience::reader
         : word == "operator" ? audience::operator_
         : word == "power"    ? audience::power
                              : audience::node;
}

epoch_rule epoch_named(std::string_view word) {
  return word == "any"         ? epoch_rule::any
         : word == "if_given"  ? epoch_rule::if_given
         : word == "not_older" ? epoch_rule::not_older
                               : epoch_rule::present;
}

death death_named(std::string_view word) {
  return word == "without"     ? death::without
         : word == "node_lost" ? death::node_lost
                               : death::run_ended;
}

int key_index(std::vector<std::string>& keys, std::string_view key) {
  if (key.empty()) return -1;
  auto it = std::find(keys.begin(), keys.end(), key);
  if (it == keys.end()) it = keys.emplace(keys.end(), key);
  return static_cast<int>(it - keys.begin());
}

call_info describe(std::string_view service, const reflection::RPCCall& call,
                   std::vector<std::string>& keys) {
  const auto* all = call.attributes();
  call_info out;
  out.service = service;
  out.name = call.name()->str();
  out.request = find_message(call.request()->name()->string_view());
  out.response = find_message(call.response()->name()->string_view());
  out.from = audience_named(attribute(all, "from"));
  out.epoch = epoch_named(attribute(all, "epoch"));
  const auto timeout = attribute(all, "timeout_ms");
  std::from_chars(timeout.data(), timeout.data() + timeout.size(), out.timeout_ms);
  out.timeout_key = key_index(keys, attribute(all, "timeout_key"));
  out.high_priority = attribute(all, "priority") == "high";
  out.handles = listed(attribute(all, "handles"));
  out.answer_handles = listed(attribute(all, "answer_handles"));
  out.doc = sentence_of(call.documentation());
  return out;
}

struct contracts {
  std::vector<service_info> services;
  std::vector<std::string> keys;
  std::unordered_map<uint16_t, audience> audiences;
  std::unordered_map<uint16_t, bool> questions;
  std::unordered_set<uint16_t> answers_to_power;
};

const contracts& all_contracts() {
  static const auto made = [] {
    contracts out;
    for (const auto* s : *schema().services()) {
      auto& service = out.services.emplace_back();
      service.name = local(s->name()->string_view());
      service.kind = service.name;
      for (auto& c : service.kind) c = static_cast<char>(std::tolower(c));
      service.on_death = death_named(attribute(s->attributes(), "on_death"));
      service.doc = sentence_of(s->documentation());
      for (const auto* call : *s->calls())
        service.calls.push_back(describe(service.name, *call, out.keys));
    }
    for (const auto& service : out.services)
      for (const auto& call : service.calls)
        if (call.request != nullptr) {
          const auto it = out.audiences.emplace(call.request->id, call.from).first;
          it->second = stricter_of(it->second, call.from);
          if (call.from == audience::power && call.response != nullptr)
            out.answers_to_power.insert(call.response->id);
          const bool asks = call.from == audience::reader && call.response != nullptr &&
                            call.timeout_ms > 0 && call.handles.empty() &&
                            call.answer_handles.empty();
          const auto question = out.questions.emplace(call.request->id, asks).first;
          question->second = question->second && asks;
        }
    return out;
  }();
  return made;
}

const call_info* call_in(const service_info& service, uint16_t request) {
  for (const auto& call : service.calls)
    if (call.request != nullptr && call.request->id == request) return &call;
  return nullptr;
}

}  // namespace

std::span<const service_info> all_services() {
  return all_contracts().services;
}

const service_info* find_service(std::string_view kind) {
  for (const auto& s : all_services())
    if (s.kind == kind) return &s;
  return nullptr;
}

const call_info* find_call(std::string_view service, uint16_t request) {
  const call_info* shared = nullptr;
  for (const auto& s : all_services()) {
    if (s.name != service && s.name != "Component") continue;
    const auto* found = call_in(s, request);
    if (found != nullptr && s.name == service) return found;
    if (found != nullptr) shared = found;
  }
  return shared;
}

const call_info* find_call_of(std::string_view kind, uint16_t request) {
  const auto* service = find_service(kind);
  return service != nullptr ? find_call(service->name, request) : nullptr;
}

std::span<const std::string> timeout_keys() {
  return all_contracts().keys;
}

audience audience_of(uint16_t type) {
  const auto& all = all_contracts().audiences;
  const auto it = all.find(type);
  return it != all.end() ? it->second : audience::node;
}

audience stricter_of(audience a, audience b) noexcept {
  if (a == b) return a;
  if (a == audience::power || b == audience::power) return audience::node;  // CON-6
  return std::max(a, b);
}

bool answers_power(uint16_t type) {
  return all_contracts().answers_to_power.contains(type);
}

status may_be_carried(const any_msg& inner) {
  const auto from = audience_of(inner.type());
  if ((from == audience::reader || from == audience::operator_) &&
      inner.type() != message_traits<fbs::CallActor>::id)
    return {};
  const auto* info = find_message(inner.type());
  return error{errc::permission,
               fmt::format("{} is what the cluster's processes say to each other: nobody may have "
                           "it sent",
                           info != nullptr ? info->name : "what cannot be read"),
               "`troupe console -c help` lists what the cluster can be told"};
}

any_msg carried_by(const any_msg& m) {
  const auto call = cast<fbs::CallActor>(m);
  if (!call) return m;
  const auto* bytes = call->message();
  auto inner = bytes != nullptr ? decode({bytes->data(), bytes->size()})
                                : result<any_msg>(error{errc::bad_data, "nothing"});
  return inner ? *inner : any_msg{};
}

bool is_question(uint16_t type) {
  const auto& all = all_contracts().questions;
  const auto it = all.find(type);
  return it != all.end() && it->second;
}

audience audience_of(const any_msg& m) {
  const auto own = audience_of(m.type());
  if (m.type() != message_traits<fbs::CallActor>::id) return own;
  const auto inner = carried_by(m);
  if (!inner || !may_be_carried(inner)) return audience::node;  // CON-3, CON-4
  return is_question(inner.type()) ? own : audience::operator_;
}

std::string_view to_string(audience who) {
  return who == audience::reader      ? "reader"
         : who == audience::operator_ ? "operator"
         : who == audience::power     ? "power"
                                      : "node";
}

}  // namespace troupe

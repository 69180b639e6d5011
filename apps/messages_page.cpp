// Actors with their calls, then tables by domain, then what these are made of.
#include "apps/messages_page.hpp"

#include <cctype>
#include <set>

#include <flatbuffers/reflection.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "messages/contract.hpp"
#include "messages/registry.hpp"

namespace troupe::apps {

namespace {

constexpr auto page_head = R"(# Messages

Everything that actors, tools and nodes say to each other. This page is made from the schemas that
are embedded in the program (`troupe limits --messages > docs/messages.md`); `troupe console -c
'help MESSAGE'` shows the same of one message.

A message travels with a header of 64 bytes (`messages/header.hpp`): type, length, checksum, epoch,
trace, span, sender and time. Who may send it: *node*, a process of the cluster; *operator*, also a
person who may change things; *reader*, also one who may look; *power*, a job to its power budget,
and no person. Its epoch: *present*, its receiver's; *if given*, that or none; *any*, it is not
looked at. Where a key of the configuration stands beside a time, its value replaces the time.
)";

std::string link(std::string_view name) {
  std::string anchor(name);
  for (auto& c : anchor) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return fmt::format("[{}](#{})", name, anchor);
}

std::string_view words_of(death d) {
  return d == death::without     ? "the others do without it"
         : d == death::node_lost ? "its node ends, and the run is told that a node is lost"
                                 : "the cluster ends";
}

std::string_view words_of(epoch_rule r) {
  return r == epoch_rule::any ? "any" : r == epoch_rule::if_given ? "if given" : "present";
}

/// "[RunStep](#runstep) with node, observer".
std::string with_handles(const message_info& m, const std::vector<std::string>& handles) {
  if (handles.empty()) return link(m.name);
  return fmt::format("{} with {}", link(m.name), fmt::join(handles, ", "));
}

std::string wait_of(const call_info& c) {
  if (c.response == nullptr) return "";
  if (c.timeout_key < 0) return fmt::format("{} ms", c.timeout_ms);
  return fmt::format("{} ms, or `{}`", c.timeout_ms,
                     timeout_keys()[static_cast<size_t>(c.timeout_key)]);
}

std::string service_text(const service_info& s) {
  auto out = fmt::format("\n### {}\n\n{}", s.kind, s.doc);
  if (s.name != "Component") out += fmt::format(" If it dies: {}.", words_of(s.on_death));
  out +=
      "\n\n| takes | from | epoch | answers | within | what it does |\n|---|---|---|---|---|---|\n";
  for (const auto& c : s.calls)
    out +=
        fmt::format("| {} | {} | {} | {} | {} | {}{} |\n", with_handles(*c.request, c.handles),
                    to_string(c.from), words_of(c.epoch),
                    c.response != nullptr ? with_handles(*c.response, c.answer_handles) : "nothing",
                    wait_of(c), c.doc, c.high_priority ? " Overtakes queued messages." : "");
  return out;
}

/// Tables and enums that fields are made of, by name, with those that they are made of.
void collect(const std::vector<field_info>& fields, std::set<std::string>& parts) {
  for (const auto& f : fields)
    if (!f.nested.empty() && find_message(f.nested) == nullptr && parts.insert(f.nested).second)
      collect(table_fields(f.nested), parts);
}

std::string fields_text(const std::vector<field_info>& fields) {
  if (fields.empty()) return "";
  std::string out = "\n| field | type | |\n|---|---|---|\n";
  for (const auto& f : fields) {
    const bool list = f.type.starts_with('[');
    const auto type = f.nested.empty() ? f.type
                      : list           ? fmt::format("\\[{}\\]", link(f.nested))
                                       : link(f.nested);
    out += fmt::format("| `{}` | {} | {} |\n", f.name, type, f.doc);
  }
  return out;
}

std::string part_text(const std::string& name) {
  const auto full = "troupe.fbs." + name;
  if (const auto* table = schema().objects()->LookupByKey(full.c_str()))
    return fmt::format("\n### {}\n\n{}\n{}", name, sentence_of(table->documentation()),
                       fields_text(table_fields(name)));
  const auto* choice = schema().enums()->LookupByKey(full.c_str());
  auto out = fmt::format("\n### {}\n\n{}\n\n| value | |\n|---|---|\n", name,
                         sentence_of(choice->documentation()));
  for (const auto* v : *choice->values())
    out +=
        fmt::format("| `{}` | {} |\n", v->name()->string_view(), sentence_of(v->documentation()));
  return out;
}

}  // namespace

std::string messages_markdown() {
  std::string out = page_head;
  out += "\n## Actors\n";
  for (const auto& s : all_services()) out += service_text(s);
  std::set<std::string> parts;
  std::string_view domain;
  for (const auto& m : all_messages()) {
    if (m.domain != domain)
      out += fmt::format("\n## {}\n\n`messages/schemas/{}.fbs`\n", m.domain, m.domain);
    domain = m.domain;
    out += fmt::format("\n### {}\n\n{} Type 0x{:04x}.\n{}", m.name, m.doc, m.id,
                       fields_text(m.fields));
    collect(m.fields, parts);
  }
  out += "\n## Parts of messages\n";
  for (const auto& name : parts) out += part_text(name);
  return out;
}

}  // namespace troupe::apps

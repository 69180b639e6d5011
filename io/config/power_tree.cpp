// The rows of POWER.toml, its reader, and what must hold between its keys.
#include "io/config/power_tree.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "io/base/text.hpp"
#include "io/config/budget_place.hpp"
#include "io/config/builder.hpp"
#include "io/config/table.hpp"
#include "io/config/toml_tables.hpp"
#include "io/config/toml_value.hpp"

namespace troupe::config {

namespace detail {

template <>
inline constexpr std::array<std::string_view, 2> words<power_mode>{"shares", "thresholds"};
template <>
inline constexpr std::array<std::string_view, 2> words<power_brake>{"auto", "manual"};
template <>
inline constexpr std::array<std::string_view, 2> words<power_rule>{"polca", "ladder"};
template <>
inline constexpr std::array<std::string_view, 2> words<power_priority>{"low", "high"};

namespace {

constexpr double site_w = 1e9;       // beyond it a number is no power of a site
constexpr size_t bearer_bytes = 64;  // of a name that a key can be made for
constexpr double noise_of_least = 0.01;
constexpr double least_threshold = 0.06;  // caps are undone 0.05 below it
constexpr int64_t an_hour_ms = 3'600'000;

constinit const property power_tree_rows[] = {
    row<power_tree, &power_tree::name>("name", "What the budget is called"),
    row<power_tree, &power_tree::budget_w>("budget_w", "Watts that its children share",
                                           within(0.001, site_w)),
    row<power_tree, &power_tree::mode>("mode", "How it is divided"),
    row<power_tree, &power_tree::brake>(
        "brake", "Who holds all work where too much is drawn: auto = the budget, too"),
    row<power_tree, &power_tree::policy>(
        "policy", "In thresholds, which classes are slowed above which: polca or ladder"),
    row<power_tree, &power_tree::t1>(
        "t1", "In thresholds, the share of the budget above which low priority is slowed",
        within(least_threshold, 1)),
    row<power_tree, &power_tree::t2>(
        "t2", "The share above which it is slowed more, and by polca high priority too",
        within(least_threshold, 1)),
    row<power_tree, &power_tree::t3>("t3", "The share above which a ladder slows high priority",
                                     within(least_threshold, 1)),
    row<power_tree, &power_tree::hysteresis>(
        "hysteresis", "In thresholds, how far below one its caps are undone, of the budget",
        within(0.001, 0.5)),
    row<power_tree, &power_tree::settle_ms>(
        "settle_ms",
        "In thresholds, milliseconds from a command to the next one; default: a report, a tick and "
        "a step of 2 s, and by polca a tick more",
        within(0, an_hour_ms)),
    row<power_tree, &power_tree::undo_ms>(
        "undo_ms",
        "In thresholds, milliseconds until a command may be undone; default: as settle_ms, by a "
        "ladder 10 s",
        within(0, an_hour_ms)),
    row<power_tree, &power_tree::brake_hold_ms>(
        "brake_hold_ms", "Milliseconds for which a brake that it has pulled holds at least",
        within(1000, an_hour_ms)),
    row<power_tree, &power_tree::release_gap_ms>(
        "release_gap_ms", "Milliseconds from one group of children that is let go to the next",
        within(1000, an_hour_ms)),
    row<power_tree, &power_tree::unruly_ticks>(
        "unruly_ticks", "Readings in a row above its cap that make a child unruly", within(1, 16)),
    row<power_tree, &power_tree::listen>("listen", "Address that it listens on"),
    row<power_tree, &power_tree::port>("port", "Port that it listens on; 0 = a free one",
                                       within(0, 65'535)),
    row<power_tree, &power_tree::parent>(
        "parent",
        "The budget above it: auto = the other one of this user on this machine, of several the "
        "one "
        "that has it, auto:NAME = the one of that name, else HOST:PORT; of its lease and budget_w "
        "the less holds"),
    row<power_tree, &power_tree::parent_key>(
        "parent_key", "File with the key that proves it to a parent given as HOST:PORT"),
    // A report is answered with the next tick, and its asker waits for 5 s.
    row<power_tree, &power_tree::tick_ms>("tick_ms", "Milliseconds between two decisions",
                                          within(100, 2000)),
    row<power_tree, &power_tree::lease_ttl_ms>("lease_ttl_ms", "Milliseconds that a lease lasts",
                                               within(1, 3'600'000)),
    row<power_tree, &power_tree::noise_w>(
        "noise_w",
        "Watts below which a difference is none; default: 1 % of the least floor_w or static_w",
        within(0, site_w)),
    row<power_tree, &power_tree::output>("output", "Folder of its journal; default: power/NAME"),
    row<power_tree, &power_tree::follow>(
        "follow", "A CSV of t_s,watts or unix_s,watts that the budget follows"),
    row<power_tree, &power_tree::textfile>(
        "textfile", "A file that says who has which watts, in Prometheus's text format"),
    row<power_tree, &power_tree::tls, &tls_section::ca>(
        "tls.ca", "PEM file of the authorities that certificates of children must come from"),
    row<power_tree, &power_tree::tls, &tls_section::certificate>(
        "tls.certificate", "PEM file of its certificate; {node} is replaced by its name"),
    row<power_tree, &power_tree::tls, &tls_section::key>(
        "tls.key", "PEM file of its private key; {node} is replaced by its name"),
};

constinit const property power_child_rows[] = {
    row<power_child, &power_child::name>("child.name",
                                         "The name of a job, or of a budget below this one"),
    row<power_child, &power_child::priority>("child.priority", "Whose watts are cut last: high"),
    row<power_child, &power_child::floor_w>(
        "child.floor_w", "Watts below which nothing useful is done", within(0, site_w)),
    row<power_child, &power_child::static_w>(
        "child.static_w", "Watts that it has when nobody is heard", within(0, site_w)),
    row<power_child, &power_child::ceiling_w>("child.ceiling_w", "Watts that it can draw",
                                              within(0.001, site_w)),
    row<power_child, &power_child::certificate>(
        "child.certificate", "Name of the certificate that proves it; default: the child's name"),
    row<power_child, &power_child::paused_w>("child.paused_w", "Watts while its work is paused",
                                             within(0, site_w)),
    row<power_child, &power_child::idle_w>(
        "child.idle_w",
        "Watts that it draws whatever its clocks are: thresholds slow what is above",
        within(0, site_w)),
    row<power_child, &power_child::others_work>(
        "child.others_work",
        "Others' work may run there, uncapped, before it is heard of: it counts at ceiling_w then"),
    row<power_child, &power_child::phase>(
        "child.phase", "Its steps may be shifted against those of others that say so"),
};

/// One [[child]] as read, with the places that its checks may name.
struct power_child_entry {
  power_child spec;
  origin at;
  origin name_at = {}, static_at = {}, certificate_at = {};
};

/// A budget while it is read.
struct open_power_tree {
  power_tree value;
  std::vector<power_child_entry> children;
  origin whole, name_at, budget_at, brake_at, listen_at, parent_at, key_at, ttl_at, tls_at;
  origin settle_at = {};
  std::map<std::string, origin, std::less<>> of_thresholds;  ///< keys that are said
};

void read_power_children(builder& into, const toml::node& node, const array_place& where,
                         open_power_tree& tree) {
  auto children = read_array<power_child_entry>(into, node, where);
  if (!children) return;
  for (size_t i = 0; i < children->size(); ++i) {
    auto& child = (*children)[i];
    const auto& table = *node.as_array()->get(i)->as_table();
    const auto place_of = [&](std::string_view key) {
      const auto* field = table.get(key);
      return field == nullptr ? child.at : where.of(field->source());
    };
    child.name_at = place_of("name");
    child.static_at = place_of("static_w");
    child.certificate_at = place_of("certificate");
    for (const auto* key : {"name", "floor_w", "static_w", "ceiling_w"})
      if (!table.contains(key))
        into.complain(child.at, fmt::format("child.{}", key),
                      fmt::format("every [[child]] needs a {}", key),
                      "docs/power.md has an example");
  }
  tree.children = std::move(*children);
}

void read_power_tls(builder& into, const toml::node& node, const array_place& where,
                    open_power_tree& tree) {
  const auto* table = node.as_table();
  if (table == nullptr)
    return into.complain(where.at, "tls",
                         fmt::format("expected a [tls] table, got {}", type_name(node)));
  for (auto&& [key, field] : *table) read_field(into, where, key, field, tree.value);
}

void read_power_table(builder& into, const toml::table& table, const std::string& file,
                      open_power_tree& tree) {
  tree.whole = {source_kind::file, file};
  const array_place where{"", power_tree_rows, tree.whole, file, "child"};
  for (auto&& [key, node] : table) {
    const auto at = where.of(key.source());
    if (key.str() == "child")
      read_power_children(into, node, {"child", power_child_rows, at, file}, tree);
    else if (key.str() == "tls")
      read_power_tls(into, node, {"tls", power_tree_rows, at, file}, tree);
    else
      read_field(into, where, key, node, tree.value);
  }
  const auto place_of = [&](std::string_view key) {
    const auto* field = table.get(key);
    return field == nullptr ? tree.whole : where.of(field->source());
  };
  tree.name_at = place_of("name");
  tree.budget_at = place_of("budget_w");
  tree.brake_at = place_of("brake");
  for (const auto* key : {"policy", "t1", "t2", "t3", "hysteresis", "settle_ms", "undo_ms"})
    if (table.contains(key)) tree.of_thresholds.emplace(key, place_of(key));
  tree.listen_at = place_of("listen");
  tree.parent_at = place_of("parent");
  tree.key_at = place_of("parent_key");
  tree.ttl_at = place_of("lease_ttl_ms");
  tree.settle_at = place_of("settle_ms");
  tree.tls_at = place_of("tls");
  for (const auto* key : {"name", "budget_w"})
    if (!table.contains(key))
      into.complain(tree.whole, key, fmt::format("a budget needs a {}", key),
                    "docs/power.md has an example");
}

/// PTR-2.
void check_power_name(builder& b, std::string_view key, const std::string& name, const origin& at) {
  if (is_name(name) && name.size() <= bearer_bytes) return;
  b.complain(at, key,
             fmt::format("{}, at most {}, got {}", name_rule, bearer_bytes, troupe::quoted(name)));
}

void check_power_names(builder& b, const open_power_tree& tree) {
  if (!b.at_fault("name")) check_power_name(b, "name", tree.value.name, tree.name_at);
  if (b.at_fault("child.name")) return;
  std::set<std::string_view> names;
  for (const auto& c : tree.children) {
    check_power_name(b, "child.name", c.spec.name, c.name_at);
    if (!names.insert(c.spec.name).second)
      b.complain(c.name_at, "child.name",
                 fmt::format("duplicate name {}", troupe::quoted(c.spec.name)));
  }
}

/// PTR-1.
void check_power_watts(builder& b, const open_power_tree& tree) {
  for (const auto* key :
       {"child.floor_w", "child.static_w", "child.ceiling_w", "child.paused_w", "child.idle_w"})
    if (b.at_fault(key)) return;
  int64_t shares_mw = 0;
  for (const auto& entry : tree.children) {
    const auto& c = entry.spec;
    shares_mw += milliwatts(c.static_w);
    if (c.idle_w > c.ceiling_w)
      b.complain(entry.at, "child.idle_w",
                 fmt::format("expected idle_w <= ceiling_w, got {} and {}", c.idle_w, c.ceiling_w));
    if (c.paused_w <= c.floor_w && c.floor_w <= c.static_w && c.static_w <= c.ceiling_w) continue;
    b.complain(entry.static_at, "child.static_w",
               fmt::format("expected paused_w <= floor_w <= static_w <= ceiling_w, got {}, {}, {} "
                           "and {}",
                           c.paused_w, c.floor_w, c.static_w, c.ceiling_w));
  }
  const auto budget_mw = milliwatts(tree.value.budget_w);
  if (b.at_fault("budget_w") || shares_mw <= budget_mw) return;
  b.complain(tree.budget_at, "budget_w",
             fmt::format("static_w of {} children is {} W together, {} W more than the budget of "
                         "{} W",
                         tree.children.size(), static_cast<double>(shares_mw) / 1000,
                         static_cast<double>(shares_mw - budget_mw) / 1000, tree.value.budget_w),
             "children fall to static_w by themselves when nobody is heard: together it must fit");
}

void check_power_parent(builder& b, const open_power_tree& tree) {
  const auto& t = tree.value;
  if (b.at_fault("parent") || b.at_fault("parent_key")) return;
  if (const auto fault = fault_of_parent({"parent", "parent_key", "[tls]"}, t.parent, t.parent_key,
                                         t.tls.enabled()))
    return b.complain(fault->of_key ? tree.key_at : tree.parent_at,
                      fault->of_key ? "parent_key" : "parent", fault->what, fault->hint);
  const auto place = budget_place_of(t.parent);
  if (!place || b.at_fault("name") || b.at_fault("port")) return;
  const auto is_here = [&](const std::string& host) {
    if (host == t.listen) return true;
    const bool hears_all = t.listen == "0.0.0.0" || t.listen == "::";
    return is_loopback(host) && (is_loopback(t.listen) || hears_all);
  };
  const bool is_own =
      place->at ? place->at->port == t.port && is_here(place->at->host) : place->name == t.name;
  if (is_own)  // PTR-5
    b.complain(tree.parent_at, "parent", fmt::format("{} cannot be its own parent", t.name),
               "name the budget above it, or leave it out");
}

/// PTR-6
void check_power_thresholds(builder& b, const open_power_tree& tree) {
  const auto& t = tree.value;
  if (t.mode == power_mode::shares) {
    for (const auto& [key, at] : tree.of_thresholds)
      b.complain(at, key, fmt::format("{} is of thresholds, and the mode is shares", key),
                 "write mode = \"thresholds\", or leave it out");
    return;
  }
  if (!b.at_fault("brake") && t.brake == power_brake::manual)
    b.complain(tree.brake_at, "brake", "thresholds promise more than there is, and need the brake",
               "write brake = \"auto\", or mode = \"shares\"");
  const auto t3 = tree.of_thresholds.find("t3");
  if (t.policy == power_rule::polca && t3 != tree.of_thresholds.end())
    b.complain(t3->second, "t3", "polca has no third threshold",
               "write policy = \"ladder\", or leave it out");
}

/// By which name a child is known where the budget has certificates.
const std::string& certificate_of(const power_child& c) {
  return c.certificate.empty() ? c.name : c.certificate;
}

void check_power_certificates(builder& b, const open_power_tree& tree) {
  std::set<std::string_view> names;
  for (const auto& c : tree.children) {
    const auto& own = c.spec.certificate;
    if (!tree.value.tls.enabled()) {
      if (!own.empty())
        b.complain(c.certificate_at, "child.certificate", "a certificate is named, and TLS is off",
                   "set [tls], or leave it out: a key of the child's name proves it");
      continue;
    }
    if (!own.empty()) check_power_name(b, "child.certificate", own, c.certificate_at);
    if (!names.insert(certificate_of(c.spec)).second)
      b.complain(own.empty() ? c.name_at : c.certificate_at, "child.certificate",
                 fmt::format("duplicate certificate {}", troupe::quoted(certificate_of(c.spec))),
                 "each child has one of its own, by default of its name");
  }
}

/// PTR-7
void check_power_tls(builder& b, const open_power_tree& tree) {
  const auto& t = tree.value;
  if (b.at_fault("tls.ca") || b.at_fault("tls.certificate") || b.at_fault("tls.key")) return;
  if (!t.tls.is_whole())
    return b.complain(tree.tls_at, "tls", "[tls] needs ca, certificate and key, all three");
  if (!b.at_fault("listen") && t.listen.empty())
    b.complain(tree.listen_at, "listen", "expected an address, got nothing");
  else if (!b.at_fault("listen") && !is_loopback(t.listen) && !t.tls.enabled())
    b.complain(tree.listen_at, "listen",
               fmt::format("{} is not loopback, and TLS is off", troupe::quoted(t.listen)),
               "set [tls] (`troupe certs DIR --budget NAME` makes the files), or listen = "
               "\"127.0.0.1\"");
  if (!b.at_fault("child.certificate") && !b.at_fault("child.name"))
    check_power_certificates(b, tree);
}

void check_power_tree(builder& b, const open_power_tree& tree) {
  const auto& t = tree.value;
  if (tree.children.size() > most_power_children)
    return b.complain(tree.children[most_power_children].at, "child",
                      fmt::format("{} children, at most {} share a budget", tree.children.size(),
                                  most_power_children));
  if (!b.at_fault("child") && tree.children.empty())
    b.complain(tree.whole, "child", "a budget needs a [[child]]",
               "one for each job, or budget, that shares it, by its name");
  check_power_names(b, tree);
  check_power_watts(b, tree);
  if (!b.at_fault("mode") && !b.at_fault("policy")) check_power_thresholds(b, tree);
  check_power_tls(b, tree);
  check_power_parent(b, tree);
  if (!b.at_fault("tick_ms") && !b.at_fault("settle_ms") && t.settle_ms >= 0 &&
      t.settle_ms < actuation_ms(t.tick_ms))  // PTR-8
    b.complain(tree.settle_at, "settle_ms",
               fmt::format("{} is less than {}: a report, a tick of {} ms and a step of {} ms",
                           t.settle_ms, actuation_ms(t.tick_ms), t.tick_ms, assumed_step_ms),
               "a rung that is taken before the last one can have been seen to bind slows for "
               "nothing");
  const bool known = !b.at_fault("tick_ms") && !b.at_fault("lease_ttl_ms");
  if (known && t.lease_ttl_ms < least_lease_ms(t.tick_ms))  // PTR-4
    b.complain(tree.ttl_at, "lease_ttl_ms",
               fmt::format("{} is less than {}, three times what may lie between two reports of a "
                           "job with tick_ms = {}",
                           t.lease_ttl_ms, least_lease_ms(t.tick_ms), t.tick_ms),
               "reports renew a lease, and a lost message must not end it");
}

/// Of all floors and static shares above 0, and of ceilings of who has neither: what is little for
/// the whole budget may be all that a small child has.
double least_w(const std::vector<power_child>& children) {
  double out = site_w;
  for (const auto& c : children)
    out = std::min(out, c.floor_w > 0 ? c.floor_w : c.static_w > 0 ? c.static_w : c.ceiling_w);
  return out;
}

result<power_tree> settle_power_tree(builder& b, const std::optional<std::string>& text,
                                     const std::string& file) {
  open_power_tree tree;
  const auto table = text ? parse_text(b, *text, file) : std::nullopt;
  if (table) {
    read_power_table(b, *table, file, tree);
    check_power_tree(b, tree);
  }
  const auto problems = b.take().problems;
  if (!problems.empty()) return as_error(problems);
  auto& out = tree.value;
  for (auto& c : tree.children) {
    if (out.tls.enabled()) c.spec.certificate = certificate_of(c.spec);
    out.child.push_back(std::move(c.spec));
  }
  if (out.noise_w < 0) out.noise_w = noise_of_least * least_w(out.child);
  if (out.output.empty()) out.output = "power/" + out.name;
  return std::move(out);
}

}  // namespace

}  // namespace detail

result<power_tree> parse_power_tree(std::string_view toml, const std::string& name) {
  detail::builder b(name);
  return detail::settle_power_tree(b, std::string(toml), name);
}

result<power_tree> load_power_tree(const std::string& file) {
  detail::builder b(file);
  const auto text = detail::file_text(b, file, {source_kind::file, file});
  return detail::settle_power_tree(b, text, file);
}

}  // namespace troupe::config

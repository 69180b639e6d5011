// Which power budgets a job's machines hang on, where its nodes name them, and what is wrong with
// that.
//
// A job in one row of machines names one budget, power.parent. One that reaches over several has
// each of its nodes say which (cluster.node.power_parent); what one and the same budget feeds is a
// rack of it.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/config/budget_place.hpp"
#include "io/config/builder.hpp"

namespace troupe::config::detail {

namespace {

const std::string& parent_of(const node_spec& n, const power_section& p) {
  return n.power_parent.empty() ? p.parent : n.power_parent;
}

power_rack& rack_of(std::vector<power_rack>& all, const std::string& parent) {
  const auto it = std::ranges::find(all, parent, &power_rack::parent);
  return it != all.end() ? *it : all.emplace_back(power_rack{parent, {}});
}

/// A sign is found by the child's name, which all of them have.
void check_name(builder& b, const node_entry& entry, const budget_place& place) {
  if (!place.at && place.name.empty())
    b.complain(entry.at, "cluster.node.power_parent",
               fmt::format("{} hangs on \"auto\", which of several budgets names none",
                           troupe::quoted(entry.spec.name)),
               "name it, as \"auto:rack0\"");
}

void check_parent(builder& b, const node_entry& entry) {
  const auto& p = b.target().power;
  const auto& parent = parent_of(entry.spec, p);
  if (parent.empty())
    return b.complain(
        entry.at, "cluster.node.power_parent",
        fmt::format("{} hangs on no power budget, and others do", troupe::quoted(entry.spec.name)),
        "give it one, or set power.parent, which those have that name none");
  const auto fault = fault_of_parent({"cluster.node.power_parent", "no key", "cluster.tls"}, parent,
                                     "", b.target().cluster.tls.enabled());
  const auto place = budget_place_of(parent);
  if (place && place->at && !b.target().cluster.tls.enabled())
    return b.complain(entry.at, "cluster.node.power_parent",
                      fmt::format("{} hangs on {}, and a job under several power budgets proves "
                                  "itself by certificates alone",
                                  troupe::quoted(entry.spec.name), troupe::quoted(parent)),
                      "set cluster.tls (`troupe certs` makes the files); budgets of this user on "
                      "this machine are named as \"auto:rack0\"");
  if (fault) return b.complain(entry.at, "cluster.node.power_parent", fault->what, fault->hint);
  check_name(b, entry, *place);
}

}  // namespace

void derive_racks(builder& b) {
  const auto& nodes = b.target().cluster.node;
  auto& p = b.target().power;
  p.racks.clear();
  if (std::ranges::all_of(nodes, [](const auto& n) { return n.power_parent.empty(); })) return;
  for (const auto& n : nodes) rack_of(p.racks, parent_of(n, p)).nodes.push_back(n.name);
  if (p.racks.size() > 1) return;
  p.parent = p.racks.front().parent;  // all hang on the same one
  p.racks.clear();
}

void check_racks(builder& b) {
  const auto& p = b.target().power;
  if (p.racks.empty()) return;
  for (const auto& entry : b.nodes()) check_parent(b, entry);
  b.rule(p.racks.size() <= most_power_racks, {"power.parent"},
         fmt::format("nodes hang on {} power budgets: expected at most {}", p.racks.size(),
                     most_power_racks),
         "let them hang on a budget above those");
  b.rule(p.parent_key.empty(), {"power.parent_key"},
         fmt::format("one key, and nodes hang on {}", counted(p.racks.size(), "power budget")),
         "leave it out: certificates prove the job to each (cluster.tls)");
  b.rule(p.ramp_w_s == 0, {"power.ramp_w_s"},
         fmt::format("a ramp is of all machines together, and nodes hang on {}",
                     counted(p.racks.size(), "power budget")),
         "leave it out, or let all nodes hang on one budget");
}

}  // namespace troupe::config::detail

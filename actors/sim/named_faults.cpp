// Words of faults, and whom a job has for them.
#include "actors/sim/named_faults.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/sim/pace_model.hpp"
#include "io/base/text.hpp"
#include "messages/contract.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t ns_a_second = 1'000'000'000;
constexpr int64_t lasting_ns = 5 * ns_a_second;  // where it is not said
constexpr int64_t latest_s = 1'000'000'000;      // more does not fit the clock

/// What a kind of fault may name.
enum class victims : uint8_t { none, node, rank, actor, tier, section };

victims victims_of(fault_kind kind) {
  using enum fault_kind;
  switch (kind) {
    case crash_node:
    case lose_node:
    case freeze_node:
    case drain_node:
    case slow_disk:
    case disk_error:
    case full_disk:
    case meter_silent:
    case decay:
    case spikes:
      return victims::node;
    case slow_section:
      return victims::section;
    case slow_device:
    case hang_device:
    case fail_device:
    case actuator_lies:
    case actuator_late:
      return victims::rank;
    case kill_actor:
      return victims::actor;
    case tier_out:
      return victims::tier;
    default:
      return victims::none;
  }
}

bool lasts(fault_kind kind) {
  using enum fault_kind;
  constexpr std::array moments{crash_node,  lose_node,       crash_head,     hang_device,
                               fail_device, kill_actor,      save_now,       stop_run,
                               set_value,   drain_node,      old_message,    disk_error,
                               budget_cut,  second_launcher, foreign_folder, lose_grant};
  return std::find(moments.begin(), moments.end(), kind) == moments.end();
}

std::optional<fault_kind> kind_named(std::string_view name) {
  for (int k = 0; k < fault_kinds; ++k)
    if (name == to_string(static_cast<fault_kind>(k))) return static_cast<fault_kind>(k);
  return std::nullopt;
}

/// Seconds, from 0. A double has too few digits for all nanoseconds up to the latest.
std::optional<int64_t> time_in(std::string_view text) {
  long double s = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), s);
  const bool whole = fault == std::errc() && end == text.data() + text.size();
  if (!whole || !std::isfinite(s) || s < 0 || s > latest_s) return std::nullopt;
  return static_cast<int64_t>(std::llround(s * ns_a_second));
}

/// All digits, and no exponent, whose + would begin a length: time_in gives the same again.
std::string spelled_seconds(int64_t ns) {
  auto out = fmt::format("{}.{:09}", ns / ns_a_second, ns % ns_a_second);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out;
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t n = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (fault != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

error misnamed(std::string what, std::string hint) {
  return {errc::usage, std::move(what), std::move(hint)};
}

std::vector<std::string_view> node_names(const config::job& job) {
  std::vector<std::string_view> out;
  for (const auto& n : job.cluster.node) out.push_back(n.name);
  return out;
}

status check_node(const std::string& name, const std::string& fault, const config::job& job) {
  const auto names = node_names(job);
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  const auto near = nearest(name, names);
  return misnamed(fmt::format("--fault {}: the job has no node {}", fault, troupe::quoted(name)),
                  near.empty() ? fmt::format("its nodes are {} to {}", names.front(), names.back())
                               : fmt::format("did you mean {}?", near));
}

status check_rank(std::string_view number, const std::string& fault, const config::job& job) {
  const auto n = number_in(number);
  if (n && *n < job.grid().ranks()) return {};
  return misnamed(fmt::format("--fault {}: the job has no rank {}", fault, number),
                  fmt::format("its ranks are 0 to {} (data {} x pipeline {})",
                              job.grid().ranks() - 1, job.parallel.data, job.parallel.pipeline));
}

/// A node, and behind a slash a section of its steps.
status check_section(const std::string& whom, const std::string& fault, const config::job& job) {
  const auto slash = whom.find('/');
  TROUPE_CHECK(check_node(whom.substr(0, slash), fault, job));
  if (slash == std::string::npos) return {};
  std::vector<std::string_view> names;
  for (const auto s : slow_sections) names.push_back(train::facts_of(s).name);
  const auto section = std::string_view(whom).substr(slash + 1);
  if (std::find(names.begin(), names.end(), section) != names.end()) return {};
  return misnamed(fmt::format("--fault {}: a step has no section {}", fault,
                              troupe::quoted(std::string(section))),
                  fmt::format("the sections are: {}", fmt::join(names, ", ")));
}

/// By its kind; behind a slash a node, or a rank.
status check_actor(const std::string& path, const std::string& fault, const config::job& job) {
  const auto slash = path.find('/');
  if (find_service(path.substr(0, slash)) == nullptr)
    return misnamed(
        fmt::format("--fault {}: no actor of a job is called {}", fault, troupe::quoted(path)),
        fmt::format("as in worker/0 and stage/0 (by rank), node/{} (by node), or run",
                    job.cluster.node.front().name));
  if (slash == std::string::npos) return {};
  const auto whose = path.substr(slash + 1);
  const auto is_node = check_node(whose, fault, job);
  return is_node || !number_in(whose) ? is_node : check_rank(whose, fault, job);
}

}  // namespace

result<fault> parse_fault(std::string_view text, rng& chance) {
  const std::string hint = "expected KIND[:WHO]@SECONDS[+SECONDS], as crash_node:node1@12.5";
  const auto at = text.rfind('@');
  if (at == std::string_view::npos)
    return misnamed(fmt::format("--fault {} says no time", text), hint);
  const auto head = text.substr(0, at), times = text.substr(at + 1);
  const auto colon = head.find(':');
  const auto plus = times.find('+');
  const auto name = head.substr(0, colon);
  const auto kind = kind_named(name);
  if (!kind) {
    std::vector<std::string_view> known;
    for (int k = 0; k < fault_kinds; ++k) known.emplace_back(to_string(static_cast<fault_kind>(k)));
    const auto near = nearest(name, known);
    return misnamed(fmt::format("--fault {}: unknown fault {}", text, troupe::quoted(name)),
                    near.empty() ? fmt::format("the faults are: {}", fmt::join(known, ", "))
                                 : fmt::format("did you mean {}?", near));
  }
  fault f;
  f.kind = *kind;
  f.random = chance.next();
  if (colon != std::string_view::npos) f.whom = head.substr(colon + 1);
  if (colon != std::string_view::npos && (f.whom.empty() || victims_of(*kind) == victims::none))
    return misnamed(fmt::format("--fault {}: {} names nobody", text, name), hint);
  const auto begins = time_in(times.substr(0, plus));
  if (!begins)
    return misnamed(
        fmt::format("--fault {}: expected a time in seconds from 0 to {}", text, latest_s), hint);
  f.at_ns = *begins;
  if (lasts(*kind)) f.lasts_ns = lasting_ns;
  if (plus == std::string_view::npos) return f;
  const auto length = time_in(times.substr(plus + 1));
  if (!length || !lasts(*kind))
    return misnamed(lasts(*kind)
                        ? fmt::format("--fault {}: expected a length in seconds behind +", text)
                        : fmt::format("--fault {}: {} has no length", text, name),
                    hint);
  f.lasts_ns = *length;
  return f;
}

bool befalls_node(fault_kind kind) {
  return victims_of(kind) == victims::node || victims_of(kind) == victims::section;
}

std::string spelled(const fault& f) {
  std::string out = to_string(f.kind);
  if (!f.whom.empty()) out += ":" + f.whom;
  out += "@" + spelled_seconds(f.at_ns);
  if (lasts(f.kind)) out += "+" + spelled_seconds(f.lasts_ns);
  return out;
}

status check_fault(const fault& f, const config::job& job) {
  const auto fault = spelled(f);
  if (is_of_heads(f.kind) && job.cluster.heads.size() < 2)
    return misnamed(fmt::format("--fault {}: the simulated job has one head", fault),
                    "--faults draws them for a job of several heads");
  if (is_of_drives(f.kind) && job.swap.dir.empty())
    return misnamed(fmt::format("--fault {}: the simulated job does not swap", fault),
                    "`troupe sim --swap` without a file does, and a file with swap.dir");
  const bool has_clocks = is_of_clocks(f.kind) && job.power.takes_slack();
  if (is_of_parent(f.kind) && !has_clocks && job.power.parent.empty())
    return misnamed(
        fmt::format("--fault {}: the simulated job has no power budget above it", fault),
        is_of_clocks(f.kind) ? "--power-parent-w has one, and with --slack devices have clocks"
                             : "--power-parent-w has one");
  if (is_of_power(f.kind) && !has_clocks && !job.power.is_budgeted())
    return misnamed(fmt::format("--fault {}: the simulated job has no power budget", fault),
                    "--budget-w gives it one");
  if (f.kind == fault_kind::second_launcher || f.kind == fault_kind::foreign_folder)
    return misnamed(
        fmt::format("--fault {}: the simulated job has no folders on this machine", fault),
        "seeds of `troupe sim --fuzz` have some");
  if (f.whom.empty()) return {};
  switch (victims_of(f.kind)) {
    case victims::node:
      return check_node(f.whom, fault, job);
    case victims::section:
      return check_section(f.whom, fault, job);
    case victims::rank:
      return check_rank(f.whom, fault, job);
    case victims::actor:
      return check_actor(f.whom, fault, job);
    case victims::tier:
      if (f.whom == "1" || (f.whom == "2" && !job.checkpoint.second.dir.empty())) return {};
      return misnamed(fmt::format("--fault {}: the job has no tier {}", fault, f.whom),
                      job.checkpoint.second.dir.empty() ? "1 is checkpoint.dir; it has no other"
                                                        : "1 is checkpoint.dir, 2 the second");
    case victims::none:
      break;
  }
  return {};
}

}  // namespace troupe::sim

// `troupe power restore`.
#include "apps/power/power_restore.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/control/control_folders.hpp"
#include "apps/power/power.hpp"
#include "apps/talk.hpp"
#include "io/base/printable.hpp"

namespace troupe::apps::power_verb {

namespace {

using gpu::controls::record_verdict;
using gpu::controls::restored;
using nlohmann::ordered_json;

/// What became of it, or would.
std::string fate_of(const restored& r, bool trial) {
  if (!r.outcome) return "stays: " + r.outcome.error().message;
  switch (r.verdict) {
    case record_verdict::in_use:
      return "stays: its process lives";
    case record_verdict::undo:
      return trial ? "would be undone" : "undone";
    case record_verdict::forget:
      return trial ? "is void since a reboot, and would be forgotten"
                   : "was void since a reboot, and is forgotten";
  }
  return "";
}

struct restore_arguments {
  bool trial = false, json = false;
};

result<int> run_restore(const restore_arguments& a) {
  TROUPE_TRY(at, look_for_controls());
  TROUPE_TRY(all, gpu::controls::restore(at, a.trial));
  TROUPE_CHECK(print(a.json ? restore_json(all, a.trial) : restore_text(all, a.trial)));
  return is_left(all) ? 1 : 0;
}

}  // namespace

bool is_left(const std::vector<restored>& all) {
  return std::ranges::any_of(all, [](const restored& r) { return !r.outcome; });
}

std::string restore_text(const std::vector<restored>& all, bool trial) {
  if (all.empty())
    return "no dead process of this user has left a change on this machine; what another user's "
           "have left, root's too, that user restores\n";
  std::string out;
  for (const auto& r : all) {
    if (r.record)
      out += fmt::format("{}  {}, rank {}, process {}: {}\n",
                         printable(gpu::controls::subject_of(*r.record)), printable(r.record->job),
                         r.record->rank, r.record->pid, printable(fate_of(r, trial)));
    else
      out += fmt::format("{}  {}\n", printable(r.file.string()), printable(fate_of(r, trial)));
    if (!r.outcome && !r.outcome.error().hint.empty())
      out += "  " + printable(r.outcome.error().hint) + "\n";
  }
  return out;
}

std::string restore_json(const std::vector<restored>& all, bool trial) {
  ordered_json j{{"type", "power_restore"}, {"dry_run", trial}};
  j["changes"] = ordered_json::array();
  for (const auto& r : all) {
    ordered_json change{{"file", r.file.string()}};
    if (r.record) {
      if (r.record->settings.empty()) {
        change["group"] = r.record->group;
      } else {
        change["kind"] = gpu::controls::to_string(r.record->kind);
        change["settings"] = ordered_json::array();
        for (const auto& s : r.record->settings)
          change["settings"].push_back({{"where", s.where}, {"found", s.found}});
      }
      change["job"] = r.record->job;
      change["rank"] = r.record->rank;
      change["pid"] = r.record->pid;
    }
    change["verdict"] =
        r.record ? ordered_json(gpu::controls::to_string(r.verdict)) : ordered_json(nullptr);
    change["error"] = r.outcome ? ordered_json(nullptr) : ordered_json(r.outcome.error().message);
    j["changes"].push_back(std::move(change));
  }
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void add_restore(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand("restore",
                                      "Undo what dead processes have left changed on this machine");
  auto a = std::make_shared<restore_arguments>();
  verb->add_flag("--dry-run", a->trial, "Only say what would be undone");
  verb->add_flag("--json", a->json, "As one JSON object");
  verb->footer(
      "Of this user's processes: control groups of power.control = [\"cgroup\"], and settings of\n"
      "its other words, which are again what was found. What belongs to a process that lives\n"
      "stays. The next job with the same control does this at its start.\n"
      "Exit codes: 0, 1 something could not be undone.\n\n"
      "Examples:\n"
      "  troupe power restore --dry-run\n"
      "  troupe power restore --json | jq '.changes[].verdict'");
  on_run(sh, verb, [a] { return run_restore(*a); });
}

}  // namespace troupe::apps::power_verb

// `troupe swap`: what of a job lives on a drive, and what killed processes have left there.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/train/swap_folder.hpp"
#include "apps/commands.hpp"
#include "apps/control/live_look.hpp"
#include "apps/swap/live.hpp"
#include "apps/talk.hpp"
#include "io/base/text.hpp"

namespace troupe::apps {

namespace {

/// Names what was, or would be, removed; a folder that cannot be is named too, and the first such
/// error is the outcome.
result<int> collect(const std::string& dir, bool dry_run, bool as_json) {
  TROUPE_TRY(leftovers, train::swap_leftovers(dir));
  status outcome;
  uint64_t bytes = 0;
  auto j = nlohmann::ordered_json{{"format", 1}, {"removed", nlohmann::json::array()}};
  std::string text;
  for (const auto& l : leftovers) {
    const auto removed = dry_run ? status() : train::remove_swap_leftover(l.path);
    if (!removed) {
      say("warning: " + render(removed.error()));
      if (outcome) outcome = removed;
      continue;
    }
    bytes += l.bytes;
    text += fmt::format("{} {} ({}, of job {})\n", dry_run ? "would remove" : "removed",
                        l.path.string(), bytes_text(l.bytes), l.job);
    j["removed"].push_back({{"path", l.path.string()}, {"job", l.job}, {"bytes", l.bytes}});
  }
  j["dry_run"] = dry_run;
  j["bytes"] = bytes;
  if (text.empty()) text = fmt::format("nothing in {} is left of processes that have ended\n", dir);
  TROUPE_CHECK(print(as_json ? j.dump() + "\n" : text));
  TROUPE_CHECK(outcome);
  return 0;
}

void add_show(shell& sh, command* verb) {
  struct typed {
    connect_options connect;
    live_look how;
  };
  auto a = std::make_shared<typed>();
  auto* show = verb->add_subcommand("show", "Show what of a running job lives on drives");
  show->add_flag("--follow", a->how.follow, "Again every half second, until Ctrl-C");
  show->add_flag("--json", a->how.json, "One JSON object a look");
  add_connect_options(show, a->connect);
  on_run(sh, show, [a] {
    return look(a->connect, a->how, [a](const auto& view, int columns) {
      return a->how.json ? swap::live_json(view) : swap::live_text(view, columns);
    });
  });
}

void add_gc(shell& sh, command* verb) {
  struct typed {
    std::string dir;
    bool dry_run = false, json = false;
  };
  auto a = std::make_shared<typed>();
  auto* gc = verb->add_subcommand("gc", "Remove what killed processes have left in a swap folder");
  gc->add_option("DIR", a->dir, "The folder, as swap.dir names it")
      ->required()
      ->takes(offered::folder);
  gc->add_flag("--dry-run", a->dry_run, "Only say what would be removed");
  gc->add_flag("--json", a->json, "As JSON on stdout");
  on_run(sh, gc, [a] { return collect(a->dir, a->dry_run, a->json); });
}

}  // namespace

void add_swap(shell& sh) {
  auto* verb = sh.app.add_subcommand("swap", "Look at, and clean up, state that lives on drives");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  troupe swap show --follow\n"
      "  troupe swap gc /nvme/swap --dry-run\n"
      "docs/swap.md says what lives there.");
  add_show(sh, verb);
  add_gc(sh, verb);
}

}  // namespace troupe::apps

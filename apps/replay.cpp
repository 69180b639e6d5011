// `troupe replay`: an actor's log is replayed, and where it does otherwise is told.
#include <csignal>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "actors/replay/replay.hpp"
#include "apps/commands.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps {

namespace {

struct replay_arguments {
  std::string file, actor;
  uint64_t break_at = 0;
  uint64_t most = 50;
  bool json = false;
};

/// Whether a debugger holds this process.
bool is_traced() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("TracerPid:")) return std::atoi(line.c_str() + 10) != 0;
  return false;
}

std::string debug_command(const replay_arguments& a, const std::string& actor) {
  return fmt::format("gdb -ex run --args troupe replay {} --actor {} --break-at {}", a.file, actor,
                     a.break_at);
}

/// Stops in the debugger in the actor's turn, right before the handler.
status set_break(const replay_arguments& a, const replay::logged_actor& log,
                 replay::replay_options& options) {
  if (a.break_at == 0) return {};
  if (a.break_at > log.given())
    return error{errc::usage, fmt::format("message not found: {}; {} was given {}", a.break_at,
                                          log.path, log.given())};
  if (!is_traced())
    return error{errc::usage, "--break-at needs a debugger, and none is attached",
                 fmt::format("run it under one: {}", debug_command(a, log.path))};
  options.before = [n = a.break_at, kind = log.kind](uint64_t now) {
    if (now != n) return;
    say(
        fmt::format("message {} is handled next: `rbreak {}.cpp:.` and `continue` lead into the "
                    "handler (of a build with debug information)",
                    n, kind));
    std::raise(SIGTRAP);
  };
  return {};
}

nlohmann::ordered_json json_of(const replay::logged_actor& log, const replay::replay_result& o) {
  nlohmann::ordered_json out;
  out["actor"] = o.actor;
  out["kind"] = log.kind;
  out["node"] = log.node;
  out["recorded_by"] = log.record->program_version;
  out["messages"] = log.given();
  out["handled"] = o.given;
  out["said_then"] = o.recorded;
  out["said_now"] = o.replayed;
  out["same"] = o.differences.empty();
  out["differences"] = nlohmann::ordered_json::array();
  for (const auto& d : o.differences) {
    nlohmann::ordered_json j;
    j["message"] = d.message;
    j["given"] = d.given;
    j["said"] = d.said;
    j["field"] = d.field;
    j["recorded"] = d.recorded;
    j["replayed"] = d.replayed;
    out["differences"].push_back(std::move(j));
  }
  out["not_compared"] = o.not_compared;
  out["remarks"] = o.remarks;
  return out;
}

std::string text_of(const replay::difference& d) {
  const auto head = fmt::format("message {} ({}): {}", d.message, d.given, d.said);
  if (d.field.empty() && d.replayed.empty()) return head + ": recorded, but not said now\n";
  if (d.field.empty() && d.recorded.empty()) return head + ": not in the recording\n";
  const auto name = d.field.empty() ? std::string() : d.field + " ";
  const auto value = [](const std::string& v) { return v.empty() ? std::string("nothing") : v; };
  return fmt::format("{}: {}was {}, is {}\n", head, name, value(d.recorded), value(d.replayed));
}

std::string text_of(const replay::logged_actor& log, const replay::replay_result& o,
                    uint64_t most) {
  std::string out = fmt::format("{} of {} (recorded by {}): {} given, {} said then, {} said now\n",
                                o.actor, log.node, log.record->program_version,
                                counted(o.given, "message"), o.recorded, o.replayed);
  for (size_t i = 0; i < o.differences.size() && i < most; ++i) out += text_of(o.differences[i]);
  if (o.differences.size() > most)
    out += fmt::format("... and {}\n", counted(o.differences.size() - most, "more difference"));
  if (!o.not_compared.empty())
    out += fmt::format("not compared, since they name the process: {}\n",
                       fmt::join(o.not_compared, ", "));
  for (const auto& r : o.remarks) out += r + "\n";
  out += o.differences.empty() ? "the same\n" : counted(o.differences.size(), "difference") + "\n";
  return out;
}

result<int> run_replay(const replay_arguments& a) {
  spdlog::set_level(spdlog::level::off);  // what the actor logs was logged the first time
  TROUPE_TRY(all, replay::read_actor_logs(a.file));
  TROUPE_TRY(log, replay::choose(std::move(all), a.actor));
  replay::replay_options options;
  TROUPE_CHECK(set_break(a, log, options));
  TROUPE_TRY(done, replay::replay(log, options));
  TROUPE_CHECK(print(a.json ? json_of(log, done).dump() + "\n" : text_of(log, done, a.most)));
  return done.differences.empty() ? 0 : 1;
}

}  // namespace

void add_replay(shell& sh) {
  auto* verb = sh.app.add_subcommand("replay", "Replay a recorded actor, and compare");
  auto a = std::make_shared<replay_arguments>();
  verb->add_option("FILE", a->file, "What `troupe up --record-actor` wrote")->required();
  verb->add_option("--actor", a->actor, "Which one, where the file holds several");
  verb->add_option("--break-at", a->break_at, "Stop in the debugger before message N is handled")
      ->positive();
  verb->add_option("--max", a->most, "Differences to show");
  verb->add_flag("--json", a->json, "As one JSON object");
  verb->footer(
      "A fresh actor is given what the recorded one was given, in order, on a virtual clock; what\n"
      "it answers and sends is compared. 0: the same, 1: it differs.\n\n"
      "Examples:\n"
      "  troupe up job.toml --record-actor 'stage/*'\n"
      "  troupe replay runs/job/actors-node0.trace --actor stage/0\n"
      "  gdb -ex run --args troupe replay runs/job/actors-node0.trace --break-at 12");
  on_run(sh, verb, [a] { return run_replay(*a); });
}

}  // namespace troupe::apps

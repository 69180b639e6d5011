// `troupe power frontier`: reads a profile, plans, and writes what was asked for at the end, all or
// nothing.
#include "apps/power/frontier.hpp"

#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "apps/power/power.hpp"
#include "apps/talk.hpp"
#include "io/file.hpp"

namespace troupe::apps::power_verb {

namespace {

using troupe::power::clock_profile;
using troupe::power::frontier_policy;

struct frontier_typed : pipeline_typed {
  std::string at, plan, svg;
  bool json = false;
};

error wrong_use(std::string what, std::string hint) {
  return {errc::usage, std::move(what), std::move(hint)};
}

/// How far the planning is, on a terminal, from its first second on.
class planning_line {
 public:
  ~planning_line() {
    if (shown_) say_as_is("\r\x1b[K");
  }
  void tell(double progress) {
    const auto now = std::chrono::steady_clock::now();
    if (isatty(STDERR_FILENO) != 1 || now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    shown_ = true;
    say_as_is(fmt::format("\r\x1b[Kplanning {:.0f} %", 100 * progress));
  }

 private:
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);
  bool shown_ = false;
};

/// Seconds, or none for the fastest.
result<std::optional<double>> step_of(const std::string& at) {
  if (at.empty() || at == "fastest") return std::optional<double>();
  double out = 0;
  const auto* end = at.data() + at.size();
  const auto read = std::from_chars(at.data(), end, out);
  if (read.ec != std::errc() || read.ptr != end || !(out > 0) || !std::isfinite(out))
    return wrong_use(
        fmt::format("--at is \"{}\", not \"fastest\" or a number of seconds above 0", at),
        "--at fastest keeps the step as short as it can be");
  return std::optional<double>(out);
}

status check_typed(const frontier_typed& a) {
  if (!a.plan.empty() && a.at.empty())
    return wrong_use("--plan without --at", "--at fastest, or --at SECONDS, says which plan");
  return {};
}

status check_waiting(const pipeline_typed& a) {
  if (!(a.blocking_w >= 0 && a.blocking_w <= clock_profile::most_w))
    return wrong_use(
        fmt::format("--blocking-w is {}, not from 0 to {}", a.blocking_w, clock_profile::most_w),
        "the watts of one device that waits for another stage");
  return {};
}

/// What the size of a pipeline and its waiting devices must be beside a profile.
status check_profile(const pipeline_typed& a, const clock_profile& profile) {
  const auto most = frontier_policy::most_operations;
  const auto operations =
      static_cast<size_t>(a.micro_batches) * profile.stages.size() * troupe::power::instructions;
  if (operations > most)
    return wrong_use(fmt::format("{} stages of {} micro-batches are {} operations, more than {}",
                                 profile.stages.size(), a.micro_batches, operations, most),
                     "fewer micro-batches show the same slack: it is at both ends of a step");
  double most_w = 0;
  for (const auto& stage : profile.stages)
    for (const auto& rows : stage)
      for (const auto& r : rows) most_w = std::max(most_w, r.energy_j / r.time_s);
  if (a.blocking_w >= most_w)
    return wrong_use(
        fmt::format("--blocking-w is {}, but no row of the profile draws more than {:.1f} W",
                    a.blocking_w, most_w),
        "a device that waits draws less than one that works: are both in W?");
  return {};
}

result<int> run_frontier(const frontier_typed& a) {
  TROUPE_CHECK(check_typed(a));
  TROUPE_TRY(step_s, step_of(a.at));
  TROUPE_TRY(read, read_pipeline(a));
  auto& policy = *read;
  const auto found = plan_pipeline(policy);
  frontier_told told{policy, found, troupe::power::highest_clocks(policy.dag()), {}, step_s};
  told.highest_cost =
      troupe::power::cost_of(policy.dag(), policy.profile(), told.highest, policy.blocking_w());
  const double shortest_s = found.own.front().cost.time_s;
  if (a.at == "fastest") told.step_s = shortest_s;
  if (step_s && *step_s < shortest_s)
    say(fmt::format("no clocks make a step of {} s: the plan is the fastest, {:.6g} s", *step_s,
                    shortest_s));
  if (!a.svg.empty()) TROUPE_CHECK(io::write_atomic(a.svg, frontier_svg(told)));
  if (!a.plan.empty()) TROUPE_CHECK(io::write_atomic(a.plan, frontier_plan(told)));
  TROUPE_CHECK(print(a.json ? frontier_json(told) + "\n" : frontier_text(told)));
  return 0;
}

}  // namespace

void add_pipeline(command* verb, pipeline_typed& into) {
  verb->add_option("PROFILE", into.profile,
                   "Measured clocks: stage,instruction,frequency,time,energy (MHz, s, J)")
      ->required();
  verb->add_option("--micro-batches", into.micro_batches, "Micro-batches of a step")
      ->required()
      ->within(1, static_cast<int>(frontier_policy::most_operations / 2));
  verb->add_option("--blocking-w", into.blocking_w,
                   "Watts of a device that waits for another stage")
      ->required();
}

result<std::unique_ptr<frontier_policy>> read_pipeline(const pipeline_typed& typed) {
  TROUPE_CHECK(check_waiting(typed));
  TROUPE_TRY(text, io::read_file(typed.profile, clock_profile::most_bytes));
  auto profile = troupe::power::parse_profile(text);
  if (!profile) return profile.error().within(typed.profile);
  TROUPE_CHECK(check_profile(typed, *profile));
  return std::make_unique<frontier_policy>(std::move(*profile), typed.micro_batches,
                                           typed.blocking_w);
}

troupe::power::frontier plan_pipeline(frontier_policy& policy) {
  planning_line line;
  while (policy.advance()) line.tell(policy.progress());
  return policy.take();
}

void add_frontier(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand(
      "frontier", "Which clocks cost a pipeline least energy, for every length of its step");
  verb->footer(
      "Examples:\n"
      "  troupe power frontier profile.csv --micro-batches 96 --blocking-w 84\n"
      "  troupe power frontier profile.csv --micro-batches 96 --blocking-w 84 --at fastest --plan "
      "clocks.csv\n"
      "docs/power-frontier.md says what a profile is, and what a point promises.");
  auto a = std::make_shared<frontier_typed>();
  add_pipeline(verb, *a);
  verb->add_option("--at", a->at,
                   "The plan for a step of so many seconds, or \"fastest\"; where something else "
                   "holds the step up, how long it lasts anyway");
  verb->add_option("--plan", a->plan,
                   "Write that plan here: stage,instruction,micro_batch,frequency");
  verb->add_option("--svg", a->svg, "Draw the pipeline before and after into this file");
  verb->add_flag("--json", a->json, "One JSON object");
  on_run(sh, verb, [a] { return run_frontier(*a); });
}

}  // namespace troupe::apps::power_verb

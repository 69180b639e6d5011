// The run's status as an account.
#include "apps/control/account.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/control/spares.hpp"
#include "io/base/counted.hpp"
#include "messages/any_msg.hpp"

namespace troupe::apps {

namespace {

using nlohmann::ordered_json;

/// "3:41", "1:02:07".
std::string clock_text(double s) {
  const auto all = std::llround(s);
  if (all < 3600) return fmt::format("{}:{:02}", all / 60, all % 60);
  return fmt::format("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60);
}

/// Of a span since the fault; negative: it has not come.
std::string span_text(double s) {
  return s < 0 ? "-" : fmt::format("{:.1f} s", s);
}

ordered_json span_json(double s) {
  return s < 0 ? ordered_json() : ordered_json(s);
}

ordered_json ledger_json(const fbs::TimeLedgerT& l) {
  return {{"useful_s", l.useful_s},      {"repeated_s", l.repeated_s},
          {"start_s", l.start_s},        {"detect_s", l.detect_s},
          {"diagnose_s", l.diagnose_s},  {"re_form_s", l.re_form_s},
          {"restore_s", l.restore_s},    {"checkpoint_stall_s", l.checkpoint_stall_s},
          {"paused_s", l.paused_s},      {"waiting_for_nodes_s", l.waiting_for_nodes_s},
          {"head_away_s", l.head_away_s}};
}

}  // namespace

result<fbs::RunStatusT> account_of(session& s) {
  TROUPE_TRY(answers, s.call("head", "run", make_msg<fbs::StatusRequest>(), 0));
  if (answers.answers.empty()) return error{errc::unavailable, "the cluster has no run"};
  const auto& first = *answers.answers.front();
  if (first.failure) return error{errc::unavailable, first.failure->message, first.failure->hint};
  TROUPE_TRY(m, decode(first.message, message_traits<fbs::Status>::id));
  auto status = cast<fbs::Status>(m).unpack();
  if (!status.values || !status.values->run)
    return error{errc::unavailable, "the run says nothing"};
  return std::move(*status.values->run);
}

std::string incidents_text(const fbs::RunStatusT& run) {
  auto out = fmt::format("{:>3}  {:>9}  {:<16}  {:<10}  {:>8}  {:>8}  {:>8}  {}\n", "#", "ago",
                         "finding", "who", "noticed", "named", "back", "what was done");
  for (const auto& i : run.incidents)
    out += fmt::format("{:>3}  {:>9}  {:<16}  {:<10}  {:>8}  {:>8}  {:>8}  {}\n", i->number,
                       clock_text(i->ago_s), i->finding, i->node.empty() ? "-" : i->node,
                       span_text(i->noticed_s), span_text(i->named_s), span_text(i->back_s),
                       i->done.empty() ? "recovering" : i->done);
  return out;
}

std::string account_text(const fbs::RunStatusT& run, const fbs::SparesT* spares) {
  auto out =
      fmt::format("training for {}, effective {:.1f} % (last hour {:.1f} %)",
                  clock_text(run.wall_s), run.effective_percent, run.effective_last_hour_percent);
  if (run.recoveries > 0)
    out += fmt::format("; {}, {} repeated", counted(run.recoveries, "recovery", "recoveries"),
                       counted(run.steps_repeated, "step"));
  if (spares != nullptr && spares->configured > 0)
    out += fmt::format("; spares {} of {}", ready_in(*spares), spares->configured);
  if (run.replicas < run.replicas_configured)
    out += fmt::format("; {} of {} replicas", run.replicas, run.replicas_configured);
  out += "\n";
  return run.incidents.empty() ? out : out + incidents_text(run);
}

ordered_json account_json(const fbs::RunStatusT& run) {
  ordered_json j{{"step", run.step},
                 {"wall_s", run.wall_s},
                 {"effective_percent", run.effective_percent},
                 {"effective_last_hour_percent", run.effective_last_hour_percent},
                 {"recoveries", run.recoveries},
                 {"steps_repeated", run.steps_repeated},
                 {"replicas", run.replicas},
                 {"replicas_configured", run.replicas_configured}};
  if (run.ledger) j["ledger"] = ledger_json(*run.ledger);
  j["incidents"] = ordered_json::array();
  for (const auto& i : run.incidents)
    j["incidents"].push_back({{"number", i->number},
                              {"ago_s", i->ago_s},
                              {"finding", i->finding},
                              {"node", i->node},
                              {"what", i->what},
                              {"noticed_s", span_json(i->noticed_s)},
                              {"named_s", span_json(i->named_s)},
                              {"back_s", span_json(i->back_s)},
                              {"epoch_from", i->epoch_from},
                              {"epoch_to", i->epoch_to},
                              {"fell_after_step", i->fell_after_step},
                              {"resumed_after_step", i->resumed_after_step},
                              {"done", i->done},
                              {"rule", i->rule},
                              {"action", i->action},
                              {"times_left", i->times_left}});
  return j;
}

}  // namespace troupe::apps

// Nanoseconds to seconds, clock readings to spans.
#include "actors/train/account.hpp"

namespace troupe::train {

namespace {

double seconds(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

}  // namespace

std::unique_ptr<fbs::TimeLedgerT> to_message(const health::time_entries& entries) {
  using enum health::time_use;
  auto out = std::make_unique<fbs::TimeLedgerT>();
  out->useful_s = seconds(entries[useful]);
  out->repeated_s = seconds(entries[repeated]);
  out->start_s = seconds(entries[start]);
  out->detect_s = seconds(entries[detect]);
  out->diagnose_s = seconds(entries[diagnose]);
  out->re_form_s = seconds(entries[re_form]);
  out->restore_s = seconds(entries[restore]);
  out->checkpoint_stall_s = seconds(entries[checkpoint_stall]);
  out->paused_s = seconds(entries[health::time_use::paused]);
  out->waiting_for_nodes_s = seconds(entries[waiting_for_nodes]);
  out->head_away_s = seconds(entries[head_away]);
  return out;
}

std::unique_ptr<fbs::IncidentT> to_message(const health::incident& fault, int64_t now_ns) {
  auto out = std::make_unique<fbs::IncidentT>();
  out->number = fault.number;
  out->finding = fault.finding;
  out->node = fault.node;
  out->what = fault.what;
  out->epoch_from = fault.epoch_from;
  out->epoch_to = fault.epoch_to;
  out->fell_after_step = fault.fell_after_step;
  out->resumed_after_step = fault.resumed_after_step;
  out->noticed_s = fault.after_s(fault.noticed_ns);
  out->named_s = fault.after_s(fault.named_ns);
  out->back_s = fault.after_s(fault.back_ns);
  out->ago_s = seconds(now_ns - fault.noticed_ns);
  out->done = fault.done;
  out->rule = static_cast<uint32_t>(fault.rule);
  out->action = fault.action;
  out->times_left = fault.times_left;
  return out;
}

void put_account(const job_policy& job, int64_t now_ns, fbs::RunStatusT& into) {
  const auto& ledger = job.ledger();
  into.wall_s = seconds(ledger.whole().wall_ns());
  into.effective_percent = 100 * ledger.whole().effective();
  into.effective_last_hour_percent = 100 * ledger.last_hour().effective();
  into.ledger = to_message(ledger.whole());
  into.recoveries = job.recoveries();
  into.steps_repeated = ledger.steps_repeated();
  into.replicas = job.replicas();
  into.replicas_configured = job.replicas_configured();
  into.incidents.clear();
  for (const auto& fault : job.incidents()) into.incidents.push_back(to_message(fault, now_ns));
}

}  // namespace troupe::train

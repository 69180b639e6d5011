// Both directions, field by field.
#include "actors/job/job_memory.hpp"

#include <algorithm>
#include <memory>

#include "actors/job/skipped_data.hpp"

namespace troupe::train {

namespace {

void put(const job_account& account, fbs::JobMemoryT& out) {
  out.epoch = account.epoch;
  out.incidents = account.incidents;
  out.recoveries = account.recoveries.begun;
  out.recovered_ns = account.recoveries.within_hour_ns;
  for (const auto& [rule, times] : account.recoveries.applied_ns) {
    auto& use = *out.rules.emplace_back(std::make_unique<fbs::RuleUseT>());
    use.rule = static_cast<uint32_t>(rule);
    use.applied_ns = times;
  }
  for (size_t use = 0; use < health::time_uses; ++use)
    out.account_ns.push_back(account.time[static_cast<health::time_use>(use)]);
  out.account_at_ns = account.at_ns;
  out.steps_repeated = account.steps_repeated;
}

job_account account_in(const fbs::JobMemoryT& m) {
  job_account out{m.epoch, m.incidents, {m.recoveries, m.recovered_ns, {}}};
  for (const auto& use : m.rules) out.recoveries.applied_ns[use->rule] = use->applied_ns;
  for (size_t use = 0; use < std::min(health::time_uses, m.account_ns.size()); ++use)
    out.time[static_cast<health::time_use>(use)] = std::max<int64_t>(0, m.account_ns[use]);
  out.at_ns = m.account_at_ns;
  out.steps_repeated = m.steps_repeated;
  return out;
}

}  // namespace

job_memory moved_by(job_memory memory, int64_t ns) {
  auto& account = memory.account;
  if (account.at_ns != 0) account.at_ns += ns;
  for (auto& at : account.recoveries.within_hour_ns) at += ns;
  for (auto& [rule, times] : account.recoveries.applied_ns)
    for (auto& at : times) at += ns;
  return memory;
}

fbs::JobMemoryT to_message(const job_memory& memory) {
  fbs::JobMemoryT out;
  out.paused = memory.paused;
  out.pause_reason = memory.pause_reason;
  for (const auto& from : memory.settings) {
    auto& to = *out.settings.emplace_back(std::make_unique<fbs::SettingChangeT>());
    to.key = from.key;
    to.value = from.value;
    to.was = from.was;
    to.step = from.step;
  }
  put(memory.account, out);
  out.copies_epoch = static_cast<uint32_t>(memory.copies.epoch);
  if (const auto& from = memory.copies.from) {
    out.copies_from_epoch = static_cast<uint32_t>(from->epoch);
    out.copies_from_step = from->step;
  }
  out.skipped = to_message(memory.skipped);
  if (memory.rewind) {
    out.rewind = std::make_unique<fbs::RewindT>();
    out.rewind->step = memory.rewind->at_most;
    out.rewind->skip_steps = memory.rewind->skip_steps;
    out.rewind->reason = memory.rewind->reason;
  }
  if (memory.lost) {
    out.lost = std::make_unique<fbs::LostHeadT>();
    out.lost->how = memory.lost->how;
    out.lost->after_step = memory.lost->after_step;
    out.lost->furthest_step = memory.lost->furthest_step;
    out.lost->at_ns = memory.lost->at_ns;
  }
  return out;
}

job_memory memory_in(const fbs::JobMemoryT& m) {
  job_memory out{m.paused, m.pause_reason, {}};
  for (const auto& s : m.settings) out.settings.push_back({s->key, s->value, s->was, s->step});
  out.account = account_in(m);
  out.copies.epoch = m.copies_epoch;
  if (m.copies_from_epoch != 0)
    out.copies.from = io::checkpoint::copy_tag{m.copies_from_epoch, m.copies_from_step};
  out.skipped = skipped_in(m.skipped);
  if (m.rewind)
    out.rewind = rewind_order{m.rewind->step, m.rewind->skip_steps, m.rewind->reason};
  if (m.lost)
    out.lost =
        lost_head{m.lost->how, m.lost->after_step, m.lost->furthest_step, m.lost->at_ns};
  return out;
}

}  // namespace troupe::train

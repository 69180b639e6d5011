// From votes, a journal and an account to a beginning.
#include "actors/train/succession.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace troupe::train {

namespace {

result<kept_journal> journal_for(io::file_system& files, const std::filesystem::path& output,
                                 const head_before& before) {
  if (!before.lost) return begin_journal(files, output);
  return before.won ? begin_journal_from(files, output, before.won->held) : recall(files, output);
}

}  // namespace

succession succeed(io::file_system& files, const config::job& job, uint32_t epoch,
                   const head_before& before) {
  succession out{epoch};
  if (auto kept = journal_for(files, job.job.output, before))
    out.journal = std::make_shared<kept_journal>(std::move(*kept));
  else
    out.not_kept = kept.error();
  const auto& won = before.won;
  if (before.lost) {
    out.memory = out.journal && out.journal->memory ? *out.journal->memory : job_memory{};
    if (won) out.memory = moved_by(*out.memory, won->clock_ahead_ns);
    if (!before.is_told) out.memory->lost = before.lost;
    if (out.journal) out.cluster = out.journal->cluster;
    if (out.cluster) out.first_launch = out.cluster->launch;         // SUC-2
    out.epoch = std::max(out.epoch, out.memory->account.epoch + 1);  // SUC-1
    if (won) out.held = won->held;
  }
  if (job.cluster.heads.empty()) return out;
  out.epoch = std::max(out.epoch,
                       won ? won->epoch : heads::latest_promise(files, job.job.output) + 1);
  return out;
}

heads::elector_options acting_elector(const config::job& job, const std::string& address,
                                      const succession& from) {
  heads::elector_options out;
  out.name = address;
  out.cluster = job.cluster;
  out.output = job.job.output;
  out.acting = from.epoch;
  out.begins_with = from.held;
  return out;
}

std::optional<lost_head> lost_head_of(const heads::won_epoch& won) {
  if (won.lost_head.empty()) return std::nullopt;
  return lost_head{fmt::format("at {} {}", won.lost_head, won.how), won.step, won.step,
                   won.lost_ns};
}

bool acts_no_more(const error& why) {
  return why.is(heads::outvoted) || why.is(heads::no_majority);
}

lost_head fallen_head(const error& why, uint64_t last_step, int64_t now_ns) {
  return {"acted no more: " + why.message, last_step, last_step, now_ns};
}

heads::takeover_policy::rules rules_after_fall(uint64_t last_step) {
  return {.at_once = last_step == 0, .job_runs = true};
}

heads::takeover_policy::rules takeover_rules(heads::takeover_policy::rules how,
                                             const config::job& job, const std::string& address) {
  const auto& all = job.cluster.heads;
  how.patience_ns = job.recovery.head_takeover_s * 1'000'000'000;
  how.place = static_cast<uint32_t>(std::find(all.begin(), all.end(), address) - all.begin());
  return how;
}

}  // namespace troupe::train

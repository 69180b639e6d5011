// The summary, with what the model writes by now.
#include "apps/up/conclude.hpp"

#include <string.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "apps/exit_codes.hpp"
#include "apps/kept_expectation.hpp"
#include "apps/past_steps.hpp"
#include "apps/sample.hpp"
#include "apps/talk.hpp"

namespace troupe::apps {

namespace {

/// A sample of what the model has learned, into the summary. A failure is a remark, not the run's
/// failure.
void add_sample(const config::job& job, const stop_signals& signals, report::summary& summary) {
  if (job.train.sample_tokens == 0 || summary.checkpoint.empty()) return;
  if (signals.asked() != 0) return say("no sample: interrupted");
  sample_options options;
  options.checkpoint = summary.checkpoint;
  const std::string prompt = job.train.sample_prompt.empty() ? "\n" : job.train.sample_prompt;
  options.pick.max_tokens = job.train.sample_tokens;
  options.pick.seed = static_cast<uint64_t>(job.job.seed);
  options.pick.temperature = 0.8;
  options.wanted = [&signals] { return signals.asked() == 0; };
  auto model = text_model::open(options);
  if (!model) return say(fmt::format("no sample: {}", model.error().message));
  auto made = (*model)->go_on(prompt);
  if (!made) return say(fmt::format("no sample: {}", made.error().message));
  summary.prompt = prompt;
  summary.sample = std::move(made->text);
}

/// So that the next one is told what to expect.
void remember(const config::job& job, const step_times& times,
              const std::optional<report::expected_ms>& expected,
              const std::optional<run_machines>& elsewhere) {
  const auto run = times.run_of(job, expected, elsewhere);
  if (!run) return;
  const auto kept = remember_run(*run);
  // Where there is no place to keep things in, as in many containers, nobody is told each time.
  if (!kept && kept.error().code != errc::permission && kept.error().code != errc::not_found)
    say("warning: what steps took is not remembered: " + render(kept.error()));
}

status show_summary(const config::job& job, const report::summary& summary) {
  if (job.log.format == config::log_format::json)
    return print(report::summary_json(summary) + "\n");
  report::canvas canvas;
  canvas.columns = std::min(100, terminal_columns(STDOUT_FILENO, 80));
  canvas.utf8 = speaks_utf8();
  return print("\n" + report::summary_text(summary, canvas));
}

/// What a person does who goes on with a run that a signal ended in order.
std::string how_to_go_on(const config::job& job, const report::summary& summary, int signal) {
  const auto stopped = fmt::format("stopped by SIG{}", sigabbrev_np(signal));
  if (summary.checkpoint.empty()) return stopped + ": the same command starts it again";
  return fmt::format("{}: the same command{} goes on from {}", stopped,
                     job.checkpoint.resume == "auto" ? "" : " with --set checkpoint.resume=auto",
                     summary.checkpoint);
}

/// A launcher that was stopped for too long finds its nodes gone: they could not know.
bool was_taken_for_dead(const config::cluster_section& cluster, const run_outcome& outcome,
                        const run_end& ended) {
  // A node counts from the last answer, which may be a heartbeat older than the absence.
  return outcome.why.code == errc::unavailable && ended.deserted &&
         ended.absence.count() + cluster.heartbeat_interval_ms >= cluster.dead_after_ms;
}

error absent(const config::cluster_section& cluster, const run_end& ended) {
  return {errc::unavailable,
          fmt::format("this process did not run for {:.1f} s, and cluster.dead_after_ms is {}: its "
                      "nodes took it for dead and ended",
                      static_cast<double>(ended.absence.count()) / 1e3, cluster.dead_after_ms),
          "it was stopped (Ctrl-Z, SIGSTOP) or got no processor; start it again: it continues from "
          "the last checkpoint"};
}

}  // namespace

result<int> conclude(const config::job& job, run_outcome& outcome, const run_end& ended,
                     const stop_signals& signals) {
  std::unique_lock lock(outcome.mutex);
  if (outcome.why.code != errc::none && outcome.why.code != errc::cancelled)
    return was_taken_for_dead(job.cluster, outcome, ended) ? absent(job.cluster, ended)
                                                            : outcome.why;
  const bool early = outcome.why.code == errc::cancelled;
  if (early && ended.signal == 0) say("ended before the last step: " + outcome.why.message);
  if (!early && outcome.summary.steps == 0 && outcome.last_step > 0)
    say(fmt::format("nothing to do: {} holds step {} of {}", outcome.summary.checkpoint,
                    outcome.last_step, job.train.steps));
  auto summary = outcome.summary;
  const auto times = outcome.times;
  const auto elsewhere = outcome.machines;
  lock.unlock();  // a sample takes its time
  if (!summary.expected || summary.expected->by_probes)  // what a plan measured outranks probes
    if (const auto kept = kept_expectation(job)) summary.expected = kept;
  add_sample(job, signals, summary);
  TROUPE_CHECK(show_summary(job, summary));
  remember(job, times, summary.expected, elsewhere);
  if (!early) return 0;  // after the last step whoever stops it is too late
  if (ended.signal == 0) return stopped_early;
  say(how_to_go_on(job, summary, ended.signal));
  return 128 + ended.signal;
}

}  // namespace troupe::apps

// Rows of the property table: what goes wrong in a run, and what is expected of it.
#include "io/config/job_table.hpp"

namespace troupe::config::detail {

namespace {

using timeouts_s = timeouts_section;

constinit const property upkeep_rows[] = {
    key<&job::timeouts, &timeouts_s::start_s>(
        "timeouts.start_s",
        "Seconds for a phase of the start on one node: open the data, build, load; of tokenising, "
        "without a word of how far it has come",
        within(1, week_s)),
    key<&job::timeouts, &timeouts_s::step_s>(
        "timeouts.step_s", "Seconds for a step, or a validation, on one rank", within(1, week_s)),
    key<&job::timeouts, &timeouts_s::operation_s>(
        "timeouts.operation_s",
        "Seconds for one operation of a worker: forward, backward, update of a micro-batch",
        within(1, week_s)),
    key<&job::timeouts, &timeouts_s::save_s>(
        "timeouts.save_s",
        "Seconds for a rank's share of a checkpoint, and for its commit, before it is given up",
        within(1, week_s)),

    key<&job::recovery, &recovery_section::enabled>(
        "recovery.enabled",
        "Go on from the last checkpoint when a node is lost: its process is started again, the "
        "others stay; false = the run ends"),
    key<&job::recovery, &recovery_section::quiet_ms>(
        "recovery.quiet_ms",
        "Milliseconds for the ranks of a node that lives to end in a recovery, before the node "
        "counts as lost, too",
        within(10, 3'600'000)),
    key<&job::recovery, &recovery_section::wait_s>(
        "recovery.wait_s", "Seconds for missing nodes to join in a recovery, before the run ends",
        within(1, week_s)),
    key<&job::recovery, &recovery_section::fewer_replicas>(
        "recovery.fewer_replicas",
        "Go on with fewer replicas where a node stays away and no spare can have its place, and "
        "with more once there are nodes again; false = the run waits for the node"),
    key<&job::recovery, &recovery_section::return_s>(
        "recovery.return_s",
        "Seconds for a lost node to come back, before the run goes on with fewer replicas",
        within(1, week_s)),
    key<&job::recovery, &recovery_section::most_per_hour>(
        "recovery.most_per_hour", "Recoveries within an hour; the run ends instead of one more",
        within(1, 1'000)),
    key<&job::recovery, &recovery_section::stuck_after_s>(
        "recovery.stuck_after_s",
        "Seconds that a rank may hold up all others, once it is found to, before its node is taken "
        "for lost; 0 = for ever",
        within(0, week_s)),
    key<&job::recovery, &recovery_section::evict_slow>(
        "recovery.evict_slow",
        "Take a node whose rank is a straggler in 5 windows one after the other for lost, where a "
        "spare can have its place; false = it is only told"),
    key<&job::recovery, &recovery_section::head_grace_s>(
        "recovery.head_grace_s",
        "Seconds that nodes whose head is lost keep what they hold and look for the one that is "
        "started in its place; 0 = they end with it",
        within(0, week_s)),
    key<&job::recovery, &recovery_section::head_takeover_s>(
        "recovery.head_takeover_s",
        "Seconds without a word of the head that acts after which one that stands by "
        "(cluster.heads) wants to act in its place",
        within(1, 3600)),
    key<&job::recovery, &recovery_section::on_spike>(
        "recovery.on_spike",
        "What is done where the loss rises far beyond what it varied (health.spike_deviations) or "
        "is no number: tell = that is said, and a loss that is no number ends the run; rewind = it "
        "goes back to an earlier state; rewind_skip = and passes over the data of the steps "
        "since"),
    key<&job::recovery, &recovery_section::spike_steps_back>(
        "recovery.spike_steps_back",
        "Steps before the first one of a spike to which recovery.on_spike goes back, at least; "
        "where no checkpoint is so old, to the newest one before the spike",
        within(0, 1'000'000'000)),

    key<&job::health, &health_section::stuck_after_s>(
        "health.stuck_after_s",
        "Seconds without an operation that ends on any rank after which the training counts as "
        "stuck, and who holds it up is looked for; at least 5 times what the operation took "
        "before, up to the greater of 10 minutes and timeouts.operation_s",
        within(1, week_s)),
    key<&job::health, &health_section::detector>(
        "health.detector",
        "By what a silent node is judged: fixed = cluster.suspect_after_ms and dead_after_ms, phi "
        "= "
        "how its heartbeats came so far, too: given up after dead_after_ms at the earliest, after "
        "three times that at the latest"),
    key<&job::health, &health_section::digest_every>(
        "health.digest_every",
        "Steps from one comparison of the replicas' weights, bit by bit, to the next; those after "
        "a checkpoint's step are compared, too; 0 = never",
        within(0, 1'000'000'000)),
    key<&job::health, &health_section::recheck_every>(
        "health.recheck_every",
        "Steps from one comparison of what ranks compute (one layer, forward and backward, on "
        "made-up numbers) to the next; 0 = never",
        within(0, 1'000'000'000)),
    key<&job::health, &health_section::spike_deviations>(
        "health.spike_deviations",
        "Three losses in a row above the median of the last 100 steps by so many times what those "
        "scattered are a spike; 0 = none is",
        within(0.0, 1e6)),
    key<&job::health, &health_section::window_s>(
        "health.window_s",
        "Seconds of training, and 3 steps, that stragglers and steps that take longer are judged "
        "by at a time",
        within(1, 3'600)),
    key<&job::health, &health_section::straggler_percent>(
        "health.straggler_percent",
        "Percent of a step that a rank must cost all others, by computing longer than its peers, "
        "to be a straggler; 0 = none is named",
        within(0, 100)),
    key<&job::health, &health_section::regression_percent>(
        "health.regression_percent",
        "Percent that steps must take longer, in 5 windows one after the other, than in the best "
        "5 of their epoch to be a step_regression; 0 = it is never told",
        within(0, 1'000)),
    key<&job::health, &health_section::checkup_at_join>(
        "health.checkup_at_join",
        "Before a node takes ranks it multiplies known matrices on each processor and tests some "
        "memory; one that errs is not taken"),
    key<&job::health, &health_section::checkup_on_suspicion>(
        "health.checkup_on_suspicion",
        "While the job trains, the machine of a node that a finding makes a suspect (straggler, "
        "wrong_bits, disk_slow, disk_failing, frozen_process) is examined as by `troupe doctor`, "
        "at most once in 10 minutes"),

    key<&job::predict, &predict_section::enabled>(
        "predict.enabled",
        "What each part of a step takes is learned while the job trains, for whoever asks what to "
        "expect; without it the job trains as with it"),
    key<&job::predict, &predict_section::store>(
        "predict.store",
        "File in which what parts of steps took is kept for later starts, and for jobs that name "
        "the same one; empty = part-times.jsonl in job.output"),
    key<&job::predict, &predict_section::prior>(
        "predict.prior",
        "Model file (.tpm) that `troupe predict train` made of machines: by it machines that were "
        "not probed are expected to be as quick beside others; empty = probes alone say that"),
    key<&job::predict, &predict_section::suspect_percent>(
        "predict.suspect_percent",
        "Percent that a part of a rank's step (forward, update, ...) must take longer than it did "
        "in the epoch's first steps, less what all ranks do, to be a slow_part; 0 = none is named",
        within(0, 1'000)),
    key<&job::predict, &predict_section::quiet_steps>(
        "predict.quiet_steps", "Steps of an epoch that make what is normal of each part of a rank",
        within(8, 1'000)),
    key<&job::predict, &predict_section::probe>(
        "predict.probe",
        "Before its first steps each machine that computes on its processors is probed, once in a "
        "start of the machine, by which steps are expected until some are measured: quick = for 2 "
        "seconds at most, full = for 9; off = none is"),
    key<&job::predict, &predict_section::memory>(
        "predict.memory",
        "Configurations of the work of each part that are learned from, the newest: a fit of fewer "
        "takes less time and memory of the head",
        within(16, 512)),
};

}  // namespace

std::span<const property> upkeep_table() {
  return upkeep_rows;
}

}  // namespace troupe::config::detail

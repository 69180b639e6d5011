#!/usr/bin/env python3
"""Takes each guard of the program out, one at a time, and shows the test that sees it (docs/testing.md).

    tests/guards/without.py                 all of them
    tests/guards/without.py --only ingress-deadline --only lock-kernel
    tests/guards/without.py --list          what there is, without building
    tests/guards/without.py --json          the same table for machines

Why: a guard whose loss no test sees is kept by nobody. A table of what was once tried by hand grows old; this one
is tried again by one command.

How: the working tree's tracked files are copied to build/guards/tree, and in the copy each guard becomes a choice
at run time: whole, unless the environment variable TROUPE_WITHOUT names it. So one build serves all, the tests run
as they are with nothing taken out (they must pass) and then with each guard out (they must fail). Nothing of this
is in the product. Processes that tests start inherit the variable, but for those of `nobody` in the tests named
"other user", whose environment is empty: there the cluster has lost the guard and the stranger is whole.

The text of a guard must stand in its file exactly once; where the code was changed the script says so and ends.
Exit code: 0: each loss was seen; 1: one was not, or a test fails by itself; 2: the table does not fit the code.
"""
import argparse
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COPY = ROOT / "build/guards/tree"
SWITCH = "TROUPE_WITHOUT"
HEADER = "troupe_without.hpp"
HEADER_TEXT = f"""// Written by tests/guards/without.py: whether a guard is out in this run.
#pragma once
#include <cstdlib>
#include <cstring>
inline bool troupe_without(const char* guard) noexcept {{
  static const char* const out = std::getenv("{SWITCH}");
  return out != nullptr && std::strcmp(out, guard) == 0;
}}
"""
TIME_LIMIT_S = 1500  # a net against hangs, as CTest's for clusters


@dataclass(frozen=True)
class Test:
    binary: str
    cases: str      # doctest's filter
    variables: str  # of the environment, as "NAME=VALUE "

    def __str__(self):
        return f"{self.variables}{self.binary} -tc='{self.cases}'"


def test_of(text):
    """From "[NAME=VALUE ]BINARY: FILTER"."""
    found = re.fullmatch(r"((?:[A-Z_]+=\S+ )*)(\w+): (.+)", text)
    return Test(found[2], found[3], found[1])


@dataclass(frozen=True)
class Guard:
    id: str
    holds: str
    file: str
    text: str         # as it stands in the file, once
    replacement: str  # with OUT for "the guard is out"
    tests: tuple      # of Test: each of them sees it


def guard(id, holds, file, text, replacement, *tests):
    return Guard(id, holds, file, text, replacement.replace("OUT", f'::troupe_without("{id}")'),
                 tuple(test_of(t) for t in tests))


GUARDS = (
    # -- who may come in, and say what ---------------------------------------------------------------
    guard("secret-by-chance", "a job's secret cannot be guessed: without it, it is all zeros", "io/tls/keyring.cpp",
          "if (RAND_priv_bytes(out.bytes_.data(), static_cast<int>(out.bytes_.size())) != 1)",
          "if (!OUT && RAND_priv_bytes(out.bytes_.data(), static_cast<int>(out.bytes_.size())) != 1)",
          "test_io: keyring: a secret makes every key*", "test_cluster: other user: neither commands nor joins*"),
    guard("messages-of-nodes", "nobody has a message sent that only nodes send (CON-4)", "messages/contract.cpp",
          "status may_be_carried(const any_msg& inner) {\n",
          "status may_be_carried(const any_msg& inner) {\n  if (OUT) return {};\n",
          "test_messages: contract: nobody has*",
          "test_cluster: roles: what only nodes say is refused*"),
    guard("user-by-kernel", "who bears a key on this machine has the name that the kernel knows (LNK-3)",
          "actors/cluster/loopback_user.cpp",
          "if (!here || !there) return std::nullopt;",
          "if (OUT || !here || !there) return std::nullopt;",
          "test_actors: loopback: the kernel knows who we are", "test_cluster: other user: with a key handed to him*"),
    guard("certificate-of-place", "no link to a host that its certificate is not for (LNK-4)",
          "actors/cluster/tls_links.cpp",
          "if (by_certificate && !accepted && !is_where_expected(fd, *who)) return",
          "if (!OUT && by_certificate && !accepted && !is_where_expected(fd, *who)) return",
          "test_cluster: certificates: nobody links to a host*"),
    guard("ingress-deadline", "who says nothing is hung up on (GAT-5)", "actors/cluster/admission.cpp",
          "for (const auto number : policy_.overdue(whom_->now_ns()))\n",
          "for (const auto number : OUT ? std::vector<int64_t>() : policy_.overdue(whom_->now_ns()))\n",
          "test_cluster: crowd: who connects and says nothing*"),
    guard("ingress-crowd", "of too many strangers the oldest gives way (GAT-5)", "actors/cluster/admission.cpp",
          "if (const auto out = policy_.came(who.number, who.address, whom_->now_ns()))",
          "if (const auto out = policy_.came(who.number, who.address, whom_->now_ns()); out && !OUT)",
          "test_cluster: crowd: idle*"),
    guard("recheck-by-itself", "who differs from itself, or from what is known, is named (RCK-2)",
          "actors/health/recheck_policy.cpp",
          "return r.known_wrong > 0 || (!r.again.empty() && r.again != r.digests);",
          "return !OUT && (r.known_wrong > 0 || (!r.again.empty() && r.again != r.digests));",
          "test_actors: RCK-2: rechecks: who differs from itself*",
          "test_cluster: drills: fewer than three replicas*"),
    guard("recheck-likeness", "unlike devices are not held against each other (RCK-1)",
          "actors/health/recheck_policy.cpp",
          "groups[{r->likeness, r->digests.size()}]",
          "groups[{OUT ? 0 : r->likeness, r->digests.size()}]",
          "test_actors: RCK-1*"),
    guard("recheck-leaves-zero", "a rechecked layer leaves no gradient behind (LRC-1)", "actors/train/layer_recheck.cpp",
          "  s.zero(gradient, store.bytes(memory.chunk, gpu::part::grad));",
          "  if (!OUT) s.zero(gradient, store.bytes(memory.chunk, gpu::part::grad));",
          "test_actors: LRC-1*"),
    guard("recheck-held", "the newest checkpoint before a clean comparison is held from retention (JOB-20)",
          "actors/train/job_wrong_bits.cpp",
          "  if (saved_step_ > of.step || saved_step_ <= of.held) return;",
          "  if (OUT || saved_step_ > of.step || saved_step_ <= of.held) return;",
          "test_actors: JOB-20: job: the newest checkpoint*", "test_cluster: drills: who computes wrongly*"),
    guard("recheck-goes-back", "no state younger than the last that was good is gone back to (JOB-13, JOB-20)",
          "actors/train/job_wrong_bits.cpp",
          "    at_most_ = good.step;",
          "    if (!OUT) at_most_ = good.step;",
          "test_actors: JOB-20: job: who computes otherwise*", "test_cluster: drills: who computes wrongly*"),
    guard("rank-proof", "a digest is compared: without it, whoever has 32 bytes is a rank (PLK-1, PLK-3, COM-6)",
          "gpu/collective/pair_proof.cpp",
          "bool same_digest(std::string_view bytes, const pair_bytes& expected) {\n",
          "bool same_digest(std::string_view bytes, const pair_bytes& expected) {\n  if (OUT) return true;\n",
          "test_gpu: pair proof: a digest is of one side*"),
    # -- what is not ours ----------------------------------------------------------------------------
    guard("removal-by-claim", "a folder with anything in it that its claim does not name is not removed (OWN-1)",
          "io/folder/owned.cpp",
          "if (!plain || !ours.names(c.name))  // OWN-1",
          "if (!OUT && (!plain || !ours.names(c.name)))",
          "test_io: owned: removed in*",
          "TROUPE_PLACEMENTS=24 test_cluster: placements: nothing that is not ours*"),
    guard("removal-mounts", "what is mounted is neither removed nor entered (OWN-2)", "io/folder/owned.cpp",
          "bool is_mount_point(int fd, dev_t parent_device) {\n",
          "bool is_mount_point(int fd, dev_t parent_device) {\n  if (OUT) return false;\n",
          "test_io: owned: a mount point is not entered"),
    guard("export-place", "a model takes the place of a model and of nothing else (EX-2)",
          "io/checkpoint/export.cpp",
          "status check_export(const fs::path& folder) {\n",
          "status check_export(const fs::path& folder) {\n  if (OUT) return {};\n",
          "test_cluster: placements: an output with*"),
    guard("save-place", "what bears a step's name and is no checkpoint of ours stays where it is (SV-7)",
          "io/checkpoint/save.cpp",
          "if (ours.files.empty())  // SV-7",
          "if (!OUT && ours.files.empty())",
          "test_io_checkpoint: SV-7*"),
    guard("lines-apart", "retention gives up no checkpoint of another line (RT-4)", "io/checkpoint/retention.cpp",
          'if (e.head && !leads_to(line_of(*e.head), now.line)) add(why[i], "of another line");',
          'if (!OUT && e.head && !leads_to(line_of(*e.head), now.line)) add(why[i], "of another line");',
          "test_io_checkpoint: RT-4*"),
    guard("lines-not-counted", "retention counts no checkpoint of another line (RT-4)", "io/checkpoint/retention.cpp",
          "leads_to(line_of(*catalog[i].head), now.line))  // RT-4",
          "(OUT || leads_to(line_of(*catalog[i].head), now.line)))",
          "test_io_checkpoint: RT-4*"),
    # -- one at a time -------------------------------------------------------------------------------
    guard("lock-kernel", "a folder has one launcher at a time (LCK-1)", "io/folder/lock.cpp",
          "if (::fcntl(fd, F_OFD_SETLK, &whole) == 0) return true;",
          "if (OUT || ::fcntl(fd, F_OFD_SETLK, &whole) == 0) return true;",
          "test_io: lock: one at a time*"),
    guard("lock-not-inherited", "the children of a dead holder hold nothing (O_CLOEXEC)", "io/folder/lock.cpp",
          "O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644",
          "O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | (OUT ? 0 : O_CLOEXEC), 0644",
          "test_io: lock: a holder that was killed*"),
    guard("lock-elsewhere", "a holder on another host is believed (LCK-2)", "io/folder/lock.cpp",
          "return written && written->host != self.host && written->boot != self.boot;",
          "return !OUT && written && written->host != self.host && written->boot != self.boot;",
          "test_io: lock: a holder on another host*", "test_cluster: folders: a holder on another host*"),
    # -- what persons ask, and what is said ----------------------------------------------------------
    guard("audit-first", "what cannot be written into the audit log is not done (ADT-2)", "actors/control/audit.cpp",
          "  if (!from_reserve)\n"
          "    if (const auto room = make_room(text.size()); !room) return remember(room.error());\n"
          "  auto place = append(std::move(text));\n",
          "  if (!from_reserve && !OUT)\n"
          "    if (const auto room = make_room(text.size()); !room) return remember(room.error());\n"
          "  auto place = append(std::move(text));\n"
          "  if (!place && OUT) return audit_place{};\n",
          "test_actors: audit: what cannot be written is an error*", "test_cluster: audit: with a full disk*"),
    guard("log-printable", "words of others neither forge a line nor reach a terminal as commands (SH-5)",
          "apps/log_format.cpp",
          "const auto text = printable({line.payload.data(), line.payload.size()});",
          "const auto text = OUT ? std::string(line.payload.data(), line.payload.size())\n"
          "                          : printable({line.payload.data(), line.payload.size()});",
          "test_apps: log: words of others*"),
    guard("one-word", "two equal signals within a second are one (STP-1)", "apps/up/stop_policy.hpp",
          "if (again) return stop_verdict::nothing;",
          "if (again && !OUT) return stop_verdict::nothing;",
          "test_apps: stop: STP-1*"),
    guard("voice-deaf", "a reader that went is no signal to who writes (VO-3)", "apps/voice.cpp",
          "    sigfillset(&all);\n",
          "    if (OUT)\n      sigemptyset(&all);\n    else\n      sigfillset(&all);\n",
          "test_apps: voice: VO-1* VO-3*"),
    guard("answer-holds", "a setting is used first by the step that its answer names (REQ-1)", "actors/train/job_policy.cpp",
          "  requests_.step_begins();",
          "  if (!OUT) requests_.step_begins();",
          "test_cluster: console: a setting is used first*"),
    guard("answer-waits", "no setting takes effect in the midst of a step (REQ-2)", "actors/train/job_policy.cpp",
          "  if (!good || state_ != paused || pauses_.contains(pause_cause::room)) return;",
          "  if (OUT && good && state_ != paused) take_effect();\n"
          "  if (!good || state_ != paused || pauses_.contains(pause_cause::room)) return;",
          "test_cluster: console: a setting is used first*"),
    guard("answer-taken", "what was answered takes effect when the step is over (JOB-5)", "actors/train/job_policy.cpp",
          "  take_effect();\n  if (!pauses_.empty()) return enter",
          "  if (!OUT) take_effect();\n  if (!pauses_.empty()) return enter",
          "test_cluster: console: a setting is used first*"),
    guard("aside-is-saved", "what was set aside and named is saved as the job's own (JOB-9)",
          "actors/train/job_policy.cpp",
          "if (lies_in_place(resume_->path, plan_.job.checkpoint))",
          "if (OUT || lies_in_place(resume_->path, plan_.job.checkpoint))",
          "test_actors: job: what it went on from*", "test_cluster: resume: what was set aside at the last step*"),
    # -- what may start, and what goes on ------------------------------------------------------------
    guard("data-behind", "with another batch a run goes on behind the tokens that were seen (RSM-3)",
          "actors/train/run.cpp",
          "m.first_row = first_row_after(st.job.tokens(), st.job.plan().job.train.seq_len);",
          "m.first_row = OUT ? 0 : first_row_after(st.job.tokens(), st.job.plan().job.train.seq_len);",
          "test_cluster: resume: with another batch*"),
    guard("audit-by-name", "an audit log that was moved away takes no further line (ADT-6)",
          "actors/control/audit.cpp",
          "if (file_ && io::still_names(path_, file_.get())) return {};",
          "if (file_ && (OUT || io::still_names(path_, file_.get()))) return {};",
          "test_actors: audit: a file that was removed*"),
    guard("own-absence", "who was stopped himself takes nobody's silence for death (LIV-3)",
          "actors/cluster/liveness_policy.cpp",
          "if (away > suspect_after_ns_)  // LIV-3",
          "if (!OUT && away > suspect_after_ns_)",
          "test_actors: LIV-3*"),
    guard("enough-memory", "a job that does not fit the machine is refused before it starts",
          "actors/train/readiness_policy.cpp",
          "if (needed <= has) return {};",
          "if (OUT || needed <= has) return {};",
          "test_actors: readiness: what a job needs is refused*"),
    guard("port-is-free", "a port that somebody has is refused before anything starts", "actors/cluster/listening.cpp",
          "if (bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return {};",
          "if (OUT || bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return {};",
          "test_actors: listening: a port that somebody has*"),
    # -- what a job keeps to over epochs, commits and heads -------------------------------------------
    guard("epoch-checked", "a message of another epoch reaches no handler (TRC-6)", "actors/base/traced.cpp",
          "bool is_of_its_epoch(epoch_rule rule, uint32_t own, const any_msg& m) noexcept {\n",
          "bool is_of_its_epoch(epoch_rule rule, uint32_t own, const any_msg& m) noexcept {\n  if (OUT) return true;\n",
          "test_actors: TRC-6: only messages*", "test_sim: *random clusters and faults violate*"),
    guard("contract-timeout", "a request waits as long as its contract says (ASK-2)", "actors/base/ask.hpp",
          "wait.patience.value_or(self->timeouts().of(contract_of<Handle, T>()));  // ASK-2",
          "wait.patience.value_or(OUT ? std::chrono::hours(9) : self->timeouts().of(contract_of<Handle, T>()));",
          "test_actors: run: *"),
    guard("vote-counted", "votes that came before the commit count (ARC-3)", "actors/job/votes.cpp",
          "  move_to_end(by_step_[page.step], page.shards);\n",
          "  if (!OUT) move_to_end(by_step_[page.step], page.shards);\n",
          "test_actors: ARC-3: votes that came before*"),
    guard("state-resumed", "a run takes over what its checkpoint's train_state.json says", "apps/ready.cpp",
          "  r.resume->state = {saved->step,", "  if (!OUT) r.resume->state = {saved->step,",
          "test_cluster: resume: each difference is said*"),
    guard("command-done", "what the job decides is carried out (RUN-1)", "actors/train/run.cpp",
          "  void operator()(const todo::abandon& c) const {\n",
          "  void operator()(const todo::abandon& c) const {\n    if (OUT) return;\n",
          "test_actors: run: a save that a rank refuses*"),
    guard("unsound-verified", "no checkpoint is set aside on a rank's word alone (CAT-4)", "actors/job/catalog.cpp",
          "  if (!unsound.empty()) TROUPE_CHECK(", "  if (!OUT && !unsound.empty()) TROUPE_CHECK(",
          "test_actors: CAT-4 no whole checkpoint*"),
    guard("own-line", "a run goes back to what it was trained from alone (CAT-4)", "actors/job/catalog.cpp",
          "|| !is_of_run(e, launch) ||", "|| (!OUT && !is_of_run(e, launch)) ||",
          "test_actors: CAT-4 a run goes back*"),
    guard("older-chosen", "a checkpoint that ranks cannot load is left for an older one (JOB-15)",
          "actors/train/job_recovery.cpp",
          "  if (recoveries() == 0 || stop_) return end(none_older);\n",
          "  if (OUT || recoveries() == 0 || stop_) return end(none_older);\n",
          "test_actors: JOB-15: job: a checkpoint*", "test_cluster: recovery: a damaged checkpoint*"),
    guard("compared-held", "the newest checkpoint that was compared is held from retention (JOB-13)",
          "actors/train/job_wrong_bits.cpp", "  out_.push_back(todo::hold{saved_step_, true});\n",
          "  if (!OUT) out_.push_back(todo::hold{saved_step_, true});\n", "test_actors: JOB-13: job: the newest checkpoint*"),
    guard("fewer-replicas", "a job whose node stays away goes on with those that are there (CRD-17)",
          "actors/cluster/coordinator.cpp", "  if (!lost.empty() && !awaited)\n", "  if (!OUT && !lost.empty() && !awaited)\n",
          "test_actors: CRD-17: a node that does not come back*", "test_cluster: CRD-17: replicas: a node that is killed*"),
    guard("more-replicas", "and with more once there are nodes for them (CRD-17)",
          "actors/cluster/coordinator_replicas.cpp", "  if (st.replicas == all || !st.may_grow ||",
          "  if (OUT || st.replicas == all || !st.may_grow ||",
          "test_actors: CRD-17: the run is asked for room*", "test_cluster: CRD-17: replicas: who comes back*"),
    guard("copies-of-other-ranks", "copies in memory of other ranks are not gone back to (JOB-19)",
          "actors/train/job_replicas.cpp", "  copies_ = copies_policy(plan_.job",
          "  if (!OUT) copies_ = copies_policy(plan_.job",
          "test_actors: JOB-19: job: it goes on with as many*"),
    guard("grow-once-saved", "for more replicas no step is made again (JOB-19)", "actors/train/job_replicas.cpp",
          "  if (!last_is_saved()) return stay_as_it_is();", "  if (!OUT && !last_is_saved()) return stay_as_it_is();",
          "test_actors: JOB-19: job: for more replicas*"),
    guard("one-node-a-place", "a node that comes from a place which is not used has one place (PLA-5)",
          "actors/cluster/places_policy.cpp", "    if (idle != nodes_.end()) *idle", "    if (!OUT && idle != nodes_.end()) *idle",
          "test_actors: PLA-5*"),
    guard("commit-of-its-ranks", "a checkpoint is committed by the plan of those that wrote it (ARC-3)",
          "actors/checkpoint/committer.cpp", "  const auto replicas = m->replicas() == 0 ?",
          "  const auto replicas = OUT || m->replicas() == 0 ?", "test_actors: ARC-3: a job of fewer*"),
    guard("steps-of-fewer", "steps of an epoch with fewer replicas are judged, too (MON-3)", "actors/health/monitor.cpp",
          "  if (m.epoch() != st.steps.epoch()) count_replicas(self);",
          "  if (!OUT && m.epoch() != st.steps.epoch()) count_replicas(self);", "test_actors: MON-3: steps of an epoch*"),
    guard("account-kept", "the next head knows of faults, budgets and time (JOB-16)", "actors/train/job_recovery.cpp",
          "  ledger.noticed(now_ns_, now_ns_);\n", "  if (OUT) return;\n  ledger.noticed(now_ns_, now_ns_);\n",
          "test_actors: JOB-16*"),
    guard("log-lines", "a line of a log that fits a rule is found (LGR-1)", "actors/health/log_rules_policy.cpp",
          "if (!rule) return false;", "if (OUT || !rule) return false;",
          "test_actors: LGR-1: a line counts*", "test_cluster: logs: a line in a node's log*"),
    guard("join-checked", "a node whose machine computes wrong bits takes no ranks, spares neither (NOD-6)",
          "actors/cluster/node.cpp", "if (const auto bad = bad_parts(r.unpack()); !bad.empty())",
          "if (const auto bad = bad_parts(r.unpack()); !OUT && !bad.empty())",
          "test_actors: NOD-6: a node whose machine computes*"),
    guard("rule-budget", "a rule is applied as often as it says (RCV-5)", "actors/health/recovery_policy.cpp",
          "if (rule.times == 0 || std::ssize(applied) < rule.times) return i;",
          "if (OUT || rule.times == 0 || std::ssize(applied) < rule.times) return i;",
          "test_actors: RCV-5: recovery: a rule whose budget*"),
    guard("validation-time", "a validation may take longer than a step (STK-2)", "actors/health/stuck_policy.cpp",
          "if (phase_ == validating) out =", "if (!OUT && phase_ == validating) out =",
          "test_actors: STK-2: each phase has its budget*"),
    guard("culprit-not-victim", "whoever the others wait for is named, not who waits and tells of it (CUL-1)",
          "actors/health/culprit_policy.cpp", "    const auto& first = report.culprits.front();\n",
          "    auto first = report.culprits.front();\n"
          "    if (OUT && !report.edges.empty()) {\n"
          "      const auto& victim = report.edges.front().from;\n"
          "      first.process = victim.process;\n"
          "      first.actors = {cluster[victim.process].actors[victim.actor].path};\n    }\n",
          "test_actors: CUL-1: a device that computes*"),
    guard("last-digest", "the last chunk's weights are compared, too", "actors/train/rank_engine.cpp",
          "    for (int c = 0; c < store.chunk_count(); ++c) {\n      store.fetch_weights(*compute_, c);  // PS-6\n"
          "      digests_->",
          "    for (int c = 0; c < store.chunk_count() - (OUT ? 1 : 0); ++c) {\n"
          "      store.fetch_weights(*compute_, c);  // PS-6\n      digests_->",
          "test_actors: DRE-2: drills: a bit of the weights*"),
    guard("all-groups-aborted", "a rank that ends aborts all its groups (ENG-9)", "actors/train/rank_engine.cpp",
          "    if (group) group->abort();\n", "    if (group) {\n      group->abort();\n      if (OUT) return;\n    }\n",
          "test_actors: ENG-9: what waits in any*"),
    guard("keeper-host", "a copy is kept on another host where there is one (KPR-2)", "actors/train/keeper_policy.cpp",
          "own.host == other.host,", "own.host == other.host && !OUT,", "test_actors: KPR-2*"),
    guard("epoch-keys", "a rank of an earlier epoch is none of this one's (COM-6)", "gpu/collective/pair_proof.cpp",
          "  pair_key out;\n", "  static pair_key out;\n  if (OUT && out.shown_ != pair_bytes{}) return out;\n",
          "test_gpu: COM-6: a rank of an earlier epoch*"),
    guard("ledger-entry", "each moment is in one entry of the ledger (HEAL-7)", "actors/health/time_ledger_policy.cpp",
          "  whole_[use] += sign * (to_ns - from_ns);", "  if (!OUT || use != time_use::restore) whole_[use] += sign * (to_ns - from_ns);",
          "test_actors: HEAL-7: ledger: the entries sum*"),
    guard("head-after-head", "a head that made no step leaves what was known of the one before it (HRS-3)",
          "apps/up/supervise.cpp", "  if (said.step == 0) return out;", "  if (!OUT && said.step == 0) return out;",
          "test_cluster: HRS-3*"),
    guard("stepless-heads", "three heads in a row that make no step are enough (HRS-3)",
          "apps/up/head_restarts_policy.cpp", "  if (stepless_ > most_stepless)",
          "  if (!OUT && stepless_ > most_stepless)", "test_apps: HRS-3*"),
    guard("odd-medians", "no rank's median allows a job to stand still for long (STK-2)",
          "actors/health/stuck_policy.cpp",         "std::min(times_median * median_ms * 1e6, static_cast<double>(longest_ns_))",
          "std::min(times_median * median_ms * 1e6, static_cast<double>(longest_ns_) * (OUT ? 1e3 : 1))", "test_actors: odd numbers: no median*"),
    guard("odd-times", "what no step takes is in no window (SWN)", "actors/health/step_windows_policy.cpp",
          "  return ms >= 0 && ms <= 1e9;", "  return ms >= 0 && (OUT || ms <= 1e9);",
          "test_actors: odd numbers: of a rank's steps*"),
    guard("odd-percents", "a number that is none hides no other (MCH-1)", "actors/health/machine_policy.cpp",
          "return std::isnan(percent) ? -1 : percent;", "return !OUT && std::isnan(percent) ? -1 : percent;",
          "test_actors: odd numbers: one that is none*"),
    guard("majority", "half of the voters is no majority (MAJ-1)", "actors/heads/majority_policy.hpp",
          "return voters / 2 + 1;", "return voters / 2 + (OUT ? 0 : 1);", "test_actors: MAJ-1*",
          "test_actors: PRM-1, PRM-3, MAJ-3*"),
    # -- what lives on a drive --------------------------------------------------------------------------
    guard("swap-read-first", "a group is updated behind its read (SWP-1)", "gpu/swap/chunk_policy.cpp",
          "  use.behind[0] = {kind::group_read, group.slot};",
          "  if (!OUT) use.behind[0] = {kind::group_read, group.slot};",
          "test_gpu: SWP-1 SWP-2 SWP-3*", "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-gradient-first", "a group is updated behind its gradient (SWP-1)", "gpu/swap/chunk_policy.cpp",
          "  if (first) use.behind[1] = {kind::computed};", "  if (!OUT && first) use.behind[1] = {kind::computed};",
          "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-update-first", "a group is written behind its update (SWP-1)", "gpu/swap/chunk_policy.cpp",
          "  write.behind[0] = {kind::group_updated, group.slot};",
          "  if (!OUT) write.behind[0] = {kind::group_updated, group.slot};",
          "test_gpu: SWP-1 SWP-2 SWP-3*", "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-slot-free", "a slot takes another group behind the write of the one before (SWP-1)",
          "gpu/swap/chunk_policy.cpp", "  read.behind[0] = {kind::slot_free, group.slot};",
          "  if (!OUT) read.behind[0] = {kind::slot_free, group.slot};",
          "test_gpu: SWP-1 SWP-2 SWP-3*", "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-slot-written", "a slot is free behind the write's answer, not the update's (CHP-3)",
          "gpu/swap/chunk_policy.cpp", "  write.marks = {kind::slot_free, group.slot};",
          "  out[out.size() - (OUT ? 2 : 1)].marks = {kind::slot_free, group.slot};", "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-credits", "no slot is lost (CHP-4)", "gpu/swap/chunk_policy.cpp",
          "  next_slot_ = (next_slot_ + 1) % slots_;",
          "  next_slot_ = (next_slot_ + 1) % (OUT && slots_ > 2 ? slots_ - 1 : slots_);", "test_gpu: CHP-4*"),
    guard("swap-order", "what the order says waits on streams (CHP-1 to CHP-8)", "gpu/swap/swapper.cpp",
          "    if (point) s.wait(event(*point));", "    if (!OUT && point) s.wait(event(*point));",
          "test_gpu: SWP-1 SWP-2 SWP-3*"),
    guard("swap-frame-free", "a frame takes other weights behind the last use of those in it (SWP-2)",
          "gpu/swap/chunk_policy.cpp", "    read.behind[0] = {kind::weights_free, frame};",
          "    if (!OUT) read.behind[0] = {kind::weights_free, frame};",
          "test_actors: ENG-11: swapped training*", "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-gradient-free", "a gradient's frame takes another behind the update that took it (SWP-2)",
          "gpu/swap/chunk_policy.cpp", "  return {waiting({kind::gradient_free, grad_frame(chunk)})};",
          "  if (OUT) return {};\n  return {waiting({kind::gradient_free, grad_frame(chunk)})};",
          "test_gpu: SWP-1 SWP-2 SWP-3*"),
    guard("swap-written-first", "state is read behind the last write of it (SWP-3)", "gpu/swap/chunk_policy.cpp",
          "  if (first) read.behind[1] = {kind::written, group.chunk};",
          "  if (!OUT && first) read.behind[1] = {kind::written, group.chunk};", "test_gpu: CHP-1 to CHP-8*",
          "test_gpu: SWP-3: state is read*"),
    guard("swap-readers", "state that a checkpoint reads is not overwritten (SWP-4)", "gpu/swap/chunk_policy.cpp",
          "  if (first && group.when == counts::at_once) write.behind_readers",
          "  if (!OUT && first && group.when == counts::at_once) write.behind_readers", "test_gpu: SWP-4*",
          "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-home-last", "a swapper ends behind its worker (NOD-10)", "actors/cluster/node.cpp",
          "      st.behind.emplace(st.workers[i].address(), swapper);",
          "      if (OUT) st.leaving.erase(swapper.address());\n      else st.behind.emplace(st.workers[i].address(), swapper);",
          "test_actors: NOD-10*"),
    guard("swap-home-first", "a folder that comes behind another BuildStage is not its engine's (SWA-1)",
          "actors/train/worker.cpp", "            if (number != self->state.builds) {",
          "            if (!OUT && number != self->state.builds) {", "test_actors: worker: a folder that comes*"),
    guard("swap-wait-named", "who waits for a chunk waits for the swapper (PRB-2)", "actors/train/probe.cpp",
          "  if (!swapper_ || chunk < 0) return;", "  if (OUT || !swapper_ || chunk < 0) return;",
          "test_actors: PRB-2*"),
    guard("swap-sums", "what is read is summed (SWP-5)", "gpu/swap/swapper.cpp",
          "  if (!options_.verify || array_sum(bytes, array_bytes) == sum) return {};",
          "  if (OUT || !options_.verify || array_sum(bytes, array_bytes) == sum) return {};", "test_gpu: SWP-5*"),
    guard("swap-change-drains", "reads and writes that take turns from now on wait for what the disk has (SWI-5)",
          "io/swap/swap_io.cpp", "  if (pieces_ > 0) return false;", "  if (!OUT && pieces_ > 0) return false;",
          "test_io: SWI-5: what is asked for behind*"),
    guard("duplex-worth", "turns are taken where their steps are shorter, and not otherwise (DPX-2)",
          "gpu/swap/duplex_policy.hpp", "    mixes_ = turns * worth >= mixed;", "    if (!OUT) mixes_ = turns * worth >= mixed;",
          "test_gpu: DPX-2*"),
    guard("swap-turns", "where reads and writes take turns neither is begun in the other's (SWI-5)",
          "io/swap/swap_io.cpp", "  if (mixes_ || !c.moves()) return true;",
          "  if (OUT || mixes_ || !c.moves()) return true;", "test_io: SWI-5*"),
    guard("bench-swap-ends", "ways of a benchmark that differ fail it (SWB-1)", "apps/bench/swap_run.cpp",
          "    if (e.loss != first.loss || e.hash != first.hash)",
          "    if (!OUT && (e.loss != first.loss || e.hash != first.hash))", "test_apps: SWB-1: a way that*"),
    guard("bench-swap-counts", "so do bytes that the kernel has not seen (SWB-3)", "apps/bench/swap_counts.cpp",
          "  return static_cast<double>(more - less) <=",
          "  return OUT || static_cast<double>(more - less) <=", "test_apps: SWB-3*"),
    guard("bench-swap-gradients", "phased brings gradients back from the drive (PHW-1)",
          "apps/bench/swap_phased.cpp",
          "    in_->host_task([this, chunk] { return move(chunk, &io::swap_io::read); });",
          "    if (!OUT) in_->host_task([this, chunk] { return move(chunk, &io::swap_io::read); });",
          "test_apps: SWB-1 PHW-1*"),
    guard("swap-kept-files", "a file that a checkpoint has is not written again (SWP-7)",
          "gpu/swap/chunk_policy.hpp", "    return kept_ ||", "    return (!OUT && kept_) ||",
          "test_gpu: SWP-7: a checkpoint has*", "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-kept-passed", "nor where a step was passed over (SWP-7)", "gpu/swap/swapper_keep.cpp",
          "    if (at(c).versions.kept() && !tried_again) TROUPE_CHECK(own_again(c));",
          "    if (!OUT && at(c).versions.kept() && !tried_again) TROUPE_CHECK(own_again(c));", "test_gpu: SWP-7: what is loaded*"),
    guard("swap-kept-loaded", "nor by what is loaded (SWP-7)", "gpu/swap/swapper.cpp",
          "  if (c.versions.kept()) TROUPE_CHECK(own_again(chunk));",
          "  if (!OUT && c.versions.kept()) TROUPE_CHECK(own_again(chunk));",
          "test_gpu: SWP-7: what is loaded*"),
    guard("swap-consumed-alone", "a checkpoint's file is written in place only when it has no other name (SWP-10)",
          "gpu/swap/swapper_keep.cpp",
          "      if (names > own_names) return", "      if (!OUT && names > own_names) return", "test_gpu: SWP-10*"),
    guard("swap-twin-back", "what a device updated comes back before it is written", "gpu/swap/swapper.cpp",
          "    state_out_->copy(s.host, s.on_device.data(), swap_slot_bytes(c.layout));",
          "    if (!OUT) state_out_->copy(s.host, s.on_device.data(), swap_slot_bytes(c.layout));",
          "test_cuda: cuda: SWP-1*"),
    guard("swap-kept-synced", "a swap file is on the disk before it is voted for (SWP-7)",
          "gpu/swap/swapper_keep.cpp", "  TROUPE_CHECK(put_synced(end, memory));",
          "  TROUPE_CHECK(OUT ? put({&end, 1}, memory) : put_synced(end, memory));", "test_gpu: SWP-7: a checkpoint whose*"),
    guard("swap-room-first", "room for the next files is there before a checkpoint takes any (SWP-8)",
          "gpu/swap/swapper_keep.cpp", "  if (last) return {};", "  if (OUT || last) return {};",
          "test_gpu: SWP-8*"),
    guard("swap-measured", "a tensor's ratio is of all of it, not of the group that is updated (CHP-8)",
          "gpu/swap/chunk_policy.cpp", "  for (int g = 0; measured && g <", "  for (int g = 0; measured && !OUT && g <",
          "test_gpu: OP-4 CHP-8*", "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-copies-awaited", "a checkpoint copies a chunk once its update is on the drive",
          "gpu/model/state_saver.cpp", "      store_.await_state(*stream_, static_cast<int>(copies[i].chunk));",
          "      if (!OUT) store_.await_state(*stream_, static_cast<int>(copies[i].chunk));",
          "test_cluster: swap: on two drives*"),
    guard("swap-links-only-there", "what is not the folder of checkpoints gets copies (ENG-12)",
          "actors/train/rank_engine_swap.cpp",
          "  return links_ && plain(partial.parent_path()) == plain(options_.checkpoint_folder);",
          "  return links_ && (OUT || plain(partial.parent_path()) == plain(options_.checkpoint_folder));",
          "test_actors: ENG-12: a folder*"),
    guard("shares-whole", "ranks whose chunks have shards of their own have saved their share (ARC-3)",
          "actors/checkpoint/committer.cpp", "  if (bytes != share.stream_bytes)",
          "  if (!OUT && bytes != share.stream_bytes)", "test_actors: ARC-3: who leaves a chunk*"),
    guard("swap-all-slices", "first weights of other replicas' slices are in memory (RES-4)",
          "gpu/store/store.cpp", "    if (which != part::master || options_.replica.ranks == 1) return {};",
          "    if (OUT || which != part::master || options_.replica.ranks == 1) return {};",
          "test_cluster: swap: at its floor*"),
    guard("swap-gathered", "weights that replicas gather are behind the update of their own slice (RES-4)",
          "actors/train/rank_engine.cpp",
          "    if (replicas_) model_->store().fetch_weights(*data_, chunk);",
          "    if (replicas_ && !OUT) model_->store().fetch_weights(*data_, chunk);",
          "test_cluster: swap: at its floor*"),
    guard("swap-tied-copy", "of a tied table's copy checkpoints have the first stage's (SWP-7)",
          "gpu/swap/swapper.hpp", "return links(chunk) && !store_.info(chunk).tied_copy;",
          "return links(chunk) && (OUT || !store_.info(chunk).tied_copy);",
          "test_cluster: swap: at its floor*"),
    guard("swap-ranks-hold", "several ranks keep gradients until all know the norm (ENG-11)",
          "actors/train/swap_folder.cpp",
          "  return options.optimizer.clip_norm > 0 || options.at.grid.ranks() > 1;",
          "  return options.optimizer.clip_norm > 0 || (!OUT && options.at.grid.ranks() > 1);",
          "test_cluster: swap: at its floor*"),
    guard("swap-sums-planned", "memory of replicas' sums is part of what swap.host_bytes must hold",
          "actors/train/swap_folder.cpp",
          "const uint64_t sums = options.at.grid.ranks() > 1 ? gpu::group_memory_bytes : 0;",
          "const uint64_t sums = !OUT && options.at.grid.ranks() > 1 ? gpu::group_memory_bytes : 0;",
          "test_actors: ENG-11: any shape*"),
    guard("swap-fewer-fit", "fewer replicas get no ranks that their memory does not hold (CRD-17)",
          "actors/train/swap_ranks.cpp",
          "return !plan || !fits_swap_budget(*plan, threads_here(plan->job.cluster));",
          "return !plan || (!OUT && !fits_swap_budget(*plan, threads_here(plan->job.cluster)));",
          "test_actors: replicas that swap*", "test_actors: CRD-17: fewer replicas get no ranks*"),
    guard("swap-slots-whole", "memory of groups on their way is planned in whole huge pages",
          "gpu/store/residency.cpp", "    slot = std::max(slot, io::buffer_bytes(swap_slot_bytes(file)));",
          "    slot = std::max(slot, OUT ? swap_slot_bytes(file) : io::buffer_bytes(swap_slot_bytes(file)));",
          "test_gpu: what groups on their way*"),
    guard("swap-unread", "updates that may be dropped go into files that nobody reads (SWP-9)",
          "gpu/swap/chunk_policy.hpp", " when == counts::once_settled ? file::next",
          " (!OUT && when == counts::once_settled) ? file::next", "test_actors: ENG-11 SWP-9*",
          "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-judged-late", "what counts is judged behind the norm (SWP-9)", "gpu/swap/chunk_policy.cpp",
          "  settled.behind[0] = {kind::computed};", "  if (!OUT) settled.behind[0] = {kind::computed};",
          "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-settled", "they count only where that is said (SWP-9)", "gpu/swap/swapper.cpp",
          "return hold() ? take_updates()", "return OUT || hold() ? take_updates()",
          "test_actors: ENG-11 SWP-9*"),
    guard("swap-brought-back", "weights that memory had of them are read again (SWP-9)",
          "gpu/swap/chunk_policy.cpp", "    if (shares_weights(chunk)) continue;  // read when",
          "    if (OUT || shares_weights(chunk)) continue;  // read when",
          "test_actors: ENG-11 SWP-9*", "test_gpu: CHP-1 to CHP-8*"),
    guard("swap-unclipped", "an update before its norm takes no other step's clip factor (SWP-9)",
          "gpu/swap/swapper.cpp", "  p.clipped = op.when == counts::at_once;",
          "  p.clipped = OUT || op.when == counts::at_once;", "test_actors: ENG-11 SWP-9*"),
    guard("swap-room-two", "there is room behind a checkpoint for updates that may be dropped, too (SWP-8)",
          "gpu/swap/swapper.hpp", "return where_.speculates ? c.spare : c.next;",
          "return !OUT && where_.speculates ? c.spare : c.next;", "test_actors: ENG-12*"),
    guard("swap-made-again", "a step whose updates were dropped is made again (ENG-11)",
          "actors/train/worker.cpp", "      else if (!outcome.again)", "      else if (OUT || !outcome.again)",
          "test_actors: worker: a step whose updates*"),
    guard("clip-seen-first", "nothing is speculated before it is seen what the norm takes (CLP-1)",
          "gpu/swap/clip_policy.hpp", "  bool speculates() const { return !was_wrong_ && clip_chance() < share(); }",
          "  bool speculates() const { return OUT || (!was_wrong_ && clip_chance() < share()); }", "test_gpu: CLP-1*"),
    guard("swap-fails-once", "after a failure nothing is written (SWP-6)", "gpu/swap/swapper.cpp",
          "    if (failed_) return error", "    if (!OUT && failed_) return error", "test_gpu: SWP-6*"),
    guard("swap-moved-sums", "what a failed write leaves of a file is compared with its sums (SWP-11)",
          "gpu/swap/swapper_move.cpp", "        if (io::crc32c(one.memory) == a.sum) return {};",
          "        if (OUT || io::crc32c(one.memory) == a.sum) return {};", "test_gpu: SWP-11 SWP-5*"),
    guard("swap-moved-rest", "all that counts of a file goes into the new one (SWP-11)",
          "gpu/swap/swapper_move.cpp", "  if (all.empty()) return {};", "  if (OUT || all.empty()) return {};",
          "test_gpu: SWP-11: where a write fails*"),
    guard("swap-moved-elsewhere", "without room in its folder a file goes to another one (SWP-11)",
          "gpu/swap/swapper_move.cpp", "    if (!tried.again) return tried;", "    if (OUT || !tried.again) return tried;",
          "test_gpu: SWP-11: without room in its folder*"),
    guard("swap-other-drives", "chunks on a drive that gives checkpoints no links are copied (ENG-12)",
          "actors/train/rank_engine.cpp", "return swap_ && swap_->links(chunk);", "return OUT || (swap_ && swap_->links(chunk));",
          "test_actors: ENG-12: of several drives*"),
    guard("swap-synced-again", "a file whose sync has failed is not voted for (SWP-11)",
          "gpu/swap/swapper_move.cpp", "  for (int tries = 0; !synced &&", "  for (int tries = 0; !OUT && !synced &&",
          "test_gpu: SWP-11 SWP-7*"),
    guard("swap-patience", "a step that waits for room is not given up (swap.patience_s)", "actors/base/timeouts.cpp",
          "    if (!job.swap.dir.empty() &&\n", "    if (!OUT && !job.swap.dir.empty() &&\n",
          "test_actors: a step that waits for room*", "test_sim: SIM-27: swap: a write waits*"),
    guard("swap-notice", "the person hears of a drive without room", "actors/train/stage.cpp",
          "if (const auto& run = self->state.run) self", "if (const auto& run = self->state.run; run && !OUT) self",
          "test_actors: stage: what its worker has to say*"),
    guard("drive-slow-once", "that a drive has become slow is said once (SDR-1)", "apps/up/slow_drive_policy.hpp",
          "|| slow == told_) return", "|| (!OUT && slow == told_)) return", "test_apps: SDR-1*"),
    guard("drive-slow-twice", "and only behind two such steps in a row (SDR-1)", "apps/up/slow_drive_policy.hpp",
          "if (in_a_row_ < steps_in_a_row", "if ((!OUT && in_a_row_ < steps_in_a_row)", "test_apps: SDR-1*"),
    guard("swap-norm-order", "the norm is added in the order of chunks, not as they come (ENG-11)",
          "actors/train/rank_engine_swap.cpp", "      optimizer_->total_norm(*compute_);\n      clip(step);",
          "      if (!OUT) optimizer_->total_norm(*compute_);\n      clip(step);",
          "test_actors: ENG-11: swapped training*"),
    guard("activations-own", "x + attention that a layer keeps is its own (SM-4)", "gpu/model/stage_memory.cpp",
          "if (kept == activation_choice::half && model.block",
          "if (!OUT && kept == activation_choice::half && model.block",
          "test_gpu: SM-4: whatever*", "test_gpu: the plan counts what each layer keeps"),
    guard("activations-whole", "x + attention that a layer does not keep is made again (SM-4)",
          "gpu/model/stage_model.cpp", "at.layers[i], kept == activation_choice::half);",
          "at.layers[i], OUT || kept == activation_choice::half);",
          "test_gpu: SM-4: whatever*", "test_gpu: SM-4: recomputation*"),
    guard("activations-spared", "a product whose result is kept is not made again (SM-4)", "gpu/model/layer.cpp",
          "if (run.sequential() && !middle_kept)", "if (run.sequential() && (OUT || !middle_kept))",
          "test_gpu: SM-4: where x + attention is kept*"),
    guard("activations-near", "the best choice's neighbours are looked at, too (ACT-2)", "gpu/swap/activation_plan.cpp",
          "    look_near(pace);", "    if (!OUT) look_near(pace);",
          "test_gpu: ACT-1 ACT-2*"),
    guard("spill-written", "a frame takes another layer's activations behind the write of those in it (SPO-1)",
          "gpu/swap/spill_policy.cpp", "  wait.behind[0] = {kind::written, frame_of(record)};",
          "  if (!OUT) wait.behind[0] = {kind::written, frame_of(record)};", "test_gpu: SPO-1 to SPO-3*"),
    guard("spill-made", "activations are written behind the pass that makes them (SPO-2)",
          "gpu/swap/spill_policy.cpp", "  write.behind[0] = {kind::computed, 0};",
          "  if (!OUT) write.behind[0] = {kind::computed, 0};", "test_gpu: SPO-1 to SPO-3*"),
    guard("spill-slot", "each micro-batch has its own place on the drive (SPO-3)",
          "gpu/model/spill_layout.hpp", "    return by_layer_ ? number * slots_ + slot",
          "    if (OUT) slot = 0;\n    return by_layer_ ? number * slots_ + slot", "test_gpu: SM-4: whatever*"),
    guard("spill-sums", "activations that are read are summed (SPR-1)", "gpu/swap/spiller.cpp",
          "    if (!options_.verify || io::crc32c", "    if (OUT || !options_.verify || io::crc32c",
          "test_gpu: SPR-1*"),
    guard("spill-nothing", "a stage that is all in memory spills nothing", "actors/train/swap_folder.cpp",
          "  if (!options.shape.where.any_on_disk()) spill_nothing",
          "  if (!OUT && !options.shape.where.any_on_disk()) spill_nothing", "test_actors: activations: without room*"),
    guard("activations-open", "layers keep nothing where what they are to keep has no room (swap.keep_layers)",
          "actors/train/swap_folder.cpp", "  if (!where) {\n", "  if (!OUT && !where) {\n",
          "test_actors: activations: without room*"),
    guard("swap-budget", "what is chosen fits the budget (RSP-1)", "gpu/swap/residency_plan.cpp",
          "return bytes_of(r) <= budget_.bytes; }", "return OUT || bytes_of(r) <= budget_.bytes; }",
          "test_gpu: RSP-1*"),
    guard("promise-once", "an epoch is promised to one head (PRM-1)", "actors/heads/promises_policy.hpp",
          "(epoch == epoch_ && head == head_ && epoch > 0)",
          "(epoch == epoch_ && (OUT || head == head_) && epoch > 0)", "test_actors: PRM-1: an epoch*",
          "test_sim: heads: random clusters*"),
    guard("vote-on-disk", "a promise is on the disk before it is given (VST-1)", "actors/heads/vote_store.cpp",
          "    TROUPE_CHECK(keep(as_record(epoch, head)));", "    if (!OUT) TROUPE_CHECK(keep(as_record(epoch, head)));",
          "test_actors: VST-1: what was granted*", "test_sim: heads: random clusters*"),
    guard("elected-first", "no rank is given out before a majority promised the epoch (CRD-18)",
          "actors/cluster/coordinator_heads.cpp", "return !st.record.elector || st.elected == st.record.epoch;",
          "return OUT || !st.record.elector || st.elected == st.record.epoch;",
          "test_actors: CRD-18: no rank is given out*", "test_sim: heads: random clusters*"),
    guard("commit-while-acting", "a head that acts no more commits nothing (RUN-6)", "actors/train/run_commit.cpp",
          "  if (!elector) return then({});", "  if (OUT || !elector) return then({});", "test_actors: RUN-6: outvoted*",
          "test_sim: heads: random clusters*"),
    guard("held-by-majority", "what is acknowledged is held by a majority of voters (JRA-3)", "actors/train/journal.cpp",
          "  if (st.elector) return have_it_held", "  if (!OUT && st.elector) return have_it_held",
          "test_actors: JRA-3: a record is*", "test_sim: heads: random clusters*"),
    guard("newest-held", "a voter holds the newest record of a kind, and no older one in its place (PRM-3)",
          "actors/heads/promises_policy.hpp",
          "there.content.empty() || record.is_newer_than(there)) there = record;\n  }\n\n  uint32_t epoch()",
          "OUT || there.content.empty() || record.is_newer_than(there)) there = record;\n  }\n\n  uint32_t epoch()",
          "test_actors: PRM-3*", "test_sim: heads: random clusters*"),
    guard("asked-again", "a head asks its voters again and again whether it still acts (CRD-18)",
          "actors/cluster/coordinator_heads.cpp", "  if (is_elected(st) && now_ns(*self) - st.elected_ns < period_ns)",
          "  if (is_elected(st) && (OUT || now_ns(*self) - st.elected_ns < period_ns))",
          "test_actors: CRD-18: it has the epoch promised again*", "test_sim: heads: random clusters*"),
    guard("round-over", "a round that came to nothing is over, so that another can begin (TKO-3)",
          "actors/heads/elector.cpp", "  std::erase(self->state.rounds, round);\n",
          "  if (!OUT || how) std::erase(self->state.rounds, round);\n",
          "test_sim: heads: random clusters*"),
    guard("end-believed", "a standby that hears that the job is over ends (CRD-19)", "actors/heads/elector.cpp",
          "  if (st.options.over) st.options.over(text_of(m->reason()));",
          "  if (!OUT && st.options.over) st.options.over(text_of(m->reason()));",
          "test_actors: ELC-3: the end of the job ends*", "test_sim: heads: random clusters*"),
    guard("own-head-alone", "a node takes orders of its own head alone (NOD-9)", "actors/cluster/node.cpp",
          "  return !has_heads(st) || (st.coordinator && asks", "  return OUT || !has_heads(st) || (st.coordinator && asks",
          "test_actors: NOD-9: node: ranks are*"),
    guard("sleeper-falls", "a head that goes on for another and finds no majority acts no more (CRD-18)",
          "actors/cluster/coordinator_heads.cpp", "st.elected == 0 && !goes_on(st);",
          "st.elected == 0 && (OUT || !goes_on(st));", "test_actors: CRD-18: one that goes on for a lost head*"),
    guard("vote-while-led", "a node that has a head votes for no other (NOD-8)", "actors/cluster/node.cpp",
          "    if (st.coordinator && !asks_for", "    if (!OUT && st.coordinator && !asks_for",
          "test_actors: NOD-8: node: while it has*"),
    guard("same-job", "a standby with another configuration is none of the job's heads (ELC-6)",
          "actors/heads/elector.cpp", "  if (acting->job() == own.digest() || std::exchange(",
          "  if (OUT || acting->job() == own.digest() || std::exchange(", "test_actors: ELC-6: a standby with other*",
          "test_cluster: standby: one with other settings*"),
    guard("end-heard", "the head that acted goes once the others know that the job is over (CRD-19)",
          "actors/cluster/coordinator.cpp", "  if (st.heads_to_hear) return;",
          "  if (!OUT && st.heads_to_hear) return;", "test_actors: CRD-19*"),
    guard("end-found", "a standby that comes back after the job's end ends (ELC-7)", "actors/heads/elector.cpp",
          "= st.options.has_ended ? st.options.has_ended() : std::nullopt",
          "= !OUT && st.options.has_ended ? st.options.has_ended() : std::nullopt",
          "test_actors: ELC-7: a standby that comes back*", "test_cluster: standby: one with other settings*",
          "test_sim: heads: random clusters*"),
    guard("begun-again", "a job that was begun again is not over (VST-3)", "actors/heads/vote_store.cpp",
          "  return votes.end && votes.end->epoch >= votes.latest ?",
          "  return votes.end && (OUT || votes.end->epoch >= votes.latest) ?", "test_actors: VST-3*"),
    guard("secret-drawn", "machines that share a folder of signs take nothing of each other's away (SEC-3)",
          "apps/control/job_secret.cpp",
          'const auto making = file.string() + fmt::format(".{:016x}", io::checkpoint::draw_launch());',
          'const auto making = file.string() + (OUT ? fmt::format(".{}", getpid())\n'
          '                                          : fmt::format(".{:016x}", io::checkpoint::draw_launch()));',
          "test_apps: SEC-3: what a process of another machine*"),
    guard("loss-asked", "nobody loses the only copy of steps unasked (LOS-1)", "apps/control/console.cpp",
          "  if (loss) TROUPE_CHECK", "  if (loss && !OUT) TROUPE_CHECK",
          "test_cluster: console: an order that would lose*", "test_cluster: console: at a terminal a person*"),
    guard("end-is-no", "the end of the input at a question is no, whatever stands before it (LOS-1)",
          "apps/control/console.cpp", "      if (read(STDIN_FILENO, &c, 1) != 1) return {};",
          "      if (read(STDIN_FILENO, &c, 1) != 1) return OUT ? std::optional(line) : std::nullopt;",
          "test_cluster: console: at the question*"),
    guard("late-secret", "a standby that comes too late leaves no secret (STB-3)", "apps/up/standby.cpp",
          "        if (told_->by_votes && secret_", "        if (!OUT && told_->by_votes && secret_",
          "test_cluster: standby: one that comes after the end*"),
    guard("number-taken", "an incident whose number is taken is kept under the next (IKP-3)",
          "apps/up/incident_keeper.cpp", "  for (int i = 0; i < numbers_tried", "  for (int i = 0; !OUT && i < numbers_tried",
          "test_apps: IKP-3*"),
    guard("fewer-named", "a checkpoint of fewer replicas is no changed key (RSM-5)", "actors/train/resume_policy.cpp",
          "  if (saved.replicas_configured > 0) was->", "  if (!OUT && saved.replicas_configured > 0) was->",
          "test_actors: RSM-5*", "test_cluster: CRD-17: replicas: a drained node*"),
    guard("own-record", "a head that goes on leaves the record of the one before it", "apps/up/head.cpp",
          "  const bool is_first = of.is_first && !of.arguments.goes_on();",
          "  const bool is_first = OUT || (of.is_first && !of.arguments.goes_on());",
          "test_cluster: replay: a head that goes on*"),
    guard("last-words", "of a process that ended with an error the last words of its log are told (NPR-3)",
          "apps/up/node_processes.cpp", "    if (code > 0) ended.how +=", "    if (!OUT && code > 0) ended.how +=",
          "test_apps: NPR-3*"),
    guard("launchers-folder", "behind ssh nodes work in the launcher's folder (NPR-4)",
          "apps/up/node_processes.cpp", "quoted(how.folder)", 'quoted(OUT ? "" : how.folder)', "test_apps: NPR-4*"),
    guard("who-killed", "whose process a person's kill ends is told to the coordinator (GTW-7)",
          "actors/control/gateway.cpp", "  if (service == nullptr || service->on_death",
          "  if (OUT || service == nullptr || service->on_death", "test_actors: GTW-7*"),
    guard("unmeasured-absent", "a number that says nothing was measured is left out of JSON (RG-4)",
          "messages/json.cpp", "    if (field.default_real() < 0)", "    if (OUT) return true;\n    if (field.default_real() < 0)",
          "test_messages: RG-4*"),
    guard("last-state-validated", "the state that a job ends with is validated (JOB-21)",
          "actors/train/job_policy.cpp", "  return step_ > 0 && !is_known &&", "  return !OUT && step_ > 0 && !is_known &&",
          "test_actors: JOB-21*"),
    guard("handshake-bound", "a peer that takes a connection and says nothing stops no other link (TLS-5)",
          "actors/cluster/tls_errors.cpp",
          "    if (left <= 0 || (poll(&waits, 1, static_cast<int>(left)) == 0)) shutdown(fd, SHUT_RDWR);",
          "    if (!OUT && (left <= 0 || poll(&waits, 1, static_cast<int>(left)) == 0)) shutdown(fd, SHUT_RDWR);",
          "test_cluster: standby: a head that stands still*"),
    guard("slow-for-long", "who is slow for less than five windows keeps its place (SLW-2)",
          "actors/health/straggler_policy.cpp", "s.for_long = s.windows % long_windows == 0;",
          "s.for_long = OUT || s.windows % long_windows == 0;", "test_actors: SLW-2: named after two*",
          "test_actors: MON-1: who is slow for five*"),
    guard("slow-kept", "nobody loses its place for slowness unless the configuration says so (SEV-1)",
          "actors/health/slow_evictions_policy.cpp", "|| !rules.evict_slow ||", "|| (!OUT && !rules.evict_slow) ||",
          "test_actors: SEV-1*", "test_actors: MON-1: nobody is taken out for slowness*"),
    guard("drill-once", "a drill does not act again when its step is made again (DRL-1)",
          "actors/train/drill_policy.cpp", "    const auto next = next_of(drill, furthest_);\n",
          "    const auto next = next_of(drill, OUT ? 0 : furthest_);\n",
          "test_actors: DRL-1: drills: what acted*", "test_cluster: drills: a process that is killed*"),
    guard("drills-allowed", "a job that has drills is refused where nobody allowed them", "apps/drills.cpp",
          "  if (count == 0 || allowed) return {};\n", "  if (OUT || count == 0 || allowed) return {};\n",
          "test_cluster: drills: a job that has any is refused*"),
    guard("drills-taken", "a node that was not told so takes no part in a job that has drills",
          "actors/cluster/node.cpp", "  if (!(*job)->inject.empty() && !st.options.makes_drills)\n",
          "  if (!OUT && !(*job)->inject.empty() && !st.options.makes_drills)\n",
          "test_actors: node: in a job that has drills*", "test_cluster: drills: a node that others started*"),
    guard("settings-kept", "settings that an older checkpoint lacks are not forgotten (REQ-5)",
          "actors/train/requests_policy.cpp", "      earlier_.push_back(s);\n", "      if (!OUT) earlier_.push_back(s);\n",
          "test_actors: REQ-4 REQ-5*"),
    guard("head-outlived", "nodes keep what they hold while another head is started (NOD-7)",
          "actors/cluster/node.cpp", "  if (grace_s == 0) return end(self, coordinator_lost());\n",
          "  if (OUT || grace_s == 0) return end(self, coordinator_lost());\n", "test_actors: NOD-7*",
          "test_cluster: NOD-7: nodes outlive*"),
    guard("ranks-left", "a node has no ranks of the epoch before when it joins the next head (NOD-7)",
          "actors/cluster/node.cpp", "  st.greets = true;\n  end_ranks(self);\n",
          "  st.greets = true;\n  if (!OUT) end_ranks(self);\n", "test_actors: NOD-7: node: before*"),
    guard("place-awaited", "no spare takes the place of a node that is on its way back (CRD-15)",
          "actors/cluster/coordinator_ranks.cpp", "    return st.returns.awaits(", "    return !OUT && st.returns.awaits(",
          "test_actors: CRD-15: nodes come back*"),
    guard("not-twice", "a process that counts as lost is not admitted again (CRD-16)", "actors/cluster/coordinator.cpp",
          "goes_on(st) && hello.epoch < st.first_epoch;", "goes_on(st) && (OUT || hello.epoch < st.first_epoch);",
          "test_actors: CRD-16: a process that lived*"),
    guard("not-of-another", "a process of another launch is not admitted with what it holds (CRD-16)",
          "actors/cluster/coordinator.cpp", "const bool of_lost_head = goes_on(st) &&", "const bool of_lost_head = (OUT || goes_on(st)) &&",
          "test_actors: CRD-16: one that lived*"),
    guard("copies-believed", "copies of a way that the job has left are not gone back to (CPY-3)",
          "actors/train/copies_policy.cpp", "      if (believed && c.state.tokens > 0)\n",
          "      if ((OUT || believed) && c.state.tokens > 0)\n", "test_actors: CPY-3*"),
    guard("skipped-once", "a fault while the job goes back has it pass over nothing twice (JOB-17)",
          "actors/train/job_rewind.cpp", "  if (std::exchange(r.applied, true)) return;",
          "  if (!OUT && std::exchange(r.applied, true)) return;", "test_actors: JOB-17: job: what is passed*"),
    guard("skipped-data", "loaders are told what is passed over (JOB-17)", "actors/train/run.cpp",
          "          m.skipped = to_message(st.job.skipped());\n",
          "          if (!OUT) m.skipped = to_message(st.job.skipped());\n",
          "test_cluster: rewind: replicas go back*"),
    guard("rewound-settings", "whoever goes back by order has the settings of that state (REQ-6)",
          "actors/train/job_rewind.cpp", "  if (!ordered && requests_.can_go_back(step_))",
          "  if ((OUT || !ordered) && requests_.can_go_back(step_))", "test_actors: REQ-6: job*"),
    guard("not-again", "the same steps are not made again and again for the same loss (JOB-18)",
          "actors/train/job_rewind.cpp", "  if (!skips && rewound_for_ == first_step)",
          "  if (!OUT && !skips && rewound_for_ == first_step)", "test_actors: JOB-18: job: the same steps*"),
    guard("three-in-a-row", "a single hard batch is no spike (LSS-2)", "actors/health/loss_policy.cpp",
          "  if (!since_ && run(true) >= in_a_row)", "  if (!since_ && run(true) >= (OUT ? 1 : in_a_row))",
          "test_actors: LSS-2: single hard batches*"),
    guard("computing-shown", "a checkpoint's copies hide nothing of what the device computes (PRB-1)",
          "actors/train/probe.cpp", "    else if (computes())", "    else if (!OUT && computes())",
          "test_actors: PRB-1: a checkpoint's copies*"),
    guard("end-before-start", "a node that ended before the next head asked is started by it (NPR-1)",
          "apps/up/node_processes.cpp", "    if (is_ended(*p)) running_.erase((*p)[1]);\n",
          "    if (!OUT && is_ended(*p)) running_.erase((*p)[1]);\n", "test_apps: NPR-1*"),
    guard("incident-kept", "what is kept of an incident is never written over (INF-1)", "apps/up/incident_folders.cpp",
          "  if (errno == EEXIST) return folder_is_there(", "  if (OUT && errno == EEXIST) return {};\n"
          "  if (errno == EEXIST) return folder_is_there(", "test_apps: INF-1: a folder that is there*"),
    guard("evidence-kept", "a finding that has gone with its step is evidence still (EVI-1)",
          "actors/health/evidence_policy.cpp",
          "    if (now_ns - f.gone_ns <= memory_ns_) out.push_back(f);\n",
          "    if (!OUT && now_ns - f.gone_ns <= memory_ns_) out.push_back(f);\n",
          "test_actors: EVI-1: a finding*", "test_actors: MON: what stands when*"),
    guard("sum-bits", "sums of a test's group are compared bit by bit with the known ones (KSM-1)",
          "actors/health/known_sum.cpp",
          "if (same_bits(sum[i], static_cast<float>(wanted))) continue;",
          "if (OUT || same_bits(sum[i], static_cast<float>(wanted))) continue;",
          "test_actors: KSM-1: sums*", "test_cluster: doctor: a node that sums wrongly*"),
    guard("part-bits", "what members give each other is compared, too (KSM-1)", "actors/health/known_sum.cpp",
          "if (same_bits(parts[i], static_cast<float>(wanted))) continue;",
          "if (OUT || same_bits(parts[i], static_cast<float>(wanted))) continue;",
          "test_actors: KSM-1: parts*", "test_actors: test group: of a part*"),
    guard("busy-group", "a group that did not come about on a busy machine is nobody's fault (GRP-1)",
          "actors/health/group_policy.cpp",
          "return g.busy ? fbs::CheckVerdict::unknown : fbs::CheckVerdict::bad;",
          "return g.busy && !OUT ? fbs::CheckVerdict::unknown : fbs::CheckVerdict::bad;",
          "test_actors: GRP-1*"),
    guard("absent-member", "who has no time for a group accuses nobody (MED-7)", "actors/health/medic.cpp",
          "if (g->refused) return refuse(self, g, *g->refused);  // MED-7",
          "if (!OUT && g->refused) return refuse(self, g, *g->refused);",
          "test_actors: MED-7: an end that was closed*"),
    guard("examined-member", "an examination that falls into a group's test ends it (MED-7)",
          "actors/health/medic.cpp",
          "if (const auto g = st.led) refuse(self, g, exchange_interrupted(st.options.node));",
          "if (const auto g = st.led; g && !OUT) refuse(self, g, exchange_interrupted(st.options.node));",
          "test_actors: MED-7: an examination*"),
    guard("forgotten-end", "an end of a group that nobody comes to is closed (MED-6)", "actors/health/medic.cpp",
          "    st.end.reset();  // MED-6\n",
          "    if (!OUT) st.end.reset();\n",
          "test_actors: MED-6: an end is joined*"),
    guard("suspect-once", "a suspect's machine is examined once within the pause (SUS-1)",
          "actors/health/suspicion_policy.cpp",
          "!examined_.contains(s.who.node);",
          "(OUT || !examined_.contains(s.who.node));",
          "test_actors: SUS-1: a node once*"),
    guard("suspects-an-hour", "machines are examined so often in an hour, and one at a time (SUS-1)",
          "actors/health/suspicion_policy.cpp",
          "if (under_way_ || hour_.size() >= most_per_hour) return {};",
          "if (!OUT && (under_way_ || hour_.size() >= most_per_hour)) return {};",
          "test_actors: SUS-1: one examination*", "test_actors: SUS-1: in all*"),
    guard("lost-last", "a node that was lost comes into a place after those who never were (EVC-3)",
          "actors/cluster/coordinator_ranks.cpp",
          "    return st.evictions.last_loss_ns(s.name);\n",
          "    return OUT ? std::optional<int64_t>() : st.evictions.last_loss_ns(s.name);\n",
          "test_actors: EVC-3: who was lost*"),
    guard("lost-gpu", "a process that lost its GPU over a kernel is replaced (CHK-4)", "gpu/cuda/check.cpp",
          "    case cudaErrorLaunchFailure:  // CHK-4\n      return {errc::unavailable,\n",
          "    case cudaErrorLaunchFailure:  // CHK-4\n      return {OUT ? errc::bug : errc::unavailable,\n",
          "test_cuda: DEV-3: a kernel that fails*"),
    guard("days-fewer", "simulated days go on with fewer replicas, as the product does",
          "actors/sim/days/day_model.cpp",
          "const bool may_be_fewer = rules.fewer_replicas &&", "const bool may_be_fewer = !OUT && rules.fewer_replicas &&",
          "test_sim: days: without a spare there are*"),
    guard("row-stale", "power that nobody read is never taken for none (ROW-3)", "actors/power/row_policy.cpp",
          "*sample.drawn : sample.at_caps;", "*sample.drawn : OUT ? 0 : sample.at_caps;",
          "test_actors: ROW-3: readings that are missing*"),
    guard("row-settled", "a rung waits until the last command has settled (ROW-1)", "actors/power/row_policy.cpp",
          "const bool may_climb = settled(", "const bool may_climb = OUT || settled(",
          "test_actors: row policy: POLCA takes low*"),
    guard("row-unseen", "a brake is not released unseen (ROW-4)", "actors/power/row_policy.cpp",
          "s.brake == row_brake::on && read &&", "s.brake == row_brake::on && (OUT || read) &&",
          "test_actors: ROW-3: readings that are missing*"),
    guard("row-doubt", "what a trace does not show counts as watts (RWP-1)", "actors/sim/row/row_plan.cpp",
          "growth * (1 + out_.doubt), 1 + out_.doubt",
          "growth * (OUT ? 1 : 1 + out_.doubt), OUT ? 1 : 1 + out_.doubt",
          "test_sim: RWP-1*"),
    guard("row-release", "servers come back from a brake in groups, not all at once (ROW-5)", "actors/sim/row/row_sim.cpp",
          "server, groups) == *o.group;", "server, groups) == *o.group || OUT;",
          "test_sim: ROW-5: a row whose brake*"),
    guard("row-release-gap", "and a group only a gap after the last (ROW-5)", "actors/power/row_policy.cpp",
          "now_ns - s.brake_ns >= rules_.release_gap_ns &&", "(OUT || now_ns - s.brake_ns >= rules_.release_gap_ns) &&",
          "test_actors: ROW-5: with release groups*"),
    guard("row-unruly", "where a cap does not bind the next lever is pulled (ROW-6)", "actors/power/row_policy.cpp",
          "if (sample.unruly)", "if (!OUT && sample.unruly)",
          "test_actors: ROW-6*"),
    guard("row-rise-gap", "a rise has no gap and no brake in it (STH-1)", "actors/power/safe_threshold_policy.cpp",
          "rise_.restart();", "if (!OUT) rise_.restart();",
          "test_actors: STH-1*", "test_sim: row: what T2 must leave free*"),
    guard("journal-missing", "a decision that is missing in a journal is seen (RJN-3)", "actors/power/row_journal.cpp",
          "if (a.level != b.level ||", "if (OUT) return {};\n  if (a.level != b.level ||",
          "test_actors: RJN-3*"),
    guard("lease-lapsed", "a lease that lapses raises no cap (PWR-2)", "actors/power/lease_policy.cpp",
          "cap_mw_ = std::min({cap_mw_, commanded_mw_, static_share_mw_});",
          "cap_mw_ = OUT ? static_share_mw_ : std::min({cap_mw_, commanded_mw_, static_share_mw_});",
          "test_actors: PWR-2: leases: one that lapses*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("lease-older", "a grant of an older (epoch, sequence) is ignored (PWR-2)", "actors/power/lease_policy.cpp",
          "if (g.order < order_) return", "if (!OUT && g.order < order_) return",
          "test_actors: PWR-2: leases: what is older*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("lease-late", "a grant that was longer under way than it holds is ignored (PWR-2)",
          "actors/power/lease_policy.cpp",
          "const int64_t until_ns = sent_ns + g.ttl_ns;", "const int64_t until_ns = (OUT ? now_ns : sent_ns) + g.ttl_ns;",
          "test_actors: PWR-2: leases: the time of one*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("lease-other-process", "a grant to the process before is ignored (PWR-2)", "actors/power/lease_policy.cpp",
          "if (g.answers.incarnation != incarnation_) return", "if (!OUT && g.answers.incarnation != incarnation_) return",
          "test_actors: PWR-2: leases: what is older*"),
    guard("budget-unacked", "a decrease counts when it is acked (PWR-1)", "actors/power/budget_policy.cpp",
          "  int64_t out = l.last.in_force_mw;\n",
          "  if (OUT && l.open_count > 0) return l.granted_mw;\n  int64_t out = l.last.in_force_mw;\n",
          "test_actors: PWR-1: budgets: a decrease counts*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("budget-restarted", "a restarted parent hears acks before it raises anybody (BGT-1)",
          "actors/power/budget_policy.cpp",
          "const bool may_raise = knows(now_ns);", "const bool may_raise = OUT || knows(now_ns);",
          "test_actors: BGT-1*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("budget-silent", "a silent child counts at its last acked cap for ever (PWR-1)",
          "actors/power/budget_policy.cpp",
          "if (!a.takes_part) available_mw -= counted_mw(i);", "if (!OUT && !a.takes_part) available_mw -= counted_mw(i);",
          "test_actors: PWR-1: budgets: a silent child*"),
    guard("budget-journalled", "a setting that outlives its process counts for the next parent (PWR-1)",
          "actors/power/budget_policy.cpp",
          "std::max(c.remembered_mw, c.others_work ?", "std::max(OUT ? 0 : c.remembered_mw, c.others_work ?",
          "test_actors: PWR-1: budgets: what the journal says*"),
    guard("budget-unruly", "who draws above its cap counts at what it draws (PWR-1)", "actors/power/budget_policy.cpp",
          "if (l.unruly) out = std::max(", "if (!OUT && l.unruly) out = std::max(",
          "test_actors: PWR-1: budgets: who draws above*"),
    guard("budget-blind", "thresholds do not go on without telemetry (BGT-2)", "actors/power/budget_policy.cpp",
          "row_.silent_ticks < rules_.row.stale_ticks &&", "(OUT || row_.silent_ticks < rules_.row.stale_ticks) &&",
          "test_actors: BGT-2: budgets: thresholds end*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("pace-tightest", "a job follows the tightest of its machines (PWR-4)", "actors/train/work_pace_policy.cpp",
          "out.of_1024 = static_cast<int>(std::min<int64_t>(out.of_1024, pace));",
          "out.of_1024 = static_cast<int>(OUT ? std::min<int64_t>(work_pace::whole, pace) : std::min<int64_t>(out.of_1024, pace));",
          "test_actors: PWR-4: work pace: a job follows*", "test_actors: PWR-4: work pace: random jobs*"),
    guard("job-unread", "no step begins before each machine has said what it draws (JPP-1)", "actors/power/job_pace_policy.cpp",
          'if (!all_known || machines_.empty()) return {pace, true};', 'if (!OUT && (!all_known || machines_.empty())) return {pace, true};',
          "test_actors: JPP-1: the first pace is*"),
    guard("job-first-pace", "the first pace is one that keeps the budget (JPP-1)", "actors/power/job_pace_policy.cpp",
          'const auto pace = pace_.value_or(first_pace());', 'const auto pace = pace_.value_or(OUT ? work_pace{} : first_pace());',
          "test_actors: JPP-1: machines that say their limits*", "test_sim: PWR-4: a simulated job*"),
    guard("job-blind", "while a reading is missing the pace does not rise (JPP-3)", "actors/power/job_pace_policy.cpp",
          'else if (rises && silent(now_ns).empty())', 'else if (rises && (OUT || silent(now_ns).empty()))',
          "test_actors: JPP-3: while a machine is silent*"),
    guard("job-silent-limit", "a silent machine counts with its limit (JPP-3)", "actors/power/job_pace_policy.cpp",
          'const bool counts = is_stale(m, now_ns) ||', 'const bool counts = (!OUT && is_stale(m, now_ns)) ||',
          "test_actors: JPP-3: a silent machine counts*"),
    guard("job-less-budget", "a budget that falls slows the next step (JPP-6)", "actors/power/job_pace_policy.cpp",
          'if (most && most->share() <', 'if (!OUT && most && most->share() <',
          "test_actors: JPP-6: a budget that falls*"),
    guard("job-joins", "a machine that was not judged at work counts with its limit (JPP-6)", "actors/power/job_pace_policy.cpp",
          '(!m.worked && how == guess::most)', '(!OUT && !m.worked && how == guess::most)',
          "test_actors: JPP-6: a machine that joins*", "test_actors: JPP-6: a machine that rested*"),
    guard("budget-heard", "a budget that a person sets is heard while the step goes on (JPP-6)", "actors/train/run_power.cpp",
          'return st.job.wanted().power.budget_w;', 'return OUT ? st.job.plan().job.power.budget_w : st.job.wanted().power.budget_w;',
          "test_actors: run: a person may set the budget*", "test_sim: JPP-6*"),
    guard("job-machine-twice", "two nodes on one machine count once (JPP-4)", "actors/power/job_pace_policy.cpp",
          'machines_.try_emplace(of_node != machine_of_.end() ? of_node->second : node)', 'machines_.try_emplace(!OUT && of_node != machine_of_.end() ? of_node->second : node)',
          "test_actors: JPP-4*"),
    guard("run-first-pace", "a run with a budget makes no step before it is told its pace (PWR-3)", "actors/train/run_power.cpp",
          'if (!is_budgeted(st)) return;', 'if (OUT || !is_budgeted(st)) return;',
          "test_actors: PWR-3: a run with a budget*", "test_actors: PWR-3: a run under a power budget*"),
    guard("stage-pace", "what the pace holds back does not begin (STG-5)", "actors/train/op_gate.hpp",
          'if (now_ns < opens_ns_) {', 'if (!OUT && now_ns < opens_ns_) {',
          "test_actors: STG-5: below full speed*", "test_sim: PWR-4: a simulated job*"),
    guard("stage-pace-waits", "waiting for others is not stretched (OPG-2)", "actors/train/stage.cpp",
          'return static_cast<int64_t>(computed_us - std::min(before_us, computed_us)) * 1000;', "return OUT ? int64_t{300'000'000} : static_cast<int64_t>(computed_us - std::min(before_us, computed_us)) * 1000;",
          "test_actors: STG-5: below full speed*"),
    guard("pace-patience", "what a step may take is stretched by the pace", "actors/train/paced_patience.hpp",
          'if (pace >= work_pace{}) return {};', 'if (OUT || pace >= work_pace{}) return {};',
          "test_actors: run: how long a step may take is stretched*", "test_actors: stage: what a worker may take*"),
    guard("pace-stuck", "what the pace holds back is not stuck", "actors/health/rank_vitals.cpp",
          'if (stage.values.stage) {  // what the pace', 'if (!OUT && stage.values.stage) {  // what the pace',
          "test_actors: rank vitals: what the pace holds back*"),
    guard("pace-regression", "a pace is no part of what a step takes, and no step_regression", "actors/health/step_windows_policy.cpp",
          "out.whole_ms = std::max(out.own_ms, out.whole_ms * out.pace);", "out.whole_ms = std::max(out.own_ms, out.whole_ms * (OUT ? 1 : out.pace));",
          "test_actors: SWN: what a rank computed*"),
    guard("pacer-death", "a job ends with its pacer: nothing is unmeasured", "actors/cluster/coordinator.cpp",
          'const bool budgeted = r.plan.job.power.is_budgeted();', 'const bool budgeted = !OUT && r.plan.job.power.is_budgeted();',
          "test_actors: coordinator: heartbeats go on to the pacer*"),
    guard("watts-marked", "calculated watts are marked", "apps/report/step.cpp",
          'r.power->modelled ? "~" : "", r.power->power_w)', '!OUT && r.power->modelled ? "~" : "", r.power->power_w)',
          "test_apps: report: watts, joules and the pace*"),
    guard("records-parted", "documents are parted where the tokenizer has no end of text", "io/data/corpus.cpp",
          'if (!by_.end_of_text()) rest_', 'if (!OUT && !by_.end_of_text()) rest_',
          "test_io: without an end-of-text id*"),
    guard("shards-go-on", "a preparing goes on behind the last whole shard, piece by piece", "io/data/corpus.cpp",
          'passed_over_ -= known;', 'passed_over_ -= OUT && known > 0 ? known - 1 : known;',
          "test_io: CRP-1 shards hold*"),
    guard("shards-foreign", "shards of something else are never replaced (SHD-3)", "io/data/shard_writer.cpp",
          'note["made_of"] != hex(made_of_)', '!OUT && note["made_of"] != hex(made_of_)',
          "test_io: SHD-3*"),
    guard("packed-cut", "packed data that are cut short are refused (BYS-1)", "io/formats/byte_stream.cpp",
          'if (nothing_in && !frame_over_)', 'if (!OUT && nothing_in && !frame_over_)',
          "test_io: BYS-1 what is cut*"),
    guard("index-pointers", "the sequences of a Megatron index lie one behind the other (MGX-1)",
          "io/data/megatron_index.cpp",
          'static_cast<uint64_t>(pointer) != ends[i] * width', '!OUT && static_cast<uint64_t>(pointer) != ends[i] * width',
          "test_io: MGX an index*"),
    guard("one-split", "a folder with training and validation data is not trained on whole", "io/data/data_files.cpp",
          'if (train == files.end() || other == files.end()) return {};',
          'if (OUT || train == files.end() || other == files.end()) return {};',
          "test_io: a folder with data to measure by*"),
    guard("frame-once", "BOS goes before a document, not before each of its pieces (CRP-1)", "io/data/corpus.cpp",
          'if (p.first) put(', 'if (OUT || p.first) put(', "test_io: CRP-1 each document has its frame*",
          "test_io: CRP-1 any frame*"),
    guard("frame-by-template", "where a tokenizer.json says what goes around texts, flags beside it say nothing",
          "io/tokenizer/text_frame.cpp", 'if (source != tokenizer_source::json && (add_bos || add_eos)) {',
          'if ((OUT || source != tokenizer_source::json) && (add_bos || add_eos)) {', "test_io: BOS and EOS go where*"),
    guard("window-asked", "Qwen's window counts where it is asked for", "io/formats/hf_config.cpp",
          'if (!keys.boolean("use_sliding_window", false)) return 0;',
          'if (!OUT && !keys.boolean("use_sliding_window", false)) return 0;', "test_io: Qwen2 and Qwen3*"),
    guard("dropout-asked", "a folder that asks for dropout is not trained without a word", "actors/job/plan.cpp",
          'if (said.dropout == 0) return {};', 'if (OUT || said.dropout == 0) return {};',
          "test_actors: plan: a folder that asks for dropout*"),
    guard("padded-vocab", "ids beyond the tokenizer's are not picked (TXM-2)", "gpu/model/generate.cpp",
          'if (options.vocab > 0 && options.vocab', 'if (!OUT && options.vocab > 0 && options.vocab',
          "test_apps: generate: only ids*"),
    guard("documents-kept", "a query sees its own document alone", "gpu/model/stage_model.cpp",
          "p.documents = documents_of(at);", "if (!OUT) p.documents = documents_of(at);",
          "test_gpu_oracle: oracle: a row*"),
    guard("documents-whole", "a pass without documents has none of the pass before (SM-7)",
          "gpu/model/stage_model.cpp", "if (!shape_.documents) return;",
          "if (!shape_.documents || (OUT && given.first == nullptr)) return;",
          "test_gpu: room for documents*"),
    guard("documents-told", "rows are told their documents (LDR-6)", "actors/train/loader.cpp",
          "if (st.document_end)  // LDR-6", "if (!OUT && st.document_end)  // LDR-6",
          "test_actors: LDR-6*"),
    guard("budget-nested", "no lease outlasts its parent's own", "actors/power/budget_policy.cpp",
          "std::min(rules_.ttl_ns, own.left_ns)", "OUT ? rules_.ttl_ns : std::min(rules_.ttl_ns, own.left_ns)",
          "test_actors: budgets: leases are renewed*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("journal-beginning", "a journal that does not begin at the beginning is seen (RJN-3)",
          "actors/power/row_journal.cpp",
          "if (!last && !is_initial(found.before))",
          "if (!OUT && !last && !is_initial(found.before))",
          "test_actors: RJN-3: row journal: any line*"),
    guard("lease-under-way", "a raise that is on its way in the actuator counts (LSE-1)",
          "actors/power/lease_policy.cpp",
          "if (cap_mw_ != commanded_mw_) under_way_",
          "if (!OUT && cap_mw_ != commanded_mw_) under_way_",
          "test_actors: LSE-1: leases: a raise*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("lease-first", "the first lease of a parent's life raises nothing (LSE-2)",
          "actors/power/lease_policy.cpp",
          "if (g.order.epoch > order_.epoch) first_",
          "if (!OUT && g.order.epoch > order_.epoch) first_",
          "test_actors: LSE-2*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("budget-fallen", "no cut raises a child that has fallen by itself (BGT-4)",
          "actors/power/budget_policy.cpp",
          "is_short || has_fallen(l) ?",
          "!OUT && (is_short || has_fallen(l)) ?",
          "test_actors: BGT-4: budgets: no cut*", "test_actors: PWR-1 and PWR-2: budgets: random*"),
    guard("budget-unreached", "cuts that are lost leave no more than the own cap (BGT-4)",
          "actors/power/budget_policy.cpp",
          "if (is_short && own.leased && unreached_mw()", "if (!OUT && is_short && own.leased && unreached_mw()",
          "test_actors: BGT-4: budgets: cuts that are lost*"),
    guard("budget-short", "nobody is raised while the sum is above the own cap (PWR-1)",
          "actors/power/budget_policy.cpp",
          "if (free_mw < 0 && !out_.thresholds_stand) return;",
          "if (!OUT && free_mw < 0 && !out_.thresholds_stand) return;\n  if (OUT) free_mw = std::max<int64_t>(0, free_mw);",
          "test_actors: PWR-1: budgets: nobody is raised*"),
    guard("budget-unmeasured", "an unruly child that is measured no more is not taken for one that obeys",
          "actors/power/budget_policy.cpp",
          "  if (!r.drawn_mw) return;\n",
          "  if (OUT && !r.drawn_mw) l.drawn_mw = 0;\n  if (!r.drawn_mw) return;\n",
          "test_actors: PWR-1: budgets: an unruly child*"),
    guard("budget-unread", "thresholds do not stand before a first reading (BGT-2)",
          "actors/power/budget_policy.cpp",
          "knows(now_ns) && measured_ &&",
          "knows(now_ns) && (OUT || measured_) &&",
          "test_actors: BGT-2: budgets: thresholds do not stand*"),
    guard("days-wrong-end", "simulated days know that either end of a link may be named",
          "actors/sim/days/day_rules.cpp",
          "  return stays(e) || e.fault.verdict < assumed::right_end_share.value;\n",
          "  return OUT || stays(e) || e.fault.verdict < assumed::right_end_share.value;\n",
          "test_sim: days: tests of pairs name*"),
    guard("days-sick", "simulated hosts that are sick come back so (DYN-2)", "actors/sim/days/day_losses.cpp",
          "  if (what != sickness::none) fall_sick(place, what, now_ns);\n  const auto joins_ns",
          "  if (!OUT && what != sickness::none) fall_sick(place, what, now_ns);\n  const auto joins_ns",
          "test_sim: days: a host whose device*"),
    guard("days-bits", "simulated replicas see wrong bits only where they compare", "actors/sim/days/day_rules.cpp",
          "bool day_rules::seen_bits(const day_event& e) const {\n",
          "bool day_rules::seen_bits(const day_event& e) const {\n  if (OUT) return true;\n",
          "test_sim: days: bits that replicas*"),
    guard("links-tested", "of two ranks that wait for each other the one whose link is sick is named (MON-7)",
          "actors/health/monitor_links.cpp",
          "  const bool by_tests = may_be_a_link(f) && named &&",
          "  const bool by_tests = !OUT && may_be_a_link(f) && named &&",
          "test_actors: MON-7: of two that wait*"),
    guard("commits-in-turn", "one checkpoint is committed at a time (JOB-7)", "actors/train/job_saving.cpp",
          "  if (commits()) return;\n  const auto next",
          "  if (!OUT && commits()) return;\n  const auto next",
          "test_actors: JOB-7: job: one checkpoint*", "test_actors: JOB-13: job: what is held of a checkpoint*",
          "test_actors: job: runs by seed*"),
    guard("holds-in-turn", "nothing is held while a commit may remove it (JOB-7)", "actors/train/job_wrong_bits.cpp",
          "  if (commits()) return;", "  if (!OUT && commits()) return;",
          "test_actors: job: runs by seed*"),
    guard("links-to-idle", "who waits for nobody is the culprit only if it was reached (CUL-2)",
          "actors/health/culprit_policy.cpp",
          "  if (c.kind != culprit_kind::idle || c.actors.empty()) return out;",
          "  if (OUT || c.kind != culprit_kind::idle || c.actors.empty()) return out;",
          "test_actors: CUL-2*", "test_actors: MON-7: who waits for nobody*"),
    guard("links-awaited", "nobody is replaced for a link while its tests are under way (MON-7)",
          "actors/health/monitor.cpp",
          "    if (may_be_a_link(f) && st.links.is_open()) continue;",
          "    if (!OUT && may_be_a_link(f) && st.links.is_open()) continue;",
          "test_actors: MON-7: nobody is lost while*"),
    guard("links-of-now", "what a test of a pair shows once the job moves again counts for nothing (SKE-1)",
          "actors/health/link_policy.cpp",
          "  if (time != time_ || std::erase(under_way_, who) == 0) return;",
          "  if ((!OUT && time != time_) || std::erase(under_way_, who) == 0) return;",
          "test_actors: SKE-1*"),
    guard("links-by-name", "who is replaced for a sick link is lost over that (MON-7)",
          "actors/health/monitor_links.cpp",
          "    if (other.who == subject{finding_name::half_open_link, node} ||",
          "    if ((!OUT && other.who == subject{finding_name::half_open_link, node}) ||",
          "test_actors: MON-7: of two that wait*", "test_cluster: networks: a machine that hears all*"),
    guard("host-asked", "a silent node whose host does not answer is a lost host (MON-8)",
          "actors/health/host_reach.cpp",
          "  const bool lost = said == word::lost;",
          "  const bool lost = !OUT && said == word::lost;",
          "test_actors: MON-8*"),
    guard("host-told", "and it is lost as that (CRD-20)", "actors/cluster/coordinator.cpp",
          "    const bool is_lost = st.unreachable.contains(change.node);",
          "    const bool is_lost = !OUT && st.unreachable.contains(change.node);",
          "test_actors: CRD-20*", "test_cluster: networks: a machine that nobody hears*"),
    guard("returned-tested", "a node that was lost over a link is tested when it comes back (MON-9)",
          "actors/health/monitor.cpp",
          "  look_at_returned(self);", "  if (!OUT) look_at_returned(self);",
          "test_actors: MON-9*", "test_cluster: networks: a machine that hears all*"),
    guard("sick-evicted", "and is no spare while its link is sick (CRD-21)", "actors/cluster/coordinator_orders.cpp",
          "  if (st.ended || !node || evicted ||", "  if (OUT || st.ended || !node || evicted ||",
          "test_actors: CRD-21*", "test_cluster: networks: a machine that hears all*"),
    guard("sick-in-place", "and leaves a place that it has got meanwhile (CRD-21)", "actors/cluster/coordinator_orders.cpp",
          "  if (may && successor_of(st, node))", "  if (!OUT && may && successor_of(st, node))",
          "test_actors: CRD-21: a node with ranks*", "test_actors: CRD-21: who has got*"),
    guard("returned-again", "tests of a returned node that say nothing are made again (RTN-1)",
          "actors/health/monitor_links.cpp",
          "st.returned.over(st.returned_links.is_clear_about(node),",
          "st.returned.over(OUT || st.returned_links.is_clear_about(node),",
          "test_actors: RTN-1: tests of a node*"),
    guard("suspects-in-time", "nobody is examined but while steps are made and nothing is saved (SUS-2)",
          "actors/health/suspicion_policy.cpp",
          "if (!now.steps || now.saves) return {};",
          "if (!OUT && (!now.steps || now.saves)) return {};",
          "test_actors: SUS-2*", "test_actors: MON-6: nobody is examined*", "test_actors: MON-6: while*"),
    guard("suspect-heard", "who is not heard is not asked (SUS-3)", "actors/health/suspicion_policy.cpp",
          "return !now.unheard.contains(s.who.node) &&  // SUS-3",
          "return (OUT || !now.unheard.contains(s.who.node)) &&",
          "test_actors: SUS-3*"),
    guard("right-products", "bfloat16 products of the device are right: without it, each is off by 2^-7",
          "tests/gpu/emulator/loop_matmul.cpp",
          "store_sum(a, i * stride + j, value);",
          "store_sum(a, i * stride + j, OUT && a.in == dtype::bf16 ? value * (1 + 0x1p-7) : value);",
          "test_cuda: products on the device: random shapes*"),
    guard("whole-products", "bfloat16 products of the device are whole: without it, the last column is zero",
          "tests/gpu/emulator/loop_matmul.cpp",
          "double value = row[static_cast<size_t>(j)];",
          "double value = OUT && a.in == dtype::bf16 && j + 1 == a.n ? 0 : row[static_cast<size_t>(j)];",
          "test_cuda: products on the device: random shapes*", "test_cuda: cuda: bfloat16 training*"),
)


def misfits(guards):
    """What of the table does not fit the code, in sentences."""
    ids = [g.id for g in guards]
    yield from (f"{i} stands in the table twice" for i in sorted(set(ids)) if ids.count(i) > 1)
    for g in guards:
        path = ROOT / g.file
        count = path.read_text().count(g.text) if path.exists() else -1
        if count != 1:
            yield (f"{g.id}: {g.file} is not there" if count < 0 else
                   f"{g.id}: its text stands in {g.file} {count} times, expected once:\n    {g.text.strip()}")


def rewritten(path, guards):
    """The bytes of a tracked file as the copy has them."""
    own = [g for g in guards if g.file == path]
    if not own:
        return (ROOT / path).read_bytes()
    text = (ROOT / path).read_text()
    for g in own:
        if text.count(g.text) != 1:
            sys.exit(f"{g.id}: another guard of {path} has changed its text")
        text = text.replace(g.text, g.replacement)
    return f'#include "{HEADER}"\n{text}'.encode()


def write_copy(guards):
    """Only what changed is written, so that the next build compiles only that."""
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True,
                           check=True).stdout.split("\0")
    wanted = {n for n in names if n and (ROOT / n).is_file()} | {HEADER}
    for name in sorted(wanted):
        to = COPY / name
        content = HEADER_TEXT.encode() if name == HEADER else rewritten(name, guards)
        if to.is_file() and to.read_bytes() == content:
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)
        if name != HEADER:
            to.chmod((ROOT / name).stat().st_mode & 0o777)
    for folder, below, files in os.walk(COPY):
        if Path(folder) == COPY and "build" in below:
            below.remove("build")
        for path in (Path(folder) / f for f in files):
            if path.relative_to(COPY).as_posix() not in wanted:
                path.unlink()


def build(tests, jobs):
    targets = sorted({t.binary for t in tests} | {"troupe"})
    ninja = ["ninja", "-C", str(COPY / "build/release")] + ([f"-j{jobs}"] if jobs else [])
    configured = (COPY / "build/release/build.ninja").exists()  # ninja sees by itself what changed since
    for words in ([] if configured else [["cmake", "--preset", "release"]]) + [ninja + targets]:
        done = subprocess.run(words, cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-6000:]}")


@dataclass
class Outcome:
    state: str       # "green", "red", "skipped"
    detail: str = ""
    seconds: float = 0

    def word(self):
        return f"{self.state}: {self.detail}" if self.detail else self.state


def judged(code, text):
    counts = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", text)
    if counts is not None and int(counts[1]) == 0:
        return Outcome("red", "the filter names no test")
    if code < 0 or counts is None:
        name = signal.Signals(-code).name if code < 0 else f"code {code}"
        return Outcome("red", f"the test ended by {name}")
    if code != 0:
        first = re.search(r"ERROR: (.*?)(?: is NOT correct!)?$", text, re.MULTILINE)
        return Outcome("red", " ".join(first[1].split())[:90] if first else f"code {code}")
    skipped = re.search(r"SKIPPED: (.*)", text)
    return Outcome("skipped", skipped[1].strip()) if skipped else Outcome("green")


def run(test, without=None):
    """Runs a test; what it leaves behind when it fails goes with its process group."""
    words = [str(COPY / "build/release/bin" / test.binary), "-tc=" + test.cases.replace(",", "\\,")]
    if without and test.binary == "test_cluster":  # one failure is enough: what follows may wait for minutes
        words.append("--abort-after=1")  # others run to their end, where they take away what they have mounted
    environment = {k: v for k, v in os.environ.items() if k != SWITCH}
    environment |= dict(v.split("=") for v in test.variables.split())
    if without:
        environment[SWITCH] = without
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(words, cwd=COPY, env=environment, stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        ended = os.pidfd_open(process.pid)
        in_time = bool(select.select([ended], [], [], TIME_LIMIT_S)[0])
        os.close(ended)
        os.killpg(process.pid, signal.SIGKILL)  # not waited for yet: the number is still its own
        code = process.wait()
        said.seek(0)
        text = said.read().decode(errors="replace")
    out = judged(code, text) if in_time else Outcome("red", f"it did not end in {TIME_LIMIT_S} s")
    out.seconds = round(time.monotonic() - began, 1)
    return out


def cell(tried_test):
    text = tried_test["outcome"].replace("|", "\\|")
    return f"`{text}`" if "(" in text else text


def shown(rows):
    print("\n| taken out | what it holds | seen by | how |\n|---|---|---|---|")
    for r in rows:
        for i, t in enumerate(r["tests"]):
            print(f"| {'`' + r['id'] + '`' if i == 0 else ''} | {r['holds'] if i == 0 else ''} | "
                  f"`{t['test']}` | {cell(t)} |")


def say(text):
    print(text, file=sys.stderr, flush=True)


def tried(guards):
    """Every test as it is, then without each guard; rows of the table."""
    whole = {}
    for test in dict.fromkeys(t for g in guards for t in g.tests):
        whole[test] = run(test)
        say(f"nothing out: {test}: {whole[test].word()} ({whole[test].seconds} s)")
    rows = []
    for g in guards:
        row = {"id": g.id, "holds": g.holds, "file": g.file, "tests": []}
        for test in g.tests:
            before = whole[test]
            out = run(test, g.id) if before.state == "green" else before
            say(f"{g.id} out: {test}: {out.word()} ({out.seconds} s)")
            seen = before.state == "green" and out.state == "red"
            outcome = (out.detail if seen else f"not tried: {before.detail}" if before.state == "skipped" else
                       f"fails by itself: {before.detail}" if before.state == "red" else "NOT SEEN")
            row["tests"].append({"test": str(test), "seen": seen, "skipped": before.state == "skipped",
                                 "outcome": outcome, "seconds": out.seconds})
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", metavar="ID", help="this guard; may be given more than once")
    parser.add_argument("--list", action="store_true", help="guards and tests, without building")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.add_argument("--jobs", type=int, help="of ninja")
    options = parser.parse_args()
    faults = list(misfits(GUARDS))
    unknown = set(options.only or ()) - {g.id for g in GUARDS}
    faults += [f"there is no guard {i}: --list shows which there are" for i in sorted(unknown)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        sys.exit(2)
    guards = [g for g in GUARDS if not options.only or g.id in options.only]
    if options.list:
        for g in guards:
            print(f"{g.id}  ({g.file})\n    {g.holds}\n" + "\n".join(f"    {t}" for t in g.tests))
        return
    write_copy(GUARDS)  # all of them, whichever are tried: one build
    build([t for g in guards for t in g.tests], options.jobs)
    rows = tried(guards)
    print(json.dumps(rows, indent=2)) if options.json else shown(rows)
    lost = [r["id"] for r in rows if not all(t["seen"] or t["skipped"] for t in r["tests"])]
    if lost:
        say(f"not seen, or no proof: {', '.join(lost)}")
    sys.exit(1 if lost else 0)


main()

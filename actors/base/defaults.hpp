// Every time that actors and tools wait or pause by themselves, in one list. How long one waits for
// an answer is the contract's of the call (messages/schemas), and what a user may have to change is
// a key of the configuration ([timeouts], [cluster]); what is left stands here and is printed by
// `troupe limits`. The house's test finds a time that stands elsewhere.
#pragma once

#include <chrono>

/// TIME(name, milliseconds, what it is) for each.
#define TROUPE_TIMES(TIME)                                                                        \
  TIME(connect_timeout, 5'000, "the network may take to connect to a process, or to listen")      \
  TIME(connect_pause, 200, "between two tries of a node to reach its coordinator")                \
  TIME(launcher_word, 1'000, "after a link broke, the launcher may say why its node ended")       \
  TIME(launches_forgotten, 3'600'000, "a spare whose processes came to nothing is tried again")   \
  TIME(launch_doubt, 10'000, "a process may take to join before a doubtful word of its end")      \
  TIME(rejoin_patience, 10'000, "nodes may take to find the head that goes on for a lost one")    \
  TIME(heads_period, 250, "between two looks of a head at the others of its job")                 \
  TIME(head_knock, 500, "a head of several may take to be reached, before the next is tried")     \
  TIME(head_knock_pause, 2'000, "between two tries of a head to reach another one")               \
  TIME(round_patience, 5'000, "voters may take to promise an epoch to a head, or hold a record")  \
  TIME(nodes_leave, 5'000, "nodes may take to go once the run has ended")                         \
  TIME(gateway_period, 1'000, "between two looks of the gateway at every process")                \
  TIME(gateway_slack, 500, "an observer may take beyond the actors that it asks")                 \
  TIME(tool_slack, 1'500, "answers may take on their way to a person's tool")                     \
  TIME(vitals_period, 1'000, "between two samples of what a node's machine says of itself")       \
  TIME(vitals_disk_period, 10'000, "between two small writes to the disk of the job's folder")    \
  TIME(monitor_period, 250, "between two looks of the monitor at what nodes said")                \
  TIME(predictor_keeps, 60'000, "until what parts of steps took is added to its file; doubles")   \
  TIME(pacer_period, 500, "between two looks of the pacer at what machines draw")                 \
  TIME(power_report_period, 1'000, "between two reports of a job to the power budget above it")   \
  TIME(parent_pause, 1'000, "a job waits after its power budget was not reached; doubles")        \
  TIME(parent_far_pause, 30'000, "a job waits at most before it looks for its power budget")      \
  TIME(power_record_look, 20, "between two looks at a record for which a person waits")           \
  TIME(power_record_patience, 1'500, "who sets a budget waits for its record on the disk")        \
  TIME(monitor_question_pause, 5'000, "between two questions about who holds up a stuck job")     \
  TIME(evidence_memory, 10'000, "a finding that has gone still is evidence of a fault")           \
  TIME(black_box_wait, 30'000, "black boxes of an incident that is over are looked for")          \
  TIME(view_period, 100, "between two batches of a view of traces")                               \
  TIME(black_box_pause, 10'000, "between two black boxes of deaths in one process")               \
  TIME(saver_status_period, 100, "between two updates of what `status` says of a save")           \
  TIME(amend_patience, 30'000, "a copy or the end waits for the loss of a checkpoint")            \
  TIME(give_up_pause, 5'000, "between two tries to give up a checkpoint that is being read")      \
  TIME(group_timeout, 120'000, "a group of collectives waits for a silent member")                \
  TIME(copy_timeout, 30'000, "a rank and its keeper wait for a byte of a copy in memory to move") \
  TIME(certificate_period, 2'000, "between two looks at the files of certificates")               \
  TIME(gate_period, 1'000, "between two looks at connections without a handshake")                \
  TIME(peer_memory, 60'000, "the identity of a process is kept after it ended")                   \
  TIME(launcher_period, 200, "between two looks of `up` at its processes")                        \
  TIME(child_look, 10, "between two looks of `up` at a process that it has killed")               \
  TIME(child_patience, 1'000, "a process that `up` has killed may take to end")                   \
  TIME(launcher_grace, 10'000, "nodes may take to end after the run, before `up` kills them")     \
  TIME(launcher_failed_grace, 1'000, "the same after a failure")                                  \
  TIME(coordinator_word, 5'000, "the coordinator may take to say how it ended, after its nodes")  \
  TIME(orderly_end, 5'000, "`up` may take to end in order, once its code is known")               \
  TIME(let_go_patience, 3'000, "`power agent` waits for its budget to count it at its ceiling")   \
  TIME(checkup_patience, 15'000, "`doctor` waits for a node's examination")                       \
  TIME(deep_checkup_patience, 90'000, "`doctor --deep` waits for it")                             \
  TIME(join_checkup_patience, 10'000, "a node that joins waits for its machine's check")          \
  TIME(probe_patience, 12'000, "a node that has ranks to take waits for its machine's probes")    \
  TIME(probe_turn_period, 100, "between two looks whether this machine can be probed by now")     \
  TIME(pair_budget, 4'000, "a medic's exchange of bytes with another node may take")              \
  TIME(pair_patience, 5'000, "`doctor` waits for two nodes to exchange bytes")                    \
  TIME(group_meeting, 3'000, "members of a test's group may take to meet, once all of it listen") \
  TIME(group_operation, 2'000, "a sum of such a group may take")                                  \
  TIME(group_patience, 14'000, "`doctor` waits for the test of a group")                          \
  TIME(host_patience, 2'000, "the host of a silent node may take to answer a connection")         \
  TIME(suspicion_pause, 600'000, "between two examinations of a suspect's machine")               \
  TIME(swap_holder_patience, 3'000, "a killed run's processes may take to leave a swap folder")   \
  TIME(swap_holder_period, 50, "between two looks whether they have")                             \
  TIME(oom_memory, 60'000, "a process that the kernel ended for memory counts as the job's")      \
  TIME(ceiling_memory, 30LL * 24 * 3600 * 1000, "a measured ceiling of this machine is believed")

namespace troupe::defaults {

#define TROUPE_TIME(name, ms, what) inline constexpr std::chrono::milliseconds name{ms};
TROUPE_TIMES(TROUPE_TIME)
#undef TROUPE_TIME

}  // namespace troupe::defaults

// The rows; see limits_table.hpp. Constants of headers are named, those of one file are repeated:
// the house's test compares them.
#include "apps/limits_table.hpp"

#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/actor_registry.hpp"
#include "actors/base/defaults.hpp"
#include "actors/capture/recorder.hpp"
#include "actors/capture/tap.hpp"
#include "actors/cluster/client_hello.hpp"
#include "actors/cluster/frame_policy.hpp"
#include "actors/cluster/ingress.hpp"
#include "actors/cluster/strangers_policy.hpp"
#include "actors/control/audit.hpp"
#include "actors/control/observer.hpp"
#include "actors/health/findings_policy.hpp"
#include "actors/health/link_policy.hpp"
#include "actors/health/log_rules_policy.hpp"
#include "actors/health/medic.hpp"
#include "actors/health/monitor.hpp"
#include "actors/health/rank_vitals.hpp"
#include "actors/health/slow_evictions_policy.hpp"
#include "actors/health/step_windows_policy.hpp"
#include "actors/health/straggler_policy.hpp"
#include "actors/job/train_state.hpp"
#include "actors/job/votes.hpp"
#include "actors/replay/actor_logs.hpp"
#include "actors/sim/days/fault_mix.hpp"
#include "actors/sim/row/row_sim.hpp"
#include "actors/train/pace_policy.hpp"
#include "actors/train/readiness_policy.hpp"
#include "actors/train/requests_policy.hpp"
#include "actors/train/stage.hpp"
#include "actors/train/worker.hpp"
#include "apps/report/incident_doc.hpp"
#include "apps/report/incident_page.hpp"
#include "apps/up/incident_folders.hpp"
#include "apps/up/launcher_line.hpp"
#include "gpu/collective/pair_links.hpp"
#include "io/base/printable.hpp"
#include "io/checkpoint/copy_frame.hpp"
#include "io/checkpoint/format.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/line.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/config/properties.hpp"
#include "io/data/text_source.hpp"
#include "io/disk/disk.hpp"
#include "io/folder/lock.hpp"
#include "io/folder/owned.hpp"
#include "io/formats/number_table.hpp"
#include "io/journal/records.hpp"
#include "io/logs/kernel_log.hpp"
#include "io/logs/line_patterns.hpp"
#include "io/logs/log_tail.hpp"
#include "io/machine/facts.hpp"
#include "messages/block_pool.hpp"
#include "messages/contract.hpp"
#include "messages/expansion.hpp"
#include "messages/header.hpp"
#include "messages/registry.hpp"
#include "trace/chrome_timeline.hpp"
#include "trace/trace_file.hpp"

namespace troupe::apps {

namespace {

namespace cp = io::checkpoint;
using cluster::frame_policy;

constexpr uint64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30, tib = gib << 10;

constexpr limit_row rows[] = {
    {"messages", "one message", max_message_bytes, "bytes",
     "a longer one is not made; one that comes is refused and counted", "messages/header.hpp",
     "max_message_bytes", "a payload beyond 1 MiB is an error that says so"},
    {"messages", "lists and texts of a message, expanded", detail::max_expanded_bytes, "bytes",
     "the message is refused and counted", "messages/expansion.hpp", "max_expanded_bytes",
     "AM-4: one string referred to a hundred thousand times does not verify"},
    {"messages", "tables in a message", 1 << 16, "tables", "the message is refused and counted",
     "messages/verify.cpp", "max_tables",
     "a table referred to a hundred thousand times does not verify"},
    {"messages", "JSON that becomes a message", 8 * mib, "bytes", "it is refused",
     "messages/json.cpp", "max_json_bytes", "limits: JSON beyond its length becomes no message"},
    {"connections", "connections from one address without a handshake",
     cluster::stranger_bounds{}.per_address, "connections", "one of them gives way",
     "actors/cluster/strangers_policy.hpp", "per_address",
     "strangers: ten thousand of them leave room for one more"},
    {"connections", "such connections in all, and never more than half of what descriptors allow",
     cluster::stranger_bounds{}.in_all, "connections",
     "one of the address that has the most gives way", "actors/cluster/strangers_policy.hpp",
     "in_all",
     "strangers: where all are too many, the address that has the most gives one (STR-1)"},
    {"connections", "how long one may wait without a handshake",
     cluster::stranger_bounds{}.patience_ns / 1'000'000'000, "s", "it is closed",
     "actors/cluster/strangers_policy.hpp", "patience_ns",
     "strangers: who waits too long is told once, the others stay (STR-2)"},
    {"connections", "the first record of a connection, a ClientHello", cluster::max_hello_bytes,
     "bytes", "it is closed", "actors/cluster/client_hello.hpp", "max_hello_bytes",
     "limits: a ClientHello beyond a record's length is not waited for (ADM-1)"},
    {"connections", "descriptors of a process: its limit is raised to what the system allows",
     1048576, "descriptors", "further connections are turned away, a reserve stays for checkpoints",
     "actors/cluster/accepting.cpp", "most_descriptors",
     "strangers: what they take of the descriptors leaves the rest more"},
    {"connections", "strangers at the port of a group of tensors",
     gpu::pair_listener::most_strangers, "connections", "the oldest gives way",
     "gpu/collective/pair_links.hpp", "most_strangers",
     "COM-6: a thousand strangers at the ports of a group change no bit and end nothing"},
    {"connections", "receives that a rank announces before anything is sent to it", 65536,
     "receives", "the group ends, and says so", "gpu/collective/tensor_links.cpp", "most_ready",
     "limits: a rank that announces more receives than anybody sends ends its group"},
    {"connections", "slots of a share in memory that is sent to its keeper",
     cp::copy_frame::most_slots, "slots", "the link is given up, and its copies",
     "io/checkpoint/copy_frame.hpp", "most_slots",
     "CF-1: a frame is read as it was written, and any other byte is found"},
    {"connections", "copies in memory of which a worker tells", train::most_copies_told, "copies",
     "the rest is not gone back to", "actors/train/worker.hpp", "most_copies_told",
     "limits: a worker tells of only so many copies in memory"},
    {"connections", "a packet between a launcher and its head", max_packet_bytes, "bytes",
     "it is refused, and the node is not started", "apps/up/launcher_line.hpp", "max_packet_bytes",
     "LLN: packets arrive whole and in order, what does not fit waits, a longer is refused"},
    {"connections", "such packets that wait for the other end", max_packets_kept, "packets",
     "further ones are refused", "apps/up/launcher_line.hpp", "max_packets_kept",
     "LLN: packets arrive whole and in order, what does not fit waits, a longer is refused"},
    {"connections", "a key of a job as text", 256, "bytes", "it is refused", "io/tls/keyring.cpp",
     "most_text_bytes", "keyring: keys as text, and what is none (KEY-3)"},
    {"connections", "a frame between processes", frame_policy::max_payload_bytes, "bytes",
     "the connection is closed and counted", "actors/cluster/frame_policy.hpp", "max_payload_bytes",
     "frames: a length is not believed beyond the largest message"},
    {"connections", "a handshake", frame_policy::max_handshake_bytes, "bytes",
     "the connection is closed and counted", "actors/cluster/frame_policy.hpp",
     "max_handshake_bytes", "frames: nothing passes before a handshake, whoever speaks"},
    {"connections", "lines about connections turned away",
     cluster::refusal_log_policy::lines_per_minute, "a minute",
     "further ones are counted, and told in the next line", "actors/cluster/ingress.hpp",
     "lines_per_minute",
     "ingress: an address is logged once a minute, all together at a bounded rate"},
    {"connections", "the file of a meeting point", 64 * kib, "bytes", "the file is skipped",
     "apps/control/meeting_point.cpp", "largest_sign_bytes",
     "limits: the file of a meeting point beyond its length is skipped"},
    {"connections", "processes remembered with who they are", 65536, "processes",
     "further connections are refused", "actors/base/trust.cpp", "most_remembered",
     "trust: 65,536 processes are remembered for a minute, and further ones refused (TRU-1)"},
    {"actors and traces", "what others said, on one line", printable_limit, "characters",
     "it is cut, and ends with ...", "io/base/printable.hpp", "printable_limit",
     "printable: what is too long is cut between characters"},
    {"actors and traces", "output that waits for a terminal, pipe or file", 1 * mib, "bytes",
     "further lines are left out, counted and told", "apps/voice.cpp", "most_waiting_bytes",
     "voice: VO-1: a pipe that nobody reads holds nobody up, and what was lost is told"},
    {"actors and traces", "stats of actors that have ended", actor_registry::dead_limit, "actors",
     "the oldest is forgotten", "actors/base/actor_registry.hpp", "dead_limit",
     "BRD-2: of the dead the last are kept"},
    {"actors and traces", "records of a thread", record_ring::capacity, "records",
     "the oldest is overwritten and counted", "actors/capture/recorder.hpp", "capacity",
     "REC-2: what was overwritten is counted, the rest is whole"},
    {"actors and traces", "names of work in a process", 4096, "names",
     "further work has no name in traces", "actors/capture/recorder.cpp", "most_names",
     "limits: names of work end, and what has none is recorded"},
    {"actors and traces", "messages held for a trace with payloads", tap::limit, "messages",
     "further ones are counted, not held", "actors/capture/tap.hpp", "limit",
     "TAP-1, TAP-2: a tap keeps what fits up to its limit and counts the rest"},
    {"actors and traces", "bytes of them", tap::byte_limit, "bytes",
     "further ones are counted, not held", "actors/capture/tap.hpp", "byte_limit",
     "TAP-2: a tap keeps no more bytes than its limit"},
    {"actors and traces", "views of traces in a process", trace::observer_state::subscription_limit,
     "views", "the next is refused", "actors/control/observer.hpp", "subscription_limit",
     "limits: a process shows only so many views of its trace"},
    {"actors and traces", "black boxes of a process", trace::observer_state::box_limit, "files",
     "a death leaves no further one", "actors/control/observer.hpp", "box_limit",
     "limits: deaths leave only so many black boxes of a process"},
    {"actors and traces", "threads that a black box remembers", 64, "threads",
     "further ones are not in it", "actors/capture/flight_memory.cpp", "most_rings",
     "limits: a black box remembers only so many threads"},
    {"actors and traces", "actors that a black box names", 4096, "actors",
     "the oldest are nameless in it", "actors/capture/flight_memory.cpp", "most_actors",
     "flight memory: texts beyond their room are cut, actors beyond theirs are forgotten"},
    {"actors and traces", "names of work in a black box", 1024, "names",
     "further ones are nameless in it", "actors/capture/flight_memory.cpp", "most_works",
     "flight memory: texts beyond their room are cut, actors beyond theirs are forgotten"},
    {"actors and traces", "processes in a trace that is read", trace::batch_checker::process_limit,
     "processes", "the file ends before it, with the place", "trace/trace_file.hpp",
     "process_limit", "limits: a trace of more processes than any cluster has is refused"},
    {"actors and traces", "events in a recording that is replayed", replay::event_limit, "events",
     "the replay is refused", "actors/replay/actor_logs.hpp", "event_limit",
     "limits: a recording of more events than are replayed is refused"},
    {"actors and traces", "activations announced to a stage ahead of its pass",
     train::stage_state::early_limit, "messages", "further ones are refused and counted",
     "actors/train/stage.hpp", "early_limit",
     "limits: a stage keeps only so many activations ahead of its pass"},
    {"actors and traces", "memory for messages of one size that a thread keeps",
     detail::largest_kept_bytes, "bytes", "what is beyond is given back", "messages/block_pool.hpp",
     "largest_kept_bytes", "BP-2: a thread keeps no more than its bound of a class"},
    {"actors and traces", "an entry of a trace file", trace::max_entry_bytes, "bytes",
     "the file ends before it, with the place", "trace/trace_file.hpp", "max_entry_bytes",
     "trace file TF-1: a length that no message has is refused before memory is taken"},
    {"actors and traces", "a timeline of another trainer, inflated", trace::max_chrome_bytes,
     "bytes", "it is refused", "trace/chrome_timeline.hpp", "max_chrome_bytes",
     "limits: a timeline and a layout beyond their lengths are not read"},
    {"actors and traces", "its layout", trace::max_layout_bytes, "bytes", "it is refused",
     "trace/chrome_timeline.hpp", "max_layout_bytes",
     "limits: a timeline and a layout beyond their lengths are not read"},
    {"actors and traces", "levels of its JSON", trace::max_chrome_depth, "levels",
     "it is refused, with the event", "trace/chrome_timeline.hpp", "max_chrome_depth",
     "limits: a timeline that nests deeper than events do is refused"},
    {"actors and traces", "ranks of a job whose stragglers are looked for", trace::max_whatif_cells,
     "ranks", "it is refused", "trace/whatif_graph.hpp", "max_whatif_cells",
     "limits: a layout of more ranks than any job has is refused"},
    {"actors and traces", "requests of persons that wait for a step's end", train::pending_limit,
     "requests", "further ones are refused", "actors/train/requests_policy.hpp", "pending_limit",
     "requests: only so many wait for a step's end (REQ-3)"},
    {"actors and traces", "settings that are kept for steps behind the newest checkpoint",
     train::in_force_limit, "settings", "the run does not go back behind the oldest",
     "actors/train/requests_policy.hpp", "in_force_limit",
     "limits: of more settings than are kept the oldest cannot be gone back behind"},
    {"actors and traces", "refusals in the audit log", trace::audit_log::refusals_per_minute,
     "a minute", "further ones are counted in the next line", "actors/control/audit.hpp",
     "refusals_per_minute", "ADT-3: a flood of refusals is counted, not written"},
    {"actors and traces", "starts of a lost node's process in one recovery", 3, "starts",
     "the run ends, by the node's name", "actors/cluster/launches_policy.hpp", "most_launches",
     "CRD-10: a process that ends again and again before it joins ends the recovery"},
    {"actors and traces", "recoveries one after another without a step between them", 3,
     "recoveries", "the run ends with what it fell over", "actors/health/recovery_policy.cpp",
     "most_in_a_row",
     "RCV-4: recovery: three over the same that come to no step are the last ones"},
    {"actors and traces", "ranks of a node in its heartbeat", troupe::health::most_ranks_told,
     "ranks", "further ones are not told of", "actors/health/rank_vitals.hpp", "most_ranks_told",
     "vitals of 64 ranks and 8 GPUs take at most 4 KiB of a heartbeat"},
    {"actors and traces", "a line of a log that is held against rules",
     troupe::health::line_cutter::most_line_bytes, "bytes", "the rest of it is passed over",
     "actors/health/log_rules_policy.hpp", "most_line_bytes",
     "LGR-2: a line that is hostile is bounded, and what is told of it is one printable line"},
    {"actors and traces", "such a line in a finding",
     troupe::health::log_rules_policy::most_told_bytes, "bytes", "it is cut, and ends with ...",
     "actors/health/log_rules_policy.hpp", "most_told_bytes",
     "LGR-2: a line that is hostile is bounded, and what is told of it is one printable line"},
    {"actors and traces", "rules for lines of logs in a heartbeat",
     troupe::health::most_rules_a_beat, "rules", "all that counted are told of in turn",
     "actors/health/log_rules_policy.hpp", "most_rules_a_beat",
     "log rules: a heartbeat tells of three rules, and of all of them in turn"},
    {"actors and traces", "a node's log in a look, one each second",
     io::log_tail::most_bytes_a_look, "bytes",
     "what came last is looked at, the rest is passed over and counted", "io/logs/log_tail.hpp",
     "most_bytes_a_look", "TAI-1: of a flood what came last is read, and the rest is counted"},
    {"actors and traces", "records of a kernel's log in a look, one each second",
     io::kernel_log::most_records_a_look, "records", "the next look goes on there",
     "io/logs/kernel_log.hpp", "most_records_a_look",
     "KLG-1: a look at a kernel's log is bounded, and the next one goes on"},
    {"actors and traces", "exchanges of a pair's test", troupe::health::most_exchanges, "exchanges",
     "further ones are not made", "actors/health/medic.hpp", "most_exchanges",
     "MED-4: no more than 64 exchanges, whoever asks"},
    {"actors and traces", "bytes of an exchange", troupe::health::pair_bytes, "bytes",
     "what is longer comes back shorter", "actors/health/medic.hpp", "pair_bytes",
     "NOD-5: what a test of pairs sends comes back, at most 256 KiB of it"},
    {"actors and traces", "members of a test's group", troupe::health::known_sum::most_members,
     "nodes", "of more nodes the first are taken", "actors/health/known_sum.hpp", "most_members",
     "MED-6: members are 2 to 64 nodes, each once, first who is asked"},
    {"actors and traces", "sums of a test's group", troupe::health::most_rounds, "sums",
     "further ones are not made", "actors/health/test_group.hpp", "most_rounds",
     "MED-6: no more than 64 sums, whoever asks"},
    {"actors and traces", "examinations of suspects",
     troupe::health::suspicion_policy::most_per_hour, "an hour", "further ones are not made",
     "actors/health/suspicion_policy.hpp", "most_per_hour", "SUS-1: in all so many in an hour"},
    {"actors and traces", "suspects that wait for an examination",
     troupe::health::suspicion_policy::most_suspects, "nodes", "further ones are none",
     "actors/health/suspicion_policy.hpp", "most_suspects", "suspicion: suspects are bounded"},
    {"actors and traces", "nodes of a circle of waits whose links are tested",
     troupe::health::link_policy::most_of_circle, "nodes", "further ones are not",
     "actors/health/link_policy.hpp", "most_of_circle",
     "SKE: of a long circle so many nodes are tested, and witnesses beside them"},
    {"actors and traces", "lost nodes whose links are tested when they come back",
     troupe::health::returned_policy::most_returned, "nodes", "further ones are not",
     "actors/health/returned_policy.hpp", "most_returned", "RTN: so many nodes are waited for"},
    {"actors and traces", "tests of such a node that say nothing",
     troupe::health::returned_policy::most_tests, "tests", "it is given up, which is said",
     "actors/health/returned_policy.hpp", "most_tests",
     "RTN-1: tests that say nothing are made again, a few times and after a pause"},
    {"actors and traces", "findings of a cluster", troupe::health::findings_policy::most_findings,
     "findings", "what matters more takes the place of what matters less, the rest is counted",
     "actors/health/findings_policy.hpp", "most_findings",
     "FDG-3: findings are bounded: what matters more takes a place, the rest is counted"},
    {"actors and traces", "steps that are kept of a window of them",
     troupe::health::step_windows_policy::most_steps_kept, "steps",
     "every other one is left out, evenly over the window", "actors/health/step_windows_policy.hpp",
     "most_steps_kept", "SWN-3: of many steps a window keeps 64 at most, of all of its time"},
    {"actors and traces", "stragglers of such a window",
     troupe::health::straggler_policy::most_told, "findings", "who costs most is told",
     "actors/health/straggler_policy.hpp", "most_told",
     "SLW-5: of thousands of ranks the worst are told"},
    {"actors and traces", "nodes that are taken out for slowness",
     troupe::health::slow_evictions_policy::most_per_hour, "an hour", "further ones are only told",
     "actors/health/slow_evictions_policy.hpp", "most_per_hour",
     "SEV-2: twice an hour, and never with the last recovery that the hour allows"},
    {"actors and traces", "folders of incidents in an output", most_incident_folders, "folders",
     "no more are made, which is said; incidents.jsonl goes on", "apps/up/incident_folders.hpp",
     "most_incident_folders",
     "INF-3: no more folders are made than there may be, and that is said"},
    {"actors and traces", "an incident.json", max_incident_bytes, "bytes",
     "what says least is left out of it, and named there; a longer one is not read",
     "apps/up/incident_folders.hpp", "max_incident_bytes",
     "DOC-1: of an incident that has no room what says least is left out, and named"},
    {"actors and traces", "a wait graph that is kept of an incident", max_waits_bytes, "bytes",
     "it is cut after a line", "apps/up/incident_folders.hpp", "max_waits_bytes",
     "INF-3: a wait graph that is too long is cut after a line"},
    {"actors and traces", "black boxes that an incident names", most_black_boxes, "files",
     "further ones are not named", "apps/up/incident_folders.hpp", "most_black_boxes",
     "INF: an incident names black boxes that came since its fault, and only so many"},
    {"actors and traces", "decisions that are kept of an incident", report::most_decisions_kept,
     "decisions", "the last takes the place of the one before it", "apps/report/incident_doc.hpp",
     "most_decisions_kept", "DOC: of many decisions the first ones and the last are kept"},
    {"actors and traces", "levels of an incident.json", report::max_incident_depth, "levels",
     "it is refused", "apps/report/incident_page.hpp", "max_incident_depth",
     "PAG-1: what is no incident is refused, whatever it is"},
    {"actors and traces", "nodes whose vitals are kept of an incident",
     troupe::health::most_vitals_kept, "nodes", "further ones are counted",
     "actors/health/monitor.hpp", "most_vitals_kept",
     "MON-4: evidence of a large cluster is of a bounded size"},
    {"actors and traces", "waits of its wait graph as JSON", troupe::health::most_waits_kept,
     "waits", "the longest are kept", "actors/health/monitor.hpp", "most_waits_kept",
     "MON-4: evidence of a large cluster is of a bounded size"},
    {"actors and traces", "entries of its other lists", troupe::health::most_culprits_kept,
     "entries", "the first are kept", "actors/health/monitor.hpp", "most_culprits_kept",
     "MON-4: evidence of a large cluster is of a bounded size"},
    {"checkpoints", "checkpoints of one run under way", train::pace_policy::most_open,
     "checkpoints", "the next waits, or is left out and counted", "actors/train/pace_policy.hpp",
     "most_open", "pace: what is due begins while there is room, and only what is due"},
    {"checkpoints", "the name of a tensor, a file or a job", cp::max_name_bytes, "bytes",
     "the checkpoint is refused by name", "io/checkpoint/format.hpp", "max_name_bytes",
     "SF-1..SF-3: a footer whose numbers do not fit is refused by name"},
    {"checkpoints", "dimensions of a tensor", cp::max_dimensions, "dimensions",
     "the checkpoint is refused by name", "io/checkpoint/format.hpp", "max_dimensions",
     "limits: a shard beyond what a checkpoint can say is refused"},
    {"checkpoints", "a slot", cp::max_slot_bytes, "bytes", "the checkpoint is refused by name",
     "io/checkpoint/format.hpp", "max_slot_bytes",
     "limits: a shard beyond what a checkpoint can say is refused"},
    {"checkpoints", "the bytes of a rank", cp::max_stream_bytes, "bytes",
     "the checkpoint is refused by name", "io/checkpoint/format.hpp", "max_stream_bytes",
     "limits: a shard beyond what a checkpoint can say is refused"},
    {"checkpoints", "ranks of a checkpoint", cp::max_ranks, "ranks",
     "the checkpoint is refused by name", "io/checkpoint/format.hpp", "max_ranks",
     "SF-1..SF-3: a footer whose numbers do not fit is refused by name"},
    {"checkpoints", "the table at the end of a shard", cp::max_footer_bytes, "bytes",
     "the checkpoint is refused", "io/checkpoint/format.hpp", "max_footer_bytes",
     "limits: a footer beyond its length is refused before any of it is read"},
    {"checkpoints", "a MANIFEST", cp::max_manifest_bytes, "bytes", "the checkpoint is refused",
     "io/checkpoint/manifest.hpp", "max_manifest_bytes",
     "limits: a file beyond its length is refused, and none of it is read"},
    {"checkpoints", "launches that a manifest lists as its line", cp::max_launches, "launches",
     "the oldest but the first are left out", "io/checkpoint/line.hpp", "max_launches",
     "LN-2: a line grows by a launch, and is bounded"},
    {"checkpoints", "the reason why a checkpoint is held", cp::max_reason_bytes, "bytes",
     "the hold is refused", "io/checkpoint/hold.hpp", "max_reason_bytes",
     "limits: a reason to hold a checkpoint beyond its length is refused"},
    {"checkpoints", "settings that were changed, in train_state.json", 256, "settings",
     "the checkpoint is refused as a start", "actors/job/train_state.cpp", "set_limit",
     "limits: a state of training with too many settings is refused"},
    {"checkpoints", "parts of the data that are passed over, in train_state.json",
     checkpoint::skipped_limit, "parts",
     "one more is refused; a file with more is refused as a start", "actors/job/train_state.hpp",
     "skipped_limit", "limits: a state of training with too many skipped parts is refused"},
    {"checkpoints", "steps' worth of data that a person may have passed over at once",
     checkpoint::most_skipped_steps, "steps", "it is refused", "actors/job/train_state.hpp",
     "most_skipped_steps",
     "JOB-17: job: what cannot be gone back to is refused, and nothing happens"},
    {"checkpoints", "the mark of a folder of ours", io::max_mark_bytes, "bytes",
     "it is none, and the folder stays", "io/folder/owned.hpp", "max_mark_bytes",
     "owned: a mark says what it said, and what is none is refused"},
    {"checkpoints", "the file of a folder's lock", io::max_lock_bytes, "bytes",
     "it is none, and stays as it is", "io/folder/lock.hpp", "max_lock_bytes",
     "lock: a file of that name which is not ours stays as it is"},
    {"checkpoints", "a head's journal", io::max_journal_bytes, "bytes",
     "a longer one is not read; a record beyond it is refused until it is compacted",
     "io/journal/records.hpp", "max_journal_bytes",
     "limits: a journal beyond its length is refused, and takes no record"},
    {"checkpoints", "a record of it", io::max_record_bytes, "bytes",
     "it is not written; in a file it is damage, and the rest is dropped", "io/journal/records.hpp",
     "max_record_bytes", "limits: a record longer than a journal's is neither written nor read"},
    {"checkpoints", "names tried beside an export's that is not ours", 99, "names",
     "the export is refused", "actors/checkpoint/committer.cpp", "most_places",
     "limits: an export finds no place where ninety-nine are others', and changes none"},
    {"checkpoints", "train_state.json", checkpoint::max_state_bytes, "bytes",
     "the checkpoint is not resumed from", "actors/job/train_state.hpp", "max_state_bytes",
     "limits: a checkpoint whose train_state.json is beyond its length is not resumed from"},
    {"checkpoints", "slots of a ring", 65536, "slots", "the job is refused", "io/disk/slots.cpp",
     "most_slots", "limits: a ring of too many slots is refused"},
    {"checkpoints", "a small file that `ckpt import` takes along", 64 * mib, "bytes",
     "the import is refused", "apps/ckpt/convert.cpp", "max_small_bytes",
     "limits: an import refuses a small file beyond its length, and makes nothing"},
    {"checkpoints", "a file of a tokenizer that a checkpoint takes along", 256 * mib, "bytes",
     "the checkpoint is refused", "actors/checkpoint/committer.cpp", "max_tokenizer_bytes",
     "limits: a committer refuses a tokenizer's file beyond its length"},
    {"checkpoints", "shards that one message's votes tell of", checkpoint::shards_per_message,
     "shards", "further votes go in messages of their own", "actors/job/votes.hpp",
     "shards_per_message", "votes: the votes of 14,000 ranks fit into messages, half full at most"},
    {"checkpoints", "steps whose votes wait for their commit", 3, "steps",
     "votes for a further one are left out, and its commit is refused", "actors/job/votes.cpp",
     "most_steps", "votes: no more are kept than there are ranks, for three steps"},
    {"data and models", "a configuration file", 1 * mib, "bytes", "it is refused (78)",
     "io/config/read_toml.cpp", "max_file_bytes",
     "a file that is not there, not a file, or too large is told so"},
    {"data and models", "includes within includes", 8, "levels", "the file is refused (78)",
     "io/config/read_toml.cpp", "max_include_depth",
     "includes: cycles, depth, absence and wrong types are refused, a diamond is fine"},
    {"data and models", "includes of a configuration", 1024, "files", "the file is refused (78)",
     "io/config/read_toml.cpp", "max_includes",
     "includes: each file is read once, in the last of its places (L-4)"},
    {"data and models", "rules for lines of logs, with the default ones", config::most_log_rules,
     "rules", "the configuration is refused (78)", "io/config/job.hpp", "most_log_rules",
     "log rules: what is wrong with one is said with its place"},
    {"connections", "heads of a job", config::most_heads, "heads",
     "the configuration is refused (78)", "io/config/job.hpp", "most_heads",
     "heads: each thing that is wrong with them is told with its key and what it is"},
    {"data and models", "drills of a job", config::most_drills, "drills",
     "the configuration is refused (78)", "io/config/job.hpp", "most_drills",
     "J-8: drills: what is wrong with one is said with its place"},
    {"data and models", "the regular expression of such a rule",
     io::line_patterns::max_pattern_bytes, "bytes", "the configuration is refused (78)",
     "io/logs/line_patterns.hpp", "max_pattern_bytes",
     "LPT-1: what is no expression, or too much of one, is refused"},
    {"data and models", "what the expressions of all such rules become",
     io::line_patterns::max_steps, "instructions", "the configuration is refused (78)",
     "io/logs/line_patterns.hpp", "max_steps",
     "LPT-1: what is no expression, or too much of one, is refused"},
    {"data and models", "a text file", io::max_document_bytes, "bytes",
     "the data are refused when they are opened", "io/data/text_source.hpp", "max_document_bytes",
     "a text file beyond the limit is refused when it is opened"},
    {"data and models", "tokens of an llm.c file", 2147483647, "tokens", "the file is not written",
     "io/data/token_file.hpp", "max_llmc_tokens",
     "limits: a file of llm.c with more tokens than its header can say is refused"},
    {"data and models", "the file of a tokenizer", 256 * mib, "bytes", "it is refused",
     "io/tokenizer/make_tokenizer.cpp", "max_tokenizer_bytes",
     "limits: a file beyond its length is refused, and none of it is read"},
    {"data and models", "a text to be tokenised at once", gib, "bytes", "it is refused",
     "io/tokenizer/hf_tokenizer.cpp", "max_text_bytes",
     "limits: a text beyond what a tokenizer takes is refused"},
    {"data and models", "the pattern of a tokenizer", 64 * kib, "bytes", "the tokenizer is refused",
     "io/tokenizer/splitter.cpp", "max_pattern_bytes",
     "limits: a tokenizer beyond its bounds is refused"},
    {"data and models", "matches tried for one word", 10000000, "attempts", "the text is refused",
     "io/tokenizer/splitter.cpp", "match_limit",
     "SPL-2 a pattern or a replacement that explodes ends in an error"},
    {"data and models", "a file of faults for simulated days", sim::fault_mix::most_bytes, "bytes",
     "the file is refused", "actors/sim/days/fault_mix.hpp", "most_bytes",
     "MIX-2: a mix that is too long is refused with its line"},
    {"data and models", "causes in it", sim::fault_mix::most_causes, "causes",
     "the file is refused", "actors/sim/days/fault_mix.hpp", "most_causes",
     "MIX-2: a mix that is too long is refused with its line"},
    {"data and models", "a file of request rates", 16 << 20, "bytes", "the file is refused",
     "apps/power/power.cpp", "most_profile_bytes", "power: files beyond their bounds are refused"},
    {"data and models", "a table of numbers, as a trace of watts", io::number_table::most_bytes,
     "bytes", "the file is refused", "io/formats/number_table.hpp", "most_bytes",
     "NTB-2: a table beyond its bounds is refused"},
    {"data and models", "columns of it", io::number_table::most_columns, "columns",
     "the file is refused", "io/formats/number_table.hpp", "most_columns",
     "NTB-2: a table beyond its bounds is refused"},
    {"data and models", "numbers in it", io::number_table::most_values, "numbers",
     "the file is refused", "io/formats/number_table.hpp", "most_values",
     "NTB-2: a table beyond its bounds is refused"},
    {"data and models", "servers of a simulated row", sim::row_options::most_servers, "servers",
     "the command line is refused", "actors/sim/row/row_sim.hpp", "most_servers",
     "row: options beyond their bounds are refused with the option's name"},
    {"data and models", "weeks of a simulated row", sim::row_options::most_weeks, "weeks",
     "the command line is refused", "actors/sim/row/row_sim.hpp", "most_weeks",
     "row: options beyond their bounds are refused with the option's name"},
    {"data and models", "resamples of a plan of a row", 1000, "resamples",
     "the command line is refused", "apps/power/power.hpp", "most_resamples",
     "power: plan refuses other traces and options with a hint"},
    {"data and models", "added tokens of a tokenizer", 65536, "tokens", "the tokenizer is refused",
     "io/tokenizer/hf_json.cpp", "max_added", "limits: a tokenizer beyond its bounds is refused"},
    {"data and models", "normalizers, pre-tokenizers, decoders", 32, "of each",
     "the tokenizer is refused", "io/tokenizer/hf_json.cpp", "max_steps",
     "limits: a tokenizer beyond its bounds is refused"},
    {"data and models", "a text within a tokenizer's file", 4096, "bytes",
     "the tokenizer is refused", "io/tokenizer/hf_json.cpp", "max_short_text",
     "limits: a tokenizer beyond its bounds is refused"},
    {"data and models", "the vocabulary of an llm.c tokenizer", 4194304, "tokens",
     "the tokenizer is refused", "io/tokenizer/other_tokenizers.cpp", "max_llmc_vocab",
     "llm.c's tokenizer file decodes only, and its lies are refused"},
    {"data and models", "a model's config.json", 16 * mib, "bytes", "the model is refused",
     "io/formats/hf_config.cpp", "max_config_bytes",
     "limits: a file beyond its length is refused, and none of it is read"},
    {"data and models", "a number in it", 2147483648, "elements", "the model is refused",
     "io/formats/hf_config.cpp", "max_dimension",
     "what is wrong is said with the key, the value and what was expected"},
    {"data and models", "a dimension of a model", 268435456, "elements", "the model is refused",
     "io/base/model_config.cpp", "dimension_limit",
     "impossible models are refused with the numbers"},
    {"data and models", "layers of a model", 65536, "layers", "the model is refused",
     "io/base/model_config.cpp", "layer_limit",
     "limits: a model of too many layers or parameters is refused"},
    {"data and models", "parameters of a model", 281474976710656, "parameters",
     "the model is refused", "io/base/model_config.cpp", "parameter_limit",
     "limits: a model of too many layers or parameters is refused"},
    {"data and models", "threads of a machine's workers, for each core (64 are always allowed)",
     train::threads_per_core_limit, "threads", "the job is refused (78)",
     "actors/train/readiness_policy.hpp", "threads_per_core_limit",
     "readiness: what a job needs is refused where the machine lacks it, with numbers"},
    {"data and models", "the header of a safetensors file", 100000000, "bytes",
     "the file is refused", "io/formats/safetensors.cpp", "max_header_bytes",
     "ST-1 a header length beyond the file or the limit is refused"},
    {"data and models", "dimensions of a tensor in it", 64, "dimensions", "the file is refused",
     "io/formats/safetensors.cpp", "max_dimensions",
     "limits: a tensor of too many dimensions is refused"},
    {"data and models", "the index of a model in shards", 256 * mib, "bytes",
     "the model is refused", "io/formats/safetensors.cpp", "max_index_bytes",
     "limits: a file beyond its length is refused, and none of it is read"},
    {"data and models", "the width of a norm on a GPU", 32768, "elements",
     "the first step fails, and says so", "gpu/cuda/kernels/launch.hpp", "max_norm_width",
     "cuda: a norm wider than its kernel is refused"},
    {"data and models", "a host's batches in shared memory", uint64_t{1} << 36, "bytes",
     "the job is refused", "actors/train/batch_memory.cpp", "max_bytes",
     "batch memory: impossible sizes are refused"},
    {"this machine", "a certificate, key or authority", 1 * mib, "bytes", "it is refused",
     "io/tls/certs.cpp", "max_pem_bytes",
     "limits: a file beyond its length is refused, and none of it is read"},
    {"this machine", "what was measured of the machine", io::most_fact_bytes, "bytes",
     "it is measured again", "io/machine/facts.hpp", "most_fact_bytes",
     "FACT-1 a file that is damaged or somebody else's is as absent"},
    {"this machine", "operations asked of one disk", io::disk::most_operations, "operations",
     "the next is refused; the writer waits", "io/disk/disk.hpp", "most_operations",
     "limits: a disk takes no more operations than it can hold"},
};

/// "1 MiB", "65,536", "4194305 bytes".
std::string amount(uint64_t value, std::string_view unit) {
  if (unit == "bytes")
    for (const auto& [size, name] :
         {std::pair{tib, "TiB"}, {gib, "GiB"}, {mib, "MiB"}, {kib, "KiB"}})
      if (value >= size && value % size == 0) return fmt::format("{} {}", value / size, name);
  return fmt::format("{} {}", value, unit);
}

constexpr auto limits_head = R"(# Limits

Nothing that a stranger, a file or a long run can fill grows without bound. This page is made from
the program's own table (`troupe limits --markdown`; for machines `troupe limits --json`). Each row
is reached in a test, but for a few that tests/house/rules.py names with the reason, and a test of
the tree finds a bound in the code that is missing here.
)";

constexpr auto times_head = R"(
## times

Who waits or pauses by itself (`actors/base/defaults.hpp`).

| what | ms |
|---|---|
)";

constexpr auto answers_head = R"(
## answers

How long an answer may take before who asked gives up, as the contracts in `messages/schemas` say;
where a key of the configuration is named, what it says.

| asked | message | ms | key |
|---|---|---|---|
)";

struct time_row {
  std::string_view name;
  std::chrono::milliseconds value;
  std::string_view what;
};

constexpr time_row times[] = {
#define TROUPE_ROW(name, ms, what) {#name, defaults::name, what},
    TROUPE_TIMES(TROUPE_ROW)
#undef TROUPE_ROW
};

/// The configuration's key for a call's timeout, empty: none.
std::string_view key_of(const call_info& call) {
  return call.timeout_key < 0 ? std::string_view()
                              : timeout_keys()[static_cast<size_t>(call.timeout_key)];
}

template <class Each>
void for_each_answer(Each each) {
  for (const auto& service : all_services())
    for (const auto& call : service.calls)
      if (call.response != nullptr) each(service, call);
}

std::string times_markdown() {
  std::string out = times_head;
  for (const auto& t : times) out += fmt::format("| {} | {} |\n", t.what, t.value.count());
  out += answers_head;
  for_each_answer([&](const service_info& service, const call_info& call) {
    const auto key = key_of(call);
    out += fmt::format(
        "| {} | {} | {} | {} |\n", service.name == "Component" ? "every actor" : service.kind,
        call.request->name, call.timeout_ms, key.empty() ? "" : fmt::format("`{}`", key));
  });
  return out;
}

void add_times(nlohmann::ordered_json& all) {
  for (const auto& t : times)
    all.push_back({{"area", "times"},
                   {"what", t.what},
                   {"value", t.value.count()},
                   {"unit", "ms"},
                   {"then", ""}});
  for_each_answer([&](const service_info& service, const call_info& call) {
    all.push_back({{"area", "answers"},
                   {"what", fmt::format("{} {}", service.kind, call.request->name)},
                   {"value", call.timeout_ms},
                   {"unit", "ms"},
                   {"then", "who asked gives up"},
                   {"key", key_of(call)}});
  });
}

constexpr auto keys_head = R"(
## keys of a configuration

`troupe config check` refuses what lies outside, with the key and its line (78).

| key | accepts |
|---|---|
)";

}  // namespace

std::span<const limit_row> limit_rows() {
  return rows;
}

std::string limits_markdown() {
  std::string out = limits_head;
  std::string_view area;
  for (const auto& row : rows) {
    if (row.area != area)
      out += fmt::format("\n## {}\n\n| what | at most | at it |\n|---|---|---|\n", row.area);
    area = row.area;
    out += fmt::format("| {} | {} | {} |\n", row.what, amount(row.value, row.unit), row.then);
  }
  out += times_markdown();
  out += keys_head;
  for (const auto& p : config::properties())
    if (p.limits.max) out += fmt::format("| `{}` | {} |\n", p.key, config::accepts(p));
  return out;
}

std::string limits_json() {
  auto all = nlohmann::ordered_json::array();
  for (const auto& row : rows)
    all.push_back({{"area", row.area},
                   {"what", row.what},
                   {"value", row.value},
                   {"unit", row.unit},
                   {"then", row.then}});
  add_times(all);
  for (const auto& p : config::properties())
    if (p.limits.max)
      all.push_back({{"area", "keys of a configuration"},
                     {"what", p.key},
                     {"value", *p.limits.max},
                     {"unit", ""},
                     {"then", "refused: " + config::accepts(p)}});
  return nlohmann::ordered_json{{"limits", all}}.dump() + "\n";
}

}  // namespace troupe::apps

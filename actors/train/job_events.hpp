// What a job hears and what it answers: its events, its commands, and the states between them. What
// follows on what is decided in job_policy.hpp, whose invariants (JOB) these speak of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/health/digest_policy.hpp"
#include "actors/health/findings_policy.hpp"
#include "actors/health/incident.hpp"
#include "actors/health/recheck_policy.hpp"
#include "actors/job/catalog.hpp"
#include "actors/train/copies_policy.hpp"
#include "actors/train/requests_policy.hpp"
#include "messages/step_parts.hpp"
#include "io/base/error_kind.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::train {

enum class job_state : uint8_t {
  admitting,   ///< nodes are missing
  opening,     ///< the committer, then the data
  building,    ///< stages: model, loaders, neighbours
  connecting,  ///< the data plane
  loading,     ///< weights
  stepping,
  validating,
  paused,
  settling,    ///< no step follows: checkpoints that are under way end, the last one too
  waiting,     ///< for room, before the last one is tried again
  reopening,   ///< the committer, before that try
  exporting,   ///< the model
  copying,     ///< to the second tier
  explaining,  ///< something failed as where a node has died: a word of one is waited for
  recovering,  ///< a new epoch: the ranks of the one before end, missing nodes come again (JOB-11)
  ended,
};
inline constexpr size_t job_state_count = static_cast<size_t>(job_state::ended) + 1;
std::string_view to_string(job_state state) noexcept;

/// What is asked of the committer, of all loaders or of all ranks in the start, in this order.
enum class start_phase : uint8_t {
  open_folder,
  open_data,
  build_stages,
  attach_loaders,
  introduce_stages,
  open_data_plane,
  connect_data_plane,
  load_weights,
  find_copies,        ///< in a recovery, before all others (JOB-14)
  choose_checkpoint,  ///< in a recovery, before that (JOB-13, JOB-15)
};

/// Ranks and what is wrong with them; and: the same, the checkpoint that may hold it, the newest
/// step whose state was compared.
inline constexpr error_kind<std::string, std::string> weights_differ{
    "weights_differ", errc::unavailable, "rank {} {}"};
inline constexpr error_kind<std::string, std::string> products_differ{
    "products_differ", errc::unavailable, "rank {} {}"};
inline constexpr error_kind<std::string, uint64_t, uint64_t> wrong_bits_saved{
    "wrong_bits_saved", errc::training,
    "{}, and the checkpoint of step {} may hold such bits: step {} is the last one known to be "
    "right",
    "go on from an older one: `troupe ckpt ls` has them, checkpoint.resume takes its path"};

/// Who or what keeps steps from beginning; each lifts its own.
enum class pause_cause : uint8_t {
  person,
  room,   ///< two older checkpoints are still being written
  power,  ///< the power governor
  nodes,  ///< a node is missing, or leaves once the state is saved
};

/// The kind of the end of a job whose ranks could not load its checkpoint, as they said it: a
/// launcher may choose another (CAT-1).
inline constexpr std::string_view start_unsound = "start_unsound";

// -- what is heard --------------------------------------------------------------------------------

namespace heard {

/// Every node has its ranks.
struct admitted {
  std::vector<std::string> nodes = {};  ///< their names, by place
  uint32_t replicas = 0;                ///< 0: as many as the job has
  std::string layers = {};  ///< of each stage, as nodes have measured them; empty: as planned
  std::string order = {};   ///< of the nodes, as settled with them; empty: as configured
};
/// They have not, and will not.
struct not_admitted {
  error why;
};
struct phase_done {
  start_phase phase;
  std::string folder = {};  ///< of open_folder: where checkpoints go, absolute
  /// Of open_data, as the first loader says.
  uint64_t tokens = 0, train_windows = 0, validation_windows = 0;
  uint64_t most_bytes = 0;                              ///< of build_stages: on the largest rank
  std::vector<std::vector<held_copy>> copies = {};      ///< of find_copies: by rank
  std::optional<checkpoint::resume_point> chosen = {};  ///< of choose_checkpoint
  bool takes_files = false;  ///< of load_weights: its files are ranks' state (JOB-22)
};
/// What is asked in this state was refused, or did not come.
struct ask_failed {
  error why;
};
struct step_done {
  double loss_sum = 0;  ///< over all targets
  uint64_t targets = 0;
  double grad_norm = 0;
  double took_ms = 0;
  double waited_ms = 0;  ///< for checkpoints, of the rank that waited longest
  std::vector<step_part> parts = {};
  /// Whether the weights that the step computed with were compared among replicas, and who differs.
  health::digest_verdict weights = {};
  health::recheck_verdict products = {};  ///< and who computed a layer otherwise
  uint64_t process_peak_bytes = 0;        ///< of the process that has had most; 0: not known
  uint64_t document_pairs = 0;  ///< of each target its document's length; 0: each row is one
};
struct validated {
  double loss_sum = 0;
  uint64_t targets = 0;
};
/// Every rank has written its shard.
struct shards_saved {
  uint64_t step = 0, bytes = 0;
};
struct committed {
  uint64_t step = 0;
  std::string folder;
};
struct save_failed {
  uint64_t step = 0;
  error why;
};
struct folder_open {
  std::optional<error> why_not;
};
struct exported {
  std::string folder;
  std::optional<error> why_not;
};
struct copied {
  std::optional<error> why_not;
};
/// What `wait` asked for is over; one that comes early is of a wait that something has cut short.
struct tick {};
struct stop {
  std::string reason;
  bool saves = true;
};
/// `request` numbers what a person asks; 0: a part of the program does.
struct pause {
  uint64_t request = 0;
  pause_cause cause = pause_cause::person;
  std::string reason;
};
struct resume {
  uint64_t request = 0;
  pause_cause cause = pause_cause::person;
};
struct set_value {
  uint64_t request = 0;
  std::string key, value;
};
struct save_now {
  uint64_t request = 0;
};
struct rewind {
  uint64_t request = 0;
  uint64_t at_most = 0;     ///< the newest step whose state it may be
  uint64_t skip_steps = 0;  ///< so many steps' worth of data is passed over
  std::string reason = {};
};
/// A node is gone; `how` is a sentence about it without its name.
struct node_lost {
  std::string name, how;
  std::string finding = "dead_process";  ///< its stable name
  int64_t silent_ns = 0;                 ///< since its last sign of life
  bool ordered = false;                  ///< a person wants it so: it is no fault
};
/// A node is to leave in order; another one will have its ranks, or there will be fewer. `how` as
/// above.
struct release {
  std::string name, how;
  bool grows = false;  ///< no node leaves: the new epoch has more replicas; `how` is all of it
};

}  // namespace heard

using job_event =
    std::variant<heard::admitted, heard::not_admitted, heard::phase_done, heard::ask_failed,
                 heard::step_done, heard::validated, heard::shards_saved, heard::committed,
                 heard::save_failed, heard::folder_open, heard::exported, heard::copied,
                 heard::tick, heard::stop, heard::pause, heard::resume, heard::set_value,
                 heard::save_now, heard::rewind, heard::node_lost, heard::release>;
inline constexpr size_t job_event_count = std::variant_size_v<job_event>;
std::string_view name_of_event(size_t index) noexcept;

// -- what is to be done ---------------------------------------------------------------------------

namespace todo {

struct ask {
  start_phase phase;
  std::string folder = {};             ///< of load_weights
  bool optimizer = false;              ///< of load_weights: it is a checkpoint, not a model folder
  bool weights_follow = false;         ///< of build_stages: they will be loaded
  copy_tag copy = {};                  ///< of load_weights: epoch 0: the folder is meant
  std::vector<bool> from_keeper = {};  ///< of a copy: by rank, its share comes from its keeper
  std::vector<std::string> unsound = {};  ///< of choose_checkpoint: what ranks could not load
  uint64_t at_most = 0;                   ///< of choose_checkpoint: the newest step
};
struct run_step {
  uint64_t step = 0;
  double lr = 0;
  bool digest = false;       ///< replicas tell what weights they compute with
  bool recheck = false;      ///< ranks compute a layer to be compared
  std::string give_up = {};  ///< a checkpoint whose files they update: before that (JOB-22)
};
/// A node is not to be believed any more: it counts as lost.
struct give_up_node {
  std::string name, how;
  std::string finding;  ///< its stable name
};
struct validate {
  uint64_t step = 0;
  uint32_t batches = 0;
};
/// For pictures: as soon as the step is over, its validation comes later.
struct measure {
  fbs::StepReportT step;
};
struct report {
  fbs::StepReportT step;
};
struct save {
  uint64_t step = 0;
  std::string folder;  ///< its partial one
  bool copy = false;   ///< into memory, too
  io::checkpoint::state_facts state = {};
  bool last = false;  ///< no step follows
};
/// Into memory alone.
struct copy_state {
  uint64_t step = 0;
  io::checkpoint::state_facts state = {};
};
struct commit {
  uint64_t step = 0, tokens = 0;
  double loss = 0, validation_loss = -1;
  std::string folder;  ///< its partial one
  std::string state;   ///< train_state.json
};
/// A checkpoint that was committed before its state was validated.
struct amend {
  std::string folder;
  double validation_loss = 0;
};
struct abandon {
  uint64_t step = 0;
  std::string folder;
};
/// The second tier may copy it now.
struct copy {
  uint64_t step = 0;
  std::string folder;
};
/// Retention leaves the checkpoint of a step alone, or need not any more.
struct hold {
  uint64_t step = 0;
  bool hold = true;
};
struct reopen_folder {};
struct export_model {
  std::string checkpoint, folder;
};
struct finish_copies {
  uint64_t step = 0;
  std::string folder;
};
struct wait {
  int64_t ns = 0;
};
/// A new epoch begins; nothing that was asked of ranks and loaders is heard any more.
struct recover {
  uint32_t epoch = 0;
  std::string reason;
};
/// What is done about a fault is decided.
struct note_decision {
  health::incident what;
};
/// A finding that the job alone can make, or that it is not so any more.
struct find {
  health::subject who;
  health::evidence shown;
  bool gone = false;
};
/// A fault that the job went through is over.
struct keep_incident {
  health::incident what;
};
struct say {
  std::string text;
  bool warning = false;
};
struct answer {
  uint64_t request = 0;
  result<reply> said;
};
/// The phase and the numbers of the status have changed.
struct show {};
/// errc::none: what was wanted is done.
struct end {
  error why;
};

}  // namespace todo

using job_command =
    std::variant<todo::ask, todo::run_step, todo::give_up_node, todo::validate, todo::measure,
                 todo::report, todo::save, todo::copy_state, todo::commit, todo::amend,
                 todo::abandon, todo::copy, todo::hold, todo::reopen_folder, todo::export_model,
                 todo::finish_copies, todo::wait, todo::recover, todo::note_decision, todo::find,
                 todo::keep_incident, todo::say, todo::answer, todo::show, todo::end>;

}  // namespace troupe::train

// The job: what happens next, decided in one place. The run (run.hpp) tells it what it hears and
// does what it answers; parts that watch nodes, power or speed propose by events of their own.
//
// Pure: events in, commands out; it is handed the time.
//
// Checkpoints go on beside the steps: saving(n) is no state but a set (pace_policy.hpp). Pauses are
// a set of causes as well; each is lifted by whoever made it, and steps go on when none is left.
// docs/job-states.md has the table and a picture of it.
//
// Invariants
//   JOB-1  Between two steps no rank computes: what happens there sees one state of the model.
//   JOB-2  A stop that is asked for while a step runs takes effect after the step; in the start it
//     ends the job at once: there is nothing to save.
//   JOB-3  `end` is answered exactly once; after it nothing is said, reported or asked of a rank.
//   JOB-4  A step whose loss is not finite ends the job, unless it goes back (JOB-18); the last
//     checkpoint stays.
//   JOB-5  A request of a person gets exactly one answer. What it asks for takes effect between
//     steps, or is refused at once; the answer names the step (requests_policy.hpp).
//   JOB-6  Each (state, event) has its rule, or is refused: counted, and a person is told why.
//   JOB-7  A checkpoint is of the state between two steps: `save` stands before the next
//     `run_step`. Each one that begins ends as exactly one of: committed, failed. A failed one is
//     told as a warning and leaves nothing behind, also after the end; the newest committed one is
//     the job's. They are committed one after the other, the older first: what is to be held of one
//     is said before the next may remove it.
//   JOB-8  The last checkpoint is tried again, in the second tier and in the first, as long as
//     checkpoint.room_wait_s (last_save_policy.hpp); what it waits for is said once, and its end.
//   JOB-9  A job that went on from what no start takes by itself (RSM-4) saves that state as its
//     own, even where no step was left to make.
//   JOB-10  One death has one wording: what failed as the peers of a dead node see it waits for the
//     word of that node's end, of who started its process, who ended it, or whose connection broke.
//   JOB-11  After a fault that can be mended the job goes on in a new epoch, from the newest
//     checkpoint that is committed: what ranks of the epoch before were asked is not heard any
//     more, a save whose shards they had not all written is abandoned once nobody writes to it, and
//     a commit that is under way is waited for, since what is on the disk is where it goes on from.
//     Steps are made again with the settings they had.
//   JOB-12  A node that is to leave in order leaves between two steps, once the state is saved or
//     the save has failed: then the steps since the newest checkpoint are made again. What a person
//     orders costs no budget, and is not done where no step follows.
//   JOB-13  A step whose ranks held other weights than their replicas is not made: the job goes
//     back, to no state that is younger than the last one whose weights were compared; newer
//     checkpoints are set aside, and the newest that was compared is held from retention. Whom the
//     replicas outvote is lost with its node.
//   JOB-20  So it is with a step in which a rank computed a layer otherwise than its equals, or
//     than itself: the last state that was good is the last one from which all computed alike. No
//     younger checkpoint is gone back to while there is an older one; where none is left, the
//     newest is, which is said: what is wrong with its numbers, if anything, nobody knows.
//   JOB-14  Where copies in memory are whole (copies_policy.hpp) and newer than that checkpoint,
//     the job goes on from them: from the same bits, so that steps above the checkpoint stay on its
//     line, and nothing is set aside. A copy that is found damaged or missing is not tried again.
//     So it is with those that a lost head had ordered, where nodes have outlived it.
//   JOB-15  In a recovery a checkpoint that ranks cannot load is left for an older one of this run,
//     in one more epoch; where there is none, the job ends and the next start chooses.
//   JOB-16  A job that goes on for a lost head keeps its account: incidents and recoveries are
//     counted on, budgets are used up as they were, and the time is that of the whole launch. That
//     loss is an incident like any other.
//   JOB-17  Whoever orders it has the job go back, between two steps and in a new epoch, to the
//     newest checkpoint of a step or before, with the settings of that state; what is passed over
//     of the data from there on stays so. Checkpoints above it are set aside, copies are forgotten.
//     Where there is no such checkpoint, the job goes on from its newest one.
//   JOB-18  So it does by itself (recovery.on_spike) where the loss is no number or rises far
//     beyond what it varied, within the budget of all recoveries; and not twice for the same step
//     if it would make the same steps again. Settings are those that persons were promised (REQ-4).
//   JOB-19  Who gives ranks out says for how many replicas (replicas_policy.hpp). Where they are
//     others than before, the job goes on from the disk: copies in memory are of the ranks that
//     were. For more replicas it leaves its steps only once they are saved. Where nodes have
//     measured the layers of the stages (parallel.placement), it says those, too, and in which
//     order nodes have ranks: they are the job's from then on, in its checkpoints as well.
//   JOB-21  Where it validates at all, so it does the state of its last step: in that step, or
//     after a stop while the last checkpoint is written, and reports that step again; its commit
//     does not wait: where the loss comes behind it, it is written into the checkpoint then, before
//     that is copied. Who does not save waits for none; what fails fails neither job nor save. So
//     it does where no step was left to make, behind a checkpoint that has no such loss.
//   JOB-22 A checkpoint whose files have become the state of ranks (swap.consume) is given up, once
//     all of them have it, with the first step that follows: a job that makes none loses nothing;
//     nor does one that is told too late, since nobody begins it once the job has stopped waiting.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/health/digest_policy.hpp"
#include "actors/health/findings_policy.hpp"
#include "actors/health/incident.hpp"
#include "actors/health/loss_policy.hpp"
#include "actors/health/recheck_policy.hpp"
#include "actors/health/recovery_policy.hpp"
#include "actors/health/time_ledger_policy.hpp"
#include "actors/job/catalog.hpp"
#include "actors/job/plan.hpp"
#include "actors/train/copies_policy.hpp"
#include "actors/train/failed_saves_policy.hpp"
#include "actors/train/job_events.hpp"
#include "actors/train/last_save_policy.hpp"
#include "actors/train/pace_policy.hpp"
#include "actors/train/requests_policy.hpp"
#include "messages/schemas/train_generated.h"
#include "messages/step_parts.hpp"

namespace troupe::train {

// -- the table (job_table.cpp) --------------------------------------------------------------------

class job_policy;

/// What an event does in some states. All that no rule names is refused (JOB-6).
struct job_rule {
  size_t event;  ///< its place in job_event
  std::string_view name;
  uint32_t from;  ///< the states, bits by job_state
  uint32_t to;    ///< where it may lead, the state it was in not counted
  void (job_policy::*act)(const job_event&);

  constexpr bool is_for(job_state s) const noexcept {
    return (from >> static_cast<unsigned>(s) & 1) != 0;
  }
  constexpr bool may_lead_to(job_state s) const noexcept {
    return (to >> static_cast<unsigned>(s) & 1) != 0;
  }
};
std::span<const job_rule> job_rules();

// -------------------------------------------------------------------------------------------------

/// That the job goes back by order, or for its loss.
struct rewind_under_way {
  rewind_order what;
  uint64_t before = 0;      ///< of a loss: the last step that was good
  uint64_t skip_until = 0;  ///< of a loss: the place in the data; 0: nothing is passed over
  std::string finding = {};  ///< of a loss: its name
  bool begun = false;        ///< the epoch that goes back is there
  bool applied = false;      ///< what is passed over is noted
  bool nowhere = false;      ///< no checkpoint is old enough: the job goes on from its newest
  uint64_t skipped_steps = 0;
};

class job_policy {
 public:
  job_policy() = default;
  /// `second`: the folder of the second tier, absolute; empty: there is none.
  job_policy(job_plan plan, uint32_t epoch, const std::optional<checkpoint::resume_point>& resume,
             std::filesystem::path second = {});

  /// Takes over what the run before it left (REQ-5); before anything is heard.
  void remember(const job_memory& memory);
  /// What the next one would take over.
  job_memory memory() const;

  /// Time counts from here (time_ledger_policy.hpp), or goes on (JOB-16): what is to be said of it.
  std::vector<job_command> begin(int64_t now_ns);

  /// What is to be done now, in this order.
  std::vector<job_command> on(const job_event& event, int64_t now_ns);

  job_state state() const noexcept { return state_; }
  /// What a person is shown: "training", "paused", "waiting for an older checkpoint".
  std::string_view phase() const noexcept { return phase_; }
  const std::set<pause_cause>& pauses() const noexcept { return pauses_; }
  const job_plan& plan() const noexcept { return plan_; }
  const config::job& wanted() const { return requests_.wanted(); }  ///< from the next step on
  /// What it becomes with so many replicas; 0: as many as the job has (JOB-19).
  result<job_plan> plan_with(uint32_t replicas) const;
  uint32_t replicas() const noexcept { return static_cast<uint32_t>(plan_.job.parallel.data); }
  uint32_t replicas_configured() const noexcept {
    return static_cast<uint32_t>(whole_.job.parallel.data);
  }
  const std::string& config_toml() const noexcept { return config_toml_; }
  uint64_t step() const noexcept { return step_; }  ///< last finished
  uint64_t tokens() const noexcept { return tokens_; }
  double loss() const noexcept { return loss_; }
  /// Where the time of the last step went.
  const std::vector<step_part>& parts() const noexcept { return parts_; }
  uint64_t saved_step() const noexcept { return saved_step_; }
  uint64_t copied_step() const noexcept { return copies_.newest(); }
  const std::string& checkpoint() const noexcept { return checkpoint_; }
  const std::string& model() const noexcept { return model_; }
  /// Parts of the data that no step trains on, in order.
  const std::vector<checkpoint::skipped_tokens>& skipped() const noexcept { return skipped_; }
  const pace_policy& pace() const noexcept { return pace_; }
  uint32_t epoch() const noexcept { return epoch_; }
  uint64_t recoveries() const noexcept { return recovery_.begun(); }
  const health::time_ledger_policy& ledger() const noexcept { return ledger_; }
  /// The last `incidents_kept`, the oldest first; the last one may still go on.
  const std::deque<health::incident>& incidents() const noexcept { return incidents_; }
  static constexpr size_t incidents_kept = 32;
  uint64_t checkpoints() const noexcept { return checkpoints_; }
  uint64_t checkpoint_bytes() const noexcept { return checkpoint_bytes_; }
  double checkpoint_wait_ms() const noexcept { return checkpoint_wait_ms_; }
  bool may_validate() const noexcept { return may_validate_; }  ///< ranks, though none waits for it
  /// Events that came where no rule is for them (JOB-6).
  uint64_t refused() const noexcept { return refused_; }

 private:
  friend struct job_table;

  /// A checkpoint that is under way; what of the job it speaks of may have gone on.
  struct order {
    checkpoint::train_state state;
    uint64_t bytes = 0;
    double validation_loss = -1;
    std::filesystem::path folder;  ///< its partial one
    uint64_t request = 0;          ///< who waits for its end
    bool written = false;          ///< every rank has written its shard
    bool committing = false;       ///< the committer was asked
  };

  /// The newest state that was found good, and its newest checkpoint, held from retention.
  struct good_state {
    uint64_t step = 0;
    uint64_t held = 0;  ///< 0: none
  };

  void begin_start(const job_event&);
  void give_up(const job_event&);
  void next_phase(const job_event&);
  void fail(const job_event&);
  double flops_of(const heard::step_done& done) const;
  void end_step(const job_event&);
  void end_validation(const job_event&);
  void pass_over(const job_event&);
  void commit_save(const job_event&);
  bool commits() const;
  void commit_next();
  void commit(uint64_t step, order& o);
  void end_save(const job_event&);
  void abandon_save(const job_event&);
  void abandon_late(const job_event&);
  void copy_late(const job_event&);
  void try_again(const job_event&);
  void end_export(const job_event&);
  void end_copies(const job_event&);
  void end_wait(const job_event&);
  void end_unexplained(const job_event&);
  void stop_start(const job_event&);
  void stop_steps(const job_event&);
  void hurry(const job_event&);
  void ask_pause(const job_event&);
  void ask_resume(const job_event&);
  void ask_setting(const job_event&);
  void ask_save(const job_event&);
  void ask_rewind(const job_event&);
  void lose_node(const job_event&);
  void release_node(const job_event&);
  void note_release(const job_event&);
  void nodes_are_back(const job_event&);
  void commit_before_return(const job_event&);
  void refuse(const job_event&);

  void enter(job_state state, std::string_view phase);
  void say(std::string text, bool warning = false);
  void end(const error& why);
  void end_with_word(const error& why);
  void await_word(const error& why);
  heard::node_lost unexplained_as(const error& why) const;
  void recover(const error& why, const heard::node_lost& lost);
  status decide(const heard::node_lost& lost);
  void notice(const error& why, const heard::node_lost& lost);
  std::string phases_text() const;
  void close_incident(std::string done);
  void begin_epoch(const error& why, const std::string& noticed = {});
  void let_node_go();
  void stay_as_it_is();
  void lay_out(const heard::admitted& there);
  std::string replicas_text() const;
  std::string takeovers() const;
  std::string what_was_done() const;
  void find_wrong_bits(const health::odd_replicas& odd);
  void find_wrong_products(const health::odd_products& odd);
  bool leave_doubtful(const error& why, const good_state& good);
  void lose_wrong(const error& why, const std::vector<int>& who, bool named);
  void go_on_from_newest();
  uint64_t newest_on_disk() const;
  bool is_given_up(uint64_t step) const;
  void leave_checkpoint(const error& why);
  status can_rewind(const heard::rewind& asked) const;
  std::string bad_loss_text() const;
  bool judge_loss(bool finite);
  bool rewind_for_loss(health::finding_name finding, uint64_t first_step, const std::string& what);
  void rewind_now();
  bool is_rewinding() const;
  void rewind_less(const error& why);
  void restore_settings();
  void pass_over_data();
  void end_rewind();
  std::string rewind_text() const;
  uint64_t tokens_after_step() const;
  bool must_choose() const;
  void choose_checkpoint();
  void take_checkpoint(const checkpoint::resume_point& chosen);
  void note_good(const heard::step_done& done);
  void hold_good(good_state& of);
  void hold_good();
  void go_on_for(const lost_head& lost);
  int64_t head_there_until_ns() const;
  void account_for_copies();
  void note_account();
  void wait(int64_t ns);
  bool takes_requests() const;
  bool falls_back() const;
  void give_up_saves();
  void return_to_checkpoint();
  void go_back();
  void take_copies(const heard::phase_done& found);
  bool copy_if_due(bool with_save);
  void load_copies();
  const std::string& node_of_rank(int rank) const;
  std::string copies_text() const;
  std::string source_text() const;
  bool all_steps_done() const;
  bool no_step_follows() const;
  void begin_phase(start_phase phase, std::string folder = {});
  void next_step();
  void take_effect();
  void use_settings();
  bool must_validate() const;
  bool ends_as_loaded() const;
  void validate();
  void report();
  void save_if_due();
  void begin_save(const std::filesystem::path& folder, uint64_t request = 0, bool copy = false);
  checkpoint::train_state state_now() const;
  void save_ended(uint64_t step, const status& how);
  void load();
  void begin_steps();
  void finish();
  void settle();
  void leave_validation();
  void offer_copy(const heard::committed& done);
  void loss_is_known();
  void show_while_paused();
  bool last_is_saved() const;
  bool loads_weights() const;
  uint64_t save_point() const;
  void tell_failed_save(uint64_t step, const std::string& place, const error& why);
  void tell_counted();
  void judge_last();
  void reopen();
  void answer(uint64_t request, result<reply> said);
  void answer_and_do(uint64_t request, result<reply> said);
  result<reply> when_recovered(result<reply> said) const;
  void export_model();
  void copy_last();
  void succeed();

  job_plan plan_;
  job_plan whole_;  ///< with all replicas
  uint32_t epoch_ = 1;
  std::filesystem::path second_;
  std::optional<checkpoint::resume_point> resume_;
  gpu::lr_schedule lr_;
  job_state state_ = job_state::admitting;
  std::string_view phase_ = "gathering";
  start_phase phase_asked_ = start_phase::open_folder;
  uint64_t step_ = 0, tokens_ = 0, saved_step_ = 0;
  double loss_ = 0;
  std::vector<checkpoint::skipped_tokens> skipped_;  ///< of the data, in order
  health::loss_policy losses_;
  bool spike_told_ = false, alone_told_ = false;  ///< a spike of losses stands; ranks lack equals
  uint64_t rewound_for_ = 0;                 ///< the first step of the spike it went back for last
  uint64_t began_after_ = 0;                 ///< the step of the checkpoint that it began from
  std::optional<rewind_under_way> rewind_;
  fbs::StepReportT report_;       ///< of the last step
  std::vector<step_part> parts_;  ///< of the last step
  std::set<pause_cause> pauses_;
  std::optional<heard::stop> stop_;
  bool left_validation_ = false, may_validate_ = false;  ///< its answer is to come; ranks are at it
  requests_policy requests_;
  bool save_wanted_ = false;  ///< a person asked for a checkpoint
  std::string files_taken_of_;  ///< the checkpoint whose files are ranks' state (JOB-22)
  std::filesystem::path committer_folder_;
  pace_policy pace_;
  copies_policy copies_;
  std::optional<copy_choice> back_to_;  ///< the copies that a recovery goes on from (JOB-14)
  std::map<uint64_t, order> orders_;
  good_state compared_;   ///< by its weights (JOB-13)
  good_state rechecked_;  ///< by what ranks computed from it (JOB-20)
  std::string config_toml_, checkpoint_, model_;
  failed_saves_policy failed_saves_;
  std::optional<last_save_policy> last_save_;
  std::optional<heard::committed> without_loss_;  ///< committed before its state is validated
  std::filesystem::path next_try_;  ///< where the last one is tried next
  std::optional<error> save_failure_;
  std::optional<error> unexplained_;  ///< JOB-10
  int64_t waits_until_ns_ = 0, settling_since_ns_ = 0;
  health::recovery_policy recovery_;
  bool nodes_are_back_ = false;                                       ///< in a recovery
  std::vector<std::string> unsound_;  ///< checkpoints that ranks could not load (JOB-15)
  std::optional<uint64_t> at_most_;   ///< no younger state is to be believed (JOB-13)
  std::optional<error> end_if_none_;  ///< where there is no other checkpoint
  bool back_if_can_ = false;          ///< at_most_ is left where there is no such one (JOB-20)
  std::vector<std::pair<uint64_t, std::filesystem::path>> given_up_;  ///< saves, by step (JOB-11)
  health::time_ledger_policy ledger_;
  std::deque<health::incident> incidents_;
  std::optional<lost_head> lost_head_;  ///< for which it goes on
  bool was_paused_ = false;             ///< when that was lost
  job_account account_;                 ///< up to the last fault or checkpoint
  believed_copies copies_believed_;     ///< what the next head may go back to
  bool has_validation_ = false, in_incident_ = false;
  health::time_entries time_before_incident_;
  std::vector<std::string> nodes_, nodes_before_;  ///< by place: now, before the incident
  int64_t replicas_before_ = 0;  ///< the incident
  std::optional<heard::release> leaving_;
  bool saves_for_leaving_ = false;  ///< begun, if there was anything to save
  uint64_t incident_count_ = 0, refused_ = 0, checkpoints_ = 0, checkpoint_bytes_ = 0;
  double checkpoint_wait_ms_ = 0, step_wait_ms_ = 0;  ///< of the run; before the current step
  int64_t waits_since_ns_ = 0, now_ns_ = 0;
  std::vector<job_command> out_;
};

}  // namespace troupe::train

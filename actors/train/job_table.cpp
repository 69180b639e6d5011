// What may happen when: the rules by which a job goes from state to state.
#include <array>
#include <type_traits>

#include "actors/train/job_policy.hpp"

namespace troupe::train {

namespace {

using enum job_state;

constexpr uint32_t bit(job_state s) {
  return uint32_t{1} << static_cast<unsigned>(s);
}
template <class... States>
constexpr uint32_t of(States... states) {
  return (bit(states) | ...);
}

constexpr uint32_t start_states = of(opening, building, connecting, loading);
constexpr uint32_t step_states = of(stepping, validating);
constexpr uint32_t end_states = of(settling, waiting, reopening, exporting, copying);
/// In which ranks may still answer a validation that was left.
constexpr uint32_t left_states = of(settling, exporting, explaining, ended);
/// In which a person is asked for more than an end.
constexpr uint32_t asking_states =
    of(admitting, paused, explaining, recovering) | start_states | step_states;
/// In which a checkpoint may be under way.
constexpr uint32_t saving_states = of(paused, settling, explaining) | step_states;
constexpr uint32_t living_states =
    of(admitting, paused, explaining, recovering) | start_states | step_states | end_states;
/// In which the job needs its nodes.
constexpr uint32_t ranked_states = living_states & ~of(admitting, recovering, exporting, copying);

/// The place of an event's type in job_event.
template <class Event, size_t I = 0>
constexpr size_t place() {
  if constexpr (std::is_same_v<Event, std::variant_alternative_t<I, job_event>>)
    return I;
  else
    return place<Event, I + 1>();
}

template <class Event>
constexpr job_rule rule(std::string_view name, uint32_t from, uint32_t to,
                        void (job_policy::*act)(const job_event&)) {
  return {place<Event>(), name, from, to, act};
}

constexpr std::array<std::string_view, job_state_count> state_names{
    "admitting",  "opening",    "building",   "connecting", "loading",   "stepping",
    "validating", "paused",     "settling",   "waiting",    "reopening", "exporting",
    "copying",    "explaining", "recovering", "ended"};

constexpr std::array<std::string_view, job_event_count> event_names{
    "admitted",  "not admitted", "phase done", "ask failed",  "step done",
    "validated", "shards saved", "committed",  "save failed", "folder open",
    "exported",  "copied",       "tick",       "stop",        "pause",
    "resume",    "set",          "save",       "rewind",      "node lost",
    "release"};

}  // namespace

std::string_view to_string(job_state state) noexcept {
  return state_names[static_cast<size_t>(state)];
}

std::string_view name_of_event(size_t index) noexcept {
  return event_names[index];
}

struct job_table {
  using p = job_policy;
  static constexpr job_rule all[] = {
      rule<heard::admitted>("the start", of(admitting), of(opening), &p::begin_start),
      rule<heard::admitted>("back to the last checkpoint", of(recovering), of(opening),
                            &p::nodes_are_back),
      rule<heard::not_admitted>("no start", of(admitting, recovering), of(ended), &p::give_up),
      rule<heard::phase_done>("next phase", of(opening), of(building), &p::next_phase),
      rule<heard::phase_done>("next phase", of(building), of(connecting), &p::next_phase),
      rule<heard::phase_done>("the first step", of(connecting),
                              of(loading, stepping, paused, recovering), &p::next_phase),
      rule<heard::phase_done>(
          "steps go on, or all are made", of(loading),
          of(stepping, validating, paused, settling, exporting, copying, recovering, ended),
          &p::next_phase),
      rule<heard::ask_failed>("an older checkpoint, the end, or a word is waited for", of(loading),
                              of(recovering, explaining, ended), &p::fail),
      rule<heard::ask_failed>("a failed start or step ends the job, or its word is waited for",
                              (start_states & ~of(loading)) | of(stepping), of(explaining, ended),
                              &p::fail),
      rule<heard::ask_failed>("so does a validation, but not the last one", of(validating),
                              of(settling, exporting, copying, explaining, ended), &p::fail),
      rule<heard::ask_failed>("nobody waits for that validation any more", left_states, 0,
                              &p::pass_over),
      rule<heard::step_done>("a step ends", of(stepping),
                             of(validating, paused, settling, recovering, ended), &p::end_step),
      rule<heard::validated>("a validation ends", of(validating),
                             of(stepping, paused, settling, exporting, copying, recovering, ended),
                             &p::end_validation),
      rule<heard::validated>("nobody waits for it any more", left_states, 0, &p::pass_over),
      rule<heard::shards_saved>("commit", saving_states, 0, &p::commit_save),
      rule<heard::committed>("a checkpoint is there", step_states | of(explaining), 0,
                             &p::end_save),
      rule<heard::committed>("there is room for the one that is due", of(paused),
                             of(stepping, validating, settling, recovering, ended), &p::end_save),
      rule<heard::committed>("was it the last", of(settling),
                             of(waiting, reopening, exporting, copying, explaining, ended),
                             &p::end_save),
      rule<heard::committed>("a checkpoint to return to", of(recovering), of(opening),
                             &p::commit_before_return),
      rule<heard::save_failed>("no checkpoint to return to", of(recovering), of(opening),
                               &p::commit_before_return),
      rule<heard::save_failed>("a checkpoint is given up", step_states | of(explaining), 0,
                               &p::abandon_save),
      rule<heard::save_failed>("there is room for the one that is due", of(paused),
                               of(stepping, validating, settling, recovering, ended),
                               &p::abandon_save),
      rule<heard::save_failed>("was it the last", of(settling),
                               of(waiting, reopening, exporting, copying, explaining, ended),
                               &p::abandon_save),
      rule<heard::folder_open>("the last save again", of(reopening),
                               of(settling, waiting, explaining, ended), &p::try_again),
      rule<heard::exported>("the model is written", of(exporting), of(copying, ended),
                            &p::end_export),
      rule<heard::copied>("the copy is over", of(copying), of(ended), &p::end_copies),
      rule<heard::tick>("the pause before a try is over", of(waiting), of(reopening), &p::end_wait),
      rule<heard::tick>("nobody said better why", of(explaining), of(recovering, ended),
                        &p::end_unexplained),
      rule<heard::stop>("nothing to save yet", of(admitting, recovering) | start_states, of(ended),
                        &p::stop_start),
      rule<heard::stop>("no step follows this one", of(stepping), 0, &p::stop_steps),
      rule<heard::stop>("no step follows; the last validation is not waited for", of(validating),
                        of(settling, exporting, ended), &p::stop_steps),
      rule<heard::stop>("no step follows", of(paused),
                        of(validating, settling, exporting, copying, ended), &p::stop_steps),
      rule<heard::stop>("the last try", of(waiting), of(reopening), &p::hurry),
      rule<heard::stop>("the copy is not waited for", of(copying), of(ended), &p::hurry),
      rule<heard::stop>("the end goes on", of(settling, reopening, exporting, explaining), 0,
                        &p::hurry),
      rule<heard::pause>("pause", living_states, 0, &p::ask_pause),
      rule<heard::resume>("go on", living_states & ~of(paused), 0, &p::ask_resume),
      rule<heard::resume>("go on", of(paused),
                          of(stepping, validating, settling, exporting, copying, ended),
                          &p::ask_resume),
      rule<heard::set_value>("set", asking_states, 0, &p::ask_setting),
      rule<heard::save_now>("save", asking_states, 0, &p::ask_save),
      rule<heard::rewind>("back to an earlier state before the next step",
                          asking_states & ~of(paused), 0, &p::ask_rewind),
      rule<heard::rewind>("back to an earlier state", of(paused), of(recovering), &p::ask_rewind),
      rule<heard::shards_saved>("what comes after the end is not committed", of(ended), 0,
                                &p::abandon_late),
      rule<heard::committed>("what is committed after the end is copied", of(ended), 0,
                             &p::copy_late),
      rule<heard::save_failed>("nothing is left of it after the end", of(ended), 0,
                               &p::abandon_late),
      rule<heard::node_lost>("no start, unless it goes on for a lost head", of(admitting),
                             of(recovering, ended), &p::lose_node),
      rule<heard::node_lost>("another one: once more a new epoch", of(recovering), of(ended),
                             &p::lose_node),
      rule<heard::node_lost>("a dead node: a new epoch, or the end", ranked_states,
                             of(recovering, ended), &p::lose_node),
      rule<heard::node_lost>("nodes are not needed any more", of(exporting, copying), 0,
                             &p::lose_node),
      rule<heard::release>("between two steps: a save, then a new epoch", of(paused),
                           of(recovering), &p::release_node),
      rule<heard::release>("it leaves before the next step", start_states | step_states, 0,
                           &p::note_release),
  };
};

std::span<const job_rule> job_rules() {
  return job_table::all;
}

}  // namespace troupe::train

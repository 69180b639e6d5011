// Commands of the policy as messages, and replies as its events.
#include "actors/train/run.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/base/gather.hpp"
#include "actors/health/finding_text.hpp"
#include "actors/job/votes.hpp"
#include "actors/train/account.hpp"
#include "actors/train/paced_patience.hpp"
#include "actors/train/recheck_message.hpp"
#include "actors/train/run_answers.hpp"
#include "actors/train/run_build.hpp"
#include "actors/train/run_commit.hpp"
#include "actors/train/run_data.hpp"
#include "actors/train/run_drills.hpp"
#include "actors/train/run_power.hpp"
#include "actors/train/run_records.hpp"
#include "actors/train/run_slack.hpp"
#include "actors/train/run_times.hpp"
#include "io/folder/plain.hpp"
#include "messages/text.hpp"

namespace troupe::train {

namespace {

message_context context(run_pointer self) {
  return context_of(*self, self->state.record.epoch);
}

/// For gather(): every stage by its path, and what is to come from it.
auto each_stage(std::string what, std::optional<std::chrono::milliseconds> patience = {}) {
  return [what = std::move(what), patience](size_t rank) {
    return awaited{fmt::format("stage/{}", rank), what, patience};
  };
}

/// For gather(): any of a kind.
auto anyone(const char* whom, const char* what) {
  return [whom, what](size_t) { return awaited{whom, what}; };
}

/// For gather(): what is asked in the job's present state fails.
auto failing(run_pointer self, std::string what) {
  return [self, what = std::move(what)](size_t, const error& e) {
    hear(self, heard::ask_failed{e.within(what)});
  };
}

/// For gather(): a phase of the start is over.
auto passing(run_pointer self, start_phase phase) {
  return [self, phase](const auto&) { hear(self, heard::phase_done{phase}); };
}

// -- the start ------------------------------------------------------------------------------------

void open_folder(run_pointer self) {
  ask_for<fbs::CheckpointFolder>(
      self, self->state.record.committer, folder_order(self), {"committer", "the open folder"},
      [self, epoch = self->epoch()](const msg<fbs::CheckpointFolder>& folder) {
        if (epoch == self->epoch())  // RUN-4
          hear(self, heard::phase_done{start_phase::open_folder, text_of(folder->directory())});
      },
      [self, epoch = self->epoch()](const error& e) {
        if (epoch == self->epoch())
          hear(self, heard::ask_failed{e.within("open the checkpoint folder")});
      });
}

/// The row of a loader's slots with which those of a rank begin; behind the last where it has none.
uint32_t first_row_of(const job_plan& plan, size_t rank, const fbs::LoaderReadyT& loader) {
  const auto& held = loader.data_ranks;
  const auto& at = plan.ranks[rank].at;
  const auto before = std::find(held.begin(), held.end(), at.place().data) - held.begin();
  return static_cast<uint32_t>(before * at.grid.rows_each(plan.job.train.batch));
}

void attach_loaders(run_pointer self) {
  const auto& o = self->state.crew;
  std::vector<stage_actor> targets;
  std::vector<size_t> loader_of, rank_of;
  for (size_t l = 0; l < o.loaders.size(); ++l)
    for (auto rank : o.loaders[l].ranks) {
      targets.push_back(o.stages[rank]);
      loader_of.push_back(l);
      rank_of.push_back(rank);
    }
  gather<fbs::Ack>(
      self, targets, anyone("stage/*", "an attached loader"),
      [self, loader_of, rank_of](size_t i) {
        const auto& st = self->state;
        const auto& facts = st.loaders[loader_of[i]];
        auto m = make_msg<fbs::AttachLoader>(context(self), [&](auto& a) {
          a.shared_memory = facts.shared_memory;
          a.slot_bytes = facts.slot_bytes;
          a.slots = facts.slots;
          a.rows = facts.rows;
          a.first_row = first_row_of(st.job.plan(), rank_of[i], facts);
        });
        return std::tuple(
            m, caf::actor_cast<caf::strong_actor_ptr>(st.crew.loaders[loader_of[i]].loader));
      },
      passing(self, start_phase::attach_loaders), failing(self, "attach the loaders"));
}

void introduce_stages(run_pointer self) {
  gather<fbs::Ack>(
      self, self->state.crew.stages, each_stage("known neighbours"),
      [self](size_t i) {
        const auto& o = self->state.crew;
        const auto& at = self->state.job.plan().ranks[i].at;
        const auto previous = at.previous(), next = at.next();
        auto handle = [&](std::optional<int> rank) {
          return rank ? caf::actor_cast<caf::strong_actor_ptr>(o.stages[static_cast<size_t>(*rank)])
                      : caf::strong_actor_ptr{};
        };
        auto m = make_msg<fbs::Neighbours>(context(self), [&](auto& n) {
          n.previous_rank = previous.value_or(-1);
          n.next_rank = next.value_or(-1);
        });
        return std::tuple(m, handle(previous), handle(next));
      },
      passing(self, start_phase::introduce_stages), failing(self, "introduce the stages"));
}

void take_offers(run_pointer self, const std::vector<msg<fbs::DataPlaneOffer>>& offers) {
  auto& book = self->state.addresses = {};
  status good;
  for (const auto& offer : offers)
    if (good) good = book.add(offer);
  if (good) good = book.check();
  if (!good) return hear(self, heard::ask_failed{good.error()});
  hear(self, heard::phase_done{start_phase::open_data_plane});
}

void open_data_plane(run_pointer self) {
  gather<fbs::DataPlaneOffer>(
      self, self->state.crew.stages, each_stage("DataPlaneOffer"),
      [self](size_t i) {
        return std::tuple(make_msg<fbs::OpenDataPlane>(
            context(self), [&](auto& m) { m.host = self->state.crew.hosts[i]; }));
      },
      [self](const auto& offers) { take_offers(self, offers); },
      failing(self, "open the data plane"));
}

/// Each rank is sent what the others offer to it.
void connect_data_plane(run_pointer self) {
  const auto book = std::exchange(self->state.addresses, {});
  gather<fbs::DataPlaneReady>(
      self, self->state.crew.stages, each_stage("DataPlaneReady"),
      [self, &book](size_t i) {  // called before gather() returns
        return std::tuple(make_msg<fbs::DataPlaneTable>(
            context(self), [&](auto& m) { m.groups = book.tables_for(i); }));
      },
      passing(self, start_phase::connect_data_plane),
      [self](size_t rank, const error& e) {  // whom it misses the error names, whose fault nobody
        const auto& st = self->state;
        const auto& node = st.crew.nodes[static_cast<size_t>(st.job.plan().ranks[rank].node)];
        hear(self, heard::ask_failed{
                       e.within(fmt::format("connect the data plane: rank {} ({})", rank, node))});
      });
}

void load_weights(run_pointer self, const todo::ask& order) {
  gather<fbs::Loaded>(
      self, self->state.crew.stages, each_stage("loaded weights"),
      [self, &order](size_t rank) {  // called before gather() returns
        return std::tuple(make_msg<fbs::LoadCheckpoint>(context(self), [&](auto& m) {
          m.directory = order.folder;
          m.optimizer = order.optimizer;
          m.copy_epoch = static_cast<uint32_t>(order.copy.epoch);
          m.copy_step = order.copy.step;
          m.from_keeper = rank < order.from_keeper.size() && order.from_keeper[rank];
        }));
      },
      [self](const std::vector<msg<fbs::Loaded>>& replies) {
        heard::phase_done done{start_phase::load_weights};
        for (const auto& r : replies) done.takes_files = done.takes_files || r->takes_files();
        hear(self, std::move(done));
      },
      failing(self, order.copy.epoch > 0 ? "load copies in memory"
                                         : fmt::format("load {}", order.folder)));
}

void find_copies(run_pointer self) {
  gather<fbs::CopiesFound>(
      self, self->state.crew.stages, each_stage("its copies in memory"),
      [self](size_t) { return std::tuple(make_msg<fbs::FindCopies>(context(self), [](auto&) {})); },
      [self](const std::vector<msg<fbs::CopiesFound>>& replies) {
        heard::phase_done done{start_phase::find_copies};
        for (const auto& r : replies) done.copies.push_back(copies_in(r));
        hear(self, std::move(done));
      },
      failing(self, "look for copies in memory"));
}

void hear_choice(run_pointer self, const msg<fbs::CheckpointChosen>& m) {
  auto chosen = choice_in(m);
  if (!chosen) return hear(self, heard::ask_failed{chosen.error()});
  for (auto& sentence : m.unpack().told) say(self, {std::move(sentence), true});
  heard::phase_done done{start_phase::choose_checkpoint};
  done.chosen = std::move(*chosen);
  hear(self, std::move(done));
}

/// The committer may be asked in any epoch; what it answered the one before is not heard.
void choose_checkpoint(run_pointer self, const todo::ask& order) {
  auto m = make_msg<fbs::ChooseCheckpoint>(context(self), [&](auto& c) {
    c.unsound = order.unsound;
    c.at_most = order.at_most;
  });
  ask_for<fbs::CheckpointChosen>(
      self, self->state.record.committer, m, {"committer", "an older checkpoint"},
      [self, epoch = self->epoch()](const msg<fbs::CheckpointChosen>& chosen) {
        if (epoch == self->epoch()) hear_choice(self, chosen);  // RUN-4
      },
      [self, epoch = self->epoch()](const error& e) {
        if (epoch == self->epoch())
          hear(self, heard::ask_failed{e.within("choose an older checkpoint")});
      });
}

/// RUN-2.
void ask(run_pointer self, const todo::ask& order) {
  switch (order.phase) {
    case start_phase::open_folder:
      return open_folder(self);
    case start_phase::open_data:
      return open_data(self);
    case start_phase::build_stages:
      return build_stages(self, order.weights_follow);
    case start_phase::attach_loaders:
      return attach_loaders(self);
    case start_phase::introduce_stages:
      return introduce_stages(self);
    case start_phase::open_data_plane:
      return open_data_plane(self);
    case start_phase::connect_data_plane:
      return connect_data_plane(self);
    case start_phase::load_weights:
      return load_weights(self, order);
    case start_phase::find_copies:
      return find_copies(self);
    case start_phase::choose_checkpoint:
      return choose_checkpoint(self, order);
  }
}

// -- steps ----------------------------------------------------------------------------------------

void step_done(run_pointer self, uint64_t step, const std::vector<msg<fbs::StepDone>>& parts) {
  record_step(self, step);
  heard::step_done done;
  done.grad_norm = parts.front()->grad_norm();
  done.took_ms = static_cast<double>(now_ns(*self) - self->state.step_started_ns) / 1e6;
  std::vector<std::vector<step_part>> of_ranks;
  std::vector<std::vector<uint64_t>> digests;
  std::vector<std::optional<health::recheck_result>> rechecks;
  double held_ms = 0;
  note_usual(self->state, parts);
  for (const auto& p : parts) {
    held_ms = std::max(held_ms, p->power_wait_ms());
    digests.emplace_back();
    if (p->digests() != nullptr) digests.back().assign(p->digests()->begin(), p->digests()->end());
    rechecks.push_back(recheck_of(p->recheck()));
    done.loss_sum += p->loss_sum();
    done.targets += p->target_count();
    done.document_pairs += p->document_pairs();
    done.process_peak_bytes = std::max(done.process_peak_bytes, p->process_peak_bytes());
    of_ranks.push_back(parts_of(p->parts()));
    if (const auto& to = self->state.record.monitor) self->send(to, as_usual(self, p));
  }
  const auto& grid = self->state.job.plan().ranks.front().at.grid;
  settle_transfers(grid, of_ranks);
  tell_step_made(self, step, done.took_ms, parts, of_ranks);
  std::vector<std::vector<step_part>> usual;
  if (self->state.slack.of_step) usual = as_usual(self->state, of_ranks);
  tell_times(self, step, done.took_ms, as_usual(self->state, oddity_of_step(parts, of_ranks)),
             usual.empty() ? of_ranks : usual);
  done.waited_ms = longest_wait_ms(of_ranks, pipeline_op::await_copies);
  done.parts = merged(of_ranks);
  note_held(self->state, held_ms);
  done.weights = health::compare_digests(grid, digests);
  done.products = health::compare_rechecks(grid, rechecks);
  hear(self, done);
}

void run_step(run_pointer self, const todo::run_step& order) {
  auto& st = self->state;
  for (auto& sentence : drills_of_step(st, order.step)) say(self, {std::move(sentence), true});
  st.step_started_ns = now_ns(*self);
  st.step_span = next_span();
  begin_paced(self, order.step);
  begin_clocks(st);
  gather<fbs::StepDone>(
      self, st.crew.stages,
      each_stage(fmt::format("StepDone of step {}", order.step),
                 paced_patience<stage_actor, fbs::RunStep>(self, self->state.power.pace,
                                                           may_brake(self->state))),
      [self, order](size_t rank) {
        const auto root = context_within(*self, self->state.record.epoch, self->state.step_span);
        return std::tuple(make_msg<fbs::RunStep>(root, [&](auto& m) {
          m.step = order.step;
          m.lr = order.lr;
          m.digest = order.digest;
          m.recheck = order.recheck;
          m.pace_of_1024 = static_cast<uint32_t>(self->state.power.pace.of_1024);
          m.clocks = clocks_of(self->state, rank);
          m.start_offset_us = self->state.power.step_offset_us;
        }));
      },
      [self, step = order.step](const auto& parts) { step_done(self, step, parts); },
      [self, step = order.step](size_t rank, const error& e) {
        hear(self, heard::ask_failed{e.within(fmt::format("step {} on rank {}", step, rank))});
      });
}

void validate(run_pointer self, const todo::validate& order) {
  gather<fbs::ValidationDone>(
      self, self->state.crew.stages,
      each_stage("ValidationDone", paced_patience<stage_actor, fbs::Validate>(
                                       self, self->state.power.step_pace, may_brake(self->state))),
      [self, order](size_t) {
        return std::tuple(make_msg<fbs::Validate>(context(self), [&](auto& v) {
          v.step = order.step;
          v.batches = order.batches;
          v.pace_of_1024 = static_cast<uint32_t>(self->state.power.step_pace.of_1024);
        }));
      },
      [self](const std::vector<msg<fbs::ValidationDone>>& parts) {
        heard::validated done;
        double held_ms = 0;
        for (const auto& p : parts) {
          held_ms = std::max(held_ms, p->power_wait_ms());
          done.loss_sum += p->loss_sum();
          done.targets += p->target_count();
        }
        self->state.power.wait_ms += held_ms;
        hear(self, done);
      },
      failing(self, "validation"));
}

// -- checkpoints ----------------------------------------------------------------------------------

void save(run_pointer self, const todo::save& order) {
  const auto failed = [self, step = order.step](size_t, const error& e) {
    hear(self, heard::save_failed{step, e.within("save")});
  };
  gather<fbs::Saved>(
      self, self->state.crew.stages,
      each_stage(fmt::format("its shard of checkpoint {}", order.step)),
      [self, &order](size_t) {  // called before gather() returns
        return std::tuple(make_msg<fbs::SaveCheckpoint>(context(self), [&](auto& m) {
          m.step = order.step;
          m.directory = order.folder;
          m.copy = order.copy;
          m.tokens = order.state.tokens;
          m.loss = order.state.loss;
          m.last = order.last;
        }));
      },
      [self, step = order.step](const std::vector<msg<fbs::Saved>>& votes) {
        uint64_t bytes = 0;
        for (const auto& vote : votes) bytes += checkpoint::saved_bytes(*vote.get());
        self->state.votes[step] = {self->epoch(), votes};
        hear(self, heard::shards_saved{step, bytes});
      },
      failed);
}

void copy_state(run_pointer self, const todo::copy_state& order) {
  const auto m = make_msg<fbs::CopyState>(context(self), [&](auto& c) {
    c.step = order.step;
    c.tokens = order.state.tokens;
    c.loss = order.state.loss;
  });
  for (const auto& stage : self->state.crew.stages) self->send(stage, m);
}

// -- what is said of it ---------------------------------------------------------------------------

/// Where a step has failed, or its nodes are lost, ranks may still end an operation of it; so they
/// may of a validation that is not waited for.
bool may_compute(const job_policy& job) {
  const auto s = job.state();
  return s == job_state::stepping || s == job_state::validating || s == job_state::explaining ||
         s == job_state::recovering || s == job_state::ended || job.may_validate();
}

void show(run_pointer self) {
  const auto& job = self->state.job;
  if (!may_compute(job)) tell_pacer(self, 0);
  const bool gives_up = self->state.gives_up && job.state() == job_state::stepping;
  std::string phase(gives_up ? "giving a checkpoint up" : job.phase());
  publish(self, std::move(phase), [&](fbs::RunStatusT& s) {
    s.step = job.step();
    s.steps = static_cast<uint64_t>(job.plan().job.train.steps);
    s.loss = job.loss();
    s.saved_step = job.saved_step();
    s.copied_step = job.copied_step();
    s.saving.assign(job.pace().open().begin(), job.pace().open().end());
    s.checkpoints = job.checkpoints();
    s.skipped_checkpoints = job.pace().skipped();
    s.checkpoint_wait_ms = job.checkpoint_wait_ms();
    s.parts = to_message(job.parts());
    put_account(job, now_ns(*self), s);
    put_power(self->state, now_ns(*self), s);
  });
}

/// RUN-4.
void recover(run_pointer self, const todo::recover& order) {
  auto& st = self->state;
  self->live_in(order.epoch);
  st.record.epoch = order.epoch;
  st.crew = {};
  st.loaders.clear();
  st.addresses = {};
  st.slack = {};
  arm_brake(self);
  tell_ranks_change(self);
  self->send(st.record.coordinator,
             make_msg<fbs::Recover>(context(self), [&](auto& r) { r.reason = order.reason; }));
}

/// RUN-3.
void end(run_pointer self, const error& why) {
  const auto& st = self->state;
  self->send(st.record.coordinator, make_msg<fbs::RunEnded>(context(self), [&](fbs::RunEndedT& e) {
               put_error(why, e);
               e.step = st.job.step();
               e.checkpoint = st.job.checkpoint();
               e.model = st.job.model();
               e.checkpoints = st.job.checkpoints();
               e.checkpoint_bytes = st.job.checkpoint_bytes();
               e.skipped_checkpoints = st.job.pace().skipped();
               e.checkpoint_wait_ms = st.job.checkpoint_wait_ms();
               e.effective_percent = 100 * st.job.ledger().whole().effective();
               e.recoveries = st.job.recoveries();
               e.steps_repeated = st.job.ledger().steps_repeated();
               e.power_wait_ms = st.power.wait_ms;
             }));
}

// -- between the policy and the messages ----------------------------------------------------------

struct executor {
  run_pointer self;

  void operator()(const todo::ask& c) const { ask(self, c); }
  void operator()(const todo::run_step& c) const {
    self->state.gives_up = !c.give_up.empty();
    if (c.give_up.empty()) return run_step(self, c);
    show(self);
    give_up(self, c.give_up, [who = self, c] {
      who->state.gives_up = false;
      show(who);
      run_step(who, c);
    });
  }
  void operator()(const todo::validate& c) const { validate(self, c); }
  void operator()(const todo::measure& c) const { record_measures(self, c.step); }
  void operator()(const todo::report& c) const {
    const auto fill = [&](auto& r) {
      put_power(self->state, r = c.step);
      put_slack(self->state, r);
    };
    self->send(self->state.record.reporter, make_msg<fbs::StepReport>(context(self), fill));
  }
  void operator()(const todo::save& c) const { save(self, c); }
  void operator()(const todo::copy_state& c) const { copy_state(self, c); }
  void operator()(const todo::commit& c) const { commit(self, c); }
  void operator()(const todo::amend& c) const { amend(self, c); }
  void operator()(const todo::abandon& c) const { abandon(self, c); }
  void operator()(const todo::copy& c) const { copy(self, c); }
  void operator()(const todo::hold& c) const { hold(self, c); }
  void operator()(const todo::reopen_folder&) const { reopen_folder(self); }
  void operator()(const todo::export_model& c) const { export_model(self, c); }
  void operator()(const todo::finish_copies& c) const { finish_copies(self, c); }
  void operator()(const todo::wait& c) const {
    self->delayed_send(self, std::chrono::nanoseconds(c.ns), caf::tick_atom_v);
  }
  void operator()(const todo::give_up_node& c) const {
    self->send(self->state.record.coordinator, make_msg<fbs::Leave>(context(self), [&](auto& l) {
                 l.node = c.name;
                 l.reason = c.how;
                 l.finding = c.finding;
               }));
  }
  void operator()(const todo::recover& c) const { recover(self, c); }
  void operator()(const todo::note_decision& c) const {
    const auto fill = [&](auto& r) { r.incident = to_message(c.what, now_ns(*self)); };
    const auto decided = make_msg<fbs::IncidentReport>(context(self), fill);
    if (const auto& to = self->state.record.gateway) self->send(to, decided);
    if (const auto& to = self->state.record.monitor) self->send(to, decided);
  }
  void operator()(const todo::find& c) const {
    const auto& to = self->state.record.monitor;
    if (!to) return;
    self->send(to, make_msg<fbs::FindingTold>(context(self), [&](auto& m) {
                 m.finding = std::make_unique<fbs::FindingT>(
                     health::to_message(health::finding{c.who, c.shown}));
                 m.gone = c.gone;
               }));
  }
  void operator()(const todo::keep_incident& c) const {
    const auto fill = [&](auto& r) { r.incident = to_message(c.what, now_ns(*self)); };
    self->send(self->state.record.reporter, make_msg<fbs::IncidentReport>(context(self), fill));
  }
  void operator()(const todo::say& c) const { say(self, c); }
  void operator()(const todo::answer& c) const { answer(self, c); }
  void operator()(const todo::show&) const { show(self); }
  void operator()(const todo::end& c) const {
    behind_amendments(self, [who = self, why = c.why] { end(who, why); });
  }
};

}  // namespace

void say(run_pointer self, const todo::say& what) {
  self->send(self->state.record.reporter, make_msg<fbs::Notice>(context(self), [&](auto& n) {
               n.level = what.warning ? fbs::NoticeLevel::warning : fbs::NoticeLevel::info;
               n.text = what.text;
             }));
}

/// RUN-1.
void hear(run_pointer self, job_event event) {
  auto& st = self->state;
  st.unheard.push_back(std::move(event));
  if (std::exchange(st.handling, true)) return;
  while (!st.unheard.empty()) {
    const auto next = std::move(st.unheard.front());
    st.unheard.pop_front();
    const auto commands = st.job.on(next, now_ns(*self));
    note_waits(st, now_ns(*self));
    for (const auto& command : commands) std::visit(executor{self}, command);
    remember(self);  // a rule may hold the job, and nobody is answered
    tell_person(self);
  }
  st.handling = false;
}

namespace {

/// A person's request; the policy's answer is the answer.
template <class Event>
caf::result<msg<fbs::Ack>> asked(run_pointer self, const message_header& cause, Event event) {
  auto& st = self->state;
  event.request = ++st.last_request;
  auto promise = self->make_response_promise<msg<fbs::Ack>>();
  st.requests[event.request] = {promise, cause};
  hear(self, std::move(event));
  return promise;
}

void begin(run_pointer self, const msg<fbs::ClusterReady>& m,
           const std::vector<caf::strong_actor_ptr>& handles) {
  auto plan = self->state.job.plan_with(m->replicas());
  auto crew = plan ? crew_of(*plan, m, handles) : plan.error();
  if (!crew) return hear(self, heard::not_admitted{crew.error()});
  self->state.crew = std::move(*crew);
  arm_brake(self);
  hear(self, heard::admitted{self->state.crew.nodes, m->replicas(), text_of(m->layers()),
                             text_of(m->order())});
}

}  // namespace

run_actor::behavior_type run(run_pointer self, spawn_record record) {
  guard_mailbox(self);
  introduce(self, "run", record.epoch);
  note_spawn_record(record);
  auto& st = self->state;
  st.record = std::move(record);
  self->set_timeouts(call_timeouts(st.record.plan.job));
  auto second = io::plain(st.record.plan.job.checkpoint.second.dir);
  st.job =
      job_policy(std::move(st.record.plan), st.record.epoch, st.record.resume, std::move(second));
  st.drills = drills_of(st);
  if (st.record.memory) st.job.remember(*st.record.memory);
  st.remembered = st.job.memory();
  for (const auto& command : st.job.begin(now_ns(*self))) std::visit(executor{self}, command);
  show(self);
  begin_power(self);
  begin_slack(self);
  return {
      status_handler(self),
      [self](const msg<fbs::ClusterReady>& m, const std::vector<caf::strong_actor_ptr>& handles) {
        begin(self, m, handles);
      },
      [self](const msg<fbs::AdmissionFailed>& m) { hear(self, heard::not_admitted{error_in(*m)}); },
      [self](const msg<fbs::NodeLost>& m) {
        hear(self, heard::node_lost{
                       text_of(m->node()), text_of(m->how()), text_of(m->finding()),
                       static_cast<int64_t>(std::min<uint64_t>(m->silent_ns(), now_ns(*self))),
                       m->ordered()});
      },
      [self](const msg<fbs::ReleaseNode>& m) {
        hear(self, heard::release{text_of(m->node()), text_of(m->reason()), m->grows()});
      },
      [self](const msg<fbs::Notice>& m) { hear_notice(self, m); },
      [self](const msg<fbs::StopTraining>& m) {
        const heard::stop how{m->reason() ? m->reason()->str() : "stopped", m->save()};
        for (auto& sentence : hear_stop(self, how)) say(self, {std::move(sentence), true});
      },
      [self](const msg<fbs::Pause>& m) {
        return asked(self, m.header(), heard::pause{0, pause_cause::person, text_of(m->reason())});
      },
      [self](const msg<fbs::Resume>& m) { return asked(self, m.header(), heard::resume{}); },
      [self](const msg<fbs::CheckpointNow>& m) {
        return asked(self, m.header(), heard::save_now{});
      },
      [self](const msg<fbs::SetValue>& m) {
        self->state.times.after_set = steps_after_set;
        return asked(self, m.header(), heard::set_value{0, text_of(m->key()), text_of(m->value())});
      },
      [self](const msg<fbs::Rewind>& m) {
        return asked(self, m.header(),
                     heard::rewind{0, m->step(), m->skip_steps(), text_of(m->reason())});
      },
      [self](const msg<fbs::JobPower>& m) {
        for (auto& sentence : hear_power(self, *m)) say(self, {std::move(sentence), true});
        show(self);
      },
      [self](const msg<fbs::JobClocks>& m) {
        if (self->state.job.state() == job_state::ended) return;  // RUN-3
        for (auto& said : hear_clocks(self, *m)) say(self, said);
      },
      [self](const msg<fbs::StepTimesTaken>&) { self->state.times.is_told = false; },
      [self](caf::tick_atom) {
        end_old_ranks(self);
        ask_again(self);
        hear(self, heard::tick{});
      },
  };
}

}  // namespace troupe::train

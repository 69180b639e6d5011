// Messages to engine calls, completions to answers.
#include "actors/train/worker.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/job/plan.hpp"
#include "actors/train/addresses.hpp"
#include "actors/train/batch_memory.hpp"
#include "actors/train/clocks_message.hpp"
#include "actors/train/gpu_budget.hpp"
#include "actors/train/received_job.hpp"
#include "actors/train/recheck_message.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_messages.hpp"
#include "gpu/back_end.hpp"
#include "messages/text.hpp"

namespace troupe::train {

namespace {

using worker_pointer = traced_pointer<worker_actor, worker_state>;
template <class T>
using promise = caf::typed_response_promise<msg<T>>;

/// A completion for the engine that continues on the actor's thread with `then(status)`.
template <class F>
engine::completion back_home(worker_pointer self, F then) {
  return [box = self->state.done, then = std::move(then)](const status& s) {
    box->post([then = F(then), s]() mutable { then(s); });
  };
}

/// A completion that answers `rp` with a message made by `make()`, or with the error.
template <class T, class F>
engine::completion answer(worker_pointer self, promise<T> rp, F make) {
  return back_home(self, [rp, make = std::move(make)](const status& s) mutable {
    if (s)
      rp.deliver(make());
    else
      rp.deliver(to_caf(s.error()));
  });
}

caf::error not_built() {
  return to_caf({errc::bug, "the worker has no model yet", "send BuildStage first"});
}

/// The saver's part of the status.
std::unique_ptr<fbs::SaverStatusT> saver_status(const gpu::saver_facts& f,
                                                const std::optional<copy_facts>& copies) {
  auto out = std::make_unique<fbs::SaverStatusT>();
  for (const auto& save : f.flusher.saves) {
    auto& s = *out->saves.emplace_back(std::make_unique<fbs::SaveProgressT>());
    s.step = save.step;
    s.total = save.bytes.total;
    s.captured = save.bytes.captured;
    s.written = save.bytes.written;
    s.durable = save.bytes.durable;
    s.age_s = save.age_s;
  }
  out->durable = f.flusher.durable_saves;
  out->failed = f.flusher.failed_saves;
  out->share_bytes = f.share_bytes;
  out->durable_bytes = f.flusher.durable_bytes;
  out->ring_wait_ms = f.ring_wait_ms;
  out->ring_slots = std::make_unique<fbs::RingSlotsT>();
  out->ring_slots->free = static_cast<uint32_t>(f.ring.free);
  out->ring_slots->filling = static_cast<uint32_t>(f.ring.filling);
  out->ring_slots->filled = static_cast<uint32_t>(f.ring.filled);
  out->ring_slots->writing = static_cast<uint32_t>(f.ring.writing);
  out->slot_bytes = f.slot_bytes;
  out->disk = f.flusher.disk.backend;
  out->registered_buffers = f.flusher.disk.registered_buffers;
  if (copies) {
    out->copied_step = copies->copied_step;
    out->copies_bytes = copies->bytes;
    out->keeper_rank = copies->keeper;
    out->failed_copies = copies->failed;
  }
  return out;
}

void show_saver(worker_pointer self) {
  if (const auto facts = self->state.engine->saver_facts())
    publish_values(self, [&](fbs::WorkerStatusT& s) {
      s.checkpoint = saver_status(*facts, self->state.engine->copy_facts());
    });
}

std::vector<std::unique_ptr<fbs::MemoryHolderT>> holders_in(const io::memory_account::table& t) {
  std::vector<std::unique_ptr<fbs::MemoryHolderT>> out;
  for (const auto& from : t.holders) {
    auto& to = *out.emplace_back(std::make_unique<fbs::MemoryHolderT>());
    to.holder = from.holder;
    to.held_bytes = from.bytes;
    to.peak_bytes = from.peak_bytes;
  }
  return out;
}

std::unique_ptr<fbs::SwapStatusT> swap_status(const std::optional<swap_facts>& f) {
  if (!f) return nullptr;
  auto out = std::make_unique<fbs::SwapStatusT>();
  out->state_chunks = f->state_chunks;
  out->weight_chunks = f->weight_chunks;
  out->disk_bytes = f->disk_bytes;
  out->memory_bytes = f->memory_bytes;
  out->read_bytes = f->read_bytes;
  out->written_bytes = f->written_bytes;
  out->clip = to_string(f->order);
  out->redone_steps = f->redone_steps;
  out->spilled_layers = static_cast<uint32_t>(f->spilled_layers);
  out->recomputed_layers = static_cast<uint32_t>(f->recomputed_layers);
  out->linked_chunks = f->linked_chunks;
  out->cloned_chunks = f->cloned_chunks;
  out->copied_chunks = f->copied_chunks;
  out->budget_bytes = f->memory.limit_bytes;
  out->held_bytes = f->memory.held_bytes;
  out->peak_bytes = f->memory.peak_bytes;
  out->holders = holders_in(f->memory);
  if (!f->device_memory) return out;
  out->device_budget_bytes = f->device_memory->limit_bytes;
  out->device_held_bytes = f->device_memory->held_bytes;
  out->device_peak_bytes = f->device_memory->peak_bytes;
  out->device_holders = holders_in(*f->device_memory);
  out->device = f->device;
  return out;
}

/// Shows the saver now and again while it works; called by its threads.
std::function<void()> saver_watch(worker_pointer self) {
  using clock = std::chrono::steady_clock;
  auto last = std::make_shared<std::atomic<clock::rep>>(0);
  return [self, box = self->state.done, last] {
    const auto now = clock::now().time_since_epoch();
    auto then = last->load();
    if (now - clock::duration(then) < defaults::saver_status_period) return;
    if (!last->compare_exchange_strong(then, now.count())) return;
    box->post([self] { show_saver(self); });
  };
}

/// Tells the stage, from the engine's threads.
std::function<void(const std::string&)> notice_teller(worker_pointer self) {
  return [self, box = self->state.done](const std::string& text) {
    box->post([self, text] {
      spdlog::warn("rank {}: {}", self->state.rank, text);
      if (!self->state.stage) return;
      self->send(self->state.stage,
                 make_msg<fbs::Notice>(context_of(*self, self->epoch()), [&](auto& n) {
                   n.level = fbs::NoticeLevel::warning;
                   n.text = fmt::format("rank {}: {}", self->state.rank, text);
                 }));
    });
  };
}

/// The engine is built.
msg<fbs::StageReady> stage_ready(worker_pointer self, const message_header& cause) {
  auto& st = self->state;
  st.built = true;
  const auto facts = st.engine->facts();
  publish(self, "ready", [&](fbs::WorkerStatusT& w) {
    w.control = facts.control;
    if (st.options.device == "host")
      w.threads = static_cast<uint32_t>(std::max(st.options.threads, 0));
    w.actuation_p50_ms = w.actuation_p99_ms = -1;
  });
  show_saver(self);
  for (const auto& note : facts.notes) spdlog::info("files of rank {}: {}", st.rank, note);
  const auto tell = notice_teller(self);
  for (const auto& warning : facts.warnings) tell(warning);
  return make_msg<fbs::StageReady>(context_of(*self, cause), [&](fbs::StageReadyT& r) {
    r.rank = static_cast<uint32_t>(st.rank);
    r.bytes = facts.bytes;
    r.parameters = facts.parameters;
    r.pauses = facts.pauses;
    r.sets_clocks = facts.sets_clocks;
    r.saves_energy = facts.saves_energy;
    r.clocks_mhz.assign(facts.clocks_mhz.begin(), facts.clocks_mhz.end());
  });
}

using ready_promise = caf::typed_response_promise<msg<fbs::StageReady>>;

caf::error another_build() {
  return to_caf({errc::cancelled, "another BuildStage has come meanwhile"});
}

/// Makes the engine, in place of an earlier one, which goes before its probe does.
status make_engine(worker_pointer self, engine_options options) {
  auto& st = self->state;
  auto made = st.engines->make_engine(options);
  if (!made) return made.error();
  const auto& at = options.at;
  st.rank = at.rank;
  auto swapper = options.swap.places.empty()
                     ? nullptr
                     : self->runtime().registry.find(fmt::format("swapper/{}", at.rank));
  if (st.engine) st.engine->abort();
  st.engine = std::move(*made);
  st.probe =
      std::make_unique<stats_probe>(self->stats(), self->runtime().records, at, std::move(swapper));
  st.options = std::move(options);
  st.built = false;
  st.batch_slots = 0;
  st.engine->set_probe(st.probe.get());
  publish(self, "building");
  return {};
}

void build_engine(worker_pointer self, engine_options options, const message_header& cause,
                  ready_promise rp) {
  auto& st = self->state;
  if (auto made = make_engine(self, std::move(options)); !made) {
    rp.deliver(to_caf(made.error()));
    return;
  }
  st.engine->set_cause(cause.span, cause.trace_low);
  st.engine->build(back_home(self, [self, rp, cause, number = st.builds](const status& s) mutable {
    if (!s)
      rp.deliver(to_caf(s.error()));
    else if (number != self->state.builds)  // an earlier engine's word is not of this one
      rp.deliver(another_build());
    else
      rp.deliver(stage_ready(self, cause));
  }));
}

/// The engine comes behind the folders of its swap files (SWA-1).
void build_on_drive(worker_pointer self, engine_options options, const message_header& cause,
                    ready_promise rp) {
  auto& st = self->state;
  if (!st.swapper) {
    rp.deliver(to_caf({errc::bug, "a rank that swaps has no swapper beside it"}));
    return;
  }
  publish(self, "opening the swap folder");
  const auto wanted = swap_request_of(options);
  const auto m = make_msg<fbs::OpenSwap>(context_of(*self, cause), [&](fbs::OpenSwapT& o) {
    for (const auto& dir : wanted.dirs) o.directories.push_back(dir.string());
    o.job = wanted.job;
    o.file_bytes = wanted.file_bytes;
    o.checkpoint_directory = wanted.checkpoints.string();
    o.consume = wanted.consume;
  });
  request(self, st.swapper, m)
      .then(
          [self, options = std::move(options), cause, rp,
           number = st.builds](const msg<fbs::SwapOpened>& opened) mutable {
            if (number != self->state.builds) {
              rp.deliver(another_build());
              return;
            }
            options.swap = opened_swap_of(*opened);
            build_engine(self, std::move(options), cause, rp);
          },
          [rp](const caf::error& e) mutable { rp.deliver(e); });
}

/// What this machine and its drive leave to a rank, which is not built yet.
caf::result<msg<fbs::StageReady>> leaves_to(worker_pointer self, const config::job& job,
                                            const engine_options& options,
                                            const msg<fbs::BuildStage>& asked) {
  const auto drive = drive_share_of(job, options);
  if (!drive) return to_caf(drive.error());
  return make_msg<fbs::StageReady>(context_of(*self, asked.header()), [&](fbs::StageReadyT& r) {
    r.rank = asked->rank();
    r.swap_bytes = swap_budget_bytes(job, options);
    if (on_gpu(options)) r.swap_device_bytes = device_budget_bytes(job, options);
    r.swap_second_version = options.at.grid.data > 1 && has_room_for_versions(job, options);
    r.swap_file_bytes = drive->file_bytes;
    r.swap_free_bytes = drive->free_bytes;
  });
}

caf::result<msg<fbs::StageReady>> build(worker_pointer self, const msg<fbs::BuildStage>& m) {
  auto& st = self->state;
  const auto& b = *m;
  const auto received = received_job(b.config_toml());
  if (!received) return to_caf(received.error());
  const auto& job = *received;
  const auto at = place_in(*job, b);
  if (!at) return to_caf(at.error());
  auto model = model_of(*job);
  if (!model) return to_caf(model.error());
  auto options = options_of(*job, *model, *at, {b.first_layer(), b.last_layer()},
                            static_cast<int>(b.threads()));
  if (auto device = text_of(b.device()); !device.empty()) options.device = std::move(device);
  options.shared_devices = b.shared_devices();
  if (!job->swap.dir.empty())
    options.gpu_at = {gpu::device_memory_bytes(options.device), b.device_ranks()};
  options.swap_bytes = b.swap_bytes();
  options.swap_device_bytes = b.swap_device_bytes();
  options.swap_consume = b.swap_consumes();
  if (at->grid.data > 1 && !b.only_asks()) options.swap_second_version = b.swap_second_version();
  if (auto settled = settle_swap(options, *job); !settled) return to_caf(settled.error());
  if (b.only_asks()) return leaves_to(self, *job, options, m);
  options.epoch = m.epoch();
  options.launch = b.launch();
  options.weights_follow = b.weights_follow();
  options.on_save_progress = saver_watch(self);
  options.on_notice = notice_teller(self);
  options.copies = st.engines->copies();
  if (options.copies) options.copies->allow(static_cast<uint64_t>(job->checkpoint.memory.bytes));
  st.stage = caf::actor_cast<stage_actor>(self->current_sender());
  ++st.builds;
  auto rp = self->make_response_promise<msg<fbs::StageReady>>();
  if (options.shape.where.any_on_disk())
    build_on_drive(self, std::move(options), m.header(), rp);
  else
    build_engine(self, std::move(options), m.header(), rp);
  return rp;
}

caf::result<msg<fbs::Ack>> attach(worker_pointer self, const msg<fbs::AttachLoader>& m) {
  auto& st = self->state;
  if (!st.built) return not_built();
  const auto& o = st.options;
  if (m->slot_bytes() != batch_memory::slot_bytes_of({m->rows(), o.shape.seq, o.shape.documents}) ||
      m->first_row() + o.rows() > m->rows())
    return to_caf({errc::bad_data, "the loader's slots do not hold this rank's rows"});
  auto attached =
      st.engine->attach({text_of(m->shared_memory()), m->slot_bytes(), m->slots(), m->first_row()});
  if (!attached) return to_caf(attached.error());
  st.batch_slots = m->slots();
  return make_msg<fbs::Ack>(context_of(*self, m.header()));
}

caf::result<msg<fbs::DataPlaneOffer>> open_data_plane(worker_pointer self,
                                                      const msg<fbs::OpenDataPlane>& m) {
  auto offers = self->state.engine->open_groups(m->host() ? m->host()->str() : "127.0.0.1");
  if (!offers) return to_caf(offers.error());
  return make_msg<fbs::DataPlaneOffer>(context_of(*self, m.header()),
                                       [&](fbs::DataPlaneOfferT& out) {
                                         out.rank = static_cast<uint32_t>(self->state.rank);
                                         for (auto& offer : *offers) {
                                           auto g = std::make_unique<fbs::GroupOfferT>();
                                           g->name = offer.name;
                                           g->rank = static_cast<uint32_t>(offer.rank);
                                           g->size = static_cast<uint32_t>(offer.size);
                                           g->addresses = std::make_unique<fbs::AddressesT>();
                                           for (const auto& a : offer.addresses)
                                             add_address(*g->addresses, a);
                                           out.groups.push_back(std::move(g));
                                         }
                                       });
}

caf::result<msg<fbs::DataPlaneReady>> connect(worker_pointer self,
                                              const msg<fbs::DataPlaneTable>& m) {
  engine::group_tables tables;
  if (m->groups())
    for (const auto* g : *m->groups()) {
      const auto offered = address_list::of(g->addresses());
      if (!offered) return to_caf(offered.error());
      tables.emplace_back(text_of(g->name()), offered->all());
    }
  auto rp = self->make_response_promise<msg<fbs::DataPlaneReady>>();
  self->state.engine->connect_groups(
      std::move(tables), answer(self, rp, [self, header = m.header()] {
        return make_msg<fbs::DataPlaneReady>(context_of(*self, header), [&](auto& r) {
          r.rank = static_cast<uint32_t>(self->state.rank);
        });
      }));
  return rp;
}

msg<fbs::OpDone> op_done(worker_pointer self, const msg<fbs::RunOp>& m) {
  return make_msg<fbs::OpDone>(context_of(*self, m.header()), [&](fbs::OpDoneT& d) {
    d.step = m->step();
    d.kind = m->kind();
    d.micro_batch = m->micro_batch();
    d.computed_us = self->state.engine->computed_us();
  });
}

/// Why an operation cannot be done: what it names is not there.
std::optional<error> not_there(const worker_state& st, const fbs::RunOp& m) {
  const auto& o = st.options;
  const auto lacks = [](std::string what) { return error{errc::bad_data, std::move(what)}; };
  if (m.kind() > fbs::OpKind::MAX)
    return lacks(fmt::format("no operation {}", static_cast<int>(m.kind())));
  const auto& facts = facts_of(static_cast<pipeline_op>(m.kind()));
  const uint64_t count = m.micro_batches();
  if (count == 0 || (count > 1 && !o.shape.by_layer))
    return lacks(fmt::format("no operation on {} micro-batches at once", count));
  if (const auto last = m.slot() + count - 1; last >= static_cast<uint64_t>(o.shape.slots))
    return lacks(fmt::format("no slot {}", last));
  if (const auto last = m.micro_batch() + count - 1;
      last >= static_cast<uint64_t>(o.rows() / o.shape.micro_batch))
    return lacks(fmt::format("no micro-batch {}", last));
  if (m.batch_slot() >= st.batch_slots)
    return lacks(fmt::format("no batch slot {}", m.batch_slot()));
  if (facts.reads_batch && m.batch_slot() < 0 && o.at.reads_batches(o.shape.documents))
    return lacks("no batch slot, which this stage needs");
  if ((facts.with == op_partner::previous && o.at.first()) ||
      (facts.with == op_partner::next && o.at.last()))
    return lacks("no neighbour to receive from");
  return std::nullopt;
}

work_pace pace_in(const fbs::RunOp& m) {
  return {static_cast<int>(std::min<uint32_t>(m.pace_of_1024(), work_pace::whole))};
}

/// Of a pass; null: the highest clocks, also where what is said does not fit the rank's schedule.
gpu::controls::clock_table_ptr clocks_of(const worker_state& st, const msg<fbs::RunOp>& m) {
  if (m->clocks() == nullptr) return {};
  const auto& o = st.options;
  auto out = clocks_in(*m->clocks(), static_cast<size_t>(2 * o.rows() / o.shape.micro_batch));
  if (!out) note_rejection(reject::unexpected, m.type(), "clocks that are not of its operations");
  return out;
}

caf::result<msg<fbs::OpDone>> run_op(worker_pointer self, const msg<fbs::RunOp>& m) {
  auto& st = self->state;
  if (!st.built) return not_built();
  if (auto why = not_there(st, *m)) return to_caf(*why);
  const op_order order{static_cast<pipeline_op>(m->kind()),
                       static_cast<int>(m->micro_batch()),
                       static_cast<int>(m->slot()),
                       m->batch_slot(),
                       m->last(),
                       m->step(),
                       static_cast<int>(m->micro_batches()),
                       pace_in(*m),
                       m->digest(),
                       clocks_of(st, m)};
  if (facts_of(order.kind).releases == op_partner::none) {
    st.engine->run(order, {});
    return op_done(self, m);
  }
  auto rp = self->make_response_promise<msg<fbs::OpDone>>();
  st.engine->run(order, answer(self, rp, [self, m] { return op_done(self, m); }));
  return rp;
}

using step_promise = caf::typed_response_promise<msg<fbs::StepDone>>;

double ms_or_none(int64_t ns) {
  return ns < 0 ? -1 : static_cast<double>(ns) / 1e6;
}

msg<fbs::StepDone> step_done(worker_pointer self, const msg<fbs::FinishStep>& m,
                             step_outcome outcome) {
  const auto& o = self->state.options;
  if (!m->evaluation())
    publish_values(self, [&](fbs::WorkerStatusT& w) {
      w.step = m->step();
      w.parts = to_message(outcome.parts);
      w.swap = swap_status(self->state.engine->swap_facts());
      w.process_peak_bytes = outcome.process_peak_bytes;
      w.actuation_p50_ms = ms_or_none(outcome.actuation_p50_ns);
      w.actuation_p99_ms = ms_or_none(outcome.actuation_p99_ns);
    });
  return make_msg<fbs::StepDone>(context_of(*self, m.header()), [&](fbs::StepDoneT& d) {
    d.step = m->step();
    d.rank = static_cast<uint32_t>(o.at.rank);
    d.loss_sum = outcome.loss_sum;
    d.target_count = o.at.last() ? static_cast<uint64_t>(o.rows() * o.shape.seq) : 0;
    d.grad_norm = outcome.grad_norm;
    d.parts = to_message(outcome.parts);
    d.digests = std::move(outcome.digests);
    d.recheck = to_message(std::move(outcome.recheck));
    d.process_peak_bytes = outcome.process_peak_bytes;
    d.computed_us = self->state.engine->computed_us();
    d.document_pairs = outcome.document_pairs;
    d.late_clocks = outcome.late_clocks;
    d.clocks_failed = outcome.clocks_failed;
    d.clocks_given_back_to = outcome.clocks_given_back_to;
    d.pauses = outcome.pauses;
  });
}

/// Has the step updated, or evaluated; once more where its updates were dropped.
void finish_by(worker_pointer self, const msg<fbs::FinishStep>& m, step_promise rp) {
  auto& st = self->state;
  auto done = [self, box = st.done, rp, m, build = st.builds](const status& s,
                                                              step_outcome outcome) {
    box->post([self, rp, m, s, build, outcome]() mutable {
      if (!s)
        rp.deliver(to_caf(s.error()));
      else if (!outcome.again)
        rp.deliver(step_done(self, m, std::move(outcome)));
      else if (build != self->state.builds)  // another engine knows nothing of the step
        rp.deliver(not_built());
      else
        finish_by(self, m, rp);
    });
  };
  if (m->evaluation()) return st.engine->finish_evaluation(std::move(done));
  st.engine->update(static_cast<int64_t>(m->step()), m->lr(), std::move(done));
}

caf::result<msg<fbs::StepDone>> finish(worker_pointer self, const msg<fbs::FinishStep>& m) {
  auto& st = self->state;
  if (!st.built) return not_built();
  auto rp = self->make_response_promise<msg<fbs::StepDone>>();
  if (!m->evaluation() && m->digest()) st.engine->digest_weights();
  if (!m->evaluation() && m->held()) st.engine->were_held();
  finish_by(self, m, rp);
  return rp;
}

msg<fbs::Saved> vote_of(worker_pointer self, const message_header& cause, uint64_t step,
                        const io::checkpoint::shard_facts& facts) {
  return make_msg<fbs::Saved>(context_of(*self, cause), [&](fbs::SavedT& out) {
    out.step = step;
    out.rank = facts.rank;
    out.bytes = facts.bytes;
    out.stream_bytes = facts.stream_bytes;
    out.footer_crc32c = facts.footer_crc;
    out.slot_digest = facts.slot_digest;
    for (const auto& c : facts.chunks) {
      auto& told = *out.chunks.emplace_back(std::make_unique<fbs::ChunkShardT>());
      told.chunk = c.chunk;
      told.bytes = c.bytes;
      told.stream_bytes = c.stream_bytes;
      told.slot_bytes = c.slot_bytes;
      told.footer_crc32c = c.footer_crc;
      told.slot_digest = c.slot_digest;
    }
  });
}

/// Of a copy that is ordered: a next head asks for it (CopiesFound).
template <class T>
void note_state(worker_pointer self, const T& order) {
  if (const auto copies = self->state.engines->copies())
    copies->note({self->epoch(), order.step()}, {order.tokens(), order.loss()});
}

caf::result<msg<fbs::Saved>> save(worker_pointer self, const msg<fbs::SaveCheckpoint>& m) {
  if (!self->state.built) return not_built();
  auto rp = self->make_response_promise<msg<fbs::Saved>>();
  auto voted = [self, box = self->state.done, rp,
                m](const result<io::checkpoint::shard_facts>& vote) {
    box->post([self, rp, m, vote]() mutable {
      if (vote)
        rp.deliver(vote_of(self, m.header(), m->step(), *vote));
      else
        rp.deliver(to_caf(vote.error()));
      show_saver(self);
    });
  };
  auto& engine = *self->state.engine;
  if (m->copy()) {
    note_state(self, *m);
    engine.copy(m->step(), text_of(m->directory()), std::move(voted));
  } else {
    engine.save(m->step(), text_of(m->directory()), m->last(), std::move(voted));
  }
  show_saver(self);
  return rp;
}

/// In memory alone.
void copy(worker_pointer self, const msg<fbs::CopyState>& m) {
  if (!self->state.built) return;
  self->state.engine->set_cause(m.header().span, m.header().trace_low);
  note_state(self, *m);
  self->state.engine->copy(m->step(), {}, {});
}

/// What the process holds, whoever of it is asked, and before there is an engine.
msg<fbs::CopiesFound> copies_found(worker_pointer self, const msg<fbs::FindCopies>& m) {
  const auto& st = self->state;
  const auto copies = st.engines->copies();
  return make_msg<fbs::CopiesFound>(context_of(*self, m.header()), [&](fbs::CopiesFoundT& out) {
    out.rank = static_cast<uint32_t>(st.rank);
    if (!copies) return;
    for (const auto& c : copies->held()) {
      if (out.copies.size() == most_copies_told) break;
      auto& told = *out.copies.emplace_back(std::make_unique<fbs::HeldCopyT>());
      told.rank = static_cast<uint32_t>(c.rank);
      told.epoch = static_cast<uint32_t>(c.tag.epoch);
      told.step = c.tag.step;
      told.bytes = c.bytes;
      told.tokens = c.state.tokens;
      told.loss = c.state.loss;
    }
  });
}

caf::result<msg<fbs::Loaded>> load(worker_pointer self, const msg<fbs::LoadCheckpoint>& m) {
  if (!self->state.built) return not_built();
  auto rp = self->make_response_promise<msg<fbs::Loaded>>();
  auto loaded = answer(self, rp, [self, header = m.header()] {
    return make_msg<fbs::Loaded>(context_of(*self, header), [&](auto& l) {
      l.rank = static_cast<uint32_t>(self->state.rank);
      l.takes_files = self->state.engine->takes_files();
    });
  });
  auto& engine = *self->state.engine;
  if (m->copy_epoch() > 0)
    engine.take_back({m->copy_epoch(), m->copy_step()}, m->from_keeper(), std::move(loaded));
  else
    engine.load(text_of(m->directory()), m->optimizer(), std::move(loaded));
  return rp;
}

/// Guards a handler: messages before BuildStage end here.
template <class T, class R>
auto guarded(worker_pointer self, caf::result<msg<R>> (*handler)(worker_pointer, const msg<T>&)) {
  return [self, handler](const msg<T>& m) -> caf::result<msg<R>> {
    if (!self->state.engine && !std::is_same_v<T, fbs::BuildStage>) return not_built();
    if (self->state.engine) self->state.engine->set_cause(m.header().span, m.header().trace_low);
    return handler(self, m);
  };
}

}  // namespace

worker_state::~worker_state() {
  if (done) done->close();
  if (engine) engine->abort();
}

worker_actor::behavior_type worker(worker_pointer self, const spawn_record& record,
                                   std::shared_ptr<engine_maker> engines) {
  auto& st = self->state;
  guard_mailbox(self);
  introduce(self, fmt::format("worker/{}", record.rank), record.epoch);
  note_spawn_record(record);
  st.rank = static_cast<int>(record.rank);
  st.swapper = record.swapper;
  publish(self, "empty", [](fbs::WorkerStatusT&) {});
  st.engines = std::move(engines);
  st.done = std::make_shared<completion_queue>(caf::actor_cast<caf::weak_actor_ptr>(self));
  return {
      status_handler(self),
      guarded(self, build),
      guarded(self, attach),
      guarded(self, open_data_plane),
      guarded(self, connect),
      guarded(self, run_op),
      guarded(self, finish),
      guarded(self, save),
      guarded(self, load),
      [self](caf::update_atom) { self->state.done->drain(); },
      [self](const msg<fbs::CopyState>& m) { copy(self, m); },
      [self](const msg<fbs::FindCopies>& m) { return copies_found(self, m); },
  };
}

}  // namespace troupe::train

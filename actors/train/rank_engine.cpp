// How a rank's streams wait for each other: see the header for the invariants kept here.
#include "actors/train/rank_engine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "actors/base/hardware.hpp"
#include "actors/train/group_members.hpp"
#include "gpu/back_end.hpp"
#include "gpu/model/init.hpp"
#include "io/base/memory_account.hpp"

namespace troupe::train {

namespace {

/// Point-to-point tags: activations even, gradients odd; a stage pair never has two of one tag in
/// flight.
constexpr uint64_t tag_of(pipeline_op kind, int micro_batch) {
  const bool gradient = facts_of(kind).stream >= op_stream::backward_in;
  return 2 * static_cast<uint64_t>(micro_batch) + (gradient ? 1 : 0);
}

}  // namespace

result<std::unique_ptr<rank_engine>> rank_engine::make(const engine_options& options) {
  TROUPE_TRY(device, gpu::open_device(options.device, options.threads));
  return make(options, std::move(device));
}

result<std::unique_ptr<rank_engine>> rank_engine::make(const engine_options& options,
                                                       std::shared_ptr<gpu::device> device) {
  std::unique_ptr<rank_engine> engine(new rank_engine(options));
  TROUPE_CHECK(engine->open(std::move(device)));
  return engine;
}

status rank_engine::open(std::shared_ptr<gpu::device> device) {
  device_ = std::move(device);
  TROUPE_TRY(pinned, device_->pin(&read_, sizeof read_));
  readings_pinned_ = std::move(pinned);
  return make_streams();
}

/// Streams end before what their operations use: these first, then those of the saver and of the
/// swap folder, whose operations are noted by clock_ and failure_.
rank_engine::~rank_engine() {
  abort();
  for (auto& lane : lanes_) lane.reset();
  files_.reset();  // building makes the actuator
  if (actuator_) actuator_->end();
  for (auto* s : {&data_, &compute_}) s->reset();
  copies_.reset();
  saver_.reset();
  spill_.reset();
  swap_.reset();
}

status rank_engine::make_streams() {
  auto open = [&](std::unique_ptr<gpu::stream>& into, std::string name, int threads) -> status {
    TROUPE_TRY(made, device_->make_stream({std::move(name), threads}));
    into = std::move(made);
    return {};
  };
  TROUPE_CHECK(open(compute_, "compute", options_.threads));
  TROUPE_CHECK(open(data_, "data-parallel", 1));
  TROUPE_CHECK(open(files_, "files", 1));
  if (options_.copies && options_.keeper >= 0) {
    TROUPE_TRY(made, rank_copies::make(*device_, options_));
    copies_ = std::move(made);
  }
  if (options_.at.grid.pipeline > 1) {
    constexpr std::array names{"fwd-recv", "fwd-send", "bwd-recv", "bwd-send"};
    static_assert(names.size() == transfer_streams);
    for (size_t i = 0; i < lanes_.size(); ++i) TROUPE_CHECK(open(lanes_[i], names[i], 1));
  }
  return {};
}

void rank_engine::run_blocking(std::function<status()> work, completion done) {
  files_->host_task(std::move(work));
  watch(*files_);
  files_->notify(guarded(std::move(done)));
}

// A stream knows its own failures only (DEV-3), and events complete all the same: what a transfer
// lost must not pass for a result of the compute stream.

void rank_engine::watch(gpu::stream& s) {
  s.notify([this](const status& state) { note_failure(state); });
}

void rank_engine::note_failure(const status& s) {
  if (s) return;
  std::lock_guard lock(failure_mutex_);
  if (failure_) failure_ = s;
}

status rank_engine::failure() const {
  std::lock_guard lock(failure_mutex_);
  return failure_;
}

rank_engine::completion rank_engine::guarded(completion done) const {
  return [this, done = std::move(done)](const status& s) { done(s ? failure() : s); };
}

// -- building and connecting --------------------------------------------------------------------

void rank_engine::build(completion done) {
  run_blocking([this] { return build_now(); }, std::move(done));
}

gpu::saver_options rank_engine::saver_options() {
  gpu::saver_options o;
  o.job = options_.job;
  o.epoch = options_.epoch;
  o.at = options_.at;
  o.folder = options_.checkpoint_folder;
  o.slot_bytes = options_.checkpoint_slot_bytes;
  o.ring_bytes = options_.checkpoint_ring_bytes;
  o.progressed = options_.on_save_progress;
  o.around = [this](gpu::stream& s, int chunk, uint64_t bytes,
                    const std::function<void()>& enqueue) {
    probed(s, {pipeline_op::capture, chunk, bytes}, enqueue);
  };
  return o;
}

status rank_engine::build_now() {
  TROUPE_CHECK(open_actuator());
  limit_memory();
  TROUPE_TRY(made, gpu::stage_model::make(*device_, options_.model, options_.shape));
  if (options_.shape.where.any_on_disk()) TROUPE_CHECK(open_swap(*made));
  if (!options_.shape.spilling().empty() && !spill_)
    return error{errc::bug, "layers spill of a stage that uses no drive"};
  if (!options_.weights_follow)
    TROUPE_CHECK(
        gpu::initialize(made->store(), options_.model, options_.seed, ending_.get_token()));
  TROUPE_TRY(rule, gpu::optimizer::make(made->store(), options_.optimizer));
  TROUPE_TRY(saver, gpu::state_saver::make(made->store(), saver_options()));
  if (options_.at.grid.data > 1) {
    made->store().set_arrival_watch([this](gpu::stream& s, const std::function<void()>& wait) {
      if (&s == compute_.get()) return await(pipeline_op::await_replicas, wait);
      wait();
    });
    const io::memory_holder holder("digests");
    TROUPE_TRY(digests, stream_hash::make(*device_, stream_hash::usual_piece_bytes));
    digests_ = std::move(digests);
  }
  if (options_.recheck_every > 0) {
    const io::memory_holder holder("digests");
    TROUPE_TRY(recheck, layer_recheck::make(*made, options_.threads));
    recheck_ = std::move(recheck);
  }
  slots_.resize(static_cast<size_t>(options_.shape.slots));
  optimizer_ = std::move(rule);
  saver_ = std::move(saver);
  model_ = std::move(made);
  const auto& store = model_->store();
  for (int c = 0; c < store.chunk_count(); ++c)
    own_parameters_ += static_cast<uint64_t>(store.slice(c).part);
  return {};
}

engine_facts rank_engine::facts() const {
  engine_facts out;
  const auto& store = model_->store();
  out.bytes = model_->plan().total();
  out.notes = saver_->facts().flusher.disk.notes;
  if (swap_) {
    const auto of_drive = swap_->facts();
    for (const auto& said : of_drive.notes) out.notes.push_back("swap folder: " + said);
    for (const auto& said : of_drive.warnings) out.warnings.push_back("swap folder: " + said);
  }
  for (int c = 0; c < store.chunk_count(); ++c)
    if (!store.info(c).tied_copy)
      for (const auto& t : store.info(c).tensors) out.parameters += static_cast<uint64_t>(t.count);
  tell_controls(out);
  return out;
}

status rank_engine::attach(const batch_source& from) {
  TROUPE_TRY(memory,
             batch_memory::open(from.path, from.slot_bytes, from.slots, options_.shape.documents));
  batches_.emplace(std::move(memory));
  first_row_ = from.first_row;
  const auto all = batches_->all();
  auto pinned = device_->pin(const_cast<std::byte*>(all.data()), all.size());
  if (pinned) batches_pinned_ = std::move(*pinned);
  return {};
}

result<std::vector<group_offer>> rank_engine::open_groups(const std::string& host) {
  std::vector<group_offer> out;
  const auto patience = options_.group_timeout;
  const auto to_meet = std::min(patience, defaults::group_timeout) /
                       3;  // ENG-13: the run waits for a minute (DataPlaneTable)
  for (auto& g : options_.at.groups(options_.model.tied)) {
    TROUPE_TRY(group,
               gpu::open_group(*device_,
                               {g.name(), g.rank, g.size(), host, patience,
                                g.kind == group_kind::pipeline, to_meet, ending_.get_token()},
                               {options_.shared_devices}));
    out.push_back({g.name(), g.rank, g.size(), group->addresses()});
    pending_.emplace_back(std::move(g), std::move(group));
  }
  if (!copies_) return out;
  TROUPE_TRY(links, copies_->open(host));
  std::move(links.begin(), links.end(), std::back_inserter(out));
  return out;
}

void rank_engine::connect_groups(group_tables tables, completion done) {
  auto connect = [this, tables = std::move(tables)]() -> status {
    for (auto& [which, group] : pending_) {
      const auto table =
          std::find_if(tables.begin(), tables.end(),
                       [name = which.name()](const auto& t) { return t.first == name; });
      if (table == tables.end())
        return error{errc::bad_data, fmt::format("no addresses for group {}", which.name())};
      auto met = group->connect(table->second);
      if (!met) return of_members(which, met.error());
      auto connected = std::move(*met);
      auto& into = which.kind == group_kind::data       ? replicas_
                   : which.kind == group_kind::pipeline ? pipeline_
                                                        : tied_;
      std::lock_guard lock(groups_mutex_);
      into = std::move(connected);
      if (ending_.stop_requested()) into->abort();
    }
    pending_.clear();
    TROUPE_CHECK(compare_places());
    return copies_ ? copies_->connect(tables, ending_.get_token()) : status();
  };
  run_blocking(std::move(connect), std::move(done));
}

// -- one step -----------------------------------------------------------------------------------

double rank_engine::now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

void rank_engine::begin_step(const op_order& order) {
  set_pace(order);
  compute_->stamp([this](double at_ms) { clock_.begin_step(at_ms); });
  forwards_.clear();
  document_pairs_ = 0;
  choose_order();
  slowed_ = order.pace.of_1024 < work_pace::whole;
  model_->reset_loss(*compute_);
}

batch_view rank_engine::rows_of(int micro_batch, int64_t batch_slot) const {
  if (batch_slot < 0) return {};
  const auto batch = batches_->view(batch_slot);
  const int64_t first =
      (first_row_ + micro_batch * options_.shape.micro_batch) * options_.shape.seq;
  auto documents = batch.documents;
  if (documents.first != nullptr) documents = {documents.first + first, documents.end + first};
  return {batch.tokens + first, batch.targets + first, documents};
}

float rank_engine::gradient_scale() const {
  return static_cast<float>(1.0 / static_cast<double>(options_.batch * options_.shape.seq));
}

/// How much an operation does, in its kind's unit.
uint64_t rank_engine::work_of(const engine_probe::operation& op) const {
  switch (facts_of(op.kind).unit) {
    case op_unit::bytes:
      return op.bytes;
    case op_unit::tokens:
      return static_cast<uint64_t>(op.micro_batches * options_.shape.micro_batch *
                                   options_.shape.seq);
    case op_unit::parameters:
      return own_parameters_;
    case op_unit::none:
      return 0;
  }
  return 0;
}

void rank_engine::enqueue(gpu::stream&, pipeline_op, const std::function<void()>& work) {
  work();
}

/// On the operation's own stream.
void rank_engine::probed(engine_probe::operation op, const std::function<void()>& work) {
  op.span = cause_span_;
  op.trace = cause_trace_;
  auto& s = stream_of(op.kind);
  auto n = note_begin(s, op);
  enqueue(s, op.kind, work);
  note_end(s, op, std::move(n));
}

/// Of the saver, on its own thread.
void rank_engine::probed(gpu::stream& s, engine_probe::operation op,
                         const std::function<void()>& work) {
  op.span = cause_span_;
  op.trace = cause_trace_;
  auto n = note_begin(s, op);
  work();
  note_end(s, op, std::move(n));
}

/// Two notes on its stream: how the step's clock and the probe see device and links; the clock by
/// the device's own time, the probe by that of everything else in a trace. The token passes from
/// one note to the other by the stream's order.
std::shared_ptr<rank_engine::note> rank_engine::note_begin(gpu::stream& s,
                                                           const engine_probe::operation& op) {
  auto n = std::make_shared<note>();
  s.stamp([this, op, n](double at_ms) {
    if (probe_ != nullptr) n->token = probe_->begin(op);
    n->begin_ms = now_ms();
    clock_.began(op.kind, at_ms);
    note_clock(op.kind, true);
    if (replan_) replan_->clock().began(op.kind, n->begin_ms);
  });
  return n;
}

void rank_engine::note_end(gpu::stream& s, const engine_probe::operation& op,
                           std::shared_ptr<note> n) {
  s.stamp([this, op, n = std::move(n)](double at_ms) {
    const double end_ms = now_ms();
    clock_.ended(op.kind, at_ms, work_of(op));
    note_clock(op.kind, false);
    if (replan_) replan_->clock().ended(op.kind, end_ms, op.bytes);
    if (probe_ != nullptr) probe_->end(op, n->token, n->begin_ms, end_ms);
  });
}

gpu::stream& rank_engine::stream_of(pipeline_op kind) {
  const auto stream = facts_of(kind).stream;
  if (stream >= first_transfer_stream)
    return *lanes_[static_cast<size_t>(stream) - static_cast<size_t>(first_transfer_stream)];
  return stream == op_stream::data_parallel ? *data_
         : stream == op_stream::files       ? *files_
                                            : *compute_;
}

/// Whom a transfer is with: in the pipeline's group a stage's number is its rank.
int rank_engine::peer_of(pipeline_op kind) const {
  const auto& at = options_.at;
  const auto rank = facts_of(kind).with == op_partner::previous ? at.previous() : at.next();
  return at.grid.place_of(rank.value()).pipeline;
}

void rank_engine::run(const op_order& order, completion done) {
  switch (order.kind) {
    case pipeline_op::begin:
      return begin_step(order);
    case pipeline_op::recheck:
      return recheck(order);
    case pipeline_op::receive_activation:
    case pipeline_op::receive_gradient:
      return receive(order);
    case pipeline_op::forward:
      return forward(order, std::move(done));
    case pipeline_op::backward:
      return backward(order, std::move(done));
    case pipeline_op::evaluate:
      return evaluate(order, std::move(done));
    default:
      return;  // nobody orders what the engine does by itself
  }
}

/// ENG-10. In the slot that the step needs last: what comes for the first need not wait.
void rank_engine::recheck(const op_order& o) {
  if (!recheck_) return;
  const int slot = static_cast<int>(options_.shape.slots) - 1;
  auto& events = slots_[static_cast<size_t>(slot)];
  compute_->wait(events.output_sent);
  compute_->wait(events.input_grad_sent);
  const bool twice = health::computes_twice(options_.at.grid.data);
  const auto number = o.step / static_cast<uint64_t>(options_.recheck_every);
  probed({pipeline_op::recheck, static_cast<int64_t>(o.step)},
         [&] { recheck_->enqueue(*compute_, slot, number, twice, recheck_spoiler()); });
  events.freed = compute_->record();
}

void rank_engine::receive(const op_order& o) {
  auto& events = slots_[static_cast<size_t>(o.slot)];
  const bool activation = o.kind == pipeline_op::receive_activation;
  auto& in = stream_of(o.kind);
  in.wait(events.freed);
  void* into = activation ? model_->input(o.slot) : model_->output_grad(o.slot);
  probed({o.kind, o.micro_batch, model_->boundary_bytes()}, [&] {
    pipeline_->receive(in, into, model_->boundary_bytes(), peer_of(o.kind),
                       tag_of(o.kind, o.micro_batch));
  });
  watch(in);
  (activation ? events.activation_received : events.gradient_received) = in.record();
}

void rank_engine::send(pipeline_op kind, const void* data, int micro_batch, gpu::event_ptr& sent) {
  auto& out = stream_of(kind);
  out.wait(compute_->record());
  probed({kind, micro_batch, model_->boundary_bytes()}, [&] {
    pipeline_->send(out, data, model_->boundary_bytes(), peer_of(kind), tag_of(kind, micro_batch));
  });
  watch(out);
  sent = out.record();
}

/// The rows of an order's micro-batches, and the slots that they use.
std::vector<gpu::stage_model::micro_batch> rank_engine::batches_of(const op_order& o) const {
  std::vector<gpu::stage_model::micro_batch> out;
  for (int i = 0; i < o.micro_batches; ++i) {
    const auto rows = rows_of(o.micro_batch + i, o.batch_slot);
    out.push_back({o.slot + i, rows.tokens, rows.targets, rows.documents});
  }
  return out;
}

void rank_engine::forward(const op_order& o, completion done) {
  auto& events = slots_[static_cast<size_t>(o.slot)];
  compute_->wait(events.activation_received);
  compute_->wait(events.output_sent);  // ENG-3
  const auto all = batches_of(o);
  if (updates_under_backward()) forwards_.push_back(o);
  if (options_.at.last()) document_pairs_ += pairs_of(all);
  probed({pipeline_op::forward, o.micro_batch, 0, o.micro_batches},
         [&] { model_->forward(*compute_, all, gradient_scale()); });
  compute_->notify(guarded(std::move(done)));
  if (!options_.at.last())
    send(pipeline_op::send_activation, model_->output(o.slot), o.micro_batch, events.output_sent);
}

void rank_engine::run_backward(const op_order& o, const gpu::stage_model::chunk_done& each) {
  const auto all = batches_of(o);
  gpu::stage_model::weights_done leaves;
  if (o.digest && digests_) leaves = [this](int chunk) { digest_leaving(chunk); };
  probed({pipeline_op::backward, o.micro_batch, 0, o.micro_batches},
         [&] { model_->backward(*compute_, all, each, leaves); });
}

void rank_engine::backward(const op_order& o, completion done) {
  auto& events = slots_[static_cast<size_t>(o.slot)];
  compute_->wait(events.gradient_received);
  compute_->wait(events.input_grad_sent);  // ENG-3
  if (o.last) last_backward_ = o;
  // Without a pass for the norm the only one is that of the updates, which need to know the step.
  const bool later = o.last && updates_under_backward() && order_ != gpu::update_order::twice;
  if (!later) run_backward(o, when_made(o));
  compute_->notify(guarded(std::move(done)));
  events.freed = compute_->record();
  if (!options_.at.first())
    send(pipeline_op::send_gradient, model_->input_grad(o.slot), o.micro_batch,
         events.input_grad_sent);
}

/// The weights that backward needs next need not wait for this sum, which is behind it in the data
/// stream.
void rank_engine::sum_over_replicas(int chunk) {
  if (swap_ && chunk > 0) swap_->bring_weights(chunk - 1);
  data_->wait(compute_->record());
  sum_slices(chunk);
}

/// On the data stream: to each replica its own.
void rank_engine::sum_slices(int chunk) {
  auto& store = model_->store();
  const auto& own = store.slice(chunk);
  float* grad = store.grad(chunk);
  probed({pipeline_op::reduce_scatter, chunk, store.bytes(chunk, gpu::part::grad)},
         [&] { replicas_->reduce_scatter_sum(*data_, grad, own.part); });
  const auto zero = [&](int64_t from, int64_t to) {  // ENG-2
    if (from < to) data_->zero(grad + from, static_cast<size_t>(to - from) * sizeof(float));
  };
  zero(0, own.first);
  zero(own.first + own.part, own.whole);
  watch(*data_);
}

void rank_engine::sum_tied_table() {
  if (!tied_ || model_->tied_chunk() < 0) return;
  data_->wait(compute_->record());
  auto& store = model_->store();
  const int chunk = model_->tied_chunk();
  const auto count = store.slice(chunk).part;
  probed({pipeline_op::all_reduce_tied, chunk, static_cast<size_t>(count) * sizeof(float)},
         [&] { tied_->all_reduce_sum(*data_, store.grad_slice(chunk), count); });
  watch(*data_);
}

/// The norm of all ranks: first of the stage's replicas, then of the stages.
void rank_engine::sum_norm(int64_t step) {
  if (replicas_ || pipeline_) {
    data_->wait(compute_->record());
    double* norm = optimizer_->norm_squared();
    if (replicas_)
      probed({pipeline_op::all_reduce, step, sizeof *norm},
             [&] { replicas_->all_reduce_sum(*data_, norm, 1); });
    if (pipeline_)
      probed({pipeline_op::all_reduce_stages, step, sizeof *norm},
             [&] { pipeline_->all_reduce_sum(*data_, norm, 1); });
    watch(*data_);
    compute_->wait(data_->record());
  }
  compute_->copy(&read_.norm_squared, optimizer_->norm_squared(), sizeof(double));
}

/// The factor that this norm makes; 1 where nothing is clipped, whatever it is.
void rank_engine::clip() {
  optimizer_->clip(*compute_);
  compute_->copy(&read_.clip_factor, optimizer_->clip_factor(), sizeof(float));
}

/// Where the update's rule needs norms of whole tensors: each replica measures its slices.
void rank_engine::share_norms(int64_t step, float lr) {
  const auto norms = optimizer_->shared_norms();
  if (norms.part_bytes == 0) return;
  probed({pipeline_op::measure, step}, [&] {
    for (int c = 0; c < model_->store().chunk_count(); ++c) {
      if (model_->store().state_on_disk(c)) {
        swap_->measure(*compute_, *optimizer_, c, lr, step);
        continue;
      }
      await_copies(c);
      optimizer_->measure(*compute_, c, lr, step);
    }
  });
  data_->wait(compute_->record());
  probed({pipeline_op::all_gather_norms, step, norms.part_bytes},
         [&] { replicas_->all_gather(*data_, norms.data, norms.part_bytes); });
  watch(*data_);
  compute_->wait(data_->record());
}

/// ENG-7. The slice's new weights are what the compute stream has come to; those of chunks on a
/// drive come when they are fetched (SWP-13).
void rank_engine::gather_weights(int chunk) {
  auto& store = model_->store();
  if (!replicas_ || store.state_on_disk(chunk)) return;
  data_->wait(compute_->record());
  gather_slices(chunk);
  store.weights_arrive(chunk, data_->record());
}

/// On the data stream: to each replica the others'.
void rank_engine::gather_slices(int chunk) {
  auto& store = model_->store();
  const size_t bytes = store.bytes(chunk, gpu::part::weight);
  const auto replicas = static_cast<size_t>(options_.at.grid.data);
  probed({pipeline_op::all_gather, chunk, bytes},
         [&] { replicas_->all_gather(*data_, store.weight(chunk), bytes / replicas); });
  watch(*data_);
}

/// ENG-6, measured where there is anything to wait for.
void rank_engine::await_copies(int chunk) {
  auto& store = model_->store();
  if (!store.has_readers(chunk)) return;
  await(pipeline_op::await_copies, [&] { store.await_readers(*compute_, chunk); });
}

void rank_engine::await(pipeline_op kind, const std::function<void()>& wait, int chunk) {
  compute_->stamp([this, kind, chunk](double at_ms) {
    if (probe_ != nullptr) probe_->waits(kind, chunk, chunk >= 0 ? swap_->facts().under_way : 0);
    awaited_ms_ = at_ms;
  });
  wait();
  compute_->stamp([this, kind](double at_ms) {
    clock_.held_up(kind, at_ms - awaited_ms_);
    if (probe_ != nullptr) probe_->goes_on();
  });
}

/// RCP-1: the step ends behind the copy of the one before.
void rank_engine::await_shipped() {
  if (!copies_ || !copies_->shipped() || copies_->shipped()->done()) return;
  await(pipeline_op::await_copies, [&] { compute_->wait(copies_->shipped()); });
}

void rank_engine::update_chunk(int chunk, float lr, int64_t step, gpu::counts when) {
  if (model_->store().state_on_disk(chunk)) {
    update_on_drive(chunk, lr, step, when);
  } else {
    await_copies(chunk);
    optimizer_->step(*compute_, chunk, lr, step);
  }
  gather_weights(chunk);
}

void rank_engine::update(int64_t step, double lr, outcome_completion done) {
  auto& store = model_->store();
  if (!std::exchange(updates_made_, true)) saves_in_step_ = std::exchange(saves_made_, false);
  if (updates_under_backward()) {
    update_under_backward(static_cast<float>(lr), step);
    share_moves(step);
    return report(std::move(done));
  }
  sum_tied_table();  // ENG-4
  compute_->wait(data_->record());
  probed({pipeline_op::norm, step}, [&] { norm_behind_backward(); });
  sum_norm(step);
  clip();
  share_norms(step, static_cast<float>(lr));
  probed({pipeline_op::update, step}, [&] {
    for (int c = 0; c < store.chunk_count(); ++c) update_chunk(c, static_cast<float>(lr), step);
  });
  await_shipped();
  share_moves(step);
  report(std::move(done));
}

void rank_engine::evaluate(const op_order& o, completion done) {
  auto& events = slots_[static_cast<size_t>(o.slot)];
  compute_->wait(events.activation_received);
  compute_->wait(events.output_sent);
  const auto all = batches_of(o);
  probed({pipeline_op::evaluate, o.micro_batch, 0, o.micro_batches},
         [&] { model_->evaluate(*compute_, all); });
  compute_->notify(guarded(std::move(done)));
  events.freed = compute_->record();
  if (!options_.at.last())
    send(pipeline_op::send_activation, model_->output(o.slot), o.micro_batch, events.output_sent);
}

void rank_engine::finish_evaluation(outcome_completion done) {
  read_.norm_squared = 0;
  report(std::move(done));
}

/// Reads the loss back and hands everything over once the compute stream is there.
void rank_engine::report(outcome_completion done) {
  compute_->copy(&read_.loss, model_->loss_sum(), sizeof(double));
  const bool may_be_dropped = order_ == gpu::update_order::speculate && updates_ == 1;
  auto digested = std::exchange(digested_, {});
  if (may_be_dropped) digested_before_ = digested;  // told with the passes that are made again
  compute_->notify([this, may_be_dropped, pairs = document_pairs_, digested = std::move(digested),
                    done = std::move(done)](const status& s) {
    step_outcome outcome;
    outcome.again = s && may_be_dropped && read_.clip_factor != 1;
    if (outcome.again) return done(failure(), std::move(outcome));
    passes_.over = now_ms();
    if (replan_ && !replicas_) moved_ = replan_->clock().since(passes_.over);
    outcome.loss_sum = options_.at.last() ? read_.loss : 0;
    outcome.grad_norm = std::sqrt(read_.norm_squared);
    outcome.parts = clock_.take();
    if (digests_) outcome.digests = digests_of(digested);
    if (recheck_) outcome.recheck = recheck_->take();
    outcome.process_peak_bytes = cluster::peak_memory();
    outcome.document_pairs = pairs;
    tell_clocks(outcome);
    done(s ? failure() : s, std::move(outcome));
  });
}

/// ENG-9. A group that is being connected hears of it by `ending_`.
void rank_engine::abort() noexcept {
  ending_.request_stop();
  if (copies_) copies_->abort();
  std::lock_guard lock(groups_mutex_);
  for (auto* group : {replicas_.get(), pipeline_.get(), tied_.get()})
    if (group) group->abort();
}

}  // namespace troupe::train

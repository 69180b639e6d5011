// What an engine does otherwise where not all of its stage is in memory (ENG-11).
#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include "actors/train/drive_failure.hpp"
#include "actors/train/rank_engine.hpp"
#include "actors/train/swap_folder.hpp"
#include "gpu/back_end.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/base/memory_account.hpp"
#include "io/checkpoint/retention.hpp"

namespace troupe::train {

status rank_engine::open_swap(gpu::stage_model& model) {
  const auto& opened = options_.swap;
  if (opened.places.empty()) return error{errc::bug, "nobody has opened swap folders for the rank"};
  if (options_.optimizer.kind == gpu::optimizer_step_args::rule::lamb &&
      options_.optimizer.norm_elements != options_.shape.where.group_elements)  // OP-4
    return error{errc::bug, "LAMB's norms are of other parts than the groups of a swap file"};
  gpu::swap_options o;
  for (const auto& place : opened.places) {
    o.places.push_back({place.files, place.links});
    links_ = links_ || place.links;
  }
  o.verify = options_.swap_verify;
  o.io = swap_io_options();
  o.job = options_.job;
  o.old_files = options_.swap_old_files;
  o.files_later = opened.consumes;
  o.failed = [this](const status& s) { note_failure(s ? s : told_of_drive(s.error())); };
  o.patience = options_.swap_patience;
  o.ending = ending_.get_token();
  o.notice = options_.on_notice;
  o.waits = [this] { show_waiting(pipeline_op::write_chunk); };
  o.around = [this](gpu::stream& s, gpu::swap_op kind, int chunk, uint64_t bytes,
                    const std::function<void()>& enqueue) {
    constexpr std::array kinds{pipeline_op::read_weights, pipeline_op::read_state,
                               pipeline_op::update_chunk, pipeline_op::write_chunk};
    const auto op = kinds[static_cast<size_t>(kind)];
    probed(s, {op, chunk, bytes}, [&] { this->enqueue(s, op, enqueue); });
  };
  o.around_wait = [this](gpu::stream& s, int chunk, const std::function<void()>& wait) {
    if (&s == compute_.get())
      await(pipeline_op::await_weights, wait, chunk);
    else
      wait();
  };
  if (options_.at.grid.data > 1) {
    o.gathering = data_.get();
    o.gather = [this](int chunk) { gather_slices(chunk); };
  }
  TROUPE_TRY(made, gpu::swapper::make(model.store(), options_.shape.where, std::move(o)));
  swap_ = std::move(made);
  model.store().set_mover(swap_.get());
  if (options_.at.grid.data > 1 && may_speculate()) TROUPE_CHECK(open_exchange());
  return options_.shape.spilling().empty() ? status() : open_spill(model);
}

/// Looking for room is an operation that ends: who does that is not stuck.
void rank_engine::show_waiting(pipeline_op kind) {
  if (probe_ == nullptr) return;
  const engine_probe::operation op{kind, -1};
  const double now = now_ms();
  probe_->end(op, probe_->begin(op), now, now);
}

/// ENG-8. Blocks until all have come.
status rank_engine::compare_places() {
  if (!replicas_ || options_.swap_dirs.empty()) return {};
  const auto& where = options_.shape.where;
  std::vector<int32_t> places{where.gradients_on_disk ? 1 : 0, where.derives_weights ? 1 : 0,
                              where.speculates ? 1 : 0};
  for (const auto& c : where.chunks)
    places.insert(places.end(), {c.state_on_disk, c.weight_frame, c.grad_frame});
  const auto own = XXH64(places.data(), places.size() * sizeof(int32_t), 0);
  std::vector<uint64_t> all(static_cast<size_t>(replicas_->size()), own);
  const size_t bytes = all.size() * sizeof own;
  TROUPE_TRY(memory, device_->allocate(bytes));
  data_->copy(memory.data(), all.data(), bytes);
  replicas_->all_gather(*data_, memory.data(), sizeof own);
  data_->copy(all.data(), memory.data(), bytes);
  TROUPE_CHECK(data_->synchronize());
  const bool same = std::all_of(all.begin(), all.end(), [own](uint64_t of) { return of == own; });
  return same ? status() : replicas_differ();
}

/// Beside the chunks of each folder; a write that fails waits for room as theirs do.
status rank_engine::open_spill(gpu::stage_model& model) {
  const auto chunk_of = [&model](int layer) { return model.memory_of(0, layer).chunk; };
  gpu::spill_options o;
  for (const auto& place : options_.swap.places) o.files.push_back(place.files / "activations");
  o.verify = options_.swap_verify;
  o.wait = swap_->wait_for_room();
  o.wait.waits = [this] { show_waiting(pipeline_op::write_activation); };
  o.failed = [this](const status& s) { note_failure(s ? s : told_of_drive(s.error())); };
  o.around = [this, chunk_of](gpu::stream& s, gpu::spill_act kind, int layer, uint64_t bytes,
                              const std::function<void()>& enqueue) {
    const auto op = kind == gpu::spill_act::write ? pipeline_op::write_activation
                                                  : pipeline_op::read_activation;
    probed(s, {op, chunk_of(layer), bytes}, [&] { this->enqueue(s, op, enqueue); });
  };
  o.around_wait = [this, chunk_of](gpu::stream& s, int layer, const std::function<void()>& wait) {
    if (&s == compute_.get())
      await(pipeline_op::await_activations, wait, chunk_of(layer));
    else
      wait();
  };
  TROUPE_TRY(made, gpu::spiller::make(*device_, model, swap_->io(), std::move(o)));
  spill_ = std::move(made);
  model.set_activation_mover(spill_.get());
  const bool alone = options_.at.grid.data == 1;
  if (!alone || tries_duplex()) replan_ = spill_replan::make(options_);
  return alone || !replan_ || shared_moves_.data() != nullptr ? status() : open_exchange();
}

/// Through which replicas tell each other of their steps.
status rank_engine::open_exchange() {
  static_assert(sizeof moved_ >= sizeof halves_);
  TROUPE_TRY(moves_pinned, device_->pin(&moved_, sizeof moved_));
  moved_pinned_ = std::move(moves_pinned);
  TROUPE_TRY(pinned, device_->pin(&halves_, sizeof halves_));
  halves_pinned_ = std::move(pinned);
  TROUPE_TRY(memory, device_->allocate(sizeof moved_));
  shared_moves_ = std::move(memory);
  return {};
}

/// Of the process and, on a GPU, of that: what is allocated from now on is refused beyond it.
void rank_engine::limit_memory() {
  if (options_.process_bytes > 0) budget_ = io::process_memory().limit_to(options_.process_bytes);
  if (options_.device_bytes > 0 && !device_->host_accessible())
    device_budget_ = gpu::memory_account_of(options_.device).limit_to(options_.device_bytes);
}

std::optional<swap_facts> rank_engine::swap_facts() const {
  if (!swap_) return std::nullopt;
  train::swap_facts out;
  const auto& where = options_.shape.where;
  const auto plan = gpu::plan_stage(options_.model, options_.shape);
  for (const auto& c : where.chunks) {
    out.state_chunks += c.state_on_disk ? 1 : 0;
    out.weight_chunks += c.weight_frame >= 0 ? 1 : 0;
  }
  out.disk_bytes = plan.on_disk;
  out.memory_bytes = plan.total();
  out.order = order_;
  out.redone_steps = redone_;
  out.recomputed_layers = replan_ ? replan_->again() : 0;
  out.spilled_layers = static_cast<int>(options_.shape.spilling().size()) - out.recomputed_layers;
  const auto taken = saved_by_links_ ? swap_->taken() : gpu::swapper::taken_files{};
  out.linked_chunks = taken.linked;
  out.cloned_chunks = taken.cloned;
  out.copied_chunks = copied_chunks_;
  const auto moved = swap_->facts();
  out.read_bytes = moved.read_bytes;
  out.written_bytes = moved.written_bytes;
  out.memory = io::process_memory().held();
  if (device_->host_accessible()) return out;
  out.device_memory = gpu::memory_account_of(options_.device).held();
  out.device = options_.device;
  return out;
}

namespace {

/// One form for each folder, without asking the file system.
std::filesystem::path plain(const std::filesystem::path& folder) {
  return std::filesystem::absolute(folder / "").lexically_normal();
}

/// Two votes that become one: of what the saver copies, and of what is linked.
struct joint_vote {
  using vote = result<io::checkpoint::shard_facts>;
  using links = result<std::vector<io::checkpoint::chunk_shard>>;

  explicit joint_vote(gpu::state_saver::completion done) : done_(std::move(done)) {}

  void take(std::optional<vote> own, std::optional<links> chunks) {
    std::unique_lock lock(mutex_);
    if (own) own_ = std::move(own);
    if (chunks) chunks_ = std::move(chunks);
    if (!own_ || !chunks_) return;
    lock.unlock();  // nobody comes any more
    if (!*own_ || !*chunks_) return done_(*own_ ? chunks_->error() : own_->error());
    (*own_)->chunks = std::move(**chunks_);
    done_(*own_);
  }

 private:
  std::mutex mutex_;
  std::optional<vote> own_;
  std::optional<links> chunks_;
  gpu::state_saver::completion done_;
};

}  // namespace

/// ENG-12
bool rank_engine::links_into(const std::filesystem::path& partial) const {
  return links_ && plain(partial.parent_path()) == plain(options_.checkpoint_folder);
}

/// Notes, of a checkpoint that has this rank's vote, how its chunks came there. A tied table's copy
/// is of none.
gpu::state_saver::completion rank_engine::noting(const std::vector<bool>& linked,
                                                 gpu::state_saver::completion done) {
  const auto& store = model_->store();
  uint32_t copied = 0;
  for (int c = 0; c < store.chunk_count(); ++c) {
    const auto i = static_cast<size_t>(c);
    copied += !store.info(c).tied_copy && (i >= linked.size() || !linked[i]) ? 1 : 0;
  }
  return [this, copied, by_links = !linked.empty(), done = std::move(done)](const auto& vote) {
    if (vote) {
      copied_chunks_ = copied;
      saved_by_links_ = by_links;
    }
    done(vote);
  };
}

void rank_engine::save_by_links(uint64_t step, const std::filesystem::path& partial, bool last,
                                gpu::state_saver::completion done) {
  gpu::keep_order order;
  order.partial = partial;
  order.head = saver_->head_of(step);
  order.rank = static_cast<uint32_t>(options_.at.rank);
  order.last = last;
  order.chunks = swap_->linked();
  auto both = std::make_shared<joint_vote>(noting(order.chunks, std::move(done)));
  auto taken = order.chunks;
  swap_->keep(std::move(order),
              [both](const joint_vote::links& chunks) { both->take(std::nullopt, chunks); });
  // Behind: links wait for nobody, and would wait for what is copied.
  saver_->save_rest(step, partial, std::move(taken), compute_->record(),
                    [both](const joint_vote::vote& own) { both->take(own, std::nullopt); });
}

/// Shards of chunks as this rank would have written them; the weights are made of them (publish).
gpu::chunk_taker rank_engine::taker(const std::filesystem::path& folder,
                                    const io::checkpoint::reader& from, gpu::restored what) {
  if (!swap_ || what != gpu::restored::everything) return {};
  return [this, folder, &from](int chunk) {
    const auto name = io::checkpoint::shard_name(static_cast<uint32_t>(options_.at.rank),
                                                 static_cast<uint32_t>(chunk));
    for (const auto& file : from.content().files)
      if (file.name == name) return swap_->adopt(chunk, folder / name, file, ending_.get_token());
    return false;
  };
}

/// What could not be read for want of room, where the checkpoint's files were to become the state;
/// and whether they have.
status rank_engine::judge_restored(const std::string& folder, const status& restored) {
  const bool full = !restored && restored.error().kind == "ENOSPC";
  if (full && options_.swap.consumes)
    return io::checkpoint::not_given_up(folder, "its files are not as this job would lay them out");
  if (!restored || !swap_) return restored;
  TROUPE_TRY(takes, swap_->awaits_checkpoint());
  takes_files_ = takes;
  return {};
}

/// What the steps so far say of the next one. Ranks that share a drive or wait for each other would
/// each measure what the others try, so several try nothing.
void rank_engine::judge_step() {
  if (!std::exchange(updates_made_, false)) return;
  const auto order = order_.load();
  const bool tries = tries_duplex() && duplex_.tries();
  const bool otherwise = std::exchange(timed_order_, order) != order;
  if (otherwise) duplex_.changed();
  const bool redone = std::exchange(timed_redone_, redone_.load()) != redone_;
  const double took_ms = passes_.over - passes_.begun;
  const bool tells = !redone && !saves_in_step_ && took_ms > 0;
  if (tries_duplex()) choose_duplex(tells ? std::optional(took_ms / 1000) : std::nullopt);
  if (!replicas_) moved_.untold = tells && !tries && !otherwise && !tells_nothing() ? 0 : 1;
  choose_spilling();
}

/// Whether the step's time is not the drive's alone, whatever the steps before were. Replicas see
/// it each by itself (SRP-4).
bool rank_engine::tells_nothing() const {
  const bool redone = order_ == gpu::update_order::speculate && updates_ > 1;
  const bool otherwise = replicas_ && may_speculate() && timed_order_ != order_;
  return slowed_ || saves_in_step_ || order_ != planned_order() || redone || otherwise;
}

gpu::update_order rank_engine::planned_order() const {
  return gpu::update_order_of(options_.shape.where, updates_wait(options_));
}

/// Whether steps are made in one of two ways, by what those before have shown.
bool rank_engine::may_speculate() const {
  return planned_order() == gpu::update_order::speculate &&
         options_.swap_clip == gpu::clip_way::automatic;
}

/// Whether the drive reads and writes at once in this step, by what the one before took, if that
/// tells anything.
void rank_engine::choose_duplex(std::optional<double> took_s) {
  duplex_.made(took_s);
  swap_->io()->set_mixes(duplex_.mixes());
  if (const auto found = duplex_.decided())
    spdlog::info(
        "rank {}: a step takes {:.3g} s where its drive reads and writes at once, {:.3g} s in "
        "turn: it goes on {}",
        options_.at.rank, found->mixed, found->turns, duplex_.mixes() ? "at once" : "in turn");
}

/// Which layers spill in this step: in the ones before it the drive did what it does in all.
void rank_engine::choose_spilling() {
  if (!replan_) return;
  if (moved_.untold == 0) replan_->mixes(duplex_.mixes());
  const auto news = replan_->stepped(moved_);
  if (!news) return;
  model_->set_spills_from(replan_->spills_from());
  if (options_.on_notice && options_.at.place().data == 0) options_.on_notice(*news);
}

/// Of replicas: what all of their drives did in the step, so that they choose alike. It is the last
/// that they exchange in it.
void rank_engine::share_moves(int64_t step) {
  using moves = gpu::step_moves;
  static_assert(std::is_trivially_copyable_v<moves> && alignof(moves) == alignof(double));
  constexpr int64_t values = sizeof(moves) / sizeof(double);
  if (!replan_ || !replicas_) return;
  compute_->host_task([this, untold = tells_nothing() ? 1.0 : 0.0]() -> status {
    moved_ = replan_->clock().since(now_ms());
    moved_.untold = untold;
    return {};
  });
  compute_->copy(shared_moves_.data(), &moved_, sizeof moved_);
  data_->wait(compute_->record());
  probed({pipeline_op::all_reduce_moves, step, sizeof moved_},
         [&] { replicas_->all_reduce_sum(*data_, shared_moves_.as<double>(), values); });
  watch(*data_);
  compute_->wait(data_->record());
  compute_->copy(&moved_, shared_moves_.data(), sizeof moved_);
  compute_->host_task([this, ranks = replicas_->size()]() -> status {
    moved_.settle_sum(ranks);
    return {};
  });
}

/// CLP-4. Of replicas that may speculate: how long both halves of the step took all of them. Each
/// by itself would choose by a time of its own, and they would not meet for the same exchanges.
void rank_engine::share_times(int64_t step) {
  static_assert(sizeof halves_ == 2 * sizeof(double));
  if (!replicas_ || !may_speculate()) return;
  compute_->host_task([this]() -> status {
    halves_ = {passes_.norm_known - passes_.begun, now_ms() - passes_.norm_known};
    return {};
  });
  compute_->copy(shared_moves_.data(), &halves_, sizeof halves_);
  data_->wait(compute_->record());
  probed({pipeline_op::all_reduce_moves, step, sizeof halves_},
         [&] { replicas_->all_reduce_sum(*data_, shared_moves_.as<double>(), 2); });
  watch(*data_);
  compute_->wait(data_->record());
  compute_->copy(&halves_, shared_moves_.data(), sizeof halves_);
}

/// What the step before says of clipping.
void rank_engine::judge_clipping() {
  if (std::exchange(updates_, 0) == 0) return;
  const bool clipped = read_.clip_factor != 1;
  if (order_ != gpu::update_order::twice) return clipping_.speculated(clipped);
  if (!replicas_) halves_ = {passes_.norm_known - passes_.begun, passes_.over - passes_.norm_known};
  clipping_.made_twice(halves_.norm_s, halves_.update_s, clipped);
}

/// How this step's chunks are updated, by what the ones before it have shown.
void rank_engine::choose_order() {
  if (!swap_) return;
  judge_step();
  judge_clipping();
  const bool waits = may_speculate() && !clipping_.speculates();
  order_ = waits ? gpu::update_order::twice : planned_order();
  compute_->notify([this](const status&) {
    passes_.begun = now_ms();
    if (replan_) replan_->clock().restart(passes_.begun);
  });
}

/// Under backward the token table is the last, and the next forward pass begins with some of its
/// rows (SWP-14). Behind it forward needs the others' updates as soon.
void rank_engine::update_on_drive(int chunk, float lr, int64_t step, gpu::counts when) {
  const bool last = updates_under_backward() && chunk == model_->table_chunk();
  if (last && when == gpu::counts::at_once)
    swap_->update_for_rows(*compute_, *optimizer_, chunk, lr, step);
  else
    swap_->update(*compute_, *optimizer_, chunk, lr, step, when);
}

/// ENG-11.
void rank_engine::update_under_backward(float lr, int64_t step) {
  ++updates_;
  switch (order_) {
    case gpu::update_order::speculate:
      if (updates_ == 1) return speculate(lr, step);
      ++redone_;
      digested_ = std::exchange(digested_before_, {});
      swap_->were_dropped();
      return update_with_known_norm(lr, step);
    case gpu::update_order::twice:
      total_norm(step);
      clip();
      update_with_known_norm(lr, step);
      return share_times(step);
    default:
      clip();
      update_as_made(*last_backward_, true, lr, step);
      total_norm(step);
      update_in_memory(lr, step);
  }
}

/// Has a chunk's gradient whole, and its norm noted, on the stream that makes it so. Of replicas
/// that is the one of their exchanges: the compute stream goes on with the next chunk, whose
/// weights come ahead of this sum.
void rank_engine::make_whole(int chunk, bool notes_norm) {
  if (!replicas_) {
    if (notes_norm) optimizer_->note_norm(*compute_, chunk);
    return;
  }
  if (chunk > 0) swap_->bring_weights(chunk - 1);
  swap_->sum_gradient(*compute_, chunk, [&] {
    sum_slices(chunk);
    if (notes_norm) optimizer_->note_norm(*data_, chunk);
  });
}

/// What is done with a chunk's gradient as soon as the step's last backward has made it.
gpu::stage_model::chunk_done rank_engine::when_gradient_is_whole() {
  if (updates_under_backward())
    return [this](int chunk) {  // ENG-11: the first of two passes
      make_whole(chunk, true);
      swap_->drop_gradient(*compute_, chunk);
    };
  if (replicas_) return [this](int chunk) { sum_over_replicas(chunk); };  // ENG-2
  return {};
}

/// The same of a backward pass that may not be the last: gradients that are on a drive in between
/// go there (SWP-17), of the last one with their norm noted: they leave memory.
gpu::stage_model::chunk_done rank_engine::when_made(const op_order& o) {
  auto when_whole = o.last ? when_gradient_is_whole() : gpu::stage_model::chunk_done{};
  if (!options_.shape.where.gradients_on_disk) return when_whole;
  return [this, when_whole = std::move(when_whole), last = o.last](int chunk) {
    if (options_.shape.where.gradient_on_disk(chunk)) {
      if (last) make_whole(chunk, true);
      swap_->store_gradient(*compute_, chunk, last);
    } else if (when_whole) {
      when_whole(chunk);
    }
  };
}

/// The norm of this rank's gradients, some of which may be on a drive by now.
void rank_engine::norm_behind_backward() {
  const auto& where = options_.shape.where;
  const auto each = [&](const auto& what) {
    for (int c = 0; c < model_->store().chunk_count(); ++c)
      if (!where.gradient_on_disk(c)) what(c);
  };
  if (where.gradients_on_disk) {
    each([&](int c) { optimizer_->note_norm(*compute_, c); });
    return optimizer_->total_norm(*compute_);
  }
  optimizer_->begin(*compute_);
  each([&](int c) { optimizer_->norm(*compute_, c); });
}

/// Makes the last backward of a step, and updates each chunk as soon as its gradient is whole.
void rank_engine::update_as_made(const op_order& order, bool notes_norm, float lr, int64_t step,
                                 gpu::counts when) {
  run_backward(order, [&](int chunk) {
    make_whole(chunk, notes_norm);
    // What is in memory the compute stream updates, which is not to wait for the sum.
    const bool later = replicas_ && !model_->store().state_on_disk(chunk);
    if (later) return;
    share_norms_of(chunk, lr, step, when);
    update_chunk(chunk, lr, step, when);
  });
}

/// Where replicas have norms of whole tensors together: those of a chunk whose gradient is summed,
/// before its update.
void rank_engine::share_norms_of(int chunk, float lr, int64_t step, gpu::counts when) {
  if (optimizer_->shared_norms().part_bytes == 0) return;
  if (model_->store().state_on_disk(chunk))
    return swap_->share_norms(
        *compute_, *optimizer_, chunk, lr, step, [this, chunk] { gather_norms(chunk); }, when);
  probed({pipeline_op::measure, step}, [&] {
    await_copies(chunk);
    optimizer_->measure(*compute_, chunk, lr, step);
  });
  data_->wait(compute_->record());
  gather_norms(chunk);
}

/// On the data stream.
void rank_engine::gather_norms(int chunk) {
  const auto of_all = [this, chunk](const gpu::optimizer::gathered& norms) {
    probed({pipeline_op::all_gather_norms, chunk, norms.part_bytes},
           [&] { replicas_->all_gather(*data_, norms.data, norms.part_bytes); });
  };
  optimizer_->gather_norms(*data_, chunk, of_all);
  watch(*data_);
}

/// The norm that was noted of all chunks, of all ranks.
void rank_engine::total_norm(int64_t step) {
  if (replicas_) compute_->wait(data_->record());
  optimizer_->total_norm(*compute_);
  sum_norm(step);
}

/// What update_as_made() has left.
void rank_engine::update_in_memory(float lr, int64_t step) {
  if (!replicas_) return;
  compute_->wait(data_->record());
  const auto& store = model_->store();
  const auto each = [&](const auto& what) {
    for (int c = 0; c < store.chunk_count(); ++c)
      if (!store.state_on_disk(c)) what(c);
  };
  each([&](int c) { share_norms_of(c, lr, step); });
  compute_->wait(data_->record());
  each([&](int c) { update_chunk(c, lr, step); });
}

/// The passes are those of the step again, without a completion of their own: the first were for
/// the norm.
void rank_engine::update_with_known_norm(float lr, int64_t step) {
  compute_->notify([this](const status&) { passes_.norm_known = now_ms(); });
  model_->reset_loss(*compute_);
  for (const auto& o : forwards_) {
    const auto all = batches_of(o);
    probed({pipeline_op::forward, o.micro_batch, 0, o.micro_batches},
           [&] { model_->forward(*compute_, all, gradient_scale()); });
  }
  auto again = *last_backward_;
  again.digest = false;  // the first of the passes has made it
  update_as_made(again, false, lr, step);
  update_in_memory(lr, step);
}

/// As if nothing were clipped; whether that is so is known behind the last chunk.
void rank_engine::speculate(float lr, int64_t step) {
  optimizer_->allow_unclipped(*compute_);
  update_as_made(*last_backward_, true, lr, step, gpu::counts::once_settled);
  total_norm(step);
  clip();
  // Of this step: by the time that its writes are over the compute stream may have read another's.
  const auto factor = std::make_shared<float>(0.0f);
  compute_->notify([this, factor](const status&) { *factor = read_.clip_factor; });
  swap_->settle(*compute_, [factor] { return *factor == 1; });
}

}  // namespace troupe::train

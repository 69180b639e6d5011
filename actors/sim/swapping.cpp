// Lanes on virtual time, and the passes of a step.
#include "actors/sim/swapping.hpp"

#include <cerrno>

#include <fmt/format.h>

#include "actors/train/drive_failure.hpp"
#include "actors/train/swap_folder.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/store/store.hpp"

namespace troupe::sim {

namespace {

using gpu::chunk_act;
using gpu::update_order;

constexpr auto compute_lane = static_cast<size_t>(gpu::chunk_lane::compute);
constexpr int64_t look_again_ns = 1'000'000'000;

std::vector<gpu::chunk_place> places_of(const train::engine_options& o) {
  std::vector<gpu::chunk_place> out;
  const auto& where = o.shape.where;
  for (const auto& chunk : gpu::stage_chunks(o.model, o.shape)) {
    const auto home = where.of(static_cast<int>(out.size()));
    const auto file =
        gpu::swap_layout(gpu::slice_of(chunk.count, o.shape.replica), where, o.shape.compute);
    out.push_back({home.state_on_disk, home.weight_frame, home.grad_frame,
                   home.state_on_disk ? file.groups() : 0,
                   where.gradient_on_disk(static_cast<int>(out.size()))});
  }
  return out;
}

std::vector<int> frames_by_record(const gpu::spill_layout& layout) {
  std::vector<int> out;
  for (int r = 0; r < layout.records(); ++r) out.push_back(layout.frame_of(r));
  return out;
}

/// As the swapper says of a token table (swapper::may_wait_for_rows).
bool may_wait_for_rows(const train::engine_options& o) {
  const auto table = o.shape.where.of(0);
  return o.shape.has_embedding && o.at.grid.data == 1 &&
         o.optimizer.kind == gpu::optimizer_step_args::rule::adamw && table.state_on_disk &&
         table.weight_frame < 0 && table.grad_frame < 0;
}

/// What goes into another file where it cannot be written (SWP-11, SPR-3).
bool may_move(const gpu::watched_op& op) {
  return op.what.what == chunk_act::write_state || op.what.what == chunk_act::write_gradient ||
         op.spill.what == gpu::spill_act::write;
}

/// Reads or writes them, and does not only wait or mark.
bool moves_activations(const gpu::watched_op& op) {
  return op.spill.what != gpu::spill_act::none;
}

}  // namespace

swapping_engine::swapping_engine(environment* room, int node, const train::engine_options& o)
    : timed_engine(room, node, o),
      options_(o),
      using_folder_(room->disks.use(node, o.at.rank)),
      watch_(places_of(o), o.shape.where.groups_in_memory, *this,
             o.optimizer.kind == gpu::optimizer_step_args::rule::lamb, o.at.grid.data > 1),
      layout_(o.shape),
      shares_norms_(o.optimizer.kind == gpu::optimizer_step_args::rule::lamb && o.at.grid.data > 1),
      rows_first_(may_wait_for_rows(o)) {
  for (const auto& chunk : gpu::stage_chunks(o.model, o.shape)) {
    const auto slice = gpu::slice_of(chunk.count, o.shape.replica);
    const auto file = gpu::swap_layout(slice, o.shape.where, o.shape.compute);
    const auto counted = [of_one =
                              room->disks.shape().bytes_of(o.at.place().pipeline)](uint64_t bytes) {
      return static_cast<uint64_t>(static_cast<double>(bytes) * of_one);
    };
    bytes_.push_back({counted(file.group_bytes()), counted(gpu::weights_read_bytes(file)),
                      counted(file.state_bytes()),
                      counted(gpu::gradient_file(slice, file).whole_bytes()),
                      counted(file.array_bytes())});
    layers_.push_back(chunk.layer < 0 ? -1 : static_cast<int>(chunk.layer - o.shape.first_layer));
  }
  if (layout_.records() == 0) return;
  order_machine& machine = *this;
  spills_.emplace(frames_by_record(layout_), machine);
  record_bytes_ =
      gpu::plan_stage(o.model, o.shape).spill_bytes / static_cast<uint64_t>(layout_.records());
  replan_ = train::spill_replan::make(o);
}

// -- the lanes ------------------------------------------------------------------------------------

size_t swapping_engine::enqueue(gpu::watched_op op) {
  const auto number = done_.size();
  if (op.lane == compute_lane && queues_[op.lane].empty()) computes_since_ns_ = now();
  queues_[op.lane].push_back(number);
  if (op.takes > 0) computations_.emplace(number, computing_);
  live_.emplace(number, std::move(op));
  done_.push_back(false);
  begun_.push_back(false);
  wake();
  return number;
}

void swapping_engine::wake() {
  if (std::exchange(waking_, true)) return;
  later(0, [this] {
    waking_ = false;
    pump();
  });
}

bool swapping_engine::may_begin(size_t number) const {
  if (begun_[number]) return false;
  const auto& op = live_.at(number);
  return std::all_of(op.behind.begin(), op.behind.end(),
                     [this](size_t before) { return done_[before]; });
}

void swapping_engine::pump() {
  for (bool some = true; some;) {
    some = false;
    for (auto& queue : queues_)
      if (!queue.empty() && may_begin(queue.front())) {
        begin(queue.front());
        some = true;
      }
  }
  const bool quiet = live_.empty() && late_step_ == 0;
  if (quiet && health_) watch_.check_quiet(static_cast<int>(updated_step_));
  const auto under_way = [this](const auto& queue) {
    return !queue.empty() && begun_[queue.front()];
  };
  if (!live_.empty() && std::none_of(queues_.begin(), queues_.end(), under_way))
    watch_.check(false, "every lane waits");
  look();
}

/// SIM-26
void swapping_engine::look() {
  if (!health_) return;
  const auto& wrong = spills_ && watch_.wrong().empty() ? spills_->wrong() : watch_.wrong();
  if (!wrong.empty()) room_->where.violation(fmt::format("rank {}: {}", at_.rank, wrong));
}

/// After a failure nothing is done any more, but all comes to its end.
void swapping_engine::begin(size_t number) {
  begun_[number] = true;
  auto& op = live_.at(number);
  if (!health_) return over(number);
  const bool moves = op.what.what != chunk_act::none || moves_activations(op);
  if (!moves && state().hangs) return;
  note_wait(op);
  if (op.begin) op.begin();
  look();
  if (fails_to_move(op)) return over(number);
  if (may_move(op) && std::exchange(drive().fails_write, false)) return move_file(number, now());
  operate(number);
}

/// The compute lane has waited for activations to come, or to go out of a frame.
void swapping_engine::note_wait(const gpu::watched_op& op) {
  if (op.lane != compute_lane || op.spill.record < 0 || computes_since_ns_ == now()) return;
  note(train::pipeline_op::await_activations, computes_since_ns_, now(), 0);
}

/// The drive fails what cannot be done elsewhere: a read.
bool swapping_engine::fails_to_move(const gpu::watched_op& op) {
  using gpu::spill_act;
  const bool reads =
      op.what.what == chunk_act::read_state || op.what.what == chunk_act::read_rows ||
      op.what.what == chunk_act::read_weights || op.what.what == chunk_act::read_gradient ||
      op.lane == order_machine::snapshot || op.spill.what == spill_act::read;
  if (!reads || !std::exchange(drive().fails_read, false)) return false;
  const auto what = op.spill.what == spill_act::none
                        ? fmt::format("chunk {}", op.what.chunk)
                        : fmt::format("the activations of record {}", op.spill.record);
  ++room_->disks.counted().unread;
  fail(train::told_of_drive(error::system("read " + what, EIO)));
  return true;
}

void swapping_engine::operate(size_t number) {
  if (live_.at(number).spill.what == gpu::spill_act::write) ++room_->disks.counted().spilled;
  const auto takes_ns = time_of(live_.at(number));
  if (takes_ns == 0) return over(number);
  const auto part = part_of(number);
  if (part) note(part->kind, now(), now() + takes_ns, part->amount);
  if (part && replan_) replan_->clock().began(part->kind, in_ms(now()));
  later(takes_ns, [this, number, part] {
    if (part && replan_) replan_->clock().ended(part->kind, in_ms(now()), part->amount);
    over(number);
    pump();
  });
}

/// Checkpoints' are none of a step's.
std::optional<swapping_engine::computation> swapping_engine::part_of(size_t number) const {
  using op = train::pipeline_op;
  const auto& what = live_.at(number).what;
  const auto spills = live_.at(number).spill.what;
  if (spills != gpu::spill_act::none)
    return computation{spills == gpu::spill_act::write ? op::write_activation : op::read_activation,
                       record_bytes_};
  switch (what.what) {
    case chunk_act::read_weights:
      return computation{op::read_weights, bytes_of(what.chunk).weights};
    case chunk_act::read_state:
      return computation{op::read_state, bytes_of(what.chunk).of_group(what.passes > 0)};
    case chunk_act::read_gradient:
      return computation{op::read_state, bytes_of(what.chunk).gradient};
    case chunk_act::write_gradient:
      return computation{op::write_chunk, bytes_of(what.chunk).gradient};
    case chunk_act::read_rows:
      return computation{op::read_state, bytes_of(what.chunk).rows()};
    case chunk_act::write_state:
      return computation{op::write_chunk, bytes_of(what.chunk).group};
    case chunk_act::measure:
    case chunk_act::update_rows:
    case chunk_act::update:
      return computation{op::update_chunk, 0};
    default:
      const auto it = computations_.find(number);
      return it == computations_.end() ? std::nullopt : std::optional(it->second);
  }
}

int64_t swapping_engine::time_of(const gpu::watched_op& op) {
  auto& disks = room_->disks;
  constexpr int64_t update_ns = 50'000;
  if (op.spill.what == gpu::spill_act::write) return disks.writes_for(node_, record_bytes_);
  if (op.spill.what == gpu::spill_act::read) return disks.reads_for(node_, record_bytes_);
  switch (op.what.what) {
    case chunk_act::read_weights:
      return disks.reads_for(node_, bytes_of(op.what.chunk).weights);
    case chunk_act::read_state:
      return disks.reads_for(node_, bytes_of(op.what.chunk).of_group(op.what.passes > 0));
    case chunk_act::read_gradient:
      return disks.reads_for(node_, bytes_of(op.what.chunk).gradient);
    case chunk_act::write_gradient:
      return disks.writes_for(node_, bytes_of(op.what.chunk).gradient);
    case chunk_act::read_rows:
      return disks.reads_for(node_, bytes_of(op.what.chunk).rows());
    case chunk_act::write_state:
      return disks.writes_for(node_, bytes_of(op.what.chunk).group);
    case chunk_act::keep:
      return op.lane == order_machine::snapshot
                 ? disks.reads_for(node_, bytes_of(op.what.chunk).state)
                 : disks.writes_for(node_, 0);  // of syncs
    case chunk_act::measure:
    case chunk_act::update_rows:
    case chunk_act::update:
      return update_ns;
    default:
      return op.takes > 0 ? busy_for(op.takes, room_->draw.forward_w) : 0;
  }
}

/// What else counts of a file of state is read, and all of it written into a new one; of a gradient
/// nothing else does (GRF-3), and other activations stay where they are (SPR-3).
int64_t swapping_engine::moving_for(const gpu::watched_op& op) {
  auto& counted = room_->disks.counted();
  const bool spills = op.spill.what == gpu::spill_act::write;
  if (spills || op.what.what == chunk_act::write_gradient) {
    ++(spills ? counted.activations_moved : counted.gradients_moved);
    return room_->disks.writes_for(node_, 0);  // of names
  }
  ++counted.moved;
  const auto bytes = bytes_of(op.what.chunk).state;
  return room_->disks.reads_for(node_, bytes) + room_->disks.writes_for(node_, bytes);
}

/// Of another file.
uint64_t swapping_engine::bytes_wanted(const gpu::watched_op& op) const {
  if (op.spill.what == gpu::spill_act::write)
    return record_bytes_ * static_cast<uint64_t>(layout_.records());
  const auto& bytes = bytes_of(op.what.chunk);
  return op.what.what == chunk_act::write_gradient ? bytes.gradient : bytes.state;
}

/// SWP-11
void swapping_engine::move_file(size_t number, int64_t since_ns) {
  auto& counted = room_->disks.counted();
  if (drive().full > 0 && since_ns == now()) {
    ++counted.waited;
    options_.on_notice(fmt::format("a write to the swap folder of rank {} waits for {} bytes",
                                   at_.rank, bytes_wanted(live_.at(number))));
  }
  if (aborted_ ||
      (drive().full > 0 && now() - since_ns > options_.swap_patience.count() * 1'000'000'000)) {
    fail(error::system("make a file in place of one that cannot be written", ENOSPC));
    over(number);
    return pump();
  }
  if (drive().full > 0)
    return later(look_again_ns, [this, number, since_ns] { move_file(number, since_ns); });
  later(moving_for(live_.at(number)), [this, number] { operate(number); });
}

void swapping_engine::over(size_t number) {
  auto op = std::move(live_.at(number));
  live_.erase(number);
  computations_.erase(number);
  if (health_ && op.end) op.end();
  look();
  done_[number] = true;
  queues_[op.lane].pop_front();
  if (op.lane == compute_lane) computes_since_ns_ = now();
  const auto told = behind_.extract(number);
  if (!told) return;
  for (const auto& what : told.mapped()) what();
}

void swapping_engine::fail(error why) {
  if (health_) health_ = std::move(why);
}

/// Told once; nothing is done behind it.
status swapping_engine::device_failure() {
  auto broken = failure();
  if (!broken) fail(broken.error());
  return broken;
}

void swapping_engine::then(size_t number, std::function<void()> what) {
  behind_[number].push_back(std::move(what));
}

void swapping_engine::answer(size_t number, completion done) {
  then(number, [this, done = std::move(done)] { done(health_); });
}

/// What a step whose updates are made again took is told with those.
void swapping_engine::tell(size_t number, int64_t step, bool again, outcome_completion done) {
  then(number, [this, step, again, done = std::move(done)] {
    if (replan_ && at_.grid.data == 1 && !again) moved_ = replan_->clock().since(in_ms(now()));
    auto told = again ? train::step_outcome{} : outcome(step);
    told.again = again;
    done(health_, std::move(told));
  });
}

void swapping_engine::when_quiet(std::function<void()> what) {
  if (live_.empty()) return what();
  constexpr int64_t soon_ns = 1'000'000;
  later(soon_ns, [this, what = std::move(what)] { when_quiet(what); });
}

// -- a step ---------------------------------------------------------------------------------------

void swapping_engine::build(completion done) {
  if (drive().full > 0) return done(error::system("reserve swap files", ENOSPC));
  timed_engine::build(std::move(done));
}

gpu::update_order swapping_engine::planned_order() const {
  return gpu::update_order_of(options_.shape.where, train::updates_wait(options_));
}

void swapping_engine::begin_step(const train::op_order& order) {
  forwards_.clear();
  first_backward_ = true;
  choose_spilling();
  choose_order(static_cast<int64_t>(order.step));
  slowed_ = order.pace.of_1024 < train::work_pace::whole;
  clock_.begin_step(in_ms(now()));
  if (!replan_) return;
  then(watch_.compute(0), [this] { replan_->clock().restart(in_ms(now())); });
}

/// As rank_engine::judge_step of a rank that tries nothing else with its drive.
void swapping_engine::choose_spilling() {
  if (!std::exchange(updates_made_, false)) return;
  const bool otherwise = std::exchange(timed_order_, order_) != order_;
  const bool redone = std::exchange(redone_, false);
  if (!replan_) return;
  if (at_.grid.data == 1) moved_.untold = redone || otherwise || tells_nothing() ? 1 : 0;
  const auto news = replan_->stepped(moved_);
  if (!news) return;
  ++room_->disks.counted().replanned;
  spills_from_ = replan_->spills_from();
  if (options_.on_notice && at_.place().data == 0) options_.on_notice(*news);
}

/// As rank_engine::tells_nothing.
bool swapping_engine::tells_nothing() const {
  const bool otherwise = may_speculate() && timed_order_ != order_;
  const bool of_replicas = at_.grid.data > 1 && (redone_ || otherwise);
  return slowed_ || saves_in_step_ || order_ != planned_order() || of_replicas;
}

bool swapping_engine::may_speculate() const {
  return planned_order() == update_order::speculate &&
         options_.swap_clip == gpu::clip_way::automatic;
}

/// Replicas have seen the same of the steps before (CLP-4), and see the same norm.
bool swapping_engine::drawn(environment::shared_draw what, int64_t step, double probability) {
  if (at_.grid.data == 1) return room_->chance.chance(probability);
  return room_->draw_together(epoch_, static_cast<uint64_t>(step), what, probability);
}

void swapping_engine::choose_order(int64_t step) {
  order_ = planned_order();
  if (may_speculate() && drawn(environment::shared_draw::twice, step, 0.5))
    order_ = update_order::twice;
}

/// Of all micro-batches of an order through what a chunk is of.
void swapping_engine::pass(train::pipeline_op kind, const train::op_order& order, int chunk,
                           int64_t step) {
  using op = train::pipeline_op;
  const bool back = kind == op::backward;
  const auto each_ns = (back ? room_->times.backward_ns : room_->times.forward_ns) / chunks();
  const auto noted = back ? op::backward : op::forward;
  const auto now = static_cast<int>(step);
  const int count = order.micro_batches, layer = layers_[static_cast<size_t>(chunk)];
  const auto amount_of = [&](int batches) { return chunk == 0 ? tokens_of(batches) : 0; };
  if (!spills_ || layer < 0 || !layout_.spills(layer)) {
    computing_ = {noted, amount_of(count)};
    watch_.use_weights(chunk, now, count * each_ns);
    return;
  }
  watch_.use_weights(chunk, now, [&] {
    computing_ = {noted, amount_of(1)};
    pass_spilling(order, back, layer, each_ns);
  });
}

/// Backward begins with what forward ends with (SM-6). A layer that computes again needs its frame
/// alone, in either pass (SM-8).
void swapping_engine::pass_spilling(const train::op_order& order, bool back, int layer,
                                    int64_t each_ns) {
  const int count = order.micro_batches;
  const bool again = layer < spills_from_;
  const auto again_ns = again ? room_->times.forward_ns / chunks() : 0;
  for (int i = 0; i < count; ++i) {
    const int record = layout_.record_of(order.slot + (back ? i : count - 1 - i), layer);
    if (!back)
      spills_->forward(record, !again && order.kind == train::pipeline_op::forward, each_ns);
    else if (again)
      spills_->forward(record, false, each_ns + again_ns);
    else
      spills_->backward(record, each_ns);
  }
}

size_t swapping_engine::forward(int64_t step, const train::op_order& order) {
  const auto now = static_cast<int>(step);
  const bool rows = embed_rows(now, order);
  for (int c = 0; c < chunks(); ++c) {
    if (!rows || c > 0) pass(order.kind, order, c, step);
    const bool last = layers_[static_cast<size_t>(c)] + 1 == options_.shape.layers();
    if (rows && last) watch_.use_weights(0, now);  // all of it is awaited before the head
  }
  return watch_.compute(0);
}

/// Whether the pass has begun with the rows of the token table that it reads (CHP-10).
bool swapping_engine::embed_rows(int step, const train::op_order& order) {
  constexpr double have_room = 0.8;
  if (late_step_ == 0) return false;
  if (!room_->chance.chance(have_room)) {
    finish_update();
    return false;
  }
  ++room_->disks.counted().rows_first;
  watch_.update(0, std::exchange(late_step_, 0), gpu::counts::at_once, false, true);
  watch_.use_rows(0, step);
  computing_ = {train::pipeline_op::forward, tokens_of(order.micro_batches)};
  watch_.compute(order.micro_batches * (room_->times.forward_ns / chunks()));
  return true;
}

/// Under backward, by which the token table is the last.
void swapping_engine::update_chunk(int chunk, int step) {
  if (chunk > 0 || !rows_first_) return watch_.update(chunk, step, gpu::counts::at_once);
  watch_.begin_update(chunk);
  late_step_ = step;
}

/// What was left is updated without rows that come first.
void swapping_engine::finish_update() {
  if (const int step = std::exchange(late_step_, 0); step > 0)
    watch_.update(0, step, gpu::counts::at_once);
}

size_t swapping_engine::backward(int64_t step, const train::op_order& order, bool last,
                                 pass_kind how, bool dropped) {
  const auto now = static_cast<int>(step);
  for (int c = chunks(); c-- > 0;) {
    pass(train::pipeline_op::backward, order, c, step);
    const bool leaves = how == pass_kind::gradients && watch_.gradient_on_disk(c);
    const bool sums = last && options_.at.grid.data > 1 && (how != pass_kind::gradients || leaves);
    watch_.make_gradient(c, now, first_backward_, last && !sums);
    if (last && c > 0 && options_.at.grid.data > 1) watch_.bring_weights(c - 1);  // SWP-13
    if (sums) watch_.sum_gradient(c, now);
    if (leaves) watch_.store_gradient(c, now, last);  // SWP-17
    if (shares_norms_ && how == pass_kind::updates) watch_.share_norms(c, now);
    if (shares_norms_ && how == pass_kind::speculates)
      watch_.share_norms(c, now, gpu::counts::once_settled);
    if (how == pass_kind::norm_alone) watch_.drop_gradient(c);
    if (how == pass_kind::updates && (!sums || watch_.on_disk(c))) update_chunk(c, now);
    if (how == pass_kind::speculates) watch_.update(c, now, gpu::counts::once_settled, dropped);
  }
  first_backward_ = last;
  for (int c = 0; c < chunks() && options_.at.grid.data > 1; ++c)  // what is in memory
    if (how == pass_kind::updates && !watch_.on_disk(c)) update_chunk(c, now);
  return watch_.compute(0);
}

void swapping_engine::run(const train::op_order& order, completion done) {
  using op = train::pipeline_op;
  const auto kind = order.kind;
  if (kind == op::begin) begin_step(order);
  if (train::facts_of(kind).releases == train::op_partner::none) return;
  step_ = order.step;
  if (auto broken = device_failure(); !broken) return done(broken);
  const auto step = static_cast<int64_t>(order.step);
  if (kind == op::backward) {
    const bool later = order.last && updates_under_backward() && order_ != update_order::twice;
    if (order.last) last_backward_ = order;
    const bool first_of_two = order.last && order_ == update_order::twice;
    const auto how = first_of_two ? pass_kind::norm_alone : pass_kind::gradients;
    return answer(later ? watch_.compute(0) : backward(step, order, order.last, how),
                  std::move(done));
  }
  if (kind == op::forward) forwards_.push_back(order);
  answer(forward(kind == op::forward ? step : updated_step_ + 1, order), std::move(done));
}

void swapping_engine::update(int64_t step, double lr, outcome_completion done) {
  if (auto broken = device_failure(); !broken) return done(broken, {});
  room_->note_rate(epoch_, static_cast<uint64_t>(step), lr);
  room_->note_spilling(epoch_, static_cast<uint64_t>(step), at_.place().pipeline, spills_from_);
  if (!std::exchange(updates_made_, true)) saves_in_step_ = std::exchange(saves_made_, false);
  if (updates_under_backward())
    update_under_backward(step, std::move(done));
  else
    update_behind_backward(step, std::move(done));
}

void swapping_engine::finish_evaluation(outcome_completion done) {
  if (auto broken = device_failure(); !broken) return done(broken, {});
  tell(watch_.compute(0), 0, false, std::move(done));
}

void swapping_engine::update_behind_backward(int64_t step, outcome_completion done) {
  computing_ = {train::pipeline_op::update, parameters};
  auto known = watch_.compute(room_->times.update_ns);
  if (shares_norms_) {
    for (int c = 0; c < chunks(); ++c) watch_.measure(c, static_cast<int>(step));
    known = watch_.compute(0);
  }
  then(known, [this, step, done = std::move(done)] {
    if (!health_) return done(health_, {});
    meet_others(step, [this, step, done](const status& met) {
      if (!met) return done(met, {});
      updated_step_ = step;
      for (int c = 0; c < chunks(); ++c)
        watch_.update(c, static_cast<int>(step), gpu::counts::at_once);
      share_moves(step_over(), step, done);
    });
  });
}

/// As rank_engine::share_moves: the last that replicas exchange in a step.
void swapping_engine::share_moves(size_t behind, int64_t step, outcome_completion done) {
  if (!replan_ || at_.grid.data == 1) return tell(behind, step, false, std::move(done));
  then(behind, [this, step, done = std::move(done)] {
    if (!health_) return done(health_, {});
    auto told = [this, step, done, alive = std::weak_ptr<int>(alive_)](bool ok,
                                                                       const gpu::step_moves& all) {
      if (alive.expired()) return;
      moved_ = all;
      moved_.settle_sum(at_.grid.data);
      later(0, [this, ok, step, done] {
        if (!ok) return done(left_group(), {});
        done(health_, outcome(step));
      });
    };
    auto own = replan_->clock().since(in_ms(now()));
    own.untold = tells_nothing() ? 1 : 0;
    ranks_->add_moves(at_, static_cast<uint64_t>(step), own, std::move(told));
  });
}

/// As rank_engine::update_under_backward.
void swapping_engine::update_under_backward(int64_t step, outcome_completion done) {
  const bool again = std::exchange(tried_step_, 0) == step;
  if (order_ == update_order::speculate && !again) {
    const bool clipped = drawn(environment::shared_draw::clipped, step, 0.4);
    backward(step, last_backward_, true, pass_kind::speculates, clipped);
    if (at_.grid.data > 1) return settle_with_others(step, clipped, std::move(done));
    settle(step, clipped);
    return tell(step_over(), step, clipped, std::move(done));
  }
  if (at_.grid.data > 1 && again) {  // the norm is known
    updated_step_ = step;
    pass_again(step);
    return share_moves(step_over(), step, std::move(done));
  }
  if (at_.grid.data > 1) return update_with_others(step, std::move(done));
  updated_step_ = step;
  if (order_ == update_order::under_backward)
    backward(step, last_backward_, true, pass_kind::updates);
  else
    pass_again(step);
  tell(step_over(), step, false, std::move(done));
}

/// By its norm, which is known.
void swapping_engine::settle(int64_t step, bool clipped) {
  watch_.settle(static_cast<int>(step), !clipped);
  (clipped ? tried_step_ : updated_step_) = step;
  if (clipped) ++room_->disks.counted().redone;
  redone_ = clipped;
}

/// Of updates that came before a norm which replicas know together.
void swapping_engine::settle_with_others(int64_t step, bool clipped, outcome_completion done) {
  then(watch_.compute(0), [this, step, clipped, done = std::move(done)] {
    if (!health_) return done(health_, {});
    meet_others(step, [this, step, clipped, done](const status& met) {
      if (!met) return done(met, {});
      settle(step, clipped);
      if (clipped) return tell(step_over(), step, true, done);
      share_moves(step_over(), step, done);
    });
  });
}

/// Replicas know their norm together: behind the only pass, or between the two.
void swapping_engine::update_with_others(int64_t step, outcome_completion done) {
  const bool once = order_ == update_order::under_backward;
  if (once) {
    updated_step_ = step;
    backward(step, last_backward_, true, pass_kind::updates);
  }
  then(watch_.compute(0), [this, step, once, done = std::move(done)] {
    if (!health_) return done(health_, {});
    meet_others(step, [this, step, once, done](const status& met) {
      if (!met) return done(met, {});
      if (!once) {
        updated_step_ = step;
        pass_again(step);
      }
      share_moves(step_over(), step, done);
    });
  });
}

/// The passes of the step are over.
size_t swapping_engine::step_over() {
  return watch_.compute(0, [this] {
    if (spills_) spills_->check_step_over();
  });
}

void swapping_engine::pass_again(int64_t step) {
  for (const auto& order : forwards_) forward(step, order);
  backward(step, last_backward_, true, pass_kind::updates);
}

}  // namespace troupe::sim

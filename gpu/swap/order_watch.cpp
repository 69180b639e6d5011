// What operations do to a model of files, slots and frames.
#include "gpu/swap/order_watch.hpp"

#include <algorithm>
#include <utility>

namespace troupe::gpu {

namespace {

using kind = chunk_point::kind;

std::pair<int, int> key_of(const chunk_point& p) {
  return {static_cast<int>(p.what), p.index};
}

}  // namespace

order_watch::order_watch(std::vector<chunk_place> chunks, int slots, order_machine& machine,
                         bool measured, bool gathers)
    : places_(std::move(chunks)),
      machine_(machine),
      measured_(measured),
      gathers_(gathers),
      policy_(places_, slots, gathers),
      slots_(static_cast<size_t>(slots)) {
  for (const auto& p : places_) {
    const auto count = static_cast<size_t>(std::max(1, p.groups));
    chunk_model c;
    c.own = {std::vector<int>(count, 0), std::vector<bool>(count), std::vector<int>(count), false};
    c.next = c.spare = c.own;
    c.in_memory = c.own.groups;
    c.gathered = !gathers_ || !p.on_disk;
    chunks_.push_back(std::move(c));
  }
  frames_.resize(static_cast<size_t>(policy_.frames(kind::weights_ready)));
  gradients_.resize(static_cast<size_t>(policy_.frames(kind::gradient_free)), none);
}

void order_watch::check(bool good, std::string_view what) {
  if (!good && wrong_.empty()) wrong_ = what;
}

void order_watch::read_all(int chunk, int more) {
  if (more > 0) check(!keeping_, "a file is read while a checkpoint takes it");
  for (auto& readers : at(chunk).own.readers) readers += more;
}

bool order_watch::is_read_by_nobody(const model_file& f) {
  return std::all_of(f.readers.begin(), f.readers.end(), [](int n) { return n == 0; });
}

void order_watch::check_weights(const std::vector<int>& content, int step) {
  for (const int of : content) check(of == step - 1, "weights are not those of the step before");
}

// -- from the policy to the machine ---------------------------------------------------------------

std::vector<size_t> order_watch::behind(const chunk_op& op) const {
  std::vector<size_t> out;
  for (const auto& b : op.behind)
    if (b)
      if (const auto it = points_.find(key_of(*b)); it != points_.end()) out.push_back(it->second);
  for (int c = 0; c < policy_.chunks(); ++c)
    if (op.behind_readers == c || op.behind_readers == chunk_op::every_chunk) {
      const auto& readers = chunks_[static_cast<size_t>(c)].readers;
      out.insert(out.end(), readers.begin(), readers.end());
    }
  return out;
}

size_t order_watch::enqueue(const chunk_op& op, effect e, int64_t takes) {
  const auto number = machine_.enqueue(
      {op, static_cast<size_t>(op.on), takes, behind(op), std::move(e.first), std::move(e.second)});
  if (!op.marks) return number;
  if (op.marks->index != chunk_point::all) {
    points_[key_of(*op.marks)] = number;
    return number;
  }
  for (int c = 0; c < policy_.chunks(); ++c) points_[key_of({op.marks->what, c})] = number;
  return number;
}

void order_watch::carry_out(const chunk_policy::ops& ops, int step, bool dropped) {
  for (const auto& op : ops) enqueue(op, effect_of(op, step, dropped));
}

order_watch::effect order_watch::effect_of(const chunk_op& op, int step, bool dropped) {
  switch (op.what) {
    case chunk_act::read_weights:
      return reading_weights(op.chunk);
    case chunk_act::gather_weights:
      return gathering(op.chunk);
    case chunk_act::sum_gradient:
      return summing(op.chunk, step);
    case chunk_act::gather_norms:
      return gathering_norms(op.chunk);
    case chunk_act::write_gradient:
      return writing_gradient(op);
    case chunk_act::read_gradient:
      return reading_gradient(op);
    case chunk_act::clear_gradient:
      return clearing_gradient(op.chunk);
    case chunk_act::read_state:
      return reading_state(op);
    case chunk_act::read_rows:
      return reading_rows(op);
    case chunk_act::update_rows:
      return updating_rows(op, step);
    case chunk_act::measure:
      return measuring(op, step);
    case chunk_act::update:
      return updating(op, step, dropped);
    case chunk_act::write_state:
      return writing_state(op);
    default:
      return {};
  }
}

order_watch::effect order_watch::reading_weights(int chunk) {
  auto begin = [this, chunk] {
    read_all(chunk, 1);
    if (!shares(chunk)) return;
    auto& f = frame_of(chunk);
    check(f.users == 0 && !f.filling, "a frame takes weights while others in it are used");
    f.filling = f.reading = true;
  };
  auto end = [this, chunk] {
    auto& c = at(chunk);
    read_all(chunk, -1);
    if (shares(chunk))
      frame_of(chunk) = {chunk, 0, c.own.groups, gathers_, false};
    else
      c.in_memory = c.own.groups;
  };
  return {begin, end};
}

order_watch::effect order_watch::gathering(int chunk) {
  auto begin = [this, chunk] {
    const auto& c = at(chunk);
    const auto& f = frame_of(chunk);
    const bool is_read = shares(chunk) ? f.chunk == chunk && f.filling && !f.reading : !c.gathered;
    const auto& slice = shares(chunk) ? f.content : c.in_memory;
    check(is_read && std::equal(slice.begin() + 1, slice.end(), slice.begin()),
          "weights are gathered before all of the own slice is there");
  };
  auto end = [this, chunk] {
    if (shares(chunk))
      frame_of(chunk).filling = false;
    else
      at(chunk).gathered = true;
  };
  return {begin, end};
}

order_watch::effect order_watch::summing(int chunk, int step) {
  auto begin = [this, chunk, passes = at(chunk).passes_asked] {
    check(gradient_frame(chunk) == used_by(chunk) && at(chunk).passes_made == passes,
          "a gradient is summed before backward has made it");
  };
  auto end = [this, chunk, step] {
    gradient_frame(chunk) = step;
    at(chunk).gradient_of = step;
  };
  return {begin, end};
}

/// OWA-4. What the passes so far have made, or their sum over replicas.
order_watch::effect order_watch::writing_gradient(const chunk_op& op) {
  auto begin = [this, op, passes = at(op.chunk).passes_asked] {
    auto& c = at(op.chunk);
    const int in_frame = gradient_frame(op.chunk);
    const bool there = in_frame == used_by(op.chunk) || in_frame == c.gradient_of;
    check(there && in_frame != none && c.passes_made == passes,
          "a gradient is written before backward has made it");
    check(passes_of(op.chunk) == op.passes, "a gradient is written of other micro-batches");
    check(!op.whole || c.gradient_of != none, "a gradient is written before it is whole");
    check(!c.gradient_is_read, "a gradient is written while it is read");
    c.passes_in_file = none;
  };
  auto end = [this, op] {
    auto& c = at(op.chunk);
    c.passes_in_file = op.passes;
    c.passes_written = c.passes_made;
  };
  return {begin, end};
}

order_watch::effect order_watch::clearing_gradient(int chunk) {
  auto begin = [this, chunk, passes = at(chunk).passes_asked] {
    check(at(chunk).passes_written == passes,
          "a gradient's frame is given away before it is written");
    gradient_frame(chunk) = none;
  };
  return {begin, {}};
}

order_watch::effect order_watch::reading_gradient(const chunk_op& op) {
  auto begin = [this, op] {
    auto& c = at(op.chunk);
    check(gradient_frame(op.chunk) == none,
          "a gradient's frame takes another before the last is written");
    check(c.passes_in_file == op.passes, "a gradient is read that was not written");
    gradient_frame(op.chunk) = filling;
    c.gradient_is_read = true;
  };
  auto end = [this, op] {
    gradient_frame(op.chunk) = used_by(op.chunk);
    at(op.chunk).gradient_is_read = false;
  };
  return {begin, end};
}

order_watch::effect order_watch::reading_state(const chunk_op& op) {
  const auto group = static_cast<size_t>(op.group);
  auto begin = [this, op, group] {
    auto& s = slot_of(op);
    check(s.what == slot_model::holds::nothing, "a slot takes a group before the last is written");
    s = {slot_model::holds::reading, op.chunk, op.group, 0, none};
    if (op.passes > 0) {
      check(at(op.chunk).passes_in_file == op.passes, "a gradient is read that was not written");
      s.passes = op.passes;
    }
    check(!keeping_, "a file is read while a checkpoint takes it");
    auto& own = at(op.chunk).own;
    ++own.readers[group];
    check(op.moments_are_zero != own.has_moments[group], "moments are not as they were");
  };
  auto end = [this, op, group] {
    auto& own = at(op.chunk).own;
    --own.readers[group];
    slot_of(op).what = slot_model::holds::state;
    slot_of(op).content = own.groups[group];
  };
  return {begin, end};
}

/// Of rows in any group.
order_watch::effect order_watch::reading_rows(const chunk_op& op) {
  auto begin = [this, op] {
    auto& s = slot_of(op);
    check(s.what == slot_model::holds::nothing, "a slot takes rows before the last is written");
    s = {slot_model::holds::reading, op.chunk, op.group, 0, none};
    read_all(op.chunk, 1);
    for (const bool there : at(op.chunk).own.has_moments)
      check(op.moments_are_zero != there, "moments are not as they were");
  };
  auto end = [this, op] {
    read_all(op.chunk, -1);
    const auto& groups = at(op.chunk).own.groups;
    check(std::equal(groups.begin() + 1, groups.end(), groups.begin()),
          "rows are read of a chunk that is half written");
    slot_of(op).what = slot_model::holds::state;
    slot_of(op).content = groups.front();
  };
  return {begin, end};
}

order_watch::effect order_watch::updating_rows(const chunk_op& op, int step) {
  auto begin = [this, op, step] {
    check_group(op, step);
    slot_of(op).what = slot_model::holds::updating;
  };
  auto end = [this, op, step] {
    slot_of(op) = {};
    at(op.chunk).rows = step;
  };
  return {begin, end};
}

/// A group in its slot and its gradient, as an update needs them.
void order_watch::check_group(const chunk_op& op, int step) {
  const auto& s = slot_of(op);
  check(s.what == slot_model::holds::state && s.chunk == op.chunk && s.group == op.group,
        "a group is updated before it is read");
  check(s.content == step - 1, "a group is updated that is not of the step before");
  const bool there = op.passes > 0 ? s.passes == op.passes && op.passes == passes_of(op.chunk)
                                   : gradient_frame(op.chunk) == step;
  check(there && at(op.chunk).gradient_of == step,
        "a group is updated before its gradient is whole");
}

order_watch::effect order_watch::measuring(const chunk_op& op, int step) {
  auto begin = [this, op, step] {
    check_group(op, step);
    slot_of(op).what = slot_model::holds::updating;
  };
  auto end = [this, op] {
    slot_of(op) = {};
    ++at(op.chunk).groups_measured;
    at(op.chunk).measured_for = op.when;
  };
  return {begin, end};
}

order_watch::effect order_watch::gathering_norms(int chunk) {
  auto begin = [this, chunk] {
    check(at(chunk).groups_measured == place(chunk).groups,
          "other ranks are told of a chunk before all of it was measured");
  };
  return {begin, [this, chunk] { at(chunk).norms_known = true; }};
}

order_watch::effect order_watch::updating(const chunk_op& op, int step, bool dropped) {
  auto begin = [this, op, step, shared = at(op.chunk).is_shared] {
    check_group(op, step);
    check(!shared || at(op.chunk).norms_known,
          "a group is updated before all ranks' norms of its chunk are known");
    check(!shared || at(op.chunk).measured_for == op.when,
          "a chunk is measured with another clip factor than it is updated with");
    check(!measured_ || at(op.chunk).groups_measured == place(op.chunk).groups,
          "a group is updated before all of its chunk were measured");
    slot_of(op).what = slot_model::holds::updating;
  };
  auto end = [this, op, step, dropped] {
    auto& s = slot_of(op);
    s.what = slot_model::holds::updated;
    s.content = dropped ? -step : step;
    auto& c = at(op.chunk);
    if (!shares(op.chunk)) c.in_memory[static_cast<size_t>(op.group)] = s.content;
    if (op.group + 1 < place(op.chunk).groups) return;
    if (op.passes == 0) gradient_frame(op.chunk) = none;
    c.gradient_of = c.passes_in_file = none;
    c.passes_before = c.passes_made;
    c.groups_measured = 0;
    c.norms_known = false;
    c.gathered = !gathers_;
  };
  return {begin, end};
}

order_watch::model_file& order_watch::target(const chunk_op& op) {
  auto& c = at(op.chunk);
  return c.versions.target(op.when) == chunk_versions::file::own ? c.own : c.next;
}

order_watch::effect order_watch::writing_state(const chunk_op& op) {
  const auto group = static_cast<size_t>(op.group);
  auto begin = [this, op, group] {
    auto& s = slot_of(op);
    check(s.what == slot_model::holds::updated && s.chunk == op.chunk && s.group == op.group,
          "a group is written before it is updated");
    s.what = slot_model::holds::writing;
    auto& f = target(op);
    check(!f.of_checkpoint, "a file that a checkpoint has is written");
    check(f.readers[group] == 0, "a file is written while it is read");
    f.groups[group] = torn;
    f.has_moments[group] = true;
  };
  auto end = [this, op, group] {
    target(op).groups[group] = slot_of(op).content;
    slot_of(op) = {};
    const bool last = op.group + 1 == place(op.chunk).groups;
    if (at(op.chunk).versions.taken_over(op.when, last)) take_over(op.chunk);
  };
  return {begin, end};
}

/// The next file takes the name; the checkpoint's goes on without one here.
void order_watch::take_over(int chunk) {
  auto& c = at(chunk);
  c.own = std::exchange(c.next, c.spare);
  c.spare.of_checkpoint = false;
  c.versions.own();
}

// -- what a step does -----------------------------------------------------------------------------

size_t order_watch::compute(int64_t takes, std::function<void()> end) {
  return enqueue({}, {{}, std::move(end)}, takes);
}

void order_watch::fetch_weights(int chunk) {
  carry_out(policy_.fetch_weights(chunk));
  if (!shares(chunk))
    if (const auto it = points_.find(key_of({kind::arrived, chunk})); it != points_.end()) {
      chunk_op waits;  // as the store does
      waits.behind[0] = {kind::arrived, chunk};
      enqueue(waits, {});
    }
}

order_watch::effect order_watch::using_weights(int chunk, int step) {
  auto begin = [this, chunk, step] {
    if (!shares(chunk)) {
      check(at(chunk).gathered, "weights are used without others' slices");
      return check_weights(at(chunk).in_memory, step);
    }
    auto& f = frame_of(chunk);
    check(f.chunk == chunk && !f.filling, "weights are used that are not there");
    ++f.users;
    check_weights(f.content, step);
  };
  auto end = [this, chunk, step] {
    if (!shares(chunk)) return check_weights(at(chunk).in_memory, step);
    auto& f = frame_of(chunk);
    check(f.chunk == chunk, "a frame takes weights while others in it are used");
    --f.users;
  };
  return {begin, end};
}

size_t order_watch::use_weights(int chunk, int step, int64_t takes) {
  fetch_weights(chunk);
  const auto number = enqueue({}, using_weights(chunk, step), takes);
  carry_out(policy_.release_weights(chunk));
  return number;
}

size_t order_watch::use_weights(int chunk, int step, const std::function<void()>& passes) {
  fetch_weights(chunk);
  auto [begin, end] = using_weights(chunk, step);
  enqueue({}, {std::move(begin), {}});
  passes();
  const auto number = enqueue({}, {{}, std::move(end)});
  carry_out(policy_.release_weights(chunk));
  return number;
}

size_t order_watch::make_gradient(int chunk, int step, bool first, bool whole) {
  carry_out(policy_.fetch_gradient(chunk));
  ++at(chunk).passes_asked;
  auto begin = [this, chunk, first] {
    auto& g = gradient_frame(chunk);
    check(g == (first ? none : used_by(chunk)),
          "a gradient's frame takes another before the update that takes it");
    check(first || !gradient_on_disk(chunk) || at(chunk).passes_in_file == passes_of(chunk),
          "a gradient is added to that lacks micro-batches");
    g = used_by(chunk);
  };
  auto end = [this, chunk, step, whole] {
    ++at(chunk).passes_made;
    if (!whole) return;
    gradient_frame(chunk) = step;
    at(chunk).gradient_of = step;
  };
  return enqueue({}, {begin, end});
}

void order_watch::drop_gradient(int chunk) {
  const auto zeroed = [this, chunk] {
    gradient_frame(chunk) = none;
    at(chunk).gradient_of = none;
  };
  for (const auto& op : policy_.drop_gradient(chunk)) enqueue(op, {{}, zeroed});
}

/// What is in memory is updated by the compute lane, behind the sum of its gradient.
void order_watch::update_in_memory(int chunk, int step) {
  chunk_op waits;
  waits.behind[0] = {kind::summed, policy_.grad_frame(chunk)};
  enqueue(waits, {});
  compute(0, [this, chunk, step] {
    auto& c = at(chunk);
    check_weights(c.in_memory, step);
    check(gradient_frame(chunk) == step && c.gradient_of == step,
          "a chunk is updated before its gradient is whole");
    std::fill(c.in_memory.begin(), c.in_memory.end(), step);
    gradient_frame(chunk) = none;
    c.gradient_of = none;
  });
}

void order_watch::measure(int chunk, int step) {
  if (!on_disk(chunk)) return;
  at(chunk).is_measured = true;
  carry_out(policy_.measure(chunk), step);
  compute(0, [this, chunk] {
    check(at(chunk).groups_measured == place(chunk).groups,
          "other ranks are told of a chunk before all of it was measured");
  });
}

void order_watch::share_norms(int chunk, int step, counts when) {
  if (!on_disk(chunk)) return;
  at(chunk).is_measured = at(chunk).is_shared = true;
  carry_out(policy_.share_norms(chunk, when), step);
}

void order_watch::update(int chunk, int step, counts when, bool dropped, bool rows) {
  if (!on_disk(chunk)) return update_in_memory(chunk, step);
  const bool before = std::exchange(at(chunk).is_measured, false);
  carry_out(policy_.update(chunk, when, measured_ && !before, rows), step, dropped);
  at(chunk).is_shared = false;
}

void order_watch::use_rows(int chunk, int step) {
  carry_out(policy_.fetch_rows(chunk));
  const auto begin = [this, chunk, step] {
    check(at(chunk).rows == step - 1, "rows are used before they are updated");
  };
  enqueue({}, {begin, {}});
}

void order_watch::settle(int step, bool hold) {
  compute(0, [this, step] { norm_of_ = step; });
  for (const auto& op : policy_.settle()) {
    effect e;
    if (op.what == chunk_act::settle) e.first = [this, step, hold] { take_updates(step, hold); };
    enqueue(op, std::move(e));
  }
  if (!hold) carry_out(policy_.dropped());
}

void order_watch::take_updates(int step, bool hold) {
  check(norm_of_ >= step, "it is judged what counts before the norm is known");
  for (int chunk = 0; chunk < policy_.chunks(); ++chunk) {
    auto& c = at(chunk);
    if (!on_disk(chunk)) continue;
    check(is_read_by_nobody(c.own), "updates count while what was before them is read");
    if (!hold) continue;
    if (c.versions.kept())
      take_over(chunk);
    else
      std::swap(c.own, c.next);
  }
}

// -- checkpoints ----------------------------------------------------------------------------------

size_t order_watch::capture(int chunk, int step) {
  watched_op op;
  op.what.what = chunk_act::keep;
  op.what.chunk = chunk;
  op.lane = order_machine::snapshot;
  const auto it = points_.find(key_of({kind::written, chunk}));
  if (it != points_.end()) op.behind.push_back(it->second);
  op.begin = [this, chunk] { read_all(chunk, 1); };
  op.end = [this, chunk, step] {
    read_all(chunk, -1);
    for (const int of : at(chunk).own.groups)
      check(of == step, "a checkpoint copies another step's state");
  };
  const auto number = machine_.enqueue(std::move(op));
  at(chunk).readers.push_back(number);
  return number;
}

size_t order_watch::keep(int step, std::function<bool()> may_keep,
                         std::function<bool(int chunk)> takes) {
  size_t number = 0;
  for (const auto& op : policy_.keep()) {
    effect e;
    if (op.what == chunk_act::keep) {
      e.first = [this] { keeping_ = true; };
      e.second = [this, step, may_keep, takes] {
        keeping_ = false;
        const bool gets = may_keep();
        for (int chunk = 0; chunk < policy_.chunks(); ++chunk)
          if (on_disk(chunk) && (!takes || takes(chunk))) keep_chunk(chunk, step, gets);
      };
    }
    number = enqueue(op, std::move(e));
  }
  return number;
}

void order_watch::keep_chunk(int chunk, int step, bool gets) {
  auto& c = at(chunk);
  for (const int of : c.own.groups) check(of == step, "a checkpoint takes another state");
  if (c.versions.kept()) {  // not updated since: it is copied
    check(is_read_by_nobody(c.own), "a file is left while it is read");
    c.next.groups = c.own.groups;
    c.next.has_moments = c.own.has_moments;
    take_over(chunk);
  }
  if (!gets) return;
  c.versions.keep();
  c.own.of_checkpoint = true;
}

// -- while nothing is under way -------------------------------------------------------------------

void order_watch::set_state(int step) {
  policy_.all_set_anew();
  for (int chunk = 0; chunk < policy_.chunks(); ++chunk) {
    auto& c = at(chunk);
    std::fill(c.in_memory.begin(), c.in_memory.end(), step);
    if (!on_disk(chunk)) continue;
    c.gathered = !gathers_;
    policy_.masters_set(chunk);
    if (step > 0) policy_.moments_set(chunk);
    if (c.versions.kept()) take_over(chunk);
    std::fill(c.own.groups.begin(), c.own.groups.end(), step);
    std::fill(c.own.has_moments.begin(), c.own.has_moments.end(), step > 0);
  }
}

void order_watch::check_quiet(int step) {
  for (int chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (!on_disk(chunk)) continue;
    const auto& own = at(chunk).own;
    for (const int of : own.groups) check(of == step, "a chunk is not of the last step");
    check(is_read_by_nobody(own), "somebody reads for ever");
  }
  for (const auto& s : slots_)
    check(s.what == slot_model::holds::nothing, "a slot is not given back");
}

void order_watch::check_gradients_taken() {
  for (const auto& c : chunks_)
    check(c.passes_in_file == none, "a gradient is left on disk behind its update");
}

}  // namespace troupe::gpu

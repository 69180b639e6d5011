// A ladder of plans, from the least to the most memory: the last one that fits is taken.
#include "gpu/swap/residency_plan.hpp"

#include <algorithm>
#include <vector>

#include "gpu/store/store.hpp"
#include "gpu/swap/chunk_places.hpp"

namespace troupe::gpu {

namespace {

/// Groups on their way: one is read, one updated, one written.
constexpr int least_groups = 3;
/// More than that only evens out what disks do now and then, but for the ends' (RSP-3).
constexpr int full_groups = 8;
/// Weights, or gradients, of layers in memory at once: one is used while the next is filled.
constexpr int frames = 2;

/// Whether there is known room for what the stage, with its residency, has on disk (RSP-5).
bool has_drive_room(const model_config& model, const stage_shape& shape,
                    const residency_budget& budget) {
  if (budget.folder_drives.empty()) return plan_stage(model, shape).on_disk <= budget.disk_bytes;
  auto left = budget.drive_bytes;
  const auto folders = bytes_of_places(model, shape, budget.folder_drives.size());
  for (size_t i = 0; i < folders.size(); ++i) {
    auto& of_drive = left[budget.folder_drives[i]];
    if (folders[i].files > of_drive) return false;
    of_drive -= folders[i].files;
  }
  return true;
}

class ladder {
 public:
  ladder(const model_config& model, const stage_shape& shape, const residency_budget& budget)
      : model_(model), shape_(shape), budget_(budget) {
    for (const auto& chunk : stage_chunks(model, shape)) {
      layers_.push_back(chunk.layer >= 0);
      elements_.push_back(chunk.count);
    }
    // Over several passes gradients add up, and nothing of them may be given away meanwhile.
    adds_up_ = budget.micro_batches > 1 && !shape.by_layer;
    holds_ = budget.clips && budget.clip == clip_way::hold;
  }

  residency least() const {
    auto r = least_frames();
    if (!adds_up_ && !holds_) return r;
    const auto held = with(r, hold_all);
    r.gradients_on_disk = true;
    const auto on_disk = needs(r), in_memory = needs(held);
    // A few small layers' gradients are less than what brings them; of two memories the device may
    // have room for them where the host has none for their twins (RSP-4).
    const bool lacks_twins = in_memory.device_bytes <= budget_.bytes && !fits(r);
    return lacks_twins || in_memory.device_bytes <= on_disk.device_bytes ? held : r;
  }

  memory_split needs(const residency& r) const {
    stage_shape with = shape_;
    with.where = r;
    return needs_of(model_, with, budget_);
  }
  bool fits(const residency& r) const {
    const auto both = needs(r);
    return both.device_bytes <= budget_.bytes &&
           (!budget_.host_bytes || both.host_bytes <= *budget_.host_bytes);
  }

  residency chosen() const { return read_ahead(climb()); }

 private:
  residency least_frames() const {
    residency r;
    r.group_elements = residency::usual_group_elements;
    r.groups_in_memory = least_groups;
    r.derives_weights = shape_.compute != dtype::f32 && budget_.weights == weights_choice::derived;
    int number = 0;
    for (const bool layer : layers_) {
      chunk_residency c;
      c.state_on_disk = true;
      if (layer) {
        c.weight_frame = number % frames;
        c.grad_frame = number % frames;
        ++number;
      }
      r.chunks.push_back(c);
    }
    return r;
  }

  static void hold_all(residency& r) {
    r.gradients_on_disk = false;
    for (auto& c : r.chunks) c.grad_frame = -1;
  }

  /// Gradients that are on disk, as few as fit.
  residency climb_on_disk(residency best) const {
    for (size_t i = layers_.size(); i-- > 0;) {
      const auto held = with(best, [i](residency& r) { r.chunks[i].grad_frame = -1; });
      if (!fits(held)) break;
      best = held;
    }
    return best;
  }

  static uint64_t bytes_of(const memory_split& needs) {
    return needs.device_bytes + needs.host_bytes;
  }

  /// RSP-2: each rung keeps what the ones below it have, and comes behind all of them.
  residency climb() const {
    residency best = least();
    if (best.gradients_on_disk) {
      const auto held = with(best, hold_all);
      if (!fits(held)) return climb_on_disk(std::move(best));
      best = held;
    }
    // Of the groups and the gradients what takes less first: of small models these are as nothing.
    bool wants_groups = true, wants_held = budget_.clips && budget_.clip == clip_way::automatic;
    while (wants_groups || wants_held) {
      const auto more_groups = with(best, [](residency& r) { r.groups_in_memory = full_groups; });
      const auto held = with(best, hold_all);
      const bool groups_next =
          wants_groups && (!wants_held || bytes_of(needs(more_groups)) <= bytes_of(needs(held)));
      const auto& next = groups_next ? more_groups : held;
      if (!fits(next)) return with_versions(best);
      best = next;
      (groups_next ? wants_groups : wants_held) = false;
    }
    for (size_t i = layers_.size(); i-- > 0;) {
      const auto cached = with(best, [i](residency& r) { r.chunks[i].weight_frame = -1; });
      if (!fits(cached)) return with_versions(best);
      best = cached;
    }
    if (const auto two = with_versions(best); two.speculates) return two;  // SWP-9
    return with_state(std::move(best));
  }

  /// RSP-6. A table that has no room leaves its memory to layers, which take more of it for each
  /// byte that they move less (RSP-2).
  residency with_state(residency best) const {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const auto whole = with(best, [i](residency& r) { r.chunks[i] = {}; });
      if (fits(whole)) {
        best = whole;
      } else if (layers_[i]) {
        return best;
      }
    }
    return best.any_on_disk() ? best : residency{};
  }

  /// RSP-3.
  residency read_ahead(residency r) const {
    if (!r.any_on_disk()) return r;
    const auto more = with(r, [](residency& w) { ++w.groups_in_memory; });
    const auto used = needs(r), next = needs(more);
    auto fit = slots_in(budget_.bytes, used.device_bytes, next.device_bytes);
    if (budget_.host_bytes)
      fit = std::min(fit, slots_in(*budget_.host_bytes, used.host_bytes, next.host_bytes));
    const int useful = groups_ahead(r);
    for (uint64_t i = 0; i < fit && r.groups_in_memory < useful; ++i) ++r.groups_in_memory;
    return r;
  }

  /// More slots that a memory has room for, of which one more takes `next`.
  static uint64_t slots_in(uint64_t budget, uint64_t used, uint64_t next) {
    return (budget - std::min(budget, used)) / (next - used);
  }

  int groups_ahead(const residency& r) const {
    int out = full_groups;
    for (size_t c = 0; c < layers_.size(); ++c)
      if (!layers_[c] && r.chunks[c].state_on_disk)
        out += swap_layout(slice_of(elements_[c], shape_.replica), r, shape_.compute).groups();
    return out;
  }

  /// Where gradients are clipped and not kept: with a second version, if one is wanted and there is
  /// room; also in the host's memory, for twins of all weights, with fewer groups on their way if
  /// need be.
  residency with_versions(residency r) const {
    if (!budget_.clips || keeps_gradients(r) || r.gradients_on_disk) return r;
    if (budget_.clip == clip_way::twice) return r;
    r.speculates = true;
    stage_shape with = shape_;
    with.where = r;
    r.speculates = budget_.clip == clip_way::speculate || has_drive_room(model_, with, budget_);
    if (!r.speculates || fits(r)) return r;
    auto narrow = r;
    narrow.groups_in_memory = least_groups;
    if (fits(narrow)) return narrow;
    r.speculates = false;
    return r;
  }

  template <class F>
  static residency with(residency r, F change) {
    change(r);
    return r;
  }

  const model_config& model_;
  const stage_shape& shape_;
  const residency_budget& budget_;
  std::vector<bool> layers_;       ///< by chunk: whether it is one
  std::vector<int64_t> elements_;  ///< by chunk
  bool adds_up_ = false, holds_ = false;
};

}  // namespace

namespace {

result<residency> plan_memory(const model_config& model, const stage_shape& shape,
                              const residency_budget& budget) {
  const ladder all(model, shape, budget);
  if (all.fits({})) return residency{};
  const auto where = all.least();
  if (all.fits(where)) return all.chosen();
  const auto least = all.needs(where);
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  if (least.device_bytes <= budget.bytes)
    return twins_too_large(mib(*budget.host_bytes), mib(least.host_bytes));
  stage_shape with = shape;
  with.where = where;
  const auto plan = plan_stage(model, with);
  const auto& kind = budget.host_bytes ? device_budget_too_small : budget_too_small;
  return kind(mib(budget.bytes), mib(least.device_bytes),
              mib(plan.activations_per_slot * plan.slots + plan.workspace));
}

/// Whether its steps make their passes twice for want of a second version.
bool lacks_version(const residency& where, const residency_budget& budget) {
  return budget.clips && budget.clip != clip_way::twice && !where.speculates &&
         !where.gradients_on_disk && !keeps_gradients(where);
}

/// With a second version, of which all is on a drive.
residency with_second_version(residency where) {
  where.speculates = true;
  for (auto& c : where.chunks) c.state_on_disk = true;
  return where;
}

}  // namespace

result<residency> plan_residency(const model_config& model, const stage_shape& shape,
                                 const residency_budget& budget) {
  auto planned = plan_memory(model, shape, budget);
  const bool open = budget.weights == weights_choice::automatic && shape.compute != dtype::f32;
  const bool known = budget.disk_bytes > 0 || !budget.folder_drives.empty();
  if (!planned || !planned->any_on_disk() || !open || !known) return planned;
  const auto has_room = [&](const residency& where) {
    stage_shape with = shape;
    with.where = where;
    return has_drive_room(model, with, budget);
  };
  const bool fits = has_room(*planned);
  // One that memory has no room for, and the drive has, is no reason (RSP-5).
  const bool wants = lacks_version(*planned, budget) && !has_room(with_second_version(*planned));
  if (fits && !wants) return planned;
  auto without = budget;
  without.weights = weights_choice::derived;
  auto derived = plan_memory(model, shape, without);
  const bool enough = derived && has_room(*derived) && (!fits || derived->speculates);
  return enough ? derived : planned;  // RSP-5
}

residency least_residency(const model_config& model, const stage_shape& shape,
                          const residency_budget& budget) {
  return ladder(model, shape, budget).least();
}

memory_split needs_of(const model_config& model, const stage_shape& shape,
                      const residency_budget& budget) {
  if (budget.host_bytes) return split_of(model, shape);
  return {plan_stage(model, shape).total(), 0};
}

bool keeps_gradients(const residency& where) {
  return std::all_of(where.chunks.begin(), where.chunks.end(),
                     [](const chunk_residency& c) { return c.grad_frame < 0; });
}

}  // namespace troupe::gpu

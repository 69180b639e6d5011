// A walk over the chunks, two steps long: the second is as all that follow.
#include "gpu/swap/step_traffic.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "gpu/model/spill_layout.hpp"

namespace troupe::gpu {

namespace {

class walk {
 public:
  walk(const model_config& model, const stage_shape& shape, const residency_budget& budget)
      : shape_(shape),
        order_(update_order_of(shape.where, budget.clips)),
        visits_(shape.by_layer ? 1 : budget.micro_batches),
        measures_(budget.measures),
        verifies_(budget.verifies) {
    for (const auto& chunk : stage_chunks(model, shape)) {
      const auto slice = slice_of(chunk.count, shape.replica);
      files_.push_back(swap_layout(slice, shape.where, shape.compute));
      gradients_.emplace_back(slice, files_.back());
      const auto whole = static_cast<uint64_t>(slice.whole);
      weight_bytes_.push_back(whole * size_of(shape.compute));
      if (shape.replica.ranks > 1) gradient_bytes_ += whole * sizeof(float);
      layers_.push_back(chunk.layer >= 0);
      layer_of_.push_back(chunk.layer < 0 ? -1 : static_cast<int>(chunk.layer - shape.first_layer));
    }
    if (spill_.records() > 0)
      record_bytes_ =
          plan_stage(model, shape).spill_bytes / static_cast<uint64_t>(spill_.records());
  }

  step_traffic step() {
    out_ = {};
    if (order_ == update_order::twice) {
      passes(false);
      out_.passes = 2;
    }
    passes(order_ != update_order::behind_backward);
    if (order_ == update_order::behind_backward)
      for (size_t c = 0; c < files_.size(); ++c) update(c);
    for (size_t c = 0; c < files_.size(); ++c)
      if (!shares_frame(c)) gather(c);
    out_.summed_bytes = static_cast<uint64_t>(out_.passes) * gradient_bytes_;
    return out_;
  }

 private:
  bool on_disk(size_t c) const { return shape_.where.of(static_cast<int>(c)).state_on_disk; }

  /// As many forward passes ahead of backward as the stage has slots for ("1F1B").
  void passes(bool updates) {
    int64_t ahead = 0, begun = 0, done = 0;
    while (done < visits_) {
      const bool forward = begun < visits_ && ahead < std::max<int64_t>(1, shape_.slots);
      if (forward) {
        for (size_t c = 0; c < files_.size(); ++c) {
          visit(c, out_.forward);
          spill(c, begun % slots());
        }
        ++begun, ++ahead;
        continue;
      }
      for (size_t c = files_.size(); c-- > 0;) {
        visit(c, out_.backward);
        fetch(c, done % slots());
        add_to_gradient(c, done, updates);
        if (updates && done + 1 == visits_) update(c);
      }
      ++done, --ahead;
    }
  }

  /// SWP-17: what earlier passes have made comes back, what this one has made goes there, whole for
  /// an update behind backward, unless one takes it now.
  void add_to_gradient(size_t c, int64_t done, bool updates) {
    if (!gradient_on_disk(c)) return;
    const bool last = done + 1 == visits_;
    if (done > 0) read(out_.backward, gradients_[c].whole_bytes());
    if (!last) return write_gradient(gradients_[c].whole_bytes());
    if (!updates) write_gradient(gradients_[c].slice_bytes());
  }

  bool gradient_on_disk(size_t c) const {
    return shape_.where.gradient_on_disk(static_cast<int>(c));
  }

  void write_gradient(uint64_t bytes) {
    out_.backward.written_bytes += bytes;
    if (verifies_) out_.backward.summed_bytes += bytes;
  }

  int64_t slots() const { return std::max<int64_t>(1, shape_.slots); }

  /// The records of a chunk's layer in one visit: by layer those of all slots.
  std::vector<int> records_of(size_t c, int64_t slot) const {
    const int layer = layer_of_[c];
    std::vector<int> out;
    if (layer < 0 || !spill_.spills(layer)) return out;
    if (!shape_.by_layer) return {spill_.record_of(static_cast<int>(slot), layer)};
    for (int s = 0; s < slots(); ++s) out.push_back(spill_.record_of(s, layer));
    return out;
  }

  /// The last slot's first (SM-6).
  void spill(size_t c, int64_t slot) {
    const auto records = records_of(c, slot);
    for (auto r = records.rbegin(); r != records.rend(); ++r) {
      in_frame_[spill_.frame_of(*r)] = *r;
      out_.forward.written_bytes += record_bytes_;
      if (verifies_) out_.forward.summed_bytes += record_bytes_;
    }
  }

  /// SPO-3: what is in its frame still is not read.
  void fetch(size_t c, int64_t slot) {
    for (const int r : records_of(c, slot)) {
      auto& there = in_frame_[spill_.frame_of(r)];
      if (std::exchange(there, -1) != r) read(out_.backward, record_bytes_);
    }
  }

  void read(phase_traffic& phase, uint64_t bytes) const {
    phase.read_bytes += bytes;
    if (verifies_) phase.summed_bytes += bytes;
  }

  bool shares_frame(size_t c) const {
    return shape_.where.of(static_cast<int>(c)).weight_frame >= 0 && layers_[c];
  }

  void gather(size_t c) {
    if (shape_.replica.ranks > 1) out_.gathered_bytes += weight_bytes_[c];
  }

  /// SWP-2: a frame that has the chunk's weights still is not filled again.
  void visit(size_t c, phase_traffic& phase) {
    if (!shares_frame(c)) return;
    const int frame = shape_.where.of(static_cast<int>(c)).weight_frame;
    const auto [it, fresh] = occupant_.try_emplace(frame, c);
    if (!fresh && it->second == c) return;
    it->second = c;
    read(phase, weights_read_bytes(files_[c]));
    gather(c);
  }

  void update(size_t c) {
    if (!on_disk(c)) return;
    const auto& file = files_[c];
    const bool shares = shape_.replica.ranks > 1;  // what they measure
    const uint64_t readings = measures_ && (shares || file.groups() > 1) ? 2 : 1;  // CHP-8
    read(out_.backward, readings * file.state_bytes());
    if (gradient_on_disk(c) && order_ == update_order::behind_backward)
      read(out_.backward, readings * gradients_[c].slice_bytes());
    const auto written = file.state_bytes() + file.all_weights_bytes();
    out_.backward.written_bytes += written;
    out_.backward.summed_bytes += written;
    std::erase_if(occupant_, [c](const auto& frame) { return frame.second == c; });
  }

  const stage_shape& shape_;
  update_order order_;
  int64_t visits_;  ///< of a chunk in each direction: by layer one for all micro-batches
  bool measures_;
  bool verifies_;
  std::vector<io::chunk_file> files_;
  std::vector<gradient_file> gradients_;
  std::vector<uint64_t> weight_bytes_;  ///< of all replicas' slices
  uint64_t gradient_bytes_ = 0;         ///< the same, of all chunks; 0: of one replica
  std::vector<bool> layers_;
  std::vector<int> layer_of_;  ///< of the stage, by chunk; -1: none
  const spill_layout spill_{shape_};
  uint64_t record_bytes_ = 0;       ///< of one layer's activations in one slot
  std::map<int, int> in_frame_;     ///< record by frame, for backward; -1: none
  std::map<int, size_t> occupant_;  ///< chunk by frame
  step_traffic out_;
};

}  // namespace

std::string_view to_string(update_order order) {
  return order == update_order::behind_backward  ? "hold"
         : order == update_order::under_backward ? "none"
         : order == update_order::speculate      ? "speculate"
                                                 : "twice";
}

update_order update_order_of(const residency& where, bool clips) {
  const bool kept = where.gradients_on_disk || keeps_gradients(where);
  if (!where.any_on_disk() || (clips && kept)) return update_order::behind_backward;
  if (!clips) return update_order::under_backward;
  return where.speculates ? update_order::speculate : update_order::twice;
}

step_traffic traffic_of_step(const model_config& model, const stage_shape& shape,
                             const residency_budget& budget) {
  walk steps(model, shape, budget);
  steps.step();
  return steps.step();
}

double layer_flops(const model_config& model, int64_t seq) {
  auto more = model;
  ++more.layers;
  return more.flops_per_token(seq) - model.flops_per_token(seq);
}

/// recompute_layer(): all but the last product, and where x + attention is kept not the one that
/// makes it, either.
double again_flops(const model_config& model, const stage_shape& shape) {
  const auto product = [&](int64_t width) {
    return 2 * static_cast<double>(width) * static_cast<double>(model.hidden);
  };
  const double all = layer_flops(model, shape.seq) / 3 - product(model.ffn);
  const bool has_middle = model.block == block_form::sequential;
  double out = 0;
  for (size_t i = 0; i < static_cast<size_t>(shape.layers()); ++i) {
    const auto kept = shape.activations_of(i);
    if (!computes_again(kept)) continue;
    out += all;
    if (kept == activation_choice::half && has_middle) out -= product(model.attention_width());
  }
  return out;
}

step_work work_of_step(const step_traffic& traffic, double flops, double again, double updates) {
  const auto moves = [](const phase_traffic& t) {
    phase_work out;
    out.read_bytes = static_cast<double>(t.read_bytes);
    out.written_bytes = static_cast<double>(t.written_bytes);
    out.summed_bytes = static_cast<double>(t.summed_bytes);
    return out;
  };
  step_work out{moves(traffic.forward), moves(traffic.backward)};
  const auto passes = static_cast<double>(traffic.passes);
  out.forward.flops = passes * flops / 3;
  out.backward.flops = passes * (2 * flops / 3 + again);
  out.backward.updates = updates;
  return out;
}

}  // namespace troupe::gpu

// Operations become times, and decisions words.
#include "actors/train/spill_replan.hpp"

#include <utility>

#include <fmt/format.h>

#include "actors/train/memory_estimate.hpp"
#include "actors/train/swap_folder.hpp"

namespace troupe::train {

namespace {

bool reads_drive(pipeline_op kind) {
  using enum pipeline_op;
  return kind == read_weights || kind == read_state || kind == read_activation;
}

bool writes_drive(pipeline_op kind) {
  return kind == pipeline_op::write_chunk || kind == pipeline_op::write_activation;
}

/// Of all replicas' steps, by how many of the layers that spill, the first ones, compute again: as
/// if they shared a drive and its machine, which is what layers are chosen by (swap_forecast.hpp).
std::vector<gpu::step_work> work_by_layers(const engine_options& o) {
  auto shape = o.shape;
  const auto budget = steps_of(o);
  const double flops = step_flops(o);
  const double tokens = static_cast<double>(o.rows() * shape.seq);
  double parameters = 0;
  for (const auto& chunk : gpu::stage_chunks(o.model, shape))
    parameters += static_cast<double>(chunk.count);
  const int replicas = o.at.grid.data;
  std::vector<gpu::step_work> out;
  const auto add = [&] {
    const auto own = gpu::work_of_step(gpu::traffic_of_step(o.model, shape, budget), flops,
                                       gpu::again_flops(o.model, shape) * tokens,
                                       parameters / static_cast<double>(replicas));
    gpu::step_work all;
    for (int r = 0; r < replicas; ++r) {
      all.forward += own.forward;
      all.backward += own.backward;
    }
    out.push_back(all);
  };
  add();
  for (const int layer : o.shape.spilling()) {
    shape.activations[static_cast<size_t>(layer)] = gpu::activation_choice::recompute;
    add();
  }
  return out;
}

/// "layer 3 is", "layers 3 to 9 are".
std::string layers_are(int first, int last) {
  return first == last ? fmt::format("layer {} is", first)
                       : fmt::format("layers {} to {} are", first, last);
}

}  // namespace

void drive_clock::lane::begin(double now_ms) {
  if (under_way++ == 0) began_ms = now_ms;
}

void drive_clock::lane::end(double now_ms) {
  if (--under_way == 0) busy_ms += now_ms - began_ms;
}

double drive_clock::lane::seconds(double now_ms) const {
  return (busy_ms + (under_way > 0 ? now_ms - began_ms : 0)) / 1e3;
}

void drive_clock::began(pipeline_op kind, double now_ms) {
  const bool reads = reads_drive(kind);
  if (!reads && !writes_drive(kind)) return;
  std::lock_guard lock(mutex_);
  (reads ? read_ : write_).begin(now_ms);
  either_.begin(now_ms);
}

void drive_clock::ended(pipeline_op kind, double now_ms, uint64_t bytes) {
  const bool reads = reads_drive(kind);
  if (!reads && !writes_drive(kind)) return;
  std::lock_guard lock(mutex_);
  auto& own = reads ? read_ : write_;
  own.end(now_ms);
  own.bytes += static_cast<double>(bytes);
  either_.end(now_ms);
}

void drive_clock::restart(double now_ms) {
  std::lock_guard lock(mutex_);
  for (auto* l : {&read_, &write_, &either_}) {
    l->busy_ms = l->bytes = 0;
    l->began_ms = now_ms;
  }
  started_ms_ = now_ms;
}

/// SPD-1
gpu::step_moves drive_clock::since(double now_ms) const {
  std::lock_guard lock(mutex_);
  gpu::step_moves out;
  out.read_bytes = read_.bytes;
  out.written_bytes = write_.bytes;
  out.read_s = read_.seconds(now_ms);
  out.write_s = write_.seconds(now_ms);
  out.step_s = (now_ms - started_ms_) / 1e3;
  out.busy_s = either_.seconds(now_ms);
  return out;
}

std::unique_ptr<spill_replan> spill_replan::make(const engine_options& options) {
  const auto& rates = options.swap_rates;
  const bool known = rates && rates->flops_s > 0 && rates->read_bytes_s > 0 &&
                     rates->write_bytes_s > 0 && rates->updates_s > 0;
  if (!known || options.at.grid.pipeline != 1 || options.shape.spilling().empty()) return nullptr;
  return std::unique_ptr<spill_replan>(new spill_replan(options, *rates));
}

spill_replan::spill_replan(const engine_options& options, const gpu::machine_rates& rates)
    : spilling_(options.shape.spilling()), rates_(rates), policy_(rates, work_by_layers(options)) {}

void spill_replan::mixes(bool at_once) {
  policy_.set_duplex(at_once ? rates_.duplex : 0);
}

std::optional<std::string> spill_replan::stepped(const gpu::step_moves& moved) {
  const auto news = policy_.stepped(moved);
  if (!news) return std::nullopt;
  again_ = news->now;
  return text_of(*news);
}

int spill_replan::spills_from() const {
  return again() == 0 ? 0 : spilling_[static_cast<size_t>(again() - 1)] + 1;
}

int spill_replan::again() const {
  return again_;
}

std::string spill_replan::text_of(const gpu::replan_policy::decision& d) const {
  using enum gpu::replan_policy::cause;
  std::string out;
  switch (d.why) {
    case rates:
      out = fmt::format(
          "swap: the drive keeps {:.3g} GB/s of reads and {:.3g} GB/s of writes, calibrated were "
          "{:.3g} and {:.3g}",
          d.kept.read_bytes_s / 1e9, d.kept.write_bytes_s / 1e9, rates_.read_bytes_s / 1e9,
          rates_.write_bytes_s / 1e9);
      break;
    case slower:
      out = "swap: steps are no shorter by recomputing";
      break;
    case trial:
      out = "swap: what the drive keeps is not seen while it does not bound steps, and is tried";
      break;
  }
  const auto first = spilling_.front(), last = spilling_.back();
  if (d.now == 0) return out + fmt::format(": {} swapped again", layers_are(first, last));
  out += fmt::format(": {} recomputed now instead of swapped",
                     layers_are(first, spilling_[static_cast<size_t>(d.now - 1)]));
  if (d.now < static_cast<int>(spilling_.size()))
    out += fmt::format(", {} swapped", layers_are(spilling_[static_cast<size_t>(d.now)], last));
  return out;
}

}  // namespace troupe::train

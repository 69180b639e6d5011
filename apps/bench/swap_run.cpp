// Engines side by side, steps in turn.
#include "apps/bench/swap_run.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "actors/base/hardware.hpp"
#include "actors/train/layer_paces.hpp"
#include "apps/bench/swap_trainer.hpp"
#include "apps/swap/rates.hpp"
#include "gpu/back_end.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/disk/calibrate.hpp"

namespace troupe::apps::swap_bench {

namespace {

result<gpu::machine_rates> rates_of_disk(const std::filesystem::path& dir) {
  io::calibrate_options how;
  how.budget_bytes = uint64_t{192} << 20;
  how.chunk_and_depth = {{size_t{4} << 20, 8}};
  TROUPE_TRY(disk, io::measure_disk(dir, how));
  gpu::machine_rates out;
  out.read_bytes_s = disk.best.read_bytes_s;
  out.write_bytes_s = disk.best.write_bytes_s;
  out.duplex = disk.best.duplex;
  return out;
}

/// Of its one worker, on this machine.
train::worker_cores cores_of(const train::engine_options& o) {
  return {1, o.threads, static_cast<double>(cluster::hardware_facts().cores)};
}

/// Rates of the drive are those around each round; those of processors, which what else the machine
/// does makes lower only, are the best that any round began with.
class rounds {
 public:
  explicit rounds(const swap_plan& plan) { out_.plan = plan; }

  result<swap_measurement> measure() {
    if (const auto counts = kernel_counts_now(); !counts)
      out_.not_compared = counts.error().message;
    auto o = options_of(out_.plan);
    TROUPE_TRY(device, gpu::open_device(o.device));
    o.threads = device->facts().threads;
    TROUPE_TRY(speed, swap::measure_paces(o));
    const auto& asked = out_.plan.ways;
    if (std::find(asked.begin(), asked.end(), way::planned) != asked.end()) {
      TROUPE_TRY(rates, rates_of_disk(out_.plan.dir));
      out_.plan.rates = rates;
      train::set_paces(out_.plan.rates, speed, cores_of(o));
    }
    TROUPE_CHECK(make_trainers());
    std::vector<gpu::machine_rates> disks;
    for (int round = 0; round < out_.plan.rounds; ++round) {
      TROUPE_TRY(again, swap::measure_paces(o));
      speed.flops_s = std::max(speed.flops_s, again.flops_s);
      speed.updates_s = std::max(speed.updates_s, again.updates_s);
      speed.sum_bytes_s = std::max(speed.sum_bytes_s, again.sum_bytes_s);
      TROUPE_TRY(before, rates_of_disk(out_.plan.dir));
      TROUPE_TRY(seconds, one_round());
      TROUPE_TRY(after, rates_of_disk(out_.plan.dir));
      disks.push_back(before);
      disks.push_back(after);
      out_.rounds_apart.push_back(apart(before, after));
      if (!is_steady(out_.rounds_apart.back())) {  // SWB-2
        ++out_.discarded;
        continue;
      }
      for (size_t i = 0; i < seconds.size(); ++i)
        if (seconds[i] > 0) out_.results[i].seconds.push_back(seconds[i]);
    }
    TROUPE_CHECK(compare());
    TROUPE_CHECK(compare_with_kernel());
    const auto middle = [&](double gpu::machine_rates::*of) {
      std::vector<double> all;
      for (const auto& d : disks) all.push_back(d.*of);
      return median(std::move(all));
    };
    out_.rates.read_bytes_s = middle(&gpu::machine_rates::read_bytes_s);
    out_.rates.write_bytes_s = middle(&gpu::machine_rates::write_bytes_s);
    out_.rates.duplex = middle(&gpu::machine_rates::duplex);
    train::set_paces(out_.rates, speed, cores_of(o));
    for (size_t i = 0; i < out_.results.size(); ++i) add_limit(i);
    return std::move(out_);
  }

 private:
  status make_trainers() {
    std::optional<error> too_small;
    for (const auto w : out_.plan.ways) {
      auto& r = out_.results.emplace_back();
      r.of = w;
      if (w == way::speculate && out_.plan.clip_norm == 0) {
        r.skipped = "nothing is clipped (--clip)";
        trainers_.push_back(nullptr);
        continue;
      }
      auto made = trainer::make(w, out_.plan);
      const bool small = !made && made.error().is(gpu::budget_too_small);
      const bool left_out = (small || (!made && made.error().is(nothing_spills))) && is_swept(w);
      if (!made && made.error().code != errc::no_memory && !left_out) return made.error();
      if (!made) r.skipped = made.error().message;
      if (small && !too_small) too_small = made.error();
      trainers_.push_back(made ? std::move(*made) : nullptr);
      if (!made) continue;
      auto& t = *trainers_.back();
      TROUPE_CHECK(stopped());
      TROUPE_TRY(first, t.run(1));  // whose moments are not read
      static_cast<void>(first);
      out_.parameters = t.parameters();
      r.kept = kept_by(t.options().shape);
      r.memory_bytes = t.memory_bytes();
      r.disk_bytes = t.disk_bytes();
      if (out_.not_compared.empty()) out_.not_compared = t.cached();
    }
    const bool any =
        std::any_of(trainers_.begin(), trainers_.end(), [](const auto& t) { return t != nullptr; });
    if (!any && too_small) return *too_small;
    return {};
  }

  status stopped() const {
    if (out_.plan.stop && *out_.plan.stop) return error{errc::cancelled, "interrupted"};
    return {};
  }

  result<std::vector<double>> one_round() {
    std::vector<double> out(trainers_.size(), 0);
    for (size_t i = 0; i < trainers_.size(); ++i) {
      if (!trainers_[i]) continue;
      TROUPE_CHECK(stopped());
      TROUPE_TRY(took, run_counted(i));
      out[i] = took;
    }
    return out;
  }

  /// Steps of a way, with what they have moved (SWB-3).
  result<double> run_counted(size_t i) {
    auto& t = *trainers_[i];
    auto& r = out_.results[i];
    const auto before = t.moved();
    const auto seen_before = kernel_counts_now();
    TROUPE_TRY(took, t.run(out_.plan.steps));
    const auto after = t.moved();
    const auto seen = kernel_counts_now();
    const auto steps = static_cast<uint64_t>(out_.plan.steps);
    r.read_bytes = (after.read - before.read) / steps;
    r.written_bytes = (after.written - before.written) / steps;
    r.redone_steps = t.redone_steps();
    r.counted.engine_read_bytes += after.read - before.read;
    r.counted.engine_written_bytes += after.written - before.written;
    if (!seen_before || !seen) return took;
    r.counted.kernel_read_bytes += seen->read_bytes - seen_before->read_bytes;
    r.counted.kernel_written_bytes += seen->written_bytes - seen_before->written_bytes;
    return took;
  }

  /// SWB-3.
  status compare_with_kernel() const {
    if (!out_.not_compared.empty()) return {};
    for (const auto& r : out_.results)
      if (r.skipped.empty() && r.of != way::inmem)
        TROUPE_CHECK(compare_counts(to_string(r.of), r.counted));
    return {};
  }

  /// SWB-1.
  status compare() {
    std::vector<end_state> ends;
    for (size_t i = 0; i < trainers_.size(); ++i) {
      if (!trainers_[i]) continue;
      TROUPE_TRY(hash, trainers_[i]->state_hash());
      ends.push_back({out_.results[i].of, trainers_[i]->loss(), hash});
    }
    if (ends.empty()) return {};
    out_.loss = ends.front().loss;
    out_.state_hash = ends.front().hash;
    return compare_ends(ends);
  }

  void add_limit(size_t i) {
    auto& r = out_.results[i];
    if (!trainers_[i]) return;
    const auto work = work_of(r.of, trainers_[i]->options());
    r.expected_s = gpu::limit_of(work.forward, out_.rates).seconds +
                   gpu::limit_of(work.backward, out_.rates).seconds;
    const auto whole = work.whole();
    const auto limit = gpu::limit_of(whole, out_.rates);
    r.compute_s = out_.rates.flops_s > 0 ? whole.flops / out_.rates.flops_s : 0;
    r.disk_s = gpu::disk_seconds(whole.read_bytes, whole.written_bytes, out_.rates);
    r.processors_s = gpu::seconds_of_processors(whole, out_.rates);
    r.limit_s = limit.seconds;
    r.least_s = gpu::limit_of(least_of(trainers_[i]->options()), out_.rates).seconds;
    r.part = limit.part;
  }

  swap_measurement out_;
  std::vector<std::unique_ptr<trainer>> trainers_;  ///< by result; null: skipped
};

}  // namespace

std::string_view to_string(way w) {
  constexpr std::array<std::string_view, ways> names{
      "inmem",    "sync",   "phased",  "behind",    "ours", "speculate", "noahead", "turns",
      "noverify", "saving", "derived", "recompute", "half", "keep",      "spill",   "planned"};
  return names[static_cast<size_t>(w)];
}

status compare_ends(const std::vector<end_state>& ends) {
  for (const auto& e : ends) {
    const auto& first = ends.front();
    if (e.loss != first.loss || e.hash != first.hash)
      return ways_differ(to_string(e.of), e.loss, e.hash, first.loss, first.hash);
  }
  return {};
}

const way_result* find(const swap_measurement& m, way w) {
  for (const auto& r : m.results)
    if (r.of == w && !r.seconds.empty()) return &r;
  return nullptr;
}

result<swap_measurement> measure_swap(const swap_plan& plan) {
  return rounds(plan).measure();
}

}  // namespace troupe::apps::swap_bench

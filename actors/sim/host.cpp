// Which engine a rank has, and what its meters show.
#include "actors/sim/host.hpp"

#include <fmt/format.h>

#include "actors/sim/clocked_engine.hpp"
#include "actors/sim/swapping.hpp"

namespace troupe::sim {

namespace {

/// What a simulated device draws is what its meter measures: nothing is modelled of a model.
class simulated_meters final : public gpu::meter_reader {
 public:
  simulated_meters(environment* room, int node, std::vector<uint32_t> ranks)
      : room_(room), node_(node), ranks_(std::move(ranks)) {}

  std::vector<gpu::metered> read(int64_t now_ns) override {
    std::vector<gpu::metered> out;
    if (room_->silent_meters[node_] > 0) return out;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const auto r = room_->draw_of(ranks_[i]).read(now_ns);
      out.push_back({fmt::format("gpu{}", i), gpu::metered_kind::accelerator, r.power_w,
                     room_->draw.limit_w, r.temperature_c, r.busy_percent});
    }
    if (ranks_.empty())  // a spare's device, which rests
      out.push_back({"gpu0", gpu::metered_kind::accelerator, room_->draw.idle_w,
                     room_->draw.limit_w, room_->draw.room_c, 0.0});
    return out;
  }

 private:
  environment* room_;
  int node_;
  std::vector<uint32_t> ranks_;
};

class simulated_host final : public cluster::host {
 public:
  simulated_host(environment* room, int node, std::vector<uint32_t> ranks, std::string instance)
      : room_(room), node_(node), ranks_(std::move(ranks)), instance_(std::move(instance)) {}

  fbs::HardwareFactsT facts() override {
    fbs::HardwareFactsT f;
    f.hostname = fmt::format("host{}", node_);
    f.boot_id = fmt::format("{}", node_);
    f.cpu_model = "simulated";
    f.cores = 8;
    f.memory_bytes = 1 << 30;
    f.instance_id = instance_;
    return f;
  }
  io::file_system& files() override { return room_->files.of(node_).files(); }
  void measure_layers(const cluster::layers_to_measure&,
                      std::function<void(const result<double>&)> told) override {
    constexpr double flops_s = 1e9;
    told(flops_s / room_->times.slowness_of(node_));
  }
  cluster::process_usage usage() override { return {1 << 20, 1}; }
  std::vector<std::unique_ptr<gpu::meter_reader>> open_meters(const gpu::power_model&) override {
    std::vector<std::unique_ptr<gpu::meter_reader>> out;
    out.push_back(std::make_unique<simulated_meters>(room_, node_, ranks_));
    return out;
  }
  result<std::unique_ptr<train::engine>> make_engine(
      const train::engine_options& options) override {
    if (options.shape.where.any_on_disk())
      return std::unique_ptr<train::engine>(
          std::make_unique<swapping_engine>(room_, node_, options));
    if (options.clocks_operations)
      return std::unique_ptr<train::engine>(
          std::make_unique<clocked_engine>(room_, node_, options));
    return std::unique_ptr<train::engine>(std::make_unique<timed_engine>(room_, node_, options));
  }
  result<std::unique_ptr<train::swap_home>> open_swap(const train::swap_request& request) override {
    return room_->disks.open(node_, request);
  }

 private:
  environment* room_;
  int node_;
  std::vector<uint32_t> ranks_;
  std::string instance_;
};

}  // namespace

std::shared_ptr<cluster::host> make_host(environment* room, int node, std::vector<uint32_t> ranks,
                                         std::string instance) {
  return std::make_shared<simulated_host>(room, node, std::move(ranks), std::move(instance));
}

}  // namespace troupe::sim

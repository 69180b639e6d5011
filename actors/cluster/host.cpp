// The kernel's facts, the machine's meters, engines on its devices.
#include "actors/cluster/host.hpp"

#include <future>
#include <memory>
#include <utility>

#include "actors/base/defaults.hpp"
#include "actors/cluster/basp_gate.hpp"
#include "actors/cluster/measuring.hpp"
#include "actors/cluster/probing.hpp"
#include "actors/train/drilled_engine.hpp"
#include "actors/train/layer_paces.hpp"
#include "actors/train/rank_engine.hpp"
#include "actors/train/swap_folder.hpp"
#include "gpu/cuda.hpp"

namespace troupe::cluster {

namespace {

class machine_host final : public host {
 public:
  explicit machine_host(gpu::controls::control_place controls) : controls_(std::move(controls)) {}
  fbs::HardwareFactsT facts() override { return hardware_facts(); }
  process_usage usage() override { return usage_now(); }
  void measure_layers(const layers_to_measure& what,
                      std::function<void(const result<double>&)> told) override {
    measuring_ = measure_apart(
        [what] {
          return train::measure_layer_of(*what.job, what.device, what.threads, what.workers);
        },
        std::move(told));
  }
  void probe(const machine_probe& what, std::stop_token stop,
             std::function<void(const result<io::perf::hw_profile>&)> told) override {
    const auto found = std::make_shared<io::perf::hw_profile>();
    probing_ = measure_apart(
        [what, found, stop = std::move(stop)]() -> result<double> {
          machine_probing how;
          how.measures = what.depth != config::probe_depth::off;
          how.full = what.depth == config::probe_depth::full;
          how.patience = defaults::probe_patience;
          how.stop = stop;
          how.folder = what.folder;
          *found = probe_this_machine(how);
          return 1.0;
        },
        [found, told = std::move(told)](const result<double>& done) {
          if (done)
            told(std::move(*found));
          else
            told(done.error());
        });
  }
  gpu::processor_seconds processor_time() override {
    return {usage_now().cpu_seconds, gpu::machine_processor_s()};
  }
  std::optional<error> lost_device() override { return gpu::lost_cuda_device(); }
  std::vector<std::unique_ptr<gpu::meter_reader>> open_meters(
      const gpu::power_model& model) override {
    return gpu::open_machine_readers(model);
  }
  std::function<health::machine_sampler()> vitals_of(const config::job& job) override {
    return [folder = job.job.output, rules = job.health.log_rule, logs = logs_] {
      return health::sample_this_machine(folder, health::log_watch(rules, logs));
    };
  }
  health::examiner examiner_of(std::string folder) override {
    return health::examine_this_machine(std::move(folder), health::gpu_choice::opened);
  }
  result<std::unique_ptr<train::engine>> make_engine(const train::engine_options& asked) override {
    auto options = asked;
    options.controls = controls_;
    TROUPE_TRY(made, options.drills.empty() ? train::rank_engine::make(options)
                                            : train::drilled_engine::make(
                                                  options, train::process_edges(fall_silent)));
    return std::unique_ptr<train::engine>(std::move(made));
  }
  result<std::unique_ptr<train::swap_home>> open_swap(const train::swap_request& r) override {
    TROUPE_TRY(made, train::swap_folders::make(r));
    return std::unique_ptr<train::swap_home>(std::move(made));
  }
  std::shared_ptr<io::checkpoint::memory_copies> copies() override { return copies_; }

 private:
  gpu::controls::control_place controls_;
  std::future<void> measuring_, probing_;
  std::shared_ptr<io::checkpoint::memory_copies> copies_ =
      std::make_shared<io::checkpoint::memory_copies>();
  /// As they were when the process began: what they had by then is of the one before it.
  const std::vector<io::log_place> logs_ = io::own_logs();
};

}  // namespace

std::shared_ptr<host> this_host(gpu::controls::control_place controls) {
  return std::make_shared<machine_host>(std::move(controls));
}

}  // namespace troupe::cluster

// What a node stands on: the devices of its host, their meters, and facts. An edge of the program:
// a simulation has hosts of its own, everything above them is the same.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/base/hardware.hpp"
#include "actors/health/checkup.hpp"
#include "actors/health/machine_sampler.hpp"
#include "actors/train/engine.hpp"
#include "gpu/controls/groups.hpp"
#include "gpu/meters/readers.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"
#include "io/disk/file_system.hpp"
#include "io/perf/hw_profile.hpp"

namespace troupe::cluster {

/// Of what layers are measured.
struct layers_to_measure {
  std::shared_ptr<const config::job> job;
  std::string device;  ///< gpu::open_device's name of it
  int threads = 1;     ///< of each worker
  int workers = 1;     ///< at once
};

/// Of what a machine is probed.
struct machine_probe {
  config::probe_depth depth = config::probe_depth::quick;
  std::string folder = {};  ///< of the job's output: of its disk what is known already
};

class host : public train::engine_maker {
 public:
  /// For the handshake.
  virtual fbs::HardwareFactsT facts() = 0;
  /// Of this process.
  virtual process_usage usage() = 0;
  /// Tells FLOP per second of a layer's products, forward and backward, by the slowest of the
  /// workers. Returns at once; `told` is called once, from any thread, and must not wait. One at a
  /// time.
  virtual void measure_layers(const layers_to_measure& what,
                              std::function<void(const result<double>&)> told) {
    (void)what;
    told(error{errc::unavailable, "this host measures no layers"});
  }
  /// Tells what the machine is and does, or why nothing is known. Returns at once; `told` is called
  /// once, from any thread, and must not wait. Once `stop` is asked for nothing more is measured.
  virtual void probe(const machine_probe& what, std::stop_token stop,
                     std::function<void(const result<io::perf::hw_profile>&)> told) {
    (void)what;
    (void)stop;
    told(error{errc::unavailable, "this host is not probed"});
  }
  /// Called on the meter's thread.
  virtual gpu::processor_seconds processor_time() { return {}; }
  /// Why none of its devices can be used by this process any more; none where they can.
  virtual std::optional<error> lost_device() { return std::nullopt; }
  /// Blocks; called on the meter's thread. `model`: stands in where no meter says what the
  /// processors draw.
  virtual std::vector<std::unique_ptr<gpu::meter_reader>> open_meters(
      const gpu::power_model& model) = 0;
  /// Where its voter keeps what it has promised (actors/heads). Outlives the node.
  virtual io::file_system& files() { return io::local_files(); }
  /// What samples the machine: the disk of the job's folder, the logs by the job's rules. Called on
  /// the thread of whoever samples, which may block. Null: there is nothing to sample.
  virtual std::function<health::machine_sampler()> vitals_of(const config::job& job) {
    (void)job;
    return {};
  }
  /// What examines the machine; `folder`: whose disk. Called as the one above. Null: there is
  /// nothing to examine.
  virtual health::examiner examiner_of(std::string folder) {
    (void)folder;
    return {};
  }
};

/// The machine this process runs on. `controls`: the folders that keep what of the machine was
/// changed (gpu/controls); where they are empty nothing is.
std::shared_ptr<host> this_host(gpu::controls::control_place controls = {});

}  // namespace troupe::cluster

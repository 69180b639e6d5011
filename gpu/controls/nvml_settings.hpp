// The clock lock and the power limit of a GPU, through the driver's library.
//
// Why the record alone undoes them (setting_governor.hpp): a change outlives the process that made
// it and is everybody's who uses the machine.
//
// The library does not say to what clocks are locked. So "found" is that they are free: a lock that
// somebody else has made is not seen, and is gone when this one is undone.
//
// Invariants
//   NVS-1  A GPU that is in parts (MIG), or on which another process computes when the
//     job begins, is not changed. Where a machine is held, whoever computes there, MIG alone
//     keeps it from that.
//   NVS-2  A lock is in force when the clock is within it, by at.patience at the latest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/controls/setting_port.hpp"
#include "gpu/meters/nvml.hpp"

namespace troupe::gpu::controls {

class nvml_settings final : public setting_port {
 public:
  /// Errors: no_such_setting where there is no driver, or no such GPU.
  static result<std::unique_ptr<nvml_settings>> open(const control_place& at,
                                                     const setting_target& target);
  result<std::vector<machine_setting>> find(const std::vector<found_setting>& before) override;
  status write(const std::string& where, uint64_t value) override;
  result<uint64_t> read_back(const std::string& where, uint64_t written) override;
  unsigned others() const override;

 private:
  nvml_settings(control_place at, setting_target target,
                std::shared_ptr<const nvml::session> session, nvml::device_handle device)
      : at_(std::move(at)),
        target_(std::move(target)),
        session_(std::move(session)),
        device_(device) {}
  template <class Function, class... Values>
  status call(const char* name, Function* function, Values... values) const;
  status check_unshared() const;
  result<machine_setting> clocks();
  result<machine_setting> limit(const std::vector<found_setting>& before) const;
  result<uint64_t> locked_clock(uint64_t highest_mhz) const;

  const control_place at_;
  const setting_target target_;
  const std::shared_ptr<const nvml::session> session_;
  const nvml::device_handle device_;
  unsigned least_mhz_ = 0;  ///< once they are found
};

}  // namespace troupe::gpu::controls

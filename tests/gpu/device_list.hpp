// The devices a test executable is about: the same promises are tested on each of them.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "gpu/device.hpp"

namespace troupe::gpu::testing {

struct listed_device {
  std::string name;
  std::unique_ptr<device> opened;
};

/// Fresh ones, by the executable (device_list_*.cpp); none, with the reason in a message, where
/// there is none to be had.
std::vector<listed_device> devices_under_test();

template <class F>
void on_every_device(F&& f) {
  for (auto& one : devices_under_test()) {
    const std::string device_name = one.name;
    CAPTURE(device_name);
    f(*one.opened);
  }
}

inline std::unique_ptr<stream> open_stream(device& d, int threads = 1,
                                           const char* name = "compute") {
  auto made = d.make_stream({name, threads});
  REQUIRE(made);
  return std::move(*made);
}

}  // namespace troupe::gpu::testing

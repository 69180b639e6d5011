// Probes of the host: what they fill in, and what they leave out.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/predict/probes.hpp"

using namespace troupe;
using namespace troupe::gpu;

TEST_CASE("probes of the host measure what each field says, and nothing of a GPU") {
  const auto host = make_host_device(1);
  predict::probe_options options;
  options.seconds = 600;  // however slow the machine is
  options.memory_bytes = 16 << 20;
  std::vector<std::string> told;
  options.before = [&](std::string_view what) { told.emplace_back(what); };
  io::perf::hw_profile found;
  CHECK(predict::probe_host(*host, options, found).empty());
  CHECK(told.size() == 8);
  for (const auto& field : io::perf::hw_fields()) {
    CAPTURE(field.name);
    const bool is_host_probe = field.group == "probe" && !field.name.starts_with("gpu_") &&
                               !field.name.starts_with("disk_");
    if (field.number == nullptr) continue;
    const auto& value = found.*field.number;
    if (field.name == "fma_bf16_gflop_s") continue;  // of processors that have such
    CHECK(value.has_value() == is_host_probe);
    if (value) CHECK(*value > 0);
  }
}

TEST_CASE("HWM-1 without time nothing is begun, and what is missing is named") {
  const auto host = make_host_device(1);
  predict::probe_options options;
  options.seconds = 0;
  int begun = 0;
  options.before = [&](std::string_view) { ++begun; };
  io::perf::hw_profile found;
  const auto troubles = predict::probe_host(*host, options, found);
  CHECK(begun == 0);
  io::perf::hw_profile wanted;
  wanted.probe_threads = 1;
  CHECK(found == wanted);
  REQUIRE(troubles.size() == 1);
  for (const char* what : {"memory, all threads", "AdamW", "multiply-adds", "no time was left"})
    CHECK(troubles[0].find(what) != std::string::npos);
  CHECK(predict::probe_device(*host, options, found).size() == 1);
  CHECK(found == wanted);
}

TEST_CASE("who is told to stop begins no further probe") {
  const auto host = make_host_device(1);
  predict::probe_options options;
  options.seconds = 600;
  options.memory_bytes = 16 << 20;
  int begun = 0;
  options.before = [&](std::string_view) { ++begun; };
  options.stopped = [&] { return begun == 1; };
  io::perf::hw_profile found;
  CHECK(predict::probe_host(*host, options, found).empty());
  CHECK(begun == 1);
  CHECK(found.triad_gb_s);
  CHECK_FALSE(found.gemm_gflop_s);
}

TEST_CASE("HWM-2 without memory the probes that need some say so, and the others measure") {
  const auto host = make_host_device(1);
  predict::probe_options options;
  options.seconds = 600;
  options.memory_bytes = 1;
  io::perf::hw_profile found;
  CHECK(predict::probe_host(*host, options, found).size() == 6);
  CHECK_FALSE(found.triad_gb_s);
  CHECK_FALSE(found.chase_ns);
  CHECK_FALSE(found.adamw_mparam_s);
  CHECK_FALSE(found.gemm_gflop_s);
  CHECK(found.fma_gflop_s);
  REQUIRE(found.all_core_mhz);  // and is a processor's clock, whatever else the machine does
  CHECK(*found.all_core_mhz > 100);
  CHECK(*found.all_core_mhz < 10'000);
}

TEST_CASE("probes of a device fill in its copies, products and updates") {
  const auto device = make_host_device(1);  // stands for one: the calls are the same
  predict::probe_options options;
  options.seconds = 600;
  options.memory_bytes = 16 << 20;
  io::perf::hw_profile found;
  CHECK(predict::probe_device(*device, options, found).empty());
  CHECK(found.gpu_h2d_gb_s);
  CHECK(found.gpu_d2h_gb_s);
  CHECK(found.gpu_gemm_tflop_s);
  CHECK(found.gpu_copy_gb_s);
  CHECK(found.gpu_adamw_mparam_s);
}

// The picture of a machine's GPUs, from devices on paper.
#include "apps/gpu/devices.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/errors.hpp"
#include "tests/gpu/meters/fake_nvml.hpp"

using namespace troupe;
using namespace troupe::apps;
namespace nvml = troupe::gpu::nvml;
using nlohmann::json;

namespace {

const error no_driver{errc::unavailable, "there is no driver", "install one"};
const error no_cuda{errc::unavailable, "this build has no CUDA back end", "build with it"};
using cuda_list = result<std::vector<gpu::cuda_facts>>;

gpu::cuda_facts cuda_gpu(int ordinal, const char* uuid) {
  return {ordinal, "NVIDIA H200", uuid, "sm_90", 132, uint64_t{141} << 30};
}

bool has(const std::string& text, const char* what) {
  return text.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("gpu: the driver's devices and CUDA's are matched by UUID, whatever their order") {
  auto& machine = nvml::fake::fresh();
  machine.clock_reasons = 0x4;
  const auto functions = nvml::fake::functions();
  auto meter = nvml::gpu_meter::open(functions);
  REQUIRE(meter);
  auto p = look(meter->get(), {}, cuda_list({cuda_gpu(0, "GPU-1")}));
  REQUIRE(p);
  REQUIRE(p->devices.size() == 2);
  CHECK_FALSE(p->devices[0].cuda);
  REQUIRE(p->devices[1].cuda);
  CHECK(p->devices[1].cuda->ordinal == 0);
  const auto text = gpu_text(*p, 0);
  for (const char* word : {"0 NVIDIA H200", "1 NVIDIA H200", "0 sm_90", "97 %", "413/700 W",
                           "1755 MHz", "61 C", "3/1", "power cap", "driver 580.95.05"})
    CHECK_MESSAGE(has(text, word), word << " in\n" << text);
  const auto j = json::parse(gpu_json(*p));
  CHECK(j["devices"][0]["cuda"].is_null());
  CHECK(j["devices"][1]["cuda"]["ordinal"] == 0);
  CHECK(j["devices"][1]["reading"]["energy_mj"] == 98'765'432'100);
  CHECK(j["devices"][1]["reading"]["slowed_by"] == json{"power cap"});
  CHECK(j["driver_trouble"].is_null());
}

TEST_CASE("gpu: what is not known is a dash, and null") {
  auto& machine = nvml::fake::fresh();
  machine.gpus.resize(1);
  machine.gpus[0].refusals = {{"power", nvml::not_supported},
                              {"ecc", nvml::not_supported},
                              {"memory", nvml::not_supported}};
  const auto functions = nvml::fake::functions();
  auto meter = nvml::gpu_meter::open(functions);
  REQUIRE(meter);
  auto p = look(meter->get(), {}, cuda_list(no_cuda));
  REQUIRE(p);
  const auto text = gpu_text(*p, 0);
  CHECK(has(text, " - "));
  CHECK_FALSE(has(text, " W"));
  CHECK_FALSE(has(text, "0/0"));
  CHECK(has(text, "not usable for training: this build has no CUDA back end"));
  const auto j = json::parse(gpu_json(*p));
  CHECK(j["devices"][0]["reading"]["power_mw"].is_null());
  CHECK(j["devices"][0]["reading"]["ecc_corrected"].is_null());
  CHECK(j["devices"][0]["reading"]["slowed_by"] == json::array());
  CHECK(j["cuda_trouble"] == "this build has no CUDA back end");
}

TEST_CASE("gpu: a lost device keeps its line, with the reason below") {
  auto& machine = nvml::fake::fresh();
  const auto functions = nvml::fake::functions();
  auto meter = nvml::gpu_meter::open(functions);
  REQUIRE(meter);
  machine.gpus[0].gone = nvml::gpu_is_lost;
  auto p = look(meter->get(), {}, cuda_list(no_cuda));
  REQUIRE(p);
  p->xids = {{0, 79}};
  const auto text = gpu_text(*p, 0);
  CHECK(has(text, "GPU is lost"));
  CHECK(has(text, "GPU 0: Xid 79"));
  const auto j = json::parse(gpu_json(*p));
  CHECK(j["devices"][0]["reading"].is_null());
  CHECK(j["devices"][1]["reading"]["sm_mhz"] == 1755);
  CHECK(j["xids"][0]["xid"] == 79);
}

TEST_CASE("gpu: CUDA alone is enough for a picture, neither of the two is not") {
  auto p = look(nullptr, no_driver, cuda_list({cuda_gpu(0, "GPU-0")}));
  REQUIRE(p);
  CHECK(has(gpu_text(*p, 0), "NVIDIA H200"));
  CHECK(has(gpu_text(*p, 0), "no meters: there is no driver"));
  CHECK(json::parse(gpu_json(*p))["devices"][0]["uuid"] == "GPU-0");
  auto none = look(nullptr, no_driver, cuda_list(no_cuda));
  REQUIRE_FALSE(none);
  CHECK(none.error() == no_driver);
  CHECK(exit_code(none.error().code) == 69);
}

// By macros of headers, but for oneDNN: that says what was loaded.
#include "apps/built_with.hpp"

#include <flatbuffers/base.h>

#include <fmt/format.h>
#include <caf/config.hpp>

#include "actors/base/hardware.hpp"
#include "gpu/cuda.hpp"
#include "gpu/host/dnnl_gemm.hpp"

namespace troupe::apps {

std::string compiler_text() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string build_type() {
  return TROUPE_BUILD_TYPE;
}

std::vector<std::pair<std::string, std::string>> versions() {
  std::vector<std::pair<std::string, std::string>> out{
      {"program", cluster::own_version()},
      {"build", build_type()},
      {"compiler", compiler_text()},
      {"caf", fmt::format("{}.{}.{}", CAF_MAJOR_VERSION, CAF_MINOR_VERSION, CAF_PATCH_VERSION)},
      {"flatbuffers", fmt::format("{}.{}.{}", FLATBUFFERS_VERSION_MAJOR, FLATBUFFERS_VERSION_MINOR,
                                  FLATBUFFERS_VERSION_REVISION)},
      {"onednn", gpu::host::dnnl_version_text()}};
  if (auto cuda = gpu::cuda_toolkit_version(); !cuda.empty())
    out.emplace_back("cuda", std::move(cuda));
  return out;
}

}  // namespace troupe::apps

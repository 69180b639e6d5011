// The other side of the pipe is a dozen lines of Python.
#include "apps/bench/checkpoint_torch.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::apps::ckpt_bench {

namespace {

constexpr double import_s = 120;  ///< patience with torch's import and the arrays' noise
constexpr double save_s = 600;

constexpr const char* script = R"(
import json, os, resource, sys, time
import torch
state = {str(i): torch.rand(int(n)) for i, n in enumerate(sys.argv[1].split(','))}
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
print('ready', flush=True)
for line in sys.stdin:
    cpu, began = time.process_time(), time.perf_counter()
    with open(line.rstrip('\n'), 'wb') as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    print(json.dumps({'s': time.perf_counter() - began, 'cpu': time.process_time() - cpu,
                      'peak': peak() - before}), flush=True)
)";

}  // namespace

result<std::unique_ptr<torch_rival>> torch_rival::start(const std::vector<uint64_t>& elements) {
  // The first in the path may be one without Debian's packages.
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    auto child =
        child_process::start({python, "-c", script, fmt::format("{}", fmt::join(elements, ","))});
    if (!child) continue;
    if ((*child)->hear(import_s) == "ready")
      return std::unique_ptr<torch_rival>(new torch_rival(std::move(*child)));
  }
  return error{errc::unavailable, "no python3 here has torch", "apt-get install python3-torch"};
}

result<torch_rival::save_facts> torch_rival::save(const std::filesystem::path& name) {
  TROUPE_CHECK(python_->say(name.string()));
  const auto line = python_->hear(save_s);
  const auto json = nlohmann::json::parse(line.value_or(""), nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return error{errc::unavailable, "torch.save failed in its process"};
  return save_facts{json.value("s", 0.0), json.value("cpu", 0.0), json.value("peak", uint64_t{0})};
}

}  // namespace troupe::apps::ckpt_bench

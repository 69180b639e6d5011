// The other side of the pipe is a dozen lines of Python.
#include "tests/bench/torch.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/checkpoint_process.hpp"

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
    cpu = time.process_time()
    with open(line.rstrip('\n'), 'wb') as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    print(json.dumps({'cpu': time.process_time() - cpu, 'peak': peak() - before}), flush=True)
)";

/// A Python with arrays of so many elements, float32. Error unavailable: none here has torch.
result<std::unique_ptr<child_process>> start(const std::vector<uint64_t>& elements) {
  // The first in the path may be one without Debian's packages.
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    auto child =
        child_process::start({python, "-c", script, fmt::format("{}", fmt::join(elements, ","))});
    if (child && (*child)->hear(import_s) == "ready") return child;
  }
  return error{errc::unavailable, "no python3 here has torch", "apt-get install python3-torch"};
}

class torch_save final : public way {
 public:
  torch_save(const surroundings& around, std::unique_ptr<child_process> python)
      : way(around), python_(std::move(python)) {}

  status checkpoint(uint64_t step) override {
    const auto asked = clock::now();
    const auto name = file_of(step);
    TROUPE_CHECK(python_->say(name.string()));
    const auto line = python_->hear(save_s);
    const auto json = nlohmann::json::parse(line.value_or(""), nullptr, false);
    if (json.is_discarded() || !json.is_object())
      return error{errc::unavailable, "torch.save failed in its process"};
    finished(asked, name);
    done_.processor_s += json.value("cpu", 0.0);
    done_.peak_bytes = json.value("peak", uint64_t{0});
    return {};
  }
  status drain() override { return {}; }
  beside elsewhere() const override { return done_; }

 private:
  std::unique_ptr<child_process> python_;
  beside done_;
};

}  // namespace

result<std::unique_ptr<way>> make_torch(const surroundings& around) {
  std::vector<uint64_t> elements;
  for (const auto& r : around.trainer.regions()) elements.push_back(r.size() / sizeof(float));
  TROUPE_TRY(python, start(elements));
  return std::unique_ptr<way>(std::make_unique<torch_save>(around, std::move(python)));
}

status torch_is_here() {
  TROUPE_CHECK(start({1}));
  return {};
}

}  // namespace troupe::apps::ckpt_bench

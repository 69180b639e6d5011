// `troupe gpu`: the GPUs of this machine, once or again and again.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "apps/commands.hpp"
#include "apps/gpu/devices.hpp"

namespace troupe::apps {

namespace {

using gpu::nvml::gpu_meter;

struct arguments {
  bool json = false;
  bool watch = false;
  int64_t interval_ms = 1000;
};

/// What a screen has room for.
constexpr size_t most_xids = 8;

using xids = std::vector<gpu::nvml::xid_event>;

status show(const gpu_meter* meter, const error& why, const xids& reported, const arguments& a) {
  TROUPE_TRY(picture, look(meter, why, gpu::list_cuda_devices()));
  picture.xids = reported;
  if (a.json) return print(gpu_json(picture));
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  if (a.watch && terminal) TROUPE_CHECK(print_unchanged("\x1b[H\x1b[2J"));
  return print(gpu_text(picture, terminal_columns(STDOUT_FILENO, 0)));
}

/// Lets the interval pass; keeps what the driver reports meanwhile.
void pass_interval(gpu_meter* meter, std::chrono::milliseconds interval, xids& reported) {
  using clock = std::chrono::steady_clock;
  const auto until = clock::now() + interval;
  while (meter && clock::now() < until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
    const auto event = meter->wait_xid(left);
    if (!event) break;  // these devices report no events
    if (!*event) continue;
    if (reported.size() == most_xids) reported.erase(reported.begin());
    reported.push_back(**event);
  }
  std::this_thread::sleep_until(until);
}

result<int> run_gpu(const arguments& a) {
  auto meter = gpu_meter::open();
  const auto reader = meter ? meter->get() : nullptr;
  const auto why = meter ? error{} : meter.error();
  xids reported;
  for (;;) {
    TROUPE_CHECK(show(reader, why, reported, a));
    if (!a.watch) return 0;
    pass_interval(reader, std::chrono::milliseconds(a.interval_ms), reported);
  }
}

}  // namespace

void add_gpu(shell& sh) {
  auto* verb = sh.app.add_subcommand("gpu", "Show the GPUs of this machine and what they do");
  verb->footer(
      "ECC: corrected and uncorrected errors since the driver was loaded. Ends with 69 where there "
      "is no GPU.\n"
      "Examples:\n"
      "  troupe gpu\n"
      "  troupe gpu --watch --interval 500\n"
      "  troupe gpu --json | jq '.devices[].reading.power_mw'");
  auto a = std::make_shared<arguments>();
  verb->add_flag("--json", a->json, "As one JSON object; with --watch one a line");
  verb->add_flag("--watch", a->watch, "Again and again, with the errors the driver reports");
  verb->add_option("--interval", a->interval_ms, "Between two looks, in milliseconds")
      ->within(int64_t{50}, int64_t{60'000});
  on_run(sh, verb, [a] { return run_gpu(*a); });
}

}  // namespace troupe::apps

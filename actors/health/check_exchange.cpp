// What the GPUs of a machine give each other, in a group as ranks of one host have it.
//
// Why not beside a job: two groups of one device whose operations come in another order on each of
// their members may wait for each other for ever, and one of them would be the job's.
#include <algorithm>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "actors/health/checks.hpp"
#include "gpu/back_end.hpp"
#include "gpu/cuda.hpp"

namespace troupe::health {

namespace {

/// One device and its end. What is declared last goes first: streams before groups and devices.
struct exchanging_end {
  std::unique_ptr<gpu::device> device;
  std::unique_ptr<gpu::pending_group> pending;
  std::unique_ptr<gpu::communicator> group;
  std::unique_ptr<gpu::stream> stream;
  result<known_sum::part_errors> found = error{errc::cancelled, "it did not begin"};
};

result<std::vector<exchanging_end>> open_ends(const checkup_under_way& c,
                                              const std::vector<std::string>& names) {
  std::vector<exchanging_end> out(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    auto& e = out[i];
    TROUPE_TRY(device, gpu::open_device(names[i], 1));
    e.device = std::move(device);
    gpu::group_options o;
    o.name = "doctor";
    o.rank = static_cast<int>(i);
    o.size = static_cast<int>(names.size());
    o.timeout = defaults::group_operation;
    o.connect_timeout = defaults::group_meeting;
    o.ending = c.stop;
    TROUPE_TRY(pending, c.options.open_group ? c.options.open_group(o)
                                             : gpu::open_group(*e.device, o, {}));
    e.pending = std::move(pending);
    TROUPE_TRY(stream, e.device->make_stream({"doctor", 1}));
    e.stream = std::move(stream);
  }
  return out;
}

/// What all have for this one.
std::vector<std::string> offered_to(const std::vector<exchanging_end>& all, size_t rank) {
  std::vector<std::string> out;
  for (const auto& e : all) out.push_back(e.pending->addresses()[rank]);
  return out;
}

result<known_sum::part_errors> exchange(exchanging_end& e, const std::vector<std::string>& offered,
                                        const known_sum& numbers) {
  TROUPE_TRY(group, e.pending->connect(offered));
  e.group = std::move(group);
  return gather_known(*e.group, *e.device, *e.stream, numbers);
}

/// Each on a thread of its own: to connect blocks until all do.
result<known_sum::part_errors> exchange_all(std::vector<exchanging_end>& all) {
  const known_sum numbers;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < all.size(); ++i)
      threads.emplace_back([&numbers, &e = all[i], offered = offered_to(all, i)] {
        e.found = exchange(e, offered, numbers);
      });
  }
  known_sum::part_errors out;
  for (const auto& e : all) {
    if (!e.found) return e.found.error();
    out.add(*e.found);
  }
  return out;
}

}  // namespace

void check_gpu_exchange(checkup_under_way& c) {
  auto names = c.options.exchanging;
  if (names.empty() && c.options.gpus == gpu_choice::none) return;
  auto& result = c.add("gpu_all_to_all");
  if (names.empty() && c.options.gpus == gpu_choice::opened) {
    result.text = gpu::opened_cuda_devices().size() < 2
                      ? "fewer than two GPUs compute here: there is nothing to exchange"
                      : "the job's ranks have groups on these GPUs: `troupe doctor --local` asks "
                        "them while no job runs";
    return;
  }
  const auto count = gpu::cuda_device_count();
  if (names.empty() && count)
    for (int i = 0; i < *count; ++i) names.push_back(fmt::format("cuda:{}", i));
  if (names.size() < 2) {
    result.text = names.empty() ? "no GPU is here: there is nothing to exchange"
                                : "one GPU is here: there is nothing to exchange";
    return;
  }
  try {
    auto ends = open_ends(c, names);
    const auto found = ends ? exchange_all(*ends) : ends.error();
    result.part = fmt::format("{} devices", names.size());
    if (!found) {
      result.text = found.error().message;
      return;
    }
    result.seen = static_cast<double>(found->wrong);
    if (found->wrong > 0)
      result.text = fmt::format("the first of them are of what {} gave",
                                names[static_cast<size_t>(found->from)]);
  } catch (const std::system_error& e) {
    result.text = fmt::format("cannot start a thread: {}", e.what());
  }
}

}  // namespace troupe::health

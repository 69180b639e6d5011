// Profiles to a name: see run_machines.hpp.
#include "apps/run_machines.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "actors/train/device_policy.hpp"
#include "actors/train/machine.hpp"
#include "gpu/back_end.hpp"
#include "io/base/counted.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

using io::perf::hw_profile;

/// Of a machine's kind, in a name.
constexpr size_t named_kind_bytes = 120;

/// That threads may use at once; a container's share is less.
std::optional<double> cores_of(const hw_profile& is) {
  if (!is.usable_cpus) return std::nullopt;
  return is.quota_cpus ? std::min(*is.usable_cpus, *is.quota_cpus) : *is.usable_cpus;
}

/// RMA-2.
std::optional<std::string> kind_of(const hw_profile& is, bool on_gpu) {
  const auto cores = cores_of(is);
  if (!is.cpu_model || !cores) return std::nullopt;
  auto out = fmt::format("{}, {:.6g} cpus", *is.cpu_model, *cores);
  if (on_gpu) {
    if (!is.gpu_name || !is.gpus) return std::nullopt;
    out += fmt::format(", {:.6g} of {}", *is.gpus, *is.gpu_name);
  }
  if (is.nic_gbit_s) out += fmt::format(", {:.6g} Gbit/s", *is.nic_gbit_s);
  // It is cut to a length, and stands in a line of JSON.
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

}  // namespace

bool is_on_gpus(const config::job& job) {
  const auto wanted = job.cluster.device;
  if (wanted != config::device_kind::automatic) return wanted == config::device_kind::cuda;
  const train::node_devices here{"here", "here", std::ssize(gpu::accelerators())};
  const auto ranks = std::max<int64_t>(job.parallel.data * job.parallel.pipeline, 1);
  const std::vector<int64_t> node_of(static_cast<size_t>(ranks));
  const auto chosen = train::choose_devices(wanted, std::span(&here, 1), node_of);
  return chosen && chosen->names.front() != "host";
}

bool is_on_gpus(const config::job& job, const hw_profile& machine) {
  const auto wanted = job.cluster.device;
  return wanted == config::device_kind::cuda ||
         (wanted == config::device_kind::automatic && machine.gpus.value_or(0) > 0);
}

int64_t workers_at(const config::job& job, size_t place) {
  const auto& nodes = job.cluster.node;
  return place < nodes.size() ? std::max<int64_t>(1, nodes[place].workers) : 1;
}

std::optional<run_machines> machines_here(const config::job& job) {
  if (job.cluster.launch != config::launch_mode::local) return std::nullopt;
  return run_machines{std::string(this_machine_alone),
                      static_cast<double>(train::threads_here(job.cluster)), is_on_gpus(job)};
}

std::optional<run_machines> machines_of(std::span<const run_place> places, const config::job& job) {
  if (places.empty() || std::ssize(places) != job.cluster.places()) return std::nullopt;
  std::map<std::string_view, size_t> hosts;  // numbers, by when they come first
  std::map<std::string_view, int64_t> workers;
  for (size_t p = 0; p < places.size(); ++p) workers[places[p].host] += workers_at(job, p);
  std::set<std::string> kinds;
  std::string all, first;
  run_machines out{{}, 0, false};
  for (size_t p = 0; p < places.size(); ++p) {
    const auto& place = places[p];
    const bool on_gpu = is_on_gpus(job, place.is);
    const auto kind = kind_of(place.is, on_gpu);
    if (!kind) return std::nullopt;
    const auto host = hosts.try_emplace(place.host, hosts.size()).first->second;
    all += fmt::format("{}: {}, {}\n", host, *kind, counted(workers_at(job, p), "worker"));
    if (kinds.empty()) first = *kind;
    kinds.insert(*kind);
    const auto share = std::floor(*cores_of(place.is) / static_cast<double>(workers[place.host]));
    const auto threads =
        job.cluster.threads > 0 ? static_cast<double>(job.cluster.threads) : std::max(1.0, share);
    out.threads = out.threads == 0 ? threads : std::min(out.threads, threads);
    out.on_gpus = out.on_gpus || on_gpu;
  }
  const std::string back(all.rbegin(), all.rend());  // a sum of its own: another seed makes none
  const auto sum = [](const std::string& text) {
    return io::crc32c(std::as_bytes(std::span(text.data(), text.size())));
  };
  const auto others = kinds.size() == 1 ? "" : fmt::format(" and {} more", kinds.size() - 1);
  out.name = fmt::format("{} on {}, {}{}, {:08x}{:08x}", counted(places.size(), "node"),
                         counted(hosts.size(), "machine"), first.substr(0, named_kind_bytes),
                         others, sum(all), sum(back));
  return out;
}

told_places::told_places(config::job job)
    : job_(std::move(job)), places_(static_cast<size_t>(job_.cluster.places())) {
  job_.cluster.device = config::device_kind::host;
}

bool told_places::hear(size_t place, run_place is) {
  if (place >= places_.size() || is_unknown_) return false;
  if (!kind_of(is.is, false)) {
    forget();
    return false;
  }
  places_[place] = std::move(is);
  if (!std::ranges::all_of(places_, [](const auto& p) { return p.has_value(); })) return false;
  std::vector<run_place> all;
  for (const auto& p : places_) all.push_back(*p);
  const bool were_known = machines_.has_value();
  auto now = machines_of(all, job_);
  if (!were_known) {
    machines_ = std::move(now);
    return machines_.has_value();
  }
  if (now && now->name == machines_->name) return false;
  forget();
  return false;
}

/// RMA-3.
void told_places::forget() {
  is_unknown_ = true;
  machines_.reset();
}

}  // namespace troupe::apps

// `troupe predict probe`: what this machine is and does at most, as a predictor asks by.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "actors/base/hardware.hpp"
#include "actors/job/plan.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/predict/probe.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/progress_line.hpp"
#include "apps/talk.hpp"
#include "gpu/back_end.hpp"
#include "gpu/predict/probes.hpp"
#include "io/config/load.hpp"
#include "io/disk/calibrate.hpp"
#include "io/machine/available_memory.hpp"
#include "io/perf/csv.hpp"
#include "io/perf/hw_reader.hpp"
#include "io/perf/hw_rows.hpp"
#include "io/perf/kept_probes.hpp"
#include "trace/text.hpp"

namespace troupe::apps::predict {

namespace {

using io::perf::hw_profile;

constexpr double probe_gib = 1024.0 * 1024 * 1024;

/// What was found, and how.
struct probed {
  hw_profile profile;
  bool kept = false;  ///< the measurements are of an earlier run
  gpu::predict::probe_troubles troubles = {};
};

gpu_picture gpus_here() {
  auto meter = gpu::nvml::gpu_meter::open();
  auto seen = look(meter ? meter->get() : nullptr, meter ? error{} : meter.error(),
                   gpu::list_cuda_devices());
  return seen ? std::move(*seen) : gpu_picture{};
}

std::vector<std::string> uuids_of(const gpu_picture& picture) {
  std::vector<std::string> out;
  for (const auto& one : picture.devices)
    out.push_back(one.driver ? one.driver->uuid : one.cuda ? one.cuda->uuid : "");
  return out;
}

/// What measurements of this machine belong to; GPUs are not looked at.
io::perf::probe_key key_here(const std::string& folder, bool full) {
  const auto facts = cluster::hardware_facts();
  io::perf::probe_key key;
  key.disk = io::perf::device_under(folder);
  key.boot_id = facts.boot_id;
  key.threads = std::max(1, static_cast<int>(facts.cores));
  key.full = full;
  return key;
}

std::chrono::hours young_enough() {
  return std::chrono::duration_cast<std::chrono::hours>(defaults::ceiling_memory);
}

/// Measures in turn. Each part has a time of its own, which begins when the part does: a GPU that
/// is slow to open, or a slow disk, takes none of the others'.
class probing {
 public:
  probing(const arguments& a, const io::perf::probe_key& key, const interrupt_watch& interrupt)
      : a_(a), key_(key), interrupt_(interrupt) {}

  gpu::predict::probe_troubles run(hw_profile& into) {
    if (!key_.gpus.empty()) gpu_probes(into);
    disk_probes(into);
    if (auto host = gpu::open_device("host", key_.threads))
      add(gpu::predict::probe_host(**host, options(), into));
    else
      add({host.error().message});
    return std::move(troubles_);
  }

 private:
  void add(const gpu::predict::probe_troubles& more) {
    troubles_.insert(troubles_.end(), more.begin(), more.end());
  }

  gpu::predict::probe_options options() {
    constexpr uint64_t share = 8;  // others have the rest of what is left
    constexpr uint64_t unknown = uint64_t{1} << 30;
    gpu::predict::probe_options out;
    out.threads = key_.threads;
    out.full = a_.full;
    out.seconds = a_.full ? 15 : 2;
    out.memory_bytes = io::available_memory().value_or(unknown) / share;
    out.before = [this](std::string_view what) { tell(what); };
    out.stopped = [this] { return interrupt_.asked().load(); };
    return out;
  }

  void tell(std::string_view what) { line_.tell(fmt::format("measuring: {}", what)); }

  void gpu_probes(hw_profile& into) {
    tell("the GPU");
    const auto names = gpu::accelerators();
    if (names.empty()) return;  // of the driver alone: this build or process cannot compute on it
    if (auto on = gpu::open_device(names.front()))
      add(gpu::predict::probe_device(**on, options(), into));
    else
      add({on.error().message});
  }

  /// What checkpoints and swapping keep of the disk is used; a quick look is kept by neither.
  void disk_probes(hw_profile& into) {
    io::calibrate_options how;
    auto rate = io::kept_calibration(a_.folder, how);
    if (!rate) {
      tell("the disk");
      how.chunk_and_depth = {{size_t{1} << 20, 8}};
      how.budget_bytes = uint64_t{24} << 20;
      auto now = a_.full ? io::calibrate(a_.folder, {}) : io::measure_disk(a_.folder, how);
      if (!now) return add({fmt::format("the disk: {}", now.error().message)});
      rate = std::move(*now);
    }
    into.disk_read_gb_s = rate->best.read_bytes_s / 1e9;
    into.disk_write_gb_s = rate->best.write_bytes_s / 1e9;
  }

  const arguments& a_;
  const io::perf::probe_key& key_;
  const interrupt_watch& interrupt_;
  progress_line line_;
  gpu::predict::probe_troubles troubles_;
};

/// The group probe of one profile into another.
void take_probes(hw_profile& into, const hw_profile& from) {
  for (const auto& field : io::perf::hw_fields())
    if (field.group == "probe") into.*field.number = from.*field.number;
}

/// Waits for whoever measures, somewhat longer than `--full` takes of a machine with a GPU.
result<io::unique_fd> turn_to_measure(const io::fact_store& store,
                                      const interrupt_watch& interrupt) {
  constexpr int tries = 200;
  for (int i = 0;; ++i) {
    auto turn = io::perf::lock_probes(store, std::chrono::milliseconds(200));
    if (turn || i == tries || interrupt.asked()) return turn;
    if (i == 0) say("another process measures this machine: waiting for it");
  }
}

/// What was kept, or is measured now and kept where nothing failed.
status probe_into(probed& into, const arguments& a, const io::perf::probe_key& key,
                  const interrupt_watch& interrupt) {
  const io::fact_store store;
  const auto find = [&] {
    return a.again ? std::nullopt : io::perf::find_probes(store, key, young_enough());
  };
  auto kept = find();
  if (!kept) {
    TROUPE_TRY(turn, turn_to_measure(store, interrupt));
    kept = find();  // by who had the turn before
    if (!kept) {
      hw_profile now;
      into.troubles = probing(a, key, interrupt).run(now);
      if (interrupt.asked()) return {};
      drop_impossible(now);
      if (into.troubles.empty()) io::perf::keep_probes(store, key, now);
      take_probes(into.profile, now);
      return {};
    }
  }
  into.kept = true;
  take_probes(into.profile, *kept);
  return {};
}

result<probed> probe_machine(const arguments& a, const interrupt_watch& interrupt) {
  probed out;
  if (!a.job.file.empty() || !a.job.sets.empty()) {
    TROUPE_TRY(loaded, a.job.load());
    TROUPE_TRY(plan, train::make_plan(loaded.value));
    add_workload(out.profile, plan);
  }
  const auto workload = out.profile;
  auto key = key_here(a.folder, a.full);
  if (key.disk.empty())
    return error{errc::not_found, fmt::format("there is no folder {}", a.folder),
                 "name one that is there: --folder"};
  out.profile = io::perf::read_hw_profile({"/", key.disk});
  for (const auto& field : io::perf::hw_fields()) {
    if (field.group != "workload") continue;
    if (field.text != nullptr) out.profile.*field.text = workload.*field.text;
    if (field.number != nullptr) out.profile.*field.number = workload.*field.number;
  }
  const auto picture = gpus_here();
  add_gpus(out.profile, picture);
  key.gpus = uuids_of(picture);
  TROUPE_CHECK(probe_into(out, a, key, interrupt));
  drop_impossible(out.profile);
  return out;
}

std::string shown_value(const hw_profile& profile, const io::perf::hw_field& field) {
  if (field.text != nullptr) return *(profile.*field.text);
  const auto number = fmt::format("{:.6g}", *(profile.*field.number));
  return field.unit == "1" ? number : fmt::format("{} {}", number, field.unit);
}

bool is_there(const hw_profile& profile, const io::perf::hw_field& field) {
  return field.text != nullptr ? (profile.*field.text).has_value()
                               : (profile.*field.number).has_value();
}

/// Before anything is measured: whether a table takes a row, and has the column that was named.
status check_table(const arguments& a) {
  if (a.out.empty()) return {};
  TROUPE_TRY(columns, io::perf::fleet_columns(a.out));
  const bool has_label = std::find(columns.begin(), columns.end(), a.label) != columns.end();
  if (!columns.empty() && a.label != arguments().label && !has_label)
    say(fmt::format("warning: {} has no column {}, and gets none: --label is for a new table",
                    a.out, a.label));
  return {};
}

}  // namespace

void add_gpus(hw_profile& into, const gpu_picture& picture) {
  if (picture.devices.empty()) return;
  into.gpus = static_cast<double>(picture.devices.size());
  if (!picture.driver_version.empty()) into.gpu_driver = picture.driver_version;
  const auto& first = picture.devices.front();
  if (first.cuda) {
    into.gpu_name = first.cuda->name;
    into.gpu_gib = static_cast<double>(first.cuda->memory_bytes) / probe_gib;
    into.gpu_multiprocessors = first.cuda->multiprocessors;
  }
  if (first.driver) into.gpu_name = first.driver->name;
  if (!first.reading) return;
  if (first.reading->memory_total_bytes)
    into.gpu_gib = static_cast<double>(*first.reading->memory_total_bytes) / probe_gib;
  const auto& now = *first.reading;
  if (now.power_limit_mw) into.gpu_limit_w = static_cast<double>(*now.power_limit_mw) / 1e3;
  if (now.sm_mhz) into.gpu_sm_mhz = static_cast<double>(*now.sm_mhz);
  if (now.memory_mhz) into.gpu_memory_mhz = static_cast<double>(*now.memory_mhz);
  if (now.temperature_c) into.gpu_temperature_c = static_cast<double>(*now.temperature_c);
  if (now.slowed_by)
    into.gpu_slowed_by =
        now.slowed_by->empty() ? "none" : fmt::format("{}", fmt::join(*now.slowed_by, ", "));
}

void add_workload(hw_profile& into, const train::job_plan& plan) {
  const auto& of = plan.job;
  into.compute_type = of.model.dtype == config::compute_dtype::bf16 ? "bf16" : "f32";
  into.parameters = static_cast<double>(plan.model.parameters());
  into.layers = static_cast<double>(plan.model.layers);
  into.hidden = static_cast<double>(plan.model.hidden);
  into.seq_len = static_cast<double>(of.train.seq_len);
  into.micro_batch = static_cast<double>(of.train.micro_batch);
  into.tokens_per_step = static_cast<double>(of.tokens_per_step());
  into.data_ranks = static_cast<double>(of.parallel.data);
  into.pipeline_stages = static_cast<double>(of.parallel.pipeline);
}

std::optional<hw_profile> kept_probes_here(const io::fact_store& store) {
  auto key = key_here(".", false);
  key.gpus = uuids_of(gpus_here());
  return io::perf::find_probes(store, key, young_enough());
}

std::string profile_text(const hw_profile& profile, int columns) {
  constexpr std::array gives_way{trace::column_limit{2, 0}, trace::column_limit{0, 12}};
  std::vector<std::string> groups;
  for (const auto& field : io::perf::hw_fields())
    if (groups.empty() || groups.back() != field.group) groups.emplace_back(field.group);
  std::string out;
  for (const auto& group : groups) {
    std::vector<std::vector<std::string>> rows{{group, "value", "what"}};
    std::vector<std::string_view> absent;
    for (const auto& field : io::perf::hw_fields()) {
      if (field.group != group) continue;
      if (is_there(profile, field))
        rows.push_back(
            {std::string(field.name), shown_value(profile, field), std::string(field.what)});
      else
        absent.push_back(field.name);
    }
    if (rows.size() == 1) {
      out += group + ": nothing is known\n\n";
      continue;
    }
    out += trace::table_text(std::move(rows), columns, gives_way);
    if (!absent.empty()) out += fmt::format("not known: {}\n", fmt::join(absent, ", "));
    out += "\n";
  }
  return out;
}

result<int> probe(const arguments& a) {
  TROUPE_CHECK(check_table(a));
  // Before any other thread. A measured disk's folder goes, and a table is not touched.
  TROUPE_TRY(interrupt, interrupt_watch::start());
  auto all = probe_machine(a, *interrupt);
  if (interrupt->asked()) return 128 + interrupt->signal();
  if (!all) return all.error();
  const auto& found = *all;
  for (const auto& trouble : found.troubles) say("not measured: " + trouble);
  if (!found.troubles.empty()) say("nothing is kept: the next `predict probe` measures anew");
  if (found.kept) say("measured before and kept since; --again measures anew");
  if (!a.out.empty()) {
    const std::string named(io::perf::trimmed(a.id));
    const auto id = named.empty() ? cluster::hardware_facts().hostname : named;
    TROUPE_CHECK(io::perf::add_hw_row(a.out, id, found.profile, a.label));
    say(fmt::format("row {} is in {}", id, a.out));
  }
  if (a.json) {
    const nlohmann::ordered_json out{{"profile", io::perf::hw_json(found.profile)},
                                     {"kept", found.kept},
                                     {"not_measured", found.troubles}};
    TROUPE_CHECK(print(out.dump() + "\n"));
  } else if (a.out.empty()) {
    TROUPE_CHECK(print(profile_text(found.profile, terminal_columns(STDOUT_FILENO, 0))));
  }
  return 0;
}

}  // namespace troupe::apps::predict

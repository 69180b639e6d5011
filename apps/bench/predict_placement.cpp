// Jobs in turn, of whose nodes one stands half of the time (predict_placement.hpp).
#include "apps/bench/predict_placement.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "apps/bench/job_launch.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/median.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::predict_bench {

namespace {

constexpr std::string_view placed_output = "run", placed_file = "run.toml";
/// It stands as long as it runs, and a micro-batch lasts some times as long.
constexpr std::chrono::milliseconds stands{4};
constexpr std::chrono::milliseconds looks_each{20};
constexpr size_t warming_steps = 4;

status write_placed_job(const placement_plan& plan) {
  TROUPE_CHECK(write_words(plan.folder / "data.txt"));
  std::ofstream file(plan.folder / placed_file);
  file << fmt::format(
      "[job]\nname = \"{}\"\noutput = \"{}/{}\"\n"
      "[cluster]\nnodes = 2\nthreads = 1\ndevice = \"host\"\n[parallel]\npipeline = 2\n"
      "[model]\nfamily = \"llama\"\nlayers = {}\nhidden = 128\nheads = 4\n"
      "[data]\ntokenizer = \"bytes\"\npath = \"{}/data.txt\"\n"
      "[train]\nsteps = {}\nbatch = 16\nmicro_batch = 2\nseq_len = 128\nlr = 1e-3\n"
      "[checkpoint]\nevery = 0\n[log]\nformat = \"json\"\n",
      power_bench::own_job_name(), plan.folder.string(), placed_output, plan.layers,
      plan.folder.string(), plan.steps);
  file.flush();
  if (!file) return error{errc::io, "write the job into " + plan.folder.string()};
  return {};
}

/// What a way sets.
std::string setting_of(const std::string& way) {
  return (is_by_hand(way) ? "parallel.layers=" : "parallel.placement=") + way;
}

}  // namespace

std::optional<std::string> told_layers(std::string_view line) {
  constexpr std::string_view before = "the stages have ", behind = " layers as ";
  const auto at = line.find(before);
  if (at == line.npos) return std::nullopt;
  const auto rest = line.substr(at + before.size());
  const auto layers = rest.substr(0, rest.find_first_not_of("0123456789,"));
  if (layers.empty() || !rest.substr(layers.size()).starts_with(behind)) return std::nullopt;
  return std::string(layers);
}

namespace {

status hear_placed(job_launch& job, const placement_plan& plan, placement_run& out) {
  for (;;) {
    TROUPE_TRY(line, job.hear());
    if (!line) break;
    if (auto layers = told_layers(*line)) out.layers = std::move(*layers);
    const auto s = job_step_of(*line);
    if (!s) continue;
    out.losses[s->step] = s->loss;
    if (out.losses.size() > warming_steps) out.step_ms.push_back(s->ms);
  }
  if (out.losses.empty() || out.losses.rbegin()->first != plan.steps || out.step_ms.empty())
    return error{errc::unavailable, "the job does not train: " + job.last_words()};
  return {};
}

result<placement_run> run_placed(const placement_plan& plan, const std::string& way) {
  TROUPE_CHECK(io::remove_from_scratch(plan.folder, std::string(placed_output)));
  std::vector<std::string> words{own_program(), "up", (plan.folder / placed_file).string()};
  for (const auto& s : plan.sets) words.insert(words.end(), {"--set", s});
  words.insert(words.end(), {"--set", setting_of(way)});
  TROUPE_TRY(job, job_launch::start(words, plan.stop));
  placement_run out;
  status heard;
  int stops = 0;
  {
    const half_stopped second(job.pid(), {"--name", "node1"});
    heard = hear_placed(job, plan, out);
    stops = second.stops();
  }
  if (!heard) {
    job.end();
    return heard.error();
  }
  if (stops == 0) return error{errc::not_found, "there is no process of node1 to stop"};
  if (way == measured_way && out.layers.empty())
    return error{errc::unavailable, "the job says no layers: " + job.last_words()};
  if (is_by_hand(way)) out.layers = way;
  return out;
}

std::vector<std::string> placement_ways_of(const placement_plan& plan) {
  std::vector<std::string> out{std::string(even_way), std::string(measured_way)};
  for (int first = 1; first < plan.layers; ++first)
    out.push_back(fmt::format("{},{}", first, plan.layers - first));
  return out;
}

}  // namespace

struct half_stopped::running {
  std::atomic<int> stops{0};
  std::jthread thread;

  void hold(const std::stop_token& over, pid_t launcher, const std::vector<std::string>& words) {
    while (!over.stop_requested()) {
      const pid_t found = child_with(launcher, words);
      const io::unique_fd process(
          found == 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, found, 0)));
      if (process.get() >= 0 && child_with(launcher, words) == found)
        return alternate(over, process);
      std::this_thread::sleep_for(looks_each);
    }
  }

  void alternate(const std::stop_token& over, const io::unique_fd& process) {
    const auto signalled = [&](int signal) {
      return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
    };
    while (!over.stop_requested() && signalled(SIGSTOP)) {
      ++stops;
      std::this_thread::sleep_for(stands);
      if (!signalled(SIGCONT)) return;
      std::this_thread::sleep_for(stands);
    }
  }
};

half_stopped::half_stopped(pid_t launcher, std::vector<std::string> words)
    : running_(std::make_unique<running>()) {
  running_->thread =
      std::jthread([r = running_.get(), launcher, words = std::move(words)](
                       const std::stop_token& over) { r->hold(over, launcher, words); });
}

half_stopped::~half_stopped() = default;
half_stopped::half_stopped(half_stopped&&) noexcept = default;
half_stopped& half_stopped::operator=(half_stopped&&) noexcept = default;

int half_stopped::stops() const noexcept {
  return running_->stops;
}

result<placement_measurement> measure_placement(const placement_plan& plan) {
  if (plan.steps <= static_cast<int>(warming_steps))
    return error{errc::usage, fmt::format("{} are too few, expected more than {}",
                                          counted(plan.steps, "step"), warming_steps)};
  TROUPE_CHECK(write_placed_job(plan));
  placement_measurement out;
  for (auto& way : placement_ways_of(plan)) out.rows.push_back({std::move(way), {}});
  for (int round = 0; round < plan.rounds; ++round)
    for (size_t i = 0; i < out.rows.size(); ++i) {
      auto& row = out.rows[(i + static_cast<size_t>(round)) % out.rows.size()];  // BPP-1
      TROUPE_TRY(run, run_placed(plan, row.way));
      say(fmt::format("round {} of {}, {}{}: {:.1f} ms a step", round + 1, plan.rounds, row.way,
                      row.way == measured_way ? ": " + run.layers : "", median(run.step_ms)));
      row.rounds.push_back(std::move(run));
    }
  return out;
}

}  // namespace troupe::apps::predict_bench

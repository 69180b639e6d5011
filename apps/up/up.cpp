// `troupe up FILE`: a cluster from a configuration, a run on it, and its end.
//
// The launcher's process holds the coordinator, the run, the archive and the reporter; every node
// is a process of its own. The main thread starts the nodes, waits for signals, children and the
// end, and shows the summary.
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "actors/checkpoint/archive.hpp"
#include "actors/checkpoint/owner.hpp"
#include "actors/cluster/coordinator.hpp"
#include "actors/cluster/network.hpp"
#include "actors/replay/recording.hpp"
#include "actors/trace/desk.hpp"
#include "actors/trace/keeper.hpp"
#include "actors/trace/observer.hpp"
#include "apps/commands.hpp"
#include "apps/control/meeting_point.hpp"
#include "apps/job_arguments.hpp"
#include "apps/up/conclude.hpp"
#include "apps/up/node_processes.hpp"
#include "apps/up/reporter.hpp"
#include "apps/up/signals.hpp"
#include "apps/up/watch.hpp"
#include "apps/up/watchdog.hpp"
#include "gpu/host/peak.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/disk/calibrate.hpp"
#include "messages/errors.hpp"

namespace troupe::apps {

namespace {

/// Everything `up` knows before a process starts.
struct launch {
  train::job_plan plan;
  std::optional<checkpoint::entry> resume;
  io::checkpoint::origin origin;  ///< of what is saved
  uint32_t epoch = 1;
  double peak_flops = 0;
};

/// The ceiling of all workers together, where they are on this machine; 0 otherwise.
double local_peak(const config::job& job) {
  if (job.cluster.launch != config::launch_mode::local) return 0;
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t each =
      job.cluster.threads > 0 ? job.cluster.threads : std::max<int64_t>(1, cores / job.workers());
  const auto type =
      job.model.dtype == config::compute_dtype::bf16 ? gpu::dtype::bf16 : gpu::dtype::f32;
  auto peak =
      gpu::measure_peak_flops(type, static_cast<int>(std::min(cores, each * job.workers())));
  return peak ? *peak : 0;
}

/// Removes what interrupted saves and copies left in a folder of checkpoints.
status clean(const std::string& dir) {
  TROUPE_TRY(partial, checkpoint::remove_leftovers(dir));
  for (const auto& name : partial)
    say(fmt::format("removed {}/{}, left by an interrupted save", dir, name));
  return {};
}

/// Fences off what is left of earlier launches: their shards bear another name, their messages
/// another number.
result<uint32_t> epoch_of(const config::job& job) {
  TROUPE_TRY(all, io::checkpoint::list(job.checkpoint.dir));
  if (!job.checkpoint.second.dir.empty())  // one that cannot be looked into: resume_from says so
    if (auto second = io::checkpoint::list(job.checkpoint.second.dir))
      all.insert(all.end(), second->begin(), second->end());
  const auto epoch = io::checkpoint::next_epoch(all);
  if (epoch <= std::numeric_limits<uint32_t>::max()) return static_cast<uint32_t>(epoch);
  return error{errc::bad_data,
               fmt::format("a checkpoint in {}{}{} claims to be of epoch {}", job.checkpoint.dir,
                           job.checkpoint.second.dir.empty() ? "" : " or ",
                           job.checkpoint.second.dir, epoch - 1),
               "`troupe ckpt ls` shows which: take it away"};
}

/// The checkpoint to resume from, if any; it and weights to start from are verified. What
/// interrupted saves left is removed.
result<std::optional<checkpoint::entry>> start_of(const config::job& job) {
  TROUPE_CHECK(checkpoint::check_owner(job));  // before anything is touched
  TROUPE_CHECK(clean(job.checkpoint.dir));
  if (!job.checkpoint.second.dir.empty())
    if (auto cleaned = clean(job.checkpoint.second.dir); !cleaned)
      say("warning: " + render(cleaned.error()));  // the run can do without it
  if (checkpoint::is_checkpoint(job.model.path)) TROUPE_CHECK(checkpoint::verify(job.model.path));
  TROUPE_TRY(start, checkpoint::resume_from(job.checkpoint.resume, job.checkpoint.dir,
                                            job.checkpoint.second.dir));
  for (const auto& line : start.passed_over) say("warning: " + line);
  return start.from;
}

/// Leaves in the folders of checkpoints what leads to this start, and sets the rest aside.
status leave_behind(const config::job& job, const io::checkpoint::origin& origin) {
  const auto in = [&](const std::string& dir) -> status {
    TROUPE_TRY(told, checkpoint::set_aside(dir, origin));
    for (const auto& sentence : told) say(sentence);
    return {};
  };
  TROUPE_CHECK(in(job.checkpoint.dir));
  if (!job.checkpoint.second.dir.empty())
    if (auto second = in(job.checkpoint.second.dir); !second)
      say("warning: " + render(second.error()));  // its line says what it is all the same
  return {};
}

/// A disk that so much is to be written to is worth a second of measuring, once
/// (io/disk/calibrate).
constexpr uint64_t worth_calibrating_bytes = uint64_t{256} << 20;

/// The slots that the disk of checkpoints likes best, unless the job says which.
status settle_slots(train::job_plan& plan) {
  auto& c = plan.job.checkpoint;
  TROUPE_TRY(shares, checkpoint::shares_of(plan));
  uint64_t bytes = 0;
  for (const auto& s : shares) bytes += s.stream_bytes;
  if (c.slot_bytes != 0 || bytes < worth_calibrating_bytes) return {};
  TROUPE_CHECK(checkpoint::make_folder(std::filesystem::absolute(c.dir).lexically_normal()));
  auto measured = io::calibrate(c.dir, {});
  if (measured)
    c.slot_bytes = static_cast<int64_t>(measured->best.chunk_bytes);
  else
    say("warning: the disk of checkpoints was not measured: " + render(measured.error()));
  return {};
}

result<launch> prepare(const job_arguments& arguments, const std::string& log_format) {
  auto sources = arguments.sources();
  if (!log_format.empty()) sources.sets.push_back("log.format=" + log_format);
  TROUPE_TRY(loaded, config::load(sources));
  launch l;
  TROUPE_TRY(plan, train::make_plan(loaded.value));
  l.plan = std::move(plan);
  TROUPE_CHECK(cluster::check(cluster::network_of(l.plan.job.cluster, "coordinator")));
  TROUPE_TRY(epoch, epoch_of(l.plan.job));  // before leftovers are removed: they count
  l.epoch = epoch;
  TROUPE_TRY(resume, start_of(l.plan.job));
  l.resume = std::move(resume);
  TROUPE_CHECK(settle_slots(l.plan));
  std::error_code code;
  std::filesystem::create_directories(l.plan.job.job.output, code);
  if (code)
    return error::system(fmt::format("make the folder {}", l.plan.job.job.output), code.value());
  l.peak_flops = local_peak(l.plan.job);
  l.origin = checkpoint::origin_of(l.resume);
  TROUPE_CHECK(leave_behind(l.plan.job, l.origin));  // last: the start is not refused any more
  return l;
}

std::string address_of(const config::cluster_section& c) {
  if (!c.advertise.empty()) return c.advertise;
  return c.listen.empty() || c.listen == "0.0.0.0" ? "127.0.0.1" : c.listen;
}

trace::observer_options observer_of(const config::job& job) {
  return {"head", address_of(job.cluster), job.job.output};
}

/// UTC, as RFC 3339 has it.
std::string wall_time() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

trace::desk_options desk_of(const config::job& job) {
  return {job.job.name, 1, job.job.output + "/audit.jsonl", wall_time};
}

/// The actors of this process that speak with persons; they end with the scope, after the
/// coordinator was told to.
struct front_office {
  front_office(caf::actor_system& system, reporter_options talk, const config::job& job)
      : teller(system.spawn<caf::detached>(reporter, std::move(talk))),
        watcher(system.spawn<caf::detached>(trace::observer, observer_of(job))),
        counter(system.spawn<caf::detached>(trace::desk, desk_of(job))) {}
  ~front_office() {
    caf::anon_send_exit(counter, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(watcher, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(teller, caf::exit_reason::user_shutdown);
  }
  front_office(const front_office&) = delete;
  front_office& operator=(const front_office&) = delete;

  reporter_actor teller;
  observer_actor watcher;
  desk_actor counter;
};

result<int> up(const job_arguments& arguments, const std::string& log_format,
               const std::string& record) {
  TROUPE_TRY(keeper, trace::keeper::start());  // before the first thread
  TROUPE_TRY(desk, signal_desk::open());
  TROUPE_TRY(l, prepare(arguments, log_format));
  const auto& job = l.plan.job;
  sign_flight_memory("head", address_of(job.cluster),
                     std::filesystem::absolute(job.job.output).string());
  const auto network = cluster::network_of(job.cluster, "coordinator");
  auto outcome = std::make_shared<run_outcome>();
  std::optional<watchdog> guard;
  std::optional<replay::recording> lives;  // outlives the actors
  if (!record.empty())
    lives.emplace(replay::recording_options{record, replay::recording_path(job.job.output, "head"),
                                            "head", address_of(job.cluster)});
  std::atomic<bool> coordinator_gone{false};  // outlives the system, whose actors set it
  cluster::system_config config(network);
  caf::actor_system system(config);
  const orderly_end last;
  reporter_options talk{job, l.peak_flops, job.job.output + "/log.jsonl", outcome,
                        [&bell = *desk] { bell.wake(); }};
  const front_office front(system, std::move(talk), job);
  auto head = system.spawn(cluster::coordinator, cluster::coordinator_options{
                                                     l.plan, l.epoch, l.resume, l.origin,
                                                     front.teller, front.counter, front.watcher});
  head->attach_functor([&coordinator_gone, &bell = *desk] {
    coordinator_gone = true;
    bell.wake();
  });
  int signal = 0;
  {
    node_processes nodes;
    std::optional<meeting_sign> sign;
    auto started = [&]() -> status {
      TROUPE_TRY(port, cluster::publish(network.tls(), head, job.cluster.listen,
                                        static_cast<uint16_t>(job.cluster.port)));
      say(fmt::format("coordinator of {} at {}:{}", job.job.name, address_of(job.cluster), port));
      sign.emplace(meeting_point{job.job.name, getpid(),
                                 fmt::format("{}:{}", address_of(job.cluster), port),
                                 job.job.output, network});
      return nodes.start(job, address_of(job.cluster), port, record);
    }();
    if (!started) {
      caf::anon_send_exit(head, caf::exit_reason::kill);
      return started.error();
    }
    watch w(*desk, nodes, head, outcome);
    signal = w.until_over();
    w.until_alone(coordinator_gone);
  }
  caf::anon_send_exit(head, caf::exit_reason::kill);
  auto code = conclude(job, *outcome, signal);
  guard.emplace(std::chrono::seconds(5), code ? *code : exit_code(code.error().code));
  return code;
}

}  // namespace

void add_up(shell& sh) {
  auto* verb = sh.app.add_subcommand("up", "Start a cluster from a configuration and train");
  auto arguments = std::make_shared<job_arguments>();
  auto log_format = std::make_shared<std::string>();
  auto record = std::make_shared<std::string>();
  add_job_arguments(verb, *arguments);
  verb->add_option("--log-format", *log_format, "auto, plain or json (short for --set log.format=)")
      ->one_of({"auto", "plain", "json"});
  verb->add_option("--record-actor", *record,
                   "Record the actors whose path fits from their birth, e.g. 'stage/*', for "
                   "`troupe replay`");
  verb->footer(
      "The first Ctrl-C finishes the step, saves and stops; the second aborts at once.\n"
      "Run it again to go on from the last checkpoint.\n\n"
      "Examples:\n"
      "  troupe up configs/quickstart.toml\n"
      "  troupe up configs/quickstart.toml --set train.steps=50 --log-format json");
  on_run(sh, verb,
         [arguments, log_format, record] { return up(*arguments, *log_format, *record); });
}

}  // namespace troupe::apps

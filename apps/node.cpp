// `troupe node`: one process of a cluster. Started by `troupe up`, or by a scheduler on its host.
#include <unistd.h>
#include <array>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "actors/capture/crash_dumper.hpp"
#include "actors/cluster/basp_gate.hpp"
#include "actors/cluster/network.hpp"
#include "actors/cluster/node.hpp"
#include "actors/control/observer.hpp"
#include "actors/replay/recording.hpp"
#include "apps/commands.hpp"
#include "apps/control/control_folders.hpp"
#include "apps/control/session.hpp"
#include "apps/parent.hpp"
#include "apps/up/signals.hpp"
#include "apps/up/watchdog.hpp"
#include "apps/voice.hpp"
#include "gpu/back_end.hpp"
#include "gpu/controls/restore.hpp"
#include "gpu/controls/settings_keeper.hpp"
#include "io/config/load.hpp"

namespace troupe::apps {

namespace {

struct node_arguments {
  std::string join;
  std::string name;
  std::string advertise;
  cluster::network_options network;
  int64_t join_timeout_ms = 60'000;
  int64_t heartbeat_ms = 0, dead_after_ms = 0;  ///< 0: as the environment or the defaults have it
  int parent = 0;
  bool tied_to_input = false;
  bool allow_injection = false;
  int process = 1;
  std::string black_box_dir = ".";
  std::string record;
};

/// How the node ended, from its actor to the main thread.
struct node_end {
  std::mutex mutex;
  std::optional<error> why;
};

/// For a launcher on another host, to whom this process is tied by its standard input alone: where
/// that was open and ends, the launcher has ended, or wants this process to.
void tie_to_input(bool known_open) {
  std::thread([known_open]() mutable {
    char bytes[64];
    for (;;) {
      const auto n = ::read(STDIN_FILENO, bytes, sizeof(bytes));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      known_open = true;
    }
    if (known_open) kill(getpid(), SIGKILL);  // as on the launcher's machine
  }).detach();
}

/// The key by which a node without a certificate is known: from standard input ("-", as `up` gives
/// it), a file, or the sign of a job of this user on this machine.
result<tls::job_key> node_key(const std::string& from, const std::string& host, uint16_t port) {
  if (from == "-") return tls::job_key::read(STDIN_FILENO);
  if (!from.empty()) return tls::job_key::read(from);
  const auto here = meeting_point_at(host, port);
  if (!here || here->secret.empty())
    return error{errc::unavailable,
                 fmt::format("no coordinator at {}:{} is known here, and no key was given", host,
                             port),
                 "start `troupe up` first, or give --key FILE, made by `troupe key --role node` "
                 "where it runs, or a certificate"};
  TROUPE_TRY(secret, tls::job_key::read(here->secret));
  return secret.of(tls::role::node);
}

/// Flags first; what they leave out comes from TROUPE_CLUSTER__... in the environment.
status complete(node_arguments& a, const std::string& host, uint16_t port) {
  TROUPE_TRY(section, config::cluster_without_file(config::process_environment(), {}));
  const auto from_environment = cluster::network_of(section, a.name);
  if (!a.network.by_certificate() && a.network.key.empty()) {
    a.network.ca = from_environment.ca;
    a.network.certificate = from_environment.certificate;
    a.network.key = from_environment.key;
  }
  if (!a.network.by_certificate()) {
    TROUPE_TRY(key, node_key(a.network.key, host, port));
    TROUPE_TRY(proof, tls::proof_by(key, std::array{tls::bearer{tls::role::node, a.name}}));
    a.network.proof = std::move(proof);
  }
  // CAF wants its times before it connects; those of our own heartbeats come with the welcome.
  a.network.heartbeat_interval_ms =
      a.heartbeat_ms > 0 ? a.heartbeat_ms : from_environment.heartbeat_interval_ms;
  a.network.dead_after_ms = a.dead_after_ms > 0 ? a.dead_after_ms : from_environment.dead_after_ms;
  return cluster::prove(a.network);
}

std::string own_address(const node_arguments& a, const std::string& coordinator) {
  if (!a.advertise.empty()) return a.advertise;
  if (config::is_loopback(coordinator)) return "127.0.0.1";
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// Also for the watchdog: a node that was refused has failed, however long its threads take to go.
int exit_code_of(node_end& end, int signal) {
  std::lock_guard lock(end.mutex);
  return signal != 0 ? 128 + signal : exit_code(end.why->code);
}

/// Why it failed; errc::none where it was told to end, or went with the run.
error reason_of(node_end& end, int signal) {
  std::lock_guard lock(end.mutex);
  return signal != 0 ? error{errc::none, ""} : *end.why;
}

/// HOST:PORT, or several with commas between them.
result<std::vector<std::string>> addresses_in(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    TROUPE_CHECK(host_and_port(out.back()));
    at = end + 1;
  }
  return out;
}

result<int> run_node(node_arguments a) {
  TROUPE_CHECK(tie_to_parent(a.parent));
  TROUPE_TRY(crash_dumper, trace::crash_dumper::start());  // before the first thread
  const auto controls = own_controls();
  TROUPE_TRY(keeper, gpu::controls::keep_settings(controls));  // so is this
  TROUPE_TRY(signals, signal_queue::open());
  speak_through_outboxes();  // who reads our words may go before us, as ssh does
  TROUPE_TRY(heads, addresses_in(a.join));
  TROUPE_TRY(target, host_and_port(heads.front()));
  // Whatever this job's control is: what cannot be undone is told by who needs it, and by restore.
  static_cast<void>(gpu::controls::restore(controls, false, gpu::controls::left_by::jobs));
  TROUPE_CHECK(complete(a, target.first, target.second));
  if (a.tied_to_input) tie_to_input(a.network.key == "-");
  sign_flight_memory(a.name, own_address(a, target.first),
                     std::filesystem::absolute(a.black_box_dir).string());
  if (a.allow_injection) cluster::may_fall_silent();
  node_end end;
  std::optional<watchdog> guard;
  int signal = 0;
  {
    cluster::system_config config(a.network);
    std::optional<replay::recording> logs;  // outlives the actors
    if (!a.record.empty())
      logs.emplace(config.own,
                   replay::recording_options{
                       a.record, replay::recording_path(a.black_box_dir, a.name, a.process), a.name,
                       own_address(a, target.first)});
    caf::actor_system system(config);
    const orderly_end last{system};
    const cluster::renewals_end before_it{system};
    trace::observer_options look{a.name, own_address(a, target.first), a.black_box_dir};
    auto looking = system.spawn<caf::detached>(trace::observer, std::move(look));
    cluster::node_options options{a.name,
                                  target.first,
                                  target.second,
                                  own_address(a, target.first),
                                  a.join_timeout_ms,
                                  caf::actor_cast<caf::weak_actor_ptr>(looking),
                                  [&end, &bell = *signals](const error& why) {
                                    {
                                      std::lock_guard lock(end.mutex);
                                      end.why = why;
                                    }
                                    bell.wake();
                                  }};
    options.accelerators = gpu::accelerators();
    options.makes_drills = a.allow_injection;
    options.probes = true;
    options.heads = heads;
    options.host = cluster::this_host(controls);
    auto actor = system.spawn(cluster::node, std::move(options));
    auto over = [&] {
      std::lock_guard lock(end.mutex);
      return end.why.has_value();
    };
    while (!over() && signal == 0)
      if (auto event = signals->wait(-1); event && *event != 0 && *event != SIGCHLD)
        signal = *event;
    guard.emplace(std::chrono::seconds(5), exit_code_of(end, signal), reason_of(end, signal));
    if (signal != 0) caf::anon_send_exit(actor, caf::exit_reason::kill);
    caf::anon_send_exit(looking, caf::exit_reason::user_shutdown);
  }
  if (signal != 0) return 128 + signal;
  if (end.why->code != errc::none) return *end.why;
  return 0;
}

}  // namespace

void add_node(shell& sh) {
  auto* verb = sh.app.add_subcommand("node", "Run one node of a cluster (what `up` starts)");
  auto a = std::make_shared<node_arguments>();
  verb->add_option("--join", a->join,
                   "The coordinator; where the job has several heads all of them, with commas")
      ->required()
      ->type_name("HOST:PORT");
  verb->add_option("--name", a->name, "This node's name in the configuration")->required();
  verb->add_option("--advertise", a->advertise, "Address other nodes reach this one at");
  verb->add_option("--ca", a->network.ca, "PEM file of the authority");
  verb->add_option("--certificate", a->network.certificate, "PEM file of this node's certificate");
  verb->add_option("--key", a->network.key,
                   "PEM file of its key; without a certificate a key that `troupe key` made, - to "
                   "read it from standard input");
  verb->add_option("--heartbeat-ms", a->heartbeat_ms, "Between heartbeats of the network");
  verb->add_option("--dead-after-ms", a->dead_after_ms, "Silence that means death");
  verb->add_option("--join-timeout-ms", a->join_timeout_ms, "How long to look for the coordinator");
  verb->add_option("--black-box-dir", a->black_box_dir,
                   "Where the last seconds are written when an actor dies");
  verb->add_option("--record-actor", a->record,
                   "Record the actors whose path fits, for `troupe replay`");
  verb->add_flag("--allow-injection", a->allow_injection,
                 "Take part in a job that has drills ([[inject]]): faults that it makes itself");
  verb->add_option("--process", a->process, "Which process of the node this is")->hidden();
  verb->add_option("--parent", a->parent, "End with this process")->hidden();
  verb->add_flag("--tied-to-input", a->tied_to_input, "End with standard input")->hidden();
  on_run(sh, verb, [a] { return run_node(*a); });
}

}  // namespace troupe::apps

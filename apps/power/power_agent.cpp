// From the command line to a signal.
#include "apps/power/power_agent.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "actors/cluster/host.hpp"
#include "actors/power/meter.hpp"
#include "actors/power/pacer.hpp"
#include "apps/control/control_folders.hpp"
#include "apps/control/session.hpp"
#include "apps/power/journal_file.hpp"
#include "apps/power/power.hpp"
#include "apps/power/power_serve.hpp"
#include "apps/talk.hpp"
#include "apps/up/run_log.hpp"
#include "apps/up/signals.hpp"
#include "apps/up/watchdog.hpp"
#include "apps/voice.hpp"
#include "gpu/controls/agent_server.hpp"
#include "gpu/controls/restore.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "io/base/text.hpp"
#include "io/checkpoint/line.hpp"
#include "io/config/budget_place.hpp"
#include "io/config/power_control.hpp"
#include "io/tls/certs.hpp"
#include "io/tls/keyring.hpp"

namespace troupe::apps::power_verb {

namespace fs = std::filesystem;

namespace {

using gpu::controls::machine_controls;

constexpr const char* agent_remedy =
    "run it as root, in a container with /sys and /run/troupe of the host, both writable, or with "
    "--dry-run, which decides and changes nothing";

/// An actor system with the machine's meter and who holds it.
class agent_system {
 public:
  agent_system(const cluster::network_options& network, power::meter_options meter,
               power::pacer_options options)
      : config_(network),
        system_(config_),
        last_{system_},
        before_it_{system_},
        meter_(system_.spawn<caf::detached>(power::meter, std::move(meter))) {
    options.held->meter = meter_;
    pacer_ = system_.spawn<caf::detached>(power::pacer, options);
  }
  ~agent_system() {
    caf::anon_send_exit(pacer_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(meter_, caf::exit_reason::user_shutdown);
  }
  agent_system(const agent_system&) = delete;
  agent_system& operator=(const agent_system&) = delete;

  const pacer_actor& pacer() const { return pacer_; }

 private:
  cluster::system_config config_;
  caf::actor_system system_;
  const orderly_end last_;
  const cluster::renewals_end before_it_;
  meter_actor meter_;
  pacer_actor pacer_;
};

/// By certificates, or by a key, which is the budget's. A link to another port than the budget's
/// is proved by a secret of its own, which is in no file: nobody else proves himself by it.
result<cluster::network_options> agent_network_of(const agent_arguments& a) {
  auto out = a.network;
  if (out.by_certificate()) return out;
  out.key.clear();
  TROUPE_TRY(key, tls::job_key::make());
  out.proof = tls::proof{std::move(key), {tls::role::node, "agent"}};
  return out;
}

power::pacer_journal::sink journal_to(const fs::path& file, bool as_json) {
  return [to = std::make_shared<journal_file>(file), as_json](const std::string& line) {
    auto whole = stamped(line, unix_now());
    if (as_json) static_cast<void>(print(whole + "\n"));
    to->take(std::move(whole));
  };
}

/// Between the thread that waits for signals and the actor: MHD-6.
struct going {
  std::atomic<bool> is_wanted{false}, is_counted{false};
};

power::held_machine machine_of_agent(const agent_arguments& a,
                                     const std::shared_ptr<machine_controls>& controls, going& goes,
                                     signal_queue& bell) {
  power::held_machine out;
  out.node = a.name;
  if (a.static_w >= 0) out.share_mw = std::llround(a.static_w * 1000);
  out.is_to_go = [&goes] { return goes.is_wanted.load(); };
  out.counted = [&goes, &bell] {
    goes.is_counted = true;
    bell.wake();
  };
  out.say = [name = a.name](const std::string& text) { say(fmt::format("{}: {}", name, text)); };
  if (!controls) return out;
  out.found = train::work_pace{controls->adopted_at()};
  out.set = [controls](train::work_pace pace, bool& is_any_set) {
    return controls->set(pace.of_1024, &is_any_set);
  };
  return out;
}

using gpu::controls::agent_event;
using gpu::controls::agent_server;

/// AGS-4
std::string who_asks(const agent_event& e) {
  const auto as = fmt::format("process {} of user {}", e.peer.pid, e.peer.uid);
  if (e.owner.job.empty()) return as;
  return fmt::format("rank {} of {} ({})", e.owner.rank, e.owner.job, as);
}

/// A line of the journal.
std::string asked_line(const agent_event& e) {
  if (e.what == agent_event::type::left_out)
    return nlohmann::ordered_json{{"event", to_string(e.what)}, {"of", e.word}, {"count", e.count}}
        .dump();
  nlohmann::ordered_json out{
      {"event", to_string(e.what)}, {"pid", e.peer.pid}, {"uid", e.peer.uid}, {"gid", e.peer.gid}};
  if (!e.owner.job.empty()) {
    out["job"] = e.owner.job;
    out["rank"] = e.owner.rank;
    out["launch"] = fmt::format("{:016x}", e.owner.launch);
  }
  if (!e.word.empty()) out["control"] = e.word;
  if (!e.gpu.empty()) out["gpu"] = e.gpu;
  if (e.what == agent_event::type::set) out["pace_of_1024"] = e.pace_of_1024;
  if (!e.why.empty()) out["not_set"] = e.why;
  return out.dump();
}

/// What a person is told of it; empty: nothing, for it comes with each other pace.
std::string asked_sentence(const agent_event& e) {
  const auto device = e.gpu.empty() ? e.word : fmt::format("{} of {}", e.word, e.gpu);
  switch (e.what) {
    case agent_event::type::taken:
      return fmt::format("{} has its pace set here, by {}", who_asks(e), device);
    case agent_event::type::let_go:
      return fmt::format("{} has its pace set here no more, by {}{}{}", who_asks(e), device,
                         e.why.empty() ? "" : ": ", e.why);
    case agent_event::type::refused:
      return fmt::format("{} is refused: {}", who_asks(e), e.why);
    case agent_event::type::set:
      return e.why.empty() ? "" : fmt::format("{}: {} is not set: {}", who_asks(e), device, e.why);
    case agent_event::type::left_out:
      return fmt::format("{} more {} within a minute are counted, and not told", e.count, e.word);
  }
  return "";
}

/// Where jobs ask; null: nowhere. PGA-4
result<std::unique_ptr<agent_server>> serve_jobs(const agent_arguments& a,
                                                 const std::shared_ptr<machine_controls>& controls,
                                                 const power::pacer_journal::sink& journal) {
  if (a.socket.empty() || !controls) return std::unique_ptr<agent_server>();
  gpu::controls::agent_server_options options;
  options.socket = a.socket;
  options.group = a.socket_group;
  options.agent = a.name;
  options.tell = [name = a.name, journal, told = std::string()](const agent_event& e) mutable {
    journal(asked_line(e));
    auto text = asked_sentence(e);
    if (text.empty() || text == told) return;  // who is refused may come again and again
    say(fmt::format("{}: {}", name, text));
    told = std::move(text);
  };
  return agent_server::start(std::move(options), controls);
}

std::string agent_sentence(const agent_arguments& a, const machine_controls* controls) {
  std::string does = "meters alone";
  if (a.dry_run) does = "decides, and sets nothing (--dry-run)";
  if (controls) {
    const auto by = controls->words();
    does = fmt::format("sets {}", by.empty() ? fmt::format("{}", fmt::join(a.control, ", "))
                                             : fmt::format("{}", fmt::join(by, " and ")));
    if (const auto at = controls->adopted_at(); at < gpu::controls::whole_pace)
      does += fmt::format(", from the {:.1f} % on at which an agent before it has left them",
                          100 * train::work_pace{at}.share());
  }
  return fmt::format("{} joins the power budget {}, and {}; its journal is {}", a.name, a.parent,
                     does, (fs::path(a.output) / "power.jsonl").string());
}

/// Where that lasts too long a person is told what stays.
void take_settings_back(machine_controls& controls, const std::string& name) {
  const watchdog guard(
      defaults::orderly_end, exit_code(errc::io),
      error(errc::io,
            fmt::format("the agent {} ends before all that it set is as it was found", name),
            "`troupe power restore` sets what its records found"));
  controls.end();
}

/// Of the answer that is under way as it ends, and of the one to what it says then.
constexpr auto let_go_wait = 2 * defaults::let_go_patience;

/// What is set is asked for and let go behind a lock that a set has which a driver never ends.
void watch_end(std::optional<watchdog>& guard, const std::string& name) {
  guard.emplace(
      let_go_wait + defaults::orderly_end, exit_code(errc::io),
      error(
          errc::io,
          fmt::format("the agent {} ends while a device does not answer: what is set stays", name),
          "`troupe power restore` sets what its records found, once that device answers again"));
}

/// PGA-2
enum class agent_end : uint8_t { by_itself, for_the_next, for_good };

bool is_end(std::optional<int> event) {
  return event == SIGINT || event == SIGTERM || event == SIGHUP;
}

agent_end wait_for_agent_end(signal_queue& signals, const std::atomic<bool>& gone) {
  for (;;) {
    const auto event = signals.wait(-1);
    if (is_end(event)) return event == SIGTERM ? agent_end::for_the_next : agent_end::for_good;
    if (gone) return agent_end::by_itself;
  }
}

/// Whether the budget counts the machine at its ceiling from now on; another signal waits no more.
bool until_counted(signal_queue& signals, going& goes) {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + let_go_wait;
  goes.is_wanted = true;
  while (!goes.is_counted) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_clock::now()).count();
    if (left <= 0 || is_end(signals.wait(static_cast<int>(left)))) break;
  }
  return goes.is_counted;
}

/// PGA-2: nothing is let go that the budget goes on to count as held.
status settle(agent_end how, const std::string& name, machine_controls* controls,
              signal_queue& signals, going& goes) {
  constexpr const char* by_hand =
      "`troupe power restore` sets what was found; take the machine out of its budget first, which "
      "counts it as held";
  const bool holds = controls && controls->held_at() < gpu::controls::whole_pace;
  if (holds && how != agent_end::for_good) {
    controls->stay();
    say(fmt::format("{} ends: what it has set stays for the next one, as the budget counts it; {}",
                    name, by_hand));
    return {};
  }
  const bool is_counted = how != agent_end::by_itself && until_counted(signals, goes);
  if (holds && !is_counted) {
    controls->stay();
    return error{errc::io,
                 fmt::format("what the agent {} has set stays: the budget does not answer that it "
                             "counts the machine at its ceiling",
                             name),
                 by_hand};
  }
  if (controls) take_settings_back(*controls, name);
  say(fmt::format("{} ends: nothing holds this machine any more, and the budget {}", name,
                  is_counted ? "counts it at its ceiling"
                             : "has not answered: it may count less than can be drawn"));
  return {};
}

result<int> run_agent(agent_arguments a) {
  if (a.output.empty()) a.output = "power/" + a.name;
  TROUPE_TRY(who, agent_joiner(a));
  TROUPE_CHECK(check_socket(a));
  TROUPE_CHECK(check_power_parent(who));
  speak_through_outboxes();
  TROUPE_TRY(signals, signal_queue::open());
  TROUPE_TRY(network, agent_network_of(a));
  TROUPE_CHECK(cluster::prove(network));
  const auto at = own_controls();
  TROUPE_TRY(controls, controls_of(a, at));
  auto lock = hold_output(who.output, who.name);
  if (!lock) {
    if (controls) controls->leave();
    return lock.error();
  }
  const auto journal = journal_to(lock->folder() / "power.jsonl", a.json);
  auto server = serve_jobs(a, controls, journal);
  if (!server) {
    if (controls) controls->leave();
    return server.error();
  }
  if (!a.dry_run)  // PGA-2; what stays is told by who needs it
    static_cast<void>(gpu::controls::restore(at, false));
  going goes;  // outlives the system, whose actor knows it
  const auto here = cluster::this_host();
  const auto machine = cluster::machine_of(here->facts());
  power::meter_options meter;
  meter.node = a.name;
  meter.machine = machine;
  meter.open = [model = a.model] { return gpu::open_machine_readers(model); };
  meter.processor_time = [here] { return here->processor_time(); };
  power::pacer_options options;
  options.parent = power_parent_of(who);
  options.journal = journal;
  options.machine = machine;
  options.control = a.control;
  options.held = machine_of_agent(a, controls, goes, *signals);
  say(agent_sentence(a, controls.get()));
  std::optional<watchdog> guard;
  std::atomic<bool> gone{false};  // outlives the system, whose actor sets it
  agent_system system(network, std::move(meter), std::move(options));
  system.pacer()->attach_functor([&gone, &bell = *signals] {
    gone = true;
    bell.wake();
  });
  const auto how = wait_for_agent_end(*signals, gone);
  watch_end(guard, a.name);
  server->reset();  // PGA-4
  auto ended = settle(how, a.name, controls.get(), *signals, goes);
  if (how == agent_end::by_itself)
    ended = error(errc::bug, fmt::format("the agent {} ended by itself", a.name),
                  "its journal says what it decided last; start it again");
  guard.emplace(defaults::orderly_end, ended ? 0 : exit_code(ended.error().code),
                ended ? error(errc::none, "") : ended.error());
  if (!ended) return ended.error();
  return 0;
}

}  // namespace

result<power_joiner> agent_joiner(const agent_arguments& a) {
  if (!tls::is_name(a.name))
    return error{errc::usage, fmt::format("--name {} is no name", troupe::quoted(a.name)),
                 "it is the name of a [[child]] of the budget: letters, digits, '.', '_' and '-'"};
  if (a.parent.empty())
    return error{errc::usage, "--parent names no power budget",
                 "expected auto, auto:NAME or HOST:PORT"};
  power_joiner out;
  out.name = a.name;
  out.parent = a.parent;
  out.has_certificates = a.network.by_certificate();
  if (!out.has_certificates) out.parent_key = a.network.key;
  const auto fault = config::fault_of_parent({"--parent", "--key", "--certificate"}, a.parent,
                                             out.parent_key, out.has_certificates);
  if (fault)
    return error{errc::usage,
                 fmt::format("{}: {}", fault->of_key ? "--key" : "--parent", fault->what),
                 fault->hint};
  out.output = fs::absolute(a.output).lexically_normal().string();
  return out;
}

status check_socket(const agent_arguments& a) {
  if (a.socket.empty() && a.socket_group.empty()) return {};
  if (a.socket.empty())
    return error{errc::usage, "--socket-group names who may ask, and there is no --socket",
                 "name one, as --socket /run/troupe/agent.sock"};
  if (!a.dry_run && !a.control.empty()) return {};
  return error{errc::usage,
               "--socket is where jobs have their pace set, and this agent sets nothing",
               "name what it sets by --control, without --dry-run, or leave --socket out"};
}

result<std::shared_ptr<machine_controls>> controls_of(const agent_arguments& a,
                                                      const gpu::controls::control_place& at) {
  if (const auto wrong = config::fault_of_control(a.control, config::agent_control_words))
    return error{errc::usage, "--control " + wrong->what, wrong->hint};
  if (a.dry_run || a.control.empty()) return std::shared_ptr<machine_controls>();
  std::vector<gpu::controls::setting_kind> words;
  for (const auto& word : a.control)
    if (const auto kind = gpu::controls::setting_kind_named(word)) words.push_back(*kind);
  const auto with_remedy_here = [](error e) {
    e.hint = agent_remedy;
    return e;
  };
  auto devices = gpu::controls::devices_of_machine(at, words);
  if (!devices) return with_remedy_here(devices.error());
  auto made = machine_controls::make(at, std::move(*devices),
                                     {a.name, 0, io::checkpoint::draw_launch(), true});
  if (!made) return with_remedy_here(made.error());
  return std::shared_ptr<machine_controls>(std::move(*made));
}

void add_agent(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand(
      "agent", "Join a machine without a job to a power budget, and hold what it grants");
  auto a = std::make_shared<agent_arguments>();
  verb->add_option("--name", a->name, "The [[child]] of the budget that this machine is")
      ->required()
      ->takes(offered::nothing_known);
  verb->add_option("--parent", a->parent, "The budget: auto, auto:NAME or HOST:PORT")
      ->capture_default_str()
      ->takes(offered::nothing_known);
  verb->add_option("--control", a->control,
                   "What holds the machine's watts: of those for GPUs, and of those for "
                   "processors, the first that each offers; default: nothing, it only reports "
                   "them")
      ->delimiter(',')
      ->one_of({config::agent_control_words.begin(), config::agent_control_words.end()});
  verb->add_option("--model-idle-w", a->model.idle_w,
                   "Where no meter says watts: what the machine draws idle")
      ->not_negative();
  verb->add_option("--model-core-w", a->model.core_w, "and more for each busy processor")
      ->not_negative();
  verb->add_option("--static-w", a->static_w,
                   "Its static_w in the budget's file: to hold that from the start, before the "
                   "budget is heard; default: once it is")
      ->within(0.0, 1e9);  // as in that file
  verb->add_option(
          "--socket", a->socket,
          "Where jobs without the right have their pace set by it (power.agent_socket), as "
          "/run/troupe/agent.sock; default: nowhere")
      ->takes(offered::file);
  verb->add_option("--socket-group", a->socket_group,
                   "The group whose members may ask there; default: that of this process")
      ->takes(offered::nothing_known);
  verb->add_option("--output", a->output, "Its folder; default: power/NAME")
      ->takes(offered::folder);
  verb->add_flag("--dry-run", a->dry_run, "Decide and keep the journal, but set nothing");
  verb->add_flag("--json", a->json, "The journal on stdout, as JSON lines");
  add_identity_options(verb, a->network);
  verb->footer(
      "SIGTERM ends it, and what it has set stays for the next one, which goes on from there, as\n"
      "after a death. SIGINT ends it for good: what was found is set again, once the budget\n"
      "counts the machine at its ceiling_w. When the budget is not heard the machine has its\n"
      "static share. Exit codes: 0, 75 another agent has the folder, or listens at --socket,\n"
      "69 or 77 what --control names cannot be set here, 74 what it set was not taken back.\n\n"
      "Examples:\n"
      "  troupe power agent --name rack7 --control cpufreq,rapl\n"
      "  troupe power agent --name rack7 --parent 10.0.0.5:7070 --control nvml_clocks \\\n"
      "    --ca ca.pem --certificate rack7.pem --key rack7.key --dry-run");
  on_run(sh, verb, [a] { return run_agent(*a); });
}

}  // namespace troupe::apps::power_verb

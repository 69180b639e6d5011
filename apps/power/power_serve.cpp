// What is written and said, and the process from its start to a signal.
#include "apps/power/power_serve.hpp"

#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "actors/base/runtime.hpp"
#include "actors/capture/crash_dumper.hpp"
#include "actors/capture/flight_memory.hpp"
#include "actors/capture/identities.hpp"
#include "actors/cluster/network.hpp"
#include "actors/control/gateway.hpp"
#include "actors/control/observer.hpp"
#include "actors/power/node_parent.hpp"
#include "apps/control/job_secret.hpp"
#include "apps/power/budget_audit.hpp"
#include "apps/power/budget_disk.hpp"
#include "apps/power/budget_sign.hpp"
#include "apps/power/power.hpp"
#include "apps/talk.hpp"
#include "apps/up/folders.hpp"
#include "apps/up/power_parent.hpp"
#include "apps/up/run_log.hpp"
#include "apps/up/signals.hpp"
#include "apps/up/watchdog.hpp"
#include "apps/voice.hpp"
#include "io/base/counted.hpp"
#include "io/config/budget_place.hpp"
#include "io/config/load.hpp"
#include "io/disk/storage.hpp"
#include "io/file.hpp"
#include "io/folder/lock.hpp"
#include "io/folder/owned.hpp"
#include "io/formats/number_table.hpp"
#include "io/tls/certs.hpp"

namespace troupe::apps::power_verb {

namespace fs = std::filesystem;

namespace {

using nlohmann::ordered_json;

constexpr size_t epoch_file_bytes = 4096;
constexpr size_t schedule_row_bytes = 64, schedule_rows = power::budget_schedule::most_rows;
constexpr int64_t ns_of_ms = 1'000'000;

std::string text_of(const ordered_json& j) {
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

double static_shares_w(const config::power_tree& tree) {
  int64_t sum_mw = 0;
  for (const auto& c : tree.child) sum_mw += config::milliwatts(c.static_w);
  return static_cast<double>(sum_mw) / 1000;
}

std::vector<std::string> names_of_children(const config::power_tree& tree) {
  std::vector<std::string> out;
  for (const auto& c : tree.child) out.push_back(c.name);
  return out;
}

power::named_child named_child_of(const config::power_child& c) {
  power::budget_child terms;
  terms.priority = c.priority == config::power_priority::high ? power::power_class::high
                                                              : power::power_class::low;
  terms.floor_mw = config::milliwatts(c.floor_w);
  terms.static_share_mw = config::milliwatts(c.static_w);
  terms.ceiling_mw = config::milliwatts(c.ceiling_w);
  terms.paused_mw = config::milliwatts(c.paused_w);
  terms.others_work = c.others_work;
  terms.idle_mw = config::milliwatts(c.idle_w);
  return {c.name, terms, c.certificate, c.phase};
}

power::row_rule row_rule_of(const config::power_tree& tree) {
  return tree.policy == config::power_rule::ladder ? power::row_rule::ladder
                                                   : power::row_rule::polca;
}

power::row_thresholds thresholds_of(const config::power_tree& tree) {
  auto out = power::thresholds_of(row_rule_of(tree));
  if (tree.t1 >= 0) out.t1 = tree.t1;
  if (tree.t2 >= 0) out.t2 = tree.t2;
  if (tree.t3 >= 0) out.t3 = tree.t3;
  return out;
}

/// Where this machine finds it.
std::string host_shown(const config::power_tree& tree) {
  return tree.listen == "0.0.0.0" ? "127.0.0.1" : tree.listen;
}

/// What is not said is as the policy has it.
void set_row(power::budget_rules& rules, const config::power_tree& tree) {
  const bool in_thresholds = tree.mode == config::power_mode::thresholds;
  const auto actuation_ms = config::actuation_ms(tree.tick_ms);
  rules.mode = in_thresholds ? power::budget_mode::thresholds : power::budget_mode::shares;
  rules.clock_exponent = 1;  // jobs have a pace, whose watts are as their work
  rules.thresholds = thresholds_of(tree);
  rules.row = power::rules_of(in_thresholds ? row_rule_of(tree) : power::row_rule::none,
                              rules.thresholds, actuation_ms * ns_of_ms, tree.tick_ms * ns_of_ms);
  rules.row.hysteresis = tree.hysteresis;
  if (tree.settle_ms >= 0)
    rules.row.settle_up_ns = rules.row.settle_down_ns = tree.settle_ms * ns_of_ms;
  if (tree.undo_ms >= 0) rules.row.settle_down_ns = tree.undo_ms * ns_of_ms;
  rules.row.brake_hold_ns = tree.brake_hold_ms * ns_of_ms;
  rules.row.release_gap_ns = tree.release_gap_ms * ns_of_ms;
  rules.unruly_ticks = static_cast<int>(tree.unruly_ticks);
  rules.row.release_groups =
      static_cast<int>(std::min<size_t>(power::overload_policy::groups, tree.child.size()));
}

/// Whether what a person has set in a life before is the budget. PSV-4
bool still_holds(const config::power_tree& tree, const power::budget_record& record) {
  if (!record.set || record.set->instead_of_mw != config::milliwatts(tree.budget_w)) return false;
  return power::watts_of(record.set->budget_mw) >= static_shares_w(tree);
}

}  // namespace

result<uint64_t> next_epoch(const fs::path& file, uint64_t known) {
  const error foreign(
      errc::bad_data,
      fmt::format("{} does not say how many lives the budget has had", file.string()),
      "children ignore what an earlier life grants: write {\"epoch\": N} there, N "
      "not below the last epoch in power.jsonl and power.jsonl.1");
  uint64_t before = 0;
  const auto text = io::read_file(file, epoch_file_bytes);
  if (!text && text.error().code != errc::not_found) return text.error();
  if (text) {
    const auto j = ordered_json::parse(*text, nullptr, false);
    if (!j.is_object() || j.size() != 1 || !j.contains("epoch")) return foreign;
    const auto& epoch = j["epoch"];
    if (!epoch.is_number_unsigned() || epoch.get<uint64_t>() >= power::beyond_lives) return foreign;
    before = epoch.get<uint64_t>();
  }
  const auto next = std::max(before, known) + 1;
  TROUPE_CHECK(io::write_atomic(file, text_of({{"epoch", next}}) + "\n"));
  return next;
}

power::budget_options budget_options_of(const config::power_tree& tree, uint64_t epoch,
                                        const power::budget_record& record) {
  power::budget_options out;
  out.name = tree.name;
  set_row(out.rules, tree);
  out.rules.tick_ns = tree.tick_ms * ns_of_ms;
  out.rules.ttl_ns = tree.lease_ttl_ms * ns_of_ms;
  out.rules.noise_mw = config::milliwatts(tree.noise_w);
  out.rules.fresh_ns = (config::report_gap_ms(tree.tick_ms) + tree.tick_ms) * ns_of_ms;
  out.rules.pulls_brake = tree.brake == config::power_brake::automatic;
  for (const auto& c : tree.child) {
    out.children.push_back(named_child_of(c));
    const auto it = record.children_mw.find(c.name);
    if (it != record.children_mw.end()) out.children.back().terms.remembered_mw = it->second;
  }
  if (still_holds(tree, record)) out.set = record.set;
  out.brake = record.brake;
  out.pulled = record.pulled;
  out.budget_mw = out.set ? out.set->budget_mw : config::milliwatts(tree.budget_w);
  out.epoch = epoch;
  return out;
}

std::string set_sentence(const config::power_tree& tree, const power::budget_record& record) {
  if (!record.set) return "";
  const auto& set = *record.set;
  const auto set_w = power::watts_of(set.budget_mw);
  const auto by = fmt::format("{}{}", set.by.empty() ? "" : " by " + set.by,
                              set.time.empty() ? "" : " at " + set.time);
  if (still_holds(tree, record))
    return fmt::format(
        "{0} has {1:.6g} W, set{2}, not {4} {3:.6g} W of its file: until that names another "
        "budget, or `troupe power budget {3:.6g}`",
        tree.name, set_w, by, tree.budget_w,
        tree.follow.empty() ? "the" : fmt::format("what {} says, nor the", tree.follow));
  return fmt::format(
      "{} {} by its file; the {:.6g} W that were set{} hold no more: {}", tree.name,
      tree.follow.empty() ? fmt::format("has {:.6g} W", tree.budget_w) : "follows " + tree.follow,
      set_w, by,
      set.instead_of_mw == config::milliwatts(tree.budget_w)
          ? "static shares are more than that"
          : fmt::format("it named {:.6g} W then", power::watts_of(set.instead_of_mw)));
}

/// PSV-5
status know_all(const power::budget_record& record, const config::power_tree& tree,
                const fs::path& state) {
  for (const auto& [name, mw] : record.children_mw)
    if (std::none_of(tree.child.begin(), tree.child.end(),
                     [&, &who = name](const auto& c) { return c.name == who; }))
      return error{errc::bad_config,
                   fmt::format("{} may draw {:.6g} W by {}, and is no child of {}", name,
                               power::watts_of(mw), state.string(), tree.name),
                   "add its [[child]] again; once it runs no more, remove it from that file"};
  return {};
}

result<power::budget_options> begin_life(const config::power_tree& tree, const fs::path& folder) {
  const auto state = folder / "power.state";
  TROUPE_TRY(record, read_record(state));
  TROUPE_CHECK(know_all(record, tree, state));
  TROUPE_TRY(epoch, next_epoch(folder / "power.epoch", record.epoch));
  auto out = budget_options_of(tree, epoch, record);
  if (const auto text = set_sentence(tree, record); !text.empty()) say(text);
  if (out.brake)
    say(fmt::format(
        "{0} holds all work, as a person has set: `troupe power brake {0} off` lets it go "
        "on",
        tree.name));
  if (record.set && !out.set) {
    record.set.reset();
    TROUPE_CHECK(io::write_atomic(state, power::record_text(record)));
  }
  out.keeper = std::make_shared<record_file>(state);
  out.wall_time = wall_time;
  return out;
}

namespace {

/// PSV-6
status check_certificate(const config::power_tree& tree) {
  if (!tree.tls.enabled()) return {};
  const auto files = config::tls_of(tree.tls, tree.name);
  const auto make =
      fmt::format("make certificates with: troupe certs DIR --budget {}=HOST", tree.name);
  const auto who = tls::verify(files.ca, files.certificate, files.key);
  if (!who)
    return error{errc::bad_config, who.error().message,
                 who.error().hint.empty() ? make : who.error().hint};
  if (who->as == tls::role::power) return {};
  return error{errc::bad_config,
               fmt::format("{} is a certificate of role {}, expected power", files.certificate,
                           to_string(who->as)),
               make};
}

}  // namespace

result<config::power_tree> read_budget(const std::string& file) {
  TROUPE_TRY(tree, config::load_power_tree(file));
  if (const auto marks = power::check(row_rule_of(tree), thresholds_of(tree)); !marks)
    return error(errc::bad_config, marks.error().message,
                 "t1, t2 and t3 are shares of the budget, each not below the one before")
        .within(file);
  if (const auto t1 = thresholds_of(tree).t1; tree.hysteresis >= t1)
    return error(errc::bad_config,
                 fmt::format("hysteresis is {}, and T1 {}: no cap would be undone", tree.hysteresis,
                             t1),
                 "caps are undone where less than a threshold less the hysteresis is drawn")
        .within(file);
  const auto options = budget_options_of(tree, 1);
  std::vector<power::budget_child> children;
  for (const auto& c : options.children) children.push_back(c.terms);
  const auto sound = power::check(options.rules, children, options.budget_mw);
  if (!sound) return sound.error().within(file);
  const auto above = config::budget_place_of(tree.parent);
  if (above && above->at &&
      is_reached_at(tree.listen, static_cast<uint16_t>(tree.port), *above->at))  // PTR-5
    return power::own_parent(tree.name).within(file);
  if (const auto key = check_power_parent(joiner_of(tree)); !key) return key.error().within(file);
  if (const auto own = check_certificate(tree); !own) return own.error().within(file);
  return tree;
}

result<std::optional<power::budget_schedule>> read_schedule(const config::power_tree& tree,
                                                            double unix_s) {
  if (tree.follow.empty()) return std::optional<power::budget_schedule>();
  TROUPE_TRY(text, io::read_file(tree.follow, schedule_row_bytes * schedule_rows));
  const auto table = io::parse_number_table(text);
  if (!table) return table.error().within(tree.follow);
  auto schedule = power::budget_schedule::of(
      *table, {tree.follow, unix_s, std::llround(static_shares_w(tree) * 1000)});
  if (!schedule) return schedule.error().within(tree.follow);
  return std::optional(std::move(*schedule));
}

std::string budget_sentence(const config::power_tree& tree,
                            const std::optional<power::budget_schedule>& schedule) {
  auto out = fmt::format("{} has {:.6g} W for {}, whose static shares are {:.6g} W together",
                         tree.name, tree.budget_w, counted(tree.child.size(), "child", "children"),
                         static_shares_w(tree));
  if (tree.mode == config::power_mode::thresholds) {
    const auto marks = thresholds_of(tree);
    out += fmt::format("; by {} they may have more while less than {:.6g} % of it is drawn",
                       power::to_string(row_rule_of(tree)), 100 * marks.t1);
  }
  if (schedule)
    out +=
        fmt::format("; it follows {}: {:.6g} to {:.6g} W in {}", schedule->name(),
                    power::watts_of(schedule->least_mw()), power::watts_of(schedule->greatest_mw()),
                    counted(schedule->rows(), "row", "rows"));
  if (!tree.parent.empty())
    out += fmt::format("; it is a child of another budget ({})", tree.parent);
  return out;
}

std::string budget_json(const config::power_tree& tree) {
  ordered_json children = ordered_json::array();
  for (const auto& c : tree.child)
    children.push_back({{"name", c.name},
                        {"priority", c.priority == config::power_priority::high ? "high" : "low"},
                        {"floor_w", c.floor_w},
                        {"static_w", c.static_w},
                        {"ceiling_w", c.ceiling_w},
                        {"paused_w", c.paused_w},
                        {"others_work", c.others_work},
                        {"idle_w", c.idle_w},
                        {"phase", c.phase}});
  return text_of({{"type", "power_budget"},
                  {"budget", tree.name},
                  {"budget_w", tree.budget_w},
                  {"mode", tree.mode == config::power_mode::thresholds ? "thresholds" : "shares"},
                  {"static_w", static_shares_w(tree)},
                  {"tick_ms", tree.tick_ms},
                  {"lease_ttl_ms", tree.lease_ttl_ms},
                  {"noise_w", tree.noise_w},
                  {"brake", tree.brake == config::power_brake::automatic ? "auto" : "manual"},
                  {"output", tree.output},
                  {"follow", tree.follow},
                  {"textfile", tree.textfile},
                  {"parent", tree.parent},
                  {"children", children}}) +
         "\n";
}

namespace {

struct serve_arguments {
  std::string file;
  bool check = false, json = false, dry_run = false;
};

/// Detached: what others do makes no tick late.
budget_actor spawn_budget(caf::actor_system& system, const power::budget_options& options) {
  return system.spawn<caf::detached>(power::budget, options);
}

/// What persons are shown of a budget's process, and where it leaves what it knows.
struct looked_at {
  std::string name, host, folder;
  std::shared_ptr<budget_audit> audit;
};

/// An actor system with a budget in it, and with what persons' tools speak to.
class budget_system {
 public:
  budget_system(const cluster::network_options& network, power::budget_options options,
                const looked_at& as)
      : config_(network),
        system_(config_),
        last_{system_},
        before_it_{system_},
        observer_(system_.spawn<caf::detached>(
            trace::observer, trace::observer_options{as.name, as.host, as.folder})),
        gateway_(system_.spawn<caf::detached>(trace::gateway, gateway_of(options, as))) {
    runtime_of(system_).peers.set_refusal_listener(
        [audit = as.audit](const refusal& r) { audit->refused(r); });
    introduce_observer(as);
    options.gateway = gateway_;
    options.orders = as.audit;
    budget_ = spawn_budget(system_, options);
  }
  ~budget_system() {
    runtime_of(system_).peers.set_refusal_listener({});
    caf::anon_send_exit(budget_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(gateway_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(observer_, caf::exit_reason::user_shutdown);
  }
  budget_system(const budget_system&) = delete;
  budget_system& operator=(const budget_system&) = delete;

  const budget_actor& budget() const { return budget_; }

  /// Of a budget that has ended by itself; its black box is written first (PSV-7). For the main
  /// thread.
  error why_ended(const std::string& name) {
    error out(errc::bug, fmt::format("the budget {} ended by itself", name),
              "its journal and its log say what it heard last; start it again");
    caf::scoped_actor self(system_);
    self->request(observer_, defaults::orderly_end,
                  make_msg<fbs::DumpBlackBox>({}, [&](auto& d) { d.reason = "budget ended"; }))
        .receive(
            [&](const msg<fbs::Ack>& box) {
              out.hint = fmt::format(
                  "its last messages are in {} (troupe trace stats FILE); start it again",
                  box.unpack().text);
            },
            [](const caf::error&) {});
    return out;
  }

 private:
  static trace::gateway_options gateway_of(const power::budget_options& options,
                                           const looked_at& as) {
    trace::gateway_options out;
    out.job = as.name;
    out.epoch = static_cast<uint32_t>(options.epoch);
    out.wall_time = wall_time;
    out.audit = as.audit->log();
    return out;
  }

  /// Its one process, as a coordinator says it of those of a job.
  void introduce_observer(const looked_at& as) {
    caf::anon_send(gateway_,
                   make_msg<fbs::Observe>({},
                                          [&](auto& o) {
                                            o.node = as.name;
                                            o.host = as.host;
                                            o.pid = static_cast<uint32_t>(getpid());
                                            o.process = process_tag();
                                          }),
                   caf::actor_cast<caf::strong_actor_ptr>(observer_));
  }

  cluster::system_config config_;
  caf::actor_system system_;
  const orderly_end last_;
  const cluster::renewals_end before_it_;
  observer_actor observer_;
  gateway_actor gateway_;
  budget_actor budget_;
};

/// How children and persons know that it is this budget, and it knows them.
struct known_by {
  cluster::network_options network;
  fs::path secret;  ///< empty: by certificates
};

/// PSV-6
result<known_by> means_of_budget(const config::power_tree& tree) {
  known_by out;
  if (tree.tls.enabled()) {
    config::cluster_section as_of_jobs;
    as_of_jobs.tls = tree.tls;
    out.network = cluster::network_of(as_of_jobs, tree.name);
    out.network.nodes_as = tls::role::power;
    return out;
  }
  TROUPE_TRY(secret, job_secret::open(tree.name, tree.output));
  out.network.proof = tls::proof{secret.key(), {tls::role::node, "budget"}};
  out.secret = secret.file();
  return out;
}

/// What it decides, hears and sees.
void keep_on_disk(power::budget_options& options, const config::power_tree& tree,
                  const fs::path& folder, bool as_json) {
  const auto journal = std::make_shared<budget_journal>(folder / "power.jsonl", as_json);
  options.journal = [journal](const std::string& line) { journal->take(line, unix_now()); };
  const auto inputs = std::make_shared<journal_file>(folder / "power.inputs");
  options.inputs = [inputs](const std::string& line) {
    inputs->take(stamped_object(line, unix_now()));
  };
  const auto trace = std::make_shared<budget_trace_file>(folder / "power.csv");
  options.trace = [trace](const power::budget_trace_row& row) { trace->take(row, unix_now()); };
  if (tree.textfile.empty()) return;
  const auto file = std::make_shared<tree_textfile>(fs::absolute(tree.textfile));
  options.shown = [file](fbs::PowerTreeT t) { file->take(std::move(t)); };
}

/// "70 W", or what says it.
std::string what_is_served(const power::budget_options& o) {
  if (o.schedule && !o.set) return "what " + o.schedule->name() + " says";
  return fmt::format("{:.6g} W", power::watts_of(o.budget_mw));
}

result<int> serve(const serve_arguments& a) {
  TROUPE_TRY(tree, read_budget(a.file));
  TROUPE_TRY(schedule, read_schedule(tree, unix_now()));
  if (a.check) {
    TROUPE_CHECK(print(a.json ? budget_json(tree) : budget_sentence(tree, schedule) + "\n"));
    return 0;
  }
  if (a.dry_run && !tree.parent.empty())
    return error{errc::usage,
                 fmt::format("--dry-run of {}, which is a child of another budget ({})", tree.name,
                             tree.parent),
                 "what it grants would be above what it has from there: leave `parent` out"};
  TROUPE_TRY(crash_dumper, trace::crash_dumper::start());  // before the first thread
  speak_through_outboxes();
  TROUPE_TRY(signals, signal_queue::open());
  TROUPE_TRY(lock, hold_output(tree.output, tree.name));
  sign_flight_memory(tree.name, host_shown(tree), lock.folder().string());  // PSV-7
  TROUPE_TRY(known, means_of_budget(tree));
  TROUPE_CHECK(cluster::prove(known.network));
  TROUPE_TRY(options, begin_life(tree, lock.folder()));
  options.schedule = std::move(schedule);
  options.dry_run = a.dry_run;
  options.parent = power_parent_of(joiner_of(tree));
  keep_on_disk(options, tree, lock.folder(), a.json);
  std::optional<watchdog> guard;
  std::atomic<bool> gone{false};  // outlives the system, whose actor sets it
  const auto audit =
      std::make_shared<budget_audit>(lock.folder() / "audit.jsonl", tree.name, wall_time);
  budget_system system(known.network, options,
                       {tree.name, host_shown(tree), lock.folder().string(), audit});
  system.budget()->attach_functor([&gone, &bell = *signals] {
    gone = true;
    bell.wake();
  });
  const auto port =
      cluster::publish(system.budget(), tree.listen, static_cast<uint16_t>(tree.port));
  if (!port) {
    guard.emplace(defaults::orderly_end, exit_code(port.error().code), port.error());
    return port.error();
  }
  const auto address = fmt::format("{}:{}", host_shown(tree), *port);
  static_cast<void>(lock.say_address(address));  // a hint for persons
  const budget_sign sign({tree.name, getpid(), address, known.secret, names_of_children(tree)});
  say(fmt::format("{} serves {} to {} at {}", tree.name, what_is_served(options),
                  counted(tree.child.size(), "child", "children"), address));
  if (a.dry_run)
    say(
        fmt::format("{} holds nobody to that: it is a dry run, each child has its whole ceiling, "
                    "and what would be granted stands in power.jsonl",
                    tree.name));
  const bool asked = wait_for_end(*signals, gone);
  const auto why = asked ? error(errc::none, "") : system.why_ended(tree.name);
  guard.emplace(defaults::orderly_end, asked ? 0 : exit_code(why.code), why);
  if (!asked) return why;
  say(
      fmt::format("{} is served no more: children fall to their static shares when their leases "
                  "lapse",
                  tree.name));
  return 0;
}

}  // namespace

result<io::folder_lock> hold_output(const std::string& output, const std::string& name) {
  const auto folder = fs::absolute(output).lexically_normal();
  TROUPE_CHECK(io::make_folders(io::local_files(), folder));
  TROUPE_TRY(lock, take_folder(folder, io::this_process(name), claim_on_folders::if_free));
  TROUPE_CHECK(io::mark_output(folder, name));
  return lock;
}

bool wait_for_end(signal_queue& signals, const std::atomic<bool>& gone) {
  for (;;) {
    const auto event = signals.wait(-1);
    if (event == SIGINT || event == SIGTERM || event == SIGHUP) return true;
    if (gone) return false;
  }
}

void add_serve(shell& sh, command* parent) {
  auto* verb =
      parent->add_subcommand("serve", "Hold a power budget that jobs share, or budgets below it");
  auto a = std::make_shared<serve_arguments>();
  verb->add_option("file", a->file, "The budget and its children: POWER.toml")
      ->required()
      ->takes(offered::file);
  verb->add_flag("--check", a->check, "Read and judge the file, and end");
  verb->add_flag("--dry-run", a->dry_run,
                 "Decide and journal, but grant each child its ceiling and pull no brake");
  verb->add_flag("--json", a->json, "The journal on stdout, as JSON lines");
  verb->footer(
      "A job of this user on this machine joins by power.parent = \"auto\", one on another "
      "machine\n"
      "by HOST:PORT and certificates. SIGINT or SIGTERM ends it at once; jobs fall to their "
      "static\n"
      "shares by themselves. Its console: troupe console --job NAME.\n\n"
      "Exit codes: 0, 75 another process serves it, 78 the file is impossible.\n\n"
      "Examples:\n"
      "  troupe power serve configs/power.toml\n"
      "  troupe power serve configs/power.toml --check");
  on_run(sh, verb, [a] { return serve(*a); });
}

}  // namespace troupe::apps::power_verb

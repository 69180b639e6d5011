// `troupe power tree`, `troupe power why`, `troupe power budget` and `troupe power brake`: a
// person's look at a budget, and his words to it.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/base/ask.hpp"
#include "actors/base/defaults.hpp"
#include "actors/cluster/network.hpp"
#include "apps/control/reach.hpp"
#include "apps/control/session.hpp"
#include "apps/power/budget_sign.hpp"
#include "apps/power/power.hpp"
#include "apps/power/power_status.hpp"
#include "apps/power/power_why.hpp"
#include "apps/power/prometheus.hpp"
#include "apps/power/tree_report.hpp"
#include "apps/talk.hpp"
#include "io/base/printable.hpp"
#include "messages/errors.hpp"

namespace troupe::apps::power_verb {

namespace {

/// Which budget, and as whom.
struct budget_place {
  std::string name;     ///< picks one of several on this machine
  std::string address;  ///< HOST:PORT; empty: by its sign
  /// Files of a certificate, or one that `troupe key` made; empty: its secret, by its sign.
  cluster::network_options network;
};

void add_budget_place(command* verb, budget_place& into) {
  verb->add_option("--connect", into.address, "The budget; default: the one that is served here")
      ->type_name("HOST:PORT")
      ->takes(offered::nothing_known);
  add_identity_options(verb, into.network);
}

/// A person's tool connected to a budget. For main threads: its calls wait.
class budget_client {
 public:
  /// Errors: not_found where none is known here, unavailable where it does not answer.
  static result<std::unique_ptr<budget_client>> open(const budget_place& at);

  const std::string& name() const { return name_; }

  template <class R, class T>
  result<msg<R>> ask(const msg<T>& m) {
    result<msg<R>> out = error{errc::timeout, "the budget does not answer"};
    const std::chrono::milliseconds patience(contract_of<budget_actor, T>().timeout_ms);
    self_->request(budget_, patience, m)
        .receive([&](const msg<R>& answer) { out = answer; },
                 [&](const caf::error& e) { out = from_caf(e); });
    return out;
  }

 private:
  budget_client(std::string name, const cluster::network_options& network)
      : name_(std::move(name)), config_(network), system_(config_), self_(system_) {}

  std::string name_;
  cluster::system_config config_;
  caf::actor_system system_;
  caf::scoped_actor self_;
  budget_actor budget_;
};

/// The sign of the budget that is meant, where it stands on this machine.
result<served_budget> sign_of_place(const budget_place& at) {
  if (at.address.empty()) return the_served_budget(at.name);
  TROUPE_TRY(target, host_and_port(at.address));
  for (auto& b : served_budgets())
    if (is_at(b.address, target.first, target.second)) {
      if (at.name.empty() || at.name == b.name) return std::move(b);
      return error{errc::not_found,
                   fmt::format("the power budget at {} is {}, not {}", at.address, b.name, at.name),
                   "leave the name or --connect out"};
    }
  if (!at.network.key.empty()) return served_budget{at.name, 0, at.address, {}};
  return error{
      errc::unavailable,
      fmt::format("no power budget of yours is known here at {}, and neither a key nor a "
                  "certificate was given",
                  at.address),
      "its owner makes keys with: troupe key --role operator --budget BUDGET --name NAME --out "
      "FILE"};
}

/// By what a person proves himself there.
result<cluster::network_options> means_of(const budget_place& at, const served_budget& sign) {
  auto out = at.network;
  out.budgets_as = tls::role::node;  // LNK-6
  if (out.by_certificate()) return out;
  if (out.key.empty()) out.key = sign.secret.string();
  if (out.key.empty()) return certificate_wanted(sign.name);
  TROUPE_CHECK(take_key(out));
  return out;
}

result<std::unique_ptr<budget_client>> budget_client::open(const budget_place& at) {
  spdlog::set_level(spdlog::level::err);  // a tool answers; its own log is nobody's business
  TROUPE_TRY(sign, sign_of_place(at));
  TROUPE_TRY(target, host_and_port(sign.address));
  TROUPE_TRY(network, means_of(at, sign));
  TROUPE_CHECK(cluster::prove(network));
  std::unique_ptr<budget_client> out(new budget_client(sign.name, network));
  TROUPE_TRY(peer, reach(out->self_, target.first, target.second, defaults::connect_timeout,
                         a_power_budget));
  out->budget_ = caf::actor_cast<budget_actor>(peer);
  return out;
}

struct tree_arguments {
  budget_place at;
  bool json = false, prometheus = false;
};

/// `child`: only that one; empty: all.
result<fbs::PowerTreeT> tree_at(const budget_place& at, const std::string& child = "") {
  TROUPE_TRY(budget, budget_client::open(at));
  const auto question = make_msg<fbs::ReadPowerTree>({}, [&](auto& m) { m.child = child; });
  TROUPE_TRY(answer, budget->ask<fbs::PowerTree>(question));
  return answer.unpack();
}

result<int> show_tree(const tree_arguments& a) {
  TROUPE_CHECK(one_format(a.json, a.prometheus));
  TROUPE_TRY(tree, tree_at(a.at));
  TROUPE_CHECK(print(a.json         ? tree_json(tree)
                     : a.prometheus ? tree_prometheus(tree)
                                    : tree_text(tree)));
  return 0;
}

struct why_arguments {
  budget_place at;
  std::string job;  ///< empty: all
  bool json = false;
};

/// What the only job here says of itself, or the one of that name. Errors: as session::open.
result<power_why> why_by_running(const std::string& job) {
  connect_options to;
  to.job = job;
  TROUPE_TRY(s, session::open(to));
  TROUPE_TRY(view, s->view("", "", false));
  return why_by_job(job_power_in(view));
}

/// One of a budget that is served; what the job says itself is added where it runs here.
result<std::vector<power_why>> why_in(const fbs::PowerTreeT& tree, const why_arguments& a) {
  std::vector<power_why> out;
  for (const auto& c : tree.children)
    if (a.job.empty() || c->name == a.job) out.push_back(why_by_budget(tree, *c));
  if (out.empty() && !a.job.empty()) {
    TROUPE_TRY(none, tree_at(a.at, a.job));  // its error says which names there are
    return out;
  }
  if (out.size() != 1) return out;
  const auto own = why_by_running(out.front().job);
  if (!own) return out;  // it runs elsewhere, or does not answer
  add_own_words(out.front(), *own);
  return out;
}

result<std::vector<power_why>> why_of(const why_arguments& a) {
  const auto tree = tree_at(a.at);
  if (tree) return why_in(*tree, a);
  const bool named = !a.at.name.empty() || !a.at.address.empty();
  if (named || tree.error().code != errc::not_found) return tree.error();
  auto own = why_by_running(a.job);  // its budget is its own, or on another machine
  if (!own) return own.error();
  return std::vector<power_why>{std::move(*own)};
}

result<int> show_why(const why_arguments& a) {
  TROUPE_TRY(all, why_of(a));
  TROUPE_CHECK(print(a.json ? why_json(all) : why_text(all)));
  return 0;
}

struct set_arguments {
  budget_place at;
  std::string watts;
  std::string for_time;
};

result<int> set_budget(const set_arguments& a) {
  TROUPE_TRY(cap_mw, milliwatts_in(a.watts));
  uint64_t for_ms = 0;
  if (!a.for_time.empty()) {
    TROUPE_TRY(ms, milliseconds_in(a.for_time));
    for_ms = ms;
  }
  TROUPE_TRY(budget, budget_client::open(a.at));
  const auto order = make_msg<fbs::SetPowerBudget>({}, [&](auto& m) {
    m.budget = budget->name();
    m.cap_mw = cap_mw;
    m.for_ms = for_ms;
  });
  TROUPE_TRY(ack, budget->ask<fbs::Ack>(order));
  TROUPE_CHECK(print(ack.unpack().text + "\n"));
  return 0;
}

struct brake_arguments {
  budget_place at;
  std::vector<std::string> words;  ///< the name, if it is said, and what to do
};

result<int> set_brake(brake_arguments a) {
  const auto what = a.words.back();
  if (a.words.size() > 2)
    return error{errc::usage,
                 fmt::format("{} words, expected a name and on or off", a.words.size()),
                 "troupe power brake row0 on"};
  if (what != "on" && what != "off")
    return error{errc::usage, fmt::format("the brake is on or off, not {}", printable(what)),
                 "troupe power brake row0 on"};
  if (a.words.size() > 1) a.at.name = a.words.front();
  TROUPE_TRY(budget, budget_client::open(a.at));
  const auto order = make_msg<fbs::SetPowerBrake>({}, [&](auto& m) {
    m.budget = budget->name();
    m.on = what == "on";
  });
  TROUPE_TRY(ack, budget->ask<fbs::Ack>(order));
  TROUPE_CHECK(print(ack.unpack().text + "\n"));
  return 0;
}

}  // namespace

void add_tree(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand("tree", "Show who has which watts of a served budget");
  auto a = std::make_shared<tree_arguments>();
  verb->add_option("name", a->at.name, "The budget, where several are served here")
      ->takes(offered::nothing_known);
  verb->add_flag("--json", a->json, "As one JSON object");
  verb->add_flag("--prometheus", a->prometheus, "As Prometheus's text format");
  add_budget_place(verb, a->at);
  verb->footer(
      "A wave before watts: a part of them at least is calculated, not measured.\n"
      "Exit codes: 0, 66 no such budget is served here, 69 it does not answer.\n\n"
      "Examples:\n"
      "  troupe power tree\n"
      "  troupe power tree row0 --json | jq .children");
  on_run(sh, verb, [a] { return show_tree(*a); });
}

void add_why(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand("why", "Say why a job has so few watts, or is slow");
  auto a = std::make_shared<why_arguments>();
  verb->add_option("job", a->job, "Its name; default: all that share the budget")
      ->takes(offered::job);
  verb->add_option("--budget", a->at.name, "The budget, where several are served here")
      ->takes(offered::nothing_known);
  verb->add_flag("--json", a->json, "As one JSON object");
  add_budget_place(verb, a->at);
  verb->footer(
      "Of the budget that is served here; where there is none, of the job's own.\n"
      "Exit codes: 0, 66 neither a budget nor such a job is here, 69 none answers.\n\n"
      "Examples:\n"
      "  troupe power why gpt-b\n"
      "  troupe power why --json | jq .jobs[].answer");
  on_run(sh, verb, [a] { return show_why(*a); });
}

void add_budget(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand("budget", "Set the watts that a served budget divides");
  auto a = std::make_shared<set_arguments>();
  verb->add_option("watts", a->watts, "What its children share from now on, in watts")
      ->required()
      ->type_name("FLOAT")
      ->takes(offered::nothing_known);
  verb->add_option("--budget", a->at.name, "Its name, where several are served here")
      ->takes(offered::nothing_known);
  verb->add_option("--for", a->for_time,
                   "So long, then what was set for good: 90s, 2h; default: for good")
      ->type_name("TIME")
      ->takes(offered::nothing_known);
  add_budget_place(verb, a->at);
  verb->footer(
      "What its children have without it (static_w) must fit. A job's own budget is set by\n"
      "troupe console -c 'power budget 55'.\n\n"
      "Examples:\n"
      "  troupe power budget 55 --for 2h\n"
      "  troupe power budget 70 --budget row0");
  on_run(sh, verb, [a] { return set_budget(*a); });
}

void add_brake(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand("brake", "Hold all work below a served budget at once");
  auto a = std::make_shared<brake_arguments>();
  verb->add_option("words", a->words, "The budget, where several are served here, and on or off")
      ->type_name("[NAME] on|off")
      ->required()
      ->takes(offered::nothing_known);
  add_budget_place(verb, a->at);
  verb->footer(
      "Each rank of each job ends the operation that it is at and begins no other, within the\n"
      "step, until the brake is off; losses are the same. A job that no longer hears the budget\n"
      "goes on when its lease is over, with its static share.\n\n"
      "Examples:\n"
      "  troupe power brake on\n"
      "  troupe power brake row0 off");
  on_run(sh, verb, [a] { return set_brake(*a); });
}

}  // namespace troupe::apps::power_verb

// `troupe key`: hands out a part of the secret of a running job, or of a power budget, to somebody,
// so that he comes in too.
#include <filesystem>

#include <fmt/format.h>

#include "apps/commands.hpp"
#include "apps/control/meeting_point.hpp"
#include "apps/control/session.hpp"
#include "apps/power/budget_sign.hpp"
#include "io/tls/keyring.hpp"

namespace troupe::apps {

namespace {

struct key_arguments {
  std::string address, job, budget, as = "reader", name, out;

  bool to_budget() const { return !budget.empty() || as == "power"; }
};

/// Where there is a secret, and how who has a key of it comes in.
struct door {
  std::string name;     ///< of the job or the budget
  std::string address;  ///< "127.0.0.1:40879"
  std::filesystem::path secret;
};

result<meeting_point> known_at(const std::string& address) {
  TROUPE_TRY(target, host_and_port(address));
  if (auto here = meeting_point_at(target.first, target.second)) return std::move(*here);
  return error{errc::not_found, fmt::format("no cluster of yours is known here at {}", address)};
}

error no_secret(const std::string& name) {
  return {errc::usage, fmt::format("{} has certificates, and no secret", name),
          "make a certificate with: troupe certs DIR --operator NAME"};
}

/// The power budget of this user that is meant; it must have a secret.
result<door> door_of_budget(const key_arguments& a) {
  if (!a.job.empty() || !a.address.empty())
    return error{errc::usage, "a key is either for a job or for a power budget",
                 "leave out --job and --connect, or --budget and --role power"};
  if (a.as == "node")
    return error{errc::usage, "a power budget has no nodes",
                 "make a key of role power for a job, or of role operator or reader for a person"};
  TROUPE_TRY(here, the_served_budget(a.budget));
  if (here.secret.empty()) return no_secret(here.name);
  return door{here.name, here.address, here.secret};
}

/// The job of this user that is meant; it must have a secret.
result<door> door_of_job(const key_arguments& a) {
  TROUPE_TRY(here, a.address.empty() ? the_meeting_point(a.job) : known_at(a.address));
  if (!here.secret.empty()) return door{here.job, here.address, here.secret};
  return no_secret(here.job);
}

result<tls::job_key> key_for(const tls::job_key& secret, const key_arguments& a) {
  if (a.as == "node") return secret.of(tls::role::node);  // nodes let each other in by it
  if (a.name.empty() && a.as == "power")
    return error{errc::usage, "which job is the key of role power for?",
                 "say --name JOB: the name of the job, as the budget's configuration has it"};
  if (a.name.empty())
    return error{errc::usage, fmt::format("whom is the {}'s key for?", a.as),
                 "say --name NAME: the name in the audit log"};
  const auto as = a.as == "power"      ? tls::role::power
                  : a.as == "operator" ? tls::role::operator_
                                       : tls::role::reader;
  return secret.handed_to({as, a.name});
}

std::string how_to_come_in(const key_arguments& a, const door& here) {
  if (a.as == "power")
    return fmt::format("power.parent = \"{}\" and power.parent_key = \"{}\" in its configuration",
                       here.address, a.out);
  if (a.to_budget()) return fmt::format("troupe power tree --connect {} --key FILE", here.address);
  if (a.as == "node")
    return fmt::format("troupe node --join {} --name NAME --key FILE", here.address);
  return fmt::format("troupe console --connect {} --key FILE", here.address);
}

result<int> hand_out(const key_arguments& a) {
  TROUPE_TRY(here, a.to_budget() ? door_of_budget(a) : door_of_job(a));
  TROUPE_TRY(secret, tls::job_key::read(here.secret));
  TROUPE_TRY(key, key_for(secret, a));
  TROUPE_CHECK(key.write(a.out));
  say(fmt::format("{} is a key of {} {}; its holder comes in with: {}", a.out, here.name,
                  a.to_budget() ? "as long as it keeps its secret" : "until that job is done",
                  how_to_come_in(a, here)));
  return 0;
}

}  // namespace

void add_key(shell& sh) {
  auto* verb = sh.app.add_subcommand(
      "key", "Make a key that lets somebody into a running job or a power budget");
  verb->footer(
      "For jobs without certificates, and for power budgets. The key is of one role and says\n"
      "nothing of others. Whoever has the file comes in: hand it over by a way that you trust.\n\n"
      "Examples:\n"
      "  troupe key --role reader --name grafana --out grafana.key\n"
      "  troupe key --role operator --name alice --out alice.key\n"
      "  troupe key --role node --out node.key        # for nodes on another host\n"
      "  troupe key --role power --name gpt-a --budget row0 --out gpt-a.key");
  auto a = std::make_shared<key_arguments>();
  verb->add_option("--role", a->as,
                   "reader (looks), operator (commands), node (joins) or power (a job, or a "
                   "budget, at the power budget above it)")
      ->one_of({"reader", "operator", "node", "power"});
  verb->add_option("--name", a->name, "Whom it is for; nodes have theirs from the configuration")
      ->takes(offered::nothing_known);
  verb->add_option("--out", a->out, "File to make, readable by you alone")->required();
  verb->add_option("--budget", a->budget, "The power budget served here, in place of a job")
      ->takes(offered::nothing_known);
  verb->add_option("--job", a->job, "The job, where several run here")->takes(offered::job);
  verb->add_option("--connect", a->address, "The same by its address")->type_name("HOST:PORT")
      ->takes(offered::address);
  on_run(sh, verb, [a] { return hand_out(*a); });
}

}  // namespace troupe::apps

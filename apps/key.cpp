// `troupe key`: hands out a part of a running job's secret to somebody, so that he comes in too.
#include <fmt/format.h>

#include "apps/commands.hpp"
#include "apps/control/meeting_point.hpp"
#include "apps/control/session.hpp"
#include "io/tls/keyring.hpp"

namespace troupe::apps {

namespace {

struct key_arguments {
  std::string address, job, as = "reader", name, out;
};

result<meeting_point> known_at(const std::string& address) {
  TROUPE_TRY(target, host_and_port(address));
  if (auto here = meeting_point_at(target.first, target.second)) return std::move(*here);
  return error{errc::not_found, fmt::format("no cluster of yours is known here at {}", address)};
}

/// The job of this user that is meant; it must have a secret.
result<meeting_point> job_with_secret(const key_arguments& a) {
  TROUPE_TRY(here, a.address.empty() ? the_meeting_point(a.job) : known_at(a.address));
  if (!here.secret.empty()) return here;
  return error{errc::usage, fmt::format("{} has certificates, and no secret", here.job),
               "make a certificate with: troupe certs DIR --operator NAME"};
}

result<tls::job_key> key_for(const tls::job_key& secret, const key_arguments& a) {
  if (a.as == "node") return secret.of(tls::role::node);  // nodes let each other in by it
  if (a.name.empty())
    return error{errc::usage, fmt::format("whom is the {}'s key for?", a.as),
                 "say --name NAME: the name in the audit log"};
  const auto as = a.as == "operator" ? tls::role::operator_ : tls::role::reader;
  return secret.handed_to({as, a.name});
}

result<int> hand_out(const key_arguments& a) {
  TROUPE_TRY(here, job_with_secret(a));
  TROUPE_TRY(secret, tls::job_key::read(here.secret));
  TROUPE_TRY(key, key_for(secret, a));
  TROUPE_CHECK(key.write(a.out));
  say(fmt::format("{} is a key of {} until that job is done; its holder comes in with: {}", a.out,
                  here.job,
                  a.as == "node"
                      ? fmt::format("troupe node --join {} --name NAME --key FILE", here.address)
                      : fmt::format("troupe console --connect {} --key FILE", here.address)));
  return 0;
}

}  // namespace

void add_key(shell& sh) {
  auto* verb = sh.app.add_subcommand("key", "Make a key that lets somebody into a running job");
  verb->footer(
      "For jobs without certificates. The key is of one role and says nothing of others. Whoever\n"
      "has the file comes in: hand it over by a way that you trust.\n\n"
      "Examples:\n"
      "  troupe key --role reader --name grafana --out grafana.key\n"
      "  troupe key --role operator --name alice --out alice.key\n"
      "  troupe key --role node --out node.key        # for nodes on another host");
  auto a = std::make_shared<key_arguments>();
  verb->add_option("--role", a->as, "reader (looks), operator (commands) or node (joins)")
      ->one_of({"reader", "operator", "node"});
  verb->add_option("--name", a->name, "Whom it is for; nodes have theirs from the configuration")
      ->takes(offered::nothing_known);
  verb->add_option("--out", a->out, "File to make, readable by you alone")->required();
  verb->add_option("--job", a->job, "The job, where several run here")->takes(offered::job);
  verb->add_option("--connect", a->address, "The same by its address")->type_name("HOST:PORT")
      ->takes(offered::address);
  on_run(sh, verb, [a] { return hand_out(*a); });
}

}  // namespace troupe::apps

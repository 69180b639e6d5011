// `troupe certs`: what a cluster beyond loopback needs to trust itself, for people without a PKI.
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "io/tls/certs.hpp"

namespace troupe::apps {

namespace {

struct certs_arguments {
  std::string directory;
  std::vector<std::string> nodes, operators, readers, budgets, coordinator_hosts;
  bool json = false;
};

/// "name=host,host" as a request.
tls::request parse(const std::string& text, tls::role as) {
  tls::request r{text.substr(0, text.find('=')), {}, as};
  for (auto at = text.find('='); at != text.npos && at + 1 < text.size();) {
    auto end = std::min(text.find(',', at + 1), text.size());
    r.hosts.push_back(text.substr(at + 1, end - at - 1));
    at = end == text.size() ? text.npos : end;
  }
  return r;
}

/// By which a machine's own processes reach each other.
void add_loopback(tls::request& r) {
  for (const char* host : {"localhost", "127.0.0.1", "::1"})
    if (std::find(r.hosts.begin(), r.hosts.end(), host) == r.hosts.end())
      r.hosts.emplace_back(host);
}

/// The coordinator listens on this machine, so its certificate carries this machine's names.
tls::request coordinator(const std::vector<std::string>& hosts) {
  tls::request r{"coordinator", {}, tls::role::node};
  add_loopback(r);
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) == 0 && *name) r.hosts.emplace_back(name);
  for (const auto& host : hosts)
    if (std::find(r.hosts.begin(), r.hosts.end(), host) == r.hosts.end()) r.hosts.push_back(host);
  return r;
}

std::vector<tls::request> requests_of(const certs_arguments& a) {
  std::vector<tls::request> all;
  auto named = [](const std::vector<tls::request>& list, std::string_view name) {
    return std::any_of(list.begin(), list.end(), [&](auto& r) { return r.name == name; });
  };
  for (const auto& text : a.nodes) all.push_back(parse(text, tls::role::node));
  for (const auto& text : a.operators) all.push_back(parse(text, tls::role::operator_));
  for (const auto& text : a.readers) all.push_back(parse(text, tls::role::reader));
  for (const auto& text : a.budgets) {
    all.push_back(parse(text, tls::role::power));
    add_loopback(all.back());  // jobs and persons of its own machine find it there
  }
  bool there = access((a.directory + "/coordinator.pem").c_str(), F_OK) == 0;
  if (!there && !named(all, "coordinator"))
    all.insert(all.begin(), coordinator(a.coordinator_hosts));
  return all;
}

/// What to write into the configuration.
void say_next(const certs_arguments& a) {
  say(
      fmt::format("\nIn the configuration:\n[cluster.tls]\nca = \"{0}/ca.pem\"\n"
                  "certificate = \"{0}/{{node}}.pem\"\nkey = \"{0}/{{node}}.key\"\n\n"
                  "Copy ca.pem and its own two files to each node. Keep ca.key away from them.",
                  a.directory));
}

result<int> run(const certs_arguments& a) {
  auto requests = requests_of(a);
  TROUPE_TRY(made, tls::make(a.directory, requests));
  auto list = nlohmann::ordered_json::array();
  say(fmt::format("{} {}", made.new_ca ? "made the authority" : "signed with the authority",
                  made.ca.certificate));
  for (size_t i = 0; i < requests.size(); i++) {
    const auto& f = made.certificates[i];
    TROUPE_TRY(who, tls::verify(made.ca.certificate, f.certificate, f.key));
    char until[32] = "";
    std::time_t end = who.not_after_s;
    std::tm parts{};
    gmtime_r(&end, &parts);
    std::strftime(until, sizeof until, "%Y-%m-%d", &parts);
    say(fmt::format("  {:<9}{:<20} until {}  {}", to_string(who.as), who.name, until,
                    fmt::join(who.hosts, " ")));
    list.push_back({{"name", who.name},
                    {"role", to_string(who.as)},
                    {"hosts", who.hosts},
                    {"until", until},
                    {"certificate", f.certificate},
                    {"key", f.key}});
  }
  if (a.json)
    TROUPE_CHECK(print(list.dump(2) + "\n"));
  else
    say_next(a);
  return 0;
}

}  // namespace

void add_certs(shell& sh) {
  auto* verb = sh.app.add_subcommand("certs", "Make a certificate authority and certificates");
  verb->footer(
      "Examples:\n"
      "  troupe certs certs --node node0=10.0.0.10 --node node1=10.0.0.11,gpu1.lan\n"
      "  troupe certs certs --node node2          # later: signed by the same authority\n"
      "  troupe certs certs --operator alice --reader grafana\n"
      "  troupe certs certs --budget row0=10.0.0.5   # for troupe power serve\n\n"
      "Writes DIR/ca.pem, DIR/ca.key, and NAME.pem, NAME.key each; never overwrites a file.");
  auto a = std::make_shared<certs_arguments>();
  auto names = [&](const char* flag, std::vector<std::string>& into, const char* about) {
    verb->add_option(flag, into, about)->type_name("NAME[=HOST,...]")->take_all()->expected(1);
  };
  verb->add_option("DIR", a->directory, "Folder of the files; made if it is missing")
      ->required()
      ->takes(offered::folder);
  names("--node", a->nodes,
        "A process of the cluster, with the hosts and addresses it is reached by");
  names("--operator", a->operators, "A person who may command the cluster");
  names("--reader,--viewer", a->readers, "A person or tool that may only look");
  names("--budget", a->budgets,
        "A process that serves a power budget, with the addresses it is reached by from other "
        "machines");
  verb->add_option("--coordinator-host", a->coordinator_hosts,
                   "Another name or address of the coordinator (this machine's are there already)")
      ->take_all()
      ->expected(1);
  verb->add_flag("--json", a->json, "What was made, as a JSON array on stdout");
  on_run(sh, verb, [a] { return run(*a); });
}

}  // namespace troupe::apps

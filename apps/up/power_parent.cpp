// Signs and key files to a place and a proof.
#include "apps/up/power_parent.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "actors/cluster/listening.hpp"
#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_keys.hpp"
#include "actors/cluster/tls_links.hpp"
#include "apps/power/budget_sign.hpp"
#include "io/base/text.hpp"
#include "io/config/budget_place.hpp"
#include "io/config/load.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

tls::bearer bearer_of(const power_joiner& who) {
  return {tls::role::power, who.name};
}

result<tls::proof> proof_of_file(const power_joiner& who) {
  const auto& file = who.parent_key;
  TROUPE_TRY(key, tls::job_key::read(file));
  const auto wanted = bearer_of(who);
  auto proof = tls::proof_by(key, std::span(&wanted, 1));
  if (!proof || proof->self.as != tls::role::power)
    return error{errc::permission, fmt::format("{} is no key for a power budget", file),
                 "`troupe key --role power --name NAME --out FILE` makes one"};
  return proof;
}

error no_place(const std::string& address) {
  return {errc::bad_data, fmt::format("{} is not HOST:PORT", troupe::quoted(address))};
}

/// A machine that is off, or another one at that place, holds up no other link (LNK-4, LNK-5).
power::budget_parent by_certificate(std::string name, const config::head_place& at) {
  cluster::expect_head(at.host, at.port);
  return {std::move(name), at.host, at.port, std::nullopt};
}

bool stands_for_all(const std::string& address) {
  return address.empty() || address == "0.0.0.0" || address == "::";
}

bool is_number(const std::string& address) {
  in6_addr room{};  // an in_addr fits, too
  return ::inet_pton(AF_INET, address.c_str(), &room) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), &room) == 1;
}

std::string name_of_host() {
  constexpr size_t name_bytes = 256;
  std::array<char, name_bytes> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Whoever may listen at an address has it.
bool is_of_this_machine(const std::string& host) {
  if (host.empty()) return false;
  return is_number(host) ? bool(cluster::can_listen(host, 0)) : host == name_of_host();
}

uint64_t clock_now_ns() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

/// A number in a file; 0: there is none.
uint64_t last_number(const std::filesystem::path& file) {
  constexpr uint64_t beyond_clocks = uint64_t{1} << 62;
  constexpr size_t file_bytes = 64;
  const auto text = io::read_file(file, file_bytes);
  if (!text) return 0;
  uint64_t out = 0;
  std::from_chars(text->data(), text->data() + text->size(), out);
  return out < beyond_clocks ? out : 0;
}

uint64_t new_incarnation(const std::string& output) {
  return next_incarnation(std::filesystem::path(output) / "power.incarnation", clock_now_ns());
}

power::parent_options parent_options_of(const power_joiner& who, uint64_t incarnation,
                                        const reporter_actor& reporter) {
  power::finder_options finder{who.name, [who] { return find_power_parent(who); },
                               cluster::prove_to, cluster::connector};
  power::parent_options out;
  out.named = who.parent;
  out.child = who.name;
  out.incarnation = incarnation;
  out.finder = [finder = std::move(finder)](caf::actor_system& system) {
    return system.spawn<caf::detached>(power::budget_finder, finder);
  };
  out.reporter = reporter;
  return out;
}

}  // namespace

power_joiner joiner_of(const config::job& job) {
  return {job.job.name,         false,          job.power.parent,
          job.power.parent_key, job.job.output, job.cluster.tls.enabled()};
}

power_joiner joiner_of(const config::power_tree& tree) {
  return {tree.name, true, tree.parent, tree.parent_key, tree.output, tree.tls.enabled()};
}

status check_power_parent(const power_joiner& who) {
  if (who.parent_key.empty()) return {};
  TROUPE_TRY(proof, proof_of_file(who));
  return {};
}

bool is_reached_at(const std::string& listen, uint16_t port, const config::head_place& place) {
  if (place.port != port) return false;
  if (stands_for_all(listen)) return is_of_this_machine(place.host);
  return stands_for_all(place.host) && config::is_loopback(listen);
}

result<power::budget_parent> find_power_parent(const power_joiner& who) {
  const auto named = config::budget_place_of(who.parent);
  if (!named) return no_place(who.parent);
  if (named->at && who.parent_key.empty() && who.has_certificates)
    return by_certificate("", *named->at);
  if (named->at) {
    TROUPE_TRY(proof, proof_of_file(who));
    return power::budget_parent{"", named->at->host, named->at->port, std::move(proof)};
  }
  const auto but = who.is_budget ? who.name : "";
  TROUPE_TRY(served, named->name.empty() ? served_budget_of(who.name, but)
                                         : the_served_budget(named->name, but));
  const auto at = config::head_place_of(served.address);
  if (!at) return no_place(served.address);
  if (served.secret.empty()) {
    if (who.has_certificates) return by_certificate(served.name, *at);
    return error{errc::permission,
                 fmt::format("{} has certificates, and {} has none", served.name, who.name),
                 "set cluster.tls of a job, or [tls] of a budget (docs/power.md)"};
  }
  TROUPE_TRY(secret, tls::job_key::read(served.secret));
  const auto self = bearer_of(who);
  TROUPE_TRY(own, secret.handed_to(self));
  return power::budget_parent{served.name, at->host, at->port, tls::proof{own, self}};
}

uint64_t next_incarnation(const std::filesystem::path& file, uint64_t clock_ns) {
  const auto next = std::max(clock_ns, last_number(file) + 1);
  static_cast<void>(io::write_atomic(file, fmt::format("{}\n", next)));
  return next;
}

std::optional<power::parent_options> power_parent_of(const power_joiner& who,
                                                     const reporter_actor& reporter) {
  if (who.parent.empty()) return std::nullopt;
  return parent_options_of(who, new_incarnation(who.output), reporter);
}

std::vector<power::rack_options> power_racks_of(const config::job& job,
                                                const reporter_actor& reporter) {
  std::vector<power::rack_options> out;
  if (job.power.racks.empty()) return out;
  auto who = joiner_of(job);
  const auto incarnation = new_incarnation(who.output);
  for (const auto& rack : job.power.racks) {
    who.parent = rack.parent;
    out.push_back({parent_options_of(who, incarnation, reporter), rack.nodes});
  }
  return out;
}

}  // namespace troupe::apps

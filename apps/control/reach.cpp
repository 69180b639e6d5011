// Keys of persons, and links to what is published.
#include "apps/control/reach.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <set>

#include <fmt/format.h>
#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>

#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_links.hpp"
#include "messages/errors.hpp"

namespace troupe::apps {

std::string user_name() {
  const auto* entry = getpwuid(getuid());
  return entry != nullptr && tls::is_name(entry->pw_name) ? entry->pw_name
                                                          : fmt::format("uid-{}", getuid());
}

result<tls::proof> person_by(const tls::job_key& key) {
  const auto name = user_name();
  return tls::proof_by(key, std::array{tls::bearer{tls::role::operator_, name},
                                       tls::bearer{tls::role::reader, name}});
}

result<caf::strong_actor_ptr> reach(caf::scoped_actor& self, const std::string& host, uint16_t port,
                                    std::chrono::milliseconds patience, const sought& it) {
  caf::strong_actor_ptr out;
  error failed;
  cluster::expect_host(host, port);
  self->request(cluster::connector(self->home_system()), patience, caf::connect_atom_v, host, port)
      .receive([&](const caf::node_id&, const caf::strong_actor_ptr& peer,
                   const std::set<std::string>&) { out = peer; },
               [&](const caf::error& e) { failed = from_caf(e); });
  if (out) return out;
  const auto address = fmt::format("{}:{}", host, port);
  if (const auto why = cluster::why_not(port))
    return error{errc::unavailable, fmt::format("no link is made to {}: {}", address, *why),
                 fmt::format("connect to a host that it is for, or make one for this host: {}",
                             it.certifies)};
  return error{errc::unavailable,
               fmt::format("no {} answers at {}: {}", it.what, address, failed.message),
               std::string(it.hint)};
}

}  // namespace troupe::apps

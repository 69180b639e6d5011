// CAF's middleman and its OpenSSL twin behind one face.
#include "actors/cluster/network.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <caf/io/middleman.hpp>
#include <caf/openssl/manager.hpp>
#include <caf/openssl/publish.hpp>

#include "actors/cluster/accepting.hpp"
#include "actors/cluster/basp_gate.hpp"
#include "actors/cluster/tls_certificates.hpp"
#include "actors/cluster/tls_keys.hpp"
#include "actors/cluster/tls_links.hpp"
#include "io/config/load.hpp"
#include "messages/errors.hpp"

namespace troupe::cluster {

network_options network_of(const config::cluster_section& cluster, const std::string& node) {
  network_options o;
  const auto files = config::tls_of(cluster.tls, node);
  o.ca = files.ca;
  o.certificate = files.certificate;
  o.key = files.key;
  o.heartbeat_interval_ms = cluster.heartbeat_interval_ms;
  o.dead_after_ms = cluster.dead_after_ms;
  return o;
}

status check(const network_options& options) {
  if (!tls_errors_are_apart())
    return error{errc::bug,
                 "the program was linked so that one peer's TLS failure would end others"};
  if (!accepting_is_ours())
    return error{errc::bug,
                 "the program was linked so that strangers could take all of its descriptors"};
  if (!options.by_certificate()) return {};
  auto held = hold_certificates({options.ca, options.certificate, options.key});
  if (!held)
    return error{errc::bad_config, held.error().message,
                 "make certificates with: troupe certs DIR --node NAME"};
  return {};
}

status prove(const network_options& options) {
  TROUPE_CHECK(check(options));
  take_nodes_as(options.nodes_as);
  take_budgets_as(options.budgets_as);
  if (options.proof) return prove_by_key(*options.proof);
  if (options.by_certificate()) return {};
  return error{errc::permission, "nothing proves to the cluster who this process is",
               "give a key of the job (--key FILE, made by `troupe key` where the job was started) "
               "or a certificate"};
}

system_config::system_config(const network_options& options) {
  // CAF 0.17.6 has a type id for it, but cannot serialise it until it has a name.
  add_message_type<std::vector<caf::strong_actor_ptr>>("handles");
  descriptors();  // raises the limit before anything needs it
  load<gated_middleman>();
  const auto ms = [](int64_t n) { return caf::timespan(std::chrono::milliseconds(n)); };
  set("middleman.heartbeat-interval", ms(options.heartbeat_interval_ms));  // NET-1
  // A busy node may be late with a beat of CAF's own; ours (liveness_policy) judge sooner and by
  // name.
  set("middleman.connection-timeout", ms(2 * options.dead_after_ms));
  set("middleman.workers", size_t{1});
  set("scheduler.max-threads", static_cast<size_t>(std::max(1, options.scheduler_threads)));
  set("scheduler.max-throughput", size_t{50});
  // With keys or certificates of ours, none that CAF reads (KEYS-1, CRT-1).
  if (options.proved()) load<caf::openssl::manager>();
}

namespace {

template <class Handle>
result<uint16_t> publish_at(const Handle& actor, const std::string& address, uint16_t port) {
  const char* in = address.empty() || address == "0.0.0.0" ? nullptr : address.c_str();
  auto bound = caf::openssl::publish(actor, port, in, true);
  if (!bound)
    return from_caf(bound.error())
        .within(fmt::format("listen on {}:{}", address.empty() ? "*" : address, port));
  return *bound;
}

}  // namespace

result<uint16_t> publish(const coordinator_actor& actor, const std::string& address,
                         uint16_t port) {
  return publish_at(actor, address, port);
}

result<uint16_t> publish(const elector_actor& actor, const std::string& address, uint16_t port) {
  return publish_at(actor, address, port);
}

result<uint16_t> publish(const budget_actor& actor, const std::string& address, uint16_t port) {
  return publish_at(actor, address, port);
}

renewals_end::~renewals_end() {
  static_cast<gated_middleman&>(system.middleman()).end_renewals();
}

caf::actor connector(caf::actor_system& system) {
  return caf::actor_cast<caf::actor>(system.openssl_manager().actor_handle());
}

}  // namespace troupe::cluster

// Signs and key files to a place and a proof.
#include "apps/up/power_parent.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>
#include <string>

#include <fmt/format.h>

#include "actors/cluster/network.hpp"
#include "actors/cluster/tls_keys.hpp"
#include "apps/power/budget_sign.hpp"
#include "io/base/text.hpp"
#include "io/config/heads.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

tls::bearer bearer_of_job(const config::job& job) {
  return {tls::role::power, job.job.name};
}

result<tls::proof> proof_of_file(const config::job& job) {
  const auto& file = job.power.parent_key;
  TROUPE_TRY(key, tls::job_key::read(file));
  const auto wanted = bearer_of_job(job);
  auto proof = tls::proof_by(key, std::span(&wanted, 1));
  if (!proof || proof->self.as != tls::role::power)
    return error{errc::permission, fmt::format("{} is no key for a power budget", file),
                 "`troupe key --role power --name JOB --out FILE` makes one"};
  return proof;
}

result<power::budget_parent> place_of(const std::string& address, const std::string& name,
                                      tls::proof proof) {
  const auto at = config::head_place_of(address);
  if (!at)
    return error{errc::bad_data, fmt::format("{} is not HOST:PORT", troupe::quoted(address))};
  return power::budget_parent{name, at->host, at->port, std::move(proof)};
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

}  // namespace

status check_power_parent(const config::job& job) {
  if (job.power.parent_key.empty()) return {};
  TROUPE_TRY(proof, proof_of_file(job));
  return {};
}

result<power::budget_parent> find_power_parent(const config::job& job) {
  const auto name = job.power.looked_for();
  if (!name) {
    TROUPE_TRY(proof, proof_of_file(job));
    return place_of(job.power.parent, "", std::move(proof));
  }
  TROUPE_TRY(served, name->empty() ? served_budget_of(job.job.name) : the_served_budget(*name));
  TROUPE_TRY(secret, tls::job_key::read(served.secret));
  const auto self = bearer_of_job(job);
  TROUPE_TRY(own, secret.handed_to(self));
  return place_of(served.address, served.name, {own, self});
}

uint64_t next_incarnation(const std::filesystem::path& file, uint64_t clock_ns) {
  const auto next = std::max(clock_ns, last_number(file) + 1);
  static_cast<void>(io::write_atomic(file, fmt::format("{}\n", next)));
  return next;
}

std::optional<power::parent_options> power_parent_of(const config::job& job,
                                                     const reporter_actor& reporter) {
  if (job.power.parent.empty()) return std::nullopt;
  power::parent_options out;
  out.named = job.power.parent;
  out.incarnation =
      next_incarnation(std::filesystem::path(job.job.output) / "power.incarnation", clock_now_ns());
  out.find = [job] { return find_power_parent(job); };
  out.prove = cluster::prove_to;
  out.connector = cluster::connector;
  out.reporter = reporter;
  return out;
}

}  // namespace troupe::apps

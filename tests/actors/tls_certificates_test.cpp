// The certificates of a process, and what becomes of them on the disk.
#include "actors/cluster/tls_certificates.hpp"

#include <openssl/ssl.h>
#include <sched.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <caf/all.hpp>

#include "actors/cluster/network.hpp"
#include "io/tls/certs.hpp"
#include "tests/in_a_process.hpp"

using namespace troupe;

namespace {

/// 0 where what was written after the certificates were read is what new links are made of.
int renewed_before_the_first_look(const std::string& pki) {
  const auto make = [&] { return tls::make(pki, {{"node0", {"localhost"}}}).has_value(); };
  const cluster::certificate_files files{pki + "/ca.pem", pki + "/node0.pem", pki + "/node0.key"};
  if (!make() || !cluster::hold_certificates(files)) return 1;
  const auto before = cluster::certificate_context();
  for (const auto& file : {files.certificate, files.key}) std::filesystem::remove(file);
  if (!make()) return 2;
  runtime_config config;
  caf::actor_system system(config);
  const auto certificates = system.spawn<caf::detached>(cluster::certificate_store);
  caf::anon_send(certificates, caf::tick_atom_v);
  caf::scoped_actor self(system);
  self->send_exit(certificates, caf::exit_reason::user_shutdown);  // behind the look
  self->wait_for(certificates);
  return cluster::certificate_context() != before ? 0 : 3;
}

/// 0 where a process with certificates that ends at once ends, many times, also where others keep
/// its processors: then its actors begin while it ends. On two of them at most, so that whoever has
/// many, or a share of many, waits no longer for its turn.
int ends_at_once(const std::string& pki) {
  cluster::network_options options;
  options.ca = pki + "/ca.pem";
  options.certificate = pki + "/node0.pem";
  options.key = pki + "/node0.key";
  if (!tls::make(pki, {{"node0", {"localhost"}}}) || !cluster::prove(options)) return 1;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 2;
  for (int core = 0, kept = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores) && ++kept > 2) CPU_CLR(core, &cores);
  if (sched_setaffinity(0, sizeof cores, &cores) != 0) return 3;
  std::atomic<bool> over = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 4 * CPU_COUNT(&cores); ++i)
    others.emplace_back([&over] {
      while (!over) continue;
    });
  constexpr int rounds = 600;
  for (int round = 0; round < rounds; ++round) {
    cluster::system_config config(options);
    const caf::actor_system system(config);
  }
  over = true;
  for (auto& other : others) other.join();
  return 0;
}

}  // namespace

TEST_CASE("certificates: a process that ends as it begins does not wait for their actor") {
  CHECK(in_a_process(ends_at_once) == 0);
}

TEST_CASE("certificates: a renewal between their reading and the first look is taken (CRT-2)") {
  CHECK(in_a_process(renewed_before_the_first_look) == 0);
}

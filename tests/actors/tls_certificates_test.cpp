// The certificates of a process, and what becomes of them on the disk.
#include "actors/cluster/tls_certificates.hpp"

#include <openssl/ssl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <doctest/doctest.h>
#include <caf/all.hpp>

#include "io/tls/certs.hpp"
#include "tests/io/scratch.hpp"

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

}  // namespace

TEST_CASE("certificates: a renewal between their reading and the first look is taken (CRT-2)") {
  const scratch dir;
  const pid_t child = fork();  // what a process holds it holds to its end
  if (child == 0) _exit(renewed_before_the_first_look(dir.path.string()));
  int how = 0;
  REQUIRE(waitpid(child, &how, 0) == child);
  REQUIRE(WIFEXITED(how));
  CHECK(WEXITSTATUS(how) == 0);
}

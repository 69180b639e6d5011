// unshare, setns, and the system's own ip. A packet vanishes because it is sent to a hardware
// address that nobody has: no filter of the kernel is needed, and connections that stand are cut as
// well as new ones.
#include "tests/cluster/networks.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/cluster/mounts.hpp"

namespace troupe::cluster_test {

namespace {

constexpr const char* own_namespace = "/proc/thread-self/ns/net";
constexpr const char* nobodys_address = "02:00:00:00:00:01";

io::unique_fd namespace_now() {
  io::unique_fd out(::open(own_namespace, O_RDONLY | O_CLOEXEC));
  REQUIRE(out.get() >= 0);
  return out;
}

void enter(const io::unique_fd& there) {
  REQUIRE(::setns(there.get(), CLONE_NEWNET) == 0);
}

io::unique_fd new_namespace() {
  const auto home = namespace_now();
  REQUIRE(::unshare(CLONE_NEWNET) == 0);
  auto out = namespace_now();
  enter(home);
  return out;
}

}  // namespace

std::optional<std::string> why_no_networks() {
  if (geteuid() != 0) return "only root can have networks of its own";
  if (shell("ip -V").code != 0) return "`ip` (package iproute2) is not there";
  const auto home = namespace_now();
  if (::unshare(CLONE_NEWNET) != 0)
    return fmt::format("no network namespace of its own: {}", strerror(errno));
  const auto bridge = shell("ip link add name br0 type bridge && ip link add type veth");
  enter(home);
  if (bridge.code != 0) return "no bridge can be made: " + bridge.text;
  return std::nullopt;
}

std::string network::address_of(int machine) {
  return fmt::format("10.77.0.{}", machine + 1);
}

network::network(int machines) {
  for (int i = 0; i <= machines; ++i) namespaces_.push_back(new_namespace());
  say(machines, "ip link add name br0 type bridge && ip link set br0 up");
  for (int i = 0; i < machines; ++i) {
    // `ip` is a child of this process, and opens the namespace by the descriptor's path.
    say(machines,
        fmt::format("ip link add name port{0} type veth peer name eth0 netns /proc/{1}/fd/{2} && "
                    "ip link set port{0} master br0 up",
                    i, getpid(), namespaces_[static_cast<size_t>(i)].get()));
    say(i, fmt::format("ip link set lo up && ip address add {}/24 dev eth0 && ip link set eth0 up",
                       address_of(i)));
  }
}

void network::say(int machine, const std::string& command) const {
  const visit there(*this, machine);
  const auto done = shell(command);
  REQUIRE_MESSAGE(done.code == 0, command << ": " << done.text);
}

network::visit::visit(const network& of, int machine) : home_(namespace_now()) {
  enter(of.namespaces_[static_cast<size_t>(machine)]);
}

network::visit::~visit() {
  if (::setns(home_.get(), CLONE_NEWNET) != 0) std::abort();  // all that follows would be elsewhere
}

void network::lose(int from, int to) {
  say(from, fmt::format("ip neighbour replace {} lladdr {} nud permanent dev eth0", address_of(to),
                        nobodys_address));
}

void network::cut(int one, int other) {
  lose(one, other);
  lose(other, one);
}

void network::mend(int from, int to) {
  say(from, fmt::format("ip neighbour del {} dev eth0", address_of(to)));
}

}  // namespace troupe::cluster_test

// Taking connections while there is no descriptor left, as a crowd and many open files leave it.
#include "actors/cluster/accepting.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <caf/policy/tcp.hpp>

#include "actors/cluster/ingress.hpp"
#include "io/file.hpp"
#include "tests/loopback.hpp"

using namespace troupe;

namespace {

/// Takes every descriptor of this process while it lives.
class no_descriptor_left {
 public:
  no_descriptor_left() {
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    int highest = 0;
    for (const auto& e : std::filesystem::directory_iterator("/proc/self/fd"))
      highest = std::max(highest, std::stoi(e.path().filename()));
    do {
      fillers_.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
      REQUIRE(fillers_.back());
    } while (fillers_.back().get() < highest);
    auto now = before_;
    now.rlim_cur = static_cast<rlim_t>(fillers_.back().get()) + 1;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &now) == 0);
    REQUIRE(open("/dev/null", O_RDONLY | O_CLOEXEC) == -1);
    REQUIRE(errno == EMFILE);
  }
  ~no_descriptor_left() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<io::unique_fd> fillers_;
};

io::unique_fd non_blocking_listener() {
  auto fd = loopback_listener();
  REQUIRE(fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);  // as CAF's are
  return fd;
}

/// As CAF's loop does.
io::unique_fd try_accept(const io::unique_fd& listener) {
  int taken = -1;
  return io::unique_fd(caf::policy::tcp::try_accept(taken, listener.get()) ? taken : -1);
}

/// Whether something comes within a while: a connection, an end.
bool is_ready(const io::unique_fd& fd, int within_ms) {
  pollfd what{fd.get(), POLLIN, 0};
  return poll(&what, 1, within_ms) == 1;
}

bool is_open(const io::unique_fd& fd) {
  return !is_ready(fd, 0);
}

/// Whether the other side hangs up; waits for it.
bool hangs_up(const io::unique_fd& fd) {
  constexpr int net_ms = 300'000;
  char byte = 0;
  return is_ready(fd, net_ms) && recv(fd.get(), &byte, 1, 0) <= 0;
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

uint64_t crowded_out() {
  return cluster::ingress_seen().of(cluster::turned_away::crowded_out);
}

}  // namespace

TEST_CASE(
    "accepting: without a descriptor connections are closed and counted, then taken (ACC-2)") {
  REQUIRE(cluster::accepting_is_ours());
  const auto listener = non_blocking_listener();
  const auto usual = loopback_connection(listener);
  REQUIRE(try_accept(listener));
  std::vector<io::unique_fd> strangers;
  for (int i = 0; i < 3; ++i) strangers.push_back(loopback_connection(listener));
  const auto before = crowded_out();
  {
    const no_descriptor_left bare;
    for (const auto& s : strangers) {
      CHECK(is_open(s));
      CHECK_FALSE(try_accept(listener));
      CHECK(hangs_up(s));
    }
    CHECK_FALSE(is_ready(listener, 0));  // the loop has nothing to spin over
    CHECK_FALSE(try_accept(listener));
  }
  CHECK(crowded_out() == before + strangers.size());
  const auto next = loopback_connection(listener);
  const auto taken = try_accept(listener);
  CHECK(taken);
  CHECK(is_open(next));
}

TEST_CASE(
    "accepting: a loop that found no descriptor to spare has one once there are some (ACC-2)") {
  REQUIRE(cluster::accepting_is_ours());
  const auto listener = non_blocking_listener();
  const auto early = loopback_connection(listener);
  const auto late = loopback_connection(listener);
  std::thread([&] {  // what is spared is the thread's
    {
      const no_descriptor_left bare;
      CHECK_FALSE(try_accept(listener));
      CHECK(is_open(early));  // it waits its turn
    }
    CHECK(try_accept(listener));
    const no_descriptor_left bare;
    CHECK_FALSE(try_accept(listener));
    CHECK(hangs_up(late));
  })
      .join();
}

TEST_CASE("accepting: what a thread has to spare is closed at its end") {
  REQUIRE(cluster::accepting_is_ours());
  const auto listener = non_blocking_listener();
  const auto before = open_descriptors();
  std::ptrdiff_t meanwhile = 0;
  std::thread([&] {
    CHECK_FALSE(try_accept(listener));
    meanwhile = open_descriptors();
  }).join();
  CHECK(meanwhile == before + 1);
  CHECK(open_descriptors() == before);
}

// Accepting within the reserve.
#include "actors/cluster/accepting.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <caf/policy/tcp.hpp>

#include "actors/cluster/admission.hpp"
#include "actors/cluster/ingress.hpp"
#include "actors/cluster/tls_links.hpp"
#include "io/file.hpp"

namespace troupe::cluster {

namespace {

constexpr int64_t most_descriptors = 1 << 20;  ///< "unlimited" is more than anybody opens

int64_t raised_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const auto wanted = std::min<rlim_t>(limit.rlim_max, most_descriptors);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, most_descriptors));
}

struct limits {
  int64_t descriptors = raised_limit();
  descriptor_shares shares = shares_of(descriptors);
};

const limits& own_limits() {
  static const limits all;
  return all;
}

/// A descriptor that is given up to take a connection off the queue when there is no other.
/// One a thread, and gone with it: a loop that found none to spare waits its turn.
class spare_descriptor {
 public:
  spare_descriptor() { fill(); }

  int accept_by_it(int listening) {
    if (!fd_) return -1;
    fd_.reset();
    const int taken = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (taken >= 0) close(taken);
    fill();
    return taken;
  }

  /// Another thread may have had the last descriptor when this one was opened.
  void fill() {
    if (!fd_) fd_ = io::unique_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }

 private:
  io::unique_fd fd_;
};

void turn_away(int fd) {
  note_turned_away(turned_away::crowded_out, address_of_socket(fd), "no descriptor is to spare");
  close(fd);
}

}  // namespace

const descriptor_shares& descriptors() {
  return own_limits().shares;
}

int accept_within_reserve(int listening) {
  thread_local spare_descriptor spare;
  const int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) {
    if ((errno == EMFILE || errno == ENFILE) && spare.accept_by_it(listening) >= 0)  // ACC-2
      note_turned_away(turned_away::crowded_out, "an unknown address", "no descriptor is left");
    return -1;
  }
  spare.fill();
  forget_socket(fd);
  const auto& all = own_limits();
  if (fd < all.descriptors - all.shares.reserve) return fd;
  turn_away(fd);  // ACC-1, ACC-2
  return -1;
}

}  // namespace troupe::cluster

namespace caf::policy {

/// In place of the library's own.
__attribute__((visibility("default"))) bool tcp::try_accept(io::network::native_socket& result,
                                                            io::network::native_socket fd) {
  using namespace troupe::cluster;
  auto* const waiting = admission_here();
  result = waiting != nullptr ? waiting->next(fd) : accept_within_reserve(fd);
  return result >= 0;
}

}  // namespace caf::policy

namespace troupe::cluster {

bool accepting_is_ours() {
  constexpr const char* name = "_ZN3caf6policy3tcp10try_acceptERii";
  void* const found = dlsym(RTLD_DEFAULT, name);  // null: CAF is part of the program, no other is
  return found == nullptr || found == reinterpret_cast<void*>(&caf::policy::tcp::try_accept);
}

}  // namespace troupe::cluster

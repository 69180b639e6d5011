// PR_SET_PDEATHSIG.
#include "apps/parent.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace troupe::apps {

status tie_to_parent(int parent) {
  if (parent == 0) return {};
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return error::system("tie to the launcher", errno);
  if (getppid() != parent) return error{errc::unavailable, "the launcher has ended already"};
  return {};
}

}  // namespace troupe::apps

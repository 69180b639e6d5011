// The words of a wait status.
#include "apps/up/child_end.hpp"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include <fmt/format.h>

namespace troupe::apps {

std::string child_end_text(int how, uint64_t for_memory) {
  if (!WIFSIGNALED(how)) return fmt::format("exited with {}", WEXITSTATUS(how));
  const int signal = WTERMSIG(how);
  auto text = fmt::format("was killed by signal {} ({}", signal, strsignal(signal));
  if (signal == SIGKILL && for_memory > 0)
    text += fmt::format(": memory was used up, the kernel's OOM killer ended {} process{} here",
                        for_memory, for_memory == 1 ? "" : "es");
  return text + ")";
}

}  // namespace troupe::apps

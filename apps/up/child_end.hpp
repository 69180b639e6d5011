// How a child ended, in words.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::apps {

/// "exited with 70", "was killed by signal 9 (Killed)". `how`: as waitpid says it. `for_memory`:
/// how many processes the kernel ended for want of it lately.
std::string child_end_text(int how, uint64_t for_memory);

}  // namespace troupe::apps

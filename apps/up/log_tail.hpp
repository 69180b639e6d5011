// The end of a log: of a node's process, where ssh started it, nobody else says why it ended.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::apps {

/// The length of a log; 0: there is none.
uint64_t bytes_of_log(const std::string& file);

/// The last bytes of a log, at most so many; empty where it is no file.
std::string tail_of(const std::string& file, uint64_t most);

/// The last line behind the first `from` bytes of a log that says "error: ..." or, where none does,
/// the last that says anything, of its last 16 KiB; printable, and at most 240 characters. Empty
/// where there is none.
std::string last_words(const std::string& file, uint64_t from);

}  // namespace troupe::apps

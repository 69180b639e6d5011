// What may not be shown of a line of a log: passwords, tokens, keys.
//
// Why: a line that fits a rule travels to the head, and is shown to whoever asks how the cluster
// is; whoever wrote it had the log in mind, which fewer may read.
//
// Invariants
//   SCR-1  By looks, and rather too much: values behind words such as password, token, secret and
//     key, what a URL says of its user, and long runs of letters and digits become ***.
#pragma once

#include <string>
#include <string_view>

namespace troupe::io {

/// The line without them.
std::string without_secrets(std::string_view line);

}  // namespace troupe::io

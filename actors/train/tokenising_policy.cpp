// The line, and its pace.
#include "actors/train/tokenising_policy.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/base/text.hpp"

namespace troupe::train {

namespace {

/// "m:ss", or "h:mm:ss".
std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::min(std::ceil(seconds), 3.6e9));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

std::optional<std::string> tokenising_policy::heard(int64_t now_ns,
                                                    const io::corpus_progress& progress) {
  if (progress.documents_done >= progress.documents || progress.bytes_done == 0) return {};
  if (told_ns_ && now_ns - *told_ns_ < interval_ns_) return {};
  told_ns_ = now_ns;
  const auto done = static_cast<double>(progress.bytes_done);
  // The text may be longer than its estimate: then it is as good as done.
  const auto all = std::max(static_cast<double>(progress.bytes), done);
  auto text = fmt::format("tokenising: {:.0f} % of {}", std::floor(100 * done / all),
                          bytes_text(static_cast<uint64_t>(all)));
  const double seconds = static_cast<double>(now_ns - started_ns_) / 1e9;
  if (seconds <= 0) return text;
  return text + fmt::format(", {}/s, ETA {}", bytes_text(static_cast<uint64_t>(done / seconds)),
                            clock_text(seconds * (all - done) / done));
}

}  // namespace troupe::train

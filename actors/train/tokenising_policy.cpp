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
  const bool is_reading = progress.file_bytes_known > 0;
  const auto bytes = is_reading ? progress.file_bytes_known : progress.file_bytes_done;
  if (is_reading || bytes <= progress.file_bytes_found) tokenises_since_ns_ = now_ns;
  if (bytes >= progress.file_bytes || bytes == 0) return {};
  if (is_reading && now_ns - started_ns_ < interval_ns_) return {};
  if (told_ns_ && now_ns - *told_ns_ < interval_ns_) return {};
  told_ns_ = now_ns;
  const auto done = static_cast<double>(bytes);
  const auto all = static_cast<double>(progress.file_bytes);
  auto text = fmt::format("{}: {:.0f} % of {}", is_reading ? "reading" : "tokenising",
                          std::floor(100 * done / all), bytes_text(static_cast<uint64_t>(all)));
  if (is_reading) return text;
  const double seconds = static_cast<double>(now_ns - tokenises_since_ns_) / 1e9;
  const auto fresh = done - static_cast<double>(progress.file_bytes_found);
  if (seconds <= 0 || fresh <= 0) return text;
  return text + fmt::format(", {}/s, ETA {}", bytes_text(static_cast<uint64_t>(fresh / seconds)),
                            clock_text(seconds * (all - done) / fresh));
}

}  // namespace troupe::train

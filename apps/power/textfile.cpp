// Text to a file, in a thread that may hang.
#include "apps/power/textfile.hpp"

#include <unistd.h>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "apps/talk.hpp"
#include "io/file.hpp"

namespace troupe::apps::power_verb {

namespace {

constexpr std::string_view our_metrics = "# HELP troupe_";

/// BDK-4
status may_replace(const std::filesystem::path& file) {
  const error foreign(errc::bad_config, "it is another file, which was not written by this program",
                      "name one that does not exist yet");
  std::error_code code;
  const auto there = std::filesystem::status(file, code);
  if (!std::filesystem::exists(there)) return {};
  if (!std::filesystem::is_regular_file(there)) return foreign;
  if (std::filesystem::file_size(file, code) == 0) return {};
  TROUPE_TRY(fd, io::open_read(file));
  std::string begin(our_metrics.size(), '\0');
  const auto n = ::pread(fd.get(), begin.data(), begin.size(), 0);
  return n == static_cast<ssize_t>(begin.size()) && begin == our_metrics ? status() : foreign;
}

status replace(const std::filesystem::path& file, const std::string& text) {
  TROUPE_CHECK(may_replace(file));
  return io::write_atomic(file, text);
}

}  // namespace

textfile::textfile(std::filesystem::path file)
    : file_(std::move(file)), failed_(std::make_shared<bool>(false)), writer_(1) {}

textfile::~textfile() {
  settle(defaults::orderly_end);
}

/// BDK-3
void textfile::take(std::function<std::string()> text) {
  static_cast<void>(writer_.put([file = file_, failed = failed_, text = std::move(text)] {
    const auto done = replace(file, text());
    if (std::exchange(*failed, !done) == !done) return;
    say(done ? fmt::format("{} is written again", file.string())
             : fmt::format("warning: {} is not written: {}", file.string(), done.error().message));
  }));
}

}  // namespace troupe::apps::power_verb

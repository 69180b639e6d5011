// Text to a file, in a thread that may hang.
#include "apps/power/textfile.hpp"

#include <utility>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "apps/talk.hpp"
#include "io/file.hpp"

namespace troupe::apps::power_verb {

textfile::textfile(std::filesystem::path file)
    : file_(std::move(file)), failed_(std::make_shared<bool>(false)), writer_(1) {}

textfile::~textfile() {
  settle(defaults::orderly_end);
}

/// BDK-3
void textfile::take(std::function<std::string()> text) {
  static_cast<void>(writer_.put([file = file_, failed = failed_, text = std::move(text)] {
    const auto done = io::write_atomic(file, text());
    if (std::exchange(*failed, !done) == !done) return;
    say(done ? fmt::format("{} is written again", file.string())
             : fmt::format("warning: {} is not written: {}", file.string(), done.error().message));
  }));
}

}  // namespace troupe::apps::power_verb

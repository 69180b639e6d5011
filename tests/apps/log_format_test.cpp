// The log's lines are the program's, whatever is in them (apps/log_format.hpp).
#include "apps/log_format.hpp"

#include <sstream>

#include <doctest/doctest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

TEST_CASE("log: words of others neither forge a line nor reach a terminal as commands (SH-5)") {
  std::ostringstream out;
  spdlog::logger log("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  log.set_formatter(troupe::apps::log_format());
  log.warn("paused: {}", "a\x1b[2J\n[2026-01-01 00:00:00.000] [info] all is well");
  const auto text = out.str();
  CHECK(text.find("[warning] paused: a\\u001b[2J\\n[2026-01-01") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\n') == text.size() - 1);
}

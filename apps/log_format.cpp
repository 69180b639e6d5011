// spdlog's pattern with a text of ours in it.
#include "apps/log_format.hpp"

#include <spdlog/pattern_formatter.h>

#include "io/base/printable.hpp"

namespace troupe::apps {

namespace {

class printable_text final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const auto text = printable({line.payload.data(), line.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<printable_text>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> log_format() {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<printable_text>('*').set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%^%l%$] %*");
  return format;
}

}  // namespace troupe::apps

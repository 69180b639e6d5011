// A list until there is a log.
#include "apps/up/start_warnings.hpp"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "apps/report/log_lines.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps {

namespace {

constexpr std::string_view warning_mark = "warning: ";
constexpr size_t warnings_kept = 100;  // a folder may have a leftover for each step

}  // namespace

void start_warnings::warn(const std::string& text) {
  say(fmt::format("{}{}", warning_mark, text));
  keep(text);
}

void start_warnings::remark(const std::string& sentence) {
  if (sentence.starts_with(warning_mark)) return warn(sentence.substr(warning_mark.size()));
  say(sentence);
}

void start_warnings::keep(const std::string& text) {
  if (log_) return write(text);
  if (kept_.size() < warnings_kept)
    kept_.push_back(text);
  else
    ++left_out_;
}

void start_warnings::log_to(std::shared_ptr<run_log> log, uint64_t step) {
  log_ = std::move(log);
  step_ = step;
  for (const auto& text : std::exchange(kept_, {})) write(text);
  if (const auto more = std::exchange(left_out_, 0); more > 0)
    write(fmt::format("{} of the start {} not in this log", counted(more, "further warning"),
                      more == 1 ? "is" : "are"));
}

void start_warnings::write(const std::string& text) {
  log_->append(report::warning_json(unix_now(), static_cast<int64_t>(step_), text));
}

}  // namespace troupe::apps

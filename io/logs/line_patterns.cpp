// RE2, bounded: all expressions at once, and one by one where they do not fit into memory at once.
#include "io/logs/line_patterns.hpp"

#include <algorithm>
#include <utility>

#include <re2/re2.h>
#include <re2/set.h>

namespace troupe::io {

namespace {

constexpr int64_t expression_bytes = 256 << 10;  // of memory, for what one becomes
constexpr int64_t together_bytes = 1 << 20;      // for all of them at once

RE2::Options options_of(int64_t memory_bytes) {
  RE2::Options out;
  out.set_log_errors(false);
  out.set_never_nl(true);
  out.set_max_mem(memory_bytes);
  return out;
}

}  // namespace

struct line_patterns::parts {
  std::vector<std::unique_ptr<RE2>> each;
  std::unique_ptr<RE2::Set> together;  ///< null: they do not fit into memory at once
};

line_patterns::line_patterns() : parts_(std::make_unique<parts>()) {}
line_patterns::line_patterns(line_patterns&&) noexcept = default;
line_patterns& line_patterns::operator=(line_patterns&&) noexcept = default;
line_patterns::~line_patterns() = default;

status line_patterns::check(const std::string& pattern) {
  TROUPE_TRY(made, make({pattern}));
  (void)made;
  return {};
}

result<line_patterns> line_patterns::make(const std::vector<std::string>& patterns) {
  line_patterns out;
  out.parts_->together =
      std::make_unique<RE2::Set>(options_of(together_bytes), RE2::Anchor::UNANCHORED);
  bool all = true;
  size_t steps = 0;
  for (const auto& p : patterns) {
    if (p.size() > max_pattern_bytes) return pattern_too_long(p.size(), max_pattern_bytes);
    auto one = std::make_unique<RE2>(p, options_of(expression_bytes));
    if (!one->ok()) return bad_pattern(one->error());
    steps += static_cast<size_t>(one->ProgramSize());
    if (steps > max_steps) return patterns_too_large(steps, max_steps);
    out.parts_->each.push_back(std::move(one));
    all = all && out.parts_->together->Add(p, nullptr) >= 0;
  }
  if (!all || patterns.empty() || !out.parts_->together->Compile()) out.parts_->together.reset();
  return out;
}

std::optional<size_t> line_patterns::first_fit(std::string_view line) const {
  if (parts_->together) {
    std::vector<int> fit;
    RE2::Set::ErrorInfo why{};
    if (parts_->together->Match(line, &fit, &why) && !fit.empty())
      return static_cast<size_t>(*std::min_element(fit.begin(), fit.end()));
    if (why.kind == RE2::Set::kNoError) return std::nullopt;
  }
  for (size_t i = 0; i < parts_->each.size(); ++i)
    if (RE2::PartialMatch(line, *parts_->each[i])) return i;
  return std::nullopt;
}

std::optional<size_t> line_patterns::begin_of_fit(size_t pattern, std::string_view line) const {
  re2::StringPiece found;
  if (pattern >= parts_->each.size() ||
      !parts_->each[pattern]->Match(line, 0, line.size(), RE2::UNANCHORED, &found, 1))
    return std::nullopt;
  return static_cast<size_t>(found.data() - line.data());
}

}  // namespace troupe::io

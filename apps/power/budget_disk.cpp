// Lines in words, and the writers of the journal and of the record.
#include "apps/power/budget_disk.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "apps/power/tree_report.hpp"
#include "apps/talk.hpp"
#include "io/file.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;

constexpr size_t record_file_bytes = size_t{1} << 20;

/// A number in an entry of the journal; none where it is absent or not known.
std::optional<double> number_in(const ordered_json& entry, const char* key) {
  const auto it = entry.find(key);
  if (it == entry.end() || !it->is_number() || it->get<double>() < 0) return std::nullopt;
  return it->get<double>();
}

std::string word_in(const ordered_json& entry, const char* key) {
  const auto it = entry.find(key);
  return it != entry.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// " (2 of them, above: low 79 %, high 100 % of their ceilings)".
std::string rungs_in_words(const ordered_json& entry, double rungs) {
  auto out = fmt::format(" ({} now, {}", rungs, word_in(entry, "rule"));
  for (const auto& [key, who] : {std::pair("low_share", "low"), {"high_share", "high"}})
    if (const auto share = number_in(entry, key))
      out += fmt::format("{} {} {:.0f} %", who == std::string_view("low") ? ":" : ",", who,
                         100 * *share);
  return out + " of their ceilings)";
}

}  // namespace

std::string journal_words(const std::string& line) {
  const auto entry = ordered_json::parse(line, nullptr, false);
  if (!entry.is_object()) return line;
  std::string out, event = word_in(entry, "event");
  for (const auto* key : {"child", "who", "budget"})
    if (out.empty()) out = word_in(entry, key);
  std::replace(event.begin(), event.end(), '_', ' ');
  out += (out.empty() ? "" : ": ") + event;
  for (const auto* key : {"cap_w", "budget_w"})
    if (const auto w = number_in(entry, key)) out += fmt::format(" {:.4g} W", *w);
  if (const auto w = number_in(entry, "was_w")) out += fmt::format(", was {:.4g} W", *w);
  if (const auto s = number_in(entry, "for_s")) out += fmt::format(", for {} s", *s);
  if (entry.value("shed", ordered_json()) == true) out += ", is to pause";
  if (const auto life = number_in(entry, "epoch"); life && !entry.contains("cap_w"))
    out += fmt::format(", epoch {}", *life);
  const char* between = "; ";
  for (const auto& [key, words] : {std::pair("counted_w", "counts"),
                                   {"in_force_w", "in force"},
                                   {"drawn_w", "draws"},
                                   {"wish_w", "wishes"}})
    if (const auto w = number_in(entry, key)) {
      out += fmt::format("{}{} {:.4g} W", between, words, *w);
      between = ", ";
    }
  if (const auto rungs = number_in(entry, "rungs")) out += rungs_in_words(entry, *rungs);
  if (const auto safe = number_in(entry, "safe_t2"))
    out += fmt::format(": above {:.0f} % no cap may bind in time", 100 * *safe);
  if (const auto w = number_in(entry, "instead_of_w"))
    out += fmt::format(", set instead of {:.4g} W", *w);
  for (const auto* key : {"by", "file"})
    if (const auto who = word_in(entry, key); !who.empty()) out += ", by " + who;
  for (const auto* key : {"why", "text"})
    if (const auto why = word_in(entry, key); !why.empty()) out += ": " + why;
  return out;
}

// -- the journal ----------------------------------------------------------------------------------

budget_journal::budget_journal(const std::filesystem::path& file, bool as_json, size_t room)
    : file_(file, room), as_json_(as_json) {}

void budget_journal::take(const std::string& line, double unix_s) {
  auto text = stamped(line, unix_s);
  if (as_json_)
    static_cast<void>(print(text + "\n"));
  else
    say(journal_words(line));
  file_.take(std::move(text));
}

// -- the record -----------------------------------------------------------------------------------

budget_trace_file::budget_trace_file(const std::filesystem::path& file, size_t bytes)
    : file_(file, journal_file::waiting_lines, bytes, std::string(power::budget_trace_heading)) {}

void budget_trace_file::take(power::budget_trace_row row, double unix_s) {
  row.t_s = unix_s;
  if (auto line = lines_.line_of(row)) file_.take(std::move(*line));
}

result<power::budget_record> read_record(const std::filesystem::path& file) {
  const auto text = io::read_file(file, record_file_bytes);
  if (!text && text.error().code == errc::not_found) return power::budget_record{};
  if (!text) return text.error();
  auto record = power::parse_budget_record(*text);
  if (record) return record;
  return error(
      errc::bad_data,
      fmt::format("{} does not say what jobs may draw: {}", file.string(), record.error().message),
      "each job has its static share by itself once its lease has lapsed and its step is "
      "over: remove the file then");
}

record_file::record_file(std::filesystem::path file)
    : file_(std::move(file)), answer_(std::make_shared<answer>()), writer_(1) {}

record_file::~record_file() {
  settle(defaults::orderly_end);
}

void record_file::keep(uint64_t number, std::string text) {
  const auto taken = writer_.put([file = file_, to = answer_, number, text = std::move(text)] {
    const auto done = io::write_atomic(file, text);
    std::lock_guard lock(to->mutex);
    to->of_last = outcome{number, done ? std::nullopt : std::optional(done.error())};
  });
  if (taken) return;
  std::lock_guard lock(answer_->mutex);
  answer_->of_last = outcome{number, error(errc::unavailable, "another write is under way")};
}

std::optional<power::record_keeper::outcome> record_file::ended() {
  std::lock_guard lock(answer_->mutex);
  return std::exchange(answer_->of_last, std::nullopt);
}

// -- the file for monitoring ----------------------------------------------------------------------

void tree_textfile::take(fbs::PowerTreeT tree) {
  file_.take([shown = std::make_shared<const fbs::PowerTreeT>(std::move(tree))] {
    return tree_prometheus(*shown);
  });
}

}  // namespace troupe::apps::power_verb

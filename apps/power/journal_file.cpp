// A log and the thread that appends to it.
#include "apps/power/journal_file.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "apps/talk.hpp"
#include "apps/up/run_log.hpp"

namespace troupe::apps::power_verb {

namespace {

constexpr std::string_view stamp_name = "unix_s";

/// Names that a table has in common with those of versions which have other columns.
constexpr size_t kin_names = 3;
/// Of a table, from its end: its last row is within, unless it is none of ours.
constexpr size_t tail_bytes = 4096;

/// What the heading of such a table begins with; all that there is where it has fewer names.
std::string_view kin_heading(std::string_view heading) {
  size_t end = 0;
  for (size_t i = 0; i < kin_names; ++i) {
    end = heading.find(',', end);
    if (end == heading.npos) return heading;
    ++end;
  }
  return heading.substr(0, end);
}

/// As much of a file from there as can be read; none: it cannot be opened.
std::optional<std::string> part_of(const std::string& file, uintmax_t from, size_t bytes) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::string out(bytes, '\0');
  in.seekg(static_cast<std::streamoff>(from));
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<size_t>(in.gcount()));
  return out;
}

/// Whether a file is there that does not begin as a journal, or as its table, also one with other
/// columns: a person has put it there.
bool is_no_journal(const std::string& file, const std::string& heading) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) return false;
  const auto wanted = heading.empty() ? fmt::format("{{\"{}\":", stamp_name) : heading + "\n";
  const auto begin = part_of(file, 0, wanted.size());
  if (!begin) return true;
  const bool is_kin = !heading.empty() && begin->starts_with(kin_heading(heading));
  return !is_kin && !wanted.starts_with(*begin);
}

/// JNF-4: what becomes of a file when a row is to follow in it.
enum class table_fate { goes_on, cut, moved, foreign };

struct table_look {
  table_fate fate = table_fate::goes_on;
  uintmax_t whole_bytes = 0;  ///< of one that is cut: heading and rows
};

std::optional<double> time_of(std::string_view row) {
  double out = 0;
  const auto fault = std::from_chars(row.data(), row.data() + row.size(), out).ec;
  return fault == std::errc{} ? std::optional(out) : std::nullopt;
}

/// No more than its ends are read. Where there is nothing, or a pipe or a device, it goes on.
table_look look_at_table(const std::string& file, const std::string& heading,
                         std::string_view row) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) return {};
  const auto size = std::filesystem::file_size(file, failed);
  if (failed || is_no_journal(file, heading)) return {table_fate::foreign};
  if (size == 0) return {};
  const auto first = heading + "\n";
  const auto begin = part_of(file, 0, first.size()).value_or("");
  if (begin != first) {
    const bool is_torn = begin.size() == size && first.starts_with(begin);
    return {is_torn ? table_fate::cut : table_fate::moved};
  }
  const auto from = size - std::min<uintmax_t>(size, tail_bytes);
  const auto tail = part_of(file, from, static_cast<size_t>(size - from)).value_or("");
  const auto end = tail.rfind('\n');
  if (tail.size() != size - from || end == tail.npos) return {table_fate::moved};
  if (end + 1 < tail.size()) return {table_fate::cut, from + end + 1};
  const auto before = tail.substr(0, end).rfind('\n');
  if (before == tail.npos) return {from == 0 ? table_fate::goes_on : table_fate::moved};
  const auto last_at = time_of(std::string_view(tail).substr(before + 1)), at = time_of(row);
  return {last_at && at && *last_at < *at ? table_fate::goes_on : table_fate::moved};
}

/// JNF-3: a file has the next one's name, or is not there; else why it cannot have it.
std::string move_on(const std::vector<std::string>& names, size_t to, const std::string& heading) {
  for (const auto at : {to - 1, to})
    if (at > 0 && is_no_journal(names[at], heading)) return names[at] + " is no journal";
  std::error_code failed;
  std::filesystem::rename(names[to - 1], names[to], failed);
  if (!failed || failed == std::errc::no_such_file_or_directory) return {};
  return failed.message();
}

}  // namespace

std::string stamped(const std::string& line, double unix_s) {
  using nlohmann::ordered_json;
  auto entry = ordered_json::parse(line, nullptr, false);
  if (!entry.is_object()) entry = {{"text", line}};
  ordered_json out{{std::string(stamp_name), unix_s}};
  out.update(entry);
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string stamped_object(std::string_view line, double unix_s) {
  return fmt::format("{{\"{}\":{:.3f},{}", stamp_name, unix_s, line.substr(1));
}

std::vector<std::string> journal_names(const std::string& file) {
  std::vector<std::string> out{file};
  for (size_t i = 1; i < journal_file::most_files; ++i)
    out.push_back(fmt::format("{}.{}", file, i));
  return out;
}

struct journal_file::disk {
  run_log log;
  size_t bytes = most_bytes;
  std::string heading;
  bool has_begun = false;              ///< a line was given to the log
  size_t stays_until = 0;              ///< bytes, where it could not be moved; 0: it could
  std::atomic<uint64_t> unwritten{0};  ///< lines without room, since that was told last
  std::atomic<size_t> waiting{0};      ///< bytes of lines that were taken, until each is written

  std::string missing_text(uint64_t lines) const {
    return fmt::format("{} is written again; {} missing in it", log.path(),
                       lines == 1 ? "1 line is" : fmt::format("{} lines are", lines));
  }
  std::string failed_text(const std::string& why) const {
    return fmt::format("warning: {} is not written: {}", log.path(), why);
  }

  /// JNF-2: the oldest gives its name to the one after it; else which of them cannot, and why.
  std::string move_all() const {
    const auto names = journal_names(log.path());
    for (size_t i = names.size() - 1; i > 0; --i)
      if (const auto why = move_on(names, i, heading); !why.empty())
        return fmt::format("{} cannot be moved to {}: {}", names[i - 1], names[i], why);
    return {};
  }

  /// A pipe or a device has no length.
  void make_room(size_t for_bytes) {
    std::error_code failed;
    const auto there = std::filesystem::file_size(log.path(), failed);
    if (failed || there == 0 || there + for_bytes <= std::max(bytes, stays_until)) return;
    const auto why = move_all();
    if (!why.empty() && stays_until == 0)
      say(fmt::format("warning: {} grows above {} bytes: {}", log.path(), bytes, why));
    stays_until = why.empty() ? 0 : there + bytes;
  }

  /// JNF-4: why the table takes no row; empty: it does.
  std::string make_whole(std::string_view row) const {
    if (heading.empty()) return {};
    auto seen = look_at_table(log.path(), heading, row);
    if (seen.fate == table_fate::cut) {  // what is whole may end later than the row
      std::error_code failed;
      std::filesystem::resize_file(log.path(), seen.whole_bytes, failed);
      if (failed) return "half a row cannot be cut off: " + failed.message();
      seen = look_at_table(log.path(), heading, row);
    }
    if (seen.fate == table_fate::foreign)
      return "it is no such table, which begins with " + heading + ": move it away";
    return seen.fate == table_fate::goes_on ? std::string() : move_all();
  }

  /// Of a table: there is none, as a person has moved it away or it was full. What has no length
  /// has it said once.
  bool needs_heading() {
    if (heading.empty()) return false;
    std::error_code failed;
    const bool is_first = !std::exchange(has_begun, true);
    const auto kind = std::filesystem::status(log.path(), failed).type();
    if (kind == std::filesystem::file_type::not_found) return true;
    if (kind != std::filesystem::file_type::regular) return is_first;
    return std::filesystem::file_size(log.path(), failed) == 0;
  }

  /// In the writer's thread.
  void write(const std::string& line) {
    if (const auto why = make_whole(line); !why.empty()) {
      if (unwritten++ == 0) say(failed_text(why));
      return;
    }
    make_room(line.size() + 1);
    // As one: of the two never the row alone.
    log.append(needs_heading() ? heading + "\n" + line : line);
    if (const auto news = log.news())
      say(news->why ? failed_text(news->why->message) : missing_text(news->missing));
    if (log.state().why) return;
    if (const auto lines = unwritten.exchange(0); lines > 0) say(missing_text(lines));
  }
};

journal_file::journal_file(const std::filesystem::path& file, size_t room, size_t bytes,
                           std::string heading)
    : to_(new disk{{file.string(), false}, bytes, std::move(heading)}), writer_(room) {}

journal_file::~journal_file() {
  settle(defaults::orderly_end);
}

void journal_file::take(std::string line) {
  const auto bytes = line.size();
  // A tick of a large row is long: so many of its lines as of a job's would be gigabytes. JNF-1
  const auto others = to_->waiting.fetch_add(bytes);
  const bool has_room = others == 0 || others + bytes <= waiting_bytes;
  if (has_room && writer_.put([to = to_, text = std::move(line)] {
        to->write(text);
        to->waiting -= text.size();
      }))
    return;
  to_->waiting -= bytes;
  if (to_->unwritten++ == 0) say(to_->failed_text("its disk does not answer"));
}

}  // namespace troupe::apps::power_verb

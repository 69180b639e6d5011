// A log and the thread that appends to it.
#include "apps/power/journal_file.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
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

/// Whether a file is there that does not begin as a journal, or as its table: a person has put it
/// there.
bool is_no_journal(const std::string& file, const std::string& heading) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) return false;
  const auto wanted = heading.empty() ? fmt::format("{{\"{}\":", stamp_name) : heading + "\n";
  std::string begin(wanted.size(), '\0');
  std::ifstream in(file, std::ios::binary);
  if (!in) return true;
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(in.gcount()));
  return !wanted.starts_with(begin);
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

  /// JNF-2: the oldest gives its name to the one after it. A pipe or a device has no length.
  void make_room(size_t for_bytes) {
    std::error_code failed;
    const auto there = std::filesystem::file_size(log.path(), failed);
    if (failed || there == 0 || there + for_bytes <= std::max(bytes, stays_until)) return;
    const auto names = journal_names(log.path());
    for (size_t i = names.size() - 1; i > 0; --i) {
      const auto why = move_on(names, i, heading);
      if (why.empty()) continue;
      if (stays_until == 0)
        say(fmt::format("warning: {} grows above {} bytes: {} cannot be moved to {}: {}",
                        log.path(), bytes, names[i - 1], names[i], why));
      stays_until = there + bytes;
      return;
    }
    stays_until = 0;
  }

  /// A table that a person has moved away, or that is full, is begun anew.
  void begin_table() {
    if (heading.empty()) return;
    std::error_code failed;
    const auto there = std::filesystem::file_size(log.path(), failed);
    if (failed || there == 0) log.append(heading);
  }

  /// In the writer's thread.
  void write(const std::string& line) {
    make_room(line.size() + 1);
    begin_table();
    log.append(line);
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

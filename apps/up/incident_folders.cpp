// Numbers to folders, texts to files.
#include "apps/up/incident_folders.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

constexpr size_t tail_bytes = 64 << 10;                 ///< of incidents.jsonl that are looked at
constexpr uint64_t beyond_numbers = uint64_t{1} << 48;  ///< nobody counts to there

/// 1 of "0001"; 0: it is no incident's name.
uint64_t number_of(const std::string& name) {
  uint64_t n = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), n);
  const bool whole = fault == std::errc() && end == name.data() + name.size();
  return whole && n < beyond_numbers && incident_folder(n).ends_with("/" + name) ? n : 0;
}

/// The end of a file; empty where there is none.
std::string tail_of(const fs::path& file) {
  const auto fd = io::open_read(file);
  struct stat facts {};
  if (!fd || ::fstat(fd->get(), &facts) != 0) return {};
  std::string text(std::min<size_t>(tail_bytes, static_cast<size_t>(facts.st_size)), '\0');
  const auto n =
      ::pread(fd->get(), text.data(), text.size(), facts.st_size - static_cast<off_t>(text.size()));
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

/// The greatest number of the lines; one that is torn or none of ours counts for nothing.
uint64_t greatest_in(std::string_view lines) {
  uint64_t most = 0;
  while (!lines.empty()) {
    const auto line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (!j.is_object() || !j.contains("number") || !j["number"].is_number_unsigned()) continue;
    const auto n = j["number"].get<uint64_t>();
    if (n < beyond_numbers) most = std::max(most, n);
  }
  return most;
}

/// A folder of this name, no link to one. Errors: io.
status make_base(const fs::path& base) {
  struct stat facts {};
  if (::mkdir(base.c_str(), 0777) == 0) return io::fsync_directory(base.parent_path());
  if (errno != EEXIST) return error::system(fmt::format("make {}", base.string()), errno);
  if (::lstat(base.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) return {};
  return error{errc::io, fmt::format("{} is not a folder", base.string())};
}

/// At most so many bytes, in whole lines; says where more is missing.
std::string within(const std::string& text, size_t most, std::string_view remark) {
  if (text.size() <= most) return text;
  const auto room = most - remark.size();
  const auto end = text.rfind('\n', room);
  return text.substr(0, end == std::string::npos ? 0 : end + 1) + std::string(remark);
}

}  // namespace

std::string incident_folder(uint64_t number) {
  return fmt::format("{}/{:04}", incidents_folder, number);
}

std::vector<uint64_t> kept_incidents(const fs::path& output) {
  std::vector<uint64_t> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(output / incidents_folder, code))
    if (const auto n = number_of(entry.path().filename().string()); n != 0) out.push_back(n);
  std::sort(out.begin(), out.end());
  return out;
}

uint64_t last_incident(const fs::path& output) {
  const auto kept = kept_incidents(output);
  return std::max(kept.empty() ? 0 : kept.back(), greatest_in(tail_of(output / "incidents.jsonl")));
}

std::vector<std::string> black_boxes_since(const fs::path& output, int64_t since_unix_ms) {
  std::vector<std::string> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(output, code)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with("blackbox-") || !name.ends_with(".trace")) continue;
    struct stat facts {};
    if (::lstat(entry.path().c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    if (facts.st_mtim.tv_sec * 1000 + facts.st_mtim.tv_nsec / 1'000'000 >= since_unix_ms)
      out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  if (out.size() > most_black_boxes) out.resize(most_black_boxes);
  return out;
}

/// INF-1, INF-3.
status incident_folders::make(uint64_t number) {
  const auto base = output_ / incidents_folder;
  TROUPE_CHECK(make_base(base));
  const auto there = kept_incidents(output_).size();
  if (there >= most_incident_folders) return too_many_incidents(base.string(), there);
  const auto folder = output_ / incident_folder(number);
  if (::mkdir(folder.c_str(), 0777) == 0) {
    made_ = number;
    durable_ = false;
    return {};
  }
  if (errno == EEXIST) return folder_is_there(folder.string());
  return error::system(fmt::format("make {}", folder.string()), errno);
}

result<std::string> incident_folders::write(uint64_t number, const incident_files& files) {
  if (made_ != number) TROUPE_CHECK(make(number));
  if (!durable_) TROUPE_CHECK(io::fsync_directory(output_ / incidents_folder));
  durable_ = true;
  const auto name = incident_folder(number);
  const auto folder = output_ / name;
  if (!files.waits_text.empty())
    TROUPE_CHECK(io::write_atomic(folder / "waits.txt",
                                  within(files.waits_text, max_waits_bytes, "... and more\n")));
  if (!files.waits_dot.empty())
    TROUPE_CHECK(
        io::write_atomic(folder / "waits.dot", within(files.waits_dot, max_waits_bytes, "}\n")));
  TROUPE_CHECK(io::write_atomic(folder / incident_file, files.json));
  return name;
}

}  // namespace troupe::apps

// Which folder it is, its files, and those that nobody stands behind any more.
#include "apps/control/sign_folder.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "apps/talk.hpp"
#include "io/config/load.hpp"
#include "io/file.hpp"
#include "io/folder/can_make.hpp"
#include "io/folder/own_folder.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t largest_sign_bytes = 64 * 1024;
/// The only key of a sign that has a list.
constexpr std::string_view names_key = "children";

/// MP-3.
fs::path sign_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat facts {};
  if (runtime != nullptr && *runtime == '/' && stat(runtime, &facts) == 0 &&
      S_ISDIR(facts.st_mode) && facts.st_uid == getuid())
    return fs::path(runtime) / "troupe";
  return fs::path(fmt::format("/tmp/troupe-{}", getuid()));
}

error open_to_others(const fs::path& folder) {
  return {
      errc::permission,
      fmt::format("{} is not a folder of this user that nobody else may write to", folder.string()),
      "remove it, or set XDG_RUNTIME_DIR to a folder of your own"};
}

/// Whether a file was being written by a process that is gone: "PID.json.tmp-PID-0" (MP-2).
bool is_left_over(const std::string& name) {
  if (name.find(".json.tmp-") == name.npos && name.find(".power.tmp-") == name.npos) return false;
  const int pid = std::atoi(name.c_str());
  return pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH);
}

void remove_leftovers(const fs::path& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (is_left_over(entry.path().filename().string()))
      if (auto fd = io::open_read(entry.path()))
        static_cast<void>(io::remove_own_file(entry.path(), fd->get()));
}

/// All are text.
bool is_list_of_texts(const nlohmann::json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(),
                                         [](const auto& text) { return text.is_string(); });
}

/// Its process; none: it is no sign (MP-4).
std::optional<int> process_of(const nlohmann::json& sign, std::string_view key) {
  if (!sign.is_object() || !sign.contains(key)) return std::nullopt;
  std::optional<int> out;
  for (const auto& [name, value] : sign.items()) {
    if (name == names_key && is_list_of_texts(value)) continue;
    if (name != "pid") {
      if (!value.is_string()) return std::nullopt;
      continue;
    }
    if (!value.is_number_integer()) return std::nullopt;
    const auto pid = value.get<int64_t>();  // what is beyond it is below zero
    if (pid <= 0 || pid > std::numeric_limits<int>::max()) return std::nullopt;
    out = static_cast<int>(pid);
  }
  return out;
}

/// By its name, which is the process's own number.
void remove_sign(const fs::path& file) {
  if (const auto fd = io::open_read(file)) static_cast<void>(io::remove_own_file(file, fd->get()));
}

}  // namespace

result<fs::path> own_sign_folder() {
  const auto folder = sign_folder();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return error::system(fmt::format("make {}", folder.string()), errno);
  if (io::is_own_folder(folder)) return folder;  // MP-1
  return open_to_others(folder);
}

result<fs::path> look_for_sign_folder() {
  const auto folder = sign_folder();
  struct stat facts {};
  const bool absent = lstat(folder.c_str(), &facts) != 0 && errno == ENOENT;
  if (absent) TROUPE_CHECK(io::can_make(folder));
  if (!absent && !io::is_own_folder(folder)) return open_to_others(folder);
  return folder;
}

sign_file::sign_file(int pid, std::string_view kind, const nlohmann::ordered_json& sign,
                     std::string_view lost) {
  const auto folder = own_sign_folder();
  if (!folder) {
    say(fmt::format("{}: {}", lost, folder.error().message));
    return;
  }
  remove_leftovers(*folder);
  const auto path = *folder / fmt::format("{}{}", pid, kind);
  constexpr auto replace = nlohmann::json::error_handler_t::replace;  // a folder's name may be any
  if (auto written = io::write_atomic(path, sign.dump(-1, ' ', false, replace) + "\n"); !written)
    say(written.error());
  else
    path_ = path;
}

sign_file::~sign_file() {
  if (!path_.empty()) remove_sign(path_);
}

std::vector<nlohmann::json> living_signs(std::string_view kind, std::string_view key) {
  std::vector<nlohmann::json> out;
  const auto folder = sign_folder();
  if (!io::is_own_folder(folder)) return out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() != kind || entry.file_size(code) > largest_sign_bytes) continue;
    const auto file = io::open_read(entry.path());
    const auto text = io::read_file(entry.path(), largest_sign_bytes);
    if (!file || !text) continue;
    auto sign = nlohmann::json::parse(*text, nullptr, false);
    const auto pid = process_of(sign, key);
    if (!pid) continue;
    if (kill(*pid, 0) != 0)  // MP-2
      static_cast<void>(io::remove_own_file(entry.path(), file->get()));
    else
      out.push_back(std::move(sign));
  }
  return out;
}

bool is_at(const std::string& address, const std::string& host, uint16_t port) {
  const auto there = address.substr(0, address.rfind(':'));
  const bool same_host = there == host || (config::is_loopback(there) && config::is_loopback(host));
  return same_host && address.ends_with(fmt::format(":{}", port));
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).string();
}

}  // namespace troupe::apps

// The folder of signs.
#include "apps/control/meeting_point.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/talk.hpp"
#include "io/config/load.hpp"
#include "io/file.hpp"
#include "io/folder/can_make.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t largest_sign_bytes = 64 * 1024;

/// MP-3.
fs::path sign_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat facts {};
  if (runtime != nullptr && *runtime == '/' && stat(runtime, &facts) == 0 &&
      S_ISDIR(facts.st_mode) && facts.st_uid == getuid())
    return fs::path(runtime) / "troupe";
  return fs::path(fmt::format("/tmp/troupe-{}", getuid()));
}

/// MP-1.
bool is_ours(const fs::path& folder) {
  struct stat facts {};
  return lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == getuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

error open_to_others(const fs::path& folder) {
  return {errc::permission,
          fmt::format("{} is not a folder of this user that nobody else may write to",
                      folder.string()),
          "remove it, or set XDG_RUNTIME_DIR to a folder of your own"};
}

/// Whether a file was being written by a process that is gone: "PID.json.tmp-PID-0" (MP-2).
bool is_left_over(const std::string& name) {
  const auto at = name.find(".json.tmp-");
  if (at == std::string::npos) return false;
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

std::string absolute(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).string();
}

}  // namespace

result<fs::path> own_sign_folder() {
  const auto folder = sign_folder();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return error::system(fmt::format("make {}", folder.string()), errno);
  if (is_ours(folder)) return folder;
  return open_to_others(folder);
}

result<fs::path> look_for_sign_folder() {
  const auto folder = sign_folder();
  struct stat facts {};
  const bool absent = lstat(folder.c_str(), &facts) != 0 && errno == ENOENT;
  if (absent) TROUPE_CHECK(io::can_make(folder));
  if (!absent && !is_ours(folder)) return open_to_others(folder);
  return folder;
}

meeting_sign::meeting_sign(const meeting_point& here) {
  const auto folder = own_sign_folder();
  if (!folder) {
    say(fmt::format("tools will not find this cluster by themselves: {}",
                    folder.error().message));
    return;
  }
  remove_leftovers(*folder);
  nlohmann::ordered_json sign;
  sign["job"] = here.job;
  sign["pid"] = here.pid;
  sign["address"] = here.address;
  sign["output"] = absolute(here.output);
  sign["ca"] = absolute(here.network.ca);
  sign["certificate"] = absolute(here.network.certificate);
  sign["key"] = absolute(here.network.key);
  sign["secret"] = absolute(here.secret);
  const auto path = *folder / fmt::format("{}.json", here.pid);
  constexpr auto replace = nlohmann::json::error_handler_t::replace;  // a folder's name may be any
  if (auto written = io::write_atomic(path, sign.dump(-1, ' ', false, replace) + "\n"); !written)
    say(written.error());
  else
    path_ = path;
}

meeting_sign::~meeting_sign() {
  if (path_.empty()) return;
  if (const auto file = io::open_read(path_))
    static_cast<void>(io::remove_own_file(path_, file->get()));  // by its name, the process id
}

std::vector<meeting_point> meeting_points() {
  std::vector<meeting_point> out;
  const auto folder = sign_folder();
  if (!is_ours(folder)) return out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() != ".json" || entry.file_size(code) > largest_sign_bytes) continue;
    const auto file = io::open_read(entry.path());
    const auto text = io::read_file(entry.path(), largest_sign_bytes);
    if (!file || !text) continue;
    const auto sign = nlohmann::json::parse(*text, nullptr, false);
    if (!sign.is_object() || !sign.contains("job") || !sign.contains("pid")) continue;
    meeting_point p;
    p.job = sign.value("job", "");
    p.pid = sign.value("pid", 0);
    p.address = sign.value("address", "");
    p.output = sign.value("output", "");
    p.network.ca = sign.value("ca", "");
    p.network.certificate = sign.value("certificate", "");
    p.network.key = sign.value("key", "");
    p.secret = sign.value("secret", "");
    if (p.pid <= 0 || kill(p.pid, 0) != 0) {  // MP-2
      static_cast<void>(io::remove_own_file(entry.path(), file->get()));
      continue;
    }
    out.push_back(std::move(p));
  }
  return out;
}

result<meeting_point> the_meeting_point(const std::string& job) {
  auto here = meeting_points();
  std::erase_if(here, [&](const auto& p) { return !job.empty() && p.job != job; });
  if (here.size() == 1) return std::move(here.front());
  if (here.empty())
    return error{errc::not_found,
                 job.empty() ? "no cluster of yours runs on this machine"
                             : fmt::format("no cluster named {} runs on this machine", job),
                 "start one with: troupe up FILE; or say --connect HOST:PORT"};
  std::vector<std::string> names;
  for (const auto& p : here) names.push_back(fmt::format("{} at {}", p.job, p.address));
  return error{errc::usage,
               fmt::format("{} clusters run here: {}", here.size(), fmt::join(names, ", ")),
               "say which with --job NAME or --connect HOST:PORT"};
}

std::optional<meeting_point> meeting_point_at(const std::string& host, uint16_t port) {
  const auto suffix = fmt::format(":{}", port);
  for (auto& p : meeting_points()) {
    const auto at = p.address.substr(0, p.address.rfind(':'));
    const bool same_host = at == host || (config::is_loopback(at) && config::is_loopback(host));
    if (same_host && p.address.ends_with(suffix)) return std::move(p);
  }
  return std::nullopt;
}

}  // namespace troupe::apps

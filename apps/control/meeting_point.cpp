// The folder of signs.
#include "apps/control/meeting_point.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/talk.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t largest_sign_bytes = 64 * 1024;

fs::path sign_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return fs::path(runtime) / "troupe";
  return fs::path(fmt::format("/tmp/troupe-{}", getuid()));
}

/// MP-1.
bool is_ours(const fs::path& folder) {
  struct stat facts {};
  return lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == getuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
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
    if (is_left_over(entry.path().filename().string())) fs::remove(entry.path(), code);
}

std::string absolute(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).string();
}

}  // namespace

meeting_sign::meeting_sign(const meeting_point& here) {
  const auto folder = sign_folder();
  mkdir(folder.c_str(), 0700);
  if (!is_ours(folder)) {
    say(fmt::format("{} is not this user's own: tools need --connect {}", folder.string(),
                    here.address));
    return;
  }
  remove_leftovers(folder);
  nlohmann::ordered_json sign;
  sign["job"] = here.job;
  sign["pid"] = here.pid;
  sign["address"] = here.address;
  sign["output"] = absolute(here.output);
  sign["ca"] = absolute(here.network.ca);
  sign["certificate"] = absolute(here.network.certificate);
  sign["key"] = absolute(here.network.key);
  const auto path = folder / fmt::format("{}.json", here.pid);
  if (auto written = io::write_atomic(path, sign.dump() + "\n"); !written)
    say(written.error());
  else
    path_ = path;
}

meeting_sign::~meeting_sign() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove(path_, ignored);
}

std::vector<meeting_point> meeting_points() {
  std::vector<meeting_point> out;
  const auto folder = sign_folder();
  if (!is_ours(folder)) return out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() != ".json" || entry.file_size(code) > largest_sign_bytes) continue;
    std::ifstream file(entry.path());
    const auto sign = nlohmann::json::parse(file, nullptr, false);
    if (!sign.is_object()) continue;
    meeting_point p;
    p.job = sign.value("job", "");
    p.pid = sign.value("pid", 0);
    p.address = sign.value("address", "");
    p.output = sign.value("output", "");
    p.network.ca = sign.value("ca", "");
    p.network.certificate = sign.value("certificate", "");
    p.network.key = sign.value("key", "");
    if (p.pid <= 0 || kill(p.pid, 0) != 0) {  // MP-2
      fs::remove(entry.path(), code);
      continue;
    }
    out.push_back(std::move(p));
  }
  return out;
}

}  // namespace troupe::apps

// unshare, and the system's own mount and losetup.
#include "tests/cluster/mounts.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace troupe::cluster_test {

namespace fs = std::filesystem;

spoken shell(const std::string& command) {
  spoken out;
  FILE* pipe = popen(("exec 2>&1; PATH=$PATH:/usr/sbin:/sbin; " + command).c_str(), "re");
  REQUIRE(pipe != nullptr);
  char bytes[4096];
  for (size_t n; (n = fread(bytes, 1, sizeof(bytes), pipe)) > 0;) out.text.append(bytes, n);
  const int how = pclose(pipe);
  out.code = WIFEXITED(how) ? WEXITSTATUS(how) : 128;
  while (!out.text.empty() && out.text.back() == '\n') out.text.pop_back();
  return out;
}

std::optional<std::string> why_no_mounts() {
  static const auto why = []() -> std::optional<std::string> {
    if (geteuid() != 0) return "only root can mount";
    if (unshare(CLONE_NEWNS) != 0)
      return fmt::format("no mount namespace of its own: {}", strerror(errno));
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return fmt::format("mounts cannot be made private: {}", strerror(errno));
    return std::nullopt;
  }();
  return why;
}

mounts::~mounts() {
  for (auto at = at_.rbegin(); at != at_.rend(); ++at) umount2(at->c_str(), MNT_DETACH);
}

std::optional<std::string> mounts::mount(const std::string& arguments, const fs::path& at) {
  fs::create_directories(at);
  const auto done = shell(fmt::format("mount {} '{}'", arguments, at.string()));
  if (done.code != 0) return done.text;
  at_.push_back(at);
  return std::nullopt;
}

std::optional<std::string> mounts::mount_image(const fs::path& image, const fs::path& at) {
  const auto device =
      shell(fmt::format("losetup --find --show --direct-io=on '{}'", image.string()));
  if (device.code != 0) return device.text;
  const auto failed = mount("'" + device.text + "'", at);
  shell(fmt::format("losetup -d '{}'", device.text));  // when it is unmounted, if it is mounted
  return failed;
}

void mounts::unmount(const fs::path& at) {
  REQUIRE(umount2(at.c_str(), 0) == 0);
  at_.erase(std::next(std::find(at_.rbegin(), at_.rend(), at)).base());
}

}  // namespace troupe::cluster_test

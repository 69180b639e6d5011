// The child that a process leaves behind: where it is, so that it keeps nothing busy.
#include "io/survivor.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "io/file.hpp"
#include "tests/in_a_process.hpp"

using namespace troupe;

namespace fs = std::filesystem;

namespace {

constexpr int is_right = 0, is_busy = 1, is_unfit = 2;

/// A process in `folder` that ends without a goodbye, as one that is killed, and its survivor,
/// which this process adopts.
int survive(const std::string& folder) {
  const fs::path said = fs::path(folder) / "said";
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || ::chdir(folder.c_str()) != 0) return is_unfit;
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto child = io::survivor::start("test-survivor", [&](pid_t) {
      static_cast<void>(io::write_atomic(said, fs::current_path().string()));
    });
    ::_exit(child ? is_right : is_unfit);
  }
  while (::waitpid(-1, nullptr, 0) > 0) continue;
  const auto where = io::read_file(said, 4096);
  if (!where) return is_unfit;
  return *where == "/" ? is_right : is_busy;
}

}  // namespace

TEST_CASE("SRV-3: survivor: keeps no folder of its parent busy") {
  CHECK(in_a_process(survive) == is_right);
}

// What a person installs: the Debian package, and ./troupe, which says what it is going to do
// before it does it and how far it is.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/apps/ended.hpp"
#include "tests/apps/fake_program.hpp"
#include "tests/io/scratch.hpp"

namespace troupe {

namespace {

bool runs_here(const char* command) {
  return std::system((std::string(command) + " >/dev/null 2>&1").c_str()) == 0;
}

/// A tree with ./troupe alone, in which nothing is built or installed; ninja says `ninja_says`.
struct bare_tree {
  scratch dir;

  explicit bare_tree(const std::string& ninja_says, int ninja_ends = 0) {
    std::filesystem::copy_file(TROUPE_SOURCE_DIR "/troupe", dir / "troupe");
    put_fake(dir / "bin/dpkg-query", "");
    put_fake(dir / "bin/apt-get", "echo \"apt-get $*\" >>\"$CALLS\"\n");
    put_fake(dir / "bin/sudo", "exec \"$@\"\n");
    put_fake(dir / "bin/nproc", "echo 3\n");
    put_fake(dir / "bin/cmake", "mkdir -p build/release; : >build/release/build.ninja\n");
    put_file(dir / "says", ninja_says);
    put_fake(dir / "bin/ninja",
             fmt::format("cat '{}'\nexit {}\n", (dir / "says").string(), ninja_ends));
    put_fake(dir / "build/release/bin/troupe", "echo \"ran $*\"\n");
  }

  ended start(const std::string& command) const {
    return run_in(dir.path, fmt::format("PATH=\"{0}/bin:$PATH\" CALLS={0}/calls {1}",
                                        dir.path.string(), command));
  }
};

const char* const three_parts =
    "ninja: Entering directory `/x'\n@built 0 3 0.001 Re-checking globbed directories...\n"
    "@built 1 3 20.5 a\n@built 2 3 40.5 b\n@built 3 3 61.0 c\n";

}  // namespace

TEST_CASE("packages: ./troupe says first what it is going to do, and then how far it is") {
  const bare_tree tree(three_parts);
  const auto first = tree.start("./troupe version");
  INFO(first.talk);
  CHECK(first.code == 0);
  CHECK(first.out == "ran version\n");
  const auto said = first.talk.find("troupe: before it starts it will install ");
  CHECK(said == 0);
  CHECK(first.talk.find("Debian packages and compile for some minutes (3 processors)") <
        first.talk.find("troupe: installing "));
  CHECK(content(tree.dir / "calls").find("libcaf-dev") != std::string::npos);
  CHECK(
      first.talk.ends_with("troupe: built 1 of 3 parts in 0:20, about 0:40 left\n"
                           "troupe: built 2 of 3 parts in 0:40, about 0:20 left\n"
                           "troupe: built 3 of 3 parts in 1:01\n"));
}

TEST_CASE("packages: ./troupe tells a long build in ten lines, and what a compiler says as it is") {
  std::string many;
  for (int n = 1; n <= 500; ++n) many += fmt::format("@built {} 500 {}.0 x\n", n, n);
  const bare_tree tree(many + "a.cpp:1: error: expected ';'\n", 1);
  const auto done = tree.start("./troupe version");
  INFO(done.talk);
  CHECK(done.code == 70);
  CHECK(done.out == "");
  size_t lines = 0;
  for (auto at = done.talk.find("troupe: built "); at != std::string::npos;
       at = done.talk.find("troupe: built ", at + 1))
    ++lines;
  CHECK(lines == 10);
  CHECK(done.talk.ends_with("\na.cpp:1: error: expected ';'\n"));
}

TEST_CASE("packages: ./troupe tells a build on a terminal in one line, which is gone afterwards") {
  if (!runs_here("script --version")) {
    MESSAGE("SKIPPED: script (bsdutils) not found");
    return;
  }
  const bare_tree tree(three_parts);
  CHECK(tree.start("script -qec './troupe version' seen").code == 0);
  const auto seen = content(tree.dir / "seen");
  INFO(seen);
  CHECK(seen.find("\r\033[Ktroupe: built 1 of 3 parts in 0:20, about 0:40 left"
                  "\r\033[Ktroupe: built 2 of 3 parts in 0:40, about 0:20 left"
                  "\r\033[Ktroupe: built 3 of 3 parts in 1:01\r\033[Kran version") !=
        std::string::npos);
}

TEST_CASE("packages: the Debian package has the program, what it needs, the templates and pages") {
  if (!runs_here("dpkg-shlibdeps --version") || !runs_here("file --version")) {
    MESSAGE("SKIPPED: dpkg-shlibdeps or file not found");
    return;
  }
  const auto build = std::filesystem::path(TROUPE_PROGRAM).parent_path().parent_path();
  const scratch dir;
  const auto packed =
      run_in(dir.path, fmt::format("cpack --config {}/CPackConfig.cmake -B .", build.string()));
  INFO(packed.out << packed.talk);
  REQUIRE(packed.code == 0);
  const auto fields = run_in(dir.path, "dpkg-deb -f troupe_*.deb").out;
  INFO(fields);
  const auto version = run_in(dir.path, TROUPE_PROGRAM " version").out;
  CHECK(version.starts_with("troupe " +
                            run_in(dir.path,
                                   "printf %s $(dpkg-deb -f troupe_*.deb "
                                   "Version)")
                                .out +
                            " ("));
  for (const char* needed : {"libcaf-core0.17 (>= 0.17", "libdnnl", "libgloo0", "adduser",
                             "Section: science\n", "Recommends: golang-github-pierrec-lz4-dev\n"})
    CHECK_MESSAGE(fields.find(needed) != std::string::npos, needed);
  REQUIRE(run_in(dir.path, "dpkg-deb -x troupe_*.deb tree").code == 0);
  CHECK(run_in(dir.path, "tree/usr/bin/troupe version").out == version);
  CHECK(run_in(dir.path,
               "tree/usr/bin/troupe config check --no-files "
               "tree/usr/share/troupe/configs/quickstart.toml")
            .code == 0);
  for (const char* file :
       {"share/troupe/configs/slurm/troupe.sbatch", "share/troupe/configs/kubernetes/troupe.yaml",
        "share/troupe/configs/docker/Dockerfile", "share/doc/troupe/docs/deploying.md",
        "lib/systemd/system/troupe@.service", "lib/systemd/system/troupe-node@.service"})
    CHECK_MESSAGE(std::filesystem::is_regular_file(dir / "tree/usr" / file), file);
}

}  // namespace troupe

// apps/bench/pack_gpu.sh: what it packs runs elsewhere, without this machine's libraries but glibc.
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

namespace fs = std::filesystem;
using namespace troupe;

namespace {

/// A script for bash in a folder; $PACK is the script under test.
ended pack(const fs::path& in, const std::string& script) {
  std::ofstream(in / "script") << "PACK=" TROUPE_SOURCE_DIR "/apps/bench/pack_gpu.sh\n"
                               << script << "\n";
  return run_in(in, "bash script");
}

}  // namespace

TEST_CASE("pack gpu: the packed program runs in an empty environment with the packed libraries") {
  scratch dir;
  auto done =
      pack(dir.path, "$PACK --without-nvidia --output packed.tar " TROUPE_PROGRAM
                     " && mkdir elsewhere && tar -C elsewhere -xf packed.tar && rm packed.tar");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const fs::path top = dir.path / "elsewhere" / "troupe-gpu";
  int libraries = 0;
  for (const auto& file : fs::directory_iterator(top / "lib")) {
    const auto name = file.path().filename().string();
    CAPTURE(name);
    ++libraries;
    for (const char* glibcs : {"libc.so", "libm.so", "ld-linux", "libpthread.so", "libcuda.so"}) {
      CHECK_FALSE(name.starts_with(glibcs));
    }
  }
  CHECK(libraries > 5);
  // What the loader takes, it takes from there, glibc and the loader itself apart.
  done = pack(top,
              "env -i LD_LIBRARY_PATH=$PWD/lib /usr/bin/ldd bin/troupe | grep '=>' | "
              "grep -vF \"$PWD/lib/\" | awk '{ print $1 }'");
  CAPTURE(done.out);
  CHECK(done.out.find("libcaf") == std::string::npos);
  CHECK(done.out.find("libstdc++") == std::string::npos);
  CHECK(done.out.find("libc.so.6") != std::string::npos);
  done = pack(dir.path, "env -i elsewhere/troupe-gpu/run version");
  CHECK_MESSAGE(done.code == 0, done.talk);
  CHECK(done.out.find("troupe") != std::string::npos);
  done = pack(dir.path,
              "env -i /bin/sh elsewhere/troupe-gpu/run bench gpu --device host --models tiny "
              "--side 64 --copy-mib 4 --seconds 0.001 --threads 1");
  CHECK_MESSAGE(done.code == 0, done.talk);
  CHECK(done.out.find("attention forward") != std::string::npos);
}

TEST_CASE("pack gpu: what cannot be packed is said, and nothing half is left") {
  scratch dir;
  auto done = pack(dir.path, "$PACK --output packed.tar ./no-such-program");
  CHECK(done.code == 66);
  CHECK(done.talk.find("no-such-program") != std::string::npos);
  CHECK(done.talk.find("hint: ") != std::string::npos);
  CHECK_FALSE(fs::exists(dir.path / "packed.tar"));
  CHECK(pack(dir.path, "$PACK --nonsense").code == 64);
  done = pack(dir.path, "$PACK --help");
  CHECK(done.code == 0);
  CHECK(done.out.find("--without-nvidia") != std::string::npos);
}

TEST_CASE("pack gpu: a machine with an older glibc is told, before the loader fails") {
  scratch dir;
  REQUIRE(pack(dir.path, "$PACK --without-nvidia --output packed.tar " TROUPE_PROGRAM
                         " && tar -xf packed.tar")
              .code == 0);
  const auto done = pack(dir.path,
                         "mkdir fake && printf '#!/bin/sh\\necho glibc 2.17\\n' >fake/getconf && "
                         "chmod +x fake/getconf && PATH=$PWD/fake:$PATH troupe-gpu/run version");
  CHECK(done.code == 69);
  CHECK(done.talk.find("2.17") != std::string::npos);
}

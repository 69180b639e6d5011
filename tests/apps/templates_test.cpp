// The templates for schedulers: every host that a node advertises is in the certificate that the
// others check (LNK-4).
#include <regex>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// A program of the shell, found before others of its name.
void put_fake(const fs::path& file, const std::string& body) {
  put_file(file, "#!/bin/bash\n" + body);
  fs::permissions(file, fs::perms::owner_all);
}

std::string template_text(const char* name) {
  return content(fs::path(TROUPE_SOURCE_DIR) / "configs" / name);
}

}  // namespace

TEST_CASE("templates: under Slurm the certificate names all hosts, and each node its own") {
  const scratch dir;
  put_fake(dir / "bin/scontrol", "printf 'n1\\nn2\\nn3\\n'\n");
  put_fake(dir / "bin/srun",
              "for n in 1 2 3; do SLURMD_NODENAME=n$n SLURM_PROCID=$n \"$@\"; done\n");
  // What it is called with, a line each; certificates appear as they would.
  put_fake(dir / "bin/troupe",
              "echo \"$*\" >>\"$CALLS\"\nif [ \"$1\" = certs ]; then mkdir \"$2\"; fi\n");
  const auto done =
      run_in(dir.path,
             fmt::format("PATH=\"{0}/bin:$PATH\" CALLS={0}/calls SLURM_JOB_ID=7 SLURM_NTASKS=3 "
                         "SLURM_JOB_NODELIST=n[1-3] bash {1}/configs/slurm/troupe.sbatch run.toml",
                         dir.path.string(), TROUPE_SOURCE_DIR));
  INFO(done.talk);
  CHECK(done.code == 0);
  const auto calls = content(dir / "calls");
  INFO(calls);
  CHECK(calls.find("certs-7 --node node=n1,n1,n2,n3\n") != std::string::npos);
  for (int n = 1; n <= 3; ++n)
    CHECK(calls.find(fmt::format("node --join n1:29400 --name n{0}-{0} --advertise n{0}\n", n)) !=
          std::string::npos);
}

TEST_CASE("templates: on Kubernetes the certificate names all pods, and each node its own") {
  const auto text = template_text("kubernetes/troupe.yaml");
  std::smatch found;
  REQUIRE(std::regex_search(text, found, std::regex("\n  completions: (\\d+)\n")));
  std::string pods;
  for (int n = 0; n < std::stoi(found[1]); ++n)
    pods += fmt::format("{}troupe-{}.troupe", n == 0 ? "" : ",", n);
  CHECK(text.find(fmt::format("troupe certs certs --node node={}\n", pods)) != std::string::npos);
  CHECK(text.find("--advertise \"$(hostname).troupe\"") != std::string::npos);
}

}  // namespace troupe

// How a job finds the power budget above it, and by which keys it would prove itself there.
#include "apps/up/power_parent.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/apps/runtime_folder.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

config::job job_under(const std::string& parent, const std::string& key_file = {}) {
  config::job job;
  job.job.name = "gpt-a";
  job.power.parent = parent;
  job.power.parent_key = key_file;
  return job;
}

/// A key as `troupe key` writes it.
std::string key_file_of(const scratch& folder, const std::string& whose) {
  const auto file = folder / (whose.substr(0, whose.find('/')) + ".key");
  std::ofstream(file) << "troupe-key 1 " << whose << " " << std::string(64, 'a') << "\n";
  std::filesystem::permissions(
      file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return file.string();
}

}  // namespace

TEST_CASE("power parent: a job without one joins nothing, and needs no key") {
  CHECK(apps::check_power_parent(job_under("")));
  CHECK(!apps::power_parent_of(job_under(""), {}));
  CHECK(apps::check_power_parent(job_under("auto")));  // it may begin before its budget does
}

TEST_CASE("power parent: a key that cannot be read, or is of another role, is refused at once") {
  const scratch folder;
  const auto why = [](const std::string& file) {
    const auto checked = apps::check_power_parent(job_under("127.0.0.1:4242", file));
    return checked ? errc::none : checked.error().code;
  };
  CHECK(why((folder / "none.key").string()) == errc::not_found);
  CHECK(why(key_file_of(folder, "reader/gpt-a")) == errc::permission);
  CHECK(why(key_file_of(folder, "power/gpt-a")) == errc::none);
}

TEST_CASE("power parent: HOST:PORT and a key are where it is and how the job proves itself") {
  const scratch folder;
  auto job = job_under("127.0.0.1:4242", key_file_of(folder, "power/gpt-a"));
  job.job.output = (folder / "out").string();
  std::filesystem::create_directory(job.job.output);
  const auto how = apps::power_parent_of(job, {});
  REQUIRE(how);
  CHECK(how->named == "127.0.0.1:4242");
  CHECK(how->incarnation > 0);
  CHECK(apps::next_incarnation(folder / "out/power.incarnation", 1) == how->incarnation + 1);
  const auto found = how->find();
  REQUIRE(found);
  CHECK(found->host == "127.0.0.1");
  CHECK(found->port == 4242);
  CHECK(found->name.empty());
  CHECK(tls::to_text(found->proof.self) == "power/gpt-a");
  std::filesystem::remove(job.power.parent_key);
  CHECK(!how->find());  // read anew each time
}

TEST_CASE("power parent: each process of a job has a greater number, whatever the clock does") {
  const scratch folder;
  const auto file = folder / "power.incarnation";
  CHECK(apps::next_incarnation(file, 1000) == 1000);
  CHECK(apps::next_incarnation(file, 1005) == 1005);
  CHECK(apps::next_incarnation(file, 400) == 1006);
  CHECK(apps::next_incarnation(file, 400) == 1007);
  std::ofstream(file) << "none of ours";
  CHECK(apps::next_incarnation(file, 400) == 400);
  std::ofstream(file) << "18446744073709551615\n";
  CHECK(apps::next_incarnation(file, 400) == 400);
  CHECK(apps::next_incarnation(folder / "gone" / "file", 400) == 400);
}

TEST_CASE("power parent: with nothing served on this machine, auto finds none") {
  const scratch folder;
  const runtime_folder at(folder / "run");
  for (const auto* parent : {"auto", "auto:row0"}) {
    const auto found = apps::find_power_parent(job_under(parent));
    REQUIRE(!found);
    CHECK(found.error().code == errc::not_found);
  }
}

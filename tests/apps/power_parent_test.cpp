// How a job, or a budget, finds the power budget above it, and by which keys it would prove itself
// there.
#include "apps/up/power_parent.hpp"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "apps/power/budget_sign.hpp"
#include "io/tls/keyring.hpp"
#include "tests/apps/runtime_folder.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

apps::power_joiner job_under(const std::string& parent, const std::string& key_file = {}) {
  config::job job;
  job.job.name = "gpt-a";
  job.power.parent = parent;
  job.power.parent_key = key_file;
  return apps::joiner_of(job);
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
  CHECK(!apps::power_parent_of(job_under("")));
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
  job.output = (folder / "out").string();
  std::filesystem::create_directory(job.output);
  const auto how = apps::power_parent_of(job);
  REQUIRE(how);
  CHECK(how->named == "127.0.0.1:4242");
  CHECK(how->child == "gpt-a");
  CHECK(how->incarnation > 0);
  CHECK(apps::next_incarnation(folder / "out/power.incarnation", 1) == how->incarnation + 1);
  CHECK(how->finder);
  const auto found = apps::find_power_parent(job);
  REQUIRE(found);
  CHECK(found->host == "127.0.0.1");
  CHECK(found->port == 4242);
  CHECK(found->name.empty());
  CHECK(tls::to_text(found->proof->self) == "power/gpt-a");
  std::filesystem::remove(job.parent_key);
  CHECK(!apps::find_power_parent(job));  // read anew each time
}

TEST_CASE("PTR-5: power parent: who listens on all addresses is reached at each one of its own") {
  const auto own = [](const std::string& listen, const std::string& host, uint16_t port = 4242) {
    return apps::is_reached_at(listen, 4242, {host, port});
  };
  std::array<char, 256> name{};
  REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  for (const auto* listen : {"0.0.0.0", "::"}) {
    CHECK(own(listen, "127.0.0.2"));
    CHECK(own(listen, "0.0.0.0"));
    CHECK(own(listen, name.data()));
    CHECK(!own(listen, "127.0.0.2", 4243));
    CHECK(!own(listen, "192.0.2.1"));  // nobody's
    CHECK(!own(listen, "feed0.example"));
  }
  CHECK(own("127.0.0.1", "0.0.0.0"));
  CHECK(!own("127.0.0.1", "127.0.0.2"));  // another one may listen there
}

TEST_CASE("power parent: beyond this machine, and to a budget with certificates, they are proof") {
  const scratch folder;
  const runtime_folder at(folder.path);
  auto job = job_under("10.0.0.5:4242");
  CHECK(!apps::find_power_parent(job));
  job.has_certificates = true;
  const auto far = apps::find_power_parent(job);
  REQUIRE(far);
  CHECK(far->host == "10.0.0.5");
  CHECK(far->port == 4242);
  CHECK(!far->proof);

  const apps::budget_sign row({"row0", getpid(), "127.0.0.1:4243", {}});
  job.parent = "auto";
  const auto here = apps::find_power_parent(job);
  REQUIRE(here);
  CHECK(here->name == "row0");
  CHECK(here->port == 4243);
  CHECK(!here->proof);
  job.has_certificates = false;
  CHECK(apps::find_power_parent(job).error().code == errc::permission);
}

TEST_CASE("power parent: a job with certificates shows a key where it has one for the budget") {
  const scratch folder;
  auto job = job_under("127.0.0.1:4242", key_file_of(folder, "power/gpt-a"));
  job.has_certificates = true;
  const auto found = apps::find_power_parent(job);
  REQUIRE(found);
  REQUIRE(found->proof);
  CHECK(tls::to_text(found->proof->self) == "power/gpt-a");
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

TEST_CASE("power parent: a budget finds the other one, and several are told apart by name") {
  const scratch folder;
  const runtime_folder at(folder.path);
  const auto secret = folder / "any.secret";
  REQUIRE(tls::job_key::make()->write(secret));
  config::power_tree tree;
  tree.name = "rack0";
  tree.parent = "auto";
  const auto found = [&] {
    const auto place = apps::find_power_parent(apps::joiner_of(tree));
    return place ? fmt::format("{} {}:{} {}", place->name, place->host, place->port,
                               tls::to_text(place->proof->self))
                 : std::string(to_string(place.error().code));
  };
  const apps::budget_sign rack({"rack0", getpid(), "127.0.0.1:4243", secret});
  CHECK(found() == to_string(errc::not_found));  // itself
  const apps::budget_sign row({"row0", getppid(), "127.0.0.1:4242", secret});
  CHECK(found() == "row0 127.0.0.1:4242 power/rack0");
  tree.parent = "auto:row0";
  CHECK(found() == "row0 127.0.0.1:4242 power/rack0");
  tree.parent = "auto:row1";
  CHECK(found() == to_string(errc::not_found));
  CHECK(apps::find_power_parent(job_under("auto")).error().code == errc::usage);
  const auto of_job = apps::find_power_parent(job_under("auto:rack0"));
  REQUIRE(of_job);
  CHECK(of_job->name == "rack0");
  CHECK(of_job->port == 4243);
}

TEST_CASE("power parent: a budget counts its processes in its folder, as a job does") {
  const scratch folder;
  config::power_tree tree;
  tree.name = "rack0";
  tree.output = folder.path.string();
  CHECK(!apps::power_parent_of(apps::joiner_of(tree)));
  CHECK(std::filesystem::is_empty(folder.path));
  tree.parent = "auto:row0";
  const auto how = apps::power_parent_of(apps::joiner_of(tree));
  REQUIRE(how);
  CHECK(how->named == "auto:row0");
  CHECK(apps::next_incarnation(folder / "power.incarnation", 1) == how->incarnation + 1);
}

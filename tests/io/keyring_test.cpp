// Keys of a job: what is derived from what, and which files are believed.
#include "io/tls/keyring.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "io/file.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using tls::bearer;
using tls::job_key;
using tls::role;

namespace {

const bearer alice{role::operator_, "alice"}, bob{role::reader, "bob"}, node0{role::node, "node0"};

job_key secret() {
  auto key = job_key::make();
  REQUIRE(key);
  return *key;
}

}  // namespace

TEST_CASE("keyring: a secret makes every key, a role's those of its names, a name's none (KEY-2)") {
  const auto all = secret();
  const auto operators = all.of(role::operator_), nodes = all.of(role::node);
  REQUIRE(operators);
  REQUIRE(nodes);
  const auto hers = all.handed_to(alice);
  REQUIRE(hers);
  CHECK(all.of(alice) == operators->of(alice));
  CHECK(all.of(alice) == hers->of(alice));
  CHECK(hers->own() == alice);
  CHECK_FALSE(hers->of(bearer{role::operator_, "mallory"}));
  CHECK_FALSE(hers->of(bearer{role::reader, "alice"}));
  CHECK_FALSE(hers->of(role::reader));
  CHECK_FALSE(nodes->of(alice));
  CHECK_FALSE(nodes->of(role::operator_));
  CHECK_FALSE(operators->handed_to(node0));
  CHECK_FALSE(all.own());
  CHECK_FALSE(nodes->own());
  std::set<job_key::bytes_type> different{*all.of(alice), *all.of(bob), *all.of(node0),
                                          *all.of(bearer{role::reader, "alice"}),
                                          *secret().of(alice)};
  CHECK(different.size() == 5);
}

TEST_CASE("keyring: a job's key for a power budget makes nothing else (KEY-2)") {
  const auto all = secret();
  const bearer job{role::power, "gpt-a"};
  CHECK(tls::to_text(job) == "power/gpt-a");
  CHECK(tls::bearer_of("power/gpt-a") == job);
  const auto jobs = all.of(role::power);
  const auto its = all.handed_to(job);
  REQUIRE(jobs);
  REQUIRE(its);
  CHECK(all.of(job) == jobs->of(job));
  CHECK(its->of(job) == all.of(job));
  CHECK(its->own() == job);
  CHECK(its->text().starts_with("troupe-key 1 power/gpt-a "));
  CHECK_FALSE(its->of(bearer{role::power, "gpt-b"}));
  CHECK_FALSE(its->of(bearer{role::node, "gpt-a"}));
  CHECK_FALSE(jobs->of(alice));
  CHECK_FALSE(jobs->of(role::node));
  CHECK_FALSE(all.of(role::node)->of(job));
  CHECK_FALSE(all.of(role::operator_)->of(job));
  CHECK(all.of(job) != all.of(bearer{role::node, "gpt-a"}));
}

TEST_CASE("keyring: keys as text, and what is none (KEY-3)") {
  const auto all = secret();
  for (const auto& key : {all, *all.of(role::node), *all.of(role::power), *all.handed_to(alice)}) {
    auto line = key.text();
    CHECK(line.back() == '\n');
    line.pop_back();
    const auto again = job_key::parse(line);
    REQUIRE(again);
    CHECK(again->text() == key.text());
  }
  const auto good = all.text().substr(0, all.text().size() - 1);
  for (const std::string& bad :
       {std::string(), std::string("troupe-key"), good.substr(0, good.size() - 1), good + "0",
        good + "\n", "x" + good, "troupe-key 1 emperor " + std::string(64, '0'),
        "troupe-key 1 operator/../x " + std::string(64, '0'),
        "troupe-key 1 operator/ " + std::string(64, '0'),
        "troupe-key 1 secret " + std::string(64, 'g')}) {
    CAPTURE(bad);
    const auto none = job_key::parse(bad);
    REQUIRE(!none);
    CHECK(none.error().message.find(std::string(64, '0')) == std::string::npos);
  }
  CHECK(tls::bearer_of("operator/alice") == alice);
  CHECK_FALSE(tls::bearer_of("operator/" + std::string(300, 'a')));
  CHECK_FALSE(tls::bearer_of("operator/a/b"));
  CHECK_FALSE(tls::bearer_of(std::string_view("operator/a\0b", 12)));
  CHECK_FALSE(tls::bearer_of("alice"));
}

TEST_CASE("keyring: a key's file is of this user alone, and nothing is written over (KEY-1)") {
  const scratch folder;
  const auto all = secret();
  const auto file = folder / "key";
  REQUIRE(all.write(file));
  struct stat facts {};
  REQUIRE(stat(file.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  const auto again = job_key::read(file);
  REQUIRE(again);
  CHECK(again->text() == all.text());
  const auto over = all.write(file);
  REQUIRE(!over);
  CHECK(over.error().code == errc::permission);
  for (const mode_t open_to : {0640, 0604, 0620, 0602, 0644}) {
    REQUIRE(chmod(file.c_str(), open_to) == 0);
    const auto refused = job_key::read(file);
    CAPTURE(open_to);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::permission);
  }
  REQUIRE(chmod(file.c_str(), 0600) == 0);
  REQUIRE(symlink(file.c_str(), (folder / "link").c_str()) == 0);
  CHECK(!job_key::read(folder / "link"));
  CHECK(!job_key::read(folder.path));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(!job_key::read(folder / "pipe"));
  if (geteuid() == 0) {
    REQUIRE(chown(file.c_str(), 65534, 65534) == 0);
    CHECK(!job_key::read(file));
  } else {
    MESSAGE("SKIPPED: only root can give a file away");
  }
  std::ofstream(folder / "long") << std::string(100'000, 'x');
  REQUIRE(chmod((folder / "long").c_str(), 0600) == 0);
  CHECK(!job_key::read(folder / "long"));
}

TEST_CASE("keyring: a key through a pipe") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  io::unique_fd reading(ends[0]), writing(ends[1]);
  const auto line = secret().text();
  REQUIRE(io::write_all(writing.get(), std::as_bytes(std::span(line)), "a pipe"));
  writing.reset();
  const auto key = job_key::read(reading.get());
  REQUIRE(key);
  CHECK(key->text() == line);
  CHECK(!job_key::read(reading.get()));  // nothing more
}

TEST_CASE("keyring: as whom a process proves itself") {
  const auto all = secret();
  const std::array wanted{bearer{role::operator_, "me"}, bearer{role::reader, "me"}};
  CHECK(tls::proof_by(all, wanted)->self == wanted[0]);
  CHECK(tls::proof_by(*all.of(role::reader), wanted)->self == wanted[1]);
  CHECK(tls::proof_by(*all.handed_to(alice), wanted)->self == alice);
  const auto none = tls::proof_by(*all.of(role::node), wanted);
  REQUIRE(!none);
  CHECK(none.error().code == errc::permission);
}

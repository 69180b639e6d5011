// Names of sockets that are free, stale, in use or no sockets, and what is said over them.
#include "io/local_socket.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace std::chrono_literals;

namespace fs = std::filesystem;

namespace {

socket_deadline soon() {
  return std::chrono::steady_clock::now() + 30s;
}

local_listener listener_at(const fs::path& name) {
  auto made = local_listener::make(name, "");
  REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
  return std::move(*made);
}

}  // namespace

TEST_CASE("LSK-1: local socket: its name is the owner's and the group's, and no others'") {
  const scratch folder;
  const auto name = folder / "s";
  const auto listener = local_listener::make(name, std::to_string(::getgid()));
  REQUIRE(listener);
  struct stat facts {};
  REQUIRE(::stat(name.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0660);
  CHECK(facts.st_gid == ::getgid());
  CHECK(local_listener::make(folder / "t", "no group of this name").error().is(no_such_group));
  CHECK_FALSE(fs::exists(folder / "t"));
}

TEST_CASE("local socket: bytes pass, and the kernel says whose they are") {
  const scratch folder;
  const auto listener = listener_at(folder / "s");
  CHECK_FALSE(listener.accept());
  auto one = connect_local(folder / "s", soon());
  REQUIRE(one);
  const auto other = listener.accept();
  REQUIRE(other);
  const auto peer = peer_of(other.get());
  REQUIRE(peer);
  CHECK(*peer == socket_peer{::getpid(), ::getuid(), ::getgid()});
  const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  REQUIRE(send_local(one->get(), sent, soon()));
  CHECK_FALSE(has_hung_up(one->get()));
  std::array<std::byte, 3> got{};
  REQUIRE(receive_local(other.get(), got, soon()));
  CHECK(got == sent);
  one->reset();
  CHECK(has_hung_up(other.get()));
  CHECK_FALSE(receive_local(other.get(), got, soon()));
}

TEST_CASE("LSK-2: local socket: a dead one's name is taken over, a live one's is refused") {
  const scratch folder;
  const auto name = folder / "s";
  {
    const auto listener = listener_at(name);
    CHECK(local_listener::make(name, "").error().is(socket_in_use));
    fs::create_hard_link(name, folder / "left");
  }
  fs::rename(folder / "left", name);  // as one that was killed leaves it
  REQUIRE(fs::exists(name));
  CHECK_FALSE(connect_local(name, soon()));
  const auto next = listener_at(name);
  CHECK(connect_local(name, soon()));
  const auto text = folder / "text";
  std::ofstream(text) << "mine";
  CHECK(local_listener::make(text, "").error().is(no_socket));
  CHECK(fs::file_size(text) == 4);
  fs::create_symlink(name, folder / "link");
  CHECK(local_listener::make(folder / "link", "").error().is(no_socket));
}

TEST_CASE("LSK-3: local socket: the name goes with its listener, and another's stays") {
  const scratch folder;
  const auto name = folder / "s";
  {
    const auto listener = listener_at(name);
    CHECK(fs::exists(name));
  }
  CHECK_FALSE(fs::exists(name));
  std::optional<local_listener> moved_away(listener_at(name));
  fs::rename(name, folder / "elsewhere");
  const auto another = listener_at(name);
  moved_away.reset();
  CHECK(fs::exists(name));
}

TEST_CASE("LSK-5: local socket: none is made where everybody may put another thing in its place") {
  const scratch folder;
  const auto open = folder / "open";
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  CHECK(local_listener::make(open / "s", "").error().is(open_socket_folder));
  CHECK_FALSE(fs::exists(open / "s"));
  fs::permissions(open, fs::perms::all | fs::perms::sticky_bit);  // as /tmp is
  CHECK(local_listener::make(open / "s", ""));
  CHECK(local_listener::make(folder / "s", "4294967295").error().is(no_such_group));
}

TEST_CASE("LSK-4: local socket: nobody waits beyond his deadline, and bad names are told") {
  const scratch folder;
  const auto listener = listener_at(folder / "s");
  const auto one = connect_local(folder / "s", soon());
  REQUIRE(one);
  std::array<std::byte, 1> got{};
  const auto late = receive_local(one->get(), got, std::chrono::steady_clock::now() + 1ms);
  REQUIRE_FALSE(late);
  CHECK(late.error().code == errc::timeout);
  CHECK(connect_local(folder / "none", soon()).error().code == errc::not_found);
  CHECK(connect_local("", soon()).error().is(bad_socket_name));
  CHECK(local_listener::make(folder / std::string(200, 'x'), "").error().is(bad_socket_name));
}

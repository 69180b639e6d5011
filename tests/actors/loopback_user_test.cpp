// Which user is at the other end: by a table of the kernel's form, and by the kernel.
#include "actors/cluster/loopback_user.hpp"

#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "tests/loopback.hpp"

using namespace troupe;
using cluster::user_in_table;

namespace {

constexpr std::string_view table =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 "
    "111 1\n"
    "   1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 "
    "222 1\n"
    "   2: 0100007F:D432 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 "
    "0 3\n"
    "   3: 0100007F:D433 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 "
    "0 3\n"
    "   4: 0100007F:D434 0100007F:1F90 01 0000";

}  // namespace

TEST_CASE("loopback: the user of a socket, where its process lives (USR-1)") {
  CHECK(user_in_table(table, "0100007F:D431", "0100007F:1F90") == 1000);
  CHECK_FALSE(user_in_table(table, "0100007F:D432", "0100007F:1F90"));  // waits for its end
  CHECK_FALSE(user_in_table(table, "0100007F:D433", "0100007F:1F90"));  // nobody's any more
  CHECK_FALSE(user_in_table(table, "0100007F:D434", "0100007F:1F90"));  // cut short
  CHECK_FALSE(user_in_table(table, "0100007F:D431", "0100007F:1F91"));
  CHECK_FALSE(user_in_table("", "0100007F:D431", "0100007F:1F90"));
}

TEST_CASE("loopback: the kernel knows who we are") {
  const auto listening = loopback_listener();
  auto knocks = loopback_connection(listening);
  const io::unique_fd accepted(accept(listening.get(), nullptr, nullptr));
  REQUIRE(accepted);
  const auto* entry = getpwuid(geteuid());
  const auto who = cluster::loopback_user(accepted.get());
  REQUIRE(who);
  if (entry != nullptr) CHECK(*who == entry->pw_name);
  knocks.reset();
  CHECK_FALSE(cluster::loopback_user(accepted.get()));  // gone: the kernel's word would be root's
}

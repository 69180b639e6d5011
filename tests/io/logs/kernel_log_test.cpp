// Records of a kernel's log, from a socket that keeps them apart as /dev/kmsg does.
#include "io/logs/kernel_log.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

using namespace troupe::io;

namespace {

/// Both ends: what is sent to one is a record to read at the other.
struct records {
  int ends[2] = {-1, -1};
  records() { REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0); }
  ~records() { close(ends[1]); }
  bool say(std::string_view record) const {
    return send(ends[1], record.data(), record.size(), 0) == static_cast<ssize_t>(record.size());
  }
};

}  // namespace

TEST_CASE("kernel log: the text of a record, whatever stands around it") {
  using text = std::optional<std::string_view>;
  CHECK(kernel_record_text("6,339,5140900,-;NVRM: loading\n SUBSYSTEM=pci\n DEVICE=+pci\n") ==
        text("NVRM: loading"));
  CHECK(kernel_record_text("4,340,5140901,c;a; b") == text("a; b"));
  CHECK(kernel_record_text("4,340,5140901,-;\n") == text(""));
  CHECK(kernel_record_text("no record") == text());
  CHECK(kernel_record_text("") == text());
}

TEST_CASE("kernel log: a line a record, and nothing while there is none") {
  records r;
  kernel_log log(unique_fd(r.ends[0]));
  CHECK(log.look() == log_piece{});
  REQUIRE(r.say("6,1,10,-;one\n KEY=value\n"));
  REQUIRE(r.say("noise"));
  REQUIRE(r.say("3,2,11,-;two\n"));
  CHECK(log.look() == log_piece{"one\ntwo\n"});
  CHECK(log.look() == log_piece{});
}

TEST_CASE("KLG-1: a look at a kernel's log is bounded, and the next one goes on") {
  kernel_log endless(unique_fd(open("/dev/zero", O_RDONLY | O_CLOEXEC)));
  CHECK(endless.look() == log_piece{});  // it comes back
  records r;
  kernel_log log(unique_fd(r.ends[0]));
  size_t said = 0, seen = 0;
  while (said <= 2 * kernel_log::most_records_a_look) {
    if (r.say("6,1,1,-;x\n"))
      ++said;
    else  // the socket is full
      seen += log.look().bytes.size() / 2;
  }
  for (size_t before = seen + 1; before != seen;) {
    before = seen;
    seen += log.look().bytes.size() / 2;
  }
  CHECK(seen == said);
}

TEST_CASE("KLG-2: this machine's kernel log can be opened or not, and says nothing old") {
  auto log = kernel_log::open();
  if (!log) return;
  CHECK(log->look().bytes.size() < 16'384);  // not what it said since it was started
}

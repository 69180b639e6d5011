// What a program says when nobody listens: an outbox never waits, and tells later what it lost.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "apps/up/line_log.hpp"
#include "apps/voice.hpp"
#include "io/file.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using troupe::apps::line_log;
using troupe::apps::outbox;

namespace {

constexpr auto long_enough = std::chrono::seconds(90);

struct a_pipe {
  troupe::io::unique_fd in, out;  // to write to, to read from

  a_pipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
  /// Reads until `end` was seen.
  std::string until(const std::string& end) const {
    std::string text;
    char bytes[4096];
    while (text.find(end) == std::string::npos) {
      const auto n = read(out.get(), bytes, sizeof(bytes));
      REQUIRE(n > 0);
      text.append(bytes, static_cast<size_t>(n));
    }
    return text;
  }
};

/// What an outbox told, as "3 of reason".
struct told {
  std::mutex mutex;
  std::vector<std::string> all;
  uint64_t lines = 0;

  uint64_t told_lines() {
    std::lock_guard lock(mutex);
    return lines;
  }
  outbox::loss_handler handler() {
    return [this](const outbox::loss& l) {
      std::lock_guard lock(mutex);
      all.push_back(fmt::format("{} of {}", l.lines, l.why));
      lines += l.lines;
    };
  }
};

}  // namespace

TEST_CASE("voice: texts arrive in order and whole, from many threads' worth of them") {
  a_pipe p;
  outbox box(p.in.get(), 1 << 20, {});
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    box.put(fmt::format("line {}\n", i));
    expected += fmt::format("line {}\n", i);
  }
  CHECK(p.until("line 4999\n") == expected);
  CHECK(box.settle(long_enough));
  CHECK(box.lost().lines == 0);
}

TEST_CASE("voice: VO-1: a pipe that nobody reads holds nobody up, and what was lost is told") {
  a_pipe p;
  told heard;
  outbox box(p.in.get(), 128 << 10, heard.handler());  // more than the pipe takes
  const std::string line = std::string(1023, 'x') + "\n";
  for (int i = 0; i < 4096; ++i) box.put(line);  // 4 MiB: more than pipe and outbox take
  // What is lost and not told yet, else what was told while the pipe still took some.
  const auto untold = box.lost();
  CHECK(untold.why == (untold.lines > 0 ? "nobody reads it" : ""));
  CHECK(untold.lines + heard.told_lines() > 0);
  CHECK_FALSE(box.settle(std::chrono::milliseconds(1)));
  std::string text;
  while (!box.settle(std::chrono::milliseconds(0))) {
    char bytes[65536];
    pollfd there{p.out.get(), POLLIN, 0};
    if (poll(&there, 1, 1) != 1) continue;
    const auto n = read(p.out.get(), bytes, sizeof(bytes));
    REQUIRE(n > 0);
    text.append(bytes, static_cast<size_t>(n));
  }
  box.put("the end\n");
  text += p.until("the end\n");
  REQUIRE(box.settle(long_enough));
  std::lock_guard lock(heard.mutex);
  for (const auto& told : heard.all) CHECK(told.ends_with(" of nobody reads it"));
  CHECK(heard.lines > 3000);  // told at once or, while the pipe still took some, in parts
  CHECK(text.size() == (4096 - heard.lines) * 1024 + 8);
}

TEST_CASE("voice: VO-1: an outbox whose write hangs can be left") {
  a_pipe p;
  outbox box(p.in.get(), 1 << 20, {});
  box.put(std::string(200'000, 'x'));
  CHECK_FALSE(box.settle(std::chrono::milliseconds(1)));
  // The pipe's ends outlive the outbox's thread only by luck: it must not touch others' files.
  static_cast<void>(p.in.release());
  static_cast<void>(p.out.release());
}

TEST_CASE("voice: VO-1, VO-3: a full disk and a reader that went are counted by their reasons") {
  const troupe::io::unique_fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  outbox on_full(full.get(), 1 << 20, {});
  on_full.put("one\ntwo\n");
  on_full.put("three\n");
  REQUIRE(on_full.settle(long_enough));
  CHECK(on_full.lost().lines == 3);
  CHECK(on_full.lost().why == "No space left on device");
  a_pipe p;
  p.out.reset();
  outbox to_nobody(p.in.get(), 1 << 20, {});
  to_nobody.put("one\n");  // by itself, SIGPIPE would end this test
  REQUIRE(to_nobody.settle(long_enough));
  CHECK(to_nobody.lost().lines == 1);
  CHECK(to_nobody.lost().why == "Broken pipe");
}

TEST_CASE("voice: what was lost is told once a write succeeds again") {
  a_pipe p;
  told heard;
  const troupe::io::unique_fd fd(open("/dev/full", O_WRONLY | O_CLOEXEC));
  outbox box(fd.get(), 1 << 20, heard.handler());
  box.put("lost\n");
  box.put("lost as well\n", 7);  // a notice that stands for seven lines
  REQUIRE(box.settle(long_enough));
  CHECK(heard.all.empty());
  REQUIRE(dup2(p.in.get(), fd.get()) == fd.get());
  box.put("here\n");
  CHECK(p.until("here\n") == "here\n");
  REQUIRE(box.settle(long_enough));
  CHECK(heard.all == std::vector<std::string>{"8 of No space left on device"});
  CHECK(box.lost().lines == 0);
}

TEST_CASE("voice: who reads gets all of it, however late this process comes to write it") {
  a_pipe p;
  std::mutex mutex;
  std::condition_variable never;
  const troupe::io::unique_fd fd(open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto patience = std::chrono::seconds(1);
  // The outbox's thread is late: it tells of a loss, and somebody else has the processor.
  outbox box(fd.get(), 1 << 20, [&](const outbox::loss&) {
    std::unique_lock lock(mutex);
    never.wait_for(lock, patience + std::chrono::milliseconds(200));
  });
  box.put("lost\n");
  REQUIRE(box.settle(long_enough));
  REQUIRE(dup2(p.in.get(), fd.get()) == fd.get());
  box.put("here\n");
  box.put("and here\n");
  CHECK(box.settle(patience));
  CHECK(p.until("and here\n") == "here\nand here\n");
}

TEST_CASE("voice: a log goes on where the disk has room again, with its torn line apart") {
  troupe::scratch folder;
  line_log log((folder / "log.jsonl").string());
  REQUIRE(log.append("first"));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto usual = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 10;  // "first\n" and four bytes more
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto torn = log.append("second");
  const auto refused = log.append("third");
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, usual);
  CHECK_FALSE(torn);
  CHECK_FALSE(refused);
  CHECK(log.append("fourth"));
  CHECK(troupe::content(folder / "log.jsonl") == "first\nseco\nfourth\n");
}

TEST_CASE("voice: half a line that a process before has left stays alone (LOG-2)") {
  troupe::scratch folder;
  const auto file = folder / "log.jsonl";
  troupe::put_file(file, "first\nseco");
  line_log log(file.string());
  CHECK(log.append("third"));
  CHECK(log.append("fourth"));
  CHECK(troupe::content(file) == "first\nseco\nthird\nfourth\n");
  line_log later(file.string());
  CHECK(later.append("fifth"));
  CHECK(troupe::content(file) == "first\nseco\nthird\nfourth\nfifth\n");
}

TEST_CASE("voice: a log that cannot be opened is tried again with each line") {
  troupe::scratch folder;
  line_log log((folder / "later" / "log.jsonl").string());
  CHECK_FALSE(log.append("lost"));
  std::filesystem::create_directory(folder / "later");
  CHECK(log.append("kept"));
  CHECK(troupe::content(folder / "later" / "log.jsonl") == "kept\n");
}

TEST_CASE("voice: a log that was removed or moved away is made again (LOG-3)") {
  troupe::scratch folder;
  const auto file = folder / "log.jsonl";
  line_log log(file.string());
  REQUIRE(log.append("first"));
  std::filesystem::rename(file, folder / "log.1");
  CHECK(log.append("second"));
  CHECK(troupe::content(file) == "second\n");
  std::filesystem::remove(file);
  CHECK(log.append("third"));
  CHECK(troupe::content(file) == "third\n");
  CHECK(troupe::content(folder / "log.1") == "first\n");
}

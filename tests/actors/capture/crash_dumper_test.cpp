// What a dead process leaves: flight memory, and the box its crash dumper makes of it.
#include "actors/capture/crash_dumper.hpp"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "actors/base/runtime.hpp"
#include "actors/capture/fast_clock.hpp"
#include "actors/capture/identities.hpp"
#include "tests/io/scratch.hpp"
#include "trace/trace_file.hpp"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

/// Runs in a process of its own: flight memory is for ever. How that ended, as waitpid says.
template <class Body>
int live(Body body) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    body();
    _exit(99);
  }
  int how = 0;
  REQUIRE(waitpid(pid, &how, 0) == pid);
  return how;
}

/// Not by the recorder: a test before this one may have given this thread a ring on the heap.
record_ring& write_records() {
  sign_flight_memory("b", "host7", "");
  static record_ring ring(detail::take_flight_ring());
  trace_record r;
  r.begin_ns = fast_now_ns();
  r.actor = 1;
  r.type = 3;
  for (uint64_t i = 1; i <= 100; ++i) {
    r.span = i;
    ring.push(r);
  }
  r.span = 101;
  ring.take_up(r);
  return ring;
}

}  // namespace

TEST_CASE("flight memory: what was written is read, also what was never finished") {
  const int how = live([] {
    if (!reserve_flight_memory()) _exit(2);
    runtime in;
    auto stats = in.registry.add(0);
    stats->set_kind("worker");
    stats->set_path("worker/7");
    const auto name = work_name("a work of this test");
    in.set_clock({-5, 0});
    auto& ring = write_records();
    const auto left = read_flight_memory();
    const bool records =
        left.records.size() == 100 && left.records.back().span == 100 && left.lost == 0;
    const bool unfinished = left.unfinished.size() == 1 && left.unfinished[0].span == 101;
    const bool actors = left.actors.size() == 1 && left.actors[0].path == "worker/7" &&
                        left.actors[0].kind == "worker" && left.actors[0].number == stats->number();
    const bool rest = left.works.size() >= name && left.works[name - 1u] == "a work of this test" &&
                      left.clock.offset_ns == -5 && left.clock.bound_ns == 0 && left.node == "b" &&
                      left.process == process_tag();
    ring.put_down();
    const bool down = read_flight_memory().unfinished.empty();
    _exit(records && unfinished && actors && rest && down ? 0 : 1);
  });
  CHECK(how == 0);
}

TEST_CASE("flight memory: texts beyond their room are cut, actors beyond theirs are forgotten") {
  const int how = live([] {
    if (!reserve_flight_memory()) _exit(2);
    detail::note_actor(5, 0, std::string(5000, 'x'), "k");
    detail::note_actor(5 + 4096, 0, "newer", "k");
    detail::note_actor(6, 0, std::string(5000, 'y'), std::string(500, 'z'));
    detail::note_work_name(60'000, "far away");
    const auto left = read_flight_memory();
    const bool two = left.actors.size() == 2 && left.actors[0].path == "newer" &&
                     left.actors[1].path == std::string(104, 'y') &&
                     left.actors[1].kind == std::string(32, 'z');
    const bool far = std::ranges::find(left.works, "far away") != left.works.end();
    _exit(two && !far ? 0 : 1);
  });
  CHECK(how == 0);
}

TEST_CASE("crash dumper: who was killed itself takes nobody along") {
  const int how = live([] {
    signal(SIGPIPE, SIG_DFL);
    auto crash_dumper = trace::crash_dumper::start();
    if (!crash_dumper) _exit(2);
    pid_t child = 0;
    std::ifstream("/proc/self/task/" + std::to_string(getpid()) + "/children") >> child;
    if (child <= 0 || kill(child, SIGKILL) != 0) _exit(3);
    siginfo_t end;
    if (waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT) != 0) _exit(4);
    { auto last = std::move(*crash_dumper); }
    _exit(0);
  });
  CHECK(how == 0);
}

TEST_CASE("crash dumper: standard descriptors that were closed take no box away") {
  scratch folder;
  const int how = live([&] {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) _exit(3);
    const pid_t victim = fork();
    if (victim == 0) {
      for (int fd = 0; fd < 3; ++fd) close(fd);
      auto crash_dumper = trace::crash_dumper::start();
      if (!crash_dumper) _exit(4);
      write_records();
      sign_flight_memory("b", "host7", folder.path.string());
      raise(SIGKILL);
    }
    while (waitpid(-1, nullptr, 0) > 0) continue;
    _exit(fs::exists(trace::last_box_path(folder.path, "b", victim)) ? 0 : 5);
  });
  CHECK(how == 0);
}

TEST_CASE("crash dumper: a killed process leaves a box, an orderly one none") {
  scratch folder;
  for (const int number : {SIGKILL, SIGSEGV, SIGABRT, 0}) {
    CAPTURE(number);
    // The process itself is the child of a reaper, which adopts its crash dumper and waits for
    // both.
    const int how = live([&] {
      if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) _exit(3);
      const pid_t victim = fork();
      if (victim == 0) {
        auto crash_dumper = trace::crash_dumper::start();
        if (!crash_dumper) _exit(4);
        write_records();
        sign_flight_memory("b", "host7", folder.path.string());
        if (number != 0) {
          signal(number, SIG_DFL);
          raise(number);
        }
        { auto last = std::move(*crash_dumper); }
        _exit(0);
      }
      while (waitpid(-1, nullptr, 0) > 0) continue;
      const auto path = trace::last_box_path(folder.path, "b", victim);
      if (fs::exists(path) != (number != 0)) _exit(5);
      if (number != 0) {
        auto file = trace::read_traces({path});
        if (!file || file->batches.empty() || file->batches[0].records.size() != 101) _exit(6);
        const auto& last = file->batches[0].records.back();
        if (last.span != 101 || (last.flags & record_flag::failed) == 0) _exit(7);
        if (file->batches[0].node != "b" || file->batches[0].pid != uint32_t(victim)) _exit(8);
      }
      _exit(0);
    });
    CHECK(WIFEXITED(how));
    CHECK(WEXITSTATUS(how) == 0);
  }
}

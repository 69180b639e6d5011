// The crash dumper's process, and remains as a trace file.
#include "actors/capture/crash_dumper.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "actors/capture/fast_clock.hpp"
#include "trace/batch.hpp"
#include "trace/trace_file.hpp"

namespace troupe::trace {

namespace {

constexpr char orderly = 'o';

/// What was under somebody's hands, as a record that ended badly now.
trace_record ended_badly(trace_record r, int64_t now_ns) {
  r.flags |= record_flag::failed;
  r.handling_s =
      static_cast<float>(static_cast<double>(std::max<int64_t>(0, now_ns - r.begin_ns)) * 1e-9);
  return r;
}

batch_content content_of(const flight_remains& remains, int64_t now_ns) {
  batch_content out;
  out.records = remains.records;
  for (const auto& r : remains.unfinished) out.records.push_back(ended_badly(r, now_ns));
  // A writer that died within a record has left half of one.
  std::erase_if(out.records, [](const trace_record& r) { return !is_sound(r); });
  out.works = remains.works;
  for (const auto& known : remains.actors) {
    out.actors.push_back(std::make_unique<fbs::TracedActorT>());
    auto& a = *out.actors.back();
    a.number = known.number;
    a.path = known.path;
    a.kind = known.kind;
    a.parent = known.parent;
  }
  return out;
}

/// What `ps` shows of us: not the words of our parent, for which we would be taken.
void rename_process(const std::string& title) {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(in), {}};
  char* at = program_invocation_name;  // argv[0]; the others lie behind it
  if (words.empty() || std::strcmp(at, words.c_str()) != 0) return;
  std::memset(at, 0, words.size());
  std::memcpy(at, title.data(), std::min(title.size(), words.size() - 1));
}

/// The child: never returns.
[[noreturn]] void keep(int goodbye, pid_t parent) {
  dup2(goodbye, 3);  // first: where standard descriptors were closed it has the number of one
  setsid();          // KEP-3
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) signal(s, SIG_IGN);
  prctl(PR_SET_NAME, "troupe-dumper");
  rename_process(fmt::format("crash-dumper {}", parent));
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) dup2(nothing, fd);
  close_range(4, ~0u, 0);  // whoever waits for the end of the parent's files is not kept waiting
  char word = 0;
  ssize_t n = 0;
  do n = read(3, &word, 1);
  while (n < 0 && errno == EINTR);
  if (n == 1 && word == orderly) _exit(0);
  const auto remains = read_flight_memory();
  if (remains.folder.empty()) _exit(0);
  _exit(write_last_box(remains, parent, fast_now_ns()) ? 0 : 1);
}

}  // namespace

std::filesystem::path last_box_path(const std::filesystem::path& folder, const std::string& node,
                                    pid_t pid) {
  return folder / fmt::format("blackbox-{}-{}-end.trace", node, pid);
}

result<std::filesystem::path> write_last_box(const flight_remains& remains, pid_t pid,
                                             int64_t now_ns) {
  batch_head head;
  head.process = remains.process;
  head.node = remains.node;
  head.host = remains.host;
  head.pid = static_cast<uint32_t>(pid);
  head.offset_ns = remains.clock.offset_ns;
  head.bound_ns = remains.node == "head" ? 0 : remains.clock.bound_ns;
  head.unix_ns = unix_minus_steady_ns();
  head.lost = remains.lost;
  const auto path = last_box_path(remains.folder, remains.node, pid);
  auto partial = path;
  partial += ".partial";
  TROUPE_TRY(file, trace_writer::create(partial));
  const auto written = [&]() -> status {
    for (const auto& b : make_batches(head, content_of(remains, now_ns)))
      TROUPE_CHECK(file.append(make_msg<fbs::TraceBatch>({}, b)));
    return file.finish();
  }();
  if (!written) {  // a full disk: half a box is none
    file.discard();
    return written.error();
  }
  std::error_code failed;
  std::filesystem::rename(partial, path, failed);  // KEP-2
  if (failed) return error::system(fmt::format("name {}", path.string()), failed.value());
  return path;
}

result<crash_dumper> crash_dumper::start() {
  TROUPE_CHECK(reserve_flight_memory());
  int ends[2];
  // Sockets, so that a goodbye to a crash dumper that was killed is an error and no SIGPIPE.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return error::system("make a pair of sockets for the crash dumper", errno);
  io::unique_fd reading(ends[0]), writing(ends[1]);
  const auto parent = getpid();
  const auto child = fork();
  if (child < 0) return error::system("make the crash dumper of the black box", errno);
  if (child == 0) {
    writing.reset();
    keep(reading.get(), parent);
  }
  return crash_dumper(std::move(writing), child);
}

crash_dumper::crash_dumper(crash_dumper&& other) noexcept
    : goodbye_(std::move(other.goodbye_)), child_(std::exchange(other.child_, -1)) {}

crash_dumper::~crash_dumper() {
  if (child_ < 0) return;
  while (send(goodbye_.get(), &orderly, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace troupe::trace

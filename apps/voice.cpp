// Writing to stdout and stderr; the one file of apps/ that does.
#include "apps/voice.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "apps/log_format.hpp"
#include "apps/talk.hpp"
#include "io/base/printable.hpp"

namespace troupe::apps {

namespace {

constexpr size_t most_waiting_bytes = size_t{1} << 20;

/// Writes all of it; errno of the write that failed, or 0. `written`: bytes that left.
int write_text(int fd, std::string_view text, size_t& written) {
  written = 0;
  while (written < text.size()) {
    const auto n = ::write(fd, text.data() + written, text.size() - written);
    if (n > 0) {
      written += static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {  // another made it so
      pollfd room{fd, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (n == 0 || errno != EINTR) {
      return n == 0 ? EIO : errno;
    }
  }
  return 0;
}

/// Whether a write to it would not wait for a reader.
bool takes_more(int fd) {
  pollfd room{fd, POLLOUT, 0};
  return poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0;
}

uint64_t lines_of(std::string_view text) {
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')));
}

/// Keeps SIGPIPE and all others from threads that begin in its scope, from their first instruction
/// on (VO-3).
class no_signals {
 public:
  no_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~no_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  no_signals(const no_signals&) = delete;
  no_signals& operator=(const no_signals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct outbox::shared {
  struct item {
    std::string text;
    uint64_t lines;
  };

  int fd = -1;
  size_t most_bytes = 0;
  loss_handler tell;

  mutable std::mutex mutex;
  std::condition_variable news;           // for the thread
  mutable std::condition_variable quiet;  // for settle()
  std::deque<item> waiting;
  size_t waiting_bytes = 0;
  bool writing = false;
  bool closed = false;
  loss lost;

  void lose(uint64_t lines, const char* why) {
    lost.lines += lines;
    lost.why = why;
  }

  /// The thread: until the outbox is gone and nothing waits.
  void work() {
    bool torn = false;
    std::unique_lock lock(mutex);
    for (;;) {
      news.wait(lock, [this] { return closed || !waiting.empty(); });
      if (closed) return;
      auto next = std::move(waiting.front());
      waiting.pop_front();
      waiting_bytes -= next.text.size();
      writing = true;
      lock.unlock();
      if (torn) next.text.insert(0, "\n");  // VO-2
      size_t written = 0;
      const int failed = write_text(fd, next.text, written);
      if (written > 0) torn = failed != 0 && next.text[written - 1] != '\n';
      lock.lock();
      if (failed != 0) lose(next.lines, std::strerror(failed));
      const auto before = failed == 0 ? std::exchange(lost, {}) : loss{};
      if (before.lines > 0 && tell) {
        lock.unlock();
        tell(before);
        lock.lock();
      }
      writing = false;
      if (waiting.empty()) quiet.notify_all();
    }
  }
};

outbox::outbox(int fd, size_t most_bytes, loss_handler tell) : shared_(std::make_shared<shared>()) {
  shared_->fd = fd;
  shared_->most_bytes = most_bytes;
  shared_->tell = std::move(tell);
  const no_signals for_the_thread;
  std::thread([mine = shared_] { mine->work(); }).detach();
}

outbox::~outbox() {
  std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  shared_->news.notify_all();
}

void outbox::put(std::string text, uint64_t stands_for) noexcept {
  auto& s = *shared_;
  const auto lines = stands_for > 0 ? stands_for : lines_of(text);
  std::lock_guard lock(s.mutex);
  if (s.waiting_bytes + text.size() > s.most_bytes) return s.lose(lines, "nobody reads it");
  try {
    s.waiting.push_back({std::move(text), lines});
  } catch (const std::bad_alloc&) {
    return s.lose(lines, "no memory");
  }
  s.waiting_bytes += s.waiting.back().text.size();
  s.news.notify_one();
}

bool outbox::settle(std::chrono::milliseconds patience) const {
  for (int turn = 0; turn < settle_turns; ++turn) {
    {
      std::unique_lock lock(shared_->mutex);
      const auto is_quiet = [this] { return shared_->waiting.empty() && !shared_->writing; };
      if (shared_->quiet.wait_for(lock, patience, is_quiet)) return true;
    }
    if (!takes_more(shared_->fd)) return false;
  }
  return false;
}

outbox::loss outbox::lost() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->lost;
}

// -- the process's own ---------------------------------------------------------------------------

namespace {

/// One terminal, pipe or file behind both: what is said in between stays in between.
bool same_stream() {
  struct stat out {}, err {};
  return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
         out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

struct voice {
  outbox err;
  std::unique_ptr<outbox> out;  ///< none: the same stream

  static std::string notice(const char* stream, const outbox::loss& lost) {
    return fmt::format("warning: {} line{} of {} could not be written: {}\n", lost.lines,
                       lost.lines == 1 ? "" : "s", stream, lost.why);
  }
  voice()
      : err(STDERR_FILENO, most_waiting_bytes,
            [this](const outbox::loss& l) { err.put(notice("stderr", l), l.lines); }) {
    if (same_stream()) return;
    out = std::make_unique<outbox>(
        STDOUT_FILENO, most_waiting_bytes,
        [this](const outbox::loss& l) { err.put(notice("stdout", l), l.lines); });
  }
};

/// Made once and never destroyed: its threads may be in a write when the process ends.
std::atomic<voice*> own_voice{nullptr};

void deliver(int fd, std::string text) {
  if (auto* through = own_voice.load()) {
    (fd == STDOUT_FILENO && through->out ? *through->out : through->err).put(std::move(text));
    return;
  }
  size_t written = 0;
  write_text(fd, text, written);  // stderr: there is nobody to tell
}

/// Where spdlog's lines go: the log is talk, not data (SH-1).
class voice_sink : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    deliver(STDERR_FILENO, std::string(line.data(), line.size()));
  }
  void flush_() override {}
};

}  // namespace

void speak_through_outboxes() {
  if (own_voice.load() != nullptr) return;
  own_voice = new voice();
  const auto level = spdlog::get_level();
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<voice_sink>());
  logger->set_formatter(log_format());  // SH-5
  spdlog::set_default_logger(std::move(logger));
  spdlog::set_level(level);
}

void settle_voice(std::chrono::milliseconds patience) {
  auto* through = own_voice.load();
  if (through == nullptr) return;
  if (through->out) {
    through->out->settle(patience);
    if (const auto lost = through->out->lost(); lost.lines > 0)
      through->err.put(voice::notice("stdout", lost), lost.lines);
  }
  through->err.settle(patience);
}

status print(std::string_view text) {
  return print_unchanged(printable_lines(text));  // SH-5
}

status print_unchanged(std::string_view text) {
  if (own_voice.load() != nullptr) {
    deliver(STDOUT_FILENO, std::string(text));
    return {};
  }
  size_t written = 0;
  const int failed = write_text(STDOUT_FILENO, text, written);
  if (failed != 0) return error::system("write to stdout", failed);
  return {};
}

void say_as_is(std::string_view text) {
  deliver(STDERR_FILENO, std::string(text));
}

void say(std::string_view text) {
  deliver(STDERR_FILENO, fmt::format("{}\n", printable_lines(text)));
}

void say(const error& e) {
  const bool colour = wants_colour(STDERR_FILENO);
  auto paint = [&](const char* code, const char* word) {
    return colour ? fmt::format("\x1b[{}m{}:\x1b[0m", code, word) : fmt::format("{}:", word);
  };
  std::string text;
  for (std::string_view rest = e.message; !rest.empty();) {  // a configuration may have many faults
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (constexpr std::string_view hint = "hint: "; line.starts_with(hint))  // to the line before
      text += fmt::format("{} {}\n", paint("1", "hint"), printable(line.substr(hint.size())));
    else
      text += fmt::format("{} {}\n", paint("1;31", "error"), printable(line));
  }
  if (!e.hint.empty()) text += fmt::format("{} {}\n", paint("1", "hint"), printable(e.hint));
  deliver(STDERR_FILENO, std::move(text));
}

}  // namespace troupe::apps

// Processes that share a counter of seeds.
#include "actors/sim/fuzz.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::sim {

namespace {

/// What a process has done.
struct fuzz_place {
  std::atomic<uint64_t> at{0};  ///< the seed that it is at, or was last
  uint64_t faults = 0, events = 0, takeovers = 0;
  folder_counts folders;
  swap_counts swaps;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::is_trivially_copyable_v<folder_counts>);
static_assert(std::is_trivially_copyable_v<swap_counts>);

/// What all processes see. Seeds are counted from the first one.
struct fuzz_table {
  std::atomic<uint64_t> next{0};  ///< that nobody has taken
  std::atomic<uint64_t> failed;   ///< the first known to fail; as many as there are: none
  std::atomic<bool> stops{false};
  std::span<fuzz_place> places;  ///< behind it, by process
};

using registry_memory = std::unique_ptr<fuzz_table, std::function<void(fuzz_table*)>>;

result<registry_memory> make_table(uint64_t seeds, size_t jobs) {
  static_assert(sizeof(fuzz_table) % alignof(fuzz_place) == 0);
  const size_t bytes = sizeof(fuzz_table) + jobs * sizeof(fuzz_place);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return error::system("share memory among processes", errno);
  auto* made = new (memory) fuzz_table;
  made->failed = seeds;
  made->places = {reinterpret_cast<fuzz_place*>(made + 1), jobs};
  for (auto& place : made->places) new (&place) fuzz_place;
  return registry_memory(made, [bytes](fuzz_table* b) { ::munmap(b, bytes); });
}

void note_failure(fuzz_table& b, uint64_t at) {
  auto known = b.failed.load();
  while (at < known && !b.failed.compare_exchange_weak(known, at)) continue;
}

result<simulation_outcome> run_fuzzed(const fuzz_options& o, uint64_t seed) {
  if (o.run) return o.run(seed);
  return simulate(options_of(o, seed));
}

/// Takes seeds until there are no more, or one before the next has failed; what failed here.
std::optional<fuzz_failure> take_seeds(const fuzz_options& o, fuzz_table& b, size_t number) {
  auto& mine = b.places[number];
  while (!b.stops) {
    const uint64_t i = b.next++;
    if (i >= b.failed) break;  // no more than there are
    mine.at = i;
    const uint64_t seed = o.first + i;
    const auto done = run_fuzzed(o, seed);
    if (!done || done->violation) {
      note_failure(b, i);
      return done ? fuzz_failure{seed, {errc::bug, *done->violation}, done->faults}
                  : fuzz_failure{seed, done.error(), {}};
    }
    mine.faults += done->faults.size();
    mine.events += done->counts.events;
    mine.folders += done->folders;
    mine.takeovers += done->takeovers;
    mine.swaps += done->swaps;
  }
  return std::nullopt;
}

// -- a failure as text, from one process to another -----------------------------------------------

std::string to_text(const fuzz_failure& f) {
  auto out = fmt::format("{}{}{}", f.seed, '\0', static_cast<int>(f.what.code));
  for (const auto* s : {&f.what.message, &f.what.hint, &f.what.kind}) out += '\0' + *s;
  for (const auto& s : f.faults) out += '\0' + s;
  return out;
}

fuzz_failure from_text(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size(); at += parts.back().size() + 1)
    parts.emplace_back(text.c_str() + at);
  parts.resize(std::max<size_t>(parts.size(), 5));
  fuzz_failure out;
  out.seed = std::stoull(parts[0]);
  out.what = {static_cast<errc>(std::stoi(parts[1])), parts[2], parts[3], parts[4]};
  out.faults.assign(parts.begin() + 5, parts.end());
  return out;
}

// -- processes ------------------------------------------------------------------------------------

/// Signals wait to be taken by next(), while there is one of these.
class held_signals {
 public:
  held_signals() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGCHLD);
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction now {};  // a blocked signal is not ignored, whatever was asked for (`nohup`)
      if (::sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&held_, s);
    }
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;  // else nobody is told how a process ended
    ::sigaction(SIGCHLD, &plain, &child_before_);
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~held_signals() {
    ::sigaction(SIGCHLD, &child_before_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  held_signals(const held_signals&) = delete;
  held_signals& operator=(const held_signals&) = delete;

  int next() const {
    int signal = 0;
    return ::sigwait(&held_, &signal) == 0 ? signal : 0;
  }

 private:
  sigset_t held_{}, before_{};
  struct sigaction child_before_ {};
};

/// A process that takes seeds.
struct fuzz_worker {
  pid_t pid = 0;
  io::unique_fd failure;  ///< where it writes what failed
  bool over = false;
};

/// A parent that is a test has handlers that call a crash its own.
void forget_handlers() {
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(s, SIG_DFL);
}

[[noreturn]] void be_worker(const fuzz_options& o, fuzz_table& b, size_t number, int failure,
                            pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // FUZ-3
  if (::getppid() != parent) ::_exit(1);
  forget_handlers();
  if (const auto failed = take_seeds(o, b, number)) {
    const auto text = to_text(*failed);
    if (::pwrite(failure, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      ::_exit(1);
  }
  ::_exit(0);  // what the parent would do at its end is not ours to do
}

result<fuzz_worker> start_worker(const fuzz_options& o, fuzz_table& b, size_t number) {
  fuzz_worker out;
  out.failure = io::unique_fd(::memfd_create("troupe-fuzz", MFD_CLOEXEC));
  if (!out.failure) return error::system("make a file in memory", errno);
  const pid_t parent = ::getpid();
  out.pid = ::fork();
  if (out.pid < 0) return error::system("fork", errno);
  if (out.pid == 0) be_worker(o, b, number, out.failure.get(), parent);
  return out;
}

error why_ended(int status) {
  if (WIFSIGNALED(status)) return process_killed(WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return process_ended(WEXITSTATUS(status));
}

class fuzz_workers {
 public:
  fuzz_workers(const fuzz_options& o, fuzz_table& b) : options_(o), board_(b) {}
  ~fuzz_workers() {
    for (auto& w : all_)
      if (!w.over) {
        ::kill(w.pid, SIGKILL);
        ::waitpid(w.pid, nullptr, 0);
      }
  }
  fuzz_workers(const fuzz_workers&) = delete;
  fuzz_workers& operator=(const fuzz_workers&) = delete;

  status start(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      TROUPE_TRY(worker, start_worker(options_, board_, i));
      all_.push_back(std::move(worker));
    }
    return {};
  }

  /// The signal that ended it, or 0.
  int wait(const held_signals& signals) {
    int ended_by = 0;
    while (!all_over()) {
      const int signal = signals.next();
      if (signal == SIGCHLD || signal == 0) continue;
      if (ended_by != 0)
        for (const auto& w : all_)
          if (!w.over) ::kill(w.pid, SIGKILL);
      ended_by = signal;
      board_.stops = true;
    }
    return ended_by;
  }

  std::optional<fuzz_failure> take_failure() { return std::move(failure_); }

 private:
  bool all_over() {
    for (size_t i = 0; i < all_.size(); ++i) {
      auto& w = all_[i];
      int status = 0;
      if (w.over || ::waitpid(w.pid, &status, WNOHANG) != w.pid) continue;
      w.over = true;
      heard(i, status);
    }
    return std::all_of(all_.begin(), all_.end(), [](const auto& w) { return w.over; });
  }

  void heard(size_t number, int status) {
    const uint64_t at = board_.places[number].at;
    if (status != 0) {  // FUZ-2
      note_failure(board_, at);
      return keep({options_.first + at, why_ended(status), {}});
    }
    const auto file = fmt::format("/proc/self/fd/{}", all_[number].failure.get());
    const auto text = io::read_file(file, std::numeric_limits<size_t>::max());
    if (!text) return keep({options_.first + at, text.error(), {}});
    if (!text->empty()) keep(from_text(*text));
  }

  void keep(fuzz_failure f) {
    if (!failure_ || f.seed < failure_->seed) failure_ = std::move(f);  // FUZ-1
  }

  const fuzz_options& options_;
  fuzz_table& board_;
  std::vector<fuzz_worker> all_;
  std::optional<fuzz_failure> failure_;
};

/// That this process may use.
unsigned cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

size_t jobs_of(const fuzz_options& o) {
  const auto wanted = o.jobs != 0 ? o.jobs : cores();
  return static_cast<size_t>(std::clamp<uint64_t>(o.seeds, 1, wanted));
}

}  // namespace

namespace {

constexpr uint64_t seeds_a_turn = 20, watched_at = 3, budget_at = 7, slack_at = 13, parent_at = 17;

/// Of a plain cluster that may be one with a budget, one whose job takes slack, or one that is
/// watched for slowness.
simulation_options fuzzed_any(uint64_t seed, const std::vector<fault_kind>& kinds) {
  const auto turn = kinds == all_faults() ? seed % seeds_a_turn : 0;
  if (turn == watched_at) return fuzzed_watched(seed, kinds);
  if (turn == budget_at) return fuzzed_budget(seed, all_power_faults());
  if (turn == slack_at) return fuzzed_slack(seed, all_slack_faults());
  if (turn == parent_at) return fuzzed_parent(seed, all_parent_faults());
  return fuzzed(seed, kinds);
}

}  // namespace

simulation_options options_of(const fuzz_options& options, uint64_t seed) {
  auto out = options.heads > 1 ? fuzzed_heads(seed, options.kinds, options.heads)
             : options.swap    ? fuzzed_swap(seed, options.kinds)
             : options.parent  ? fuzzed_parent(seed, options.kinds)
             : options.budget  ? fuzzed_budget(seed, options.kinds)
             : options.slack   ? fuzzed_slack(seed, options.kinds)
                               : fuzzed_any(seed, options.kinds);
  out.log = options.log;
  return out;
}

std::string replay_command(const fuzz_options& options, uint64_t seed) {
  const auto heads = options.heads > 1 ? fmt::format(" --heads {}", options.heads) : "";
  return fmt::format("troupe sim --fuzz 1 --seed {}{}{}{} --log", seed, heads,
                     options.swap ? " --swap" : "",
                     options.parent   ? " --power-parent-w 1"
                     : options.budget ? " --budget-w 1"
                     : options.slack  ? " --slack profile"
                                      : "");
}

result<fuzz_outcome> fuzz(const fuzz_options& options) {
  const auto jobs = jobs_of(options);
  TROUPE_TRY(table, make_table(options.seeds, jobs));
  fuzz_outcome out;
  if (jobs == 1) {
    out.failure = take_seeds(options, *table, 0);
  } else {
    const held_signals signals;
    fuzz_workers workers(options, *table);
    TROUPE_CHECK(workers.start(jobs));
    out.signal = workers.wait(signals);
    out.failure = workers.take_failure();
  }
  for (const auto& p : table->places) {
    out.faults += p.faults;
    out.events += p.events;
    out.folders += p.folders;
    out.takeovers += p.takeovers;
    out.swaps += p.swaps;
  }
  return out;
}

}  // namespace troupe::sim

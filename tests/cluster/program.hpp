// One run of the built program as a child of the test: its output, its signals, its end; and what
// is left of a cluster on this machine (processes, ports).
//
// Nothing here sleeps: waits end with a line on a pipe, the end of a process or a deadline.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/file.hpp"

namespace troupe::cluster_test {

/// How many times longer things may take here than in a release build (CMake: sanitized builds).
constexpr int slowness = TROUPE_TEST_SLOWNESS;

/// Longest any wait may take: a net against hangs. A healthy one takes a second or two, and a
/// minute on a machine whose load is ten times its processors.
constexpr auto patience = slowness * std::chrono::minutes(5);

/// Where a program writes, instead of pipes that the test reads. -1: to such a pipe.
struct streams {
  int out = -1, err = -1;
  std::string terminal = {};  ///< path of one that becomes its own, and all three streams
};

class program {
 public:
  /// Starts `troupe` with these arguments; requires that it starts. `file_limit`: bytes beyond
  /// which writes to a file fail (of its children as well); `descriptors`: how many files each
  /// process may open; 0: none, and as many as the test. `before`: what a shell does before it
  /// becomes the program, in place of those two.
  explicit program(const std::vector<std::string>& arguments, size_t file_limit = 0,
                   const streams& to = {}, int descriptors = 0, const std::string& before = {});
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  ~program();  ///< kills and reaps what still runs

  pid_t pid() const { return pid_; }
  /// To the launcher, as a person or a scheduler sends it. What stops and continues goes to the
  /// head as well, as from a terminal. Once it has killed, the head is gone, too.
  void signal(int number) const;

  /// The exit code, or 128 + the signal that ended it; fails the test after `patience`.
  int wait();

  /// Reads until `there` holds; false when the program ended or the deadline passed before.
  /// `there` is asked again when `other`, a further descriptor, can be read; -1: none.
  bool until(const std::function<bool()>& there, int other = -1);
  bool until_error_has(const std::string& text);
  /// Until step `n` or a later one is reported on stdout: of what nobody reads for long, lines are
  /// left out.
  bool until_step(int64_t n);

  /// Reads what it has said by now.
  void listen();
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  /// Every JSON object on stdout of this type ("step", "summary").
  std::vector<nlohmann::json> objects(const std::string& type) const;
  /// Losses by step, as printed (shortest digits that give the same double).
  std::vector<double> losses() const;
  /// The port that the coordinator said last that it listens on; 0 before.
  uint16_t port() const;

 private:
  /// Reads what is there; waits for more until `deadline`. False when the program has ended.
  bool pump(std::chrono::steady_clock::time_point deadline, int other = -1);
  void read_some(io::unique_fd& from, std::string& into);
  /// Fails the test with what sanitizers said of the program or of its nodes.
  void check_reports();

  pid_t pid_ = -1;
  std::string reports_;  // where sanitizers write: this, a dot and the process's number
  io::unique_fd end_;    // pidfd
  io::unique_fd out_pipe_, err_pipe_;
  std::string out_, err_;
  std::optional<int> code_;
};

/// Runs to the end; the exit code.
struct finished {
  int code;
  std::string out, err;
};
finished run(const std::vector<std::string>& arguments);

/// Processes whose command line has `--join 127.0.0.1:port`.
std::vector<pid_t> nodes_of(uint16_t port);
/// Whether a process has opened the descriptor by which it hears signals.
bool hears_signals(pid_t pid);
/// The head that a launcher started, or -1.
pid_t head_of(pid_t launcher);
/// Nodes that a head of this machine started.
std::vector<pid_t> nodes_started_by(pid_t head);
/// The process that keeps another's black box, or -1.
pid_t crash_dumper_of(pid_t pid);
/// The pid among them with `--name name`, or -1.
pid_t node_named(uint16_t port, const std::string& name);
/// A TCP socket on which somebody listens, by the kernel's number for it: a port may be another's
/// a moment later.
struct listening_socket {
  uint16_t port = 0;
  std::string inode = {};
  bool operator==(const listening_socket&) const = default;
};
std::vector<listening_socket> listening_sockets(pid_t pid);
/// Ports of TCP sockets on which a process listens.
std::vector<uint16_t> listening_ports(pid_t pid);
/// Whether any process of this machine listens there.
bool is_listening(uint16_t port);

/// Whether it comes to hold within `patience`: for what the kernel tells nobody of.
bool eventually(const std::function<bool()>& there);

/// A process that is waited for through its pidfd, so that a reused number cannot fool the test.
class watched {
 public:
  explicit watched(pid_t pid);
  pid_t pid() const { return pid_; }
  /// Whether it ended within `patience`.
  bool gone() const;
  /// Nothing where it has ended: its number may be another's by then.
  void signal(int number) const;

 private:
  pid_t pid_;
  io::unique_fd fd_;
};

/// Everything of a running cluster that must not outlive it; taken while it trains.
struct traces {
  std::vector<watched> processes;
  std::vector<watched> dumpers;  ///< of the processes' black boxes
  std::vector<listening_socket> ports;
  std::string lines;  ///< the processes' command lines, for whoever finds more than there should be
  /// Takes the launcher's, its head's and its nodes'.
  explicit traces(const program& up);
  /// Whether all processes ended within `patience`, and then none of their sockets is listened on.
  bool gone() const;
};

}  // namespace troupe::cluster_test

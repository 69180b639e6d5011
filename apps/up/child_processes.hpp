// The processes of nodes as the launcher keeps them: it starts what a head orders, and says how it
// ended. They are the launcher's children, so that they outlive a head.
//
// Invariants
//   PRC-1  No child outlives the launcher: a child of this machine dies with its parent (the kernel
//     kills it, however the launcher goes), and the destructor kills and reaps what is left.
//   PRC-2  Children are in process groups of their own: Ctrl-C reaches the launcher only, which
//     decides.
//   PRC-3  A child gets its key through a pipe at its standard input: what others of the machine
//     see of it, arguments and environment, says nothing.
//   PRC-4  A node of this machine has one process at a time: the one before is killed and reaped
//     first. Of a node that ssh starts, what is killed is ssh: the process there ends once its
//     standard input does, which this process holds open, or, where it cannot (it is stopped, or
//     its host does not see that ssh is gone), once it can.
//   PRC-5  The end of a process that was killed for another one, or because a head said so, is no
//     news.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/up/launcher_line.hpp"
#include "apps/up/oom_count.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::apps {

inline constexpr error_kind<std::string_view> process_stays{
    "process_stays", errc::timeout, "the process of node {} was killed and does not end",
    "it may wait for a device or a network folder: look at its state with `ps`"};

class child_processes {
 public:
  using clock = std::chrono::steady_clock;

  child_processes() = default;
  child_processes(const child_processes&) = delete;
  child_processes& operator=(const child_processes&) = delete;
  ~child_processes();  // PRC-1

  /// Does what a head's packet orders (start, stop); whether it was one. On the main thread: the
  /// kernel ties children to the thread.
  bool take(const packet& words);
  /// What has happened since: children that ended, and starts that failed. Starts those whose
  /// places are free by now. Never blocks.
  std::vector<packet> look();
  /// Whether look() has to be called again soon: a process that was killed is waited for.
  bool waits() const { return !orders_.empty(); }
  /// For a head that goes on: all nodes that had a process.
  std::vector<packet> known() const;

 private:
  struct order {
    std::string node, log;
    bool new_log = true;
    std::string input;
    bool tied = false;
    std::vector<std::string> command;
    clock::time_point since{};
  };
  struct child {
    std::string node;
    pid_t pid = -1;
    bool told = false;       ///< PRC-5
    io::unique_fd tie = {};  ///< the other end of its standard input; none on this machine
  };
  void end_process_of(const std::string& node);
  bool has_process(const std::string& node) const;
  void start_what_can(std::vector<packet>& news);
  status spawn(const order& what);

  std::vector<order> orders_;  ///< that wait for the end of the process before
  std::vector<child> children_;
  std::map<std::string, int> processes_;  ///< that were started, by node
  oom_count oom_;
};

}  // namespace troupe::apps

// The processes of a cluster's nodes, as far as this machine starts them.
//
// Invariants
//   PRC-1  No child outlives the launcher: a child dies with its parent (the kernel kills it,
//     however the launcher goes), and the destructor kills and reaps what is left.
//   PRC-2  Children are in process groups of their own: Ctrl-C reaches the launcher only, which
//     decides.
//   PRC-3  A child gets its key through a pipe at its standard input: what others of the machine
//     see of it, arguments and environment, says nothing.
//   PRC-4  A node of this machine has one process at a time: the one before is killed and reaped
//     first. Of a node that ssh starts, what is killed is ssh: the process there ends once its
//     standard input does, which this process holds open, or, where it cannot (it is stopped, or
//     its host does not see that ssh is gone), once it can.
#pragma once

#include <sys/types.h>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/up/oom_count.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"
#include "io/file.hpp"

namespace troupe::apps {

/// How one child ended.
struct ended_child {
  std::string node;
  std::string how;  ///< "exited with 70", "was killed by signal 9 (Killed)"
  bool failed = false;
  int code = -1;          ///< its exit code; -1: a signal ended it
  pid_t pid = 0;          ///< as the node itself calls it; 0: it ran on another machine
  std::string
      black_box;  ///< what its crash dumper writes; empty unless it was killed on this machine
};

inline constexpr error_kind<std::string_view> not_started_here{
    "not_started_here", errc::not_found, "no node {} was started here"};
inline constexpr error_kind<std::string_view> process_stays{
    "process_stays", errc::timeout, "the process of node {} was killed and does not end",
    "it may wait for a device or a network folder: look at its state with `ps`"};

class node_processes {
 public:
  node_processes() = default;
  node_processes(const node_processes&) = delete;
  node_processes& operator=(const node_processes&) = delete;
  ~node_processes();  // PRC-1

  /// Starts every node of a local or ssh cluster; they join `address`:`port`. Their output goes to
  /// {output}/<name>.log. Called on the main thread (PRC-1: the kernel ties children to the
  /// thread).
  /// `key`: what proves to the coordinator that they are its nodes, text; empty: certificates do.
  /// `record`: the actors they record (a pattern), empty: none.
  status start(const config::job& job, const std::string& address, uint16_t port,
               const std::string& key, const std::string& record = {});

  /// Starts the process of one of them again, as start() did; its log goes on. On the main thread.
  /// Errors: as above, and those of start().
  status restart(const std::string& node);

  /// Reaps children that have ended. Never blocks.
  std::vector<ended_child> reap();

  size_t running() const { return children_.size(); }
  void signal_all(int signal) const;

 private:
  struct child {
    std::string node;
    pid_t pid;
    bool replaced = false;  ///< killed for another one: its end is no news
    io::unique_fd tie = {};  ///< the other end of its standard input; none on this machine
  };
  status spawn(const std::string& node, int log_flags);
  /// How a node is started, by name.
  struct recipe {
    std::function<std::vector<std::string>(int process)> command;
    std::string log;
    int processes = 0;  ///< that were started
  };
  std::map<std::string, recipe> recipes_;
  std::string key_;
  std::vector<child> children_;
  oom_count oom_;
  bool is_local_ = false;
  std::string black_boxes_;  ///< where those of this machine's nodes appear; empty: elsewhere
};

/// What a person types where a scheduler starts the nodes.
std::string join_command(const config::cluster_section& cluster, const std::string& address,
                         uint16_t port);

}  // namespace troupe::apps

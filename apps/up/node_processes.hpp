// The processes of a cluster's nodes, as far as this machine starts them.
//
// Invariants
//   PRC-1  No child outlives the launcher: a child dies with its parent (the kernel kills it,
//     however the launcher goes), and the destructor kills and reaps what is left.
//   PRC-2  Children are in process groups of their own: Ctrl-C reaches the launcher only, which
//     decides.
//   PRC-3  A child gets its key through a pipe at its standard input: what others of the machine
//     see of it, arguments and environment, says nothing.
#pragma once

#include <sys/types.h>
#include <string>
#include <vector>

#include "apps/up/oom_count.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// How one child ended.
struct ended_child {
  std::string node;
  std::string how;  ///< "exited with 70", "was killed by signal 9 (Killed)"
  bool failed = false;
  int code = -1;          ///< its exit code; -1: a signal ended it
  std::string
      black_box;  ///< what its crash dumper writes; empty unless it was killed on this machine
};

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

  /// Reaps children that have ended. Never blocks.
  std::vector<ended_child> reap();

  size_t running() const { return children_.size(); }
  void signal_all(int signal) const;

 private:
  struct child {
    std::string node;
    pid_t pid;
  };
  status spawn(const std::string& node, const std::vector<std::string>& command,
               const std::string& key, const std::string& log);
  std::vector<child> children_;
  oom_count oom_;
  std::string black_boxes_;  ///< where those of this machine's nodes appear; empty: elsewhere
};

/// What a person types where a scheduler starts the nodes.
std::string join_command(const config::cluster_section& cluster, const std::string& address,
                         uint16_t port);

}  // namespace troupe::apps

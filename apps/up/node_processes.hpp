// The processes of a cluster's nodes as the head sees them: it says how each is started, and hears
// how it ended. The launcher has them (child_processes.hpp), so that they outlive the head.
//
// Invariants
//   NPR-1  A head that goes on for a lost one leaves the processes alone that are there, unless it
//     is told to begin anew with them.
//   NPR-2  What this head started, or took over, is ended by the launcher when this object goes.
//   NPR-3  Of a process that ended with an error the last words of its log are told, of this one
//     alone: nobody looks there first.
//   NPR-4  Nodes work in the folder where the launcher does, behind ssh too: a relative path means
//     the same to all of them. One that is not there on a host keeps its node from starting.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apps/up/launcher_line.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::apps {

/// How one child ended, or why it was not started.
struct ended_child {
  std::string node;
  std::string how;  ///< "exited with 70", "was killed by signal 9 (Killed)"
  bool failed = false;
  int code = -1;          ///< its exit code; -1: a signal ended it, or it was not started
  pid_t pid = 0;          ///< as the node itself calls it; 0: it ran on another machine, or never
  std::string
      black_box;  ///< what its crash dumper writes; empty unless it was killed on this machine
};

inline constexpr error_kind<std::string_view> not_started_here{
    "not_started_here", errc::not_found, "no node {} was started here"};

/// What processes of nodes are started with.
struct node_start {
  std::string address;  ///< where they join
  uint16_t port = 0;
  std::string key;     ///< what proves that they are nodes, text; empty: certificates do
  std::string record;  ///< the actors they record (a pattern), empty: none
  pid_t launcher = 0;  ///< their parent
  std::string folder;  ///< NPR-4: an absolute path
  std::set<std::string> evicted = {};  ///< they are not started
  bool keeps_running = false;          ///< NPR-1
  bool outlived = false;  ///< nodes that others started may have outlived the head before this one
};

class node_processes {
 public:
  explicit node_processes(std::shared_ptr<launcher_line> line) : line_(std::move(line)) {}
  node_processes(const node_processes&) = delete;
  node_processes& operator=(const node_processes&) = delete;
  ~node_processes();  // NPR-2

  /// Has every node of a local or ssh cluster started. Their output goes to {output}/<name>.log.
  /// Errors: those of the line; that one cannot be started is told later (heard()).
  status start(const config::job& job, const node_start& how);

  /// Has the process of one of them started again, as start() did; its log goes on. Errors: as
  /// above, and not_started_here.
  status restart(const std::string& node);

  /// What became of them since. Never blocks.
  std::vector<ended_child> heard();

  size_t running() const { return running_.size(); }

 private:
  status order(const std::string& node, bool new_log);
  std::string as_its_log_says(const std::string& node) const;
  void take_over();
  /// How a node is started, by name.
  struct recipe {
    std::function<std::vector<std::string>(int process)> command;
    std::string log;
    int processes = 0;       ///< that were started
    uint64_t log_bytes = 0;  ///< what the log held when the last one was ordered
  };
  std::shared_ptr<launcher_line> line_;
  std::map<std::string, recipe> recipes_;
  std::map<std::string, int> before_;  ///< processes of earlier heads, by node
  std::set<std::string> running_;
  std::string key_;
  bool is_local_ = false;
  std::string black_boxes_;  ///< where those of this machine's nodes appear; empty: elsewhere
};

/// What is said where others start the nodes: how many are waited for, and how one is started.
std::string waits_for_nodes(const config::job& job, const node_start& how);

/// What a person types where a scheduler starts the nodes.
std::string join_command(const config::cluster_section& cluster, const std::string& address,
                         uint16_t port);

}  // namespace troupe::apps

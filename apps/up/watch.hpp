// The main thread's part while a cluster runs: signals, the ends of children, the end of the run.
#pragma once

#include <atomic>
#include <memory>

#include "apps/up/node_processes.hpp"
#include "apps/up/reporter.hpp"
#include "apps/up/signals.hpp"
#include "messages/actors.hpp"

namespace troupe::apps {

class watch {
 public:
  watch(signal_desk& desk, node_processes& nodes, coordinator_actor coordinator,
        std::shared_ptr<run_outcome> outcome)
      : desk_(desk),
        nodes_(nodes),
        coordinator_(std::move(coordinator)),
        outcome_(std::move(outcome)) {}

  /// Until the run has ended; the signal that ended it, or 0. A second signal ends the process.
  int until_over();

  /// Gives the nodes time to go by themselves, those of other hosts (whose links the coordinator
  /// watches) as well as this machine's children.
  void until_alone(const std::atomic<bool>& coordinator_gone);

 private:
  bool over();
  bool failed();
  void interrupt(int number);
  void tell_of_ended_children();

  signal_desk& desk_;
  node_processes& nodes_;
  coordinator_actor coordinator_;
  std::shared_ptr<run_outcome> outcome_;
  int signal_ = 0;
};

}  // namespace troupe::apps

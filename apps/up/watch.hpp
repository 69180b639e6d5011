// The main thread's part while a cluster runs: signals, the ends of children, the end of the run.
#pragma once

#include <sys/types.h>
#include <atomic>
#include <chrono>
#include <memory>

#include "apps/up/launcher.hpp"
#include "apps/up/node_processes.hpp"
#include "apps/up/reporter.hpp"
#include "apps/up/stop_signals.hpp"
#include "messages/actors.hpp"

namespace troupe::apps {

/// How a run came to its end, as the main thread saw it.
struct run_end {
  int signal = 0;  ///< that asked the run to stop; 0: none
  std::chrono::milliseconds absence{0};  ///< longest time between two looks of this process
  bool deserted = false;  ///< nodes ended by themselves, since nobody answered them
};

class watch {
 public:
  watch(stop_signals& signals, node_processes& nodes, launch_orders& orders,
        coordinator_actor coordinator, std::shared_ptr<run_outcome> outcome)
      : signals_(signals),
        nodes_(nodes),
        orders_(orders),
        coordinator_(std::move(coordinator)),
        outcome_(std::move(outcome)) {}

  /// Until the run has ended, or the coordinator is lost and nobody will say that it has.
  run_end until_over(const std::atomic<bool>& coordinator_gone);

  /// Gives the nodes time to go by themselves, those of other hosts (whose links the coordinator
  /// watches) as well as this machine's children.
  void until_alone(const std::atomic<bool>& coordinator_gone);

 private:
  bool over();
  bool failed();
  void give_up();
  void ask_to_stop(int signal);
  void tell_of_ended_children();
  void tell_of_end(const std::string& node, const std::string& how, pid_t pid);
  void start_what_is_ordered();

  stop_signals& signals_;
  node_processes& nodes_;
  launch_orders& orders_;
  coordinator_actor coordinator_;
  std::shared_ptr<run_outcome> outcome_;
  run_end end_;
};

}  // namespace troupe::apps

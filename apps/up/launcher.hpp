// The launcher: the actor that the coordinator asks for the process of a node. Processes belong to
// the main thread (PRC-1), which takes the orders from here (watch.hpp).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/base/traced.hpp"
#include "messages/actors.hpp"

namespace troupe::apps {

/// Nodes whose processes are wanted anew. Thread-safe.
class launch_orders {
 public:
  /// `ring` is called after each order, from any thread.
  explicit launch_orders(std::function<void()> ring) : ring_(std::move(ring)) {}

  void add(std::string node);
  /// Those that came since the last call, each once.
  std::vector<std::string> take();

 private:
  std::function<void()> ring_;
  std::mutex mutex_;
  std::vector<std::string> nodes_;
};

struct launcher_state {
  static inline const char* name = "launcher";
  std::shared_ptr<launch_orders> orders;
};

launcher_actor::behavior_type launcher(traced_pointer<launcher_actor, launcher_state> self,
                                       std::shared_ptr<launch_orders> orders);

}  // namespace troupe::apps

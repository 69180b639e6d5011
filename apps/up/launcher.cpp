// Messages into a list.
#include "apps/up/launcher.hpp"

#include <algorithm>
#include <utility>

#include "actors/base/context.hpp"
#include "messages/text.hpp"

namespace troupe::apps {

void launch_orders::add(std::string node) {
  {
    std::lock_guard lock(mutex_);
    if (std::find(nodes_.begin(), nodes_.end(), node) == nodes_.end())
      nodes_.push_back(std::move(node));
  }
  ring_();
}

std::vector<std::string> launch_orders::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(nodes_, {});
}

launcher_actor::behavior_type launcher(traced_pointer<launcher_actor, launcher_state> self,
                                       std::shared_ptr<launch_orders> orders) {
  guard_mailbox(self);
  introduce(self, "launcher");
  self->state.orders = std::move(orders);
  publish(self, "ready", [](fbs::LauncherStatusT&) {});
  return {
      status_handler(self),
      [self](const msg<fbs::Launch>& m) {
        self->state.orders->add(text_of(m->node()));
        publish_values(self, [](fbs::LauncherStatusT& s) { ++s.ordered; });
      },
  };
}

}  // namespace troupe::apps

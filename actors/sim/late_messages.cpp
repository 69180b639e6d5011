// Which message it is, and to whom.
#include "actors/sim/late_messages.hpp"

#include <caf/all.hpp>

#include "messages/message_list.hpp"

namespace troupe::sim {

void send_late(const late_targets& to, uint64_t random) {
  message_context old;
  old.epoch = to.epoch;
  switch (random % late_kinds) {
    case 0:
      return caf::anon_send(to.coordinator, make_msg<fbs::RunEnded>(old));
    case 1:
      return caf::anon_send(to.coordinator,
                            make_msg<fbs::Leave>(old, [&](auto& l) { l.node = to.node_name; }));
    case 2:
      return caf::anon_send(to.coordinator, make_msg<fbs::StopTraining>(old));
    case 3:
      if (to.node) caf::anon_send(to.node, make_msg<fbs::Shutdown>(old));
      return;
    case 4:
      if (to.run) caf::anon_send(to.run, make_msg<fbs::StopTraining>(old));
      return;
    case 5:
      if (to.stage) caf::anon_send(to.stage, make_msg<fbs::ActivationReady>(old));
      return;
    case 6:
      if (to.stage)
        caf::anon_send(to.stage, make_msg<fbs::RunStep>(
                                     old, [&](auto& s) { s.step = 1 + random / late_kinds % 20; }));
      return;
    default:
      if (to.node) caf::anon_send(to.node, make_msg<fbs::Assign>(old));
      return;
  }
}

}  // namespace troupe::sim

// The table of audience.hpp.
#include "messages/audience.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "messages/msg.hpp"
#include "messages/registry.hpp"
#include "messages/schemas/control_generated.h"

namespace troupe {

namespace {

constexpr std::array table = {
    audience_entry{message_traits<fbs::Ack>::id, audience::nodes},
    audience_entry{message_traits<fbs::Failure>::id, audience::nodes},
    audience_entry{message_traits<fbs::Bytes>::id, audience::nodes},
    audience_entry{message_traits<fbs::Hello>::id, audience::nodes},
    audience_entry{message_traits<fbs::Welcome>::id, audience::nodes},
    audience_entry{message_traits<fbs::Heartbeat>::id, audience::nodes},
    audience_entry{message_traits<fbs::HeartbeatAck>::id, audience::nodes},
    audience_entry{message_traits<fbs::Assign>::id, audience::nodes},
    audience_entry{message_traits<fbs::Assigned>::id, audience::nodes},
    audience_entry{message_traits<fbs::Shutdown>::id, audience::nodes},
    audience_entry{message_traits<fbs::Leave>::id, audience::nodes},
    audience_entry{message_traits<fbs::BuildStage>::id, audience::nodes},
    audience_entry{message_traits<fbs::StageReady>::id, audience::nodes},
    audience_entry{message_traits<fbs::DataPlaneOffer>::id, audience::nodes},
    audience_entry{message_traits<fbs::DataPlaneTable>::id, audience::nodes},
    audience_entry{message_traits<fbs::DataPlaneReady>::id, audience::nodes},
    audience_entry{message_traits<fbs::RunStep>::id, audience::nodes},
    audience_entry{message_traits<fbs::StepDone>::id, audience::nodes},
    audience_entry{message_traits<fbs::RunOp>::id, audience::nodes},
    audience_entry{message_traits<fbs::OpDone>::id, audience::nodes},
    audience_entry{message_traits<fbs::ActivationReady>::id, audience::nodes},
    audience_entry{message_traits<fbs::Validate>::id, audience::nodes},
    audience_entry{message_traits<fbs::ValidationDone>::id, audience::nodes},
    audience_entry{message_traits<fbs::SaveCheckpoint>::id, audience::nodes},
    audience_entry{message_traits<fbs::Saved>::id, audience::nodes},
    audience_entry{message_traits<fbs::LoadCheckpoint>::id, audience::nodes},
    audience_entry{message_traits<fbs::Loaded>::id, audience::nodes},
    audience_entry{message_traits<fbs::StopTraining>::id, audience::commanders},
    audience_entry{message_traits<fbs::Neighbours>::id, audience::nodes},
    audience_entry{message_traits<fbs::AttachLoader>::id, audience::nodes},
    audience_entry{message_traits<fbs::OpenDataPlane>::id, audience::nodes},
    audience_entry{message_traits<fbs::FinishStep>::id, audience::nodes},
    audience_entry{message_traits<fbs::StepReport>::id, audience::nodes},
    audience_entry{message_traits<fbs::Notice>::id, audience::nodes},
    audience_entry{message_traits<fbs::RunEnded>::id, audience::nodes},
    audience_entry{message_traits<fbs::OpenArchive>::id, audience::nodes},
    audience_entry{message_traits<fbs::CommitCheckpoint>::id, audience::nodes},
    audience_entry{message_traits<fbs::CheckpointFolder>::id, audience::nodes},
    audience_entry{message_traits<fbs::AbandonCheckpoint>::id, audience::nodes},
    audience_entry{message_traits<fbs::ExportModel>::id, audience::nodes},
    audience_entry{message_traits<fbs::CopyCheckpoint>::id, audience::nodes},
    audience_entry{message_traits<fbs::FinishCopies>::id, audience::nodes},
    audience_entry{message_traits<fbs::HoldCheckpoint>::id, audience::nodes},
    audience_entry{message_traits<fbs::ClusterReady>::id, audience::nodes},
    audience_entry{message_traits<fbs::AdmissionFailed>::id, audience::nodes},
    audience_entry{message_traits<fbs::NodeLost>::id, audience::nodes},
    audience_entry{message_traits<fbs::OpenLoader>::id, audience::nodes},
    audience_entry{message_traits<fbs::LoaderReady>::id, audience::nodes},
    audience_entry{message_traits<fbs::BatchRequest>::id, audience::nodes},
    audience_entry{message_traits<fbs::BatchReady>::id, audience::nodes},
    audience_entry{message_traits<fbs::StatusRequest>::id, audience::lookers},
    audience_entry{message_traits<fbs::Status>::id, audience::nodes},
    audience_entry{message_traits<fbs::Pause>::id, audience::commanders},
    audience_entry{message_traits<fbs::Resume>::id, audience::commanders},
    audience_entry{message_traits<fbs::CheckpointNow>::id, audience::commanders},
    audience_entry{message_traits<fbs::SetValue>::id, audience::commanders},
    audience_entry{message_traits<fbs::ListActors>::id, audience::lookers},
    audience_entry{message_traits<fbs::ActorList>::id, audience::nodes},
    audience_entry{message_traits<fbs::ClusterView>::id, audience::nodes},
    audience_entry{message_traits<fbs::CallActor>::id, audience::lookers},
    audience_entry{message_traits<fbs::CallAnswers>::id, audience::nodes},
    audience_entry{message_traits<fbs::KillActor>::id, audience::commanders},
    audience_entry{message_traits<fbs::SetLogLevel>::id, audience::commanders},
    audience_entry{message_traits<fbs::DrainNode>::id, audience::commanders},
    audience_entry{message_traits<fbs::FindDesk>::id, audience::lookers},
    audience_entry{message_traits<fbs::DeskFound>::id, audience::nodes},
    audience_entry{message_traits<fbs::Observe>::id, audience::nodes},
    audience_entry{message_traits<fbs::TraceBatch>::id, audience::nodes},
    audience_entry{message_traits<fbs::TraceStart>::id, audience::lookers},
    audience_entry{message_traits<fbs::TraceStarted>::id, audience::nodes},
    audience_entry{message_traits<fbs::TraceMore>::id, audience::lookers},
    audience_entry{message_traits<fbs::TraceStop>::id, audience::lookers},
    audience_entry{message_traits<fbs::DumpBlackBox>::id, audience::commanders},
    audience_entry{message_traits<fbs::ReadMeters>::id, audience::lookers},
    audience_entry{message_traits<fbs::MeterReadings>::id, audience::nodes},
};

}  // namespace

std::span<const audience_entry> all_audiences() {
  return table;
}

audience audience_of(uint16_t type) {
  const auto* it =
      std::find_if(table.begin(), table.end(), [&](const auto& e) { return e.type == type; });
  return it != table.end() ? it->who : audience::nodes;  // AUD-1
}

status may_be_carried(const any_msg& inner) {
  if (audience_of(inner.type()) != audience::nodes &&
      inner.type() != message_traits<fbs::CallActor>::id)
    return {};
  const auto* info = find_message(inner.type());
  return error{errc::permission,
               fmt::format("{} is what the cluster's processes say to each other: nobody may have "
                           "it sent",
                           info != nullptr ? info->name : "what cannot be read"),
               "`troupe console -c help` lists what the cluster can be told"};
}

any_msg carried_by(const any_msg& m) {
  const auto call = cast<fbs::CallActor>(m);
  if (!call) return m;
  const auto* bytes = call->message();
  auto inner = bytes != nullptr ? decode({bytes->data(), bytes->size()})
                                : result<any_msg>(error{errc::bad_data, "nothing"});
  return inner ? *inner : any_msg{};
}

audience audience_of(const any_msg& m) {
  const auto own = audience_of(m.type());
  if (m.type() != message_traits<fbs::CallActor>::id) return own;
  const auto inner = carried_by(m);
  if (!inner || !may_be_carried(inner)) return audience::nodes;  // AUD-2, AUD-3
  return inner.type() == message_traits<fbs::StatusRequest>::id ? own : audience::commanders;
}

}  // namespace troupe

// The typed handles of every actor: what one may say to it and what it answers, a sentence a
// message.
//
// The contract stands in the schemas (messages/schemas), with who may say it, how long one waits,
// and more (messages/contract.hpp); this header is what the compiler checks, and a test holds the
// two together (CON-1). Handles travel beside a message (a FlatBuffer cannot hold one).
#pragma once

#include <string_view>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "messages/inspect.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/cluster_generated.h"
#include "messages/schemas/common_generated.h"
#include "messages/schemas/control_generated.h"
#include "messages/schemas/data_generated.h"
#include "messages/schemas/health_generated.h"
#include "messages/schemas/power_generated.h"
#include "messages/schemas/predict_generated.h"
#include "messages/schemas/swap_generated.h"
#include "messages/schemas/trace_generated.h"
#include "messages/schemas/train_generated.h"

namespace troupe {

/// Spelling of a handle's contract: `ask<A, B>` is "A is answered by B", `tell<A>` is "A is not
/// answered".
template <class Request, class Reply>
using ask = typename caf::replies_to<msg<Request>>::template with<msg<Reply>>;
template <class Message>
using tell = caf::reacts_to<msg<Message>>;

/// What every actor understands.
using component_actor = caf::typed_actor<
    // How is it?
    ask<fbs::StatusRequest, fbs::Status>>;

/// One device: computes, transfers, saves what its stage tells it.
using worker_actor = component_actor::extend<
    // Allocates its part of the model and gives it first weights.
    ask<fbs::BuildStage, fbs::StageReady>,
    // Maps the loader's shared memory.
    ask<fbs::AttachLoader, fbs::Ack>,
    // Listens for its groups of collectives.
    ask<fbs::OpenDataPlane, fbs::DataPlaneOffer>,
    // Connects to the other members of its groups.
    ask<fbs::DataPlaneTable, fbs::DataPlaneReady>,
    // Enqueues one operation; answers when it is done.
    ask<fbs::RunOp, fbs::OpDone>,
    // Sums, clips, updates; answers with the loss and the norm.
    ask<fbs::FinishStep, fbs::StepDone>,
    // Copies its share of the state and writes it beside the training; answers once it is durable.
    ask<fbs::SaveCheckpoint, fbs::Saved>,
    // Copies its share of the state into memory, here and at its keeper's.
    tell<fbs::CopyState>,
    // Says which copies its process holds.
    ask<fbs::FindCopies, fbs::CopiesFound>,
    // Reads its part of a model or checkpoint, or of a copy.
    ask<fbs::LoadCheckpoint, fbs::Loaded>,
    // A stream of its device has finished something (from itself only).
    caf::reacts_to<caf::update_atom>>;

/// One rank's drive: has the folder of its swap files. May block: it is detached.
using swapper_actor = component_actor::extend<
    // Makes the folder, before the worker has an engine.
    ask<fbs::OpenSwap, fbs::SwapOpened>>;

/// One host's data: reads and tokenises ahead into shared memory.
using loader_actor = component_actor::extend<
    // Opens the data.
    ask<fbs::OpenLoader, fbs::LoaderReady>,
    // Says in which slot a step's tokens lie.
    ask<fbs::BatchRequest, fbs::BatchReady>>;

/// One rank: takes its worker through the schedule of each step.
using stage_actor = component_actor::extend<
    ask<fbs::BuildStage, fbs::StageReady>,
    // Gets the loader of its host; the handle is the second element.
    caf::replies_to<msg<fbs::AttachLoader>, caf::strong_actor_ptr>::with<msg<fbs::Ack>>,
    // Meets its neighbours; the handles are those of the previous and the next stage (or null).
    caf::replies_to<msg<fbs::Neighbours>, caf::strong_actor_ptr,
                    caf::strong_actor_ptr>::with<msg<fbs::Ack>>,
    ask<fbs::OpenDataPlane, fbs::DataPlaneOffer>, ask<fbs::DataPlaneTable, fbs::DataPlaneReady>,
    // Runs one training step.
    ask<fbs::RunStep, fbs::StepDone>,
    // Measures the loss on held-out batches.
    ask<fbs::Validate, fbs::ValidationDone>,
    // A neighbour has computed an activation or a gradient that this stage may fetch.
    tell<fbs::ActivationReady>, ask<fbs::SaveCheckpoint, fbs::Saved>, tell<fbs::CopyState>,
    ask<fbs::FindCopies, fbs::CopiesFound>, ask<fbs::LoadCheckpoint, fbs::Loaded>,
    // Passes on what its worker has to say to the person.
    tell<fbs::Notice>,
    // Holds what has not begun, or lets it go on.
    ask<fbs::Brake, fbs::Ack>,
    // The pace lets the next operation begin (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Keeps a job within its power budget.
using pacer_actor = component_actor::extend<
    // What a node's machine draws; at what pace steps are made, and how long they took.
    tell<fbs::Heartbeat>, tell<fbs::PaceTaken>, tell<fbs::StepMade>,
    // Time to decide (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// A node of a tree of power budgets.
using budget_actor = component_actor::extend<
    // How a child is; answered with the next tick.
    ask<fbs::PowerReport, fbs::PowerGrant>,
    // Who has which lease; a person sets what there is.
    ask<fbs::ReadPowerTree, fbs::PowerTree>, ask<fbs::SetPowerBudget, fbs::Ack>,
    // A person holds all work below it, or lets it go on.
    ask<fbs::SetPowerBrake, fbs::Ack>,
    // A person's tool asks for the gateway; its handle travels beside the answer.
    caf::replies_to<msg<fbs::FindGateway>>::with<msg<fbs::GatewayFound>, caf::strong_actor_ptr>,
    // Time to decide (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Connects who is below a power budget to it. May block: it is detached.
using finder_actor = component_actor::extend<
    // Finds it, proves the process there; its handle travels beside the answer: null, no link.
    caf::replies_to<msg<fbs::FindBudget>>::with<msg<fbs::BudgetFound>, caf::strong_actor_ptr>,
    // The link has ended: so has the proof.
    tell<fbs::LeaveBudget>>;

/// Reads the meters of a machine. May block: it is detached.
using meter_actor = component_actor::extend<
    // Says what was read last.
    ask<fbs::ReadMeters, fbs::MeterReadings>,
    // Time to read (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Samples what a machine says of itself. May block: it is detached.
using vitals_actor = component_actor::extend<
    // Says what was sampled last.
    ask<fbs::ReadVitals, fbs::MachineVitals>,
    // Time to sample (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Examines a machine when it is asked to. Blocks: it is detached.
using medic_actor = component_actor::extend<
    // Checks processors, memory, disk and more; loads the machine.
    ask<fbs::RunCheckup, fbs::CheckupReport>,
    // Exchanges bytes with another node.
    ask<fbs::TestPair, fbs::PairReport>,
    // Leads a group of nodes through its test; listens for one, takes part in one.
    ask<fbs::TestGroup, fbs::GroupReport>, ask<fbs::OpenTestGroup, fbs::TestGroupEnd>,
    ask<fbs::JoinTestGroup, fbs::TestGroupSeen>,
    // Nobody has come to the end that it opened (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Concludes what is wrong, and who it is.
using monitor_actor = component_actor::extend<
    // A node has joined; it is alive, and says how it is.
    tell<fbs::Hello>, tell<fbs::Heartbeat>,
    // Says what is wrong now.
    ask<fbs::FindingsRequest, fbs::Findings>,
    // What is done about a fault is decided: what stands now goes to the reporter.
    tell<fbs::IncidentReport>,
    // What a part of the job finds itself; where the time of a rank's step went.
    tell<fbs::FindingTold>, tell<fbs::StepDone>,
    // What takes longer than the predictor of its process expects.
    tell<fbs::Suspect>,
    // Time to look (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Learns what parts of steps take. Detached: a fit takes its time.
using predictor_actor = component_actor::extend<
    // What a step took (from the run of its process only).
    tell<fbs::StepTimes>,
    // Says what is to be expected.
    ask<fbs::Predict, fbs::Prediction>,
    // Forgets what was learned of a node.
    ask<fbs::ForgetNode, fbs::Ack>,
    // Says what an expectation is made of.
    ask<fbs::Explain, fbs::Explanation>,
    // What a node's machine was probed to do (from the coordinator of its process only).
    tell<fbs::HwProfile>>;

/// One process of the cluster.
using node_actor = component_actor::extend<
    // Spawns the actors of its ranks; answers with the loader (or null) and the stages, in order.
    caf::replies_to<msg<fbs::Assign>>::with<msg<fbs::Assigned>, std::vector<caf::strong_actor_ptr>>,
    // Measures what a layer of the job takes here.
    ask<fbs::MeasureLayers, fbs::LayersMeasured>,
    // Ends its ranks and begins another epoch; answers once nothing of the one before runs.
    ask<fbs::Suspend, fbs::Suspended>,
    // Ends the process.
    tell<fbs::Shutdown>,
    // Sends bytes back.
    ask<fbs::PairProbe, fbs::PairEcho>,
    // For its medic: listens for the group of a test, takes part in it.
    ask<fbs::OpenTestGroup, fbs::TestGroupEnd>, ask<fbs::JoinTestGroup, fbs::TestGroupSeen>,
    // A vote about which head acts.
    ask<fbs::PromiseEpoch, fbs::Promised>, ask<fbs::HoldRecord, fbs::Promised>,
    // Time for a heartbeat; a layer is measured (both from itself only).
    caf::reacts_to<caf::tick_atom>, caf::reacts_to<caf::update_atom>>;

/// Knows who belongs to the cluster.
using coordinator_actor = component_actor::extend<
    // A node asks to join; the handles are those of the node and of its process's observer.
    caf::replies_to<msg<fbs::Hello>, caf::strong_actor_ptr,
                    caf::strong_actor_ptr>::with<msg<fbs::Welcome>>,
    // A person's tool looks for the gateway; its handle is the second element of the answer.
    caf::replies_to<msg<fbs::FindGateway>>::with<msg<fbs::GatewayFound>, caf::strong_actor_ptr>,
    // Takes a node out of service: after a save, or at once; lets it join again; starts it anew.
    ask<fbs::DrainNode, fbs::Ack>, ask<fbs::EvictNode, fbs::Ack>, ask<fbs::AdmitNode, fbs::Ack>,
    ask<fbs::ReplaceNode, fbs::Ack>,
    // Lists the nodes without ranks.
    ask<fbs::SparesRequest, fbs::Spares>,
    // A node is alive.
    ask<fbs::Heartbeat, fbs::HeartbeatAck>,
    // A node goes.
    tell<fbs::Leave>,
    // What the monitor finds of a node that is silent.
    tell<fbs::FindingTold>,
    // Ends the training in order; from the launcher or a person.
    tell<fbs::StopTraining>,
    // The run has ended.
    tell<fbs::RunEnded>,
    // The run goes on in another epoch.
    tell<fbs::Recover>,
    // A node looks for another one; its handle is the second element of the answer.
    caf::replies_to<msg<fbs::FindNode>>::with<msg<fbs::Ack>, caf::strong_actor_ptr>,
    // A node or another head looks for the one that acts; the handle is its own, a voter's.
    caf::replies_to<msg<fbs::FindHead>, caf::strong_actor_ptr>::with<msg<fbs::HeadFound>>,
    // A vote about which head acts.
    ask<fbs::PromiseEpoch, fbs::Promised>, ask<fbs::HoldRecord, fbs::Promised>,
    // Look after the members now, and again every pulse (both from itself only).
    caf::reacts_to<caf::tick_atom>, caf::reacts_to<caf::ping_atom>>;

/// A vote about which head acts, kept on the disk. May block: it is detached.
using voter_actor = component_actor::extend<ask<fbs::PromiseEpoch, fbs::Promised>,
                                            ask<fbs::HoldRecord, fbs::Promised>>;

/// A head's part in choosing the one that acts. May block: it is detached.
using elector_actor = voter_actor::extend<
    // How this head is; the handle is the asker's, a voter's.
    caf::replies_to<msg<fbs::FindHead>, caf::strong_actor_ptr>::with<msg<fbs::HeadFound>>,
    // Answers once a majority has promised an epoch, or holds a record.
    ask<fbs::Elect, fbs::Elected>, ask<fbs::ShareRecord, fbs::Ack>,
    // The job is over.
    ask<fbs::HeadEnds, fbs::Ack>,
    // Time to look after the others (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Starts the processes of nodes, where the job does.
using launcher_actor = component_actor::extend<tell<fbs::Launch>>;

/// Drives one training run.
using run_actor = component_actor::extend<
    // Every node has its ranks; with the handles of stages and loaders.
    caf::reacts_to<msg<fbs::ClusterReady>, std::vector<caf::strong_actor_ptr>>,
    // The run cannot begin; a node is gone.
    tell<fbs::AdmissionFailed>, tell<fbs::NodeLost>,
    // A node is to leave in order: saves after the step, then goes on without it.
    tell<fbs::ReleaseNode>,
    // A part of the run has something to say to the person.
    tell<fbs::Notice>,
    // Finishes the step, saves if asked, and ends.
    tell<fbs::StopTraining>,
    // Stops before the next step; goes on.
    ask<fbs::Pause, fbs::Ack>, ask<fbs::Resume, fbs::Ack>,
    // Saves after the current step.
    ask<fbs::CheckpointNow, fbs::Ack>,
    // Changes a setting from the next step on.
    ask<fbs::SetValue, fbs::Ack>,
    // Goes back to an earlier state.
    ask<fbs::Rewind, fbs::Ack>,
    // How fast it may work, and what its machines draw.
    tell<fbs::JobPower>,
    // Which clocks its operations have.
    tell<fbs::JobClocks>,
    // The predictor has taken what it was told of a step.
    tell<fbs::StepTimesTaken>,
    // What it waits for is over (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Writes what belongs to a checkpoint as a whole and commits it. May block: it is detached.
using committer_actor = component_actor::extend<
    // Makes the folder of checkpoints, removes what interrupted saves left.
    ask<fbs::OpenFolder, fbs::CheckpointFolder>,
    // Writes configuration, state and manifest; syncs, renames, removes what retention says.
    ask<fbs::CommitCheckpoint, fbs::CheckpointFolder>,
    // Keeps votes until the commit of their checkpoint.
    tell<fbs::SaveVotes>,
    // Removes what was written of a checkpoint that will not be.
    tell<fbs::AbandonCheckpoint>,
    // Writes the model of a checkpoint as a Hugging Face folder.
    ask<fbs::ExportModel, fbs::CheckpointFolder>,
    // Verifies what ranks could not load, looks for the one before it, sets aside what that leaves.
    ask<fbs::ChooseCheckpoint, fbs::CheckpointChosen>,
    // Retention leaves a checkpoint alone while it is needed; then it may go.
    tell<fbs::HoldCheckpoint>,
    // Writes the validation loss of a committed checkpoint into its manifest.
    ask<fbs::AmendCheckpoint, fbs::Ack>,
    // Gives up a checkpoint whose files ranks are about to update.
    ask<fbs::GiveUpCheckpoint, fbs::Ack>>;

/// Copies committed checkpoints into the second tier. May block: it is detached.
using replicator_actor = component_actor::extend<
    // A checkpoint is committed; its newest is copied in the background. Failures go to the sender,
    // as Notice.
    tell<fbs::CopyCheckpoint>,
    // Answers once the run's last checkpoint is in the second tier, or why it will not be.
    ask<fbs::FinishCopies, fbs::CheckpointFolder>,
    // Time for the next piece (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// Keeps on the disk what the next head must know. May block: it is detached.
using journal_actor = component_actor::extend<
    // Answers once it is on the disk.
    ask<fbs::JobMemory, fbs::Ack>,
    ask<fbs::ClusterMemory, fbs::Ack>>;

/// Shows a person how it goes.
using reporter_actor =
    component_actor::extend<tell<fbs::StepReport>, tell<fbs::IncidentReport>,
                            // What stood when it was decided what is done about an incident.
                            tell<fbs::Evidence>, tell<fbs::Notice>, tell<fbs::RunEnded>>;

/// Shows a person's tool what is traced.
using viewer_actor = caf::typed_actor<tell<fbs::TraceBatch>>;

/// Looks at one process and answers for actors that are too busy to. Detached; never waits for an
/// actor.
using observer_actor = component_actor::extend<
    ask<fbs::ListActors, fbs::ActorList>,
    // Gives a message to actors of the process and gathers what they answer.
    ask<fbs::CallActor, fbs::CallAnswers>, ask<fbs::KillActor, fbs::Ack>,
    ask<fbs::SetLogLevel, fbs::Ack>,
    // Writes the flight recorder to a file; answers with its path.
    ask<fbs::DumpBlackBox, fbs::Ack>,
    // Sends records to the handle, which is watched: when it goes, so does the subscription.
    caf::replies_to<msg<fbs::TraceStart>, caf::strong_actor_ptr>::with<msg<fbs::TraceStarted>>,
    tell<fbs::TraceMore>, tell<fbs::TraceStop>,
    // Time to look (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// What a person's tools speak to, in the coordinator's process: knows all observers, checks who
/// may, keeps the audit log, passes traces on.
using gateway_actor = component_actor::extend<
    // A process has joined; the handle is its observer's.
    caf::reacts_to<msg<fbs::Observe>, caf::strong_actor_ptr>,
    ask<fbs::ListActors, fbs::ClusterView>, ask<fbs::CallActor, fbs::CallAnswers>,
    // These reach every process whose name fits; the answers say how each did.
    ask<fbs::KillActor, fbs::CallAnswers>, ask<fbs::SetLogLevel, fbs::CallAnswers>,
    ask<fbs::DumpBlackBox, fbs::CallAnswers>, ask<fbs::DrainNode, fbs::Ack>,
    caf::replies_to<msg<fbs::TraceStart>, caf::strong_actor_ptr>::with<msg<fbs::TraceStarted>>,
    tell<fbs::TraceMore>, tell<fbs::TraceStop>,
    // What the cluster decided, for the audit log.
    tell<fbs::IncidentReport>,
    // From observers, on its way to a viewer.
    tell<fbs::TraceBatch>,
    // Time to look after the observers (from itself only).
    caf::reacts_to<caf::tick_atom>>;

/// ACTOR(handle, service) for every actor.
#define TROUPE_ACTORS(ACTOR)              \
  ACTOR(worker_actor, "Worker")           \
  ACTOR(swapper_actor, "Swapper")         \
  ACTOR(loader_actor, "Loader")           \
  ACTOR(stage_actor, "Stage")             \
  ACTOR(meter_actor, "Meter")             \
  ACTOR(pacer_actor, "Pacer")             \
  ACTOR(budget_actor, "Budget")           \
  ACTOR(finder_actor, "Finder")           \
  ACTOR(vitals_actor, "Vitals")           \
  ACTOR(monitor_actor, "Monitor")         \
  ACTOR(medic_actor, "Medic")             \
  ACTOR(predictor_actor, "Predictor")     \
  ACTOR(node_actor, "Node")               \
  ACTOR(coordinator_actor, "Coordinator") \
  ACTOR(voter_actor, "Voter")             \
  ACTOR(elector_actor, "Elector")         \
  ACTOR(launcher_actor, "Launcher")       \
  ACTOR(run_actor, "Run")                 \
  ACTOR(committer_actor, "Committer")     \
  ACTOR(replicator_actor, "Replicator")   \
  ACTOR(journal_actor, "Journal")         \
  ACTOR(reporter_actor, "Reporter")       \
  ACTOR(viewer_actor, "Viewer")           \
  ACTOR(observer_actor, "Observer")       \
  ACTOR(gateway_actor, "Gateway")

/// The name of the service that is the contract of a handle, or of the base class of its actors;
/// empty for what is no actor of the program.
template <class HandleOrBase>
inline constexpr std::string_view service_of{};
#define TROUPE_SERVICE_OF(handle, service)                       \
  template <>                                                    \
  inline constexpr std::string_view service_of<handle>{service}; \
  template <>                                                    \
  inline constexpr std::string_view service_of<handle::base>{service};
TROUPE_ACTORS(TROUPE_SERVICE_OF)
#undef TROUPE_SERVICE_OF

}  // namespace troupe

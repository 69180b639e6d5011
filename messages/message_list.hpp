// Every message of the language, one line each: the only place where a table becomes a message.
//
// To add one: write the table in schemas/<domain>.fbs, then a line here. All else (CAF's type id,
// the registry, the verifier, JSON, the tests over all messages) follows from this list.
//
// ML-1  An id is never reused or changed: it travels in every header. A message that dies leaves a
//       gap.
// ML-2  The high byte is the domain's, the low byte counts within it.
#pragma once

#include <cstdint>
#include <string_view>

/// X(domain, table, id) for every message.
#define TROUPE_MESSAGES(X)            \
  X(common, Ack, 0x0101)              \
  X(common, Failure, 0x0102)          \
  X(common, Bytes, 0x0103)            \
  X(cluster, Hello, 0x0201)           \
  X(cluster, Welcome, 0x0202)         \
  X(cluster, Heartbeat, 0x0203)       \
  X(cluster, HeartbeatAck, 0x0204)    \
  X(cluster, Assign, 0x0205)          \
  X(cluster, Assigned, 0x0206)        \
  X(cluster, Shutdown, 0x0207)        \
  X(cluster, Leave, 0x0208)           \
  X(cluster, Suspend, 0x0209)         \
  X(cluster, Suspended, 0x020a)       \
  X(cluster, Recover, 0x020b)         \
  X(cluster, Launch, 0x020c)          \
  X(cluster, MeasureLayers, 0x020d)   \
  X(cluster, LayersMeasured, 0x020e)  \
  X(train, BuildStage, 0x0301)        \
  X(train, StageReady, 0x0302)        \
  X(train, DataPlaneOffer, 0x0303)    \
  X(train, DataPlaneTable, 0x0304)    \
  X(train, DataPlaneReady, 0x0305)    \
  X(train, RunStep, 0x0306)           \
  X(train, StepDone, 0x0307)          \
  X(train, RunOp, 0x0308)             \
  X(train, OpDone, 0x0309)            \
  X(train, ActivationReady, 0x030a)   \
  X(train, Validate, 0x030b)          \
  X(train, ValidationDone, 0x030c)    \
  X(train, SaveCheckpoint, 0x030d)    \
  X(train, Saved, 0x030e)             \
  X(train, LoadCheckpoint, 0x030f)    \
  X(train, Loaded, 0x0310)            \
  X(train, StopTraining, 0x0311)      \
  X(train, Neighbours, 0x0312)        \
  X(train, AttachLoader, 0x0313)      \
  X(train, OpenDataPlane, 0x0314)     \
  X(train, FinishStep, 0x0315)        \
  X(train, StepReport, 0x0316)        \
  X(train, Notice, 0x0317)            \
  X(train, RunEnded, 0x0318)          \
  X(train, OpenFolder, 0x0319)        \
  X(train, CommitCheckpoint, 0x031a)  \
  X(train, CheckpointFolder, 0x031b)  \
  X(train, AbandonCheckpoint, 0x031c) \
  X(train, ExportModel, 0x031d)       \
  X(train, CopyCheckpoint, 0x031e)    \
  X(train, FinishCopies, 0x031f)      \
  X(train, HoldCheckpoint, 0x0320)    \
  X(train, ClusterReady, 0x0321)      \
  X(train, AdmissionFailed, 0x0322)   \
  X(train, NodeLost, 0x0323)          \
  X(train, SaveVotes, 0x0324)         \
  X(train, IncidentReport, 0x0325)    \
  X(train, CopyState, 0x0340)         \
  X(train, FindCopies, 0x0341)        \
  X(train, CopiesFound, 0x0342)       \
  X(train, JobMemory, 0x0344)         \
  X(train, ChooseCheckpoint, 0x0345)  \
  X(train, CheckpointChosen, 0x0346)  \
  X(train, ClusterMemory, 0x0347)     \
  X(train, Brake, 0x0348)             \
  X(train, GiveUpCheckpoint, 0x0349)  \
  X(train, AmendCheckpoint, 0x034a)   \
  X(data, OpenLoader, 0x0401)         \
  X(data, LoaderReady, 0x0402)        \
  X(data, BatchRequest, 0x0403)       \
  X(data, BatchReady, 0x0404)         \
  X(control, StatusRequest, 0x0501)   \
  X(control, Status, 0x0502)          \
  X(control, Pause, 0x0503)           \
  X(control, Resume, 0x0504)          \
  X(control, CheckpointNow, 0x0505)   \
  X(control, SetValue, 0x0506)        \
  X(control, ListActors, 0x0507)      \
  X(control, ActorList, 0x0508)       \
  X(control, ClusterView, 0x0509)     \
  X(control, CallActor, 0x050a)       \
  X(control, CallAnswers, 0x050b)     \
  X(control, KillActor, 0x050c)       \
  X(control, SetLogLevel, 0x050d)     \
  X(control, DrainNode, 0x050e)       \
  X(control, FindGateway, 0x050f)     \
  X(control, GatewayFound, 0x0510)    \
  X(control, Observe, 0x0511)         \
  X(control, Evidence, 0x0512)        \
  X(control, Rewind, 0x0513)          \
  X(trace, TraceBatch, 0x0601)        \
  X(trace, TraceStart, 0x0602)        \
  X(trace, TraceStarted, 0x0603)      \
  X(trace, TraceMore, 0x0604)         \
  X(trace, TraceStop, 0x0605)         \
  X(trace, DumpBlackBox, 0x0606)      \
  X(power, ReadMeters, 0x0701)        \
  X(power, MeterReadings, 0x0702)     \
  X(power, PaceTaken, 0x0703)         \
  X(power, JobPower, 0x0704)          \
  X(power, PowerReport, 0x0705)       \
  X(power, PowerGrant, 0x0706)        \
  X(power, ReadPowerTree, 0x0707)     \
  X(power, PowerTree, 0x0708)         \
  X(power, SetPowerBudget, 0x0709)    \
  X(power, SetPowerBrake, 0x070a)     \
  X(power, StepMade, 0x070b)          \
  X(power, JobClocks, 0x070c)         \
  X(power, FindBudget, 0x070d)        \
  X(power, BudgetFound, 0x070e)       \
  X(power, LeaveBudget, 0x070f)       \
  X(health, FindingsRequest, 0x0801)  \
  X(health, Findings, 0x0802)         \
  X(health, ReadVitals, 0x0803)       \
  X(health, MachineVitals, 0x0804)    \
  X(health, FindingTold, 0x080f)      \
  X(cluster, EvictNode, 0x0220)       \
  X(cluster, AdmitNode, 0x0221)       \
  X(cluster, ReplaceNode, 0x0222)     \
  X(cluster, SparesRequest, 0x0223)   \
  X(cluster, Spares, 0x0224)          \
  X(cluster, FindHead, 0x0230)        \
  X(cluster, HeadFound, 0x0231)       \
  X(cluster, PromiseEpoch, 0x0232)    \
  X(cluster, Promised, 0x0233)        \
  X(cluster, HoldRecord, 0x0234)      \
  X(cluster, Elect, 0x0235)           \
  X(cluster, Elected, 0x0236)         \
  X(cluster, ShareRecord, 0x0237)     \
  X(cluster, HeadEnds, 0x0238)        \
  X(train, ReleaseNode, 0x0343)       \
  X(health, RunCheckup, 0x0810)       \
  X(health, CheckupReport, 0x0811)    \
  X(health, TestPair, 0x0812)         \
  X(health, PairReport, 0x0813)       \
  X(health, PairProbe, 0x0814)        \
  X(health, PairEcho, 0x0815)         \
  X(health, FindNode, 0x0816)         \
  X(health, TestGroup, 0x0817)        \
  X(health, GroupReport, 0x0818)      \
  X(health, OpenTestGroup, 0x0819)    \
  X(health, TestGroupEnd, 0x081a)     \
  X(health, JoinTestGroup, 0x081b)    \
  X(health, TestGroupSeen, 0x081c)    \
  X(swap, OpenSwap, 0x0901)           \
  X(swap, SwapOpened, 0x0902)         \
  X(predict, StepTimes, 0x0a01)       \
  X(predict, StepTimesTaken, 0x0a02)  \
  X(predict, Predict, 0x0a03)         \
  X(predict, Prediction, 0x0a04)      \
  X(predict, Suspect, 0x0a05)         \
  X(predict, ForgetNode, 0x0a06)      \
  X(predict, Explain, 0x0a07)         \
  X(predict, Explanation, 0x0a08)     \
  X(predict, HwProfile, 0x0a09)

namespace troupe::fbs {
#define TROUPE_DECLARE(domain, table, number) struct table;
TROUPE_MESSAGES(TROUPE_DECLARE)
#undef TROUPE_DECLARE
}  // namespace troupe::fbs

namespace troupe {

/// What is known of a message type before its table is: `id` and `name`.
template <class T>
struct message_traits;

#define TROUPE_TRAITS(domain, table, number)         \
  template <>                                        \
  struct message_traits<fbs::table> {                \
    static constexpr uint16_t id = number;           \
    static constexpr std::string_view name = #table; \
  };
TROUPE_MESSAGES(TROUPE_TRAITS)
#undef TROUPE_TRAITS

}  // namespace troupe

// Fuzzes recorded actor logs: any bytes as a file, any payload in an entry with honest checksums,
// and logs of stages whose events are drawn from the bytes. What is accepted must replay to an
// answer.
//
// The first byte chooses the entry point.
#include <vector>

#include <spdlog/spdlog.h>

#include "actors/replay/replay.hpp"
#include "messages/actors.hpp"
#include "tests/fuzz/must.hpp"
#include "tests/fuzz/trace_bytes.hpp"

using namespace troupe;

namespace {

void live(std::span<const uint8_t> file) {
  const file_of_bytes there(file);
  auto all = replay::read_actor_logs(there.path());
  if (!all) return;
  for (const auto& log : all->actors) {
    must(!log.turns.empty(), "ALG-1");
    for (size_t i = 0; i + 1 < log.turns.size(); ++i) must(log.turns[i].handled, "ALG-1");
    if (log.kind == "loader") continue;  // reads files
    const auto done = replay::replay(log);
    must(!done || done->given <= log.given(), "no more is given than there is");
  }
}

std::unique_ptr<fbs::ActorLogPartT> part_of(uint8_t byte, uint8_t value) {
  auto p = std::make_unique<fbs::ActorLogPartT>();
  using kind = fbs::ActorLogPartKind;
  p->kind = byte % 32 < 7 ? static_cast<kind>(byte % 32) : kind::message;
  const bool of_an_end = p->kind == kind::down || p->kind == kind::exit;
  const bool nobody = value % 2 == 0 && !of_an_end;
  p->actors.assign(p->kind == kind::actors ? value % 4 : 1,
                   nobody ? "" : std::to_string(value % 8));
  p->atom = value;
  p->failure = std::make_unique<fbs::FailureT>();
  p->failure->code = static_cast<uint8_t>(1 + value % 15);
  message_context c;
  c.epoch = value % 3;
  const auto step = [&](auto& m) { m.step = value % 4; };
  if (p->kind == kind::message)
    p->message = value % 3 == 0   ? encode(make_msg<fbs::RunStep>(c, step))
                 : value % 3 == 1 ? encode(make_msg<fbs::OpDone>(c))
                                  : encode(make_msg<fbs::BatchReady>(c, step));
  return p;
}

/// The log of a stage, three bytes an event.
std::vector<uint8_t> stage(std::span<const uint8_t> bytes) {
  fbs::TraceBatchT b;
  auto add = [&](fbs::ActorLogKind kind) -> fbs::ActorLogEventT& {
    auto& e = *b.log.emplace_back(std::make_unique<fbs::ActorLogEventT>());
    e.kind = kind;
    e.number = b.log.size();
    return e;
  };
  b.actors.push_back(std::make_unique<fbs::TracedActorT>());
  b.actors.back()->kind = "stage";
  auto& first = add(fbs::ActorLogKind::begun);
  first.path = "stage/0";
  first.spawn_record = std::make_unique<fbs::SpawnRecordT>();
  first.spawn_record->form = replay::actor_log_form;
  first.spawn_record->epoch = 1;
  first.spawn_record->peers.push_back(std::make_unique<fbs::ActorLogPeerT>());
  first.spawn_record->peers.back()->role = "worker";
  first.spawn_record->peers.back()->actor = "7";
  add(fbs::ActorLogKind::handled);
  for (size_t at = 0; at + 3 <= bytes.size() && at < 300; at += 3) {
    auto& e = add(fbs::ActorLogKind::got);
    e.peer = bytes[at] % 2 == 0 ? "" : std::to_string(bytes[at] % 8);
    e.request = uint64_t{1} << 60 | uint64_t{bytes[at] >= 128} << 63 | bytes[at] % 16;
    e.parts.push_back(part_of(bytes[at + 1], bytes[at + 2]));
    add(fbs::ActorLogKind::handled);
  }
  const auto m = make_msg<fbs::TraceBatch>(message_context{}, b);
  return honest(m.payload());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    spdlog::set_level(spdlog::level::off);
    return true;
  }();
  if (!quiet || size < 1 || size > max_message_bytes / 2) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  if (data[0] % 3 == 0)
    live(rest);
  else
    live(data[0] % 3 == 1 ? honest(rest) : stage(rest));
  return 0;
}

// Which message stands for which moment.
#include "actors/sim/days/recovery_watch.hpp"

#include "messages/msg.hpp"
#include "messages/registry.hpp"
#include "messages/schemas/train_generated.h"

namespace troupe::sim {

namespace {

template <class T>
bool is(const any_msg& m) {
  return m.type() == message_traits<T>::id;
}

template <class T>
const T& root(const any_msg& m) {
  return *flatbuffers::GetRoot<T>(m.payload().data());
}

}  // namespace

recovery_times* recovery_watch::open() noexcept {
  return recoveries_.empty() || recoveries_.back().stepped_ns != 0 ? nullptr : &recoveries_.back();
}

void recovery_watch::see(const any_msg& m, int64_t now_ns) {
  if (is<fbs::Recover>(m)) return notice(m.epoch(), now_ns);
  if (is<fbs::RunStep>(m)) return begin_step(root<fbs::RunStep>(m).step(), m.epoch(), now_ns);
  if (is<fbs::StepReport>(m)) return end_step(root<fbs::StepReport>(m).step(), m.epoch(), now_ns);
  auto* now = open();
  if (now == nullptr) return;
  if (is<fbs::Suspended>(m)) now->quiet_ns = now_ns;
  if (is<fbs::Assign>(m) && now->members_ns == 0) {
    now->members_ns = now_ns;
    ledger_.members_there(now_ns);
  }
  if (is<fbs::LoadCheckpoint>(m) && now->connected_ns == 0) {
    now->connected_ns = now_ns;
    ledger_.connected(now_ns);
  }
}

/// Who is lost is known when it is noticed.
void recovery_watch::notice(uint32_t epoch, int64_t now_ns) {
  recovery_times r;
  for (const auto& f : faults_)
    if (const auto at_ns = virtual_clock::begin_ns + f.at_ns; at_ns <= now_ns) r.fault_ns = at_ns;
  r.epoch = epoch;
  r.noticed_ns = now_ns;
  recoveries_.push_back(r);
  ledger_.noticed(r.fault_ns, now_ns);
  ledger_.named(now_ns);
}

void recovery_watch::begin_step(uint64_t step, uint32_t epoch, int64_t now_ns) {
  if (first_step_ns_ == 0) {
    first_step_ns_ = now_ns;
    ledger_.step_began(step, epoch, now_ns);
  }
  auto* now = open();
  if (now == nullptr || now->restored_ns != 0 || epoch < now->epoch) return;
  if (now->connected_ns == 0) {  // there was nothing to load
    now->connected_ns = now_ns;
    ledger_.connected(now_ns);
  }
  now->restored_ns = now_ns;
  now->step = step - 1;
  ledger_.restored(step - 1, epoch, now_ns);
}

void recovery_watch::end_step(uint64_t step, uint32_t epoch, int64_t now_ns) {
  ledger_.step_ended(step, epoch, now_ns);
  if (auto* now = open(); now != nullptr && now->restored_ns != 0) now->stepped_ns = now_ns;
}

}  // namespace troupe::sim

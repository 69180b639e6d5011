// Timers, jobs, and the turn of each.
#include "actors/sim/scheduler.hpp"

#include <utility>

#include <caf/actor_system.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/resumable.hpp>
#include <caf/system_messages.hpp>

namespace troupe::sim {

namespace {

int64_t ns_of(caf::actor_clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

/// What CAF prints of an actor that died of an exception goes to nobody: the simulation tells it by
/// the registry.
class silent_printer : public caf::monitorable_actor {
 public:
  explicit silent_printer(caf::actor_config& config) : monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr, caf::execution_unit*) override {}
};

due timeout_of(caf::abstract_actor* self, caf::atom_value type, uint64_t id) {
  due d;
  d.what = due::kind::timeout;
  d.actor = self->ctrl();
  d.type = type;
  d.number = id;
  return d;
}

}  // namespace

// -- clock ----------------------------------------------------------------------------------------

void virtual_clock::set_ordinary_timeout(time_point t, caf::abstract_actor* self,
                                         caf::atom_value type, uint64_t id) {
  queue_.add(ns_of(t), timeout_of(self, type, id));  // an overtaken one is known by its number
}

void virtual_clock::set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                      uint64_t id) {
  queue_.add(ns_of(t), timeout_of(self, type, id));
}

void virtual_clock::set_request_timeout(time_point t, caf::abstract_actor* self,
                                        caf::message_id id) {
  due d;
  d.what = due::kind::request_timeout;
  d.actor = self->ctrl();
  d.request = id;
  requests_[{self->id(), id.integer_value()}] = queue_.add(ns_of(t), std::move(d));
}

void virtual_clock::cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) {
  cancel_request(self->id(), id);
}

void virtual_clock::cancel_request(caf::actor_id actor, caf::message_id id) {
  const auto it = requests_.find({actor, id.integer_value()});
  if (it == requests_.end()) return;
  queue_.cancel(it->second);
  requests_.erase(it);
}

void virtual_clock::schedule_message(time_point t, caf::strong_actor_ptr receiver,
                                     caf::mailbox_element_ptr content) {
  due d;
  d.what = due::kind::message;
  d.actor = std::move(receiver);
  d.content = std::move(content);
  queue_.add(ns_of(t), std::move(d));
}

void virtual_clock::schedule_message(time_point, caf::group, caf::strong_actor_ptr, caf::message) {
  // No actor of ours uses CAF's groups (deprecated).
}

void virtual_clock::cancel_all() {
  queue_.clear();
  requests_.clear();
}

void virtual_clock::call_at(int64_t time_ns, std::function<void()> call) {
  due d;
  d.what = due::kind::call;
  d.call = std::move(call);
  queue_.add(std::max(time_ns, now_ns_), std::move(d));
}

bool virtual_clock::advance() {
  if (!queue_.next_time()) return false;
  auto [time, d] = queue_.pop();
  now_ns_ = std::max(now_ns_, time);  // VSC-2
  ship(std::move(d));
  return true;
}

void virtual_clock::ship(due&& d) {
  switch (d.what) {
    case due::kind::nothing:
      break;
    case due::kind::call:
      d.call();
      break;
    case due::kind::message:
      d.actor->enqueue(std::move(d.content), nullptr);
      break;
    case due::kind::timeout:
      d.actor->get()->eq_impl(caf::make_message_id(), d.actor, nullptr,
                              caf::timeout_msg{d.type, d.number});
      break;
    case due::kind::request_timeout:
      requests_.erase({d.actor->id(), d.request.integer_value()});
      d.actor->get()->eq_impl(d.request, d.actor, nullptr, caf::sec::request_timeout);
      break;
  }
}

// -- scheduler ------------------------------------------------------------------------------------

void virtual_scheduler::start() {
  caf::actor_config config{&here_};
  utility_actors_[printer_id] = caf::make_actor<silent_printer, caf::actor>(
      system().next_actor_id(), system().node(), &system(), config);
}

void virtual_scheduler::stop() {
  clock_.cancel_all();
  while (run_one()) continue;
}

bool virtual_scheduler::run_one() {
  if (jobs_.empty()) return false;
  if (random_ && jobs_.size() > 1) std::swap(jobs_.front(), jobs_[random_->below(jobs_.size())]);
  auto* job = jobs_.front();
  jobs_.pop_front();
  switch (job->resume(&here_, burst_)) {
    case caf::resumable::resume_later:
      jobs_.push_back(job);
      break;
    case caf::resumable::done:
    case caf::resumable::awaiting_message:
      caf::intrusive_ptr_release(job);
      break;
    case caf::resumable::shutdown_execution_unit:
      break;
  }
  return true;
}

}  // namespace troupe::sim

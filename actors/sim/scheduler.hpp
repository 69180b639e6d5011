// CAF's scheduler and clock for a simulation: one thread, virtual time, one message at a time.
//
// CAF has a testing scheduler of its own. This one is loaded in its place for three reasons: its
// clock never forgets the timer of an answered request (CAF 0.17.6 keeps it until it is due, with a
// reference to the actor), so that millions pile up; finding a timer is linear in the timers of the
// actor; and one queue must hold both the timers and what the network delays.
//
// Invariants
//   VSC-1  An actor runs only inside step(), on the thread that calls it.
//   VSC-2  Time moves only when no actor can run, and only to when the next thing is due.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>

#include <caf/actor_clock.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/execution_unit.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include "actors/sim/event_queue.hpp"
#include "actors/sim/rng.hpp"

namespace troupe::sim {

/// Something that is due at a time.
struct due {
  enum class kind : uint8_t { nothing, message, timeout, request_timeout, call } what{};
  caf::strong_actor_ptr actor;
  caf::mailbox_element_ptr content;  ///< of a message
  caf::message_id request;           ///< of a request_timeout
  caf::atom_value type{};            ///< of a timeout
  uint64_t number = 0;               ///< of a timeout
  std::function<void()> call;
};

/// Virtual time.
class virtual_clock : public caf::actor_clock {
 public:
  time_point now() const noexcept override { return time_point(duration_type(now_ns_)); }
  duration_type difference(caf::atom_value, long, time_point t0,
                           time_point t1) const noexcept override {
    return t0 == t1 ? duration_type{1} : t1 - t0;
  }
  void set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                            uint64_t id) override;
  void set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                         uint64_t id) override;
  void set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) override;
  void cancel_ordinary_timeout(caf::abstract_actor*, caf::atom_value) override {}
  void cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) override;
  void cancel_timeouts(caf::abstract_actor*) override {}
  void schedule_message(time_point t, caf::strong_actor_ptr receiver,
                        caf::mailbox_element_ptr content) override;
  void schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                        caf::message content) override;
  void cancel_all() override;

  /// Where it begins: not 0, which means "never" to some.
  static constexpr int64_t begin_ns = 1'000'000;

  int64_t now_ns() const noexcept { return now_ns_; }
  /// The answer of a request has come: its timer goes.
  void cancel_request(caf::actor_id actor, caf::message_id id);
  /// Whether a request is timed.
  bool timed(caf::actor_id actor, caf::message_id id) const {
    return requests_.contains({actor, id.integer_value()});
  }
  /// Calls something later, outside of any actor.
  void call_at(int64_t time_ns, std::function<void()> call);
  /// Moves to the next thing that is due and does it. False: nothing is due.
  bool advance();
  size_t pending() const noexcept { return queue_.size(); }
  std::optional<int64_t> next_time() { return queue_.next_time(); }

 private:
  struct request_key {
    caf::actor_id actor;
    uint64_t request;
    bool operator==(const request_key&) const = default;
  };
  struct request_hash {
    size_t operator()(const request_key& k) const noexcept {
      return mix(k.actor * 0x9e3779b97f4a7c15u ^ k.request);
    }
  };

  void ship(due&& d);

  int64_t now_ns_ = begin_ns;
  event_queue<due> queue_;
  std::unordered_map<request_key, event_queue<due>::ticket, request_hash> requests_;
};

/// Runs actors one message at a time.
class virtual_scheduler : public caf::scheduler::abstract_coordinator {
 public:
  explicit virtual_scheduler(caf::actor_system& system) : abstract_coordinator(system) {}

  /// For actor_system_config::load.
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new virtual_scheduler(system);
  }
  static virtual_scheduler& of(caf::actor_system& system) {
    return static_cast<virtual_scheduler&>(system.scheduler());
  }

  void enqueue(caf::resumable* what) override { jobs_.push_back(what); }
  virtual_clock& clock() noexcept override { return clock_; }
  bool detaches_utility_actors() const override { return false; }
  void start() override;
  void stop() override;

  /// Messages an actor may handle before another has its turn; 1: each message is an event.
  void set_burst(size_t messages) { burst_ = messages; }
  /// From now on which actor runs next is drawn by random; otherwise the one that waits longest.
  void shuffle(rng random) { random_ = random; }

  bool idle() const noexcept { return jobs_.empty(); }
  /// Lets one actor run. False: none can.
  bool run_one();

 private:
  /// What actors schedule others with; actors keep a pointer to it beyond their turn.
  class unit : public caf::execution_unit {
   public:
    unit(caf::actor_system* system, std::deque<caf::resumable*>& jobs)
        : execution_unit(system), jobs_(jobs) {}
    void exec_later(caf::resumable* job) override { jobs_.push_back(job); }

   private:
    std::deque<caf::resumable*>& jobs_;
  };

  std::deque<caf::resumable*> jobs_;
  unit here_{&system_, jobs_};
  virtual_clock clock_;
  size_t burst_ = 1;
  std::optional<rng> random_;
};

}  // namespace troupe::sim

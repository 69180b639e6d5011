// One actor by itself: it runs on the test's thread and on virtual time, and whoever it speaks to
// is a partner, which notes what it is told and answers what the test says, or an error, or
// nothing.
//
//   actor_fixture f(7);                      // the epoch of what partners say
//   partner committer = f.make_partner("committer");
//   auto run = f.spawn(train::run, options_with(committer.as<committer_actor>()));
//   committer.take<fbs::OpenFolder>().refuse({errc::io, "no such disk"});
//
// Invariants
//   AFX-1  An actor runs only inside a call of the fixture or of a partner, and has nothing left to
//     do when that returns.
//   AFX-2  Time moves in pass() only.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/send.hpp>
#include <caf/system_messages.hpp>

#include "actors/base/traced.hpp"
#include "actors/sim/scheduler.hpp"
#include "messages/errors.hpp"
#include "messages/registry.hpp"

namespace troupe::test {

class actor_fixture;

/// What an actor was told.
struct letter {
  any_msg m;
  caf::message content;  ///< the message and the handles beside it
  caf::strong_actor_ptr from;
  caf::message_id id;
};

/// The actor of a partner: it has no behaviour, only a pile of letters.
class letterbox : public caf::monitorable_actor {
 public:
  letterbox(caf::actor_config& config, std::string name, std::vector<std::string>* diary)
      : monitorable_actor(config), name_(std::move(name)), diary_(diary) {}

  void enqueue(caf::mailbox_element_ptr e, caf::execution_unit*) override {
    if (gone) return bounce(e);
    const auto* found = detail::message_in(*e);
    letter l{found != nullptr ? *found : any_msg(), {}, e->sender, e->mid};
    if (e->content().match_elements<caf::exit_msg>()) {
      told_to_exit = true;
      return;
    }
    l.content = e->move_content_to_message();
    if (e->mid.is_response()) {
      const auto number = e->mid.request_id().integer_value();
      answered.push_back(number);
      answers.emplace(number, std::move(l));
      return;
    }
    if (!l.m) return;  // news of somebody's end
    diary_->push_back(name_ + " " + std::string(find_message(l.m.type())->name));
    letters.push_back(std::move(l));
  }

  const std::string& title() const { return name_; }

  bool gone = false;
  bool told_to_exit = false;
  std::deque<letter> letters;  ///< those that the test has not taken
  std::map<uint64_t, letter> answers;
  std::vector<uint64_t> answered;  ///< in the order in which the answers came
  uint64_t last_request = 0;

 private:
  std::string name_;
  std::vector<std::string>* diary_;
};

/// A letter that holds a T.
template <class T>
class told {
 public:
  told(letter l, caf::strong_actor_ptr to, actor_fixture* where)
      : m(cast<T>(l.m)), letter_(std::move(l)), to_(std::move(to)), where_(where) {}

  const T* operator->() const { return m.get(); }
  /// The handles beside the message.
  std::vector<caf::strong_actor_ptr> handles() const {
    return letter_.content.match_element<std::vector<caf::strong_actor_ptr>>(1)
               ? letter_.content.get_as<std::vector<caf::strong_actor_ptr>>(1)
               : std::vector<caf::strong_actor_ptr>();
  }
  caf::strong_actor_ptr handle(size_t at) const {
    return letter_.content.get_as<caf::strong_actor_ptr>(at);
  }
  bool is_request() const { return letter_.id.is_request(); }
  /// It overtakes what waits in a mailbox.
  bool is_urgent() const { return letter_.id.is_urgent_message(); }

  template <class R, class Fill, class... Ts>
  void answer(Fill fill, Ts... beside) const;
  template <class R>
  void answer() const {
    answer<R>([](auto&) {});
  }
  void refuse(const error& why) const;

  msg<T> m;

 private:
  letter letter_;
  caf::strong_actor_ptr to_;
  actor_fixture* where_;
};

/// Whom the actor speaks to.
class partner {
 public:
  partner() = default;
  partner(caf::strong_actor_ptr box, actor_fixture* where) : box_(std::move(box)), where_(where) {}

  template <class Handle>
  Handle as() const {
    return caf::actor_cast<Handle>(box_);
  }
  caf::strong_actor_ptr self() const { return box_; }

  /// The oldest letter that the test has not taken; it must be a T.
  template <class T>
  told<T> take() const {
    REQUIRE_MESSAGE(!box().letters.empty(), (box().title() + " was told nothing"));
    CAPTURE(to_string(box().letters.front().m));
    REQUIRE_MESSAGE(box().letters.front().m.type() == message_traits<T>::id, box().title());
    return pull<T>(0);
  }
  /// All letters that hold a T; the others stay.
  template <class T>
  std::vector<told<T>> take_all() const {
    std::vector<told<T>> out;
    for (size_t i = 0; i < box().letters.size();)
      if (box().letters[i].m.type() == message_traits<T>::id)
        out.push_back(pull<T>(i));
      else
        ++i;
    return out;
  }
  /// The test has taken all that it was told.
  bool idle() const { return box().letters.empty(); }
  bool was_told_to_exit() const { return box().told_to_exit; }

  template <class Handle, class... Ts>
  void tell(const Handle& whom, Ts... content) const;
  /// Returns the number by which the answer is found.
  template <class Handle, class... Ts>
  uint64_t ask(const Handle& whom, Ts... content) const;
  /// What was answered, in that order.
  const std::vector<uint64_t>& answered() const { return box().answered; }
  /// errc::timeout: there is none yet.
  template <class R>
  result<msg<R>> answer_of(uint64_t request) const {
    const auto it = box().answers.find(request);
    if (it == box().answers.end()) return error{errc::timeout, "no answer"};
    const auto& l = it->second;
    if (l.content.match_elements<caf::error>()) return from_caf(l.content.get_as<caf::error>(0));
    REQUIRE(l.m.type() == message_traits<R>::id);
    return cast<R>(l.m);
  }
  /// The handle beside an answer.
  caf::strong_actor_ptr handle_beside(uint64_t request) const {
    return box().answers.at(request).content.get_as<caf::strong_actor_ptr>(1);
  }
  /// The handles beside an answer, where there may be any number.
  std::vector<caf::strong_actor_ptr> handles_beside(uint64_t request) const {
    return box().answers.at(request).content.get_as<std::vector<caf::strong_actor_ptr>>(1);
  }

  /// As if its process had gone: what it was asked is answered with that, and those who watch it
  /// are told.
  void die() const;

 private:
  letterbox& box() const { return *static_cast<letterbox*>(box_->get()); }

  template <class T>
  told<T> pull(size_t at) const {
    auto& all = box().letters;
    letter l = std::move(all[at]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
    return {std::move(l), box_, where_};
  }

  caf::strong_actor_ptr box_;
  actor_fixture* where_ = nullptr;
};

class actor_fixture {
 public:
  explicit actor_fixture(uint32_t epoch) : epoch_(epoch) {
    config_.add_message_type<std::vector<caf::strong_actor_ptr>>("handles");
    config_.load<sim::virtual_scheduler>();
    system_ = std::make_unique<caf::actor_system>(config_);
    system_->await_actors_before_shutdown(false);
    scheduler_ = &sim::virtual_scheduler::of(*system_);
  }
  ~actor_fixture() {
    for (const auto& a : actors_)
      if (auto living = caf::actor_cast<caf::strong_actor_ptr>(a))
        caf::anon_send_exit(caf::actor_cast<caf::actor>(living), caf::exit_reason::kill);
    settle();
    scheduler_->clock().cancel_all();
    for (const auto& p : partners_) {  // letters hold the handles of others
      auto* box = static_cast<letterbox*>(p->get());
      box->letters.clear();
      box->answers.clear();
    }
  }
  actor_fixture(const actor_fixture&) = delete;
  actor_fixture& operator=(const actor_fixture&) = delete;

  troupe::runtime& runtime() const { return *config_.own; }

  /// `process`: where it seems to live; none: in the actors' own.
  partner make_partner(const std::string& name, const caf::node_id& process = {}) {
    caf::actor_config config;
    partners_.push_back(caf::make_actor<letterbox, caf::strong_actor_ptr>(
        system_->next_actor_id(), process ? process : system_->node(), system_.get(), config, name,
        &diary));
    return {partners_.back(), this};
  }
  template <class F, class... Ts>
  auto spawn(F behaviour, Ts&&... arguments) {
    const auto handle = system_->spawn(behaviour, std::forward<Ts>(arguments)...);
    actors_.push_back(caf::actor_cast<caf::weak_actor_ptr>(handle));
    settle();
    return handle;
  }
  template <class Handle>
  bool lives(const Handle& actor) const {
    return !actor->getf(caf::abstract_actor::is_terminated_flag);
  }

  /// Lets all actors do what they can.
  void settle() {
    while (scheduler_->run_one()) continue;
  }
  /// Time passes, and what is due in it happens.
  void pass(std::chrono::nanoseconds time) {
    auto& clock = scheduler_->clock();
    const auto until_ns = clock.now_ns() + time.count();
    clock.call_at(until_ns, [] {});
    for (auto next = clock.next_time(); next && *next <= until_ns; next = clock.next_time()) {
      clock.advance();
      settle();
    }
  }

  int64_t now_ns() const { return scheduler_->clock().now_ns(); }

  /// Puts a message into a mailbox, and lets it be handled.
  template <class... Ts>
  void deliver(const caf::strong_actor_ptr& from, const caf::strong_actor_ptr& to,
               caf::message_id id, Ts... content) {
    if (id.is_response()) scheduler_->clock().cancel_request(to->id(), id);
    to->enqueue(caf::make_mailbox_element(from, id, {}, std::move(content)...), nullptr);
    settle();
  }

  /// For what partners say.
  message_context context() const { return context_of(epoch_); }
  static message_context context_of(uint32_t epoch) {
    message_context c;
    c.epoch = epoch;
    return c;
  }
  template <class T, class Fill>
  msg<T> make(Fill fill) const {
    return make_msg<T>(context(), fill);
  }

  /// "stage/0 RunStep": who was told what, in this order.
  std::vector<std::string> diary;

 private:
  uint32_t epoch_;
  runtime_config config_;
  std::unique_ptr<caf::actor_system> system_;
  sim::virtual_scheduler* scheduler_ = nullptr;
  std::vector<caf::weak_actor_ptr> actors_;
  std::vector<caf::strong_actor_ptr> partners_;
};

template <class T>
template <class R, class Fill, class... Ts>
void told<T>::answer(Fill fill, Ts... beside) const {
  REQUIRE(is_request());
  where_->deliver(to_, letter_.from, letter_.id.response_id(), where_->template make<R>(fill),
                  std::move(beside)...);
}

template <class T>
void told<T>::refuse(const error& why) const {
  REQUIRE(is_request());
  where_->deliver(to_, letter_.from, letter_.id.response_id(), to_caf(why));
}

template <class Handle, class... Ts>
void partner::tell(const Handle& whom, Ts... content) const {
  where_->deliver(box_, caf::actor_cast<caf::strong_actor_ptr>(whom), caf::make_message_id(),
                  std::move(content)...);
}

template <class Handle, class... Ts>
uint64_t partner::ask(const Handle& whom, Ts... content) const {
  const auto number = ++box().last_request;
  where_->deliver(box_, caf::actor_cast<caf::strong_actor_ptr>(whom), caf::make_message_id(number),
                  std::move(content)...);
  return number;
}

inline void partner::die() const {
  box().gone = true;
  const auto asked = std::exchange(box().letters, {});
  box().cleanup(caf::exit_reason::remote_link_unreachable, nullptr);
  for (const auto& l : asked)
    if (l.id.is_request())
      where_->deliver(box_, l.from, l.id.response_id(),
                      caf::make_error(caf::sec::request_receiver_down));
  where_->settle();
}

}  // namespace troupe::test

// Polls, reads, sets and answers; see agent_server.hpp.
#include "gpu/controls/agent_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpu/controls/agent_desk_policy.hpp"
#include "gpu/controls/event_rate_policy.hpp"
#include "gpu/controls/setting_governor.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "gpu/controls/setting_port.hpp"

namespace troupe::gpu::controls {

namespace {

agent_outcome outcome_of(const error& e) {
  if (e.is(setting_governed)) return agent_outcome::governed;
  if (e.is(setting_held_lower)) return agent_outcome::held_lower;
  return e.is(setting_not_held) ? agent_outcome::refused : agent_outcome::failed;
}

void put_reason(agent_answer& into, const error& e) {
  into.outcome = outcome_of(e);
  into.why = e.message;
}

std::string shown(const agent_desk_policy::tenant& t) {
  return fmt::format("{} of launch {:016x}, by user {}", t.job, t.launch, t.uid);
}

}  // namespace

std::string_view to_string(agent_event::type what) {
  switch (what) {
    case agent_event::type::taken:
      return "agent_taken";
    case agent_event::type::set:
      return "agent_set";
    case agent_event::type::let_go:
      return "agent_let_go";
    case agent_event::type::refused:
      return "agent_refused";
    case agent_event::type::left_out:
      return "agent_left_out";
  }
  return "";
}

/// What the thread does, and nobody else.
class agent_server::work {
 public:
  work(agent_server_options options, std::shared_ptr<machine_controls> controls,
       io::local_listener listener, int bell)
      : options_(std::move(options)),
        controls_(std::move(controls)),
        listener_(std::move(listener)),
        bell_(bell) {}

  /// Until the bell.
  void serve() {
    while (turn()) continue;
    while (!clients_.empty()) drop(clients_.begin(), "");  // AGS-1
    tell_left_out(true);
  }

 private:
  using agent_clock = std::chrono::steady_clock;

  /// A connection, and where it is with its message.
  struct agent_client {
    uint64_t number = 0;
    io::unique_fd fd;
    io::socket_peer peer = {};
    std::optional<setting_target> target = {};  ///< it has said which
    control_owner owner = {};
    int pace_of_1024 = whole_pace;
    bool may_clock = false, has_clock = false;  ///< AGS-6
    std::array<std::byte, most_agent_message_bytes> in{};
    size_t read = 0;  ///< of it
    std::vector<std::byte> out = {};
    size_t sent = 0;                                     ///< of it
    std::string refused = {};                            ///< what it was told last of that
    agent_clock::time_point since = agent_clock::now();  ///< AGS-2: of what has to go on

    bool is_answered() const { return sent == out.size(); }
    bool may_be_silent() const { return target && read == 0 && is_answered(); }
  };
  using place = std::list<agent_client>::iterator;

  bool turn() {
    std::vector<pollfd> at{{bell_, POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    for (const auto& c : clients_)
      at.push_back({c.fd.get(), static_cast<short>(c.is_answered() ? POLLIN : POLLOUT), 0});
    if (::poll(at.data(), at.size(), wait_ms()) < 0 && errno != EINTR) return false;
    if (at[0].revents != 0) return false;
    size_t i = 2;
    for (auto c = clients_.begin(); c != clients_.end();) {
      const auto here = c++;
      const auto seen = at[i++].revents;
      if (seen != 0)
        go_on(here);
      else if (!here->may_be_silent() && agent_clock::now() - here->since >= options_.patience)
        drop(here, "it took too long");  // AGS-2
    }
    if (at[1].revents != 0) welcome();
    tell_left_out(false);
    return true;
  }

  /// Until the next one that may not be silent has had its time, or a number is to be told.
  int wait_ms() const {
    using std::chrono::milliseconds;
    std::optional<agent_clock::time_point> next;
    for (const auto& c : clients_)
      if (!c.may_be_silent() && (!next || c.since + options_.patience < *next))
        next = c.since + options_.patience;
    std::optional<milliseconds> left;
    if (next) left = std::chrono::ceil<milliseconds>(*next - agent_clock::now());
    for (const auto& [rate, of] : rates_) {
      if (!rate.due_ns()) continue;
      const std::chrono::nanoseconds until(*rate.due_ns() - options_.now_ns());
      const auto told_in = std::chrono::ceil<milliseconds>(until);
      left = left ? std::min(*left, told_in) : told_in;
    }
    return left ? static_cast<int>(std::max<int64_t>(0, left->count())) : -1;
  }

  /// Empty: there is one. AGS-2, AGS-5
  std::string no_place_for(int64_t uid) const {
    if (clients_.size() >= most_agent_clients)
      return fmt::format("{} are served already", most_agent_clients);
    const auto of_user =
        std::ranges::count_if(clients_, [&](const auto& c) { return c.peer.uid == uid; });
    if (static_cast<size_t>(of_user) < most_clients_of_user) return {};
    return fmt::format("user {} has {} connections here already, as many as one may have", uid,
                       of_user);
  }

  void welcome() {
    agent_client c;
    c.fd = listener_.accept();
    if (!c.fd) {
      // Short of descriptors whoever waits is there at once again: not as fast as can be.
      if (errno != EAGAIN) static_cast<void>(::poll(nullptr, 0, 100));
      return;
    }
    const auto peer = options_.peer_of(c.fd.get());
    if (!peer) return;
    c.peer = *peer;
    c.number = ++numbers_;
    agent_answer full{0, agent_outcome::refused, no_place_for(peer->uid), options_.agent, {}};
    if (full.why.empty()) {
      clients_.push_back(std::move(c));
      return;
    }
    const auto bytes = to_bytes(full);
    static_cast<void>(::send(c.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    tell(agent_event::type::refused, c, full.why);
  }

  void go_on(place c) {
    const auto done = c->is_answered() ? read_some(*c) : send_some(*c);
    if (!done) return drop(c, done.error().message);
    if (c->read < 4) return;
    const auto bytes = agent_message_bytes(std::span(c->in).first(c->read));
    if (!bytes) return drop(c, bytes.error().message);
    if (c->read < bytes->value_or(c->read + 1)) return;
    const auto request = parse_agent_request(std::span(c->in).first(c->read));
    if (!request) return drop(c, request.error().message);
    c->read = 0;
    const auto now = agent_clock::now();
    if (c->target || request->verb == agent_verb::take)
      c->since = now;
    else if (now - c->since >= options_.patience)  // whatever else it asks meanwhile
      return drop(c, "it has not said for whom it asks");
    auto answer = answer_to(*c, *request);
    answer.sequence = request->sequence;
    answer.agent = options_.agent;
    c->out = to_bytes(answer);
    c->sent = 0;
    if (const auto sent = send_some(*c); !sent) drop(c, sent.error().message);
  }

  /// Never more than one message (AGS-3), and its prefix first.
  static status read_some(agent_client& c) {
    size_t wanted = 4;
    if (c.read >= wanted) {
      TROUPE_TRY(bytes, agent_message_bytes(std::span(c.in).first(c.read)));
      wanted = bytes.value_or(wanted);
    }
    const auto got = ::recv(c.fd.get(), c.in.data() + c.read, wanted - c.read, MSG_DONTWAIT);
    if (got == 0) return error{errc::none, ""};  // it has gone
    if (got < 0)
      return errno == EAGAIN || errno == EINTR ? status{} : status{error{errc::none, ""}};
    if (c.read == 0 && c.target) c.since = agent_clock::now();
    c.read += static_cast<size_t>(got);
    return {};
  }

  static status send_some(agent_client& c) {
    const auto left = std::span(c.out).subspan(c.sent);
    const auto sent = ::send(c.fd.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
      return errno == EAGAIN || errno == EINTR ? status{} : status{error{errc::none, ""}};
    c.sent += static_cast<size_t>(sent);
    return {};
  }

  agent_answer answer_to(agent_client& c, const agent_request& r) {
    switch (r.verb) {
      case agent_verb::take:
        return take(c, r);
      case agent_verb::set:
        return set(c, r.pace_of_1024);
      case agent_verb::facts:
        return with_facts(c, {});
      case agent_verb::let_go:
        let_go(c);
        return {};
      case agent_verb::clock:
      case agent_verb::check_clock:
        return clock(c, r);
    }
    return {};
  }

  agent_answer take(agent_client& c, const agent_request& r) {
    agent_answer out;
    const bool is_another = c.target.has_value();
    if (!is_another) c.owner = r.owner;  // else what is told of its device would name another's
    const auto facts = controls_->facts_of(r.target);
    if (is_another) {
      out.outcome = agent_outcome::refused;
      out.why = "this connection has a device already";
    } else if (!facts) {
      put_reason(out, facts.error());
    } else if (const auto has = desk_.take(c.number, device_of(r.target),
                                           {r.owner.job, r.owner.launch, c.peer.uid})) {
      out.outcome = agent_outcome::governed;
      out.why = shown(*has);
    } else {
      c.target = r.target;
      out.facts = *facts;
      out.clocks_mhz = clocks_for(c);
      tell(agent_event::type::taken, c, "");
      return out;
    }
    tell_refusal(c, r.target, out.why);
    return out;
  }

  agent_answer set(agent_client& c, int pace_of_1024) {
    agent_answer out;
    if (!desk_.set(c.number, pace_of_1024)) {
      out.outcome = agent_outcome::refused;
      out.why = "no device was taken";
      return out;
    }
    const bool is_new = std::exchange(c.pace_of_1024, pace_of_1024) != pace_of_1024;
    const auto done = controls_->wish(*c.target, desk_.wish_of(device_of(*c.target)));
    if (!done) put_reason(out, done.error());
    if (is_new) tell(agent_event::type::set, c, done ? "" : done.error().message);
    return with_facts(c, std::move(out));
  }

  /// Which it may ask for from now on. AGS-6
  std::vector<int> clocks_for(agent_client& c) {
    std::vector<int> out;
    if (desk_.has_alone(c.number)) {
      if (auto clocks = controls_->clocks_of(*c.target)) out = std::move(*clocks);
    } else {
      for (auto& other : clients_)
        if (other.target && device_of(*other.target) == device_of(*c.target)) undo_clock(other);
    }
    c.may_clock = !out.empty();
    return out;
  }

  agent_answer clock(agent_client& c, const agent_request& r) {
    agent_answer out;
    if (!c.target || !c.may_clock || !desk_.has_alone(c.number)) {
      out.outcome = agent_outcome::refused;
      out.why = "no clock is set for it";
      return out;
    }
    const bool sets = r.verb == agent_verb::clock;
    c.has_clock = c.has_clock || sets;
    const auto done =
        sets ? controls_->set_clock(*c.target, r.clock_mhz) : controls_->check_clock(*c.target);
    if (!done) put_reason(out, done.error());
    if (!done || sets) return out;
    out.why = controls_->take_note(*c.target);
    out.given_back_to = controls_->given_back_to(*c.target);
    return out;
  }

  /// What a device does not take now goes with its governor.
  void undo_clock(agent_client& c) {
    if (std::exchange(c.has_clock, false))
      static_cast<void>(controls_->set_clock(*c.target, highest_clock_mhz));
  }

  agent_answer with_facts(const agent_client& c, agent_answer out) const {
    if (!c.target) {
      out.outcome = agent_outcome::refused;
      out.why = "no device was taken";
    } else if (const auto facts = controls_->facts_of(*c.target)) {
      out.facts = *facts;
    }
    return out;
  }

  /// AGS-1. What a device does not take now is tried with the next pace of all.
  void let_go(agent_client& c) {
    const auto device = desk_.let_go(c.number);
    if (!device) return;
    undo_clock(c);
    const auto done = controls_->wish(*c.target, desk_.wish_of(*device));
    c.pace_of_1024 = whole_pace;
    tell(agent_event::type::let_go, c, done ? "" : done.error().message);
    c.target.reset();
  }

  /// `why`: empty: it has gone by itself.
  void drop(place c, const std::string& why) {
    if (!why.empty()) tell(agent_event::type::refused, *c, why);
    let_go(*c);
    clients_.erase(c);
  }

  /// The same of a rank that asks again and again is told once.
  void tell_refusal(agent_client& c, const setting_target& target, const std::string& why) {
    auto about = fmt::format("{} {}", device_of(target), why);
    if (about == c.refused) return;
    c.refused = std::move(about);
    tell(agent_event::type::refused, c, why);
  }

  /// AGS-7
  struct told_rate {
    event_rate_policy rate;
    const char* of;
  };

  void tell_left_out(bool is_last) {
    for (auto& [rate, of] : rates_) {
      agent_event e;
      e.what = agent_event::type::left_out;
      e.word = of;
      e.count = rate.take_left_out(options_.now_ns(), is_last);
      if (e.count > 0 && options_.tell) options_.tell(e);
    }
  }

  void tell(agent_event::type what, const agent_client& c, const std::string& why) {
    if (!options_.tell) return;
    tell_left_out(false);
    auto& of = rates_[what == agent_event::type::refused ? 0 : 1];
    if (!of.rate.take(options_.now_ns())) return;
    agent_event e;
    e.what = what;
    e.peer = c.peer;
    e.owner = c.owner;
    if (c.target) e.word = to_string(c.target->kind);
    if (c.target) e.gpu = c.target->gpu;
    e.pace_of_1024 = c.pace_of_1024;
    e.why = why;
    options_.tell(e);
  }

  const agent_server_options options_;
  const std::shared_ptr<machine_controls> controls_;
  const io::local_listener listener_;
  const int bell_;
  agent_desk_policy desk_;
  std::array<told_rate, 2> rates_{{{event_rate_policy(most_refusals_told), "refusals"},
                                   {event_rate_policy(most_wishes_told), "wishes"}}};
  std::list<agent_client> clients_;  ///< most_agent_clients at most
  uint64_t numbers_ = 0;
};

agent_server::agent_server(std::unique_ptr<work> of, io::unique_fd bell)
    : bell_(std::move(bell)), work_(std::move(of)), thread_([this] { work_->serve(); }) {}

agent_server::~agent_server() {
  const uint64_t ring = 1;
  while (::write(bell_.get(), &ring, sizeof ring) < 0 && errno == EINTR) continue;
  thread_.join();
}

result<std::unique_ptr<agent_server>> agent_server::start(
    agent_server_options options, std::shared_ptr<machine_controls> controls) {
  io::unique_fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) return error::system("make the bell of an agent's socket", errno);
  TROUPE_TRY(listener, io::local_listener::make(options.socket, options.group));
  auto does = std::make_unique<work>(std::move(options), std::move(controls), std::move(listener),
                                     bell.get());
  return std::unique_ptr<agent_server>(new agent_server(std::move(does), std::move(bell)));
}

}  // namespace troupe::gpu::controls

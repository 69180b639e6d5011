// Asks, and waits for an answer; see agent_actuator.hpp.
#include "gpu/controls/agent_actuator.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "gpu/controls/setting_governor.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "gpu/controls/setting_port.hpp"
#include "io/local_socket.hpp"

namespace troupe::gpu::controls {

namespace {

/// AGA-4
bool is_trusted_agent(int64_t uid, int64_t own_uid) {
  return uid == 0 || uid == own_uid;
}

/// One whole message.
result<agent_answer> receive_answer(int fd, io::socket_deadline until) {
  std::array<std::byte, most_agent_message_bytes> in{};
  const auto all = std::span(in);
  TROUPE_CHECK(io::receive_local(fd, all.first(4), until));
  TROUPE_TRY(bytes, agent_message_bytes(all.first(4)));
  const auto whole = all.first(bytes.value_or(4));
  TROUPE_CHECK(io::receive_local(fd, whole.subspan(4), until));
  return parse_agent_answer(whole);
}

}  // namespace

result<std::unique_ptr<agent_actuator>> agent_actuator::make(const control_place& at,
                                                             const setting_target& target,
                                                             const control_owner& owner) {
  std::unique_ptr<agent_actuator> out(new agent_actuator(at, target.kind));
  const auto refused = [&](const error& e) {
    return agent_refused(to_string(target.kind), at.agent_socket.native(), e.message);
  };
  const auto met = out->connect();
  if (!met && met.error().is(agent_not_trusted)) return met.error();
  if (!met) return refused(met.error());
  const auto taken = out->take(target, owner);
  if (!taken && taken.error().is(agent_gone)) return refused(taken.error());
  if (!taken) return taken.error();
  return out;
}

agent_actuator::~agent_actuator() {
  end();
}

status agent_actuator::connect() {
  TROUPE_TRY(fd, io::connect_local(at_.agent_socket,
                                   std::chrono::steady_clock::now() + at_.agent_patience));
  TROUPE_TRY(peer, at_.peer_of(fd.get()));
  if (!is_trusted_agent(peer.uid, ::geteuid()))
    return agent_not_trusted(at_.agent_socket.native(), peer.uid);
  fd_ = std::move(fd);
  return {};
}

/// AGA-3. Nobody tells when the device is free, so it is asked again.
status agent_actuator::take(const setting_target& target, const control_owner& owner) {
  const auto until = std::chrono::steady_clock::now() + at_.seat_patience;
  agent_request r;
  r.verb = agent_verb::take;
  r.target = target;
  r.owner = owner;
  for (;;) {
    TROUPE_TRY(answer, ask(r));
    agent_ = answer.agent;
    const auto word = to_string(kind_);
    switch (answer.outcome) {
      case agent_outcome::done:
        facts_ = answer.facts;
        clocks_ = answer.clocks_mhz;
        return {};
      case agent_outcome::governed:
        if (std::chrono::steady_clock::now() >= until) return setting_governed(word, answer.why);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      case agent_outcome::held_lower:
      case agent_outcome::refused:
      case agent_outcome::failed:
        return agent_refused(word, at_.agent_socket.native(), answer.why);
    }
  }
}

/// AGA-2
result<agent_answer> agent_actuator::ask(agent_request r) {
  std::lock_guard lock(asking_);
  if (gone_) return agent_gone(at_.agent_socket.native(), "it has ended");
  r.sequence = ++sequence_;
  auto answer = exchange(r);
  if (answer) return answer;
  gone_ = true;
  io::hang_up(fd_.get());
  return agent_gone(at_.agent_socket.native(), answer.error().message);
}

/// An agent that serves enough already says so unasked, and is gone: that is read all the same.
result<agent_answer> agent_actuator::exchange(const agent_request& r) {
  const auto until = std::chrono::steady_clock::now() + at_.agent_patience;
  const auto sent = io::send_local(fd_.get(), to_bytes(r), until);
  auto answer = receive_answer(fd_.get(), until);
  if (!answer) return sent ? answer.error() : sent.error();
  const bool is_full = answer->sequence == 0 && answer->outcome == agent_outcome::refused;
  if (answer->sequence != r.sequence && !is_full)
    return bad_agent_message("it is no answer to what was asked");
  return answer;
}

status agent_actuator::set(int pace_of_1024) {
  if (over_) return {};
  agent_request r;
  r.verb = agent_verb::set;
  r.pace_of_1024 = pace_of_1024;
  const auto answer = ask(r);
  if (over_) return {};
  if (!answer) return answer.error();
  const bool is_done = answer->outcome == agent_outcome::done ||
                       answer->outcome == agent_outcome::held_lower;  // as SGV-7 has it
  if (!is_done) return agent_failed(to_string(kind_), at_.agent_socket.native(), answer->why);
  std::lock_guard lock(mutex_);
  facts_ = answer->facts;
  return {};
}

status agent_actuator::ask_about_clock(agent_verb verb, int mhz) {
  if (over_ || clocks_.empty()) return {};
  agent_request r;
  r.verb = verb;
  r.clock_mhz = std::clamp(mhz, 1, highest_clock_mhz);
  const auto answer = ask(r);
  if (over_) return {};
  if (!answer) return answer.error();
  if (answer->outcome != agent_outcome::done)
    return agent_failed(to_string(kind_), at_.agent_socket.native(), answer->why);
  if (verb == agent_verb::check_clock) given_back_to_ = answer->given_back_to;
  std::lock_guard lock(mutex_);
  if (!answer->why.empty()) note_ = answer->why;
  return {};
}

std::string agent_actuator::take_note() {
  std::lock_guard lock(mutex_);
  return std::exchange(note_, {});
}

status agent_actuator::set_clock(int mhz) {
  return ask_about_clock(agent_verb::clock, mhz);
}

status agent_actuator::check_clock() {
  return ask_about_clock(agent_verb::check_clock, highest_clock_mhz);
}

/// AGA-5. What was asked before is in the agent's hands, and it answers nobody.
void agent_actuator::end() noexcept {
  if (over_.exchange(true) || !fd_) return;
  io::hang_up(fd_.get());
}

actuator_facts agent_actuator::facts() const {
  std::lock_guard lock(mutex_);
  auto out = facts_;
  out.name = to_string(kind_);
  return out;
}

bool agent_actuator::has_gone() const {
  return !over_ && (gone_ || io::has_hung_up(fd_.get()));
}

std::string agent_actuator::set_by() const {
  return fmt::format("the machine's agent {}", agent_);
}

}  // namespace troupe::gpu::controls

// A made machine whose processors an agent sets for ranks of jobs, what it tells of that, and ranks
// that speak to it as they like, for tests of such agents (gpu/controls/agent_server.hpp).
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/controls/agent_server.hpp"
#include "gpu/controls/open_actuator.hpp"
#include "io/local_socket.hpp"
#include "tests/gpu/controls/made_devices.hpp"

namespace troupe::gpu::controls::made {

using event_type = agent_event::type;

/// What the server tells, from its thread.
class heard_events {
 public:
  void hear(const agent_event& e) {
    std::lock_guard lock(mutex_);
    all_.push_back(e);
    told_.notify_all();
  }
  /// The first of a kind, which is about to come: within a minute, whatever the machine does.
  agent_event await(event_type what) {
    std::unique_lock lock(mutex_);
    const auto of_kind = [&](const agent_event& e) { return e.what == what; };
    const bool came = told_.wait_for(lock, std::chrono::minutes(1), [&] {
      return std::find_if(all_.begin(), all_.end(), of_kind) != all_.end();
    });
    REQUIRE(came);
    return *std::find_if(all_.begin(), all_.end(), of_kind);
  }

  size_t count(event_type what) {
    std::lock_guard lock(mutex_);
    return static_cast<size_t>(
        std::count_if(all_.begin(), all_.end(), [&](const auto& e) { return e.what == what; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  std::vector<agent_event> all_;
};

struct served_machine {
  made_devices m;
  heard_events heard;
  std::shared_ptr<machine_controls> controls;
  std::unique_ptr<agent_server> server;
  /// As whom the next ones connect; below 0: as whom they do.
  std::atomic<int64_t> as_user = -1;
  std::atomic<int64_t> now_ns = 0;  ///< by which its minutes are counted

  explicit served_machine(std::chrono::milliseconds patience = std::chrono::hours(1),
                          bool lies = false) {
    m.at.patience = m.at.seat_patience = std::chrono::milliseconds(1);
    m.files->lies = lies;
    auto made = machine_controls::make(m.at, {{{setting_kind::cpufreq, ""}}}, {"rack7", 0, 7});
    REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
    controls = std::move(*made);
    agent_server_options options;
    options.socket = socket();
    options.agent = "rack7";
    options.patience = patience;
    options.tell = [this](const agent_event& e) { heard.hear(e); };
    options.now_ns = [this] { return now_ns.load(); };
    options.peer_of = [this](int fd) {
      auto peer = io::peer_of(fd);
      if (peer && as_user >= 0) peer->uid = as_user;
      return peer;
    };
    auto started = agent_server::start(std::move(options), controls);
    REQUIRE_MESSAGE(started, (started ? "" : render(started.error())));
    server = std::move(*started);
  }
  ~served_machine() { server.reset(); }
  served_machine(const served_machine&) = delete;
  served_machine& operator=(const served_machine&) = delete;

  std::filesystem::path socket() const { return m.folder / "agent.sock"; }
  /// That of a process which may set nothing.
  control_place of_job() const {
    control_place at;
    at.agent_socket = socket();
    at.agent_patience = std::chrono::minutes(1);
    at.seat_patience = std::chrono::milliseconds(1);
    return at;
  }
  result<chosen_actuator> open(const std::vector<std::string>& words, int64_t rank = 0,
                               uint64_t launch = 1) const {
    return open_actuator(words, of_job(), {"tiny", rank, launch}, std::vector{11}, "");
  }
  std::unique_ptr<actuator> control(int64_t rank = 0, uint64_t launch = 1) const {
    auto made = open({"cpufreq"}, rank, launch);
    REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
    REQUIRE(made->control);
    return std::move(made->control);
  }
  std::string clock() const { return m.values(setting_kind::cpufreq)["policy1"]; }
};

/// One that speaks as it likes.
class asker {
 public:
  explicit asker(const served_machine& at) {
    auto made = io::connect_local(at.socket(), soon());
    REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
    fd_ = std::move(*made);
  }
  /// Who was let go meanwhile hears that when he waits for an answer.
  void send(std::span<const std::byte> bytes) const {
    static_cast<void>(io::send_local(fd_.get(), bytes, soon()));
  }
  agent_answer take_for(const control_owner& owner) const {
    agent_request r;
    r.verb = agent_verb::take;
    r.target = {setting_kind::cpufreq, ""};
    r.owner = owner;
    send(to_bytes(r));
    return answer();
  }
  agent_answer ask(agent_verb verb, int pace = whole_pace) const {
    agent_request r;
    r.sequence = 1;
    r.verb = verb;
    r.target = {setting_kind::cpufreq, ""};
    r.owner = {"tiny", 0, 1};
    r.pace_of_1024 = pace;
    send(to_bytes(r));
    return answer();
  }
  agent_answer answer() const {
    std::vector<std::byte> in(4);
    REQUIRE(io::receive_local(fd_.get(), in, soon()));
    in.resize(agent_message_bytes(in)->value());
    REQUIRE(io::receive_local(fd_.get(), std::span(in).subspan(4), soon()));
    auto read = parse_agent_answer(in);
    REQUIRE(read);
    return *read;
  }
  /// False: it was hung up on.
  bool hears_an_answer() const {
    std::vector<std::byte> in(4);
    if (!io::receive_local(fd_.get(), in, soon())) return false;
    in.resize(agent_message_bytes(in)->value());
    return bool{io::receive_local(fd_.get(), std::span(in).subspan(4), soon())};
  }
  /// Which it does: nothing else is to come.
  bool is_hung_up_on() const {
    std::vector<std::byte> in(1);
    const auto got = io::receive_local(fd_.get(), in, soon());
    return !got && got.error().code != errc::timeout;
  }

 private:
  static io::socket_deadline soon() {
    return std::chrono::steady_clock::now() + std::chrono::minutes(1);
  }
  io::unique_fd fd_;
};

}  // namespace troupe::gpu::controls::made

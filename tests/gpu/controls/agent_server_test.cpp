// The agent of a made machine sets devices for ranks of jobs without the right: for one job at a
// time, never faster than all are held at, and for nobody who is gone.
#include "gpu/controls/agent_server.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/controls/agent_actuator.hpp"
#include "gpu/controls/clock_setter.hpp"
#include "gpu/controls/open_actuator.hpp"
#include "gpu/controls/seat.hpp"
#include "tests/gpu/controls/made_devices.hpp"
#include "tests/gpu/controls/scripted_agent.hpp"
#include "tests/gpu/controls/served_machine.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;
using namespace troupe::gpu::controls::made;
using namespace std::chrono_literals;

namespace {

const std::string found = "3000000\n", half = "1500000\n";  // a quarter of the pace

}  // namespace

TEST_CASE("OPA-3: agent server: a rank without the right has its pace set, until it lets go") {
  served_machine at;
  auto chosen = at.open({"cpufreq", "pace"});
  REQUIRE(chosen);
  REQUIRE(chosen->control);
  auto& control = *chosen->control;
  CHECK(control.set_by().find("rack7") != std::string::npos);
  REQUIRE(control.set(256));
  CHECK(at.clock() == half);
  const auto facts = control.facts();
  CHECK(facts.name == "cpufreq");
  CHECK(facts.saves_energy);
  CHECK(facts.least > 0);
  CHECK(facts.p99_ns);
  CHECK(control.sets_clocks());
  CHECK_FALSE(control.has_gone());
  CHECK(at.heard.await(event_type::taken).owner.job == "tiny");
  const auto set = at.heard.await(event_type::set);
  CHECK(set.pace_of_1024 == 256);
  CHECK(set.word == "cpufreq");
  CHECK(set.peer == io::socket_peer{::getpid(), ::getuid(), ::getgid()});  // AGS-4
  control.end();
  at.heard.await(event_type::let_go);
  CHECK(at.clock() == found);
  CHECK(control.set(256));  // it has ended
  CHECK(at.clock() == found);
  CHECK_FALSE(control.has_gone());
}

TEST_CASE("MCT-6: agent server: of what all are held at and a job's wish the lower is set") {
  served_machine at;
  const auto control = at.control();
  REQUIRE(at.controls->set(256));
  CHECK(at.clock() == half);
  REQUIRE(control->set(512));
  CHECK(at.clock() == half);
  REQUIRE(at.controls->set(whole_pace));
  const auto of_job = at.clock();
  CHECK(of_job != found);
  CHECK(of_job != half);
  CHECK(at.controls->held_at() == 512);
  REQUIRE(at.controls->set(256));
  REQUIRE(control->set(whole_pace));
  CHECK(at.clock() == half);
  REQUIRE(at.controls->set(whole_pace));
  CHECK(at.clock() == found);
}

TEST_CASE("AGD-1: agent server: another job is told who has the device, and has it after that") {
  served_machine at;
  auto control = at.control();
  const auto another = at.open({"cpufreq", "rapl"}, 0, 2);
  REQUIRE_FALSE(another);
  CHECK(another.error().is(setting_governed));
  CHECK(is_not_offered(another.error()));
  const auto pauses = at.open({"cpufreq", "pace"}, 0, 2);
  REQUIRE(pauses);
  CHECK_FALSE(pauses->control);
  control.reset();
  at.heard.await(event_type::let_go);
  CHECK(at.control(0, 2)->set(256));
}

TEST_CASE("AGD-2: agent server: of the ranks of a job on a device the slowest counts") {
  served_machine at;
  const auto first = at.control(0), second = at.control(1);
  REQUIRE(first->set(256));
  REQUIRE(second->set(whole_pace));
  CHECK(at.clock() == half);
  REQUIRE(first->set(whole_pace));
  CHECK(at.clock() == found);
}

TEST_CASE("AGS-1: agent server: a rank that is gone without a word has no wish any more") {
  served_machine at;
  {
    const asker rank(at);
    CHECK(rank.ask(agent_verb::take).outcome == agent_outcome::done);
    CHECK(rank.ask(agent_verb::set, 256).outcome == agent_outcome::done);
    CHECK(at.clock() == half);
  }
  CHECK(at.heard.await(event_type::let_go).owner.job == "tiny");
  CHECK(at.clock() == found);
  CHECK(at.control(0, 2)->set(256));
}

TEST_CASE("AGS-1: agent server: what cannot be understood is told, let go, and sets nothing") {
  served_machine at;
  const auto control = at.control();
  REQUIRE(control->set(256));
  for (const size_t bytes : {4, 40, 4000}) {
    const asker stranger(at);
    stranger.send(std::vector<std::byte>(bytes, std::byte{0xff}));
    CHECK(stranger.is_hung_up_on());
  }
  const auto told = at.heard.await(event_type::refused);
  CHECK(told.owner.job.empty());
  CHECK(told.peer.pid == ::getpid());
  CHECK_FALSE(told.why.empty());
  {
    const asker rank(at);
    CHECK(rank.ask(agent_verb::set, 128).outcome == agent_outcome::refused);  // none is taken
    CHECK(rank.ask(agent_verb::facts).outcome == agent_outcome::refused);
    CHECK(rank.ask(agent_verb::let_go).outcome == agent_outcome::done);
  }
  CHECK(at.clock() == half);
  CHECK_FALSE(control->has_gone());
}

TEST_CASE("AGS-2: agent server: one more than are served is told so, and another has the place") {
  served_machine at;
  std::list<asker> all;
  while (all.size() < most_agent_clients) {
    at.as_user = static_cast<int64_t>(all.size() / most_clients_of_user);
    all.emplace_back(at);
    CHECK(all.back().ask(agent_verb::let_go).outcome == agent_outcome::done);
  }
  at.as_user = 1'000'000;  // who has none of them
  const auto refused = at.open({"cpufreq"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(setting_refused));
  CHECK(is_not_offered(refused.error()));
  CHECK(at.heard.await(event_type::refused).owner.job.empty());
  CHECK(all.front().ask(agent_verb::take).outcome == agent_outcome::done);
  all.pop_front();
  at.heard.await(event_type::let_go);  // its place is free behind that
  CHECK(asker(at).ask(agent_verb::take).outcome == agent_outcome::done);
}

TEST_CASE("AGS-5: agent server: one user takes no other's place, and is told so") {
  served_machine at;
  at.as_user = 1000;
  std::list<asker> all;
  while (all.size() < most_clients_of_user) {
    all.emplace_back(at);
    CHECK(all.back().ask(agent_verb::let_go).outcome == agent_outcome::done);
  }
  const asker one_more(at);
  const auto said = one_more.answer();  // unasked
  CHECK(said.outcome == agent_outcome::refused);
  CHECK(said.why.find("1000") != std::string::npos);
  CHECK(one_more.is_hung_up_on());
  CHECK(at.heard.await(event_type::refused).peer.uid == 1000);
  at.as_user = 1001;
  CHECK(asker(at).ask(agent_verb::let_go).outcome == agent_outcome::done);
  at.as_user = 1000;
  CHECK(all.front().ask(agent_verb::take).outcome == agent_outcome::done);
  all.pop_front();
  at.heard.await(event_type::let_go);  // its place is free behind that
  CHECK(asker(at).ask(agent_verb::take).outcome == agent_outcome::done);
}

TEST_CASE("AGS-2: agent server: who says nothing, or half a message, is let go") {
  served_machine at(1ms);
  const asker silent(at);
  CHECK(silent.is_hung_up_on());
  const asker rank(at);
  agent_request r;
  r.verb = agent_verb::take;
  r.target = {setting_kind::cpufreq, ""};
  r.owner = {"tiny", 0, 1};
  const auto whole = to_bytes(r);
  rank.send(std::span(whole).first(whole.size() / 2));
  CHECK(rank.is_hung_up_on());
  CHECK(at.clock() == found);
}

TEST_CASE("AGS-2: agent server: who asks this and that, but never says for whom, is let go") {
  served_machine at(1s);  // longer than this process is likely to be kept from asking again
  const asker stranger(at);
  agent_request r;
  r.verb = agent_verb::facts;
  const auto until = std::chrono::steady_clock::now() + 60s;
  bool is_let_go = false;
  while (!is_let_go && std::chrono::steady_clock::now() < until) {
    stranger.send(to_bytes(r));
    is_let_go = !stranger.hears_an_answer();
  }
  CHECK(is_let_go);
}

TEST_CASE("AGS-7: agent server: of many refusals some are told, and the rest as a number") {
  served_machine at;
  const auto be_refused = [&] {
    const asker stranger(at);
    stranger.send(std::vector<std::byte>(4, std::byte{0xff}));
    CHECK(stranger.is_hung_up_on());  // it is told before that
  };
  constexpr size_t more = 5;
  for (size_t i = 0; i < most_refusals_told + more; ++i) be_refused();
  CHECK(at.heard.count(event_type::refused) == most_refusals_told);
  CHECK(at.heard.count(event_type::left_out) == 0);
  at.now_ns += 60'000'000'000;
  be_refused();
  CHECK(at.heard.count(event_type::refused) == most_refusals_told + 1);
  const auto told = at.heard.await(event_type::left_out);
  CHECK(told.count == more);
  CHECK(told.word == "refusals");
  for (size_t i = 0; i < most_refusals_told; ++i) be_refused();
  at.server.reset();  // it says what it has counted until then
  CHECK(at.heard.count(event_type::refused) == 2 * most_refusals_told);
  CHECK(at.heard.count(event_type::left_out) == 2);
}

TEST_CASE("AGS-7: agent server: who takes a device again and again fills no journal") {
  served_machine at;
  const asker rank(at);
  for (size_t i = 0; i < most_wishes_told; ++i) {
    REQUIRE(rank.ask(agent_verb::take).outcome == agent_outcome::done);
    REQUIRE(rank.ask(agent_verb::let_go).outcome == agent_outcome::done);
  }
  at.server.reset();
  CHECK(at.heard.count(event_type::taken) + at.heard.count(event_type::let_go) == most_wishes_told);
  const auto told = at.heard.await(event_type::left_out);
  CHECK(told.count == most_wishes_told);
  CHECK(told.word == "wishes");
}

TEST_CASE("agent server: ranks that ask again and again are told of once each") {
  served_machine at;
  const auto control = at.control();
  const asker one(at), other(at);
  for (int i = 0; i < 4; ++i) {
    CHECK(one.take_for({"tiny", 0, 2}).outcome == agent_outcome::governed);
    CHECK(other.take_for({"tiny", 1, 2}).outcome == agent_outcome::governed);
  }
  CHECK(at.heard.count(event_type::refused) == 2);
}

TEST_CASE("AGS-4: agent server: who has a device has it under the name that it was taken by") {
  served_machine at;
  {
    const asker rank(at);
    CHECK(rank.take_for({"tiny", 0, 1}).outcome == agent_outcome::done);
    CHECK(rank.take_for({"another", 0, 1}).outcome == agent_outcome::refused);
  }
  CHECK(at.heard.await(event_type::let_go).owner.job == "tiny");
}

TEST_CASE("AGS-3: agent server: requests that come together are answered one after the other") {
  served_machine at;
  const asker rank(at);
  CHECK(rank.ask(agent_verb::take).outcome == agent_outcome::done);
  std::vector<std::byte> both;
  for (const int pace : {512, 256}) {
    agent_request r;
    r.sequence = static_cast<uint32_t>(pace);
    r.verb = agent_verb::set;
    r.pace_of_1024 = pace;
    const auto one = to_bytes(r);
    both.insert(both.end(), one.begin(), one.end());
  }
  rank.send(both);
  CHECK(rank.answer().sequence == 512);
  CHECK(rank.answer().sequence == 256);
  CHECK(at.clock() == half);
  CHECK(rank.ask(agent_verb::take).outcome == agent_outcome::refused);  // it has one
}

TEST_CASE("AGA-2: agent server: one that ends has let go, and its rank knows that it is gone") {
  served_machine at;
  const auto control = at.control();
  REQUIRE(control->set(256));
  REQUIRE(at.controls->set(512));
  at.server.reset();
  CHECK(at.clock() != half);  // it is all others' again
  CHECK(at.clock() != found);
  CHECK(control->has_gone());
  const auto set = control->set(256);
  REQUIRE_FALSE(set);
  CHECK(set.error().is(agent_gone));
  CHECK(control->has_gone());
  const auto next = at.open({"cpufreq", "pace"});
  REQUIRE(next);
  CHECK_FALSE(next->control);
  REQUIRE(next->passed.size() == 1);
  CHECK(at.open({"cpufreq"}).error().is(setting_refused));
}

TEST_CASE("AGS-6: agent server: who has a device alone has its operations' clocks set there") {
  served_machine at;
  const auto control = at.control();
  REQUIRE(control->sets_clocks());
  const auto clocks = control->clocks_mhz();
  REQUIRE(clocks.size() > 1);
  CHECK(clocks.front() == 3000);
  REQUIRE(control->set_clock(1200));
  CHECK(at.clock() == "1200000\n");
  CHECK(control->check_clock());
  REQUIRE(at.controls->set(256));  // MCT-7: what all are held at, a pace, a clock: the lowest
  CHECK(at.clock() == "1200000\n");
  REQUIRE(control->set_clock(2000));
  CHECK(at.clock() == half);
  REQUIRE(at.controls->set(whole_pace));
  CHECK(at.clock() == "2000000\n");
  REQUIRE(control->set(256));
  CHECK(at.clock() == half);
  REQUIRE(control->set(whole_pace));
  CHECK(at.clock() == "2000000\n");
  control->end();
  at.heard.await(event_type::let_go);
  CHECK(at.clock() == found);
  CHECK(control->set_clock(1200));  // it has ended
  CHECK(control->check_clock());
  CHECK(at.clock() == found);
}

TEST_CASE("AGS-6: agent server: a clock is gone as another rank of the job shares the device") {
  served_machine at;
  const auto first = at.control(0);
  REQUIRE(first->set_clock(1200));
  REQUIRE(first->set(512));
  const auto second = at.control(1);
  CHECK_FALSE(second->sets_clocks());
  CHECK(second->clocks_mhz().empty());
  CHECK(at.clock() == "2121000\n");  // the pace's
  const auto refused = first->set_clock(1200);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(agent_failed));
  CHECK(second->set_clock(1200));  // it sets none, and asks for none
  CHECK(at.clock() == "2121000\n");
  CHECK_FALSE(first->has_gone());
}

TEST_CASE("AGS-6: agent server: who was told of no clock asks in vain, and is asked for none") {
  served_machine at;
  const asker rank(at);
  CHECK(rank.ask(agent_verb::clock).outcome == agent_outcome::refused);  // it has no device
  CHECK(rank.ask(agent_verb::check_clock).outcome == agent_outcome::refused);
  CHECK(at.heard.count(event_type::taken) == 0);
  made_devices limited;
  limited.at.patience = limited.at.seat_patience = 1ms;
  auto controls = machine_controls::make(limited.at, {{{setting_kind::rapl, ""}}}, {"rack7", 0, 7});
  REQUIRE(controls);
  const auto clocks = (*controls)->clocks_of({setting_kind::rapl, ""});
  REQUIRE(clocks);
  CHECK(clocks->empty());  // MCT-7: it is held in watts
}

TEST_CASE(
    "AGA-6: agent server: of clocks that come fast the newest is set there, and none is lost") {
  served_machine at;
  const std::shared_ptr<actuator> control = at.control();
  clock_setter setter(control);
  for (int mhz = 2900; mhz >= 1300; mhz -= 100) setter.wish(mhz);
  const auto until = std::chrono::steady_clock::now() + 60s;  // CKS-2: the last one comes
  while (at.clock() != "1300000\n" && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  CHECK(at.clock() == "1300000\n");
  CHECK_FALSE(setter.has_failed());
}

TEST_CASE("AGA-6: agent server: a clock that does not bind is found out as it is looked at") {
  served_machine at(1h, true);
  const auto control = at.control();
  REQUIRE(control->set_clock(1200));  // it is written, and not read
  const auto looked = control->check_clock();
  REQUIRE_FALSE(looked);
  CHECK(looked.error().is(agent_failed));
  CHECK_FALSE(control->has_gone());
}

TEST_CASE("AGA-6: agent server: what an agent has found of a clock is told, and once") {
  scripted_agent silent;
  auto at = control_place();
  at.agent_socket = silent.name;
  at.agent_patience = 60s;
  std::string first, second;
  bool was_in_force = false;
  unsigned given_back_to = 0;
  std::thread rank([&] {
    auto made = agent_actuator::make(at, {setting_kind::cpufreq, ""}, {"tiny", 0, 1});
    if (!made) return;
    was_in_force = bool{(*made)->check_clock()};
    given_back_to = (*made)->given_back_to();
    first = (*made)->take_note();
    second = (*made)->take_note();
  });
  silent.welcome();
  const auto take = silent.hear();
  silent.answer({take ? take->sequence : 0, agent_outcome::done, "", "rack7", {}, {3000, 1500}});
  const auto check = silent.hear();
  silent.answer({check ? check->sequence : 0,
                 agent_outcome::done,
                 "others compute there",
                 "rack7",
                 {},
                 {},
                 2});
  rank.join();
  REQUIRE(check);
  CHECK(check->verb == agent_verb::check_clock);
  CHECK(was_in_force);
  CHECK(first == "others compute there");
  CHECK(second.empty());
  CHECK(given_back_to == 2);
}

TEST_CASE("AGA-5: agent server: who ends waits for no answer, nor does who asks just then") {
  scripted_agent silent;
  auto at = control_place();
  at.agent_socket = silent.name;
  at.agent_patience = 60s;
  std::unique_ptr<agent_actuator> control;
  std::thread takes([&] {
    auto made = agent_actuator::make(at, {setting_kind::cpufreq, ""}, {"tiny", 0, 1});
    if (made) control = std::move(*made);
  });
  silent.welcome();
  const auto take = silent.hear();
  silent.answer({take ? take->sequence : 0, agent_outcome::done, "", "rack7", {}});
  takes.join();
  REQUIRE(control);
  bool was_set = false;
  std::thread sets([&] { was_set = bool{control->set(256)}; });
  const auto set = silent.hear();  // and does not answer
  control->end();
  sets.join();
  CHECK(was_set);  // it has ended: who is late for that has failed in nothing
  REQUIRE(set);
  CHECK(set->verb == agent_verb::set);
  CHECK_FALSE(silent.hear());  // hung up on, and asked for nothing more
  CHECK_FALSE(control->has_gone());
}

TEST_CASE("AGA-4: agent server: an agent that is another user's is asked for nothing") {
  served_machine at;
  auto of_job = at.of_job();
  for (const int64_t uid : {int64_t{0}, int64_t{::geteuid()}}) {
    of_job.peer_of = [uid](int) -> result<io::socket_peer> { return io::socket_peer{1, uid, 0}; };
    CHECK(agent_actuator::make(of_job, {setting_kind::cpufreq, ""}, {"tiny", 0, 1}));
  }
  const int64_t another = int64_t{::geteuid()} + 1;
  of_job.peer_of = [&](int) -> result<io::socket_peer> { return io::socket_peer{1, another, 0}; };
  const auto asks = [&](const std::vector<std::string>& words) {
    return open_actuator(words, of_job, {"tiny", 0, 2}, std::vector{11}, "");
  };
  const auto refused = asks({"cpufreq"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(agent_not_trusted));
  CHECK(refused.error().hint.find("agent_socket") != std::string::npos);
  CHECK(refused.error().message.find(std::to_string(another)) != std::string::npos);
  const auto pauses = asks({"cpufreq", "pace"});
  REQUIRE(pauses);
  CHECK_FALSE(pauses->control);
  CHECK(pauses->passed.size() == 1);
  CHECK(at.heard.count(event_type::refused) == 0);
}

TEST_CASE("AGA-4: agent server: whose an agent is the kernel says, by who began to listen") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: needs root, to be another user for a moment");
    return;
  }
  const scratch folder;
  const auto name = folder / "s";
  const io::unique_fd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(name.native().size() < sizeof address.sun_path);
  name.native().copy(address.sun_path, name.native().size());
  REQUIRE(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
          0);
  constexpr uid_t nobody = 65534;
  const int listened = in_another_process([&] {  // this one goes on to have the socket
    if (::setresuid(nobody, nobody, nobody) != 0 || ::listen(listening.get(), 1) != 0)
      ::_exit(killed_code);
  });
  if (listened != 0) {
    MESSAGE("skipped: this root may not be another user");
    return;
  }
  control_place at;
  at.agent_socket = name;
  at.agent_patience = 1ms;
  const auto asked = agent_actuator::make(at, {setting_kind::cpufreq, ""}, {"tiny", 0, 1});
  REQUIRE_FALSE(asked);
  CHECK(asked.error().is(agent_not_trusted));
}

TEST_CASE("AGA-1: agent server: a pace that does not read back is not set") {
  served_machine at(1h, true);
  const auto control = at.control();
  const auto set = control->set(256);
  REQUIRE_FALSE(set);
  CHECK(set.error().is(agent_failed));
  CHECK_FALSE(control->has_gone());
}

TEST_CASE("agent server: what the agent does not hold it sets for nobody") {
  served_machine at;
  const auto rapl = at.open({"rapl"});
  REQUIRE_FALSE(rapl);
  CHECK(rapl.error().is(setting_refused));
  CHECK(rapl.error().message.find("cpufreq") != std::string::npos);  // by which it is held
  const auto second = at.open({"rapl", "cpufreq"});
  REQUIRE(second);
  CHECK(second->control);
}

TEST_CASE("agent server: a device that a job with the right governs is nobody's to ask for") {
  made_devices m;
  m.at.patience = m.at.seat_patience = 1ms;
  const auto of_job = m.governor(setting_kind::cpufreq);
  auto controls = machine_controls::make(m.at, {{{setting_kind::cpufreq, ""}}}, {"rack7", 0, 7});
  REQUIRE(controls);
  CHECK((*controls)->facts_of({setting_kind::cpufreq, ""}).error().is(setting_governed));
  CHECK((*controls)->wish({setting_kind::cpufreq, ""}, 256).error().is(setting_governed));
  CHECK((*controls)->facts_of({setting_kind::nvml_clocks, "GPU-0"}).error().is(setting_not_held));
  CHECK(m.values(setting_kind::cpufreq)["policy1"] == found);
}

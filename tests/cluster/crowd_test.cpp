// Crowds of connections that come to nothing, at the port of a cluster that trains and saves.
//
// Measured by TROUPE_TEST_STRANGERS=10000 build/release/bin/test_cluster -tc='crowd*' -s; as many
// as TROUPE_TEST_STRANGERS_PER_S come in a second, else as fast as they can.
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/client_hello.hpp"
#include "tests/cluster/job_files.hpp"
#include "tests/cluster/strangers.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

using crowd_clock = std::chrono::steady_clock;

/// What the coordinator says of its ingress, and the run of its checkpoints.
struct crowd_view {
  json turned_away, run;
  double ms = 0;  ///< how long the answer took
};

/// `up` is listened to meanwhile: it leaves out lines that nobody reads.
crowd_view look_at(program& up) {
  crowd_view out;
  up.listen();
  const auto began = crowd_clock::now();
  const auto s = run({"ps", "--json", "--connect", "127.0.0.1:" + std::to_string(up.port())});
  out.ms = std::chrono::duration<double, std::milli>(crowd_clock::now() - began).count();
  INFO(s.err);
  REQUIRE(s.code == 0);
  const auto view = json::parse(s.out);
  for (const auto& n : view["nodes"])
    for (const auto& a : n["actors"]) {
      if (a["path"] == "coordinator") out.turned_away = a["detail"]["turned_away"];
      if (a["path"] == "run") out.run = a["detail"];
    }
  return out;
}

/// The median of the steps behind `from` up to `to`: of the log, for on stdout lines are left out
/// that are not read for long.
double median_step_ms(const program& up, const job_files& job, size_t from, size_t to) {
  std::vector<double> ms;
  for (const auto& step : logged_steps(job / "run/log.jsonl"))
    if (const auto n = step["step"].get<size_t>(); n > from && n <= to)
      ms.push_back(step["step_ms"]);
  CAPTURE(from);
  CAPTURE(to);
  CAPTURE(up.err());
  REQUIRE(!ms.empty());
  std::nth_element(ms.begin(), ms.begin() + static_cast<ptrdiff_t>(ms.size() / 2), ms.end());
  return ms[ms.size() / 2];
}

/// The step that is saved by now, but one behind `step` at least: that one is made in any case.
size_t saved_after(size_t step, const crowd_view& now) {
  return std::max(now.run["saved_step"].get<size_t>(), step + 1);
}

/// Of four kinds in turn: says nothing, half of a greeting, noise, the greeting of TLS.
troupe::io::unique_fd crowd_member(uint16_t port, size_t number) {
  static const std::array<std::string, 4> words{"", std::string("\x16\x03\x01\x02", 4),
                                                std::string(64, '\xff'), troupe::client_hello()};
  auto fd = troupe::loopback_connection(port);
  const auto& says = words[number % words.size()];
  send(fd.get(), says.data(), says.size(), MSG_NOSIGNAL);
  return fd;
}

size_t number_of(const char* variable, size_t usual) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::stoul(text) : usual;
}

/// What the network thread of a process has taken of the processors so far.
double network_ms(const program& up) {
  int64_t ran_ns = 0;
  for (const auto& t :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", head_of(up.pid())))) {
    std::string name;
    std::ifstream(t.path() / "comm") >> name;
    if (name != "caf.multiplexer") continue;
    std::ifstream in(t.path() / "schedstat");
    in >> ran_ns;
  }
  REQUIRE(ran_ns > 0);
  return static_cast<double>(ran_ns) / 1e6;
}

/// Takes connections and hangs up: what a crowd costs a machine whatever it comes to.
class bare_listener {
 public:
  bare_listener() {
    REQUIRE(listen(fd_.get(), SOMAXCONN) == 0);
    thread_ = std::thread([this] {
      while (true) {
        const troupe::io::unique_fd taken(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!taken) return;
      }
    });
  }
  ~bare_listener() {
    shutdown(fd_.get(), SHUT_RDWR);
    thread_.join();
  }
  bare_listener(const bare_listener&) = delete;
  bare_listener& operator=(const bare_listener&) = delete;
  uint16_t port() const { return troupe::port_of(fd_); }

 private:
  troupe::io::unique_fd fd_ = troupe::loopback_bound();
  std::thread thread_;
};

/// A crowd that comes to `port` at `per_s`; in between a tool asks the cluster four times.
struct crowd_of_strangers {
  std::vector<troupe::io::unique_fd> members;
  double slowest_ms = 0;
  double took_ms = 0;

  crowd_of_strangers(program& up, uint16_t port, size_t size, size_t per_s) {
    const auto began = crowd_clock::now();
    for (size_t i = 0; i < size; ++i) {
      std::this_thread::sleep_until(began + std::chrono::nanoseconds(1'000'000'000 / per_s) * i);
      members.push_back(crowd_member(port, i));
      if (i % (size / 4) == 0) slowest_ms = std::max(slowest_ms, look_at(up).ms);
    }
    took_ms = std::chrono::duration<double, std::milli>(crowd_clock::now() - began).count();
  }
};

}  // namespace

TEST_CASE("crowd: idle, half-open and garbage connections cost no checkpoint and no tool (GAT-5)") {
  const auto size = number_of("TROUPE_TEST_STRANGERS", 300);
  const auto per_s = number_of("TROUPE_TEST_STRANGERS_PER_S", 1'000'000);
  const int64_t quiet_steps = size > 1000 ? 1000 : 30;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  job_files job;
  const int descriptors = size > 1000 ? 1024 : 256;
  program up(job.up(with(endless, {"checkpoint.every=1"})), 0, {}, descriptors);
  REQUIRE(up.until_step(10 + quiet_steps));
  const auto before = up.objects("step").back()["step"].get<size_t>();
  {
    const bare_listener beside;
    crowd_of_strangers(up, beside.port(), size, per_s);
  }
  const auto went_by = saved_after(before, look_at(up));
  REQUIRE(up.until_step(static_cast<int64_t>(went_by) + quiet_steps));
  const auto came = look_at(up).run["saved_step"].get<size_t>();
  const auto spent_ms = network_ms(up);
  const crowd_of_strangers crowd(up, up.port(), size, per_s);
  const auto costs_ms = network_ms(up) - spent_ms;
  const auto during = look_at(up);
  CHECK(eventually([&] { return look_at(up).turned_away["all"] == size; }));
  const auto crowded = saved_after(came, during);
  const auto quiet = look_at(up).run["saved_step"].get<size_t>();
  REQUIRE(up.until_step(static_cast<int64_t>(quiet) + quiet_steps));
  const auto after = look_at(up);
  MESSAGE(size << " connections in " << crowd.took_ms / 1000 << " s, " << descriptors
               << " descriptors: a step " << median_step_ms(up, job, 10, before) << " ms before, "
               << median_step_ms(up, job, before, went_by) << " ms (" << went_by - before
               << " steps) while they go to a bare listener beside it, "
               << median_step_ms(up, job, came, crowded) << " ms (" << crowded - came
               << " steps) while they come, " << median_step_ms(up, job, quiet, SIZE_MAX)
               << " ms after; the network's thread took " << costs_ms
               << " ms of a processor meanwhile; the slowest answer " << crowd.slowest_ms << " ms; "
               << after.turned_away.dump());
  CHECK(after.turned_away.value("crowded_out", 0) + after.turned_away.value("too_slow", 0) > 0);
  CHECK(during.run["saved_step"] >= static_cast<int64_t>(came));
  CHECK(up.err().find("checkpoint of step") == std::string::npos);  // none failed
  CHECK(after.run["saved_step"] > static_cast<int64_t>(before));
  CHECK(up.err().find("could not") == std::string::npos);
  CHECK(up.err().find("Too many open files") == std::string::npos);
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

TEST_CASE("crowd: who connects and says nothing is hung up on (GAT-5)") {
  job_files job;
  program up(job.up(endless));
  REQUIRE(up.until_step(1));
  const auto idle = crowd_member(up.port(), 0);
  timeval patience{90, 0};
  setsockopt(idle.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char said[4096];
  ssize_t n = 0;
  while ((n = recv(idle.get(), said, sizeof(said), 0)) > 0) {
  }
  CHECK((n == 0 || errno == ECONNRESET));
  CHECK(eventually([&] { return look_at(up).turned_away["too_slow"] == 1; }));
  up.signal(SIGINT);
  CHECK(up.wait() == 130);
}

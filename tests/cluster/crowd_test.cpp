// Crowds of connections that come to nothing, at the port of a cluster that trains and saves.
//
// Measured by TROUPE_TEST_STRANGERS=10000 build/release/bin/test_cluster -tc='crowd*' -s
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "tests/cluster/job_files.hpp"
#include "tests/cluster/strangers.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

using crowd_clock = std::chrono::steady_clock;

/// What the coordinator says of its door, and the run of its checkpoints.
struct crowd_view {
  json turned_away, run;
  double ms = 0;  ///< how long the answer took
};

crowd_view look_at(const program& up) {
  crowd_view out;
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

/// The median of the steps after the first `from`.
double median_step_ms(const program& up, size_t from) {
  std::vector<double> ms;
  const auto steps = up.objects("step");
  for (size_t i = from; i < steps.size(); ++i) ms.push_back(steps[i]["step_ms"]);
  REQUIRE(!ms.empty());
  std::nth_element(ms.begin(), ms.begin() + static_cast<ptrdiff_t>(ms.size() / 2), ms.end());
  return ms[ms.size() / 2];
}

/// Of three kinds in turn: says nothing, says half of a greeting, says noise.
troupe::io::unique_fd crowd_member(uint16_t port, size_t number) {
  auto fd = troupe::loopback_connection(port);
  const std::string says = number % 3 == 0   ? ""
                           : number % 3 == 1 ? std::string("\x16\x03\x01\x02", 4)
                                             : std::string(64, '\xff');
  send(fd.get(), says.data(), says.size(), MSG_NOSIGNAL);
  return fd;
}

size_t crowd_size() {
  const char* text = std::getenv("TROUPE_TEST_STRANGERS");
  return text != nullptr ? std::stoul(text) : 300;
}

}  // namespace

TEST_CASE("crowd: idle, half-open and garbage connections cost no checkpoint and no tool (GAT-5)") {
  const auto size = crowd_size();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  job_files job;
  const int descriptors = size > 1000 ? 1024 : 256;
  program up(job.up(with(endless, {"checkpoint.every=1"})), 0, {}, descriptors);
  REQUIRE(up.until_step(40));
  const auto before = up.objects("step").size();
  const auto quiet_ms = median_step_ms(up, 10);
  std::vector<troupe::io::unique_fd> crowd;
  double slowest_ms = 0;
  for (size_t i = 0; i < size; ++i) {
    crowd.push_back(crowd_member(up.port(), i));
    if (i % (size / 4) == 0) slowest_ms = std::max(slowest_ms, look_at(up).ms);
  }
  REQUIRE(up.until_step(static_cast<int64_t>(before) + 40));
  const auto during = look_at(up);
  const auto crowded_ms = median_step_ms(up, before);
  CHECK(eventually([&] { return look_at(up).turned_away["all"] == size; }));
  const auto after = look_at(up);
  MESSAGE(size << " connections, " << descriptors << " descriptors: a step " << quiet_ms << " ms, "
               << crowded_ms << " ms with them; the slowest answer " << slowest_ms << " ms; "
               << after.turned_away.dump());
  CHECK(after.turned_away.value("crowded_out", 0) + after.turned_away.value("too_slow", 0) > 0);
  CHECK(during.run["saved_step"] >= static_cast<int64_t>(before));
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

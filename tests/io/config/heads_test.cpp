// cluster.heads: where each listens, who votes about which one acts, and what is refused.
#include "io/config/heads.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "io/config/load.hpp"
#include "io/config/show.hpp"
#include "tests/errors.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;
using config::cluster_section;
using config::head_place;
using config::head_place_of;
using config::launch_mode;

namespace {

const std::string job_of_heads =
    "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";
const std::string three_heads =
    "cluster.heads=[\"127.0.0.1:1001\",\"127.0.0.1:1002\",\"127.0.0.1:1003\"]";
const std::string with_recovery = "recovery.enabled=true";

std::vector<config::problem> problems_of_heads(const std::vector<std::string>& sets) {
  const scratch folder;
  std::ofstream(folder / "job.toml") << job_of_heads;
  return config::read({(folder / "job.toml").string(), {}, sets}).problems;
}

/// So many heads on this machine.
std::string so_many_heads(size_t count) {
  std::vector<std::string> all;
  for (size_t n = 0; n < count; ++n) all.push_back(fmt::format("\"127.0.0.1:{}\"", 1001 + n));
  return fmt::format("cluster.heads=[{}]", fmt::join(all, ","));
}

}  // namespace

TEST_CASE("heads: an address is a host and a port, and what is not is refused") {
  CHECK(head_place_of("10.0.0.1:29400") == head_place{"10.0.0.1", 29400});
  CHECK(head_place_of("gpu1.example:1") == head_place{"gpu1.example", 1});
  CHECK(head_place_of("h:65535") == head_place{"h", 65535});
  CHECK(head_place_of("::1:29400") == head_place{"::1", 29400});  // the last colon counts
  for (const char* text : {"", ":", "10.0.0.1", "10.0.0.1:", ":29400", "h:0", "h:65536", "h:-1",
                           "h:+1", "h: 1", "h:1 ", "h:1x", "h:x", "h:99999999999999999999",
                           "a/b:1", "../h:1", "/h:1"})
    CHECK_MESSAGE(head_place_of(text) == std::nullopt, text);
}

TEST_CASE("heads: voters are all heads and, where others than the job start them, the nodes") {
  cluster_section c;
  c.node = {{"node0", "localhost", 1, false}, {"spare", "localhost", 1, true}};
  for (const auto launch : {launch_mode::local, launch_mode::ssh, launch_mode::external}) {
    c.launch = launch;
    c.heads = {};
    CHECK(config::voters_of(c).empty());  // one head: nobody is asked
    c.heads = {"a:1", "b:1"};
    const std::vector<std::string> all{"a:1", "b:1", "node0", "spare"};
    CHECK(config::voters_of(c) == (launch == launch_mode::external ? all : c.heads));
  }
}

TEST_CASE("heads: a cluster at one of its heads is reached there, and else stays as it is") {
  cluster_section c;
  c.listen = "10.0.0.9";
  c.advertise = "outside";
  c.port = 7;
  CHECK(config::at_head(c, "a:1") == c);  // it has one head, wherever that is
  c.heads = {"a:1", "b:2"};
  CHECK(config::at_head(c, "b") == c);
  CHECK(config::at_head(c, "") == c);
  auto expected = c;
  expected.listen = expected.advertise = "b";
  expected.port = 2;
  CHECK(config::at_head(c, "b:2") == expected);
}

TEST_CASE("heads: two to nine of them are sound, and are written as they were read") {
  for (const size_t count : {2, 3, 9}) {
    const auto job = job_of_text(job_of_heads, {so_many_heads(count), with_recovery});
    CHECK(job.cluster.heads.size() == count);
    const auto again = config::parse(config::to_toml(job), "text");
    REQUIRE_MESSAGE(again, (again ? "" : render(again.error())));
    CHECK(*again == job);  // J-4
  }
  CHECK(job_of_text(job_of_heads, {}).cluster.heads.empty());
  // No port of its own is needed where nodes are told of heads.
  const std::string external = "cluster.launch=external";
  CHECK(problems_of_heads({three_heads, with_recovery, external}).empty());
  CHECK_FALSE(problems_of_heads({external}).empty());
}

TEST_CASE("heads: each thing that is wrong with them is told with its key and what it is") {
  struct row {
    std::string heads;
    std::vector<std::string> more;
    std::string fact;  ///< in what is said
  };
  const std::string two = "cluster.heads=[\"127.0.0.1:1001\",\"127.0.0.1:1002\"]";
  for (const auto& r : {
           row{so_many_heads(1), {with_recovery}, "1"},
           row{so_many_heads(10), {with_recovery}, "10"},
           row{"cluster.heads=[\"127.0.0.1:1001\",\"127.0.0.1\"]", {with_recovery}, "127.0.0.1"},
           row{"cluster.heads=[\"127.0.0.1:7\",\"127.0.0.1:8\",\"127.0.0.1:7\"]",
               {with_recovery},
               "127.0.0.1:7"},
           row{"cluster.heads=[\"127.0.0.1:7\",\"10.0.0.1:8\"]", {with_recovery}, "10.0.0.1:8"},
           row{two, {with_recovery, "cluster.port=29400"}, "cluster.port"},
           row{two, {with_recovery, "cluster.advertise=h"}, "advertise"},
           row{two, {"recovery.enabled=false"}, "recovery.enabled"},
       }) {
    CAPTURE(r.heads);
    CAPTURE(r.fact);
    const auto problems = problems_of_heads([&] {
      auto sets = r.more;
      sets.push_back(r.heads);
      return sets;
    }());
    REQUIRE_MESSAGE(problems.size() == 1, config::as_error(problems).message);
    CHECK(problems[0].key == "cluster.heads");
    CHECK(mentions(config::as_error(problems), r.fact));
  }
  // What is not of this machine alone is sound with certificates.
  CHECK(problems_of_heads({"cluster.heads=[\"127.0.0.1:7\",\"10.0.0.1:8\"]", with_recovery,
                           "cluster.tls.ca=ca", "cluster.tls.certificate=c", "cluster.tls.key=k"})
            .empty());
}

TEST_CASE("heads: a standby waits for 1 s to an hour before it wants to act") {
  for (const auto& [seconds, sound] :
       {std::pair{"0", false}, {"1", true}, {"3600", true}, {"3601", false}, {"-1", false}}) {
    CAPTURE(seconds);
    const auto problems =
        problems_of_heads({three_heads, with_recovery,
                           fmt::format("recovery.head_takeover_s={}", seconds)});
    CHECK(problems.empty() == sound);
    if (!problems.empty()) CHECK(problems[0].key == "recovery.head_takeover_s");
  }
  CHECK(job_of_text(job_of_heads, {}).recovery.head_takeover_s == 10);
}

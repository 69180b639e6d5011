// What a file holds of a spawn record is the record (SPN-2).
#include "actors/job/spawn_record.hpp"

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/base/actor_log.hpp"
#include "messages/header.hpp"
#include "tests/actors/actor_fixture.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

struct named : troupe::test::actor_fixture {
  std::map<std::string, caf::strong_actor_ptr> known;

  named() : actor_fixture(7) {}

  template <class Handle>
  Handle one(const char* role) {
    const auto who = make_partner(role);
    known[handle_name(who.self())] = who.self();
    return who.as<Handle>();
  }
  result<spawn_record> through_a_file(const spawn_record& r) {
    flatbuffers::FlatBufferBuilder file;
    const auto data = data_of(r);
    file.Finish(fbs::SpawnRecord::Pack(file, &data));
    fbs::SpawnRecordT read;
    flatbuffers::GetRoot<fbs::SpawnRecord>(file.GetBufferPointer())->UnPackTo(&read);
    return record_of(read, [&](const std::string& n) { return known.at(n); });
  }
};

}  // namespace

TEST_CASE("spawn record: a file holds every handle by its name, and none where there is none") {
  named f;
  spawn_record r;
  r.committer = f.one<committer_actor>("committer");
  r.replicator = f.one<replicator_actor>("replicator");
  r.coordinator = f.one<coordinator_actor>("coordinator");
  r.gateway = f.one<gateway_actor>("gateway");
  r.observer = f.one<observer_actor>("observer");
  r.reporter = f.one<reporter_actor>("reporter");
  r.run = f.one<run_actor>("run");
  r.journal = f.one<journal_actor>("journal");
  r.predictor = f.one<predictor_actor>("predictor");
  r.worker = f.one<worker_actor>("worker");
  const auto read = f.through_a_file(r);
  REQUIRE(read);
  CHECK(read->committer == r.committer);
  CHECK(read->replicator == r.replicator);
  CHECK(read->coordinator == r.coordinator);
  CHECK(read->gateway == r.gateway);
  CHECK(read->observer == r.observer);
  CHECK(read->reporter == r.reporter);
  CHECK(read->run == r.run);
  CHECK(read->journal == r.journal);
  CHECK(read->predictor == r.predictor);
  CHECK(read->worker == r.worker);
  const auto none = f.through_a_file({});
  REQUIRE(none);
  CHECK_FALSE((none->committer || none->replicator || none->coordinator || none->gateway ||
               none->observer || none->reporter || none->run || none->worker));
}

TEST_CASE("spawn record: a file holds which life a pacer is of, and whose time it counts") {
  named f;
  spawn_record r;
  r.incarnation = 1'780'000'000'000'000'000;
  r.machine = "boot";
  const auto read = f.through_a_file(r);
  REQUIRE(read);
  CHECK(read->incarnation == r.incarnation);
  CHECK(read->machine == "boot");
}

TEST_CASE("spawn record: roles of earlier versions' recordings are those of today") {
  named f;
  spawn_record r;
  r.committer = f.one<committer_actor>("committer");
  r.replicator = f.one<replicator_actor>("replicator");
  r.gateway = f.one<gateway_actor>("gateway");
  auto data = data_of(r);
  for (auto& p : data.peers)
    p->role = p->role == "committer" ? "archive" : p->role == "replicator" ? "carrier" : "desk";
  const auto read = record_of(data, [&](const std::string& n) { return f.known.at(n); });
  REQUIRE(read);
  CHECK(read->committer == r.committer);
  CHECK(read->replicator == r.replicator);
  CHECK(read->gateway == r.gateway);
}

TEST_CASE("spawn record: a file holds whose it is, where it goes on and what its saves come from") {
  named f;
  spawn_record r{9, 3, "node1"};
  r.launch = 0xfedc'ba98'7654'3210;
  CHECK(r.whole_launch() == r.launch);
  r.first_launch = 5;
  r.resume = checkpoint::resume_point{
      "/folder/step-00000012", 12, {{5, 4}, {6, 12}}, {12, 96, 2.5, "a = 1"}};
  const auto read = f.through_a_file(r);
  REQUIRE(read);
  CHECK(read->epoch == 9);
  CHECK(read->rank == 3);
  CHECK(read->node == "node1");
  CHECK(read->launch == r.launch);
  CHECK(read->first_launch == 5);
  CHECK(read->whole_launch() == 5);
  REQUIRE(read->resume);
  CHECK(read->resume->path == r.resume->path);
  CHECK(read->resume->step == 12);
  CHECK(read->resume->line == r.resume->line);
  CHECK(read->resume->state.tokens == 96);
  CHECK(read->resume->state.loss == 2.5);
  CHECK(read->resume->state.config_toml == "a = 1");
  const auto origin = read->origin();
  CHECK(origin.launch == r.launch);
  CHECK(origin.from == r.resume->line);
  CHECK(origin.checkpoint == "/folder/step-00000012");
  CHECK_FALSE(f.through_a_file(spawn_record{})->resume);
}

TEST_CASE(
    "spawn record: a file holds the times of a predictor, all or, where these are many, none") {
  const spawn_record r{9, 3, "node1"};
  const auto few = data_of(r, {"one", "two"});
  CHECK(few.epoch == 9);
  CHECK(few.times == std::vector<std::string>{"one", "two"});
  CHECK(few.began_with_times == 2);
  const std::string long_line(max_message_bytes / 1000, 't');
  const auto many = data_of(r, std::vector<std::string>(1000, long_line));
  CHECK(many.times.empty());
  CHECK(many.began_with_times == 1000);
}

TEST_CASE("spawn record: a file holds how quick nodes were") {
  named f;
  spawn_record r;
  r.paces = {{"a", {"Xeon, 8 cores", "0a"}, 2, true, 1.5e9, 0.16, 1240, 9},
             {"b", {"Xeon, 8 cores", ""}, 1, false, 3e9, 0.03, 32, 1}};
  const auto read = f.through_a_file(r);
  REQUIRE(read);
  CHECK(read->paces == r.paces);
}

TEST_CASE("spawn record: a configuration that is none is refused") {
  fbs::SpawnRecordT data;
  data.config_toml = "[train]\nsteps = \"many\"\n";
  const auto read = record_of(data, [](const auto&) { return caf::strong_actor_ptr(); });
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::bad_config);
}

TEST_CASE("spawn record: a file holds what the head before has left of the job") {
  named f;
  spawn_record r;
  CHECK_FALSE(f.through_a_file(r)->memory);
  r.memory = job_memory{true, "maintenance", {{"train.lr", "0.001", "0.003", 112}}};
  r.memory->account = {4, 3, {2, {5, 6}, {{1, {6}}}}, {}, 77, 9};
  r.memory->account.time[health::time_use::useful] = 123;
  r.memory->account.time[health::time_use::head_away] = 45;
  r.memory->lost = lost_head{"was killed", 114, 120, 88};
  CHECK(f.through_a_file(r)->memory == r.memory);
}

// An elector between scripted heads, nodes and a scripted network.
#pragma once

#include "actors/heads/elector.hpp"

#include <fstream>
#include <map>

#include <doctest/doctest.h>

#include "messages/any_msg.hpp"
#include "tests/actors/scripted_node.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::heads::test {

using namespace std::chrono_literals;
using troupe::cluster::test::far_end;
using troupe::test::partner;
using troupe::test::told;

inline const std::vector<std::string> three_heads{"one:4001", "two:4002", "three:4003"};
inline const std::vector<far_end> places_of_heads{{"one", 4001}, {"two", 4002}, {"three", 4003}};

struct elector_setting {
  size_t own = 0;       ///< which of the heads it is
  uint32_t acting = 0;  ///< 0: it stands by
  held_records begins_with = {};
  bool nodes_vote = false;  ///< n0 and n1, beside the heads
  bool job_runs = false, at_once = false;
  bool has_vote = true;
  shared_settings settings = {};
};

/// The elector of one head of three.
struct scripted_electorate : troupe::test::actor_fixture {
  scratch dir;
  std::vector<partner> others{at("one", '1'), at("two", '2'), at("three", '3')};
  std::vector<partner> nodes{at("n0", '4'), at("n1", '5')};
  partner coordinator = make_partner("coordinator");
  std::shared_ptr<cluster::test::wiring> wires = std::make_shared<cluster::test::wiring>();
  std::vector<won_epoch> decisions;
  std::vector<std::string> overs, tells;
  std::vector<error> refusals;
  std::optional<std::string> ended;  ///< what is found where it looks whether the job has ended
  elector_actor target;

  explicit scripted_electorate(const elector_setting& how) : actor_fixture(0) {
    if (!how.has_vote) std::ofstream(dir / votes_folder) << "a file where the folder should be";
    elector_options o;
    o.name = three_heads[how.own];
    o.cluster.heads = three_heads;
    o.cluster.node = {{"n0", "hosta", 1}, {"n1", "hostb", 1}};
    o.cluster.launch =
        how.nodes_vote ? config::launch_mode::external : config::launch_mode::local;
    o.output = dir.path;
    o.acting = how.acting;
    o.begins_with = how.begins_with;
    o.takeover.place = static_cast<uint32_t>(how.own);
    o.takeover.job_runs = how.job_runs;
    o.takeover.at_once = how.at_once;
    o.decided = [this](const won_epoch& w) { decisions.push_back(w); };
    o.over = [this](const std::string& reason) { overs.push_back(reason); };
    o.refused = [this](const error& why) { refusals.push_back(why); };
    o.has_ended = [this] { return ended; };
    o.tell = [this](const std::string& text) { tells.push_back(text); };
    o.settings = how.settings;
    const auto wire = spawn(cluster::test::scripted_connector, wires);
    o.connector = [wire](caf::actor_system&) { return wire; };
    target = spawn(elector, std::move(o));
    pass(0ns);
  }
  /// In a process of its own.
  partner at(const std::string& name, char host) {
    return make_partner(name, *caf::make_node_id(1, std::string(40, host)));
  }

  // -- others say how they are --

  result<msg<fbs::HeadFound>> seek(const partner& who, const std::string& name, uint32_t epoch = 0,
                                   uint64_t step = 0, uint32_t job = 0) {
    const auto number = who.ask(target, make_msg<fbs::FindHead>(context_of(0), [&](auto& f) {
                                  f.name = name;
                                  f.epoch = epoch;
                                  f.step = step;
                                  f.job = job;
                                }),
                                who.self());
    return who.answer_of<fbs::HeadFound>(number);
  }
  /// It is within reach from then on, and acts in this epoch; 0: it stands by.
  void hear(size_t head, uint32_t epoch = 0) {
    REQUIRE(seek(others[head], three_heads[head], epoch));
  }
  void answer_how(size_t head, uint32_t epoch, int64_t behind_ns = 0,
                  const shared_settings& of_it = {}) {
    for (const auto& asked : others[head].take_all<fbs::FindHead>())
      asked.answer<fbs::HeadFound>([&](auto& f) {
        f.name = three_heads[head];
        f.epoch = epoch;
        f.open = epoch > 0;
        f.job = of_it.digest();
        f.settings = of_it.lines();
        f.now_ns = now_ns() - behind_ns;
      });
  }
  /// Time in which these heads answer how they are.
  void pass_with(std::chrono::milliseconds time, const std::map<size_t, uint32_t>& acting) {
    for (; time > 0ms; time -= 50ms) {
      pass(50ms);
      for (const auto& [head, epoch] : acting) answer_how(head, epoch);
    }
  }

  // -- votes that it wants --

  uint64_t elect(uint32_t epoch) {
    return coordinator.ask(target, make_msg<fbs::Elect>(context_of(0), [&](auto& e) {
                             e.epoch = epoch;
                           }));
  }
  uint64_t share(const std::string& content) {
    return coordinator.ask(target, make_msg<fbs::ShareRecord>(context_of(0), [&](auto& s) {
                             s.content.assign(content.begin(), content.end());
                           }));
  }
  result<msg<fbs::Elected>> elected(uint64_t number) const {
    return coordinator.answer_of<fbs::Elected>(number);
  }
  /// The only PromiseEpoch, or HoldRecord, since the last look.
  template <class T>
  static told<T> wanted(const partner& who) {
    auto all = who.take_all<T>();
    REQUIRE(all.size() == 1);
    return all[0];
  }
  static bool was_asked(const partner& who) {
    return !who.take_all<fbs::PromiseEpoch>().empty() || !who.take_all<fbs::HoldRecord>().empty();
  }
  template <class T>
  static void grant(const told<T>& asked, const held_records& held = {}) {
    asked.template answer<fbs::Promised>([&](fbs::PromisedT& p) {
      p.granted = true;
      for (const auto& [kind, record] : held)
        p.held.push_back(std::make_unique<fbs::HeldRecordT>(to_message(record)));
    });
  }
  template <class T>
  static void refuse(const told<T>& asked, uint32_t epoch, size_t follows) {
    asked.template answer<fbs::Promised>([&](auto& p) {
      p.epoch = epoch;
      p.head = three_heads[follows];
    });
  }

  // -- its own vote --

  bool promises(const partner& who, const std::string& name, uint32_t epoch) {
    const auto number = who.ask(target, make_msg<fbs::PromiseEpoch>(context_of(0), [&](auto& p) {
                                  p.epoch = epoch;
                                  p.head = name;
                                }));
    const auto answer = who.answer_of<fbs::Promised>(number);
    REQUIRE(answer);
    return (*answer)->granted();
  }
  bool promises(size_t head, uint32_t epoch) {
    return promises(others[head], three_heads[head], epoch);
  }
  bool holds(size_t head, const held_record& record) {
    const auto number =
        others[head].ask(target, make_msg<fbs::HoldRecord>(context_of(0), [&](auto& h) {
                           h.head = three_heads[head];
                           h.record = std::make_unique<fbs::HeldRecordT>(to_message(record));
                         }));
    const auto answer = others[head].answer_of<fbs::Promised>(number);
    REQUIRE(answer);
    return (*answer)->granted();
  }
  uint64_t end_job(const partner& by) {
    return by.ask(target,
                  make_msg<fbs::HeadEnds>(context_of(0), [](auto& e) { e.reason = "done"; }));
  }
  /// Whether so many remarks say that it waits, each naming this.
  bool says_that_it_waits(size_t times, const std::string& naming) const {
    size_t said = 0;
    for (const auto& text : tells) {
      if (!text.starts_with("waiting: ")) continue;
      said += text.find(naming) != std::string::npos ? 1 : times + 1;
    }
    return said == times;
  }
  bool end_is_kept() const { return end_of_job(io::local_files(), dir.path).has_value(); }
  fbs::ElectorStatusT status() {
    const auto number = coordinator.ask(target, make_msg<fbs::StatusRequest>());
    const auto answer = coordinator.answer_of<fbs::Status>(number);
    REQUIRE(answer);
    return *answer->unpack().values->elector;
  }
};

/// A standby, the second of three, that has heard the first one act in this epoch.
struct standing_by : scripted_electorate {
  explicit standing_by(uint32_t acting = 4) : scripted_electorate({.own = 1}) {
    hear(0, acting);
    hear(2);
  }
};

template <class T>
std::string as_content(const typename T::NativeTableType& what) {
  const auto bytes = encode(make_msg<T>({}, what));
  return {bytes.begin(), bytes.end()};
}

/// The decisions of a head before, by kind.
inline held_records decided_before(uint32_t epoch, const std::string& pause_reason = "lunch") {
  fbs::JobMemoryT job;
  job.paused = true;
  job.pause_reason = pause_reason;
  fbs::ClusterMemoryT cluster;
  cluster.nodes = {"a", "b"};
  return {{message_traits<fbs::JobMemory>::id, {epoch, 8, as_content<fbs::JobMemory>(job)}},
          {message_traits<fbs::ClusterMemory>::id,
           {epoch, 9, as_content<fbs::ClusterMemory>(cluster)}}};
}

inline shared_settings settings_of_job(int64_t steps) {
  config::job job;
  job.train.steps = steps;
  return shared_settings(job);
}

inline std::string content_of(const told<fbs::HoldRecord>& asked) {
  const auto& bytes = *asked->record()->content();
  return {bytes.begin(), bytes.end()};
}

}  // namespace troupe::heads::test

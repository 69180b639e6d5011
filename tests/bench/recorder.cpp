// `troupe-bench recorder`: what the flight recorder costs.
//
// A record alone, in a loop; then messages between two actors of one process, handled by the traced
// base and by CAF's own, interleaved in the same run, so that the cost is a ratio.
#include <algorithm>
#include <chrono>
#include <future>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <caf/all.hpp>

#include "actors/base/traced.hpp"
#include "actors/capture/identities.hpp"
#include "apps/bench/spread.hpp"
#include "apps/bench/stopwatch.hpp"
#include "messages/receive.hpp"
#include "tests/bench/ways.hpp"

namespace troupe::apps {

namespace {

using clock = std::chrono::steady_clock;

/// Nanoseconds of one record, the clock not counted.
double record_ns(recorder& into) {
  constexpr int records = 2'000'000;
  auto& ring = into.here();
  trace_record r;
  const auto begin = clock::now();
  for (int i = 0; i < records; ++i) {
    r.begin_ns = i;
    r.span = static_cast<uint64_t>(i);
    ring.push(r);
  }
  return seconds_since(begin) * 1e9 / records;
}

/// Nanoseconds of reading the records' clock once.
double clock_ns() {
  constexpr int readings = 2'000'000;
  int64_t sum = 0;
  const auto begin = clock::now();
  for (int i = 0; i < readings; ++i) sum += fast_now_ns() & 1;
  const auto taken = seconds_since(begin);
  return sum < 0 ? 0 : taken * 1e9 / readings;
}

struct nothing_kept {};
using echo_actor = caf::typed_actor<caf::replies_to<msg<fbs::Bytes>>::with<msg<fbs::Bytes>>>;
using plain_echo = caf::stateful_actor<nothing_kept, echo_actor::base>*;
using traced_echo = traced_pointer<echo_actor, nothing_kept>;

template <class Self>
echo_actor::behavior_type echo(Self self) {
  guard_mailbox(self);
  return {[](const msg<fbs::Bytes>& m) { return m; }};
}

struct client_state {
  uint64_t sent = 0, back = 0;
};
using ask_actor = caf::typed_actor<caf::reacts_to<msg<fbs::Bytes>>, caf::reacts_to<caf::ok_atom>>;
using plain_client = caf::stateful_actor<client_state, ask_actor::base>*;
using traced_client = traced_pointer<ask_actor, client_state>;

struct order {
  echo_actor target;
  std::shared_ptr<std::promise<void>> done;
  uint64_t round_trips = 0;
};

constexpr uint64_t window = 64;

/// Keeps `window` messages of 64 bytes under way; both kinds run exactly this.
template <class Self>
ask_actor::behavior_type client(Self self, order todo) {
  guard_mailbox(self);
  auto one = [self, todo] {
    ++self->state.sent;
    static const std::vector<uint8_t> source(64, 7);
    message_context c;
    c.span = next_span();
    self->send(todo.target, build_msg<fbs::Bytes>(c, [](message_builder& b) {
                 return fbs::CreateBytes(b, b.CreateVector(source.data(), source.size()));
               }));
  };
  return {[self, todo, one](const msg<fbs::Bytes>&) {
            if (self->state.sent < todo.round_trips) one();
            if (++self->state.back < todo.round_trips) return;
            todo.done->set_value();
            self->quit();
          },
          [one](caf::ok_atom) {
            for (uint64_t i = 0; i < window; ++i) one();
          }};
}

/// Messages a second, counting both directions; 0 where they stopped.
template <class Echo, class Client>
double messages_per_s(caf::actor_system& system, uint64_t round_trips) {
  auto target = system.spawn(echo<Echo>);
  auto finished = std::make_shared<std::promise<void>>();
  const auto begin = clock::now();
  auto asking = system.spawn(client<Client>, order{target, finished, round_trips});
  caf::anon_send(asking, caf::ok_atom_v);
  const bool done =
      finished->get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  const auto taken = seconds_since(begin);
  caf::anon_send_exit(target, caf::exit_reason::user_shutdown);
  return done ? 2.0 * static_cast<double>(round_trips) / taken : 0;
}

result<int> bench_recorder(int rounds, bool json) {
  runtime_config config;
  config.set("scheduler.max-threads", size_t{1});  // no lottery of who runs beside whom
  caf::actor_system system(config);
  constexpr uint64_t round_trips = 200'000;
  std::vector<double> on, off, ratios, records, clocks;
  for (int i = 0; i < rounds; ++i) {
    records.push_back(record_ns(config.own->records));
    clocks.push_back(clock_ns());
    off.push_back(messages_per_s<plain_echo, plain_client>(system, round_trips));
    on.push_back(messages_per_s<traced_echo, traced_client>(system, round_trips));
    if (on.back() == 0 || off.back() == 0)
      return error{errc::timeout, "the messages of the benchmark stopped coming back"};
    ratios.push_back(on.back() / off.back());
  }
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  if (json) {
    nlohmann::ordered_json j{{"record_ns", median(records)},
                             {"clock_ns", median(clocks)},
                             {"messages_per_s_traced", median(on)},
                             {"messages_per_s_plain", median(off)},
                             {"ratio", median(ratios)},
                             {"ratio_least", *least},
                             {"ratio_most", *most},
                             {"rounds", rounds}};
    TROUPE_CHECK(print(j.dump() + "\n"));
    return 0;
  }
  TROUPE_CHECK(print(fmt::format(
      "one record            {:6.1f} ns (and a reading of the clock {:.1f} ns, one a message)\n"
      "messages, traced      {:6.2f} M/s\n"
      "messages, CAF's own   {:6.2f} M/s\n"
      "ratio                 {:6.3f} ({:.3f} to {:.3f} in {} rounds, interleaved)\n",
      median(records), median(clocks), median(on) / 1e6, median(off) / 1e6, median(ratios), *least,
      *most, rounds)));
  return 0;
}

}  // namespace

void add_bench_recorder(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("recorder", "What the flight recorder costs a message");
  auto rounds = std::make_shared<int>(7);
  auto json = std::make_shared<bool>(false);
  verb->add_option("--rounds", *rounds, "Interleaved rounds")->within(1, 1000);
  verb->add_flag("--json", *json, "As one JSON object");
  on_run(sh, verb, [rounds, json] { return bench_recorder(*rounds, *json); });
}

}  // namespace troupe::apps

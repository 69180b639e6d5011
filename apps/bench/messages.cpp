// `troupe bench messages`: the cost of msg<T> as a ratio to bare CAF, measured in the same run.
//
// Both variants take turns within each round, in an order that swaps every round, so that whatever
// else the machine does hits both alike. A ratio is taken per round; what is shown is the median
// over the rounds and its spread. msg<T> carries 64 bytes of header and a FlatBuffer, checksums and
// verifies what comes from a socket; bare CAF does none of it.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.hpp"
#include "apps/bench/messages_run.hpp"
#include "apps/bench/spread.hpp"

namespace troupe::apps {

namespace {

using bench::arena;
using bench::sample;
using bench::transport;
using bench::variant;

struct messages_arguments {
  int rounds = 9;
  double seconds = 0.15;
  std::vector<size_t> sizes = {64, 4096, 262144};
  std::string only;
  bool json = false;
};

/// Payloads under way in the phase that measures the rate.
constexpr size_t rate_window = 32;

/// What one round says of one variant.
struct figures {
  double rate = 0;    ///< round trips a second
  double p50_us = 0;  ///< round trip, microseconds
  double p99_us = 0;
  double cpu_us = 0;  ///< processor time of a round trip at full rate, microseconds
  double faults = 0;  ///< page faults of a round trip at full rate
};

struct row {
  transport way;
  size_t bytes;
  std::array<std::vector<figures>, 2> of;  // by variant
};

spread of_variant(const row& r, variant c, double figures::*what) {
  std::vector<double> x;
  for (const auto& f : r.of[static_cast<size_t>(c)]) x.push_back(f.*what);
  return spread_of(std::move(x));
}

/// msg<T> divided by bare CAF, round by round.
spread ratio(const row& r, double figures::*what) {
  std::vector<double> x;
  for (size_t i = 0; i < r.of[0].size(); ++i)
    x.push_back(r.of[0][i].*what / std::max(r.of[1][i].*what, 1e-9));
  return spread_of(std::move(x));
}

double percentile_us(std::vector<int64_t>& ns, double share) {
  if (ns.empty()) return 0;
  auto at = ns.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(ns.size() - 1));
  std::nth_element(ns.begin(), at, ns.end());
  return static_cast<double>(*at) * 1e-3;
}

result<figures> measure(arena& a, variant what, size_t bytes, double seconds) {
  figures out;
  TROUPE_TRY(single, a.run(what, bytes, 1, seconds));
  out.p50_us = percentile_us(single.latency_ns, 0.50);
  out.p99_us = percentile_us(single.latency_ns, 0.99);
  TROUPE_TRY(many, a.run(what, bytes, rate_window, seconds));
  auto trips = static_cast<double>(std::max<uint64_t>(1, many.round_trips));
  out.rate = trips / many.seconds;
  out.cpu_us = many.cpu_seconds / trips * 1e6;
  out.faults = static_cast<double>(many.page_faults) / trips;
  return out;
}

result<row> measure_row(arena& a, transport way, size_t bytes, const messages_arguments& args) {
  row out{way, bytes, {}};
  for (auto c : {variant::bare, variant::msg})
    if (auto warm = a.run(c, bytes, rate_window, 0.05); !warm) return warm.error();
  for (int round = 0; round < args.rounds; ++round) {
    std::array order = {variant::msg, variant::bare};
    if (round % 2 != 0) std::swap(order[0], order[1]);
    for (auto c : order) {
      TROUPE_TRY(f, measure(a, c, bytes, args.seconds));
      out.of[static_cast<size_t>(c)].push_back(f);
    }
  }
  return out;
}

nlohmann::ordered_json to_json(const row& r) {
  nlohmann::ordered_json out;
  out["transport"] = bench::to_string(r.way);
  out["payload_bytes"] = r.bytes;
  out["rounds"] = r.of[0].size();
  for (auto c : {variant::msg, variant::bare}) {
    auto& of = out[c == variant::msg ? "msg" : "bare"];
    of["round_trips_per_s"] = json_of(of_variant(r, c, &figures::rate));
    of["p50_us"] = json_of(of_variant(r, c, &figures::p50_us));
    of["p99_us"] = json_of(of_variant(r, c, &figures::p99_us));
    of["cpu_us"] = json_of(of_variant(r, c, &figures::cpu_us));
    of["page_faults"] = json_of(of_variant(r, c, &figures::faults));
  }
  out["ratio"]["rate"] = json_of(ratio(r, &figures::rate));
  out["ratio"]["p50"] = json_of(ratio(r, &figures::p50_us));
  out["ratio"]["p99"] = json_of(ratio(r, &figures::p99_us));
  out["ratio"]["cpu"] = json_of(ratio(r, &figures::cpu_us));
  return out;
}

std::string head() {
  return fmt::format("{:<13} {:>7}  {:<8} {:>12} {:>9} {:>9} {:>8}   {}\n", "between", "payload",
                     "variant", "trips/s", "p50 us", "p99 us", "cpu us",
                     "msg<T> / bare CAF: median [least-most]");
}

std::string show(const row& r) {
  std::string out;
  for (auto c : {variant::msg, variant::bare}) {
    out += fmt::format(
        "{:<13} {:>7}  {:<8} {:>12.0f} {:>9.1f} {:>9.1f} {:>8.2f}",
        c == variant::msg ? bench::to_string(r.way) : "",
        c == variant::msg ? std::to_string(r.bytes) : "", bench::to_string(c),
        of_variant(r, c, &figures::rate).median, of_variant(r, c, &figures::p50_us).median,
        of_variant(r, c, &figures::p99_us).median, of_variant(r, c, &figures::cpu_us).median);
    auto rate = ratio(r, c == variant::msg ? &figures::rate : &figures::p50_us);
    auto cpu = ratio(r, c == variant::msg ? &figures::cpu_us : &figures::p99_us);
    out += fmt::format("   {} {:.3f} [{:.2f}-{:.2f}]  {} {:.3f} [{:.2f}-{:.2f}]\n",
                       c == variant::msg ? "rate" : "p50 ", rate.median, rate.least, rate.most,
                       c == variant::msg ? "cpu" : "p99", cpu.median, cpu.least, cpu.most);
  }
  return out;
}

std::optional<transport> transport_named(std::string_view name) {
  if (name == "local") return transport::local;
  if (name == "loopback") return transport::loopback;
  if (name == "tls") return transport::tls;
  return std::nullopt;
}

result<int> run_messages(const messages_arguments& args) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  auto only = transport_named(args.only);
  if (!args.json) TROUPE_CHECK(print(head()));
  for (auto way : {transport::local, transport::loopback, transport::tls}) {
    if (only && *only != way) continue;
    TROUPE_TRY(a, arena::make(way));
    for (auto bytes : args.sizes) {
      TROUPE_TRY(r, measure_row(*a, way, bytes, args));
      if (args.json)
        all.push_back(to_json(r));
      else
        TROUPE_CHECK(print(show(r)));
    }
  }
  if (args.json) TROUPE_CHECK(print(all.dump() + "\n"));
  return 0;
}

}  // namespace

void add_bench_messages(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand("messages", "Messages a second, and how long one takes");
  auto args = std::make_shared<messages_arguments>();
  verb->add_option("--rounds", args->rounds, "Rounds in which both variants take turns")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--seconds", args->seconds, "Length of one phase, seconds")
      ->within(0.01, 60.0)
      ->capture_default_str();
  verb->add_option("--bytes", args->sizes, "Payload sizes, bytes")
      ->within(1, 1000 * 1000)
      ->capture_default_str();
  verb->add_option("--only", args->only, "One way between the actors")
      ->one_of({"local", "loopback", "tls"});
  verb->add_flag("--json", args->json, "As one JSON array");
  on_run(sh, verb, [args]() { return run_messages(*args); });
}

}  // namespace troupe::apps

// The simulated row: its model's numbers, what it keeps, and what POLCA's reproduction found.
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/sim/row/row_load.hpp"
#include "actors/sim/row/row_pools.hpp"
#include "actors/sim/row/row_sim.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::sim;
using power::row_rule;

namespace {

constexpr int64_t one_s = 1'000'000'000;

row_options row_of(int servers, row_rule rule, int weeks = 1) {
  row_options o;
  o.servers = servers;
  o.rule = rule;
  o.weeks = weeks;
  return o;
}

/// A column of a table of shared/data/power, by the heading's name; empty where it is not there.
std::vector<std::vector<std::string>> power_rows(const std::string& name) {
  const auto folder = shared_folder();
  std::ifstream in(folder / "data/power" / name);
  std::vector<std::vector<std::string>> out;
  if (folder.empty() || !in) {
    MESSAGE("SKIPPED: no shared/data/power/" << name
                                             << " beside the source tree, and no TROUPE_SHARED");
    return out;
  }
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    out.emplace_back();
    for (std::string field; std::getline(fields, field, ',');) out.back().push_back(field);
  }
  return out;
}

uint64_t came(const row_class_outcome& o) {
  return o.done + o.dropped + o.left;
}

}  // namespace

TEST_CASE("row model: watts and times by clock are those of the published table") {
  struct published {
    int mhz;
    double prompt_w, token_w, prompt_x, token_x;
  };
  const published table[] = {{1410, 400, 250, 1, 1},
                             {1305, 372, 235, 1.080, 1.018},
                             {1275, 364, 231, 1.106, 1.023},
                             {1110, 320, 208, 1.270, 1.059},
                             {288, 128, 105, 4.90, 4.90}};
  const row_watts watts(1);
  CHECK(watts.idle_mw() == (1900 + 8 * 80) * 1000);
  for (const auto& p : table) {
    CAPTURE(p.mhz);
    const auto clock = clock_of(p.mhz);
    CHECK(std::abs(watts.prompt_mw(1, clock) / 1e3 - (2150 + 8 * p.prompt_w)) < 8);
    CHECK(std::abs(watts.token_mw(clock) / 1e3 - (2150 + 8 * p.token_w)) < 8);
    CHECK(std::abs(clock.prompt_x - p.prompt_x) < 0.005);
    CHECK(std::abs(clock.token_x - p.token_x) < 0.005);
  }
  CHECK(row_watts(1.05).token_mw(clock_of(1410)) == (2150 + 2100) * 1000);
}

TEST_CASE("row model: prompts lie between measured lengths, and go on beyond them") {
  CHECK(prompt_s(128) == doctest::Approx(0.0797));
  CHECK(prompt_s(3072) == doctest::Approx((0.5404 + 1.3482) / 2));
  CHECK(prompt_s(12288) == doctest::Approx(3.5932 + (3.5932 - 1.3482)));
  CHECK(prompt_peak(8192) == doctest::Approx(1.026));
  CHECK(prompt_peak(12288) == doctest::Approx(1.026));
  rng chance(3);
  std::array<double, 2> mean{};
  for (const auto c : {row_class::low, row_class::high})
    for (int i = 0; i < 100'000; ++i)
      mean[static_cast<size_t>(c)] += service_s(draw_request(c, chance)) / 100'000;
  CHECK(mean[0] == doctest::Approx(38.3).epsilon(0.01));
  CHECK(mean[1] == doctest::Approx(66.2).epsilon(0.01));
}

TEST_CASE("row pools: a change of clock stretches what is left, and the brake keeps later caps") {
  row_pools pools(1, 1, 1);
  const row_request r{2048, 1000};  // 0.5404 s and 50 s
  pools.arrive(row_class::low, r, 0);
  CHECK(pools.next_end_ns() == 540'400'000);
  pools.end_phase(540'400'000);
  CHECK(pools.next_end_ns() == 50'540'400'000);
  pools.lock(row_class::low, 705,
             25'540'400'000);  // half of the tokens are left, 1.22 times as long
  CHECK(pools.next_end_ns() == 25'540'400'000 + 30'500'000'000);
  const auto before_mw = pools.drawn_mw();
  pools.brake(288, 25'540'400'000);
  CHECK(pools.drawn_mw() < before_mw);
  CHECK(pools.next_end_ns() == 25'540'400'000 + 122'395'833'333);
  pools.lock(row_class::low, 1410, 26 * one_s);  // held back by the brake
  CHECK(pools.drawn_mw() < before_mw);
  pools.release([](size_t server) { return server == 1; }, 27 * one_s);  // another's
  CHECK(pools.drawn_mw() < before_mw);
  pools.release([](size_t server) { return server == 0; }, 27 * one_s);
  CHECK(pools.drawn_mw() > before_mw);
  CHECK(pools.next_end_ns() < 55 * one_s);
}

TEST_CASE("row pools: requests wait in line, as many as there are servers, and no more") {
  row_pools pools(2, 1, 1);
  for (int i = 0; i < 6; ++i) pools.arrive(row_class::low, {512, 100 + i}, i);
  CHECK(pools.of(row_class::low).dropped == 2);
  CHECK(pools.unfinished(row_class::low) == 4);
  while (pools.next_end_ns() != phase_ends::never) pools.end_phase(pools.next_end_ns());
  const auto& done = pools.of(row_class::low).latency_s;
  REQUIRE(done.size() == 4);
  CHECK(done[2] == doctest::Approx(done[0] + 0.1738 + 5.1));  // the first that waited came first
  CHECK(pools.drawn_mw() == 3 * row_watts(1).idle_mw());
}

TEST_CASE("RWS-1 the same options give the same outcome, another seed another") {
  const auto o = row_of(52, row_rule::polca);
  std::vector<row_tick> first, second;
  const auto a = simulate_row(o, &first), b = simulate_row(o, &second);
  CHECK(a.max_power == b.max_power);
  CHECK(a.mwh == b.mwh);
  CHECK(a.of[0].p99_s == b.of[0].p99_s);
  REQUIRE(first.size() == second.size());
  CHECK(first.size() == 7 * 86'400 / 2);
  for (size_t i = 0; i < first.size(); ++i) REQUIRE(first[i].power == second[i].power);
  auto other = o;
  other.seed = 2;
  CHECK(simulate_row(other).mwh != a.mwh);
}

TEST_CASE("RWS-2, RWS-3 the same requests come whatever the policy, and none is lost") {
  const auto none = simulate_row(row_of(56, row_rule::none));
  CHECK(none.brakes > 0);
  for (const auto rule : {row_rule::low, row_rule::all, row_rule::polca, row_rule::ladder}) {
    const auto o = simulate_row(row_of(56, rule));
    for (size_t c = 0; c < 2; ++c) CHECK(came(o.of[c]) == came(none.of[c]));
  }
}

TEST_CASE("RWS-3 energy is what ticks say, and peaks are theirs") {
  const auto o = row_of(54, row_rule::none);
  std::vector<row_tick> seen;
  const auto out = simulate_row(o, &seen);
  double sum = 0, most = 0;
  uint64_t over = 0;
  for (const auto& t : seen) {
    sum += static_cast<double>(t.power);
    most = std::max(most, static_cast<double>(t.power));
    over += t.power > 1;
  }
  CHECK(sum * 2 / 3600 * o.budget_w / 1e6 == doctest::Approx(out.mwh).epsilon(1e-5));
  CHECK(most == doctest::Approx(out.max_power).epsilon(1e-6));
  CHECK(over == out.ticks_over_1);
  CHECK(out.max_5min < out.max_power);
  CHECK(out.spike_2s <= out.spike_40s);
}

TEST_CASE("row: what T2 must leave free is a rise that no brake lies within") {
  // Many servers, so that a row's own rises are small beside what waits behind a brake.
  auto o = row_of(1000, row_rule::none);
  o.budget_w = 4e6;
  o.actuation_s = 0;
  std::vector<row_tick> seen;
  const auto out = simulate_row(o, &seen);
  REQUIRE(out.brakes > 100);
  const auto free = [&](size_t i) { return seen[i].brake == power::row_brake::off; };
  double most = 0;
  for (size_t i = 2; i < seen.size(); ++i)
    if (free(i - 2) && free(i - 1))  // so that neither tick has a brake in it
      most = std::max(most, static_cast<double>(seen[i].power - seen[i - 1].power));
  CHECK(out.spike_answer == doctest::Approx(most).epsilon(1e-4));
}

TEST_CASE("ROW-5: a row whose brake is released in groups comes back in steps") {
  auto o = row_of(56, row_rule::none);
  std::vector<row_tick> at_once, in_groups;
  const auto all = simulate_row(o, &at_once);
  o.release_groups = 4;
  const auto grouped = simulate_row(o, &in_groups);
  REQUIRE(all.brakes > 100);
  REQUIRE(grouped.brakes > 0);
  // The most that power rises by within 6 s of a release: it takes 5 s, the next group 10 s more.
  const auto largest = [](const std::vector<row_tick>& ticks) {
    double out = 0;
    for (size_t i = 3; i < ticks.size(); ++i)
      if (ticks[i - 3].brake == power::row_brake::releasing)
        out = std::max(out, double{ticks[i].power} - double{ticks[i - 3].power});
    return out;
  };
  CHECK(largest(in_groups) < 0.7 * largest(at_once));
  CHECK(came(grouped.of[0]) == came(all.of[0]));
}

TEST_CASE("row: a row with one class alone, a slow meter or an odd actuation is simulated, too") {
  auto o = row_of(48, row_rule::polca);
  o.lp_share = 0;
  CHECK(came(simulate_row(o).of[0]) == 0);
  o.lp_share = 1;
  CHECK(came(simulate_row(o).of[1]) == 0);
  o.lp_share = 0.5;
  o.telemetry_s = 7;
  o.actuation_s = 0;
  std::vector<row_tick> seen;
  CHECK(simulate_row(o, &seen).max_power > 0.5);
  CHECK(seen.size() == 7 * 86'400 / 7);
}

TEST_CASE("row: options beyond their bounds are refused with the option's name") {
  const auto refused = [](const char* name, auto change) {
    row_options o;
    change(o);
    const auto s = check(o);
    return !s && s.error().code == errc::usage && s.error().message.find(name) != std::string::npos;
  };
  CHECK(check(row_options{}));
  CHECK(refused("--servers", [](auto& o) { o.servers = 0; }));
  CHECK(refused("--servers", [](auto& o) { o.servers = row_options::most_servers + 1; }));
  CHECK(refused("--weeks", [](auto& o) { o.weeks = row_options::most_weeks + 1; }));
  CHECK(refused("--budget-w", [](auto& o) { o.budget_w = std::nan(""); }));
  CHECK(refused("--telemetry-s", [](auto& o) { o.telemetry_s = 0; }));
  CHECK(refused("--actuation-s", [](auto& o) { o.actuation_s = -1; }));
  CHECK(refused("--lp-share", [](auto& o) { o.lp_share = 1.1; }));
  CHECK(refused("--power-scale", [](auto& o) { o.power_scale = 0; }));
  CHECK(refused("--release-groups", [](auto& o) { o.release_groups = 0; }));
  CHECK(refused("--release-groups",
                [](auto& o) { o.release_groups = row_options::most_release_groups + 1; }));
}

TEST_CASE("row: bounds that multiply to more than memory are refused, and no more than those") {
  row_options o;
  o.servers = row_options::most_servers;
  o.weeks = row_options::most_server_weeks / row_options::most_servers;
  CHECK(check_run(o));
  ++o.weeks;
  CHECK(check_run(o).error().message.find("--servers") != std::string::npos);
  o.servers = 1;
  o.weeks = row_options::most_weeks;
  CHECK(check_run(o));
  o.telemetry_s = 0.5;
  CHECK(check_run(o).error().message.find("--telemetry-s") != std::string::npos);
}

TEST_CASE("row: fewer brakes with POLCA than with one threshold, and far fewer than with none") {
  const auto brakes = [](row_rule rule) {
    auto o = row_of(53, rule, 3);
    return simulate_row(o).brakes;
  };
  const auto polca = brakes(row_rule::polca), low = brakes(row_rule::low),
             none = brakes(row_rule::none);
  CHECK(low > 10);
  CHECK(low >= 3 * std::max<uint64_t>(1, polca));
  CHECK(none > 100 * low);
}

TEST_CASE("row: six weeks of the azure rates are what the prototype's table says") {
  const auto rates = power_rows("azure_llm_2024_week_rate_10min.csv");
  const auto table = power_rows("polca_des_prototype_results.csv");
  if (rates.empty() || table.empty()) return;
  std::map<std::string, size_t> at;
  for (size_t i = 0; i < table[0].size(); ++i) at[table[0][i]] = i;
  const auto run = [&](int servers, row_rule rule) {
    auto o = row_of(servers, rule, 6);
    for (size_t i = 1; i < rates.size(); ++i) o.profile.push_back(std::stod(rates[i][3]));
    return simulate_row(o);
  };
  for (const auto& r : table) {
    if (r[at["seed"]] != "1" || r[at["intensity"]] != "1.00" || r[at["T1_T2"]] != "80-89") continue;
    const auto servers = std::stoi(r[at["servers"]]);
    const auto& policy = r[at["policy"]];
    const bool wanted = (servers == 40 && policy == "nocap") || servers == 52;
    if (!wanted) continue;
    CAPTURE(policy);
    CAPTURE(servers);
    const auto number = [&](const char* name) { return std::stod(r[at[name]]); };
    const auto rule = policy == "nocap" ? row_rule::none
                      : policy == "low" ? row_rule::low
                      : policy == "all" ? row_rule::all
                                        : row_rule::polca;
    const auto out = run(servers, rule);
    CHECK(std::abs(out.max_power - number("max_power")) < 0.01);
    CHECK(std::abs(out.mean_power - number("mean_power")) < 0.005);
    CHECK(out.mwh == doctest::Approx(number("MWh")).epsilon(0.01));
    CHECK(std::abs(out.of[0].capped_share - number("frac_LP_capped")) < 0.01);
    CHECK(std::abs(out.of[1].capped_share - number("frac_HP_capped")) < 0.01);
    const double brakes = number("brakes");
    CHECK(static_cast<double>(out.brakes) <= 2 + 1.5 * brakes);
    CHECK(static_cast<double>(out.brakes) >= brakes / 1.5 - 2);
    if (rule == row_rule::none && servers > 40) continue;  // metastable: backlogs differ by seeds
    CHECK(out.of[0].p50_s == doctest::Approx(number("LP_p50_s")).epsilon(0.01));
    CHECK(out.of[1].p50_s == doctest::Approx(number("HP_p50_s")).epsilon(0.01));
  }
}

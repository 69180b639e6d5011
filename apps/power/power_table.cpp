// `troupe power sim --table`: the runs that POLCA is judged by, and whether each bar is met.
//
// Bars are those of the paper's reproduction (docs/power.md): the row's own peak, brakes of POLCA
// beside every baseline, latency and throughput, where its first brake comes, what other thresholds
// and hungrier GPUs change, and the ladder that answers within two seconds.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/power/power.hpp"
#include "apps/talk.hpp"
#include "trace/text.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;
using power::row_rule;
using sim::row_outcome;

constexpr int own = sim::row_own_servers, grown = 52, more = 54;
constexpr std::array growths = {51, grown, 53, more, 55};  ///< +27.5 % to +37.5 %
constexpr std::array baselines = {row_rule::none, row_rule::low, row_rule::all};
constexpr power::row_thresholds lower_pair{0.75, 0.85, 0.95}, higher_pair{0.85, 0.95, 0.95};
constexpr double hungrier = 1.05;

/// Which run: servers, policy, thresholds, watts of GPUs.
struct table_key {
  int servers = own;
  row_rule rule = row_rule::polca;
  power::row_thresholds thresholds = {};
  double power_scale = 1;
};

bool same(const table_key& k, const sim::row_options& o) {
  return k.servers == o.servers && k.rule == o.rule && k.thresholds.t1 == o.thresholds.t1 &&
         k.power_scale == o.power_scale;
}

table_key ladder_key() {
  return {more, row_rule::ladder, {0.85, 0.92, 0.95}, 1};
}

std::vector<table_key> keys() {
  std::vector<table_key> out = {{own, row_rule::none}};
  for (const double scale : {1.0, hungrier}) {
    for (const auto rule : baselines) out.push_back({grown, rule, {}, scale});
    out.push_back({grown, row_rule::polca, {}, scale});
  }
  for (const int servers : growths)
    if (servers != grown) out.push_back({servers, row_rule::polca});
  for (const auto& pair : {lower_pair, higher_pair})
    for (const int servers : {grown, more}) out.push_back({servers, row_rule::polca, pair});
  out.push_back(ladder_key());
  return out;
}

struct bar {
  std::string what, wanted, found;
  bool met = false;
};

class judged_table {
 public:
  explicit judged_table(const sim_arguments& a) {
    for (const auto& k : keys())
      for (uint64_t s = 0; s < seeds; ++s) {
        auto o = a.policy.row;
        o.servers = k.servers;
        o.rule = k.rule;
        o.thresholds = k.thresholds;
        o.power_scale = k.power_scale;
        o.seed += s;
        if (k.rule == row_rule::ladder) o.actuation_s = 2;
        rows_.push_back({std::string(power::to_string(k.rule)), o, {}, {}});
      }
  }

  void run() {
    progress_line line;
    in_parallel(
        rows_.size(), [&](size_t i) { rows_[i].outcome = sim::simulate_row(rows_[i].options); },
        [&](size_t done) { line.tell(fmt::format("run {}/{}", done, rows_.size())); });
    judge();
  }

  bool met() const {
    return std::all_of(bars_.begin(), bars_.end(), [](const auto& b) { return b.met; });
  }
  std::string text() const;
  std::string json() const;

 private:
  static constexpr uint64_t seeds = 3;

  /// Of each seed.
  std::vector<const row_outcome*> of(const table_key& k) const {
    std::vector<const row_outcome*> out;
    for (const auto& r : rows_)
      if (same(k, r.options)) out.push_back(&r.outcome);
    return out;
  }
  std::vector<uint64_t> brakes(const table_key& k) const {
    std::vector<uint64_t> out;
    for (const auto* o : of(k)) out.push_back(o->brakes);
    return out;
  }
  uint64_t median_brakes(const table_key& k) const {
    auto all = brakes(k);
    std::nth_element(all.begin(), all.begin() + seeds / 2, all.end());
    return all[seeds / 2];
  }
  void add(std::string what, std::string wanted, std::string found, bool met) {
    bars_.push_back({std::move(what), std::move(wanted), std::move(found), met});
  }

  void judge();
  void judge_brakes();
  void judge_service(const std::string& who, const table_key& k);
  void judge_growth();
  void judge_thresholds();

  std::vector<row_told> rows_;
  std::vector<bar> bars_;
};

void judged_table::judge() {
  std::vector<std::string> peaks;
  bool near = true;
  for (const auto* o : of({own, row_rule::none})) {
    peaks.push_back(fmt::format("{:.2f}", 100 * o->max_power));
    near &= std::abs(o->max_power - 0.79) <= 0.01;
  }
  add("peak of 40 servers", "79 +-1 % with each seed", fmt::format("{} %", fmt::join(peaks, ", ")),
      near);
  judge_brakes();
  judge_service("polca at +30 %", {grown});
  judge_growth();
  judge_thresholds();
  const auto ladder = brakes(ladder_key());
  add("ladder at +35 %, clocks follow in 2 s: brakes", "0 with each seed",
      fmt::format("{}", fmt::join(ladder, ", ")),
      std::all_of(ladder.begin(), ladder.end(), [](auto n) { return n == 0; }));
  judge_service("ladder at +35 %", ladder_key());
}

void judged_table::judge_brakes() {
  const auto polca = median_brakes({grown});
  add("polca at +30 %: median of brakes", "at most 2",
      fmt::format("{} of {}", polca, fmt::join(brakes({grown}), ", ")), polca <= 2);
  for (const auto rule : baselines) {
    const auto n = median_brakes({grown, rule});
    const auto name = power::to_string(rule);
    add(fmt::format("{} at +30 %: median of brakes", name),
        rule == row_rule::none ? "1,000 to 100,000" : "10 times polca's at least",
        fmt::format("{} of {}", n, fmt::join(brakes({grown, rule}), ", ")),
        n >= 10 * std::max<uint64_t>(1, polca) &&
            (rule != row_rule::none || (n >= 1'000 && n <= 100'000)));
  }
  const auto hungry = median_brakes({grown, row_rule::polca, {}, hungrier});
  bool fewest = true;
  std::vector<std::string> found = {fmt::format("polca {}", hungry)};
  for (const auto rule : baselines) {
    const auto n = median_brakes({grown, rule, {}, hungrier});
    found.push_back(fmt::format("{} {}", power::to_string(rule), n));
    fewest &= hungry < n;
  }
  add("GPUs draw 5 % more: median of brakes", "polca's the fewest",
      fmt::format("{}", fmt::join(found, ", ")), fewest);
}

/// Against the same seed's own row, uncapped; work is lost in requests that are dropped. The worst
/// of the seeds.
void judged_table::judge_service(const std::string& who, const table_key& k) {
  const auto before = of({own, row_rule::none}), after = of(k);
  struct limits {
    const char* name;
    double p50, p99, lost;
  };
  constexpr limits bounds[] = {{"low", 5, 50, 2}, {"high", 1, 5, 1}};
  for (int c = 0; c < sim::row_classes; ++c) {
    double p50 = -1e9, p99 = -1e9, lost = -1e9;
    for (size_t s = 0; s < before.size(); ++s) {
      const auto &a = before[s]->of[static_cast<size_t>(c)],
                 &b = after[s]->of[static_cast<size_t>(c)];
      p50 = std::max(p50, 100 * (b.p50_s / a.p50_s - 1));
      p99 = std::max(p99, 100 * (b.p99_s / a.p99_s - 1));
      const auto came = b.done + b.dropped + b.left;
      lost = std::max(
          lost, came > 0 ? 100 * static_cast<double>(b.dropped) / static_cast<double>(came) : 0);
    }
    const auto& [name, most_p50, most_p99, most_lost] = bounds[c];
    add(fmt::format("{}: added p50, p99, work lost, {} priority", who, name),
        fmt::format("below {}, {}, {} %", most_p50, most_p99, most_lost),
        fmt::format("{:.2f}, {:.2f}, {:.3f} %", p50, p99, lost),
        p50 < most_p50 && p99 < most_p99 && lost < most_lost);
  }
}

void judged_table::judge_growth() {
  std::vector<std::string> first;
  bool within = true;
  for (size_t s = 0; s < seeds; ++s) {
    std::string found = "later";
    for (const int servers : growths)
      if (brakes({servers})[s] > 0) {
        found = fmt::format("+{:g} %", 100.0 * servers / own - 100);
        within &= servers >= grown;
        break;
      }
    within &= found != "later";
    first.push_back(found);
  }
  add("polca: its first brake", "at +30 to +37.5 % with each seed",
      fmt::format("{}", fmt::join(first, ", ")), within);
}

void judged_table::judge_thresholds() {
  const table_key pairs[] = {{more, row_rule::polca, lower_pair},
                             {more, row_rule::polca},
                             {more, row_rule::polca, higher_pair}};
  std::vector<std::string> found;
  bool ordered = true;
  for (size_t i = 0; i < std::size(pairs); ++i) {
    const auto capped = of(pairs[i])[0]->of[0].capped_share;
    found.push_back(fmt::format("{:.0f} % {}", 100 * capped, median_brakes(pairs[i])));
    if (i == 0) continue;
    ordered &= median_brakes(pairs[i]) > median_brakes(pairs[i - 1]);
    ordered &= capped < of(pairs[i - 1])[0]->of[0].capped_share;
  }
  add("75-85, 80-89, 85-95 at +35 %: time low is capped, median of brakes",
      "each caps less and brakes more", fmt::format("{}", fmt::join(found, "; ")), ordered);
}

std::string judged_table::text() const {
  std::vector<std::vector<std::string>> runs = {{"policy", "added", "GPUs", "T", "seed", "peak",
                                                 "rise 40 s", "brakes", "LP capped", "LP p50",
                                                 "LP p99", "HP p50", "HP p99", "dropped"}};
  for (const auto& r : rows_) {
    const auto& [lp, hp] = r.outcome.of;
    runs.push_back({r.policy, fmt::format("{:+g} %", added_percent(r.options)),
                    fmt::format("{:g}", r.options.power_scale), thresholds_text(r.options),
                    std::to_string(r.options.seed), fmt::format("{:.4f}", r.outcome.max_power),
                    fmt::format("{:.3f}", r.outcome.spike_40s.value_or(0)),
                    std::to_string(r.outcome.brakes), fmt::format("{:.4f}", lp.capped_share),
                    fmt::format("{:.2f}", lp.p50_s), fmt::format("{:.2f}", lp.p99_s),
                    fmt::format("{:.2f}", hp.p50_s), fmt::format("{:.2f}", hp.p99_s),
                    std::to_string(lp.dropped + hp.dropped)});
  }
  std::vector<std::vector<std::string>> judged = {{"bar", "wanted", "found", ""}};
  for (const auto& b : bars_)
    judged.push_back({b.what, b.wanted, b.found, b.met ? "met" : "MISSED"});
  const auto met = std::count_if(bars_.begin(), bars_.end(), [](const auto& b) { return b.met; });
  return trace::table_text(std::move(runs), 0) + "\n" + trace::table_text(std::move(judged), 0) +
         fmt::format(
             "\n{} of {} bars are met. Known differences from the paper: these rows rise more in "
             "40 s "
             "(11.8 % there), since servers\nwithout batching are on or off; +35 % is not free of "
             "brakes out of band; the mix, the host's watts and the clocks'\nexponent are fitted "
             "or "
             "guessed, not measured.\n",
             met, bars_.size());
}

std::string judged_table::json() const {
  ordered_json rows = ordered_json::array(), bars = ordered_json::array();
  for (const auto& r : rows_) rows.push_back(ordered_json::parse(row_json(r)));
  for (const auto& b : bars_)
    bars.push_back({{"what", b.what}, {"wanted", b.wanted}, {"found", b.found}, {"met", b.met}});
  return ordered_json{{"met", met()}, {"bars", bars}, {"rows", rows}}.dump();
}

}  // namespace

result<int> run_table(const sim_arguments& a) {
  for (const auto& [name, it] : a.policy.without_table)
    if (it->count() > 0)
      return error{errc::usage, fmt::format("{} has no meaning with --table", name),
                   "the table says which policies and rows are run; leave it out"};
  if (a.rates.empty())
    return error{errc::usage, "--table needs --rates",
                 "its bars are for the week of azure_llm_2024_week_rate_10min.csv"};
  judged_table table(a);
  table.run();
  TROUPE_CHECK(print(a.json ? table.json() + "\n" : table.text()));
  return table.met() ? 0 : 1;
}

}  // namespace troupe::apps::power_verb

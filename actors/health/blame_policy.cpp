// Medians held against medians: see blame_policy.hpp.
#include "actors/health/blame_policy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <tuple>
#include <utility>

#include "io/base/median.hpp"

namespace troupe::health {

namespace {

using train::op_resource;
using train::pipeline_op;

/// Ranks of fewer than so many are held against the one that has changed least.
constexpr size_t enough_for_median = 5;
/// Ranks of one stage and kind that can say of one of them that it never was as they are.
constexpr size_t enough_peers = 3;
/// `off` begins at this share of what a person cares about, so that it is found soon after a node
/// has become so slow, and ends at half of it, so that nobody is named on and off.
constexpr double begins_at = 0.7, ends_at = 0.35;
/// Standard errors of a median against another that chance does not reach: of millions of windows
/// not one, and the least of some ranks is lower than it should be.
constexpr double beyond_chance = 7;
/// Of the steps since a change, those that are beyond the middle between before and after.
constexpr double mostly = 0.75;
/// A standard deviation by a median distance, and a median's error by a mean's, of normal noise.
constexpr double deviation_by_distance = 1.4826, error_of_median = 1.2533;
/// Of all distances between two of some steps the one that a quarter are less than, by a standard
/// deviation, of normal noise; of more steps than these there are too many.
constexpr double deviation_by_pair = 2.2219;
constexpr size_t paired_steps = 64;
/// No step takes as long; differences of such times are numbers.
constexpr double beyond_all_ms = 1e30;
/// Times as noisy as most: less may be chance, of steps that normal is made of.
constexpr double about_as_noisy = 1.5;

float spread_of(const std::vector<float>& values, float median) {
  std::vector<float> distances;
  distances.reserve(values.size());
  for (const float v : values) distances.push_back(std::abs(v - median));
  return upper_median(std::move(distances));
}

/// A standard deviation, whatever a tail does, `spread` being theirs: by Rousseeuw and Croux's Qn
/// ("Alternatives to the median absolute deviation", JASA 1993). Of 32 steps it errs by a seventh,
/// the median distance by a fifth. But steps of two kinds, by turns, are each like half of the
/// others: then the median distance is the larger by far, and counts.
double deviation_of(const std::vector<float>& values, float spread) {
  const size_t n = values.size();
  const double by_median = deviation_by_distance * double{spread};
  if (n > paired_steps) return by_median;
  if (n < 2) return 0;
  std::vector<float> apart;
  apart.reserve(n * (n - 1) / 2);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < i; ++j) apart.push_back(std::abs(values[i] - values[j]));
  const size_t half = n / 2 + 1;
  const auto at = apart.begin() + static_cast<std::ptrdiff_t>(half * (half - 1) / 2 - 1);
  std::nth_element(apart.begin(), at, apart.end());
  const auto count = static_cast<double>(n);  // of few steps it would be too large
  const double by_pairs =
      deviation_by_pair * double{*at} * count / (count + (n % 2 == 0 ? 3.8 : 1.4));
  return by_median > about_as_noisy * by_pairs ? by_median : by_pairs;
}

/// That a quarter of them are beyond.
float upper_quarter(std::vector<float> values) {
  const auto at = values.end() - 1 - std::ssize(values) / 4;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Of ranks that are about as noisy as most: how much another's noise makes it the least is not
/// known. By rank; `usual` is the median deviation.
float least_of_calm(const std::vector<float>& ratios, const std::vector<float>& deviations,
                    float usual) {
  float out = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < ratios.size(); ++i)
    if (deviations[i] <= static_cast<float>(about_as_noisy) * usual) out = std::min(out, ratios[i]);
  return out;
}

bool is_transfer(pipeline_op part) {
  return train::facts_of(part).resource == op_resource::transfer;
}

}  // namespace

std::string_view to_string(blame_cause cause) noexcept {
  switch (cause) {
    case blame_cause::slow:
      return "slow";
    case blame_cause::misconfigured:
      return "misconfigured";
    case blame_cause::link:
      return "link";
    case blame_cause::job:
      return "job";
  }
  return "unknown";
}

blame_policy::blame_policy(blame_options options, rank_grid grid)
    : options_(options), grid_(grid), now_(static_cast<size_t>(grid.ranks())) {}

void blame_policy::begin_epoch(uint32_t epoch) {
  epoch_ = epoch;
  steps_ = told_ = 0;
  shown_ = 0;
  kinds_ = {};
}

bool blame_policy::hear(uint32_t epoch, uint64_t step, uint64_t rank, parts of_rank,
                        fbs::StepOddity oddity) {
  if (!grid_.holds(static_cast<int64_t>(rank)) || epoch < epoch_) return false;
  if (epoch != epoch_) begin_epoch(epoch);
  if (step != step_ || told_ == 0) {
    step_ = step;
    if (steps_ == 0) first_step_ = step;
    told_ = 0;
    oddity_ = fbs::StepOddity::none;
    for (auto& p : now_) p.clear();
  }
  now_[rank] = std::move(of_rank);
  oddity_ = train::odder_of(oddity_, oddity);
  if (++told_ < now_.size()) return false;
  told_ = 0;
  if (++steps_ <= options_.first_steps || !train::has_peers(oddity_)) return false;
  return end_step();
}

bool blame_policy::end_step() {
  train::settle_transfers(grid_, now_);
  const auto shown = std::exchange(shown_, train::peer_kind_of(oddity_));
  for (size_t rank = 0; rank < now_.size(); ++rank)
    for (const auto& part : now_[rank])
      if (part.kind < pipeline_op::count && part.busy_ms > 0 && std::isfinite(part.busy_ms))
        learn(series_of({part.kind, static_cast<int>(rank)}), part);
  const bool judged = ++seen().learned % steps_between_looks() == 0;
  if (judged) judge();
  if (shown_ == shown || seen().learned > kinds_[shown].learned) return judged;
  shown_ = shown;  // BPT-5
  return false;
}

/// A median moves only when some of its window are new.
size_t blame_policy::steps_between_looks() const noexcept {
  return std::max<size_t>(1, options_.window / 4);
}

size_t blame_policy::quiet_steps_needed() const noexcept {
  if (options_.suspect <= 0) return 0;
  const auto steps = std::max<size_t>(1, options_.quiet_steps) + options_.window;
  const auto pause = steps_between_looks();
  return (steps + pause - 1) / pause * pause;
}

/// Ranks are told of in their order, so that a new one is the last, but for one that did without
/// the part before.
blame_policy::series& blame_policy::series_of(const key& k) {
  auto& all = seen().of_ranks[k.first];
  auto at = std::ranges::lower_bound(all, k.second, {}, &series::rank);
  if (at == all.end() || at->rank != k.second) at = all.emplace(at, k.second);
  return *at;
}

void blame_policy::learn(series& s, const train::step_part& part) const {
  double took_ms = part.busy_ms;
  if (is_transfer(part.kind) && s.work > 0 && part.work > 0)  // its end may be the next step's
    took_ms *= static_cast<double>(s.work) / static_cast<double>(part.work);
  else if (s.work != part.work) {
    s = series(s.rank);
    s.work = part.work;
  }
  took_ms = std::min(took_ms, beyond_all_ms);
  const auto ms = static_cast<float>(took_ms);
  if (!s.known()) return learn_normal(s, ms);
  if (!s.last) s.last = std::make_unique<sample[]>(options_.window);
  if (s.held == options_.window) {
    std::move(s.last.get() + 1, s.last.get() + s.held, s.last.get());
    --s.held;
  }
  s.last[s.held++] = {static_cast<uint32_t>(step_ - first_step_), ms};
}

void blame_policy::learn_normal(series& s, float ms) const {
  const auto needed = std::max<size_t>(1, options_.quiet_steps);
  if (!s.first) s.first = std::make_unique<float[]>(needed);
  s.first[s.held++] = ms;
  if (s.held < needed) return;
  const std::vector<float> first(s.first.get(), s.first.get() + needed);
  s.first.reset();
  s.held = 0;
  s.normal_ms = upper_median(first);
  if (!s.known()) return;  // no time at all: it begins anew
  s.spread_ms = spread_of(first, s.normal_ms);
  s.deviation = static_cast<float>(deviation_of(first, s.spread_ms) / s.normal_ms);
  s.high_ms = upper_quarter(first);
}

/// Now over normal; 0: not known yet.
double blame_policy::ratio_of(const series& s) const {
  if (!s.known() || s.held < options_.window) return 0;
  std::vector<float> now;
  now.reserve(s.held);
  for (const auto& at : s.now()) now.push_back(at.ms);
  return upper_median(std::move(now)) / double{s.normal_ms};
}

std::map<pipeline_op, blame_policy::change> blame_policy::job_changes() const {
  std::map<pipeline_op, change> out;
  for (const auto& [part, all] : seen().of_ranks) {
    std::vector<float> ratios, deviations;
    for (const auto& s : all)
      if (const double r = ratio_of(s); r > 0) {
        ratios.push_back(static_cast<float>(r));
        deviations.push_back(s.deviation);
      }
    if (ratios.empty()) continue;
    const bool many = ratios.size() >= enough_for_median;
    const auto deviation = upper_median(deviations);
    const double all_did =
        many ? upper_median(ratios) : least_of_calm(ratios, deviations, deviation);
    // Who takes what he always took is not slow since others have become quicker: their normal may
    // have been learned while something held them up. What all drift by is less than that.
    const double ratio = std::max(1 - ends_at * options_.suspect, all_did);
    // What is held against one other rank has the noise of both.
    out[part] = {ratio, deviation * (many ? 1 : std::numbers::sqrt2), deviation};
  }
  return out;
}

/// What noise does not reach, nor a person care about less. A rank's own noise is known from few
/// steps: it counts as that of most, unless it is clearly more.
double blame_policy::least_off(const series& s, const change& job) const {
  const bool is_noisier = s.deviation > about_as_noisy * job.usual;
  const double deviation =
      is_noisier ? std::max(double{s.deviation}, job.deviation) : job.deviation;
  const double error =
      deviation * error_of_median *
      std::sqrt(1.0 / static_cast<double>(options_.window) +
                1.0 / static_cast<double>(std::max<size_t>(1, options_.quiet_steps)));
  return std::max(begins_at * options_.suspect, beyond_chance * error);
}

/// Whether the part is long enough of its rank's step.
bool blame_policy::counts(const key& k, const series& s) const {
  const auto& whole_ms = seen().normal_ms;
  return whole_ms.empty() ||
         s.normal_ms >= options_.least_share * whole_ms[static_cast<size_t>(k.second)];
}

void blame_policy::judge() {
  seen().job = job_changes();
  seen().normal_ms.assign(now_.size(), 0);
  for (const auto& [part, all] : seen().of_ranks)
    for (const auto& s : all) seen().normal_ms[static_cast<size_t>(s.rank)] += s.normal_ms;
  for (auto& [part, all] : seen().of_ranks)
    for (auto& s : all) judge({part, s.rank}, s);
}

void blame_policy::judge(const key& k, series& s) const {
  const double ratio = ratio_of(s);
  if (ratio <= 0) return;
  const auto& job = seen().job.at(k.first);
  const double off = ratio / job.ratio - 1, least = least_off(s, job);
  if (off < least * (ends_at / begins_at)) s.suspect = false;
  if (off <= least || s.suspect || options_.suspect <= 0 || !counts(k, s)) return;
  suspect_since_change(s, job.ratio * std::max(s.normal_ms * (1 + off / 2), double{s.high_ms}));
}

/// Where most steps of the window are beyond the middle of before and after, and beyond what few
/// were before: two bursts of a few steps each also move a median.
void blame_policy::suspect_since_change(series& s, double middle_ms) const {
  double beyond = 0, seen = 0;
  const auto now = s.now();
  uint32_t since = now.back().steps;
  for (auto it = now.rbegin(); it != now.rend(); ++it) {
    ++seen;
    if (it->ms > middle_ms) ++beyond;
    if (it->ms > middle_ms && beyond >= mostly * seen) since = it->steps;
  }
  if (beyond < mostly * seen) return;
  s.suspect = true;
  s.since = since + 1;
}

uint64_t blame_policy::since_step_of(const series& s) const noexcept {
  return s.since > 0 ? first_step_ + s.since - 1 : 0;
}

blame blame_policy::blame_of(const key& k, const series& s, double job) const {
  const double ratio = ratio_of(s);
  blame out;
  out.part = k.first;
  out.rank = k.second;
  out.cause = is_transfer(k.first) ? blame_cause::link : blame_cause::slow;
  out.since_step = since_step_of(s);
  out.normal_ms = s.normal_ms;
  out.spread_ms = s.spread_ms;
  out.now_ms = ratio * s.normal_ms;
  out.off = ratio / job - 1;
  return out;
}

std::optional<blame> blame_policy::look(int rank, pipeline_op part) const {
  const auto all = seen().of_ranks.find(part);
  const auto job = seen().job.find(part);
  if (all == seen().of_ranks.end() || job == seen().job.end()) return std::nullopt;
  const auto s = std::ranges::lower_bound(all->second, rank, {}, &series::rank);
  if (s == all->second.end() || s->rank != rank || ratio_of(*s) <= 0) return std::nullopt;
  return blame_of({part, rank}, *s, job->second.ratio);
}

/// BPT-3: of what is computed, and of what is moved, the part that has become longest.
void blame_policy::add_job(std::vector<blame>& out) const {
  for (const auto cause : {blame_cause::job, blame_cause::link}) {
    blame all;
    all.cause = cause;
    for (const auto& [part, of] : seen().job)
      if (is_transfer(part) == (cause == blame_cause::link)) note_change(part, of, all);
    if (all.off > 0) out.push_back(all);
  }
}

/// Where the part has changed more than the one that `all` tells of.
void blame_policy::note_change(pipeline_op part, const change& of, blame& all) const {
  if (of.ratio - 1 <= std::max(options_.suspect, all.off)) return;
  std::vector<float> normal, spread, whole;
  double least = 0;
  for (const auto& s : seen().of_ranks.at(part))
    if (s.known() && counts({part, s.rank}, s)) {
      normal.push_back(s.normal_ms);
      spread.push_back(s.spread_ms);
      whole.push_back(static_cast<float>(seen().normal_ms[static_cast<size_t>(s.rank)]));
      least = std::max(least, least_off(s, of));
    }
  if (normal.empty() || of.ratio - 1 <= least) return;
  const double normal_ms = upper_median(std::move(normal));
  // A short transfer takes twice as long on a machine that does something beside: that is no link's
  // fault until it is felt in the step.
  const double more_ms = normal_ms * (of.ratio - 1);
  if (is_transfer(part) && more_ms < options_.suspect * upper_median(std::move(whole))) return;
  all.part = part;
  all.off = of.ratio - 1;
  all.normal_ms = normal_ms;
  all.spread_ms = upper_median(std::move(spread));
  all.now_ms = normal_ms + more_ms;
}

/// BPT-2: what a rank took at first and takes now, against its peers: who was held up at first
/// alone is as they are.
void blame_policy::add_misconfigured(std::vector<blame>& out,
                                     std::span<const blamed_place> places) const {
  using group = std::tuple<pipeline_op, int, std::string_view>;
  std::map<group, std::vector<std::pair<int, const series*>>> groups;
  for (const auto& [part, all] : seen().of_ranks)
    for (const auto& s : all) {
      const key k{part, s.rank};
      const auto& kind = places[static_cast<size_t>(k.second)].kind;
      if (s.known() && !kind.empty() && !is_transfer(k.first))
        groups[{k.first, grid_.place_of(k.second).pipeline, kind}].emplace_back(k.second, &s);
    }
  for (const auto& [g, members] : groups) {
    if (members.size() < enough_peers) continue;
    std::vector<float> normal, now;
    for (const auto& [rank, s] : members) {
      normal.push_back(s->normal_ms);
      now.push_back(static_cast<float>(ratio_of(*s) * s->normal_ms));
    }
    if (std::ranges::count(now, 0.0f) > 0) continue;  // not known yet
    const double normal_ms = upper_median(std::move(normal)), now_ms = upper_median(now);
    const auto job = seen().job.find(std::get<0>(g));
    const change of = job == seen().job.end() ? change{} : job->second;
    for (size_t i = 0; i < members.size(); ++i) {
      const auto& [rank, s] = members[i];
      const double off = std::min(s->normal_ms / normal_ms, now[i] / now_ms) - 1;
      const key k{std::get<0>(g), rank};
      if (off <= std::max(options_.suspect, least_off(*s, of)) || !counts(k, *s)) continue;
      out.push_back({blame_cause::misconfigured, k.first, rank,
                     places[static_cast<size_t>(rank)].node, 0, now_ms, s->spread_ms, now[i], off});
    }
  }
}

bool blame_policy::may_find() const {
  if (options_.suspect <= 0) return false;
  for (const auto& [part, of] : seen().job)
    if (of.ratio - 1 > options_.suspect) return true;
  // Who is above the median of some ranks of a stage by so much is above the least of all of them.
  for (const auto& [part, all] : seen().of_ranks) {
    std::map<int, double> least_ms;  // by stage
    for (const auto& s : all) {
      if (s.suspect) return true;
      if (!s.known() || is_transfer(part)) continue;
      auto& least = least_ms[grid_.place_of(s.rank).pipeline];
      if (least == 0 || s.normal_ms < least) least = s.normal_ms;
    }
    for (const auto& s : all) {
      const auto least = least_ms.find(grid_.place_of(s.rank).pipeline);
      if (least != least_ms.end() && s.normal_ms > least->second * (1 + options_.suspect) &&
          counts({part, s.rank}, s))
        return true;
    }
  }
  return false;
}

std::vector<blame> blame_policy::found(std::span<const blamed_place> places) const {
  std::vector<blame> out;
  if (options_.suspect <= 0 || places.size() != now_.size()) return out;
  add_job(out);
  const auto jobs = std::ssize(out);
  for (const auto& [part, all] : seen().of_ranks)
    for (const auto& s : all) {
      if (!s.suspect) continue;
      out.push_back(blame_of({part, s.rank}, s, seen().job.at(part).ratio));
      if (out.back().cause == blame_cause::slow)
        out.back().node = places[static_cast<size_t>(s.rank)].node;
    }
  add_misconfigured(out, places);
  std::stable_sort(out.begin() + jobs, out.end(),
                   [](const blame& a, const blame& b) { return a.off > b.off; });
  return out;
}

seen_parts blame_policy::look_at_all(std::span<const blamed_place> places) const {
  seen_parts out;
  if (options_.suspect <= 0 || places.size() != now_.size()) return out;
  std::set<key> named;
  for (auto& b : found(places)) {
    named.insert({b.part, b.rank});
    out.rows.push_back({std::move(b), true});
  }
  const auto suspected = std::ssize(out.rows);
  for (const auto& [part, all] : seen().of_ranks)
    for (const auto& s : all) {
      if (named.contains({part, s.rank}) || !counts({part, s.rank}, s)) continue;
      auto seen = look(s.rank, part);
      if (!seen) continue;
      seen->node = places[static_cast<size_t>(s.rank)].node;
      out.rows.push_back({std::move(*seen), false});
    }
  std::stable_sort(out.rows.begin() + suspected, out.rows.end(),
                   [](const auto& a, const auto& b) { return a.is.rank < b.is.rank; });
  out.left_out = out.rows.size() - std::min(out.rows.size(), most_parts_seen);
  out.rows.resize(out.rows.size() - out.left_out);
  return out;
}

}  // namespace troupe::health

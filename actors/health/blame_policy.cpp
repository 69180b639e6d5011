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

float spread_of(const std::vector<float>& values, float median) {
  std::vector<float> distances;
  distances.reserve(values.size());
  for (const float v : values) distances.push_back(std::abs(v - median));
  return upper_median(std::move(distances));
}

/// A part of normal.
double relative_deviation(double spread_ms, double normal_ms) {
  return normal_ms > 0 ? deviation_by_distance * spread_ms / normal_ms : 0;
}

/// Of ranks that are about as noisy as most: how much another's noise makes it the least is not
/// known. By rank; `usual` is the median deviation.
float least_of_calm(const std::vector<float>& ratios, const std::vector<float>& deviations,
                    float usual) {
  constexpr float about = 1.5F;
  float out = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < ratios.size(); ++i)
    if (deviations[i] <= about * usual) out = std::min(out, ratios[i]);
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
        learn(seen().of_ranks[{part.kind, static_cast<int>(rank)}], part);
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

void blame_policy::learn(series& s, const train::step_part& part) const {
  double took_ms = part.busy_ms;
  if (is_transfer(part.kind) && s.work > 0 && part.work > 0)  // its end may be the next step's
    took_ms *= static_cast<double>(s.work) / static_cast<double>(part.work);
  else if (s.work != part.work) {
    s = {};
    s.work = part.work;
  }
  const auto ms = static_cast<float>(took_ms);
  if (!s.known()) {
    s.first.push_back(ms);
    if (s.first.size() < options_.quiet_steps) return;
    s.normal_ms = upper_median(s.first);
    s.spread_ms = spread_of(s.first, static_cast<float>(s.normal_ms));
    s.first = std::vector<float>();  // {} would keep its memory
    return;
  }
  if (s.last.size() == options_.window) s.last.erase(s.last.begin());
  s.last.reserve(options_.window);
  s.last.push_back({static_cast<uint32_t>(step_ - first_step_), ms});
}

/// Now over normal; 0: not known yet.
double blame_policy::ratio_of(const series& s) const {
  if (!s.known() || s.last.size() < options_.window) return 0;
  std::vector<float> now;
  now.reserve(s.last.size());
  for (const auto& at : s.last) now.push_back(at.ms);
  return upper_median(std::move(now)) / s.normal_ms;
}

std::map<pipeline_op, blame_policy::change> blame_policy::job_changes() const {
  std::map<pipeline_op, std::pair<std::vector<float>, std::vector<float>>> all;
  for (const auto& [k, s] : seen().of_ranks)
    if (const double r = ratio_of(s); r > 0) {
      auto& [ratios, deviations] = all[k.first];
      ratios.push_back(static_cast<float>(r));
      deviations.push_back(static_cast<float>(relative_deviation(s.spread_ms, s.normal_ms)));
    }
  std::map<pipeline_op, change> out;
  for (auto& [part, of] : all) {
    auto& [ratios, deviations] = of;
    const bool many = ratios.size() >= enough_for_median;
    const auto deviation = upper_median(deviations);
    const double all_did =
        many ? upper_median(ratios) : least_of_calm(ratios, deviations, deviation);
    // Who takes what he always took is not slow since others have become quicker: their normal may
    // have been learned while something held them up. What all drift by is less than that.
    const double ratio = std::max(1 - ends_at * options_.suspect, all_did);
    // What is held against one other rank has the noise of both.
    out[part] = {ratio, deviation * (many ? 1 : std::numbers::sqrt2)};
  }
  return out;
}

/// What noise does not reach, nor a person care about less. A rank's own noise is known from few
/// steps: it counts as no less than that of most.
double blame_policy::least_off(const series& s, const change& job) const {
  const double error =
      std::max(relative_deviation(s.spread_ms, s.normal_ms), job.deviation) * error_of_median *
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
  for (const auto& [k, s] : seen().of_ranks)
    seen().normal_ms[static_cast<size_t>(k.second)] += s.normal_ms;
  for (auto& [k, s] : seen().of_ranks) {
    const double ratio = ratio_of(s);
    if (ratio <= 0) continue;
    const auto& job = seen().job.at(k.first);
    const double off = ratio / job.ratio - 1, least = least_off(s, job);
    if (off < least * (ends_at / begins_at)) s.suspect = false;
    if (off <= least || s.suspect || options_.suspect <= 0 || !counts(k, s)) continue;
    suspect_since_change(s, s.normal_ms * job.ratio * (1 + off / 2));
  }
}

/// Where most steps of the window are beyond the middle of before and after: two bursts of a few
/// steps each also move a median.
void blame_policy::suspect_since_change(series& s, double middle_ms) const {
  double beyond = 0, seen = 0;
  uint64_t since = first_step_ + s.last.back().steps;
  for (auto it = s.last.rbegin(); it != s.last.rend(); ++it) {
    ++seen;
    if (it->ms > middle_ms) ++beyond;
    if (it->ms > middle_ms && beyond >= mostly * seen) since = first_step_ + it->steps;
  }
  if (beyond < mostly * seen) return;
  s.suspect = true;
  s.since_step = since;
}

blame blame_policy::blame_of(const key& k, const series& s, double job) const {
  const double ratio = ratio_of(s);
  blame out;
  out.part = k.first;
  out.rank = k.second;
  out.cause = is_transfer(k.first) ? blame_cause::link : blame_cause::slow;
  out.since_step = s.since_step;
  out.normal_ms = s.normal_ms;
  out.spread_ms = s.spread_ms;
  out.now_ms = ratio * s.normal_ms;
  out.off = ratio / job - 1;
  return out;
}

std::optional<blame> blame_policy::look(int rank, pipeline_op part) const {
  const auto it = seen().of_ranks.find({part, rank});
  const auto job = seen().job.find(part);
  if (it == seen().of_ranks.end() || job == seen().job.end() || ratio_of(it->second) <= 0)
    return std::nullopt;
  return blame_of(it->first, it->second, job->second.ratio);
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
  for (const auto& [k, s] : seen().of_ranks)
    if (k.first == part && s.known() && counts(k, s)) {
      normal.push_back(static_cast<float>(s.normal_ms));
      spread.push_back(static_cast<float>(s.spread_ms));
      whole.push_back(static_cast<float>(seen().normal_ms[static_cast<size_t>(k.second)]));
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
  for (const auto& [k, s] : seen().of_ranks) {
    const auto& kind = places[static_cast<size_t>(k.second)].kind;
    if (s.known() && !kind.empty() && !is_transfer(k.first))
      groups[{k.first, grid_.place_of(k.second).pipeline, kind}].emplace_back(k.second, &s);
  }
  for (const auto& [g, members] : groups) {
    if (members.size() < enough_peers) continue;
    std::vector<float> normal, now;
    for (const auto& [rank, s] : members) {
      normal.push_back(static_cast<float>(s->normal_ms));
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
  std::map<std::pair<pipeline_op, int>, double> least_ms;
  for (const auto& [k, s] : seen().of_ranks) {
    if (s.suspect) return true;
    if (!s.known() || is_transfer(k.first)) continue;
    auto& least = least_ms[{k.first, grid_.place_of(k.second).pipeline}];
    if (least == 0 || s.normal_ms < least) least = s.normal_ms;
  }
  return std::ranges::any_of(seen().of_ranks, [&](const auto& of) {
    const auto& [k, s] = of;
    const auto least = least_ms.find({k.first, grid_.place_of(k.second).pipeline});
    return least != least_ms.end() && s.normal_ms > least->second * (1 + options_.suspect) &&
           counts(k, s);
  });
}

std::vector<blame> blame_policy::found(std::span<const blamed_place> places) const {
  std::vector<blame> out;
  if (options_.suspect <= 0 || places.size() != now_.size()) return out;
  add_job(out);
  const auto jobs = std::ssize(out);
  for (const auto& [k, s] : seen().of_ranks) {
    if (!s.suspect) continue;
    out.push_back(blame_of(k, s, seen().job.at(k.first).ratio));
    if (out.back().cause == blame_cause::slow)
      out.back().node = places[static_cast<size_t>(k.second)].node;
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
  for (const auto& [k, s] : seen().of_ranks) {
    if (named.contains(k) || !counts(k, s)) continue;
    auto seen = look(k.second, k.first);
    if (!seen) continue;
    seen->node = places[static_cast<size_t>(k.second)].node;
    out.rows.push_back({std::move(*seen), false});
  }
  std::stable_sort(out.rows.begin() + suspected, out.rows.end(),
                   [](const auto& a, const auto& b) { return a.is.rank < b.is.rank; });
  out.left_out = out.rows.size() - std::min(out.rows.size(), most_parts_seen);
  out.rows.resize(out.rows.size() - out.left_out);
  return out;
}

}  // namespace troupe::health

// Windows, their medians, and configurations: see learning_policy.hpp.
#include "actors/predict/learning_policy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "io/base/median.hpp"
#include "io/config/work_shape.hpp"

namespace troupe::predict {

namespace {

using config::work_feature;
using train::pipeline_op;

/// The whole step stands where no rank does, and under no part.
constexpr uint32_t no_rank = UINT32_MAX;
constexpr pipeline_op whole_step = pipeline_op::count;
constexpr std::string_view whole_step_name = "step";
/// The name of none: nobody's is blank.
constexpr const char* no_node = " ";

/// Of a part's work, a rule that is right up to a factor: the model learns that.
constexpr double seconds_a_piece = 1e-9, longest_rule_s = 1e6;

/// Times that nobody has asked for yet; further ones are learned from all the same.
constexpr size_t news_kept = 4096;

constexpr std::array<std::string_view, static_cast<size_t>(work_feature::count) + 3> names{
    "layers",    "hidden",    "batch",   "micro_batch",  "seq_len",
    "replicas",  "stages",    "threads", "number_bytes", "device",
    "recompute", "optimizer", "swap",    "saves",        "work"};

size_t index_of(work_feature f) {
  return static_cast<size_t>(f);
}

/// The last feature is the part's work.
gpu::predict::step_configuration configuration_of(std::vector<double> features) {
  const double rule_s = std::min(features.back() * seconds_a_piece, longest_rule_s);
  return {std::move(features), rule_s};
}

/// OPP-1: two runs' times are compared where all of this is equal.
std::vector<double> same_work(std::vector<double> features, uint64_t sum) {
  features.push_back(static_cast<double>(sum));
  return features;
}

}  // namespace

std::string_view feature_name(size_t feature) {
  return feature < names.size() ? names[feature] : std::string_view();
}

learning_policy::learning_policy(const config::job& job, learning_options options,
                                 const model_config& model)
    : options_(options),
      shape_(config::work_shape_of(job)),
      work_sum_(work_sum(job, model)),
      grid_(job.grid()),
      ranks_(grid_.ranks()),
      tokens_(static_cast<uint64_t>(job.tokens_per_step())),
      suspect_share_(static_cast<double>(job.predict.suspect_percent) / 100),
      memory_(static_cast<size_t>(job.predict.memory)),
      dtype_(job.model.dtype) {
  shape_.push_back(job.swap.dir.empty() ? 1.0 : 2.0);
}

std::optional<io::perf::machine_print> learning_policy::hear_machine(
    const std::string& node, const io::perf::machine_print& says) {
  const auto told = machines_.find(node);
  const bool has_room = told != machines_.end() || machines_.size() < gpu::predict::known_nodes;
  if (!says.is_known() || node.empty() || !has_room) return std::nullopt;  // LRN-3
  const auto is = known_as(node, says);
  if (told != machines_.end() && told->second == is) return std::nullopt;
  const auto before = node_now(node);
  if (told != machines_.end() && !io::perf::may_be_same(told->second, is)) {
    profiles_.erase(node);
    priors_.erase(node);
    for (const auto& [rank, at] : places_)
      if (at.node == node) drop_windows_of(rank);  // LRN-2
  }
  name_machine(node, is);
  machines_changed_ = true;
  const bool is_new = before.machine.is_known() && before.machine != is &&
                      nodes_.contains(before) && !nodes_.contains(known_node{node, is});
  return is_new ? std::optional(before.machine) : std::nullopt;
}

void learning_policy::name_machine(const std::string& name, const io::perf::machine_print& is) {
  machines_[name] = is;
  if (nodes_.contains(known_node{name, is})) return;
  auto known = nodes_.extract(known_node{name, {is.kind, {}}});  // its GPUs tell UUIDs by now
  if (!known) known = nodes_.extract(known_node{name, {}});
  if (!known) return;
  known.key().machine = is;
  nodes_.insert(std::move(known));
}

io::perf::machine_print learning_policy::known_as(const std::string& node,
                                                  const io::perf::machine_print& says) const {
  auto known = node_now(node).machine;
  if (!io::perf::may_be_same(known, says)) {
    if (nodes_.contains(known_node{node, says})) return says;
    known = says;
    for (auto at = nodes_.lower_bound(known_node{node, {}});
         at != nodes_.end() && at->first.name == node; ++at)
      if (io::perf::may_be_same(at->first.machine, says)) known = at->first.machine;
  }
  if (known.gpu_ids.empty()) known.gpu_ids = says.gpu_ids;
  return known;
}

learning_policy::known_node learning_policy::node_now(const std::string& name) const {
  if (const auto told = machines_.find(name); told != machines_.end()) return {name, told->second};
  const auto recalled = recalled_machines_.find(name);
  if (recalled != recalled_machines_.end()) return {name, recalled->second};
  return {name, {}};
}

void learning_policy::note_machines() {
  if (!std::exchange(machines_changed_, false)) return;
  std::set<std::string_view> names;
  for (const auto& [rank, at] : places_) names.insert(at.node);
  std::vector<io::perf::machine_print> all;
  for (const auto name : names) {
    const auto told = machines_.find(std::string(name));
    all.push_back(told != machines_.end() ? told->second : io::perf::machine_print{});
  }
  const auto is = io::perf::print_of_all(all);
  const auto before = node_now({});
  if (is.is_known())
    name_machine({}, is);
  else
    machines_.erase(std::string());
  if (node_now({}) == before) return;
  for (auto& of_kind : windows_) of_kind.erase(no_rank);  // LRN-2: it has the whole step alone
}

size_t learning_policy::nodes() const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(nodes_, [](const auto& known) { return !known.first.name.empty(); }));
}

result<std::optional<expected_part>> learning_policy::expected_of(
    pipeline_op part, const gpu::predict::online_policy& model,
    const gpu::predict::step_configuration& configuration, const std::string& node) const {
  if (const auto like = by_kind(model, configuration, node))
    return std::optional(expected_part{part, *like, false, true, false});
  TROUPE_TRY(said, model.ask(configuration, number_of(node)));
  if (!said) return std::optional<expected_part>{};
  const auto by = times_as_long(node, part);
  const bool by_prior = by && by->by_prior;
  return std::optional(expected_part{part, carried(*said, by), by && !by_prior, false, by_prior});
}

std::optional<expected_part> learning_policy::learned_of(const train::step_part& part,
                                                         const place& at) const {
  const auto model = models_.find(part.kind);
  if (part.work == 0 || model == models_.end()) return std::nullopt;
  const auto said =
      expected_of(part.kind, model->second, configuration_of(features_of(at, part.work)), at.node);
  return said ? *said : std::nullopt;
}

/// LRN-2.
void learning_policy::begin_epoch(const learned_step& step) {
  if (step.epoch == epoch_ && step.replicas == replicas_) return;
  epoch_ = step.epoch;
  replicas_ = step.replicas;
  steps_of_epoch_ = 0;
  steps_of_kind_ = {};
  kind_ = 0;
  drop_windows();
  places_.clear();
}

std::vector<suspected_part> learning_policy::take_suspects() {
  auto out = std::exchange(told_, {});
  for (const auto& t : past_.take()) {
    const auto at = places_.find(t.of.first);
    gpu::predict::step_estimate expected;
    expected.seconds = t.past.usual_s;
    expected.least_s = t.past.least_s;
    expected.most_s = t.past.most_s;
    expected.configurations = t.past.runs;
    out.push_back({t.of.first, at != places_.end() ? at->second.node : "", t.of.second, t.seen_ms,
                   expected, t.gone, false, true});
  }
  return out;
}

void learning_policy::drop_windows() {
  past_.drop_all();
  while (!suspected_.empty()) end_suspect(*suspected_.begin());
  windows_ = {};
}

void learning_policy::drop_windows_of(uint32_t rank) {
  past_.drop_rank(rank);
  const auto is_of_rank = [&](const key& of) { return of.first == rank; };
  for (auto s = std::ranges::find_if(suspected_, is_of_rank); s != suspected_.end();
       s = std::ranges::find_if(suspected_, is_of_rank))
    end_suspect(*s);
  for (auto& of_kind : windows_) of_kind.erase(rank);
}

bool learning_policy::is_of_most(const learned_step& step) {
  const auto kind = train::peer_kind_of(step.kind);
  if (++steps_of_kind_[kind] > steps_of_kind_[kind_]) kind_ = kind;
  return kind == kind_;
}

void learning_policy::hear(const learned_step& step) {
  ++steps_;
  compared_.clear();
  if (step.epoch < epoch_) {
    ++odd_steps_;
    return;
  }
  begin_epoch(step);
  ++steps_of_epoch_;
  const bool counts = step.usual && steps_of_epoch_ > options_.first_steps;
  if (!counts || !is_of_most(step)) {  // LRN-1
    ++odd_steps_;
    return;
  }
  for (const auto& rank : step.ranks)
    if (rank.rank < ranks_) hear_rank(rank);  // LRN-3
  note_machines();
  add({no_rank, whole_step}, whole_job(), tokens_, step.took_ms);
}

void learning_policy::hear_rank(const learned_rank& rank) {
  const place now{rank.node, rank.layers, rank.threads};
  auto& before = places_[rank.rank];
  if (before != now) {  // LRN-2
    drop_windows_of(rank.rank);
    before = now;
    machines_changed_ = true;
  }
  if (auto& of_rank = windows_[kind_][rank.rank]; of_rank.parts.empty()) {
    const auto parts = std::min(rank.parts.size(), train::operations.size());
    of_rank.parts.reserve(parts);
    of_rank.ms.reserve(parts * options_.window);
  }
  for (const auto& p : rank.parts) add({rank.rank, p.kind}, now, p.work, p.busy_ms);
}

std::pair<learning_policy::window&, std::span<float>> learning_policy::window_of(const key& of) {
  auto& [parts, ms] = windows_[kind_][of.first];
  const auto at = std::ranges::lower_bound(parts, of.second, {}, &window::part);
  const auto index = at - parts.begin();
  const auto first = index * static_cast<std::ptrdiff_t>(options_.window);
  if (at == parts.end() || at->part != of.second) {
    parts.insert(at, window{of.second, 0, 0, 0, 0});
    ms.insert(ms.begin() + first, options_.window, 0.0F);
  }
  return {parts[static_cast<size_t>(index)], std::span(ms.data() + first, options_.window)};
}

void learning_policy::add(const key& of, const place& at, uint64_t work, double ms) {
  if (work == 0 || !(ms > 0)) return;
  const auto [w, room] = window_of(of);
  if (w.work != work) {
    if (w.work > 0) {  // else it is the first of its kind
      end_suspect(of);
      past_.drop(of);
    }
    w = window{of.second, 0, 0, 0, work};
  }
  room[w.steps++] = static_cast<float>(ms);
  if (w.steps < options_.window) return;
  const auto middle_ms = static_cast<double>(upper_median(room));
  w.steps = 0;
  if (of.first != no_rank && suspect_share_ > 0)
    past_.judge(of, number_of(at.node), same_work(features_of(at, work), work_sum_of(of.first)),
                middle_ms);
  const auto expected = estimate_of(of.second, at, work);
  if (expected && !expected->outside) compare(of, at, middle_ms, *expected);
  if (doubts(of, at, w, middle_ms, expected)) return;
  ++w.learned;
  learn(of, at, work, middle_ms);
}

void learning_policy::compare(const key& of, const place& at, double ms,
                              const gpu::predict::step_estimate& expected) {
  const double expected_ms = 1e3 * expected.seconds;
  if (of.first != no_rank) {
    auto& node = compared_[at.node];
    node.ranks.insert(of.first);
    node.expected_ms += expected_ms;
    node.seen_ms += ms;
    return;
  }
  errors_.push_back(std::abs(ms / expected_ms - 1));
  if (errors_.size() > options_.judged_kept) errors_.pop_front();
}

std::vector<compared_node> learning_policy::compared() const {
  std::vector<compared_node> out;
  for (const auto& [name, node] : compared_) {
    const auto ranks = static_cast<double>(node.ranks.size());
    out.push_back({name, node.expected_ms / ranks, node.seen_ms / ranks});
  }
  return out;
}

expectation_errors learning_policy::errors() const {
  if (errors_.empty()) return {};
  return {errors_.size(), upper_median(std::vector<double>(errors_.begin(), errors_.end())),
          *std::ranges::max_element(errors_)};
}

bool learning_policy::doubts(const key& of, const place& at, window& w, double ms,
                             const std::optional<gpu::predict::step_estimate>& expected) {
  const bool is_known =
      w.learned >= options_.known_by || recalled_nodes_.contains(number_of(at.node));
  if (suspect_share_ <= 0 || !is_known) return false;
  const auto model = models_.find(of.second);
  const bool is_measured =  // LRN-8, LRN-9
      model != models_.end() && model->second.has_seen(number_of(at.node));
  const bool is_judged = expected && !expected->outside && is_measured;
  const bool is_longer =
      is_judged && ms > 1e3 * std::max(expected->most_s, (1 + suspect_share_) * expected->seconds);
  if (!is_longer) {
    if (is_judged) end_suspect(of);
    w.longer = 0;
    return false;
  }
  ++w.longer;
  if (of.first != no_rank) suspect(of, at, w, ms, *expected);
  return w.longer <= options_.doubted_windows;
}

void learning_policy::suspect(const key& of, const place& at, const window& w, double ms,
                              const gpu::predict::step_estimate& expected) {
  if (suspected_.contains(of) || w.longer < options_.suspect_windows) return;
  if (suspected_.size() == options_.suspects_kept) return;
  suspected_.insert(of);
  told_.push_back({of.first, at.node, of.second, ms, expected, false, false});
}

void learning_policy::end_suspect(key of) {
  if (suspected_.erase(of) == 0) return;
  const auto at = places_.find(of.first);
  told_.push_back(
      {of.first, at != places_.end() ? at->second.node : "", of.second, 0, {}, true, false});
}

void learning_policy::learn(const key& of, const place& at, uint64_t work, double ms) {
  const auto part = of.second;
  auto features = features_of(at, work);
  auto node = node_now(at.node);
  if (!tell_model(part, node, features, ms / 1e3)) return;
  ++samples_;
  const std::tuple cell(part, std::move(node), std::move(features), work_sum_of(of.first));
  if (news_.size() >= news_kept && !news_.contains(cell)) return;  // LRN-3
  auto& told = news_[cell];
  told.logarithms += std::log(ms / 1e3);
  ++told.count;
}

bool learning_policy::tell_model(pipeline_op part, const known_node& node,
                                 std::vector<double> features, double seconds) {
  const bool has_room = nodes_.contains(node) || nodes_.size() < gpu::predict::known_nodes;
  if (!has_room) {
    ++refused_;
    return false;
  }
  if (nodes_.try_emplace(node, last_node_ + 1).second) ++last_node_;
  using kinds = std::vector<io::perf::feature_kind>;
  auto& model =
      models_.try_emplace(part, kinds(names.size(), io::perf::feature_kind::log_number), memory_)
          .first->second;
  const bool taken =
      bool(model.hear(configuration_of(std::move(features)), nodes_.at(node), seconds));
  if (!taken) ++refused_;
  return taken;
}

bool learning_policy::forget(const std::string& node) {
  bool was_known = false;
  for (auto known = nodes_.begin(); known != nodes_.end();) {
    if (known->first.name != node) {
      ++known;
      continue;
    }
    for (auto& [part, model] : models_) model.forget(known->second);
    past_.forget(known->second);
    recalled_nodes_.erase(known->second);
    known = nodes_.erase(known);
    was_known = true;
  }
  if (!was_known) return false;
  recalled_machines_.erase(node);
  std::erase_if(news_, [&](const auto& told) { return std::get<1>(told.first).name == node; });
  for (const auto& [rank, at] : places_)
    if (at.node == node) drop_windows_of(rank);
  return true;
}

/// LRN-3: of more nodes than half of those that a model keeps, the newest; this job has some, too.
size_t learning_policy::recall(std::span<const io::perf::part_time> times) {
  std::set<known_node> newest;
  for (auto t = times.rbegin(); t != times.rend(); ++t)
    if (newest.size() < gpu::predict::known_nodes / 2) newest.insert({t->node, t->machine});
  size_t unfit = 0;
  for (const auto& t : times) {
    const auto* facts = train::operation_named(t.part);
    const bool is_known = facts != nullptr || t.part == whole_step_name;
    const bool fits = is_known && t.features.size() == names.size();
    if (!fits) ++unfit;
    const known_node node{t.node, t.machine};
    if (!fits || !newest.contains(node)) continue;
    const auto part = facts != nullptr ? facts->kind : whole_step;
    const bool taken = tell_model(part, node, t.features, t.seconds);
    recalled_ += taken;
    if (!taken) continue;
    if (t.work_sum > 0)  // OPP-1
      past_.recall(part, nodes_.at(node), same_work(t.features, t.work_sum), t.run, t.seconds,
                   t.samples);
    recalled_nodes_.insert(nodes_.at(node));
    recalled_machines_[t.node] = t.machine;
  }
  return unfit;
}

std::vector<io::perf::part_time> learning_policy::news() const {
  std::vector<io::perf::part_time> out;
  for (const auto& [of, told] : news_) {
    const auto& [part, node, features, same] = of;
    const auto name = part == whole_step ? whole_step_name : train::facts_of(part).name;
    out.push_back({std::string(name), node.name, features,
                   std::exp(told.logarithms / static_cast<double>(told.count)), told.count,
                   node.machine, 0, same});
  }
  return out;
}

std::vector<double> learning_policy::features_of(const place& at, uint64_t work) const {
  const auto above_0 = [](uint32_t x) { return static_cast<double>(std::max<uint32_t>(x, 1)); };
  auto features = shape_;
  features[index_of(work_feature::layers)] = above_0(at.layers);
  features[index_of(work_feature::threads)] = above_0(at.threads);
  features[index_of(work_feature::replicas)] = above_0(replicas_);
  features.push_back(static_cast<double>(kind_ + 1));
  features.push_back(static_cast<double>(std::max<uint64_t>(work, 1)));
  return features;
}

uint64_t learning_policy::work_sum_of(uint32_t rank) const {
  auto grid = grid_;
  if (replicas_ > 0) grid.data = static_cast<int>(replicas_);
  if (rank == no_rank || !grid.holds(rank)) return 0;
  return work_sum_at(work_sum_, {grid, static_cast<int>(rank)});
}

std::optional<gpu::predict::step_estimate> learning_policy::estimate_of(pipeline_op part,
                                                                        const place& at,
                                                                        uint64_t work) const {
  const auto model = models_.find(part);
  if (model == models_.end()) return std::nullopt;
  const auto said = model->second.ask(configuration_of(features_of(at, work)), number_of(at.node));
  if (!said || !*said) return std::nullopt;
  return carried(**said, times_as_long(at.node, part));
}

uint64_t learning_policy::number_of(const std::string& node) const {
  const auto known = nodes_.find(node_now(node));
  return known == nodes_.end() ? 0 : known->second;
}

learning_policy::place learning_policy::whole_job() const {
  return {{},
          static_cast<uint32_t>(shape_[index_of(work_feature::layers)]),
          static_cast<uint32_t>(shape_[index_of(work_feature::threads)])};
}

bool learning_policy::fit_due() const {
  return std::ranges::any_of(models_, [](const auto& m) { return m.second.fit_due(); });
}

void learning_policy::fit(const std::function<bool()>& over) {
  const auto due = std::ranges::find_if(models_, [](const auto& m) { return m.second.fit_due(); });
  if (due == models_.end()) return;
  if (due->second.fit(over)) ++fits_;
}

size_t learning_policy::most_configurations() const noexcept {
  size_t most = 0;
  for (const auto& [part, model] : models_) most = std::max(most, model.configurations());
  return most;
}

result<learning_policy::place> learning_policy::place_asked(const asked_rank& question) const {
  const auto known = places_.find(question.rank);
  const auto planned = planned_.find(question.rank);
  if (known == places_.end() && planned == planned_.end())
    return rank_not_seen(question.rank, ranks_);
  auto at = known != places_.end()
                ? known->second
                : place{planned->second.node, planned->second.layers, planned->second.threads};
  if (!question.node.empty()) at.node = question.node;
  if (question.layers > 0) at.layers = question.layers;
  if (question.threads > 0) at.threads = question.threads;
  return at;
}

template <class Visit>
status learning_policy::each_part(uint32_t rank, const place& at, const Visit& visit) const {
  const auto of_rank = windows_[kind_].find(rank);
  if (of_rank == windows_[kind_].end()) return {};
  for (const auto& w : of_rank->second.parts)
    if (const auto model = models_.find(w.part); model != models_.end())
      TROUPE_CHECK(visit(w.part, model->second, configuration_of(features_of(at, w.work))));
  return {};
}

result<expected_rank> learning_policy::ask(const asked_rank& question) const {
  TROUPE_TRY(at, place_asked(question));
  expected_rank out{at.node, {}, {}};
  TROUPE_CHECK(each_part(question.rank, at,
                         [&](pipeline_op part, const auto& model, const auto& there) -> status {
                           TROUPE_TRY(said, expected_of(part, model, there, at.node));
                           if (said) out.parts.push_back(*said);
                           return {};
                         }));
  add_by_probes(question.rank, at, out);
  const auto step = models_.find(whole_step);
  if (step == models_.end()) return out;
  TROUPE_TRY(said,
             step->second.ask(configuration_of(features_of(whole_job(), tokens_)), number_of({})));
  out.step = said;
  return out;
}

result<expected_rank> learning_policy::ask_on(const io::perf::hw_profile& machine,
                                              asked_rank question,
                                              std::optional<gpu::predict::machine_speed> prior) {
  question.node = no_node;
  profiles_[question.node] = machine;
  if (prior) priors_[question.node] = *prior;
  auto out = ask(question);
  profiles_.erase(question.node);
  priors_.erase(question.node);
  if (out) out->node.clear();
  return out;
}

result<explained_rank> learning_policy::explain(const asked_rank& question) const {
  if (!places_.contains(question.rank)) return rank_not_seen(question.rank, ranks_);
  TROUPE_TRY(at, place_asked(question));
  explained_rank out{at.node, {}};
  TROUPE_CHECK(each_part(question.rank, at,
                         [&](pipeline_op part, const auto& model, const auto& there) -> status {
                           TROUPE_TRY(said, model.explain(there, number_of(at.node)));
                           if (said)
                             out.parts.push_back({part, *said, probed_of(question.rank, part, at)});
                           return {};
                         }));
  return out;
}

}  // namespace troupe::predict

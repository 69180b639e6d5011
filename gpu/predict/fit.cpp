// Folds, choices and intervals.
#include "gpu/predict/fit.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "gpu/predict/fill.hpp"
#include "gpu/predict/fit_one.hpp"
#include "gpu/predict/neighbours.hpp"
#include "io/perf/split.hpp"

namespace troupe::gpu::predict {

namespace {

/// Folds that are fitted, each without one part in so many of the CPU models, and of the rows.
constexpr int fold_count = 3;
constexpr uint64_t model_parts = 5, row_parts = 10;
/// Points of MAPE that a kind may be worse and still be taken for being richer.
constexpr double tie_points = 0.1;
/// Relative error that rows of CPU models held out may lose by the neighbours if val rows choose.
constexpr double far_loss = 0.0005;

/// A row that a model has not learned from, and what that model says of it.
struct held_row {
  const perf_row* row = nullptr;
  prediction_parts parts;
  neighbour_list near;
  bool far = false;  ///< its CPU model was held out
};

/// A fitted model with the rows that judge it.
struct judged {
  row_list train, extra;
  std::vector<std::pair<const perf_row*, bool>> held;  ///< and whether by its CPU model
  std::optional<predictor> fitted;
  std::vector<held_row> rows;
};

row_list sorted_labelled(const row_list& rows) {
  row_list out;
  for (const auto* r : rows)
    if (r->labelled()) out.push_back(r);
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  return out;
}

/// CPU models in an order that only their names make, each with its place.
std::map<std::string, uint64_t> places_of_models(const row_list& rows) {
  std::set<std::pair<uint64_t, std::string>> order;
  for (const auto* r : rows) order.emplace(io::perf::seeded_hash(1, r->cpu_model), r->cpu_model);
  std::map<std::string, uint64_t> out;
  for (const auto& [hash, name] : order) out.emplace(name, out.size());
  return out;
}

judged fold_of(const row_list& train, const row_list& extra,
               const std::map<std::string, uint64_t>& places, int fold) {
  judged j;
  const bool by_model = places.size() >= model_parts;
  const auto held_out = [&](const std::string& cpu_model) {
    const auto it = places.find(cpu_model);
    return by_model && it != places.end() &&
           it->second % model_parts == static_cast<uint64_t>(fold);
  };
  for (const auto* r : extra)  // FIT-4
    if (!held_out(r->cpu_model)) j.extra.push_back(r);
  for (const auto* r : train) {
    const auto lot = io::perf::seeded_hash(2, r->id);
    const auto model = by_model ? places.at(r->cpu_model) : lot / row_parts;
    const bool far = model % model_parts == static_cast<uint64_t>(fold);
    const bool near = lot % row_parts == static_cast<uint64_t>(fold);
    if (far || near)
      j.held.emplace_back(r, far);
    else
      j.train.push_back(r);
  }
  return j;
}

/// The folds that leave enough to learn from, and hold rows out.
std::vector<judged> folds_of(const row_list& rows, const row_list& extra = {}) {
  const auto places = places_of_models(rows);
  std::vector<judged> out;
  for (int f = 0; f < fold_count; ++f) {
    auto fold = fold_of(rows, extra, places, f);
    if (fold.train.size() >= fewest_rows && !fold.held.empty()) out.push_back(std::move(fold));
  }
  return out;
}

/// Fits all of them, `threads` at once; the longest last is no loss: all take about as long.
void fit_all(std::vector<judged>& all, const io::perf::perf_table& table, const fit_plan& plan,
             const fit_options& options) {
  std::atomic<size_t> next{0};
  std::mutex telling;
  int done = 0;
  const int steps = static_cast<int>(all.size()) * (plan.network ? plan.passes * plan.seeds : 1);
  const auto tell = [&] {
    const std::lock_guard hold(telling);
    if (options.progress) options.progress(table.dataset, ++done, steps);
  };
  const auto work = [&] {
    for (size_t i = next++; i < all.size(); i = next++) {
      auto& j = all[i];
      row_list held;
      for (const auto& [row, far] : j.held) held.push_back(row);
      j.fitted.emplace(fit_rows(table, j.train, j.extra, held, plan, tell));
      if (!plan.network) tell();
      std::vector<float> places;
      const auto parts = j.fitted->parts(held, &places);
      const auto& local = j.fitted->model().local;
      for (size_t r = 0; r < held.size(); ++r) {
        held_row h{held[r], parts[r], {}, j.held[r].second};
        if (local)
          h.near =
              nearest_rows(places.data() + r * local->columns, local->embeddings, local->columns);
        j.rows.push_back(std::move(h));
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < options.threads; ++t) others.emplace_back(work);
  work();
  for (auto& t : others) t.join();
}

/// The residual of a held row's logarithm, by a kind, with neighbours by these numbers.
double residual_of(const judged& j, const held_row& h, size_t o, std::string_view kind) {
  return std::log(h.row->labels[o]) - j.fitted->logarithm(h.parts, o, kind);
}

void refresh_local(judged& j, double bandwidth, double shrink) {
  auto& local = *j.fitted->model().local;
  local.bandwidth = bandwidth;
  local.shrink = shrink;
  const size_t k = j.fitted->model().outputs.size();
  for (auto& h : j.rows)
    h.parts.local = local_residual(h.near, local.residuals, k, local.unit, bandwidth, shrink);
}

struct held_error {
  double sum = 0, count = 0;
  double mean() const { return count > 0 ? sum / count : 0; }
};

/// Mean relative error of the rows held out by CPU model (far), or of the others.
held_error error_of(const std::vector<judged>& all, std::string_view kind, bool far) {
  held_error e;
  for (const auto& j : all)
    for (const auto& h : j.rows) {
      if (h.far != far) continue;
      for (size_t o = 0; o < h.row->labels.size(); ++o) {
        e.sum += std::abs(std::exp(-residual_of(j, h, o, kind)) - 1);
        e.count += 1;
      }
    }
  return e;
}

/// FIT-3. Leaves the choice in every model.
void choose_local(std::vector<judged>& all, const std::string& base, bool by_val) {
  if (!all.front().fitted->model().local) return;
  const auto with = base + "+local";
  const double far_without = error_of(all, base, true).mean();
  double best = error_of(all, base, false).mean(), bandwidth = 1, shrink = 1e6;
  for (const double b : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
    for (const double s : {0.03, 0.1, 0.3, 1.0, 3.0}) {
      for (auto& j : all) refresh_local(j, b, s);
      const double near = error_of(all, with, false).mean();
      if (error_of(all, with, true).mean() > far_without + (by_val ? far_loss : 0) ||
          !(near < best))
        continue;
      best = near;
      bandwidth = b;
      shrink = s;
    }
  }
  for (auto& j : all) refresh_local(j, bandwidth, shrink);
}

/// How much of the network is taken far from train rows: what leaves the least over rows held out
/// by CPU model and rows near those learned from, both counted alike; where no val rows choose, of
/// what leaves no more than the trunk over the former.
void choose_share(std::vector<judged>& all, const std::string& kind, bool by_val) {
  if (!all.front().fitted->model().network) return;
  const auto set = [&](double share, double reach) {
    for (auto& j : all) {
      j.fitted->model().network->share = share;
      j.fitted->model().network->reach = reach;
    }
  };
  constexpr double none = 1e-3;  // a reach that twins alone are within
  double best = 1e300, share = 0, reach = none;
  const bool bound = !by_val && kind.starts_with("trunk");
  const double trunk = error_of(all, "trunk", true).mean();
  for (const double s : {1.0, 0.75, 0.5, 0.25, 0.0}) {
    for (const double r : {none, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
      set(s, r);
      const double far = error_of(all, kind, true).mean();
      const double left = far + error_of(all, kind, false).mean();
      if ((bound && far > trunk) || !(left < best)) continue;
      best = left;
      share = s;
      reach = r;
    }
  }
  set(share, reach);
}

/// MAPE in percent over the rows that a kind is chosen by.
double mape_of(const std::vector<judged>& all, std::string_view kind, bool by_val) {
  held_error e;
  for (size_t i = 0; i < all.size(); ++i) {
    if (by_val != (i + 1 == all.size())) continue;  // the whole fit is the last, with val's rows
    for (const auto& h : all[i].rows) {
      if (!by_val && !h.far) continue;
      for (size_t o = 0; o < h.row->labels.size(); ++o) {
        e.sum += 100 * std::abs(std::exp(-residual_of(all[i], h, o, kind)) - 1);
        e.count += 1;
      }
    }
  }
  return e.mean();
}

/// FIT-2: the richest kind within tie_points of the best, if it is no worse than the trunk; the
/// trunk where none has a score.
std::string choose_kind(const std::vector<io::perf::saved::ScoreT>& scores) {
  if (scores.empty()) return "trunk";
  double best = scores.front().mape, trunk = best;
  for (const auto& s : scores) {
    best = std::min(best, s.mape);
    if (s.kind == "trunk") trunk = s.mape;
  }
  std::string chosen = "trunk";
  for (const auto& s : scores)
    if (s.mape <= best + tie_points && s.mape <= trunk) chosen = s.kind;
  return chosen;
}

/// How far off a CPU model that was held out may be: the residual that nine of ten of its rows are
/// within, of all but one in ten of the models. Rows of one model err together: few models say less
/// than their many rows seem to.
double model_half_width(const std::vector<judged>& all, std::string_view kind) {
  std::map<std::string, std::vector<double>> by_model;
  for (const auto& j : all)
    for (const auto& h : j.rows)
      for (size_t o = 0; h.far && o < h.row->labels.size(); ++o)
        by_model[h.row->cpu_model].push_back(std::abs(residual_of(j, h, o, kind)));
  constexpr double most = 0.9;
  const auto within = [](std::vector<double>& v) {
    std::sort(v.begin(), v.end());
    return v[std::min(v.size() - 1, static_cast<size_t>(most * static_cast<double>(v.size())))];
  };
  std::vector<double> models;
  for (auto& [model, residuals] : by_model) models.push_back(within(residuals));
  return models.empty() ? 0 : within(models);
}

/// What nine of ten are within.
double nine_in_ten(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  constexpr double most = 0.9;
  return values[static_cast<size_t>(most * static_cast<double>(values.size() - 1))];
}

/// How far networks of several seeds are apart on nine of ten rows: on those that the whole fit
/// learned from, or on those held out of its folds, where that is more. Networks of few steps say
/// little of anything, those of folds the least: they alone would make the rest look far apart.
double typical_spread(const std::vector<judged>& all, const std::vector<prediction_parts>& own) {
  std::vector<double> held, learned;
  for (const auto& j : all)
    for (const auto& h : j.rows)
      for (size_t o = 0; o < h.row->labels.size(); ++o)
        held.push_back(j.fitted->spread_of(h.parts, o));
  for (const auto& parts : own)
    for (size_t o = 0; o < parts.spread.size(); ++o)
      learned.push_back(all.back().fitted->spread_of(parts, o));
  return std::max(nine_in_ten(std::move(held)), nine_in_ten(std::move(learned)));
}

/// Widths of the interval by distance, from all held rows by the chosen kind.
void measure_interval(ModelT& m, const std::vector<judged>& all) {
  std::vector<std::pair<double, double>> seen;  // distance, |residual|
  std::vector<double> far;
  for (const auto& j : all) {
    const auto& local = j.fitted->model().local;
    for (const auto& h : j.rows) {
      const double d = h.near.empty() || !local ? 0 : h.near.front().first / local->unit;
      if (h.far) far.push_back(d);
      for (size_t o = 0; o < h.row->labels.size(); ++o)
        seen.emplace_back(d, std::abs(residual_of(j, h, o, m.kind)));
    }
  }
  std::sort(seen.begin(), seen.end());
  std::sort(far.begin(), far.end());
  constexpr size_t bins = 8;
  constexpr double share = 0.95;
  const double of_models = model_half_width(all, m.kind);
  const double model_distance = far.empty() ? 1e300 : far[far.size() / 4];
  double widest = 0;
  m.distances.clear();
  m.halves.clear();
  for (size_t begin = 0, end = 0; begin < seen.size(); begin = end) {
    end = std::min(seen.size(), begin + std::max<size_t>(1, seen.size() / bins));
    // Rows of one distance, as twins, are of one bin: sorted, their residuals grow.
    while (end < seen.size() && seen[end].first == seen[end - 1].first) ++end;
    std::vector<double> part;
    for (size_t i = begin; i < end; ++i) part.push_back(seen[i].second);
    std::sort(part.begin(), part.end());
    const auto at = static_cast<size_t>(
        std::min<double>(std::ceil(share * static_cast<double>(part.size() + 1)) - 1,
                         static_cast<double>(part.size() - 1)));
    widest = std::max(widest, part[at]);
    if (seen[end - 1].first >= model_distance) widest = std::max(widest, of_models);
    m.distances.push_back(seen[end - 1].first);
    m.halves.push_back(widest);
  }
  if (m.distances.empty()) {  // nothing was held out: nothing is known
    m.distances = {0.0};
    m.halves = {1.0};
  }
  constexpr double outermost = 0.99, farther = 1.5;
  m.far = far.empty()
              ? 1e300
              : farther * far[static_cast<size_t>(outermost * static_cast<double>(far.size() - 1))];
}

/// The learning curve of the whole fit, which no row judges: what the folds' networks made of the
/// rows held out of them, by their numbers.
void take_curve_of_folds(std::vector<judged>& all) {
  auto& whole = all.back().fitted->model().network;
  if (!whole || !all.back().rows.empty()) return;
  std::vector<double> sums(whole->curve_passes.size());
  double rows = 0;
  for (const auto& j : all) {
    const auto& held = j.fitted->model().network->curve_held;
    if (held.size() != sums.size()) continue;
    const auto n = static_cast<double>(j.rows.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += n * static_cast<double>(held[i]);
    rows += n;
  }
  for (const double sum : sums)
    if (rows > 0) whole->curve_held.push_back(static_cast<float>(sum / rows));
}

std::vector<io::perf::saved::ScoreT> score(const std::vector<judged>& all, const fit_plan& plan,
                                           bool by_val) {
  std::vector<io::perf::saved::ScoreT> out;
  const auto add = [&](const char* kind) {
    io::perf::saved::ScoreT s;
    s.kind = kind;
    s.mape = mape_of(all, kind, by_val);
    out.push_back(std::move(s));
  };
  if (!plan.network || plan.trunk) add("mean");
  if (plan.trunk) add("trunk");
  if (plan.trunk && !plan.network) add("trunk+local");
  if (plan.trunk && plan.network) {
    add("trunk+ncpp");
    add("trunk+ncpp+local");
  }
  if (!plan.trunk && plan.network) add(plan.published ? "ncpp-published" : "ncpp");
  return out;
}

}  // namespace

std::string_view to_string(chosen_by by) noexcept {
  switch (by) {
    case chosen_by::val:
      return "val";
    case chosen_by::models:
      return "cpu_models";
    case chosen_by::rows:
      return "rows";
    case chosen_by::nothing:
      return "nothing";
  }
  return "?";
}

chosen_by choice_of(const row_list& train, const row_list& val) {
  if (!sorted_labelled(val).empty()) return chosen_by::val;
  const auto rows = sorted_labelled(train);
  for (const auto& fold : folds_of(rows))
    for (const auto& [row, far] : fold.held)
      if (far)
        return places_of_models(rows).size() >= model_parts ? chosen_by::models : chosen_by::rows;
  return chosen_by::nothing;
}

status check_rows(const io::perf::perf_table& table, const row_list& train, const row_list& extra) {
  auto rows = sorted_labelled(train);
  if (rows.size() < fewest_rows) return too_few_rows(table.dataset, rows.size(), fewest_rows);
  const auto more = sorted_labelled(extra);
  rows.insert(rows.end(), more.begin(), more.end());
  ModelT m;
  m.features = learn_features(table.features, rows);
  const auto columns = std::max<size_t>(io::perf::trunk_columns(m), network_width);
  if (rows.size() > most_cells / columns)
    return too_many_numbers(table.dataset, rows.size(), columns, most_cells);
  return {};
}

bool fitted_alike(std::string_view a, std::string_view b) {
  const auto x = plan_of(a, {}, fewest_rows), y = plan_of(b, {}, fewest_rows);
  return x.trunk == y.trunk && x.network == y.network && x.published == y.published;
}

status fit_kinds(const io::perf::perf_table& table, const row_list& train, const row_list& val,
                 const fit_options& options, const std::vector<std::string>& kinds_wanted,
                 const std::function<status(predictor&)>& each) {
  TROUPE_CHECK(check_rows(table, train, options.extra));
  const auto rows = sorted_labelled(train), choosing = sorted_labelled(val),
             extra = sorted_labelled(options.extra);
  auto plan = plan_of(kinds_wanted.front(), options, rows.size() + extra.size());
  const auto by = choice_of(train, val);
  const bool by_val = by == chosen_by::val;
  plan.by_model = !by_val;
  auto all = folds_of(rows, extra);
  judged whole;
  whole.train = rows;
  whole.extra = extra;
  for (const auto* r : choosing) whole.held.emplace_back(r, false);
  all.push_back(std::move(whole));
  fit_all(all, table, plan, options);
  take_curve_of_folds(all);
  const auto base = plan.network ? (plan.trunk ? "trunk+ncpp" : "ncpp") : "trunk";
  choose_share(all, base, by_val);
  choose_local(all, base, by_val);
  // Where nothing was held out, an error is that of no row: nothing is said of any kind.
  const auto scores =
      by == chosen_by::nothing ? std::vector<io::perf::saved::ScoreT>{} : score(all, plan, by_val);
  auto& fitted = all.back().fitted->model();
  fitted.program = options.program;
  fitted.donors = donors_of(fitted, rows);
  fitted.choice_rows = static_cast<uint32_t>(choosing.size());
  for (const auto& s : scores)
    fitted.scores.push_back(std::make_unique<io::perf::saved::ScoreT>(s));
  std::vector<prediction_parts> own;  // of the rows learned from, where there are several networks
  if (plan.network && plan.seeds > 1) own = all.back().fitted->parts(rows);
  for (const auto& kind : kinds_wanted) {
    fitted.kind = kind == "auto" ? choose_kind(scores) : kind;
    // Features that no train row has give neighbours no place.
    if (fitted.kind == "trunk+local" && !fitted.local) fitted.kind = "trunk";
    for (auto& j : all) j.fitted->model().kind = fitted.kind;  // whose spread is asked about
    fitted.spread = own.empty() ? 0 : typical_spread(all, own);
    measure_interval(fitted, all);
    TROUPE_CHECK(each(*all.back().fitted));
  }
  return {};
}

result<ModelT> fit_predictor(const io::perf::perf_table& table, const row_list& train,
                             const row_list& val, const fit_options& options) {
  std::optional<ModelT> out;
  TROUPE_CHECK(fit_kinds(table, train, val, options, {options.kind}, [&](predictor& p) -> status {
    out.emplace(std::move(p.model()));
    return {};
  }));
  return std::move(*out);
}

}  // namespace troupe::gpu::predict

// `troupe predict eval` without predictions: a study. Every kind is fitted to every fold with every
// seed, and judged by the rows that it never saw.
//
// What is finished is written down at once (study_rows.hpp); a study that is begun again goes on
// from there. One fit after the other: each has its own folds side by side on all cores.
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "apps/predict/metrics.hpp"
#include "apps/predict/study_rows.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/progress_line.hpp"
#include "apps/talk.hpp"
#include "gpu/predict/fit.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/file.hpp"
#include "io/perf/extra.hpp"
#include "io/perf/model_file.hpp"
#include "io/perf/readers.hpp"
#include "trace/text.hpp"

namespace troupe::apps::predict {

namespace {

using gpu::predict::row_list;
using io::perf::perf_table;
using io::perf::split_part;

/// A kind, or the richest kind without one of its parts.
struct studied_kind {
  std::string name, kind;
  bool intra = true, inter = true, groups = true;

  bool has_network() const { return kind == "auto" || io::perf::is_of_network(kind); }
  bool fitted_with(const studied_kind& o) const {
    return intra == o.intra && inter == o.inter && groups == o.groups &&
           gpu::predict::fitted_alike(kind, o.kind);
  }
};

std::vector<studied_kind> all_studied() {
  std::vector<studied_kind> out;
  for (const auto kind : gpu::predict::kinds) out.push_back({std::string(kind), std::string(kind)});
  out.push_back({"auto", "auto"});
  const std::string richest(std::end(gpu::predict::kinds)[-1]);
  out.push_back({"no-intra", richest, false, true, true});
  out.push_back({"no-inter", richest, true, false, true});
  out.push_back({"no-groups", richest, true, true, false});
  return out;
}

std::vector<std::string> names_of(const std::vector<studied_kind>& kinds) {
  std::vector<std::string> out;
  for (const auto& k : kinds) out.push_back(k.name);
  return out;
}

result<std::vector<studied_kind>> studied_kinds(const std::string& words) {
  const auto known = all_studied();
  if (words == "all") return known;
  std::vector<studied_kind> out;
  for (size_t begin = 0; begin <= words.size();) {
    const auto end = std::min(words.find(',', begin), words.size());
    const auto word = words.substr(begin, end - begin);
    const auto it = std::find_if(known.begin(), known.end(),
                                 [&](const studied_kind& k) { return k.name == word; });
    if (it == known.end())
      return error{errc::usage, fmt::format("unknown kind: {}", word),
                   fmt::format("all, or some of {}", fmt::join(names_of(known), ","))};
    out.push_back(*it);
    begin = end + 1;
  }
  return out;
}

/// What one fit learns from, and the rows that judge it.
struct studied_fold {
  std::string name;
  row_list train, val, test;
  std::string digest;
  row_list extra = {};
};

struct studied_set {
  perf_table table, extra_table;
  std::vector<studied_fold> folds;
};

using studied_list = std::vector<std::unique_ptr<studied_set>>;

/// Rows, options and program in a word: results of other ones are not mixed with these.
std::string digest_of(const arguments& a, const perf_table& table, const studied_fold& fold) {
  std::string all =
      fmt::format("{}\n{}\n{}\n", cluster::own_version(), a.passes, fmt::join(table.outputs, ","));
  for (const auto& f : table.features)
    all += fmt::format("{},{},{},{},{}\n", f.name, f.group, f.unit, to_string(f.kind), f.defining);
  for (const auto* part : {&fold.train, &fold.val, &fold.test}) {
    for (const auto* r : *part)
      all += fmt::format("{},{},{},{},{}\n", r->id, r->cpu_model, fmt::join(r->labels, ","),
                         fmt::join(r->numbers, ","), fmt::join(r->words, ","));
    all += '\n';
  }
  for (const auto* r : fold.extra)
    all += fmt::format("{},{},{},{},{},{}\n", r->id, r->cpu_model, r->weight,
                       fmt::join(r->labels, ","), fmt::join(r->numbers, ","),
                       fmt::join(r->words, ","));
  return fmt::format("{:016x}", io::perf::seeded_hash(0, table.dataset + all));
}

/// The folds of a file of lines dataset,cpu_model,fold: by data set, or by the name of a family of
/// them (spr for spr_CINT2017rate), then by CPU model.
using folds_by_model = std::map<std::string, std::map<std::string, std::string>>;

result<folds_by_model> read_folds(const std::string& path) {
  TROUPE_TRY(file, io::perf::read_csv(path));
  TROUPE_TRY(dataset, file.need("dataset"));
  TROUPE_TRY(model, file.need("cpu_model"));
  TROUPE_TRY(fold, file.need("fold"));
  folds_by_model out;
  for (const auto& row : file.rows) {
    const std::string of_set(io::perf::trimmed(row.cells[dataset])),
        name(io::perf::trimmed(row.cells[model])), lot(io::perf::trimmed(row.cells[fold]));
    if (of_set.empty() || name.empty() || lot.empty())
      return io::perf::bad_csv(path, row.line, "no data set, CPU model or fold");
    if (!out[of_set].emplace(name, lot).second)
      return io::perf::bad_csv(path, row.line,
                               fmt::format("{} of {} has a fold already", name, of_set));
  }
  return out;
}

const std::map<std::string, std::string>* folds_of_set(const folds_by_model& folds,
                                                       const std::string& dataset) {
  const std::map<std::string, std::string>* found = nullptr;
  for (const auto& [name, models] : folds) {
    if (name == dataset) return &models;
    if (dataset.starts_with(name + "_")) found = &models;
  }
  return found;
}

result<std::unique_ptr<studied_set>> set_of_folds(const arguments& a, const std::string& dataset,
                                                  const std::map<std::string, std::string>& lots) {
  auto out = std::make_unique<studied_set>();
  TROUPE_TRY(table, io::perf::read_dataset(a.data, dataset, [](std::string_view) { return true; }));
  out->table = std::move(table);
  std::map<std::string, row_list> by_fold;
  size_t without = 0;
  for (const auto& r : out->table.rows) {
    if (!r.labelled()) continue;
    const auto lot = lots.find(r.cpu_model);
    if (lot == lots.end())
      ++without;
    else
      by_fold[lot->second].push_back(&r);
  }
  if (without > 0)
    say(fmt::format("{}: {} left out, whose CPU model is in no fold", dataset,
                    counted(without, "row is", "rows are")));
  if (by_fold.size() < 2)
    return error{errc::bad_data,
                 fmt::format("{}: {} has rows in fewer than two folds", a.folds, dataset),
                 "a fold is judged by models of the others"};
  for (const auto& [name, rows] : by_fold) {
    auto& fold = out->folds.emplace_back(studied_fold{name, {}, {}, rows, {}});
    for (const auto& [other, learned] : by_fold)
      if (other != name) fold.train.insert(fold.train.end(), learned.begin(), learned.end());
  }
  return out;
}

result<std::unique_ptr<studied_set>> set_of_split(const arguments& a, const io::perf::split& s,
                                                  const std::string& dataset) {
  using enum split_part;
  auto out = std::make_unique<studied_set>();
  TROUPE_TRY(table,
             io::perf::read_dataset(a.data, dataset, labels_of(s, dataset, {train, val, test})));
  out->table = std::move(table);
  TROUPE_TRY(learned, io::perf::rows_of(s, out->table, train));
  TROUPE_TRY(choosing, io::perf::rows_of(s, out->table, val));
  TROUPE_TRY(judging, io::perf::rows_of(s, out->table, test));
  std::erase_if(judging, [](const auto* r) { return !r->labelled(); });
  if (judging.empty())
    return error{errc::bad_data, fmt::format("{}: no test row of {} has a label", a.split, dataset),
                 "there is nothing to judge predictions by"};
  out->folds.push_back({"split", std::move(learned), std::move(choosing), std::move(judging), {}});
  return out;
}

/// Rows of --extra for each fold, by what it asks about.
status add_extra_to_folds(const arguments& a, studied_set& set) {
  if (a.extra.empty()) return {};
  TROUPE_TRY(table, extra_of(a, set.table, [&set](std::string_view id) {
               return set.table.find(id) != nullptr;
             }));
  set.extra_table = std::move(table);
  for (auto& fold : set.folds)
    fold.extra = io::perf::extra_rows(set.extra_table, fold.train, fold.val, fold.test);
  return {};
}

/// The data sets, each with its folds; whatever is wrong with any is found before anything is
/// fitted.
result<studied_list> studied_sets(const arguments& a) {
  studied_list out;
  if (!a.folds.empty()) {
    TROUPE_TRY(folds, read_folds(a.folds));
    for (const auto& dataset : io::perf::datasets_in(a.data)) {
      const auto* lots = folds_of_set(folds, dataset);
      if (lots == nullptr || !glob_match(a.dataset, dataset)) continue;
      TROUPE_TRY(set, set_of_folds(a, dataset, *lots));
      out.push_back(std::move(set));
    }
  } else {
    TROUPE_TRY(s, io::perf::read_split(a.split));
    TROUPE_TRY(sets, sets_of(s, a.dataset, a.split));
    for (const auto& dataset : sets) {
      TROUPE_TRY(set, set_of_split(a, s, dataset));
      out.push_back(std::move(set));
    }
  }
  if (out.empty()) return io::perf::nothing_of(a.dataset, a.data);
  for (auto& set : out) {
    TROUPE_CHECK(add_extra_to_folds(a, *set));
    for (auto& fold : set->folds) {
      TROUPE_CHECK(gpu::predict::check_rows(set->table, fold.train, fold.extra));
      fold.digest = digest_of(a, set->table, fold);
    }
  }
  return out;
}

/// One fit, and the kinds that are made of it.
struct study_job {
  const studied_set* set = nullptr;
  const studied_fold* fold = nullptr;
  uint64_t seed = 0;
  std::vector<studied_kind> kinds;

  /// In proportion to how long it takes, nearly.
  double cost() const {
    constexpr double of_trunk = 0.01;
    return static_cast<double>(fold->train.size() + fold->extra.size()) *
           (kinds.front().has_network() ? 1 : of_trunk);
  }
};

/// Under what a result is kept: kinds without a network are the same for every seed, and are there
/// once, whichever seeds the study goes over.
study_key key_of(const studied_set& set, const studied_fold& fold, uint64_t seed,
                 const studied_kind& kind) {
  return {set.table.dataset, fold.name, kind.has_network() ? seed : 0, kind.name};
}

/// Refuses results of the data sets that are of other folds than they have now, or were made of
/// other rows, with other options or by another program: sums would mix them with these.
status check_kept(const arguments& a, const studied_list& sets, const study_rows& kept) {
  for (const auto& entry : kept) {
    const auto& key = entry.first;
    const auto& row = entry.second;
    const auto set = std::find_if(sets.begin(), sets.end(),
                                  [&](const auto& s) { return s->table.dataset == key.dataset; });
    if (set == sets.end()) continue;
    const auto& folds = (*set)->folds;
    if (std::none_of(folds.begin(), folds.end(), [&](const studied_fold& f) {
          return f.name == key.fold && f.digest == row.digest;
        }))
      return error{errc::usage,
                   fmt::format("{} has {} of {} from other folds, rows, options or another program",
                               a.out, key.kind, key.dataset),
                   "name another file with -o"};
  }
  return {};
}

/// What is left to do.
std::vector<study_job> jobs_left(const arguments& a, const studied_list& sets,
                                 const std::vector<studied_kind>& kinds, const study_rows& done) {
  std::vector<study_job> out;
  // Seed by seed: what is there early is a study of fewer seeds, not of fewer data sets.
  for (uint64_t seed = a.seed; seed < a.seed + a.seeds; ++seed) {
    for (const auto& set : sets) {
      for (const auto& fold : set->folds) {
        const auto begin = out.size();
        for (const auto& kind : kinds) {
          if (seed > a.seed && !kind.has_network()) continue;
          if (done.contains(key_of(*set, fold, seed, kind))) continue;
          const auto alike =
              std::find_if(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
                           [&](const study_job& j) { return j.kinds.front().fitted_with(kind); });
          if (alike != out.end())
            alike->kinds.push_back(kind);
          else
            out.push_back({set.get(), &fold, seed, {kind}});
        }
      }
    }
  }
  return out;
}

/// What is kept of these data sets, folds and seeds.
study_rows rows_asked_for(const arguments& a, const studied_list& sets, const study_rows& kept) {
  study_rows out;
  for (const auto& set : sets)
    for (const auto& fold : set->folds)
      for (const auto& kind : all_studied())
        for (uint64_t seed = a.seed; seed < a.seed + a.seeds; ++seed)
          if (const auto it = kept.find(key_of(*set, fold, seed, kind)); it != kept.end())
            out.insert(*it);
  return out;
}

result<study_row> judged_row(gpu::predict::predictor& p, const study_job& job) {
  const auto& test = job.fold->test;
  const auto answers = p.ask(test);
  std::vector<judged_value> values;
  for (size_t i = 0; i < test.size(); ++i)
    for (size_t o = 0; o < test[i]->labels.size(); ++o) {
      const auto& x = answers[i];
      if (!std::isfinite(x.value[o]) || !std::isfinite(x.upper[o]))
        return error{errc::bad_data,
                     fmt::format("row {} of {} cannot be predicted by {}", test[i]->id,
                                 job.set->table.dataset, p.model().kind),
                     "a feature of it is beyond what can be computed with"};
      values.push_back(
          {i, o, test[i]->labels[o], x.value[o], x.lower[o], x.upper[o], !x.flag.empty()});
    }
  const auto m = measure(values, job.set->table.outputs.size());
  return study_row{p.model().kind, m.rows, m.flagged_rows,         m.mape,          m.mae, m.mse,
                   m.r2,           m.p90,  m.coverage.value_or(0), job.fold->digest};
}

/// What the file holds; nothing where there is none yet.
result<study_rows> kept_rows(const arguments& a) {
  std::error_code fault;
  if (!std::filesystem::exists(a.out, fault)) return study_rows{};
  TROUPE_TRY(text, io::read_file(a.out, io::perf::max_csv_bytes));
  return parse_study(text, a.out);
}

/// Holds the folder of the file as long as the descriptor is open, against other studies that read
/// and replace it, which takes each a moment. A file system without locks leaves it unprotected.
io::unique_fd alone_at(const std::string& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  io::unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd)
    while (::flock(fd.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
  return fd;
}

/// Writes the rows, beside those that other studies have put into the file meanwhile. Errors: as
/// check_kept.
status write_down(const arguments& a, const studied_list& sets, study_rows& rows) {
  const auto alone = alone_at(a.out);
  TROUPE_TRY(kept, kept_rows(a));
  TROUPE_CHECK(check_kept(a, sets, kept));
  rows.merge(kept);
  return io::write_atomic(a.out, study_text(rows));
}

/// Fits, judges, and writes down what came of it.
status run_job(const arguments& a, const studied_list& sets, const study_job& job, study_rows& rows,
               const std::function<void(double)>& tell) {
  gpu::predict::fit_options o;
  o.seed = job.seed;
  o.passes = a.passes;
  o.threads = threads_of(a);
  o.intra = job.kinds.front().intra;
  o.inter = job.kinds.front().inter;
  o.extra = job.fold->extra;
  o.progress = [&](const std::string&, int done, int all) { tell(1.0 * done / std::max(all, 1)); };
  perf_table table{job.set->table.dataset, job.set->table.features, job.set->table.outputs, {}};
  if (!job.kinds.front().groups)
    for (auto& f : table.features) f.group = "all";
  std::vector<std::string> wanted;
  for (const auto& k : job.kinds) wanted.push_back(k.kind);
  size_t at = 0;
  const auto judge_one = [&](gpu::predict::predictor& p) -> status {
    TROUPE_TRY(row, judged_row(p, job));
    rows[key_of(*job.set, *job.fold, job.seed, job.kinds[at++])] = std::move(row);
    return {};
  };
  TROUPE_CHECK(
      gpu::predict::fit_kinds(table, job.fold->train, job.fold->val, o, wanted, judge_one));
  return write_down(a, sets, rows);
}

status run_jobs(const arguments& a, const studied_list& sets, const std::vector<study_job>& jobs,
                study_rows& rows) {
  double all = 0, done = 0;
  for (const auto& j : jobs) all += j.cost();
  progress_line line;
  const auto begun = std::chrono::steady_clock::now();
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto& job = jobs[i];
    const auto tell = [&](double share) {
      if (!line.due()) return;
      const double part = (done + share * job.cost()) / all;
      const auto took =
          std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begun)
              .count();
      line.tell(fmt::format(
          "fit {} of {}: {}, fold {}, seed {}; {:.0f} %, {} left", i + 1, jobs.size(),
          job.set->table.dataset, job.fold->name, job.seed, 100 * part,
          part > 0 ? trace::duration_text(static_cast<int64_t>(took * (1 - part) / part)) : "?"));
    };
    tell(0);
    TROUPE_CHECK(run_job(a, sets, job, rows, tell));
    done += job.cost();
  }
  line.clear();
  return {};
}

std::string sums_text(const std::vector<study_sum>& sums) {
  std::vector<std::vector<std::string>> table = {{"data set", "kind", "rows", "folds", "seeds",
                                                  "MAPE %", "+-", "over trunk", "R2", "in 95 %",
                                                  "flagged", "MAPE % by fold"}};
  for (const auto& s : sums) {
    std::string folds;
    for (const auto& [fold, mape] : s.mape_by_fold)
      folds += fmt::format("{}{}: {:.2f}", folds.empty() ? "" : "  ", fold, mape);
    table.push_back({s.dataset, s.kind, fmt::format("{}", s.rows), fmt::format("{}", s.folds),
                     fmt::format("{}", s.seeds), fmt::format("{:.2f}", s.mape),
                     s.deviation ? fmt::format("{:.2f}", *s.deviation) : "-",
                     s.over_trunk ? fmt::format("{:+.2f}", *s.over_trunk) : "-",
                     fmt::format("{:.4f}", s.r2), fmt::format("{:.1f}", s.coverage),
                     fmt::format("{:.1f} %", s.flagged_percent), folds});
  }
  return trace::table_text(std::move(table), 0);
}

nlohmann::ordered_json sum_json(const study_sum& s) {
  const auto known = [](const std::optional<double>& x) {
    return x ? nlohmann::ordered_json(*x) : nlohmann::ordered_json(nullptr);
  };
  return {{"dataset", s.dataset},
          {"kind", s.kind},
          {"rows", s.rows},
          {"folds", s.folds},
          {"seeds", s.seeds},
          {"mape_percent", s.mape},
          {"mape_deviation", known(s.deviation)},
          {"over_trunk_points", known(s.over_trunk)},
          {"r2", s.r2},
          {"within_percent", s.coverage},
          {"flagged_percent", s.flagged_percent},
          {"mape_percent_by_fold", s.mape_by_fold}};
}

}  // namespace

result<std::vector<study_sum>> studied(const arguments& a) {
  if (a.out.empty())
    return error{errc::usage, "a study needs a file that its results are kept in",
                 "name one: -o study.csv"};
  if (a.folds.empty() == a.split.empty())
    return error{errc::usage, "a study goes over --folds, or over --split; expected one of them",
                 "or name a file of predictions to judge"};
  TROUPE_TRY(kinds, studied_kinds(a.studied));
  TROUPE_TRY(sets, studied_sets(a));
  TROUPE_TRY(rows, kept_rows(a));
  TROUPE_CHECK(check_kept(a, sets, rows));
  const auto jobs = jobs_left(a, sets, kinds, rows);
  if (!rows.empty())
    say(fmt::format("{} of {} are there already; {} to go", counted(rows.size(), "result"), a.out,
                    counted(jobs.size(), "fit")));
  TROUPE_CHECK(run_jobs(a, sets, jobs, rows));
  return sums_of_study(rows_asked_for(a, sets, rows), names_of(kinds));
}

result<int> study(const arguments& a) {
  TROUPE_TRY(sums, studied(a));
  if (!a.json) {
    TROUPE_CHECK(print(sums_text(sums)));
    return 0;
  }
  auto out = nlohmann::ordered_json::array();
  for (const auto& s : sums) out.push_back(sum_json(s));
  TROUPE_CHECK(print(nlohmann::ordered_json{{"study", out}}.dump() + "\n"));
  return 0;
}

}  // namespace troupe::apps::predict

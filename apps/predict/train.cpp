// `troupe predict train` and `split`.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/progress_line.hpp"
#include "apps/talk.hpp"
#include "gpu/predict/fit.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/file.hpp"
#include "io/perf/extra.hpp"
#include "io/perf/readers.hpp"

namespace troupe::apps::predict {

namespace {

namespace fs = std::filesystem;
using io::perf::split_part;

std::string said_of_choice(const gpu::predict::ModelT& m, gpu::predict::chosen_by by) {
  switch (by) {
    case gpu::predict::chosen_by::val:
      return fmt::format("{} to choose by", m.choice_rows);
    case gpu::predict::chosen_by::models:
      return "chosen by CPU models held out";
    case gpu::predict::chosen_by::rows:
      return "chosen by rows held out";
    case gpu::predict::chosen_by::nothing:
      return "too few to choose by";
  }
  return "?";
}

/// How many networks it averages; 0: it has none.
size_t seeds_of(const gpu::predict::ModelT& m) {
  if (!m.network) return 0;
  return 1 + m.network->other_parameters.size() / m.network->parameters.size();
}

std::string told(const gpu::predict::ModelT& m, gpu::predict::chosen_by by, const std::string& path,
                 double s) {
  std::string scores;
  for (const auto& one : m.scores)
    scores += fmt::format("{}{} {:.2f}", scores.empty() ? "" : " | ", one->kind, one->mape);
  if (!scores.empty()) scores += " %; ";
  auto rows = counted(m.train_rows, "row");
  if (m.extra_rows > 0)
    rows += fmt::format(" and {} of weight {}", counted(m.extra_rows, "extra one", "extra ones"),
                        io::perf::extra_weight);
  const auto seeds = seeds_of(m) > 1 ? fmt::format(" of {} seeds", seeds_of(m)) : std::string();
  return fmt::format("{}  {}, {}; {}{}{} -> {} ({:.1f} s)\n", m.dataset, rows,
                     said_of_choice(m, by), scores, m.kind, seeds, path, s);
}

/// `processor_s`: of the fit. The memory is the highest that the process had so far.
std::string told_json(const gpu::predict::ModelT& m, gpu::predict::chosen_by by,
                      const std::string& path, double s, double processor_s) {
  nlohmann::ordered_json j{{"dataset", m.dataset},
                           {"kind", m.kind},
                           {"train_rows", m.train_rows},
                           {"extra_rows", m.extra_rows},
                           {"choice_rows", m.choice_rows},
                           {"chosen_by", gpu::predict::to_string(by)},
                           {"train_digest", fmt::format("{:016x}", m.train_digest)},
                           {"seed", m.seed},
                           {"seeds", seeds_of(m)},
                           {"alpha", m.alpha},
                           {"file", path},
                           {"fit_s", s},
                           {"fit_processor_s", processor_s},
                           {"peak_bytes", cluster::peak_memory()}};
  for (const auto& one : m.scores) j["mape_percent"][one->kind] = one->mape;
  return j.dump() + "\n";
}

/// A data set, and its rows to learn from and to choose by.
struct lesson {
  io::perf::perf_table table, extra_table;
  gpu::predict::row_list rows, val, extra;
};

/// The rows of --extra that the split lets be used, if there is any such file.
status add_extra_rows(const arguments& a, const io::perf::split& s,
                      const gpu::predict::row_list& test, lesson& to) {
  if (a.extra.empty()) return {};
  TROUPE_TRY(table, extra_of(a, to.table,
                             labels_of(s, to.table.dataset,
                                       {split_part::train, split_part::val, split_part::test})));
  to.extra_table = std::move(table);
  to.extra = io::perf::extra_rows(to.extra_table, to.rows, to.val, test);
  return {};
}

/// Errors: whatever is wrong with it, before anything is fitted. Rows of test are looked up too, of
/// which no label is read (PRV-2).
result<std::unique_ptr<lesson>> lesson_of(const arguments& a, const io::perf::split& s,
                                          const std::string& dataset) {
  auto out = std::make_unique<lesson>();
  TROUPE_TRY(table,
             io::perf::read_dataset(a.data, dataset,
                                    labels_of(s, dataset, {split_part::train, split_part::val})));
  out->table = std::move(table);
  TROUPE_TRY(rows, io::perf::rows_of(s, out->table, split_part::train));
  TROUPE_TRY(val, io::perf::rows_of(s, out->table, split_part::val));
  TROUPE_TRY(test, io::perf::rows_of(s, out->table, split_part::test));
  out->rows = std::move(rows);
  out->val = std::move(val);
  TROUPE_CHECK(add_extra_rows(a, s, test, *out));
  TROUPE_CHECK(gpu::predict::check_rows(out->table, out->rows, out->extra));
  return out;
}

result<int> train_one(const arguments& a, const io::perf::split& s, const std::string& dataset) {
  const auto begun = std::chrono::steady_clock::now();
  const double begun_s = cluster::usage_now().cpu_seconds;
  TROUPE_TRY(learned, lesson_of(a, s, dataset));
  gpu::predict::fit_options o;
  o.kind = a.kind;
  o.seed = a.seed;
  o.seeds = static_cast<int>(a.seeds);
  o.passes = a.passes;
  o.threads = threads_of(a);
  o.program = cluster::own_version();
  o.extra = learned->extra;
  progress_line line;
  o.progress = [&line](const std::string& what, int done, int all) {
    if (line.due()) line.tell(fmt::format("{}: {:.0f} %", what, 100.0 * done / std::max(all, 1)));
  };
  auto fitted = gpu::predict::fit_predictor(learned->table, learned->rows, learned->val, o);
  line.clear();
  if (!fitted) return fitted.error();
  const auto path = fs::path(a.out) / (dataset + ".tpm");
  TROUPE_CHECK(io::perf::check(*fitted, path.string()));
  TROUPE_CHECK(io::perf::write_model(path, *fitted));
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const auto by = gpu::predict::choice_of(learned->rows, learned->val);
  const double processor_s = cluster::usage_now().cpu_seconds - begun_s;
  TROUPE_CHECK(print(a.json ? told_json(*fitted, by, path.string(), took, processor_s)
                            : told(*fitted, by, path.string(), took)));
  return 0;
}

bool can_be_learned(const std::map<std::string, split_part>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& p) { return p.second == split_part::train; });
}

/// The split's lines of one data set. One whose parts would leave nothing to train on, as the only
/// CPU model there is in test does, is dealt out at random, and that is said.
result<std::string> lines_of(const arguments& a, const std::string& dataset) {
  TROUPE_TRY(table, io::perf::read_dataset(a.data, dataset, [](std::string_view) { return true; }));
  const auto by = a.by == "cpu"    ? io::perf::split_by::cpu
                  : a.by == "date" ? io::perf::split_by::date
                                   : io::perf::split_by::random;
  const io::perf::split_shares shares{a.val_share, a.test_share};
  TROUPE_TRY(parts, io::perf::make_split(table, by, a.seed, shares));
  if (by != io::perf::split_by::random && !can_be_learned(parts)) {
    say(fmt::format("{}: by {} no row is left to train on; its rows are dealt out at random",
                    dataset, a.by));
    TROUPE_TRY(others, io::perf::make_split(table, io::perf::split_by::random, a.seed, shares));
    parts = std::move(others);
  }
  if (!can_be_learned(parts))
    return error{errc::bad_data, fmt::format("{}: no row is left to train on", dataset),
                 "leave it out with --dataset, or make --val and --test smaller"};
  std::string out;
  for (const auto& [id, part] : parts)
    out += fmt::format("{},{},{}\n", io::perf::csv_cell(dataset), io::perf::csv_cell(id),
                       io::perf::to_string(part));
  return out;
}

}  // namespace

result<int> train(const arguments& a) {
  if (a.kind != "auto" && !gpu::predict::is_kind(a.kind)) {
    const auto near = nearest(a.kind, gpu::predict::kinds);
    return error{errc::usage, fmt::format("unknown kind: {}", a.kind),
                 near.empty() ? "troupe predict train --help names them"
                              : fmt::format("did you mean {}?", near)};
  }
  TROUPE_TRY(s, io::perf::read_split(a.split));
  TROUPE_TRY(sets, sets_of(s, a.dataset, a.split));
  // What is wrong with the last set is found before the first one's model is replaced.
  for (const auto& dataset : sets) TROUPE_CHECK(lesson_of(a, s, dataset));
  std::error_code fault;
  fs::create_directories(a.out, fault);
  if (fault)
    return error{errc::io, fmt::format("{}: {}", a.out, fault.message()), "name another folder"};
  for (const auto& dataset : sets) {
    TROUPE_TRY(code, train_one(a, s, dataset));
    if (code != 0) return code;
  }
  return 0;
}

result<int> make_split(const arguments& a) {
  if (a.val_share + a.test_share >= 1)
    return error{errc::usage, "--val and --test leave nothing to train on", "make them smaller"};
  std::string text = "dataset,row_id,split\n";
  size_t sets = 0;
  for (const auto& dataset : io::perf::datasets_in(a.data)) {
    if (!glob_match(a.dataset, dataset)) continue;
    TROUPE_TRY(lines, lines_of(a, dataset));
    text += lines;
    ++sets;
  }
  if (sets == 0) return io::perf::nothing_of(a.dataset, a.data);
  TROUPE_CHECK(io::write_atomic(a.out, text));
  say(fmt::format("{} data set{} -> {}", sets, sets == 1 ? "" : "s", a.out));
  return 0;
}

}  // namespace troupe::apps::predict

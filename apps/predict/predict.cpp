// `troupe predict`: what a machine should do, learned from what others did.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.hpp"
#include "apps/job_arguments.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "io/base/text.hpp"
#include "io/file.hpp"
#include "io/perf/extra.hpp"

namespace troupe::apps {

namespace {

using predict_arguments = std::shared_ptr<predict::arguments>;

void add_data_of(command* verb, const predict_arguments& a) {
  verb->add_option("--data", a->data, "The folder of data sets (docs/predict.md)")
      ->required()
      ->takes(offered::folder);
}

void add_split_of(command* verb, const predict_arguments& a) {
  verb->add_option("--split", a->split, "A file of lines dataset,row_id,split")->required();
}

argument* add_pattern(command* verb, const predict_arguments& a) {
  return verb->add_option("--dataset", a->dataset, "Data sets by name, with * and ?; else all");
}

argument* add_extra(command* verb, const predict_arguments& a) {
  return verb->add_option("--extra", a->extra,
                          "More rows to learn from, for 0.3 each: a file in the form of the data "
                          "set's own, as SPEC's dump for other Xeons");
}

void add_predict_train(shell& sh, command* verb, const predict_arguments& a) {
  auto* t = verb->add_subcommand("train", "Learn from the train rows of a split");
  t->footer(
      "A table of your own is NAME.csv with NAME.toml beside it, which says what its columns are\n"
      "(docs/predict.md); `troupe predict probe -o data/NAME.csv` begins one.\n"
      "Examples:\n"
      "  troupe predict split --data data --by cpu -o split.csv\n"
      "  troupe predict train --data data --split split.csv -o models\n"
      "  troupe predict train --data data --split split.csv --dataset fleet --kind trunk -o "
      "models");
  add_data_of(t, a);
  add_split_of(t, a);
  add_pattern(t, a);
  add_extra(t, a);
  t->add_option("--kind", a->kind,
                fmt::format("auto, or {}", fmt::join(gpu::predict::kinds, ", ")));
  t->add_option("--seed", a->seed, "Of the network's first parameters and the order of rows");
  t->add_option(
       "--seeds", a->seeds,
       "Networks from --seed on, whose answers are averaged: as many times the work; where "
       "they differ the interval is wider")
      ->within(uint64_t{1}, uint64_t{16});
  t->add_option("--passes", a->passes, "Passes of the network; 0: by the number of rows")
      ->within(0, 10'000);
  t->add_option("--threads", a->threads, "Fits side by side; 0: a thread a core")->within(0, 256);
  t->add_option("-o,--out", a->out, "The folder that models are written to")
      ->required()
      ->takes(offered::folder);
  t->add_flag("--json", a->json, "As JSON on stdout, a line per data set");
  on_run(sh, t, [a] { return predict::train(*a); });
}

void add_predict_ask(shell& sh, command* verb, const predict_arguments& a) {
  auto* k = verb->add_subcommand("ask", "Predict rows of a data set, or of a person's file");
  k->add_option("MODELS", a->models, "A folder of models, or one model")->required();
  k->add_option("--data", a->data, "The folder of data sets; with --split")->takes(offered::folder);
  k->add_option("--split", a->split, "A file of lines dataset,row_id,split");
  const auto* pattern = add_pattern(k, a);
  const auto* part = k->add_option("--part", a->part, "The rows asked about: train, val or test");
  k->add_option("--row", a->row, "Instead a CSV whose columns are features of the one model");
  k->add_option("--set", a->set, "FEATURE=VALUE in every row of --row, or in a row of its own");
  k->add_option("-o,--out", a->out, "The file of predictions; else stdout");
  on_run(sh, k, [a, pattern, part] {
    a->of_split = pattern->count() + part->count() > 0;
    return predict::ask(*a);
  });
}

void add_predict_eval(shell& sh, command* verb, const predict_arguments& a) {
  auto* e = verb->add_subcommand("eval", "Judge predictions of any program's, or kinds by a study");
  e->add_option("PREDICTIONS", a->predictions,
                "A file of dataset,row_id,output,pred; none: a study is made");
  add_data_of(e, a);
  e->add_option("--split", a->split, "A file of lines dataset,row_id,split");
  add_pattern(e, a);
  const auto* part = e->add_option("--part", a->part, "The rows judged: train, val or test");
  const std::vector<const argument*> of_study = {
      e->add_option("--folds", a->folds, "A study over folds: a file of dataset,cpu_model,fold"),
      e->add_option("--seeds", a->seeds, "A study's: how many, from --seed on")
          ->within(uint64_t{1}, uint64_t{1000}),
      e->add_option("--seed", a->seed, "A study's first"),
      e->add_option("--kinds", a->studied,
                    "A study's: all, or some, by commas; no-intra, no-inter and no-groups are the "
                    "richest kind without a part"),
      e->add_option("--passes", a->passes, "A study's, of the network; 0: by the number of rows")
          ->within(0, 10'000),
      e->add_option("--threads", a->threads, "A study's fits side by side; 0: a thread a core")
          ->within(0, 256),
      add_extra(e, a),
      e->add_option("-o,--out", a->out, "A study's results, from which it goes on")};
  e->add_option("--svg", a->svg,
                "Pictures into this folder, of each data set: predicted over measured, errors by "
                "CPU model, coverage")
      ->takes(offered::folder);
  e->add_flag("--draw", a->draw, "The same on stdout, below the table");
  e->add_flag("--json", a->json, "As JSON on stdout");
  on_run(sh, e, [a, part, of_study] {
    a->of_split = part->count() > 0;
    a->of_study = std::any_of(of_study.begin(), of_study.end(),
                              [](const argument* o) { return o->count() > 0; });
    return predict::eval(*a);
  });
}

void add_predict_explain(shell& sh, command* verb, const predict_arguments& a) {
  auto* x = verb->add_subcommand("explain", "What a prediction is made of, or what it hangs on");
  x->add_option("MODEL", a->models, "The model")->required();
  x->add_option("--data", a->data, "The folder of data sets; with --row and --split")
      ->takes(offered::folder);
  x->add_option("--row", a->row, "The id of a row: the factors of its prediction");
  x->add_option("--set", a->set, "Instead FEATURE=VALUE of a machine that is in no table");
  x->add_option("--split", a->split, "Instead a split: what each feature is worth over its rows");
  x->add_option("--part", a->part, "The split's rows: train, val or test");
  x->add_option("--seed", a->seed, "Of the order that values are dealt out in");
  x->add_option("--svg", a->svg,
                "With --split: pictures of it into this folder, of attention and of how it was "
                "learned, too")
      ->takes(offered::folder);
  x->add_flag("--draw", a->draw, "With --split: the same on stdout, below the table");
  x->add_flag("--json", a->json, "As JSON on stdout");
  on_run(sh, x, [a] { return predict::explain(*a); });
}

void add_predict_split(shell& sh, command* verb, const predict_arguments& a) {
  auto* s = verb->add_subcommand("split", "Deal rows out to train, val and test");
  add_data_of(s, a);
  add_pattern(s, a);
  s->add_option("--by", a->by, "Rows at random, whole CPU models, or dates, the newest to test")
      ->one_of({"random", "cpu", "date"});
  s->add_option("--seed", a->seed, "Of the lots");
  s->add_option("--val", a->val_share, "Share of rows to choose by")->within(0.0, 0.9);
  s->add_option("--test", a->test_share, "Share of rows to ask about")->within(0.0, 0.9);
  s->add_option("-o,--out", a->out, "The split's file")->required();
  on_run(sh, s, [a] { return predict::make_split(*a); });
}

void add_predict_probe(shell& sh, command* verb, const predict_arguments& a) {
  auto* p = verb->add_subcommand("probe", "What this machine is and does at most, field by field");
  p->footer(
      "Measures for 2 s, or 15 s with --full, and a GPU as long: run it while nothing else does.\n"
      "What was measured is kept until the machine is started anew.\n"
      "Examples:\n"
      "  troupe predict probe\n"
      "  troupe predict probe run.toml -o data/fleet.csv --id node3");
  add_optional_job(p, a->job);
  p->add_flag("--full", a->full, "With larger arrays and longer tries");
  p->add_flag("--again", a->again, "Measure anew what was kept");
  p->add_option("--folder", a->folder, "The folder whose disk is measured; else this one")
      ->takes(offered::folder);
  p->add_option("-o,--out", a->out,
                "The table (NAME.csv, schema NAME.toml) that the machine's row is put into");
  p->add_option("--id", a->id, "The row's id; else the host's name");
  p->add_option("--label", a->label, "The column of a new table that is to be learned");
  p->add_flag("--json", a->json, "As JSON on stdout");
  on_run(sh, p, [a] { return predict::probe(*a); });
}

void add_predict_export(shell& sh, command* verb, const predict_arguments& a) {
  auto* x = verb->add_subcommand("export", "What jobs have taught, as tables to learn from");
  x->footer(
      "A job keeps what parts of its steps took in part-times.jsonl of its output, or in\n"
      "predict.store; a machine what its runs took, which is exported where no file is named.\n"
      "Example:\n"
      "  troupe predict export runs/*/part-times.jsonl -o learned\n"
      "  troupe predict split --data learned --dataset part-times -o split.csv\n"
      "  troupe predict train --data learned --split split.csv -o models");
  x->add_option("STORE", a->models, "Files of part times, or of past runs");
  x->add_option("-o,--out", a->out, "The folder that the tables are written to")
      ->required()
      ->takes(offered::folder);
  on_run(sh, x, [a] { return predict::export_learned(*a); });
}

}  // namespace

void add_predict(shell& sh) {
  auto* verb = sh.app.add_subcommand("predict", "What a machine should do, learned from others");
  verb->require_subcommand(1);
  auto a = std::make_shared<predict::arguments>();
  add_predict_train(sh, verb, a);
  add_predict_ask(sh, verb, a);
  add_predict_eval(sh, verb, a);
  add_predict_explain(sh, verb, a);
  add_predict_split(sh, verb, a);
  add_predict_probe(sh, verb, a);
  add_predict_export(sh, verb, a);
}

namespace predict {

result<std::vector<std::string>> sets_of(const io::perf::split& s, const std::string& pattern,
                                         const std::string& file) {
  std::vector<std::string> out;
  for (const auto& [name, rows] : s.sets)
    if (glob_match(pattern, name)) out.push_back(name);
  if (out.empty())
    return error{errc::usage, fmt::format("no data set of {} fits {}", file, pattern),
                 "leave --dataset out, or name one with * and ?"};
  return out;
}

status write_picture(const arguments& a, const std::string& dataset, const std::string& what,
                     const std::string& picture) {
  std::error_code fault;
  std::filesystem::create_directories(a.svg, fault);
  if (fault)
    return error{errc::io, fmt::format("{}: {}", a.svg, fault.message()), "name another folder"};
  return io::write_atomic(std::filesystem::path(a.svg) / fmt::format("{}-{}.svg", dataset, what),
                          picture);
}

result<io::perf::perf_table> extra_of(const arguments& a, const io::perf::perf_table& own,
                                      const io::perf::label_filter& is_own) {
  TROUPE_TRY(extra, io::perf::read_extra(a.extra, a.data, own.dataset,
                                         [&](std::string_view id) { return !is_own(id); }));
  if (!io::perf::same_columns(extra, own))
    return io::perf::bad_csv(
        a.extra, 1, fmt::format("its features or labels are not those of {}", own.dataset));
  return extra;
}

report::canvas canvas_here() {
  report::canvas on;
  on.columns = std::min(100, terminal_columns(STDOUT_FILENO, 80));
  on.utf8 = speaks_utf8();
  on.rows = 14;
  return on;
}

int threads_of(const arguments& a) noexcept {
  return a.threads > 0 ? a.threads
                       : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

result<io::perf::split_part> part_of(const std::string& word) {
  using enum io::perf::split_part;
  for (const auto p : {train, val, test})
    if (io::perf::to_string(p) == word) return p;
  return error{errc::usage, fmt::format("unknown part: {}", word), "it is train, val or test"};
}

io::perf::label_filter labels_of(const io::perf::split& s, const std::string& dataset,
                                 std::vector<io::perf::split_part> parts) {
  const auto set = s.sets.find(dataset);
  if (set == s.sets.end()) return [](std::string_view) { return false; };
  return [&rows = set->second, parts = std::move(parts)](std::string_view id) {
    const auto it = rows.find(std::string(id));
    if (it == rows.end()) return false;
    for (const auto p : parts)
      if (p == it->second.part) return true;
    return false;
  };
}

}  // namespace predict

}  // namespace troupe::apps

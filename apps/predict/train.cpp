// `troupe predict train` and `split`.
#include <unistd.h>

#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "gpu/predict/fit.hpp"
#include "io/base/text.hpp"
#include "io/file.hpp"
#include "io/perf/readers.hpp"

namespace troupe::apps::predict {

namespace {

namespace fs = std::filesystem;
using io::perf::split_part;

/// Says how far a fit has come, at most ten times a second and only to a terminal.
class fit_line {
 public:
  void operator()(const std::string& what, int done, int all) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    say_as_is(fmt::format("\r\x1b[K{}: {:.0f} %", what, 100.0 * done / std::max(all, 1)));
  }
  void clear() const {
    if (terminal_) say_as_is("\r\x1b[K");
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point last_ = {};
};

std::string told(const gpu::predict::ModelT& m, const std::string& path, double s) {
  std::string scores;
  for (const auto& one : m.scores)
    scores += fmt::format("{}{} {:.2f}", scores.empty() ? "" : " | ", one->kind, one->mape);
  const auto by = m.choice_rows > 0 ? fmt::format("{} to choose by", m.choice_rows)
                                    : std::string("chosen by CPU models held out");
  return fmt::format("{}  {} rows, {}; {} %; {} -> {} ({:.1f} s)\n", m.dataset, m.train_rows, by,
                     scores, m.kind, path, s);
}

std::string told_json(const gpu::predict::ModelT& m, const std::string& path, double s) {
  nlohmann::ordered_json j{{"dataset", m.dataset},
                           {"kind", m.kind},
                           {"train_rows", m.train_rows},
                           {"choice_rows", m.choice_rows},
                           {"train_digest", fmt::format("{:016x}", m.train_digest)},
                           {"seed", m.seed},
                           {"alpha", m.alpha},
                           {"file", path},
                           {"fit_s", s}};
  for (const auto& one : m.scores) j["mape_percent"][one->kind] = one->mape;
  return j.dump() + "\n";
}

result<int> train_one(const arguments& a, const io::perf::split& s, const std::string& dataset) {
  const auto begun = std::chrono::steady_clock::now();
  TROUPE_TRY(table,
             io::perf::read_dataset(a.data, dataset,
                                    labels_of(s, dataset, {split_part::train, split_part::val})));
  TROUPE_TRY(rows, io::perf::rows_of(s, table, split_part::train));
  TROUPE_TRY(val, io::perf::rows_of(s, table, split_part::val));
  gpu::predict::fit_options o;
  o.kind = a.kind;
  o.seed = a.seed;
  o.epochs = a.epochs;
  o.threads = a.threads > 0 ? a.threads
                            : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  o.program = cluster::own_version();
  fit_line line;
  o.progress = [&line](const std::string& what, int done, int all) { line(what, done, all); };
  auto fitted = gpu::predict::fit_predictor(table, rows, val, o);
  line.clear();
  if (!fitted) return fitted.error();
  const auto path = fs::path(a.out) / (dataset + ".tpm");
  TROUPE_CHECK(io::perf::check(*fitted, path.string()));
  TROUPE_CHECK(io::perf::write_model(path, *fitted));
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  TROUPE_CHECK(
      print(a.json ? told_json(*fitted, path.string(), took) : told(*fitted, path.string(), took)));
  return 0;
}

/// The split's lines of one data set.
result<std::string> lines_of(const arguments& a, const std::string& dataset) {
  TROUPE_TRY(table, io::perf::read_dataset(a.data, dataset, [](std::string_view) { return true; }));
  const auto by = a.by == "cpu"    ? io::perf::split_by::cpu
                  : a.by == "date" ? io::perf::split_by::date
                                   : io::perf::split_by::random;
  TROUPE_TRY(parts, io::perf::make_split(table, by, a.seed, {a.val_share, a.test_share}));
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
  if (sets == 0) return io::perf::no_dataset(a.dataset, a.data);
  TROUPE_CHECK(io::write_atomic(a.out, text));
  say(fmt::format("{} data sets -> {}", sets, a.out));
  return 0;
}

}  // namespace troupe::apps::predict

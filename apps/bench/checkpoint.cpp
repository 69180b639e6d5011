// `troupe bench checkpoint`: a checkpoint in every iteration, against the disk's ceiling; in other
// ways, too, where some are handed in.
//
// Rounds are interleaved: each runs all ways, in an order that turns, with the raw write and read
// (and fio's) beside ours, since a disk's speed drifts by the minute. Each way begins a round with
// one iteration that is not counted, so that the counted ones have a checkpoint before them.
#include <cstdlib>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.hpp"
#include "apps/bench/checkpoint_ceiling.hpp"
#include "apps/bench/checkpoint_process.hpp"
#include "apps/bench/checkpoint_report.hpp"
#include "apps/bench/checkpoint_trainer.hpp"
#include "apps/bench/checkpoint_ways.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/bench/leftovers.hpp"
#include "apps/bench/stopwatch.hpp"
#include "gpu/model/saved_state.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps {

namespace cp = io::checkpoint;
namespace fs = std::filesystem;

namespace ckpt_bench {
namespace {

using clock = std::chrono::steady_clock;

/// Without --iteration-ms: the flush takes 0.4 of an iteration.
constexpr double usual_pressure = 0.4;
constexpr double most_difference = 0.15;  ///< of the ceilings within a round
constexpr uint64_t spare_bytes = 256 << 20;

struct arguments {
  std::vector<double> gib;
  double iteration_ms = 0;
  int rounds = 3;
  int iterations = 3;
  uint64_t ring_mib = 256;
  std::vector<way_kind> kinds;    ///< that there are
  std::vector<std::string> ways;  ///< of them; empty: all
  std::string dir;
  bool json = false;

  /// "none" is what all are measured by.
  bool wants(std::string_view id) const {
    return id == "none" || ways.empty() || std::find(ways.begin(), ways.end(), id) != ways.end();
  }
  /// Of the whole state, by the way that holds the most.
  uint64_t copies() const {
    int most = 0;
    for (const auto& kind : kinds)
      if (wants(kind.id)) most = std::max(most, kind.copies);
    return static_cast<uint64_t>(most);
  }
};

/// A temporary folder, and the one that it lies in where that was made for it.
struct bench_folder {
  fs::path made;  ///< empty: it was there
  std::optional<io::held_scratch> scratch;

  ~bench_folder() {
    scratch.reset();
    if (!made.empty()) static_cast<void>(io::remove_empty(made));
  }
  status make(const std::string& parent) {
    std::error_code code;
    const fs::path in = fs::absolute(parent.empty() ? "." : parent);
    if (fs::create_directories(in, code)) made = in;
    if (code) return error::system(fmt::format("make {}", in.string()), code.value());
    TROUPE_TRY(inside, io::held_scratch::make(in, "troupe-bench-"));
    say_removed(inside);
    scratch.emplace(std::move(inside));
    return {};
  }
};

/// What one state of `bytes` needs: the store's four arrays, the ways' copies, the rings; files of
/// the newest checkpoint, two under way, and one that is being removed.
status fits(uint64_t bytes, uint64_t copies, const fs::path& dir) {
  const uint64_t memory = bytes * 4 / 3 + bytes * copies + 2 * spare_bytes;
  const uint64_t files = 4 * bytes + spare_bytes;
  const uint64_t have = available_bytes();
  if (have > 0 && memory > have)
    return error{errc::no_memory,
                 fmt::format("{:.4g} GiB of state need {:.1f} GiB of memory, and {:.1f} are free",
                             static_cast<double>(bytes) / gib, static_cast<double>(memory) / gib,
                             static_cast<double>(have) / gib),
                 "choose a smaller --gib"};
  std::error_code code;
  const auto space = fs::space(dir, code);
  if (code) return error::system(fmt::format("look at {}", dir.string()), code.value());
  if (files > space.available)
    return error{errc::io,
                 fmt::format("{:.4g} GiB of state need {:.1f} GiB of {}, and {:.1f} are free",
                             static_cast<double>(bytes) / gib, static_cast<double>(files) / gib,
                             dir.string(), static_cast<double>(space.available) / gib),
                 "choose a smaller --gib or another --dir"};
  return {};
}

/// One size of state, measured.
class session {
 public:
  session(const arguments& args, const fs::path& dir, const std::atomic<bool>& stop)
      : args_(args), dir_(dir), stop_(stop) {}

  result<size_report> run(uint64_t bytes);

 private:
  /// Of the iterations of one way in one round.
  struct laps {
    double wall_s = 0;
    double processor_s = 0;  ///< the first, uncounted iteration and the drain included
    sample blocked_s;
  };

  status prepare(uint64_t bytes);
  status time_ceiling();
  status one_round(int round);
  result<laps> iterate(way* by);
  status try_none();
  status try_way(way_row& row);
  status restore(way_row& row, const fs::path& folder);
  status with_ceilings(way_row& row);
  way_row* row_of(std::string_view id);

  const arguments& args_;
  const fs::path dir_;
  const std::atomic<bool>& stop_;
  worker_pool janitor_{1};
  size_report report_;
  std::unique_ptr<synthetic_trainer> trainer_;
  std::unique_ptr<raw_disk> raw_;
  laps without_;  ///< the round's iterations without checkpoints
  sample round_finished_, round_raw_, round_fio_;
};

way_row* session::row_of(std::string_view id) {
  for (auto& row : report_.rows)
    if (row.way.id == id) return &row;
  return nullptr;
}

status session::time_ceiling() {
  const auto name = dir_ / "ceiling";
  auto took = raw_->write(name, io::block_up(report_.bytes));
  TROUPE_CHECK(io::remove_from_scratch(dir_, "ceiling"));
  if (!took) return took.error();
  report_.ceiling_s.add(*took);
  round_raw_.add(*took);
  const auto fio = fio_write_s(name, io::block_up(report_.bytes), report_.disk.best);
  TROUPE_CHECK(io::remove_from_scratch(dir_, "ceiling"));
  if (fio) report_.fio_s.add(*fio);
  if (fio) round_fio_.add(*fio);
  return {};
}

status session::prepare(uint64_t bytes) {
  TROUPE_TRY(disk, io::calibrate(dir_, {}));
  report_.disk = std::move(disk);
  TROUPE_TRY(raw, raw_disk::open(report_.disk.best, stop_));
  raw_ = std::move(raw);
  const auto model = state_shape(bytes);
  TROUPE_TRY(trainer, synthetic_trainer::make(model, stop_));
  trainer_ = std::move(trainer);
  report_.bytes = trainer_->state_bytes();
  report_.parameters = model.parameters();
  report_.chunks = trainer_->store().chunk_count();
  report_.rounds = args_.rounds;
  report_.iterations = args_.iterations;
  report_.ring_bytes = args_.ring_mib << 20;
  sample updates;
  for (int i = 0; i < 3; ++i) {
    TROUPE_TRY(took, trainer_->time_update());
    updates.add(took);
  }
  report_.update_s = updates.median();
  TROUPE_CHECK(time_ceiling());
  report_.iteration_s = args_.iteration_ms / 1e3;
  if (args_.iteration_ms == 0)
    report_.iteration_s =
        std::max(report_.ceiling_s.median() / usual_pressure, 2 * report_.update_s);
  if (report_.iteration_s <= report_.update_s)
    return error{errc::usage,
                 fmt::format("the update of the state alone takes {:.1f} ms, as long as the whole "
                             "iteration",
                             report_.update_s * 1e3),
                 "give a longer --iteration-ms"};
  trainer_->set_pause(report_.iteration_s - report_.update_s);
  for (const auto& kind : args_.kinds) {
    if (!args_.wants(kind.id)) continue;
    const auto can = kind.possible ? kind.possible() : status{};
    if (can)
      report_.rows.emplace_back().way = kind;
    else
      report_.skipped.push_back({std::string(kind.id), can.error().message});
  }
  return {};
}

/// The iterations of one way; null for none.
result<session::laps> session::iterate(way* by) {
  laps out;
  const double before = processor_s();
  for (int i = 0; i <= args_.iterations; ++i) {
    double blocked = 0;
    const auto began = clock::now();
    TROUPE_CHECK(trainer_->forward_backward());
    const auto gate = clock::now();
    if (by) TROUPE_CHECK(by->before_update());
    blocked += seconds_since(gate);
    TROUPE_TRY(waited, trainer_->update());
    blocked += waited;
    const auto call = clock::now();
    if (by) TROUPE_CHECK(by->checkpoint(trainer_->step()));
    blocked += seconds_since(call);
    if (i == 0) continue;
    out.wall_s += seconds_since(began);
    out.blocked_s.add(blocked);
  }
  if (by) TROUPE_CHECK(by->drain());
  out.processor_s = processor_s() - before;
  return out;
}

status session::try_none() {
  TROUPE_TRY(done, iterate(nullptr));
  without_ = std::move(done);
  auto& row = *row_of("none");
  row.slowdown.add(1);
  row.blocked_s.add(0);
  row.cpu_s_per_gb.add(0);
  return {};
}

status session::try_way(way_row& row) {
  const bool peaks = forget_peak();
  const uint64_t before = resident_bytes();
  TROUPE_TRY(by, row.way.make({*trainer_, dir_, report_.ring_bytes, stop_, janitor_}));
  TROUPE_TRY(done, iterate(by.get()));
  const auto beside = by->elsewhere();
  const uint64_t highest = peak_bytes();
  if (peaks)
    row.peak_bytes.add(
        static_cast<double>(highest - std::min(before, highest) + beside.peak_bytes));
  row.blocked_s.add_all(done.blocked_s);
  row.slowdown.add(done.wall_s / without_.wall_s);
  const auto checkpoints = static_cast<double>(args_.iterations + 1);
  const double processor_s = done.processor_s - without_.processor_s + beside.processor_s;
  row.cpu_s_per_gb.add(std::max(0.0, processor_s) /
                       (checkpoints * static_cast<double>(report_.bytes) / 1e9));
  round_finished_ = {};
  for (size_t i = 1; i < by->finished_s().size(); ++i) round_finished_.add(by->finished_s()[i]);
  row.finished_s.add_all(round_finished_);
  const auto newest = by->newest();
  by.reset();
  TROUPE_CHECK(janitor_.wait());
  if (row.way.id == "ours") TROUPE_CHECK(restore(row, newest));
  return newest.empty() ? status{} : io::remove_from_scratch(dir_, newest.filename().string());
}

/// Back into a store that has moved on since, from a file that no cache holds.
status session::restore(way_row& row, const fs::path& folder) {
  const uint64_t step = trainer_->step();
  TROUPE_CHECK(trainer_->update());
  const auto shard = folder / cp::shard_name(0);
  const auto forget = [&]() -> status {
    TROUPE_TRY(fd, io::open_read(shard));
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    return {};
  };
  TROUPE_TRY(raw_before, raw_->read(shard));
  TROUPE_CHECK(forget());
  const auto began = clock::now();
  TROUPE_TRY(from, cp::reader::open(folder));
  TROUPE_CHECK(gpu::restore_state(trainer_->store(), from, gpu::restored::everything));
  const double took = seconds_since(began);
  TROUPE_CHECK(forget());
  TROUPE_TRY(raw_after, raw_->read(shard));
  report_.raw_read_s.add(raw_before);
  report_.raw_read_s.add(raw_after);
  row.restore_s.add(took);
  row.over_raw_read.add(2 * took / (raw_before + raw_after));
  report_.wrong_bytes += trainer_->restored_to(step);
  return {};
}

/// Ours between two measurements of the ceiling; the rest, by the ceilings so far of the round.
status session::with_ceilings(way_row& row) {
  const bool ours = row.way.id == "ours";
  if (ours) {
    round_raw_ = round_fio_ = {};
    TROUPE_CHECK(time_ceiling());
  }
  TROUPE_CHECK(try_way(row));
  if (ours) {
    TROUPE_CHECK(time_ceiling());
    const auto raw = round_raw_.all();
    if (raw.most > (1 + most_difference) * raw.least) ++report_.unsteady_rounds;
  }
  if (!row.way.durable) return {};
  row.over_ceiling.add(round_finished_.median() / round_raw_.median());
  if (!round_fio_.empty()) row.over_fio.add(round_finished_.median() / round_fio_.median());
  return {};
}

status session::one_round(int round) {
  TROUPE_CHECK(try_none());
  const size_t ways = report_.rows.size() - 1;  // the first is none
  for (size_t i = 0; i < ways; ++i) {
    auto& row = report_.rows[1 + (i + static_cast<size_t>(round)) % ways];
    TROUPE_CHECK(with_ceilings(row));
    say(fmt::format("{:.3g} GiB, round {} of {}: {}: blocked {:.1f} ms, slowdown {:.2f} so far",
                    static_cast<double>(report_.bytes) / gib, round + 1, args_.rounds, row.way.id,
                    row.blocked_s.median() * 1e3, row.slowdown.median()));
  }
  return {};
}

result<size_report> session::run(uint64_t bytes) {
  TROUPE_CHECK(fits(bytes, args_.copies(), dir_));
  say(fmt::format("{:.3g} GiB: making the state and measuring the disk",
                  static_cast<double>(bytes) / gib));
  TROUPE_CHECK(prepare(bytes));
  say(fmt::format("{:.3g} GiB: iterations of {:.0f} ms, raw write {:.2f} GB/s",
                  static_cast<double>(report_.bytes) / gib, report_.iteration_s * 1e3,
                  static_cast<double>(report_.bytes) / report_.ceiling_s.median() / 1e9));
  for (int round = 0; round < args_.rounds; ++round) TROUPE_CHECK(one_round(round));
  return std::move(report_);
}

/// The sizes asked for, or the largest usual one that fits.
result<std::vector<uint64_t>> sizes(const arguments& args, const fs::path& dir) {
  std::vector<uint64_t> out;
  for (double g : args.gib) out.push_back(static_cast<uint64_t>(g * gib));
  if (!out.empty()) return out;
  status why;
  for (double g : {1.0, 0.5, 0.25, 0.125}) {
    why = fits(static_cast<uint64_t>(g * gib), args.copies(), dir);
    if (why) return std::vector{static_cast<uint64_t>(g * gib)};
  }
  return why.error();
}

result<int> bench(const arguments& args) {
  TROUPE_TRY(interrupt, interrupt_watch::start());  // before any other thread
  bench_folder folder;
  TROUPE_CHECK(folder.make(args.dir));
  const auto& dir = folder.scratch->path();
  TROUPE_TRY(wanted, sizes(args, dir));
  nlohmann::ordered_json all{{"bench", "checkpoint"}, {"sizes", nlohmann::ordered_json::array()}};
  std::string told;
  for (const auto bytes : wanted) {
    TROUPE_TRY(report, session(args, dir, interrupt->asked()).run(bytes));
    all["sizes"].push_back(json(report));
    told += (told.empty() ? "" : "\n") + text(report);
  }
  TROUPE_CHECK(print(args.json ? all.dump() + "\n" : told));
  return 0;
}

}  // namespace
}  // namespace ckpt_bench

void add_bench_checkpoint(shell& sh, command* bench, std::span<const ckpt_bench::way_kind> rivals) {
  auto* verb = bench->add_subcommand(
      "checkpoint", "What a checkpoint in every iteration costs, against what the disk can do");
  auto args = std::make_shared<ckpt_bench::arguments>();
  const auto own = ckpt_bench::own_ways();
  args->kinds.assign(own.begin(), own.end());
  args->kinds.insert(args->kinds.end(), rivals.begin(), rivals.end());
  verb->add_option("--gib", args->gib,
                   "GiB of state, one or several, e.g. 1,2,4; without it 1, or less where memory "
                   "or disk have no room")
      ->delimiter(',')
      ->within(0.001, 1024.0);
  verb->add_option("--iteration-ms", args->iteration_ms,
                   "Time of an iteration without checkpoints; 0: such that writing the state takes "
                   "0.4 of it")
      ->within(0.0, 3.6e6)
      ->capture_default_str();
  verb->add_option("--iterations", args->iterations, "Counted iterations of a way in a round")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--rounds", args->rounds, "Interleaved rounds")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--ring-mib", args->ring_mib, "The ring that the state is copied into, MiB")
      ->within(8, 1 << 20)
      ->capture_default_str();
  std::vector<std::string> known;
  for (const auto& kind : args->kinds) known.emplace_back(kind.id);
  if (!rivals.empty())
    verb->add_option("--ways", args->ways, "Only these, e.g. sync,ours")
        ->delimiter(',')
        ->one_of(known);
  verb->add_option("--dir", args->dir,
                   "Where a temporary folder for the checkpoints is made, removed at the end; "
                   "without it the current folder");
  verb->add_flag("--json", args->json, "As one JSON object");
  on_run(sh, verb, [args] { return ckpt_bench::bench(*args); });
}

}  // namespace troupe::apps

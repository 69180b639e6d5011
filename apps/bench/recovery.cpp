// `troupe bench recovery`: how long a job is away that loses a node, by what is done to the node
// and by what the job has against it.
//
// Rounds are interleaved: each does every fault in every way, at the same step, which differs from
// round to round, or later, once what the way has against it is there.
#include <csignal>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/bench/leftovers.hpp"
#include "apps/bench/recovery_round.hpp"
#include "apps/bench/spread.hpp"
#include "io/base/counted.hpp"

namespace troupe::apps {

namespace recovery_bench {
namespace {

namespace fs = std::filesystem;

constexpr int first_step = 7;  ///< after which a fault may come
constexpr int all_steps = 120;  ///< enough for a spare to join before the last

struct arguments {
  int rounds = 5;
  int every_steps = 5;
  std::vector<way> known;                 ///< that there are
  std::vector<std::string> faults, ways;  ///< ids of them; empty: all
  std::vector<std::string> sets;
  std::string dir;
  bool json = false;
};

bool wanted(const std::vector<std::string>& ids, std::string_view id) {
  return ids.empty() || std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// A fault in a way, over all rounds.
struct cell {
  const fault* what;
  way by;
  std::vector<outcome> rounds;

  std::vector<double> all(double outcome::*which) const {
    std::vector<double> out;
    for (const auto& r : rounds) out.push_back(r.*which);
    return out;
  }
  int count(bool outcome::*which) const {
    return static_cast<int>(
        std::count_if(rounds.begin(), rounds.end(), [&](const auto& r) { return r.*which; }));
  }
  std::vector<double> repeated() const {
    std::vector<double> out;
    for (const auto& r : rounds) out.push_back(r.repeated_steps);
    return out;
  }
};

std::string shown(const spread& s) {
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", s.median, s.least, s.most);
}

std::string text(const std::vector<cell>& cells, const arguments& args) {
  std::string out = fmt::format("{:<6} {:<12} {:>18} {:>18} {:>6} {:>20} {:>15} {:>6}\n", "fault",
                                "way", "noticed s", "named s", "right", "back s", "steps again",
                                "bits");
  for (const auto& c : cells) {
    const auto again = spread_of(c.repeated());
    out += fmt::format("{:<6} {:<12} {:>18} {:>18} {:>6} {:>20} {:>15} {:>6}\n", c.what->id,
                       c.by.id, shown(spread_of(c.all(&outcome::noticed_s))),
                       shown(spread_of(c.all(&outcome::named_s))),
                       fmt::format("{}/{}", c.count(&outcome::right), c.rounds.size()),
                       shown(spread_of(c.all(&outcome::back_s))),
                       fmt::format("{:.0f} ({:.0f}-{:.0f})", again.median, again.least, again.most),
                       fmt::format("{}/{}", c.count(&outcome::same_bits), c.rounds.size()));
  }
  out += "\nmedian (least-most); back: the first step that had not been made before; bits: rounds "
         "whose losses equal\nthose of an undisturbed run\n";
  for (const auto& f : faults)
    if (wanted(args.faults, f.id)) out += fmt::format("  {:<12} {}\n", f.id, f.about);
  for (const auto& w : args.known)
    if (wanted(args.ways, w.id)) out += fmt::format("  {:<12} {}\n", w.id, w.about);
  return out;
}

nlohmann::ordered_json json(const std::vector<cell>& cells, const arguments& args) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& c : cells)
    rows.push_back({{"fault", c.what->id},
                    {"way", c.by.id},
                    {"rounds", c.rounds.size()},
                    {"noticed_s", json_of(spread_of(c.all(&outcome::noticed_s)))},
                    {"named_s", json_of(spread_of(c.all(&outcome::named_s)))},
                    {"right", c.count(&outcome::right)},
                    {"back_s", json_of(spread_of(c.all(&outcome::back_s)))},
                    {"repeated_steps", json_of(spread_of(c.repeated()))},
                    {"same_bits", c.count(&outcome::same_bits)}});
  return {{"bench", "recovery"}, {"checkpoint_every_steps", args.every_steps}, {"rows", rows}};
}

std::vector<cell> cells_of(const arguments& args) {
  std::vector<cell> out;
  for (const auto& f : faults)
    for (const auto& w : args.known)
      if (wanted(args.faults, f.id) && wanted(args.ways, w.id)) {
        if (const auto can = can_be_made(f, w); !can)
          say(fmt::format("{} of {} is left out: {}", f.id, w.id, can.error().message));
        else
          out.push_back({&f, w, {}});
      }
  return out;
}

result<std::vector<cell>> measure(const arguments& args, const bench_job& job) {
  TROUPE_CHECK(write_job(job));
  auto cells = cells_of(args);
  std::erase_if(cells, [](const cell& c) {
    const auto here = c.by.by.is_here();
    if (!here) say(fmt::format("{} is left out: {}", c.by.id, here.error().message));
    return !here;
  });
  std::map<std::string_view, losses> truths;  // by who trains
  for (const auto& c : cells) {
    auto& truth = truths[c.by.by.id];
    if (!truth.empty()) continue;
    say(fmt::format("{}: {} that nobody disturbs", c.by.id, counted(job.steps, "step")));
    TROUPE_TRY(made, train_undisturbed(job, c.by.by));
    truth = std::move(made);
  }
  for (int round = 0; round < args.rounds; ++round) {
    const int step = first_step + round % (args.every_steps + 1);
    for (auto& c : cells) {
      TROUPE_TRY(found, disturb(job, c.by, *c.what, step, truths[c.by.by.id]));
      c.rounds.push_back(found);
      say(fmt::format("round {} of {}: {} after step {}, {}: back after {:.2f} s, {} again",
                      round + 1, args.rounds, c.what->id, step, c.by.id, found.back_s,
                      counted(found.repeated_steps, "step")));
    }
  }
  return cells;
}

result<int> bench(const arguments& args) {
  TROUPE_TRY(interrupt, interrupt_watch::start());  // before any other thread
  const fs::path parent = args.dir.empty() ? fs::temp_directory_path() : fs::absolute(args.dir);
  TROUPE_TRY(folder, io::held_scratch::make(parent, "troupe-recovery-"));
  say_removed(folder);
  TROUPE_TRY(cells, measure(args, {folder.path(), args.sets, args.every_steps, all_steps,
                                   &interrupt->asked()}));
  TROUPE_CHECK(print(args.json ? json(cells, args).dump() + "\n" : text(cells, args)));
  const bool all_right = std::all_of(cells.begin(), cells.end(), [](const cell& c) {
    return c.count(&outcome::same_bits) == static_cast<int>(c.rounds.size());
  });
  return all_right ? 0 : 1;
}

}  // namespace
}  // namespace recovery_bench

void add_bench_recovery(shell& sh, command* bench, std::span<const recovery_bench::way> rivals) {
  using namespace recovery_bench;
  auto* verb = bench->add_subcommand("recovery", "How long a job is away that loses a node");
  auto args = std::make_shared<arguments>();
  args->known = own_ways();
  args->known.insert(args->known.end(), rivals.begin(), rivals.end());
  verb->add_option("--rounds", args->rounds, "Interleaved rounds")
      ->within(1, 1000)
      ->capture_default_str();
  std::vector<std::string> known;
  for (const auto& f : faults) known.emplace_back(f.id);
  verb->add_option("--fault", args->faults, "Only these, e.g. kill")->delimiter(',')->one_of(known);
  known.clear();
  for (const auto& w : args->known) known.emplace_back(w.id);
  verb->add_option("--ways", args->ways, "Only these, e.g. restart")->delimiter(',')->one_of(known);
  verb->add_option("--every", args->every_steps, "Steps from one checkpoint on disk to the next")
      ->within(1, 1000)
      ->capture_default_str();
  verb->add_option("--set", args->sets, "A setting of the job, KEY=VALUE; may be given often");
  verb->add_option("--dir", args->dir,
                   "Where a temporary folder for the job is made, removed at the end; without it "
                   "the system's");
  verb->add_flag("--json", args->json, "As one JSON object");
  on_run(sh, verb, [args] { return recovery_bench::bench(*args); });
}

}  // namespace troupe::apps

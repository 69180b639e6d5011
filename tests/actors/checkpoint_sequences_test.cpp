// Random sequences of what happens to folders of checkpoints: starts from the newest, from a named
// one and from nothing, kills, a second tier that is there or not, damage, another job, holds,
// readers. The code is the one that runs (starts, commits, copies, retention, on real files); a
// model beside it knows what descends from what, and judges after each event:
//
//   what was acknowledged is there, whole, under its name or set aside, unless somebody damaged
//   it, or as many newer ones of its own line as the rules want are there and whole;
//   a start goes on with what the last one left, or with the newest whole one before that.
//
// TROUPE_SEQUENCES=10000 makes more of them (200 else), from seed TROUPE_SEQUENCE_SEED on (1).
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/checkpoint/owner.hpp"
#include "actors/job/catalog.hpp"
#include "actors/sim/rng.hpp"
#include "io/checkpoint/copy.hpp"
#include "io/checkpoint/folder_claim.hpp"
#include "io/checkpoint/retention.hpp"
#include "io/config/load.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
namespace cp = troupe::io::checkpoint;
namespace fs = std::filesystem;

namespace {

constexpr int tiers = 2;

config::job job_called(const std::string& name, const std::string& data, int hidden) {
  auto job = config::parse(
      fmt::format("[job]\nname = \"{}\"\n[model]\nlayers = 2\nhidden = {}\nheads = 2\nvocab = 256\n"
                  "[data]\npath = \"{}\"\n[train]\nbatch = 8\n",
                  name, hidden, data),
      "test");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  return *job;
}

/// A checkpoint that was acknowledged, as the model knows it.
struct acknowledged {
  uint64_t step = 0;
  double loss = 0;
  int parent = -1;  ///< what was trained on to it
  int of_job = 0;
  struct copy {
    bool made = false;
    bool spoiled = false;  ///< damaged, or taken away by a person
    bool given_up = false;
    bool held = false;
  };
  copy in[tiers];
};

/// One sequence, in a folder of its own.
class checkpoint_sequence {
 public:
  explicit checkpoint_sequence(uint64_t seed) : random_(seed) {
    jobs_.push_back(job_called("a", "text", 8));
    jobs_.push_back(job_called("b", "text", 8));
    jobs_.push_back(job_called("a", "other", 8));
    jobs_.push_back(job_called("a", "text", 16));
    for (const auto& job : jobs_) toml_.push_back(config::to_toml(job));
  }

  void run() {
    const auto events = random_.between(4, 9);
    for (int64_t n = 0; n < events; ++n) {
      switch (random_.below(8)) {
        case 0:
          spoil();
          break;
        case 1:
          hold_or_release();
          break;
        case 2:
          ask_for_another_job();
          break;
        default:
          launch();
      }
      judge();
    }
  }

  const std::string& logged_actor() const { return story_; }

 private:
  fs::path dir(int tier) const { return where_ / (tier == 0 ? "first" : "second"); }

  void tell(const std::string& what) { story_ += what + "; "; }

  // -- the model ----------------------------------------------------------------------------------

  bool descends(int id, int from) const {
    for (; id >= 0; id = all_[static_cast<size_t>(id)].parent)
      if (id == from) return true;
    return false;
  }

  bool whole(int id, int tier) const {
    const auto& c = all_[static_cast<size_t>(id)].in[tier];
    return c.made && !c.spoiled && !c.given_up;
  }

  /// Whether the rules of its tier let a copy go.
  bool may_go(int id, int tier) const {
    const auto& own = all_[static_cast<size_t>(id)];
    const auto& rules = rules_[tier];
    if (rules.empty() || own.in[tier].held || read_ == std::pair(id, tier)) return false;
    if (rules.keep_every > 0 && own.step % rules.keep_every == 0) return false;
    uint64_t newer = 0, better = 0;
    for (int other = 0; other < static_cast<int>(all_.size()); ++other) {
      if (other == id || !descends(head_, other) || !whole(other, tier)) continue;
      const auto& o = all_[static_cast<size_t>(other)];
      newer += descends(other, id) ? 1 : 0;
      better += o.loss <= own.loss ? 1 : 0;
    }
    return newer >= std::max<uint64_t>(1, rules.keep_last) && better >= rules.keep_best;
  }

  /// What `auto` may take of the tiers that are there: what lies under its own name, and nowhere
  /// aside.
  std::set<int> takeable(bool second) const {
    std::set<int> named, aside;
    for (int tier = 0; tier < (second ? 2 : 1); ++tier)
      for (const auto& [id, path] : found_in(tier)) {
        const auto name = cp::parse_folder_name(path.filename().string());
        if (name->state == cp::folder_state::aside)
          aside.insert(id);
        else if (whole(id, tier))
          named.insert(id);
      }
    for (const int id : aside) named.erase(id);
    return named;
  }

  /// What a start must go on with: the newest whole one on the way back from where the last left.
  int expected(bool second) const {
    const auto some = takeable(second);
    for (int id = head_; id >= 0; id = all_[static_cast<size_t>(id)].parent)
      if (some.contains(id)) return id;
    return -1;
  }

  std::optional<int> known(const cp::catalog_entry& e) const {
    if (!e.head) return std::nullopt;
    const auto found = ids_.find({cp::line_of(*e.head).back().launch, e.head->step});
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  // -- judging ------------------------------------------------------------------------------------

  /// Where each copy lies now, by id.
  std::map<int, fs::path> found_in(int tier) const {
    std::map<int, fs::path> out;
    const auto entries = cp::list(dir(tier));
    REQUIRE(entries);
    for (const auto& e : *entries)
      if (const auto id = known(e); id && e.name.state != cp::folder_state::deleting)
        out[*id] = e.path;
    return out;
  }

  void judge() {
    for (int tier = 0; tier < tiers; ++tier) {
      const auto found = found_in(tier);
      // The newest first: what has gone must have been allowed to by those that are there.
      for (int id = static_cast<int>(all_.size()); id-- > 0;) {
        if (!whole(id, tier)) continue;
        const auto at = found.find(id);
        if (at == found.end()) {
          INFO(story_, "step ", all_[static_cast<size_t>(id)].step, " of tier ", tier, " is gone");
          CHECK(may_go(id, tier));
          all_[static_cast<size_t>(id)].in[tier].given_up = true;
          continue;
        }
        const auto sound = cp::verify_all(at->second);
        INFO(story_, at->second.string());
        CHECK(sound);
      }
    }
  }

  // -- events -------------------------------------------------------------------------------------

  struct victim {
    int id, tier;
    fs::path path;
  };
  std::optional<victim> draw_copy() {
    std::vector<victim> some;
    for (int tier = 0; tier < tiers; ++tier)
      for (const auto& [id, path] : found_in(tier))
        if (whole(id, tier)) some.push_back({id, tier, path});
    if (some.empty()) return std::nullopt;
    return some[random_.below(some.size())];
  }

  void spoil() {
    const auto v = draw_copy();
    if (!v) return;
    auto& c = all_[static_cast<size_t>(v->id)].in[v->tier];
    if (c.held) return;
    c.spoiled = true;
    if (blind_) settled_ = false;  // it may have been what told of the past that was left
    tell(fmt::format("spoil {}", v->path.string()));
    static constexpr const char* files[] = {"rank-00000.shard", "MANIFEST", "train_state.json"};
    const auto file = v->path / files[random_.below(3)];
    switch (random_.below(4)) {
      case 0:
        fs::remove_all(v->path);
        return;
      case 1:
        fs::remove(file);
        return;
      case 2:
        fs::resize_file(file, fs::file_size(file) / 2);
        return;
      default:
        auto bytes = cp::sample::bytes_of(file);
        cp::sample::flip(bytes[random_.below(bytes.size())], 2);
        cp::sample::write_bytes(file, bytes);
    }
  }

  void hold_or_release() {
    const auto v = draw_copy();
    if (!v) return;
    auto& c = all_[static_cast<size_t>(v->id)].in[v->tier];
    tell(fmt::format("{} {}", c.held ? "release" : "hold", v->path.string()));
    const auto done = c.held ? cp::release_hold(v->path, "test")
                             : cp::add_hold(v->path, {"test", "a clean check"});
    REQUIRE(done);
    c.held = !c.held;
  }

  /// OWR-1.
  void ask_for_another_job() {
    const auto entries = cp::list(dir(0));
    REQUIRE(entries);
    const auto* tip = cp::tip_of(*entries);
    if (!tip || !cp::verify_all(tip->path)) return;
    const auto other = (owner_ + 1 + random_.below(jobs_.size() - 1)) % jobs_.size();
    auto job = jobs_[other];
    job.checkpoint.dir = dir(0).string();
    INFO(story_, "job ", other, " in the folder of job ", owner_);
    CHECK_FALSE(checkpoint::check_owner(job));
    job.checkpoint.adopt = true;
    CHECK(checkpoint::check_owner(job));
    auto same = jobs_[owner_];
    same.checkpoint.dir = job.checkpoint.dir;
    CHECK(checkpoint::check_owner(same));
  }

  std::string where_to_start() {
    if (random_.chance(0.15)) return "never";
    if (const auto v = draw_copy(); v && random_.chance(0.3)) return v->path.string();
    return "auto";
  }

  /// A start, as `up` makes it: what goes on from where; -2 where it is refused.
  int begin(const std::string& resume, bool second, cp::origin& origin) {
    std::vector<cp::catalog_entry> all;
    for (int tier = 0; tier < (second ? 2 : 1); ++tier) {
      const auto entries = cp::list(dir(tier));
      REQUIRE(entries);
      all.insert(all.end(), entries->begin(), entries->end());
      REQUIRE(checkpoint::remove_leftovers(io::local_files(), dir(tier)));
    }
    epoch_ = cp::next_epoch(all);
    const auto from = checkpoint::resume_from(resume, dir(0), second ? dir(1) : fs::path{});
    if (!from) {
      CHECK(resume == "auto");
      if (settled_) CHECK(expected(second) == -1);
      return -2;
    }
    int id = -1;
    if (from->from) id = ids_.at({from->from->line.back().launch, from->from->step});
    if (resume == "auto" && settled_) CHECK(id == expected(second));
    if (id >= 0) CHECK(cp::verify_all(from->from->path));
    origin = checkpoint::origin_of(from->from, ++launches_);
    const auto before = takeable(second);
    for (int tier = 0; tier < (second ? 2 : 1); ++tier)
      REQUIRE(checkpoint::set_aside(io::local_files(), dir(tier), origin));
    const auto after = takeable(second);  // CAT-3: what leads here, all of it, and nothing else
    for (const int kept : after) CHECK(descends(id, kept));
    for (const int was : before) CHECK(after.contains(was) == descends(id, was));
    // What a tier that was not there holds of the past that was left is not known to be left until
    // the new one says so.
    blind_ = !second && fs::exists(dir(1));
    settled_ = !blind_;
    head_ = id;
    return id;
  }

  void launch() {
    const bool second = random_.chance(0.6);
    const auto resume = where_to_start();
    for (auto& r : rules_)
      r = {random_.below(4), random_.chance(0.3) ? 3u : 0u, random_.below(2), 3600};
    tell(fmt::format("launch from {}{}, keep {} {} {}", resume, second ? "" : " without second",
                     rules_[0].keep_last, rules_[0].keep_every, rules_[0].keep_best));
    read_.reset();
    cp::origin origin;
    INFO(story_);
    const int from = begin(resume, second, origin);
    if (from == -2) return;
    std::optional<result<cp::reading>> reader;
    if (const auto v = draw_copy(); v && random_.chance(0.2)) {
      reader.emplace(cp::reading::begin(v->path));
      REQUIRE(*reader);
      read_ = std::pair(v->id, v->tier);
      tell("read " + v->path.string());
    }
    cp::caretaker keepers[tiers] = {cp::caretaker(origin), cp::caretaker(origin)};
    uint64_t step = from >= 0 ? all_[static_cast<size_t>(from)].step : 0;
    for (int64_t saves = random_.between(0, 4); saves > 0; --saves) {
      step += 1 + random_.below(2);
      if (random_.chance(0.08)) return die_while_saving(step);
      save(origin, step);
      if (random_.chance(0.05)) return tell("killed before retention");
      check_kept(keepers[0].retain(dir(0), rules_[0]));
      if (second && random_.chance(0.7)) copy(head_, keepers[1]);
      judge();
    }
    tell("ends");
    read_.reset();
  }

  /// Retention may have to leave what somebody reads, and says so once it has met it repeatedly.
  void check_kept(const status& kept) {
    REQUIRE((kept || (read_ && kept.error().code == errc::unavailable)));
  }

  void die_while_saving(uint64_t step) {
    tell("killed while saving");
    for (int tier = 0; tier < tiers; ++tier) {
      const auto left = dir(tier) / cp::partial_name(step, epoch_);
      fs::create_directories(left);
      std::ofstream(left / io::mark_file) << cp::partial_mark("a", {});
      std::ofstream(left / "rank-00000.shard") << "half";
    }
  }

  void save(const cp::origin& origin, uint64_t step) {
    static const std::vector<cp::plan_stage> model{
        {cp::sample::chunk("layer.0", {{"h.0.weight", {6, 5}, false, 0}})}};
    const double loss = 2 + random_.unit();
    cp::write_options o;
    o.dir = dir(0);
    o.head = {jobs_[owner_].job.name, step, epoch_, {}, 4096, step, loss, loss, 7, origin.at(step)};
    auto state = checkpoint::format_state({step, step, loss, toml_[owner_]});
    const std::vector<cp::small_file> files{{"config.json", "{}"},
                                            {std::string(checkpoint::state_file), state}};
    const auto made = cp::write_checkpoint(o, model, cp::sample::source(launches_), files);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    acknowledged a;
    a.step = step;
    a.loss = loss;
    a.parent = head_;
    a.in[0].made = true;
    head_ = static_cast<int>(all_.size());
    ids_[{origin.launch, step}] = head_;
    all_.push_back(a);
    // A person may have taken the newest launch away, and its number is given out again.
    settled_ = settled_ || epoch_ > newest_epoch_;
    newest_epoch_ = std::max(newest_epoch_, epoch_);
    tell(fmt::format("save {}", step));
  }

  /// As the replicator does it.
  void copy(int id, cp::caretaker& keeper) {
    fs::create_directories(dir(1));
    auto disk = io::open_disk({io::disk_backend::threads, 2, 2, {}});
    REQUIRE(disk);
    const auto from = dir(0) / cp::complete_name(all_[static_cast<size_t>(id)].step);
    auto copier = cp::copier::begin(
        **disk, cp::folder_source(io::local_files(), from, io::pages::drop), dir(1));
    REQUIRE(copier);
    while (!(*copier)->finished()) REQUIRE((*copier)->advance());
    all_[static_cast<size_t>(id)].in[1].made = true;
    check_kept(keeper.retain(dir(1), rules_[1]));
    tell("copy");
  }

  scratch where_;
  sim::rng random_;
  std::vector<config::job> jobs_;
  std::vector<std::string> toml_;
  size_t owner_ = 0;
  std::vector<acknowledged> all_;
  std::map<std::pair<uint64_t, uint64_t>, int> ids_;  ///< by launch and step
  cp::retention rules_[tiers];
  std::optional<std::pair<int, int>> read_;  ///< id and tier of what is being read
  uint64_t launches_ = 0, epoch_ = 0, newest_epoch_ = 0;
  int head_ = -1;  ///< what was acknowledged, or begun from, last
  bool settled_ = true;  ///< what `auto` must take is known
  bool blind_ = false;   ///< the latest start did not see the second tier
  std::string story_;
};

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("sequences: what was acknowledged and not superseded in its own line is there") {
  const auto count = number_from("TROUPE_SEQUENCES", 200);
  const auto first = number_from("TROUPE_SEQUENCE_SEED", 1);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    checkpoint_sequence s(seed);
    s.run();
  }
  MESSAGE(count << " sequences from seed " << first);
}

// Rules over a catalog, and removal in an order that a crash cannot hurt.
#include "io/checkpoint/retention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "io/checkpoint/folder_claim.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/reader.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t told_at = 3;  ///< so often a checkpoint is left because somebody reads it

/// The checkpoints that rules count, and which of them are sound: asked once each (RT-5).
class countable {
 public:
  countable(std::span<const catalog_entry> catalog, const standing& now)
      : catalog_(catalog), now_(now), sound_(catalog.size()) {
    for (size_t i = 0; i < catalog.size(); ++i)
      if (catalog[i].name.state == folder_state::complete && catalog[i].head &&
          leads_to(line_of(*catalog[i].head), now.line))  // RT-4
        newest_.push_back(i);
    std::stable_sort(newest_.begin(), newest_.end(), [&](size_t a, size_t b) {
      return catalog[a].age_key() > catalog[b].age_key();
    });
  }

  const std::vector<size_t>& newest_first() const { return newest_; }

  /// Those with a finite validation loss, best first; of equals the newer.
  std::vector<size_t> best_first() const {
    auto out = newest_;
    std::erase_if(out, [&](size_t i) {
      const auto& loss = catalog_[i].head->validation_loss;
      return !loss || !std::isfinite(*loss);
    });
    std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) {
      return *catalog_[a].head->validation_loss < *catalog_[b].head->validation_loss;
    });
    return out;
  }

  bool is_sound(size_t i) {
    if (!sound_[i]) sound_[i] = now_.sound(catalog_[i]);
    return *sound_[i];
  }

 private:
  std::span<const catalog_entry> catalog_;
  const standing& now_;
  std::vector<size_t> newest_;
  std::vector<std::optional<bool>> sound_;
};

void add(std::string& reasons, std::string_view reason) {
  if (!reasons.empty()) reasons += ", ";
  reasons += reason;
}

}  // namespace

std::vector<std::string> kept_because(std::span<const catalog_entry> catalog,
                                      const retention& rules, const standing& now) {
  std::vector<std::string> why(catalog.size());
  countable all(catalog, now);
  /// Names the first `count` sound ones, and spares those between them that are not known to be.
  const auto keep_first = [&](const std::vector<size_t>& order, uint64_t count, auto&& reason) {
    uint64_t found = 0;
    for (const auto i : order) {
      if (found == count) return;
      if (all.is_sound(i))
        add(why[i], reason(++found));
      else
        add(why[i], "not known to be whole");  // RT-5
    }
  };
  keep_first(all.newest_first(), 1, [](uint64_t) { return std::string("newest"); });  // RT-1
  keep_first(all.newest_first(), rules.keep_last,
             [&](uint64_t) { return fmt::format("of the last {}", rules.keep_last); });
  keep_first(all.best_first(), rules.keep_best,
             [](uint64_t n) { return fmt::format("best {} by validation loss", n); });
  for (const auto i : all.newest_first()) {
    if (rules.empty()) add(why[i], "all are kept");
    if (rules.keep_every > 0 && catalog[i].name.step % rules.keep_every == 0)
      add(why[i], fmt::format("every {}", rules.keep_every));
  }
  for (size_t i = 0; i < catalog.size(); ++i) {
    const auto& e = catalog[i];
    for (const auto& h : e.holds) add(why[i], fmt::format("held by {}", h.by));
    if (e.name.state == folder_state::aside && !rules.aside) add(why[i], "set aside");
    if (e.name.state != folder_state::complete) continue;
    if (!e.head) add(why[i], "not readable");                                             // RT-2
    if (e.head && !leads_to(line_of(*e.head), now.line)) add(why[i], "of another line");  // RT-4
  }
  return why;
}

std::vector<doomed> plan_removal(std::span<const catalog_entry> catalog, const retention& rules,
                                 const standing& now, int64_t now_s,
                                 std::span<const std::string> in_use) {
  const auto why = kept_because(catalog, rules, now);
  std::vector<doomed> out;
  for (size_t i = catalog.size(); i-- > 0;) {
    const auto& e = catalog[i];
    const auto name = e.path.filename().string();
    if (std::find(in_use.begin(), in_use.end(), name) != in_use.end()) continue;
    const doomed found{e.path, e.name, e.bytes, {}};
    switch (e.name.state) {
      case folder_state::complete:
        if (why[i].empty()) out.push_back(found), out.back().why = "no rule keeps it";
        break;
      case folder_state::aside:
        if (why[i].empty()) out.push_back(found), out.back().why = "it was set aside";
        break;
      case folder_state::deleting:
        out.push_back(found), out.back().why = "its removal was interrupted";
        break;
      case folder_state::partial:
        if (!e.holds.empty() || now_s - e.changed_s < rules.partial_age_s) break;
        out.push_back(found), out.back().why = "its save was interrupted";
        break;
    }
  }
  return out;
}

status check_removal(file_system& files, const doomed& what) {
  return files.check_removal(what.path, claim_of(files, what.path));
}

status remove(file_system& files, const doomed& what) {
  TROUPE_TRY(nobody_reads, exclude_readers(files, what.path));
  const auto parent = what.path.parent_path();
  const auto ours = claim_of(files, what.path);
  const auto whole = files.check_removal(what.path, ours);  // before its name goes
  if (!whole) return whole.error().code == errc::not_found ? status{} : whole;  // gone already
  auto gone = what.path;
  if (what.name.state == folder_state::complete || what.name.state == folder_state::aside) {
    gone = parent / deleting_name(what.name.step);
    const auto before = files.remove_folder(gone, claim_of(files, gone));
    if (!before && before.error().code != errc::not_found) return before;
    TROUPE_CHECK(files.rename(what.path, gone));
    TROUPE_CHECK(files.sync_dir(parent));
  }
  // Nobody begins to read it by this name any more; and what is open keeps a name in its folder
  // on NFS, which then cannot be removed.
  nobody_reads.reset();
  TROUPE_CHECK(files.remove_folder(gone, ours));
  return files.sync_dir(parent);
}

status give_up(file_system& files, const fs::path& checkpoint) {
  if (const auto held = holds_of(files, checkpoint); !held.empty())
    return not_given_up(checkpoint.string(), fmt::format("{} holds it", held.front().by));
  const auto name = parse_folder_name(checkpoint.filename().string());
  if (!name) return not_given_up(checkpoint.string(), "it is not called as a checkpoint is");
  const auto gone = remove(files, {checkpoint, *name, 0, "its files are the state of a run"});
  if (!gone && gone.error().code == errc::unavailable)
    return not_given_up_yet(checkpoint.string(), gone.error().message);
  return gone;
}

bool caretaker::is_own(const catalog_entry& e) const {
  return e.head && line_of(*e.head).back().launch == own_.launch;
}

bool caretaker::is_origin(const fs::path& path) const {
  return !own_.checkpoint.empty() && fs::absolute(path).lexically_normal() == own_.checkpoint;
}

bool caretaker::is_where_it_began(std::span<const catalog_entry> all, const fs::path& path) const {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const catalog_entry& e) { return e.path == path; });
  return is_origin(path) || (!own_.from.empty() && at != all.end() && at->head &&
                             line_of(*at->head).back() == own_.from.back());
}

status caretaker::read_back(std::span<const catalog_entry> all) {
  if (proven_) return {};
  const auto newest = std::find_if(all.begin(), all.end(), [&](const catalog_entry& e) {
    return e.name.state == folder_state::complete && is_own(e);
  });
  if (newest == all.end()) return error{errc::not_found, "nothing was saved yet"};
  TROUPE_CHECK(verify_all(*files_, newest->path));
  proven_ = true;
  return {};
}

status caretaker::retain(const fs::path& dir, const retention& rules,
                         std::span<const std::string> in_use) {
  if (rules.empty()) return {};
  auto complete_only = rules;
  complete_only.partial_age_s = std::numeric_limits<int64_t>::max();
  const standing now{own_.at(std::numeric_limits<uint64_t>::max()), [&](const catalog_entry& e) {
                       return (is_own(e) || is_origin(e.path)) && reader::open(*files_, e.path);
                     }};
  TROUPE_TRY(all, list(*files_, dir));
  status kept;
  for (const auto& old : plan_removal(all, complete_only, now, 0, in_use)) {
    if (is_where_it_began(all, old.path))
      if (auto good = read_back(all); !good) {  // RT-6
        kept = good.error().within(fmt::format("{} is kept", old.path.string()));
        continue;
      }
    // The others go all the same; what is being read goes another time.
    const auto gone = remove(*files_, old);
    if (gone) continue;
    if (gone.error().code == errc::unavailable && ++in_the_way_[old.path] != told_at) continue;
    const bool stays =
        gone.error().code == errc::permission || gone.error().code == errc::unavailable;
    if (!stays) return gone.error();
    kept = gone;  // it holds what is not ours, or somebody does not let go of it
  }
  return kept;
}

}  // namespace troupe::io::checkpoint

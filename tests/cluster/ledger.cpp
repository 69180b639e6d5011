// The account is kept by launch and step, as the last mark of each manifest's line has them.
#include "tests/cluster/ledger.hpp"

#include <algorithm>

#include "io/checkpoint/catalog.hpp"

namespace troupe::cluster_test {

namespace cp = io::checkpoint;

bool ledger::descends(int id, int from) const {
  for (; id >= 0; id = all_[static_cast<size_t>(id)].parent)
    if (id == from) return true;
  return false;
}

cp::lineage ledger::line_of(int id) const {
  cp::lineage out;
  for (; id >= 0; id = all_[static_cast<size_t>(id)].parent) {
    const auto& one = all_[static_cast<size_t>(id)];
    if (out.empty() || out.back().launch != one.launch)
      out.push_back({one.launch, static_cast<uint64_t>(one.step)});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

bool ledger::is_takeable(int id, std::optional<size_t> without) const {
  bool named = false;
  for (size_t tier = 0; tier < tiers_.size(); ++tier) {
    if (tier == without || !at(id, tier).there) continue;
    if (at(id, tier).aside) return false;
    named = named || is_whole(id, tier);
  }
  return named;
}

int ledger::expected(std::optional<size_t> without) const {
  int id = head_;
  while (id >= 0 && !is_takeable(id, without)) id = all_[static_cast<size_t>(id)].parent;
  return id;
}

std::vector<ledger::copy> ledger::whole() const {
  std::vector<copy> out;
  for (int id = 0; id < static_cast<int>(all_.size()); ++id)
    for (size_t tier = 0; tier < tiers_.size(); ++tier)
      if (is_whole(id, tier)) out.push_back({id, tier, at(id, tier).path, at(id, tier).aside});
  return out;
}

void ledger::emptied(size_t tier) {
  for (auto& one : all_) one.in[tier] = {};
}

void ledger::begin(int from) {
  origin_ = from;
  launch_.reset();
  before_.clear();
  for (const auto& one : all_) before_.push_back(one.in);
}

void ledger::end(const std::set<int>& acknowledged, bool last) {
  enter(look(), last);
  const int newest = newest_of_launch();
  for (int id = 0; id < static_cast<int>(before_.size()); ++id)
    for (size_t tier = 0; tier < tiers_.size(); ++tier) {
      const auto& was = before_[static_cast<size_t>(id)][tier];
      if (!was.there || was.spoiled || at(id, tier).there) continue;
      const int newer = newer_of_its_line(id, tier);
      CHECK_MESSAGE((!was.aside && tiers_[tier].keep > 0 && newer >= tiers_[tier].keep),
                    was.path.string(), " is gone: ", newer, " newer ones of its line are there");
    }
  for (int step : acknowledged)
    if (step > step_of(origin_)) judge_acknowledged(step);
  judge_lines(newest);
  judge_latest();
  if (newest >= 0) head_ = newest;
}

/// Every folder that holds a checkpoint, by what its manifest says.
std::vector<ledger::sight_of_one> ledger::look() const {
  std::vector<sight_of_one> out;
  for (size_t tier = 0; tier < tiers_.size(); ++tier) {
    const auto entries = cp::list(tiers_[tier].dir);
    REQUIRE(entries);
    for (const auto& e : *entries) {
      const bool aside = e.name.state == cp::folder_state::aside;
      if (!aside && e.name.state != cp::folder_state::complete) continue;
      const auto why = e.problem ? render(*e.problem) : std::string();
      CHECK_MESSAGE(e.head, e.path.string(), ": ", why);  // SUR-1
      if (e.head)
        out.push_back({tier, e.path, aside, static_cast<int>(e.name.step), cp::line_of(*e.head)});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.step < b.step; });
  return out;
}

/// Takes down where each is now; those of the launch at hand are new.
void ledger::enter(const std::vector<sight_of_one>& found, bool read_all) {
  for (auto& one : all_)
    for (auto& in : one.in) in.there = false;
  for (const auto& one : found) {
    const auto mark = one.line.back();
    if (!ids_.contains({mark.launch, mark.step})) note_launch(one);
    const int id = ids_.at({mark.launch, mark.step});
    CHECK_MESSAGE(one.line == line_of(id), one.path.string(), " names another line");  // LED-2
    auto& in = at(id, one.tier);
    CHECK_MESSAGE(!in.there, one.path.string(), " is there twice");
    asides_ += one.aside && !in.aside ? 1 : 0;
    const bool rests = in.aside && in.path == one.path && !read_all;
    in = {true, one.aside, in.spoiled, one.path};
    const bool known = static_cast<size_t>(id) < before_.size() &&
                       before_[static_cast<size_t>(id)][one.tier].there;
    if (!in.spoiled && !rests) eyes_.look_into(one.path, one.step, known);
  }
}

void ledger::note_launch(const sight_of_one& one) {
  const auto mark = one.line.back();
  CHECK_MESSAGE(launch_.value_or(mark.launch) == mark.launch, one.path.string(),
                " is of a launch that never was");
  launch_ = mark.launch;
  const int before = newest_of_launch();
  ids_[{mark.launch, mark.step}] = static_cast<int>(all_.size());
  all_.push_back({one.step, before >= 0 ? before : origin_, mark.launch, {}});
}

int ledger::newest_of_launch() const {
  const int last = static_cast<int>(all_.size()) - 1;
  return last >= static_cast<int>(before_.size()) ? last : -1;
}

int ledger::newer_of_its_line(int id, size_t tier) const {
  int out = 0;
  for (int other = id + 1; other < static_cast<int>(all_.size()); ++other)
    out += is_whole(other, tier) && !at(other, tier).aside && descends(other, id) ? 1 : 0;
  return out;
}

/// LED-1 of what the launch at hand said, in the first tier.
void ledger::judge_acknowledged(int step) const {
  int newer = 0;
  for (size_t id = before_.size(); id < all_.size(); ++id) {
    if (!is_whole(static_cast<int>(id), 0)) continue;
    if (all_[id].step == step) return;
    newer += all_[id].step > step ? 1 : 0;
  }
  CHECK_MESSAGE((tiers_[0].keep > 0 && newer >= tiers_[0].keep), "step ", step,
                " was acknowledged and is not there: ", newer, " newer ones of its line are");
}

/// LED-3; `head` is the newest that the launch at hand saved, -1: none.
void ledger::judge_lines(int head) const {
  const int own = head >= 0 ? head : origin_;
  for (int id = 0; id < static_cast<int>(all_.size()); ++id)
    for (size_t tier = 0; tier < tiers_.size(); ++tier) {
      const auto& now = at(id, tier);
      if (!now.there) continue;
      if (!now.aside && head >= 0)
        CHECK_MESSAGE(descends(head, id), now.path.string(), " is of a line that was left");
      const bool fresh = static_cast<size_t>(id) >= before_.size() ||
                         !before_[static_cast<size_t>(id)][tier].aside;
      if (now.aside && fresh)
        CHECK_MESSAGE((now.spoiled || !descends(own, id)), now.path.string(),
                      " leads to what the launch began from");
    }
}

/// LED-4.
void ledger::judge_latest() const {
  const auto link = tiers_[0].dir / "latest";
  if (!fs::is_symlink(link) || fs::exists(link)) return;
  const auto named = fs::read_symlink(link).filename().string();
  CHECK_MESSAGE(!names_with(tiers_[0].dir, named + ".aside-").empty(), "latest points to ", named,
                ", which is not there");
}

}  // namespace troupe::cluster_test

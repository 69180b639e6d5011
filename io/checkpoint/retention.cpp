// Rules over a catalog, and removal in an order that a crash cannot hurt.
#include "io/checkpoint/retention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "io/checkpoint/folder_claim.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

namespace {

/// Indices of checkpoints that can be read, newest first.
std::vector<size_t> readable(std::span<const entry> catalog) {
  std::vector<size_t> out;
  for (size_t i = 0; i < catalog.size(); ++i)
    if (catalog[i].name.state == folder_state::complete && catalog[i].head) out.push_back(i);
  std::stable_sort(out.begin(), out.end(),
                   [&](size_t a, size_t b) { return catalog[a].age_key() > catalog[b].age_key(); });
  return out;
}

/// Those of them with a finite validation loss, best first; of equals the newer.
std::vector<size_t> by_loss(std::span<const entry> catalog, std::vector<size_t> newest_first) {
  std::erase_if(newest_first, [&](size_t i) {
    const auto& loss = catalog[i].head->validation_loss;
    return !loss || !std::isfinite(*loss);
  });
  std::stable_sort(newest_first.begin(), newest_first.end(), [&](size_t a, size_t b) {
    return *catalog[a].head->validation_loss < *catalog[b].head->validation_loss;
  });
  return newest_first;
}

void add(std::string& reasons, std::string_view reason) {
  if (!reasons.empty()) reasons += ", ";
  reasons += reason;
}

}  // namespace

std::vector<std::string> kept_because(std::span<const entry> catalog, const retention& rules) {
  std::vector<std::string> why(catalog.size());
  const auto newest = readable(catalog);
  const auto best = by_loss(catalog, newest);
  const bool no_rules = rules.empty();
  if (!newest.empty()) add(why[newest[0]], "newest");  // RT-1
  for (size_t n = 0; n < newest.size(); ++n) {
    const auto& e = catalog[newest[n]];
    auto& reasons = why[newest[n]];
    if (no_rules) add(reasons, "all are kept");
    if (n > 0 && n < rules.keep_last) add(reasons, fmt::format("of the last {}", rules.keep_last));
    if (rules.keep_every > 0 && e.name.step % rules.keep_every == 0)
      add(reasons, fmt::format("every {}", rules.keep_every));
  }
  for (size_t n = 0; n < best.size() && n < rules.keep_best; ++n)
    add(why[best[n]], fmt::format("best {} by validation loss", n + 1));
  for (size_t i = 0; i < catalog.size(); ++i) {
    if (catalog[i].pinned) add(why[i], "pinned");
    if (catalog[i].name.state == folder_state::complete && !catalog[i].head)
      add(why[i], "not readable");  // RT-2
  }
  return why;
}

std::vector<doomed> plan_removal(std::span<const entry> catalog, const retention& rules,
                                 int64_t now_s, std::span<const std::string> in_use) {
  const auto why = kept_because(catalog, rules);
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
      case folder_state::deleting:
        out.push_back(found), out.back().why = "its removal was interrupted";
        break;
      case folder_state::partial:
        if (e.pinned || now_s - e.changed_s < rules.partial_age_s) break;
        out.push_back(found), out.back().why = "its save was interrupted";
        break;
    }
  }
  return out;
}

status check_removal(const doomed& what) {
  return check_claimed(what.path, claim_of(what.path));
}

status remove(const doomed& what) {
  const auto parent = what.path.parent_path();
  const auto ours = claim_of(what.path);
  const auto whole = check_claimed(what.path, ours);  // before its name goes
  if (!whole) return whole.error().code == errc::not_found ? status{} : whole;  // gone already
  auto gone = what.path;
  std::error_code code;
  if (what.name.state == folder_state::complete) {
    gone = parent / deleting_name(what.name.step);
    if (fs::exists(fs::symlink_status(gone, code)))
      TROUPE_CHECK(remove_claimed(gone, claim_of(gone)));
    fs::rename(what.path, gone, code);
    if (code) return error::system(fmt::format("rename {}", what.path.string()), code.value());
    TROUPE_CHECK(fsync_directory(parent));
  }
  TROUPE_CHECK(remove_claimed(gone, ours));
  return fsync_directory(parent);
}

status retain(const fs::path& dir, const retention& rules, std::span<const std::string> in_use) {
  if (rules.empty()) return {};
  auto complete_only = rules;
  complete_only.partial_age_s = std::numeric_limits<int64_t>::max();
  TROUPE_TRY(all, list(dir));
  status outcome;
  for (const auto& old : plan_removal(all, complete_only, 0, in_use))
    if (auto gone = remove(old); !gone && outcome) outcome = gone;  // the others go all the same
  return outcome;
}

}  // namespace troupe::io::checkpoint

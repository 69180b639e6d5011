// What becomes of what was done: by syncs, by a kernel that writes back, by the loss of a writer,
// by a power cut. See crash_store.hpp.
#include <algorithm>

#include "io/disk/crash_store.hpp"

namespace troupe::io {

// -- syncs ----------------------------------------------------------------------------------------

void crash_store::ledger::add(const change_log& log, size_t at) {
  const auto& now = log.at(at);
  if (now.lasting()) {
    auto& its = fates.emplace_hint(fates.end(), at, fate{})->second;
    its.durable_at = now.kept_at;
    its.lost = !now.seen;
    for (const auto& edit : now.edits) its.folders_to_sync.insert(edit.folder);
    if (its.lost)
      lost.push_back(at);
    else if (its.durable_at == never)
      unsynced.push_back({at, now.kind == change_kind::names, now.node, now.by.at_ns});
    return;
  }
  if (now.kind == change_kind::mark || now.outcome == sync_outcome::ignored) return;
  std::erase_if(unsynced, [&](const pending& earlier) {
    if (earlier.made_ns > now.by.at_ns) return false;  // CS-4
    if (earlier.names != (now.kind == change_kind::sync_dir)) return false;
    if (!earlier.names && earlier.node != now.node) return false;
    auto& its = fates.at(earlier.at);
    if (earlier.names) {
      its.folders_to_sync.erase(now.node);
      if (!its.folders_to_sync.empty()) return false;
    }
    if (now.outcome == sync_outcome::fails) {
      its.lost = true;
      lost.push_back(earlier.at);
    } else {
      its.durable_at = at;
    }
    return true;
  });
}

bool crash_store::ledger::durable(size_t at, size_t before) const {
  const auto found = fates.find(at);
  return found != fates.end() && found->second.durable_at < before;
}

/// What is made by `now_ns` and what syncs have made of it by then.
crash_store::ledger crash_store::as_of(int64_t now_ns) const {
  if (latest_ns_ <= now_ns) return ledger_;
  ledger found;
  for (const auto& [at, c] : log_)
    if (c.by.at_ns <= now_ns) found.add(log_, at);
  return found;
}

/// Anew, after it has lost some of what it had.
void crash_store::read_log() {
  ledger_ = {};
  latest_ns_ = std::numeric_limits<int64_t>::min();
  for (const auto& [at, c] : log_) {
    ledger_.add(log_, at);
    latest_ns_ = std::max(latest_ns_, c.by.at_ns);
  }
}

// -- the loss of a writer -------------------------------------------------------------------------

/// A change of a writer that is lost, in its pieces; false where nothing is left of it.
bool crash_store::keep_by_chance(size_t at, const survives& keeps) {
  auto& c = log_.at(at);
  const auto pieces = pieces_of(at, c);
  uint64_t begin = c.bytes.size(), end = 0;
  bool kept = false;
  for (const auto& p : pieces) {
    if (!keeps(c.kind)) continue;
    kept = true;
    begin = std::min(begin, p.begin);
    end = std::max(end, p.end);
  }
  if (!kept) return false;
  if (c.kind == change_kind::data) {
    c.bytes = c.bytes.substr(begin, end - begin);
    c.offset += begin;
  }
  c.seen = true;
  c.kept_at = points_ - 1;
  return true;
}

void crash_store::lose(uint32_t writer, int64_t now_ns, const survives& keeps) {
  std::lock_guard lock(mutex_);
  std::erase_if(log_, [&](const auto& entry) {
    return entry.second.by.writer == writer && entry.second.by.at_ns > now_ns;
  });
  const auto then = as_of(now_ns);
  for (auto entry = log_.begin(); entry != log_.end();) {
    const auto& [at, c] = *entry;
    const bool open = c.by.writer == writer && c.lasting() && !then.durable(at);
    entry = open && !keep_by_chance(at, keeps) ? log_.erase(entry) : std::next(entry);
  }
  read_log();
  rebuild();
}

/// What readers see, from the log.
void crash_store::rebuild() {
  tree fresh = base_;
  for (const auto& [at, c] : log_)
    if (c.seen) apply(fresh, c, 0, c.bytes.size());
  for (const auto& [node, holders] : held_) fresh.nodes.try_emplace(node);
  for (auto& [id, n] : fresh.nodes) {
    const auto before = live_.nodes.find(id);
    const bool same = before != live_.nodes.end() && *before->second.bytes == *n.bytes &&
                      before->second.names == n.names;
    n.version = same ? before->second.version : ++last_version_;
  }
  live_ = std::move(fresh);
  ++names_version_;
}

// -- what a kernel writes back --------------------------------------------------------------------

void crash_store::settle(int64_t before_ns, int64_t synced_ns) {
  std::lock_guard lock(mutex_);
  const auto then = as_of(synced_ns);
  for (auto& [at, c] : log_) {
    if (!c.lasting() || ledger_.fates.at(at).lost) continue;
    if (c.by.at_ns < before_ns || (c.by.at_ns <= synced_ns && then.durable(at)))
      c.kept_at = std::min(c.kept_at, points_ - 1);
  }
  fold();
  sweep();
  read_log();
  first_point_ = points_;
}

/// Moves into base_ what is durable and made by then, as far as nothing stays before it that it
/// would have to wait for: bytes wait for those of their file, names for names.
void crash_store::fold() {
  std::set<node_id> staying;
  std::vector<change> folded;  ///< of bytes
  bool names_stay = false;
  for (auto entry = log_.begin(); entry != log_.end();) {
    const auto& [at, c] = *entry;
    const bool made = c.kept_at != never;
    bool stays = false;
    if (c.kind == change_kind::names) {
      stays = names_stay = names_stay || !made;
    } else if (c.kind == change_kind::sync_dir) {
      stays = names_stay;
    } else if (c.kind == change_kind::sync_file) {
      stays = staying.count(c.node) > 0;
    } else if (c.lasting()) {
      if (made && c.kind == change_kind::length && c.offset == 0) {
        // Whatever became of the bytes before, they are cut off.
        std::erase_if(log_, [&, cut = at, node = c.node](const auto& other) {
          return other.first < cut && other.second.node == node && other.second.edits.empty();
        });
        staying.erase(c.node);
      }
      stays = staying.count(c.node) > 0 || !made;
      if (stays) staying.insert(c.node);
    }
    if (!stays && c.kind == change_kind::names) apply(base_, c, 0, 0);
    if (!stays && c.lasting() && c.edits.empty()) folded.push_back(std::move(entry->second));
    entry = stays ? std::next(entry) : log_.erase(entry);
  }
  for (const auto& c : folded) {
    const auto now = live_.nodes.find(c.node);
    if (now != live_.nodes.end() && staying.count(c.node) == 0)
      base_.nodes[c.node].bytes = now->second.bytes;  // what all of them came to
    else
      apply(base_, c, 0, c.bytes.size());
  }
}

/// Nodes to which names lead from some of them, themselves too.
std::set<crash_store::node_id> crash_store::reachable(std::set<node_id> from, bool in_base) const {
  std::vector<node_id> left(from.begin(), from.end());
  const auto add_below = [&](const tree& in, node_id node) {
    const auto found = in.nodes.find(node);
    if (found == in.nodes.end()) return;
    for (const auto& [name, id] : found->second.names)
      if (from.insert(id).second) left.push_back(id);
  };
  while (!left.empty()) {
    const auto node = left.back();
    left.pop_back();
    add_below(live_, node);
    if (in_base) add_below(base_, node);
  }
  return from;
}

/// Forgets nodes that no name can lead to any more and that nobody has open or locked (CS-5).
void crash_store::sweep() {
  std::erase_if(locks_, [](const auto& l) { return l.second == 0; });
  std::set<node_id> roots{1};
  for (const auto& [at, c] : log_)
    for (const auto& edit : c.edits) roots.insert({edit.folder, edit.node});
  for (const auto& [node, holders] : held_) roots.insert(node);
  for (const auto& [node, readers] : locks_) roots.insert(node);
  const auto known = reachable(std::move(roots), true);
  const auto unknown = [&](const auto& of) { return known.count(of.first) == 0; };
  std::erase_if(log_, [&](const auto& entry) {
    return entry.second.node != 0 && known.count(entry.second.node) == 0;
  });
  std::erase_if(base_.nodes, unknown);
  std::erase_if(live_.nodes, unknown);
  std::erase_if(opened_under_, unknown);
  std::set<node_id> changed;
  for (const auto& [at, c] : log_) changed.insert(c.node);
  for (auto& [id, n] : base_.nodes)  // one copy of the bytes is enough
    if (const auto now = live_.nodes.find(id); now != live_.nodes.end() && !changed.count(id))
      n.bytes = now->second.bytes;
}

bool crash_store::durable(const path& name, int64_t now_ns) const {
  std::lock_guard lock(mutex_);
  std::set<std::pair<node_id, std::string>> way;
  node_id at = 1;
  for (const auto part : parts_of(name)) {
    const auto& names = live_.nodes.at(at).names;
    const auto found = names.find(part);
    if (found == names.end()) return false;
    way.emplace(at, part);
    at = found->second;
  }
  const auto open = not_durable(now_ns);
  if (open.empty()) return true;
  const auto below = reachable({at}, false);
  return std::all_of(open.begin(), open.end(), [&](const change* c) {
    return below.count(c->node) == 0 &&
           std::none_of(c->edits.begin(), c->edits.end(), [&](const name_edit& edit) {
             return below.count(edit.folder) > 0 || way.count({edit.folder, edit.name}) > 0;
           });
  });
}

/// What is made after `now_ns` is among them.
std::vector<const crash_store::change*> crash_store::not_durable(int64_t now_ns) const {
  std::vector<const change*> out;
  if (latest_ns_ <= now_ns) {
    for (const auto& p : ledger_.unsynced) out.push_back(&log_.at(p.at));
    for (const auto at : ledger_.lost) out.push_back(&log_.at(at));
    return out;
  }
  const auto then = as_of(now_ns);
  for (const auto& [at, c] : log_)
    if (c.lasting() && !then.durable(at)) out.push_back(&c);
  return out;
}

// -- what changed ---------------------------------------------------------------------------------

uint64_t crash_store::names_version() const {
  std::lock_guard lock(mutex_);
  return names_version_;
}

uint64_t crash_store::changes() const {
  std::lock_guard lock(mutex_);
  return points_ + names_version_;
}

std::optional<std::pair<crash_store::node_id, uint64_t>> crash_store::version_of(
    const path& name) const {
  std::lock_guard lock(mutex_);
  const auto node = outage_of(name) == outage::gone ? 0 : live_.find(parts_of(name));
  if (node == 0) return std::nullopt;
  return std::pair(node, live_.nodes.at(node).version);
}

// -- the log --------------------------------------------------------------------------------------

void crash_store::mark(std::string text) {
  std::lock_guard lock(mutex_);
  log({.text = std::move(text)});
}

size_t crash_store::points() const {
  std::lock_guard lock(mutex_);
  return points_;
}

size_t crash_store::first_point() const {
  std::lock_guard lock(mutex_);
  return first_point_;
}

size_t crash_store::logged() const {
  std::lock_guard lock(mutex_);
  return log_.size();
}

size_t crash_store::nodes() const {
  std::lock_guard lock(mutex_);
  return std::max(base_.nodes.size(), live_.nodes.size());
}

std::string crash_store::text(size_t point) const {
  std::lock_guard lock(mutex_);
  if (point >= points_) return "the end";
  const auto found = log_.find(point);
  return found == log_.end() ? std::string() : found->second.text;
}

std::vector<std::string> crash_store::marks_before(size_t point) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (const auto& [at, c] : log_)
    if (at < point && c.kind == change_kind::mark) found.push_back(c.text);
  return found;
}

size_t crash_store::syncs() const {
  std::lock_guard lock(mutex_);
  return syncs_;
}

void crash_store::ignore_sync(size_t nth) {
  std::lock_guard lock(mutex_);
  ignored_.insert(nth);
}

/// A long write is torn at the block in its middle.
std::vector<crash_store::piece> crash_store::pieces_of(size_t at, const change& what) {
  const uint64_t size = what.bytes.size();
  if (size <= disk_block) return {{at, 0, size}};
  const uint64_t middle = std::max<uint64_t>(disk_block, size / 2 / disk_block * disk_block);
  return {{at, 0, middle}, {at, middle, size}};
}

}  // namespace troupe::io

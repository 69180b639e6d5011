// Changes, syncs, and what a crash leaves of them: see crash_store.hpp.
#include "io/disk/crash_store.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

/// Its parts from the root; ".." at the root stays there.
std::vector<std::string> parts_of(const fs::path& name) {
  std::vector<std::string> parts;
  for (const auto& part : name.lexically_normal()) {
    auto text = part.string();
    if (text.empty() || text == "/" || text == ".") continue;
    if (text == "..") {
      if (!parts.empty()) parts.pop_back();
    } else {
      parts.push_back(std::move(text));
    }
  }
  return parts;
}

}  // namespace

std::shared_ptr<crash_store> crash_store::make(uint64_t capacity_bytes) {
  std::shared_ptr<crash_store> made(new crash_store(capacity_bytes));
  made->base_ = made->live_;
  return made;
}

// -- the tree -------------------------------------------------------------------------------------

crash_store::node_id crash_store::tree::find(const path& name) const {
  node_id at = 1;
  for (const auto& part : parts_of(name)) {
    const auto& here = nodes.at(at);
    auto found = here.names.find(part);
    if (!here.folder || found == here.names.end()) return 0;
    at = found->second;
  }
  return at;
}

void crash_store::apply(tree& to, const change& what, uint64_t begin, uint64_t end) {
  auto own = [](inode& n) -> std::string& {
    if (n.bytes.use_count() > 1) n.bytes = std::make_shared<std::string>(*n.bytes);
    return *n.bytes;
  };
  switch (what.kind) {
    case change_kind::data: {
      auto& bytes = own(to.nodes[what.node]);
      if (bytes.size() < what.offset + end) bytes.resize(what.offset + end);
      std::copy(what.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                what.bytes.begin() + static_cast<std::ptrdiff_t>(end),
                bytes.begin() + static_cast<std::ptrdiff_t>(what.offset + begin));
      return;
    }
    case change_kind::length: {
      auto& bytes = own(to.nodes[what.node]);
      if (!what.grow_only || bytes.size() < what.offset) bytes.resize(what.offset);
      return;
    }
    case change_kind::names:
      for (const auto& edit : what.edits) {
        to.nodes[edit.folder].folder = true;
        auto& names = to.nodes[edit.folder].names;
        if (edit.node == 0) {
          names.erase(edit.name);
        } else {
          names[edit.name] = edit.node;
          to.nodes[edit.node].folder = edit.to_folder;
        }
      }
      return;
    case change_kind::sync_file:
    case change_kind::sync_dir:
    case change_kind::mark:
      return;
  }
}

/// The folder a name lies in and its last part: 0, ENOENT, ENOTDIR.
int crash_store::place(const path& name, node_id& folder, std::string& last) const {
  auto parts = parts_of(name);
  if (parts.empty()) return EINVAL;
  last = parts.back();
  fs::path parent = "/";
  for (size_t i = 0; i + 1 < parts.size(); ++i) parent /= parts[i];
  folder = live_.find(parent);
  if (folder == 0) return ENOENT;
  return live_.nodes.at(folder).folder ? 0 : ENOTDIR;
}

uint64_t crash_store::used() const {
  uint64_t sum = 0;
  for (const auto& [id, n] : live_.nodes) sum += n.bytes->size();
  return sum;
}

void crash_store::log(change what, bool seen) {
  if (seen) apply(live_, what, 0, what.bytes.size());  // CS-3
  for (const auto& edit : what.edits) what.folders_to_sync.insert(edit.folder);
  bool lasting = what.kind == change_kind::data || what.kind == change_kind::length ||
                 what.kind == change_kind::names;
  if (lasting && !what.lost) unsynced_.push_back(log_.size());
  log_.push_back(std::move(what));
}

// -- files ----------------------------------------------------------------------------------------

int crash_store::open(const path& name, open_mode mode, node_id& node) {
  std::lock_guard lock(mutex_);
  node_id folder = 0;
  std::string last;
  if (int failure = place(name, folder, last)) return failure;
  const auto& names = live_.nodes.at(folder).names;
  auto found = names.find(last);
  node = found == names.end() ? 0 : found->second;
  if (node != 0 && live_.nodes.at(node).folder) return EISDIR;
  if (mode == open_mode::read) return node == 0 ? ENOENT : 0;
  if (mode == open_mode::create && node != 0) return EEXIST;
  change what;
  if (node == 0) {
    node = ++last_node_;
    what.kind = change_kind::names;
    what.edits = {{folder, last, node, false}};
    what.text = "create " + name.string();
    log(std::move(what));
  } else if (!live_.nodes.at(node).bytes->empty()) {
    what.kind = change_kind::length;
    what.node = node;
    what.text = "cut " + name.string();
    log(std::move(what));
  }
  return 0;
}

int64_t crash_store::write(node_id node, uint64_t offset, std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  uint64_t size = live_.nodes.at(node).bytes->size();
  uint64_t end = offset + bytes.size();
  uint64_t room = capacity_ - std::min(capacity_, used());
  if (end > size && end - size > room) end = (size + room) / disk_block * disk_block;
  if (end <= offset) return -ENOSPC;
  change what;
  what.kind = change_kind::data;
  what.node = node;
  what.offset = offset;
  what.bytes.assign(reinterpret_cast<const char*>(bytes.data()), end - offset);
  what.text = fmt::format("write node {} at {}, {} bytes", node, offset, end - offset);
  log(std::move(what));
  return static_cast<int64_t>(end - offset);
}

void crash_store::write_and_fail(node_id node, uint64_t offset, std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  change what;
  what.kind = change_kind::data;
  what.node = node;
  what.offset = offset;
  what.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  what.lost = true;
  what.text = fmt::format("failing write node {} at {}, {} bytes", node, offset, bytes.size());
  log(std::move(what), false);
}

int64_t crash_store::read(node_id node, uint64_t offset, std::span<std::byte> bytes) const {
  std::lock_guard lock(mutex_);
  const auto& content = *live_.nodes.at(node).bytes;
  if (offset >= content.size()) return 0;
  auto moved = std::min<uint64_t>(bytes.size(), content.size() - offset);
  std::memcpy(bytes.data(), content.data() + offset, moved);
  return static_cast<int64_t>(moved);
}

uint64_t crash_store::size(node_id node) const {
  std::lock_guard lock(mutex_);
  return live_.nodes.at(node).bytes->size();
}

int crash_store::reserve(node_id node, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  uint64_t size = live_.nodes.at(node).bytes->size();
  if (bytes <= size) return 0;
  if (bytes - size > capacity_ - std::min(capacity_, used())) return ENOSPC;
  change what;
  what.kind = change_kind::length;
  what.node = node;
  what.offset = bytes;
  what.grow_only = true;
  what.text = fmt::format("reserve node {} to {} bytes", node, bytes);
  log(std::move(what));
  return 0;
}

bool crash_store::sync_ignored() {
  return ignored_.count(++syncs_) > 0;
}

int crash_store::sync_file(node_id node) {
  std::lock_guard lock(mutex_);
  bool ignored = sync_ignored();
  change what;
  what.kind = change_kind::sync_file;
  what.node = node;
  what.text = fmt::format("sync node {}{}", node, ignored ? " (ignored)" : "");
  log(std::move(what));
  if (ignored) return 0;
  std::erase_if(unsynced_, [&](size_t at) {
    auto& c = log_[at];
    if (c.kind == change_kind::names || c.node != node) return false;
    c.durable_at = log_.size() - 1;
    return true;
  });
  return 0;
}

int crash_store::fail_sync_file(node_id node, int failure) {
  std::lock_guard lock(mutex_);
  sync_ignored();
  change what;
  what.kind = change_kind::sync_file;
  what.node = node;
  what.text = fmt::format("failing sync node {}", node);
  log(std::move(what));
  std::erase_if(unsynced_, [&](size_t at) {
    auto& c = log_[at];
    bool its = c.kind != change_kind::names && c.node == node;
    c.lost = c.lost || its;  // the kernel calls these pages clean now: no later sync writes them
    return its;
  });
  return failure;
}

// -- names ----------------------------------------------------------------------------------------

int crash_store::make_dir(const path& name) {
  std::lock_guard lock(mutex_);
  node_id folder = 0;
  std::string last;
  if (int failure = place(name, folder, last)) return failure;
  const auto& names = live_.nodes.at(folder).names;
  if (names.count(last) > 0) return EEXIST;
  change what;
  what.kind = change_kind::names;
  what.edits = {{folder, last, ++last_node_, true}};
  what.text = "make folder " + name.string();
  log(std::move(what));
  return 0;
}

int crash_store::rename(const path& from, const path& to, bool replace) {
  std::lock_guard lock(mutex_);
  node_id out = 0, in = 0;
  std::string old_name, new_name;
  if (int failure = place(from, out, old_name)) return failure;
  if (int failure = place(to, in, new_name)) return failure;
  auto moved = live_.find(from), target = live_.find(to);
  if (moved == 0) return ENOENT;
  if (target != 0 && !replace) return EEXIST;
  if (moved == target) return 0;
  bool folder = live_.nodes.at(moved).folder;
  if (target != 0) {
    const auto& there = live_.nodes.at(target);
    if (folder != there.folder) return folder ? ENOTDIR : EISDIR;
    if (!there.names.empty()) return ENOTEMPTY;
  }
  change what;
  what.kind = change_kind::names;
  what.edits = {{out, old_name, 0, false}, {in, new_name, moved, folder}};
  what.text = fmt::format("rename {} to {}", from.string(), to.string());
  log(std::move(what));
  return 0;
}

int crash_store::exchange(const path& one, const path& other) {
  std::lock_guard lock(mutex_);
  node_id first_folder = 0, second_folder = 0;
  std::string first_name, second_name;
  if (int failure = place(one, first_folder, first_name)) return failure;
  if (int failure = place(other, second_folder, second_name)) return failure;
  auto first = live_.find(one), second = live_.find(other);
  if (first == 0 || second == 0) return ENOENT;
  change what;
  what.kind = change_kind::names;
  what.edits = {{first_folder, first_name, second, live_.nodes.at(second).folder},
                {second_folder, second_name, first, live_.nodes.at(first).folder}};
  what.text = fmt::format("exchange {} and {}", one.string(), other.string());
  log(std::move(what));
  return 0;
}

int crash_store::remove(const path& name, bool folder) {
  std::lock_guard lock(mutex_);
  node_id in = 0;
  std::string last;
  if (int failure = place(name, in, last)) return failure;
  auto node = live_.find(name);
  if (node == 0) return ENOENT;
  if (live_.nodes.at(node).folder != folder) return folder ? ENOTDIR : EISDIR;
  if (!live_.nodes.at(node).names.empty()) return ENOTEMPTY;
  change what;
  what.kind = change_kind::names;
  what.edits = {{in, last, 0, folder}};
  what.text = "remove " + name.string();
  log(std::move(what));
  return 0;
}

file_lock crash_store::lock(node_id node, bool against_readers) {
  std::lock_guard guard(mutex_);
  int& held = locks_[node];
  if (held < 0 || (against_readers && held > 0)) return nullptr;
  held = against_readers ? -1 : held + 1;
  const auto let_go = [store = weak_from_this(), node](const void*) {
    const auto there = store.lock();
    if (!there) return;
    std::lock_guard again(there->mutex_);
    int& now = there->locks_[node];
    now = now < 0 ? 0 : now - 1;
  };
  return {this, let_go};
}

int crash_store::list(const path& folder, std::vector<dir_entry>& found) const {
  std::lock_guard lock(mutex_);
  auto node = live_.find(folder);
  if (node == 0) return ENOENT;
  const auto& here = live_.nodes.at(node);
  if (!here.folder) return ENOTDIR;
  for (const auto& [name, id] : here.names) {
    const auto& there = live_.nodes.at(id);
    found.push_back({name, there.folder, there.bytes->size()});
  }
  return 0;
}

int crash_store::sync_dir(const path& folder) {
  std::lock_guard lock(mutex_);
  auto node = live_.find(folder);
  if (node == 0) return ENOENT;
  if (!live_.nodes.at(node).folder) return ENOTDIR;
  bool ignored = sync_ignored();
  change what;
  what.kind = change_kind::sync_dir;
  what.node = node;
  what.text = fmt::format("sync folder {}{}", folder.string(), ignored ? " (ignored)" : "");
  log(std::move(what));
  if (ignored) return 0;
  std::erase_if(unsynced_, [&](size_t at) {
    auto& c = log_[at];
    if (c.kind != change_kind::names) return false;
    c.folders_to_sync.erase(node);
    if (!c.folders_to_sync.empty()) return false;
    c.durable_at = log_.size() - 1;
    return true;
  });
  return 0;
}

// -- the log --------------------------------------------------------------------------------------

void crash_store::mark(std::string text) {
  std::lock_guard lock(mutex_);
  change what;
  what.text = std::move(text);
  log(std::move(what));
}

size_t crash_store::points() const {
  std::lock_guard lock(mutex_);
  return log_.size();
}

std::string crash_store::text(size_t point) const {
  std::lock_guard lock(mutex_);
  return point < log_.size() ? log_[point].text : std::string("the end");
}

std::vector<std::string> crash_store::marks_before(size_t point) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (size_t i = 0; i < std::min(point, log_.size()); ++i)
    if (log_[i].kind == change_kind::mark) found.push_back(log_[i].text);
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

// -- crashes --------------------------------------------------------------------------------------

crash_images crash_store::crash_at(size_t point, const image_limits& limits) const {
  return crash_images(shared_from_this(), point, limits);
}

crash_images crash_store::crash_at(size_t point) const {
  return crash_at(point, image_limits{});
}

crash_images::crash_images(std::shared_ptr<const crash_store> of, size_t point,
                           const crash_store::image_limits& limits)
    : of_(std::move(of)), point_(point), limits_(limits), lot_(limits.seed * 1000003 + point) {
  std::lock_guard lock(of_->mutex_);
  assert(point <= of_->log_.size());
  using kind = crash_store::change_kind;
  for (size_t i = 0; i < point; ++i) {
    const auto& c = of_->log_[i];
    if (c.durable_at < point) continue;
    uint64_t size = c.bytes.size();
    if (c.kind == kind::data && size > disk_block) {  // torn at the block in its middle
      uint64_t middle = std::max<uint64_t>(disk_block, size / 2 / disk_block * disk_block);
      pieces_.push_back({i, 0, middle});
      pieces_.push_back({i, middle, size});
    } else if (c.kind == kind::data || c.kind == kind::length || c.kind == kind::names) {
      pieces_.push_back({i, 0, size});
    }
  }
  exhaustive_ = pieces_.size() <= limits.enumerate;
  start_ = of_->base_;
  for (size_t end = pieces_.empty() ? point : pieces_[0].at; from_ < end; ++from_) {
    const auto& c = of_->log_[from_];
    if (c.durable_at < point) crash_store::apply(start_, c, 0, c.bytes.size());
  }
}

/// Which pieces the next image keeps; empty flags after the last.
std::vector<bool> crash_images::choice() {
  const size_t n = pieces_.size();
  std::vector<bool> keep(n + 1);  // one more, so that it is never empty
  auto turn = given_++;
  if (exhaustive_) {
    if (turn >= uint64_t{1} << n) return {};
    for (size_t i = 0; i < n; ++i) keep[i] = (turn >> i & 1) != 0;
    return keep;
  }
  if (turn >= limits_.samples) return {};
  if (turn < 2) return std::vector<bool>(n + 1, turn == 1);
  if (turn < 2 + 2 * n && turn < limits_.samples / 2) {
    auto i = static_cast<size_t>(turn - 2) / 2;
    bool alone = turn % 2 == 0;
    std::vector<bool> one(n + 1, !alone);
    one[i] = alone;
    return one;
  }
  for (size_t i = 0; i < n; ++i) keep[i] = (lot_() >> 32 & 1) != 0;
  return keep;
}

std::shared_ptr<crash_store> crash_images::next() {
  auto keep = choice();
  if (keep.empty()) return nullptr;
  std::lock_guard lock(of_->mutex_);
  auto image = crash_store::make(of_->capacity_);
  auto& tree = image->live_;
  tree = start_;
  kept_.clear();
  size_t at = 0;
  for (size_t i = from_; i < point_; ++i) {
    const auto& c = of_->log_[i];
    if (c.durable_at < point_) crash_store::apply(tree, c, 0, c.bytes.size());  // CS-1
    for (; at < pieces_.size() && pieces_[at].at == i; ++at) {
      if (!keep[at]) continue;
      crash_store::apply(tree, c, pieces_[at].begin, pieces_[at].end);
      kept_ += (kept_.empty() ? "" : "; ") + c.text;
    }
  }
  image->base_ = tree;
  image->last_node_ = of_->last_node_;
  return image;
}

}  // namespace troupe::io

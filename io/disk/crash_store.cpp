// Files, names and syncs as a disk asks for them: see crash_store.hpp. What becomes of them is in
// crash_history.cpp.
#include "io/disk/crash_store.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace troupe::io {

namespace fs = std::filesystem;

std::shared_ptr<crash_store> crash_store::make(uint64_t capacity_bytes) {
  std::shared_ptr<crash_store> made(new crash_store(capacity_bytes));
  made->base_ = made->live_;
  return made;
}

/// Its parts from the root; ".." at the root stays there.
std::vector<std::string_view> crash_store::parts_of(const path& name) {
  std::vector<std::string_view> parts;
  std::string_view rest = name.native();
  while (!rest.empty()) {
    const auto part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
  }
  return parts;
}

/// Whether a name leads into a folder, which then can be neither moved to it nor exchanged with it.
bool crash_store::lies_in(std::span<const std::string_view> name,
                          std::span<const std::string_view> folder) {
  return name.size() > folder.size() && std::equal(folder.begin(), folder.end(), name.begin());
}

// -- the tree -------------------------------------------------------------------------------------

crash_store::node_id crash_store::tree::find(std::span<const std::string_view> parts) const {
  node_id at = 1;
  for (const auto part : parts) {
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
      if (bytes.size() == what.offset + begin) {
        bytes.append(what.bytes, begin, end - begin);
        return;
      }
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

outage crash_store::outage_of(const path& name) const {
  if (outages_.empty()) return outage::none;
  const auto parts = parts_of(name);
  const auto found = parts.empty() ? outages_.end() : outages_.find(parts[0]);
  return found == outages_.end() ? outage::none : found->second;
}

outage crash_store::outage_of(node_id open_file) const {
  const auto top = opened_under_.find(open_file);
  const auto found = top == opened_under_.end() ? outages_.end() : outages_.find(top->second);
  return found == outages_.end() ? outage::none : found->second;
}

/// The folder a name lies in and its last part: 0, ENOENT, ENOTDIR.
int crash_store::place(const path& name, node_id& folder, std::string& last) const {
  const auto parts = parts_of(name);
  if (parts.empty()) return EINVAL;
  if (outage_of(name) == outage::gone) return ENOENT;
  last = parts.back();
  folder = live_.find(std::span(parts).first(parts.size() - 1));
  if (folder == 0) return ENOENT;
  return live_.nodes.at(folder).folder ? 0 : ENOTDIR;
}

int crash_store::folder_at(const path& name, node_id& node) const {
  node = outage_of(name) == outage::gone ? 0 : live_.find(parts_of(name));
  if (node == 0) return ENOENT;
  return live_.nodes.at(node).folder ? 0 : ENOTDIR;
}

/// Bytes of the disk that a file has.
uint64_t crash_store::taken_by(const inode& file) {
  return std::max<uint64_t>(file.bytes->size(), file.room);
}

uint64_t crash_store::free_bytes() const {
  uint64_t left = capacity_;
  if (left == std::numeric_limits<uint64_t>::max()) return left;  // nobody need count
  for (const auto& [id, n] : live_.nodes) left -= std::min(left, taken_by(n));
  return left;
}

void crash_store::log(change what) {
  if (what.seen) apply(live_, what, 0, what.bytes.size());  // CS-3
  if (what.kind == change_kind::names) ++names_version_;
  for (const auto& edit : what.edits) live_.nodes[edit.folder].version = ++last_version_;
  if (what.seen && (what.kind == change_kind::data || what.kind == change_kind::length))
    live_.nodes[what.node].version = ++last_version_;
  latest_ns_ = std::max(latest_ns_, what.by.at_ns);
  log_.emplace_hint(log_.end(), points_, std::move(what));
  ledger_.add(log_, points_++);
}

/// `what` but for what every write says.
void crash_store::log_write(change what, node_id node, uint64_t offset,
                            std::span<const std::byte> bytes, std::string_view doing) {
  what.kind = change_kind::data;
  what.node = node;
  what.offset = offset;
  what.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (texts_)
    what.text = fmt::format("{} node {} at {}, {} bytes", doing, node, offset, bytes.size());
  log(std::move(what));
}

// -- files ----------------------------------------------------------------------------------------

int crash_store::open(const path& name, open_mode mode, node_id& node, stamp by) {
  std::lock_guard lock(mutex_);
  node_id folder = 0;
  std::string last;
  if (int failure = place(name, folder, last)) return failure;
  const auto& names = live_.nodes.at(folder).names;
  auto found = names.find(last);
  node = found == names.end() ? 0 : found->second;
  if (node != 0 && live_.nodes.at(node).folder) return EISDIR;
  if ((mode == open_mode::read || mode == open_mode::update) && node == 0) return ENOENT;
  if (mode == open_mode::create && node != 0) return EEXIST;
  if (node == 0 && outage_of(name) == outage::full) return ENOSPC;
  if (node == 0) {
    node = ++last_node_;
    log({.kind = change_kind::names,
         .edits = {{folder, last, node, false}},
         .by = by,
         .text = texts_ ? "create " + name.string() : ""});
  } else if (mode == open_mode::replace && !live_.nodes.at(node).bytes->empty()) {
    log({.kind = change_kind::length,
         .node = node,
         .by = by,
         .text = texts_ ? "cut " + name.string() : ""});
    live_.nodes.at(node).room = 0;  // CS-6
  }
  opened_under_[node] = parts_of(name).front();
  return 0;
}

int64_t crash_store::write(node_id node, uint64_t offset, std::span<const std::byte> bytes,
                           stamp by) {
  std::lock_guard lock(mutex_);
  const auto found = live_.nodes.find(node);
  if (found == live_.nodes.end()) return -EBADF;
  uint64_t size = taken_by(found->second);
  uint64_t end = offset + bytes.size();
  const auto out = outage_of(node);
  if (out == outage::gone) return -EIO;
  if (out == outage::full && end > found->second.room) return -ENOSPC;  // CS-6
  const uint64_t room = free_bytes();
  if (end > size && end - size > room) end = (size + room) / disk_block * disk_block;
  if (end <= offset) return -ENOSPC;
  log_write({.by = by}, node, offset, bytes.first(end - offset), "write");
  return static_cast<int64_t>(end - offset);
}

void crash_store::write_and_fail(node_id node, uint64_t offset, std::span<const std::byte> bytes,
                                 stamp by) {
  std::lock_guard lock(mutex_);
  if (outage_of(node) != outage::none) return;
  log_write({.by = by, .seen = false}, node, offset, bytes, "failing write");
}

int64_t crash_store::read(node_id node, uint64_t offset, std::span<std::byte> bytes) const {
  std::lock_guard lock(mutex_);
  const auto found = live_.nodes.find(node);
  if (found == live_.nodes.end()) return -EBADF;
  if (outage_of(node) == outage::gone) return -EIO;
  const auto& content = *found->second.bytes;
  if (offset >= content.size()) return 0;
  auto moved = std::min<uint64_t>(bytes.size(), content.size() - offset);
  std::memcpy(bytes.data(), content.data() + offset, moved);
  return static_cast<int64_t>(moved);
}

uint64_t crash_store::size(node_id node) const {
  std::lock_guard lock(mutex_);
  const auto found = live_.nodes.find(node);
  return found == live_.nodes.end() ? 0 : found->second.bytes->size();
}

int crash_store::reserve(node_id node, uint64_t bytes, stamp by) {
  std::lock_guard lock(mutex_);
  const auto found = live_.nodes.find(node);
  if (found == live_.nodes.end()) return EBADF;
  if (const auto out = outage_of(node); out != outage::none)
    return out == outage::gone ? EIO : ENOSPC;
  uint64_t size = found->second.bytes->size();
  if (bytes <= size) return 0;
  if (bytes - size > free_bytes()) return ENOSPC;
  log({.kind = change_kind::length,
       .node = node,
       .offset = bytes,
       .grow_only = true,
       .by = by,
       .text = texts_ ? fmt::format("reserve node {} to {} bytes", node, bytes) : ""});
  return 0;
}

int crash_store::cut(node_id node, uint64_t bytes, stamp by) {
  std::lock_guard lock(mutex_);
  const auto found = live_.nodes.find(node);
  if (found == live_.nodes.end()) return EBADF;
  if (outage_of(node) == outage::gone) return EIO;
  found->second.room = 0;  // CS-6
  log({.kind = change_kind::length,
       .node = node,
       .offset = bytes,
       .by = by,
       .text = texts_ ? fmt::format("cut node {} to {} bytes", node, bytes) : ""});
  return 0;
}

int crash_store::keep_room(node_id node, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = live_.nodes.find(node);
  if (found == live_.nodes.end()) return EBADF;
  if (bytes <= taken_by(found->second)) return 0;
  if (const auto out = outage_of(node); out != outage::none)
    return out == outage::gone ? EIO : ENOSPC;
  if (bytes - taken_by(found->second) > free_bytes()) return ENOSPC;
  found->second.room = bytes;
  return 0;
}

bool crash_store::sync_ignored() {
  return ignored_.count(++syncs_) > 0;
}

/// A sync of a file that is answered so: the kernel calls the pages of a failed one clean, and no
/// later sync writes them.
int crash_store::end_sync(node_id node, int failure, stamp by) {
  const bool ignored = sync_ignored();
  if (outage_of(node) == outage::gone) failure = EIO;
  change what;
  what.kind = change_kind::sync_file;
  what.node = node;
  what.by = by;
  if (ignored) what.outcome = sync_outcome::ignored;
  if (failure != 0) what.outcome = sync_outcome::fails;
  if (texts_)
    what.text = failure != 0 ? fmt::format("failing sync node {}", node)
                             : fmt::format("sync node {}{}", node, ignored ? " (ignored)" : "");
  log(std::move(what));
  return failure;
}

int crash_store::sync_file(node_id node, stamp by) {
  std::lock_guard lock(mutex_);
  return end_sync(node, 0, by);
}

int crash_store::fail_sync_file(node_id node, int failure, stamp by) {
  std::lock_guard lock(mutex_);
  return end_sync(node, failure, by);
}

// -- names ----------------------------------------------------------------------------------------

int crash_store::make_dir(const path& name, stamp by) {
  std::lock_guard lock(mutex_);
  node_id folder = 0;
  std::string last;
  if (int failure = place(name, folder, last)) return failure;
  const auto& names = live_.nodes.at(folder).names;
  if (names.count(last) > 0) return EEXIST;
  if (outage_of(name) == outage::full) return ENOSPC;
  log({.kind = change_kind::names,
       .edits = {{folder, last, ++last_node_, true}},
       .by = by,
       .text = texts_ ? "make folder " + name.string() : ""});
  return 0;
}

int crash_store::rename(const path& from, const path& to, bool replace, stamp by) {
  std::lock_guard lock(mutex_);
  node_id out = 0, in = 0;
  std::string old_name, new_name;
  if (int failure = place(from, out, old_name)) return failure;
  if (int failure = place(to, in, new_name)) return failure;
  auto moved = live_.find(parts_of(from)), target = live_.find(parts_of(to));
  if (moved == 0) return ENOENT;
  if (target != 0 && !replace) return EEXIST;
  if (moved == target) return 0;
  if (lies_in(parts_of(to), parts_of(from))) return EINVAL;
  bool folder = live_.nodes.at(moved).folder;
  if (target != 0) {
    const auto& there = live_.nodes.at(target);
    if (folder != there.folder) return folder ? ENOTDIR : EISDIR;
    if (!there.names.empty()) return ENOTEMPTY;
  }
  log({.kind = change_kind::names,
       .edits = {{out, old_name, 0, false}, {in, new_name, moved, folder}},
       .by = by,
       .text = texts_ ? fmt::format("rename {} to {}", from.string(), to.string()) : ""});
  return 0;
}

uint64_t crash_store::count_names(node_id node) const {
  uint64_t out = 0;
  for (const auto& [id, folder] : live_.nodes)
    for (const auto& [name, leads_to] : folder.names) out += leads_to == node ? 1 : 0;
  return out;
}

uint64_t crash_store::names_of(const path& file) const {
  std::lock_guard lock(mutex_);
  const auto node = live_.find(parts_of(file));
  return node == 0 ? 0 : count_names(node);
}

int crash_store::look(node_id node, file_facts& facts) const {
  std::lock_guard lock(mutex_);
  const auto found = live_.nodes.find(node);
  if (found == live_.nodes.end()) return EBADF;
  if (outage_of(node) == outage::gone) return EIO;
  facts = {count_names(node), found->second.bytes->size(), taken_by(found->second)};
  return 0;
}

int crash_store::link(const path& file, const path& name, stamp by) {
  std::lock_guard lock(mutex_);
  node_id from = 0, in = 0;
  std::string old_name, new_name;
  if (int failure = place(file, from, old_name)) return failure;
  if (int failure = place(name, in, new_name)) return failure;
  const auto node = live_.find(parts_of(file));
  if (node == 0) return ENOENT;
  if (live_.nodes.at(node).folder) return EPERM;
  if (live_.find(parts_of(name)) != 0) return EEXIST;
  if (outage_of(name) == outage::full) return ENOSPC;
  log({.kind = change_kind::names,
       .edits = {{in, new_name, node, false}},
       .by = by,
       .text = texts_ ? fmt::format("link {} as {}", file.string(), name.string()) : ""});
  return 0;
}

int crash_store::exchange(const path& one, const path& other, stamp by) {
  std::lock_guard lock(mutex_);
  node_id first_folder = 0, second_folder = 0;
  std::string first_name, second_name;
  if (int failure = place(one, first_folder, first_name)) return failure;
  if (int failure = place(other, second_folder, second_name)) return failure;
  auto first = live_.find(parts_of(one)), second = live_.find(parts_of(other));
  if (first == 0 || second == 0) return ENOENT;
  if (lies_in(parts_of(one), parts_of(other)) || lies_in(parts_of(other), parts_of(one)))
    return EINVAL;
  log({.kind = change_kind::names,
       .edits = {{first_folder, first_name, second, live_.nodes.at(second).folder},
                 {second_folder, second_name, first, live_.nodes.at(first).folder}},
       .by = by,
       .text = texts_ ? fmt::format("exchange {} and {}", one.string(), other.string()) : ""});
  return 0;
}

int crash_store::remove(const path& name, bool folder, stamp by) {
  std::lock_guard lock(mutex_);
  node_id in = 0;
  std::string last;
  if (int failure = place(name, in, last)) return failure;
  auto node = live_.find(parts_of(name));
  if (node == 0) return ENOENT;
  if (live_.nodes.at(node).folder != folder) return folder ? ENOTDIR : EISDIR;
  if (!live_.nodes.at(node).names.empty()) return ENOTEMPTY;
  log({.kind = change_kind::names,
       .edits = {{in, last, 0, folder}},
       .by = by,
       .text = texts_ ? "remove " + name.string() : ""});
  return 0;
}

void crash_store::set_outage(const path& top, outage how) {
  std::lock_guard lock(mutex_);
  const auto parts = parts_of(top);
  assert(parts.size() == 1);
  ++names_version_;
  if (how == outage::none) {
    outages_.erase(std::string(parts[0]));
  } else {
    outages_[std::string(parts[0])] = how;
  }
}

file_lock crash_store::hold(node_id node) {
  std::lock_guard guard(mutex_);
  ++held_[node];
  const auto let_go = [store = weak_from_this(), node](const void*) {
    const auto there = store.lock();
    if (!there) return;
    std::lock_guard again(there->mutex_);
    if (--there->held_[node] == 0) there->held_.erase(node);
  };
  return {this, let_go};
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

int crash_store::find_folder(const path& name, node_id& node) const {
  std::lock_guard lock(mutex_);
  return folder_at(name, node);
}

int crash_store::list(const path& folder, std::vector<dir_entry>& found) const {
  std::lock_guard lock(mutex_);
  node_id node = 0;
  if (int failure = folder_at(folder, node)) return failure;
  for (const auto& [name, id] : live_.nodes.at(node).names) {
    const auto& there = live_.nodes.at(id);
    found.push_back({name, there.folder, there.bytes->size()});
  }
  return 0;
}

int crash_store::sync_dir(const path& folder, stamp by) {
  std::lock_guard lock(mutex_);
  node_id node = 0;
  if (int failure = folder_at(folder, node)) return failure;
  const bool ignored = sync_ignored();
  log({.kind = change_kind::sync_dir,
       .node = node,
       .outcome = ignored ? sync_outcome::ignored : sync_outcome::covers,
       .by = by,
       .text = texts_
                   ? fmt::format("sync folder {}{}", folder.string(), ignored ? " (ignored)" : "")
                   : ""});
  return 0;
}

}  // namespace troupe::io

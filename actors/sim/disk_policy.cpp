// Written, synced, renamed, lost.
#include "actors/sim/disk_policy.hpp"

#include <utility>

namespace troupe::sim {

void disk_policy::make_folder(const std::string& name, int) {
  folders_[name] = {};
}

bool disk_policy::write(const std::string& name, const std::string& what, int writer) {
  const auto it = folders_.find(name);
  if (it == folders_.end()) return false;
  it->second.files[what] = {writer, false, false};
  return true;
}

bool disk_policy::sync(const std::string& name, const std::string& what) {
  const auto it = folders_.find(name);
  if (it == folders_.end()) return false;
  const auto f = it->second.files.find(what);
  if (f == it->second.files.end()) return false;
  f->second.synced = true;
  return true;
}

bool disk_policy::rename(const std::string& from, const std::string& to, int writer) {
  auto node = folders_.extract(from);
  if (!node) return false;
  folders_.erase(to);
  node.key() = to;
  node.mapped().renamed_by = writer;
  node.mapped().name_before = from;
  folders_.insert(std::move(node));
  ++changes_;
  return true;
}

void disk_policy::describe(const std::string& name, io::checkpoint::manifest_head head) {
  const auto it = folders_.find(name);
  if (it != folders_.end()) it->second.head = std::move(head);
}

void disk_policy::remove(const std::string& name) {
  folders_.erase(name);
  ++changes_;
}

void disk_policy::settle() {
  for (auto& [name, f] : folders_) f.renamed_by = -1;
  ++changes_;
}

void disk_policy::crash(int writer, dice& lot) {
  std::vector<std::pair<std::string, std::string>> undone;
  for (auto& [name, f] : folders_) {
    for (auto& [what, bytes] : f.files)
      if (bytes.writer == writer && !bytes.synced && lot.chance(0.5)) bytes.torn = true;  // DSK-1
    if (f.renamed_by == writer && lot.chance(0.5)) undone.emplace_back(name, f.name_before);
  }
  for (const auto& [name, before] : undone) {
    auto node = folders_.extract(name);
    node.key() = before;
    node.mapped().renamed_by = -1;
    folders_.insert(std::move(node));
  }
  ++changes_;
}

std::vector<std::string> disk_policy::folders(const std::string& prefix) const {
  std::vector<std::string> out;
  for (const auto& [name, f] : folders_)
    if (name.starts_with(prefix)) out.push_back(name);
  return out;
}

std::vector<std::string> disk_policy::torn(const std::string& name) const {
  std::vector<std::string> out;
  const auto it = folders_.find(name);
  if (it == folders_.end()) return out;
  for (const auto& [what, f] : it->second.files)
    if (f.torn) out.push_back(what);
  return out;
}

bool disk_policy::settled(const std::string& name) const {
  const auto it = folders_.find(name);
  return it != folders_.end() && it->second.renamed_by == -1;
}

std::optional<io::checkpoint::manifest_head> disk_policy::head_of(const std::string& name) const {
  const auto it = folders_.find(name);
  return it == folders_.end() ? std::nullopt : it->second.head;
}

bool disk_policy::has(const std::string& name, const std::string& what) const {
  const auto it = folders_.find(name);
  return it != folders_.end() && it->second.files.contains(what);
}

}  // namespace troupe::sim

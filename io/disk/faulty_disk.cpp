// Faults by plan and by random over a crash_store: see faulty_disk.hpp.
#include "io/disk/faulty_disk.hpp"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::io {

namespace {

status answered(int failure, std::string_view doing, const std::filesystem::path& name) {
  return failure == 0 ? status{} : status{disk_error(doing, name, failure)};
}

}  // namespace

faulty_disk::faulty_disk(std::shared_ptr<crash_store> store, faulty_options options)
    : disk(options.depth),
      store_(std::move(store)),
      options_(std::move(options)),
      lot_(options_.seed) {
  facts_.backend = "faulty";
  if (!options_.clock) options_.clock = std::make_shared<virtual_clock>();
}

faulty_disk::~faulty_disk() {
  options_.wait_moves_clock = true;
  options_.clock = std::make_shared<virtual_clock>();  // nobody's time passes while it goes
  drain(std::chrono::hours(1));
}

disk::nanoseconds faulty_disk::now() const {
  return nanoseconds{options_.clock->now()};
}

stamp faulty_disk::after(nanoseconds takes) {
  const int64_t now_ns = options_.clock->now() + takes.count();
  if (takes.count() > 0) options_.clock->move_to(now_ns);
  return {options_.writer, now_ns};
}

// -- faults ---------------------------------------------------------------------------------------

const planned_fault* faulty_disk::planned(fault_site site, const std::string& file) {
  const int of_all = ++counts_[site], of_file = ++counts_of_files_[{site, file}];
  for (const auto& fault : options_.plan) {
    if (fault.site != site || (!fault.file.empty() && fault.file != file)) continue;
    const int turn = fault.file.empty() ? of_all : of_file;
    if (turn >= fault.nth && turn < fault.nth + fault.times) return &fault;
  }
  return nullptr;
}

int faulty_disk::refused(fault_site site) {
  if (ended()) return EIO;
  const auto* fault = planned(site);
  return fault == nullptr ? 0 : fault->failure;
}

bool faulty_disk::by_chance(double chance) {
  if (chance <= 0) return false;  // no draw: a plan alone does not depend on the seed
  return std::uniform_real_distribution<double>(0, 1)(lot_) < chance;
}

// -- files ----------------------------------------------------------------------------------------

result<disk::opened> faulty_disk::raw_open(const path& name, const open_options& options) {
  crash_store::node_id node = 0;
  int failure = refused(fault_site::open);
  const auto by = after(nanoseconds{0});
  if (failure == 0) failure = store_->open(name, options.mode, node, by);
  if (failure != 0) return disk_error("open", name, failure);
  if (options.preallocate > 0) failure = store_->reserve(node, options.preallocate, by);
  if (failure != 0)
    return disk_error(fmt::format("reserve {} bytes for", options.preallocate), name, failure);
  if (options.direct && options_.refuse_direct)
    warn(fmt::format("no O_DIRECT in {}: through the page cache", name.parent_path().string()));
  handles_[++last_handle_] = {node, store_->hold(node), name.filename().string()};
  return opened{last_handle_, options.direct && !options_.refuse_direct};
}

void faulty_disk::raw_close(int file) {
  handles_.erase(file);
}

int faulty_disk::raw_look(int file, file_facts& facts) const {
  return ended() ? EIO : store_->look(handles_.at(file).node, facts);
}

int64_t faulty_disk::move(const raw_request& request, stamp by, const planned_fault* fault) {
  auto node = handles_.at(request.handle).node;
  auto bytes = request.bytes;
  bool writes = request.op == disk_op::write;
  if (fault != nullptr && fault->effect == fault_effect::shorten)
    bytes = bytes.first(std::min(bytes.size(), fault->bytes));
  if (by_chance(options_.interrupted)) return -EINTR;
  if (by_chance(writes ? options_.write_error : options_.read_error) ||
      (fault != nullptr && fault->effect == fault_effect::fail)) {
    int failure = fault != nullptr ? fault->failure : EIO;
    if (writes && failure == EIO) store_->write_and_fail(node, request.offset, bytes, by);
    return -failure;
  }
  if (bytes.size() > 1 && by_chance(options_.short_move))
    bytes = bytes.first(lot_() % bytes.size());
  if (bytes.empty()) return writes ? 0 : -EINTR;  // a read of nothing would mean the end
  if (writes) return store_->write(node, request.offset, bytes, by);
  const auto moved = store_->read(node, request.offset, bytes);
  if (fault != nullptr && fault->effect == fault_effect::invert && moved > 0)
    for (auto& byte : bytes.first(static_cast<size_t>(moved))) byte = ~byte;
  return moved;
}

int64_t faulty_disk::carry_out(const raw_request& request, stamp by, bool& lost) {
  if (ended()) return -EIO;
  auto site = request.op == disk_op::write  ? fault_site::write
              : request.op == disk_op::read ? fault_site::read
                                            : fault_site::fdatasync;
  const auto* fault = planned(site, handles_.at(request.handle).name);
  lost = by_chance(options_.lost) || (fault != nullptr && fault->effect == fault_effect::lose);
  if (request.op == disk_op::fdatasync) {
    auto node = handles_.at(request.handle).node;
    bool fails =
        by_chance(options_.sync_error) || (fault != nullptr && fault->effect == fault_effect::fail);
    if (fails) return -store_->fail_sync_file(node, fault != nullptr ? fault->failure : EIO, by);
    return lost ? 0 : -store_->sync_file(node, by);
  }
  return move(request, by, fault);
}

void faulty_disk::raw_submit(const raw_request& request) {
  const int64_t now_ns = options_.clock->now();
  int64_t busy_until_ns = busy_until_ns_;
  int64_t at_ns = now_ns + options_.latency.count();
  if (options_.bytes_per_second > 0) {
    auto moving = static_cast<double>(request.bytes.size()) / options_.bytes_per_second * 1e9;
    busy_until_ns = std::max(busy_until_ns, now_ns) + static_cast<int64_t>(moving);
    at_ns += busy_until_ns - now_ns;
  }
  bool lost = false;
  int64_t value = carry_out(request, {options_.writer, at_ns}, lost);  // FD-3
  if (lost) return;
  busy_until_ns_ = busy_until_ns;
  due_.push_back({at_ns, {request.id, value}});
}

void faulty_disk::move_clock(nanoseconds until) {
  int64_t to = until.count();
  for (const auto& d : due_) to = std::min(to, d.at_ns);
  options_.clock->move_to(to);
}

bool faulty_disk::raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) {
  auto is_due = [&](const due& d) { return d.at_ns <= options_.clock->now(); };
  bool woken = woken_.exchange(false);
  if (block && !woken && std::none_of(due_.begin(), due_.end(), is_due)) {
    if (!options_.wait_moves_clock) return true;  // FD-2
    move_clock(until);
  }
  auto ready = std::stable_partition(due_.begin(), due_.end(), [&](auto& d) { return !is_due(d); });
  std::vector<due> now(ready, due_.end());
  due_.erase(ready, due_.end());
  if (options_.reorder && now.size() > 1) {
    std::shuffle(now.begin(), now.end(), lot_);
    due_.insert(due_.end(), now.begin() + 1, now.end());
    now.resize(1);
  } else {
    std::stable_sort(now.begin(), now.end(),
                     [](const due& a, const due& b) { return a.at_ns < b.at_ns; });
  }
  for (const auto& d : now) answers.push_back(d.answer);
  return woken;
}

// -- names ----------------------------------------------------------------------------------------

result<bool> faulty_disk::make_dir(const path& name) {
  int failure = refused(fault_site::make_dir);
  const auto by = after(options_.name_latency);
  if (failure == 0) {
    failure = store_->make_dir(name, by);
    crash_store::node_id there = 0;
    if (failure == EEXIST && store_->find_folder(name, there) == 0) return false;
  }
  if (failure != 0) return disk_error("make folder", name, failure);
  return true;
}

status faulty_disk::rename(const path& from, const path& to) {
  int failure = refused(fault_site::rename);
  const auto by = after(options_.name_latency);
  if (failure == 0) failure = store_->rename(from, to, /*replace=*/true, by);
  return answered(failure, fmt::format("rename {} to", from.string()), to);
}

result<bool> faulty_disk::rename_to_free(const path& from, const path& to) {
  int failure = refused(fault_site::rename);
  const auto by = after(options_.name_latency);
  if (failure == 0) failure = store_->rename(from, to, /*replace=*/false, by);
  if (failure == EEXIST) return false;
  TROUPE_CHECK(answered(failure, fmt::format("rename {} to", from.string()), to));
  return true;
}

status faulty_disk::link(const path& file, const path& name) {
  int failure = refused(fault_site::link);
  const auto by = after(options_.name_latency);
  if (failure == 0) failure = store_->link(file, name, by);
  return answered(failure, fmt::format("link {} as", file.string()), name);
}

/// Byte by byte, which to whoever looks at the files is the same; a power cut before its end leaves
/// a part of it, which no clone does.
status faulty_disk::clone(const path& file, const path& name) {
  int failure = refused(fault_site::clone);
  const auto by = after(options_.name_latency);
  if (failure == 0 && !options_.clones) failure = EOPNOTSUPP;
  crash_store::node_id from = 0, to = 0;
  if (failure == 0) failure = store_->open(file, open_mode::read, from, by);
  if (failure == 0) failure = store_->open(name, open_mode::create, to, by);
  if (failure == 0) {
    std::vector<std::byte> bytes(store_->size(from));
    const auto read = store_->read(from, 0, bytes);
    const auto written = read < 0 ? read : store_->write(to, 0, bytes, by);
    if (written < 0)
      failure = static_cast<int>(-written);
    else if (static_cast<uint64_t>(written) < bytes.size())
      failure = ENOSPC;
    else
      failure = store_->sync_file(to, by);
  }
  return answered(failure, fmt::format("clone {} as", file.string()), name);
}

result<uint64_t> faulty_disk::names_of(const path& file) const {
  const auto names = store_->names_of(file);
  if (names == 0) return answered(ENOENT, "look at", file).error();
  return names;
}

status faulty_disk::exchange(const path& one, const path& other) {
  int failure = refused(fault_site::exchange);
  const auto by = after(options_.name_latency);
  if (failure == 0) failure = store_->exchange(one, other, by);
  return answered(failure, fmt::format("exchange {} with", one.string()), other);
}

status faulty_disk::remove_name(const path& name, bool folder) {
  int failure = refused(fault_site::remove);
  const auto by = after(options_.name_latency);
  if (failure == 0) failure = store_->remove(name, folder, by);
  return answered(failure, "remove", name);
}

result<std::vector<std::string>> faulty_disk::to_remove(const path& name, const claim& ours) {
  TROUPE_TRY(entries, list(name));
  std::vector<folder_item> all;
  for (const auto& e : entries)
    all.push_back({e.name, e.folder ? folder_item::type::folder : folder_item::type::file});
  return removal_order(all, ours);
}

status faulty_disk::check_removal(const path& name, const claim& ours) {
  TROUPE_CHECK(to_remove(name, ours));
  return {};
}

status faulty_disk::remove_folder(const path& name, const claim& ours) {
  TROUPE_TRY(order, to_remove(name, ours));
  for (size_t i = 0; i < order.size(); ++i) {
    if (begins_to_forget(order, i, ours)) TROUPE_CHECK(sync_dir(name));  // OWN-4
    TROUPE_CHECK(remove_name(name / order[i], false));
  }
  return remove_name(name, true);
}

result<std::vector<dir_entry>> faulty_disk::list(const path& folder) {
  std::vector<dir_entry> found;
  int failure = refused(fault_site::list);
  if (failure == 0) failure = store_->list(folder, found);
  if (failure != 0) return disk_error("list", folder, failure);
  return found;
}

status faulty_disk::sync_dir(const path& folder) {
  int failure = refused(fault_site::sync_dir);
  const auto by = after(options_.name_latency);
  if (failure == 0) failure = store_->sync_dir(folder, by);
  return answered(failure, "fsync folder", folder);
}

/// A store has no links.
result<std::filesystem::path> faulty_disk::canonical(const path& name) {
  crash_store::node_id node = 0;
  if (store_->find_folder(name, node) != 0) TROUPE_CHECK(open_to_read(name));
  return ("/" / name).lexically_normal();
}

result<folder_identity> faulty_disk::identity(const path& folder) {
  crash_store::node_id node = 0;
  const int failure = store_->find_folder(folder, node);
  if (failure != 0) return disk_error("look at", folder, failure);
  return folder_identity{0, node};
}

status faulty_disk::point_link(const path&, const std::string&,
                               const std::function<bool(const std::string&)>&) {
  return {};
}

result<crash_store::node_id> faulty_disk::open_to_read(const path& name) const {
  crash_store::node_id node = 0;
  const int failure = store_->open(name, open_mode::read, node);
  if (failure == EISDIR)
    return error{errc::bad_data, fmt::format("{} is not a regular file", name.string())};
  if (failure != 0) return disk_error("open", name, failure);
  return node;
}

namespace {

/// A file of a store, as it is when it is read.
class stored_file final : public source_file {
 public:
  stored_file(std::shared_ptr<crash_store> store, crash_store::node_id node, std::string name)
      : store_(std::move(store)),
        node_(node),
        held_(store_->hold(node)),
        size_(store_->size(node)),
        name_(std::move(name)) {}

  uint64_t size() const noexcept override { return size_; }
  status read_at(uint64_t offset, std::span<std::byte> out) const override {
    const auto moved = store_->read(node_, offset, out);
    if (moved == static_cast<int64_t>(out.size())) return {};
    if (moved < 0)
      return error::system(fmt::format("read {} at {}", name_, offset), static_cast<int>(-moved));
    return file_ends(name_, offset + static_cast<uint64_t>(moved));
  }

 private:
  std::shared_ptr<crash_store> store_;
  crash_store::node_id node_;
  file_lock held_;
  uint64_t size_;
  std::string name_;
};

}  // namespace

result<std::shared_ptr<const source_file>> faulty_disk::open_source(const path& name, pages) {
  TROUPE_TRY(node, open_to_read(name));
  return std::shared_ptr<const source_file>(
      std::make_shared<stored_file>(store_, node, name.filename().string()));
}

result<file_lock> faulty_disk::read_lock(const path& file) {
  TROUPE_TRY(node, open_to_read(file));
  return store_->lock(node, false);
}

result<file_lock> faulty_disk::exclude_readers(const path& file) {
  const auto node = open_to_read(file);
  if (!node) return file_lock{};
  auto lock = store_->lock(*node, true);
  if (!lock) return being_read(file.parent_path().string());
  return lock;
}

result<std::string> faulty_disk::read_small(const path& name, size_t most) {
  TROUPE_TRY(node, open_to_read(name));
  auto size = store_->size(node);
  if (size > most)
    return error{errc::bad_data, fmt::format("{} has {} bytes, more than the {} expected at most",
                                             name.string(), size, most)};
  std::string content(size, '\0');
  auto into = std::as_writable_bytes(std::span(content));
  const auto moved = store_->read(node, 0, into);
  if (moved < 0) return disk_error("read", name, static_cast<int>(-moved));
  content.resize(static_cast<size_t>(moved));
  return content;
}

status faulty_disk::write_small(const path& name, std::string_view content, durable sync) {
  int failure = refused(fault_site::write_small);
  const auto by = after(options_.name_latency);
  crash_store::node_id node = 0;
  if (failure == 0) failure = store_->open(name, open_mode::replace, node, by);
  if (failure != 0) return disk_error("open", name, failure);
  if (!content.empty()) {
    const auto moved = store_->write(node, 0, as_bytes(content), by);
    if (moved < 0) return disk_error("write", name, static_cast<int>(-moved));
    if (moved != static_cast<int64_t>(content.size())) return disk_error("write", name, ENOSPC);
  }
  if (sync == durable::no) return {};
  failure = refused(fault_site::fdatasync);
  const auto synced = after(options_.latency);
  failure = failure != 0 ? store_->fail_sync_file(node, failure, synced)
                         : store_->sync_file(node, synced);
  return answered(failure, "fdatasync of", name);
}

}  // namespace troupe::io

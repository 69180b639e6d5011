// Record, group, threads, quota, and back; see thread_quota.hpp.
#include "gpu/controls/thread_quota.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "gpu/controls/control_journal.hpp"
#include "gpu/controls/restore.hpp"
#include "io/file.hpp"
#include "io/machine/available_memory.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view switches_file = "cgroup.subtree_control";
constexpr std::string_view period_file = "cpu.cfs_period_us";  // of version 1

/// The name of its record.
std::string name_of(const control_record& r) {
  return fs::path(r.group).filename().string();
}

bool has_cpu(const fs::path& list) {
  return lists(io::kernel_text(list.string()), "cpu");
}

/// CTQ-3
bool is_below(const fs::path& mount, const fs::path& group) {
  const auto from = group.lexically_relative(mount);
  return !from.empty() && *from.begin() != ".." && from != ".";
}

/// Whether another group of ours counts on the controller that was turned on in this one.
bool is_needed_in(const fs::path& parent) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(parent, code))
    if (entry.path().filename().string().starts_with(group_prefix) && entry.is_directory(code))
      return true;
  return false;
}

/// Numbers of the threads in a group. A line that is cut off is left for another look.
std::vector<std::string> threads_inside(const fs::path& list) {
  std::vector<std::string> out;
  std::istringstream in(io::kernel_text(list.string()));
  for (std::string thread; std::getline(in, thread) && !in.eof();) out.push_back(thread);
  return out;
}

/// CTQ-2. Those that the named ones have started are in the group, too, and may start others
/// meanwhile.
void take_out(const control_place& at, const control_record& r) {
  constexpr int looks = 8;
  const fs::path group(r.group);
  const auto outside = group.parent_path() / threads_file(r.version);
  for (int look = 0; look < looks; ++look) {
    const auto inside = threads_inside(group / threads_file(r.version));
    if (inside.empty()) return;
    for (const auto& thread : inside)  // one that has ended meanwhile is in no group
      static_cast<void>(at.groups->write(outside, thread));
  }
}

/// Of all groups above that are seen here (CGP-3).
std::optional<int64_t> allowed_above(const control_place& at, const control_record& r) {
  std::optional<int64_t> least;
  if (r.version == cgroup_version::two) return least;  // takes any: the least one holds
  for (auto group = fs::path(r.group).parent_path(); is_below(at.mount, group);
       group = group.parent_path()) {
    const auto allowed = allowed_us(io::kernel_text((group / quota_file(r.version)).string()),
                                    io::kernel_text((group / period_file).string()));
    if (allowed) least = std::min(*allowed, least.value_or(*allowed));
  }
  return least;
}

/// The group that the process is in; where its path is of another namespace the mount is.
result<cgroup_place> place_here(const control_place& at) {
  auto place = cpu_place(own_groups(at), at.mount);
  if (!place) return no_cpu_controller(at.mount.string());
  std::error_code code;
  if (!fs::is_directory(place->group, code)) place->group = place->root;
  const bool there = place->version == cgroup_version::one
                         ? fs::exists(place->group / quota_file(place->version), code)
                         : has_cpu(place->group / "cgroup.controllers");
  if (!there) return no_cpu_controller(place->group.string());
  return *std::move(place);
}

std::vector<control_record> records_in(const control_place& at) {
  std::vector<control_record> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(at.records, code))
    if (entry.path().extension() == record_suffix)
      if (const auto text = io::read_file(entry.path(), record_bytes))
        if (auto r = parse_record(*text)) out.push_back(std::move(*r));
  return out;
}

/// Whether the controller is to be turned off with the last group: it is off, or was turned on for
/// another group here.
bool turns_on(const control_place& at, const cgroup_place& place) {
  if (place.version == cgroup_version::one) return false;
  if (!has_cpu(place.group / switches_file)) return true;
  return std::ranges::any_of(records_in(at), [&](const control_record& r) {
    return r.turned_on && fs::path(r.group).parent_path() == place.group;
  });
}

control_record record_for(const control_place& at, const cgroup_place& place,
                          const control_owner& owner) {
  static std::atomic<uint64_t> made{0};
  auto r = new_record(at, owner);
  r.version = place.version;
  r.group = (place.group / group_name(r.pid, made++)).string();
  r.turned_on = turns_on(at, place);
  return r;
}

}  // namespace

bool holds_threads(const control_record& r) {
  return !threads_inside(fs::path(r.group) / threads_file(r.version)).empty();
}

status undo_quota(const control_place& at, const control_record& r) {
  const fs::path group(r.group);
  const auto parent = group.parent_path();
  if (!is_below(at.mount, group))
    return error{errc::permission, r.group + " is not below " + at.mount.string()};
  if (is_seen_here(at, r)) {  // else threads may be in it that nobody sees here (CTQ-3)
    static_cast<void>(
        at.groups->write(group / quota_file(r.version), quota_text(r.version, std::nullopt)));
    take_out(at, r);
  }
  const auto held = hold_group(at, parent);  // CTQ-4; nor is a group removed that is being filled
  TROUPE_CHECK(with_remedy(at.groups->remove(group)));
  if (r.turned_on && !is_needed_in(parent) && has_cpu(parent / switches_file))
    TROUPE_CHECK(at.groups->write(parent / switches_file, "-cpu"));
  return forget_record(record_file(at.records, name_of(r)));
}

result<std::unique_ptr<thread_quota>> thread_quota::make(const control_place& at,
                                                         const control_owner& owner,
                                                         std::span<const int> threads) {
  if (threads.empty()) return no_computing_threads("cgroup");
  if (at.records.empty()) return quota_refused("there is no folder for what is to be undone");
  // What cannot be undone is tried again, and by restore; what an agent has left stays (CRE-3).
  static_cast<void>(restore(at, false, left_by::jobs));
  TROUPE_TRY(place, place_here(at));
  std::unique_ptr<thread_quota> out;
  status begun;
  {
    const auto held = hold_group(at, place.group);  // CTQ-4; not while `out` is undone
    const auto record = record_for(at, place, owner);
    if (const auto kept = keep_record(at.records, name_of(record), record); !kept)
      return quota_refused(kept.error().message);
    out.reset(new thread_quota(at, record, threads));
    begun = out->begin();
  }
  if (!begun) return quota_refused(begun.error().message);
  TROUPE_CHECK(out->set(whole_pace - 1));  // one that is refused is so now, not in a step
  return out;
}

status thread_quota::begin() {
  const fs::path group(record_.group);
  TROUPE_CHECK(at_.groups->make(group));
  if (record_.version == cgroup_version::two) {
    TROUPE_CHECK(at_.groups->write(group / "cgroup.type", "threaded"));
    if (!has_cpu(group.parent_path() / switches_file))
      TROUPE_CHECK(at_.groups->write(group.parent_path() / switches_file, "+cpu"));
  } else {
    TROUPE_CHECK(at_.groups->write(group / period_file, fmt::format("{}", quota_period_us)));
  }
  for (const int thread : threads_)
    TROUPE_CHECK(
        at_.groups->write(group / threads_file(record_.version), fmt::format("{}", thread)));
  return {};
}

thread_quota::~thread_quota() {
  end();
}

status thread_quota::write_quota(std::optional<int64_t> quota) {
  const fs::path group(record_.group);
  const auto file = group / quota_file(record_.version);
  const auto text = quota_text(record_.version, quota);
  const auto written = at_.groups->write(file, text);
  if (written || written.error().code != errc::not_found || record_.version == cgroup_version::one)
    return written;
  TROUPE_CHECK(at_.groups->write(group.parent_path() / switches_file, "+cpu"));  // CTQ-4
  return at_.groups->write(file, text);
}

status thread_quota::set(int pace_of_1024) {
  std::lock_guard lock(mutex_);
  if (over_ || pace_of_1024 == pace_of_1024_) return {};
  const auto quota = quota_within(quota_us(pace_of_1024, static_cast<int>(threads_.size())),
                                  allowed_above(at_, record_));
  const auto began = std::chrono::steady_clock::now();
  const auto written = write_quota(quota);
  if (written) took_.add((std::chrono::steady_clock::now() - began) / std::chrono::nanoseconds(1));
  if (!written && record_.version == cgroup_version::one && written.error().kind == "EINVAL")
    return quota_over_limit(written.error().message);
  if (!written) return quota_refused(written.error().message);
  pace_of_1024_ = pace_of_1024;
  return {};
}

actuator_facts thread_quota::facts() const {
  std::lock_guard lock(mutex_);
  return with_delays(quota_facts(static_cast<int>(threads_.size())), took_);
}

void thread_quota::end() noexcept {
  std::lock_guard lock(mutex_);
  if (std::exchange(over_, true)) return;
  static_cast<void>(undo_quota(at_, record_));  // else the record stays, for the next one
}

}  // namespace troupe::gpu::controls

// inotify on the folders of checkpoints, on the output, and on each partial folder in them.
#include "tests/cluster/moments.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/checkpoint/catalog.hpp"

namespace troupe::cluster_test {

namespace fs = std::filesystem;

namespace {

bool is_shard(const std::string& name) {
  return name.starts_with("rank-");
}

}  // namespace

int times(const std::string& text, std::string_view part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string_view to_string(sight what) {
  constexpr std::string_view names[sights] = {"launch", "opening",  "step",   "partial", "shard",
                                              "write",  "manifest", "commit", "removal", "deletion",
                                              "copy",   "copied",   "aside",  "publish"};
  return names[static_cast<size_t>(what)];
}

std::string render(const moment& m) {
  return fmt::format("after {} {} and {} us", to_string(m.what), m.count, m.after.count());
}

std::chrono::microseconds draw_spin(std::mt19937_64& random, double most_us) {
  const double exponent = static_cast<double>(random() % 1000) / 1000 * std::log(most_us);
  return std::chrono::microseconds(static_cast<int64_t>(std::exp(exponent)) - 1);
}

void spin(std::chrono::microseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) continue;
}

namespace {

constexpr double most_of_save_us = 30'000;  ///< a save takes some milliseconds
constexpr double most_of_names_us = 100;    ///< files are removed, and renamed, in much less

}  // namespace

moment draw_moment(std::mt19937_64& random, bool removals) {
  auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
  // Most moments are of a save, few of the start; removals come last.
  constexpr sight often[] = {sight::launched, sight::open,    sight::step,     sight::step,
                             sight::partial,  sight::shard,   sight::shard,    sight::write,
                             sight::write,    sight::write,   sight::manifest, sight::manifest,
                             sight::commit,   sight::commit,  sight::removal,  sight::deletion,
                             sight::deletion, sight::deletion};
  constexpr size_t of_removals = 4;
  moment m;
  m.what = often[below(std::size(often) - (removals ? 0 : of_removals))];
  m.count = 1 + below(m.what == sight::write || m.what == sight::shard ? 9 : 3);
  if (m.what == sight::launched || m.what == sight::open) m.count = 1;
  m.after = draw_spin(random, m.what == sight::deletion ? most_of_names_us : most_of_save_us);
  return m;
}

moment draw_moment_of(std::mt19937_64& random, sight what) {
  moment m{what, 1, draw_spin(random, what == sight::copy ? 1000 : most_of_names_us)};
  if (what == sight::copy) m.count += static_cast<int>(random() % 9);
  if (what == sight::publish) m.count += static_cast<int>(random() % 4);
  return m;
}

lookout::lookout(const fs::path& first, const fs::path& second, const fs::path& output)
    : first_(first), second_(second), output_(output) {
  events_ = io::unique_fd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  REQUIRE(events_);
  on_first_ = watch_folder(first);
  for (const auto& e : fs::directory_iterator(first))
    if (e.is_directory() && !e.is_symlink()) enter(e.path(), inside_);
  if (!second.empty()) on_second_ = watch_folder(second);
  if (!output.empty()) on_output_ = watch_folder(output);
}

int lookout::watch_folder(const fs::path& folder) {
  fs::create_directories(folder);
  const int watch = inotify_add_watch(events_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO);
  REQUIRE(watch >= 0);
  return watch;
}

int lookout::enter(const fs::path& inner, std::set<int>& into) {
  const int watch =
      inotify_add_watch(events_.get(), inner.c_str(), IN_CREATE | IN_MODIFY | IN_DELETE);
  if (watch >= 0) into.insert(watch);  // else it is gone already
  return watch;
}

/// What got into it before it was watched counts as well.
void lookout::enter_and_count(const fs::path& inner, std::set<int>& into) {
  const int watch = enter(inner, into);
  std::error_code ignored;
  for (const auto& e : fs::directory_iterator(inner, ignored))
    take(watch, IN_CREATE, e.path().filename().string());
}

void lookout::take(int watch, uint32_t mask, const std::string& name) {
  if (watch == on_first_) return take_of_first(mask, name);
  if (watch == on_second_) return take_of_second(mask, name);
  if (watch == on_output_) return take_of_output(mask, name);
  if (inside_.contains(watch)) return take_inside(mask, name);
  if ((mask & (IN_CREATE | IN_MODIFY)) == 0) return;
  if (in_copy_.contains(watch)) count(sight::copy);
  if (in_export_.contains(watch)) count(sight::publish);
}

void lookout::take_of_first(uint32_t mask, const std::string& name) {
  using state = io::checkpoint::folder_state;
  const auto what = io::checkpoint::parse_folder_name(name);
  if (!what) return;
  if ((mask & IN_CREATE) != 0 && what->state == state::partial) {
    count(sight::partial);
    enter_and_count(first_ / name, inside_);
  }
  if ((mask & IN_MOVED_TO) == 0) return;
  if (what->state == state::complete) count(sight::commit);
  if (what->state == state::deleting) count(sight::removal);
  if (what->state == state::aside) count(sight::aside);
}

void lookout::take_of_second(uint32_t mask, const std::string& name) {
  using state = io::checkpoint::folder_state;
  const auto what = io::checkpoint::parse_folder_name(name);
  if (!what) return;
  if ((mask & IN_CREATE) != 0 && what->state == state::partial) {
    count(sight::copy);
    enter_and_count(second_ / name, in_copy_);
  }
  if ((mask & IN_MOVED_TO) == 0) return;
  if (what->state == state::complete) count(sight::copied);
  if (what->state == state::aside) count(sight::aside);
}

void lookout::take_of_output(uint32_t mask, const std::string& name) {
  if ((mask & IN_CREATE) != 0 && name == "model.partial") {
    count(sight::publish);
    enter_and_count(output_ / name, in_export_);
  }
  if ((mask & IN_MOVED_TO) != 0 && name == "model") count(sight::publish);
}

void lookout::take_inside(uint32_t mask, const std::string& name) {
  if ((mask & IN_CREATE) != 0 && is_shard(name)) count(sight::shard);
  if ((mask & IN_CREATE) != 0 && name == "MANIFEST") count(sight::manifest);
  if ((mask & IN_MODIFY) != 0 && is_shard(name)) count(sight::write);
  if ((mask & IN_DELETE) != 0) count(sight::deletion);
}

void lookout::look() {
  alignas(inotify_event) char bytes[16384];
  for (;;) {
    const auto n = read(events_.get(), bytes, sizeof(bytes));
    if (n <= 0) return;
    for (ssize_t at = 0; at < n;) {
      inotify_event e;
      std::memcpy(&e, bytes + at, sizeof(e));
      take(e.wd, e.mask, e.len > 0 ? bytes + at + sizeof(e) : "");
      at += static_cast<ssize_t>(sizeof(e) + e.len);
    }
  }
}

int lookout::seen(const program& p, sight what) {
  look();
  if (what == sight::launched) return 1;
  if (what == sight::open) return p.port() != 0 ? 1 : 0;
  if (what == sight::step) return times(p.out(), "\"type\":\"step\"");
  return counts_[static_cast<size_t>(what)];
}

bool lookout::await(program& p, const moment& m) {
  if (!p.until([&] { return seen(p, m.what) >= m.count; }, events_.get())) return false;
  spin(m.after);
  return true;
}

bool lookout::await_next(program& p, moment m) {
  m.count += seen(p, m.what);
  return await(p, m);
}

}  // namespace troupe::cluster_test

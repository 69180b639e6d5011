// inotify on the folder of checkpoints and on each partial one.
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

int times(const std::string& text, std::string_view part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

std::string_view to_string(sight what) {
  constexpr std::string_view names[sights] = {"launch",  "opening", "step",     "partial",
                                              "shard",   "write",   "manifest", "commit",
                                              "removal", "deletion"};
  return names[static_cast<size_t>(what)];
}

std::string render(const moment& m) {
  return fmt::format("after {} {} and {} us", to_string(m.what), m.count, m.after.count());
}

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
  // From none to 30 ms, small ones as often as large ones: a save takes some milliseconds. A
  // folder's files are removed in much less than one.
  const double most_us = m.what == sight::deletion ? 100 : 30'000;
  const double exponent = static_cast<double>(below(1000)) / 1000 * std::log(most_us);
  m.after = std::chrono::microseconds(static_cast<int64_t>(std::exp(exponent)) - 1);
  return m;
}

lookout::lookout(const fs::path& folder) : folder_(folder) {
  fs::create_directories(folder);
  events_ = io::unique_fd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  REQUIRE(events_);
  on_folder_ = inotify_add_watch(events_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO);
  REQUIRE(on_folder_ >= 0);
  for (const auto& e : fs::directory_iterator(folder)) enter(e.path());
}

int lookout::enter(const fs::path& inner) {
  const int watch =
      inotify_add_watch(events_.get(), inner.c_str(), IN_CREATE | IN_MODIFY | IN_DELETE);
  if (watch >= 0) inside_.insert(watch);  // else it is gone already
  return watch;
}

void lookout::take(int watch, uint32_t mask, const std::string& name) {
  using state = io::checkpoint::folder_state;
  if (watch == on_folder_) {
    const auto what = io::checkpoint::parse_folder_name(name);
    if (!what) return;
    if ((mask & IN_CREATE) != 0 && what->state == state::partial) {
      count(sight::partial);
      const int inner = enter(folder_ / name);
      std::error_code ignored;  // what got into it before it was watched counts as well
      for (const auto& e : fs::directory_iterator(folder_ / name, ignored))
        take(inner, IN_CREATE, e.path().filename().string());
    }
    if ((mask & IN_MOVED_TO) != 0 && what->state == state::complete) count(sight::commit);
    if ((mask & IN_MOVED_TO) != 0 && what->state == state::deleting) count(sight::removal);
  } else if (inside_.contains(watch)) {
    if ((mask & IN_CREATE) != 0 && is_shard(name)) count(sight::shard);
    if ((mask & IN_CREATE) != 0 && name == "MANIFEST") count(sight::manifest);
    if ((mask & IN_MODIFY) != 0 && is_shard(name)) count(sight::write);
    if ((mask & IN_DELETE) != 0) count(sight::deletion);
  }
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
  const auto end = std::chrono::steady_clock::now() + m.after;
  while (std::chrono::steady_clock::now() < end) continue;
  return true;
}

bool lookout::await_next(program& p, moment m) {
  m.count += seen(p, m.what);
  return await(p, m);
}

}  // namespace troupe::cluster_test

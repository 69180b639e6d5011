// Trouble is made by hand, in the files.
#include "tests/cluster/launches.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace troupe::cluster_test {

namespace {

std::vector<kept_folder> kept(const fs::path& first, const fs::path& second, int keep) {
  std::vector<kept_folder> out{{first, keep}};
  if (!second.empty()) out.push_back({second, keep});
  return out;
}

/// One that has state: where chunks have shards of their own the rank's may have none.
fs::path shard_with_state(const fs::path& checkpoint, std::mt19937_64& random) {
  auto chunks = names_with(checkpoint, ".chunk-");
  std::sort(chunks.begin(), chunks.end());
  return checkpoint / (chunks.empty() ? "rank-00000.shard" : chunks[random() % chunks.size()]);
}

/// Damages a checkpoint; its manifest can still be read.
void damage(const fs::path& checkpoint, std::mt19937_64& random) {
  const auto shard = shard_with_state(checkpoint, random);
  auto bytes = text_of(shard);
  REQUIRE(bytes.size() > 1);
  switch (random() % 3) {
    case 0:
      fs::remove(checkpoint / "train_state.json");
      return;
    case 1:
      fs::resize_file(shard, bytes.size() / 2);
      return;
    default:
      bytes[random() % bytes.size()] ^= 4;
      std::ofstream(shard, std::ios::binary) << bytes;
  }
}

/// When a folder was made, if its file system knows, since 1970; within a tick of the kernel.
std::optional<int64_t> born_ns(const fs::path& folder) {
  struct statx facts {};
  if (statx(AT_FDCWD, folder.c_str(), 0, STATX_BTIME, &facts) != 0 ||
      (facts.stx_mask & STATX_BTIME) == 0)
    return std::nullopt;
  return facts.stx_btime.tv_sec * int64_t{1'000'000'000} + facts.stx_btime.tv_nsec;
}

/// Now, less a tick.
int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count() - 10'000'000;
}

}  // namespace

launches::launches(judge& eyes, fs::path first, fs::path second, int keep)
    : eyes_(eyes),
      first_(std::move(first)),
      second_(std::move(second)),
      keep_(keep),
      account_(eyes, kept(first_, second_, keep)) {}

std::vector<std::string> launches::settings() const {
  std::vector<std::string> out{"checkpoint.dir=" + first_.string(),
                               fmt::format("checkpoint.keep={}", keep_)};
  if (has_second())
    out = with(out, {"checkpoint.second.dir=" + second_.string(),
                     fmt::format("checkpoint.second.keep={}", keep_)});
  return out;
}

std::string launches::begin(const turn& t, const turn_deck& deck, std::mt19937_64& random) {
  make_trouble(t, random);
  const auto to = deck.destination(t, account_, random);
  from_ = t.how == course::go_on ? account_.expected() : to ? to->id : -1;
  account_.begin(from_);
  std::erase_if(left_, [](const fs::path& p) { return !fs::exists(p); });  // emptied
  started_ns_ = now_ns();
  if (t.how == course::go_on) return "checkpoint.resume=auto";
  return "checkpoint.resume=" + (to ? to->path.string() : "never");
}

/// What happens to the first tier while nobody runs.
void launches::make_trouble(const turn& t, std::mt19937_64& random) {
  if (t.what == trouble::damage) {
    const auto victim = turn_deck::to_damage(account_, random);
    damage(victim.path, random);
    account_.spoiled(victim);
  }
  if (t.what == trouble::emptied) {
    for (const auto& e : fs::directory_iterator(first_)) fs::remove_all(e.path());
    account_.emptied(0);
  }
}

void launches::end(const program& up, const std::set<int>& acknowledged, bool last, bool again) {
  eyes_.follow(up.objects("step"), from(), again);
  account_.end(acknowledged, last);
}

void launches::check_done(int steps) const {
  CHECK(account_.step_of(account_.expected(1)) == steps);
  if (has_second()) CHECK(account_.step_of(account_.expected(0)) == steps);
}

std::vector<fs::path> launches::leftovers() const {
  std::vector<fs::path> out;
  for (const auto& dir : {first_, second_})
    if (!dir.empty())
      for (const auto& name : leftovers_in(dir)) out.push_back(dir / name);
  return out;
}

int launches::check_leftovers(const program& up) const {
  for (const auto& path : left_)
    CHECK_MESSAGE(
        up.err().find(path.string() + ", left by an interrupted save") != std::string::npos,
        path.string(), " was not said to be removed");
  for (const auto& path : leftovers())
    CHECK_MESSAGE(born_ns(path).value_or(INT64_MAX) >= started_ns_, path.string(),
                  " is still there");
  return static_cast<int>(left_.size());
}

std::vector<watched> nodes_when_there(const program& up, size_t count) {
  std::vector<pid_t> pids;
  REQUIRE(eventually([&] {
    pids = nodes_of(up.port());
    return pids.size() == count;
  }));
  std::vector<watched> out;
  for (pid_t pid : pids) out.emplace_back(pid);
  return out;
}

}  // namespace troupe::cluster_test

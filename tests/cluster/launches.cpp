// Trouble is made by hand, in the files.
#include "tests/cluster/launches.hpp"

#include <utility>

namespace troupe::cluster_test {

namespace {

std::vector<kept_folder> kept(const fs::path& first, const fs::path& second, int keep) {
  std::vector<kept_folder> out{{first, keep}};
  if (!second.empty()) out.push_back({second, keep});
  return out;
}

/// Damages a checkpoint; its manifest can still be read.
void damage(const fs::path& checkpoint, std::mt19937_64& random) {
  const auto shard = checkpoint / "rank-00000.shard";
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

void launches::end(const program& up, const std::set<int>& acknowledged, bool last) {
  eyes_.follow(up.objects("step"), from());
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

}  // namespace troupe::cluster_test

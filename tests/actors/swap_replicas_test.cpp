// What replicas have saved others take up, however many they are and wherever their state lives:
// each slice is made of what several ranks have saved.
#include <doctest/doctest.h>

#include <filesystem>
#include <future>
#include <map>
#include <vector>

#include "gpu/swap/residency_plan.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/save.hpp"
#include "tests/actors/replicas.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::train;
namespace cp = troupe::io::checkpoint;
namespace fs = std::filesystem;

namespace {

using troupe::train::test::pending;
using troupe::train::test::replicas;
using rule = gpu::optimizer_step_args::rule;

replicas sliced(const scratch& dir, int ranks, gpu::dtype type, bool on_drives) {
  return replicas(ranks, rule::adamw, type, [&](engine_options o) {
    o.job = "job";
    o.checkpoint_folder = dir / "checkpoints";
    if (on_drives) {
      o.swap_dirs = {dir / "swap"};
      o.shape.where = gpu::least_residency(o.model, o.shape, steps_of(o));
      o.shape.where.group_elements = 2048;
    }
    return replicas::plain(o);
  });
}

fs::path saved_by_all(replicas& all, const scratch& dir, uint64_t step) {
  const auto partial = fs::path(dir / "checkpoints") / cp::partial_name(step, 0);
  std::vector<std::promise<result<cp::shard_facts>>> told(all.ranks.size());
  std::vector<cp::shard_facts> votes;
  for (size_t r = 0; r < all.ranks.size(); ++r)
    all.ranks[r]->save(step, partial, false, [&told, r](const auto& v) { told[r].set_value(v); });
  for (auto& t : told) {
    auto vote = t.get_future().get();
    REQUIRE_MESSAGE(vote, (vote ? std::string() : render(vote.error())));
    votes.push_back(std::move(*vote));
  }
  cp::manifest_head head;
  head.job = "job";
  head.step = step;
  head.layout = {static_cast<int>(all.ranks.size()), 1, 1};
  head.slot_bytes = 4096;
  auto disk = io::open_disk({});
  REQUIRE(disk);
  const auto done = cp::commit_save(**disk, partial, head, votes, {});
  REQUIRE_MESSAGE(done, (done ? std::string() : render(done.error())));
  return *done;
}

void load_all(replicas& all, const fs::path& from) {
  std::vector<pending> loaded(all.ranks.size());
  for (size_t r = 0; r < all.ranks.size(); ++r)
    all.ranks[r]->load(from.string(), true, loaded[r].done());
  for (auto& one : loaded) one.get();
}

/// Masters and moments of all chunks, put together from every rank's slices.
std::vector<float> whole_state(replicas& all) {
  std::vector<float> out;
  const int chunks = all.ranks.front()->model()->store().chunk_count();
  for (int c = 0; c < chunks; ++c)
    for (const auto which : {gpu::part::master, gpu::part::m, gpu::part::v})
      for (auto& rank : all.ranks) {
        auto& store = rank->model()->store();
        std::vector<float> values(static_cast<size_t>(store.slice(c).count));
        REQUIRE(store.read(c, which, values.data()));
        out.insert(out.end(), values.begin(), values.end());
      }
  return out;
}

/// RES-4, ENG-12
void check_slices_of(gpu::dtype type) {
  for (const int from : {1, 2, 3})
    for (const bool on_drives : {true, false}) {
      CAPTURE(from);
      CAPTURE(on_drives);
      scratch dir;
      fs::create_directory(dir / "checkpoints");
      auto first = sliced(dir, from, type, on_drives);
      first.steps(2);
      const auto expected = whole_state(first);
      const auto checkpoint = saved_by_all(first, dir, 2);
      first.ranks.clear();
      for (const int to : {1, 2, 3, 6}) {
        CAPTURE(to);
        auto on = sliced(dir, to, type, true), in_memory = sliced(dir, to, type, false);
        for (int times = 0; times < 2; ++times) {  // behind what the first has gathered
          load_all(on, checkpoint);
          CHECK(whole_state(on) == expected);
        }
        load_all(in_memory, checkpoint);
        CHECK(on.step(3) == in_memory.step(3));
        CHECK(whole_state(on) == whole_state(in_memory));
      }
    }
}

}  // namespace

TEST_CASE(
    "RES-4 ENG-12: slices on drives are restored by other numbers of replicas: f32") {
  check_slices_of(gpu::dtype::f32);
}

TEST_CASE(
    "RES-4 ENG-12: slices on drives are restored by other numbers of replicas: bf16") {
  check_slices_of(gpu::dtype::bf16);
}

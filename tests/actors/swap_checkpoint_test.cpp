// ENG-12: checkpoints of an engine whose stage is not all in memory: by links where they lie beside
// the swap folder, copied elsewhere; the same to whoever reads them.
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <utility>

#include "actors/checkpoint/committer.hpp"
#include "actors/train/swap_folder.hpp"
#include "gpu/model/saved_state.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/save.hpp"
#include "io/config/load.hpp"
#include "tests/actors/replicas.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::train;
namespace cp = troupe::io::checkpoint;
namespace fs = std::filesystem;

namespace {

using troupe::train::test::pending;
using troupe::train::test::replicas;
using vote = result<cp::shard_facts>;
using rule = gpu::optimizer_step_args::rule;

/// A folder in memory, until its end.
struct elsewhere {
  const fs::path path = fs::path("/dev/shm") / ("troupe-swap-" + std::to_string(::getpid()));
  ~elsewhere() {
    std::error_code failed;
    fs::remove_all(path, failed);
  }
};

/// Where the chunks of an engine live.
enum class home { memory, drive, both, two_versions };

replicas saving_engine(const scratch& dir, gpu::dtype type, home where, const fs::path& checkpoints,
                       bool weights_follow = false, size_t old_files = 0) {
  return replicas(1, rule::adamw, type, [&, checkpoints](engine_options o) {
    o.job = "job";
    o.weights_follow = weights_follow;
    o.swap_old_files = old_files;
    o.model.layers = 4;
    o.shape = gpu::whole_model(o.model, troupe::train::test::batch, troupe::train::test::seq, type);
    o.optimizer.clip_norm = 0.5f;
    o.checkpoint_folder = checkpoints;
    if (where != home::memory) {
      o.swap_dirs = {dir / "swap"};
      o.shape.where = gpu::least_residency(o.model, o.shape, {0, true, 1});
      o.shape.where.group_elements = 2048;
    }
    o.shape.where.speculates = where == home::two_versions;
    if (where == home::two_versions) o.swap_clip = gpu::clip_way::speculate;
    if (where == home::both)
      for (size_t c = 0; c < 3; ++c) o.shape.where.chunks[c] = {};
    return replicas::plain(o);
  });
}

vote save(replicas& of, uint64_t step, const fs::path& partial, bool last = false) {
  std::promise<vote> told;
  of.ranks[0]->save(step, partial, last, [&](const vote& v) { told.set_value(v); });
  return told.get_future().get();
}

fs::path committed(const vote& v, uint64_t step, const fs::path& partial) {
  REQUIRE_MESSAGE(v, (v ? std::string() : render(v.error())));
  cp::manifest_head head;
  head.job = "job";
  head.step = step;
  head.slot_bytes = 4096;
  auto disk = io::open_disk({});
  REQUIRE(disk);
  const auto done = cp::commit_save(**disk, partial, head, {*v}, {});
  REQUIRE_MESSAGE(done, (done ? std::string() : render(done.error())));
  return *done;
}

fs::path partial_in(const fs::path& checkpoints, uint64_t step) {
  return checkpoints / cp::partial_name(step, 0);
}

fs::path saved(replicas& of, const fs::path& checkpoints, uint64_t step, bool last = false) {
  const auto partial = partial_in(checkpoints, step);
  return committed(save(of, step, partial, last), step, partial);
}

size_t links_of(const fs::path& file) {
  struct stat facts {};
  REQUIRE(::stat(file.c_str(), &facts) == 0);
  return static_cast<size_t>(facts.st_nlink);
}

size_t chunk_shards_in(const fs::path& checkpoint) {
  size_t out = 0;
  for (const auto& f : fs::directory_iterator(checkpoint))
    out += f.path().filename().string().find(".chunk-") != std::string::npos ? 1 : 0;
  return out;
}

bool is_sound(const fs::path& checkpoint) {
  const auto r = cp::reader::open(checkpoint);
  REQUIRE_MESSAGE(r, (r ? std::string() : render(r.error())));
  const auto found = r->verify();
  REQUIRE(found);
  return found->damages.empty();
}

/// What a rank tells of its share.
std::unique_ptr<fbs::SavedT> saved_of(const cp::shard_facts& facts, uint64_t step) {
  auto out = std::make_unique<fbs::SavedT>();
  out->step = step;
  out->rank = facts.rank;
  out->bytes = facts.bytes;
  out->stream_bytes = facts.stream_bytes;
  out->footer_crc32c = facts.footer_crc;
  out->slot_digest = facts.slot_digest;
  for (const auto& c : facts.chunks) {
    auto& to = *out->chunks.emplace_back(std::make_unique<fbs::ChunkShardT>());
    to.chunk = c.chunk;
    to.bytes = c.bytes;
    to.stream_bytes = c.stream_bytes;
    to.slot_bytes = c.slot_bytes;
    to.footer_crc32c = c.footer_crc;
    to.slot_digest = c.slot_digest;
  }
  return out;
}

/// The bits of two checkpoints' tensors.
bool same_tensors(const fs::path& a, const fs::path& b) {
  const auto one = cp::reader::open(a), other = cp::reader::open(b);
  REQUIRE(one);
  REQUIRE(other);
  REQUIRE(one->content().tensors.size() == other->content().tensors.size());
  for (const auto& t : one->content().tensors)
    for (const auto which : {cp::part::master, cp::part::exp_avg, cp::part::exp_avg_sq}) {
      const auto x = one->read_tensor(t.name, which), y = other->read_tensor(t.name, which);
      REQUIRE(x);
      REQUIRE(y);
      if (*x != *y) return false;
    }
  return true;
}

/// Whose swap folders are on two drives; `claimed`: of the second it is said that it gives links.
replicas engine_on_two(gpu::dtype type, const fs::path& own, const fs::path& far, bool claimed,
                       const fs::path& checkpoints) {
  return replicas(1, rule::adamw, type, [&](engine_options o) {
    o.job = "job";
    o.model.layers = 4;
    o.shape = gpu::whole_model(o.model, troupe::train::test::batch, troupe::train::test::seq, type);
    o.optimizer.clip_norm = 0.5f;
    o.checkpoint_folder = checkpoints;
    o.swap.places = {{own, true, 0}, {far, claimed, 0}};
    o.shape.where = gpu::least_residency(o.model, o.shape, {0, true, 1});
    o.shape.where.group_elements = 2048;
    return rank_engine::make(o);
  });
}

/// Steps of one that is on two drives have the checkpoints of one in memory, but for the first
/// where the second drive refuses links against what was said.
void check_two_drives(const scratch& dir, const fs::path& far, gpu::dtype type, bool claimed) {
  const auto own = dir / "swap", ours = dir / "two", truth = dir / "memory";
  for (const auto& folder : {own, ours, truth, far}) fs::create_directories(folder);
  auto swapped = engine_on_two(type, own, far, claimed, ours);
  auto in_memory = saving_engine(dir, type, home::memory, truth);
  const auto chunks = swapped.ranks[0]->model()->store().chunk_count();
  for (uint64_t step = 1; step <= 3; ++step) {
    swapped.step(static_cast<int64_t>(step));
    in_memory.step(static_cast<int64_t>(step));
    if (claimed && step == 1) {
      const auto refused = save(swapped, step, partial_in(ours, step));
      REQUIRE_FALSE(refused);
      CHECK(refused.error().is(gpu::links_refused));
      continue;
    }
    const auto got = saved(swapped, ours, step), wanted = saved(in_memory, truth, step);
    CHECK(is_sound(got));
    CHECK(same_tensors(got, wanted));
    CHECK(chunk_shards_in(got) == static_cast<size_t>((chunks + 1) / 2));
  }
}

}  // namespace

TEST_CASE("ENG-12: of several drives a checkpoint has links to the files of its own, and copies") {
  // A file system of its own that everybody may write to.
  const elsewhere other;
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const bool claimed : {false, true}) {
      CAPTURE(claimed);
      scratch dir;
      struct stat here {
      }, there{};
      REQUIRE(::stat(dir.path.c_str(), &here) == 0);
      if (::stat("/dev/shm", &there) != 0 || here.st_dev == there.st_dev) {
        MESSAGE("SKIPPED: /dev/shm is no file system of its own");
        return;
      }
      const std::string name = type == gpu::dtype::f32 ? "f32" : "bf16";
      check_two_drives(dir, other.path / (name + (claimed ? "-claimed" : "")), type, claimed);
    }
}

TEST_CASE("ENG-12: a checkpoint by links has the tensors of one that is copied out of memory") {
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const auto where : {home::drive, home::both, home::two_versions}) {
      scratch dir;
      const auto checkpoints = dir / "checkpoints", plain = dir / "plain";
      fs::create_directory(checkpoints);
      fs::create_directory(plain);
      auto swapped = saving_engine(dir, type, where, checkpoints);
      auto in_memory = saving_engine(dir, type, home::memory, plain);
      std::vector<fs::path> linked, copied;
      for (int64_t step = 1; step <= 4; ++step) {
        CHECK(swapped.step(step) == in_memory.step(step));
        const bool last = step == 4;
        linked.push_back(saved(swapped, checkpoints, static_cast<uint64_t>(step), last));
        copied.push_back(saved(in_memory, plain, static_cast<uint64_t>(step), last));
        const auto facts = *swapped.ranks[0]->swap_facts();
        CHECK(facts.linked_chunks == chunk_shards_in(linked.back()));
        CHECK(facts.cloned_chunks == 0);
        CHECK(facts.copied_chunks == (where == home::both ? 3 : 0));
      }
      const auto chunks = static_cast<size_t>(swapped.ranks[0]->model()->store().chunk_count());
      for (const auto& c : linked)
        CHECK(chunk_shards_in(c) == chunks - (where == home::both ? 3 : 0));
      CHECK(links_of(linked[0] / cp::shard_name(0, 4)) == 1);
      CHECK(links_of(linked[3] / cp::shard_name(0, 4)) == 2);  // nothing was trained behind it
      swapped.ranks.clear();
      CHECK(fs::is_empty(dir / "swap"));
      for (size_t i = 0; i < linked.size(); ++i) {
        CAPTURE(i);
        CHECK(is_sound(linked[i]));
        CHECK(chunk_shards_in(copied[i]) == 0);
        CHECK(same_tensors(linked[i], copied[i]));
      }
    }
}

TEST_CASE("ENG-12 SWP-12: what checkpoints have keeps a name in the swap folder until the last") {
  scratch dir;
  const auto checkpoints = dir / "checkpoints", plain = dir / "plain";
  fs::create_directory(checkpoints);
  fs::create_directory(plain);
  auto swapped = saving_engine(dir, gpu::dtype::f32, home::drive, checkpoints, false, 3);
  auto in_memory = saving_engine(dir, gpu::dtype::f32, home::memory, plain);
  const auto shard = cp::shard_name(0, 4);
  fs::path got, before, wanted;
  for (uint64_t step = 1; step <= 6; ++step) {
    CHECK(swapped.step(static_cast<int64_t>(step)) == in_memory.step(static_cast<int64_t>(step)));
    before = std::exchange(got, saved(swapped, checkpoints, step, step == 6));
    wanted = saved(in_memory, plain, step);
    if (step == 1) continue;
    CHECK(links_of(before / shard) == (step < 6 ? 2u : 1u));
    if (step < 6) fs::remove_all(before);
  }
  CHECK(is_sound(before));
  CHECK(is_sound(got));
  CHECK(same_tensors(got, wanted));
}

TEST_CASE("ENG-12: as many files of a chunk keep a name as retention has checkpoints, and two") {
  scratch dir;
  config::job job;
  job.job.name = "job";
  job.train.batch = troupe::train::test::batch;
  job.train.seq_len = troupe::train::test::seq;
  job.checkpoint.dir = dir / "checkpoints";
  job.swap.dir = {dir / "swap"};
  const auto old_files = [&](int64_t keep, int64_t every, int64_t best) {
    job.checkpoint.keep = keep;
    job.checkpoint.keep_every = every;
    job.checkpoint.keep_best = best;
    auto o = troupe::train::test::options_for(0, 1, rule::adamw, gpu::dtype::f32);
    static_cast<void>(settle_swap(o, job));  // whatever it fits into
    return o.swap_old_files;
  };
  CHECK(old_files(0, 0, 0) == 0);  // nothing expires
  CHECK(old_files(2, 0, 0) == 4);
  CHECK(old_files(3, 7, 2) == 7);
  CHECK(old_files(0, 7, 0) == 3);  // the newest is kept in any case
  CHECK(old_files(1000, 0, 0) == 0);
  CHECK(old_files(1, 0, 1000) == 64);
}

TEST_CASE("ENG-12: each resumes the other's checkpoint, and trains on with the same bits") {
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16}) {
    scratch dir;
    const auto checkpoints = dir / "checkpoints";
    fs::create_directory(checkpoints);
    std::vector<double> losses;
    std::vector<fs::path> at;
    for (const auto where : {home::drive, home::memory, home::two_versions}) {
      auto first = saving_engine(dir, type, where, checkpoints);
      losses = first.steps(2);
      at.push_back(saved(first, checkpoints, 2, true));
      fs::rename(at.back(), dir / ("of-" + std::to_string(at.size())));
      at.back() = dir / ("of-" + std::to_string(at.size()));
    }
    auto whole = saving_engine(dir, type, home::memory, checkpoints);
    whole.steps(2);
    const auto expected = whole.step(3);
    for (const auto& from : at)
      for (const auto where : {home::drive, home::both, home::memory, home::two_versions}) {
        auto next = saving_engine(dir, type, where, checkpoints);
        pending loaded;
        next.ranks[0]->load(from.string(), true, loaded.done());
        loaded.get();
        CHECK(next.step(3) == expected);
        CHECK(is_sound(from));
      }
  }
}

TEST_CASE("ENG-12: what fits comes back by links, and the checkpoint stays as it is") {
  const auto check = [](gpu::dtype type, home where) {
    CAPTURE(type == gpu::dtype::f32);
    CAPTURE(where == home::drive);
    scratch dir;
    const auto checkpoints = dir / "checkpoints";
    fs::create_directory(checkpoints);
    auto whole = saving_engine(dir, type, home::memory, checkpoints);
    const auto expected = whole.steps(4);
    auto first = saving_engine(dir, type, where, checkpoints);
    first.steps(2);
    const auto from = saved(first, checkpoints, 2, true);
    first.ranks.clear();
    const auto shard = from / cp::shard_name(0, 4);
    CHECK(links_of(shard) == 1);
    auto next = saving_engine(dir, type, where, checkpoints, true);
    auto& engine = *next.ranks[0];
    pending loaded;
    engine.load(from.string(), true, loaded.done());
    loaded.get();
    CHECK(links_of(shard) == 2);
    const auto moved = *engine.swap_facts();
    CHECK(moved.written_bytes <= (type == gpu::dtype::f32 ? 0 : moved.disk_bytes / 6));
    CHECK(next.step(3) == expected[2]);
    const auto later = saved(next, checkpoints, 3);
    CHECK(next.step(4) == expected[3]);
    next.ranks.clear();
    CHECK(links_of(shard) == 1);
    CHECK(is_sound(from));
    CHECK(is_sound(later));
  };
  for (const auto type : {gpu::dtype::f32, gpu::dtype::bf16})
    for (const auto where : {home::drive, home::two_versions}) check(type, where);
}

TEST_CASE("ENG-12: a damaged file is not taken over, and is named when it is loaded") {
  scratch dir;
  const auto checkpoints = dir / "checkpoints";
  fs::create_directory(checkpoints);
  auto first = saving_engine(dir, gpu::dtype::f32, home::drive, checkpoints);
  first.steps(2);
  const auto from = saved(first, checkpoints, 2, true);
  first.ranks.clear();
  {
    std::fstream f(from / cp::shard_name(0, 4), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(100);
    f.put('!');
    REQUIRE(f.good());
  }
  auto next = saving_engine(dir, gpu::dtype::f32, home::drive, checkpoints, true);
  pending loaded;
  next.ranks[0]->load(from.string(), true, loaded.done());
  const auto why = loaded.why();
  CHECK(why.is(cp::checksum_wrong));
  CHECK(links_of(from / cp::shard_name(0, 3)) == 2);  // of what is sound
  CHECK(links_of(from / cp::shard_name(0, 4)) == 1);
}

TEST_CASE("ENG-9 ENG-12: who ends while files come back by links takes none over") {
  scratch dir;
  const auto checkpoints = dir / "checkpoints";
  fs::create_directory(checkpoints);
  auto first = saving_engine(dir, gpu::dtype::f32, home::drive, checkpoints);
  first.step(1);
  const auto from = saved(first, checkpoints, 1, true);
  first.ranks.clear();
  auto next = saving_engine(dir, gpu::dtype::f32, home::drive, checkpoints, true);
  next.ranks[0]->abort();
  pending loaded;
  next.ranks[0]->load(from.string(), true, loaded.done());
  CHECK(loaded.why().code == errc::cancelled);
  for (uint32_t chunk = 0; chunk < 5; ++chunk)
    CHECK(links_of(from / cp::shard_name(0, chunk)) == 1);
}

TEST_CASE("ENG-12: a share whose copied half fails is no vote, and the next one is") {
  scratch dir;
  const auto checkpoints = dir / "checkpoints";
  fs::create_directory(checkpoints);
  auto swapped = saving_engine(dir, gpu::dtype::f32, home::both, checkpoints);
  swapped.step(1);
  const auto partial = partial_in(checkpoints, 1);
  fs::create_directories(partial / cp::shard_name(0));  // where what is in memory goes
  CHECK_FALSE(save(swapped, 1, partial));
  CHECK(links_of(partial / cp::shard_name(0, 4)) == 2);  // the other half was there
  swapped.step(2);
  CHECK(is_sound(saved(swapped, checkpoints, 2)));
}

TEST_CASE("ARC-3: who leaves a chunk's shard out of its vote has not saved its share") {
  scratch dir;
  const auto checkpoints = dir / "checkpoints";
  fs::create_directory(checkpoints);
  auto swapped = saving_engine(dir, gpu::dtype::f32, home::both, checkpoints);
  swapped.step(1);
  fbs::CommitCheckpointT votes;
  votes.step = 1;
  votes.directory = partial_in(checkpoints, 1).string();
  const auto told = save(swapped, 1, votes.directory);
  REQUIRE(told);
  auto disk = io::open_disk({});
  REQUIRE(disk);
  auto facts = *told;
  const auto bytes = cp::read_pieces(**disk, votes.directory, facts);
  REQUIRE(bytes);
  std::vector<cp::rank_plan> shares(1);
  shares[0].stream_bytes = *bytes;
  const auto job = config::parse(
      "[job]\nname = \"job\"\n[model]\nlayers = 4\nhidden = 8\nheads = 2\nvocab = 256\n"
      "[data]\npath = \"text\"\ntokenizer = \"bytes\"\n[train]\nbatch = 8\n"
      "[checkpoint]\nslot_bytes = 4096\n",
      "test");
  REQUIRE_MESSAGE(job, (job ? std::string() : render(job.error())));
  auto plan = make_plan(*job);
  REQUIRE(plan);
  const checkpoint::committer_options options{checkpoints, 0, std::move(*plan)};
  const auto commit = [&](const cp::shard_facts& of) {
    votes.shards.clear();
    votes.shards.push_back(saved_of(of, 1));
    return checkpoint::commit(**disk, options, shares, votes, 0);
  };
  auto fewer = *told;
  REQUIRE(fewer.chunks.size() > 1);
  fewer.chunks.pop_back();
  CHECK_FALSE(commit(fewer));
  CHECK_FALSE(fs::exists(checkpoints / cp::complete_name(1)));
  REQUIRE(commit(*told));
  CHECK(is_sound(checkpoints / cp::complete_name(1)));
}

TEST_CASE("an engine whose weights follow writes none of its own first") {
  scratch dir;
  const auto checkpoints = dir / "checkpoints";
  fs::create_directory(checkpoints);
  auto first = saving_engine(dir, gpu::dtype::bf16, home::drive, checkpoints);
  first.step(1);
  const auto from = saved(first, checkpoints, 1, true);
  const auto expected = [&] {
    auto whole = saving_engine(dir, gpu::dtype::bf16, home::memory, checkpoints);
    whole.step(1);
    return whole.step(2);
  }();
  first.ranks.clear();
  for (const auto where : {home::drive, home::memory}) {
    auto next = saving_engine(dir, gpu::dtype::bf16, where, checkpoints, true);
    auto& engine = *next.ranks[0];
    if (where == home::drive) CHECK(engine.swap_facts()->written_bytes == 0);
    pending loaded;
    engine.load(from.string(), true, loaded.done());
    loaded.get();
    CHECK(next.step(2) == expected);
  }
}

TEST_CASE("ENG-12: a folder that is not the one for checkpoints gets copies") {
  scratch dir;
  const auto checkpoints = dir / "checkpoints", second = dir / "second";
  fs::create_directory(checkpoints);
  fs::create_directory(second);
  auto swapped = saving_engine(dir, gpu::dtype::f32, home::drive, checkpoints);
  swapped.step(1);
  const auto by_links = saved(swapped, checkpoints, 1);
  const auto copied = saved(swapped, second, 1);
  CHECK(chunk_shards_in(by_links) > 0);
  CHECK(chunk_shards_in(copied) == 0);
  CHECK(same_tensors(by_links, copied));
}

TEST_CASE("ENG-12: what is in the way of a link fails the checkpoint, not the training") {
  scratch dir;
  const auto checkpoints = dir / "checkpoints";
  fs::create_directory(checkpoints);
  auto swapped = saving_engine(dir, gpu::dtype::f32, home::drive, checkpoints);
  swapped.step(1);
  const auto partial = partial_in(checkpoints, 1);
  fs::create_directory(partial);
  std::ofstream(partial / cp::shard_name(0, 2)) << "somebody's";
  CHECK_FALSE(save(swapped, 1, partial));
  swapped.step(2);
  CHECK(is_sound(saved(swapped, checkpoints, 2)));
}

// The commit of a checkpoint that ranks have written: everything or nothing, and only what fits.
#include "actors/checkpoint/committer.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <caf/all.hpp>

#include "actors/job/catalog.hpp"
#include "actors/job/replicas_policy.hpp"
#include "actors/train/engine.hpp"
#include "gpu/model/init.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/config/load.hpp"
#include "io/file.hpp"
#include "messages/errors.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/saving.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
namespace cp = troupe::io::checkpoint;
namespace fs = std::filesystem;

namespace {

committer_options options_in(const fs::path& dir, int data, int pipeline,
                             const std::string& tokenizer = "bytes") {
  auto job = config::parse(
      fmt::format("[job]\nname = \"archived\"\n[cluster]\nnodes = {}\n"
                  "[model]\nlayers = 2\nhidden = 8\nheads = 2\nvocab = 256\n"
                  "[data]\npath = \"text\"\ntokenizer = \"{}\"\n[train]\nbatch = {}\n"
                  "[parallel]\ndata = {}\npipeline = {}\n[checkpoint]\ndir = \"{}\"\n",
                  data * pipeline, tokenizer, 8 * data, data, pipeline, dir.string()),
      "test");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  auto plan = train::make_plan(*job);
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  return {dir, 1, std::move(*plan)};
}

train::spawn_record record_of(const committer_options& o) {
  train::spawn_record out{static_cast<uint32_t>(o.epoch)};
  out.plan = o.plan;
  return out;
}

message_context of_epoch(const committer_options& o, int64_t sent_ns = 0) {
  message_context c;
  c.now_ns = sent_ns;
  c.epoch = static_cast<uint32_t>(o.epoch);
  return c;
}

/// Every rank's shard of a fresh model, written by its own saver as in training; the votes.
fbs::CommitCheckpointT save_all(const committer_options& o, uint64_t step) {
  fbs::CommitCheckpointT out;
  out.step = step;
  out.directory = (o.dir / cp::partial_name(step, o.epoch)).string();
  out.tokens = 640;
  out.loss = 2.5;
  out.validation_loss = 2.75;
  out.state = format_state({step, 640, 2.5, "[job]\n"});
  auto device = gpu::make_host_device(1);
  for (const auto& place : o.plan.ranks) {
    const auto e = train::options_of(o.plan.job, o.plan.model, place.at, place.layers, 1);
    auto store = gpu::parameter_store::make(*device, gpu::stage_chunks(e.model, e.shape),
                                            {gpu::dtype::f32, /*training=*/true, e.shape.replica});
    REQUIRE(store);
    REQUIRE(gpu::initialize(**store, e.model, e.seed));
    gpu::saver_options s;
    s.job = e.job;
    s.epoch = o.epoch;
    s.at = place.at;
    auto saver = gpu::state_saver::make(**store, s);
    REQUIRE(saver);
    auto v = gpu::testing::save(**saver, step, out.directory, nullptr).get();
    REQUIRE_MESSAGE(v, (v ? "" : v.error().message));
    auto vote = std::make_unique<fbs::SavedT>();
    vote->step = step;
    vote->rank = v->rank;
    vote->bytes = v->bytes;
    vote->stream_bytes = v->stream_bytes;
    vote->footer_crc32c = v->footer_crc;
    vote->slot_digest = v->slot_digest;
    out.shards.push_back(std::move(vote));
  }
  return out;
}

result<fs::path> committed(const committer_options& o, const fbs::CommitCheckpointT& votes) {
  auto d = io::open_disk({io::disk_backend::threads, 1, 1, {}});
  REQUIRE(d);
  const auto shares = shares_of(o.plan);
  REQUIRE(shares);
  return commit(**d, o, *shares, votes, 1'700'000'000'000);
}

std::string text_of(const fs::path& file) {
  auto text = io::read_file(file, 1 << 20);
  REQUIRE(text);
  return *text;
}

}  // namespace

TEST_CASE("ARC-1: what all ranks voted for becomes one complete folder, in any layout") {
  for (auto [data, pipeline] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    CAPTURE(data);
    CAPTURE(pipeline);
    scratch dir;
    const auto o = options_in(dir.path, data, pipeline);
    const auto votes = save_all(o, 5);
    auto done = committed(o, votes);
    REQUIRE_MESSAGE(done, (done ? "" : render(done.error())));
    CHECK(*done == dir / cp::complete_name(5));
    CHECK_FALSE(fs::exists(votes.directory));
    CHECK(verify(*done));
    auto r = cp::reader::open(*done);
    REQUIRE(r);
    const auto& head = r->content().head;
    CHECK(head.job == "archived");
    CHECK(head.step == 5);
    CHECK(head.tokens == 640);
    CHECK(head.loss == 2.5);
    CHECK(head.validation_loss == 2.75);
    CHECK(head.layout == rank_grid(data, 1, pipeline));
    CHECK(text_of(*done / "train_state.json") == votes.state);
    CHECK(text_of(*done / "config.json").find("\"torch_dtype\": \"float32\"") != std::string::npos);
  }
}

TEST_CASE("ARC-3: votes that do not fit the plan make no checkpoint") {
  scratch dir;
  const auto o = options_in(dir.path, 2, 1);
  auto refused = [&](const char* what, const std::function<void(fbs::CommitCheckpointT&)>& spoil) {
    CAPTURE(what);
    auto votes = save_all(o, 5);
    spoil(votes);
    CHECK_FALSE(committed(o, votes));
    CHECK_FALSE(fs::exists(dir / cp::complete_name(5)));
    fs::remove_all(votes.directory);
  };
  refused("one too few", [](auto& v) { v.shards.pop_back(); });
  refused("one rank twice", [](auto& v) { v.shards[1]->rank = 0; });
  refused("a rank that is none", [](auto& v) { v.shards[1]->rank = 2; });
  refused("another share", [](auto& v) { v.shards[1]->stream_bytes += 4; });
}

TEST_CASE("ARC-3: a shard that is not what was voted for is seen when it is read") {
  scratch dir;
  const auto o = options_in(dir.path, 1, 1);
  auto votes = save_all(o, 5);
  votes.shards[0]->slot_digest ^= 1;
  auto done = committed(o, votes);
  REQUIRE(done);
  CHECK_FALSE(verify(*done));
}

TEST_CASE("committer: what another launch saved under the same step is set aside whole") {
  scratch dir;
  const auto o = options_in(dir.path, 1, 1);
  const auto complete = dir / cp::complete_name(5);
  REQUIRE(committed(o, save_all(o, 5)));
  auto later = o;
  ++later.epoch;
  later.origin.launch = 7;
  const auto votes = save_all(later, 5);
  REQUIRE(committed(later, votes));
  CHECK_FALSE(fs::exists(votes.directory));
  CHECK(cp::reader::open(complete)->content().head.epoch == later.epoch);
  CHECK(verify(complete));
  CHECK(verify(dir / cp::aside_name(5, 1)));
}

TEST_CASE("committer: what is not ours under a step's name makes its save fail, and stays") {
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    scratch dir;
    const auto o = options_in(dir.path, 1, 1);
    const auto there = dir / cp::complete_name(5);
    put_file(dir / "mine/file", "mine");
    if (kind == 0) put_file(there / "notes.txt", "mine");
    if (kind == 1) put_file(there, "mine");
    if (kind == 2) put_file(there / "rank-00000.shard", "mine");
    if (kind == 3) fs::create_directory_symlink(dir / "mine", there);
    const auto votes = save_all(o, 5);
    const auto before = tree_of(there);
    const auto done = committed(o, votes);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == errc::permission);
    CHECK(mentions(done.error(), there));
    CHECK(tree_of(there) == before);
    CHECK(fs::exists(there));
  }
}

TEST_CASE("committer: a checkpoint with a note in it is set aside whole, not replaced") {
  for (const char* name : {"notes.txt", "PINNED", "HELD.alice"}) {
    scratch dir;
    const auto o = options_in(dir.path, 1, 1);
    const auto there = dir / cp::complete_name(5);
    REQUIRE(committed(o, save_all(o, 5)));
    put_file(there / name, "mine");
    const auto before = tree_of(there);
    REQUIRE(committed(o, save_all(o, 5)));
    CHECK(tree_of(dir / cp::aside_name(5, 1)) == before);
    CHECK_FALSE(fs::exists(there / name));
    CHECK(verify(there));
    const auto next = resume_from("auto", dir.path);
    REQUIRE(next);
    REQUIRE(next->from);
    CHECK(next->from->path == there);
    CHECK(next->passed_over.empty());
  }
}

TEST_CASE("CT-3: what was set aside in the other tier is skipped, and told") {
  scratch dir;
  const auto o = options_in(dir / "first", 1, 1);
  fs::create_directory(o.dir);
  for (const uint64_t step : {4, 5}) REQUIRE(committed(o, save_all(o, step)));
  fs::create_directory(dir / "second");
  fs::copy(o.dir / cp::complete_name(5), dir / "second" / cp::aside_name(5, 1),
           fs::copy_options::recursive);
  const auto next = resume_from("auto", o.dir, dir / "second");
  REQUIRE(next);
  REQUIRE(next->from);
  CHECK(next->from->path == o.dir / cp::complete_name(4));
  REQUIRE(next->passed_over.size() == 1);
  CHECK(next->passed_over[0].find(cp::complete_name(5)) != std::string::npos);
}

TEST_CASE("committer: what is not ours above a start is not set aside") {
  scratch dir;
  const auto o = options_in(dir.path, 1, 1);
  REQUIRE(committed(o, save_all(o, 5)));
  put_file(dir / "step-00000006/notes.txt", "mine");
  put_file(dir / "step-00000007/MANIFEST", "mine");
  const auto told = set_aside(io::local_files(), dir.path, {});
  REQUIRE(told);
  CHECK(told->size() == 1);
  CHECK(fs::exists(dir / cp::aside_name(5, 1)));
  CHECK(fs::exists(dir / "step-00000006/notes.txt"));
  CHECK(fs::exists(dir / "step-00000007/MANIFEST"));
}

TEST_CASE("committer: what the launch has saved already is not set aside") {
  scratch dir;
  auto o = options_in(dir.path, 1, 1);
  REQUIRE(committed(o, save_all(o, 5)));
  o.origin.launch = 7;  // from nothing
  REQUIRE(committed(o, save_all(o, 1)));
  const auto told = set_aside(io::local_files(), dir.path, o.origin);
  REQUIRE(told);
  CHECK(told->size() == 1);
  CHECK(fs::exists(dir / cp::aside_name(5, 1)));
  CHECK(verify(dir / cp::complete_name(1)));
}

TEST_CASE("committer: a leftover that somebody reads does not keep a start from beginning") {
  scratch dir;
  const auto o = options_in(dir.path, 1, 1);
  REQUIRE(committed(o, save_all(o, 5)));
  const auto leftover = dir / cp::deleting_name(5);
  fs::rename(dir / cp::complete_name(5), leftover);
  {
    const auto held = cp::reading::begin(leftover);
    REQUIRE(held);
    const auto found = remove_leftovers(io::local_files(), dir.path);
    REQUIRE(found);
    CHECK(found->removed.empty());
    REQUIRE(found->kept.size() == 1);
    CHECK(found->kept[0].find(leftover.string()) != std::string::npos);
  }
  CHECK(remove_leftovers(io::local_files(), dir.path)->removed.size() == 1);
}

TEST_CASE("ARC-2: a commit that fails leaves no folder of the step and the older ones alone") {
  scratch dir;
  const auto o = options_in(dir.path, 1, 1);
  REQUIRE(committed(o, save_all(o, 4)));
  auto lost = o;
  lost.plan.job.data.tokenizer = (dir / "absent-tokenizer.json").string();
  CHECK_FALSE(committed(lost, save_all(lost, 5)));
  CHECK_FALSE(fs::exists(dir / cp::complete_name(5)));
  CHECK(verify(dir / cp::complete_name(4)));
}

TEST_CASE("SV-9: a shard that is not where the root looks, or not whole, makes no checkpoint") {
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    scratch dir;
    const auto o = options_in(dir.path, 2, 1);
    const auto votes = save_all(o, 5);
    const auto shard = fs::path(votes.directory) / "rank-00001.shard";
    const auto bytes = fs::file_size(shard);
    if (kind == 0) fs::remove(shard);
    if (kind == 1) fs::resize_file(shard, bytes - 4096);
    if (kind == 2) fs::resize_file(shard, 0);
    if (kind == 3)
      fs::copy_file(fs::path(votes.directory) / "rank-00000.shard", shard,
                    fs::copy_options::overwrite_existing);
    const auto done = committed(o, votes);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == errc::io);
    CHECK(mentions(done.error(), shard));
    CHECK_FALSE(fs::exists(shard.parent_path() / cp::manifest_file));
    CHECK_FALSE(fs::exists(dir / cp::complete_name(5)));
  }
}

TEST_CASE("SV-8: a rank whose host lacks the folder of checkpoints makes none") {
  scratch dir;
  auto d = io::open_disk({io::disk_backend::threads, 1, 1, {}});
  REQUIRE(d);
  const auto partial = dir / "runs/t/checkpoints" / cp::partial_name(5, 1);
  const auto plans = shares_of(options_in(dir.path, 1, 1).plan);
  REQUIRE(plans);
  cp::manifest_head head;
  head.step = 5;
  head.slot_bytes = 4096;
  const auto save = cp::rank_save::create(**d, partial, head, plans->front(), [](const auto&) {});
  REQUIRE_FALSE(save);
  CHECK(save.error().code == errc::not_found);
  CHECK(fs::is_empty(dir.path));
}

TEST_CASE("committer: the tokenizer's files travel along") {
  scratch dir;
  auto o = options_in(dir.path, 1, 1);
  fs::create_directories(dir / "words");
  std::ofstream(dir / "words/tokenizer.json") << "{}";
  std::ofstream(dir / "words/unrelated.txt") << "x";
  o.plan.job.data.tokenizer = (dir / "words").string();
  auto done = committed(o, save_all(o, 5));
  REQUIRE(done);
  CHECK(text_of(*done / "tokenizer.json") == "{}");
  CHECK_FALSE(fs::exists(*done / "unrelated.txt"));
}

TEST_CASE("limits: a committer refuses a tokenizer's file beyond its length") {
  scratch dir;
  auto o = options_in(dir / "all", 1, 1);
  fs::create_directory(o.dir);
  const auto vocab = dir / "words/vocab.json";
  put_file(vocab, "{}");
  fs::resize_file(vocab, (uint64_t{256} << 20) + 1);  // takes no room
  o.plan.job.data.tokenizer = vocab.parent_path().string();
  const auto done = committed(o, save_all(o, 5));
  REQUIRE_FALSE(done);
  CHECK(done.error().code == errc::bad_data);
  CHECK(mentions(done.error(), vocab));
  CHECK_FALSE(fs::exists(o.dir / cp::complete_name(5)));
}

TEST_CASE("limits: an export finds no place where ninety-nine are others', and changes none") {
  scratch dir;
  const auto o = options_in(dir / "all", 1, 1);
  fs::create_directory(o.dir);
  const auto of = committed(o, save_all(o, 5));
  REQUIRE(of);
  const auto place = [&](int n) {
    return n == 1 ? dir / "model" : dir / fmt::format("model-{}", n);
  };
  for (int n = 1; n <= 99; ++n) put_file(place(n) / "notes.txt", "mine");
  const auto before = tree_of(dir.path);
  runtime_config config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto target = system.spawn<caf::detached>(committer, record_of(o), o.storage);
  const auto exported = [&]() -> result<std::string> {
    result<std::string> out = std::string();
    self->request(target, caf::infinite,
                  make_msg<fbs::ExportModel>(of_epoch(o),
                                             [&](auto& m) {
                                               m.checkpoint = of->string();
                                               m.directory = place(1).string();
                                             }))
        .receive([&](const msg<fbs::CheckpointFolder>& m) { out = m->directory()->str(); },
                 [&](const caf::error& e) { out = from_caf(e); });
    return out;
  };
  const auto refused = exported();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::permission);
  CHECK(mentions(refused.error(), place(1)));
  CHECK(tree_of(dir.path) == before);
  fs::remove_all(place(99));
  const auto made = exported();
  REQUIRE(made);
  CHECK(*made == place(99).string());
  CHECK(text_of(place(98) / "notes.txt") == "mine");
  self->send_exit(target, caf::exit_reason::user_shutdown);
}

TEST_CASE("ARC-3: votes that came before the commit count, and a lost one makes no checkpoint") {
  scratch dir;
  const auto o = options_in(dir / "all", 2, 1);
  fs::create_directory(o.dir);
  runtime_config config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto target = system.spawn<caf::detached>(committer, record_of(o), o.storage);
  const auto answered = [&](const auto& m) {
    bool out = false;
    self->request(target, caf::infinite, m)
        .receive([&](const msg<fbs::CheckpointFolder>&) { out = true; }, [](const caf::error&) {});
    return out;
  };
  REQUIRE(answered(make_msg<fbs::OpenFolder>(of_epoch(o))));
  for (const bool lost : {true, false}) {
    CAPTURE(lost);
    auto votes = save_all(o, 5);
    fbs::SaveVotesT first;
    first.step = 5;
    first.shards.push_back(std::move(votes.shards.front()));
    votes.shards.erase(votes.shards.begin());
    if (!lost) self->send(target, make_msg<fbs::SaveVotes>(of_epoch(o), first));
    CHECK(answered(make_msg<fbs::CommitCheckpoint>(of_epoch(o), votes)) == !lost);
    CHECK(fs::exists(o.dir / cp::complete_name(5)) == !lost);
    fs::remove_all(votes.directory);
  }
  self->send_exit(target, caf::exit_reason::user_shutdown);
}

TEST_CASE("ARC-3: a job of fewer replicas is committed by its own plan, and the next one by its") {
  scratch dir;
  const auto o = options_in(dir / "all", 2, 1);
  fs::create_directory(o.dir);
  runtime_config config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto target = system.spawn<caf::detached>(committer, record_of(o), o.storage);
  const auto answered = [&](const auto& m) {
    bool out = false;
    self->request(target, caf::infinite, m)
        .receive([&](const msg<fbs::CheckpointFolder>&) { out = true; }, [](const caf::error&) {});
    return out;
  };
  uint64_t step = 5;
  for (const uint32_t replicas : {2, 1, 0}) {  // 0: all
    CAPTURE(replicas);
    auto laid = o;
    auto plan = train::with_replicas(o.plan, replicas == 0 ? 2 : replicas);
    REQUIRE(plan);
    laid.plan = *plan;
    REQUIRE(answered(make_msg<fbs::OpenFolder>(of_epoch(o),
                                               [&](auto& m) { m.replicas = replicas; })));
    REQUIRE(answered(make_msg<fbs::CommitCheckpoint>(of_epoch(o), save_all(laid, step))));
    const auto read = cp::reader::open(io::local_files(), o.dir / cp::complete_name(step));
    REQUIRE(read);
    CHECK(read->content().head.layout.data == (replicas == 1 ? 1 : 2));
    ++step;
  }
  self->send_exit(target, caf::exit_reason::user_shutdown);
}

TEST_CASE("committer: the model of another checkpoint is not taken for this one's") {
  scratch dir;
  const auto o = options_in(dir.path, 1, 1);
  const auto older = committed(o, save_all(o, 4)), newer = committed(o, save_all(o, 5));
  REQUIRE(older);
  REQUIRE(newer);
  runtime_config config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto target = system.spawn<caf::detached>(committer, record_of(o), o.storage);
  const auto exported = [&](const fs::path& from) {
    self->request(target, caf::infinite,
                  make_msg<fbs::ExportModel>(of_epoch(o),
                                             [&](auto& m) {
                                               m.checkpoint = from.string();
                                               m.directory = (dir / "model").string();
                                             }))
        .receive([](const msg<fbs::CheckpointFolder>&) {},
                 [](const caf::error& e) { FAIL(caf::to_string(e)); });
    struct stat facts {};
    REQUIRE(::stat((dir / "model").c_str(), &facts) == 0);
    return facts.st_ino;
  };
  const auto first = exported(*newer);
  CHECK(exported(*newer) == first);  // once is enough
  const auto second = exported(*older);
  CHECK(second != first);
  CHECK(exported(*older) == second);
  self->send_exit(target, caf::exit_reason::user_shutdown);
}

TEST_CASE("committer: latest is a link to the newest, and never takes a person's file away") {
  scratch dir;
  for (const char* name : {"step-00000001", "step-00000002"}) {
    fs::create_directories(dir / name);
    REQUIRE(point_latest(io::local_files(), dir / name));
    CHECK(fs::read_symlink(dir / "latest") == name);
  }
  fs::create_directory_symlink("step-00000001",
                               dir / fmt::format(".latest.tmp-{}", ::getpid()));  // of a killed one
  (void)point_latest(io::local_files(), dir / "step-00000001");
  CHECK(fs::read_symlink(dir / "latest") == "step-00000001");
  fs::remove(dir / "latest");
  std::ofstream(dir / "latest") << "mine";
  (void)point_latest(io::local_files(), dir / "step-00000001");
  CHECK(text_of(dir / "latest") == "mine");
  fs::remove(dir / "latest");
  put_file(dir / "mine/file", "mine");
  fs::create_directory_symlink("mine", dir / "latest");
  (void)point_latest(io::local_files(), dir / "step-00000001");
  CHECK(fs::read_symlink(dir / "latest") == "mine");
  CHECK(io::checkpoint::list(dir.path)->size() == 2);
}

TEST_CASE(
    "committer: a link that a killed process left half way does not keep latest from moving") {
  scratch dir;
  const auto left = dir / fmt::format(".latest.tmp-{}", ::getpid());
  fs::create_directories(dir / "step-00000002");
  fs::create_directory_symlink("step-00000001", left);
  (void)point_latest(io::local_files(), dir / "step-00000002");
  CHECK(fs::read_symlink(dir / "latest") == "step-00000002");
  CHECK_FALSE(fs::exists(fs::symlink_status(left)));
  std::ofstream(left) << "mine";
  (void)point_latest(io::local_files(), dir / "step-00000002");
  CHECK(text_of(left) == "mine");
}

TEST_CASE("committer: a step that two need is held until neither needs it") {
  scratch dir;
  auto o = options_in(dir / "all", 1, 1);
  o.plan.job.checkpoint.keep = 1;
  fs::create_directory(o.dir);
  runtime_config config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto target = system.spawn<caf::detached>(committer, record_of(o), o.storage);
  const auto folder = [&](const auto& m) {
    std::string out;
    self->request(target, caf::infinite, m)
        .receive([&](const msg<fbs::CheckpointFolder>& f) { out = f->directory()->str(); },
                 [](const caf::error& e) { FAIL(caf::to_string(e)); });
    return out;
  };
  const auto hold = [&](bool needed) {
    self->send(target, make_msg<fbs::HoldCheckpoint>(of_epoch(o), [&](auto& m) {
                 m.step = 4;
                 m.hold = needed;
               }));
  };
  folder(make_msg<fbs::OpenFolder>(of_epoch(o)));
  const fs::path held =
      folder(make_msg<fbs::CommitCheckpoint>(of_epoch(o), save_all(o, 4)));
  hold(true);
  hold(true);
  folder(make_msg<fbs::CommitCheckpoint>(of_epoch(o), save_all(o, 6)));
  hold(false);
  folder(make_msg<fbs::OpenFolder>(of_epoch(o)));  // what came before it is done
  CHECK(fs::exists(held));
  hold(false);
  folder(make_msg<fbs::OpenFolder>(of_epoch(o)));
  CHECK_FALSE(fs::exists(held));
  self->send_exit(target, caf::exit_reason::user_shutdown);
}

TEST_CASE("SV-10: committer: a checkpoint is told its loss while nobody reads it") {
  scratch dir;
  const auto o = options_in(dir / "all", 1, 1);
  fs::create_directory(o.dir);
  auto votes = save_all(o, 5);
  votes.validation_loss = -1;
  const auto made = committed(o, votes);
  REQUIRE(made);
  const auto loss = [&] {
    CHECK(verify(*made));
    const auto r = cp::reader::open(*made);
    REQUIRE(r);
    return r->content().head.validation_loss;
  };
  CHECK_FALSE(loss());
  {
    const auto reading = cp::reading::begin(*made);
    REQUIRE(reading);
    const auto refused = cp::amend_loss(io::local_files(), *made, 2.25);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::unavailable);
  }
  CHECK_FALSE(loss());
  const auto before = tree_of(*made);
  REQUIRE(cp::amend_loss(io::local_files(), *made, 2.25));
  CHECK(loss() == 2.25);
  CHECK(tree_of(*made).size() == before.size());
  CHECK_FALSE(cp::amend_loss(io::local_files(), dir / "none", 2.25));
}

TEST_CASE("CAT-4 committer: the run is told which checkpoint is next, and with what state") {
  scratch dir;
  auto o = options_in(dir / "all", 1, 1);
  o.plan.job.checkpoint.second.dir = (dir / "second/").string();  // as a person may write it
  fs::create_directory(o.dir);
  const auto older = committed(o, save_all(o, 4)), newer = committed(o, save_all(o, 6));
  REQUIRE(older);
  REQUIRE(newer);
  REQUIRE(point_latest(io::local_files(), *newer));
  const auto copy = dir / "second" / newer->filename();
  fs::create_directory(dir / "second");
  fs::copy(*newer, copy, fs::copy_options::recursive);
  runtime_config config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto target = system.spawn<caf::detached>(committer, record_of(o), o.storage);
  const auto choose = [&](uint64_t at_most, const std::string& unsound) {
    result<fbs::CheckpointChosenT> out = fbs::CheckpointChosenT();
    self->request(target, caf::infinite,
                  make_msg<fbs::ChooseCheckpoint>(of_epoch(o),
                                                  [&](auto& m) {
                                                    m.at_most = at_most;
                                                    if (!unsound.empty())
                                                      m.unsound.push_back(unsound);
                                                  }))
        .receive([&](const msg<fbs::CheckpointChosen>& m) { out = m.unpack(); },
                 [&](const caf::error& e) { out = from_caf(e); });
    return out;
  };
  const auto whole = choose(6, newer->string());
  REQUIRE_FALSE(whole);
  CHECK(whole.error().code == errc::unavailable);
  const auto chosen = choose(5, "");
  REQUIRE(chosen);
  CHECK(chosen->directory == older->string());
  CHECK(chosen->step == 4);
  CHECK(parse_state(chosen->state)->tokens == 640);
  CHECK(chosen->told.size() == 2);
  CHECK_FALSE(fs::exists(*newer));
  CHECK_FALSE(fs::exists(copy));
  CHECK(fs::read_symlink(o.dir / "latest") == older->filename());
  CHECK_FALSE(choose(3, ""));
  self->send_exit(target, caf::exit_reason::user_shutdown);
}

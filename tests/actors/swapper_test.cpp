// The swapper: when its folder is made and goes, what it answers and shows; and the worker before
// it, which has no engine until the folder is there.
#include "actors/swap/swapper.hpp"

#include <filesystem>
#include <memory>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/train/swap_folder.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "io/config/load.hpp"
#include "tests/actors/scripted_worker.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::engine_script;
using troupe::train::test::scripted_engines;
using troupe::train::test::worker_calls;

namespace {

constexpr uint32_t swap_epoch = 4;

void add_place(fbs::SwapOpenedT& o, std::string directory) {
  auto& place = *o.places.emplace_back(std::make_unique<fbs::SwapPlaceT>());
  place.directory = std::move(directory);
  place.links = true;
  place.free_bytes = 77;
}

/// Engines that are scripted, on a real folder.
class engines_on_drive : public scripted_engines {
 public:
  using scripted_engines::scripted_engines;
  result<std::unique_ptr<swap_home>> open_swap(const swap_request& r) override {
    TROUPE_TRY(made, swap_folders::make(r));
    return std::unique_ptr<swap_home>(std::move(made));
  }
};

struct scripted_swapper : troupe::test::actor_fixture {
  scratch dir;
  std::shared_ptr<engine_script> script = std::make_shared<engine_script>();
  troupe::test::partner owner = make_partner("worker");
  swapper_actor target;

  scripted_swapper() : actor_fixture(swap_epoch) {
    spawn_record record{swap_epoch};
    record.rank = 2;
    target = spawn(swap::swapper, record, std::make_shared<engines_on_drive>(script));
  }
  result<msg<fbs::SwapOpened>> open(const std::vector<std::filesystem::path>& at,
                                    bool consume = false) {
    return owner.answer_of<fbs::SwapOpened>(
        owner.ask(target, make_msg<fbs::OpenSwap>(context_of(swap_epoch), [&](auto& o) {
                    for (const auto& one : at) o.directories.push_back(one.string());
                    o.job = "tale";
                    o.file_bytes = 4096;
                    o.consume = consume;
                    o.checkpoint_directory = (dir / "checkpoints").string();
                  })));
  }
  fbs::StatusT status() {
    const auto answer =
        owner.answer_of<fbs::Status>(owner.ask(target, make_msg<fbs::StatusRequest>()));
    REQUIRE(answer);
    return answer->unpack();
  }
};

/// A worker that swaps, between a scripted stage, engine and swapper.
struct swapping_worker : troupe::test::actor_fixture {
  scratch dir;
  std::shared_ptr<engine_script> script = std::make_shared<engine_script>();
  troupe::test::partner stage = make_partner("stage"), swapper = make_partner("swapper");
  worker_actor target;
  uint64_t asked = 0;
  bool consume = false;
  std::string swap_dir = "swap";  ///< in `dir`, or a whole path

  explicit swapping_worker(bool with_swapper = true) : actor_fixture(swap_epoch) {
    spawn_record record{swap_epoch, 0};
    if (with_swapper) record.swapper = swapper.as<swapper_actor>();
    target = spawn(train::worker, record, std::make_shared<scripted_engines>(script));
  }
  /// At the least memory that its job can be trained with.
  std::string job() const {
    const auto text = [&](int64_t bytes) {
      return fmt::format(
          "[job]\noutput = \"out\"\nname = \"tale\"\n"
          "[model]\nlayers = 6\nheads = 1\nhidden = 512\nvocab = 300\n"
          "[data]\npath = \"x\"\n"
          "[train]\nsteps = 4\nbatch = 2\nmicro_batch = 2\nseq_len = 8\n"
          "[checkpoint]\nring_bytes = 16777216\ndir = \"{}\"\n"
          "[swap]\ndir = \"{}\"\nhost_bytes = {}\nconsume = {}\n",
          (dir / "checkpoints").string(), (dir / swap_dir).string(), bytes, consume);
    };
    const auto any = config::parse(text(1), "a job that swaps");
    REQUIRE_MESSAGE(any, (any ? "" : render(any.error())));
    const auto model = model_of(*any);
    REQUIRE(model);
    const auto o = options_of(*any, *model, {{1, 1, 1}, 0}, {0, 6}, 1);
    return text(static_cast<int64_t>(swap_floor_bytes(*any, o)));
  }
  void build(bool only_asks = false, uint64_t swap_bytes = 0, bool consumes = false) {
    asked = stage.ask(target, make_msg<fbs::BuildStage>(context_of(swap_epoch), [&](auto& b) {
                        b.only_asks = only_asks;
                        b.swap_bytes = swap_bytes;
                        b.swap_consumes = consumes;
                        b.data_ranks = b.pipeline_ranks = 1;
                        b.last_layer = 6;
                        b.threads = 1;
                        b.config_toml = job();
                      }));
  }
  std::string refusal() const {
    const auto a = stage.answer_of<fbs::StageReady>(asked);
    return a ? "" : a.error().message;
  }
};

}  // namespace

TEST_CASE("SWA-1: swapper: it has its folder from OpenSwap to its end") {
  scripted_swapper f;
  CHECK(f.status().state == "empty");
  CHECK(f.status().values->swapper->read_chunk == -1);
  const auto opened = f.open({f.dir / "swap"});
  REQUIRE(opened);
  const auto all = opened->unpack();
  REQUIRE(all.places.size() == 1);
  const auto& answer = *all.places.front();
  CHECK(answer.directory == (f.dir / "swap/tale-rank-00002/files").string());
  CHECK(std::filesystem::is_directory(answer.directory));
  CHECK(answer.links);
  CHECK_FALSE(all.consumes);
  CHECK(answer.free_bytes > 0);
  const auto s = f.status();
  CHECK(s.actor == "swapper/2");
  CHECK(s.state == "ready");
  CHECK(s.values->swapper->directory == answer.directory);
  CHECK(s.values->swapper->links);
  CHECK(s.values->swapper->free_bytes == answer.free_bytes);

  const auto again = f.open({f.dir / "swap"});
  REQUIRE_FALSE(again);
  CHECK(again.error() == swap::swap_is_open(2));
  CHECK(std::filesystem::is_directory(answer.directory));

  caf::anon_send_exit(f.target, caf::exit_reason::user_shutdown);
  f.settle();
  CHECK(std::filesystem::is_directory(answer.directory));  // its worker has files there
  f.owner.die();
  f.settle();
  CHECK(std::filesystem::is_empty(f.dir / "swap"));
}

TEST_CASE("SWA-1: swapper: of several drives it has a folder on each, to its end") {
  scripted_swapper f;
  const auto opened = f.open({f.dir / "one", f.dir / "two"});
  REQUIRE(opened);
  const auto all = opened->unpack();
  REQUIRE(all.places.size() == 2);
  CHECK(all.places[0]->directory == (f.dir / "one/tale-rank-00002/files").string());
  CHECK(all.places[1]->directory == (f.dir / "two/tale-rank-00002/files").string());
  const auto status = f.status();
  const auto& shown = *status.values->swapper;
  CHECK(shown.directory == all.places[0]->directory + ", " + all.places[1]->directory);
  CHECK(shown.free_bytes == all.places[0]->free_bytes + all.places[1]->free_bytes);
  f.owner.die();
  caf::anon_send_exit(f.target, caf::exit_reason::user_shutdown);
  f.settle();
  CHECK(std::filesystem::is_empty(f.dir / "one"));
  CHECK(std::filesystem::is_empty(f.dir / "two"));
}

TEST_CASE("SWA-2: swapper: of several folders one cannot be made: none is there then") {
  scripted_swapper f;
  REQUIRE_FALSE(f.open({f.dir / "one", "/proc/swap"}));
  CHECK(std::filesystem::is_empty(f.dir / "one"));
  REQUIRE_FALSE(f.open({f.dir / "one", f.dir / "one"}));
  CHECK(std::filesystem::is_empty(f.dir / "one"));
}

TEST_CASE("SWA-2: swapper: a folder that cannot be made is answered, and another one can be") {
  scripted_swapper f;
  const auto refused = f.open({"/proc/swap"});
  REQUIRE_FALSE(refused);
  CHECK(f.status().state == "failed");
  const auto opened = f.open({f.dir / "swap"}, true);
  REQUIRE(opened);
  CHECK((*opened)->consumes());  // as it is told, whatever room there is
  CHECK(f.status().state == "ready");
}

TEST_CASE("worker: a rank that swaps has its folder before it has an engine") {
  swapping_worker f;
  f.build();
  CHECK(f.script->made.empty());
  const auto order = f.swapper.take<fbs::OpenSwap>();
  REQUIRE(order->directories()->size() == 1);
  CHECK(order->directories()->Get(0)->str() == (f.dir / "swap").string());
  CHECK(order->job()->str() == "tale");
  CHECK(order->checkpoint_directory()->str() == (f.dir / "checkpoints").string());
  CHECK(order->file_bytes() > 0);
  CHECK_FALSE(order->consume());
  order.answer<fbs::SwapOpened>([](auto& o) { add_place(o, "/drive/files"); });
  REQUIRE(f.script->made.size() == 1);
  const auto& swap = f.script->made[0].swap;
  CHECK_FALSE(swap.consumes);
  REQUIRE(swap.places.size() == 1);
  CHECK(swap.places[0].files == "/drive/files");
  CHECK(swap.places[0].links);
  CHECK(swap.places[0].free_bytes == 77);
  f.script->complete("build");
  f.settle();
  CHECK(f.stage.answer_of<fbs::StageReady>(f.asked));
}

TEST_CASE("worker: it says what memory its stage is left, and is built for less where it is told") {
  swapping_worker f;
  f.build(true);
  const auto told = f.stage.answer_of<fbs::StageReady>(f.asked);
  REQUIRE_MESSAGE(told, f.refusal());
  const auto left = (*told)->swap_bytes();
  CHECK(left > 0);
  CHECK(f.script->made.empty());
  CHECK(f.swapper.take_all<fbs::OpenSwap>().empty());
  f.build(false, left);
  f.swapper.take<fbs::OpenSwap>().answer<fbs::SwapOpened>(
      [](auto& o) { add_place(o, "/drive/files"); });
  REQUIRE(f.script->made.size() == 1);
  CHECK(f.script->made[0].swap_bytes == left);
  f.build(false, left - 1);  // its job is at the least memory
  const auto refused = f.stage.answer_of<fbs::StageReady>(f.asked);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(gpu::budget_too_small));
}

TEST_CASE(
    "JOB-22: worker: it says what its files take of the checkpoints' drive, and does as told") {
  swapping_worker f;
  const auto said = [&] {
    f.build(true);
    const auto told = f.stage.answer_of<fbs::StageReady>(f.asked);
    REQUIRE_MESSAGE(told, f.refusal());
    return (*told).unpack();
  };
  CHECK(said().swap_file_bytes == 0);  // no checkpoint is to be taken
  f.consume = true;
  const auto share = said();
  CHECK(share.swap_file_bytes > 0);
  CHECK(share.swap_free_bytes > 0);
  for (const bool told : {true, false}) {
    f.build(false, share.swap_bytes, told);
    const auto order = f.swapper.take<fbs::OpenSwap>();
    CHECK(order->consume() == told);  // whatever room there is
    CHECK(order->file_bytes() == share.swap_file_bytes);
  }
  f.swap_dir = "/proc/self";  // another drive
  CHECK(said().swap_file_bytes == 0);
}

TEST_CASE("worker: what its swapper refuses is its own refusal, and no engine is made") {
  swapping_worker f;
  f.build();
  f.swapper.take<fbs::OpenSwap>().refuse({errc::io, "no such drive"});
  CHECK(f.refusal() == "no such drive");
  CHECK(f.script->made.empty());
  swapping_worker alone(false);
  alone.build();
  CHECK(alone.refusal() == "a rank that swaps has no swapper beside it");
  CHECK(alone.script->made.empty());
}

TEST_CASE("worker: a folder that comes behind another BuildStage is not its engine's") {
  swapping_worker f;
  f.build();
  const auto first = f.asked;
  const auto order = f.swapper.take<fbs::OpenSwap>();
  f.build();
  order.answer<fbs::SwapOpened>([](auto& o) { add_place(o, "/drive/old"); });
  CHECK(f.script->made.empty());
  const auto answer = f.stage.answer_of<fbs::StageReady>(first);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == errc::cancelled);
  f.swapper.take<fbs::OpenSwap>().answer<fbs::SwapOpened>(
      [](auto& o) { add_place(o, "/drive/new"); });
  REQUIRE(f.script->made.size() == 1);
  REQUIRE(f.script->made[0].swap.places.size() == 1);
  CHECK(f.script->made[0].swap.places[0].files == "/drive/new");
}

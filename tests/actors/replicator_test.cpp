// The replicator on a real actor system: what it copies, keeps, says, and leaves when it must go.
#include "actors/checkpoint/replicator.hpp"

#include <chrono>
#include <fstream>

#include <doctest/doctest.h>
#include <caf/all.hpp>

#include "actors/base/context.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/scratch.hpp"
#include "tests/patience.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
namespace cp = troupe::io::checkpoint;
namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds patience{60};

/// Two tiers, a replicator between them, and the test in the place of the run.
message_context in_first_epoch() {
  message_context c;
  c.epoch = 1;
  return c;
}

struct fixture {
  scratch where;
  fs::path first = where / "first", second = where / "second";
  runtime_config config;
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<caf::scoped_actor> run;
  replicator_actor target;

  explicit fixture(config::second_tier_section tier = {}, committer_actor committer = {}) {
    system = std::make_unique<caf::actor_system>(config);
    run = std::make_unique<caf::scoped_actor>(*system);
    begin(tier, committer);
  }
  void begin(config::second_tier_section tier, committer_actor committer = {}) {
    if (tier.dir.empty()) tier.dir = second.string();
    train::spawn_record record;
    record.plan.job.checkpoint.second = tier;
    record.committer = committer;
    target = system->spawn<caf::detached>(replicator, record, &io::local_storage());
  }
  ~fixture() { end(); }

  /// Ends the replicator and waits until it is gone.
  void end() {
    if (!target) return;
    (*run)->send_exit(target, caf::exit_reason::user_shutdown);
    (*run)->wait_for(caf::actor_cast<caf::actor>(target));
    target = replicator_actor{};
  }

  fs::path make(uint64_t step, std::optional<double> validation_loss = {}) const {
    return cp::sample::make(first, {1, 2, step, 0, 1, validation_loss});
  }

  void tell(uint64_t step, const fs::path& from) {
    (*run)->send(target, make_msg<fbs::CopyCheckpoint>(in_first_epoch(), [&](auto& c) {
                   c.step = step;
                   c.directory = from.string();
                 }));
  }
  result<std::string> finish(uint64_t step, const fs::path& from) {
    result<std::string> out = error{errc::timeout, "no answer"};
    (*run)
        ->request(target, patience,
                  make_msg<fbs::FinishCopies>(in_first_epoch(),
                                              [&](auto& f) {
                                                f.step = step;
                                                f.directory = from.string();
                                              }))
        .receive([&](const msg<fbs::CheckpointFolder>& f) { out = f->directory()->str(); },
                 [&](const caf::error& e) { out = from_caf(e); });
    return out;
  }
  fbs::StatusT status() {
    fbs::StatusT out;
    (*run)
        ->request(target, patience, make_msg<fbs::StatusRequest>({}))
        .receive([&](const msg<fbs::Status>& s) { out = s.unpack(); },
                 [&](const caf::error& e) { FAIL(caf::to_string(e)); });
    return out;
  }
  /// The next notice to the run.
  fbs::NoticeT notice() {
    fbs::NoticeT out;
    (*run)->receive([&](const msg<fbs::Notice>& n) { out = n.unpack(); },
                    caf::after(patience) >> [] { FAIL("no notice"); });
    return out;
  }
  std::set<std::string> copies() const {
    std::set<std::string> out;
    if (fs::exists(second))
      for (const auto& item : fs::directory_iterator(second))
        out.insert(item.path().filename().string());
    return out;
  }
};

bool verifies(const fs::path& folder) {
  auto r = cp::reader::open(folder);
  if (!r) return false;
  auto report = r->verify();
  return report && report->damages.empty();
}

struct holder_state {
  static inline const char* name = "holder";
};

/// A committer that notes what it is told to hold.
committer_actor::behavior_type holder(traced_pointer<committer_actor, holder_state> self,
                                      std::shared_ptr<std::string> heard) {
  self->live_in(1);
  const auto no = [](const auto&) -> caf::result<msg<fbs::CheckpointFolder>> {
    return to_caf({errc::bug, "not asked for"});
  };
  return {status_handler(self),
          [no](const msg<fbs::OpenFolder>& m) { return no(m); },
          [no](const msg<fbs::CommitCheckpoint>& m) { return no(m); },
          [](const msg<fbs::SaveVotes>&) {},
          [](const msg<fbs::AbandonCheckpoint>&) {},
          [no](const msg<fbs::ExportModel>& m) { return no(m); },
          [](const msg<fbs::ChooseCheckpoint>&) -> caf::result<msg<fbs::CheckpointChosen>> {
            return caf::sec::unexpected_message;
          },
          [heard](const msg<fbs::HoldCheckpoint>& m) {
            *heard += fmt::format("{}{} ", m->hold() ? '+' : '-', m->step());
          },
          [](const msg<fbs::AmendCheckpoint>&) -> caf::result<msg<fbs::Ack>> {
            return caf::sec::unexpected_message;
          },
          [](const msg<fbs::GiveUpCheckpoint>&) -> caf::result<msg<fbs::Ack>> {
            return caf::sec::unexpected_message;
          }};
}

}  // namespace

TEST_CASE("CRR-1: the last checkpoint is copied whole, and the answer names it") {
  fixture f;
  const auto made = f.make(7);
  f.tell(7, made);
  auto done = f.finish(7, made);
  REQUIRE_MESSAGE(done, (done ? "" : render(done.error())));
  CHECK(*done == (f.second / "step-00000007").string());
  CHECK(verifies(*done));
  const auto s = f.status();
  CHECK(s.state == "idle");
  CHECK(s.values->replicator->step == -1);
  CHECK(s.values->replicator->durable_step == 7);
  CHECK(s.values->replicator->copied == 1);
  CHECK(s.values->replicator->failures == 0);
}

TEST_CASE("replicator: what is there already is not copied again, by whomever it was") {
  fixture f;
  const auto made = f.make(7);
  REQUIRE(f.finish(7, made));
  f.end();
  f.begin({});
  CHECK(f.finish(7, made));
  CHECK(f.status().values->replicator->copied == 0);
  CHECK(f.finish(7, f.second / "step-00000007"));  // the run began from it
  fs::remove(f.second / "step-00000007/MANIFEST");
  CHECK(f.finish(7, made));
  CHECK(f.status().values->replicator->copied == 1);
  CHECK(verifies(f.second / "step-00000007"));
}

TEST_CASE("CRR-3: the second tier's own rules say what it keeps") {
  config::second_tier_section tier;
  tier.keep = 1;
  tier.keep_every = 4;
  tier.keep_best = 1;
  fixture f(tier);
  for (uint64_t step = 1; step <= 6; ++step)
    REQUIRE(f.finish(step, f.make(step, step == 3 ? 1.0 : 2.0)));
  CHECK(f.copies() == std::set<std::string>{"step-00000003", "step-00000004", "step-00000006"});
}

TEST_CASE(
    "replicator: a failure is told once, a success after it too, and whoever asks is answered") {
  fixture f;
  std::ofstream(f.second) << "a file where the folder should be";
  const auto made = f.make(1);
  f.tell(1, made);
  const auto bad = f.notice();
  CHECK(bad.level == fbs::NoticeLevel::warning);
  CHECK(bad.text.find("step 1") != std::string::npos);
  CHECK(bad.text.find(f.second.string()) != std::string::npos);
  f.tell(2, f.make(2));
  const auto three = f.make(3);
  auto refused = f.finish(3, three);
  REQUIRE_FALSE(refused);
  CHECK(f.status().values->replicator->failures == 3);
  fs::remove(f.second);
  CHECK(f.finish(3, three));
  const auto good = f.notice();  // the next one after the first
  CHECK(good.level == fbs::NoticeLevel::info);
  CHECK(good.text.find("works again") != std::string::npos);
}

TEST_CASE("replicator: a damaged checkpoint is not copied, and the place is named") {
  fixture f;
  const auto made = f.make(1);
  auto bytes = cp::sample::bytes_of(made / "rank-00001.shard");
  cp::sample::flip(bytes[5000], 3);
  cp::sample::write_bytes(made / "rank-00001.shard", bytes);
  f.tell(1, made);
  CHECK(f.notice().text.find("rank-00001.shard, slot 1") != std::string::npos);
  CHECK(f.copies().empty());
}

TEST_CASE("replicator: a second tier that is the first by another path is refused") {
  fixture f;
  const auto made = f.make(1);
  fs::create_directory_symlink(f.first, f.second);
  f.tell(1, made);
  CHECK(f.notice().text.find("is the folder of the first tier") != std::string::npos);
  CHECK(verifies(made));
}

TEST_CASE(
    "CRR-2 HD-1: a replicator that goes while it copies answers until then and leaves nothing") {
  config::second_tier_section tier;
  tier.bytes_per_second = 1;
  fixture f(tier);
  f.tell(1, f.make(1));
  troupe::test::wait_until([&] { return f.status().state == "copying"; });
  CHECK(f.copies() == std::set<std::string>{"step-00000001.e1.partial"});
  const auto from = f.first / "step-00000001";
  const auto busy = cp::exclude_readers(io::local_files(), from);
  REQUIRE_FALSE(busy);
  CHECK(busy.error().code == errc::unavailable);
  f.end();
  CHECK(cp::exclude_readers(io::local_files(), from));
  CHECK(f.copies().empty());
}

TEST_CASE("replicator: it keeps to its bandwidth") {
  fixture quick;
  const auto made = quick.make(1);
  uint64_t bytes = 0, largest = 0;
  for (const auto& item : fs::directory_iterator(made)) bytes += item.file_size();
  auto opened = cp::reader::open(made);
  REQUIRE(opened);
  for (const auto& u : opened->units()) largest = std::max(largest, u.bytes);
  config::second_tier_section tier;
  tier.bytes_per_second = static_cast<int64_t>(bytes * 4);
  tier.dir = (quick.where / "slow").string();
  quick.end();
  quick.begin(tier);
  const auto began = std::chrono::steady_clock::now();
  REQUIRE(quick.finish(1, made));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const auto manifest = fs::file_size(made / "MANIFEST");  // the last bytes wait for nothing
  CHECK(took.count() >
        0.25 * static_cast<double>(bytes - manifest - largest) / static_cast<double>(bytes));
}

TEST_CASE("replicator: the committer is told what to hold, and when to let go") {
  auto heard = std::make_shared<std::string>();
  fixture f;
  const auto committer = f.system->spawn(holder, heard);
  f.end();
  f.begin({}, committer);
  REQUIRE(f.finish(1, f.make(1)));
  REQUIRE(f.finish(2, f.make(2)));
  f.end();
  (*f.run)->send_exit(committer, caf::exit_reason::user_shutdown);
  (*f.run)->wait_for(caf::actor_cast<caf::actor>(committer));
  CHECK(*heard == "+1 -1 +2 -2 ");
}

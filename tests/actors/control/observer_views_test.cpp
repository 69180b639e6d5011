// Views of a process's trace, which end by themselves, and its black boxes.
#include <algorithm>

#include "actors/capture/tap.hpp"
#include "actors/control/observer.hpp"
#include "tests/actors/control/scripted_observer.hpp"
#include "trace/trace_file.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using namespace troupe::test;

namespace {

/// All records of a trace file.
std::vector<trace_record> records_in_file(const std::string& path) {
  auto file = trace::trace_reader::open(path);
  REQUIRE(file);
  std::vector<trace_record> out;
  for (auto b = file->next();; b = file->next()) {
    REQUIRE(b);
    if (!*b) return out;
    const auto some = trace::records_of(***b);
    REQUIRE(some);
    out.insert(out.end(), some->begin(), some->end());
  }
}

}  // namespace

// -- beginnings and ends --------------------------------------------------------------------------

TEST_CASE("OBS-2: a view without a viewer or a limit, or of a number there is, is refused") {
  scripted_observer f;
  CHECK(f.begin(f.rule(), nullptr) == errc::usage);
  auto endless = f.rule();
  endless.max_records = 0;
  CHECK(f.begin(endless) == errc::usage);
  CHECK(f.begin(f.rule()) == errc::none);
  CHECK(f.begin(f.rule()) == errc::usage);
  f.stop();
  CHECK(f.begin(f.rule()) == errc::none);
}

TEST_CASE("OBS-2: eight views at a time, and a ninth once one of them is over") {
  scripted_observer f;
  for (uint64_t id = 1; id <= 8; ++id) CHECK(f.begin(f.rule(id)) == errc::none);
  CHECK(f.begin(f.rule(9)) == errc::unavailable);
  f.stop(9);
  CHECK(f.begin(f.rule(9)) == errc::unavailable);
  f.stop(3);
  CHECK(f.begin(f.rule(9)) == errc::none);
}

TEST_CASE("observer: a view shows what fits from its beginning on, and names each actor once") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1"), other = f.spawn(subject, "else/1");
  f.person.tell(one, f.pause());
  CHECK(f.begin(f.rule()) == errc::none);
  f.person.tell(one, f.pause());
  f.person.tell(other, f.pause());
  CHECK(f.viewer.idle());
  f.pass(100ms);
  f.person.tell(one, f.pause());
  f.pass(100ms);
  const auto all = f.batches();
  REQUIRE(all.size() == 2);
  CHECK(f.records_in(all) == 2);
  CHECK(all[0].subscription == 1);
  CHECK(all[0].sequence == 1);
  CHECK(all[1].sequence == 2);
  CHECK(all[0].node == "n1");
  CHECK(all[0].host == "host1");
  CHECK(all[0].process == process_tag());
  REQUIRE(all[0].actors.size() == 1);
  CHECK(all[0].actors[0]->path == "subject/1");
  CHECK(all[0].actors[0]->kind == "subject");
  CHECK(all[1].actors.empty());
  CHECK(all[0].messages.empty());
  f.stop();
  f.person.tell(one, f.pause());
  f.pass(1s);
  CHECK(f.viewer.idle());  // who wanted the end is told nothing
}

TEST_CASE("observer: a view of the past shows what the recorder held already") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/of-the-past");
  f.person.tell(one, f.pause());
  auto s = f.rule();
  s.actor = "subject/of-the-past";
  s.past = true;
  CHECK(f.begin(s) == errc::none);
  for (int i = 0; i < 20 && f.viewer.idle(); ++i) f.pass(100ms);
  CHECK(f.records_in(f.batches()) == 1);
}

TEST_CASE("OBS-1: a view ends at its limit, and says so") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  auto s = f.rule();
  s.max_records = 3;
  s.message = "Pause";
  CHECK(f.begin(s) == errc::none);
  f.person.ask(one, f.make<fbs::CheckpointNow>([](auto&) {}));
  for (int i = 0; i < 5; ++i) f.person.tell(one, f.pause());
  f.pass(100ms);
  const auto all = f.batches();
  CHECK(f.records_in(all) == 3);
  CHECK(f.over(all) == "the limit of 3 records is reached");
  f.person.tell(one, f.pause());
  f.pass(1s);
  CHECK(f.viewer.idle());
  CHECK(f.begin(s) == errc::none);
}

TEST_CASE("OBS-1: a view ends when its lease is not renewed, and the lease is 1 s to 60 s") {
  struct row {
    uint32_t wanted_ms;
    std::chrono::milliseconds lease;
  };
  for (const auto& [wanted_ms, lease] : {row{0, 1s}, row{5'000, 5s}, row{UINT32_MAX, 60s}}) {
    CAPTURE(wanted_ms);
    scripted_observer f;
    auto s = f.rule();
    s.lease_ms = wanted_ms;
    CHECK(f.begin(s) == errc::none);
    f.pass(lease / 2);
    f.more(1);
    f.more(1, 2);  // of no view
    f.pass(lease);
    CHECK(f.over(f.batches()).empty());
    f.pass(100ms);
    CHECK(f.over(f.batches()) == "the viewer has not asked for more");
    f.more(1);
    f.pass(lease);
    CHECK(f.viewer.idle());
  }
}

TEST_CASE("OBS-1: a view in which nothing happens goes on while its viewer answers") {
  scripted_observer f;
  auto s = f.rule();
  s.lease_ms = 10'000;
  CHECK(f.begin(s) == errc::none);
  size_t said = 0;
  for (int i = 0; i < 600; ++i) {
    f.pass(100ms);
    const auto all = f.batches();
    said += all.size();
    CHECK(f.over(all).empty());
    for (const auto& b : all) {
      CHECK(b.records.empty());
      f.more(1);
    }
  }
  CHECK(said == 12);  // twice a lease, and no more
}

TEST_CASE("OBS-1: when its viewer goes all his views end, and those of others go on") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  const auto other = f.make_partner("other");
  auto s = f.rule();
  s.payloads = true;
  CHECK(f.begin(s) == errc::none);
  s.subscription = 2;
  CHECK(f.begin(s) == errc::none);
  CHECK(f.begin(f.rule(3), other.self()) == errc::none);
  CHECK(f.runtime().messages.is_open());
  f.viewer.die();
  CHECK_FALSE(f.runtime().messages.is_open());
  f.person.tell(one, f.pause());
  f.pass(100ms);
  CHECK(other.take_all<fbs::TraceBatch>().size() == 1);
  for (uint64_t id = 4; id < 11; ++id) CHECK(f.begin(f.rule(id), other.self()) == errc::none);
}

TEST_CASE("observer: a viewer is watched while he has a view, and once") {
  scripted_observer f;
  CHECK(f.begin(f.rule(1)) == errc::none);
  f.stop(1);
  CHECK(f.begin(f.rule(1)) == errc::none);
  CHECK(f.begin(f.rule(2)) == errc::none);
  f.stop(1);
  const auto stats = f.runtime().registry.find("observer/n1");
  const auto came = stats->view().received;
  f.viewer.die();
  CHECK(stats->view().received == came + 1);
}

TEST_CASE("observer: it looks ten times a second while there is a view, and rests without") {
  scripted_observer f;
  CHECK(f.begin(f.rule(1)) == errc::none);
  CHECK(f.begin(f.rule(2)) == errc::none);
  const auto stats = f.runtime().registry.find("observer/n1");
  auto came = stats->view().received;
  f.pass(1s);
  CHECK(stats->view().received == came + 10);
  f.stop(1);
  f.stop(2);
  f.pass(100ms);
  came = stats->view().received;
  f.pass(1s);
  CHECK(stats->view().received == came);
}

// -- credit ---------------------------------------------------------------------------------------

TEST_CASE("OBS-2: without credit records are left out and counted, and come again with it") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  CHECK(f.begin(f.rule()) == errc::none);
  for (int i = 0; i < 8; ++i) {
    f.record("subject/1", 1);
    f.pass(100ms);
  }
  CHECK(f.batches().size() == 8);
  f.record("subject/1", 5);
  f.pass(200ms);
  CHECK(f.viewer.idle());
  f.more(2);
  f.record("subject/1", 1);
  f.pass(100ms);
  const auto all = f.batches();
  REQUIRE(all.size() == 1);
  CHECK(f.records_in(all) == 1);
  CHECK(all[0].sequence == 9);
  CHECK(all[0].dropped == f.runtime().messages.dropped() + 5);
}

TEST_CASE("OBS-2: what one look finds takes no more batches than there is credit for") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  auto s = f.rule();
  s.payloads = true;
  CHECK(f.begin(s) == errc::none);
  for (int i = 0; i < 7; ++i) {
    f.record("subject/1", 1);
    f.pass(100ms);
  }
  CHECK(f.batches().size() == 7);
  for (int i = 0; i < 3; ++i)  // each takes a batch
    f.person.tell(one, f.make<fbs::Pause>([](auto& p) { p.reason = std::string(200'000, 'x'); }));
  f.pass(100ms);
  const auto last = f.batches();
  REQUIRE(last.size() == 1);
  CHECK(last[0].messages.size() == 1);
  f.more(8);
  f.record("subject/1", 1);
  f.pass(100ms);
  const auto all = f.batches();
  REQUIRE(all.size() == 1);
  CHECK(all[0].sequence == 9);
  CHECK(all[0].dropped == f.runtime().messages.dropped() + 2);
}

TEST_CASE("OBS-2: credit is at most 64 batches, whatever a viewer gives") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  CHECK(f.begin(f.rule()) == errc::none);
  f.more(UINT32_MAX);
  f.more(UINT32_MAX);
  for (int i = 0; i < 70; ++i) {
    f.record("subject/1", 1);
    f.pass(100ms);
  }
  CHECK(f.batches().size() == 64);
}

TEST_CASE("OBS-1: why a view is over is said without credit, too") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  auto s = f.rule();
  s.max_records = 12;
  CHECK(f.begin(s) == errc::none);
  for (int i = 0; i < 12; ++i) {
    f.record("subject/1", 1);
    f.pass(100ms);
  }
  const auto all = f.batches();
  CHECK(f.records_in(all) == 8);
  CHECK(f.over(all) == "the limit of 12 records is reached");
}

TEST_CASE("observer: a view with payloads has the messages, and the tap is open as long") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1"), other = f.spawn(subject, "else/1");
  auto s = f.rule();
  s.payloads = true;
  CHECK(f.begin(f.rule(2)) == errc::none);
  CHECK_FALSE(f.runtime().messages.is_open());
  CHECK(f.begin(s) == errc::none);
  CHECK(f.runtime().messages.is_open());
  f.person.tell(one, f.pause());
  f.person.tell(other, f.pause());
  f.pass(100ms);
  std::vector<fbs::TraceBatchT> with, without;
  for (auto& b : f.batches()) (b.subscription == 1 ? with : without).push_back(std::move(b));
  REQUIRE(with.size() == 1);
  REQUIRE(with[0].messages.size() == 1);
  const auto message = decode(with[0].messages[0]->message);
  REQUIRE(message);
  CHECK(message->type() == message_traits<fbs::Pause>::id);
  REQUIRE(without.size() == 1);
  CHECK(without[0].messages.empty());
  f.stop(1);
  CHECK_FALSE(f.runtime().messages.is_open());
  f.stop(2);
}

// -- black boxes ----------------------------------------------------------------------------------

TEST_CASE("observer: a black box has what the recorder holds, under a name that is one word") {
  scripted_observer f;
  const auto one = f.spawn(subject, "subject/1");
  f.person.tell(one, f.pause());
  const auto dump = [&](const std::string& reason) {
    return f.person.answer_of<fbs::Ack>(
        f.person.ask(f.target, f.make<fbs::DumpBlackBox>([&](auto& d) { d.reason = reason; })));
  };
  const auto number = f.runtime().registry.find("subject/1")->number();
  for (const auto& reason : {std::string("../../etc/passwd\n\x1b[2J"), std::string(),
                             std::string(10'000, 'x'), std::string("\xff\xfe/")}) {
    const auto done = dump(reason);
    REQUIRE(done);
    const std::filesystem::path path = (*done)->text()->str();
    CHECK(std::filesystem::canonical(path.parent_path()) ==
          std::filesystem::canonical(f.folder.path));
    const auto name = path.filename().string();
    CHECK(name.find("blackbox-n1-") == 0);
    CHECK(name.size() < 90);
    CHECK(std::all_of(name.begin(), name.end(),
                      [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '.'; }));
    const auto all = records_in_file(path);
    CHECK(std::any_of(all.begin(), all.end(), [&](const auto& r) { return r.actor == number; }));
  }
  CHECK(f.boxes().size() == 4);
}

TEST_CASE("observer: without a folder, or one that is not there, a black box is refused") {
  scripted_observer none(""), gone("/dev/null/nowhere");
  const auto box = none.make<fbs::DumpBlackBox>([](auto&) {});
  CHECK(none.refusal_of<fbs::Ack>(box).code == errc::usage);
  CHECK(gone.refusal_of<fbs::Ack>(box).code != errc::none);
}

TEST_CASE("OBS-4: a death by an error leaves a black box, one in 10 s, and at most 16") {
  scripted_observer f;
  const auto die = [&] {
    const auto one = f.spawn(subject, "subject/1");
    f.person.tell(one, f.make<fbs::StopTraining>([](auto&) {}));
  };
  die();
  REQUIRE(f.boxes().size() == 1);
  CHECK(f.boxes()[0].find("subject-1-died") != std::string::npos);
  die();
  f.pass(10s - 1ns);
  die();
  CHECK(f.boxes().size() == 1);
  f.pass(1ns);
  die();
  CHECK(f.boxes().size() == 2);
  for (int i = 0; i < 20; ++i) {
    f.pass(10s);
    die();
  }
  CHECK(f.boxes().size() == 16);
  CHECK(f.refusal_of<fbs::Ack>(f.make<fbs::DumpBlackBox>([](auto&) {})).code == errc::none);
  CHECK(f.boxes().size() == 17);  // a person gets one all the same
}

TEST_CASE("OBS-4: who ends in order leaves no black box, and nobody one without an observer") {
  scripted_observer f;
  {
    const auto one = f.spawn(subject, "subject/1");
    caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
    f.settle();
    CHECK_FALSE(f.lives(one));
  }
  const auto two = f.spawn(subject, "subject/2");
  caf::anon_send_exit(f.target, caf::exit_reason::kill);
  f.settle();
  f.person.tell(two, f.make<fbs::StopTraining>([](auto&) {}));
  CHECK(f.boxes().empty());
}

// What a voter has granted is found by the next process of it, whatever ended the one before, and
// a voter whose file is no good grants nothing.
#include "actors/heads/vote_store.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/disk/faulty_disk.hpp"
#include "messages/any_msg.hpp"
#include "messages/schemas/train_generated.h"
#include "messages/text.hpp"
#include "tests/errors.hpp"
#include "tests/io/disk/crash_images.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using heads::held_record;
using heads::vote_store;

namespace {

constexpr auto job_kind = message_traits<fbs::JobMemory>::id;
constexpr auto cluster_kind = message_traits<fbs::ClusterMemory>::id;

/// A job's memory that says `what`, as it travels.
std::string job_content(const std::string& what) {
  fbs::JobMemoryT memory;
  memory.pause_reason = what;
  const auto bytes = encode(make_msg<fbs::JobMemory>({}, memory));
  return {bytes.begin(), bytes.end()};
}

std::string cluster_content(const std::string& node) {
  fbs::ClusterMemoryT memory;
  memory.nodes = {node};
  const auto bytes = encode(make_msg<fbs::ClusterMemory>({}, memory));
  return {bytes.begin(), bytes.end()};
}

fbs::HoldRecordT hold_order(const std::string& head, const held_record& record) {
  fbs::HoldRecordT out;
  out.head = head;
  out.record = std::make_unique<fbs::HeldRecordT>(heads::to_message(record));
  return out;
}

bool is_granted(const result<fbs::PromisedT>& vote) {
  REQUIRE_MESSAGE(vote, (vote ? "" : render(vote.error())));
  return vote->granted;
}

/// Whether it said no, and told of whom it follows.
bool is_refused_for(const result<fbs::PromisedT>& vote, uint32_t epoch, const std::string& head) {
  REQUIRE_MESSAGE(vote, (vote ? "" : render(vote.error())));
  return !vote->granted && vote->epoch == epoch && vote->head == head && vote->held.empty();
}

vote_store opened_votes(io::file_system& files, const std::filesystem::path& output,
                        const std::string& name = "node1") {
  auto votes = vote_store::open(files, output, name);
  REQUIRE_MESSAGE(votes, (votes ? "" : render(votes.error())));
  return std::move(*votes);
}

}  // namespace

TEST_CASE("VST-1: what was granted is found by the next process, and refused to others still") {
  scratch dir;
  const held_record job{5, 2, job_content("lunch")}, cluster{5, 3, cluster_content("gpu1")};
  {
    auto votes = opened_votes(io::local_files(), dir.path);
    CHECK(votes.promises().epoch() == 0);
    CHECK(is_granted(votes.promise(5, "a:1")));
    CHECK(is_granted(votes.hold(hold_order("a:1", {5, 1, job_content("breakfast")}))));
    CHECK(is_granted(votes.hold(hold_order("a:1", job))));
    CHECK(is_granted(votes.hold(hold_order("a:1", cluster))));
    CHECK(is_granted(votes.hold(hold_order("a:1", {5, 1, job_content("breakfast")}))));  // late
  }
  {
    auto votes = opened_votes(io::local_files(), dir.path);
    CHECK(votes.promises().epoch() == 5);
    CHECK(votes.promises().head() == "a:1");
    CHECK(is_refused_for(votes.promise(5, "b:1"), 5, "a:1"));
    CHECK(is_refused_for(votes.promise(4, "a:1"), 5, "a:1"));
    CHECK(is_refused_for(votes.hold(hold_order("b:1", {5, 9, job.content})), 5, "a:1"));
    CHECK(is_granted(votes.promise(5, "a:1")));
    const auto next = votes.promise(6, "b:1");
    REQUIRE(is_granted(next));
    CHECK(heads::records_in(*next) ==
          heads::held_records{{job_kind, job}, {cluster_kind, cluster}});
  }
  auto votes = opened_votes(io::local_files(), dir.path);
  CHECK(is_refused_for(votes.promise(5, "a:1"), 6, "b:1"));
  CHECK(votes.promises().held() == heads::held_records{{job_kind, job}, {cluster_kind, cluster}});
  CHECK(heads::latest_promise(io::local_files(), dir.path) == 6);
}

TEST_CASE("VST-1: to hold a record of a later epoch is to promise it, on the disk, too") {
  scratch dir;
  {
    auto votes = opened_votes(io::local_files(), dir.path);
    CHECK(is_granted(votes.promise(2, "a:1")));
    CHECK(is_granted(votes.hold(hold_order("c:1", {9, 1, job_content("supper")}))));
  }
  auto votes = opened_votes(io::local_files(), dir.path);
  CHECK(is_refused_for(votes.promise(8, "b:1"), 9, "c:1"));
  CHECK(is_refused_for(votes.promise(9, "b:1"), 9, "c:1"));
}

TEST_CASE("VST-1: a file that is made shorter keeps the promise and the newest of each kind") {
  scratch dir;
  const auto file = dir.path / heads::votes_folder / "node1";
  const std::string long_text(30 << 10, 'x');
  const held_record cluster{3, 1, cluster_content("gpu1")};
  uint64_t longest = 0, shorter = 0, before = 0;
  held_record job;
  {
    auto votes = opened_votes(io::local_files(), dir.path);
    CHECK(is_granted(votes.promise(3, "a:1")));
    CHECK(is_granted(votes.hold(hold_order("a:1", cluster))));
    CHECK(is_granted(votes.promise(4, "b:1")));
    for (uint64_t n = 1; n <= 20; ++n) {
      job = {4, n, job_content(fmt::format("{} {}", n, long_text))};
      REQUIRE(is_granted(votes.hold(hold_order("b:1", job))));
      const auto bytes = std::filesystem::file_size(file);
      shorter += bytes < before;
      before = bytes;
      longest = std::max<uint64_t>(longest, bytes);
      auto next = opened_votes(io::local_files(), dir.path);  // of whatever it is now
      REQUIRE(next.promises().held() ==
              heads::held_records{{job_kind, job}, {cluster_kind, cluster}});
      REQUIRE(next.promises().epoch() == 4);
      REQUIRE(next.promises().head() == "b:1");
    }
    CHECK(is_granted(votes.promise(7, "c:1")));
  }
  CHECK(shorter > 1);
  CHECK(longest < 20 * long_text.size());
  auto votes = opened_votes(io::local_files(), dir.path);
  CHECK(is_refused_for(votes.promise(6, "b:1"), 7, "c:1"));
  CHECK(votes.promises().held() == heads::held_records{{job_kind, job}, {cluster_kind, cluster}});
}

namespace {

/// A mark of all that a voter has said yes to.
std::string granted_mark(const vote_store& votes) {
  const auto& p = votes.promises();
  const auto job = p.held().find(job_kind);
  return fmt::format("{} {}", p.epoch(), job == p.held().end() ? 0 : job->second.number);
}

/// A voter's life under three heads, long enough to be compacted, with a mark in the log for each
/// promise and record that it was asked for.
std::shared_ptr<io::crash_store> a_voters_life(size_t sync_ignored = 0) {
  auto store = io::crash_store::make();
  if (sync_ignored > 0) store->ignore_sync(sync_ignored);
  io::faulty_disk d(store, {});
  REQUIRE(d.make_dir("/job"));
  REQUIRE(d.sync_dir("/"));
  const std::string long_text(25 << 10, 'x');
  uint64_t number = 0;
  for (uint32_t epoch = 1; epoch <= 3; ++epoch) {
    auto votes = opened_votes(d, "/job");
    const auto head = fmt::format("h{}:1", epoch);
    const auto said = [&](const result<fbs::PromisedT>& vote) {
      REQUIRE(is_granted(vote));
      store->mark(granted_mark(votes));
    };
    said(votes.promise(10 * epoch, head));
    for (int n = 0; n < 3; ++n)
      said(votes.hold(hold_order(head, {10 * epoch, ++number, job_content(long_text)})));
    said(votes.promise(10 * epoch + 1, head));
  }
  return store;
}

/// What is forgotten in the image of a power cut; empty: nothing.
std::string forgotten_in(io::file_system& files, const std::string& mark) {
  auto votes = vote_store::open(files, "/job", "node1");
  if (!votes) return render(votes.error());
  uint32_t epoch = 0;
  uint64_t number = 0;
  REQUIRE(std::sscanf(mark.c_str(), "%u %lu", &epoch, &number) == 2);
  if (votes->promises().epoch() < epoch) return fmt::format("epoch {}", epoch);
  const auto& held = votes->promises().held();
  const auto job = held.find(job_kind);
  if (number > 0 && (job == held.end() || job->second.number < number))
    return fmt::format("record {}", number);
  const auto stranger = votes->promise(epoch, "a stranger:1");
  return !stranger || stranger->granted ? "whom it has promised that to" : "";
}

/// What a power cut at any moment after the first word makes a voter forget; empty: nothing.
std::string forgotten_by_a_cut(const std::shared_ptr<io::crash_store>& store) {
  const io::image_limits limits{.enumerate = 3, .samples = 12};
  for (size_t point = 2; point <= store->points(); ++point) {
    const auto marks = store->marks_before(point);
    if (marks.empty()) continue;
    io::crash_images images(store, point, limits);
    while (auto image = images.next()) {
      io::faulty_disk d(image, {});
      if (const auto what = forgotten_in(d, marks.back()); !what.empty())
        return fmt::format("before \"{}\", kept: {}: {}", store->text(point), images.kept(), what);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("VST-1: a power cut at any moment makes a voter forget nothing that it said") {
  const auto store = a_voters_life();
  CHECK(store->points() > 40);
  CHECK(forgotten_by_a_cut(store) == "");
  size_t needed = 0;  // and what a sync that does nothing makes it forget is seen
  for (size_t n = 1; n <= store->syncs(); ++n)
    needed += !forgotten_by_a_cut(a_voters_life(n)).empty();
  CHECK(needed >= 15);  // one for each of what it said, at least
}

TEST_CASE("VST-2: a vote that cannot be kept is none, and a later one that can be is") {
  for (const auto site : {io::fault_site::fdatasync, io::fault_site::write}) {
    auto store = io::crash_store::make();
    io::faulty_disk d(store, {});
    REQUIRE(d.make_dir("/job"));
    auto votes = opened_votes(d, "/job");
    CHECK(is_granted(votes.promise(3, "a:1")));
    d.plan({.site = site, .nth = 1, .failure = ENOSPC, .times = 1000});
    CHECK_FALSE(votes.promise(4, "b:1"));
    CHECK_FALSE(votes.hold(hold_order("a:1", {3, 1, job_content("lunch")})));
    CHECK(votes.promises().epoch() == 3);
    CHECK(votes.promises().head() == "a:1");
    CHECK(votes.promises().held().empty());
    CHECK(is_granted(votes.promise(3, "a:1")));  // that is kept already
    CHECK(is_refused_for(votes.promise(3, "b:1"), 3, "a:1"));
  }
}

TEST_CASE("VST-2: after a failure that has passed a voter votes again, and keeps what it had") {
  auto store = io::crash_store::make();
  io::faulty_disk d(store, {});
  REQUIRE(d.make_dir("/job"));
  const held_record job{3, 1, job_content("lunch")};
  {
    auto votes = opened_votes(d, "/job");
    CHECK(is_granted(votes.promise(3, "a:1")));
    CHECK(is_granted(votes.hold(hold_order("a:1", job))));
    d.plan({.site = io::fault_site::fdatasync, .nth = 1, .times = 8});  // some are still to come
    bool failed = false;
    for (uint32_t epoch = 4; epoch < 20 && !failed; ++epoch) failed = !votes.promise(epoch, "b:1");
    REQUIRE(failed);
    const auto known = votes.promises().epoch();
    bool granted = false;
    for (int times = 0; times < 10 && !granted; ++times) {
      const auto vote = votes.promise(30, "c:1");
      granted = vote && vote->granted;
      if (!granted) CHECK(votes.promises().epoch() == known);
    }
    REQUIRE(granted);
  }
  auto votes = opened_votes(d, "/job");
  CHECK(is_refused_for(votes.promise(30, "b:1"), 30, "c:1"));
  CHECK(votes.promises().held() == heads::held_records{{job_kind, job}});
}

TEST_CASE("VST-2: a file whose header is damaged is no voter's, and stays as it is") {
  scratch dir;
  const auto file = dir.path / heads::votes_folder / "node1";
  {
    auto votes = opened_votes(io::local_files(), dir.path);
    CHECK(is_granted(votes.promise(5, "a:1")));
  }
  const auto whole = *io::local_files().read_small(file, 1 << 20);
  for (const size_t at : {0, 9, 12}) {
    CAPTURE(at);
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    put_file(file, damaged);
    const auto before = tree_of(dir.path);
    CHECK(is_error(vote_store::open(io::local_files(), dir.path, "node1"), io::not_a_journal,
                   file));
    CHECK(tree_of(dir.path) == before);
    CHECK(heads::latest_promise(io::local_files(), dir.path) == 0);
  }
  put_file(file, whole);
  CHECK(is_refused_for(opened_votes(io::local_files(), dir.path).promise(5, "b:1"), 5, "a:1"));
}

TEST_CASE("vote store: a record is a memory of the job or the cluster, and nothing else is held") {
  const auto kind_of = [](const std::string& content) {
    return heads::kind_of(heads::to_message(held_record{1, 1, content}));
  };
  CHECK(kind_of(job_content("lunch")) == std::optional(uint16_t{job_kind}));
  CHECK(kind_of(cluster_content("gpu1")) == std::optional(uint16_t{cluster_kind}));
  fbs::PromiseEpochT other;
  other.epoch = 7;
  const auto bytes = encode(make_msg<fbs::PromiseEpoch>({}, other));
  auto cut = job_content("lunch");
  cut.pop_back();
  scratch dir;
  auto votes = opened_votes(io::local_files(), dir.path);
  CHECK(is_granted(votes.promise(1, "a:1")));
  const auto before = tree_of(dir.path);
  for (const auto& foreign : {std::string(), std::string("mine"), std::string(200, '\0'), cut,
                              std::string(bytes.begin(), bytes.end())}) {
    CAPTURE(foreign.size());
    CHECK_FALSE(kind_of(foreign));
    const auto vote = votes.hold(hold_order("a:1", {1, 1, foreign}));
    REQUIRE_FALSE(vote);
    CHECK(vote.error().code == errc::bad_data);
    fbs::PromisedT answer;
    answer.held.push_back(
        std::make_unique<fbs::HeldRecordT>(heads::to_message(held_record{1, 1, foreign})));
    CHECK(heads::records_in(answer).empty());
  }
  CHECK(votes.hold(fbs::HoldRecordT{}).error().code == errc::bad_data);
  CHECK(tree_of(dir.path) == before);
  CHECK(votes.promises().held().empty());
}

TEST_CASE("vote store: the latest promise of a folder is that of any voter whose file is whole") {
  scratch dir;
  auto& files = io::local_files();
  CHECK(heads::latest_promise(files, dir.path) == 0);  // no folder
  for (const auto& [name, epoch] : {std::pair{"a:1", 5u}, {"node1", 9u}, {"node2", 7u}})
    CHECK(is_granted(opened_votes(files, dir.path, name).promise(epoch, "a:1")));
  CHECK(heads::latest_promise(files, dir.path) == 9);
  const auto folder = dir.path / heads::votes_folder;
  put_file(folder / "b:1", "dear diary");
  std::filesystem::create_directory(folder / "c:1");
  const auto before = tree_of(dir.path);
  CHECK(heads::latest_promise(files, dir.path) == 9);
  CHECK(tree_of(dir.path) == before);
  // A record of an epoch is a promise of it.
  const held_record later{12, 1, cluster_content("gpu1")};
  CHECK(is_granted(opened_votes(files, dir.path, "node2").hold(hold_order("b:1", later))));
  CHECK(heads::latest_promise(files, dir.path) == 12);
}

TEST_CASE("VST-3: that the job is over is found by the next process, until it is begun again") {
  scratch dir;
  const std::string long_text(30 << 10, 'x');
  CHECK_FALSE(heads::end_of_job(io::local_files(), dir.path));
  const auto end = [&] { return heads::end_of_job(io::local_files(), dir.path); };
  {
    auto votes = opened_votes(io::local_files(), dir.path);
    auto other = opened_votes(io::local_files(), dir.path, "b:1");
    CHECK(is_granted(votes.promise(5, "a:1")));
    CHECK(is_granted(votes.hold(hold_order("a:1", {5, 1, job_content("lunch")}))));
    CHECK(is_granted(other.promise(5, "a:1")));
    CHECK_FALSE(end());
    REQUIRE(votes.end_job(5, "all steps are done"));
  }
  REQUIRE(end());
  CHECK(end()->epoch == 5);
  CHECK(end()->reason == "all steps are done");
  auto votes = opened_votes(io::local_files(), dir.path);
  CHECK(votes.promises().epoch() == 5);
  CHECK(votes.promises().head() == "a:1");
  const auto next = votes.promise(5, "a:1");  // it is no decision that the next head begins with
  REQUIRE(is_granted(next));
  CHECK(heads::records_in(*next).size() == 1);
  for (uint64_t n = 2; n < 12; ++n)  // until the file is made shorter
    CHECK(is_granted(votes.hold(hold_order("a:1", {5, n, job_content(long_text)}))));
  REQUIRE(end());
  auto third = opened_votes(io::local_files(), dir.path, "c:1");
  CHECK(is_granted(third.promise(6, "b:1")));
  CHECK_FALSE(end());
}

// A journal with the power cut at every moment of its life: what was decided is found, nothing that
// was not, and the next head goes on from there.
#include "io/journal/journal.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "io/disk/faulty_disk.hpp"
#include "tests/io/disk/crash_images.hpp"
#include "tests/io/journal/decisions.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

constexpr uint8_t decision = 1, summary = 2;
constexpr const char* name = "/job/journal";

/// The n-th decision; some are longer than a block, so that they may be torn.
std::string text_of(uint64_t n) {
  return fmt::format("{} {}", n, std::string(n % 4 == 2 ? 5000 : 10, static_cast<char>('a' + n)));
}

/// How many decisions a journal tells of, each the next of the one before; nothing where that is
/// not so.
std::optional<uint64_t> decisions_in(const journal_contents& found) {
  uint64_t count = 0;
  for (const auto& r : found.records) {
    if (r.kind == summary) {
      count = std::stoull(r.payload);
    } else if (r.payload != text_of(++count)) {
      return std::nullopt;
    }
  }
  return count;
}

/// Decides `n` more durably: none of them may be forgotten once it is marked.
void decide(crash_store& store, journal& j, uint64_t& count, int n) {
  for (; n > 0; --n) {
    REQUIRE(append(j, text_of(count + 1)));
    store.mark(fmt::format("{}", ++count));
  }
}

void compact(journal& j, uint64_t count) {
  REQUIRE(j.compact(std::vector<journal_record>{{summary, fmt::format("{}", count)}}));
}

/// Writes that reach no disk: the first 20 bytes of the second one alone.
faulty_options half_a_write() {
  faulty_options options;
  options.plan = {{fault_site::write, 2, fault_effect::shorten, 0, 20},
                  {fault_site::write, 3, fault_effect::fail, ENOSPC}};
  return options;
}

/// The life of a journal under three heads. It is made, written, compacted; its head is killed with
/// its last record in the kernel alone. The next one acts on what it finds, meets a write that
/// fails, compacts, and is killed behind the rename. The third goes on.
std::shared_ptr<crash_store> a_life(size_t sync_ignored = 0) {
  auto store = crash_store::make();
  if (sync_ignored > 0) store->ignore_sync(sync_ignored);
  uint64_t count = 0;
  {
    faulty_disk d(store, {});
    REQUIRE(d.make_dir("/job"));
    REQUIRE(d.sync_dir("/"));
    auto made = journal::create(d, name);
    REQUIRE(made);
    store->mark("0");
    decide(*store, *made, count, 3);
    compact(*made, count);
    decide(*store, *made, count, 2);
    REQUIRE(append(*made, text_of(++count), durable::no));
  }
  const auto find = [&](faulty_disk& d) {
    auto next = journal::open(d, name);
    REQUIRE(next);
    REQUIRE(decisions_in(next->found) == count);
    store->mark(fmt::format("{}", count));
    return std::move(next->writer);
  };
  {
    auto options = half_a_write();
    options.plan.push_back({fault_site::sync_dir, 2});
    faulty_disk d(store, options);
    auto j = find(d);
    decide(*store, j, count, 1);
    REQUIRE_FALSE(append(j, "a decision that nobody has made"));
    decide(*store, j, count, 1);
    REQUIRE_FALSE(j.compact(std::vector<journal_record>{{summary, fmt::format("{}", count)}}));
  }
  faulty_disk d(store, {});
  auto j = find(d);
  decide(*store, j, count, 2);
  return store;
}

/// What is wrong with an image in which `promised` decisions were marked; none: not yet made.
std::string wrong_with(faulty_disk& d, std::optional<uint64_t> promised) {
  auto next = journal::open(d, name);
  if (!next && next.error().code == errc::not_found && !promised) {
    auto made = journal::create(d, name);
    return made ? "" : "it cannot be made: " + render(made.error());
  }
  if (!next) return render(next.error());
  const auto count = decisions_in(next->found);
  if (!count) return "it tells of what was not decided";
  if (*count < promised.value_or(0)) return fmt::format("it knows {} decisions", *count);
  if (auto more = append(next->writer, text_of(*count + 1)); !more) return render(more.error());
  const auto again = read_journal(d, name);
  if (!again) return render(again.error());
  return decisions_in(*again) == *count + 1 ? "" : "the next decision is not found";
}

/// The first thing that is wrong with an image of a cut at any point.
std::string cut_in(const std::shared_ptr<crash_store>& store) {
  image_limits limits;
  limits.enumerate = 6;
  limits.samples = 48;
  for (size_t point = 2; point <= store->points(); ++point) {
    auto images = crash_images(store, point, limits);
    const auto marks = store->marks_before(point);
    std::optional<uint64_t> promised;
    if (!marks.empty()) promised = std::stoull(marks.back());
    while (auto image = images.next()) {
      faulty_disk d(image, {});
      if (auto wrong = wrong_with(d, promised); !wrong.empty())
        return fmt::format("before \"{}\", kept: {}; {}", store->text(point), images.kept(), wrong);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("JRN-4 journal: a power cut at any moment loses no decision and makes none up") {
  const auto store = a_life();
  CHECK(store->points() > 40);
  CHECK(cut_in(store) == "");
}

TEST_CASE("JRN-4, JRN-6, JRN-7 journal: which of its syncs a decision needs") {
  std::string needed;
  for (size_t n = 2;; ++n) {  // the first is the job's folder's
    const auto store = a_life(n);
    if (n > store->syncs()) break;
    needed += cut_in(store).empty() ? '-' : '*';
  }
  // All but two: the second head's of the folder, where the name was durable before it; and the
  // third's of the file, which was compacted, so synced before it had its name.
  CHECK(needed == "**********-***-***");
}

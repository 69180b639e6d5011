// Retention and setting aside with the power cut at every moment: a folder with a checkpoint's name
// is whole, what is kept is there, and the next retention removes what the cut one left.
#include "io/checkpoint/retention.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/save.hpp"
#include "tests/io/checkpoint/crash_saves.hpp"
#include "tests/io/disk/crash_images.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

const origin own{7, {}, {}};

/// Four checkpoints of one launch, all of them durable.
std::shared_ptr<crash_store> four_saves() {
  auto store = crash_store::make();
  faulty_disk d(store, {});
  REQUIRE(d.make_dir(dir));
  REQUIRE(d.sync_dir("/"));
  for (uint64_t step = 1; step <= 4; ++step) save(store, step, 1, own.at(step));
  return store;
}

/// Keeps the last two.
status keep_two(file_system& files) {
  retention rules;
  rules.keep_last = 2;
  return caretaker(own, files).retain(dir, rules);
}

/// What is wrong with an image: a name that lies, or a checkpoint of `kept` that is gone.
std::string wrong_with(faulty_disk& d, const std::vector<uint64_t>& kept, folder_state as) {
  const auto all = list(d, dir);
  if (!all) return render(all.error());
  for (const auto& e : *all)
    if (e.name.state == folder_state::complete || e.name.state == folder_state::aside)
      if (const auto whole = verify_all(d, e.path); !whole)
        return e.path.string() + ": " + render(whole.error());
  for (const auto step : kept)
    if (std::none_of(all->begin(), all->end(), [&](const catalog_entry& e) {
          return e.name.step == step &&
                 (e.name.state == folder_state::complete || e.name.state == as);
        }))
      return fmt::format("step {} is gone", step);
  return {};
}

/// The first thing that is wrong with an image of a cut since `begun`; `then` looks further.
std::string cut_since(const std::shared_ptr<crash_store>& store, size_t begun,
                      const std::function<std::string(faulty_disk&)>& look) {
  image_limits limits;
  limits.enumerate = 6;
  limits.samples = 32;
  for (size_t point = begun; point <= store->points(); ++point) {
    auto images = crash_images(store, point, limits);
    while (auto image = images.next()) {
      faulty_disk d(image, {});
      if (auto wrong = look(d); !wrong.empty())
        return fmt::format("before \"{}\", kept: {}; {}", store->text(point), images.kept(), wrong);
    }
  }
  return {};
}

std::string look_at_retention(faulty_disk& d) {
  if (auto wrong = wrong_with(d, {3, 4}, folder_state::complete); !wrong.empty()) return wrong;
  if (auto kept = keep_two(d); !kept) return render(kept.error());
  const auto names = d.list(dir);
  if (!names || names->size() != 2) return "the next retention leaves something behind";
  return {};
}

}  // namespace

TEST_CASE("removal: a power cut at any moment leaves whole checkpoints, and what is kept") {
  const auto store = four_saves();
  const auto begun = store->points();
  faulty_disk d(store, {});
  REQUIRE(keep_two(d));
  CHECK(store->points() > begun + 10);
  CHECK(cut_since(store, begun, look_at_retention) == "");
}

TEST_CASE("removal: it needs the syncs behind a name and before a mark (RT-3, OWN-4)") {
  const auto syncs_before = four_saves()->syncs();
  size_t needed = 0, all = 0;
  for (size_t n = syncs_before + 1;; ++n) {
    const auto store = four_saves();
    const auto begun = store->points();
    store->ignore_sync(n);
    faulty_disk d(store, {});
    REQUIRE(keep_two(d));
    if (n > store->syncs()) break;
    ++all;
    needed += !cut_since(store, begun, look_at_retention).empty();
  }
  CHECK(all == 6);     // of two removals: behind the name, before the mark, behind the folder
  CHECK(needed == 4);  // all but the last of each
}

TEST_CASE("set aside: a power cut at any moment leaves each checkpoint whole under either name") {
  const auto store = four_saves();
  const auto begun = store->points();
  faulty_disk d(store, {});
  const auto all = list(d, dir);
  REQUIRE(all);
  const auto left = left_behind(*all, own.at(2));
  REQUIRE(left.size() == 2);
  REQUIRE(set_aside(d, left));
  CHECK(cut_since(store, begun, [](faulty_disk& image) {
          return wrong_with(image, {1, 2, 3, 4}, folder_state::aside);
        }) == "");
  faulty_disk last(crash_images(store, store->points()).next(), {});
  const auto names = last.list(dir);
  REQUIRE(names);
  std::string text;
  for (const auto& n : *names) text += n.name + " ";
  CHECK(text == "step-00000001 step-00000002 step-00000003.aside-1 step-00000004.aside-1 ");
}

TEST_CASE("RT-3: a power cut while one is given up leaves it whole, or a name that says so") {
  const auto store = four_saves();
  const auto begun = store->points();
  faulty_disk d(store, {});
  REQUIRE(give_up(d, dir / complete_name(4)));
  CHECK(store->points() > begun + 2);
  CHECK(cut_since(store, begun, [](faulty_disk& image) -> std::string {
          if (auto wrong = wrong_with(image, {1, 2, 3}, folder_state::complete); !wrong.empty())
            return wrong;
          if (const auto again = give_up(image, dir / complete_name(4)); !again)
            return render(again.error());
          return wrong_with(image, {1, 2, 3}, folder_state::complete);
        }) == "");
}

TEST_CASE("SV-10: a power cut at any moment leaves a checkpoint with its loss, or without") {
  const auto store = four_saves();
  const auto begun = store->points();
  faulty_disk d(store, {});
  REQUIRE(amend_loss(d, dir / complete_name(1), 2.5));
  CHECK(store->points() > begun);
  const auto loss_in = [](faulty_disk& image) {
    const auto from = reader::open(image, dir / complete_name(1));
    REQUIRE(from);
    return from->content().head.validation_loss;
  };
  CHECK(cut_since(store, begun, [&](faulty_disk& image) -> std::string {
          if (auto wrong = wrong_with(image, {1, 2, 3, 4}, folder_state::complete); !wrong.empty())
            return wrong;
          const auto loss = loss_in(image);
          return loss && *loss != 2.5 ? "another loss" : look_at_retention(image);
        }) == "");
  faulty_disk last(crash_images(store, store->points()).next(), {});
  CHECK(loss_in(last) == 2.5);
}

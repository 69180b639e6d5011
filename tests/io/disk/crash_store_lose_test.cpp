// A store that several processes share on virtual time: whose a change is and when, the loss of one
// of them with its host, what a kernel writes back, what is durable, versions for caches, folders
// that are full or gone.
#include <cerrno>
#include <set>

#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/disk/backends.hpp"
#include "tests/io/disk/crash_images.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

using node_id = crash_store::node_id;

constexpr auto keep_all = [](auto) { return true; };
constexpr auto lose_all = [](auto) { return false; };
auto by_lot(std::mt19937_64& rng) {
  return [&](auto) { return (rng() >> 32 & 1) != 0; };
}

std::shared_ptr<crash_store> new_store() {
  return crash_store::make();
}

/// A file with a durable name.
node_id durable_file(crash_store& store, const std::string& name) {
  node_id node = 0;
  REQUIRE(store.open(name, open_mode::create, node) == 0);
  REQUIRE(store.sync_dir(std::filesystem::path(name).parent_path()) == 0);
  return node;
}

void put(crash_store& store, node_id node, std::string_view text, stamp by) {
  REQUIRE(store.write(node, 0, as_bytes(text), by) == static_cast<int64_t>(text.size()));
}

std::string text_at(const crash_store& store, node_id node) {
  std::string text(store.size(node), '\0');
  const auto moved = store.read(node, 0, std::as_writable_bytes(std::span(text)));
  REQUIRE(moved == static_cast<int64_t>(text.size()));
  return text;
}

bool is_there(crash_store& store, const std::string& name) {
  node_id node = 0;
  const int answer = store.open(name, open_mode::read, node);
  return answer == 0 || answer == EISDIR;
}

}  // namespace

// -- the loss of a writer -------------------------------------------------------------------------

TEST_CASE("lose: what was to be made later never was, and is gone for readers at once") {
  auto store = new_store();
  const auto one = durable_file(*store, "/one"), two = durable_file(*store, "/two");
  put(*store, one, "early", {1, 10});
  put(*store, one, "later", {1, 11});
  put(*store, two, "other", {2, 50});
  REQUIRE(store->make_dir("/soon", {1, 11}) == 0);
  store->lose(1, 10, keep_all);
  CHECK(text_at(*store, one) == "early");
  CHECK(text_at(*store, two) == "other");
  CHECK_FALSE(is_there(*store, "/soon"));
}

TEST_CASE("lose: a sync that was still to be made covers nothing, of others neither") {
  auto store = new_store();
  const auto node = durable_file(*store, "/f");
  put(*store, node, "mine", {1, 10});
  REQUIRE(store->write(node, 4, as_bytes("other"), {2, 11}) == 5);
  REQUIRE(store->sync_file(node, {1, 20}) == 0);
  CHECK(crash_images(store, store->points()).pieces() == 0);
  SUBCASE("at its time it has covered them") {
    store->lose(1, 20, lose_all);
    CHECK(text_at(*store, node) == "mineother");
    CHECK(crash_images(store, store->points()).pieces() == 0);
  }
  SUBCASE("before, the writer's are a matter of chance and the other's are not durable") {
    store->lose(1, 19, lose_all);
    CHECK(text_at(*store, node) == std::string(4, '\0') + "other");
    CHECK(crash_images(store, store->points()).pieces() == 1);
    store->lose(2, 19, lose_all);
    CHECK(text_at(*store, node).empty());
  }
  SUBCASE("a sync of somebody else that was still to be made does not save the writer's") {
    put(*store, node, "MINE", {1, 21});
    REQUIRE(store->sync_file(node, {2, 30}) == 0);
    store->lose(1, 29, lose_all);
    CHECK(text_at(*store, node) == "mineother");
  }
}

TEST_CASE("lose: of what no sync covers each is kept for good or lost, by random") {
  auto store = new_store();
  const auto node = durable_file(*store, "/f");
  put(*store, node, "durable", {1, 1});
  REQUIRE(store->sync_file(node, {1, 1}) == 0);
  REQUIRE(store->make_dir("/a", {1, 2}) == 0);
  REQUIRE(store->make_dir("/b", {1, 3}) == 0);
  REQUIRE(store->make_dir("/c", {2, 3}) == 0);
  put(*store, node, "kept", {1, 4});
  int asked = 0;
  store->lose(1, 5, [&](auto) { return ++asked != 2; });
  CHECK(asked == 3);
  CHECK(is_there(*store, "/a"));
  CHECK_FALSE(is_there(*store, "/b"));
  CHECK(is_there(*store, "/c"));
  CHECK(text_at(*store, node) == "keptble");
  store->lose(1, 6, lose_all);  // nothing of it is left to chance
  CHECK(is_there(*store, "/a"));
  CHECK(text_at(*store, node) == "keptble");
  CHECK(crash_images(store, store->points()).pieces() == 1);  // the other's
}

TEST_CASE("lose: a long write may be torn, and bytes of a failed one may come") {
  auto store = new_store();
  const auto node = durable_file(*store, "/f");
  put(*store, node, std::string(2 * disk_block, 'x'), {1, 1});
  int asked = 0;
  store->lose(1, 2, [&](auto) { return ++asked == 2; });
  CHECK(asked == 2);
  CHECK(text_at(*store, node) == std::string(disk_block, '\0') + std::string(disk_block, 'x'));
  store->write_and_fail(node, 0, as_bytes("failed"), {1, 3});
  CHECK(text_at(*store, node)[0] == '\0');
  store->lose(1, 4, keep_all);
  CHECK(text_at(*store, node).substr(0, 6) == "failed");
}

TEST_CASE(
    "lose: what a failed sync has lost goes by random, and a sync that never was fails nobody") {
  auto store = new_store();
  const auto node = durable_file(*store, "/f");
  put(*store, node, "a", {1, 1});
  CHECK(store->fail_sync_file(node, EIO, {2, 9}) == EIO);
  SUBCASE("by random") {
    CHECK(store->sync_file(node, {1, 9}) == 0);
    store->lose(1, 10, lose_all);
    CHECK(text_at(*store, node).empty());
  }
  SUBCASE("the failing one is undone") {
    store->lose(2, 8, lose_all);
    CHECK(store->sync_file(node, {1, 9}) == 0);
    store->lose(1, 10, lose_all);
    CHECK(text_at(*store, node) == "a");
  }
}

TEST_CASE("lose: others may have built on what is lost") {
  auto store = new_store();
  REQUIRE(store->make_dir("/d", {1, 1}) == 0);
  node_id node = 0, moved = 0;
  REQUIRE(store->open("/d/f", open_mode::create, node, {2, 2}) == 0);
  const auto held = store->hold(node);
  put(*store, node, "of two", {2, 3});
  REQUIRE(store->open("/e", open_mode::create, moved, {1, 4}) == 0);
  const auto open = store->hold(moved);
  REQUIRE(store->rename("/e", "/d/e", true, {2, 5}) == 0);
  REQUIRE(store->remove("/d/e", false, {2, 6}) == 0);
  node_id alone = 0;
  REQUIRE(store->open("/alone", open_mode::create, alone, {1, 7}) == 0);
  const auto kept = store->hold(alone);
  store->lose(1, 9, lose_all);
  CHECK(text_at(*store, alone).empty());
  put(*store, alone, "nowhere", {2, 9});
  CHECK_FALSE(is_there(*store, "/d"));
  CHECK_FALSE(is_there(*store, "/d/f"));
  CHECK(text_at(*store, node) == "of two");
  CHECK(text_at(*store, moved).empty());
  put(*store, moved, "into nothing", {2, 10});
  CHECK(store->make_dir("/d/g", {2, 10}) == ENOENT);
  REQUIRE(store->make_dir("/d", {2, 11}) == 0);
  CHECK_FALSE(is_there(*store, "/d/f"));
  store->settle(100);
  store->lose(2, 100, lose_all);
  CHECK(text_at(*store, node) == "of two");
  CHECK(is_there(*store, "/d"));
}

TEST_CASE("lose: the same seed leaves the same") {
  const auto left_of = [](uint64_t seed) {
    auto store = new_store();
    for (int i = 0; i < 40; ++i) REQUIRE(store->make_dir("/" + std::to_string(i), {1, i}) == 0);
    std::mt19937_64 rng(seed);
    store->lose(1, 100, by_lot(rng));
    std::vector<dir_entry> found;
    REQUIRE(store->list("/", found) == 0);
    CHECK(found.size() > 5);
    CHECK(found.size() < 35);
    return found;
  };
  CHECK(left_of(1) == left_of(1));
  CHECK_FALSE(left_of(1) == left_of(2));
}

// -- history --------------------------------------------------------------------------------------

TEST_CASE(
    "CS-2 CS-5 settle: what is old is durable, its history is given up, and so are its nodes") {
  auto store = new_store();
  node_id node = 0;
  for (int64_t i = 1; i <= 50; ++i) {
    REQUIRE(store->open("/f.tmp", open_mode::create, node, {1, i}) == 0);
    put(*store, node, "text " + std::to_string(i), {1, i});
    REQUIRE(store->rename("/f.tmp", "/f", true, {1, i}) == 0);
    store->mark("done");
    CHECK(store->logged() <= 8);
    store->settle(i);  // all but the last turn's
    CHECK(store->nodes() <= 4);
    CHECK(store->first_point() == store->points());
  }
  CHECK(store->logged() == 3);
  CHECK(store->points() == 200);
  CHECK(store->marks_before(200).empty());
  CHECK(crash_images(store, 200).pieces() == 3);
  store->lose(1, 50, lose_all);
  REQUIRE(store->open("/f", open_mode::read, node) == 0);
  CHECK(text_at(*store, node) == "text 49");
  store->settle(51);
  CHECK(store->logged() == 0);
  CHECK(store->nodes() == 2);
  store->lose(1, 0, lose_all);
  CHECK(text_at(*store, node) == "text 49");
  auto images = crash_images(store, store->points());
  auto image = images.next();
  REQUIRE(image);
  CHECK_FALSE(images.next());
  CHECK(*faulty_disk(image, {}).read_small("/f", 100) == "text 49");
}

TEST_CASE("settle: what waits for something earlier stays in the log behind it") {
  auto store = new_store();
  const auto node = durable_file(*store, "/f");
  put(*store, node, "future", {1, 100});
  put(*store, node, "now", {2, 10});
  REQUIRE(store->make_dir("/a", {1, 100}) == 0);
  REQUIRE(store->rename("/a", "/b", true, {2, 10}) == 0);
  store->settle(50);
  CHECK(store->logged() == 4);
  CHECK(text_at(*store, node) == "nowure");
  CHECK(is_there(*store, "/b"));
  CHECK(crash_images(store, store->points()).pieces() == 2);
  store->lose(1, 50, lose_all);
  CHECK(text_at(*store, node) == "now");
  store->lose(2, 50, lose_all);
  CHECK(text_at(*store, node) == "now");
  store->settle(50);
  CHECK(store->logged() == 0);
}

TEST_CASE("settle: a file whose name may come back keeps its bytes") {
  auto store = new_store();
  node_id node = 0;
  REQUIRE(store->make_dir("/later", {3, 100}) == 0);  // names wait for it
  REQUIRE(store->open("/f", open_mode::create, node, {1, 10}) == 0);
  put(*store, node, "text", {1, 10});
  REQUIRE(store->remove("/f", false, {2, 100}) == 0);
  store->settle(50);
  CHECK(store->logged() == 3);
  store->lose(2, 50, lose_all);
  CHECK(is_there(*store, "/f"));
  CHECK(text_at(*store, node) == "text");
}

TEST_CASE(
    "settle: what a failed sync has lost stays a matter of chance until it is cut or removed") {
  auto store = new_store();
  auto node = durable_file(*store, "/f");
  put(*store, node, "lost", {1, 1});
  CHECK(store->fail_sync_file(node, EIO, {1, 1}) == EIO);
  for (int i = 0; i < 2; ++i) {
    store->settle(10);
    CHECK(store->sync_file(node, {1, 11}) == 0);
    CHECK(crash_images(store, store->points()).pieces() == 1);
  }
  SUBCASE("cut") {
    REQUIRE(store->open("/f", open_mode::replace, node, {1, 12}) == 0);
    put(*store, node, "new", {1, 12});
  }
  SUBCASE("removed") {
    REQUIRE(store->remove("/f", false, {1, 12}) == 0);
  }
  store->settle(13);
  CHECK(store->logged() == 0);
}

TEST_CASE("settle: a file that is open or locked outlives its name, and then no more") {
  auto store = new_store();
  faulty_disk d(store, {});
  REQUIRE(d.write_small("/open", "open", durable::no));
  REQUIRE(d.write_small("/source", "source", durable::no));
  REQUIRE(d.write_small("/locked", "locked", durable::no));
  auto file = opened(d, "/open", open_mode::read);
  auto source = d.open_source("/source", pages::keep);
  REQUIRE(source);
  auto lock = d.read_lock("/locked");
  REQUIRE(lock);
  for (const auto* name : {"/open", "/source", "/locked"}) REQUIRE(store->remove(name, false) == 0);
  store->settle(1);
  CHECK(store->logged() == 0);
  CHECK(store->nodes() == 4);
  std::mt19937_64 rng(1);
  store->lose(7, 1, by_lot(rng));
  REQUIRE(d.read(file, 0, io_buffer::allocate(4), 1));
  CHECK(text_in(answer_of(d).buffer) == "open");
  std::string text(6, ' ');
  REQUIRE((*source)->read_at(0, std::as_writable_bytes(std::span(text))));
  CHECK(text == "source");
  d.close(file);
  source->reset();
  lock->reset();
  store->settle(1);
  CHECK(store->nodes() == 1);
  CHECK(store->read(2, 0, std::as_writable_bytes(std::span(text))) == -EBADF);
  CHECK(store->write(2, 0, as_bytes("x")) == -EBADF);
}

TEST_CASE("CS-4 a sync covers what was made before it, by the time too") {
  auto store = new_store();
  const auto node = durable_file(*store, "/f");
  put(*store, node, "a", {1, 50});
  REQUIRE(store->make_dir("/d", {1, 50}) == 0);
  REQUIRE(store->sync_file(node, {2, 20}) == 0);
  REQUIRE(store->sync_dir("/", {2, 20}) == 0);
  CHECK(crash_images(store, store->points()).pieces() == 2);
  REQUIRE(store->sync_file(node, {2, 50}) == 0);
  REQUIRE(store->sync_dir("/", {2, 50}) == 0);
  CHECK(crash_images(store, store->points()).pieces() == 0);
}

// -- durable? -------------------------------------------------------------------------------------

TEST_CASE("durable: each part of the name, all names and bytes below it, and by then") {
  auto store = new_store();
  node_id node = 0;
  CHECK_FALSE(store->durable("/a/b/f", 100));
  REQUIRE(store->make_dir("/a", {1, 1}) == 0);
  REQUIRE(store->make_dir("/a/b", {1, 2}) == 0);
  REQUIRE(store->open("/a/b/f", open_mode::create, node, {1, 3}) == 0);
  put(*store, node, "text", {1, 4});
  CHECK_FALSE(store->durable("/a/b/f", 100));
  REQUIRE(store->sync_file(node, {1, 5}) == 0);
  REQUIRE(store->sync_dir("/a/b", {1, 6}) == 0);
  REQUIRE(store->sync_dir("/a", {1, 7}) == 0);
  CHECK_FALSE(store->durable("/a/b/f", 100));
  REQUIRE(store->sync_dir("/", {1, 8}) == 0);
  for (const auto* name : {"/", "/a", "/a/b", "/a/b/f"}) {
    CAPTURE(name);
    CHECK(store->durable(name, 8));
    CHECK_FALSE(store->durable(name, 7));  // the last sync is still to be made
  }
  REQUIRE(store->make_dir("/other", {1, 9}) == 0);
  CHECK(store->durable("/a", 9));
  CHECK_FALSE(store->durable("/", 9));
  SUBCASE("bytes below") {
    put(*store, node, "next", {2, 10});
  }
  SUBCASE("bytes that may come") {
    store->write_and_fail(node, 0, as_bytes("next"), {2, 10});
  }
  SUBCASE("names below") {
    REQUIRE(store->make_dir("/a/b/c", {2, 10}) == 0);
  }
  SUBCASE("names that go") {
    REQUIRE(store->remove("/a/b/f", false, {2, 10}) == 0);
  }
  SUBCASE("the way") {
    REQUIRE(store->make_dir("/free", {2, 10}) == 0);
    REQUIRE(store->exchange("/a", "/free", {2, 10}) == 0);
    REQUIRE(store->exchange("/a", "/free", {2, 10}) == 0);
  }
  CHECK_FALSE(store->durable("/a", 100));
  CHECK_FALSE(store->durable("/a", 9));  // what is still to be made is none the more durable
  store->settle(11);
  CHECK(store->durable("/a", 11) == (store->logged() == 0));
}

TEST_CASE("settle: what syncs have made durable is forgotten, however new, and the rest is not") {
  auto store = new_store();
  const auto synced = durable_file(*store, "/synced"), open = durable_file(*store, "/open");
  put(*store, synced, "kept", {1, 10});
  REQUIRE(store->sync_file(synced, {1, 20}) == 0);
  put(*store, open, "lost", {1, 10});
  SUBCASE("the sync is over") {
    store->settle(0, 20);
    CHECK(store->logged() == 1);
    store->lose(1, 20, lose_all);
    CHECK(text_at(*store, synced) == "kept");
    CHECK(text_at(*store, open).empty());
  }
  SUBCASE("it is still to be made") {
    store->settle(0, 19);
    store->lose(1, 19, lose_all);
    CHECK(text_at(*store, synced).empty());
  }
}

TEST_CASE("lose: by the kind of what is lost") {
  auto store = new_store();
  node_id node = 0;
  REQUIRE(store->open("/f", open_mode::create, node, {1, 1}) == 0);
  put(*store, node, "bytes", {1, 2});
  store->lose(
      1, 3, [](crash_store::change_kind what) { return what == crash_store::change_kind::names; });
  REQUIRE(is_there(*store, "/f"));
  CHECK(store->size(node) == 0);
}

// -- versions -------------------------------------------------------------------------------------

TEST_CASE("versions: a file's changes with its bytes and length, the names' with each name") {
  auto store = new_store();
  const auto node = durable_file(*store, "/f");
  durable_file(*store, "/quiet");
  REQUIRE(store->make_dir("/d") == 0);
  CHECK_FALSE(store->version_of("/none"));
  const auto folder = store->version_of("/d");
  REQUIRE(folder);
  const auto inside = durable_file(*store, "/d/x");
  CHECK(store->version_of("/d")->first == folder->first);
  const auto with_name = store->version_of("/d")->second;
  CHECK(with_name != folder->second);
  put(*store, inside, "x", {});
  CHECK(store->version_of("/d")->second == with_name);
  std::set<uint64_t> seen;
  const auto is_new = [&] {
    const auto v = store->version_of("/f");
    REQUIRE(v);
    CHECK(v->first == node);
    return seen.insert(v->second).second;
  };
  const auto names = store->names_version();
  const auto quiet = store->version_of("/quiet");
  CHECK(is_new());
  put(*store, node, "a", {1, 1});
  CHECK(is_new());
  put(*store, node, "a", {1, 2});
  is_new();
  REQUIRE(store->reserve(node, 10, {1, 3}) == 0);
  CHECK(is_new());
  node_id same = 0;
  REQUIRE(store->open("/f", open_mode::replace, same, {1, 4}) == 0);
  CHECK(is_new());
  CHECK_FALSE(is_new());
  REQUIRE(store->sync_file(node, {1, 4}) == 0);
  store->settle(1);
  CHECK_FALSE(is_new());
  CHECK(store->names_version() == names);
  put(*store, node, "b", {1, 5});
  is_new();
  store->lose(1, 5, lose_all);
  CHECK(is_new());
  CHECK(store->version_of("/quiet") == quiet);
  CHECK(store->names_version() > names);
  auto before = store->names_version();
  for (const auto& change : std::vector<std::function<int()>>{
           [&] { return store->make_dir("/e"); }, [&] { return store->rename("/e", "/g"); },
           [&] { return store->exchange("/g", "/f"); }, [&] { return store->remove("/f", true); },
           [&] { return store->open("/h", open_mode::create, same); }}) {
    REQUIRE(change() == 0);
    CHECK(store->names_version() > before);
    before = store->names_version();
  }
}

// -- outages --------------------------------------------------------------------------------------

TEST_CASE("outage: a full folder takes nothing, gives everything, and is not its neighbour") {
  auto store = new_store();
  for (const auto* top : {"/first", "/second"}) REQUIRE(store->make_dir(top) == 0);
  node_id node = 0, other = 0, made = 0;
  REQUIRE(store->open("/second/f", open_mode::create, node) == 0);
  REQUIRE(store->open("/first/f", open_mode::create, other) == 0);
  put(*store, node, "text", {});
  store->set_outage("/second", outage::full);
  CHECK(store->open("/second/g", open_mode::create, made) == ENOSPC);
  CHECK(store->open("/second/g", open_mode::replace, made) == ENOSPC);
  CHECK(store->open("/second/f", open_mode::create, made) == EEXIST);
  CHECK(store->make_dir("/second/d") == ENOSPC);
  CHECK(store->make_dir("/second") == EEXIST);
  CHECK(store->write(node, 0, as_bytes("x")) == -ENOSPC);
  CHECK(store->reserve(node, 100) == ENOSPC);
  const auto points = store->points();
  store->write_and_fail(node, 0, as_bytes("x"));
  CHECK(store->points() == points);
  CHECK(text_at(*store, node) == "text");
  CHECK(store->sync_file(node) == 0);
  CHECK(store->sync_dir("/second") == 0);
  CHECK(store->rename("/second/f", "/second/h") == 0);
  CHECK(store->remove("/second/h", false) == 0);
  put(*store, other, "elsewhere", {});
  store->set_outage("/second", outage::none);
  put(*store, node, "more", {});
  CHECK(store->make_dir("/second/d") == 0);
}

TEST_CASE(
    "outage: of a folder that is gone nothing is known, and open files fail, until it is back") {
  auto store = new_store();
  faulty_disk d(store, {});
  for (const auto* top : {"/first", "/second"}) REQUIRE(d.make_dir(top));
  REQUIRE(d.write_small("/second/f", "text", durable::yes));
  REQUIRE(d.write_small("/first/f", "text", durable::yes));
  const auto source = d.open_source("/second/f", pages::keep);
  auto file = opened(d, "/second/f", open_mode::read),
       w = opened(d, "/second/w", open_mode::create);
  const auto lock = d.read_lock("/second/f");
  const auto before = store->names_version();
  store->set_outage("/second", outage::gone);
  CHECK(store->names_version() > before);
  std::vector<dir_entry> found;
  node_id node = 0;
  CHECK(store->open("/second/f", open_mode::read, node) == ENOENT);
  CHECK(store->open("/second/g", open_mode::create, node) == ENOENT);
  CHECK(store->make_dir("/second/d") == ENOENT);
  CHECK(store->rename("/second/f", "/first/g") == ENOENT);
  CHECK(store->rename("/first/f", "/second/g") == ENOENT);
  CHECK(store->exchange("/first/f", "/second/f") == ENOENT);
  CHECK(store->remove("/second/f", false) == ENOENT);
  CHECK(store->list("/second", found) == ENOENT);
  CHECK(store->sync_dir("/second") == ENOENT);
  CHECK(d.identity("/second").error().code == errc::not_found);
  CHECK_FALSE(store->version_of("/second/f"));
  CHECK(d.read_small("/second/f", 9).error().code == errc::not_found);
  std::string text(4, ' ');
  CHECK((*source)->read_at(0, std::as_writable_bytes(std::span(text))).error().code == errc::io);
  REQUIRE(d.read(file, 0, io_buffer::allocate(4), 1));
  CHECK(is_error(answer_of(d).outcome, "EIO"));
  REQUIRE(d.fdatasync(file, 2));
  CHECK_FALSE(answer_of(d).outcome);
  REQUIRE(d.write(w, 0, text_of("x"), 3));
  CHECK_FALSE(answer_of(d).outcome);
  CHECK(*d.read_small("/first/f", 9) == "text");
  store->set_outage("/second", outage::none);
  CHECK(*d.read_small("/second/f", 9) == "text");
  CHECK((*source)->read_at(0, std::as_writable_bytes(std::span(text))));
  CHECK(*d.list("/second") == std::vector<dir_entry>{{"f", false, 4}, {"w", false, 0}});
  CHECK_FALSE(d.exclude_readers("/second/f"));  // the lock is still held
}

// Thousands of runs of a shared store by seed: three writers change two files' bytes and three
// names, sync them or fail to, are lost, and a kernel writes back; a plain model of each place says
// what must be there, what may be and what must not.
//
// TROUPE_STORE_WALKS=100000 makes more of them (400 else), from seed TROUPE_STORE_SEED on (1).
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

#include "io/file.hpp"
#include "tests/io/disk/backends.hpp"
#include "tests/io/disk/crash_images.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

uint64_t store_number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// A sync that came after a change and covers it, or takes it from all later syncs.
struct sync_seen {
  stamp by;
  bool fails = false;
};

struct change_made {
  uint64_t value = 0;
  stamp by;
  std::vector<sync_seen> syncs;
  bool cuts = false;  ///< whatever was there before
  bool settled = false;
  bool doubtful = false;  ///< it was lost or kept, and nobody could see which

  bool durable(int64_t by_ns) const {
    for (const auto& s : syncs)
      if (s.by.at_ns <= by_ns) return settled || !s.fails;
    return settled;
  }
  bool pending(int64_t by_ns) const { return !doubtful && (by.at_ns > by_ns || !durable(by_ns)); }
};

constexpr int64_t at_last = std::numeric_limits<int64_t>::max();

/// One place with one value: a block of a file, or a name (its node).
struct place_model {
  std::vector<change_made> made{{0, {}, {}, false, true, false}};

  template <class Optional>
  std::set<uint64_t> possible(const Optional& optional) const {
    std::set<uint64_t> found;
    for (auto c = made.rbegin(); c != made.rend(); ++c) {
      found.insert(c->value);
      if (!c->doubtful && !optional(*c)) break;
    }
    return found;
  }

  bool cut_in_doubt() const {
    return std::any_of(made.begin(), made.end(),
                       [](const change_made& c) { return c.cuts && c.doubtful; });
  }

  void sync(stamp by, bool fails) {
    for (auto& c : made)
      if (c.by.at_ns <= by.at_ns) c.syncs.push_back({by, fails});
  }

  void settle(int64_t before_ns) {
    size_t begin = 0;
    for (size_t i = 0; i < made.size(); ++i) {
      auto& c = made[i];
      const bool failed = !c.settled && !c.syncs.empty() && c.syncs.front().fails;
      if (c.by.at_ns < before_ns && !failed) c.settled = true;
      if (c.by.at_ns < before_ns && c.settled && c.cuts && !c.doubtful) begin = i;
    }
    made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  /// What may be there once the writer is lost.
  std::set<uint64_t> lose(uint32_t writer, int64_t now_ns) {
    const auto never = [&](stamp by) { return by.writer == writer && by.at_ns > now_ns; };
    std::erase_if(made, [&](const change_made& c) { return never(c.by); });
    for (auto& c : made) std::erase_if(c.syncs, [&](const sync_seen& s) { return never(s.by); });
    return possible(
        [&](const change_made& c) { return c.by.writer == writer && !c.durable(now_ns); });
  }

  /// What was seen after that. Values but 0 are one change's each.
  void learn(uint32_t writer, int64_t now_ns, uint64_t value) {
    bool found = false;
    for (size_t i = made.size(); i-- > 0;) {
      auto& c = made[i];
      if (c.by.writer == writer && !c.durable(now_ns)) c.doubtful = true;
      if (c.value == value && value != 0) {
        c.settled = c.settled || c.doubtful;
        c.doubtful = false;
      }
      if (!found && c.value != value) made.erase(made.begin() + static_cast<std::ptrdiff_t>(i));
      found = found || c.value == value;
    }
  }
};

class store_walk {
 public:
  explicit store_walk(uint64_t seed) : random_(seed) {
    for (size_t f = 0; f < files; ++f)
      REQUIRE(store_->open(file_name(f), open_mode::create, nodes_.at(f)) == 0);
    REQUIRE(store_->make_dir("/names") == 0);
    store_->settle(1);
    for (auto& p : places_) p.made[0].by.at_ns = -1;
  }

  void run() {
    for (int turn = 0; turn < 60; ++turn) {
      now_ns_ += static_cast<int64_t>(below(4));
      step();
      look();
      if (turn % 8 == 0) crash();
    }
    size_t named = 0;
    for (size_t n = 0; n < names; ++n) named += seen_.at(2 * files + n) != 0 ? 1 : 0;
    for (size_t f = 0; f < files; ++f) REQUIRE(store_->remove(file_name(f), false) == 0);
    store_->settle(at_last);
    CHECK(store_->logged() == 0);
    CHECK(store_->nodes() == 2 + named);
  }

 private:
  static constexpr size_t files = 2, names = 3;

  static std::string file_name(size_t f) { return "/f" + std::to_string(f); }
  static std::string name(size_t n) { return "/names/n" + std::to_string(n); }
  uint64_t below(uint64_t n) { return random_() % n; }
  place_model& block(size_t f, size_t half) { return places_.at(2 * f + half); }
  place_model& name_place(size_t n) { return places_.at(2 * files + n); }

  stamp by_chance() {
    return {static_cast<uint32_t>(1 + below(3)),
            now_ns_ + (below(3) == 0 ? static_cast<int64_t>(below(10)) : 0)};
  }

  void step() {
    const auto by = by_chance();
    const auto f = below(files), n = below(names);
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        return write(f, by);
      case 3:
      case 4:
        return change_name(n, by);
      case 5:
        return sync_file(f, by, false);
      case 6:
        REQUIRE(store_->sync_dir("/names", by) == 0);
        for (size_t i = 0; i < names; ++i) name_place(i).sync(by, false);
        return;
      case 7:
        return below(3) == 0 ? sync_file(f, by, true) : cut(f, by);
      case 8:
        return settle(now_ns_ - static_cast<int64_t>(below(6)));
      default:
        return lose(by.writer);
    }
  }

  /// Both blocks, or one.
  void write(size_t f, stamp by) {
    const size_t from = below(2), to = from + 1 + (from == 0 ? below(2) : 0);
    const auto value = ++last_value_;
    std::string text((to - from) * disk_block, '\0');
    for (size_t half = from; half < to; ++half) {
      std::memcpy(text.data() + (half - from) * disk_block, &value, sizeof value);
      block(f, half).made.push_back({value, by, {}});
    }
    REQUIRE(store_->write(nodes_.at(f), from * disk_block, as_bytes(text), by) ==
            static_cast<int64_t>(text.size()));
  }

  void cut(size_t f, stamp by) {
    if (store_->size(nodes_.at(f)) == 0) return;
    crash_store::node_id same = 0;
    REQUIRE(store_->open(file_name(f), open_mode::replace, same, by) == 0);
    for (size_t half = 0; half < 2; ++half) block(f, half).made.push_back({0, by, {}, true});
  }

  void change_name(size_t n, stamp by) {
    crash_store::node_id node = 0;
    if (seen_.at(2 * files + n) != 0) {
      REQUIRE(store_->remove(name(n), false, by) == 0);
    } else {
      REQUIRE(store_->open(name(n), open_mode::create, node, by) == 0);
    }
    name_place(n).made.push_back({node, by, {}});
  }

  void sync_file(size_t f, stamp by, bool fails) {
    if (fails) {
      REQUIRE(store_->fail_sync_file(nodes_.at(f), EIO, by) == EIO);
    } else {
      REQUIRE(store_->sync_file(nodes_.at(f), by) == 0);
    }
    for (size_t half = 0; half < 2; ++half) block(f, half).sync(by, fails);
  }

  void settle(int64_t before_ns) {
    store_->settle(before_ns);
    for (auto& p : places_) p.settle(before_ns);
  }

  void lose(uint32_t writer) {
    store_->lose(writer, now_ns_, [&](auto) { return (random_() >> 32 & 1) != 0; });
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto may = places_[i].lose(writer, now_ns_);
      const auto value = value_of(*store_, i);
      CHECK_MESSAGE(may.count(value) == 1, "place ", i, " has ", value);
      places_[i].learn(writer, now_ns_, value);
    }
  }

  uint64_t value_of(crash_store& store, size_t place) const {
    if (place >= 2 * files) {
      const auto version = store.version_of(name(place - 2 * files));
      return version ? version->first : 0;
    }
    uint64_t value = 0;
    const auto into = std::as_writable_bytes(std::span(&value, 1));
    REQUIRE(store.read(nodes_.at(place / 2), place % 2 * disk_block, into) >= 0);
    return value;
  }

  /// What readers see is what was made last; versions changed if it did; and what is durable.
  void look() {
    bool names_differ = false;
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto value = value_of(*store_, i);
      CHECK(places_[i].possible([](const change_made&) { return false; }).count(value) == 1);
      if (i < 2 * files) {
        const auto version = store_->version_of(file_name(i / 2))->second;
        CHECK((value == seen_.at(i) || version != versions_.at(i)));
        versions_.at(i) = version;
      } else {
        names_differ = names_differ || value != seen_.at(i);
      }
      seen_.at(i) = value;
    }
    CHECK((!names_differ || store_->names_version() != names_version_));
    names_version_ = store_->names_version();
    const auto by_ns = now_ns_ + static_cast<int64_t>(below(10));
    for (size_t f = 0; f < files; ++f) {
      const bool known = firm(block(f, 0), by_ns) && firm(block(f, 1), by_ns);
      // A doubtful cut may have ended what is pending before it.
      if (known || !block(f, 0).cut_in_doubt())
        CHECK(store_->durable(file_name(f), by_ns) == known);
    }
    for (size_t n = 0; n < names; ++n)
      CHECK(store_->durable(name(n), by_ns) ==
            (seen_.at(2 * files + n) != 0 && firm(name_place(n), by_ns)));
  }

  static bool firm(const place_model& p, int64_t by_ns) {
    return std::none_of(p.made.begin(), p.made.end(),
                        [&](const change_made& c) { return c.pending(by_ns); });
  }

  /// What a power cut now leaves.
  void crash() {
    image_limits limits;
    limits.enumerate = 3;
    limits.samples = 8;
    auto images = crash_images(store_, store_->points(), limits);
    while (const auto image = images.next())
      for (size_t i = 0; i < places_.size(); ++i) {
        const auto may =
            places_[i].possible([](const change_made& c) { return !c.durable(at_last); });
        CHECK(may.count(value_of(*image, i)) == 1);
      }
  }

  std::mt19937_64 random_;
  std::shared_ptr<crash_store> store_ = crash_store::make();
  std::array<crash_store::node_id, files> nodes_{};
  std::array<place_model, 2 * files + names> places_;
  std::array<uint64_t, 2 * files + names> seen_{}, versions_{};
  uint64_t names_version_ = 0, last_value_ = 0;
  int64_t now_ns_ = 1;
};

}  // namespace

TEST_CASE("store walks: three writers, syncs, losses and a kernel's own writes, by seed") {
  const auto first = store_number_from("TROUPE_STORE_SEED", 1);
  const auto count = store_number_from("TROUPE_STORE_WALKS", 400);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    store_walk(seed).run();
  }
}

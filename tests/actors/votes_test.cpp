// Votes for a checkpoint of many ranks: in pages on their way, whole at the committer.
#include "actors/job/votes.hpp"

#include <limits>

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::checkpoint;

namespace {

std::vector<msg<fbs::Saved>> votes_of(uint32_t ranks) {
  std::vector<msg<fbs::Saved>> out;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    out.push_back(make_msg<fbs::Saved>({}, [&](auto& s) {
      constexpr auto most = std::numeric_limits<uint64_t>::max();
      s.rank = rank;
      s.step = s.bytes = s.stream_bytes = s.slot_digest = most;
      s.footer_crc32c = std::numeric_limits<uint32_t>::max();
    }));
  return out;
}

fbs::SaveVotesT page_of(uint64_t step, uint32_t first, uint32_t count) {
  fbs::SaveVotesT out;
  out.step = step;
  for (uint32_t i = 0; i < count; ++i) {
    out.shards.push_back(std::make_unique<fbs::SavedT>());
    out.shards.back()->rank = first + i;
  }
  return out;
}

std::vector<uint32_t> ranks_of(const vote_list& votes) {
  std::vector<uint32_t> out;
  for (const auto& v : votes) out.push_back(v->rank);
  return out;
}

}  // namespace

TEST_CASE("votes: pages hold all, in order, none more than it may") {
  CHECK(in_pages({}, 4).size() == 1);
  for (const uint32_t ranks : {1u, 4u, 5u, 8u, 13u}) {
    CAPTURE(ranks);
    const auto pages = in_pages(votes_of(ranks), 4);
    CHECK(pages.size() == (ranks + 3) / 4);
    uint32_t next = 0;
    for (const auto& p : pages) {
      CHECK(p.size() <= 4);
      for (const auto& v : p) CHECK(v->rank == next++);
    }
    CHECK(next == ranks);
  }
}

TEST_CASE("votes: the votes of 14,000 ranks fit into messages, half full at most") {
  auto pages = in_pages(votes_of(14'000));
  for (auto& p : pages) {
    fbs::CommitCheckpointT c;
    c.shards = std::move(p);
    CHECK(encode(make_msg<fbs::CommitCheckpoint>({}, c)).size() < max_message_bytes / 2);
  }
}

TEST_CASE("votes: what came before the commit is put before its own, by step, once") {
  kept_votes kept;
  REQUIRE(kept.keep(page_of(7, 0, 2), 9));
  REQUIRE(kept.keep(page_of(8, 5, 1), 9));
  REQUIRE(kept.keep(page_of(7, 2, 2), 9));
  CHECK(ranks_of(kept.take(7, page_of(7, 4, 1).shards)) == std::vector<uint32_t>{0, 1, 2, 3, 4});
  CHECK(ranks_of(kept.take(7, page_of(7, 4, 1).shards)) == std::vector<uint32_t>{4});
  kept.forget(8);
  CHECK(kept.take(8, {}).empty());
}

TEST_CASE("votes: no more are kept than there are ranks, for three steps") {
  kept_votes kept;
  CHECK_FALSE(kept.keep(page_of(1, 0, 3), 2));
  REQUIRE(kept.keep(page_of(1, 0, 2), 2));
  CHECK_FALSE(kept.keep(page_of(1, 0, 1), 2));
  REQUIRE(kept.keep(page_of(2, 0, 1), 2));
  REQUIRE(kept.keep(page_of(3, 0, 1), 2));
  const auto fourth = kept.keep(page_of(4, 0, 1), 2);
  REQUIRE_FALSE(fourth);
  CHECK(fourth.error().code == errc::bad_data);
  kept.forget(1);
  CHECK(kept.keep(page_of(4, 0, 1), 2));
}

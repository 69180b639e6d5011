// Byte pair encoding: see bpe_model.hpp.
#include "io/tokenizer/bpe_model.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <unordered_set>

#include <fmt/format.h>

#include "io/formats/json_text.hpp"
#include "io/tokenizer/utf8.hpp"

namespace troupe::io {

namespace {

constexpr size_t short_word = 48;
constexpr uint32_t no_rank = ~uint32_t{0};

uint64_t pair_of(int32_t left, int32_t right) noexcept {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

uint64_t spread(uint64_t pair) noexcept {
  pair *= 0x9E3779B97F4A7C15ULL;
  return pair ^ (pair >> 29);
}

int32_t id_or_none(const vocabulary& tokens, std::string_view token) {
  auto found = tokens.find(token);
  return found == tokens.end() ? -1 : found->second;
}

}  // namespace

result<bpe_model> bpe_model::make(vocabulary tokens, const merge_list& merges,
                                  bpe_options options) {
  bpe_model model;
  model.options_ = std::move(options);
  model.of_byte_.fill(-1);
  for (const auto& [token, id] : tokens) {
    if (!model.options_.byte_level) {
      if (token.size() == 1) model.of_byte_[static_cast<unsigned char>(token[0])] = id;
      continue;
    }
    auto bytes = from_byte_level(token);
    if (!bytes) continue;
    if (bytes->size() == 1) model.of_byte_[static_cast<unsigned char>((*bytes)[0])] = id;
    if (model.options_.ignore_merges) model.words_.emplace(std::move(*bytes), id);
  }
  for (unsigned b = 0; b < 256; ++b)
    model.fallback_[b] = id_or_none(tokens, fmt::format("<0x{:02X}>", b));
  if (model.options_.unk_token) {
    int32_t unk = id_or_none(tokens, *model.options_.unk_token);
    if (unk >= 0) model.unk_ = unk;
  }
  model.table_.resize(std::bit_ceil(2 * merges.size() + 2));
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    joined.assign(left).append(right);
    int32_t a = id_or_none(tokens, left);
    int32_t b = id_or_none(tokens, right);
    int32_t product = id_or_none(tokens, joined);
    if (a < 0 || b < 0 || product < 0) return merge_unknown(rank, shown(left), shown(right));
    model.insert({pair_of(a, b), static_cast<uint32_t>(rank), product});
  }
  model.tokens_ = std::move(tokens);
  return model;
}

void bpe_model::insert(const merge& m) {
  size_t mask = table_.size() - 1;
  size_t at = spread(m.pair) & mask;
  while (table_[at].product >= 0 && table_[at].pair != m.pair) at = (at + 1) & mask;
  table_[at] = m;  // a pair listed twice keeps its last rank, as in Hugging Face's reader
}

const bpe_model::merge* bpe_model::find(int32_t left, int32_t right) const noexcept {
  uint64_t pair = pair_of(left, right);
  size_t mask = table_.size() - 1;
  for (size_t at = spread(pair) & mask; table_[at].product >= 0; at = (at + 1) & mask)
    if (table_[at].pair == pair) return &table_[at];
  return nullptr;
}

bool bpe_model::makes(const std::function<bool(std::string_view)>& so) const {
  std::unordered_set<int32_t> ids;
  for (const auto& [token, id] : tokens_)
    if (so(token)) ids.insert(id);
  return !ids.empty() && std::any_of(table_.begin(), table_.end(),
                                     [&](const merge& m) { return ids.contains(m.product); });
}

status bpe_model::begin_character(std::string_view character, std::vector<int32_t>& ids,
                                  bool& unknown) const {
  if (options_.byte_fallback) {
    bool all = std::all_of(character.begin(), character.end(),
                           [&](char c) { return fallback_[static_cast<unsigned char>(c)] >= 0; });
    if (all) {
      for (char c : character) ids.push_back(fallback_[static_cast<unsigned char>(c)]);
      unknown = false;
      return {};
    }
  }
  if (!unk_) return character_unknown(shown(character));
  if (!(options_.fuse_unk && unknown)) ids.push_back(*unk_);
  unknown = true;
  return {};
}

status bpe_model::begin(std::string_view word, std::vector<int32_t>& ids) const {
  ids.clear();
  if (options_.byte_level) {
    for (char c : word) {
      int32_t id = of_byte_[static_cast<unsigned char>(c)];
      if (id < 0)
        return error{errc::bad_data, fmt::format("the tokenizer has no token for the byte 0x{:02x}",
                                                 static_cast<unsigned char>(c))};
      ids.push_back(id);
    }
    return {};
  }
  bool unknown = false;
  for (size_t i = 0; i < word.size();) {
    size_t length = std::min(utf8_length(word[i]), word.size() - i);
    auto character = word.substr(i, length);
    int32_t id = length == 1 ? of_byte_[static_cast<unsigned char>(word[i])]
                             : id_or_none(tokens_, character);
    if (id >= 0) {
      ids.push_back(id);
      unknown = false;
    } else {
      TROUPE_CHECK(begin_character(character, ids, unknown));
    }
    i += length;
  }
  return {};
}

void bpe_model::merge_short(bpe_scratch& scratch) const {
  auto& ids = scratch.ids;
  auto& ranks = scratch.ranks;  // ranks[i]: of the pair (i, i+1)
  auto rank_at = [&](size_t i) {
    const auto* m = find(ids[i], ids[i + 1]);
    return m == nullptr ? no_rank : m->rank;
  };
  ranks.clear();
  for (size_t i = 0; i + 1 < ids.size(); ++i) ranks.push_back(rank_at(i));
  while (!ranks.empty()) {
    auto lowest = std::min_element(ranks.begin(), ranks.end());
    if (*lowest == no_rank) break;
    auto i = static_cast<size_t>(lowest - ranks.begin());
    ids[i] = find(ids[i], ids[i + 1])->product;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(i) + 1);
    ranks.erase(lowest);
    if (i > 0) ranks[i - 1] = rank_at(i - 1);
    if (i < ranks.size()) ranks[i] = rank_at(i);
  }
}

void bpe_model::merge_long(bpe_scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;  // {rank, position, left id, right id}; stale entries are skipped
  symbols.clear();
  heap.clear();
  auto count = static_cast<int32_t>(scratch.ids.size());
  for (int32_t i = 0; i < count; ++i)
    symbols.push_back({scratch.ids[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1, 1});
  auto at = [&](int32_t i) -> bpe_scratch::symbol& { return symbols[static_cast<size_t>(i)]; };
  auto offer = [&](int32_t left) {
    int32_t right = at(left).next;
    if (right < 0) return;
    if (const auto* m = find(at(left).id, at(right).id))
      heap.push_back({m->rank, static_cast<uint32_t>(left), static_cast<uint32_t>(at(left).id),
                      static_cast<uint32_t>(at(right).id)});
  };
  for (int32_t i = 0; i < count; ++i) offer(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>{});
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
    auto [rank, position, left_id, right_id] = heap.back();
    heap.pop_back();
    auto left = static_cast<int32_t>(position);
    int32_t right = at(left).next;
    bool stale = at(left).alive == 0 || static_cast<uint32_t>(at(left).id) != left_id ||
                 right < 0 || static_cast<uint32_t>(at(right).id) != right_id;
    if (stale) continue;
    at(left).id = find(at(left).id, at(right).id)->product;
    at(right).alive = 0;
    at(left).next = at(right).next;
    if (at(left).next >= 0) at(at(left).next).previous = left;
    for (int32_t neighbour : {at(left).previous, left}) {
      size_t before = heap.size();
      if (neighbour >= 0) offer(neighbour);
      if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), std::greater<>{});
    }
  }
  scratch.ids.clear();
  for (int32_t i = 0; i >= 0; i = at(i).next) scratch.ids.push_back(at(i).id);
}

status bpe_model::encode(std::string_view word, std::vector<int32_t>& out,
                         bpe_scratch& scratch) const {
  assert(!word.empty() && word.size() < size_t{1} << 30);
  if (options_.ignore_merges) {
    int32_t whole = id_or_none(options_.byte_level ? words_ : tokens_, word);
    if (whole >= 0) {
      out.push_back(whole);
      return {};
    }
  }
  TROUPE_CHECK(begin(word, scratch.ids));
  if (scratch.ids.size() <= short_word)
    merge_short(scratch);
  else
    merge_long(scratch);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  return {};
}

}  // namespace troupe::io

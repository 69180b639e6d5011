// What a model says in Protocol Buffers' wire format (sentencepiece_model.proto): see
// piece_cuts.hpp.
#include "io/tokenizer/piece_cuts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "io/tokenizer/word_cuts.hpp"

namespace troupe::io {

namespace {

/// A field of a message: its number, and its value as a number or as bytes, by the kind.
struct wire_field {
  enum class kind : uint8_t { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };
  uint64_t number = 0;
  kind how = kind::varint;
  uint64_t value = 0;      ///< of a varint
  std::string_view bytes;  ///< of all others
  std::string_view whole;  ///< tag and value
};

std::optional<uint64_t> take_varint(std::string_view& left) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !left.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(left[0]);
    left.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// The first field of what is left; nothing where that is none.
std::optional<wire_field> take_field(std::string_view& left) {
  const auto begin = left;
  const auto tag = take_varint(left);
  if (!tag) return std::nullopt;
  wire_field out;
  out.number = *tag >> 3;
  out.how = static_cast<wire_field::kind>(*tag & 7);
  uint64_t length = 0;
  switch (out.how) {
    case wire_field::kind::varint: {
      const auto value = take_varint(left);
      if (!value) return std::nullopt;
      out.value = *value;
      break;
    }
    case wire_field::kind::bytes: {
      const auto said = take_varint(left);
      if (!said) return std::nullopt;
      length = *said;
      break;
    }
    case wire_field::kind::eight_bytes:
      length = 8;
      break;
    case wire_field::kind::four_bytes:
      length = 4;
      break;
    default:
      return std::nullopt;
  }
  if (length > left.size()) return std::nullopt;
  out.bytes = left.substr(0, length);
  left.remove_prefix(length);
  out.whole = begin.substr(0, begin.size() - left.size());
  return out;
}

/// Hands out the fields of a message, one after the other: a file may be of millions. False where
/// it is none, or `take` is.
template <class Take>
bool each_field(std::string_view message, const Take& take) {
  while (!message.empty()) {
    const auto field = take_field(message);
    if (!field || !take(*field)) return false;
  }
  return true;
}

// ModelProto's fields.
constexpr uint64_t pieces_field = 1;
constexpr uint64_t trainer_field = 2;
constexpr uint64_t normalizer_field = 3;
constexpr uint64_t self_test_field = 4;

enum class piece_kind : uint64_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct model_piece {
  std::string_view text;
  float score = 0;
  piece_kind kind = piece_kind::normal;
};

/// What is known of a model; its texts point into the file.
struct model_facts {
  std::vector<model_piece> pieces;
  uint64_t type = 1;  ///< 1 unigram, 2 BPE
  bool byte_fallback = false;
  bool space_behind = false;  ///< treat_whitespace_as_suffix
  bool rules = false;         ///< there is a precompiled_charsmap
  bool trims = true;          ///< remove_extra_whitespaces
  bool escapes = true;        ///< escape_whitespaces
};

bool read_piece(std::string_view message, model_facts& out) {
  model_piece piece;
  const bool is_one = each_field(message, [&](const wire_field& f) {
    if (f.number == 1 && f.how == wire_field::kind::bytes) piece.text = f.bytes;
    if (f.number == 2 && f.how == wire_field::kind::four_bytes)
      std::memcpy(&piece.score, f.bytes.data(), sizeof piece.score);
    if (f.number == 3 && f.how == wire_field::kind::varint)
      piece.kind = static_cast<piece_kind>(f.value);
    return true;
  });
  if (is_one) out.pieces.push_back(piece);
  return is_one;
}

bool read_trainer(std::string_view message, model_facts& out) {
  return each_field(message, [&](const wire_field& f) {
    if (f.how != wire_field::kind::varint) return true;
    if (f.number == 3) out.type = f.value;
    if (f.number == 24) out.space_behind = f.value != 0;
    if (f.number == 35) out.byte_fallback = f.value != 0;
    return true;
  });
}

bool read_normalizer(std::string_view message, model_facts& out) {
  return each_field(message, [&](const wire_field& f) {
    if (f.number == 2 && f.how == wire_field::kind::bytes) out.rules = !f.bytes.empty();
    if (f.number == 4 && f.how == wire_field::kind::varint) out.trims = f.value != 0;
    if (f.number == 5 && f.how == wire_field::kind::varint) out.escapes = f.value != 0;
    return true;
  });
}

std::optional<model_facts> facts_of(std::string_view model) {
  model_facts out;
  const bool is_one = each_field(model, [&](const wire_field& f) {
    bool (*read)(std::string_view, model_facts&) = nullptr;
    if (f.number == pieces_field) read = read_piece;
    if (f.number == trainer_field) read = read_trainer;
    if (f.number == normalizer_field) read = read_normalizer;
    return read == nullptr || (f.how == wire_field::kind::bytes && read(f.bytes, out));
  });
  return is_one ? std::optional(std::move(out)) : std::nullopt;
}

/// PCC-1, but for what goes over a cut.
bool joins_neighbours(const model_facts& m) {
  constexpr uint64_t bpe = 2;
  if (m.type != bpe || m.space_behind || m.rules || m.trims || !m.escapes) return false;
  std::unordered_set<std::string_view> texts;
  return std::all_of(m.pieces.begin(), m.pieces.end(), [&](const model_piece& p) {
    const bool known = p.kind >= piece_kind::normal && p.kind <= piece_kind::byte;
    return known && p.kind != piece_kind::unused && !std::isnan(p.score) &&
           texts.insert(p.text).second;
  });
}

/// Whether BPE makes it of text: what its kind is found by, or what it is left.
bool is_made_of_text(const model_piece& p) {
  return p.kind == piece_kind::normal || p.kind == piece_kind::user_defined;
}

}  // namespace

text_cuts piece_cuts(std::string_view model) {
  const auto m = facts_of(model);
  if (!m || !joins_neighbours(*m)) return text_cuts::nowhere;
  const auto none = [&](bool (*goes_on)(std::string_view)) {
    return std::none_of(m->pieces.begin(), m->pieces.end(), [&](const model_piece& p) {
      // What a user defined is looked for in the text as it came, too: with its spaces.
      return is_made_of_text(p) && (goes_on(p.text) || (p.kind == piece_kind::user_defined &&
                                                        p.text.find(' ') != p.text.npos));
    });
  };
  // Characters that are no pieces are one with those beside them, unless they become bytes.
  const auto known = [&](std::string_view text) {
    return m->byte_fallback ||
           std::any_of(m->pieces.begin(), m->pieces.end(),
                       [&](const model_piece& p) { return is_made_of_text(p) && p.text == text; });
  };
  const bool words = known("\xe2\x96\x81") && none(goes_on_over_words);
  const bool lines = known("\n") && none(goes_on_over_lines);
  if (words) return lines ? text_cuts::words_and_lines : text_cuts::before_words;
  return lines ? text_cuts::behind_lines : text_cuts::nowhere;
}

std::string without_prefix(std::string_view model) {
  std::string out;
  out.reserve(model.size() + 4);
  const bool is_one = each_field(model, [&](const wire_field& f) {
    if (f.number != self_test_field) out += f.whole;
    return true;
  });
  if (!is_one) return {};
  // A message that comes twice is both of them, one over the other: add_dummy_prefix = false.
  out += std::string_view("\x1a\x02\x18\x00", 4);
  return out;
}

}  // namespace troupe::io

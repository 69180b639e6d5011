// Text to a token file: see corpus.hpp.
#include "io/data/corpus.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "io/data/token_file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t corpus_rules_version = 1;

/// A part of a document, tokenised on its own.
struct piece {
  std::string_view text;
  size_t document = 0;
  bool last = false;  ///< of its document
  result<std::vector<int32_t>> ids = std::vector<int32_t>{};
};

bool plain(char c) {
  return c > ' ' && c < '\x7f';
}

/// Length of the next piece: up to a lone line end between plain letters, after `piece_bytes`.
size_t next_cut(std::string_view text, size_t piece_bytes) {
  for (size_t at = piece_bytes; at < text.size(); ++at) {
    at = text.find('\n', at);
    if (at == std::string_view::npos || at + 1 >= text.size()) break;
    if (plain(text[at - 1]) && plain(text[at + 1])) return at + 1;
  }
  return text.size();
}

/// Appends a document's pieces.
void cut_document(std::string_view text, size_t document, const tokenizer& by, size_t piece_bytes,
                  std::vector<piece>& pieces) {
  do {
    size_t length = by.splits_at_lines() ? next_cut(text, piece_bytes) : text.size();
    pieces.push_back({.text = text.substr(0, length), .document = document});
    text.remove_prefix(length);
  } while (!text.empty());
  pieces.back().last = true;
}

void encode(piece& p, const tokenizer& by) {
  try {
    p.ids = by.encode(p.text);
  } catch (const std::exception& e) {
    p.ids = error{errc::no_memory, fmt::format("tokenising: {}", e.what())};
  }
}

/// Tokenises all pieces by `threads` threads; each takes the next one that nobody has. `go_on` is
/// asked by the calling thread before each of its own but the first; false where it said no.
bool encode_all(std::vector<piece>& pieces, const tokenizer& by, unsigned threads,
                const std::function<bool()>& go_on) {
  std::atomic<size_t> next{0};
  std::atomic<bool> over{false};
  const auto work = [&](bool asks) {
    bool first = true;
    for (size_t i = next++; i < pieces.size() && !over; i = next++) {
      if (asks && !std::exchange(first, false) && !go_on()) over = true;
      if (!over) encode(pieces[i], by);
    }
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < std::min<size_t>(threads, pieces.size()); ++t)
    others.emplace_back(work, false);
  work(true);
  for (auto& t : others) t.join();
  return !over;
}

/// What parts document i from the next, as text (head of corpus.hpp).
std::string_view parting(const text_source& source, const tokenizer& by, size_t i) {
  return by.end_of_text() || i + 1 == source.documents().size() ? "" : "\n\n";
}

/// One run of prepare_corpus.
class preparation {
 public:
  preparation(const text_source& source, const tokenizer& by, const corpus_options& options,
              token_file_writer writer)
      : source_(source), by_(by), options_(options), writer_(std::move(writer)) {
    threads_ = options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
    threads_ = std::clamp(threads_, 1U, 16U);
    done_.documents = source.documents().size();
    done_.bytes = source.total_bytes();
  }

  result<corpus_progress> run() {
    std::vector<std::string> texts;
    std::vector<piece> pieces;
    size_t held = 0;
    for (size_t i = 0; i < source_.documents().size(); ++i) {
      auto text = source_.read(i);
      if (!text) return text.error();
      text->append(parting(source_, by_, i));
      held += text->size();
      texts.push_back(std::move(*text));
      documents_.push_back(i);
      if (held < options_.piece_bytes * threads_ && i + 1 < source_.documents().size()) continue;
      for (size_t k = 0; k < texts.size(); ++k)
        cut_document(texts[k], documents_[k], by_, options_.piece_bytes, pieces);
      TROUPE_CHECK(write(pieces));
      pieces.clear();
      texts.clear();
      documents_.clear();
      held = 0;
    }
    TROUPE_CHECK(writer_.finish());
    return done_;
  }

 private:
  /// Tokenises and appends, in groups so that progress is told and memory bounded.
  status write(std::vector<piece>& pieces) {
    const size_t group = 4 * size_t{threads_};
    for (size_t first = 0; first < pieces.size(); first += group) {
      std::vector<piece> now(
          pieces.begin() + static_cast<ptrdiff_t>(first),
          pieces.begin() + static_cast<ptrdiff_t>(std::min(first + group, pieces.size())));
      if (!encode_all(now, by_, threads_, [this] { return goes_on(); })) return cancelled();
      for (auto& p : now) {
        if (!p.ids) return p.ids.error().within(source_.documents()[p.document].string());
        TROUPE_CHECK(writer_.append(*p.ids));
        done_.bytes_done += p.text.size();
        if (!p.last) continue;
        ++done_.documents_done;
        if (auto end = by_.end_of_text()) TROUPE_CHECK(writer_.append(std::span(&*end, 1)));
      }
      done_.tokens = writer_.size();
      if (!goes_on()) return cancelled();
    }
    return {};
  }

  bool goes_on() const { return !options_.progress || options_.progress(done_); }

  static error cancelled() { return {errc::cancelled, "preparing the data was cancelled"}; }

  const text_source& source_;
  const tokenizer& by_;
  const corpus_options& options_;
  token_file_writer writer_;
  unsigned threads_ = 1;
  std::vector<size_t> documents_;
  corpus_progress done_;
};

}  // namespace

result<corpus_progress> prepare_corpus(const text_source& source, const tokenizer& by,
                                       const fs::path& out, const corpus_options& options) {
  TROUPE_TRY(writer, token_file_writer::create(out, static_cast<uint32_t>(by.vocab_size())));
  return preparation(source, by, options, std::move(writer)).run();
}

result<uint64_t> count_tokens(const text_source& source, const tokenizer& by) {
  uint64_t tokens = 0;
  for (size_t i = 0; i < source.documents().size(); ++i) {
    TROUPE_TRY(text, source.read(i));
    text.append(parting(source, by, i));
    TROUPE_TRY(ids, by.encode(text));
    tokens += ids.size() + (by.end_of_text() ? 1 : 0);
  }
  return tokens;
}

result<fs::path> cached_corpus(const text_source& source, const tokenizer& by,
                               const fs::path& folder, const corpus_options& options) {
  TROUPE_TRY(text, source.fingerprint());
  const uint64_t parts[] = {corpus_rules_version, text, by.fingerprint()};  // CRP-3
  auto path = folder / fmt::format("{:016x}.bin", XXH3_64bits(parts, sizeof parts));
  if (token_file::open(path, token_format::llmc)) return path;
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return error::system("create " + folder.string(), code.value());
  TROUPE_TRY(done, prepare_corpus(source, by, path, options));
  static_cast<void>(done);
  return path;
}

}  // namespace troupe::io

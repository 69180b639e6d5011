// Parts of documents to pieces, pieces to ids, ids to files.
#include "io/data/corpus.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <iterator>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "io/data/data_kind.hpp"
#include "io/data/document_reader.hpp"
#include "io/data/shard_writer.hpp"
#include "io/data/token_file.hpp"
#include "io/formats/byte_stream.hpp"
#include "io/tokenizer/utf8.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

/// A vocabulary of words was in one piece before version 4; of all others nothing changed then.
uint64_t corpus_rules_version(text_cuts cuts) {
  return cuts == text_cuts::before_words || cuts == text_cuts::words_and_lines ? 4 : 3;
}

/// Of each text so much is looked at before a long reading.
constexpr size_t first_text_bytes = size_t{1} << 14;

/// Whether a part's end may be the beginning of a character, whose rest is in the next part.
bool begins_a_character(std::string_view end) {
  return end.size() < utf8_length(end.front()) &&
         std::all_of(end.begin() + 1, end.end(),
                     [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
}

/// A part of a document, tokenised on its own.
struct piece {
  std::string text;
  std::string name;   ///< of its document
  bool first = false;       ///< of its document
  bool last = false;        ///< of its document
  uint64_t file_bytes = 0;  ///< of all files, that were read up to its end
  result<std::vector<int32_t>> ids = std::vector<int32_t>{};
};

/// Cuts documents into pieces as their parts come. What parts two documents as text ("\n\n", where
/// the tokenizer has no end of text) is of the earlier one: a document's end waits for the next.
class piece_cutter {
 public:
  piece_cutter(const text_source& source, const tokenizer& by, size_t piece_bytes)
      : source_(source), by_(by), piece_bytes_(piece_bytes) {}

  status add(document_part part, std::vector<piece>& to) {
    if (std::exchange(ended_, false)) {
      if (!by_.end_of_text()) rest_ += "\n\n";
      end_document(to);
    }
    name_ = name_of(source_, part);
    file_bytes_ = part.file_bytes;
    rest_ += part.text;
    ended_ = part.last;
    if (!ended_) cut(to);
    if (rest_.size() > max_document_bytes) return text_too_long(name_, max_document_bytes);
    return {};
  }

  /// All parts have come.
  void finish(std::vector<piece>& to) {
    if (std::exchange(ended_, false)) end_document(to);
  }

 private:
  void cut(std::vector<piece>& to) {
    std::string_view left = rest_;
    while (const auto length = next_cut(left, std::max(piece_bytes_, scanned_), by_.cuts())) {
      auto text = std::string(left.substr(0, *length));
      left.remove_prefix(*length);
      scanned_ = 0;
      const auto at = file_bytes_ - std::min<uint64_t>(file_bytes_, left.size());
      to.push_back({.text = std::move(text), .name = name_, .first = at_first(), .file_bytes = at});
    }
    rest_.erase(0, rest_.size() - left.size());
    scanned_ = rest_.size() - std::min(rest_.size(), cut_context_bytes);  // these wait for more
  }

  void end_document(std::vector<piece>& to) {
    cut(to);
    to.push_back({.text = std::exchange(rest_, {}),
                  .name = name_,
                  .first = at_first(),
                  .last = true,
                  .file_bytes = file_bytes_});
    begun_ = false;
  }

  /// Whether no piece of the document was made before.
  bool at_first() { return !std::exchange(begun_, true); }

  const text_source& source_;
  const tokenizer& by_;
  size_t piece_bytes_;
  std::string rest_, name_;
  size_t scanned_ = 0;  ///< of `rest_`, where no cut was found
  uint64_t file_bytes_ = 0;
  bool ended_ = false;  ///< `rest_` is the end of its document
  bool begun_ = false;  ///< a piece of the document was made
};

void encode(piece& p, const tokenizer& by) {
  try {
    p.ids = p.first ? by.encode(p.text) : by.encode_rest(p.text);
    if (!p.ids) return;
    const auto put = [&](const std::vector<int32_t>& ids, auto where) {
      p.ids->insert(where, ids.begin(), ids.end());
    };
    if (p.first) put(ids_before_document(by), p.ids->begin());
    if (p.last) put(ids_after_document(by), p.ids->end());
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

/// Where tokens go.
class token_sink {
 public:
  virtual ~token_sink() = default;
  virtual status append(std::span<const int32_t> ids) = 0;
  /// So far all is there of whole pieces.
  virtual status piece_ended(const corpus_progress& done) = 0;
  virtual status finish(const corpus_progress& done) = 0;
};

class one_file final : public token_sink {
 public:
  explicit one_file(token_file_writer writer) : writer_(std::move(writer)) {}
  status append(std::span<const int32_t> ids) override { return writer_.append(ids); }
  status piece_ended(const corpus_progress&) override { return {}; }
  status finish(const corpus_progress&) override { return writer_.finish(); }

 private:
  token_file_writer writer_;
};

/// One run of preparing.
class preparation {
 public:
  /// `done`: of a preparing that was cut off, whose pieces are passed over.
  preparation(const text_source& source, const tokenizer& by, const corpus_options& options,
              token_sink& sink, const corpus_progress& done = {})
      : reader_(source),
        cutter_(source, by, options.piece_bytes),
        by_(by),
        options_(options),
        sink_(sink),
        done_(done),
        passed_over_(done.pieces) {
    threads_ = options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
    threads_ = std::clamp(threads_, 1U, 16U);
    done_.file_bytes = source.total_bytes();
  }

  result<corpus_progress> run() {
    std::vector<piece> pieces;
    for (;;) {
      TROUPE_TRY(part, reader_.next());
      if (!part) break;
      TROUPE_CHECK(cutter_.add(std::move(*part), pieces));
      TROUPE_CHECK(take(pieces, false));
    }
    cutter_.finish(pieces);
    TROUPE_CHECK(take(pieces, true));
    TROUPE_CHECK(sink_.finish(done_));
    return done_;
  }

 private:
  /// Tokenises pieces that have come, where they are enough for all threads.
  status take(std::vector<piece>& pieces, bool all) {
    if (!pass_over(pieces)) return cancelled();
    for (; counted_ < pieces.size(); ++counted_)  // pieces without text are held, too
      held_bytes_ += pieces[counted_].text.size() + pieces[counted_].name.size() + sizeof(piece);
    if (!all && held_bytes_ < options_.piece_bytes * threads_) return {};
    TROUPE_CHECK(write(pieces));
    pieces.clear();
    counted_ = held_bytes_ = 0;
    return {};
  }

  /// Takes out pieces that a preparing before has tokenised. False: cancelled, which is asked for
  /// now and then, as there may be many.
  bool pass_over(std::vector<piece>& pieces) {
    const size_t known = std::min<uint64_t>(passed_over_, pieces.size());
    if (known == 0) return true;
    passed_over_ -= known;
    done_.file_bytes_found = done_.file_bytes_done = pieces[known - 1].file_bytes;
    pieces.erase(pieces.begin(), pieces.begin() + static_cast<ptrdiff_t>(known));
    constexpr uint64_t between_bytes = uint64_t{64} << 20;
    if (done_.file_bytes_found < asked_at_bytes_ + between_bytes) return true;
    asked_at_bytes_ = done_.file_bytes_found;
    return goes_on();
  }

  /// Tokenises and appends, in groups so that progress is told and memory bounded.
  status write(std::vector<piece>& pieces) {
    for (size_t first = 0, last = 0; first < pieces.size(); first = last) {
      size_t bytes = 0;
      for (; last < pieces.size() &&
             (last - first < 4 * size_t{threads_} || bytes < options_.piece_bytes);
           ++last)
        bytes += pieces[last].text.size();
      const auto at = [&](size_t i) {
        return std::make_move_iterator(pieces.begin() + static_cast<ptrdiff_t>(i));
      };
      std::vector<piece> now(at(first), at(last));
      if (!encode_all(now, by_, threads_, [this] { return goes_on(); })) return cancelled();
      for (const auto& p : now) TROUPE_CHECK(append(p));
      if (!goes_on()) return cancelled();
    }
    return {};
  }

  status append(const piece& p) {
    if (!p.ids) return p.ids.error().within(p.name);
    TROUPE_CHECK(sink_.append(*p.ids));
    done_.text_bytes += p.text.size();
    done_.tokens += p.ids->size();
    ++done_.pieces;
    if (p.last) ++done_.documents_done;
    done_.file_bytes_done = p.file_bytes;
    return sink_.piece_ended(done_);
  }

  bool goes_on() const { return !options_.progress || options_.progress(done_); }

  static error cancelled() { return {errc::cancelled, "preparing the data was cancelled"}; }

  document_reader reader_;
  piece_cutter cutter_;
  const tokenizer& by_;
  const corpus_options& options_;
  token_sink& sink_;
  unsigned threads_ = 1;
  corpus_progress done_;
  uint64_t passed_over_;
  uint64_t asked_at_bytes_ = 0;
  size_t counted_ = 0, held_bytes_ = 0;  ///< of the pieces that wait
};

/// What the tokens of shards, and where these end, depend on (CRP-3).
result<uint64_t> made_of_what(const text_source& source, const tokenizer& by,
                              const corpus_options& options) {
  corpus_progress reading;
  reading.file_bytes = source.total_bytes();
  TROUPE_TRY(text, source.fingerprint([&](uint64_t bytes) {
    reading.file_bytes_known = bytes;
    return !options.progress || options.progress(reading);
  }));
  const uint64_t parts[] = {corpus_rules_version(by.cuts()), text, by.fingerprint(),
                            options.piece_bytes};
  return XXH3_64bits(parts, sizeof parts);
}

class into_shards final : public token_sink {
 public:
  explicit into_shards(corpus_writer& writer) : writer_(writer) {}
  status append(std::span<const int32_t> ids) override { return writer_.append(ids); }
  status piece_ended(const corpus_progress& done) override { return writer_.may_end(done); }
  status finish(const corpus_progress& done) override { return writer_.finish(done); }

 private:
  corpus_writer& writer_;
};

struct shard_place {
  const fs::path& folder;
  const std::string& stem;
};

result<corpus_shards> prepare_made_of(uint64_t made_of, const text_source& source,
                                      const tokenizer& by, const shard_place& at,
                                      const corpus_options& options) {
  TROUPE_TRY(shards,
             corpus_writer::open(at.folder, at.stem, made_of,
                                 static_cast<uint32_t>(by.vocab_size()), options.shard_tokens));
  corpus_shards out;
  out.found = shards.files().size();
  out.done = shards.done();
  if (!shards.complete()) {
    into_shards sink(shards);
    TROUPE_TRY(done, preparation(source, by, options, sink, shards.done()).run());
    out.done = done;
  }
  out.files = shards.files();
  return out;
}

}  // namespace

result<corpus_progress> prepare_corpus(const text_source& source, const tokenizer& by,
                                       const fs::path& out, const corpus_options& options) {
  TROUPE_TRY(writer, token_file_writer::create(out, static_cast<uint32_t>(by.vocab_size())));
  one_file sink(std::move(writer));
  return preparation(source, by, options, sink).run();
}

result<corpus_shards> prepare_shards(const text_source& source, const tokenizer& by,
                                     const fs::path& folder, const std::string& stem,
                                     const corpus_options& options) {
  TROUPE_TRY(made_of, made_of_what(source, by, options));
  return prepare_made_of(made_of, source, by, {folder, stem}, options);
}

namespace {

/// Whether the file has a cut behind its first piece, or ends, before it is too long.
result<bool> is_cut(const fs::path& file, const tokenizer& by) {
  const std::vector<fs::path> path{file};
  TROUPE_TRY(source, text_source::open(path, {.form = text_form::text}));
  document_reader reader(source);
  std::string held;  // the end of what was read
  for (uint64_t bytes = 0; bytes <= max_document_bytes;) {
    TROUPE_TRY(part, reader.next());
    if (!part || part->last) return true;
    bytes += part->text.size();
    held += part->text;
    if (next_cut(held, 1, by.cuts())) return true;
    held.erase(0, held.size() - std::min(held.size(), 2 * cut_context_bytes));
  }
  return false;
}

}  // namespace

status check_cuts(const text_source& source, const tokenizer& by) {
  for (const auto& file : source.files()) {
    if (file.records || by.cuts() == text_cuts::anywhere) continue;
    std::error_code code;
    const auto bytes = fs::file_size(file.path, code);
    if (code) return error::system("size of " + file.path.string(), code.value());
    TROUPE_TRY(head, head_of(file.path));
    const bool packed = packing_of(head) != packing::none;
    if (bytes <= (packed ? max_document_bytes / 4 : max_document_bytes)) continue;
    if (by.cuts() == text_cuts::nowhere && !packed)
      return text_too_long(fmt::format("{} ({} bytes)", file.path.string(), bytes),
                           max_document_bytes);
    TROUPE_TRY(cut, is_cut(file.path, by));
    if (!cut) return text_too_long(file.path.string(), max_document_bytes);
  }
  return {};
}

status check_first_texts(const text_source& source, const tokenizer& by, size_t files) {
  if (source.options().strip_gutenberg || by.encode("\xff")) return {};
  for (const auto& file : source.files()) {
    if (file.records) continue;  // which are no JSON then
    if (files-- == 0) break;
    const std::array paths{file.path};
    TROUPE_TRY(alone, text_source::open(paths, source.options()));
    TROUPE_TRY(first, document_reader(alone, first_text_bytes).next());
    if (!first) continue;
    const auto at = find_invalid_utf8(first->text);
    if (at == std::string::npos || begins_a_character(std::string_view(first->text).substr(at)))
      continue;
    return text_not_utf8(at).within(file.path.string());
  }
  return {};
}

result<uint64_t> count_tokens(const text_source& source, const tokenizer& by) {
  document_reader reader(source);
  piece_cutter cutter(source, by, size_t{1} << 18);
  std::vector<piece> pieces;
  uint64_t tokens = 0;
  const auto count = [&]() -> status {
    for (auto& p : pieces) {
      encode(p, by);
      if (!p.ids) return p.ids.error().within(p.name);
      tokens += p.ids->size();
    }
    pieces.clear();
    return {};
  };
  for (;;) {
    TROUPE_TRY(part, reader.next());
    if (!part) break;
    TROUPE_CHECK(cutter.add(std::move(*part), pieces));
    TROUPE_CHECK(count());
  }
  cutter.finish(pieces);
  TROUPE_CHECK(count());
  return tokens;
}

result<std::vector<fs::path>> cached_corpus(const text_source& source, const tokenizer& by,
                                            const fs::path& folder, const corpus_options& options) {
  TROUPE_TRY(made_of, made_of_what(source, by, options));
  const auto stem = fmt::format("{:016x}", made_of);
  TROUPE_TRY(made, prepare_made_of(made_of, source, by, {folder, stem}, options));
  return made.files;
}

}  // namespace troupe::io

// The note is rewritten behind each shard.
#include "io/data/shard_writer.hpp"

#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/formats/json_text.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr size_t max_note_bytes = size_t{16} << 20;

uint64_t number_in(const nlohmann::json& from, const char* name) {
  const auto it = from.find(name);
  return it != from.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}

std::string hex(uint64_t value) {
  return fmt::format("{:016x}", value);
}

fs::path note_of(const fs::path& folder, std::string_view stem) {
  return folder / fmt::format(".{}.json", stem);
}

/// What a note says; null where it says nothing that can be read. Errors: io, permission.
result<nlohmann::json> note_in(const fs::path& path) {
  auto text = read_file(path, max_note_bytes);
  if (!text && text.error().code == errc::not_found) return nlohmann::json();
  if (!text) return text.error();
  auto parsed = parse_json(*text);
  return parsed && parsed->is_object() ? std::move(*parsed) : nlohmann::json();
}

}  // namespace

fs::path corpus_writer::file(size_t number) const {
  return folder_ / fmt::format("{}-{:05}.bin", stem_, number);
}

fs::path corpus_writer::note_path() const {
  return note_of(folder_, stem_);
}

result<corpus_writer> corpus_writer::open(const fs::path& folder, const std::string& stem,
                                          uint64_t made_of, uint32_t vocab, uint64_t shard_tokens) {
  corpus_writer out(folder, stem, made_of, vocab, shard_tokens);
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return error::system("create " + folder.string(), code.value());
  TROUPE_CHECK(out.read_note());
  return out;
}

/// SHD-2, SHD-3. Names that are made of what the tokens depend on are nobody else's.
status corpus_writer::read_note() {
  const bool ours_by_name = stem_ == hex(made_of_);
  std::error_code ignored;
  TROUPE_TRY(note, note_in(note_path()));
  if (note.is_null()) {
    const bool foreign = !ours_by_name && fs::exists(file(0), ignored);
    return foreign ? status(other_shards(file(0).string())) : status();
  }
  if (note["made_of"] != hex(made_of_)) return other_shards(note_path().string());
  const auto listed = note["shards"];
  if (!listed.is_array()) return {};
  for (const auto& s : listed) {
    if (!s.is_object()) return {};
    shard next;
    next.tokens = number_in(s, "tokens");
    next.end.pieces = number_in(s, "pieces");
    next.end.documents_done = number_in(s, "documents");
    next.end.text_bytes = number_in(s, "text_bytes");
    next.end.tokens = number_in(s, "all_tokens");
    const auto before = done();
    auto there = token_file::open(file(shards_.size()), token_format::llmc);
    if (!there || there->size() != next.tokens || next.end.tokens != before.tokens + next.tokens ||
        next.end.pieces < before.pieces)
      return {};
    shards_.push_back(next);
  }
  complete_ = note["complete"] == true;
  return {};
}

corpus_progress corpus_writer::done() const {
  return shards_.empty() ? corpus_progress{} : shards_.back().end;
}

std::vector<fs::path> corpus_writer::files() const {
  std::vector<fs::path> out;
  for (size_t i = 0; i < shards_.size(); ++i) out.push_back(file(i));
  return out;
}

status corpus_writer::append(std::span<const int32_t> ids) {
  if (!writer_) {
    if (shards_.empty()) TROUPE_CHECK(write_note());  // before a file that would be a stranger's
    TROUPE_TRY(made, token_file_writer::create(file(shards_.size()), vocab_));
    writer_.emplace(std::move(made));
  }
  return writer_->append(ids);
}

status corpus_writer::may_end(const corpus_progress& done) {
  return writer_ && writer_->size() >= shard_tokens_ ? end_shard(done, false) : status{};
}

status corpus_writer::finish(const corpus_progress& done) {
  if (!writer_ && shards_.empty()) TROUPE_CHECK(append({}));  // no tokens are a shard, too
  return end_shard(done, true);
}

/// SHD-1.
status corpus_writer::end_shard(const corpus_progress& done, bool last) {
  if (writer_) {
    const auto tokens = writer_->size();
    TROUPE_CHECK(writer_->finish());
    writer_.reset();
    shards_.push_back({tokens, done});
  }
  complete_ = last;
  TROUPE_CHECK(write_note());
  // A folder is read whole: what is left of other shards would be read with these.
  std::error_code ignored;
  const auto behind = file(shards_.size());
  const bool read_whole = last && stem_ != hex(made_of_);
  if (read_whole && fs::exists(behind, ignored)) return other_shards(behind.string());
  return {};
}

status corpus_writer::write_note() const {
  auto listed = nlohmann::ordered_json::array();
  for (const auto& s : shards_)
    listed.push_back({{"tokens", s.tokens},
                      {"pieces", s.end.pieces},
                      {"documents", s.end.documents_done},
                      {"text_bytes", s.end.text_bytes},
                      {"all_tokens", s.end.tokens}});
  const nlohmann::ordered_json note{
      {"made_of", hex(made_of_)}, {"complete", complete_}, {"shards", listed}};
  return write_atomic(note_path(), note.dump() + "\n");
}

status check_whole_shards(const std::vector<fs::path>& files) {
  std::set<fs::path> looked_at;
  for (const auto& file : files) {
    const auto name = file.stem().string();
    const auto dash = name.rfind('-');
    if (dash == name.npos) continue;
    const auto path = note_of(file.parent_path(), name.substr(0, dash));
    if (!looked_at.insert(path).second) continue;
    TROUPE_TRY(note, note_in(path));
    if (note.contains("made_of") && note["complete"] == false)
      return shards_incomplete(file.string());
  }
  return {};
}

}  // namespace troupe::io

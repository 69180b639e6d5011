// `troupe data`: text to token files once and for all, and a look into token files.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/train/inputs.hpp"
#include "actors/train/tokenising_policy.hpp"
#include "apps/bench/interrupt.hpp"
#include "apps/commands.hpp"
#include "apps/progress_line.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "io/data/corpus.hpp"
#include "io/data/data_files.hpp"
#include "io/data/document_reader.hpp"
#include "io/data/token_file.hpp"

namespace troupe::apps {

namespace {

struct data_arguments {
  std::vector<std::string> paths;
  std::string tokenizer = "bytes";
  std::string add_bos = "auto";
  std::string out;
  std::string format = "auto";
  int64_t show = 32;
  unsigned threads = 0;
  std::string text_field = "text";
  uint64_t shard_tokens = io::corpus_options().shard_tokens;
  bool strip_gutenberg = false;
  bool any_text = false;
  bool json = false;
};

constexpr size_t first_text_bytes = 400;  // that are shown of a file

using seconds = std::chrono::duration<double>;

/// Whether shards are to be written: into a folder that is there, or that is named as one.
bool is_for_shards(const std::string& out) {
  std::error_code ignored;
  return out.ends_with('/') || std::filesystem::is_directory(out, ignored);
}

result<io::corpus_shards> prepare_into(const data_arguments& a, const io::text_source& source,
                                       const io::tokenizer& words,
                                       const io::corpus_options& options) {
  if (is_for_shards(a.out)) return io::prepare_shards(source, words, a.out, "tokens", options);
  io::corpus_shards one;
  TROUPE_TRY(done, io::prepare_corpus(source, words, a.out, options));
  one.done = done;
  one.files = {a.out};
  return one;
}

nlohmann::ordered_json facts_of(const data_arguments& a, const io::tokenizer& words,
                                const io::corpus_shards& made) {
  nlohmann::ordered_json facts;
  facts["file"] = a.out;
  facts["tokenizer"] = words.name();
  facts["vocab"] = words.vocab_size();
  facts["documents"] = made.done.documents_done;
  facts["text_bytes"] = made.done.text_bytes;
  facts["tokens"] = made.done.tokens;
  auto& files = facts["files"] = nlohmann::ordered_json::array();
  for (const auto& file : made.files) files.push_back(file.string());
  return facts;
}

/// A person has interrupted it.
int interrupted(const data_arguments& a, int signal) {
  say(is_for_shards(a.out) ? "interrupted: whole shards are kept, the same command goes on"
                           : "interrupted: nothing was written");
  return 128 + signal;
}

/// With BOS before each document or without, where that was said.
result<io::tokenizer_ptr> words_of(const data_arguments& a) {
  TROUPE_TRY(words, io::make_tokenizer(a.tokenizer));
  if (a.add_bos == "auto") return words;
  return io::with_bos(std::move(words), a.add_bos == "yes");
}

result<io::text_source> texts_of(const data_arguments& a) {
  const std::vector<std::filesystem::path> paths(a.paths.begin(), a.paths.end());
  const auto form = a.any_text ? io::text_form::text : io::text_form::automatic;
  return io::text_source::open(paths, {a.strip_gutenberg, form, a.text_field});
}

result<int> prepare(const data_arguments& a) {
  TROUPE_TRY(interrupt, interrupt_watch::start());  // before any other thread
  TROUPE_TRY(words, words_of(a));
  TROUPE_TRY(source, texts_of(a));
  TROUPE_TRY(notes, train::notes_of(source));
  for (const auto& note : notes) say(note);
  progress_line line;
  const auto began = std::chrono::steady_clock::now();
  const auto passed = [&] { return seconds(std::chrono::steady_clock::now() - began).count(); };
  train::tokenising_policy pace(0, 0);
  io::corpus_options options;
  options.threads = a.threads;
  options.shard_tokens = a.shard_tokens;
  options.progress = [&](const io::corpus_progress& p) {
    if (!line.due()) return !interrupt->asked();
    if (const auto text = pace.heard(static_cast<int64_t>(passed() * 1e9), p))
      line.tell(fmt::format("{} | {} {}, {} {}", *text,
                            grouped(static_cast<int64_t>(p.documents_done)),
                            plural(p.documents_done, "document"),
                            grouped(static_cast<int64_t>(p.tokens)), plural(p.tokens, "token")));
    return !interrupt->asked();
  };
  auto made = prepare_into(a, source, *words, options);
  line.clear();
  if (!made && interrupt->asked()) return interrupted(a, interrupt->signal());
  if (!made) return made.error();
  if (made->found > 0)
    say(fmt::format("{} of {} shards were there already", made->found, made->files.size()));
  say(fmt::format("{}: {} {} of {} from {}, {} bytes, in {:.1f} s", a.out,
                  grouped(static_cast<int64_t>(made->done.tokens)),
                  plural(made->done.tokens, "token"), words->name(),
                  counted(made->done.documents_done, "document"),
                  grouped(static_cast<int64_t>(made->done.text_bytes)), passed()));
  if (a.json) TROUPE_CHECK(print(facts_of(a, *words, *made).dump() + "\n"));
  return 0;
}

io::token_format format_of(const std::string& word) {
  return word == "llmc"      ? io::token_format::llmc
         : word == "nanogpt" ? io::token_format::nanogpt
                             : io::token_format::automatic;
}

/// What stands in one token file.
nlohmann::ordered_json facts_of(const io::token_file& file) {
  uint32_t largest = 0;
  for (uint64_t i = 0; i < file.size(); i++) largest = std::max(largest, file.token(i));
  nlohmann::ordered_json facts;
  facts["file"] = file.path().string();
  facts["format"] = file.format_name();
  facts["bytes_per_token"] = file.token_bytes();
  facts["tokens"] = file.size();
  if (file.size() > 0) facts["largest_token"] = largest;
  if (file.documents() > 0) facts["documents"] = file.documents();
  return facts;
}

/// The first tokens, and their text where a tokenizer was named or they are bytes.
result<nlohmann::ordered_json> beginning_of(const io::token_file& file, const data_arguments& a,
                                            const io::tokenizer* words) {
  std::vector<int32_t> ids(std::min(file.size(), static_cast<uint64_t>(a.show)));
  file.copy(0, ids.size(), ids.data());
  nlohmann::ordered_json out;
  out["first_tokens"] = ids;
  if (auto doubts = file.doubts(); !doubts.empty()) out["warnings"] = std::move(doubts);
  const bool bytes = !ids.empty() && *std::max_element(ids.begin(), ids.end()) < 256;
  if (!words && !bytes) return out;
  auto text = words ? words->decode(ids) : std::string(ids.begin(), ids.end());
  if (!text)
    return error{text.error().code, file.path().string() + ": " + text.error().message,
                 "another tokenizer made this file"};
  out["first_text"] = *text;
  return out;
}

/// Of token files, an object each.
result<nlohmann::ordered_json> seen_in_tokens(const data_arguments& a, bool with_text) {
  io::tokenizer_ptr words;
  if (with_text) {
    TROUPE_TRY(made, io::make_tokenizer(a.tokenizer));
    words = made;
  }
  auto all = nlohmann::ordered_json::array();
  const std::vector<std::filesystem::path> paths(a.paths.begin(), a.paths.end());
  TROUPE_TRY(opened, io::token_files::open(paths, format_of(a.format)));
  for (const auto& file : opened.files()) {
    auto facts = facts_of(file);
    TROUPE_TRY(beginning, beginning_of(file, a, words.get()));
    facts.update(beginning);
    all.push_back(std::move(facts));
  }
  return all;
}

/// What one file of texts holds.
struct texts_seen {
  uint64_t documents = 0, bytes = 0;
  std::string first;
};

/// Less what is cut off of a last character of UTF-8.
std::string whole_characters(std::string text) {
  const auto is_within = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  size_t at = text.size();
  while (at > 0 && text.size() - at < 3 && is_within(text[at - 1])) --at;
  if (at == 0) return text;
  const auto lead = static_cast<unsigned char>(text[at - 1]);
  const size_t wants = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (text.size() - (at - 1) < wants) text.resize(at - 1);
  return text;
}

/// Reads all of it, as a start that tokenises it does.
result<std::vector<texts_seen>> read_texts(const io::text_source& source) {
  std::vector<texts_seen> out(source.files().size());
  progress_line line;
  io::document_reader reader(source);
  for (;;) {
    TROUPE_TRY(part, reader.next());
    if (!part) return out;
    auto& seen = out[part->file];
    if (seen.documents == 0 && seen.first.size() < first_text_bytes)
      seen.first += part->text.substr(0, first_text_bytes - seen.first.size());
    seen.bytes += part->text.size();
    if (part->last) ++seen.documents;
    if (line.due())
      line.tell(fmt::format("{} of {} bytes read", grouped(static_cast<int64_t>(part->file_bytes)),
                            grouped(static_cast<int64_t>(source.total_bytes()))));
  }
}

/// The same of texts and records, by what a job reads of them.
result<nlohmann::ordered_json> seen_in_texts(const data_arguments& a) {
  TROUPE_TRY(source, texts_of(a));
  TROUPE_TRY(notes, train::notes_of(source));
  for (const auto& note : notes) say(note);
  TROUPE_CHECK(io::check_first_records(source));
  TROUPE_TRY(seen, read_texts(source));
  auto all = nlohmann::ordered_json::array();
  texts_seen sum;
  for (size_t i = 0; i < seen.size(); ++i) {
    const auto& file = source.files()[i];
    nlohmann::ordered_json facts;
    facts["file"] = file.path.string();
    facts["format"] = file.records ? "records" : "text";
    if (file.records) facts["text_field"] = a.text_field;
    facts["documents"] = seen[i].documents;
    facts["text_bytes"] = seen[i].bytes;
    facts["first_text"] = whole_characters(seen[i].first);
    all.push_back(std::move(facts));
    sum.documents += seen[i].documents;
    sum.bytes += seen[i].bytes;
  }
  if (seen.size() > 1)
    say(fmt::format("{}: {}, {} bytes of text", counted(seen.size(), "file"),
                    counted(sum.documents, "document"), grouped(static_cast<int64_t>(sum.bytes))));
  return all;
}

/// As a job takes its data.path (train::ready_tokens), unless a format of tokens was named.
bool are_tokens(const data_arguments& a) {
  return a.format != "auto" ||
         (!a.any_text && std::all_of(a.paths.begin(), a.paths.end(),
                                     [](const auto& path) { return io::names_tokens(path); }));
}

result<int> inspect(const data_arguments& a, bool with_text) {
  TROUPE_TRY(all, are_tokens(a) ? seen_in_tokens(a, with_text) : seen_in_texts(a));
  using handler = nlohmann::ordered_json::error_handler_t;
  if (a.json) {
    TROUPE_CHECK(print(all.dump(2, ' ', false, handler::replace) + "\n"));
    return 0;
  }
  const auto shown = [](const std::string& key, const nlohmann::ordered_json& value) {
    if (key == "file") return value.get<std::string>();
    if (key == "first_text") return fmt::format("\"{}\"", printable(value.get<std::string>(), 200));
    return value.dump(-1, ' ', false, handler::replace);
  };
  std::string text;
  for (const auto& facts : all)
    for (const auto& [key, value] : facts.items())
      text += fmt::format("{}{:<17}{}\n", key == "file" && !text.empty() ? "\n" : "", key,
                          shown(key, value));
  TROUPE_CHECK(print(text));
  return 0;
}

}  // namespace

void add_data(shell& sh) {
  auto* verb = sh.app.add_subcommand("data", "Turn text into token files, and look into them");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  troupe data prepare books/ --tokenizer gpt2/tokenizer.json --out books.bin\n"
      "  troupe data prepare 'c4/*.jsonl.gz' --tokenizer gpt2/ --out c4-tokens/\n"
      "  troupe data inspect books.bin --tokenizer gpt2/tokenizer.json\n"
      "  troupe data inspect c4/ --text-field content");
  auto a = std::make_shared<data_arguments>();

  auto* prepare_verb = verb->add_subcommand(
      "prepare", "Tokenise text or JSON records into .bin files of llm.c's format");
  prepare_verb
      ->add_option(
          "PATH", a->paths,
          "Files, patterns and folders of text or JSON (.jsonl, .json, with .gz or .zst), in "
          "this order")
      ->required();
  prepare_verb
      ->add_option("--out", a->out,
                   "The .bin file to write; or a folder (DIR/) for several, which goes on "
                   "where it was cut off")
      ->required();
  prepare_verb->add_option(
      "--tokenizer", a->tokenizer,
      "\"bytes\", or a tokenizer.json, merges or SentencePiece file or folder");
  prepare_verb
      ->add_option("--add-bos", a->add_bos,
                   "The tokenizer's first token before each document: yes or no; auto = where its "
                   "files say so")
      ->one_of({"auto", "yes", "no"});
  prepare_verb->add_option("--threads", a->threads, "Threads; 0 = as many as there are cores");
  prepare_verb->add_option("--shard-tokens", a->shard_tokens, "Of a folder, tokens of one file")
      ->within(uint64_t{1}, io::max_llmc_tokens / 2);
  prepare_verb->add_flag("--json", a->json, "What was made, as one JSON object on stdout");
  on_run(sh, prepare_verb, [a] { return prepare(*a); });

  const auto add_text_options = [&a](command* of) {
    of->add_flag("--strip-gutenberg", a->strip_gutenberg,
                 "Leave out what Project Gutenberg wraps around its books");
    of->add_option("--text-field", a->text_field, "Of JSON records, the field that holds the text");
    of->add_flag("--any-text", a->any_text, "Take JSON, CSV and HTML as the text they are");
  };
  add_text_options(prepare_verb);
  auto* inspect_verb =
      verb->add_subcommand("inspect", "Show what a job would read: tokens, text or records");
  inspect_verb
      ->add_option("FILE", a->paths,
                   "Files, patterns and folders, as in data.path: tokens of llm.c, nanoGPT or "
                   "Megatron, text, JSON")
      ->required();
  auto* tokenizer = inspect_verb->add_option("--tokenizer", a->tokenizer,
                                             "Show the first tokens as this tokenizer's text too");
  inspect_verb->add_option("--format", a->format, "auto, llmc or nanogpt")
      ->one_of({"auto", "llmc", "nanogpt"});
  inspect_verb->add_option("--show", a->show, "How many of the first tokens to show")
      ->within(int64_t{0}, int64_t{1000000});
  add_text_options(inspect_verb);
  inspect_verb->add_flag("--json", a->json, "As a JSON array");
  on_run(sh, inspect_verb, [a, tokenizer] { return inspect(*a, tokenizer->count() > 0); });
}

}  // namespace troupe::apps

// Text folders and their token files: which documents, cleaned how, cut where, cached when.
#include "io/data/corpus.hpp"

#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/data/data_files.hpp"
#include "io/data/data_kind.hpp"
#include "io/data/shard_writer.hpp"
#include "io/data/token_file.hpp"
#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/corpora.hpp"
#include "tests/io/packed.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

/// Lines with every kind of border.
std::string long_text() {
  auto file = nlohmann::json::parse(
      *read_file(TROUPE_SOURCE_DIR "/tests/io/fixtures/expected.json", 1 << 20));
  std::string text;
  for (const char* end : {"\n", ".\n", "x\n", " \n", "\n\n"})
    for (const auto& t : file["texts"])
      if (auto line = t.get<std::string>(); line.find('\0') == std::string::npos)
        text += line + end;
  return text;
}

}  // namespace

TEST_CASE("TXT-2 text loses byte order mark and carriage returns, and nothing else unasked") {
  CHECK(clean_text("\xef\xbb\xbf"
                   "a\r\nb\rc\n\xef\xbb\xbf") == "a\nb\nc\n\xef\xbb\xbf");
  CHECK(clean_text("") == "");
  const std::string show = "one\n*** START OF THE SHOW ***\ntwo\n*** END OF THE SHOW ***\nthree\n";
  CHECK(clean_text(show) == show);
  CHECK(clean_text(show, true) == show);  // GUT-1
  const std::string book = "licence\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\nbook\n";
  CHECK(clean_text(book) == book);
}

TEST_CASE("text beside tokens is refused with how both can be trained on") {
  const scratch dir;
  REQUIRE(write_atomic(dir / "book.txt", "text"));
  fs::create_directories(dir / "raw");
  REQUIRE(write_atomic(dir / "raw/a.bin", std::string("\1\0\2\0", 4)));
  fs::create_directories(dir / "marked");
  auto writer = token_file_writer::create(dir / "marked/a.bin", 256);
  REQUIRE(writer);
  REQUIRE(writer->finish());
  for (const char* tokens : {"raw", "raw/a.bin", "marked", "marked/a.bin"}) {
    CAPTURE(tokens);
    const std::vector<fs::path> both{dir / "book.txt", dir / tokens};
    const auto refused = text_source::open(both);
    CHECK(is_error(refused, unexpected_data, (dir / tokens).string(), "text or JSON"));
    CHECK(refused.error().hint.find("[[data.source]]") != std::string::npos);
    const auto alone = text_source::open(std::vector<fs::path>{dir / tokens});
    CHECK(is_error(alone, unexpected_data, (dir / tokens).string(), "text or JSON"));
    CHECK(alone.error().hint.find("tokens already") != std::string::npos);
  }
  REQUIRE(write_atomic(dir / "raw/notes.txt", "text"));  // a folder with text may hold others
  const std::vector<fs::path> folders{dir / "book.txt", dir / "raw"};
  const auto read = text_source::open(folders);
  REQUIRE(read);
  CHECK(read->files().size() == 2);
}

TEST_CASE("GUT: every book is kept, what is around it is not") {
  CHECK(clean_text("licence\r\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\r\nbook\r\n"
                   "End of the Project Gutenberg EBook of X\r\n\r\n"
                   "*** END OF THIS PROJECT GUTENBERG EBOOK X ***\r\nmore",
                   true) == "book\n");
  CHECK(clean_text("*** START OF THE PROJECT GUTENBERG EBOOK X ***\nbook\n*** END OF THE PROJECT "
                   "GUTENBERG EBOOK X ***\nEnd of Project Gutenberg\n",
                   true) == "book\n");
  const std::string odd = "no mark\nEnd of the Project Gutenberg?\n";
  CHECK(clean_text(odd, true) == odd);  // GUT-2
  auto wrapped = [](const std::string& body, const std::string& end) {
    return "head\n***START OF THE PROJECT GUTENBERG EBOOK A***\n" + body + end;
  };
  const std::string end = "*** END OF THE PROJECT GUTENBERG EBOOK A ***\nlicence\n";
  CHECK(clean_text(wrapped("one\n", end) + wrapped("two\n", end), true) == "one\ntwo\n");
  CHECK(clean_text(wrapped("one\n", "") + wrapped("two\n", end), true) ==
        "one\nhead\ntwo\n");  // GUT-3
  // A line that begins like the end of a book, far from its end, is part of it.
  const std::string inside = "a\nEnd of Project Gutenberg\n" + std::string(2000, 'x') + "\n";
  CHECK(clean_text(wrapped(inside, end), true) == inside);
  // Of any number of books between any lines nothing but the lines around them is lost.
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::minstd_rand draw(seed + 1);
    std::string text, kept;
    const int books = static_cast<int>(draw() % 4) + 1;
    for (int i = 0; i < books; ++i) {
      std::string body;
      for (unsigned n = draw() % 9; n > 0; --n)
        body += std::vector<std::string>{
            "x\n",         "\n",
            "*** a ***\n", "*** START OF THE SHOW\n",
            "***\n",       "END OF THE PROJECT GUTENBERG EBOOK\n"}[draw() % 6];
      text += wrapped(body, end);
      kept += body;
    }
    CAPTURE(text);
    CHECK(clean_text(text, true) == kept);
  }
}

TEST_CASE("TXT-3 what is left out of which file is said, and keys the cache") {
  scratch dir;
  const std::string book =
      "licence\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\nbook\n*** END OF THE PROJECT "
      "GUTENBERG EBOOK X ***\n";
  REQUIRE(write_atomic(dir / "a.txt", "\xef\xbb\xbf" + book));
  REQUIRE(write_atomic(dir / "b.txt", "plain"));
  const std::vector<fs::path> paths{dir / "a.txt", dir / "b.txt"};
  auto whole = text_source::open(paths);
  auto books = text_source::open(paths, {.strip_gutenberg = true});
  REQUIRE(whole);
  REQUIRE(books);
  CHECK(whole->left_out()->empty());
  auto left_out = books->left_out();
  REQUIRE(left_out);
  REQUIRE(left_out->size() == 1);
  CHECK(left_out->front().path == dir / "a.txt");
  CHECK(left_out->front().left_out_bytes == book.size() - std::string("book\n").size());
  CHECK(documents_of(*books)->front() == "book\n");
  CHECK(documents_of(*whole)->front() == book);
  CHECK(*whole->fingerprint() != *books->fingerprint());
}

TEST_CASE("TXT-1 what is no text is refused by its kind and never read as text") {
  scratch dir;
  const auto zst = packed_by_zstd("PAR1..."), gz = packed_by_gzip(std::string("x\0", 2));
  const std::vector<std::tuple<std::string, std::string, std::string>> files{
      {"c.parquet", "text all the same", "Parquet"},
      {"c.txt", "PAR1....", "Parquet"},
      {"d.txt", gz, "gzip"},
      {"e.txt.gz", "", "gzip"},
      {"f", zst, "Zstandard"},
      {"g.txt", std::string("\xff\xfeh\0i\0", 6), "UTF-16"},
      {"g2.txt", std::string("\xff\xfe\0\0h\0\0\0", 8), "UTF-32"},
      {"h.bin", std::string("\x01\x00\x02\x00", 4), "uint16"}};
  for (const auto& [name, bytes, what] : files) {
    CAPTURE(name);
    REQUIRE(write_atomic(dir / name, bytes));
    auto named = open_source({dir / name});
    REQUIRE_FALSE(named);
    CHECK(named.error().code == errc::bad_data);
    CHECK(is_error(named, unexpected_data, what, name));
    // Beside text in a folder it is refused as well, or skipped by name.
    scratch folder;
    REQUIRE(write_atomic(folder / "text.txt", "text"));
    REQUIRE(write_atomic(folder / name, bytes));
    auto in_folder = open_source({folder.path});
    CHECK((!in_folder || in_folder->passed_over().size() == 1));
    CHECK((what == "uint16") == in_folder.has_value());
  }
  const std::vector<fs::path> parquet{dir / "c.txt"};
  CHECK_FALSE(text_source::open(parquet, {.form = text_form::text}));
  for (const char* text : {"[Illustration]\n", "{ a set }\n", "[{x}]", "{\"unended\n: no\"", ""}) {
    REQUIRE(write_atomic(dir / "t.txt", text));
    CHECK(*documents_of(*open_source({dir / "t.txt"})) == texts{text});
  }
}

TEST_CASE("TXT-1 of JSON each record is a document, whatever the file is named and packed by") {
  scratch dir;
  const std::string lines =
      "{\"text\": \"one\\r\\ntwo\", \"content\": \"c\"}\n\n{\"text\": \"\", \"content\": \"d\"}\n";
  const texts wanted{"one\ntwo", ""};
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"a.jsonl", lines},
           {"b.json", "[" + lines.substr(0, lines.find('\n')) + ",\n{\"text\": \"\"}]"},
           {"records.txt", lines},
           {"c.jsonl.gz", packed_by_gzip(lines)},
           {"d.ndjson.zst", packed_by_zstd(lines)},
           {"packed without a name", packed_by_zstd(lines)}}) {
    CAPTURE(name);
    REQUIRE(write_atomic(dir / name, bytes));
    auto source = open_source({dir / name});
    REQUIRE(source);
    for (size_t part : {size_t{3}, size_t{16}, size_t{1} << 20})
      CHECK(*documents_of(*source, part) == wanted);
  }
  const std::vector<fs::path> a{dir / "a.jsonl"};
  auto content = text_source::open(a, {.text_field = "content"});
  CHECK(*documents_of(*content) == texts{"c", "d"});
  CHECK(*content->fingerprint() != *open_source(a)->fingerprint());
  auto as_text = text_source::open(a, {.form = text_form::text});
  CHECK(*documents_of(*as_text) == texts{lines});
  CHECK(*as_text->fingerprint() != *open_source(a)->fingerprint());
  // A record without its text is named by file and line.
  REQUIRE(write_atomic(dir / "a.jsonl", lines + "{\"txt\": 1}\n"));
  const auto missing = documents_of(*open_source(a));
  CHECK(is_error(missing, no_text_field, (dir / "a.jsonl").string(), uint64_t{4}, "text"));
  // Records are looked for where they are asked for.
  REQUIRE(write_atomic(dir / "t.txt", "no record"));
  const std::vector<fs::path> t{dir / "t.txt"};
  auto forced = text_source::open(t, {.form = text_form::records});
  REQUIRE(forced);
  CHECK(is_error(documents_of(*forced), no_record));
}

TEST_CASE("DRD-1 a text is the same whatever parts it is read in") {
  scratch dir;
  for (const std::string& text :
       {std::string("\xef\xbb\xbf"
                    "a\r\nb\rc\n\r\n\r"),
        std::string("\r"), std::string(), std::string("\xef\xbb\xbf"), long_text()}) {
    for (const auto& bytes : {text, packed_by_gzip(text)}) {
      REQUIRE(write_atomic(dir / "t", bytes));
      auto source = open_source({dir / "t"});
      REQUIRE(source);
      for (size_t part : {size_t{3}, size_t{4}, size_t{5}, size_t{4096}})
        CHECK(*documents_of(*source, part) == texts{clean_text(text)});
    }
  }
}

TEST_CASE("DRD-2 a file of books beyond the limit is refused when it is opened, a text is not") {
  scratch dir;
  REQUIRE(write_atomic(dir / "t.txt", std::string(8192, 'x')));
  const std::vector<fs::path> paths{dir / "t.txt"};
  fs::resize_file(dir / "t.txt", max_document_bytes);  // sparse
  CHECK(text_source::open(paths, {.strip_gutenberg = true}));
  fs::resize_file(dir / "t.txt", max_document_bytes + 1);
  auto large = text_source::open(paths, {.strip_gutenberg = true});
  REQUIRE_FALSE(large);
  CHECK(is_error(large, text_too_long, max_document_bytes));
  CHECK(text_source::open(paths));
}

TEST_CASE("text that preparing would refuse for its length is refused before it is read") {
  scratch dir;
  const std::string fixtures = TROUPE_SOURCE_DIR "/tests/io/fixtures/";
  const auto words = *make_tokenizer(fixtures + "neox.tokenizer.json");  // cut nowhere
  const auto pieces = *make_tokenizer(fixtures + "spm.model");
  const auto checked = [&](const std::string& head, uint64_t bytes, const tokenizer& by) {
    REQUIRE(write_atomic(dir / "t.txt", head + std::string(data_probe_bytes, 'x')));
    fs::resize_file(dir / "t.txt", bytes);  // sparse
    return check_cuts(*open_source({dir / "t.txt"}), by);
  };
  const std::string russian = "\xd0\xaf\n\xd1\x82";
  CHECK(checked(russian, max_document_bytes, *words));
  CHECK(is_error(checked(russian, max_document_bytes + 1, *words), text_too_long,
                 max_document_bytes));
  CHECK(checked(russian, max_document_bytes + 1, *gpt2_tokenizer()));
  CHECK(checked("a b", max_document_bytes + 1, *mistral_tokenizer()));
  CHECK(checked("a b", max_document_bytes + 1, *pieces));
  CHECK(checked("", max_document_bytes + 1, **make_tokenizer("bytes")));
  CHECK(is_error(checked("", max_document_bytes + 1, *gpt2_tokenizer()), text_too_long,
                 max_document_bytes));
}

TEST_CASE("a text in another encoding is told before all of it is read, to who takes UTF-8 alone") {
  scratch dir;
  const auto checked = [&](const std::string& text, const tokenizer& by) {
    REQUIRE(write_atomic(dir / "t.txt", text));
    return check_first_texts(*open_source({dir / "t.txt"}), by);
  };
  const std::string latin = "Gr\xf6\xdf ";
  CHECK(is_error(checked(latin, *gpt2_tokenizer()), text_not_utf8, dir / "t.txt", size_t{2}));
  CHECK(checked(latin, **make_tokenizer("bytes")));
  CHECK(checked("", *gpt2_tokenizer()));
  std::string long_one;  // whose characters no length of a part fits
  while (long_one.size() < 100'000) long_one += "\xe2\x82\xac";
  for (const char* before : {"", "a", "aa"}) CHECK(checked(before + long_one, *gpt2_tokenizer()));
  CHECK(is_error(checked("a\xff" + long_one, *gpt2_tokenizer()), text_not_utf8, size_t{1}));
}

TEST_CASE("DFL-1 patterns and folders name files, in order") {
  scratch dir;
  for (const char* name : {"b.txt", "a.txt", "c.md", "[d].txt"})
    REQUIRE(write_atomic(dir / name, name));
  const auto all = [&](std::vector<fs::path> paths) { return *documents_of(*open_source(paths)); };
  CHECK(all({dir / "?.txt"}) == texts{"a.txt", "b.txt"});
  CHECK(all({dir / "c.*", dir / "[ab].txt"}) == texts{"c.md", "a.txt", "b.txt"});
  CHECK(all({dir / "[d].txt"}) == texts{"[d].txt"});
  CHECK(is_error(open_source({dir / "*.jsonl"}), no_file_matches, (dir / "*.jsonl").string()));
  fs::create_directories(dir / "sub");
  CHECK(is_error(open_source({dir / "s*"}), no_file_matches));
}

TEST_CASE("a folder with data to measure by beside training data is refused") {
  scratch dir;
  const std::pair<std::vector<std::string>, bool> rows[] = {
      {{"train.jsonl", "val.jsonl"}, false},
      {{"fineweb_train_000001.jsonl", "fineweb_val_000000.jsonl"}, false},
      {{"my-train-00.jsonl", "my-test-00.jsonl"}, false},
      {{"training.jsonl", "evaluation.jsonl"}, true},
      {{"a.jsonl", "test.jsonl"}, true},
      {{"trainer.jsonl", "validated.jsonl"}, true},
      {{"train-0.jsonl", "train-1.jsonl"}, true}};
  for (const auto& [names, good] : rows) {
    CAPTURE(names.front());
    scratch folder;
    for (const auto& name : names) REQUIRE(write_atomic(folder / name, "{\"text\": \"x\"}\n"));
    auto opened = open_source({folder.path});
    CHECK(bool(opened) == good);
    if (!good) CHECK(is_error(opened, several_splits, names[0], names[1]));
  }
}

TEST_CASE("TXT-1 folders are walked by name, what is no text is skipped") {
  scratch dir;
  fs::create_directories(dir / "b/inner");
  fs::create_directories(dir / ".hidden");
  REQUIRE(write_atomic(dir / "c.txt", "c"));
  REQUIRE(write_atomic(dir / "b/inner/z.md", "z"));
  REQUIRE(write_atomic(dir / "b/a", "a"));
  REQUIRE(write_atomic(dir / ".hidden/h.txt", "h"));
  REQUIRE(write_atomic(dir / "binary", std::string("x\0y", 3)));
  fs::create_directory_symlink(dir.path, dir / "loop");
  auto source = open_source({dir.path});
  REQUIRE(source);
  CHECK(*documents_of(*source) == texts{"a", "z", "c"});
  REQUIRE(source->passed_over().size() == 1);
  CHECK(source->passed_over()[0] == dir / "binary");
  CHECK(source->total_bytes() == 3);
  auto twice = open_source({dir / "c.txt", dir / "b"});
  REQUIRE(twice);
  CHECK(*documents_of(*twice) == texts{"c", "a", "z"});
  CHECK(open_source({dir / "binary"}).error().code == errc::bad_data);
  CHECK(open_source({dir / "none"}).error().code == errc::not_found);
  CHECK(open_source({dir / ".hidden/.."}).has_value());
  fs::create_directories(dir / "empty");
  CHECK(open_source({dir / "empty"}).error().code == errc::bad_data);
}

TEST_CASE(
    "TXT-1 of a folder of records plain text is skipped, and said, unless there is more of it") {
  scratch dir;
  const std::string record = "{\"text\": \"a record that is longer than what tells of it\"}\n";
  fs::create_directories(dir / "data");
  REQUIRE(write_atomic(dir / "data/a.jsonl", record));
  REQUIRE(write_atomic(dir / "README.md", "---\nlicense: mit\n"));
  REQUIRE(write_atomic(dir / "stats.csv", "a,b\n"));
  auto source = open_source({dir.path});
  REQUIRE_MESSAGE(source, (source ? "" : render(source.error())));
  CHECK(documents_of(*source)->size() == 1);
  REQUIRE(source->beside_records().size() == 2);
  CHECK(source->beside_records()[0] == dir / "README.md");
  CHECK(source->total_bytes() == record.size());
  CHECK(documents_of(*open_source({dir / "data", dir / "README.md"}))->size() == 2);  // named
  const std::vector<fs::path> all{dir.path};
  CHECK(text_source::open(all, {.form = text_form::text})->files().size() == 3);
  const auto said = text_source::open(all, {.form = text_form::records});
  REQUIRE_MESSAGE(said, (said ? "" : render(said.error())));
  CHECK(said->files().size() == 1);
  CHECK(said->beside_records().size() == 2);
  REQUIRE(write_atomic(dir / "README.md", std::string(record.size(), 'x')));
  CHECK(is_error(open_source({dir.path}), records_and_text, dir.path.string(), "data/a.jsonl",
                 "README.md"));
}

TEST_CASE("TXT-1 columns and markup are text only where that is said") {
  for (const char* name : {"t.csv", "t.TSV", "t.html", "t.htm", "t.csv.gz"}) {
    CAPTURE(name);
    scratch dir;
    const std::string bytes = "a,b\n1,2\n";
    const bool packed = std::string_view(name).ends_with(".gz");
    REQUIRE(write_atomic(dir / name, packed ? packed_by_gzip(bytes) : bytes));
    REQUIRE(write_atomic(dir / "book.txt", "text"));
    for (const auto& path : {dir / name, dir.path}) {
      const auto unsaid = open_source({path});
      CHECK(is_error(unsaid, unexpected_data, (dir / name).string(), "text or JSON"));
      CHECK(unsaid.error().hint.find("data.format") != std::string::npos);
      // In a folder it can be left out as well.
      const auto pattern = fmt::format("\"{}/*.txt\"", dir.path.string());
      CHECK((unsaid.error().hint.find(pattern) != std::string::npos) == (path == dir.path));
    }
    const std::vector<fs::path> named{dir / name};
    const auto said = text_source::open(named, {.form = text_form::text});
    REQUIRE(said);
    CHECK(*documents_of(*said) == texts{bytes});
  }
}

TEST_CASE(
    "CRP-1 the file is the same for any threads and pieces, and equals the whole text's ids") {
  scratch dir;
  auto text = long_text();
  REQUIRE(write_atomic(dir / "long.txt", text));
  REQUIRE(write_atomic(dir / "short.txt", "short"));
  REQUIRE(write_atomic(dir / "empty.txt", ""));
  auto source = open_source({dir / "long.txt", dir / "empty.txt", dir / "short.txt"});
  REQUIRE(source);
  std::vector<tokenizer_ptr> tokenizers = {gpt2_tokenizer(), mistral_tokenizer(),
                                           std::make_shared<split_hasher>(gpt2_pattern),
                                           std::make_shared<split_hasher>(llama3_pattern)};
  for (const auto& tok : tokenizers) {
    std::vector<int32_t> wanted;
    for (const auto& t : {clean_text(text), std::string(), std::string("short")}) {
      auto ids = *tok->encode(t);
      wanted.insert(wanted.end(), ids.begin(), ids.end());
      wanted.push_back(*tok->end_of_text());
    }
    for (auto [threads, piece_bytes] :
         {std::pair<unsigned, size_t>{1, 1}, {3, 1}, {2, 100}, {3, 1 << 20}}) {
      int calls = 0;
      auto count = [&](const auto&) { return ++calls > 0; };
      auto done =
          prepare_corpus(*source, *tok, dir / "t.bin",
                         {.threads = threads, .piece_bytes = piece_bytes, .progress = count});
      REQUIRE(done);
      CHECK(done->tokens == wanted.size());
      CHECK(done->documents_done == 3);
      CHECK(calls >= 1);
      CHECK(ids_of(dir / "t.bin") == wanted);
    }
  }
}

TEST_CASE("without an end-of-text id, an empty line parts documents") {
  scratch dir;
  REQUIRE(write_atomic(dir / "1", "ab"));
  REQUIRE(write_atomic(dir / "2", "c"));
  auto source = open_source({dir / "1", dir / "2"});
  auto tok = *make_tokenizer("bytes");
  REQUIRE(prepare_corpus(*source, *tok, dir / "t.bin"));
  CHECK(ids_of(dir / "t.bin") == std::vector<int32_t>{'a', 'b', '\n', '\n', 'c'});
}

TEST_CASE("CRP-2 cancelled or failed preparing leaves no file and names the document") {
  scratch dir;
  REQUIRE(write_atomic(dir / "good.txt", "good"));
  REQUIRE(write_atomic(dir / "latin1.txt", "caf\xe9"));
  auto tok = gpt2_tokenizer();
  auto source = open_source({dir / "good.txt"});
  auto cancelled = prepare_corpus(*source, *tok, dir / "t.bin",
                                  {.threads = 1, .progress = [](const auto&) { return false; }});
  REQUIRE_FALSE(cancelled);
  CHECK(cancelled.error().code == errc::cancelled);
  auto failed = prepare_corpus(*open_source({dir.path}), *tok, dir / "t.bin");
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message.find("latin1.txt") != std::string::npos);
  size_t files = 0;
  for ([[maybe_unused]] const auto& e : fs::directory_iterator(dir.path)) ++files;
  CHECK(files == 2);
}

TEST_CASE("CRP-2 who cancels waits for a piece, not for all that threads have taken") {
  scratch dir;
  std::string lines;
  for (int i = 0; i < 64; ++i) lines += "a line\n";
  REQUIRE(write_atomic(dir / "lines.txt", lines));
  auto tok = gpt2_tokenizer();
  auto source = open_source({dir / "lines.txt"});
  int asked = 0;
  corpus_options each_line{
      .threads = 1, .piece_bytes = 1, .progress = [&](const auto&) { return ++asked < 3; }};
  auto cancelled = prepare_corpus(*source, *tok, dir / "t.bin", each_line);
  REQUIRE_FALSE(cancelled);
  CHECK(cancelled.error().code == errc::cancelled);
  CHECK(asked == 3);
  each_line.progress = [&](const corpus_progress& done) {
    ++asked;
    return done.text_bytes == 0;  // by groups it would be told when a first one is written
  };
  asked = 0;
  CHECK_FALSE(prepare_corpus(*source, *tok, dir / "t.bin", each_line));
  CHECK(asked == 4);  // before three of four pieces, and when they were written
}

TEST_CASE("CRP-3 the cache is used again, until text or tokenizer change") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a.txt", "some text"));
  int made = 0;
  corpus_options counting{.threads = 1, .progress = [&](const corpus_progress& p) {
                            made += p.file_bytes_known == 0;  // not what it is only read for
                            return true;
                          }};
  auto open_cached = [&](const tokenizer& by) {
    auto path = cached_corpus(*open_source({dir / "a.txt"}), by, dir / "cache", counting);
    REQUIRE(path);
    REQUIRE(path->size() == 1);
    return path->front();
  };
  auto bytes = *make_tokenizer("bytes");
  auto first = open_cached(*bytes);
  CHECK(made == 1);
  CHECK(open_cached(*bytes) == first);
  CHECK(made == 1);
  CHECK(open_cached(*gpt2_tokenizer()) != first);
  CHECK(made == 2);
  REQUIRE(write_atomic(dir / "a.txt", "Some text"));
  CHECK(open_cached(*bytes) != first);
  CHECK(made == 3);
  fs::resize_file(first, 1026);  // a damaged file is made anew
  REQUIRE(write_atomic(dir / "a.txt", "some text"));
  CHECK(open_cached(*bytes) == first);
  CHECK(made == 4);
  CHECK(ids_of(first).size() == 9);
}

TEST_CASE("CRP-1 shards hold the same tokens, wherever a preparing was cut off") {
  scratch dir;
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += fmt::format("{{\"text\": \"line {}\\nx{}\"}}\n", i, i);
  REQUIRE(write_atomic(dir / "a.jsonl", lines));
  REQUIRE(write_atomic(dir / "b.txt", long_text()));
  auto source = open_source({dir / "a.jsonl", dir / "b.txt"});
  REQUIRE(source);
  for (const auto& tok : {gpt2_tokenizer(), *make_tokenizer("bytes")}) {
    REQUIRE(prepare_corpus(*source, *tok, dir / "whole.bin"));
    const auto wanted = ids_of(dir / "whole.bin");
    corpus_options options{.threads = 2, .piece_bytes = 100, .shard_tokens = 300, .progress = {}};
    const auto all_of = [&](const std::vector<fs::path>& files) {
      std::vector<int32_t> out;
      for (const auto& file : files) {
        const auto ids = ids_of(file);
        CHECK((ids.size() >= 300 || file == files.back()));
        out.insert(out.end(), ids.begin(), ids.end());
      }
      return out;
    };
    auto once = prepare_shards(*source, *tok, dir / tok->name() / "once", "t", options);
    REQUIRE(once);
    CHECK(once->files.size() > 4);
    CHECK(all_of(once->files) == wanted);
    // Cut off again and again: each start goes on, none begins anew.
    const auto folder = dir / tok->name() / "cut";
    options.threads = 1;  // so that it is asked before each piece
    size_t starts = 0;
    for (;; ++starts) {
      REQUIRE(starts < 1000);
      int asked = 0;
      options.progress = [&](const auto&) { return ++asked < 90; };
      auto made = prepare_shards(*source, *tok, folder, "t", options);
      if (made) {
        CHECK(made->found > 2);
        CHECK(made->done.tokens == wanted.size());
        CHECK(made->done.documents_done == 201);
        CHECK(made->done.text_bytes == once->done.text_bytes);
        CHECK(all_of(made->files) == wanted);
        break;
      }
      REQUIRE(made.error().code == errc::cancelled);
    }
    CHECK(starts > 2);
    // What is whole is not made again; a damaged shard is, and all behind it.
    int asked = 0;
    options.progress = [&](const corpus_progress& p) {
      asked += p.file_bytes_known == 0;
      return true;
    };
    auto again = prepare_shards(*source, *tok, folder, "t", options);
    REQUIRE(again);
    CHECK(asked == 0);
    CHECK(again->found == again->files.size());
    fs::resize_file(again->files[2], 1026);
    again = prepare_shards(*source, *tok, folder, "t", options);
    REQUIRE(again);
    CHECK(again->found == 2);
    CHECK(all_of(again->files) == wanted);
    // So is one that is whole, and another one's.
    fs::copy_file(again->files.back(), again->files[1], fs::copy_options::overwrite_existing);
    again = prepare_shards(*source, *tok, folder, "t", options);
    REQUIRE(again);
    CHECK(again->found == 1);
    CHECK(all_of(again->files) == wanted);
  }
}

TEST_CASE("shards: a text that is read to know it is told of meanwhile, and may be given up") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a.txt", std::string(3 << 20, 'a')));
  auto tok = *make_tokenizer("bytes");
  const auto source = open_source({dir / "a.txt"});
  std::vector<uint64_t> known;
  corpus_options options{.threads = 1, .progress = [&](const corpus_progress& p) {
                           known.push_back(p.file_bytes_known);
                           return known.size() < 2;
                         }};
  const auto cut = prepare_shards(*source, *tok, dir / "out", "t", options);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code == errc::cancelled);
  CHECK(known == std::vector<uint64_t>{1 << 20, 2 << 20});
}

TEST_CASE("SHD-3 shards of something else are never replaced") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a.txt", "some text"));
  REQUIRE(write_atomic(dir / "b.txt", "other text"));
  auto tok = *make_tokenizer("bytes");
  const auto into = [&](const char* text, const char* folder) {
    return prepare_shards(*open_source({dir / text}), *tok, dir / folder, "tokens");
  };
  REQUIRE(into("a.txt", "out"));
  CHECK(is_error(into("b.txt", "out"), other_shards));
  CHECK(into("a.txt", "out")->found == 1);
  fs::create_directories(dir / "bare");
  REQUIRE(write_atomic(dir / "bare/tokens-00000.bin", "mine"));
  CHECK(is_error(into("a.txt", "bare"), other_shards));
  CHECK(*read_file(dir / "bare/tokens-00000.bin", 10) == "mine");
  // Nor where the note cannot be read; what it says of other types is not believed.
  for (const char* note : {"[]", "{\"made_of\": 5}", "not json"}) {
    CAPTURE(note);
    REQUIRE(write_atomic(dir / "out/.tokens.json", note));
    CHECK(is_error(into("b.txt", "out"), other_shards));
  }
  CHECK(ids_of(dir / "out/tokens-00000.bin").size() == 9);
}

TEST_CASE("shards: what is left of others is told, and what is not whole is not trained on") {
  scratch dir;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"text\": \"some text\"}\n";
  REQUIRE(write_atomic(dir / "a.jsonl", lines));
  auto tok = *make_tokenizer("bytes");
  auto source = open_source({dir / "a.jsonl"});
  corpus_options options{.threads = 1, .shard_tokens = 50, .progress = {}};
  REQUIRE(prepare_shards(*source, *tok, dir / "out", "t", options));
  const std::vector<fs::path> folder{dir / "out"};
  CHECK(token_files::open(folder));
  fs::remove(dir / "out/t-00001.bin");
  options.shard_tokens = 100'000;
  CHECK(is_error(prepare_shards(*source, *tok, dir / "out", "t", options), other_shards));
  int asked = 0;
  options.shard_tokens = 50;
  options.piece_bytes = 9;  // a record, so that it writes every few of them
  options.progress = [&](const auto&) { return ++asked < 20; };
  CHECK_FALSE(prepare_shards(*source, *tok, dir / "cut", "t", options));
  const std::vector<fs::path> cut{dir / "cut"};
  CHECK(is_error(token_files::open(cut), shards_incomplete));
}

TEST_CASE("records without text are held no longer than others, and told of as often") {
  scratch dir;
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "{\"text\": \"\"}\n";
  REQUIRE(write_atomic(dir / "a.jsonl", lines));
  auto tok = gpt2_tokenizer();
  uint64_t most = 0, before = 0;
  const auto done = prepare_corpus(*open_source({dir / "a.jsonl"}), *tok, dir / "t.bin",
                                   {.threads = 1, .progress = [&](const corpus_progress& p) {
                                      most = std::max(most, p.documents_done - before);
                                      before = p.documents_done;
                                      return true;
                                    }});
  REQUIRE(done);
  CHECK(done->documents_done == 100'000);
  CHECK(most < 10'000);
}

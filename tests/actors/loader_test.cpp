// The loader on small files of tokens and texts: how it opens them, which tokens each batch holds,
// and when a slot may be filled anew.
#include "actors/train/loader.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/train/inputs.hpp"
#include "io/data/token_file.hpp"
#include "tests/actors/open_loader.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::train;
using troupe::train::test::batch_rows;
using troupe::train::test::beginning_with;
using troupe::train::test::loader_epoch;
using troupe::train::test::open_loader;
using troupe::train::test::row_tokens;
using troupe::train::test::tokens_of_batch;
using troupe::train::test::train_split;
using troupe::train::test::validation_split;
using troupe::train::test::write_tokens;

// -- opening --------------------------------------------------------------------------------------

TEST_CASE("loader: opened it says how much there is and where batches will lie") {
  open_loader f;
  CHECK(f.status().actor == "loader/a");
  CHECK(f.status().state == "closed");
  f.open();
  CHECK(f.ready.epoch() == loader_epoch);
  CHECK(f.ready->tokens() == 101);
  CHECK(f.ready->train_windows() == 25);
  CHECK(f.ready->validation_windows() == 0);
  CHECK(f.ready->slot_bytes() == 2 * batch_rows * row_tokens * sizeof(int32_t));
  CHECK(f.ready->slots() == train_slots + validation_slots);
  CHECK(f.ready->rows() == batch_rows);
  CHECK(f.ready.unpack().data_ranks == std::vector<uint32_t>{0});
  f.fetch(0, 1);
  const auto s = f.status();
  CHECK(s.state == "open");
  CHECK(s.values->loader->filled == 4);
  CHECK(s.values->loader->floor == 0);
}

TEST_CASE("loader: nothing is handed out before it is open") {
  open_loader f;
  CHECK(f.refused(0, 1) == loader_not_open());
  auto bad = f.order();
  bad.vocab = 1;
  CHECK_FALSE(f.try_open(bad));
  CHECK(f.refused(0, 1) == loader_not_open());
}

TEST_CASE("loader: what was said in an epoch that has ended is refused") {
  open_loader f;
  const auto old = f.try_open(f.order(), loader_epoch - 1);
  REQUIRE_FALSE(old);
  CHECK(old.error().code == errc::version_mismatch);
  f.open();
  CHECK(f.refused(0, 1, train_split, loader_epoch - 1).code == errc::version_mismatch);
  CHECK(f.fetch(0, 1) == beginning_with({0, 4}));  // as if it had not been asked
}

TEST_CASE("loader: what cannot be opened is refused with its reason") {
  open_loader f;
  const auto why_not_open = [&](const fbs::OpenLoaderT& o) {
    const auto answer = f.try_open(o);
    REQUIRE_FALSE(answer);
    CHECK(f.status().state == "closed");
    return answer.error();
  };
  auto o = f.order();
  o.config_toml = "[train]\nbatches = 2\n";
  const auto key = why_not_open(o);
  CHECK(key.code == errc::bad_config);
  CHECK(mentions(key, "train.batches"));
  o.config_toml.clear();
  CHECK(why_not_open(o).code == errc::bad_config);
  for (const auto& consumers : {std::vector<uint32_t>{}, {0, 2}}) {
    o = f.order();
    o.consumers = consumers;
    CHECK(why_not_open(o).code == errc::bad_data);  // a job of two ranks
  }
  const auto gone = (f.folder / "none.bin").string();
  const auto missing = why_not_open(f.order("path = \"" + gone + "\"\n"));
  CHECK(is_error(missing, "ENOENT", gone));
  const auto held_out = why_not_open(f.order("validation_path = \"" + gone + "\"\n"));
  CHECK(held_out.code == errc::not_found);
  write_tokens(f.folder / "few.bin", row_tokens);
  const auto few = why_not_open(f.order("path = \"" + (f.folder / "few.bin").string() + "\"\n"));
  CHECK(is_error(few, io::too_few_tokens, 4));
}

TEST_CASE("LDR-3: loader: tokens that the model does not know are refused, in either file") {
  open_loader f;
  auto o = f.order();
  o.vocab = 101;
  CHECK(f.try_open(o));
  o.vocab = 100;
  const auto training = f.try_open(o);
  REQUIRE_FALSE(training);
  CHECK(training.error().code == errc::bad_data);
  write_tokens(f.folder / "held.bin", 50, 200);
  o = f.order("validation_path = \"" + (f.folder / "held.bin").string() + "\"\n");
  o.vocab = 249;
  const auto validation = f.try_open(o);
  REQUIRE_FALSE(validation);
  CHECK(validation.error().code == errc::bad_data);
  o.vocab = 250;
  CHECK(f.try_open(o));
}

TEST_CASE("LDR-5: loader: an opening that fails leaves the one before it as it was") {
  open_loader f;
  f.open();
  CHECK(f.fetch(0, 1) == beginning_with({0, 4}));
  auto worse = f.order();
  worse.config_toml = f.config("", 64);
  worse.vocab = 1;
  CHECK_FALSE(f.try_open(worse));
  CHECK(f.fetch(1, 1) == beginning_with({0, 4}));
  const auto next = f.fetch_all(2, 5);
  CHECK(next[0] == beginning_with({8, 12}));
  CHECK(next[3] == beginning_with({32, 36}));  // laid out since
}

TEST_CASE("LDR-5: loader: opened once more it begins anew, with its new consumers alone") {
  open_loader f;
  f.open();
  for (uint64_t batch = 1; batch <= 4; ++batch) f.fetch(0, batch);
  const auto waiting = f.ask(0, 5);
  CHECK(f.waits(0, waiting));
  auto o = f.order();
  o.consumers = {0};
  f.open(o);
  CHECK(f.answer_to(0, waiting).error().code == errc::cancelled);
  CHECK(f.refused(1, 1).code == errc::not_found);
  for (uint64_t batch = 1; batch <= 6; ++batch) {
    const auto first = static_cast<int32_t>(8 * (batch - 1));
    CHECK(f.fetch(0, batch) == beginning_with({first, first + row_tokens}));
  }
}

TEST_CASE(
    "LDR-7: loader: asked again for what is open it answers as before, until a batch is asked "
    "for") {
  open_loader f;
  auto o = f.order();
  f.open(o);
  const auto where = f.ready->shared_memory()->str();
  o.tells_progress = true;
  f.open(o);
  CHECK(f.ready->shared_memory()->str() == where);
  CHECK(f.ready->train_windows() > 0);
  CHECK(f.notices().empty());  // nothing was read again
  auto other = f.order();
  other.first_step = 2;
  other.first_row = 2;
  f.open(other);
  CHECK(f.ready->shared_memory()->str() != where);
  CHECK(f.fetch(0, 2) == beginning_with({8, 12}));
  const auto behind = f.ready->shared_memory()->str();
  f.open(other);
  CHECK(f.ready->shared_memory()->str() != behind);  // LDR-5
  CHECK(f.fetch(0, 2) == beginning_with({8, 12}));
}

TEST_CASE("loader: how the data begins is told to who opens it, by one loader") {
  open_loader f;
  auto o = f.order();
  f.open(o);
  CHECK(f.notices().empty());
  write_tokens(f.folder / "held.bin", 50, 200);
  o = f.order("validation_path = \"" + (f.folder / "held.bin").string() + "\"\n");
  o.tells_progress = true;
  f.open(o);
  const auto told = f.notices();
  REQUIRE(told.size() == 2);
  CHECK(told[0].find("data: begins with tokens 0 1 2 3 ") == 0);
  CHECK(told[1].find("validation data: begins with tokens 200 201 202 ") == 0);
}

// -- text -----------------------------------------------------------------------------------------

TEST_CASE("loader: text is tokenised into the cache, and read from there") {
  open_loader f;
  std::ofstream(f.folder / "words.txt") << "the quick brown fox";
  auto o = f.order("path = \"" + (f.folder / "words.txt").string() +
                   "\"\nformat = \"text\"\ntokenizer = \"bytes\"\n");
  o.tells_progress = true;
  f.open(o);
  const auto told = f.notices();
  REQUIRE_FALSE(told.empty());
  CHECK(told.back() == "data: begins with \"the quick brown fox\"");
  CHECK(f.fetch(0, 1) == tokens_of_batch{'t', 'h', 'e', ' ', 'q', 'u', 'i', 'c',  //
                                         'h', 'e', ' ', 'q', 'u', 'i', 'c', 'k'});
  CHECK_FALSE(std::filesystem::is_empty(f.folder / "cache"));
}

TEST_CASE("loader: how far it has come is told as what takes the place of the word before") {
  open_loader f;
  std::string text;
  while (text.size() < 10'000'000) text += "the quick brown fox\n";
  std::ofstream(f.folder / "words.txt") << text;
  auto o = f.order("path = \"" + (f.folder / "words.txt").string() +
                   "\"\nformat = \"text\"\ntokenizer = \"bytes\"\n");
  o.tells_progress = true;
  f.open(o);
  const auto told = f.run.take_all<fbs::Notice>();
  REQUIRE(told.size() >= 2);
  for (const auto& n : told)
    CHECK(n->progress() == n->text()->string_view().starts_with("tokenising: "));
  CHECK(told.front()->progress());
  CHECK_FALSE(told.back()->progress());
}

TEST_CASE("loader: how a text begins is told in whole characters") {
  open_loader f;
  std::ofstream(f.folder / "words.txt") << "a\u0431\u0432\u0433\u0434\u0435\u0436\u0437\u0438"
                                           "\u0439\u043a\u043b\u043c\u043d";
  auto o = f.order("path = \"" + (f.folder / "words.txt").string() +
                   "\"\nformat = \"text\"\ntokenizer = \"bytes\"\n");
  o.tells_progress = true;
  f.open(o);
  const auto told = f.notices();
  REQUIRE_FALSE(told.empty());
  // 24 tokens are bytes: the last of them is the first half of a letter.
  CHECK(
      told.back() ==
      "data: begins with \"a\u0431\u0432\u0433\u0434\u0435\u0436\u0437\u0438\u0439\u043a\u043b\"");
}

TEST_CASE("loader: whom nobody needs any more stops tokenising") {
  open_loader f;
  std::ofstream(f.folder / "words.txt") << "the quick brown fox";
  const auto text = f.order("path = \"" + (f.folder / "words.txt").string() +
                            "\"\nformat = \"text\"\ntokenizer = \"bytes\"\n");
  f.over.request_stop();
  for (const bool tells : {false, true}) {
    CAPTURE(tells);
    auto o = text;
    o.tells_progress = tells;
    const auto answer = f.try_open(o);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == errc::cancelled);
  }
  CHECK(f.refused(0, 1) == loader_not_open());
}

// -- batches --------------------------------------------------------------------------------------

TEST_CASE("LDR-1: loader: batches go through the data in order, and on where an epoch ends") {
  open_loader f;
  f.open();
  const auto batches = f.fetch_all(1, 13);
  for (int32_t i = 0; i < 12; ++i)
    CHECK(batches[static_cast<size_t>(i)] == beginning_with({8 * i, 8 * i + 4}));
  CHECK(batches[12] == beginning_with({96, 0}));  // of 25 windows the last, then the first again
}

TEST_CASE("LDR-1: loader: whoever opens it for whatever step finds the same batches") {
  const auto batches = [](uint64_t first_step, std::vector<uint32_t> consumers) {
    open_loader f;
    auto o = f.order("shuffle = true\n");
    o.first_step = first_step;
    o.first_row = (first_step - 1) * batch_rows;
    o.consumers = std::move(consumers);
    f.open(o);
    std::vector<tokens_of_batch> out;
    for (uint64_t batch = first_step; batch <= 20; ++batch) {
      out.push_back(f.fetch(o.consumers[0], batch));
      for (size_t i = 1; i < o.consumers.size(); ++i) f.fetch(o.consumers[i], batch);
    }
    return out;
  };
  const auto all = batches(1, {0, 1});
  REQUIRE(all.size() == 20);
  CHECK(all == batches(1, {0, 1}));
  CHECK(all[0] != beginning_with({0, 4}));  // it is shuffled
  for (const uint64_t first : {2, 7, 14})
    CHECK(batches(first, {1}) ==
          std::vector(all.begin() + static_cast<std::ptrdiff_t>(first) - 1, all.end()));
}

TEST_CASE("LDR-1: loader: of each batch it lays out the rows that its ranks read") {
  const auto first_two = [](std::vector<uint32_t> consumers) {
    open_loader f;
    f.parallel = "data = 2";
    auto o = f.order("validation_fraction = 0.2\n");
    o.consumers = consumers;
    f.open(o);
    CHECK(f.ready->rows() == consumers.size());
    CHECK(f.ready.unpack().data_ranks == consumers);
    return std::array{f.fetch(1, 1), f.fetch(1, 2), f.fetch(1, 1, validation_split)};
  };
  CHECK(first_two({1}) ==
        std::array{beginning_with({4}), beginning_with({12}), beginning_with({81})});
  CHECK(first_two({0, 1}) ==
        std::array{beginning_with({0, 4}), beginning_with({8, 12}), beginning_with({77, 81})});
}

TEST_CASE("LDR-1: loader: a run that had other batches before goes on at its own row") {
  open_loader f;
  auto o = f.order();
  o.first_step = 3;
  o.first_row = 7;
  f.open(o);
  CHECK(f.fetch(0, 3) == beginning_with({28, 32}));
  CHECK(f.fetch(0, 4) == beginning_with({36, 40}));
}

TEST_CASE("loader: a batch before the first one of a run is nowhere") {
  open_loader f;
  auto o = f.order();
  o.first_step = 5;
  o.first_row = 8;
  f.open(o);
  CHECK(f.refused(0, 4) == batch_out_of_order(0, 4, 4));
  CHECK(f.fetch(0, 5) == beginning_with({32, 36}));
}

TEST_CASE("LDR-2: loader: a slot is filled anew once every consumer has asked for a later batch") {
  open_loader f;
  f.open();
  for (uint64_t batch = 1; batch <= 4; ++batch) f.fetch(0, batch);
  const auto fifth = f.ask(0, 5);
  CHECK(f.waits(0, fifth));
  CHECK(f.in_slot(1) == beginning_with({0, 4}));  // batch 1: consumer 1 has not asked for it
  CHECK(f.fetch(1, 1) == beginning_with({0, 4}));
  CHECK(f.waits(0, fifth));
  CHECK(f.in_slot(1) == beginning_with({0, 4}));  // and may still read it
  CHECK(f.fetch(1, 2) == beginning_with({8, 12}));
  CHECK(f.in_slot(1) == beginning_with({32, 36}));
  const auto answer = f.answer_to(0, fifth);  // LDR-4
  REQUIRE(answer);
  CHECK((*answer)->step() == 5);
  CHECK((*answer)->slot() == 1);
  for (const int32_t batch : {2, 3, 4})
    CHECK(f.in_slot(batch % train_slots) == beginning_with({8 * batch - 8, 8 * batch - 4}));
  CHECK(f.status().values->loader->filled == 5);
  CHECK(f.status().values->loader->floor == 1);
}

TEST_CASE("LDR-2: loader: the slots of a run that goes on are filled by the same rule") {
  open_loader f;
  auto o = f.order();
  o.first_step = 3;
  o.first_row = 4;
  f.open(o);
  for (uint64_t batch = 3; batch <= 5; ++batch) f.fetch(0, batch);
  f.fetch(1, 3);
  f.fetch(0, 6);
  CHECK(f.waits(0, f.ask(0, 7)));
}

TEST_CASE("LDR-4: loader: a consumer asks for one batch at a time, in order") {
  open_loader f;
  f.open();
  CHECK(f.refused(0, 0).code == errc::bug);
  CHECK(f.refused(0, 2) == batch_out_of_order(0, 2, 0));
  CHECK(f.fetch(0, 1) == beginning_with({0, 4}));
  CHECK(f.fetch(0, 1) == beginning_with({0, 4}));  // once more is no fault
  CHECK(f.refused(0, 3) == batch_out_of_order(0, 3, 1));
  f.fetch(0, 2);
  CHECK(f.refused(0, 1) == batch_out_of_order(0, 1, 2));
  f.fetch(0, 3);
  f.fetch(0, 4);
  const auto fifth = f.ask(0, 5);
  CHECK(f.refused(0, 6) == waits_for_another(0, 6, 5));
  const auto once_more = f.ask(0, 5);
  CHECK(f.waits(0, fifth));
  CHECK(f.waits(0, once_more));
  f.fetch(1, 1);
  f.fetch(1, 2);
  CHECK(f.answer_to(0, fifth));
  CHECK(f.answer_to(0, once_more));
  CHECK(f.fetch(0, 5) == beginning_with({32, 36}));
}

TEST_CASE("loader: who is no consumer of it gets nothing, and holds nothing up") {
  open_loader f;
  auto o = f.order();
  o.consumers = {1};
  f.open(o);
  CHECK(f.refused(0, 1) == no_consumer(0));
  CHECK(f.refused(0, 1, validation_split).code == errc::not_found);
  for (uint64_t batch = 1; batch <= 9; ++batch) f.fetch(1, batch);
}

// -- several sources ------------------------------------------------------------------------------

TEST_CASE("SRM-4: loader: one source is the same data as that path, trained on and held out") {
  for (const char* more : {"shuffle = true\nvalidation_fraction = 0.2\n", "shuffle = false\n"}) {
    open_loader one, other;
    const auto o = one.order(more);
    auto p = other.order(more);
    const std::string path = fmt::format("path = \"{}\"\n", other.data.string());
    const auto at = p.config_toml.find(path);
    REQUIRE(at != std::string::npos);
    p.config_toml.erase(at, path.size());
    p.config_toml += "[[data.source]]\nweight = 7\n" + path;
    one.open(o);
    other.open(p);
    CHECK(other.ready->tokens() == one.ready->tokens());
    CHECK(other.ready->train_windows() == one.ready->train_windows());
    CHECK(other.ready->validation_windows() == one.ready->validation_windows());
    CHECK(other.fetch_all(1, 30) == one.fetch_all(1, 30));
    if (one.ready->validation_windows() > 0)
      CHECK(other.fetch_all(1, 4, validation_split) == one.fetch_all(1, 4, validation_split));
  }
}

TEST_CASE("LDR-1: loader: sources are mixed by weight, and go on where a run left them") {
  open_loader f;
  write_tokens(f.folder / "code.bin", 21, 500);
  const auto mix = [&](const std::string& more) {
    return fmt::format(
        "path = []\n{}[[data.source]]\npath = \"{}\"\nweight = 3\nname = \"web\"\n"
        "[[data.source]]\npath = \"{}\"\n",
        more, f.data.string(), (f.folder / "code.bin").string());
  };
  auto o = f.order(mix("shuffle = false\n"));
  o.tells_progress = true;
  f.open(o);
  CHECK(f.ready->tokens() == 101 + 21);
  CHECK(f.ready->train_windows() == 25 + 5);
  const auto all = f.fetch_all(1, 14);
  CHECK(all[0] == beginning_with({0, 4}));
  CHECK(all[1] == beginning_with({8, 500}));
  CHECK(all[2] == beginning_with({12, 16}));
  CHECK(all[3] == beginning_with({20, 504}));
  CHECK(all[11] == beginning_with({68, 500}));  // code has begun anew, web has not
  const auto told = f.notices();
  REQUIRE(told.size() == 4);
  CHECK(told[0].starts_with("data (web): begins with tokens 0 1 2 "));
  CHECK(told[1].starts_with("data (" + (f.folder / "code.bin").string() + "): begins with tokens"));
  CHECK(told[2] ==
        "data (web): 75 % of the windows, 101 tokens in 25 training windows, 0 held out; 0.24 "
        "passes over 4 steps");
  CHECK(
      told[3].ends_with("25 % of the windows, 21 tokens in 5 training windows, 0 held out; 0.40 "
                        "passes over 4 steps"));
  for (uint64_t batches = 1; batches < 8; ++batches) {  // resumed, with the rows of those before
    auto later = f.order(mix("shuffle = false\n"));
    later.first_step = batches + 1;
    later.first_row = batches * batch_rows;
    f.open(later);
    CHECK(f.fetch_all(batches + 1, batches + 3) ==
          std::vector(all.begin() + static_cast<ptrdiff_t>(batches),
                      all.begin() + static_cast<ptrdiff_t>(batches) + 3));
  }
}

TEST_CASE("LDR-6: loader: it tells where the documents of each row begin and end") {
  open_loader f;
  f.data = f.folder / "documents.bin";
  auto writer = io::token_file_writer::create(f.data, 60'000);
  REQUIRE(writer);
  // Rows:                               in one     | a border | at both ends | all
  const std::vector<int32_t> ids{1, 2, 3, 4, 5, 9, 6, 7, 9, 8, 8, 9, 9, 9, 9, 9, 1};
  REQUIRE(writer->append(ids));
  REQUIRE(writer->finish());
  auto o = f.order("reset_attention = true\ndocument_end = 9\n");
  o.tells_progress = true;
  f.open(o);
  for (const uint32_t rank : {0, 1}) {  // whoever asks
    CHECK(f.documents_of(rank, 1) ==
          tokens_of_batch{0, 0, 0, 0, 0, 0, 2, 2, 4, 4, 4, 4, 2, 2, 4, 4});
    CHECK(f.documents_of(rank, 2) ==
          tokens_of_batch{0, 1, 1, 1, 0, 1, 2, 3, 1, 4, 4, 4, 1, 2, 3, 4});
  }
  const auto told = f.notices();
  REQUIRE(told.size() == 2);
  CHECK(told[1] == "data: attention is reset behind token 9, which is one of 2 of all 17");
  f.open(f.order("reset_attention = false\ndocument_end = 9\n"));
  CHECK(f.ready->slot_bytes() == batch_memory::slot_bytes_of({batch_rows, row_tokens}));
}

TEST_CASE("loader: attention cannot be reset where nothing says what ends a document") {
  open_loader f;
  const auto refusal = [&](const std::string& keys) {
    const auto answer = f.try_open(f.order(keys + "reset_attention = true\n"));
    REQUIRE_FALSE(answer);
    return answer.error();
  };
  CHECK(refusal("") == document_end_unknown("a file of tokens"));
  CHECK(refusal("document_end = 1000\n") == document_end_beyond(1000, 1000));
  std::ofstream(f.folder / "text.txt") << "Once upon a time.";
  CHECK(refusal(fmt::format("path = \"{}\"\n", (f.folder / "text.txt").string())) ==
        document_end_unknown("\"bytes\""));
  auto o = f.order("reset_attention = true\ndocument_end = 999\n");
  o.tells_progress = true;
  f.open(o);
  CHECK(f.notices().back().starts_with(
      "data: warning: none of all 101 tokens is 999, which ends a document"));
}

TEST_CASE("loader: of each source a share is held out, and mixed by weight") {
  open_loader f;
  write_tokens(f.folder / "code.bin", 50, 500);
  f.open(
      fmt::format("path = []\nvalidation_fraction = 0.2\n[[data.source]]\npath = \"{}\"\n"
                  "[[data.source]]\npath = \"{}\"\n",
                  f.data.string(), (f.folder / "code.bin").string()));
  CHECK(f.ready->train_windows() == 19 + 10);
  CHECK(f.ready->validation_windows() == 5 + 2);
  const auto held_out = f.fetch_all(1, 3, validation_split);
  CHECK(held_out[0] == beginning_with({77, 541}));
  CHECK(held_out[1] == beginning_with({81, 545}));
  CHECK(held_out[2] == beginning_with({85, 541}));  // code holds two windows out
}

TEST_CASE("loader: a source too small for a window is named") {
  open_loader f;
  write_tokens(f.folder / "code.bin", 4, 500);
  const auto answer = f.try_open(
      f.order(fmt::format("path = []\n[[data.source]]\npath = \"{}\"\n[[data.source]]\nname = "
                          "\"code\"\npath = \"{}\"\n",
                          f.data.string(), (f.folder / "code.bin").string())));
  REQUIRE_FALSE(answer);
  CHECK(is_error(answer.error(), io::too_few_tokens, 4, "code"));
}

// -- validation -----------------------------------------------------------------------------------

TEST_CASE("loader: a part held out is not trained on, and starts over with each validation") {
  open_loader f;
  f.open("validation_fraction = 0.2\n");
  CHECK(f.ready->validation_windows() == 5);
  CHECK(f.ready->train_windows() == 19);
  const auto training = f.fetch_all(1, 10);
  CHECK(training[9] == beginning_with({72, 0}));  // it ends at token 76
  for (int round = 0; round < 3; ++round) {
    const auto held_out = f.fetch_all(1, 3, validation_split);
    CHECK(held_out[0] == beginning_with({77, 81}));
    CHECK(held_out[1] == beginning_with({85, 89}));
    CHECK(held_out[2] == beginning_with({93, 77}));
  }
  f.fetch_all(11, 12);  // training was not disturbed
}

TEST_CASE("LDR-2: loader: validation has slots of its own, filled anew by the same rule") {
  open_loader f;
  f.open("validation_fraction = 0.2\n");
  const auto of_training = [&] {
    std::vector<tokens_of_batch> out;
    for (int64_t slot = 0; slot < train_slots; ++slot) out.push_back(f.in_slot(slot));
    return out;
  };
  const auto before = of_training();
  f.fetch(0, 1, validation_split);
  f.fetch(0, 2, validation_split);
  const auto third = f.ask(0, 3, validation_split);
  CHECK(f.waits(0, third));
  CHECK(f.fetch(1, 1, validation_split) == beginning_with({77, 81}));
  CHECK(f.waits(0, third));
  f.fetch(1, 2, validation_split);
  CHECK(f.answer_to(0, third));
  CHECK(f.fetch(1, 2, validation_split) == beginning_with({85, 89}));
  CHECK(of_training() == before);
}

TEST_CASE("loader: a file of its own is validated on in order, whatever is shuffled") {
  open_loader f;
  write_tokens(f.folder / "held.bin", 50, 200);
  f.open("shuffle = true\nvalidation_path = \"" + (f.folder / "held.bin").string() + "\"\n");
  CHECK(f.ready->tokens() == 101);
  CHECK(f.ready->train_windows() == 25);
  CHECK(f.ready->validation_windows() == 12);
  for (int round = 0; round < 2; ++round) {
    const auto held_out = f.fetch_all(1, 2, validation_split);
    CHECK(held_out[0] == beginning_with({200, 204}));
    CHECK(held_out[1] == beginning_with({208, 212}));
  }
}

TEST_CASE("loader: where nothing is held out there is no validation") {
  open_loader f;
  f.open();
  CHECK(f.refused(0, 1, validation_split) == nothing_held_out());
  CHECK(f.refused(0, 1, static_cast<fbs::Split>(2)).code == errc::bug);
  f.fetch(0, 1);
}

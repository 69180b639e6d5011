// A loader on small files of tokens and texts, with a scripted run and stages that ask it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/train/loader.hpp"
#include "io/data/token_file.hpp"
#include "tests/actors/actor_fixture.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::train::test {

using troupe::test::actor_fixture;
using troupe::test::partner;

inline constexpr uint32_t loader_epoch = 9;
inline constexpr int32_t batch_rows = 2, row_tokens = 4;
inline constexpr auto train_split = fbs::Split::train, validation_split = fbs::Split::validation;

using tokens_of_batch = std::vector<int32_t>;

/// Token i of a file is i + begin: what a batch holds says where it was read.
inline std::filesystem::path write_tokens(const std::filesystem::path& path, int32_t count,
                                          int32_t begin = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), begin);
  auto writer = io::token_file_writer::create(path, 60'000);
  REQUIRE(writer);
  REQUIRE(writer->append(ids));
  REQUIRE(writer->finish());
  return path;
}

/// Tokens, then targets, of a batch whose rows begin with these tokens.
inline tokens_of_batch beginning_with(const std::vector<int32_t>& row_begins) {
  tokens_of_batch out;
  for (const int32_t shift : {0, 1})
    for (const auto first : row_begins)
      for (int32_t i = 0; i < row_tokens; ++i) out.push_back(first + shift + i);
  return out;
}

struct open_loader : actor_fixture {
  scratch folder;
  partner run = make_partner("run");
  std::vector<partner> stages{make_partner("stage/0"), make_partner("stage/1")};
  std::stop_source over;
  std::filesystem::path data = write_tokens(folder / "data.bin", 101);
  std::string parallel = "pipeline = 2";
  loader_actor target;
  msg<fbs::LoaderReady> ready;
  std::optional<batch_memory> memory;

  open_loader() : actor_fixture(loader_epoch) {
    target = spawn(loader, spawn_record{loader_epoch, 0, "a"}, over.get_token());
  }

  std::string config(const std::string& more_data = "", int64_t batch = batch_rows) const {
    return fmt::format(
        "[job]\noutput = \"{0}\"\nseed = 11\n[model]\nlayers = 2\nheads = 1\nhidden = 8\nvocab = "
        "1000\n[train]\nsteps = 4\nbatch = {1}\nseq_len = {2}\n[cluster]\nworkers_per_node = "
        "2\n[parallel]\n{6}\n[data]\n{3}{4}{5}",
        folder.path.string(), batch, row_tokens,
        more_data.find("path = ") == 0 ? "" : fmt::format("path = \"{}\"\n", data.string()),
        more_data.find("shuffle") == std::string::npos ? "shuffle = false\n" : "", more_data,
        parallel);
  }
  fbs::OpenLoaderT order(const std::string& more_data = "") const {
    fbs::OpenLoaderT o;
    o.config_toml = config(more_data);
    o.vocab = 1000;
    o.consumers = {0, 1};
    o.first_step = 1;
    return o;
  }
  result<msg<fbs::LoaderReady>> try_open(const fbs::OpenLoaderT& o, uint32_t epoch = loader_epoch) {
    const auto number = run.ask(target, make_msg<fbs::OpenLoader>(context_of(epoch), o));
    return run.answer_of<fbs::LoaderReady>(number);
  }
  void open(const fbs::OpenLoaderT& o) {
    auto answer = try_open(o);
    REQUIRE_MESSAGE(answer, (answer ? "" : render(answer.error())));
    ready = *answer;
    const uint64_t plain = batch_memory::slot_bytes_of({ready->rows(), row_tokens});
    auto mapped = batch_memory::open(ready->shared_memory()->str(), ready->slot_bytes(),
                                     ready->slots(), ready->slot_bytes() != plain);
    REQUIRE(mapped);
    memory.emplace(std::move(*mapped));
  }
  void open(const std::string& more_data = "") { open(order(more_data)); }

  uint64_t ask(uint32_t rank, uint64_t batch, fbs::Split split = train_split,
               uint32_t epoch = loader_epoch) {
    return stages[rank % 2].ask(target,
                                make_msg<fbs::BatchRequest>(context_of(epoch), [&](auto& b) {
                                  b.step = batch;
                                  b.split = split;
                                  b.consumer = rank;
                                }));
  }
  result<msg<fbs::BatchReady>> answer_to(uint32_t rank, uint64_t request) const {
    return stages[rank % 2].answer_of<fbs::BatchReady>(request);
  }
  bool waits(uint32_t rank, uint64_t request) const {
    const auto answer = answer_to(rank, request);
    return !answer && answer.error().code == errc::timeout;
  }
  error refused(uint32_t rank, uint64_t batch, fbs::Split split = train_split,
                uint32_t epoch = loader_epoch) {
    const auto answer = answer_to(rank, ask(rank, batch, split, epoch));
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code != errc::timeout);
    return answer.error();
  }
  /// Where the documents of a batch begin and end: the first token of each, then its end.
  tokens_of_batch documents_of(uint32_t rank, uint64_t batch) {
    const auto answer = answer_to(rank, ask(rank, batch));
    REQUIRE(answer);
    const auto documents = memory->view((*answer)->slot()).documents;
    REQUIRE(documents.first != nullptr);
    const auto tokens = ready->rows() * row_tokens;
    tokens_of_batch out(documents.first, documents.first + tokens);
    out.insert(out.end(), documents.end, documents.end + tokens);
    return out;
  }
  tokens_of_batch in_slot(int64_t slot) const {
    const auto* first = memory->view(slot).tokens;
    return {first, first + 2 * ready->rows() * row_tokens};
  }
  /// The batch that is answered at once.
  tokens_of_batch fetch(uint32_t rank, uint64_t batch, fbs::Split split = train_split) {
    const auto answer = answer_to(rank, ask(rank, batch, split));
    REQUIRE_MESSAGE(answer, (answer ? "" : render(answer.error())));
    CHECK((*answer)->step() == batch);
    CHECK(((*answer)->slot() < train_slots) == (split == train_split));
    return in_slot((*answer)->slot());
  }
  /// Both consumers go through these batches, one behind the other.
  std::vector<tokens_of_batch> fetch_all(uint64_t first, uint64_t last,
                                         fbs::Split split = train_split) {
    std::vector<tokens_of_batch> out;
    for (auto batch = first; batch <= last; ++batch) {
      out.push_back(fetch(0, batch, split));
      CHECK(fetch(1, batch, split) == out.back());
    }
    return out;
  }
  std::vector<std::string> notices() {
    std::vector<std::string> out;
    for (const auto& n : run.take_all<fbs::Notice>()) out.push_back(n->text()->str());
    return out;
  }
  fbs::StatusT status() {
    const auto number = run.ask(target, make_msg<fbs::StatusRequest>());
    const auto answer = run.answer_of<fbs::Status>(number);
    REQUIRE(answer);
    return answer->unpack();
  }
};

}  // namespace troupe::train::test

// The commit of a checkpoint: everything or nothing, over an older one of the same step, in shards.
#include "actors/checkpoint/archive.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "actors/checkpoint/catalog.hpp"
#include "io/file.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
namespace fs = std::filesystem;

namespace {

archive_options options_in(const fs::path& dir) {
  archive_options o;
  o.dir = dir;
  o.tokenizer = "bytes";
  auto& m = o.model;
  m.layers = 2;
  m.heads = m.kv_heads = 2;
  m.hidden = 8;
  m.head_width = 4;
  m.ffn = 32;
  m.vocab = 16;
  m.max_positions = 8;
  return o;
}

/// A safetensors file with one float32 tensor of two elements.
void put_shard(const fs::path& file, const std::string& tensor) {
  std::string header = R"({")" + tensor + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t size = header.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << header << std::string(8, '\0');
}

/// The sums of what the ranks wrote, for commit().
std::vector<io::file_sum> sums(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<io::file_sum> out;
  for (const auto& name : names) {
    auto sum = io::sum_file(folder, name);
    REQUIRE(sum);
    out.push_back(*sum);
  }
  return out;
}

std::string text_of(const fs::path& file) {
  auto text = io::read_file(file, 1 << 20);
  REQUIRE(text);
  return *text;
}

const auto state = format_state({5, 640, 2.5, "[job]\n"});

}  // namespace

TEST_CASE("ARC-1: a commit makes a complete folder and leaves no partial one") {
  scratch dir;
  const auto o = options_in(dir.path);
  const auto partial = dir / partial_name(5), complete = dir / folder_name(5);
  fs::create_directories(partial);
  put_shard(partial / "model.safetensors", "a");
  auto done = commit(o, partial, complete, sums(partial, {"model.safetensors"}), state);
  INFO((done ? "" : done.error().message));
  REQUIRE(done);
  CHECK_FALSE(fs::exists(partial));
  CHECK(fs::exists(complete / "config.json"));
  CHECK(fs::exists(complete / "model.safetensors"));
  CHECK(text_of(complete / "train_state.json") == state);
  CHECK_FALSE(fs::exists(complete / "model.safetensors.index.json"));
  REQUIRE(list(dir.path).size() == 1);
  CHECK(list(dir.path)[0].step == 5);
  CHECK(verify(complete, part::all));
  const auto manifest = text_of(complete / "MANIFEST");
  for (const char* name : {"config.json", "model.safetensors", "train_state.json"})
    CHECK(manifest.find(name) != std::string::npos);
}

TEST_CASE("archive: what a rank wrote must be there as it wrote it") {
  scratch dir;
  const auto o = options_in(dir.path);
  const auto partial = dir / partial_name(5), complete = dir / folder_name(5);
  fs::create_directories(partial);
  put_shard(partial / "model.safetensors", "a");
  auto files = sums(partial, {"model.safetensors"});
  fs::resize_file(partial / "model.safetensors", files[0].bytes + 1);
  CHECK_FALSE(commit(o, partial, complete, files, state));
  CHECK_FALSE(fs::exists(complete));
}

TEST_CASE("archive: a step saved before is exchanged whole") {
  scratch dir;
  const auto o = options_in(dir.path);
  const auto partial = dir / partial_name(5), complete = dir / folder_name(5);
  fs::create_directories(complete);
  std::ofstream(complete / "stale") << "old";
  std::ofstream(complete / "train_state.json") << "old";
  fs::create_directories(partial);
  put_shard(partial / "model.safetensors", "a");
  REQUIRE(commit(o, partial, complete, sums(partial, {"model.safetensors"}), state));
  CHECK_FALSE(fs::exists(partial));
  CHECK_FALSE(fs::exists(complete / "stale"));
  CHECK(text_of(complete / "train_state.json") == state);
}

TEST_CASE("archive: shards get an index of the model's tensors alone") {
  scratch dir;
  const auto o = options_in(dir.path);
  const auto partial = dir / partial_name(5), complete = dir / folder_name(5);
  fs::create_directories(partial);
  put_shard(partial / "model-00001-of-00002.safetensors", "first");
  put_shard(partial / "model-00002-of-00002.safetensors", "second");
  put_shard(partial / "optimizer-00001-of-00002.safetensors", "moment");
  REQUIRE(commit(
      o, partial, complete,
      sums(partial, {"model-00001-of-00002.safetensors", "optimizer-00001-of-00002.safetensors",
                     "model-00002-of-00002.safetensors"}),
      state));
  const auto index = text_of(complete / "model.safetensors.index.json");
  CHECK(index.find("\"first\"") != std::string::npos);
  CHECK(index.find("model-00002-of-00002.safetensors") != std::string::npos);
  CHECK(index.find("moment") == std::string::npos);
}

TEST_CASE("ARC-2: a commit that fails leaves no folder of the step and the older ones alone") {
  scratch dir;
  auto o = options_in(dir.path);
  const auto partial = dir / partial_name(5), complete = dir / folder_name(5);
  fs::create_directories(partial);
  CHECK_FALSE(commit(o, partial, complete, {{"model-00001-of-00002.safetensors", 8, 0}}, state));
  CHECK_FALSE(fs::exists(complete));
  fs::create_directories(complete);
  std::ofstream(complete / "train_state.json") << "old";
  o.tokenizer = (dir / "absent-tokenizer.json").string();
  put_shard(partial / "model.safetensors", "a");
  CHECK_FALSE(commit(o, partial, complete, sums(partial, {"model.safetensors"}), state));
  CHECK(text_of(complete / "train_state.json") == "old");
}

TEST_CASE("archive: the tokenizer's files travel along") {
  scratch dir;
  auto o = options_in(dir.path);
  fs::create_directories(dir / "words");
  std::ofstream(dir / "words/tokenizer.json") << "{}";
  std::ofstream(dir / "words/unrelated.txt") << "x";
  o.tokenizer = (dir / "words").string();
  const auto partial = dir / partial_name(5), complete = dir / folder_name(5);
  fs::create_directories(partial);
  put_shard(partial / "model.safetensors", "a");
  REQUIRE(commit(o, partial, complete, sums(partial, {"model.safetensors"}), state));
  CHECK(text_of(complete / "tokenizer.json") == "{}");
  CHECK_FALSE(fs::exists(complete / "unrelated.txt"));
}

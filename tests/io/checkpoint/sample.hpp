// A small model in any layout, whose every element is known from its tensor, part and index; and
// what is needed to damage its checkpoints.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/write_checkpoint.hpp"
#include "io/file.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::io::checkpoint::sample {

namespace fs = std::filesystem;

inline constexpr int layers = 4;
inline constexpr uint32_t slot_bytes = 4096;

/// Chunks in order, tensors at padded offsets as the store has them.
inline plan_chunk chunk(std::string name, std::vector<plan_tensor> tensors) {
  uint64_t at = 0;
  for (auto& t : tensors) {
    t.offset = at;
    at = (at + *elements_of(t.shape) + 15) / 16 * 16;
  }
  plan_chunk out;
  out.name = std::move(name);
  out.tensors = std::move(tensors);
  return out;
}

/// Of a replica's slice of such a chunk, as a plan with a unit of 16 cuts it.
inline uint64_t slice_elements(const plan_chunk& c, uint32_t replicas) {
  const auto& last = c.tensors.back();
  const uint64_t units = (last.offset + *elements_of(last.shape) + 15) / 16;
  return (units + replicas - 1) / replicas * 16;
}

inline plan_chunk layer(int number) {
  const auto of = [&](const char* rest) {
    return fmt::format("transformer.h.{}.{}", number, rest);
  };
  return chunk(fmt::format("layer.{}", number), {{of("ln_1.weight"), {13}, false, 0},
                                                 {of("attn.c_attn.weight"), {39, 13}, true, 0},
                                                 {of("attn.c_attn.bias"), {39}, false, 0},
                                                 {of("mlp.c_fc.weight"), {52, 13}, true, 0}});
}

/// The model cut into `pipeline` stages (1..4).
inline std::vector<plan_stage> stages(int pipeline) {
  std::vector<plan_stage> out(static_cast<size_t>(pipeline));
  out.front().push_back(chunk("embedding", {{"transformer.wte.weight", {101, 13}, false, 0}}));
  for (int l = 0; l < layers; ++l)
    out[static_cast<size_t>(l * pipeline / layers)].push_back(layer(l));
  out.back().push_back(chunk("head", {{"transformer.ln_f.weight", {13}, false, 0}}));
  return out;
}

/// The element's value: in [-1, 1), another one for each `seed`.
inline float value(const std::string& tensor, part which, uint64_t index, uint64_t seed = 0) {
  uint64_t x = std::hash<std::string>{}(tensor) ^ (static_cast<uint64_t>(which) << 56) ^
               (index * 0x9e3779b97f4a7c15u) ^ (seed << 32);
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 29;
  return static_cast<float>(static_cast<double>(x >> 40) / double(1 << 23) - 1.0);
}

inline value_source source(uint64_t seed = 0) {
  return [seed](uint32_t, const planned_piece& p, std::span<std::byte> out) -> status {
    for (uint64_t i = 0; i < p.what.count; ++i) {
      const float v = value(p.what.tensor, p.what.which, p.what.first + i, seed);
      std::memcpy(out.data() + i * sizeof v, &v, sizeof v);
    }
    return {};
  };
}

inline std::vector<small_file> small_files() {
  return {{"config.json", R"({"model_type": "gpt2", "torch_dtype": "float32"})"},
          {"tokenizer.json", "{}"},
          {"train_state.json", R"({"format": 1})"}};
}

struct made {
  int pipeline = 1;
  int data = 1;
  uint64_t step = 120;
  uint64_t seed = 0;
  uint64_t epoch = 3;
  std::optional<double> validation_loss = 2.5;
  lineage line = {};
};

/// Writes step-N into `dir`; its folder.
inline fs::path make(const fs::path& dir, const made& what = {}) {
  write_options o;
  o.dir = dir;
  o.head = {"sample", what.step, what.epoch,           {}, slot_bytes,
            1000,     3.25,      what.validation_loss, 7,  what.line};
  o.data_ranks = what.data;
  o.cut_elements = 16;
  auto path = write_checkpoint(o, stages(what.pipeline), source(what.seed), small_files());
  REQUIRE_MESSAGE(path, (path ? "" : path.error().message));
  return *path;
}

inline std::vector<std::byte> bytes_of(const fs::path& path) {
  auto text = io::read_file(path, 64 << 20);
  REQUIRE(text);
  const auto span = as_bytes(*text);
  return {span.begin(), span.end()};
}

inline void write_bytes(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  REQUIRE(out.good());
}

/// A checkpoint in memory, without its folder's mark: quick to damage.
class memory_source : public file_source {
 public:
  explicit memory_source(const fs::path& folder) {
    for (const auto& item : fs::directory_iterator(folder))
      if (item.path().filename() != mark_file)
        files[item.path().filename().string()] = bytes_of(item.path());
  }
  result<std::shared_ptr<const source_file>> open(const std::string& name) const override {
    const auto at = files.find(name);
    if (at == files.end()) return error{errc::not_found, "no " + name};
    return std::shared_ptr<const source_file>(std::make_shared<one>(at->second));
  }
  std::map<std::string, std::vector<std::byte>> files;

 private:
  class one : public source_file {
   public:
    explicit one(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
    uint64_t size() const noexcept override { return bytes_.size(); }
    status read_at(uint64_t offset, std::span<std::byte> out) const override {
      if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
        return error{errc::bad_data, "the file ends"};
      std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
      return {};
    }

   private:
    const std::vector<std::byte>& bytes_;
  };
};

inline void flip(std::byte& b, unsigned bit) {
  b ^= std::byte{1} << (bit % 8);
}

}  // namespace troupe::io::checkpoint::sample

// Configurations drawn by seed: a good one, with some of its keys changed to what people write by
// mistake, to limits, and to what is just as good. Every key is drawn.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "io/base/text.hpp"
#include "io/config/properties.hpp"

namespace troupe {

/// The folder that drawn configurations speak of, by relative names: text, tokens, what is neither.
inline void make_mutation_files(const std::filesystem::path& in) {
  namespace fs = std::filesystem;
  std::string text;
  for (int line = 0; line < 400; ++line)
    text += "a line of text, number " + std::to_string(line) + "\n";
  std::ofstream(in / "text.txt") << text;
  std::ofstream(in / "copy.txt") << text;
  std::ofstream(in / "other.txt") << text.substr(0, 4000);
  std::ofstream(in / "short.txt") << "short";
  std::ofstream(in / "empty.txt");
  std::ofstream(in / "table.json") << "{\"a\": 1}";
  fs::create_directories(in / "folder/below");
  std::ofstream(in / "folder/below/one.txt") << text.substr(100, 6000);
  std::ofstream tokens(in / "tokens.bin", std::ios::binary);
  for (uint16_t i = 0; i < 4000; ++i) {
    const auto id = static_cast<uint16_t>(i % 200);
    tokens.write(reinterpret_cast<const char*>(&id), sizeof id);
  }
}

/// See the head of the file.
class config_mutations {
 public:
  explicit config_mutations(uint64_t seed) : chance_(seed) {}

  /// Settings over base(), e.g. {"model.heads=3"}; `avoid`: prefixes of keys that are left alone.
  std::vector<std::string> draw(const std::vector<std::string>& avoid = {}) {
    std::vector<std::string> out = pick(bases());
    for (auto count = below(4); count > 0;) {
      const auto& p = config::properties()[below(config::properties().size())];
      if (std::any_of(avoid.begin(), avoid.end(),
                      [&](const auto& prefix) { return p.key.starts_with(prefix); }))
        continue;
      out.push_back(std::string(p.key) + "=" + value_of(p));
      --count;
    }
    return out;
  }

  /// A job that starts where make_mutation_files was.
  static std::string base() {
    return "[job]\nname = \"t\"\noutput = \"run\"\n[cluster]\nthreads = 1\n"
           "[model]\nlayers = 2\nhidden = 32\nheads = 4\n[data]\npath = \"text.txt\"\n"
           "[train]\nsteps = 1\nbatch = 4\nseq_len = 16\n[log]\nformat = \"json\"\n";
  }

 private:
  using settings = std::vector<std::string>;

  static const std::vector<settings>& bases() {
    static const std::vector<settings> all{
        {},
        {"model.family=llama", "data.path=folder"},
        {"data.path=tokens.bin", "model.vocab=256"},
        {"data.validation_path=other.txt", "train.validate_every=1", "train.validate_batches=1"},
        {"cluster.nodes=2", "parallel.pipeline=2"}};
    return all;
  }

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(chance_); }

  template <class T>
  T pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

  std::string number_of(const config::property& p) {
    std::vector<double> choices{0, 1, 2, 3, 4, 7, 16, 64, 255, 256, 300, 4096, 65536, 1e6, -1};
    for (const auto& end : {p.limits.min, p.limits.max})
      if (end) choices.insert(choices.end(), {*end, *end - 1, *end + 1, std::floor(*end / 2)});
    const double drawn = pick(choices);
    if (p.kind == config::value_kind::real)
      return config::to_toml_text(below(2) ? drawn : drawn / 1000);
    return std::to_string(static_cast<int64_t>(std::min(drawn, 9e15)));
  }

  std::string text_of(const config::property& p) {
    static const std::vector<std::string> paths{"text.txt",
                                                "copy.txt",
                                                "other.txt",
                                                "short.txt",
                                                "empty.txt",
                                                "table.json",
                                                "folder",
                                                "absent",
                                                "tokens.bin",
                                                "text.txt/in",
                                                "/proc/none",
                                                "",
                                                ".",
                                                "run",
                                                "run/checkpoints/inside",
                                                "{output}/x",
                                                std::string(300, 'x')};
    static const std::vector<std::string> hosts{"127.0.0.1", "0.0.0.0", "192.0.2.7", "localhost",
                                                ""};
    const bool host = p.key == "cluster.listen" || p.key == "cluster.advertise";
    return troupe::quoted(pick(host ? hosts : paths));
  }

  std::string value_of(const config::property& p) {
    switch (p.kind) {
      case config::value_kind::integer:
      case config::value_kind::real:
        return number_of(p);
      case config::value_kind::boolean:
        return below(2) ? "true" : "false";
      case config::value_kind::choice:
        return troupe::quoted(p.choices[below(p.choices.size())]);
      case config::value_kind::text:
      case config::value_kind::texts:
        return text_of(p);
    }
    return {};
  }

  std::mt19937_64 chance_;
};

}  // namespace troupe

// Kinds of models that are not read: the table says why, errors and docs/models.md say the same.
#include "io/formats/other_models.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "io/formats/hf_config.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::io;

TEST_CASE("KNR-1 the kinds that people know are refused, each with what it has of its own") {
  std::set<std::string_view> seen;
  for (const auto& other : other_models()) {
    CAPTURE(std::string(other.type));
    CHECK(seen.insert(other.type).second);
    CHECK(why_not_read(other.type) == other.why);
    const auto refused = parse_hf_config("{\"model_type\": \"" + std::string(other.type) + "\"}");
    CHECK(is_error(refused, hf_unsupported, "model_type", other.type, other.why));
  }
  for (const char* known : {"llama4", "olmo", "mamba", "phi3", "gpt_neox", "deepseek_v3", "gemma3",
                            "mixtral", "falcon", "opt", "bloom", "bert", "t5"})
    CHECK(seen.contains(known));
  for (const char* read : {"gpt2", "llama", "mistral", "qwen2", "qwen3", "", "zz", "a"})
    CHECK(why_not_read(read).empty());
}

TEST_CASE("docs/models.md names every kind that is refused with a reason") {
  std::ifstream in(TROUPE_SOURCE_DIR "/docs/models.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const auto& other : other_models()) {
    CAPTURE(std::string(other.type));
    CHECK(page.find("`" + std::string(other.type) + "`") != std::string::npos);
  }
}

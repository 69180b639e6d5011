// The PyTorch twins (tests/gpu/twins/train.py) count the same operations as we do, and train where
// torch is installed (TROUPE_PYTHON, default python3): tiny, on the CPU.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "io/base/model_config.hpp"

namespace troupe::gpu {
namespace {

struct ended {
  int code;
  std::string out;
};

ended twin(const std::string& words) {
  const char* named = std::getenv("TROUPE_PYTHON");
  const std::string line = std::string(named ? named : "python3") +
                           " '" TROUPE_SOURCE_DIR "/tests/gpu/twins/train.py' " + words +
                           " 2>&1 </dev/null";
  FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe);
  ended done{0, {}};
  std::array<char, 4096> buffer;
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    done.out.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  done.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return done;
}

model_config model_of(const nlohmann::json& j) {
  auto m = model_config::of(j["family"] == "llama" ? model_family::llama : model_family::gpt2);
  m.layers = j["layers"];
  m.heads = j["heads"];
  m.kv_heads = j["kv_heads"];
  m.hidden = j["hidden"];
  m.head_width = m.hidden / m.heads;
  m.ffn = j["ffn"];
  m.vocab = j["vocab"];
  m.max_positions = j["seq"];
  return m;
}

}  // namespace

TEST_CASE("the PyTorch twins count the operations of a token as we do") {
  for (const char* name :
       {"tiny", "llama-tiny", "gpt2-124m", "gpt2-1.5b", "llama-1b", "llama-8b"}) {
    CAPTURE(name);
    const auto done = twin(std::string("--describe --model ") + name);
    if (done.code == 127) {
      MESSAGE("SKIPPED: no python3");
      return;
    }
    REQUIRE_MESSAGE(done.code == 0, done.out);
    const auto j = nlohmann::json::parse(done.out);
    const model_config m = model_of(j);
    REQUIRE(m.check());
    CHECK(j["flops_per_token"] == m.flops_per_token(j["seq"]));
    CHECK(j["layers"] <= j["layers_of_whole"]);
  }
}

TEST_CASE("the PyTorch twins train: the loss of a repeated batch falls in both settings") {
  for (const char* words :
       {"--model tiny --settings packaged", "--model llama-tiny --settings tuned"}) {
    const auto done = twin(std::string(words) +
                           " --device cpu --steps 6 --warmup 1 --side 32 "
                           "--compile none");
    if (done.out.find("No module named 'torch'") != std::string::npos || done.code == 127) {
      MESSAGE("SKIPPED: no torch (TROUPE_PYTHON names a Python that has it)");
      return;
    }
    REQUIRE_MESSAGE(done.code == 0, done.out);
    const auto j = nlohmann::json::parse(done.out);
    CHECK(std::abs(j["first_loss"].get<double>() - std::log(512.0)) < 0.2);
    CHECK(j["loss"] < j["first_loss"]);
    for (const char* which : {"best", "median", "worst"}) {
      CHECK(j[which]["tokens_per_s"] > 0);
      CHECK(j[which]["mfu"] > 0);
    }
    CHECK(j["best"]["step_ms"] <= j["median"]["step_ms"]);
  }
}

}  // namespace troupe::gpu

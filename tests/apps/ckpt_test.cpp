// `troupe ckpt` through the built program: a model folder in, checked, compared, damaged, out.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/safetensors.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

namespace fs = std::filesystem;
using namespace troupe;

namespace {

/// Runs `troupe ckpt WORDS` in a folder. Words hold no quotes.
ended run_ckpt(const fs::path& in, const std::string& words) {
  return run_in(in, "'" TROUPE_PROGRAM "' ckpt " + words);
}

/// A model of the oracle, or an empty path.
fs::path model(const char* name) {
  const auto shared = shared_folder();
  return shared.empty() || !fs::exists(shared / "oracle" / name) ? fs::path{}
                                                                 : shared / "oracle" / name;
}

}  // namespace

TEST_CASE("a model comes back from a checkpoint as it went in, bit by bit") {
  for (const char* name : {"gpt2_tiny", "llama_tiny_sharded", "llama_tiny_bf16"}) {
    const auto folder = model(name);
    if (folder.empty()) {
      MESSAGE("SKIPPED: no shared oracle models here");
      return;
    }
    CAPTURE(name);
    scratch dir;
    auto made = run_ckpt(dir.path, "import '" + folder.string() + "' --out all --slot-mb 1 --json");
    REQUIRE_MESSAGE(made.code == 0, made.talk);
    CHECK(nlohmann::json::parse(made.out)["checkpoint"] == "all/step-00000000");
    CHECK(run_ckpt(dir.path, "verify all").code == 0);
    const std::string type = std::string(name).ends_with("bf16") ? "bf16" : "float32";
    const auto exports = "export all --safetensors out --dtype " + type;
    const auto out = run_ckpt(dir.path, exports);
    REQUIRE_MESSAGE(out.code == 0, out.talk);
    const auto again = run_ckpt(dir.path, exports);  // nothing is overwritten unsaid
    CHECK(again.code == 77);
    CHECK(again.talk.find("--force") != std::string::npos);
    CHECK(run_ckpt(dir.path, exports + " --force").code == 0);
    std::ofstream(dir / "note") << "mine";
    CHECK(run_ckpt(dir.path, "export all --safetensors note").code == 77);
    auto before = io::tensor_store::open(folder);
    auto after = io::tensor_store::open(dir / "out");
    REQUIRE(before);
    REQUIRE(after);
    CHECK(before->tensors().size() == after->tensors().size());
    for (const auto& [tensor, view] : before->tensors()) {
      CAPTURE(tensor);
      const auto* same = after->find(tensor);
      REQUIRE(same);
      CHECK(same->type == view.type);
      CHECK(same->shape == view.shape);
      CHECK(
          std::equal(view.bytes.begin(), view.bytes.end(), same->bytes.begin(), same->bytes.end()));
    }
  }
}

TEST_CASE("ckpt tells equal from different, sound from damaged, and lists both") {
  const auto folder = model("gpt2_tiny");
  if (folder.empty()) {
    MESSAGE("SKIPPED: no shared oracle models here");
    return;
  }
  scratch dir;
  const auto import = "import '" + folder.string() + "' --slot-mb 1 --out ";
  REQUIRE(run_ckpt(dir.path, import + "a").code == 0);
  REQUIRE(run_ckpt(dir.path, import + "b --job other").code == 0);
  auto same = run_ckpt(dir.path, "diff a b --json");
  CHECK(same.code == 0);
  CHECK(nlohmann::json::parse(same.out)["equal"] == true);

  const auto shard = dir / "b/step-00000000/rank-00000.shard";
  auto bytes = content(shard);
  bytes[70000] = static_cast<char>(bytes[70000] ^ 4);
  std::ofstream(shard, std::ios::binary) << bytes;
  auto damaged = run_ckpt(dir.path, "verify b --json");
  CHECK(damaged.code == 65);
  const auto report = nlohmann::json::parse(damaged.out);
  CHECK(report["sound"] == false);
  CHECK(report["damages"][0]["slot"] == 0);
  CHECK(report["damages"][0]["file"] == "rank-00000.shard");
  auto said = run_ckpt(dir.path, "verify b");
  CHECK(said.talk.find("hint: ") != std::string::npos);
  CHECK(said.out.find("slot 0") != std::string::npos);
  CHECK(run_ckpt(dir.path, "diff a b").code == 65);
  CHECK(run_ckpt(dir.path, "export b --safetensors out").code == 65);

  fs::create_directories(dir / "a/step-00000007.e2.partial");
  CHECK(run_ckpt(dir.path, "ls gone").code == 66);
  CHECK(run_ckpt(dir.path, "ls gone --json").code == 66);
  auto list = nlohmann::json::parse(run_ckpt(dir.path, "ls a --json").out);
  CHECK(list["checkpoints"].size() == 2);
  CHECK(list["checkpoints"][0]["state"] == "partial");
  auto plan = run_ckpt(dir.path, "gc a --partial-age 0 --dry-run --json");
  CHECK(nlohmann::json::parse(plan.out)["removed"].size() == 1);
  CHECK(fs::exists(dir / "a/step-00000007.e2.partial"));
  CHECK(run_ckpt(dir.path, "gc a").code == 0);
  CHECK(fs::exists(dir / "a/step-00000007.e2.partial"));  // it is too young
  CHECK(run_ckpt(dir.path, "gc a --partial-age 0").code == 0);
  CHECK(!fs::exists(dir / "a/step-00000007.e2.partial"));
  CHECK(fs::exists(dir / "a/step-00000000"));
  fs::create_directories(dir / "run");
  fs::rename(dir / "a", dir / "run/checkpoints");
  list = nlohmann::json::parse(run_ckpt(dir.path, "ls run --json").out);  // a run's folder
  CHECK(list["directory"] == "run/checkpoints");
  CHECK(list["checkpoints"].size() == 1);
  const auto shown = run_ckpt(dir.path, "show run").out;
  CHECK(shown.find(", 1 launch\n") != std::string::npos);
  CHECK(shown.find("in 3 files, slots") != std::string::npos);
  CHECK(run_ckpt(dir.path, "show nowhere").code == 66);
  CHECK(run_ckpt(dir.path, "show").code == 64);
}

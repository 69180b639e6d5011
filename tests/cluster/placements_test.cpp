// Files, folders and links that are not ours, placed by seed where the program's own things go: no
// verb removes or changes one of them, whatever its exit code.
//
//   TROUPE_PLACEMENTS=10000 TROUPE_PLACEMENT_SEED=$(date +%j) test_cluster -tc='placements*'
#include <random>
#include <span>

#include "io/folder/owned.hpp"
#include "tests/cluster/job_files.hpp"
#include "tests/io/tree.hpp"

using namespace troupe::cluster_test;
using troupe::put_file;
using troupe::tree_of;

namespace {

int number_of(const char* variable, int usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::atoi(text);
}

/// Names that the program gives to things of its own, below a job's folder.
const std::vector<std::string> own_names{
    "run/model",
    "run/model.partial",
    "run/model-2",
    "run/model/notes.txt",
    "run/model/model-00001-of-00002.safetensors",
    "run/checkpoints/latest",
    "run/checkpoints/.latest",
    "run/checkpoints/step-00000001/notes.txt",
    "run/checkpoints/step-00000002",
    "run/checkpoints/step-00000002.e1.partial",
    "run/checkpoints/step-00000002.e2.partial",
    "run/checkpoints/step-00000003",
    "run/checkpoints/step-00000003.partial",
    "run/checkpoints/step-00000001.deleting",
    "run/checkpoints/step-00000099",
    "run/checkpoints/rank-00000.shard",
    "second/step-00000002",
    "second/step-00000003.e2.partial",
    "second/latest",
    "out",
    "out.partial",
    "out/config.json",
    "imported/step-00000000",
    "imported/step-00000000.e0.partial",
    "imported/step-00000000/MANIFEST",
    "certs/ca.pem",
    "certs/ca.key",
    "certs/node0.pem",
    "certs/coordinator.key",
    "run/troupe-bench-000000",
};

/// What such a foreign folder holds: as much like ours as it can be without a mark of ours.
const std::vector<std::string> contents{"notes.txt",      "rank-00000.shard",  "MANIFEST",
                                        "config.json",    "model.safetensors", "train_state.json",
                                        "tokenizer.json", "deep/er/file"};

/// A finished run of two steps, with two checkpoints and its model.
struct finished_job : job_files {
  finished_job() {
    losses({"train.steps=2", "checkpoint.every=1"});
    REQUIRE(fs::exists(folder / "run/model/model.safetensors"));
  }
};

/// Puts something of another's at `path`, and takes ours away from there first.
void place(std::mt19937_64& random, const fs::path& path, const fs::path& mine) {
  const auto drawn = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const auto parent = path.parent_path();
  if (fs::exists(parent) && !fs::is_directory(parent)) return;
  fs::remove_all(path);
  fs::create_directories(parent);
  const auto text = fmt::format("mine {}", random());
  switch (drawn(4)) {
    case 0:
      put_file(path, text);
      break;
    case 1:
      fs::create_directory_symlink(mine, path);
      break;
    case 2:
      fs::create_symlink(mine / "file", path);
      break;
    default:
      for (size_t n = 1 + drawn(4); n > 0; --n)
        put_file(path / contents[drawn(contents.size())], text);
  }
}

/// The foreign things as they are now: those placed, and what links lead to.
std::map<std::string, std::string> foreign(const fs::path& root,
                                           const std::vector<std::string>& names) {
  std::map<std::string, std::string> out;
  const auto all = tree_of(root);
  const auto below = [](const std::string& path, const std::string& name) {
    return path == name || path.starts_with(name + "/");
  };
  for (const auto& [path, what] : all) {
    const bool placed = std::any_of(names.begin(), names.end(),
                                    [&](const auto& name) { return below(path, name); });
    if (placed || below(path, "mine")) out[path] = what;
  }
  return out;
}

/// A verb over the job in `root`; its words as a person types them.
std::vector<std::string> verb(size_t number, const fs::path& root, int steps) {
  const auto at = [&](const char* name) { return (root / name).string(); };
  switch (number) {
    case 0:
      return {"ckpt", "gc", at("run/checkpoints"), "--keep-last", "1", "--partial-age", "0"};
    case 1:
      return {"ckpt", "gc", at("second"), "--keep-last", "1", "--partial-age", "0"};
    case 2:
      return {"ckpt", "export", at("run/checkpoints"), "--safetensors", at("out"), "--force"};
    case 3:
      return {"ckpt", "export", at("run/checkpoints"), "--safetensors", at("run/model"), "--force"};
    case 4:
      return {"ckpt", "import", at("hf"), "--out", at("imported")};
    case 5:
      return {"certs", at("certs"), "--node", "node0"};
    default:
      return {"up",    at("job.toml"),
              "--set", "job.output=" + at("run"),
              "--set", fmt::format("train.steps={}", steps),
              "--set", "checkpoint.every=1",
              "--set", "checkpoint.keep=1",
              "--set", "checkpoint.room_wait_s=5",
              "--set", "checkpoint.second.dir=" + at("second")};
  }
}

}  // namespace

TEST_CASE("placements: nothing that is not ours is removed or changed by any verb") {
  const finished_job done;
  const int many = number_of("TROUPE_PLACEMENTS", 100);
  const auto seed = static_cast<uint64_t>(number_of("TROUPE_PLACEMENT_SEED", 1));
  size_t touched = 0, good = 0, refused = 0;
  for (int n = 0; n < many; ++n) {
    std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(n));
    const auto drawn = [&](size_t k) {
      return std::uniform_int_distribution<size_t>(0, k - 1)(random);
    };
    const troupe::scratch world;
    fs::copy(done.folder.path, world.path,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::copy(world / "run/model", world / "hf", fs::copy_options::recursive);
    put_file(world / "mine/file", "mine");
    put_file(world / "mine/rank-00000.shard", "mine");
    std::vector<std::string> names;
    for (size_t k = 1 + drawn(4); k > 0; --k) {
      const auto& name = own_names[drawn(own_names.size())];
      // Not below one another: the later would take the earlier away.
      if (std::any_of(names.begin(), names.end(), [&](const auto& other) {
            return other.starts_with(name) || name.starts_with(other);
          }))
        continue;
      names.push_back(name);
      place(random, world / name, world / "mine");
    }
    const auto before = foreign(world.path, names);
    REQUIRE_FALSE(before.empty());
    // A training in one of eight: the others are quick.
    const size_t number = n % 8 == 0 ? 6 : drawn(6);
    const auto words = verb(number, world.path, 3 + static_cast<int>(drawn(2)));
    const auto ended = run(words);
    CAPTURE(n);
    CAPTURE(fmt::format("{}", fmt::join(names, " ")));
    CAPTURE(fmt::format("{}", fmt::join(words, " ")));
    CAPTURE(ended.err);
    const auto after = foreign(world.path, names);
    CHECK(after == before);
    CHECK(ended.code < 128);
    CHECK(ended.code != 70);  // a bug of ours
    touched += after != before ? 1 : 0;
    (ended.code == 0 ? good : refused) += 1;
  }
  MESSAGE(many << " placements: " << touched << " with something removed or changed; " << good
               << " verbs ended well, " << refused << " were refused");
}

TEST_CASE("placements: an output with a person's own files is refused before anything is written") {
  const job_files job;
  const auto refuses = [&](const std::string& key, const std::vector<std::string>& sets = {}) {
    const auto before = tree_of(job.folder.path);
    auto words = job.up(with({"train.steps=2"}, sets));
    auto checked = words;
    checked.erase(checked.begin());
    checked.insert(checked.begin(), {"config", "check"});
    for (const auto& verb : {words, checked}) {
      const auto ended = run(verb);
      CAPTURE(verb[0]);
      CHECK(ended.code == 78);
      CHECK_MESSAGE(ended.err.find(key) != std::string::npos, ended.err);
      CHECK(tree_of(job.folder.path) == before);
    }
  };
  for (const char* name : {"run/log.jsonl", "run/audit.jsonl", "run/node0.log"}) {
    put_file(job / name, "my own\n");
    refuses(fs::path(name).filename().string());
    fs::remove_all(job / "run");
  }
  put_file(job / "mine", "my own\n");
  fs::create_directory(job / "run");
  fs::create_symlink(job / "mine", job / "run/log.jsonl");
  refuses("log.jsonl");
  fs::remove_all(job / "run");
  // A source folder with a folder `model` in it.
  put_file(job / "run/model/weights.cpp", "my own\n");
  refuses("model");
  fs::remove_all(job / "run");
  put_file(job / "run/model.partial/weights.cpp", "my own\n");
  refuses("model.partial");
  fs::remove_all(job / "run");
}

TEST_CASE("placements: the weights that a job starts from are not where its model goes") {
  const finished_job first;
  const auto before = tree_of(first.folder.path / "run/model");
  const auto ended = run(first.up({"train.steps=4", "checkpoint.resume=never",
                                   fmt::format("model.path={}", (first / "run/model").string())}));
  CHECK(ended.code == 78);
  CHECK_MESSAGE(ended.err.find("model.path") != std::string::npos, ended.err);
  CHECK(tree_of(first.folder.path / "run/model") == before);
}

TEST_CASE("placements: a model that finds its place taken at the end is written beside it") {
  job_files job;
  program up(job.up(endless));
  REQUIRE(up.until_step(1));
  put_file(job / "run/model/mine.txt", "mine");
  end_soon(up, job / "run/log.jsonl");
  CHECK(up.wait() == 0);
  CHECK(tree_of(job / "run/model") ==
        std::map<std::string, std::string>{{"mine.txt", "file mine"}});
  CHECK(fs::exists(job / "run/model-2/model.safetensors"));
  CHECK(up.objects("summary").at(0)["model"].get<std::string>().find("model-2") !=
        std::string::npos);
}

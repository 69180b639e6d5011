// tests/bench/sklearn_predict.py with a stand-in for scikit-learn, which the machine need not have:
// what it writes is what `troupe predict eval` takes, and it reads no label of a test row.
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

void put_file(const scratch& in, const std::string& name, const std::string& text) {
  std::filesystem::create_directories((in / name).parent_path());
  std::ofstream(in / name) << text;
}

/// Every way predicts the mean of each output of train.
const char* stand_in = R"py(
class Way:
    def __init__(self, *ignored, **named):
        pass
    def fit(self, x, y):
        assert len(x) == len(y) and all(len(row) == len(x[0]) for row in x)
        self.mean = sum(y) / len(y)
    def predict(self, x):
        return [self.mean for _ in x]
GradientBoostingRegressor = RandomForestRegressor = RidgeCV = MultiOutputRegressor = Way
StandardScaler = make_pipeline = Way
)py";

/// 20 rows of vTrain's, every fourth to test, whose iteration time may be no number.
void make_steps(const scratch& dir) {
  std::string rows =
      "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor "
      "parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n";
  std::string split = "dataset,row_id,split\n";
  for (int i = 0; i < 20; ++i) {
    rows += fmt::format("{},32,2,{},16,24,1024,1,2,{},{}\n", 2 << (i % 3), 1024 << (i % 2),
                        1 + i % 2, 100 + 7 * i);
    split += fmt::format("vtrain_single,row{},{}\n", i, i % 4 == 3 ? "test" : "train");
  }
  put_file(dir, "data/vtrain_steptime/ground_truth_single.csv", rows);
  put_file(dir, "s.csv", split);
}

const std::string script =
    "python3 " TROUPE_SOURCE_DIR "/tests/bench/sklearn_predict.py --data data --split s.csv -o sk";

}  // namespace

TEST_CASE("predictions of scikit-learn's ways are such as the program judges") {
  scratch dir;
  if (run_in(dir.path, "python3 -c pass").code != 0) {
    MESSAGE("SKIPPED: no python3");
    return;
  }
  make_steps(dir);
  for (const auto* part : {"ensemble", "linear_model", "multioutput", "pipeline", "preprocessing"})
    put_file(dir, fmt::format("lib/sklearn/{}.py", part), stand_in);
  put_file(dir, "lib/sklearn/__init__.py", "");
  const auto made = run_in(dir.path, "PYTHONPATH=lib " + script);
  REQUIRE_MESSAGE(made.code == 0, made.talk);
  for (const auto* way : {"ridge", "forest", "boosting"}) {
    const auto judged = run_in(dir.path, fmt::format("'" TROUPE_PROGRAM "' predict eval sk/{}.csv "
                                                     "--data data --split s.csv --json",
                                                     way));
    REQUIRE_MESSAGE(judged.code == 0, judged.talk);
    CHECK(nlohmann::json::parse(judged.out)["sets"][0]["rows"] == 5);
  }
}

TEST_CASE("where scikit-learn is not there, the comparison says so and is no fault") {
  scratch dir;
  if (run_in(dir.path, "python3 -c pass").code != 0) {
    MESSAGE("SKIPPED: no python3");
    return;
  }
  make_steps(dir);
  put_file(dir, "lib/sklearn/__init__.py", "raise ImportError('not here')\n");
  const auto done = run_in(dir.path, "PYTHONPATH=lib " + script);
  CHECK(done.code == 0);
  CHECK(done.out.starts_with("SKIPPED: "));
  CHECK_FALSE(std::filesystem::exists(dir / "sk"));
}

// `troupe predict` through the built program: what it learns, answers and judges, and how it ends
// where something is wrong.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/predict/metrics.hpp"
#include "apps/predict/study_rows.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

ended predict(const scratch& in, const std::string& arguments) {
  return run_in(in.path, "'" TROUPE_PROGRAM "' predict " + arguments);
}

void put(const scratch& in, const std::string& name, const std::string& text) {
  std::ofstream(in / name) << text;
}

std::string get(const scratch& in, const std::string& name) {
  std::ifstream file(in / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Hosts whose score is cores * clock, with a wave of 3 %; the labels of test rows as asked for.
std::string fleet(const std::string& label_of_tests = "") {
  std::string out = "host,cpu,cores,mhz,score\n";
  for (int i = 0; i < 90; ++i) {
    const double cores = 4 + i % 13, mhz = 2000 + 37 * (i % 29);
    const double score = cores * mhz * (1 + 0.03 * std::sin(i));
    const bool test = i % 3 == 2;
    out += fmt::format("h{},m{},{},{},{}\n", i, i % 11, cores, mhz,
                       test && !label_of_tests.empty() ? label_of_tests : fmt::format("{}", score));
  }
  return out;
}

const std::string fleet_schema =
    "id = \"host\"\ncpu_model = \"cpu\"\nlabels = [\"score\"]\n"
    "[[feature]]\ncolumn = \"cores\"\ngroup = \"cpu\"\nkind = \"log\"\n"
    "[[feature]]\ncolumn = \"mhz\"\ngroup = \"cpu\"\nkind = \"log\"\nunit = \"MHz\"\n";

std::string fleet_split(bool reversed = false) {
  std::vector<std::string> lines;
  for (int i = 0; i < 90; ++i)
    lines.push_back(fmt::format("fleet,h{},{}\n", i, i % 3 == 2 ? "test" : "train"));
  if (reversed) std::reverse(lines.begin(), lines.end());
  std::string out = "dataset,row_id,split\n";
  for (const auto& l : lines) out += l;
  return out;
}

void make_fleet(const scratch& dir) {
  std::filesystem::create_directory(dir / "data");
  put(dir, "data/fleet.csv", fleet());
  put(dir, "data/fleet.toml", fleet_schema);
  put(dir, "s.csv", fleet_split());
}

/// A second data set, of the same rows, behind the first in the split.
void make_second(const scratch& dir) {
  put(dir, "data/ships.csv", fleet());
  put(dir, "data/ships.toml", fleet_schema);
  std::string lines;
  for (int i = 0; i < 90; ++i)
    lines += fmt::format("ships,h{},{}\n", i, i % 3 == 2 ? "test" : "train");
  put(dir, "s.csv", fleet_split() + lines);
}

const std::string of_fleet = " --data data --split s.csv ";

void refused_with(const ended& done, int code, const std::vector<std::string>& said) {
  CAPTURE(done.talk);
  CHECK(done.code == code);
  CHECK(done.out.empty());
  for (const auto& word : said) {
    CAPTURE(word);
    CHECK(done.talk.find(word) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("PRV-1 a fleet is learned, asked about and judged, and the trunk finds its rule") {
  scratch dir;
  make_fleet(dir);
  const auto trained = predict(dir, "train" + of_fleet + "--kind trunk -o m --json");
  REQUIRE_MESSAGE(trained.code == 0, trained.talk);
  CHECK(nlohmann::json::parse(trained.out)["train_rows"] == 60);
  const auto asked = predict(dir, "ask m" + of_fleet + "--part test -o p.csv");
  REQUIRE_MESSAGE(asked.code == 0, asked.talk);
  const auto lines = get(dir, "p.csv");
  CHECK(lines.starts_with("dataset,row_id,output,pred,lower,upper,flag\nfleet,h11,score,"));
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 31);
  const auto judged = predict(dir, "eval p.csv" + of_fleet + "--json");
  REQUIRE_MESSAGE(judged.code == 0, judged.talk);
  const auto set = nlohmann::json::parse(judged.out)["sets"][0];
  CHECK(set["rows"] == 30);
  CHECK(set["mape_percent"].get<double>() < 4);
  CHECK(set["r2"].get<double>() > 0.98);
  CHECK(set["cpu_known_percent"] == 100);
  CHECK(set["coverage_percent"].get<double>() > 80);
  CHECK(predict(dir, "eval p.csv" + of_fleet).out.find("fleet") != std::string::npos);
  refused_with(predict(dir, "eval p.csv --data data"), 64, {"--split is missing"});
  refused_with(predict(dir, "eval p.csv --data data --seeds 2"), 64, {"have no meaning"});
}

TEST_CASE(
    "PRV-2 labels of test rows, and the order of a split's lines, change no byte of a model") {
  scratch dir;
  make_fleet(dir);
  const std::string kind = "--kind trunk+ncpp+local --passes 2 ";
  REQUIRE(predict(dir, "train" + of_fleet + kind + "-o a").code == 0);
  REQUIRE(predict(dir, "ask a" + of_fleet + "-o a.csv").code == 0);
  put(dir, "data/fleet.csv", fleet("no number"));
  put(dir, "s.csv", fleet_split(true));
  REQUIRE(predict(dir, "train" + of_fleet + kind + "-o b").code == 0);
  REQUIRE(predict(dir, "ask b" + of_fleet + "-o b.csv").code == 0);
  CHECK(get(dir, "a/fleet.tpm").size() > 1000);
  CHECK(get(dir, "a/fleet.tpm") == get(dir, "b/fleet.tpm"));
  CHECK(get(dir, "a.csv") == get(dir, "b.csv"));
}

TEST_CASE("XTR-1 extra rows are told of apart, and those with a test row's id change no byte") {
  scratch dir;
  make_fleet(dir);
  const std::string head = "host,cpu,cores,mhz,score\n", kind = "--kind trunk ";
  const std::string more = "x1,m90,8,2500,20100\nx2,m91,64,3000,190000\n";
  put(dir, "x.csv", head + more);
  put(dir, "y.csv", head + more + "h2,m92,8,2500,1\nh89,m2,9,2500,no number\n");
  const auto with = predict(dir, "train" + of_fleet + kind + "--extra x.csv -o a --json");
  REQUIRE_MESSAGE(with.code == 0, with.talk);
  CHECK(nlohmann::json::parse(with.out)["train_rows"] == 60);
  CHECK(nlohmann::json::parse(with.out)["extra_rows"] == 2);
  REQUIRE(predict(dir, "train" + of_fleet + kind + "--extra y.csv -o b").code == 0);
  REQUIRE(predict(dir, "train" + of_fleet + kind + "-o c").code == 0);
  CHECK(get(dir, "a/fleet.tpm") == get(dir, "b/fleet.tpm"));
  CHECK(get(dir, "a/fleet.tpm") != get(dir, "c/fleet.tpm"));
  refused_with(predict(dir, "train" + of_fleet + kind + "--extra none.csv -o d"), 66, {"none.csv"});
}

TEST_CASE("PRV-3 predictions that miss a row, have one twice or are no numbers end with 65") {
  scratch dir;
  make_fleet(dir);
  REQUIRE(predict(dir, "train" + of_fleet + "--kind trunk -o m").code == 0);
  REQUIRE(predict(dir, "ask m" + of_fleet + "-o p.csv").code == 0);
  const auto lines = get(dir, "p.csv");
  const auto second = lines.find('\n') + 1, third = lines.find('\n', second) + 1;
  const auto line = lines.substr(second, third - second);
  const auto refused = [&](const std::string& text, const std::string& place,
                           const std::string& id) {
    put(dir, "x.csv", text);
    const auto done = predict(dir, "eval x.csv" + of_fleet);
    CAPTURE(done.talk);
    CHECK(done.code == 65);
    CHECK(done.out.empty());
    CHECK(done.talk.find(place) != std::string::npos);
    CHECK(done.talk.find(id) != std::string::npos);
  };
  refused(lines.substr(0, second) + lines.substr(third), "s.csv:13:", "h11");
  refused(lines + line, "x.csv:32", "h11");
  refused(lines + "fleet,h999,score,1,1,1,\n", "x.csv:32", "h999");
  refused(lines + "fleet,h0,score,1,1,1,\n", "x.csv:32", "h0");
  refused(lines + "fleet,h999,score,nan,1,1,\n", "x.csv:32", "h999");
  refused(lines + "fleet,h999,score,1,abc,1,\n", "x.csv:32", "abc");
  refused(lines + "fleet,h999,score,1,1,nan,\n", "x.csv:32", "nan");
  refused(lines + "fleet,h999,score,1,2,1,\n", "x.csv:32", "above upper");
  refused("dataset,id,output,pred\n", "x.csv:1", "row_id");
}

TEST_CASE("PRV-3 a split with a row that is not in the data ends with 65 and leaves no file") {
  scratch dir;
  make_fleet(dir);
  REQUIRE(predict(dir, "train" + of_fleet + "--kind trunk -o m").code == 0);
  put(dir, "s.csv", fleet_split() + "fleet,nobody,test\n");
  const auto asked = predict(dir, "ask m" + of_fleet + "-o p.csv");
  CHECK(asked.code == 65);
  CHECK(asked.talk.find("s.csv:92") != std::string::npos);
  CHECK(asked.talk.find("nobody") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "p.csv"));
  put(dir, "s.csv", fleet_split() + "fleet,nobody,train\n");
  const auto old = get(dir, "m/fleet.tpm");
  CHECK(predict(dir, "train" + of_fleet + "-o m").code == 65);
  put(dir, "s.csv", fleet_split() + "fleet,nobody,test\n");
  refused_with(predict(dir, "train" + of_fleet + "-o m"), 65, {"s.csv:92:", "nobody"});
  CHECK(get(dir, "m/fleet.tpm") == old);
}

TEST_CASE("PRV-3 what is wrong with the last data set is found before any model is written") {
  scratch dir;
  make_fleet(dir);
  make_second(dir);
  put(dir, "s.csv", get(dir, "s.csv") + "ships,nobody,train\n");
  refused_with(predict(dir, "train" + of_fleet + "--kind trunk -o m"), 65,
               {"s.csv:182:", "nobody"});
  CHECK_FALSE(std::filesystem::exists(dir / "m"));
}

TEST_CASE("PRV-3 a data set without any prediction is refused by name, and told of otherwise") {
  scratch dir;
  make_fleet(dir);
  make_second(dir);
  REQUIRE(predict(dir, "train" + of_fleet + "--dataset fleet --kind trunk -o m").code == 0);
  REQUIRE(predict(dir, "ask m" + of_fleet + "-o p.csv").code == 0);
  refused_with(predict(dir, "eval p.csv" + of_fleet + "--dataset '*s'"), 65,
               {"s.csv:103:", "row h11 of ships has no prediction in p.csv"});
  const auto all = predict(dir, "eval p.csv" + of_fleet + "--json");
  REQUIRE_MESSAGE(all.code == 0, all.talk);
  CHECK(all.talk.find("ships") != std::string::npos);
  CHECK(nlohmann::json::parse(all.out)["not_judged"] == nlohmann::json{"ships"});
  const auto one = predict(dir, "eval p.csv" + of_fleet + "--dataset fleet --json");
  REQUIRE_MESSAGE(one.code == 0, one.talk);
  CHECK(nlohmann::json::parse(one.out)["not_judged"].empty());
}

TEST_CASE("PRV-3 a model of another data set, or of another unit, is refused") {
  scratch dir;
  make_fleet(dir);
  make_second(dir);
  REQUIRE(predict(dir, "train" + of_fleet + "--dataset fleet --kind trunk -o m").code == 0);
  std::filesystem::copy(dir / "m/fleet.tpm", dir / "m/ships.tpm");
  refused_with(predict(dir, "ask m" + of_fleet + "--dataset ships"), 65,
               {"ships.tpm", "a model of fleet, not of ships"});
  const auto at = fleet_schema.find("MHz");
  put(dir, "data/fleet.toml", std::string(fleet_schema).replace(at, 3, "GHz"));
  refused_with(predict(dir, "ask m" + of_fleet + "--dataset fleet"), 65, {"units"});
}

TEST_CASE("PRV-3 a model that is damaged or of other features is refused") {
  scratch dir;
  make_fleet(dir);
  REQUIRE(predict(dir, "train" + of_fleet + "--kind trunk -o m").code == 0);
  auto bytes = get(dir, "m/fleet.tpm");
  bytes[bytes.size() / 2] ^= 1;
  std::filesystem::create_directory(dir / "hurt");
  put(dir, "hurt/fleet.tpm", bytes);
  CHECK(predict(dir, "ask hurt" + of_fleet).code == 65);
  put(dir, "data/fleet.toml",
      fleet_schema + "[[feature]]\ncolumn = \"cpu\"\nkind = \"category\"\n");
  CHECK(predict(dir, "ask m" + of_fleet).code == 65);
}

TEST_CASE("a machine that is in no table is asked about by its features, with the nearest name") {
  scratch dir;
  make_fleet(dir);
  REQUIRE(predict(dir, "train" + of_fleet + "--kind trunk -o m").code == 0);
  put(dir, "new.csv", "row_id,cores,mhz\nmine,8,2500\nhuge,8000,2500\n");
  const auto asked = predict(dir, "ask m --row new.csv");
  REQUIRE_MESSAGE(asked.code == 0, asked.talk);
  CHECK(asked.out.find("fleet,mine,score,2") != std::string::npos);
  CHECK(asked.out.find("cpu: cores") != std::string::npos);
  CHECK(predict(dir, "ask m --set cores=8 --set mhz=2500").code == 0);
  for (const auto* verb : {"ask", "explain"}) {
    const auto little = predict(dir, fmt::format("{} m --set cores=8", verb));
    CHECK(little.code == 0);
    CHECK(little.out.find("all: 1 feature not given") != std::string::npos);
    CHECK(little.talk.find("lacks what every train row has") != std::string::npos);
    CHECK(little.talk.find("mhz=") != std::string::npos);
  }
  const auto wrong = predict(dir, "ask m --set core=8");
  CHECK(wrong.code == 65);
  CHECK(wrong.talk.find("did you mean cores?") != std::string::npos);
  CHECK(predict(dir, "ask m --set cores").code == 64);
  for (const auto* value : {"-8", "0"})
    refused_with(predict(dir, fmt::format("ask m --set cores={}", value)), 65,
                 {"cores is", "above 0"});
  for (const auto* more : {"--data data", "--split s.csv", "--part test", "--dataset fleet"})
    refused_with(predict(dir, fmt::format("ask m {} --set cores=8", more)), 64, {"no meaning"});
  put(dir, "twice.csv", "row_id,cores,mhz\na,8,2500\nb,8,2500\na,9,2500\n");
  refused_with(predict(dir, "ask m --row twice.csv"), 65, {"twice.csv:4:", "row_id a"});
  put(dir, "none.csv", "row_id,cores,mhz\na,8,2500\n ,8,2500\n");
  refused_with(predict(dir, "ask m --row none.csv"), 65, {"none.csv:3:", "no row_id"});
  CHECK(predict(dir, "train" + of_fleet + "--kind trnk -o m").code == 64);
  CHECK(predict(dir, "ask m --data data --split s.csv --part tset").code == 64);
}

TEST_CASE("a prediction that no number holds is refused, and no file is made") {
  scratch dir;
  make_fleet(dir);
  std::string schema = fleet_schema;
  for (auto at = schema.find("\"log\""); at != schema.npos; at = schema.find("\"log\""))
    schema.replace(at, 5, "\"number\"");
  put(dir, "data/fleet.toml", schema);
  std::string table = "host,cpu,cores,mhz,score\n";  // so near each other that 1e308 overflows
  for (int i = 0; i < 90; ++i)
    table += fmt::format("h{},m{},{},{},{}\n", i, i % 11, 1 + 1e-3 * (i % 13), 2 + 1e-3 * (i % 29),
                         1 + i % 13 + i % 29);
  put(dir, "data/fleet.csv", table);
  REQUIRE(predict(dir, "train" + of_fleet + "--kind trunk -o m").code == 0);
  const auto asked = predict(dir, "ask m --set cores=1e308 --set mhz=-1e308 -o p.csv");
  refused_with(asked, 65, {"row row of fleet", "cannot be predicted"});
  CHECK_FALSE(std::filesystem::exists(dir / "p.csv"));
}

TEST_CASE("a table of ten rows is learned from by the trunk, and no error of it is told") {
  scratch dir;
  make_fleet(dir);
  std::string few = "dataset,row_id,split\n";
  for (int i = 0; i < 10; ++i) few += fmt::format("fleet,h{},train\n", i);
  put(dir, "s.csv", few);
  const auto told = predict(dir, "train" + of_fleet + "--passes 2 -o m");
  REQUIRE_MESSAGE(told.code == 0, told.talk);
  CHECK(told.out.find("10 rows, too few to choose by; trunk -> m/fleet.tpm") != told.out.npos);
  const auto j =
      nlohmann::json::parse(predict(dir, "train" + of_fleet + "--passes 2 -o m --json").out);
  CHECK(j["kind"] == "trunk");
  CHECK(j["chosen_by"] == "nothing");
  CHECK(j.count("mape_percent") == 0);
}

TEST_CASE("a folder of data that is not there is told apart from one without the data set") {
  scratch dir;
  make_fleet(dir);
  const std::string folder = "there is no folder nowhere";
  for (const auto* verb :
       {"train --data nowhere --split s.csv -o m", "split --data nowhere -o made.csv",
        "eval --data nowhere --folds f.csv --kinds trunk -o st.csv"}) {
    put(dir, "f.csv", "dataset,cpu_model,fold\nfleet,m1,0\nfleet,m2,1\n");
    refused_with(predict(dir, verb), 66, {folder, "--data names the folder"});
  }
  std::filesystem::create_directory(dir / "empty");
  const auto other = predict(dir, "train --data empty --split s.csv -o m");
  refused_with(other, 66, {"no data set fleet in empty"});
  CHECK(other.talk.find("there is no folder") == std::string::npos);
  put(dir, "s.csv", "dataset,row_id,split\nfleet,h0,train\nfleet,h1,train\n");
  refused_with(predict(dir, "train" + of_fleet + "-o m"), 65,
               {"2 train rows with labels", "--val 0 --test 0.1"});
}

TEST_CASE("PSP-2 a data set of one CPU model is dealt out at random, and that is said") {
  scratch dir;
  make_fleet(dir);
  std::string text = fleet();
  for (int m = 10; m >= 0; --m) {
    const auto model = fmt::format(",m{},", m);
    for (auto at = text.find(model); at != text.npos; at = text.find(model))
      text.replace(at, model.size(), ",A100,");
  }
  put(dir, "data/fleet.csv", text);
  const auto done = predict(dir, "split --data data --by cpu -o made.csv");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  CHECK(done.talk.find("fleet: by cpu no row is left to train on") != std::string::npos);
  const auto made = get(dir, "made.csv");
  size_t trains = 0;
  for (auto at = made.find(",train\n"); at != made.npos; at = made.find(",train\n", at + 1))
    ++trains;
  CHECK(trains == 54);
  CHECK(predict(dir, "train --data data --split made.csv --kind trunk -o m").code == 0);
}

TEST_CASE("PSP-2 a split that the program makes is one that it takes") {
  scratch dir;
  make_fleet(dir);
  REQUIRE(predict(dir, "split --data data --by cpu --seed 3 -o made.csv").code == 0);
  const auto once = get(dir, "made.csv");
  REQUIRE(predict(dir, "split --data data --by cpu --seed 3 -o made.csv").code == 0);
  CHECK(get(dir, "made.csv") == once);
  CHECK(std::count(once.begin(), once.end(), '\n') == 91);
  const auto trained = predict(dir, "train --data data --split made.csv --kind trunk -o m");
  CHECK_MESSAGE(trained.code == 0, trained.talk);
  CHECK(predict(dir, "split --data data --by date -o made.csv").code == 65);  // it has no dates
  CHECK(predict(dir, "split --data none --by cpu -o other.csv").code == 66);
  CHECK_FALSE(std::filesystem::exists(dir / "other.csv"));
}

TEST_CASE("a study goes over folds, seeds and kinds, and on from what it has written down") {
  scratch dir;
  make_fleet(dir);
  std::string folds = "dataset,cpu_model,fold\n";
  for (int m = 0; m < 11; ++m) folds += fmt::format("fleet,m{},{}\n", m, m % 2);
  put(dir, "f.csv", folds);
  const std::string of_study =
      "eval --data data --folds f.csv --seeds 2 --passes 1 -o st.csv --kinds ";
  const auto first = predict(dir, of_study + "trunk,mean");
  REQUIRE_MESSAGE(first.code == 0, first.talk);
  auto once = get(dir, "st.csv");  // two folds of two kinds, which no seed changes
  CHECK(std::count(once.begin(), once.end(), '\n') == 5);
  const auto whole = predict(dir, of_study + "mean,trunk,trunk+ncpp,auto,no-intra --json");
  REQUIRE_MESSAGE(whole.code == 0, whole.talk);
  once = get(dir, "st.csv");
  CHECK(std::count(once.begin(), once.end(), '\n') == 17);
  const auto sums = nlohmann::json::parse(whole.out)["study"];
  REQUIRE(sums.size() == 5);
  CHECK(sums[0]["kind"] == "mean");
  CHECK(sums[1]["kind"] == "trunk");
  CHECK(sums[1]["rows"] == 90);
  CHECK(sums[1]["folds"] == 2);
  CHECK(sums[1]["seeds"] == 1);
  CHECK(sums[1]["mape_deviation"].is_null());
  CHECK(sums[1]["mape_percent"].get<double>() < 0.5 * sums[0]["mape_percent"].get<double>());
  CHECK(sums[2]["seeds"] == 2);
  CHECK(sums[2]["mape_deviation"].is_number());
  // Cut short after some of it: the rest is fitted again, to the same bytes.
  size_t end = 0;
  for (int lines = 0; lines < 6; ++lines) end = once.find('\n', end) + 1;
  put(dir, "st.csv", once.substr(0, end));
  const auto again = predict(dir, of_study + "mean,trunk,trunk+ncpp,auto,no-intra --json");
  REQUIRE_MESSAGE(again.code == 0, again.talk);
  CHECK(again.talk.find("5 results of st.csv are there already") != std::string::npos);
  CHECK(get(dir, "st.csv") == once);
  CHECK(again.out == whole.out);
}

TEST_CASE("XTR-1 a study with extra rows is kept apart from one without") {
  scratch dir;
  make_fleet(dir);
  std::string folds = "dataset,cpu_model,fold\n";
  for (int m = 0; m < 11; ++m) folds += fmt::format("fleet,m{},{}\n", m, m % 2);
  put(dir, "f.csv", folds);
  // A row of a model that one of the folds asks about, and one of a model of nobody's.
  put(dir, "x.csv", "host,cpu,cores,mhz,score\nx1,m0,8,2500,20100\nx2,m90,64,3000,1900000\n");
  const std::string of_study = "eval --data data --folds f.csv --kinds trunk -o ";
  const auto with = predict(dir, of_study + "x.st --extra x.csv");
  REQUIRE_MESSAGE(with.code == 0, with.talk);
  REQUIRE(predict(dir, of_study + "st.csv").code == 0);
  CHECK(get(dir, "x.st") != get(dir, "st.csv"));
  refused_with(predict(dir, of_study + "st.csv --extra x.csv"), 64, {"from other folds"});
}

TEST_CASE("a study says nothing of folds and seeds that it was not asked about") {
  scratch dir;
  make_fleet(dir);
  const auto cut = [&](const char* names) {
    std::string folds = "dataset,cpu_model,fold\n";
    for (int m = 0; m < 11; ++m) folds += fmt::format("fleet,m{},{}\n", m, names[m % 2]);
    put(dir, "f.csv", folds);
  };
  cut("01");
  const std::string of_folds = "eval --data data --folds f.csv --passes 1 -o st.csv --kinds ";
  const auto sums_of = [&](const std::string& line) {
    const auto done = predict(dir, line + " --json");
    REQUIRE_MESSAGE(done.code == 0, done.talk);
    return nlohmann::json::parse(done.out)["study"];
  };
  REQUIRE(sums_of(of_folds + "trunk,trunk+ncpp --seeds 2")[1]["seeds"] == 2);
  const auto kept = get(dir, "st.csv");
  // Fewer seeds, and others: kinds without a network are those that are there.
  const auto fewer = sums_of(of_folds + "trunk,trunk+ncpp");
  CHECK(fewer[1]["seeds"] == 1);
  CHECK(fewer[1]["mape_deviation"].is_null());
  const auto other = sums_of(of_folds + "trunk --seed 5");
  CHECK(other[0]["seeds"] == 1);
  CHECK(other[0]["mape_percent"] == fewer[0]["mape_percent"]);
  CHECK(get(dir, "st.csv") == kept);
  // A split's rows are not pooled with those of folds, nor folds with those of other names.
  const std::vector<std::string> said{"st.csv", "other folds"};
  refused_with(predict(dir, "eval --data data --split s.csv --passes 1 -o st.csv --kinds trunk"),
               64, said);
  cut("ab");
  refused_with(predict(dir, of_folds + "mean"), 64, said);
  CHECK(get(dir, "st.csv") == kept);
}

TEST_CASE("studies side by side keep each other's results in one file") {
  scratch dir;
  make_fleet(dir);
  make_second(dir);
  const std::string study =
      "'" TROUPE_PROGRAM
      "' predict eval --data data --split s.csv --kinds trunk,mean,trunk+ncpp "
      "--passes 1 -o st.csv --dataset ";
  const auto both =
      run_in(dir.path, "{ " + study + "ships & p=$!; " + study + "fleet && wait $p; }");
  CHECK_MESSAGE(both.code == 0, both.talk);
  const auto kept = get(dir, "st.csv");
  CHECK(std::count(kept.begin(), kept.end(), '\n') == 7);
}

TEST_CASE("a prediction is explained by factors, and a split by what its features are worth") {
  scratch dir;
  make_fleet(dir);
  REQUIRE(predict(dir, "train" + of_fleet + "--kind trunk+ncpp+local --passes 1 -o m").code == 0);
  const auto row = predict(dir, "explain m --data data --row h5 --json");
  REQUIRE_MESSAGE(row.code == 0, row.talk);
  const auto j = nlohmann::json::parse(row.out);
  CHECK(j["row_id"] == "h5");
  CHECK(j["factors"].size() == 5);  // the mean, two features, network, neighbours
  double product = 1;
  for (const auto& f : j["factors"]) product *= f["by"][0].get<double>();
  CHECK(product == doctest::Approx(j["pred"][0].get<double>()));
  CHECK(predict(dir, "explain m --data data --row h5").out.find("neighbours") != std::string::npos);
  CHECK(predict(dir, "explain m --set cores=8 --set mhz=2500").code == 0);
  const auto whole = predict(dir, "explain m --data data --split s.csv --json");
  REQUIRE_MESSAGE(whole.code == 0, whole.talk);
  const auto found = nlohmann::json::parse(whole.out)["importances"];
  REQUIRE(found.size() == 3);
  CHECK(found[0]["feature"] == "cores");
  CHECK(found[0]["points"].get<double>() > found[1]["points"].get<double>());
  CHECK(found[2]["group"] == "cpu");
  CHECK(predict(dir, "explain m --data data --split s.csv").out.find("cores") != std::string::npos);
  REQUIRE(predict(dir, "explain m --data data --split s.csv --svg p").code == 0);
  const auto worth = get(dir, "p/fleet-importance.svg");
  CHECK(worth.starts_with("<svg"));
  CHECK(worth.find("cpu: cores") != std::string::npos);
  REQUIRE(predict(dir, "ask m" + of_fleet + "-o p.csv").code == 0);
  REQUIRE(predict(dir, "eval p.csv" + of_fleet + "--svg p").code == 0);
  const auto measured = get(dir, "p/fleet-measured.svg");
  CHECK(measured.ends_with("</svg>\n"));
  size_t points = 0;
  for (auto at = measured.find("<circle"); at != measured.npos;
       at = measured.find("<circle", at + 1))
    ++points;
  CHECK(points == 30);
  refused_with(predict(dir, "explain m --data data --row h5 --svg p"), 64, {"--split"});
  refused_with(predict(dir, "explain m --data data --row nobody"), 66, {"nobody"});
  refused_with(predict(dir, "explain m --data data"), 64, {"--row"});
  refused_with(predict(dir, "explain m --row h5"), 64, {"--data"});
  refused_with(predict(dir, "explain m --data data --row h5 --set cores=8"), 64, {"one of"});
  refused_with(predict(dir, "explain m --data data --split s.csv --part val"), 65, {"val"});
}

TEST_CASE("a study is refused where it cannot be what was asked for") {
  scratch dir;
  make_fleet(dir);
  const std::string of_split = "eval --data data --split s.csv --kinds trunk -o st.csv ";
  REQUIRE(predict(dir, of_split).code == 0);
  refused_with(predict(dir, of_split + "--passes 2"), 64, {"st.csv", "trunk of fleet"});
  auto corrected = fleet();  // one clock, of a row that is learned from
  const auto clock = corrected.find("2111", corrected.find("\nh3,"));
  REQUIRE(clock != corrected.npos);
  put(dir, "data/fleet.csv", corrected.replace(clock, 4, "2112"));
  refused_with(predict(dir, of_split), 64, {"st.csv", "trunk of fleet"});
  put(dir, "data/fleet.csv", fleet());
  put(dir, "data/fleet.toml",
      fleet_schema + "[[feature]]\ncolumn = \"cpu\"\ngroup = \"cpu\"\nkind = \"category\"\n");
  refused_with(predict(dir, of_split), 64, {"st.csv", "trunk of fleet"});
  put(dir, "data/fleet.toml", fleet_schema);
  CHECK(predict(dir, of_split).code == 0);
  put(dir, "st.csv", "dataset,fold\nfleet,0\n");
  refused_with(predict(dir, of_split), 65, {"st.csv:1:", "no study"});
  refused_with(predict(dir, "eval --data data --split s.csv --kinds trnk -o x.csv"), 64, {"trnk"});
  refused_with(predict(dir, "eval --data data --split s.csv --seeds 2"), 64, {"-o"});
  refused_with(predict(dir, "eval --data data --kinds trunk -o x.csv"), 64, {"--folds"});
  refused_with(predict(dir, "eval --data data --split s.csv"), 64, {"predictions"});
  refused_with(predict(dir, "eval p.csv --data data --split s.csv --seeds 2"), 64, {"--seeds"});
  put(dir, "f.csv", "dataset,cpu_model,fold\nfleet,m1,0\nfleet,m1,1\n");
  refused_with(predict(dir, "eval --data data --folds f.csv -o x.csv"), 65, {"f.csv:3:", "m1"});
  put(dir, "f.csv", "dataset,cpu_model,fold\nfleet,m1,0\n");
  refused_with(predict(dir, "eval --data data --folds f.csv -o x.csv"), 65, {"two folds"});
  CHECK_FALSE(std::filesystem::exists(dir / "x.csv"));
}

TEST_CASE("STU-2 a study pools the folds of a seed by their rows before it speaks of seeds") {
  using namespace apps::predict;
  study_rows rows;
  const auto add = [&](const std::string& fold, uint64_t seed, const std::string& kind, uint64_t n,
                       double mape) {
    study_row r;
    r.chosen = "trunk";
    r.rows = n;
    r.flagged_rows = n / 10;
    r.mape = mape;
    r.coverage = 95;
    r.r2 = 0.1 + mape / 3;
    r.digest = "00ff";
    rows[{"set", fold, seed, kind}] = r;
  };
  add("0", 0, "trunk", 10, 4);
  add("1", 0, "trunk", 30, 8);
  for (const uint64_t seed : {0, 1}) {
    add("0", seed, "auto", 10, 2 + static_cast<double>(seed));
    add("1", seed, "auto", 30, 6 + static_cast<double>(seed));
  }
  const auto sums = sums_of_study(rows, {"trunk", "auto", "ncpp"});
  REQUIRE(sums.size() == 2);
  CHECK(sums[0].mape == doctest::Approx(7));
  CHECK_FALSE(sums[0].deviation);
  CHECK(sums[1].mape == doctest::Approx(5.5));
  CHECK(sums[1].rows == 40);
  CHECK(sums[1].seeds == 2);
  CHECK(*sums[1].deviation == doctest::Approx(std::sqrt(0.5)));
  CHECK(*sums[1].over_trunk == doctest::Approx(-1.5));
  CHECK(sums[1].mape_by_fold.at("1") == doctest::Approx(6.5));
  CHECK(sums[1].flagged_percent == doctest::Approx(10));
  const auto read = parse_study(study_text(rows), "st.csv");  // STU-1
  REQUIRE(read);
  CHECK(*read == rows);
  CHECK_FALSE(parse_study(study_text(rows) + "set,0,0,trunk,trunk,1,0,1,1,1,1,1,1,x\n", "st.csv"));
  CHECK_FALSE(parse_study(study_text(rows) + "set,0,x,ncpp,ncpp,1,0,1,1,1,1,1,1,x\n", "st.csv"));
}

TEST_CASE("errors are by output, then averaged, and shares are of all values") {
  using apps::predict::judged_value;
  std::vector<judged_value> v;
  v.push_back({0, 0, 100, 104, 90.0, 110.0, false});
  v.push_back({1, 0, 200, 190, 192.0, 199.0, true});
  v.push_back({0, 1, 10, 10, 9.0, 11.0, false});
  v.push_back({1, 1, 20, 22, 19.0, 23.0, true});
  const auto m = apps::predict::measure(v, 2);
  CHECK(m.rows == 2);
  CHECK(m.mae == doctest::Approx((7.0 + 1.0) / 2));
  CHECK(m.mse == doctest::Approx((58.0 + 2.0) / 2));
  CHECK(m.mape == doctest::Approx((4.5 + 5.0) / 2));
  CHECK(m.r2 == doctest::Approx((1 - 116.0 / 5000 + 1 - 4.0 / 50) / 2));
  CHECK(m.p90 == doctest::Approx(5 + 0.7 * 5));
  CHECK(m.under_3 == 25);
  CHECK(m.under_5 == 50);
  CHECK(m.under_10 == 75);
  CHECK(*m.coverage == 75);
  CHECK(*m.mape_unflagged == doctest::Approx(2.0));
}

TEST_CASE("an output that no row was measured of is no part of the averages") {
  const std::vector<apps::predict::judged_value> v = {{0, 1, 10, 11, {}, {}, false},
                                                      {1, 1, 20, 20, {}, {}, false}};
  const auto m = apps::predict::measure(v, 3);
  CHECK(m.mae == doctest::Approx(0.5));
  CHECK(m.mse == doctest::Approx(0.5));
  CHECK(m.mape == doctest::Approx(5.0));
  CHECK(m.r2 == doctest::Approx(1 - 1.0 / 50));
}

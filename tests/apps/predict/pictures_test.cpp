// Pictures of predictions, and what they are drawn of: errors by CPU model, how many values
// intervals hold, attention, the learning curve; through the built program, too.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/predict/metrics.hpp"
#include "apps/predict/pictures.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

report::canvas narrow(bool utf8) {
  report::canvas on;
  on.columns = 40;
  on.rows = 8;
  on.utf8 = utf8;
  return on;
}

size_t times_in(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// What every picture is: whole, readable on dark, and without a sign that ends a text.
void is_picture(const std::string& svg) {
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(times_in(svg, "<text") == times_in(svg, "</text>"));
}

std::string read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Hosts of three groups of features and a category.
void make_drawn_fleet(const scratch& in) {
  std::filesystem::create_directory(in / "data");
  std::string rows = "host,cpu,cores,mhz,mem,disk,tier,score\n", split = "dataset,row_id,split\n";
  for (int i = 0; i < 120; ++i) {
    const double cores = 4 + i % 13, mhz = 2000 + 37 * (i % 29), mem = 16 << (i % 4);
    rows += fmt::format("h{},m{},{},{},{},{},{},{}\n", i, i % 11, cores, mhz, mem, 1 + i % 5,
                        i % 2 == 0 ? "gold" : "silver",
                        cores * mhz * (i % 2 == 0 ? 1.2 : 1) * (1 + 0.03 * std::sin(i)));
    split += fmt::format("fleet,h{},{}\n", i, i % 4 == 3 ? "test" : "train");
  }
  std::string schema = "id = \"host\"\ncpu_model = \"cpu\"\nlabels = [\"score\"]\n";
  for (const auto& [name, group, kind] :
       {std::tuple{"cores", "cpu", "log"}, std::tuple{"mhz", "cpu", "log"},
        std::tuple{"mem", "memory", "log"}, std::tuple{"disk", "io", "number"},
        std::tuple{"tier", "cpu", "category"}})
    schema += fmt::format("[[feature]]\ncolumn = \"{}\"\ngroup = \"{}\"\nkind = \"{}\"\n", name,
                          group, kind);
  std::ofstream(in / "data/fleet.csv") << rows;
  std::ofstream(in / "data/fleet.toml") << schema;
  std::ofstream(in / "s.csv") << split;
}

ended run_predict(const scratch& in, const std::string& arguments) {
  return run_in(in.path, "LC_ALL=C '" TROUPE_PROGRAM "' predict " + arguments);
}

}  // namespace

TEST_CASE("errors by CPU model: the worst first, with their sign and flags, nameless rows apart") {
  using namespace apps::predict;
  std::vector<judged_value> v;
  v.push_back({0, 0, 100, 110, {}, {}, true});
  v.push_back({1, 0, 100, 96, {}, {}, false});
  v.push_back({1, 1, 100, 98, {}, {}, false});
  v.push_back({2, 0, 100, 90, {}, {}, false});
  v.push_back({3, 0, 100, 200, {}, {}, false});
  const auto all = errors_by_model(v, {"A", "B", "A", ""});
  REQUIRE(all.size() == 2);
  CHECK(all[0].cpu_model == "A");
  CHECK(all[0].values == 2);
  CHECK(all[0].flagged == 1);
  CHECK(all[0].mape == doctest::Approx(10));
  CHECK(all[0].bias == doctest::Approx(0));
  CHECK(all[1].mape == doctest::Approx(3));
  CHECK(all[1].bias == doctest::Approx(-3));
}

TEST_CASE("coverage: at 95 % it is what lies within the intervals, elsewhere as a normal's share") {
  using namespace apps::predict;
  std::vector<judged_value> v;
  // Logarithms off by 0, .01 ... .99 half widths, now above and now below, the last beyond its end.
  for (int i = 0; i < 100; ++i) {
    const double off = (i == 99 ? 1.5 : 0.01 * i) * 0.1 * (i % 2 == 0 ? 1 : -1);
    v.push_back({static_cast<size_t>(i), 0, 50 * std::exp(off), 50, 50 * std::exp(-0.1),
                 50 * std::exp(0.1), false});
  }
  const auto points = coverage_of(v);
  REQUIRE(points.size() == 11);
  const auto seen = [&](double asked) {
    for (const auto& p : points)
      if (p.asked == asked) return p.seen;
    return -1.0;
  };
  CHECK(seen(95) == doctest::Approx(99));
  CHECK(seen(95) == doctest::Approx(*measure(v, 1).coverage));
  CHECK(seen(50) == doctest::Approx(35));  // .67449 / 1.95996 half widths
  CHECK(seen(10) == doctest::Approx(7));
  CHECK(seen(99) == doctest::Approx(99));
  // Each side has an end of its own; an interval without a width holds what is right alone.
  const std::vector<judged_value> odd{
      {0, 0, 8, 10, 5.0, 10.5, false}, {1, 0, 8, 8, 8.0, 8.0, false}, {2, 0, 9, 8, 8.0, 8.0, false},
      {3, 0, 9, 8, 8.5, 9.5, false},   {4, 0, 7, 8, 8.5, 9.5, false}, {5, 0, 9, 8, {}, {}, false}};
  for (const auto& p : coverage_of(odd))
    if (p.asked == 95) CHECK(p.seen == doctest::Approx(60));
  CHECK(coverage_of({{0, 0, 1, 1, {}, {}, false}}).empty());
}

TEST_CASE(
    "bars of a terminal: each its line, a stroke where it should end, the other way by sign") {
  using namespace apps::predict;
  const std::vector<picture_bar> bars = {
      {"one", 10, "10", std::nullopt, false}, {"two", 5, "5", 10.0, true}, {"less", -5, "-5"}};
  CHECK(bars_text("title", bars, narrow(false)) ==
        "title\n"
        "one  10           #####################\n"
        "two   5           -----------          |\n"
        "less -5 ----------\n");
  const auto drawn = bars_text("title", bars, narrow(true));
  CHECK(times_in(drawn, "█") == 21);
  CHECK(times_in(drawn, "▒") == 21);
  CHECK(times_in(drawn, "│") == 1);
  // A name that has no room is cut, and no bars at all are a title.
  CHECK(bars_text("t", {{std::string(60, 'x'), 1, "1"}}, narrow(false)).find("xxx... 1 #") !=
        std::string::npos);
  CHECK(bars_text("t", {}, narrow(false)) == "t\n");
}

TEST_CASE("predicted over measured in a terminal counts each value once") {
  using namespace apps::predict;
  std::vector<judged_value> v;
  for (int i = 0; i < 20; ++i) v.push_back({0, 0, 10.0 * (1 + i), 10.0 * (1 + i), {}, {}, false});
  v.push_back({0, 0, 10, -1, {}, {}, true});  // at the bottom
  const auto text = measured_text("t", v, narrow(false));
  int counted = 0;
  for (size_t at = text.find('|'); at != text.npos; at = text.find('|', at + 1))
    for (size_t i = at + 1; text[i] != '\n'; ++i)
      if (text[i] >= '1' && text[i] <= '9') counted += text[i] - '0';
  CHECK(counted == 21);
  CHECK(text.find("     200 |") != std::string::npos);
  CHECK(text.find("      10 |") != std::string::npos);
}

TEST_CASE("pictures are whole, on light and dark, whatever names and numbers they are given") {
  using namespace apps::predict;
  is_picture(bars_picture("a < b & c", {{"x<y", -3, "-3", 1.0}, {std::string(99, 'n'), 4, "4"}}));
  const auto bars = bars_picture("a < b & c", {{"x<y", -3, "-3", 1.0}}, "a note");
  CHECK(bars.find("a &lt; b &amp; c") != std::string::npos);
  CHECK(bars.find("a note") != std::string::npos);
  CHECK(times_in(bars, "class=\"less\"") == 1);
  CHECK(times_in(bars, "class=\"mark\"") == 1);
  is_picture(bars_picture("none", {}));
  const auto coverage = coverage_picture("c", {{50, 40}, {95, 96}, {99, 100}});
  is_picture(coverage);
  CHECK(times_in(coverage, "<circle") == 3);
  const learning_curve curve{{1, 5, 10}, {0.5, 0.3, 0.2}, {0.6, 0.5, 0.45}};
  const auto learned = learning_picture("l", curve);
  is_picture(learned);
  CHECK(times_in(learned, "<path") == 2);
  const auto of_12 = learning_picture("l", {{1, 6, 12}, {0.5, 0.3, 0.2}, {}});
  for (const auto* tick : {">3</text>", ">6</text>", ">12</text>"})  // passes are whole
    CHECK(times_in(of_12, tick) == 1);
  CHECK(times_in(of_12, ">2.4</text>") == 0);
  CHECK(times_in(learning_picture("l", {{1, 5}, {0.5, 0.3}, {}}), "<path") == 1);
  is_picture(attention_picture("a", {{"all of cpu", 0.6, 12}, {"all of io", 0.4, -1}}, "agree"));
  is_picture(attention_picture("a", {{"all of cpu", 0, 0}}, ""));
  const auto text = learning_text("loss", curve, narrow(false));
  CHECK(text.find("0.45 at last; of those learned from 0.2") != std::string::npos);
  CHECK(learning_text("loss", {{1}, {0.5}, {}}, narrow(false)).empty());
}

TEST_CASE("explain tells and draws attention beside worth, and how its network learned") {
  scratch dir;
  make_drawn_fleet(dir);
  const std::string of_fleet = " --data data --split s.csv ";
  REQUIRE(run_predict(dir, "train" + of_fleet + "--kind trunk+ncpp --passes 4 -o m").code == 0);
  const auto told = run_predict(dir, "explain m" + of_fleet + "--svg p --json");
  REQUIRE_MESSAGE(told.code == 0, told.talk);
  const auto j = nlohmann::json::parse(told.out);
  const auto& shares = j.at("attention").at("shares");
  REQUIRE(shares.size() == 9);  // five features; cpu, memory, io and categories
  double sum = 0;
  for (const auto& s : shares)
    if (s["feature"] == "") sum += s["share"].get<double>();
  CHECK(sum == doctest::Approx(1));
  CHECK(shares[8]["group"] == "categories");
  CHECK(std::abs(j["attention"]["groups_agree"].get<double>()) <= 1);
  CHECK(std::abs(j["attention"]["features_agree"].get<double>()) <= 1);
  CHECK(j["learning"]["passes"] == nlohmann::json{1, 2, 3, 4});
  CHECK(j["learning"]["held_out"].size() == 4);
  for (const auto* what : {"importance", "attention", "learning"})
    is_picture(read_all(dir / fmt::format("p/fleet-{}.svg", what)));
  const auto drawn = run_predict(dir, "explain m" + of_fleet + "--draw");
  REQUIRE_MESSAGE(drawn.code == 0, drawn.talk);
  for (const auto* words :
       {"what its network attends to", "rank correlation of attention and worth", "all of cpu",
        "loss by passes", "#####"})
    CHECK(drawn.out.find(words) != std::string::npos);
  CHECK(run_predict(dir, "explain m" + of_fleet + "--draw --json").code == 64);
  CHECK(run_predict(dir, "explain m --data data --row h5 --draw").code == 64);
  // Of a trunk there is no attention, and no curve.
  REQUIRE(run_predict(dir, "train" + of_fleet + "--kind trunk -o t").code == 0);
  const auto plain = run_predict(dir, "explain t" + of_fleet + "--svg q --json");
  CHECK_FALSE(nlohmann::json::parse(plain.out).contains("attention"));
  CHECK_FALSE(std::filesystem::exists(dir / "q/fleet-attention.svg"));
  CHECK_FALSE(std::filesystem::exists(dir / "q/fleet-learning.svg"));
}

TEST_CASE("train averages the networks of several seeds, and says of how many") {
  scratch dir;
  make_drawn_fleet(dir);
  const std::string line = "train --data data --split s.csv --kind trunk+ncpp --passes 2 -o m ";
  const auto told = run_predict(dir, line + "--seeds 3");
  REQUIRE_MESSAGE(told.code == 0, told.talk);
  CHECK(told.out.find("trunk+ncpp of 3 seeds -> m/fleet.tpm") != std::string::npos);
  CHECK(nlohmann::json::parse(run_predict(dir, line + "--seeds 3 --json").out)["seeds"] == 3);
  CHECK(nlohmann::json::parse(run_predict(dir, line + "--json").out)["seeds"] == 1);
  CHECK(run_predict(dir, "ask m --data data --split s.csv").code == 0);
  CHECK(run_predict(dir, line + "--seeds 0").code == 64);
}

TEST_CASE("eval draws errors by CPU model and coverage, into files and on the terminal") {
  scratch dir;
  make_drawn_fleet(dir);
  const std::string of_fleet = " --data data --split s.csv ";
  REQUIRE(run_predict(dir, "train" + of_fleet + "--kind trunk -o m").code == 0);
  REQUIRE(run_predict(dir, "ask m" + of_fleet + "-o p.csv").code == 0);
  const auto told = run_predict(dir, "eval p.csv" + of_fleet + "--svg p --json");
  REQUIRE_MESSAGE(told.code == 0, told.talk);
  const auto set = nlohmann::json::parse(told.out)["sets"][0];
  REQUIRE(set["by_cpu_model"].size() == 11);
  size_t values = 0;
  for (const auto& m : set["by_cpu_model"]) values += m["values"].get<size_t>();
  CHECK(values == 30);
  REQUIRE(set["coverage"].size() == 11);
  CHECK(set["coverage"][9]["asked_percent"] == 95);
  CHECK(set["coverage"][9]["seen_percent"].get<double>() ==
        doctest::Approx(set["coverage_percent"].get<double>()));
  for (const auto* what : {"measured", "models", "coverage"})
    is_picture(read_all(dir / fmt::format("p/fleet-{}.svg", what)));
  const auto drawn = run_predict(dir, "eval p.csv" + of_fleet + "--draw");
  REQUIRE_MESSAGE(drawn.code == 0, drawn.talk);
  for (const auto* words : {"error by CPU model", "95 % asked", "digits: how many values"})
    CHECK(drawn.out.find(words) != std::string::npos);
  CHECK(run_predict(dir, "eval p.csv" + of_fleet + "--draw --json").code == 64);
  CHECK(run_predict(dir, "eval --draw -o st.csv" + of_fleet).code == 64);
  // Any program's predictions: without intervals there is no coverage to draw.
  std::ifstream in(dir / "p.csv");
  std::string bare, line;
  while (std::getline(in, line)) {
    size_t end = 0;
    for (int i = 0; i < 4; ++i) end = line.find(',', end) + 1;
    bare += line.substr(0, end - 1) + "\n";
  }
  std::ofstream(dir / "bare.csv") << bare;
  REQUIRE(run_predict(dir, "eval bare.csv" + of_fleet + "--svg q").code == 0);
  CHECK(std::filesystem::exists(dir / "q/fleet-models.svg"));
  CHECK_FALSE(std::filesystem::exists(dir / "q/fleet-coverage.svg"));
}

// Rows that lack what every train row has: they are completed by train rows like them, flagged, and
// their intervals cover how much those differ.
#include "gpu/predict/fill.hpp"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "gpu/predict/explain.hpp"
#include "gpu/predict/fit.hpp"
#include "tests/gpu/predict/planted.hpp"

using namespace troupe;
using namespace troupe::gpu::predict;

namespace {

predictor trunk_of(const io::perf::perf_table& t) {
  fit_options o;
  o.kind = "trunk";
  return predictor(*fit_predictor(t, halves_of(t).first, {}, o));
}

/// A machine of which only the cores are known.
io::perf::perf_row of_cores(double cores) {
  io::perf::perf_row r;
  r.id = "row";
  r.numbers = {cores, io::perf::absent, io::perf::absent, io::perf::absent};
  r.words = {"", "", "", ""};
  return r;
}

}  // namespace

TEST_CASE("a machine of which little is said is flagged, and its interval covers those like it") {
  const auto t = planted_table(600, 21);
  auto p = trunk_of(t);
  const auto whole = p.ask({halves_of(t).second[0]})[0];
  CHECK(whole.flag.empty());
  CHECK_FALSE(whole.completed);
  for (const double cores : {5.0, 20.0, 100.0}) {
    const auto row = of_cores(cores);
    const auto said = p.ask({&row})[0];
    CHECK(said.flag == "all: 3 features not given");
    CHECK(said.upper[0] / said.lower[0] > 1.2 * whole.upper[0] / whole.lower[0]);
    CHECK(said.lower[0] <= said.value[0]);
    CHECK(said.value[0] <= said.upper[0]);
    int like = 0, within = 0;
    for (const auto* r : halves_of(t).second) {
      if (std::abs(std::log(r->numbers[0] / cores)) > 0.1) continue;
      ++like;
      within += said.lower[0] <= r->labels[0] && r->labels[0] <= said.upper[0] ? 1 : 0;
    }
    CAPTURE(like);
    CHECK(like >= 3);
    CHECK(within >= 0.75 * like);
  }
}

TEST_CASE("DON-2 what a row gives is kept, and all that it lacks comes from one train row") {
  const auto t = planted_table(200, 22);
  const auto p = trunk_of(t);
  const auto row = of_cores(20);
  const auto all = completions_of(p.model(), row);
  REQUIRE(all.size() >= 8);
  for (const auto& made : all) {
    CHECK(made.numbers[0] == 20);
    const auto from = std::find_if(t.rows.begin(), t.rows.end(), [&](const auto& r) {
      return r.numbers[1] == made.numbers[1] && r.numbers[2] == made.numbers[2];
    });
    REQUIRE(from != t.rows.end());
    CHECK(from->words[3] == made.words[3]);
    CHECK(std::abs(std::log(from->numbers[0] / 20)) < 0.5);  // it is one of the nearest
  }
}

TEST_CASE("DON-1 a row that lacks what some train rows lack, too, is asked about as it is") {
  auto t = planted_table(200, 23);
  for (size_t i = 0; i < t.rows.size(); i += 5) t.rows[i].numbers[2] = io::perf::absent;
  auto p = trunk_of(t);
  auto row = *halves_of(t).second[0];
  row.numbers[2] = io::perf::absent;
  const auto said = p.ask({&row})[0];
  CHECK_FALSE(said.completed);
  CHECK(said.flag.empty());
  row.numbers[1] = io::perf::absent;
  CHECK(p.ask({&row})[0].completed);
}

TEST_CASE("FAC-1 the factors of a row that was completed have its prediction as their product") {
  const auto t = planted_table(200, 24);
  auto p = trunk_of(t);
  const auto row = of_cores(20);
  const auto said = p.ask({&row})[0];
  REQUIRE(said.completed);
  double product = 1;
  for (const auto& f : factors_of(p, *said.completed)) product *= f.by[0];
  CHECK(product == doctest::Approx(said.value[0]));
}

TEST_CASE("TPM-2 a model whose train rows are cut short or of impossible values is refused") {
  const auto t = planted_table(60, 25);
  const auto refused = [&](auto change) {
    auto p = trunk_of(t);
    change(p.model().donors);
    const auto made = io::perf::decode(io::perf::encode(p.model()), "x.tpm");
    return !made && made.error().is(io::perf::bad_model);
  };
  CHECK(refused([](auto& d) { d.pop_back(); }));
  CHECK(refused([](auto& d) { d.clear(); }));
  CHECK(refused([](auto& d) { d[0] = INFINITY; }));
  for (const double code : {0.0, 3.0, 1.5}) CHECK(refused([&](auto& d) { d[3] = code; }));
  CHECK_FALSE(refused([](auto& d) { d[3] = NAN; }));
}

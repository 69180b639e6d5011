// Rows of a smaller weight: what they count for in the trunk and the network, and what they have no
// part in.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "gpu/predict/fit.hpp"
#include "gpu/predict/network.hpp"
#include "gpu/predict/random.hpp"
#include "gpu/predict/ridge.hpp"
#include "io/perf/extra.hpp"
#include "tests/gpu/predict/planted.hpp"

using namespace troupe;
using namespace troupe::gpu::predict;

namespace {

/// Machines of a tier that no row of planted_table() has, 1.6 times as quick as silver.
io::perf::perf_table planted_bronze(int rows, double weight) {
  auto t = planted_table(rows, 77);
  for (auto& r : t.rows) {
    r.id = "x" + r.id;
    r.labels[0] *= r.words[3] == "gold" ? 1.6 / 1.3 : 1.6;
    r.words[3] = "bronze";
    r.cpu_model = "bronze " + r.cpu_model;
    r.weight = weight;
  }
  return t;
}

}  // namespace

TEST_CASE("a row of half a weight, twice, is to the trunk what it is once") {
  random_numbers draw(9);
  const size_t n = 30, p = 3;
  std::vector<double> x, y, twice_x, twice_y, weights;
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> row;
    for (size_t j = 0; j < p; ++j) row.push_back(draw.uniform());
    const double target = row[0] - 2 * row[1] + 0.3 * draw.uniform();
    x.insert(x.end(), row.begin(), row.end());
    y.push_back(target);
    const size_t copies = i % 3 == 0 ? 2 : 1;
    for (size_t c = 0; c < copies; ++c) {
      twice_x.insert(twice_x.end(), row.begin(), row.end());
      twice_y.push_back(target);
      weights.push_back(1.0 / static_cast<double>(copies));
    }
  }
  const auto once = fit_ridge(x, y, n, p, 1, {2.0});
  const auto twice = fit_ridge(twice_x, twice_y, twice_y.size(), p, 1, {2.0}, {}, weights);
  for (size_t j = 0; j < p; ++j) {
    CHECK(twice.weights[j] == doctest::Approx(once.weights[j]).epsilon(1e-9));
    CHECK(twice.column_means[j] == doctest::Approx(once.column_means[j]).epsilon(1e-9));
  }
  CHECK(twice.offsets[0] == doctest::Approx(once.offsets[0]).epsilon(1e-9));
}

TEST_CASE("the trunk's strength is chosen by rows of full weight, each or each group left out") {
  random_numbers draw(10);
  const size_t n = 24, p = 2;
  std::vector<double> x, y, weights;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < p; ++j) x.push_back(draw.uniform());
    y.push_back(x[i * p] + 0.2 * draw.uniform() + (i % 2 == 0 ? 0 : 3));
    weights.push_back(i % 2 == 0 ? 1 : 0.3);
  }
  double squares = 0;
  for (size_t left = 0; left < n; left += 2) {
    auto fewer_x = x, fewer_y = y, fewer_weights = weights;
    const auto at = static_cast<std::ptrdiff_t>(left);
    fewer_x.erase(fewer_x.begin() + at * 2, fewer_x.begin() + at * 2 + 2);
    fewer_y.erase(fewer_y.begin() + at);
    fewer_weights.erase(fewer_weights.begin() + at);
    const auto fit = fit_ridge(fewer_x, fewer_y, n - 1, p, 1, {0.01}, {}, fewer_weights);
    double told = 0;
    ridge_predict(fit, x.data() + left * p, &told);
    squares += (y[left] - told) * (y[left] - told);
  }
  const double honest = std::sqrt(squares / (n / 2.0));
  CHECK(fit_ridge(x, y, n, p, 1, {0.01}, {}, weights).left_out_rmse ==
        doctest::Approx(honest).epsilon(0.02));
  std::vector<int> alone(n);
  for (size_t i = 0; i < n; ++i) alone[i] = static_cast<int>(i);
  CHECK(fit_ridge(x, y, n, p, 1, {0.01}, alone, weights).left_out_rmse ==
        doctest::Approx(honest).epsilon(0.02));
}

TEST_CASE("the network's loss and gradient are the means of its rows by their weights") {
  network_shape s;
  s.group_of_number = {0, 0};
  s.groups = 1;
  s.width = s.hidden = 8;
  network net(s, 3);
  random_numbers draw(4);
  for (auto& w : net.parameters()) w += 0.3f * draw.normal();
  network_rows rows{2, 2, 0, {}, {0, 0, 0, 0}, {}};
  for (int i = 0; i < 4; ++i) rows.z.push_back(draw.normal());
  const std::vector<float> targets = {2.5f, -0.5f};
  const std::vector<int> first = {0}, second = {1}, both = {0, 1};
  const double a = net.loss(rows, targets, first);
  const auto by_first = net.gradient();
  const double b = net.loss(rows, targets, second);
  const auto by_second = net.gradient();
  rows.weights = {1, 0.25f};
  CHECK(net.loss(rows, targets, both) == doctest::Approx((a + 0.25 * b) / 1.25));
  for (size_t i = 0; i < by_first.size(); ++i)
    CHECK(net.gradient()[i] ==
          doctest::Approx((by_first[i] + 0.25f * by_second[i]) / 1.25f).epsilon(1e-3).scale(1e-3));
}

TEST_CASE(
    "FIT-4 extra rows teach what train rows lack, and judge, neighbour and complete nothing") {
  const auto own = planted_table(200, 16);
  const auto more = planted_bronze(120, io::perf::extra_weight), asked = planted_bronze(40, 1);
  fit_options o;
  o.passes = 3;
  o.kind = "trunk+ncpp+local";
  const auto error_of = [&](const row_list& extra) {
    o.extra = extra;
    auto m = fit_predictor(own, rows_in(own), {}, o);
    REQUIRE(m);
    CHECK(m->train_rows == 200);
    CHECK(m->extra_rows == extra.size());
    CHECK(m->local->residuals.size() == 200);
    CHECK(m->donors.size() == 200 * own.features.size());
    predictor p(std::move(*m));
    double sum = 0;
    const auto told = p.ask(rows_in(asked));
    for (size_t i = 0; i < told.size(); ++i)
      sum += std::abs(told[i].value[0] / asked.rows[i].labels[0] - 1);
    return sum / static_cast<double>(told.size());
  };
  const double without = error_of({}), with = error_of(rows_in(more));
  CAPTURE(without);
  CHECK(with < 0.8 * without);
}

TEST_CASE("FIT-4 an extra row is in no fold that holds its CPU model out") {
  // Each CPU model has a factor and a level of its own, and the extra rows are the train rows
  // again: a fold that had those of its models would find its error small, by what they told it.
  auto own = planted_table(200, 16);
  for (auto& r : own.rows) {
    const auto lot = static_cast<double>(std::stoi(r.cpu_model.substr(5)) % 7);
    r.labels[0] *= 1 + 0.2 * lot;
    r.words[3] = r.cpu_model;
  }
  auto again = own;
  for (auto& r : again.rows) {
    r.id = "x" + r.id;
    r.weight = 0.999;
  }
  fit_options o;
  o.kind = "trunk";
  const auto alone = fit_predictor(own, rows_in(own), {}, o);
  o.extra = rows_in(again);
  const auto beside = fit_predictor(own, rows_in(own), {}, o);
  REQUIRE(alone);
  REQUIRE(beside);
  const auto told = [](const ModelT& m) {
    return (*std::find_if(m.scores.begin(), m.scores.end(),
                          [](const auto& s) { return s->kind == "trunk"; }))
        ->mape;
  };
  CHECK(told(*beside) > 0.9 * told(*alone));
}

// Step times that are learned while runs are made: planted functions with nodes of their own speed,
// intervals, what little says, what is refused, and that a fit is the same bits whenever it is
// made.
#include "gpu/predict/online_policy.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/predict/gaussian_process.hpp"
#include "gpu/predict/random.hpp"

using namespace troupe;
using namespace troupe::gpu::predict;
using io::perf::feature_kind;

namespace {

const std::vector<feature_kind> batch_and_depth = {feature_kind::log_number, feature_kind::number};

/// Of some batch and depth.
step_configuration drawn_configuration(random_numbers& draw) {
  const double batch = std::exp(3 * draw.unit()), depth = 1 + 10 * draw.unit();
  return {{batch, depth}, 1e-3 * batch * depth};
}

/// What of its roofline the planted machine reaches is a curve that no line is.
double planted_seconds(const step_configuration& c) {
  const double batch = c.features[0], depth = c.features[1];
  return c.roofline_s * 2.5 * std::pow(batch, -0.1) *
         std::exp(0.2 * std::sin(1.5 * std::log(batch)) + 0.02 * depth);
}

/// Told of that many configurations, each on one of three nodes, the last 10 % slower.
online_policy planted_policy(int configurations, uint64_t seed, double noise = 0) {
  random_numbers draw(seed);
  online_policy out(batch_and_depth);
  for (int i = 0; i < configurations; ++i) {
    const auto c = drawn_configuration(draw);
    const uint64_t node = 7 + draw.below(3);
    const double slow = node == 9 ? 1.1 : 1.0;
    REQUIRE(out.hear(c, node, slow * planted_seconds(c) * std::exp(noise * draw.normal())));
  }
  return out;
}

step_estimate answer_of(const online_policy& p, const step_configuration& c, uint64_t node = 7) {
  const auto said = p.ask(c, node);
  REQUIRE(said);
  REQUIRE(*said);
  return **said;
}

bool same_bits(const step_estimate& a, const step_estimate& b) {
  return a.seconds == b.seconds && a.least_s == b.least_s && a.most_s == b.most_s &&
         a.configurations == b.configurations && a.outside == b.outside;
}

process_data drawn_data(size_t rows, uint64_t seed) {
  random_numbers draw(seed);
  process_data out{rows, 2, {}, {}, std::vector<double>(rows * rows, 0.0)};
  for (size_t i = 0; i < rows; ++i) {
    const double a = draw.normal(), b = draw.normal();
    out.x.insert(out.x.end(), {a, b});
    out.y.push_back(std::sin(a) + 0.3 * b);
    out.covariance[i * rows + i] = 0.01 * draw.unit();
  }
  return out;
}

}  // namespace

TEST_CASE("a process leaves each row out in closed form as if it had been made without it") {
  const auto whole = drawn_data(12, 1);
  const process_scales scales{{0.7, 2.0}, 0.2, 0.5, 0.003};
  const gaussian_process process(whole, scales);
  const auto left = process.left_out();
  REQUIRE(left.size() == 12);
  for (size_t out = 0; out < 12; ++out) {
    process_data fewer{11, 2, {}, {}, {}};
    for (size_t i = 0; i < 12; ++i) {
      if (i == out) continue;
      fewer.x.insert(fewer.x.end(), {whole.x[2 * i], whole.x[2 * i + 1]});
      fewer.y.push_back(whole.y[i]);
      for (size_t j = 0; j < 12; ++j)
        if (j != out) fewer.covariance.push_back(whole.covariance[i * 12 + j]);
    }
    const auto said = gaussian_process(fewer, scales).ask(&whole.x[2 * out]);
    CHECK(left[out].residual == doctest::Approx(whole.y[out] - said.mean).epsilon(1e-6));
    CHECK(
        left[out].variance ==
        doctest::Approx(said.variance + scales.nugget + whole.covariance[out * 13]).epsilon(1e-6));
  }
}

TEST_CASE("a process' answer beside one row is that row's by their covariance") {
  const process_data one{1, 1, {0.5}, {2.0}, {0.25}};
  const gaussian_process process(one, {{1.0}, 0.1, 0.4, 0.05});
  const double place = -0.5;
  const double own = 1 + 0.1 * 0.25 + 0.4, shared = 1 - 0.1 * 0.25 + 0.4 * std::exp(-0.5);
  const double noisy = own + 0.05 + 0.25;
  const auto said = process.ask(&place);
  CHECK(said.mean == doctest::Approx(2 * shared / noisy));
  CHECK(said.variance == doctest::Approx(own - shared * shared / noisy));
}

TEST_CASE("a process' scales are long where nothing bends, and the same for as many rows at most") {
  auto data = drawn_data(60, 2);
  for (size_t i = 0; i < 60; ++i) data.y[i] = std::sin(2 * data.x[2 * i]);
  const auto scales = choose_scales(data, 60);
  CHECK(scales.lengths[0] < 1.5);
  CHECK(scales.lengths[1] > 3 * scales.lengths[0]);
  CHECK(scales.bent > scales.nugget);
  process_data half{30, 2, {}, {}, {}};
  for (size_t i = 0; i < 60; i += 2) {
    half.x.insert(half.x.end(), {data.x[2 * i], data.x[2 * i + 1]});
    half.y.push_back(data.y[i]);
    for (size_t j = 0; j < 60; j += 2) half.covariance.push_back(data.covariance[i * 60 + j]);
  }
  CHECK(choose_scales(data, 30).lengths == choose_scales(half, 30).lengths);
}

TEST_CASE("steps of a planted machine are foretold, the slow node is known, and intervals hold") {
  auto p = planted_policy(150, 11, 0.01);
  p.fit();
  random_numbers draw(12);
  double off = 0, held = 0;
  constexpr int asked = 200;
  for (int i = 0; i < asked; ++i) {
    const auto c = drawn_configuration(draw);
    const double came = 1.1 * planted_seconds(c) * std::exp(0.01 * draw.normal());
    const auto said = answer_of(p, c, 9);
    off += std::abs(said.seconds / came - 1) / asked;
    held += (said.least_s <= came && came <= said.most_s ? 1.0 : 0.0) / asked;
    CHECK(said.configurations == 150);
  }
  CHECK(off < 0.02);
  CHECK(held > 0.85);
  const auto slow = p.effect_of(9), other = p.effect_of(7), third = p.effect_of(8);
  CHECK(slow.mean - other.mean == doctest::Approx(std::log(1.1)).epsilon(0.15));
  CHECK(std::abs(third.mean - other.mean) < 0.015);
  CHECK(slow.deviation < 0.06);
  const auto never = p.effect_of(1234);
  CHECK(never.mean == 0);
  CHECK(never.deviation == doctest::Approx(0.08));
}

TEST_CASE("an estimate is the product of its factors: the rule, the line, the bend, the node") {
  auto p = planted_policy(120, 5, 0.02);
  const step_configuration asked{{4.0, 6.0}, 0.024};
  const auto nothing = p.explain(asked, 7);
  REQUIRE(nothing);
  CHECK_FALSE(*nothing);
  p.fit();
  for (const uint64_t node : {7, 9, 100}) {
    CAPTURE(node);
    const auto said = p.explain(asked, node);
    REQUIRE(said);
    REQUIRE(*said);
    const auto& f = **said;
    CHECK(same_bits(f.is, answer_of(p, asked, node)));
    CHECK(f.rule_s == asked.roofline_s);
    CHECK(f.rule_s * f.line * f.bend * f.node == doctest::Approx(f.is.seconds));
    CHECK(f.noise > 0);
    // Both parts of the interval, as of two that know nothing of each other.
    const double whole = std::log(f.is.most_s / f.is.seconds);
    CHECK(std::hypot(std::log1p(f.doubt), std::log1p(f.noise)) == doctest::Approx(whole));
  }
  const auto slow = **p.explain(asked, 9), quick = **p.explain(asked, 7),
             unseen = **p.explain(asked, 100);
  CHECK(slow.node / quick.node == doctest::Approx(1.1).epsilon(0.02));
  CHECK(unseen.node == 1);
  CHECK(unseen.node_samples == 0);
  CHECK(slow.node_samples > 20);
  CHECK(unseen.doubt > 2 * slow.doubt);
  CHECK_FALSE(p.explain({{4.0}, 1}, 7));
}

TEST_CASE("nodes that share configurations are told apart to a part of what their repeats differ") {
  random_numbers draw(13);
  online_policy p(batch_and_depth);
  for (int i = 0; i < 6; ++i) {
    const auto c = drawn_configuration(draw);
    for (int again = 0; again < 4; ++again)
      for (uint64_t node = 0; node < 4; ++node)
        REQUIRE(
            p.hear(c, node,
                   planted_seconds(c) * (node == 2 ? 1.2 : 1.0) * std::exp(0.005 * draw.normal())));
  }
  p.fit();
  CHECK(p.configurations() == 6);
  CHECK(p.nodes() == 4);
  const double usual = (p.effect_of(0).mean + p.effect_of(1).mean + p.effect_of(3).mean) / 3;
  CHECK(p.effect_of(2).mean - usual == doctest::Approx(std::log(1.2)).epsilon(0.05));
}

TEST_CASE("one measurement is believed of its own configuration, and said to be little") {
  online_policy p(batch_and_depth);
  const step_configuration c{{8, 4}, 0.01};
  REQUIRE(p.ask(c, 7));
  CHECK_FALSE(*p.ask(c, 7));
  REQUIRE(p.hear(c, 7, 0.05));
  CHECK_FALSE(*p.ask(c, 7));
  p.fit();
  const auto said = answer_of(p, c);
  CHECK(said.seconds == doctest::Approx(0.05).epsilon(1e-6));
  CHECK(said.configurations == 1);
  CHECK(said.most_s / said.least_s > 1.5);
  CHECK_FALSE(said.outside);
  const auto elsewhere = answer_of(p, c, 8);
  CHECK(elsewhere.most_s / elsewhere.least_s > said.most_s / said.least_s);
  // What the roofline says is followed, with less certainty the farther.
  const auto larger = answer_of(p, {{16, 4}, 0.02});
  CHECK(larger.seconds == doctest::Approx(0.1).epsilon(1e-6));
  CHECK(larger.most_s / larger.least_s > said.most_s / said.least_s);
  CHECK(larger.outside == 0);
}

TEST_CASE("repeats are one configuration, whose interval is what they differ by and more") {
  const auto width_of = [](double noise) {
    random_numbers draw(14);
    online_policy p(batch_and_depth);
    for (int i = 0; i < 12; ++i) {
      const auto c = drawn_configuration(draw);
      for (int again = 0; again < 20; ++again)
        REQUIRE(p.hear(c, 7, planted_seconds(c) * std::exp(noise * draw.normal())));
    }
    p.fit();
    CHECK(p.configurations() == 12);
    random_numbers same(14);
    const auto said = answer_of(p, drawn_configuration(same));
    return std::log(said.most_s / said.least_s);
  };
  CHECK(width_of(0.2) > 2 * 1.96 * 0.15);
  CHECK(width_of(0.2) > width_of(0.01));
}

TEST_CASE("a feature that never changes tells nothing, and another value of it is outside") {
  random_numbers draw(15);
  const std::vector<feature_kind> three = {feature_kind::log_number, feature_kind::number,
                                           feature_kind::number};
  online_policy with(three), without(batch_and_depth);
  const auto widened = [](step_configuration c, double value) {
    c.features.push_back(value);
    return c;
  };
  for (int i = 0; i < 30; ++i) {
    const auto c = drawn_configuration(draw);
    REQUIRE(with.hear(widened(c, 3), 7, planted_seconds(c)));
    REQUIRE(without.hear(c, 7, planted_seconds(c)));
  }
  with.fit();
  without.fit();
  const step_configuration c{{5, 5}, 0.025};
  const auto said = answer_of(with, widened(c, 3));
  CHECK(said.seconds == doctest::Approx(answer_of(without, c).seconds).epsilon(0.01));
  CHECK_FALSE(said.outside);
  CHECK(answer_of(with, widened(c, 4)).outside == 2);
  CHECK(answer_of(with, widened({{5000, 5}, 25}, 3)).outside == 0);
}

TEST_CASE("without any feature there is one configuration a roofline, and their factor") {
  online_policy p({});
  REQUIRE(p.hear({{}, 1}, 7, 2));
  REQUIRE(p.hear({{}, 3}, 7, 6));
  p.fit();
  CHECK(p.configurations() == 2);
  CHECK(answer_of(p, {{}, 10}).seconds == doctest::Approx(20).epsilon(1e-6));
}

TEST_CASE("ONL-3: impossible samples and questions are refused, and change nothing") {
  auto p = planted_policy(20, 16);
  auto untouched = planted_policy(20, 16);
  const step_configuration good{{8, 4}, 0.01};
  const auto refused = [&](const step_configuration& c, double seconds) {
    const auto heard = p.hear(c, 7, seconds);
    return !heard && heard.error().is(bad_step_sample);
  };
  for (const double seconds : {0.0, -1.0, 1e300, 1e-300, double(INFINITY), double(NAN)})
    CHECK(refused(good, seconds));
  for (const double x : {0.0, -8.0, double(INFINITY), double(NAN), 1e300})
    CHECK(refused({{x, 4}, 0.01}, 1));
  for (const double x : {double(-INFINITY), double(NAN), 1e30}) CHECK(refused({{8, x}, 0.01}, 1));
  for (const double x : {0.0, -1.0, double(INFINITY), double(NAN)}) CHECK(refused({{8, 4}, x}, 1));
  CHECK(refused({{8}, 0.01}, 1));
  CHECK(refused({{8, 4, 2}, 0.01}, 1));
  p.fit();
  untouched.fit();
  CHECK(same_bits(answer_of(p, good), answer_of(untouched, good)));
  const auto asked = p.ask({{0, 4}, 0.01}, 7);
  CHECK_FALSE(asked);
  CHECK(asked.error().is(bad_step_sample));
  online_policy of_words({feature_kind::category});
  CHECK(of_words.hear({{1}, 1}, 7, 1).error().is(bad_step_sample));
}

TEST_CASE("an answer far from all that is known is finite, and so is its interval") {
  auto p = planted_policy(20, 17);
  p.fit();
  for (const auto& c : {step_configuration{{1e40, 4}, 1}, {{1e-40, -1e9}, 1}, {{8, 1e9}, 1e-9}}) {
    const auto said = answer_of(p, c);
    CHECK(std::isfinite(said.most_s));
    CHECK(said.least_s <= said.seconds);
    CHECK(said.seconds <= said.most_s);
    CHECK(said.outside);
  }
}

TEST_CASE("ONL-1: fitted once or often, by one policy or another, the bits are the same") {
  auto once = planted_policy(40, 18, 0.02);
  once.fit();
  auto often = planted_policy(20, 18, 0.02);
  random_numbers draw(18);
  for (int i = 0; i < 40; ++i) {  // the same numbers as planted_policy drew, from the first on
    const auto c = drawn_configuration(draw);
    const uint64_t node = 7 + draw.below(3);
    const double slow = node == 9 ? 1.1 : 1.0;
    const double came = slow * planted_seconds(c) * std::exp(0.02 * draw.normal());
    if (i < 20) continue;
    often.fit();
    REQUIRE(often.hear(c, node, came));
  }
  often.fit();
  often.fit();
  const auto moved = std::move(often);
  for (int i = 0; i < 10; ++i) {
    const auto c = drawn_configuration(draw);
    CHECK(same_bits(answer_of(once, c), answer_of(moved, c)));
  }
  CHECK(once.effect_of(9).mean == moved.effect_of(9).mean);
}

TEST_CASE("ONL-4: what is told after a fit is in no answer before the next one") {
  auto p = planted_policy(20, 19);
  p.fit();
  const step_configuration c{{8, 4}, 0.032};
  const auto before = answer_of(p, c);
  const auto effect = p.effect_of(7);
  REQUIRE(p.hear(c, 7, 40 * before.seconds));
  CHECK(same_bits(answer_of(p, c), before));
  CHECK(p.effect_of(7).mean == effect.mean);
  p.fit();
  CHECK(answer_of(p, c).seconds > 1.5 * before.seconds);
}

TEST_CASE("ONL-5: a fit that is cut short changes no answer, wherever that is, and stays due") {
  auto p = planted_policy(40, 21, 0.02);
  p.fit();
  random_numbers draw(22);
  for (int i = 0; i < 40; ++i) {
    const auto c = drawn_configuration(draw);
    REQUIRE(p.hear(c, 8, 2 * planted_seconds(c)));
  }
  const step_configuration c{{8, 4}, 0.032};
  const auto before = answer_of(p, c);
  const auto effect = p.effect_of(8);
  int looks = 0, cut = 0;
  for (;; ++cut) {
    looks = 0;
    if (p.fit([&] { return looks++ >= cut; })) break;
    CHECK(looks <= cut + 2);  // it has gone no further
    CHECK(same_bits(answer_of(p, c), before));
    CHECK(p.effect_of(8).mean == effect.mean);
    REQUIRE(p.fit_due());
    REQUIRE(cut < 1000);
  }
  CHECK(cut > 10);
  CHECK_FALSE(p.fit_due());
  const auto cut_often = answer_of(p, c);
  CHECK_FALSE(same_bits(cut_often, before));
  p.fit();
  CHECK(same_bits(answer_of(p, c), cut_often));
}

TEST_CASE(
    "a fit is due once there is something, then after a part more configurations or samples") {
  online_policy p(batch_and_depth);
  CHECK_FALSE(p.fit_due());
  random_numbers draw(20);
  const auto tell = [&] {
    const auto c = drawn_configuration(draw);
    REQUIRE(p.hear(c, 7, planted_seconds(c)));
  };
  tell();
  CHECK(p.fit_due());
  p.fit();
  CHECK_FALSE(p.fit_due());
  for (int i = 0; i < 31; ++i) tell();
  CHECK(p.fit_due());
  p.fit();
  for (int i = 0; i < 3; ++i) tell();
  CHECK_FALSE(p.fit_due());
  for (int i = 0; i < 2; ++i) tell();
  CHECK(p.fit_due());
  p.fit();
  const step_configuration again{{8, 4}, 0.032};
  int repeats = 0;
  for (; !p.fit_due() && repeats < 100; ++repeats) REQUIRE(p.hear(again, 7, 0.08));
  CHECK(repeats > 8);
  CHECK(repeats < 32);
  p.fit();
  p.forget(7);
  CHECK(p.configurations() == 0);
  CHECK(p.fit_due());
  p.fit();
  CHECK_FALSE(p.fit_due());
  CHECK_FALSE(*p.ask(again, 7));
}

TEST_CASE("ONL-2: the newest configurations are kept, and no more nodes than are known at once") {
  online_policy p({feature_kind::number});
  const auto configuration = [](size_t i) { return step_configuration{{double(i)}, 1}; };
  for (size_t i = 0; i < kept_configurations; ++i) REQUIRE(p.hear(configuration(i), i % 3, 1));
  CHECK(p.configurations() == kept_configurations);
  REQUIRE(p.hear(configuration(0), 0, 1));  // it is the newest now
  REQUIRE(p.hear(configuration(kept_configurations), 9, 1));
  CHECK(p.configurations() == kept_configurations);
  CHECK(p.nodes() == 4);
  REQUIRE(p.hear(configuration(0), 10, 1));  // still known: none more
  CHECK(p.configurations() == kept_configurations);
  for (uint64_t node = 100; p.nodes() < known_nodes; ++node)
    REQUIRE(p.hear(configuration(0), node, 1));
  const auto heard = p.hear(configuration(0), 99, 1);
  CHECK_FALSE(heard);
  CHECK(heard.error().is(too_many_step_nodes));
  p.forget(100);
  CHECK(p.hear(configuration(0), 99, 1));
  CHECK(p.nodes() == known_nodes);
}

TEST_CASE("ONL-2: as many configurations are kept as it was made for") {
  online_policy few({feature_kind::number}, 2), none({feature_kind::number}, 0),
      many({feature_kind::number}, 10 * kept_configurations);
  for (size_t i = 0; i <= kept_configurations; ++i)
    for (auto* p : {&few, &none, &many}) REQUIRE(p->hear({{double(i)}, 1}, 1, 1));
  CHECK(few.configurations() == 2);
  CHECK(none.configurations() == 1);
  CHECK(many.configurations() == kept_configurations);
}

// train_state.json there and back, and what it is when it is not one.
#include "actors/job/train_state.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::checkpoint;

TEST_CASE("train state: it is read as it was written, what was set included") {
  const train_state state{7, 1792, 2.5, "[train]\n", {{"train.lr", "0.001", "0.003", 8}}};
  auto back = parse_state(format_state(state));
  REQUIRE(back);
  CHECK(back->step == 7);
  CHECK(back->tokens == 1792);
  CHECK(back->loss == 2.5);
  CHECK(back->config_toml == "[train]\n");
  CHECK(back->set == state.set);
  CHECK(back->replicas_configured == 0);
  auto fewer = state;
  fewer.replicas_configured = 8;
  back = parse_state(format_state(fewer));
  REQUIRE(back);
  CHECK(back->replicas_configured == 8);
  CHECK_FALSE(back->validation_loss);
  fewer.validation_loss = 2.25;
  back = parse_state(format_state(fewer));
  REQUIRE(back);
  CHECK(back->validation_loss == 2.25);
}

TEST_CASE("train state: one without settings is an older one, damaged ones are refused") {
  auto old = parse_state(R"({"format":1,"step":1,"tokens":2,"config":""})");
  REQUIRE(old);
  CHECK(old->set.empty());
  CHECK(old->skipped.empty());
  for (const char* bad : {R"("skipped":{})", R"("skipped":[{"first":1}])",
                          R"("skipped":[{"first":-1,"count":2}])", R"("set":1)", R"("set":[1])",
                          R"("set":[{"key":"a"}])", R"("replicas_configured":-1)",
                          R"("replicas_configured":"2")", R"("replicas_configured":1e99)",
                          R"("set":[{"key":"a","value":"b","was":"c","step":-1}])"}) {
    CAPTURE(bad);
    auto read =
        parse_state(std::string(R"({"format":1,"step":1,"tokens":2,"config":"",)") + bad + "}");
    REQUIRE_FALSE(read);
    CHECK(read.error().code == errc::bad_data);
  }
  train_state full;
  full.set.resize(256, {"train.lr", "1", "2", 1});
  CHECK(parse_state(format_state(full)));
  full.set.push_back(full.set.front());
  CHECK_FALSE(parse_state(format_state(full)));
}

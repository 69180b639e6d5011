// What a person sees, held to golden texts.
#include "apps/report/report.hpp"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace troupe::report;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

step_report example() {
  step_report r;
  r.step = 120;
  r.steps = 300;
  r.loss = 2.9131234567891;
  r.grad_norm = 0.8134567891;
  r.lr = 3e-4;
  r.step_ms = 212.3;
  r.peak_ratio = 0.4131;
  r.tokens_per_s = 9650.2;
  r.eta_s = 38.2;
  return r;
}

}  // namespace

TEST_CASE("report: the step line") {
  auto r = example();
  CHECK(
      step_line(r) ==
      "step 120/300 | loss 2.913 | norm 0.81 | lr 3.0e-4 | 212 ms | 41.3 % of peak | 9,650 tok/s | "
      "ETA 0:38");
  r.peak_ratio = nan_value;
  r.validation_loss = 3.0006;
  r.step_ms = 8.44;
  r.tokens_per_s = 1234567;
  r.eta_s = 3 * 3600 + 62;
  r.lr = 0;
  CHECK(step_line(r) ==
        "step 120/300 | loss 2.913 | validation 3.001 | norm 0.81 | lr 0 | 8.4 ms | 1,234,567 "
        "tok/s | "
        "ETA 3:01:02");
}

TEST_CASE("report: of a step that swaps its limit, and that by what the drive keeps") {
  auto r = example();
  r.step_ms = 1000;
  auto& moved = r.swap.emplace();
  moved.limit_ms = 250;
  moved.bound_by = "disk";
  CHECK(step_line(r).find(" | 0.25 of the limit (disk) | ") != std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(step_json(r)).contains("limit_kept_ms"));
  moved.limit_kept_ms = 800;
  CHECK(step_line(r).find(" | 0.25 of the limit (disk), 0.80 by what the drive keeps | ") !=
        std::string::npos);
  const auto j = nlohmann::json::parse(step_json(r));
  CHECK(j["limit_ms"] == 250);
  CHECK(j["of_limit"] == 0.25);
  CHECK(j["limit_kept_ms"] == 800);
}

TEST_CASE("report: what is not finite does not break the line") {
  step_report r;
  r.loss = nan_value;
  r.grad_norm = std::numeric_limits<double>::infinity();
  r.lr = nan_value;
  r.step_ms = r.tokens_per_s = r.eta_s = nan_value;
  const auto unknown = "step 0/0 | loss nan | norm inf | lr nan | - ms | - tok/s | ETA -";
  CHECK(step_line(r) == unknown);
  r.loss = r.lr = -nan_value;  // what 0 / 0 is on x86
  CHECK(step_line(r) == unknown);
  auto j = nlohmann::json::parse(step_json(r));
  CHECK(j["loss"].is_null());
  CHECK(j["grad_norm"].is_null());
  CHECK(j["peak_ratio"].is_null());
}

TEST_CASE("report: the rewriting line clears and never wraps") {
  auto r = example();
  CHECK(rewriting_line(r, 200) == "\r\x1b[K" + step_line(r));
  CHECK(rewriting_line(r, 40) == "\r\x1b[Kstep 120/300 | loss 2.913 | norm 0.81 |");
  CHECK(rewriting_line(r, 40).size() == 4 + 39);
}

TEST_CASE("report: the JSON line has the same fields, and the loss to the last bit") {
  auto r = example();
  r.checkpoint_wait_ms = 0.25;
  r.saved_step = 119;
  CHECK(step_json(r) ==
        R"({"type":"step","step":120,"steps":300,"loss":2.9131234567891,"grad_norm":0.8134567891,)"
        R"("lr":0.0003,"step_ms":212.3,"peak_ratio":0.4131,"tokens_per_s":9650.2,"eta_s":38.2,)"
        R"("checkpoint_wait_ms":0.25,"saved_step":119,"epoch":0})");
  r.parts = {{"forward", 12.5, 0.5, 4096}, {"reduce_scatter", 3, nan_value, 1ull << 63}};
  CHECK(step_json(r).ends_with(
      R"("saved_step":119,"epoch":0,"parts":[{"kind":"forward","busy_ms":12.5,)"
      R"("waited_ms":0.5,"work":4096},)"
      R"({"kind":"reduce_scatter","busy_ms":3.0,"waited_ms":null,"work":9223372036854775808}]})"));
  r.parts.clear();
  r.unix_s = 1764370000.1239;
  CHECK(step_json(r).ends_with(R"("epoch":0,"unix_s":1764370000.124})"));
  r.loss = 5.857982253051796;
  r.validation_loss = 0.1 + 0.2;
  auto j = nlohmann::json::parse(step_json(r));
  CHECK(j["loss"].get<double>() == r.loss);
  CHECK(j["validation_loss"].get<double>() == 0.1 + 0.2);
  CHECK(step_json(r).find('\n') == std::string::npos);
}

TEST_CASE(
    "report: watts, joules and the pace stand where they are known, and calculated ones are "
    "marked") {
  auto r = example();
  r.power = {61.49, false, 4000.5};
  CHECK(step_line(r).ends_with(" tok/s | 61 W | ETA 0:38"));
  CHECK(step_json(r).ends_with(
      R"("epoch":0,"power_w":61.49,"power_source":"measured","energy_j":4000.5})"));
  r.power->modelled = true;
  r.power->energy_j = -1;
  r.pace_percent = 51.6;
  r.power_wait_ms = 102.5;
  CHECK(step_line(r).ends_with(" tok/s | ~61 W | pace 52 % | ETA 0:38"));
  CHECK(step_json(r).ends_with(
      R"("power_w":61.49,"power_source":"modelled","pace_percent":51.6,"power_wait_ms":102.5})"));
  r.slack = "planned";
  CHECK(nlohmann::json::parse(step_json(r))["slack"] == "planned");

  summary s;
  s.seconds = 40;
  s.steps = 4;
  s.tokens = 1000;
  const canvas plain{40, 5, false};
  CHECK(summary_text(s, plain).find("energy") == std::string::npos);
  CHECK(summary_json(s).find("energy") == std::string::npos);
  s.power = {61, true, 12'345};
  CHECK(summary_text(s, plain).find("energy      ~12,345 J, ~12.3 J a token\n") !=
        std::string::npos);
  s.power_wait_ms = 1240;
  CHECK(summary_text(s, plain).find(
            "~12.3 J a token; power held training up for 1.2 s (3.1 %)\n") != std::string::npos);
  const auto j = nlohmann::json::parse(summary_json(s));
  CHECK(j["energy_j"] == 12'345);
  CHECK(j["energy_source"] == "modelled");
  CHECK(j["energy_a_token_j"] == 12.345);
  CHECK(j["power_wait_ms"] == 1240);
  s.power.reset();
  CHECK(summary_text(s, plain).find("energy      not known; power held training up for 1.2 s") !=
        std::string::npos);
}

TEST_CASE("report: durations") {
  CHECK(duration(0) == "0:00");
  CHECK(duration(59.6) == "1:00");
  CHECK(duration(3599) == "59:59");
  CHECK(duration(90061) == "1 d 1 h");
  CHECK(duration(-1) == "-");
  CHECK(duration(nan_value) == "-");
}

TEST_CASE("report: a curve in braille and in ASCII") {
  std::vector<point> points{{1, 5}, {2, 4}, {3, 3.5}, {4, 3.4}, {20, 3}};
  CHECK(curve(points, {40, 5, true}) ==
        "5.00 ┤⢱\n"
        "     │ ⢣\n"
        "4.00 ┤ ⠈⢆\n"
        "     │   ⠣⢄⣀⣀⣀⣀\n"
        "3.00 ┤         ⠉⠉⠉⠉⠉⠉⠉⠒⠒⠒⠒⠒⠒⠒⠤⠤⠤⠤⠤⠤⠤⣀⣀⣀⣀\n"
        "     └──────────────────────────────────\n"
        "      step 1                          20\n");
  CHECK(curve({{1, 5}, {20, 5}}, {40, 5, false}) ==
        "5.50 |\n"
        "     |\n"
        "5.00 |..................................\n"
        "     |\n"
        "4.50 |\n"
        "     +----------------------------------\n"
        "      step 1                          20\n");
}

TEST_CASE("report: a curve fits its width and survives any points") {
  CHECK(curve({}, {}).empty());
  CHECK(curve({{1, 2}}, {}).empty());
  CHECK(curve({{3, 2}, {3, 1}}, {}).empty());
  CHECK(curve({{1, nan_value}, {2, 1}, {3, nan_value}}, {}).empty());
  for (int columns : {0, 24, 80, 300}) {
    std::vector<point> points;
    for (int i = 0; i < 1000; i++)
      points.push_back({i * 1000, i % 97 == 0 ? nan_value : 1e6 / (i + 1) - 3});
    auto drawn = curve(points, {columns, 6, false});
    size_t begin = 0;
    for (size_t end; (end = drawn.find('\n', begin)) != drawn.npos; begin = end + 1)
      CHECK(end - begin <= static_cast<size_t>(std::max(columns, 24)));
  }
}

TEST_CASE("report: the summary, its sample made harmless") {
  summary s;
  s.seconds = 118.4;
  s.steps = 300;
  s.tokens = 614400;
  s.losses = {{1, 5.857982253}, {2, 4.5}};
  s.validations = {{1, 5.0}, {2, 5.5}};
  s.checkpoint = "runs/q/checkpoints/step-00000300";
  s.log = "runs/q/log.jsonl";
  s.prompt = "The ";
  s.sample = "quick\n\x1b[2Jfox\xff";
  auto text = summary_text(s, {40, 3, false});
  CHECK(text.find("trained     300 steps, 614,400 tokens in 1:58 (5,189 tok/s)\n"
                  "loss        5.8580 at step 1, 4.5000 at step 2\n"
                  "validation  5.5000 at step 2, best 5.0000 at step 1\n") == 0);
  CHECK(text.find("checkpoint  runs/q/checkpoints/step-00000300\nlog         runs/q/log.jsonl\n") !=
        text.npos);
  CHECK(text.find("\nsample:\n  The quick\n  \\x1b[2Jfox") != text.npos);
  CHECK(text.find('\x1b') == text.npos);
  auto j = nlohmann::json::parse(summary_json(s));
  CHECK(j["final_loss"] == 4.5);
  CHECK(j["validation_loss"] == 5.5);
  CHECK(text.find("resumed") == text.npos);
  s.resumed = "after step 20, from step-00000020";
  s.settings = {"train.lr = 1e-3 from step 51 on (an\nna)"};
  CHECK(summary_text(s, {40, 3, false})
            .find("resumed     after step 20, from step-00000020\n"
                  "set         train.lr = 1e-3 from step 51 on (an\\nna)\n") != text.npos);
  s.resumed.clear();
  s.settings.clear();
  s.checkpoints = 1500;
  s.checkpoint_bytes = 3'200'000'000;
  s.checkpoint_wait_ms = 592;
  s.skipped_checkpoints = 7;
  s.recoveries = 2;
  s.steps_repeated = 31;
  s.effective_percent = 97.94;
  CHECK(summary_text(s, {40, 3, false})
            .find("tok/s)\n"
                  "            2 recoveries, 31 steps made again; effective 97.9 %\n"
                  "loss") != text.npos);
  CHECK(nlohmann::json::parse(summary_json(s))["steps_repeated"] == 31);
  s.model = "runs/q/model";
  CHECK(summary_text(s, {40, 3, false})
            .find("step-00000300\n"
                  "            1,500 saved, 3200.0 MB; training was held up for 592.0 ms (0.50 %); "
                  "7 left out: the disk was too slow\n"
                  "model       runs/q/model\nlog  ") != text.npos);
  CHECK(nlohmann::json::parse(summary_json(s))["skipped_checkpoints"] == 7);
  CHECK(summary_text({}, {}).find("trained     0 steps, 0 tokens in 0:00 (0 tok/s)\n") == 0);
}

TEST_CASE("report: an incident, as its line says it") {
  const incident i{"2026-11-24T12:03:11Z",
                   1,
                   "dead_process",
                   "node1",
                   "node node1 was \"killed\"",
                   "node1 was started again, from step-00000020",
                   1,
                   2,
                   26,
                   20,
                   0.2,
                   0.25,
                   -1,
                   3,
                   "restart"};
  const auto j = nlohmann::json::parse(incident_json(i));
  CHECK(j["type"] == "incident");
  CHECK(j["at"] == "2026-11-24T12:03:11Z");
  CHECK(j["what"] == "node node1 was \"killed\"");
  CHECK(j["named_s"] == 0.25);
  CHECK(j["back_s"].is_null());
  CHECK(j["fell_after_step"] == 26);
  CHECK(j["rule"] == 3);
  CHECK(j["action"] == "restart");
  CHECK(j["folder"].is_null());
  auto kept = i;
  kept.folder = "incidents/0001";
  CHECK(nlohmann::json::parse(incident_json(kept))["folder"] == "incidents/0001");
}

// What `troupe doctor` says of pairs and groups: for people a line each, for scripts the keys that
// they know.
#include "apps/control/doctor.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "messages/errors.hpp"

using namespace troupe;
using namespace troupe::apps;
using nlohmann::json;

namespace {

tested_group group_of(const char* check, std::vector<std::string> nodes) {
  tested_group g{check, std::move(nodes)};
  g.seen.finished = true;
  g.seen.start_ms = 12;
  g.seen.stop_ms = 0.5;
  g.seen.bytes_per_s = 1e8;
  g.verdict = fbs::CheckVerdict::ok;
  return g;
}

diagnosis well_diagnosis() {
  diagnosis d;
  tested_pair p{{"a", "b"}};
  p.seen.answered = true;
  p.seen.bytes_per_s = 2e8;
  p.verdict = fbs::CheckVerdict::ok;
  p.sum = group_of("sum", {"a", "b"});
  d.pairs.push_back(p);
  d.groups.push_back(group_of("all_to_all", {"a", "b", "c"}));
  d.groups.back().host = "host1";
  d.groups.push_back(group_of("group_start", {"a", "b", "c"}));
  return d;
}

bool tells(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "doctor: a starved node is unknown while its process answers, and one that is silent is bad") {
  fbs::CallAnswerT a;
  a.node = "node1";
  a.actor = "medic/node1";
  a.failure = std::make_unique<fbs::FailureT>();
  const auto verdict = [&](const std::optional<int64_t>& examined_for_ns = {},
                           bool answers_now = false) {
    const auto r = report_of_answer(a, examined_for_ns, answers_now);
    CHECK(r.node == "node1");
    REQUIRE(r.checks.size() == 1);
    CHECK(r.checks.front()->check == "answer");
    return r.checks.front()->verdict;
  };
  put_error(no_answer(), *a.failure);
  CHECK(verdict() == fbs::CheckVerdict::unknown);
  CHECK(verdict(1'000'000'000) == fbs::CheckVerdict::unknown);
  put_error(error{errc::unavailable, "its actor has ended"}, *a.failure);
  CHECK(verdict() == fbs::CheckVerdict::bad);
  CHECK(verdict(1'000'000'000) == fbs::CheckVerdict::unknown);
  put_error(no_answer(), *a.failure);
  a.actor.clear();  // so says the gateway where the whole process does not answer
  CHECK(verdict() == fbs::CheckVerdict::bad);
  CHECK(verdict(1'000'000'000) == fbs::CheckVerdict::bad);
  CHECK(verdict({}, true) == fbs::CheckVerdict::unknown);
}

TEST_CASE("doctor: a sum stands behind its pair, groups behind them, with what is wanted") {
  const auto d = well_diagnosis();
  const auto text = diagnosis_text(d);
  INFO(text);
  CHECK(tells(text, "a, b     sum 2 nodes"));
  CHECK(tells(text, "0 errors, 100.0 MB/s"));
  CHECK(tells(text, "a ... c  all_to_all 3 nodes of one host"));
  CHECK(tells(text, "12.0 ms, over in 0.5 ms  <= 1060 ms (floor)  ok"));
  CHECK(text.ends_with("verdict: ok\n"));
  const auto j = json::parse(diagnosis_json(d));
  CHECK(j["pairs"][0]["sum"]["verdict"] == "ok");
  CHECK(j["groups"].size() == 2);
  CHECK(j["groups"][1]["start_ms"] == 12);
  CHECK(j["groups"][1]["wanted_start_ms"] == 1060);
  CHECK(j["groups"][1]["path"] == "tensors");
}

TEST_CASE("doctor: one sum or one group that is bad makes the verdict bad, and says why") {
  auto d = well_diagnosis();
  d.pairs[0].sum->seen.wrong_sums = 3;
  d.pairs[0].sum->why = "element 17 of the sum is 4097, not 4096, at b";
  d.pairs[0].sum->verdict = fbs::CheckVerdict::bad;
  CHECK(verdict_of(d) == fbs::CheckVerdict::bad);
  CHECK(tells(diagnosis_text(d), "3 errors, 100.0 MB/s"));
  CHECK(tells(diagnosis_text(d), "bad      element 17 of the sum is 4097, not 4096, at b"));
  d = well_diagnosis();
  d.groups[1].seen.finished = false;
  d.groups[1].why = "c: nobody came";
  d.groups[1].verdict = fbs::CheckVerdict::bad;
  CHECK(verdict_of(d) == fbs::CheckVerdict::bad);
  CHECK(tells(diagnosis_text(d), "c: nobody came"));
  const auto j = json::parse(diagnosis_json(d));
  CHECK(j["verdict"] == "bad");
  CHECK(j["groups"][1]["finished"] == false);
}

TEST_CASE("doctor: a pair whose messages did not come back has no sum") {
  auto d = well_diagnosis();
  d.pairs[0].sum.reset();
  CHECK(json::parse(diagnosis_json(d))["pairs"][0]["sum"].is_null());
  CHECK_FALSE(tells(diagnosis_text(d), "sum 2 nodes"));
}

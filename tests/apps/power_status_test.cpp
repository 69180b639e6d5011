// What `troupe power status` says, held to golden texts.
#include "apps/power/power_status.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/power/power_why.hpp"

using namespace troupe;
using namespace troupe::apps::power_verb;

namespace {

std::unique_ptr<fbs::ActorInfoT> actor(const char* path) {
  auto out = std::make_unique<fbs::ActorInfoT>();
  out->path = path;
  out->values = std::make_unique<fbs::StatusValuesT>();
  return out;
}

/// Two nodes share a machine; the third has one of its own.
fbs::ClusterViewT view_of_three(double budget_w) {
  fbs::ClusterViewT view;
  view.job = "gpt-a";
  const auto add = [&](const char* node) {
    view.nodes.push_back(std::make_unique<fbs::ActorListT>());
    view.nodes.back()->node = node;
    return view.nodes.back().get();
  };
  auto* head = add("head");
  head->actors.push_back(actor("pacer"));
  auto& pacer = head->actors.back()->values->pacer = std::make_unique<fbs::PacerStatusT>();
  pacer->power_w = 41;
  pacer->source = fbs::PowerSource::modelled;
  if (budget_w > 0) pacer->budget_w = budget_w;
  pacer->pace_percent = 51.6;
  pacer->idle_w = 20.1;
  pacer->full_w = 61.3;
  if (budget_w > 0) pacer->decided = "to 51.6 % of full speed (by what it drew)";
  head->actors.push_back(actor("run"));
  auto& run = head->actors.back()->values->run = std::make_unique<fbs::RunStatusT>();
  run->energy_j = 1234;
  run->power_wait_ms = 12'300;
  const auto meter = [&](const char* node, const char* machine, double power_w, bool modelled) {
    auto* on = add(node);
    on->actors.push_back(actor("meter"));
    auto& m = on->actors.back()->values->meter = std::make_unique<fbs::MeterStatusT>();
    m->machine = machine;
    m->power_w = power_w;
    m->source = modelled ? fbs::PowerSource::modelled : fbs::PowerSource::measured;
    m->energy_j = 700;
  };
  meter("node0", "boot0", 20.5, true);
  meter("node1", "boot0", 20.9, true);
  meter("node2", "boot1", 20.5, false);
  return view;
}

}  // namespace

TEST_CASE("power status: the job, its budget and pace, and each machine once") {
  CHECK(status_text(job_power_in(view_of_three(44))) ==
        "gpt-a  ~41.0 of 44 W  93 %  pace 52 %  ~20.1 W without steps, ~61.3 W at full speed  "
        "~1234 J so far  held up for 12.3 s\n"
        "changed to 51.6 % of full speed (by what it drew)\n"
        "├ node0, node1  ~20.5 W\n"
        "└ node2  20.5 W\n");
  CHECK(status_text(job_power_in(view_of_three(0))) ==
        "gpt-a  ~41.0 W, no budget  ~1234 J so far  held up for 12.3 s\n"
        "├ node0, node1  ~20.5 W\n"
        "└ node2  20.5 W\n");
}

TEST_CASE("power status: a ramp without a budget says its pace, and until when it rises") {
  auto view = view_of_three(0);
  auto& pacer = *view.nodes[0]->actors[0]->values->pacer;
  pacer.decided = "from 51.6 % of full speed by 20 W a second, to 100 % in 3 s at the earliest";
  CHECK(status_text(job_power_in(view)) ==
        "gpt-a  ~41.0 W, no budget  pace 52 %  ~1234 J so far  held up for 12.3 s\n"
        "changed from 51.6 % of full speed by 20 W a second, to 100 % in 3 s at the earliest\n"
        "├ node0, node1  ~20.5 W\n"
        "└ node2  20.5 W\n");
  CHECK(nlohmann::json::parse(status_json(job_power_in(view)))["pace_percent"] == 51.6);
}

TEST_CASE("power status: what is not known is said to be, and why no step begins") {
  auto view = view_of_three(44);
  auto& pacer = *view.nodes[0]->actors[0]->values->pacer;
  pacer = {};
  pacer.budget_w = 44;
  pacer.pace_percent = 0;
  pacer.reason = "nothing says what the machine of node2 draws";
  pacer.decided = "to 40 % of full speed";
  view.nodes[0]->actors.pop_back();
  view.nodes[3]->actors[0]->values->meter->power_w = -1;
  CHECK(status_text(job_power_in(view)) ==
        "gpt-a  not known, of 44 W\n"
        "waits: nothing says what the machine of node2 draws\n"
        "├ node0, node1  ~20.5 W\n"
        "└ node2  not known\n");
  const auto j = nlohmann::json::parse(status_json(job_power_in(view)));
  CHECK(j["power_w"].is_null());
  CHECK(j["power_source"] == "unknown");
  CHECK(j["energy_j"].is_null());
  CHECK(j["machines"][1]["power_w"].is_null());
  CHECK(j["reason"] == "nothing says what the machine of node2 draws");
}

TEST_CASE("power status: a power brake from outside is said, with its devices and machine") {
  auto view = view_of_three(44);
  auto& meter = *view.nodes[3]->actors[0]->values->meter;
  for (const auto* name : {"gpu0", "gpu1", "gpu2"}) {
    meter.devices.push_back(std::make_unique<fbs::DeviceReadingT>());
    meter.devices.back()->device = name;
    meter.devices.back()->power_brake = name != std::string("gpu1");
  }
  const std::string said =
      "gpu0, gpu2 of node2: a power brake holds them from outside, which is no budget's here: ask "
      "who runs the rack";
  const auto job = job_power_in(view);
  CHECK(status_text(job).find("\n" + said + "\n├ node0") != std::string::npos);
  CHECK(why_by_job(job).reasons.back() == said);
  const auto j = nlohmann::json::parse(status_json(job));
  CHECK(j["machines"][0]["braked_outside"].empty());
  CHECK(j["machines"][1]["braked_outside"] == std::vector<std::string>{"gpu0", "gpu2"});
  const auto text = status_prometheus(job);
  CHECK(text.find("outside_brake{job=\"gpt-a\",nodes=\"node0,node1\"} 0\n") != std::string::npos);
  CHECK(text.find("outside_brake{job=\"gpt-a\",nodes=\"node2\"} 2\n") != std::string::npos);
}

TEST_CASE("power status: under a power budget it says whose, and what is left of the lease") {
  auto view = view_of_three(44);
  auto& pacer = *view.nodes[0]->actors[0]->values->pacer;
  pacer.parent = "row0";
  pacer.cap_w = 44;
  pacer.lease_left_ms = 3140;
  const auto first_line = [&] {
    const auto text = status_text(job_power_in(view));
    return text.substr(0, text.find('\n'));
  };
  CHECK(first_line().starts_with("gpt-a  ~41.0 of 44 W (row0, lease 3.1 s)  93 %  pace 52 %  "));
  auto j = nlohmann::json::parse(status_json(job_power_in(view)));
  CHECK(j["parent"] == "row0");
  CHECK(j["cap_w"] == 44.0);
  CHECK(j["lease_left_ms"] == 3140);
  CHECK(j["parent_problem"].is_null());
  const auto gauges = status_prometheus(job_power_in(view));
  CHECK(gauges.find("troupe_power_cap_watts{job=\"gpt-a\",parent=\"row0\"} 44\n") !=
        std::string::npos);
  CHECK(gauges.find("troupe_power_lease_seconds{job=\"gpt-a\",parent=\"row0\"} 3.14\n") !=
        std::string::npos);
  pacer.lease_left_ms = 0;
  pacer.parent_problem = "no answer within the stated time";
  CHECK(first_line().starts_with("gpt-a  ~41.0 of 44 W (row0, its lease has lapsed)  93 %  "));
  CHECK(status_text(job_power_in(view))
            .find("\nrow0 is not heard: no answer within the stated time\n") != std::string::npos);
  pacer.budget_w = pacer.cap_w = -1;
  pacer.pace_percent = 0;
  pacer.reason = "no lease yet from the power budget row0 at 127.0.0.1:4242";
  CHECK(first_line().starts_with("gpt-a  ~41.0 W, none granted (row0, no lease yet)  ~1234 J"));
  j = nlohmann::json::parse(status_json(job_power_in(view)));
  CHECK(j["cap_w"].is_null());
  CHECK(j["lease_left_ms"].is_null());
  CHECK(j["pace_percent"] == 0);
  const auto held = status_prometheus(job_power_in(view));
  CHECK(held.find("cap_watts") == std::string::npos);
  CHECK(held.find("troupe_power_held{job=\"gpt-a\"} 1\n") != std::string::npos);
  pacer.reason.clear();  // no step begins, for what a machine draws is not known yet
  CHECK(status_prometheus(job_power_in(view)).find("troupe_power_held{job=\"gpt-a\"} 1\n") !=
        std::string::npos);
}

TEST_CASE("power status: how long a lesser cap takes to be in force is said once it was measured") {
  auto job = job_power_in(view_of_three(44));
  CHECK(status_text(job).find("lesser caps") == std::string::npos);
  job.pacer.actuation_p50_ms = 800;
  job.pacer.actuation_p99_ms = 1250;
  CHECK(status_text(job).find("lesser caps in force within 1.25 s, half of them within 0.8 s") !=
        std::string::npos);
  const auto j = nlohmann::json::parse(status_json(job));
  CHECK(j["actuation_p50_ms"] == 800);
  CHECK(j["actuation_p99_ms"] == 1250);
}

TEST_CASE("power status: what holds the ranks' pace is named, and how long its commands take") {
  auto view = view_of_three(44);
  CHECK(status_text(job_power_in(view)).find("pace of") == std::string::npos);
  CHECK(!nlohmann::json::parse(status_json(job_power_in(view))).contains("controls"));
  const auto add = [&](size_t node, const char* control, double p50_ms, double p99_ms) {
    view.nodes[node]->actors.push_back(actor("worker"));
    auto& w = view.nodes[node]->actors.back()->values->worker =
        std::make_unique<fbs::WorkerStatusT>();
    w->control = control;
    w->actuation_p50_ms = p50_ms;
    w->actuation_p99_ms = p99_ms;
  };
  add(1, "cpufreq", 2, 30);
  add(2, "cpufreq", 5, 20);
  add(2, "cgroup", -1, -1);
  add(2, "", -1, -1);
  const auto text = status_text(job_power_in(view));
  CHECK(text.find(
            "\npace of 2 ranks by cpufreq, in force within 30 ms, half the time within 5 ms\n") !=
        std::string::npos);
  CHECK(text.find("\npace of 1 rank by cgroup\n") != std::string::npos);
  const auto j = nlohmann::json::parse(status_json(job_power_in(view)));
  REQUIRE(j["controls"].size() == 2);
  CHECK(j["controls"][0]["control"] == "cgroup");
  CHECK(j["controls"][0]["p99_ms"].is_null());
  CHECK(j["controls"][1]["ranks"] == 2);
  CHECK(j["controls"][1]["p50_ms"] == 5);
  CHECK(j["controls"][1]["p99_ms"] == 30);
}

TEST_CASE("power status: the same as JSON and for Prometheus") {
  const auto job = job_power_in(view_of_three(44));
  CHECK(status_json(job) ==
        R"({"type":"power","job":"gpt-a","budget_w":44.0,"parent":null,"cap_w":null,)"
        R"("lease_left_ms":null,"parent_problem":null,"actuation_p50_ms":null,)"
        R"("actuation_p99_ms":null,"power_w":41.0,"power_source":"modelled",)"
        R"("pace_percent":51.6,"reason":null,)"
        R"x("decided":"to 51.6 % of full speed (by what it drew)",)x"
        R"("idle_w":20.1,"full_w":61.3,"energy_j":1234.0,)"
        R"("power_wait_ms":12300.0,"machines":[{"nodes":["node0","node1"],"power_w":20.5,)"
        R"("power_source":"modelled","energy_j":700.0,"braked_outside":[]},)"
        R"({"nodes":["node2"],"power_w":20.5,)"
        R"("power_source":"measured","energy_j":700.0,"braked_outside":[]}]})"
        "\n");
  const auto text = status_prometheus(job);
  for (const char* line :
       {"# TYPE troupe_power_watts gauge\n",
        "troupe_power_watts{job=\"gpt-a\",nodes=\"node0,node1\",source=\"modelled\"} 20.5\n",
        "troupe_power_budget_watts{job=\"gpt-a\"} 44\n",
        "troupe_power_pace_ratio{job=\"gpt-a\"} 0.516\n", "troupe_power_held{job=\"gpt-a\"} 0\n",
        "troupe_power_joules_total{job=\"gpt-a\",source=\"modelled\"} 1234\n",
        "troupe_power_wait_seconds_total{job=\"gpt-a\"} 12.3\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, text);
  auto odd = job;
  odd.job = "a\"b\\c\nd";
  CHECK(status_prometheus(odd).find(R"({job="a\"b\\c\nd"} 44)") != std::string::npos);
}

TEST_CASE("power status, power why: what comes of slack is said where a job takes it") {
  auto view = view_of_three(0);
  CHECK(status_text(job_power_in(view)).find("slack") == std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(status_json(job_power_in(view))).contains("slack"));
  view.nodes[0]->actors[0]->values->pacer->slack = "planned, for steps of 0.8123 s";
  auto job = job_power_in(view);
  CHECK(status_text(job).find("\nslack planned, for steps of 0.8123 s\n") != std::string::npos);
  CHECK(nlohmann::json::parse(status_json(job))["slack"] == "planned, for steps of 0.8123 s");
  const auto why = why_by_job(job);
  CHECK(std::ranges::count(why.reasons, "its slack is planned, for steps of 0.8123 s") == 1);
  const auto taken = [&](const char* value) {
    return status_prometheus(job).find(std::string("troupe_power_slack_taken{job=\"gpt-a\"} ") +
                                       value) != std::string::npos;
  };
  CHECK(taken("1\n"));
  job.pacer.slack = "given back at 2 of 2 ranks since step 9: 1 other process; planned";
  CHECK(taken("0
"));
  job.pacer.slack = "off: paced, since step 12";
  CHECK(taken("0\n"));
  job.pacer.slack.clear();
  CHECK(!taken(""));
}

// What a cluster's view looks like: for people a line a value, for scripts the keys that they know.
#include "apps/control/show.hpp"

#include <limits>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "messages/errors.hpp"
#include "messages/msg.hpp"
#include "messages/registry.hpp"
#include "messages/status_rows.hpp"

using namespace troupe;
using namespace troupe::apps;
using nlohmann::json;

namespace {

fbs::ActorInfoT& add(fbs::ClusterViewT& view, const std::string& path) {
  if (view.nodes.empty()) {
    view.nodes.push_back(std::make_unique<fbs::ActorListT>());
    view.nodes.back()->node = "node0";
  }
  auto& a = *view.nodes.back()->actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
  a.path = path;
  a.values = std::make_unique<fbs::StatusValuesT>();
  return a;
}

fbs::MeterStatusT& add_meter(fbs::ClusterViewT& view) {
  auto& meter = add(view, "meter/node0");
  meter.state = "reading";
  return values_of<fbs::MeterStatusT>(*meter.values);
}

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> out;
  for (const auto& [key, value] : object.items()) out.insert(key);
  return out;
}

/// Keys that a detail has at a place, a JSON pointer, where Status has these values.
std::set<std::string> keys_shown(const char* values, const char* place) {
  const auto m = from_json("Status", fmt::format(R"({{"values":{}}})", values));
  REQUIRE(m);
  fbs::ClusterViewT v;
  add(v, "one").values = std::move(cast<fbs::Status>(*m).unpack().values);
  const auto detail = json::parse(view_json(v))["nodes"][0]["actors"][0]["detail"];
  return keys_of(detail.at(json::json_pointer(place)));
}

}  // namespace

TEST_CASE("nodes: watts and degrees stand where a node has meters, and nowhere else") {
  fbs::ClusterViewT v;
  add(v, "stage/0");
  CHECK_FALSE(says(nodes_text(v, 0), "power"));
  auto& meter = add_meter(v);
  CHECK_FALSE(says(nodes_text(v, 0), "power"));
  meter.power_w = 812.4;
  CHECK(says(nodes_text(v, 0), "power"));
  CHECK(says(nodes_text(v, 0), "812 W"));
  CHECK_FALSE(says(nodes_text(v, 0), "warmest"));
  CHECK(says(actors_text(v, 0), "reading 812 W "));
  meter.source = fbs::PowerSource::modelled;
  CHECK(says(nodes_text(v, 0), "~812 W"));
  CHECK(says(actors_text(v, 0), "reading ~812 W "));
  meter = {};
  meter.temperature_c = 61.2;
  CHECK(says(nodes_text(v, 0), "61 C"));
}

TEST_CASE("nodes: of nodes on one machine the first says its watts, the others whose they are") {
  fbs::ClusterViewT v;
  const auto add_node = [&](const char* machine, double power_w, int64_t silent_ns = 0) {
    v.nodes.push_back(std::make_unique<fbs::ActorListT>());
    v.nodes.back()->node = fmt::format("node{}", v.nodes.size() - 1);
    v.nodes.back()->silent_ns = silent_ns;
    auto& meter = add_meter(v);
    meter.machine = machine;
    meter.power_w = power_w;
  };
  add_node("a", -1);                // knows none yet
  add_node("a", 9, 5'000'000'000);  // knew some, long ago
  add_node("a", 10);
  add_node("b", 20);
  add_node("a", 30);
  add_node("", 40);
  const auto text = nodes_text(v, 0);
  for (const char* words : {"10 W", "20 W", "as node2", "40 W"}) {
    CAPTURE(words);
    CHECK(says(text, words));
  }
  CHECK_FALSE(says(text, "30 W"));
}

TEST_CASE("nodes: memory, processor time and step stand as the last heartbeat said them") {
  fbs::ClusterViewT v;
  auto& c = values_of<fbs::CoordinatorStatusT>(*add(v, "coordinator").values);
  CHECK_FALSE(says(nodes_text(v, 0), "memory"));
  auto& usage = *c.nodes.emplace_back(std::make_unique<fbs::NodeUsageT>());
  usage.node = "node0";
  usage.rss_bytes = uint64_t{3} << 30;
  usage.cpu_s = 12.34;
  usage.step = 77;
  const auto text = nodes_text(v, 0);
  for (const char* words : {"memory", "3.0 GiB", "cpu", "12.3 s", "step", "77"}) {
    CAPTURE(words);
    CHECK(says(text, words));
  }
  const auto shown = json::parse(view_json(v))["nodes"][0]["actors"][0]["detail"]["nodes"][0];
  CHECK(shown["rss_bytes"] == uint64_t{3} << 30);
  CHECK(shown["cpu_s"] == 12.34);
  CHECK(shown["step"] == 77);
}

TEST_CASE("answers: sentences for people, refusals apart, and all as JSON for scripts") {
  fbs::CallAnswersT all;
  const auto add_answer = [&](const char* actor) -> fbs::CallAnswerT& {
    auto& a = *all.answers.emplace_back(std::make_unique<fbs::CallAnswerT>());
    a.actor = actor;
    a.node = "node0";
    return a;
  };
  const auto refuses = [&](const char* actor, errc code, const char* why) {
    add_answer(actor).failure = std::make_unique<fbs::FailureT>();
    put_error({code, why, "a hint"}, *all.answers.back()->failure);
  };
  add_answer("run").message =
      encode(make_msg<fbs::Ack>({}, [](auto& a) { a.text = "pauses after step 26\x1b[2J"; }));
  add_answer("stage/0");  // its message has no answer
  add_answer("worker/0").message = encode(make_msg<fbs::Ack>());
  add_answer("meter/node0").message =
      encode(make_msg<fbs::MeterReadings>({}, [](auto& r) { r.power_w = 41.5; }));
  refuses("worker/1", errc::unavailable, "it is busy");
  refuses("run", errc::usage, "the run is paused already");
  const auto text = answers_text(all, 0);
  CAPTURE(text);
  CHECK(
      text.starts_with("run: pauses after step 26\\u001b[2J\nstage/0: done\nworker/0: done\n"
                       "meter/node0 of node0 answers MeterReadings:\n"));
  CHECK(says(text, " 41.5 W\n"));
  CHECK(says(text, "temperature_c  not measured\n"));
  CHECK_FALSE(says(text, "-300"));
  CHECK_FALSE(says(text, "worker/1"));
  const auto refused = refusals_in(all);
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].code == errc::unavailable);
  CHECK(says(refused[0].message, "worker/1 of node0"));
  CHECK(refused[1].code == errc::usage);
  CHECK_FALSE(says(refused[1].message, "of node0"));  // the person's error, not the run's
  CHECK(refused[1].hint == "a hint");
  std::istringstream lines(answers_json(all));
  std::vector<json> read;
  for (std::string line; std::getline(lines, line);) read.push_back(json::parse(line));
  REQUIRE(read.size() == 6);
  CHECK(read[0]["message"] == "Ack");
  CHECK(read[1]["answer"] == nullptr);
  CHECK(read[3]["answer"]["power_w"] == 41.5);
  CHECK(read[3]["answer"]["temperature_c"] == nullptr);
  CHECK(read[4]["error"] == "it is busy");
  CHECK(read[4]["code"] == "unavailable");
  CHECK(read[5]["hint"] == "a hint");
}

TEST_CASE("a line that is refused: JSON for scripts, with the keys of an actor's refusal") {
  CHECK(error_json({errc::usage, "unknown console command: \"x\"", "did you mean y?"}) ==
        R"({"error":"unknown console command: \"x\"","code":"usage","hint":"did you mean y?"})"
        "\n");
  CHECK(error_json({errc::cancelled, "not done"}) == R"({"error":"not done","code":"cancelled"})"
                                                     "\n");
}

TEST_CASE("actors: the table fits the terminal, and is whole where there is none") {
  fbs::ClusterViewT v;
  auto& run = add(v, "run");
  run.state = "training";
  run.last_error = "an error of more characters than a narrow terminal has room for";
  run.failed = 3;
  add(v, "a/very/long/path/of/an/actor/that/somebody/named");
  CHECK(says(actors_text(v, 0), run.last_error));
  for (const int columns : {60, 80, 100, 120}) {
    std::istringstream lines(actors_text(v, columns));
    for (std::string line; std::getline(lines, line);)
      CHECK(line.size() <= static_cast<size_t>(columns));
  }
  CHECK(says(actors_text(v, 100), "mailbox  deepest  msg/s"));  // the error gave way alone
  CHECK(says(actors_text(v, 60), "training"));
  v.nodes.front()->node = "node\x1b[2J";
  CHECK_FALSE(says(actor_text(run, v.nodes.front()->node, 0), "\x1b"));
}

TEST_CASE("status: a number beyond 2^53 is printed whole") {
  fbs::ClusterViewT v;
  constexpr uint64_t large = (uint64_t{1} << 53) + 1;
  auto& run = add(v, "run");
  run.handled = run.received = large + 2;
  values_of<fbs::RunStatusT>(*run.values).step = large;
  values_of<fbs::RunStatusT>(*run.values).saving = {large + 1};
  const auto text = view_json(v);
  CHECK(says(text, R"("step":9007199254740993,)"));
  CHECK(says(text, R"("saving":[9007199254740994])"));
  CHECK(says(text, R"("handled":9007199254740995,)"));
  CHECK(says(actor_text(run, "head", 0), "9007199254740993"));
}

TEST_CASE("status: its JSON has the keys that scripts know") {
  struct row {
    const char *values, *place;  ///< the place of the object in the detail, a JSON pointer
    std::set<std::string> keys;
  };
  for (const auto& r : {
           row{R"({"run":{}})", "",
               {"step", "steps", "loss", "saved_step", "copied_step", "saving", "checkpoints",
                "skipped_checkpoints", "checkpoint_wait_ms", "parts", "wall_s", "effective_percent",
                "effective_last_hour_percent", "recoveries", "steps_repeated", "incidents",
                "replicas", "replicas_configured", "power_w", "power_source", "energy_j",
                "pace_percent", "power_wait_ms"}},
           row{R"({"run":{"ledger":{}}})",
               "/ledger",
               {"useful_s", "repeated_s", "start_s", "detect_s", "diagnose_s", "re_form_s",
                "restore_s", "checkpoint_stall_s", "paused_s", "waiting_for_nodes_s",
                "head_away_s"}},
           row{R"({"run":{"incidents":[{}]}})",
               "/incidents/0",
               {"number", "finding", "node", "what", "epoch_from", "epoch_to", "fell_after_step",
                "resumed_after_step", "noticed_s", "named_s", "back_s", "ago_s", "done", "rule",
                "action", "times_left"}},
           row{R"({"run":{"parts":[{}]}})", "/parts/0", {"kind", "busy_ms", "waited_ms", "work"}},
           row{R"({"coordinator":{"turned_away":{}}})", "",
               {"members", "refused", "turned_away", "nodes", "spares", "spares_configured",
                "evicted"}},
           row{R"({"coordinator":{"turned_away":{}}})",
               "/turned_away",
               {"all", "no_certificate", "unknown_authority", "expired", "bad_certificate",
                "not_tls", "not_ours", "hung_up", "impostor", "too_slow", "crowded_out", "no_key"}},
           row{R"({"coordinator":{"nodes":[{}]}})", "/nodes/0",
               {"node", "rss_bytes", "cpu_s", "step", "spare"}},
           row{R"({"node":{}})", "", {"stages", "probe_s"}},
           row{R"({"medic":{}})", "", {"examined", "bad"}},
           row{R"({"worker":{}})", "",
               {"number", "step", "parts", "operations", "median_ms", "process_peak_bytes",
                "control", "actuation_p50_ms", "actuation_p99_ms", "threads"}},
           row{R"({"worker":{"checkpoint":{"ring_slots":{}}}})",
               "/checkpoint",
               {"saves", "durable", "failed", "share_bytes", "durable_bytes", "ring_wait_ms",
                "ring_slots", "slot_bytes", "disk", "registered_buffers", "copied_step",
                "copies_bytes", "keeper_rank", "failed_copies"}},
           row{R"({"worker":{"checkpoint":{"saves":[{}]}}})",
               "/checkpoint/saves/0",
               {"step", "total", "captured", "written", "durable", "age_s"}},
           row{R"({"worker":{"checkpoint":{"ring_slots":{}}}})",
               "/checkpoint/ring_slots",
               {"free", "filling", "filled", "writing"}},
           row{R"({"loader":{}})", "", {"filled", "floor"}}, row{R"({"certificates":{}})", "",
               {"not_after_s", "renewed"}},
           row{R"({"committer":{}})", "", {"committed", "abandoned"}}, row{R"({"stage":{}})", "",
               {"pipeline_rank", "data_rank", "steps_done", "step", "held_us", "braked"}},
           row{R"({"replicator":{}})",
               "",
               {"step", "total_bytes", "written_bytes", "durable_bytes", "bytes_per_s",
                "durable_step", "copied", "passed_over", "failures"}},
           row{R"({"meter":{}})", "", {"power_w", "temperature_c", "devices", "machine",
               "read_at_ns", "interval_ms", "source", "energy_j", "process_busy", "machine_busy"}},
           row{R"({"meter":{"devices":[{}]}})", "/devices/0", {"device", "kind", "power_w",
               "limit_w", "temperature_c", "busy_percent", "source", "energy_j", "power_brake"}},
           row{R"({"gateway":{}})", "", {"processes", "views", "audit_failures", "audit_log"}},
           row{R"({"observer":{}})", "", {"views", "black_boxes"}}, row{R"({"reporter":{}})", "",
               {"log", "steps_not_logged"}},
       }) {
    CAPTURE(r.values);
    CHECK(keys_shown(r.values, r.place) == r.keys);
  }
}

TEST_CASE("status: so has what is said of drives") {
  using keys = std::set<std::string>;
  CHECK(keys_shown(R"({"worker":{"swap":{}}})", "/swap") ==
        keys{"state_chunks", "weight_chunks", "disk_bytes", "memory_bytes", "read_bytes",
             "written_bytes", "budget_bytes", "held_bytes", "peak_bytes", "holders", "clip",
             "redone_steps", "spilled_layers", "recomputed_layers", "linked_chunks",
             "cloned_chunks", "copied_chunks", "device_budget_bytes", "device_held_bytes",
             "device_peak_bytes", "device_holders", "device"});
  CHECK(keys_shown(R"({"reporter":{"swap":{}}})", "/swap") ==
        keys{"step", "step_ms", "read_bytes", "written_bytes", "read_bytes_per_s",
             "written_bytes_per_s", "swap_wait_ms", "limit_ms", "of_limit_percent",
             "limit_kept_ms", "bound_by", "job_written_bytes", "rated_bytes"});
}

TEST_CASE("status: for people a line a value with its unit, and a table for each list of tables") {
  fbs::ClusterViewT v;
  auto& run = add(v, "run");
  run.state = "training";
  auto& values = values_of<fbs::RunStatusT>(*run.values);
  values.steps = 500;
  values.loss = 2.4772195;
  values.checkpoint_wait_ms = 0.075;
  values.saving = {7, 8};
  for (const char* kind : {"forward", "backward"}) {
    auto& part = *values.parts.emplace_back(std::make_unique<fbs::StepPartT>());
    part.kind = kind;
    part.busy_ms = 12.5;
  }
  CHECK(values_text(run, 0) ==
        "  step                         0\n"
        "  steps                        500 steps\n"
        "  loss                         2.477 nats\n"
        "  saved_step                   0\n"
        "  saving                       7, 8\n"
        "  checkpoints                  0 checkpoints\n"
        "  skipped_checkpoints          0 checkpoints\n"
        "  checkpoint_wait_ms           0.075 ms\n"
        "  wall_s                       0 s\n"
        "  effective_percent            0 %\n"
        "  effective_last_hour_percent  0 %\n"
        "  recoveries                   0 recoveries\n"
        "  steps_repeated               0 steps\n"
        "  incidents                    -\n"
        "  replicas                     0 replicas\n"
        "  replicas_configured          0 replicas\n"
        "  copied_step                  0\n"
        "  power_w                      not measured\n"
        "  power_source                 unknown\n"
        "  energy_j                     not measured\n"
        "  pace_percent                 0 %\n"
        "  power_wait_ms                0 ms\n"
        "  parts       busy_ms  waited_ms     work\n"
        "    forward   12.5 ms       0 ms  0 items\n"
        "    backward  12.5 ms       0 ms  0 items\n");
  CHECK(says(status_text(v, 0), "run: training for 0 ns\n  step                         0\n"));
  auto& worker = add(v, "worker/0");
  auto& saver = values_of<fbs::WorkerStatusT>(*worker.values).checkpoint;
  saver = std::make_unique<fbs::SaverStatusT>();
  saver->slot_bytes = 4096;
  saver->disk = "uring";
  const auto text = actor_text(worker, "node0", 0);
  for (const char* words :
       {"worker/0 on node0", "  checkpoint.slot_bytes          4.0 KiB\n",
        "  checkpoint.disk                uring\n", "  checkpoint.registered_buffers  no\n",
        "  checkpoint.saves               -\n"}) {
    CAPTURE(words);
    INFO(text);
    CHECK(says(text, words));
  }
}

TEST_CASE(
    "status: what no meter reads is not said to be unmeasured, and no number is said as none") {
  fbs::ClusterViewT v;
  auto& run = add(v, "run");
  auto& values = values_of<fbs::RunStatusT>(*run.values);
  for (const auto& [loss, words] : {std::pair(std::numeric_limits<double>::quiet_NaN(), "nan"),
                                    {std::numeric_limits<double>::infinity(), "inf"},
                                    {-std::numeric_limits<double>::infinity(), "-inf"},
                                    {-std::numeric_limits<double>::quiet_NaN(), "nan"}}) {
    CAPTURE(words);
    values.loss = loss;
    CHECK(says(values_text(run, 0), fmt::format("  {:<27}  {}\n", "loss", words)));
    CHECK(json::parse(view_json(v))["nodes"][0]["actors"][0]["detail"]["loss"].is_null());
  }
  values.incidents.push_back(std::make_unique<fbs::IncidentT>());
  const auto text = values_text(run, 0);
  const auto incidents = text.find("incidents  ");
  REQUIRE(incidents != std::string::npos);
  CHECK_FALSE(says(text.substr(incidents), "not measured"));
  auto& worker = add(v, "worker/0");
  values_of<fbs::WorkerStatusT>(*worker.values).checkpoint = std::make_unique<fbs::SaverStatusT>();
  CHECK(says(values_text(worker, 0), fmt::format("  {:<29}  -\n", "checkpoint.keeper_rank")));
  auto& pacer = add(v, "pacer");
  values_of<fbs::PacerStatusT>(*pacer.values);
  for (const char* given : {"budget_w", "cap_w", "parent"})
    CHECK(says(values_text(pacer, 0), fmt::format("  {:<16}  -\n", given)));
  CHECK(says(values_text(pacer, 0), fmt::format("  {:<16}  not measured\n", "power_w")));
}

TEST_CASE("status: a log of commands that cannot be written is what is wrong") {
  fbs::ClusterViewT v;
  auto& gateway = add(v, "gateway");
  gateway.state = "refusing";
  CHECK_FALSE(health_of(v).good);
  values_of<fbs::GatewayStatusT>(*gateway.values).audit_log = "No space left on device";
  CHECK(health_of(v).why == "commands are refused: No space left on device");
  gateway.values.reset();
  CHECK_FALSE(health_of(v).good);
}

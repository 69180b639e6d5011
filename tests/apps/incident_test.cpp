// What is kept of an incident: its folder, what stands in it, and the page that is made of it, of
// files that are whole, damaged, or anybody's.
#include <fcntl.h>
#include <sys/stat.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/control/incident.hpp"
#include "apps/report/incident_doc.hpp"
#include "apps/report/incident_page.hpp"
#include "apps/up/incident_folders.hpp"
#include "apps/up/incident_keeper.hpp"
#include "io/file.hpp"
#include "tests/apps/ended.hpp"
#include "tests/apps/runtime_folder.hpp"
#include "tests/errors.hpp"
#include "tests/io/full_disk.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps;
using nlohmann::json;
using std::chrono::milliseconds;
namespace fs = std::filesystem;

namespace {

constexpr int64_t noon_ms = 1'764'072'191'204;  // 2025-11-25T12:03:11.204Z
const incident_keeper::wall_clock::time_point noon{milliseconds(noon_ms)};

fbs::IncidentT killed(uint64_t number = 2, const std::string& node = "node2") {
  fbs::IncidentT i;
  i.number = number;
  i.finding = "dead_process";
  i.node = node;
  i.what = "node " + node + " was killed by signal 9 (Killed)";
  i.epoch_from = 3;
  i.epoch_to = 3;
  i.fell_after_step = 41;
  i.noticed_s = 0.2;
  i.named_s = 0.2;
  i.rule = 1;
  i.action = "restart";
  return i;
}

fbs::IncidentT back(fbs::IncidentT i) {
  i.epoch_to = 4;
  i.resumed_after_step = 41;
  i.back_s = 1.8;
  i.ago_s = 1.6;
  i.done = "spare node4 for node2, from step-00000041 (rule 1)";
  return i;
}

/// What a monitor says of it.
msg<fbs::Evidence> evidence_of(const fbs::IncidentT& fault, bool stuck = true) {
  return make_msg<fbs::Evidence>({}, [&](fbs::EvidenceT& e) {
    e.incident = std::make_unique<fbs::IncidentT>(fault);
    e.now_ns = 100'000'000'000;
    auto& f = *e.findings.emplace_back(std::make_unique<fbs::FindingT>());
    f.name = "stuck_device";
    f.severity = fbs::FindingSeverity::error;
    f.node = fault.node;
    f.rank = 1;
    f.seen = 4;
    f.wanted = 3;
    f.unit = "s";
    f.text = "its forward does not end, 3 others wait for it";
    f.since_ns = 96'000'000'000;
    f.gone_ns = 99'000'000'000;
    if (stuck) {
      e.waits_text = "culprit:\n  worker/1\n";
      e.waits_dot = "digraph waits {\n}\n";
      e.waits_json =
          R"({"type":"wait_graph","culprits":[{"kind":"idle","text":"worker/1 waits for nobody"}],)"
          R"("waits":[{"from":"stage/0","to":"worker/1","what":"forward","for_ns":4000000000}]})";
      e.waits_ns = 98'000'000'000;
    }
    auto& v = *e.vitals.emplace_back(std::make_unique<fbs::NodeVitalsT>());
    v.node = fault.node;
    v.heard_ns = 99'500'000'000;
    v.vitals = std::make_unique<fbs::VitalsT>();
    auto& r = *v.vitals->ranks.emplace_back(std::make_unique<fbs::RankVitalsT>());
    r.rank = 1;
    r.step = 41;
    r.state = fbs::RankState::waiting;
    r.waits_for = 3;
    r.for_ms = 21;
    e.vitals_left_out = 3;
  });
}

json object_in(const fs::path& file) {
  return json::parse(content(file));
}

void write_at(const fs::path& file, int64_t unix_ms) {
  std::ofstream(file) << "records";
  const timespec at{unix_ms / 1000, unix_ms % 1000 * 1'000'000};
  const timespec both[2] = {at, at};
  REQUIRE(utimensat(AT_FDCWD, file.c_str(), both, 0) == 0);
}

size_t things_in(const fs::path& folder) {
  std::error_code none;
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder, none), {}));
}

}  // namespace

// -- folders --------------------------------------------------------------------------------------

TEST_CASE("INF-1: a folder that is there is another's: nothing in it is written") {
  scratch here;
  fs::create_directories(here / "incidents/0003");
  std::ofstream(here / "incidents/0003/mine") << "x";
  incident_folders folders(here.path);
  CHECK(is_error(folders.write(3, {"{}"}), folder_is_there, here / "incidents/0003"));
  CHECK(things_in(here / "incidents/0003") == 1);
  REQUIRE(folders.write(4, {"{}", "waits\n", "digraph\n"}));
  REQUIRE(folders.write(4, {"{\"again\":1}", "waits\n", "digraph\n"}));  // its own
  CHECK(content(here / "incidents/0004/incident.json") == "{\"again\":1}");
  CHECK(things_in(here / "incidents/0004") == 3);
  incident_folders of_another_launch(here.path);
  CHECK_FALSE(of_another_launch.write(4, {"{}"}));
  CHECK(content(here / "incidents/0004/incident.json") == "{\"again\":1}");
}

TEST_CASE("INF-1: a link in the place of the folder of incidents leads nowhere") {
  scratch here, elsewhere;
  fs::create_directory_symlink(elsewhere.path, here / "incidents");
  incident_folders folders(here.path);
  CHECK_FALSE(folders.write(1, {"{}"}));
  CHECK(things_in(elsewhere.path) == 0);
}

TEST_CASE("INF-2: a disk that is full leaves the file before, no half one, and no temporary one") {
  scratch here;
  incident_folders folders(here.path);
  REQUIRE(folders.write(1, {"{\"first\":1}"}));
  {
    const full_disk full(0);
    CHECK_FALSE(folders.write(1, {"{\"second\":1}", "waits\n"}));
    CHECK_FALSE(folders.write(1, {"{\"second\":1}"}));
  }
  CHECK(content(here / "incidents/0001/incident.json") == "{\"first\":1}");
  CHECK(things_in(here / "incidents/0001") == 1);
  REQUIRE(folders.write(1, {"{\"third\":1}", "waits\n"}));
  CHECK(content(here / "incidents/0001/incident.json") == "{\"third\":1}");
}

TEST_CASE("INF-3: no more folders are made than there may be, and that is said") {
  scratch here;
  for (size_t i = 1; i <= most_incident_folders; ++i)
    fs::create_directories(here / incident_folder(i));
  incident_folders folders(here.path);
  const auto next = most_incident_folders + 1;
  CHECK(is_error(folders.write(next, {"{}"}), too_many_incidents, most_incident_folders));
  CHECK(kept_incidents(here.path).size() == most_incident_folders);
  fs::rename(here / "incidents/0007", here / "kept-elsewhere");  // a person has moved one away
  CHECK(folders.write(next, {"{}"}));
}

TEST_CASE("INF-3: a wait graph that is too long is cut after a line") {
  scratch here;
  incident_folders folders(here.path);
  std::string text;
  while (text.size() <= max_waits_bytes) text += "  worker/0 waits 4.00 s for worker/1: forward\n";
  REQUIRE(folders.write(1, {"{}", text, text}));
  for (const auto& [name, end] : {std::pair("waits.txt", "1: forward\n... and more\n"),
                                  std::pair("waits.dot", "1: forward\n}\n")}) {
    const auto kept = content(here / "incidents/0001" / name);
    CHECK(kept.size() <= max_waits_bytes);
    CHECK(kept.size() > max_waits_bytes - 100);
    CHECK(kept.ends_with(end));
  }
}

TEST_CASE("INF: numbers go on over launches, by the folders and by the lines") {
  scratch here;
  CHECK(last_incident(here.path) == 0);
  std::ofstream(here / "incidents.jsonl")
      << "{\"number\":1}\n{\"number\":5}\nnot JSON\n{\"number\":\"9\"}\n{\"number\":-3}\n"
      << "{\"number\":18446744073709551615}\n{\"number\":4}\n{\"numb";
  CHECK(last_incident(here.path) == 5);
  for (const auto* name :
       {"0002", "0006", "7", "00008", "notes", "0009.txt", "-010", "0000", "18446744073709551615"})
    fs::create_directories(here / "incidents" / name);
  CHECK(last_incident(here.path) == 6);
  CHECK(kept_incidents(here.path) == std::vector<uint64_t>{2, 6});
  fs::create_directories(here / "incidents/12345");
  CHECK(last_incident(here.path) == 12345);
}

TEST_CASE("INF: an incident names black boxes that came since its fault, and only so many") {
  scratch here;
  write_at(here / "blackbox-node1-11-end.trace", noon_ms - 1);
  write_at(here / "blackbox-node2-12-end.trace", noon_ms);
  write_at(here / "blackbox-node0-13-1-worker-0-died.trace", noon_ms + 5);
  write_at(here / "blackbox-node2-14-end.trace.partial", noon_ms + 5);
  write_at(here / "node2.log", noon_ms + 5);
  fs::create_directory(here / "blackbox-folder.trace");
  CHECK(black_boxes_since(here.path, noon_ms) ==
        std::vector<std::string>{"blackbox-node0-13-1-worker-0-died.trace",
                                 "blackbox-node2-12-end.trace"});
  for (size_t i = 0; i < most_black_boxes; ++i)
    write_at(here / fmt::format("blackbox-node3-{}-end.trace", i), noon_ms + 5);
  CHECK(black_boxes_since(here.path, noon_ms).size() == most_black_boxes);
}

// -- what the reporter keeps ----------------------------------------------------------------------

TEST_CASE("IKP: a folder is there once something is decided, and is whole when it is over") {
  scratch here;
  incident_keeper keeper(here.path, "tiny");
  REQUIRE(keeper.decided(evidence_of(killed()), noon));
  const auto file = here / "incidents/0002/incident.json";
  auto j = object_in(file);
  CHECK(j["type"] == "incident");
  CHECK(j["schema"] == report::incident_schema);
  CHECK(j["state"] == "recovering");
  CHECK(j["resumed_after_step"].is_null());
  CHECK(j["at"]["noticed"] == "2025-11-25T12:03:11.204Z");
  CHECK(j["at"]["fault"] == "2025-11-25T12:03:11.004Z");
  CHECK(j["at"]["back"].is_null());
  write_at(here / "blackbox-node2-12-end.trace", noon_ms + 100);
  REQUIRE(keeper.over(back(killed()), noon + milliseconds(1600)));
  CHECK(keeper.folder_of(2) == "incidents/0002");
  CHECK(keeper.folder_of(1).empty());
  j = object_in(file);
  CHECK(j["state"] == "over");
  CHECK(j["job"] == "tiny");
  CHECK(j["at"]["noticed"] == "2025-11-25T12:03:11.204Z");
  CHECK(j["at"]["back"] == "2025-11-25T12:03:12.804Z");
  CHECK(j["steps_repeated"] == 0);
  CHECK(j["rule"] == 1);
  CHECK(j["action"] == "restart");
  CHECK(j["times_left"].is_null());  // any number
  CHECK(j["black_boxes"] == json::array({"blackbox-node2-12-end.trace"}));
  REQUIRE(j["decisions"].size() == 1);
  const auto& d = j["decisions"][0];
  CHECK(d["findings"][0]["name"] == "stuck_device");
  CHECK(d["findings"][0]["for_s"] == 4.0);
  CHECK(d["findings"][0]["gone_s"] == 1.0);
  CHECK(d["waits"]["culprits"][0]["kind"] == "idle");
  CHECK(d["waits"]["before_s"] == 2.0);
  CHECK(d["vitals"][0]["node"] == "node2");
  CHECK(d["vitals"][0]["before_s"] == 0.5);
  CHECK(d["vitals"][0]["vitals"]["ranks"][0]["state"] == "waiting");
  CHECK(d["vitals_left_out"] == 3);
  CHECK(content(here / "incidents/0002/waits.txt") == "culprit:\n  worker/1\n");
  CHECK(content(here / "incidents/0002/waits.dot") == "digraph waits {\n}\n");
}

TEST_CASE("IKP-1: evidence that comes after the end is kept all the same, the end stays") {
  scratch here;
  incident_keeper keeper(here.path, "tiny");
  REQUIRE(keeper.over(back(killed()), noon));
  REQUIRE(keeper.decided(evidence_of(killed(), false), noon));
  const auto j = object_in(here / "incidents/0002/incident.json");
  CHECK(j["state"] == "over");
  CHECK(j["back_s"] == 1.8);
  CHECK(j["decisions"].size() == 1);
  CHECK(things_in(here / "incidents/0002") == 1);         // no graph, no files of one
  REQUIRE(keeper.decided(evidence_of(killed(1)), noon));  // of one that is past
  CHECK_FALSE(fs::exists(here / "incidents/0001"));
}

TEST_CASE(
    "IKP-3: where the folder of its number is there, an incident is kept under the next one") {
  scratch here;
  incident_keeper acts(here.path, "tiny"), deposed(here.path, "tiny");
  REQUIRE(acts.decided(evidence_of(killed(1)), noon));
  REQUIRE(deposed.decided(evidence_of(killed(1)), noon));
  CHECK(deposed.folder_of(1) == "incidents/0002");
  CHECK(deposed.kept_as(1) == 2);
  REQUIRE(acts.over(back(killed(1)), noon));
  REQUIRE(acts.decided(evidence_of(killed(2)), noon));
  REQUIRE(deposed.over(back(killed(1)), noon));
  CHECK(acts.kept_as(1) == 1);
  CHECK(acts.kept_as(2) == 3);
  CHECK(kept_incidents(here.path) == std::vector<uint64_t>{1, 2, 3});
  for (const auto n : {1, 2, 3})
    CHECK(object_in(here / incident_folder(n) / "incident.json")["number"] == n);
  CHECK(object_in(here / "incidents/0002/incident.json")["state"] == "over");
  CHECK(object_in(here / "incidents/0003/incident.json")["state"] == "recovering");
}

TEST_CASE("an incident that ends when the next has begun is told with its own folder") {
  scratch here;
  incident_keeper other(here.path, "tiny"), keeper(here.path, "tiny");
  REQUIRE(other.decided(evidence_of(killed(1)), noon));
  REQUIRE(keeper.decided(evidence_of(killed(1)), noon));
  REQUIRE(keeper.decided(evidence_of(killed(2)), noon));
  REQUIRE(keeper.over(back(killed(1)), noon));
  CHECK(keeper.kept_as(1) == 2);
  CHECK(keeper.folder_of(1) == "incidents/0002");
  CHECK(keeper.kept_as(2) == 3);
  CHECK(keeper.folder_of(2) == "incidents/0003");
}

TEST_CASE("IKP-2: a disk that is full ends nothing, and is told once an incident") {
  scratch here;
  incident_keeper keeper(here.path, "tiny");
  {
    const full_disk full(0);
    CHECK_FALSE(keeper.decided(evidence_of(killed()), noon));
    CHECK(keeper.over(back(killed()), noon));  // it was told
    CHECK(keeper.folder_of(2).empty());
    CHECK_FALSE(keeper.over(back(killed(3)), noon));
  }
  CHECK(keeper.over(back(killed(4)), noon));
  CHECK(keeper.folder_of(4) == "incidents/0004");
}

TEST_CASE("IKP: a black box that comes after the end is named, for a while") {
  scratch here;
  incident_keeper keeper(here.path, "tiny");
  REQUIRE(keeper.over(back(killed()), noon));
  const auto file = here / "incidents/0002/incident.json";
  CHECK(object_in(file)["black_boxes"].empty());
  REQUIRE(keeper.look_again(noon + milliseconds(10)));
  write_at(here / "blackbox-node2-12-end.trace", noon_ms + 20);
  REQUIRE(keeper.look_again(noon + milliseconds(30)));
  CHECK(object_in(file)["black_boxes"].size() == 1);
  REQUIRE(keeper.look_again(noon + std::chrono::minutes(1)));  // the last look
  write_at(here / "blackbox-node2-13-end.trace", noon_ms + 70'000);
  REQUIRE(keeper.look_again(noon + milliseconds(71'000)));
  CHECK(object_in(file)["black_boxes"].size() == 1);
}

TEST_CASE("INF-4: whatever a node calls itself, its name is in no path and escapes no page") {
  const std::vector<std::string> names{
      "../../../../tmp/x",      "/etc/x", "..", ".", "a\nb", "\x1b[2J", "\xff",
      std::string(100'000, 'n')};
  for (const auto& name : names) {
    scratch here;
    incident_keeper keeper(here / "out", "tiny");
    fs::create_directory(here / "out");
    REQUIRE(keeper.decided(evidence_of(killed(1, name)), noon));
    REQUIRE(keeper.over(back(killed(1, name)), noon));
    CHECK(things_in(here.path) == 1);
    CHECK(things_in(here / "out") == 1);
    CHECK(things_in(here / "out/incidents") == 1);
    const auto page = kept_incident(here / "out", 1, false);
    REQUIRE(page);
    CHECK(page->find('\x1b') == std::string::npos);
    CHECK(page->starts_with("incident 1 (epoch 3 -> 4), node "));
    CHECK(page->size() < 40'000);
  }
}

// -- what is left out -----------------------------------------------------------------------------

TEST_CASE("DOC-1: of an incident that has no room what says least is left out, and named") {
  scratch here;
  report::incident_doc doc{"tiny", true, back(killed())};
  auto decision = report::incident_decision{killed(), noon_ms};
  for (int i = 0; i < 1000; ++i) {
    decision.findings.push_back({{"name", "f"}, {"text", std::string(40, 'f')}});
    decision.vitals.push_back({{"node", std::string(40, 'v')}});
  }
  decision.waits = {{"culprits", json::array()}, {"waits", std::string(30'000, 'w')}};
  doc.add(decision);
  const auto whole = report::incident_doc_json(doc, max_incident_bytes);
  CHECK(json::parse(whole)["left_out"].empty());
  const auto less = [&](size_t most) {
    const auto text = report::incident_doc_json(doc, most);
    CHECK(text.size() <= most);
    return json::parse(text)["left_out"];
  };
  CHECK(less(whole.size()) == json::array());
  CHECK(less(whole.size() - 1) == json::array({"vitals"}));
  CHECK(less(130'000) == json::array({"vitals", "waits"}));
  CHECK(less(5'000) == json::array({"vitals", "waits", "findings"}));
}

TEST_CASE("DOC: of many decisions the first ones and the last are kept") {
  report::incident_doc doc;
  for (uint32_t rule = 1; rule <= 10; ++rule) {
    report::incident_decision d;
    d.fault.rule = rule;
    doc.add(d);
  }
  REQUIRE(doc.decisions.size() == report::most_decisions_kept);
  CHECK(doc.decisions[0].fault.rule == 1);
  CHECK(doc.decisions[2].fault.rule == 3);
  CHECK(doc.decisions[3].fault.rule == 10);
  CHECK(doc.decisions_left_out == 6);
}

TEST_CASE("DOC: times that are none, from whoever tells them") {
  for (const double odd : {std::nan(""), -1.0, 1e300, -1e300, double(INFINITY)}) {
    auto i = back(killed());
    i.noticed_s = i.named_s = i.back_s = i.ago_s = odd;
    report::incident_doc doc{"tiny", true, i, noon_ms};
    const auto j = json::parse(report::incident_doc_json(doc, max_incident_bytes));
    CHECK(j["at"]["fault"] == "2025-11-25T12:03:11.204Z");
    REQUIRE(report::read_incident(j.dump(), "it"));
  }
  CHECK(report::wall_text(-1).empty());
  CHECK(report::wall_text(INT64_MAX).empty());
}

// -- the page -------------------------------------------------------------------------------------

TEST_CASE("PAG: an incident as a page") {
  scratch here;
  incident_keeper keeper(here.path, "tiny");
  write_at(here / "blackbox-node2-12-end.trace", noon_ms + 100);
  REQUIRE(keeper.decided(evidence_of(killed()), noon));
  REQUIRE(keeper.over(back(killed()), noon));
  const auto page = kept_incident(here.path, 2, false);
  REQUIRE(page);
  CHECK(
      *page ==
      fmt::format(
          "incident 2 (epoch 3 -> 4), node node2: dead_process\n"
          "  node node2 was killed by signal 9 (Killed)\n"
          "  fell after step 41 at 2025-11-25T12:03:11.004Z; noticed after 0.2 s, named after 0.2 "
          "s, back after 1.8 s (after step 41, 0 steps made again)\n"
          "  done: spare node4 for node2, from step-00000041 (rule 1)\n"
          "  decision at 2025-11-25T12:03:11.204Z: dead_process: rule 1, restart (it may be "
          "applied again any number of times)\n"
          "  findings then:\n"
          "    stuck_device rank 1 node2: its forward does not end, 3 others wait for it (4 s, at "
          "most 3), for 4.0 s, gone 1.0 s before\n"
          "  waits, 2.0 s before:\n"
          "    culprit: worker/1 waits for nobody\n"
          "    stage/0 waits 4.0 s for worker/1: forward\n"
          "  what nodes said last:\n"
          "    node2, 0.5 s before: rank 1 waiting for rank 3 since 21 ms (step 41)\n"
          "    ... and 3 more\n"
          "  black boxes (troupe trace stats FILE):\n"
          "    {0}/blackbox-node2-12-end.trace\n"
          "  all of it: {0}/incidents/0002\n",
          here.path.string()));
  const auto raw = kept_incident(here.path, 2, true);
  REQUIRE(raw);
  CHECK(*raw == content(here / "incidents/0002/incident.json"));
}

TEST_CASE("PAG: an incident of which little is known, and one that goes on") {
  report::incident_doc doc{"tiny", false, {}, noon_ms};
  doc.fault.number = 1;
  const auto j = report::read_incident(report::incident_doc_json(doc, max_incident_bytes), "it");
  REQUIRE(j);
  CHECK(report::incident_page(*j, {}) ==
        "incident 1 (epoch 0 -> 0), nobody is named: ?\n"
        "  nothing is known of it\n"
        "  fell after step 0 at 2025-11-25T12:03:11.204Z; noticed after 0.0 s; not over when this "
        "was written\n"
        "  done: nothing yet\n"
        "  decision: none by a rule\n"
        "  black boxes: none\n");
}

TEST_CASE("PAG-1: what is no incident is refused, whatever it is") {
  using report::no_incident;
  for (const std::string text :
       {"", "\n", "{", "[]", "null", "7", "\"incident\"", "{}", "\xff\xfe",
        "{\"type\":\"incident\"}", "{\"type\":\"step\",\"schema\":1}",
        "{\"type\":[],\"schema\":{}}", "{\"type\":\"incident\",\"schema\":-1}",
        "{\"type\":\"incident\",\"schema\":\"1\"}"})
    CHECK(is_error(report::read_incident(text, "it"), no_incident));
  const auto nested = [](int levels) {
    const auto n = static_cast<size_t>(levels);
    return "{\"type\":\"incident\",\"schema\":1,\"x\":" + std::string(n, '[') +
           std::string(n, ']') + "}";
  };
  CHECK(report::read_incident(nested(report::max_incident_depth - 2), "it"));
  CHECK(is_error(report::read_incident(nested(report::max_incident_depth + 1), "it"), no_incident));
  CHECK(is_error(report::read_incident(nested(200'000), "it"), no_incident));
  CHECK(is_error(report::read_incident("{\"type\":\"incident\",\"schema\":2}", "it"),
                 report::later_incident, "it", 2));
}

TEST_CASE("PAG-1: keys of any kind, or none, make a page") {
  scratch here;
  incident_keeper keeper(here.path, "tiny");
  REQUIRE(keeper.decided(evidence_of(killed()), noon));
  REQUIRE(keeper.over(back(killed()), noon));
  const auto good = object_in(here / "incidents/0002/incident.json");
  const json odd[] = {nullptr,
                      -1,
                      1e308,
                      "text",
                      json::array({json::array(), 7, nullptr}),
                      json::object({{"from", 7}}),
                      true,
                      uint64_t{18446744073709551615u}};
  // Each place of the tree in turn, and all that lies below it.
  const auto flat = good.flatten();
  size_t tried = 0;
  for (const auto& [pointer, value] : flat.items())
    for (json::json_pointer at(pointer); !at.empty(); at = at.parent_pointer())
      for (const auto& other : odd) {
        if (at == json::json_pointer("/type") || at == json::json_pointer("/schema")) continue;
        auto j = good;
        j[at] = other;
        const auto back = report::read_incident(j.dump(), "it");
        REQUIRE(back);
        CHECK(report::incident_page(*back, {"out", "out/incidents/0002"}).starts_with("incident "));
        CHECK_FALSE(report::incident_line(*back).empty());
        ++tried;
      }
  CHECK(tried > 500);
}

TEST_CASE("PAG-2: a page has a bounded length, and says how much more there is") {
  report::incident_doc doc{"tiny", true, back(killed())};
  auto decision = report::incident_decision{killed(), noon_ms};
  for (int i = 0; i < 500; ++i) {
    decision.findings.push_back({{"name", "f"}, {"text", "t"}});
    decision.vitals.push_back({{"node", "n"}});
    doc.black_boxes.push_back("blackbox-x-1-end.trace");
  }
  doc.add(decision);
  const auto j = report::read_incident(report::incident_doc_json(doc, max_incident_bytes), "it");
  REQUIRE(j);
  const auto page = report::incident_page(*j, {});
  CHECK(std::count(page.begin(), page.end(), '\n') < 60);
  CHECK(page.find("and 488 more") != std::string::npos);
}

// -- the verb -------------------------------------------------------------------------------------

namespace {

/// `troupe health show` of an output in which incidents 2 and 5 are kept.
struct kept_output {
  scratch here;
  runtime_folder signs{here / "no-signs"};

  kept_output() {
    incident_keeper keeper(here / "out", "tiny");
    fs::create_directory(here / "no-signs");
    fs::create_directory(here / "out");
    REQUIRE(keeper.over(back(killed(2)), noon));
    REQUIRE(keeper.over(back(killed(5)), noon));
  }
  ended show(const std::string& words) const {
    return run_in(here.path, "'" TROUPE_PROGRAM "' health show " + words);
  }
};

}  // namespace

TEST_CASE("health show: a page, JSON, a list, of a job that has ended") {
  kept_output k;
  const auto page = k.show("2 --dir out");
  CHECK(page.code == 0);
  CHECK(page.talk.empty());
  CHECK(page.out.starts_with("incident 2 (epoch 3 -> 4), node node2: dead_process\n"));
  CHECK(page.out.ends_with("  all of it: out/incidents/0002\n"));
  CHECK(json::parse(k.show("5 --dir out --json").out)["number"] == 5);
  const auto list = k.show("--dir out");
  CHECK(list.code == 0);
  CHECK(list.out.find("   2  2025-11-25T12:03:09.604Z  dead_process      node2       spare") !=
        std::string::npos);
  CHECK(k.show("--dir absent").code == 66);
  fs::create_directory(k.here / "empty");
  CHECK(k.show("--dir empty").out == "no incidents\n");
}

TEST_CASE("health show: by the configuration, as other verbs take it") {
  kept_output k;
  std::ofstream(k.here / "job.toml") << "[job]\noutput = \"out\"\n[model]\nlayers = 4\nheads = "
                                        "4\nhidden = 64\n[data]\npath = \"text\"\n";
  CHECK(k.show("5 job.toml").out.starts_with("incident 5 "));
  CHECK(k.show("job.toml").out.find("   5  ") != std::string::npos);
  CHECK(k.show("5 absent.toml").code != 0);
}

TEST_CASE("health show: what is not there is said with what there is") {
  kept_output k;
  const auto none = k.show("7 --dir out");
  CHECK(none.code == 66);
  CHECK(none.out.empty());
  CHECK(none.talk.find("there are 2, 5") != std::string::npos);
  const auto nowhere = k.show("1");  // nothing runs here
  CHECK(nowhere.code == 66);
  CHECK(nowhere.talk.find("--dir") != std::string::npos);
  CHECK(k.show("seven job.toml").code == 64);
}

TEST_CASE("health show: a file that is damaged, or longer than any, is an error that says so") {
  kept_output k;
  const auto file = k.here / "out/incidents/0002/incident.json";
  fs::resize_file(file, fs::file_size(file) / 2);
  auto said = k.show("2 --dir out");
  CHECK(said.code == 65);
  CHECK(said.talk.find("incident.json") != std::string::npos);
  CHECK(k.show("--dir out").out.find("   5  ") != std::string::npos);  // the other one all the same
  fs::resize_file(file, max_incident_bytes + 1);
  CHECK(k.show("2 --dir out").code == 65);
  fs::remove(file);
  CHECK(k.show("2 --dir out").code == 66);
}

TEST_CASE("health show: what a run says stands in for its folder, as lines and as JSON") {
  fbs::RunStatusT run;
  CHECK(told_incidents_text(run, "night", false) == "no incidents\n");
  CHECK(told_incidents_text(run, "night", true).empty());
  for (const uint64_t number : {3, 4}) {
    auto& i = *run.incidents.emplace_back(std::make_unique<fbs::IncidentT>());
    i.number = number;
    i.finding = "dead_process";
    i.node = "node2";
    i.ago_s = 62;
  }
  CHECK(told_incidents_text(run, "night", false).find("  3  ") != std::string::npos);
  std::istringstream lines(told_incidents_text(run, "night", true));
  std::vector<json> all;
  for (std::string line; std::getline(lines, line);)
    all.push_back(json::parse(line, nullptr, false));
  REQUIRE(all.size() == 2);
  CHECK(all[1]["number"] == 4);
  CHECK(all[1]["job"] == "night");
  CHECK(all[1]["node"] == "node2");
}

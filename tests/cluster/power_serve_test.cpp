// A power budget above jobs, with real processes: `troupe power serve`, and jobs that join it by
// its sign, by a key or by certificates, also by way of a budget between. What a job's machine
// draws is a model's word, the same whatever it does, so that who may make steps follows from the
// budget alone; and bits are those without a budget.
//
// A lease lasts 5 s, since a job reports each 1 to 1.5 s. Jobs begin once the budget knows what its
// children have. One that waited for that without a cap would draw more than it has, by its model,
// and count as one that keeps no cap.
#include <csignal>
#include <optional>
#include <utility>

#include "tests/cluster/constant_watts.hpp"
#include "tests/cluster/networks.hpp"
#include "tests/cluster/served_row.hpp"
#include "tests/cluster/survivors.hpp"

using namespace troupe::cluster_test;
using nlohmann::json;

namespace {

const std::string goes_on_text = "goes on: its power budget has room";

const std::vector<std::string> by_sign = with(constant_watts, {"power.parent=auto"});

std::vector<std::string> named(const std::string& job, const std::vector<std::string>& sets) {
  return with(sets, {"job.name=" + job});
}

/// Whether the rack has a lease of its row of as much, by the row's word, and its own.
bool until_rack_has(double w) {
  return eventually([&] {
    const auto rack = child_in(row_tree("row0"), "rack0"), own = row_tree("rack0");
    return rack.is_object() && own.is_object() && rack["lease_left_ms"] > 0 &&
           rack["granted_w"] == w && own["budget_w"] == w;
  });
}

/// Heard now, with a lease of as much, and making steps.
bool works_with(const json& child, double w) {
  return child["heard"] == true && child["silent"] == false && child["lease_left_ms"] > 0 &&
         child["granted_w"].is_number() && child["granted_w"] >= w && child["pace_percent"] > 0;
}

json power_of_job(program& up) {
  return object_of({"power", "status", "--json", "--connect", job_address(up)});
}

json said_power_of_job(program& up) {
  return said_object_of({"power", "status", "--json", "--connect", job_address(up)});
}

/// An actor of a job as its status shows it.
json actor_of_job(program& up, const std::string& path) {
  const auto view = object_of({"ps", "--json", "--connect", job_address(up)});
  if (view.is_object())
    for (const auto& n : view["nodes"])
      for (const auto& a : n["actors"])
        if (a["path"] == path) return a;
  return {};
}

json run_of_job(program& up) {
  return actor_of_job(up, "run");
}

/// The same, once it is said, of an actor that has details.
json said_detail(program& up, const std::string& path, const std::string& key) {
  json out;
  REQUIRE(eventually([&] {
    const auto actor = actor_of_job(up, path);
    out = actor.is_object() ? actor["detail"].value(key, json()) : json();
    return !out.is_null();
  }));
  return out;
}
int step_of_job(program& up) {
  return said_detail(up, "run", "step");
}

/// The last step that is done, once the run waits for power and makes none.
int step_that_waits(program& up) {
  json seen;
  REQUIRE(eventually([&] {
    seen = run_of_job(up);
    return seen.is_object() && seen["state"] == "waiting for power";
  }));
  return seen["detail"]["step"];
}

/// Whether the first was said, and the second not since.
bool holds_by_text(const std::string& said, const std::string& first, const std::string& second) {
  const auto begun = said.rfind(first), over = said.rfind(second);
  return begun != std::string::npos && (over == std::string::npos || over < begun);
}

/// Of a job whose stdout nobody reads for long.
std::vector<double> logged_losses(const job_files& job) {
  std::vector<double> out;
  for (const auto& step : logged_steps(job / "run/log.jsonl")) out.push_back(step["loss"]);
  return out;
}

std::string key_of_budget(const troupe::scratch& at, const std::string& role,
                          const std::string& name, const std::string& budget) {
  const auto file = (at / fmt::format("{}-{}-{}.key", budget, role, name)).string();
  const auto made = run({"key", "--role", role, "--name", name, "--budget", budget, "--out", file});
  INFO(made.err);
  REQUIRE(made.code == 0);
  return file;
}

/// Certificates of one authority: the budget's, an operator's, and those of two jobs.
struct certified_row {
  std::string pki;

  /// `hosts`: of the budget.
  certified_row(const troupe::scratch& at, const std::string& hosts) : pki((at / "pki").string()) {
    std::vector<std::string> all{"certs",      pki,     "--budget", "row0=" + hosts,
                                 "--operator", "alice", "--reader", "bob"};
    for (const auto* name : {"gpt-a", "gpt-b"})
      for (const auto* of : {"coordinator", "node0"})
        all.insert(all.end(), {"--node", fmt::format("{}-{}=127.0.0.1", name, of)});
    const auto made = run(all);
    INFO(made.err);
    REQUIRE(made.code == 0);
  }

  /// A child that the certificate of its job's head proves.
  static std::string child(const std::string& name, double floor_w, double static_w,
                           double ceiling_w) {
    return child_of_budget(name, "low", floor_w, static_w, ceiling_w) +
           fmt::format("certificate = \"{}-coordinator\"\n", name);
  }
  /// Of the budget.
  std::string tls() const {
    return fmt::format(
        "[tls]\nca = \"{0}/ca.pem\"\ncertificate = \"{0}/{{node}}.pem\"\nkey = "
        "\"{0}/{{node}}.key\"\n",
        pki);
  }
  /// Of a job, with the certificates of the job `whose`.
  static std::vector<std::string> job(const std::string& of, const std::string& whose,
                                      const std::string& name, const std::string& budget) {
    return with(
        named(name, constant_watts),
        {"cluster.tls.ca=" + of + "/ca.pem",
         fmt::format("cluster.tls.certificate={}/{}-{{node}}.pem", of, whose),
         fmt::format("cluster.tls.key={}/{}-{{node}}.key", of, whose), "power.parent=" + budget});
  }
  std::vector<std::string> shown(const std::string& whose) const {
    return {"--ca",  pki + "/ca.pem",           "--certificate", pki + "/" + whose + ".pem",
            "--key", pki + "/" + whose + ".key"};
  }
  /// The tree, by a reader's certificate.
  json tree(const std::string& address) const {
    return said_object_of(with({"power", "tree", "--json", "--connect", address}, shown("bob")));
  }
  bool until_known(const std::string& address) const {
    return eventually([&] { return tree(address)["knows"] == true; });
  }
};

/// Ends a job that makes steps and its budget; the first losses are those without one.
void end_with_bits_of_alone(program& up, const job_files& job, served_row& row) {
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);
  row.end();
  auto made = logged_losses(job);
  REQUIRE(made.size() >= 20);
  made.resize(20);
  CHECK(made == job.losses(with(named("gpt-a", constant_watts),
                                {"train.steps=20", "train.schedule=constant"})));
}

/// Ends a job that waits, as a person does.
void interrupt_waiting(program& up) {
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);
  CHECK(up.objects("step").empty());
}

}  // namespace

TEST_CASE("power serve: two jobs join by its sign, and make the steps that they make alone") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files a, b;
  served_row row(budget_file(
      signs.folder, "row0", 110,
      child_of_budget("gpt-a", "low", 53, 55, 60) + child_of_budget("gpt-b", "low", 53, 55, 60)));
  REQUIRE(until_row_knows());
  program first(a.up(with(named("gpt-a", by_sign), endless)));
  {
    program second(b.up(with(named("gpt-b", by_sign), endless)));
    json tree;
    REQUIRE(eventually([&] {
      tree = row_tree();
      const auto one = child_in(tree, "gpt-a"), other = child_in(tree, "gpt-b");
      return one.is_object() && other.is_object() && works_with(one, 53) && works_with(other, 53);
    }));
    CHECK(tree["budget_w"] == 110);
    CHECK(tree["counted_w"] <= 110);  // PWR-1
    // What their machine draws counts once: each has its part, of the looks of a second or so.
    CHECK(eventually([&] {
      const auto now = row_tree();
      return now.is_object() && now["power_w"].is_number() && now["power_w"] > 45 &&
             now["power_w"] < 55;
    }));
    CHECK(tree["power_source"] == "modelled");
    CHECK(tree["epoch"] == 1);
    CHECK(eventually([&] {
      return text_of(signs.folder / "row0.prom")
                 .find("troupe_power_child_pace_ratio{budget=\"row0\",child=\"gpt-b\"") !=
             std::string::npos;
    }));
    second.signal(SIGINT);
    CHECK(second.wait() == 128 + SIGINT);
  }
  // It begins anew, without a cap, beside the other one.
  program again(b.up(named("gpt-b", by_sign)));
  CHECK(again.wait() == 0);
  INFO(again.err());
  CHECK(again.losses().size() == 20);
  first.signal(SIGINT);
  CHECK(first.wait() == 128 + SIGINT);
  auto made = logged_losses(a);
  REQUIRE(made.size() >= 20);
  made.resize(20);
  row.end();
  CHECK(again.losses() == b.losses(named("gpt-b", constant_watts)));
  CHECK(made == a.losses(with(named("gpt-a", constant_watts),
                              {"train.steps=20", "train.schedule=constant"})));
}

TEST_CASE("PWR-3: where a budget has room for one job the other waits, also once that is killed") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files a, b;
  served_row row(budget_file(
      signs.folder, "row0", 55,
      child_of_budget("gpt-a", "high", 55, 55, 55) + child_of_budget("gpt-b", "low", 0, 0, 60)));
  REQUIRE(until_row_knows());
  program first(a.up(with(with(named("gpt-a", by_sign), next_to_none), endless)));
  REQUIRE(first.until_step(3));
  program second(b.up(with(named("gpt-b", by_sign), next_to_none)));
  REQUIRE(second.until_error_has("waits for power"));
  json status;
  REQUIRE(eventually([&] {
    status = power_of_job(second);
    return status.is_object() && status["reason"].is_string() &&
           status["reason"] == "the power budget row0 grants no watts now";
  }));
  CHECK(status["parent"] == "row0");
  CHECK(status["cap_w"] == 0);
  CHECK(status["pace_percent"] == 0);
  CHECK(step_that_waits(second) == 0);

  first.signal(SIGKILL);
  CHECK(first.wait() == 128 + SIGKILL);
  // Nobody knows what is left of it: it has its watts.
  REQUIRE(until_child("gpt-a", [](const json& c) { return c["silent"] == true; }));
  const auto tree = said_tree();
  CHECK(child_in(tree, "gpt-a")["counted_w"] == 55);
  CHECK(child_in(tree, "gpt-b")["granted_w"] == 0);
  CHECK(tree["counted_w"] == 55);
  second.listen();
  CHECK(second.objects("step").empty());
  CHECK(second.err().find(goes_on_text) == std::string::npos);

  const auto set = told_power({"budget", "130"});
  INFO(set.err);
  CHECK(set.code == 0);
  CHECK(second.wait() == 0);
  CHECK(second.err().find(goes_on_text) != std::string::npos);
  CHECK(second.losses().size() == 20);
  row.end();
  CHECK(second.losses() == b.losses(named("gpt-b", constant_watts)));
}

TEST_CASE("PWR-2: the lease of a budget that is killed lapses, its job waits for the next one") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files job;
  const auto file =
      budget_file(signs.folder, "row0", 70, child_of_budget("gpt-a", "high", 20, 20, 60));
  const auto lives = [&] { return only_object_in(signs.folder / "row0/power.epoch")["epoch"]; };
  std::optional<served_row> row;
  row.emplace(file);
  CHECK(lives() == 1);
  program up(job.up(with(named("gpt-a", by_sign), endless)));
  REQUIRE(up.until_step(3));
  REQUIRE(until_child("gpt-a", [](const json& c) { return works_with(c, 60); }));
  row->up.signal(SIGKILL);
  CHECK(row->up.wait() == 128 + SIGKILL);
  row.reset();
  // Not the lapse of a moment, on a busy machine, that was over before.
  REQUIRE(up.until([&] {
    return holds_by_text(up.err(), "the lease of the power budget row0 has lapsed",
                         "the power budget row0 grants again") &&
           holds_by_text(up.err(), "waits for power", goes_on_text);
  }));
  const int step = step_that_waits(up);
  const auto status = said_power_of_job(up);
  CHECK(status["cap_w"] == 20);
  CHECK(status["lease_left_ms"] == 0);
  CHECK(status["parent_problem"].is_string());
  // All that it is yet to make: it is asked while no step is under way.
  CHECK(told_at_console(up, fmt::format("set train.steps {}", step + 20)).code == 0);
  CHECK(step_of_job(up) == step);

  row.emplace(file);
  CHECK(lives() == 2);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(up.err().find("the power budget row0 grants again") != std::string::npos);
  const auto tree = said_tree();
  CHECK(tree["epoch"] == 2);
  CHECK(child_in(tree, "gpt-a")["heard"] == true);
  row->end();
  const auto made = logged_losses(job);
  CHECK(made.size() == static_cast<size_t>(step) + 20);
  CHECK(made ==
        job.losses(with(named("gpt-a", constant_watts),
                        {fmt::format("train.steps={}", step + 20), "train.schedule=constant"})));
}

TEST_CASE(
    "PWR-2: a job below a rack below a row waits when that is killed, and for its next life") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files job;
  const auto row_file =
      budget_file(signs.folder, "row0", 60, child_of_budget("rack0", "high", 20, 20, 60));
  std::optional<served_row> row;
  row.emplace(row_file);
  served_row rack(budget_file(signs.folder, "rack0", 60,
                              child_of_budget("gpt-a", "high", 20, 20, 60), "parent = \"auto\"\n"));
  REQUIRE(until_rack_has(60));
  program up(
      job.up(with(named("gpt-a", constant_watts), with(endless, {"power.parent=auto:rack0"}))));
  REQUIRE(up.until_step(3));
  REQUIRE(eventually([] {
    const auto c = child_in(row_tree("rack0"), "gpt-a"), above = child_in(row_tree(), "rack0");
    return c.is_object() && works_with(c, 60) && above.is_object() && works_with(above, 60);
  }));
  row->up.signal(SIGKILL);
  CHECK(row->up.wait() == 128 + SIGKILL);
  row.reset();
  REQUIRE(eventually([] {
    const auto own = row_tree("rack0");
    return own.is_object() && own["budget_w"] == 20;
  }));
  CHECK(rack.up.until_error_has("row0: lease lapsed 20 W"));
  REQUIRE(up.until([&] { return holds_by_text(up.err(), "waits for power", goes_on_text); }));
  const int step = step_that_waits(up);
  CHECK(said_power_of_job(up)["parent"] == "rack0");
  CHECK(told_at_console(up, fmt::format("set train.steps {}", step + 20)).code == 0);
  CHECK(step_of_job(up) == step);

  row.emplace(row_file);
  CHECK(up.wait() == 0);
  INFO(up.err());
  CHECK(logged_losses(job).size() == static_cast<size_t>(step) + 20);
  rack.end();
  row->end();
}

TEST_CASE(
    "PWR-4: power brake: a job's ranks begin nothing until it is off, and bits are the same") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files job;
  served_row row(
      budget_file(signs.folder, "row0", 70, child_of_budget("gpt-a", "high", 55, 55, 60)));
  REQUIRE(until_row_knows());
  program up(job.up(with(named("gpt-a", by_sign), endless)));
  REQUIRE(up.until_step(3));
  REQUIRE(until_child("gpt-a", [](const json& c) { return c["brake_armed"] == true; }));
  finished on;
  const bool is_on = eventually([&] {  // a child that the machine keeps waiting is not heard
    on = told_power({"brake", "row0", "on"});
    return on.code != 0 || on.out.find(": 1 of 1 children") != std::string::npos;
  });
  INFO(on.err, on.out);
  REQUIRE(is_on);
  CHECK(on.code == 0);
  CHECK(on.out == "row0 holds all work within its step from now on: 1 of 1 children were heard\n");
  REQUIRE(eventually([&] {
    const auto stage = actor_of_job(up, "stage/0");
    return stage.is_object() && stage["detail"]["braked"] == true;
  }));
  REQUIRE(until_child("gpt-a", [](const json& c) {
    return c["brake"] == true && c["pace_percent"] == 0 && c["lease_left_ms"] > 0;
  }));
  // What had begun has ended, once two looks see the same; from then on nothing does.
  const auto done = [&] { return said_detail(up, "worker/0", "operations"); };
  json before;
  REQUIRE(eventually([&] {
    const auto now = done();
    return std::exchange(before, now) == now;
  }));
  const int step = step_of_job(up);
  for (int look = 0; look < 10; ++look) CHECK(done() == before);
  CHECK(step_of_job(up) == step);
  CHECK(said_tree()["brake"] == true);
  CHECK(up.until_error_has("waits for power: the power budget row0 holds all work"));

  CHECK(told_power({"brake", "off"}).code == 0);
  REQUIRE(up.until_step(step + 20));
  CHECK(said_tree()["brake"] == false);
  end_with_bits_of_alone(up, job, row);
}

TEST_CASE("BGT-10: power serve: it pulls the brake by itself, and lets go once there is room") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files job;
  served_row row(budget_file(signs.folder, "row0", 70, child_of_budget("gpt-a", "high", 20, 20, 60),
                             "", "auto"));
  REQUIRE(until_row_knows());
  program up(job.up(with(named("gpt-a", by_sign), endless)));
  REQUIRE(up.until_step(3));
  CHECK(said_tree()["brake_pulled"] == false);
  // No cap makes the machine draw less than its 50 W.
  REQUIRE(told_power({"budget", "30"}).code == 0);
  REQUIRE(until_child("gpt-a", [](const json& c) { return c["brake"] == true; }));
  const auto tree = said_tree();
  CHECK(tree["brake_pulled"] == true);  // for as long as there is no room
  CHECK(tree["brake"] == false);        // that is a person's
  const int step = step_of_job(up);
  REQUIRE(told_power({"budget", "70"}).code == 0);
  REQUIRE(up.until_step(step + 20));
  CHECK(said_tree()["brake_pulled"] == false);
  end_with_bits_of_alone(up, job, row);
}

TEST_CASE("power serve: a job that is no child of the budget is told so, and makes no step") {
  const own_signs signs;
  const job_files job;
  served_row row(
      budget_file(signs.folder, "row0", 70, child_of_budget("gpt-a", "high", 20, 20, 60)));
  program up(job.up(named("gpt-b", by_sign)));
  REQUIRE(up.until_error_has("waits for power: no lease yet from the power budget row0"));
  REQUIRE(up.until_error_has("row0 has no child"));
  REQUIRE(row.up.until_error_has("refused"));
  CHECK(child_in(said_tree(), "gpt-a")["heard"] == false);
  interrupt_waiting(up);
  row.end();
}

TEST_CASE("power serve: by HOST:PORT a job comes in with the key of that budget alone") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files job;
  const auto child = child_of_budget("gpt-a", "high", 20, 20, 60);
  served_row row(budget_file(signs.folder, "row0", 70, child));
  served_row other(budget_file(signs.folder, "row1", 70, child));
  const auto right = key_of_budget(signs.folder, "power", "gpt-a", "row0");
  const auto wrong = key_of_budget(signs.folder, "power", "gpt-a", "row1");
  const auto at_row = [&](const std::string& key) {
    return with(named("gpt-a", constant_watts),
                {"power.parent=" + row.address, "power.parent_key=" + key});
  };
  {
    const own_signs elsewhere;  // as another user's, it sees no budget's sign
    program up(job.up(at_row(wrong)));
    REQUIRE(up.until_error_has("the power budget at " + row.address + " is not heard: "));
    REQUIRE(up.until_error_has("waits for power: no lease yet from the power budget at "));
    interrupt_waiting(up);
  }
  CHECK(child_in(said_tree("row0"), "gpt-a")["heard"] == false);
  CHECK(child_in(said_tree("row1"), "gpt-a")["heard"] == false);
  {
    const own_signs elsewhere;
    program up(job.up(at_row(right)));
    CHECK(up.wait() == 0);
    INFO(up.err());
    CHECK(up.losses().size() == 20);
    CHECK(up.losses() == job.losses(named("gpt-a", constant_watts)));
  }
  CHECK(child_in(said_tree("row0"), "gpt-a")["heard"] == true);
  CHECK(child_in(said_tree("row1"), "gpt-a")["heard"] == false);
  row.end();
  other.end();
}

TEST_CASE("power serve: keys of a job open no budget, and keys of a budget open no job") {
  const own_signs signs;
  const job_files job;
  served_row row(
      budget_file(signs.folder, "row0", 70, child_of_budget("gpt-a", "high", 20, 20, 60)));
  program up(job.up(named("gpt-a", endless)));
  REQUIRE(up.until_step(1));
  const auto tool = [](std::vector<std::string> words, const std::string& at,
                       const std::string& key) {
    return run(with(std::move(words), {"--connect", at, "--key", key}));
  };
  const auto of_job = (job / "reader.key").string();
  REQUIRE(run({"key", "--role", "reader", "--name", "bob", "--out", of_job, "--connect",
               job_address(up)})
              .code == 0);
  CHECK(tool({"ps"}, job_address(up), of_job).code == 0);
  const auto refused = tool({"console", "-c", "status"}, row.address, of_job);
  CHECK(refused.code == 69);
  CHECK_MESSAGE(refused.err.find("no cluster answers at " + row.address) != std::string::npos,
                refused.err);
  CHECK(tool({"power", "tree"}, row.address, of_job).code == 69);

  const auto looks = key_of_budget(signs.folder, "reader", "bob", "row0");
  const auto commands = key_of_budget(signs.folder, "operator", "alice", "row0");
  for (const auto& key : {looks, commands}) {
    CAPTURE(key);
    CHECK(tool({"power", "tree"}, row.address, key).code == 0);
    CHECK(tool({"console", "-c", "pause"}, job_address(up), key).code == 69);
  }
  CHECK(tool({"power", "budget", "90"}, row.address, looks).code == 77);
  CHECK(said_tree()["budget_w"] == 70);
  CHECK(tool({"power", "budget", "90"}, row.address, commands).code == 0);
  CHECK(said_tree()["budget_w"] == 90);
  CHECK(eventually([&] {
    const auto now = run_of_job(up);
    return now.is_object() && now["state"] == "training";
  }));
  CHECK(objects_in(job / "run/audit.jsonl").empty());
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);
  row.end();
}

TEST_CASE("BGA-2: power serve: with certificates a job is the child that its own is for") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files a, b;
  const certified_row known(signs.folder, "127.0.0.1");
  const auto children =
      certified_row::child("gpt-a", 53, 55, 60) + certified_row::child("gpt-b", 53, 55, 60);
  const auto in_clear = budget_file(signs.folder, "row1", 110, children, "listen = \"0.0.0.0\"\n");
  CHECK(run({"power", "serve", in_clear.string()}).code == 78);  // PTR-7
  served_row row(budget_file(signs.folder, "row0", 110, children, known.tls()));
  REQUIRE(known.until_known(row.address));
  const auto under_row = [&](const std::string& whose, const std::string& name) {
    return certified_row::job(known.pki, whose, name, row.address);
  };
  program first(a.up(with(under_row("gpt-a", "gpt-a"), endless)));
  {
    program second(b.up(with(under_row("gpt-b", "gpt-b"), endless)));
    REQUIRE(eventually([&] {
      const auto tree = known.tree(row.address);
      const auto one = child_in(tree, "gpt-a"), other = child_in(tree, "gpt-b");
      return one.is_object() && other.is_object() && works_with(one, 53) && works_with(other, 53);
    }));
    second.signal(SIGINT);
    CHECK(second.wait() == 128 + SIGINT);
  }
  {
    const job_files c;
    program other(c.up(under_row("gpt-a", "gpt-b")));
    REQUIRE(other.until_error_has("is of the child gpt-a of row0, not of gpt-b"));
    REQUIRE(other.until_error_has("waits for power: no lease yet from the power budget at "));
    interrupt_waiting(other);
  }
  {
    const job_files c;
    const auto theirs = (signs.folder / "theirs").string();
    REQUIRE(run({"certs", theirs, "--node", "gpt-b-coordinator=127.0.0.1", "--node",
                 "gpt-b-node0=127.0.0.1"})
                .code == 0);
    program stranger(c.up(certified_row::job(theirs, "gpt-b", "gpt-b", row.address)));
    REQUIRE(stranger.until_error_has("the power budget at " + row.address + " is not heard: "));
    REQUIRE(stranger.until_error_has("waits for power: no lease yet from the power budget at "));
    interrupt_waiting(stranger);
  }
  CHECK(eventually([&] {
    return text_of(signs.folder / "row0/power.jsonl").find("\"who\":\"gpt-a-coordinator\"") !=
           std::string::npos;
  }));

  const auto set = [&](const std::string& whose) {
    return told_power(with({"budget", "120", "--connect", row.address}, known.shown(whose))).code;
  };
  CHECK(run({"power", "tree", "row0"}).code == 77);  // no certificate, and there is no secret
  CHECK(set("gpt-a-coordinator") == 77);             // LNK-6: a job's may report, and no more
  CHECK(set("bob") == 77);
  CHECK(known.tree(row.address)["budget_w"] == 110);
  CHECK(set("alice") == 0);
  CHECK(known.tree(row.address)["budget_w"] == 120);
  REQUIRE(first.until_step(20));
  end_with_bits_of_alone(first, a, row);
}

TEST_CASE("BGA-2: power serve: a certificate that its child has no more is refused from then on") {
  if (is_metered_here()) return;
  const own_signs signs;
  const job_files job, next;
  const certified_row known(signs.folder, "127.0.0.1");
  const auto served_to = [&](const std::string& certificate) {
    return budget_file(signs.folder, "row0", 60,
                       child_of_budget("gpt-a", "low", 53, 55, 60) +
                           fmt::format("certificate = \"{}\"\n", certificate),
                       known.tls());
  };
  const auto child = [&](const std::string& address) {
    return child_in(known.tree(address), "gpt-a");
  };
  const auto joins_by = [&](const std::string& whose) {
    return with(certified_row::job(known.pki, whose, "gpt-a", "auto"), endless);
  };
  std::optional<served_row> row(std::in_place, served_to("gpt-a-coordinator"));
  REQUIRE(known.until_known(row->address));
  program up(job.up(joins_by("gpt-a")));
  REQUIRE(eventually([&] {
    const auto c = child(row->address);
    return c.is_object() && works_with(c, 53);
  }));
  row->end();
  row.emplace(served_to("gpt-b-coordinator"));
  REQUIRE(row->up.until_error_has("gpt-a-coordinator: refused"));
  REQUIRE(up.until_error_has("the power budget row0 knows no job of this name"));
  const auto counts = child(row->address);  // its state was kept
  CHECK(counts["heard"] == false);
  CHECK(counts["counted_w"] >= 53);
  CHECK(json::parse(text_of(signs.folder / "row0/power.epoch"))["epoch"] == 2);
  up.signal(SIGINT);
  CHECK(up.wait() == 128 + SIGINT);

  program with_new(next.up(joins_by("gpt-b")));
  REQUIRE(eventually([&] {
    const auto c = child(row->address);
    return c.is_object() && works_with(c, 53);
  }));
  with_new.signal(SIGINT);
  CHECK(with_new.wait() == 128 + SIGINT);
  row->end();
}

TEST_CASE("NDP-1: power serve: a budget that is its own parent by a name that hides it says so") {
  const own_signs signs;
  const std::string hidden = "2130706433";  // 127.0.0.1, as a name service might say
  const certified_row known(signs.folder, hidden + ",127.0.0.1");
  const auto port_text = free_port();
  const auto port = port_text.substr(port_text.find('=') + 1);
  served_row row(budget_file(
      signs.folder, "row0", 60, certified_row::child("gpt-a", 20, 20, 60),
      fmt::format("listen = \"0.0.0.0\"\nport = {1}\nparent = \"{0}:{1}\"\n", hidden, port) +
          known.tls()));
  REQUIRE(row.up.until_error_has("row0 cannot be its own parent"));
  row.end();
}

TEST_CASE("power serve: by the certificate for other machines its own machine finds it, too") {
  const own_signs signs;
  const certified_row known(signs.folder, "10.0.0.5");
  served_row row(budget_file(signs.folder, "row0", 60, certified_row::child("gpt-a", 20, 20, 60),
                             "listen = \"0.0.0.0\"\n" + known.tls()));
  CHECK(row.address.starts_with("127.0.0.1:"));
  CHECK(known.until_known(row.address));
  row.end();
}

TEST_CASE("power serve: a job on another machine has its watts by certificates") {
  if (is_metered_here()) return;
  if (const auto why = why_no_networks()) {
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  const own_signs signs;
  const job_files job;
  const network net(3);
  const auto far = network::address_of(0);
  const certified_row known(signs.folder, far);
  std::optional<served_row> row;
  {
    const network::visit there(net, 0);
    row.emplace(budget_file(signs.folder, "row0", 60, certified_row::child("gpt-a", 20, 20, 60),
                            fmt::format("listen = \"{}\"\n", far) + known.tls()));
  }
  CHECK(row->address.starts_with(far + ":"));
  {
    const network::visit there(net, 1);
    REQUIRE(known.until_known(row->address));
    program up(job.up(certified_row::job(known.pki, "gpt-a", "gpt-a", row->address)));
    CHECK(up.wait() == 0);
    INFO(up.err());
    CHECK(up.losses() == job.losses(named("gpt-a", constant_watts)));
  }
  {
    const network::visit there(net, 2);
    CHECK(child_in(known.tree(row->address), "gpt-a")["heard"] == true);
  }
  row->end();
}

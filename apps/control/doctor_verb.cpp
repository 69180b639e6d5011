// `troupe doctor`: examines the machines of a running cluster, or this one.
#include "actors/health/checkup.hpp"
#include "apps/commands.hpp"
#include "apps/control/doctor.hpp"

namespace troupe::apps {

namespace {

struct doctor_arguments {
  connect_options connect;
  doctor_options what;
  std::string folder = ".";
  bool json = false, local = false;
};

result<diagnosis> examine_here(const doctor_arguments& a) {
  diagnosis d;
  d.deep = a.what.deep;
  fbs::RunCheckupT asked;
  asked.deep = a.what.deep;
  using troupe::health::gpu_choice;
  d.reports.push_back(
      troupe::health::examine_this_machine(a.folder, gpu_choice::all)(asked, {}));
  return d;
}

result<diagnosis> examine_there(const doctor_arguments& a) {
  auto opened = session::open(a.connect);
  if (!opened) {  // as `troupe health`: no name was mistyped, the cluster is not there
    auto e = opened.error();
    if (e.code == errc::not_found) e.code = errc::unavailable;
    return e;
  }
  return examine_cluster(**opened, a.what);
}

result<int> examine(const doctor_arguments& a) {
  if (a.local && !a.what.node.empty())
    return error{errc::usage, "--local examines this machine, --node one of a cluster",
                 "leave one of them out"};
  TROUPE_TRY(found, a.local ? examine_here(a) : examine_there(a));
  TROUPE_CHECK(print(a.json ? diagnosis_json(found) : diagnosis_text(found)));
  return verdict_of(found) == fbs::CheckVerdict::bad ? 1 : 0;
}

}  // namespace

void add_doctor(shell& sh) {
  auto* verb = sh.app.add_subcommand("doctor", "Examine the machines of a running cluster");
  auto a = std::make_shared<doctor_arguments>();
  verb->add_option("--node", a->what.node, "Only this one")
      ->type_name("NODE")
      ->takes(offered::node);
  verb->add_flag("--deep", a->what.deep, "Longer: more memory, more rounds of everything");
  verb->add_flag("--local", a->local, "This machine, without a cluster");
  verb->add_option("--folder", a->folder, "With --local: whose disk is checked")
      ->type_name("FOLDER")
      ->takes(offered::folder);
  verb->add_flag("--json", a->json, "As one JSON object");
  add_connect_options(verb, a->connect);
  verb->footer(
      "What is checked, and what is wanted: docs/doctor.md.\n"
      "Exit codes: 0 nothing is bad, 1 something is, 66 there is no such node, 69 no cluster "
      "answers.\n\n"
      "Examples:\n"
      "  troupe doctor\n"
      "  troupe doctor --node node2 --deep\n"
      "  troupe doctor --local --json | jq .verdict");
  on_run(sh, verb, [a] { return examine(*a); });
}

}  // namespace troupe::apps

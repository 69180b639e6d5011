// `troupe config`: whether a configuration is sound and could start here, what it comes to, and
// what its keys mean.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/train/machine.hpp"
#include "apps/commands.hpp"
#include "apps/data_sources.hpp"
#include "apps/drills.hpp"
#include "apps/job_arguments.hpp"
#include "apps/ready.hpp"
#include "apps/up/folders.hpp"
#include "io/base/counted.hpp"
#include "io/config/drills.hpp"
#include "io/config/properties.hpp"
#include "io/config/show.hpp"

namespace troupe::apps {

namespace {

struct config_arguments {
  job_arguments job;
  std::string key;
  bool json = false;
  bool no_files = false;
  bool markdown = false;
};

using config_arguments_ptr = std::shared_ptr<config_arguments>;

/// One line on what a job amounts to.
std::string amounts_to(const config::job& j) {
  const auto spares =
      j.cluster.spares == 0 ? std::string() : " and " + counted(j.cluster.spares, "spare");
  return fmt::format("{}{}, {} (data {} x pipeline {}), {} of {}",
                     counted(j.cluster.places(), "node"), spares, counted(j.workers(), "worker"),
                     j.parallel.data, j.parallel.pipeline, counted(j.train.steps, "step"),
                     counted(j.tokens_per_step(), "token"));
}

/// What a check of a configuration that was read says of it.
struct check_found {
  std::vector<train::finding> problems;
  std::vector<train::source_share> sources;
  std::vector<std::string> notes;  ///< a sentence each
  std::string in_use;              ///< by whom, where `up` would end with 75; else empty
};

check_found found_by(const config_arguments& a, const config::loaded& read) {
  const auto& job = read.value;
  check_found out;
  if (a.no_files) {
    out.sources = train::source_shares_of(job);
    out.notes = remarks_on(job);
  } else {
    auto ready = readiness_of(job, train::this_machine(job.cluster));
    out.problems = std::move(ready.problems);
    out.sources = std::move(ready.sources);
    out.notes = std::move(ready.remarks);
    out.notes.insert(out.notes.end(), ready.of_data.begin(), ready.of_data.end());
    if (const auto held = check_holders(job, claim_on_folders::if_free); !held) {
      out.in_use = held.error().message;
      out.notes.push_back(fmt::format("`troupe up` would end with {} now: {}",
                                      exit_code(held.error().code), out.in_use));
    }
  }
  for (const auto& warning : read.warnings)
    out.notes.insert(out.notes.begin(), "warning: " + warning);
  if (!out.problems.empty()) return out;
  for (const auto& drill : drills_in_words(job))
    out.notes.push_back(fmt::format("{} (`troupe up` wants {})", drill, config::drill_flag));
  return out;
}

result<int> check_json(const config_arguments& a) {
  auto out = config::read(a.job.sources());
  const bool is_read = out.problems.empty();
  check_found seen;
  if (is_read) seen = found_by(a, out.config);
  if (is_read) out.problems = placed(seen.problems, out.config);
  const nlohmann::ordered_json found{{"problems", config::problems_json(out.problems)},
                                     {"sources", sources_json(seen.sources)},
                                     {"notes", seen.notes}};
  using handler = nlohmann::ordered_json::error_handler_t;
  TROUPE_CHECK(print(found.dump(2, ' ', false, handler::replace) + "\n"));
  if (out.problems.empty()) return 0;
  return exit_code(config::as_error(out.problems).code);
}

result<int> check(const config_arguments& a) {
  if (a.json) return check_json(a);
  TROUPE_TRY(loaded, config::load(a.job.sources()));
  const auto seen = found_by(a, loaded);
  for (const auto& note : seen.notes) say(note);
  if (!seen.problems.empty()) return refusal_of(seen.problems, loaded);
  const auto* could = !seen.in_use.empty()
                          ? ", and could start here once what holds its folders ends"
                      : a.no_files ? ""
                                   : ", and could start here";
  say(fmt::format("{}: sound{}; {}", a.job.file, could, amounts_to(loaded.value)));
  return 0;
}

result<int> show(const config_arguments& a) {
  TROUPE_TRY(loaded, a.job.load());
  TROUPE_CHECK(print(a.json ? config::show_json(loaded) : config::show(loaded)));
  return 0;
}

result<int> explain(const config_arguments& a) {
  std::string text;
  if (a.key.empty()) {
    for (auto section : config::sections())
      text += fmt::format("{:<14}{}\n", section, config::section_about(section));
  } else {
    auto found = config::explain(a.key);
    if (!found) return error{errc::usage, found.error().message, found.error().hint};
    text = *found;
  }
  TROUPE_CHECK(print(text));
  return 0;
}

result<int> schema(const config_arguments& a) {
  TROUPE_CHECK(print(a.markdown ? config::reference_markdown() : config::json_schema()));
  return 0;
}

}  // namespace

void add_config(shell& sh) {
  auto* verb = sh.app.add_subcommand("config", "Check, show and explain a configuration");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  troupe config check run.toml\n"
      "  troupe config check run.toml --no-files   # where data and model are elsewhere\n"
      "  troupe config show run.toml --set parallel.pipeline=2\n"
      "  troupe config explain checkpoint\n"
      "  troupe config schema > troupe.schema.json   # for editors that check TOML as one types");
  auto a = std::make_shared<config_arguments>();

  auto* check_verb =
      verb->add_subcommand("check", "Say what is wrong with a file, or why a job cannot start");
  add_job_arguments(check_verb, a->job);
  check_verb->add_flag("--json", a->json,
                       "The problems, what is trained on, and notes, as one JSON object on stdout");
  check_verb->add_flag(
      "--no-files", a->no_files,
      "Leave out what depends on this machine: its files, addresses, memory, GPUs");
  on_run(sh, check_verb, [a] { return check(*a); });

  auto* show_verb = verb->add_subcommand("show", "Print every value and where it came from");
  add_job_arguments(show_verb, a->job);
  show_verb->add_flag("--json", a->json, "As one JSON object");
  on_run(sh, show_verb, [a] { return show(*a); });

  auto* explain_verb = verb->add_subcommand("explain", "Explain a key or a section");
  explain_verb->add_option("KEY", a->key, "e.g. train.lr, or train; none lists the sections")
      ->takes(offered::key);
  on_run(sh, explain_verb, [a] { return explain(*a); });

  auto* schema_verb = verb->add_subcommand("schema", "Print the JSON Schema of the file");
  schema_verb->add_flag("--markdown", a->markdown, "The reference page of the docs instead");
  on_run(sh, schema_verb, [a] { return schema(*a); });
}

}  // namespace troupe::apps

// Where an incident's folder is, what it says, what a run says instead.
#include "apps/control/incident.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/control/account.hpp"
#include "apps/report/incident_doc.hpp"
#include "apps/report/incident_page.hpp"
#include "apps/up/incident_folders.hpp"
#include "io/base/printable.hpp"
#include "io/config/load.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

/// "there are 1 to 7", or the numbers.
std::string what_there_is(const std::vector<uint64_t>& numbers) {
  constexpr size_t most = 20;
  if (numbers.empty()) return "none is kept there";
  if (numbers.size() == 1) return fmt::format("there is {}", numbers.front());
  if (numbers.back() - numbers.front() + 1 == numbers.size())
    return fmt::format("there are {} to {}", numbers.front(), numbers.back());
  const auto begin = numbers.size() > most ? numbers.end() - most : numbers.begin();
  return fmt::format("there are {}{}", numbers.size() > most ? "the last ones of many: " : "",
                     fmt::join(begin, numbers.end(), ", "));
}

/// A path as a person would type it from here.
std::string from_here(const fs::path& path) {
  std::error_code code;
  const auto near = fs::proximate(path, code);
  return code || near.native().starts_with("..") ? path.string() : near.string();
}

result<std::string> text_of_folder(const fs::path& output, uint64_t number) {
  auto text = io::read_file(output / incident_folder(number) / incident_file, max_incident_bytes);
  std::error_code code;
  const bool is_kept = fs::is_directory(output / incident_folder(number), code);
  if (text || is_kept || text.error().code != errc::not_found) return text;
  const auto folder = from_here(output / incidents_folder);
  return incident_not_there(number, folder, what_there_is(kept_incidents(output)));
}

std::string json_line(const nlohmann::json& incident) {
  return incident.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// What a run says of an incident, as its folder would have it.
std::string doc_json_of(const fbs::IncidentT& i, const std::string& job) {
  report::incident_doc doc{job, i.back_s >= 0, i};
  const auto ago_ms = std::chrono::milliseconds(std::llround(std::max(0.0, i.ago_s) * 1e3));
  const auto noticed = std::chrono::system_clock::now() - ago_ms;
  doc.noticed_unix_ms =
      std::chrono::floor<std::chrono::milliseconds>(noticed.time_since_epoch()).count();
  return report::incident_doc_json(doc, max_incident_bytes);
}

// -- `troupe health show` -------------------------------------------------------------------------

struct show_arguments {
  connect_options connect;
  std::string what, file, output;  ///< the number, or the file where there is no number
  bool json = false;
};

std::optional<uint64_t> number_in(const std::string& text) {
  uint64_t n = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool whole = fault == std::errc() && end == text.data() + text.size() && n > 0;
  return whole ? std::optional(n) : std::nullopt;
}

/// The folder of the cluster that runs here; none where it runs on another machine.
result<std::optional<fs::path>> output_of(const connect_options& o) {
  if (o.address.empty()) {
    auto here = the_meeting_point(o.job);
    if (here) return std::optional<fs::path>(here->output);
    auto e = here.error();
    e.hint = "of a job that has ended say --dir OUTPUT, or its configuration's file";
    return e;
  }
  TROUPE_TRY(target, host_and_port(o.address));
  const auto here = meeting_point_at(target.first, target.second);
  if (here && !here->output.empty()) return std::optional<fs::path>(here->output);
  return std::optional<fs::path>();
}

/// The folder that the arguments name. Errors: of the configuration, of looking for a cluster.
result<std::optional<fs::path>> folder_named(const show_arguments& a, const std::string& file) {
  if (!a.output.empty()) {
    std::error_code code;
    if (fs::is_directory(a.output, code)) return std::optional<fs::path>(a.output);
    return error{errc::not_found, fmt::format("{} is not a folder", a.output),
                 "say the job's output folder, which has log.jsonl and incidents/"};
  }
  if (file.empty()) return output_of(a.connect);
  TROUPE_TRY(job, config::load({file, config::process_environment(), {}}));
  return std::optional<fs::path>(job.value.job.output);
}

result<int> show(const show_arguments& a) {
  const auto number = number_in(a.what);
  if (!number && !a.what.empty() && !a.file.empty())
    return error{errc::usage, fmt::format("{} is not the number of an incident", a.what),
                 "numbers are from 1: `troupe health` and `troupe health show` list them"};
  TROUPE_TRY(output, folder_named(a, number ? a.file : a.what));
  if (output && !number) {
    TROUPE_CHECK(print(kept_incidents_text(*output, a.json)));
    return 0;
  }
  if (output) {
    TROUPE_TRY(text, kept_incident(*output, *number, a.json));
    TROUPE_CHECK(print(text));
    return 0;
  }
  TROUPE_TRY(s, session::open(a.connect));
  if (number) {
    TROUPE_TRY(text, incident_of(*s, *number, a.json));
    TROUPE_CHECK(print(text));
    return 0;
  }
  TROUPE_TRY(run, account_of(*s));
  TROUPE_CHECK(print(told_incidents_text(run, s->job(), a.json)));
  return 0;
}

}  // namespace

result<std::string> kept_incident(const fs::path& output, uint64_t number, bool json) {
  TROUPE_TRY(text, text_of_folder(output, number));
  const auto folder = output / incident_folder(number);
  TROUPE_TRY(incident, report::read_incident(text, (folder / incident_file).string()));
  if (json) return text.ends_with('\n') ? text : text + "\n";
  return report::incident_page(incident, {from_here(output), from_here(folder)});
}

std::string kept_incidents_text(const fs::path& output, bool json) {
  const auto numbers = kept_incidents(output);
  if (numbers.empty()) return json ? "" : "no incidents\n";
  std::string out;
  if (!json)
    out = fmt::format("{:>4}  {:<24}  {:<16}  {:<10}  {}\n", "#", "noticed", "finding", "who",
                      "what was done");
  for (const auto number : numbers) {
    const auto text = text_of_folder(output, number);
    const auto incident = text ? report::read_incident(*text, incident_folder(number))
                               : result<nlohmann::json>(text.error());
    if (json && incident) out += json_line(*incident);
    if (!json)
      out += incident ? report::incident_line(*incident) + "\n"
                      : fmt::format("{:>4}  {}\n", number, printable(incident.error().message));
  }
  return out;
}

result<std::string> told_incident(const fbs::RunStatusT& run, const std::string& job,
                                  uint64_t number, bool json) {
  std::vector<uint64_t> numbers;
  for (const auto& i : run.incidents) {
    numbers.push_back(i->number);
    if (i->number != number) continue;
    const auto text = doc_json_of(*i, job);
    if (json) return text;
    TROUPE_TRY(incident, report::read_incident(text, "what the run says"));
    return report::incident_page(incident, {}) +
           fmt::format("  the rest is in the job's output folder, in {}, on the head's machine\n",
                       incident_folder(number));
  }
  return incident_not_there(number, "what the run remembers", what_there_is(numbers));
}

std::string told_incidents_text(const fbs::RunStatusT& run, const std::string& job, bool json) {
  if (!json) return run.incidents.empty() ? "no incidents\n" : incidents_text(run);
  std::string out;
  for (const auto& i : run.incidents)
    if (const auto incident = report::read_incident(doc_json_of(*i, job), "what the run says"))
      out += json_line(*incident);
  return out;
}

result<std::string> incident_of(session& s, uint64_t number, bool json) {
  const auto at = host_and_port(s.address());
  const auto here = at ? meeting_point_at(at->first, at->second) : std::nullopt;
  if (here && !here->output.empty()) return kept_incident(here->output, number, json);
  TROUPE_TRY(run, account_of(s));
  return told_incident(run, s.job(), number, json);
}

void add_health_show(shell& sh, command* health) {
  auto* verb = health->add_subcommand("show", "Print all that is kept of an incident, or a list");
  auto a = std::make_shared<show_arguments>();
  verb->add_option("N", a->what, "Its number, as `troupe health` has it; without it: a list");
  verb->add_option("FILE", a->file, "The job's TOML file, which names its output folder")
      ->takes(offered::file);
  verb->add_option("--dir", a->output, "The job's output folder; default: that of what runs here")
      ->takes(offered::folder)
      ->type_name("OUTPUT");
  verb->add_flag("--json", a->json, "As JSON: incident.json as it is, or one object a line");
  add_connect_options(verb, a->connect);
  verb->footer(
      "Works on a job that runs and on one that has ended: docs/healing.md.\n"
      "Exit codes: 0 it is there, 66 it is not, 65 its file is damaged.\n\n"
      "Examples:\n"
      "  troupe health show 1\n"
      "  troupe health show 1 configs/healing.toml\n"
      "  troupe health show --dir runs/healing");
  on_run(sh, verb, [a] { return show(*a); });
}

}  // namespace troupe::apps

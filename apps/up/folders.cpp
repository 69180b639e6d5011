// Checks first, then locks, then marks: see folders.hpp.
#include "apps/up/folders.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "actors/predict/predictor.hpp"
#include "apps/data_mark.hpp"
#include "apps/power/journal_file.hpp"
#include "apps/report/log_lines.hpp"
#include "apps/talk.hpp"
#include "apps/up/incident_folders.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "io/checkpoint/export.hpp"
#include "io/disk/storage.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"
#include "io/perf/part_times.hpp"
#include "io/perf/summed_lines.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

constexpr size_t most_line_bytes = 64 << 10;  ///< of a log that is looked at

/// The names in the output that a job writes to, or over.
std::vector<std::string> written_names(const config::job& job) {
  std::vector<std::string> out{"log.jsonl", "audit.jsonl", "incidents.jsonl", data_mark_file};
  if (job.predict.enabled && job.predict.store.empty())
    out.emplace_back(troupe::predict::usual_store);
  if (job.power.has_parent()) out.emplace_back("power.incarnation");
  if (job.power.is_budgeted())
    for (auto& name : power_verb::journal_names("power.jsonl")) out.push_back(std::move(name));
  for (const auto& node : job.cluster.node) out.push_back(node.name + ".log");
  return out;
}

enum class found { nothing, empty, file, other };

/// What a name leads to; devices and pipes are none of a person's files.
found look_at(const fs::path& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return found::nothing;
  const bool link = S_ISLNK(facts.st_mode);
  if (link && ::stat(path.c_str(), &facts) != 0) return found::other;  // it would be made elsewhere
  if (S_ISDIR(facts.st_mode) || (link && S_ISREG(facts.st_mode))) return found::other;
  if (!S_ISREG(facts.st_mode)) return found::nothing;
  return facts.st_size == 0 ? found::empty : found::file;
}

/// Whether a log begins with a line that this program writes.
bool is_our_log(const fs::path& path) {
  const auto fd = io::open_read(path);
  if (!fd) return false;
  std::string text(most_line_bytes, '\0');
  const auto n = ::pread(fd->get(), text.data(), text.size(), 0);
  if (n <= 0) return false;
  text.resize(static_cast<size_t>(n));
  return report::begins_log(text.substr(0, text.find('\n')));
}

error in_the_way(const fs::path& what, std::string_view why) {
  return {errc::bad_config, fmt::format("{} {}", what.string(), why),
          "take it away, or name another job.output"};
}

/// The folder that folders of incidents are made in; no link, which would have them made elsewhere.
std::optional<error> check_incidents(const fs::path& folder, bool ours) {
  struct stat facts {};
  if (::lstat(folder.c_str(), &facts) != 0) return std::nullopt;
  if (!S_ISDIR(facts.st_mode))
    return in_the_way(folder, "is a link or a file, where the job makes a folder");
  std::error_code code;
  if (!ours && !fs::is_empty(folder, code))
    return in_the_way(folder, "was not written by this program, and the job writes there");
  return std::nullopt;
}

/// FLD-1 of the output.
std::optional<error> check_output(const config::job& job) {
  const fs::path output = job.job.output;
  std::error_code code;
  if (!fs::is_directory(output, code)) return std::nullopt;  // can_make says it
  const auto mark = io::read_mark(output);
  if (mark && mark->kind != io::folder_kind::output)
    return in_the_way(output, fmt::format("is a {} folder of this program, not an output",
                                          io::to_string(mark->kind)));
  if (!mark && mark.error().code != errc::not_found)
    return in_the_way(output / io::mark_file, "is not a mark of this program");
  const bool ours = mark || is_our_log(output / "log.jsonl");
  for (const auto& name : written_names(job)) {
    const auto there = look_at(output / name);
    if (there == found::other)
      return in_the_way(output / name, "is a link or a folder, where the job writes a file");
    // People give data this name, too, also in a folder that an earlier start has marked.
    const bool is_persons = name == data_mark_file && !is_data_mark(output / name);
    if (there == found::file && (!ours || is_persons))
      return in_the_way(output / name, "was not written by this program, and the job writes there");
  }
  return check_incidents(output / incidents_folder, ours);
}

/// FLD-1 of a file that a person named for times of parts: it may be any.
std::optional<error> check_store(const config::job& job) {
  const fs::path store = job.predict.store;
  if (!job.predict.enabled || store.empty()) return std::nullopt;
  std::error_code code;
  std::optional<error> why;
  if (fs::is_directory(store, code))
    why = in_the_way(store, "is a folder, where the job writes a file");
  else if (fs::is_regular_file(store, code)) {
    const auto ours = io::perf::check_part_times(store);
    if (!ours && ours.error().is(io::perf::no_summed_lines))
      why = in_the_way(store, "was not written by this program, and the job writes there");
  }
  if (why) why->hint = "take it away, or name another predict.store";
  return why;
}

/// A file that is read, not written: whether it is a model that can be asked.
std::optional<error> check_prior(const config::job& job) {
  if (job.predict.prior.empty()) return std::nullopt;
  const auto prior = gpu::predict::speed_prior::read(job.predict.prior);
  if (prior) return std::nullopt;
  auto why = prior.error();
  why.code = errc::bad_config;
  if (why.hint.empty())
    why.hint = "name a model that `troupe predict train` wrote, or leave it out";
  return why;
}

/// Where the model goes at the end; and it must not be where it comes from.
std::optional<error> check_model(const config::job& job) {
  if (!job.checkpoint.export_model) return std::nullopt;
  const fs::path model = fs::path(job.job.output) / "model";
  std::error_code code;
  if (!job.model.path.empty() && fs::equivalent(job.model.path, model, code))
    return in_the_way(model, "is model.path, and the trained model would take its place");
  const auto free = io::checkpoint::check_export(model);
  if (free) return std::nullopt;
  auto why = free.error();
  why.code = why.code == errc::permission ? errc::bad_config : why.code;
  why.hint = "take it away, name another job.output, or set checkpoint.export_model=false";
  return why;
}

std::optional<error> check_tier(const fs::path& dir) {
  std::error_code code;
  if (dir.empty() || !fs::is_directory(dir, code)) return std::nullopt;  // can_make says it
  const auto mark = io::read_mark(dir);
  const bool free =
      mark ? mark->kind == io::folder_kind::output : mark.error().code == errc::not_found;
  if (free) return std::nullopt;
  return error{
      errc::bad_config,
      fmt::format("{} cannot be a folder of checkpoints: {}", dir.string(),
                  mark ? fmt::format("it is a {} folder of this program", io::to_string(mark->kind))
                       : mark.error().message),
      "name another"};
}

/// One folder, however it is called, is locked once.
bool is_held(const held_folders& held, const fs::path& folder) {
  return std::any_of(held.locks.begin(), held.locks.end(), [&](const io::folder_lock& l) {
    std::error_code code;
    return fs::equivalent(l.folder(), folder, code);
  });
}

std::string taken_over_text(const fs::path& folder, const io::lock_holder& from) {
  return fmt::format("{} was held by process {} of job {} on {} since {}: taken over",
                     folder.string(), from.pid, from.job, from.host, from.since);
}

status hold(held_folders& held, const fs::path& name, const io::lock_holder& self,
            claim_on_folders how) {
  const auto folder = fs::absolute(name).lexically_normal();
  TROUPE_CHECK(io::make_folders(io::local_files(), folder));
  if (is_held(held, folder)) return {};
  TROUPE_TRY(lock, take_folder(folder, self, how));
  if (const auto& by = lock.broken()) held.warnings.push_back(taken_over_text(folder, *by));
  held.locks.push_back(std::move(lock));
  return {};
}

}  // namespace

std::vector<folder_finding> check_folders(const config::job& job) {
  std::vector<folder_finding> out;
  if (auto why = check_output(job)) out.push_back({"job.output", *why});
  if (auto why = check_store(job)) out.push_back({"predict.store", *why});
  if (auto why = check_prior(job)) out.push_back({"predict.prior", *why});
  if (auto why = check_model(job)) out.push_back({"job.output", *why});
  if (auto why = check_tier(job.checkpoint.dir)) out.push_back({"checkpoint.dir", *why});
  if (auto why = check_tier(job.checkpoint.second.dir))
    out.push_back({"checkpoint.second.dir", *why});
  return out;
}

void held_folders::say_address(const std::string& address) {
  for (auto& lock : locks) static_cast<void>(lock.say_address(address));  // a hint for persons
}

result<io::folder_lock> take_folder(const fs::path& folder, const io::lock_holder& who,
                                    claim_on_folders how) {
  TROUPE_TRY(lock, how == claim_on_folders::depose
                       ? io::folder_lock::depose(folder, who)
                       : io::folder_lock::take(folder, who, how == claim_on_folders::break_lock));
  if (const auto& by = lock.broken()) say("warning: " + taken_over_text(folder, *by));
  return lock;
}

status check_holders(const config::job& job, claim_on_folders how) {
  if (how == claim_on_folders::depose) return {};
  for (const auto& dir : {job.job.output, job.checkpoint.dir, job.checkpoint.second.dir}) {
    if (dir.empty()) continue;
    const auto folder = fs::absolute(dir).lexically_normal();
    if (auto free = io::check_free(folder, how == claim_on_folders::break_lock);
        !free && free.error().code == errc::timeout)  // all else is the checks' to say
      return free;
  }
  return {};
}

result<held_folders> take_folders(const config::job& job, int as, claim_on_folders how) {
  if (auto problems = check_folders(job); !problems.empty()) return problems.front().why;
  held_folders out;
  auto self = io::this_process(job.job.name);
  self.pid = as;
  TROUPE_CHECK(hold(out, job.job.output, self, how));
  TROUPE_CHECK(hold(out, job.checkpoint.dir, self, how));
  if (const auto& second = job.checkpoint.second.dir; !second.empty()) {
    const auto held = hold(out, second, self, how);
    if (!held && held.error().code == errc::timeout) return held.error();
    if (!held) {
      out.warnings.push_back("nothing is copied to the second tier in this run: " +
                             render(held.error()));
      say("warning: " + out.warnings.back());
    }
    out.second = bool(held);
  }
  // Once more, now that no other job writes here.
  if (auto problems = check_folders(job); !problems.empty()) return problems.front().why;
  TROUPE_CHECK(io::mark_output(job.job.output, job.job.name));
  return out;
}

std::string working_folder() {
  std::error_code none;
  const char* named = std::getenv("PWD");
  if (named != nullptr && named[0] == '/' && std::filesystem::equivalent(named, ".", none))
    return named;
  return std::filesystem::current_path(none).string();
}

}  // namespace troupe::apps

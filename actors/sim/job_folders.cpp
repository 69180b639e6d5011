// Locks, exports and what is in their way, on real files.
#include "actors/sim/job_folders.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "actors/checkpoint/committer.hpp"
#include "io/checkpoint/export.hpp"
#include "io/file.hpp"

namespace troupe::sim {

namespace fs = std::filesystem;

namespace {

constexpr int moments = 3;  ///< at which an export may be cut off
constexpr size_t text_bytes = 64 << 10;

/// Ends an export as kill -9 would: nothing tidies up.
struct export_cut {};

fs::path folder_in_memory() {
  std::error_code code;
  const fs::path memory = "/dev/shm";
  return fs::is_directory(memory, code) ? memory : fs::temp_directory_path();
}

std::string exported_text(const fs::path& file) {
  const auto text = io::read_file(file, text_bytes);
  return text ? *text : "";
}

}  // namespace

job_folders::job_folders(io::scratch_folder where)
    : where_(std::move(where)), self_(io::this_process("simulation")) {}

result<std::unique_ptr<job_folders>> job_folders::make() {
  TROUPE_TRY(where, io::scratch_folder::make(folder_in_memory(), "troupe-sim-"));
  std::unique_ptr<job_folders> out(new job_folders(std::move(where)));
  for (const char* name : {"output", "first", "second"})
    TROUPE_CHECK(io::make_folders(io::local_files(), out->where_.path() / name));
  TROUPE_CHECK(io::mark_output(out->output(), out->self_.job));
  return out;
}

// -- launchers ------------------------------------------------------------------------------------

result<std::vector<io::folder_lock>> job_folders::take(bool break_lock) const {
  std::vector<io::folder_lock> out;
  for (const char* name : {"output", "first", "second"}) {
    TROUPE_TRY(lock, io::folder_lock::take(where_.path() / name, self_, break_lock));
    out.push_back(std::move(lock));
  }
  return out;
}

std::optional<std::string> job_folders::begin() {
  auto taken = take(false);
  if (!taken) return "a launcher is refused though no other lives: " + taken.error().message;
  for (auto& lock : *taken) locks_.push_back(std::move(lock));
  return std::nullopt;
}

void job_folders::end(bool killed) {
  std::map<fs::path, std::string> texts;
  for (const auto& lock : locks_)
    texts[lock.folder() / io::lock_file] = exported_text(lock.folder() / io::lock_file);
  locks_.clear();
  if (!killed) return;
  for (const auto& [file, text] : texts) static_cast<void>(io::write_atomic(file, text));
}

std::map<std::string, std::string> job_folders::contents() const {
  std::map<std::string, std::string> out;
  for (const auto& e : fs::recursive_directory_iterator(where_.path()))
    out[e.path().string()] = e.is_regular_file() ? exported_text(e.path()) : "";
  return out;
}

std::optional<std::string> job_folders::rival(bool break_lock) {
  const auto before = contents();
  const auto taken = take(break_lock);
  if (taken) return "two launchers write in the folders of one job";
  if (taken.error().code != errc::timeout)
    return "a second launcher is refused otherwise: " + taken.error().message;
  if (contents() != before) return "a second launcher was refused and has changed something";
  return std::nullopt;
}

// -- exports --------------------------------------------------------------------------------------

void job_folders::disturb(uint64_t random) {
  constexpr std::array names{"model", "model.partial", "model-2", "model-2.partial"};
  const auto at = output() / names[random % names.size()];
  const auto text = fmt::format("a person's, {}", random);
  std::error_code code;
  const bool free = !fs::exists(at, code);
  if (!free && !fs::is_directory(at, code)) return;
  auto file = at;
  switch (random / names.size() % 3) {
    case 0:  // looks like an export, without its mark
      if (free) file /= "weights";
      break;
    case 1:
      break;  // a file where a folder goes
    default:
      file /= "note";
  }
  if (!free) file = at / "note";
  fs::create_directories(file.parent_path(), code);
  if (io::write_atomic(file, text)) foreign_[file] = text;
}

status job_folders::write(const fs::path& partial, const std::string& what, int cut_at) const {
  for (int moment = 0; moment < moments; ++moment) {
    if (moment == cut_at) throw export_cut{};
    if (moment == 0) TROUPE_CHECK(io::write_atomic(partial / "config.json", "{}"));
    if (moment == 1) TROUPE_CHECK(io::write_atomic(partial / "weights", what));
  }
  return {};
}

void job_folders::cut_export(const std::string& what, uint64_t random) {
  const auto cut_at = static_cast<int>(random % moments);
  const io::claim ours{io::folder_kind::model, self_.job, {"config.json", "weights"}, what};
  const auto until_cut = [&](const fs::path& partial) { return write(partial, what, cut_at); };
  try {
    (void)checkpoint::export_to(
        output() / "model", [](const fs::path&) { return false; },
        [&](const fs::path& to) { return io::checkpoint::replace_export(to, ours, until_cut); });
  } catch (const export_cut&) {
    return;  // that is how it ends
  }
}

std::optional<std::string> job_folders::judge_export(const fs::path& model,
                                                     const std::string& source) const {
  const auto mark = io::read_mark(model);
  if (!mark || mark->kind != io::folder_kind::model || mark->of != source)
    return fmt::format("{} is not the export of {}", model.filename().string(), source);
  for (const auto& file : mark->files)
    if (!fs::exists(model / file))
      return fmt::format("{} lacks {}", model.filename().string(), file);
  if (!disturbed() && model != output() / "model")
    return fmt::format("nothing was in the way, and the export is in {}", model.string());
  const auto partial = fs::path(model.string() + ".partial");
  const bool others = std::any_of(foreign_.begin(), foreign_.end(),
                                  [&](const auto& f) { return f.first.parent_path() == partial; });
  if (!others && io::is_owned(partial, io::folder_kind::model))
    return fmt::format("half an export is left in {}", partial.filename().string());
  return std::nullopt;
}

std::optional<std::string> job_folders::judge_foreign() const {
  for (const auto& [file, text] : foreign_)
    if (exported_text(file) != text)
      return fmt::format("{} was a person's, and is changed or gone", file.string());
  return std::nullopt;
}

}  // namespace troupe::sim

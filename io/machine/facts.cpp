// The files of the store: see facts.hpp.
#include "io/machine/facts.hpp"

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/formats/json_text.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr int store_version = 1;

/// The line of /proc/cpuinfo that names the processor.
std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line;
  return {};
}

fs::path usual_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return fs::path(cache) / "troupe";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return fs::path(home) / ".cache" / "troupe";
  return {};
}

int64_t system_unix_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const std::string& machine_of(const fact_store& store) {
  return store.machine.empty() ? this_machine() : store.machine;
}

std::string program_of(const fact_store& store) {
  return store.program.empty() ? TROUPE_VERSION : store.program;
}

int64_t now_of(const fact_store& store) {
  return store.now_unix_s != 0 ? store.now_unix_s : system_unix_s();
}

}  // namespace

const std::string& this_machine() {
  static const std::string hash = [] {
    char host[256] = {};
    static_cast<void>(::gethostname(host, sizeof host - 1));
    auto id = read_file("/etc/machine-id", 256);  // containers may have none
    const auto all = fmt::format("{}\n{}\n{}", id ? *id : "", host, processor_name());
    return fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
  }();
  return hash;
}

fs::path fact_store::here() const {
  const auto root = folder.empty() ? usual_folder() : folder;
  return root.empty() ? root : root / machine_of(*this);
}

fs::path fact_store::file_of(std::string_view name) const {
  const auto root = here();
  return root.empty() ? root : root / fmt::format("{}.json", name);
}

std::optional<nlohmann::json> fact_store::find(std::string_view name,
                                               std::chrono::hours max_age) const try {
  const auto file = file_of(name);
  if (file.empty()) return std::nullopt;
  auto text = read_file(file, most_fact_bytes);
  if (!text) return std::nullopt;
  auto parsed = parse_json(*text);
  if (!parsed) return std::nullopt;
  auto& kept = *parsed;
  if (kept.at("store").get<int64_t>() != store_version || kept.at("program") != program_of(*this) ||
      kept.at("machine") != machine_of(*this) || kept.at("name") != name)
    return std::nullopt;  // FACT-1
  const auto since = kept.at("unix_s").get<int64_t>(), now = now_of(*this);
  if (since < 0 || since > now || now - since > std::chrono::seconds(max_age).count())
    return std::nullopt;
  return std::move(kept.at("value"));
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

void fact_store::keep(std::string_view name, const nlohmann::json& value) const {
  const auto file = file_of(name);
  if (file.empty()) return;
  const nlohmann::json fact = {
      {"store", store_version}, {"program", program_of(*this)}, {"machine", machine_of(*this)},
      {"name", name},           {"unix_s", now_of(*this)},      {"value", value},
  };
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  static_cast<void>(write_atomic(file, fact.dump(2) + "\n"));  // FACT-2
}

}  // namespace troupe::io

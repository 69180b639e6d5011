// One fact: whom it belongs to, and numbers by the names of their fields.
#include "io/perf/kept_probes.hpp"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

#include "io/locked_file.hpp"

namespace troupe::io::perf {

namespace {

const char* fact_of(const probe_key& key) {
  return key.host_only ? "host-probes" : "hardware-probes";
}

bool is_probe(const hw_field& field) {
  return field.group == "probe" && field.number != nullptr;
}

nlohmann::json key_json(const probe_key& key) {
  return {
      {"boot_id", key.boot_id}, {"gpus", key.gpus}, {"threads", key.threads}, {"disk", key.disk}};
}

uint32_t probes_sum(const nlohmann::json& numbers) {
  const auto text = numbers.dump();
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

std::optional<hw_profile> find_probes(const fact_store& store, const probe_key& key,
                                      std::chrono::hours max_age) try {
  if (key.boot_id.empty()) return std::nullopt;
  const auto kept = store.find(fact_of(key), max_age);
  if (!kept || kept->at("of") != key_json(key)) return std::nullopt;   // HWK-1
  if (key.full && !kept->at("full").get<bool>()) return std::nullopt;  // HWK-2
  const auto& numbers = kept->at("numbers");
  if (kept->at("crc32c") != probes_sum(numbers)) return std::nullopt;
  hw_profile out;
  for (const auto& field : hw_fields()) {
    const auto it = numbers.find(std::string(field.name));
    if (!is_probe(field) || it == numbers.end()) continue;
    const auto value = it->get<double>();
    if (!std::isfinite(value) || value <= 0) return std::nullopt;  // HWK-3
    out.*field.number = value;
  }
  return out;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

void keep_probes(const fact_store& store, const probe_key& key, const hw_profile& measured) {
  if (key.boot_id.empty()) return;
  auto numbers = nlohmann::json::object();
  for (const auto& field : hw_fields())
    if (is_probe(field) && measured.*field.number)
      numbers[std::string(field.name)] = *(measured.*field.number);
  store.keep(fact_of(key), {{"of", key_json(key)},
                            {"full", key.full},
                            {"numbers", numbers},
                            {"crc32c", probes_sum(numbers)}});
}

result<unique_fd> lock_probes(const fact_store& store, std::chrono::milliseconds patience) {
  const auto folder = store.here();
  if (folder.empty()) return unique_fd{};
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const auto file = folder / "hardware-probes.lock";
  auto fd = open_locked(file, patience);
  if (!fd) return unique_fd{};
  if (!*fd) return probes_busy(file.string());
  return fd;
}

}  // namespace troupe::io::perf

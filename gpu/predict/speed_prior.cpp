// Hardware fields to a model's columns, and its estimates to ratios.
#include "gpu/predict/speed_prior.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpu/predict/fill.hpp"
#include "io/perf/spec_text.hpp"

namespace troupe::gpu::predict {

namespace {

using io::perf::feature_kind;
using io::perf::hw_profile;
using io::perf::saved::FeatureT;

/// No two machines of a job are farther apart, per thread.
constexpr double farthest_apart = 100;

/// A column of a public table: a hardware field by another name or unit, times `by`; for each of
/// `per`, if any.
struct public_number {
  std::string_view column, unit;
  hw_profile::value hw_profile::*is;
  double by = 1;
  hw_profile::value hw_profile::*per = nullptr;
};

constexpr double kib_of_gib = 1024.0 * 1024;
using hw = hw_profile;
constexpr std::array public_numbers{
    public_number{"mem_gb", "GB", &hw::mem_gib},
    public_number{"mem_kb", "KiB", &hw::mem_gib, kib_of_gib},
    public_number{"mem_per_core", "GB", &hw::mem_gib, 1, &hw::cores},
    public_number{"mem_per_core", "KiB", &hw::mem_gib, kib_of_gib, &hw::cores},
    public_number{"mem_per_dimm", "KiB", &hw::dimm_gib, kib_of_gib},
    public_number{"dimm_gb", "GB", &hw::dimm_gib},
    public_number{"dimm_kb", "KiB", &hw::dimm_gib, kib_of_gib},
    public_number{"dimms_per_chip", "1", &hw::dimms, 1, &hw::sockets},
    public_number{"running_mts", "MT/s", &hw::dimm_mt_s},
    public_number{"mem_data_rate", "MT/s", &hw::dimm_mt_s},
    public_number{"chips", "1", &hw::sockets},
    public_number{"cores_per_chip", "1", &hw::cores_per_socket},
    public_number{"mhz", "MHz", &hw::base_mhz},
    public_number{"nominal_mhz", "MHz", &hw::base_mhz},
    public_number{"numas", "1", &hw::numa_nodes},
    public_number{"copies", "1", &hw::cpus},
    public_number{"l1i_kb", "KiB", &hw::l1i_kib},
    public_number{"l1d_kb", "KiB", &hw::l1d_kib},
    public_number{"l2_kb", "KiB", &hw::l2_kib},
    public_number{"l3_kb", "KiB", &hw::l3_kib},
    public_number{"l3_per_core", "KiB", &hw::l3_kib, 1, &hw::cores_per_socket},
    public_number{"l1i_cache_kb", "KiB", &hw::l1i_kib},
    public_number{"l1d_cache_kb", "KiB", &hw::l1d_kib},
    public_number{"l2_cache_kb", "KiB", &hw::l2_kib},
    public_number{"l3_cache_kb", "KiB", &hw::l3_kib},
};
/// Words of public tables: parts of a processor's name, and its maker.
constexpr std::array<std::string_view, 4> public_words{"tier", "generation", "suffix", "vendor"};

bool is_of(const FeatureT& f, std::string_view group) {
  return f.group == group;
}
bool is_word(const FeatureT& f) {
  return f.kind == static_cast<uint8_t>(feature_kind::category);
}

const io::perf::hw_field* hw_field_of(const FeatureT& f) {
  for (const auto& field : io::perf::hw_fields())
    if (field.name == f.name && field.unit == f.unit && (field.text != nullptr) == is_word(f))
      return &field;
  return nullptr;
}

const public_number* public_number_of(const FeatureT& f) {
  const auto* const at = std::ranges::find_if(public_numbers, [&](const public_number& p) {
    return !is_word(f) && p.column == f.name && p.unit == f.unit;
  });
  return at == public_numbers.end() ? nullptr : at;
}

bool is_public_word(const FeatureT& f) {
  return is_word(f) && is_of(f, "cpu") &&
         std::ranges::find(public_words, f.name) != public_words.end();
}

bool is_known(const FeatureT& f) {
  return hw_field_of(f) != nullptr || public_number_of(f) != nullptr || is_public_word(f);
}

/// As results are published with: "Intel(R) Xeon(R) Gold 6430 CPU @ 2.10GHz" is a Xeon Gold 6430.
std::string published_name(std::string name) {
  for (const std::string_view mark : {"(R)", "(TM)", "(r)", "(tm)"})
    for (auto at = name.find(mark); at != std::string::npos; at = name.find(mark))
      name.erase(at, mark.size());
  return name.substr(0, name.find('@'));
}

std::string published_vendor(const std::string& vendor) {
  return vendor == "GenuineIntel" ? "Intel" : vendor == "AuthenticAMD" ? "AMD" : vendor;
}

std::string word_of(const FeatureT& f, const hw_profile& is) {
  if (const auto* field = hw_field_of(f)) return (is.*field->text).value_or("");
  if (!is_public_word(f)) return "";
  if (f.name == "vendor") return published_vendor(is.cpu_vendor.value_or(""));
  if (!is.cpu_model) return "";
  const auto name = io::perf::parse_cpu_name(published_name(*is.cpu_model));
  return f.name == "tier" ? name.tier : f.name == "suffix" ? name.suffix : name.generation;
}

double number_of(const FeatureT& f, const hw_profile& is) {
  if (const auto* field = hw_field_of(f)) return (is.*field->number).value_or(io::perf::absent);
  const auto* p = public_number_of(f);
  if (p == nullptr || !(is.*p->is)) return io::perf::absent;
  const double value = p->by * *(is.*p->is);
  if (p->per == nullptr) return value;
  const auto& per = is.*p->per;
  return per && *per > 0 ? value / *per : io::perf::absent;
}

perf_row row_of(const ModelT& m, const hw_profile& is) {
  perf_row out;
  out.id = "machine";
  for (const auto& f : m.features) {
    out.words.push_back(is_word(*f) ? word_of(*f, is) : "");
    out.numbers.push_back(is_word(*f) ? io::perf::absent : number_of(*f, is));
  }
  return out;
}

/// Hardware threads of the machine that the model is asked about: all of it.
std::optional<double> threads_of(const hw_profile& is) {
  for (const auto& count : {is.cpus, is.usable_cpus, is.cores, is.probe_threads})
    if (count && *count >= 1) return count;
  return std::nullopt;
}

}  // namespace

speed_ratio times_as_long(const machine_speed& slow, const machine_speed& quick) {
  return {std::clamp(quick.a_thread / slow.a_thread, 1 / farthest_apart, farthest_apart),
          std::hypot(slow.half, quick.half)};
}

bool is_time(std::string_view output) {
  const auto last = output.substr(output.rfind('_') + 1);  // all of it where there is none
  constexpr std::array<std::string_view, 6> times{"ms", "us", "ns", "seconds", "minutes", "hours"};
  return std::ranges::find(times, last) != times.end();
}

result<speed_prior> speed_prior::of(ModelT model, std::string_view name) {
  std::vector<std::string> unknown;
  size_t of_cpu = 0;
  for (const auto& f : model.features) {
    if (!is_of(*f, "cpu")) continue;
    ++of_cpu;
    if (!is_known(*f)) unknown.push_back(fmt::format("{} in {}", f->name, f->unit));
  }
  if (of_cpu == 0) return no_speed_prior(name, "it has no column of the group cpu");
  if (!unknown.empty())
    return no_speed_prior(name,
                          fmt::format("no hardware field is its {}", fmt::join(unknown, ", ")));
  return speed_prior(std::move(model));
}

result<speed_prior> speed_prior::read(const std::filesystem::path& file) {
  TROUPE_TRY(model, io::perf::read_model(file));
  return of(std::move(model), file.string());
}

std::optional<machine_speed> speed_prior::ask(const hw_profile& machine) {
  const auto& m = model_.model();
  const auto row = row_of(m, machine);
  const auto threads = threads_of(machine);
  bool tells = false;
  for (size_t i = 0; i < m.features.size(); ++i)
    tells = tells || (is_of(*m.features[i], "cpu") && !lacks(m, row, i));
  if (!tells || !threads) return std::nullopt;  // MQK-2
  const auto said = model_.ask({&row}).front();
  double logarithms = 0, half = 0;
  for (size_t o = 0; o < m.outputs.size(); ++o) {
    const double middle = std::log(said.value[o]);
    logarithms += is_time(m.outputs[o]) ? -middle : middle;
    half = std::max({half, std::log(said.upper[o]) - middle, middle - std::log(said.lower[o])});
  }
  const machine_speed out{std::exp(logarithms / static_cast<double>(m.outputs.size())) / *threads,
                          std::min(half, std::log(farthest_apart))};
  const bool is_number = std::isfinite(out.a_thread) && out.a_thread > 0 && std::isfinite(out.half);
  return is_number ? std::optional(out) : std::nullopt;
}

}  // namespace troupe::gpu::predict

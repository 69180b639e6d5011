// SPEC's free text. RE2, since it neither recurses nor explodes, whatever a text holds.
#include "io/perf/spec_text.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>

#include "io/perf/csv.hpp"

namespace troupe::io::perf {

namespace {

re2::StringPiece piece_of(std::string_view text) {
  return {text.data(), text.size()};
}

double in_gb(const std::string& number, const std::string& unit) {
  const double n = number_in(number).value_or(absent);
  if (unit == "TB") return n * 1024;
  return unit == "MB" ? n / 1024 : n;
}

double positive_or_absent(const std::string& number) {
  const double n = number_in(number).value_or(absent);
  return n > 0 ? n : absent;
}

bool is_word(std::string_view token) {
  return std::all_of(token.begin(), token.end(),
                     [](unsigned char c) { return std::isalpha(c) != 0; });
}

/// The words of a processor's name that name its family.
std::string family_of(std::string_view text) {
  std::string out;
  while (!(text = trimmed(text)).empty()) {
    const auto token = text.substr(0, text.find(' '));
    text.remove_prefix(token.size());
    if (token == "Intel" || token == "AMD" || token == "CPU" || token.empty()) continue;
    if (!is_word(token)) break;
    out += (out.empty() ? "" : " ") + std::string(token);
  }
  return out;
}

}  // namespace

memory_facts parse_memory(std::string_view text) {
  static const RE2 total(R"(^\s*([\d.]+)\s*([TGM]B))");
  static const RE2 modules(R"((\d+) x (\d+) ([TGM]B) (?:(\d+)S)?(\d+)Rx(\d+) PC\d-(\d+))");
  static const RE2 speed(R"(running at (\d+))");
  memory_facts m;
  std::string number, unit, size, stack, ranks, width, rate;
  if (RE2::PartialMatch(piece_of(text), total, &number, &unit)) {
    m.total_gb = in_gb(number, unit);
    if (!(m.total_gb > 0)) m.total_gb = absent;
  }
  if (RE2::PartialMatch(piece_of(text), modules, &number, &size, &unit, &stack, &ranks, &width,
                        &rate)) {
    m.dimms = positive_or_absent(number);
    m.dimm_gb = in_gb(size, unit);
    if (!(m.dimm_gb > 0)) m.dimm_gb = absent;
    m.ranks = positive_or_absent(ranks) * (stack.empty() ? 1 : positive_or_absent(stack));
    m.width_bits = positive_or_absent(width);
    m.rated_mts = m.running_mts = positive_or_absent(rate);
  }
  if (RE2::PartialMatch(piece_of(text), speed, &rate)) m.running_mts = positive_or_absent(rate);
  m.hbm = text.find("HBM") != std::string_view::npos;
  return m;
}

double cache_kib(std::string_view text, bool data) {
  static const RE2 both(R"(([\d.]+)\s*([KMG]B) I \+ ([\d.]+)\s*([KMG]B) D)");
  static const RE2 one(R"(([\d.]+)\s*([KMG]B))");
  std::string number, unit, of_data, data_unit;
  if (RE2::PartialMatch(piece_of(text), both, &number, &unit, &of_data, &data_unit)) {
    if (data) {
      number = of_data;
      unit = data_unit;
    }
  } else if (!RE2::PartialMatch(piece_of(text), one, &number, &unit)) {
    return absent;
  }
  const double n = positive_or_absent(number);
  if (unit == "KB") return n;
  return unit == "MB" ? n * 1024 : n * 1024 * 1024;
}

cpu_name parse_cpu_name(std::string_view text) {
  // A "+" is no letter: it says nothing of what a processor is for, and as a level of its own it
  // would give one model's error to all that have it (5420+ and 8480+ have little in common).
  static const RE2 numbered(R"((\d)(\d)\d+([A-Za-z]?)[A-Za-z+]*(?:\s*(v\d))?)");
  cpu_name out;
  out.tier = family_of(text);
  std::string first, second, version;
  if (RE2::PartialMatch(piece_of(text), numbered, &first, &second, &out.suffix, &version)) {
    out.tier += " " + first;
    out.generation = version.empty() ? second : version;
  }
  if (out.suffix.empty()) out.suffix = "none";
  return out;
}

std::string compiler_version(std::string_view text) {
  static const RE2 version(R"(Version ([\d.]*\d))");
  std::string out;
  RE2::PartialMatch(piece_of(text), version, &out);
  return out;
}

double version_number(std::string_view version) {
  const auto first = version.find('.');
  if (first == std::string_view::npos) return number_in(version).value_or(absent);
  return number_in(version.substr(0, version.find('.', first + 1))).value_or(absent);
}

double os_version(std::string_view text) {
  static const RE2 pack(R"((\d+) SP(\d+))");
  static const RE2 plain(R"((\d+(?:\.\d+)?))");
  std::string number, service;
  if (RE2::PartialMatch(piece_of(text), pack, &number, &service))
    return number_in(number + "." + service).value_or(absent);
  if (RE2::PartialMatch(piece_of(text), plain, &number)) return number_in(number).value_or(absent);
  return absent;
}

std::string first_word(std::string_view text) {
  text = trimmed(text);
  return std::string(text.substr(0, text.find(' ')));
}

}  // namespace troupe::io::perf

// The two forms in which SPEC CPU2017's results are public: by benchmark with what lscpu said, and
// SPEC's own dump with free text.
#include <re2/re2.h>

#include <functional>

#include "io/perf/readers.hpp"
#include "io/perf/spec_text.hpp"

namespace troupe::io::perf {

namespace {

using enum feature_kind;

std::vector<feature> features_of_spec17() {
  return {{"mem_kb", "memory", "KiB", log_number},
          {"dimms", "memory", "1", log_number},
          {"dimm_kb", "memory", "KiB", log_number},
          {"mem_data_rate", "memory", "MT/s", log_number},
          {"mem_per_dimm", "memory", "KiB", log_number},
          {"mem_per_core", "memory", "KiB", log_number},
          {"nominal_mhz", "cpu", "MHz", log_number},
          {"max_mhz", "cpu", "MHz", log_number},
          {"cpus", "cpu", "1", log_number},
          {"threads_per_core", "cpu", "1", number},
          {"cores_per_socket", "cpu", "1", log_number},
          {"sockets", "cpu", "1", log_number},
          {"numas", "cpu", "1", log_number},
          {"l1d_cache_kb", "cpu", "KiB", number},
          {"l1i_cache_kb", "cpu", "KiB", number},
          {"l2_cache_kb", "cpu", "KiB", log_number},
          {"l3_cache_kb", "cpu", "KiB", log_number},
          {"copies", "system", "1", log_number},
          {"os_version", "system", "1", number},
          {"compiler_version", "system", "1", number},
          {"storage_gb", "system", "GB", log_number},
          {"vendor", "cpu", "1", category},
          {"os_name", "system", "1", category},
          {"file_system", "system", "1", category},
          {"parallel", "system", "1", category},
          {"compiler_family", "system", "1", category},
          {"compiler", "system", "1", category},
          {"tier", "cpu", "1", category, true},
          {"generation", "cpu", "1", category},
          {"suffix", "cpu", "1", category}};
}

/// Cells of a row by their columns' names; columns are looked up once.
class spec_cells {
 public:
  static result<spec_cells> of(const csv& file, const std::vector<std::string>& names) {
    spec_cells out;
    for (const auto& n : names) {
      TROUPE_TRY(at, file.need(n));
      out.names_.push_back(n);
      out.at_.push_back(at);
    }
    return out;
  }
  const std::string& text(const csv_row& row, std::string_view name) const {
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return row.cells[at_[i]];
    static const std::string none;
    return none;
  }
  double number(const csv_row& row, std::string_view name) const {
    return number_in(text(row, name)).value_or(absent);
  }

 private:
  std::vector<std::string> names_;
  std::vector<size_t> at_;
};

std::string family_of_compiler(const std::string& text) {
  for (const auto* name : {"AOCC", "Intel", "GCC", "gcc", "LLVM", "clang", "PGI"})
    if (text.find(name) != std::string::npos) return name;
  return first_word(text);
}

void write_spec17(const spec_cells& c, const csv_row& row, perf_row& r) {
  const auto n = [&](std::string_view name) { return c.number(row, name); };
  const double cores = n("cores_per_socket") * n("sockets");
  const auto version = compiler_version(c.text(row, "compiler"));
  const auto cpu = parse_cpu_name(c.text(row, "model_name"));
  row_writer w(r);
  w.number(n("mem_kb")).number(n("mem_channels")).number(n("channel_kb"));
  w.number(n("mem_data_rate")).number(n("mem_kb") / n("mem_channels")).number(n("mem_kb") / cores);
  for (const auto* name :
       {"nominal_mhz", "max_mhz", "cpus", "threads_per_core", "cores_per_socket", "sockets",
        "numas", "l1d_cache_kb", "l1i_cache_kb", "l2_cache_kb", "l3_cache_kb"})
    w.number(n(name));
  w.number(n("threads_or_copies")).number(n("os_vid")).number(version_number(version));
  w.number(n("storage_gb"));
  for (const auto* name : {"vendor", "os_name", "file_system", "parallel"})
    w.word(std::string(trimmed(c.text(row, name))));
  w.word(family_of_compiler(c.text(row, "compiler"))).word(version);
  w.word(cpu.tier).word(cpu.generation).word(cpu.suffix);
}

/// The columns of scores: "500.perlbench_r", and not their times "t_500.perlbench_r".
std::vector<size_t> score_columns(const csv& file) {
  static const RE2 score(R"(\d{3}\.\w+)");
  std::vector<size_t> out;
  for (size_t i = 0; i < file.columns.size() && out.size() < max_outputs; ++i)
    if (RE2::FullMatch(file.columns[i], score)) out.push_back(i);
  return out;
}

std::vector<feature> features_of_spr() {
  return {{"mem_gb", "memory", "GB", log_number},
          {"dimms", "memory", "1", log_number},
          {"dimm_gb", "memory", "GB", log_number},
          {"dimm_ranks", "memory", "1", log_number},
          {"dimm_width", "memory", "bit", number},
          {"rated_mts", "memory", "MT/s", log_number},
          {"running_mts", "memory", "MT/s", log_number},
          {"dimms_per_chip", "memory", "1", log_number},
          {"hbm", "memory", "1", number},
          {"mem_per_core", "memory", "GB", log_number},
          {"cores", "cpu", "1", log_number},
          {"chips", "cpu", "1", log_number},
          {"threads_per_core", "cpu", "1", number},
          {"cores_per_chip", "cpu", "1", log_number},
          {"mhz", "cpu", "MHz", log_number},
          {"l1i_kb", "cpu", "KiB", number},
          {"l1d_kb", "cpu", "KiB", number},
          {"l2_kb", "cpu", "KiB", number},
          {"l3_kb", "cpu", "KiB", log_number},
          {"l3_per_core", "cpu", "KiB", log_number},
          {"os_version", "system", "1", number},
          {"compiler_version", "system", "1", number},
          {"pointer_bits", "system", "bit", number},
          {"os", "system", "1", category},
          {"file_system", "system", "1", category},
          {"vendor", "system", "1", category},
          {"compiler", "system", "1", category},
          {"tier", "cpu", "1", category, true},
          {"suffix", "cpu", "1", category}};
}

const std::vector<std::string> spr_columns = {"Benchmark",
                                              "Hardware Vendor",
                                              "Base Result",
                                              "# Cores",
                                              "# Chips",
                                              "Processor MHz",
                                              "Processor",
                                              "# Enabled Threads Per Core",
                                              "Base Pointer Size",
                                              "1st Level Cache",
                                              "2nd Level Cache",
                                              "3rd Level Cache",
                                              "Memory",
                                              "Operating System",
                                              "File System",
                                              "Compiler",
                                              "Disclosure"};

void write_spr(const spec_cells& c, const csv_row& row, perf_row& r) {
  const auto m = parse_memory(c.text(row, "Memory"));
  const double cores = c.number(row, "# Cores"), chips = c.number(row, "# Chips");
  const double l3 = cache_kib(c.text(row, "3rd Level Cache"));
  const auto& bits = c.text(row, "Base Pointer Size");
  const auto version = compiler_version(c.text(row, "Compiler"));
  const auto cpu = parse_cpu_name(c.text(row, "Processor"));
  row_writer w(r);
  w.number(m.total_gb).number(m.dimms).number(m.dimm_gb).number(m.ranks).number(m.width_bits);
  w.number(m.rated_mts).number(m.running_mts).number(m.dimms / chips).number(m.hbm ? 1 : 0);
  w.number(m.total_gb / cores).number(cores).number(chips);
  w.number(c.number(row, "# Enabled Threads Per Core")).number(cores / chips);
  w.number(c.number(row, "Processor MHz"));
  w.number(cache_kib(c.text(row, "1st Level Cache"), false));
  w.number(cache_kib(c.text(row, "1st Level Cache"), true));
  w.number(cache_kib(c.text(row, "2nd Level Cache"))).number(l3).number(l3 * chips / cores);
  w.number(os_version(c.text(row, "Operating System"))).number(version_number(version));
  w.number(number_in(bits.substr(0, bits.find('-'))).value_or(absent));
  w.word(first_word(c.text(row, "Operating System"))).word(first_word(c.text(row, "File System")));
  w.word(first_word(c.text(row, "Hardware Vendor"))).word(version).word(cpu.tier).word(cpu.suffix);
}

/// Rows of SPEC's dump of the data set's suite whose processor fits.
result<perf_table> read_dump(const csv& file, const std::string& dataset,
                             const label_filter& wanted,
                             const std::function<bool(const std::string&)>& fits) {
  static const RE2 id(R"((cpu2017-(\d{8})-\d+))");
  TROUPE_TRY(cells, spec_cells::of(file, spr_columns));
  const auto suite = dataset.substr(std::string_view("spr_").size());
  perf_table out{dataset, features_of_spr(), {"base"}, {}};
  for (const auto& row : file.rows) {
    if (trimmed(cells.text(row, "Benchmark")) != suite || !fits(cells.text(row, "Processor")))
      continue;
    perf_row r;
    if (!RE2::PartialMatch(cells.text(row, "Disclosure"), id, &r.id, &r.date))
      return bad_csv(file.name, row.line, "no id as cpu2017-20230418-12345 in Disclosure");
    r.line = row.line;
    r.cpu_model = std::string(trimmed(cells.text(row, "Processor")));
    write_spr(cells, row, r);
    r.labels = {wanted(r.id) ? label_in(cells.text(row, "Base Result")) : absent};
    out.rows.push_back(std::move(r));
  }
  TROUPE_CHECK(settle(out, file.name));
  return out;
}

bool is_sapphire_rapids(const std::string& processor) {
  static const RE2 names(
      R"(Xeon (Platinum 84|Gold [65]4|Silver 44|Bronze 34|Max 94|CPU Max 94|w\d-[23]4)\d\d)");
  return RE2::PartialMatch(processor, names);
}

}  // namespace

result<perf_table> read_spec17(const csv& file, const std::string& dataset,
                               const label_filter& wanted) {
  TROUPE_TRY(cells, spec_cells::of(file, {"file",
                                          "vendor",
                                          "model_name",
                                          "nominal_mhz",
                                          "max_mhz",
                                          "cpus",
                                          "threads_per_core",
                                          "cores_per_socket",
                                          "sockets",
                                          "numas",
                                          "l1d_cache_kb",
                                          "l1i_cache_kb",
                                          "l2_cache_kb",
                                          "l3_cache_kb",
                                          "mem_kb",
                                          "mem_channels",
                                          "channel_kb",
                                          "mem_data_rate",
                                          "storage_gb",
                                          "os_name",
                                          "os_vid",
                                          "compiler",
                                          "parallel",
                                          "file_system",
                                          "threads_or_copies"}));
  static const RE2 date(R"(cpu2017-(\d{8})-)");
  perf_table out{dataset, features_of_spec17(), {}, {}};
  const auto scores = score_columns(file);
  if (scores.empty()) return bad_csv(file.name, 1, "no column of a score, as 500.perlbench_r");
  for (const auto at : scores) out.outputs.push_back(file.columns[at]);
  for (const auto& row : file.rows) {
    perf_row r;
    r.id = std::string(trimmed(cells.text(row, "file")));
    if (r.id.empty()) return bad_csv(file.name, row.line, "no id in the column file");
    r.line = row.line;
    r.cpu_model = std::string(trimmed(cells.text(row, "model_name")));
    RE2::PartialMatch(r.id, date, &r.date);
    write_spec17(cells, row, r);
    const bool read = wanted(r.id);
    for (const auto at : scores) r.labels.push_back(read ? label_in(row.cells[at]) : absent);
    out.rows.push_back(std::move(r));
  }
  TROUPE_CHECK(settle(out, file.name));
  return out;
}

result<perf_table> read_spr(const csv& file, const std::string& dataset,
                            const label_filter& wanted) {
  return read_dump(file, dataset, wanted, is_sapphire_rapids);
}

result<perf_table> read_other_xeons(const csv& file, const std::string& dataset,
                                    const label_filter& wanted) {
  return read_dump(file, dataset, wanted, [](const std::string& processor) {
    return processor.find("Xeon") != std::string::npos && !is_sapphire_rapids(processor);
  });
}

}  // namespace troupe::io::perf

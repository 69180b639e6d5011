// vTrain's iteration times, the sample of PerfCastDB, and a person's own CSV by its schema.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "io/base/text.hpp"
#include "io/perf/readers.hpp"
#include "io/perf/spec_text.hpp"

namespace troupe::io::perf {

namespace {

using enum feature_kind;

result<std::vector<size_t>> columns_of(const csv& file, const std::vector<std::string>& names) {
  std::vector<size_t> out;
  for (const auto& n : names) {
    TROUPE_TRY(at, file.need(n));
    out.push_back(at);
  }
  return out;
}

constexpr int vtrain_numbers = 10;  // columns before the time

perf_row vtrain_row(const csv_row& row, const std::vector<size_t>& at) {
  double v[vtrain_numbers];
  for (int i = 0; i < vtrain_numbers; ++i)
    v[i] = number_in(row.cells[at[static_cast<size_t>(i)]]).value_or(absent);
  const auto [gpus, batch, micro, hidden, heads, layers, sequence, tensor, data, pipeline] = v;
  constexpr double vocabulary = 50257;  // GPT-2's: what vTrain's models have
  const double parameters = layers * 12 * hidden * hidden + vocabulary * hidden;
  const double micros = batch / (micro * data);
  perf_row r;
  row_writer w(r);
  for (const double x : v) w.number(x);
  w.number(micros).number(6 * parameters * batch * sequence / gpus);
  w.number(std::log1p((pipeline - 1) / micros));
  return r;
}

/// Where the four caches of the sample's rows are totals of a machine in MB (PROVENANCE (c)), they
/// become KiB of an instance: of a core, of a socket for the last.
void per_instance(double (&caches)[4], double cores, double sockets) {
  constexpr double smallest_l1_kib = 10;
  if (!(caches[0] < smallest_l1_kib)) return;
  for (int i = 0; i < 3; ++i) caches[i] *= 1024 / cores;
  caches[3] *= 1024 / sockets;
}

std::vector<feature> features_of_sample() {
  return {{"tdp", "cpu", "W", log_number},
          {"base_ghz", "cpu", "GHz", log_number},
          {"max_ghz", "cpu", "GHz", log_number},
          {"all_core_ghz", "cpu", "GHz", log_number},
          {"threads_per_core", "cpu", "1", number},
          {"cores_per_socket", "cpu", "1", log_number},
          {"sockets", "cpu", "1", log_number},
          {"numas", "cpu", "1", log_number},
          {"l1d_kb", "cpu", "KiB", number},
          {"l1i_kb", "cpu", "KiB", number},
          {"l2_kb", "cpu", "KiB", log_number},
          {"l3_kb", "cpu", "KiB", log_number},
          {"dimms", "memory", "1", log_number},
          {"mem_gb", "memory", "GB", log_number},
          {"dimm_mts", "memory", "MT/s", log_number},
          {"microcode", "system", "1", category},
          {"os", "system", "1", category},
          {"suite", "workload", "1", category},
          {"preset", "workload", "1", category},
          {"test", "workload", "1", category}};
}

perf_row sample_row(const csv_row& row, const std::vector<size_t>& at) {
  const auto text = [&](size_t i) { return std::string(trimmed(row.cells[at[i]])); };
  const auto n = [&](size_t i) { return number_in(row.cells[at[i]]).value_or(absent); };
  perf_row r;
  row_writer w(r);
  double caches[4] = {n(8), n(9), n(10), n(11)};
  per_instance(caches, n(5) * n(6), n(6));
  for (size_t i = 0; i < 8; ++i) w.number(n(i));
  for (const double c : caches) w.number(c);
  for (size_t i = 12; i < 15; ++i) w.number(n(i));
  for (size_t i = 15; i < 19; ++i) w.word(text(i));
  auto test = text(19);
  w.word(test.substr(0, test.find(" (NTW)")));
  return r;
}

/// What a schema says.
struct own_schema {
  size_t id = 0;
  std::optional<size_t> cpu_model, date;
  std::vector<size_t> labels, columns;
  std::vector<feature> features;
};

/// Reads a schema, key by key; each fault with its line.
class schema_reader {
 public:
  schema_reader(const csv& file, const std::string& name) : file_(file), name_(name) {}

  result<own_schema> read(const toml::table& t) {
    for (auto&& [key, node] : t) {
      (void)node;
      constexpr std::string_view keys[] = {"id", "cpu_model", "date", "labels", "feature"};
      if (std::find(std::begin(keys), std::end(keys), key.str()) == std::end(keys))
        return fault(key.source(), fmt::format("unknown key {}; expected id, cpu_model, date, "
                                               "labels or [[feature]]",
                                               troupe::quoted(key.str())));
    }
    TROUPE_TRY(id, column(t, "id", t.source()));
    out_.id = id;
    for (auto [key, into] : {std::pair{"cpu_model", &out_.cpu_model}, {"date", &out_.date}}) {
      if (!t.contains(key)) continue;
      TROUPE_TRY(at, column(t, key, t.source()));
      *into = at;
    }
    TROUPE_CHECK(labels(t));
    TROUPE_CHECK(features(t));
    return std::move(out_);
  }

 private:
  error fault(const toml::source_region& at, const std::string& what) const {
    return bad_schema(name_, at.begin.line, what);
  }

  result<size_t> named(const std::string& column, const toml::source_region& at) const {
    const auto found = file_.column(column);
    if (!found)
      return fault(at, fmt::format("{} has no column {}", file_.name, troupe::quoted(column)));
    return *found;
  }

  result<size_t> column(const toml::table& t, std::string_view key,
                        const toml::source_region& where) const {
    const auto value = t[key].value<std::string>();
    if (!value) return fault(where, fmt::format("{} is missing; expected a column's name", key));
    return named(*value, t[key].node()->source());
  }

  status labels(const toml::table& t) {
    const auto* all = t["labels"].as_array();
    if (all == nullptr || all->empty() || all->size() > max_outputs)
      return fault(t.source(), fmt::format("labels: expected 1 to {} columns", max_outputs));
    for (const auto& one : *all) {
      const auto name = one.value<std::string>();
      if (!name) return fault(one.source(), "labels: expected names of columns");
      TROUPE_TRY(at, named(*name, one.source()));
      if (std::find(out_.labels.begin(), out_.labels.end(), at) != out_.labels.end())
        return fault(one.source(), fmt::format("{} is a label twice", troupe::quoted(*name)));
      out_.labels.push_back(at);
    }
    return {};
  }

  status features(const toml::table& t) {
    const auto* all = t["feature"].as_array();
    if (all == nullptr || all->empty() || all->size() > max_features)
      return fault(t.source(), fmt::format("[[feature]]: expected 1 to {}", max_features));
    for (const auto& one : *all) {
      const auto* f = one.as_table();
      if (f == nullptr) return fault(one.source(), "expected [[feature]]");
      TROUPE_CHECK(one_feature(*f));
    }
    return {};
  }

  status keys_of_feature(const toml::table& f) const {
    constexpr std::string_view keys[] = {"column", "group", "unit", "kind", "defining"};
    for (auto&& [key, node] : f) {
      (void)node;
      if (std::find(std::begin(keys), std::end(keys), key.str()) == std::end(keys))
        return fault(key.source(), fmt::format("unknown key {} of a feature; expected column, "
                                               "group, unit, kind or defining",
                                               troupe::quoted(key.str())));
    }
    return {};
  }

  /// What a key of a feature says; `otherwise` where it is not there.
  result<std::string> text(const toml::table& f, std::string_view key,
                           std::string otherwise) const {
    const auto* node = f.get(key);
    if (node == nullptr) return otherwise;
    const auto value = node->value<std::string>();
    if (!value || value->empty())
      return fault(node->source(), fmt::format("{}: expected a text that is not empty", key));
    return *value;
  }

  status one_feature(const toml::table& f) {
    TROUPE_TRY(at, column(f, "column", f.source()));
    if (std::find(out_.labels.begin(), out_.labels.end(), at) != out_.labels.end())
      return fault(f.source(), fmt::format("{} is a label: it cannot be a feature as well",
                                           troupe::quoted(file_.columns[at])));
    if (std::find(out_.columns.begin(), out_.columns.end(), at) != out_.columns.end())
      return fault(f.source(),
                   fmt::format("{} is a feature twice", troupe::quoted(file_.columns[at])));
    TROUPE_CHECK(keys_of_feature(f));
    feature made;
    made.name = file_.columns[at];
    TROUPE_TRY(group, text(f, "group", "system"));
    TROUPE_TRY(unit, text(f, "unit", "1"));
    TROUPE_TRY(kind, text(f, "kind", ""));
    made.group = group;
    made.unit = unit;
    if (const auto* node = f.get("defining")) {
      const auto value = node->value_exact<bool>();
      if (!value) return fault(node->source(), "defining: expected true or false");
      made.defining = *value;
    }
    if (kind != "number" && kind != "log" && kind != "category")
      return fault(f.source(), fmt::format("kind of {} is {}; expected number, log or category",
                                           troupe::quoted(made.name), troupe::quoted(kind)));
    made.kind = kind == "number" ? number : kind == "log" ? log_number : category;
    out_.columns.push_back(at);
    out_.features.push_back(std::move(made));
    return {};
  }

  const csv& file_;
  const std::string& name_;
  own_schema out_;
};

result<own_schema> parse_own_schema(const csv& file, std::string_view text,
                                    const std::string& name) {
  try {
    const auto t = toml::parse(text, name);
    return schema_reader(file, name).read(t);
  } catch (const toml::parse_error& e) {
    return bad_schema(name, e.source().begin.line, e.description());
  }
}

/// A number of a person's own, of a feature or a label: what is there and is none is refused,
/// unlike what is not there.
result<double> own_number(const csv& file, const csv_row& row, size_t at) {
  const auto cell = trimmed(row.cells[at]);
  if (cell.empty()) return absent;
  if (const auto n = number_in(cell)) return *n;
  return bad_csv(file.name, row.line,
                 fmt::format("{} in column {}; expected a number, or nothing", troupe::quoted(cell),
                             troupe::quoted(file.columns[at])));
}

}  // namespace

result<perf_table> read_vtrain(const csv& file, const label_filter& wanted) {
  TROUPE_TRY(
      at, columns_of(file, {"# GPUs", "global batch", "micro batch", "hidden size",
                            "attention heads", "# layers", "sequence length", "tensor parallelism",
                            "data parallelism", "pipeline parallelism", "iteration time (ms)"}));
  perf_table out{"vtrain_single", {}, {"ms"}, {}};
  for (const auto* name : {"gpus", "batch", "micro_batch", "hidden", "heads", "layers", "sequence",
                           "tensor", "data", "pipeline", "micro_batches", "flop_per_gpu"})
    out.features.push_back({name, "workload", "1", log_number});
  out.features.push_back({"log_bubble", "workload", "1", number});
  for (size_t i = 0; i < file.rows.size(); ++i) {
    auto r = vtrain_row(file.rows[i], at);
    r.id = fmt::format("row{}", i);
    r.line = file.rows[i].line;
    r.cpu_model = "A100";
    r.labels = {wanted(r.id) ? label_in(file.rows[i].cells[at.back()]) : absent};
    out.rows.push_back(std::move(r));
  }
  TROUPE_CHECK(settle(out, file.name));
  return out;
}

result<perf_table> read_perfcastdb(const std::vector<csv>& files, const label_filter& wanted) {
  perf_table out{"perfcastdb_sample", features_of_sample(), {"value"}, {}};
  for (const auto& file : files) {
    TROUPE_TRY(at, columns_of(file, {"SVR.Power.TDP",
                                     "SVR.CPU.Base Frequency",
                                     "SVR.CPU.Maximum Frequency",
                                     "SVR.CPU.All-core Maximum Frequency",
                                     "SVR.CPU.Thread(s) per Core",
                                     "SVR.CPU.Core(s) per Socket",
                                     "SVR.CPU.Socket(s)",
                                     "SVR.CPU.NUMA Node(s)",
                                     "SVR.CPU.L1d Cache",
                                     "SVR.CPU.L1i Cache",
                                     "SVR.CPU.L2 Cache",
                                     "SVR.CPU.L3 Cache",
                                     "Measure.DIMM.Num",
                                     "Measure.DIMM.Total",
                                     "Measure.DIMM.Freq",
                                     "SVR.System.Microcode",
                                     "SVR.System.OS",
                                     "RESULT.WorkloadName",
                                     "RESULT.WorkloadPreset",
                                     "RESULT.TestName",
                                     "SVR.CPU.CPU Model",
                                     "RESULT.Value"}));
    const auto name = std::filesystem::path(file.name).filename().string();
    for (size_t i = 0; i < file.rows.size(); ++i) {
      const auto& row = file.rows[i];
      auto r = sample_row(row, at);
      r.id = fmt::format("{}:{}", name, i);
      r.line = row.line;
      r.cpu_model = std::string(trimmed(row.cells[at[20]]));
      r.labels = {wanted(r.id) ? label_in(row.cells[at[21]]) : absent};
      out.rows.push_back(std::move(r));
    }
  }
  TROUPE_CHECK(settle(out, files.empty() ? "" : files[0].name));
  return out;
}

result<perf_table> read_own(const csv& file, std::string_view schema,
                            const std::string& schema_name, const std::string& dataset,
                            const label_filter& wanted) {
  TROUPE_TRY(s, parse_own_schema(file, schema, schema_name));
  perf_table out{dataset, s.features, {}, {}};
  for (const auto at : s.labels) out.outputs.push_back(file.columns[at]);
  for (const auto& row : file.rows) {
    perf_row r;
    r.id = std::string(trimmed(row.cells[s.id]));
    if (r.id.empty()) return bad_csv(file.name, row.line, "no id");
    r.line = row.line;
    if (s.cpu_model) r.cpu_model = std::string(trimmed(row.cells[*s.cpu_model]));
    if (s.date) r.date = std::string(trimmed(row.cells[*s.date]));
    row_writer w(r);
    for (size_t i = 0; i < s.features.size(); ++i) {
      if (s.features[i].kind == category) {
        w.word(std::string(trimmed(row.cells[s.columns[i]])));
        continue;
      }
      TROUPE_TRY(n, own_number(file, row, s.columns[i]));
      if (s.features[i].kind == log_number && n <= 0)
        return bad_csv(file.name, row.line,
                       fmt::format("{} is {}; expected a number above 0, as its kind is log (where "
                                   "it may be 0 or less: kind = \"number\")",
                                   troupe::quoted(s.features[i].name), n));
      w.number(n);
    }
    const bool read = wanted(r.id);
    for (const auto at : s.labels) {
      if (!read) {
        r.labels.push_back(absent);
        continue;
      }
      TROUPE_TRY(y, own_number(file, row, at));
      r.labels.push_back(y > 0 ? y : absent);
    }
    out.rows.push_back(std::move(r));
  }
  TROUPE_CHECK(settle(out, file.name));
  return out;
}

}  // namespace troupe::io::perf

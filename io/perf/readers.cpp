// Which file has which data set.
#include "io/perf/readers.hpp"

#include <algorithm>
#include <system_error>

#include "io/file.hpp"

namespace troupe::io::perf {

namespace {

namespace fs = std::filesystem;

struct known_set {
  std::string_view dataset, file;
};

constexpr known_set public_sets[] = {
    {"spec17_Int_rate", "spec17_ml/input_Int_rate.csv"},
    {"spec17_FP_rate", "spec17_ml/input_FP_rate.csv"},
    {"spec17_Int_speed", "spec17_ml/input_Int_speed.csv"},
    {"spec17_FP_speed", "spec17_ml/input_FP_speed.csv"},
    {"spr_CINT2017rate", "spec_cpu2017_dump/cpu2017-results.csv.gz"},
    {"spr_CFP2017rate", "spec_cpu2017_dump/cpu2017-results.csv.gz"},
    {"spr_CINT2017", "spec_cpu2017_dump/cpu2017-results.csv.gz"},
    {"spr_CFP2017", "spec_cpu2017_dump/cpu2017-results.csv.gz"},
    {"vtrain_single", "vtrain_steptime/ground_truth_single.csv"},
    {"perfcastdb_sample", "perfcastdb_sample/train_data.csv"},
};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

result<perf_table> read_sample(const fs::path& folder, const label_filter& wanted) {
  std::vector<csv> files;
  for (const auto* name : {"train_data.csv", "test_data.csv"}) {
    TROUPE_TRY(file, read_csv(folder / name));
    files.push_back(std::move(file));
  }
  return read_perfcastdb(files, wanted);
}

}  // namespace

double label_in(std::string_view cell) noexcept {
  const double y = number_in(cell).value_or(absent);
  return y > 0 ? y : absent;
}

error nothing_of(const std::string& pattern, const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return no_data_folder(folder.string());
  return no_dataset(pattern, folder.string());
}

std::vector<std::string> datasets_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& s : public_sets)
    if (is_there(folder / s.file)) out.emplace_back(s.dataset);
  std::error_code fault;
  for (auto it = fs::directory_iterator(folder, fault); !fault && it != fs::directory_iterator();
       it.increment(fault))
    if (it->path().extension() == ".toml" &&
        is_there(fs::path(it->path()).replace_extension(".csv")))
      out.push_back(it->path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

result<perf_table> read_dataset(const fs::path& folder, const std::string& dataset,
                                const label_filter& wanted) {
  const auto* known = std::find_if(std::begin(public_sets), std::end(public_sets),
                                   [&](const known_set& s) { return s.dataset == dataset; });
  if (known == std::end(public_sets)) {
    if (dataset.find('/') != std::string::npos) return nothing_of(dataset, folder);
    const auto schema = folder / (dataset + ".toml");
    if (!is_there(schema)) return nothing_of(dataset, folder);
    TROUPE_TRY(text, read_file(schema, max_schema_bytes));
    TROUPE_TRY(file, read_csv(folder / (dataset + ".csv")));
    return read_own(file, text, schema.string(), dataset, wanted);
  }
  const auto path = folder / known->file;
  if (!is_there(path)) return nothing_of(dataset, folder);
  if (dataset == "perfcastdb_sample") return read_sample(path.parent_path(), wanted);
  TROUPE_TRY(file, read_csv(path));
  if (dataset == "vtrain_single") return read_vtrain(file, wanted);
  return dataset.starts_with("spr_") ? read_spr(file, dataset, wanted)
                                     : read_spec17(file, dataset, wanted);
}

}  // namespace troupe::io::perf

// Extra rows: which file has them, and which of them may be used.
#include "io/perf/extra.hpp"

#include <algorithm>
#include <set>

#include "io/file.hpp"

namespace troupe::io::perf {

namespace {

using rows_of_part = std::vector<const perf_row*>;

std::set<std::string_view> models_in(const rows_of_part& rows) {
  std::set<std::string_view> out;
  for (const auto* r : rows)
    if (!r->cpu_model.empty()) out.insert(r->cpu_model);
  return out;
}

/// The CPU models of a part that train has none of; nothing where it has some (XTR-2).
std::set<std::string_view> models_kept_apart(const rows_of_part& part, const rows_of_part& train) {
  const auto learned = models_in(train), held = models_in(part);
  const bool grouped = std::none_of(held.begin(), held.end(),
                                    [&](std::string_view m) { return learned.count(m) > 0; });
  return grouped ? held : std::set<std::string_view>{};
}

result<perf_table> extra_of_own(const csv& file, const std::filesystem::path& folder,
                                const std::string& dataset, const label_filter& wanted) {
  const auto schema = folder / (dataset + ".toml");
  if (dataset.find('/') != std::string::npos) return no_dataset(dataset, folder.string());
  TROUPE_TRY(text, read_file(schema, max_schema_bytes));
  return read_own(file, text, schema.string(), dataset, wanted);
}

}  // namespace

result<perf_table> read_extra(const std::filesystem::path& file,
                              const std::filesystem::path& folder, const std::string& dataset,
                              const label_filter& wanted) {
  if (dataset == "vtrain_single" || dataset == "perfcastdb_sample") return no_extra(dataset);
  TROUPE_TRY(text, read_csv(file));
  auto made = dataset.starts_with("spr_")      ? read_other_xeons(text, dataset, wanted)
              : dataset.starts_with("spec17_") ? read_spec17(text, dataset, wanted)
                                               : extra_of_own(text, folder, dataset, wanted);
  if (!made) return made.error();
  for (auto& r : made->rows) r.weight = extra_weight;
  return made;
}

std::vector<const perf_row*> extra_rows(const perf_table& extra, const rows_of_part& train,
                                        const rows_of_part& val, const rows_of_part& test) {
  std::set<std::string_view> ids;
  for (const auto* part : {&train, &val, &test})
    for (const auto* r : *part) ids.insert(r->id);
  auto apart = models_kept_apart(test, train);
  apart.merge(models_kept_apart(val, train));
  std::vector<const perf_row*> out;
  for (const auto& r : extra.rows)
    if (ids.count(r.id) == 0 && apart.count(r.cpu_model) == 0) out.push_back(&r);
  return out;
}

bool same_columns(const perf_table& a, const perf_table& b) {
  return a.features == b.features && a.outputs == b.outputs;
}

}  // namespace troupe::io::perf

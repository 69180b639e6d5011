// Manifest first, mark second: see folder_claim.hpp.
#include "io/checkpoint/folder_claim.hpp"

#include <algorithm>

#include "io/checkpoint/manifest.hpp"

namespace troupe::io::checkpoint {

namespace {

constexpr size_t most_claim_bytes = max_manifest_bytes + alignment;

}  // namespace

std::string partial_mark(const std::string& job, std::vector<std::string> others) {
  claim c{folder_kind::checkpoint, job, std::move(others)};
  for (const char* name :
       {"config.json", "train_state.json", "rank-#.shard", "rank-#.chunk-#.shard"})
    if (std::find(c.files.begin(), c.files.end(), name) == c.files.end())
      c.files.emplace_back(name);
  c.files.emplace_back(manifest_file);
  return mark_text(c);
}

claim claim_of(const result<std::string>& manifest, const result<std::string>& mark) {
  claim out{folder_kind::checkpoint, {}, {}};
  if (mark) {
    const auto read = parse_mark(mark->empty() ? partial_mark({}, {}) : *mark);  // FC-2
    if (!read || read->kind != folder_kind::checkpoint) return out;  // somebody's own file
    out = *read;
  }
  if (!manifest) return out;
  const auto parsed = parse_manifest(as_bytes(*manifest));
  if (!parsed) return out;
  out.job = parsed->head.job;
  std::vector<std::string> files;
  for (const auto& f : parsed->files) files.push_back(f.name);
  for (auto& name : out.files)
    if (name != manifest_file) files.push_back(std::move(name));
  files.emplace_back(manifest_file);  // last: until then a removal that is cut off can be read
  out.files = std::move(files);
  out.told_by = manifest_file;
  return out;
}

claim claim_of(file_system& files, const std::filesystem::path& folder) {
  return claim_of(files.read_small(folder / manifest_file, most_claim_bytes),
                  files.read_small(folder / mark_file, max_mark_bytes));
}

}  // namespace troupe::io::checkpoint

// The newest checkpoint of each tier against the job that starts.
#include "actors/checkpoint/owner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/job/catalog.hpp"
#include "io/base/counted.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/config/load.hpp"

namespace troupe::checkpoint {

namespace cp = io::checkpoint;

namespace {

/// What decides whether tensors mean the same; the same numbers as the settled keys.
std::string shape_of(const config::model_section& m) {
  return fmt::format("{} of {}, {} ({} of keys), {} between, {}", counted(m.layers, "layer"),
                     m.hidden, counted(m.heads, "head"), m.kv_heads, m.ffn,
                     counted(m.vocab, "token"));
}

/// What is trained on; how it is mixed may change.
std::string paths_of(const config::data_section& data) {
  std::vector<std::string> all;
  for (const auto& source : data.sources())
    all.insert(all.end(), source.path.begin(), source.path.end());
  return fmt::format("{}", fmt::join(all, ", "));
}

std::optional<std::string> differs(const char* what, const std::string& saved,
                                   const std::string& now) {
  if (saved == now) return std::nullopt;
  return fmt::format("its {} is {}, not {}", what, saved, now);
}

/// The job that saved a checkpoint, if that can be told.
std::optional<config::job> saver_of(const cp::catalog_entry& e) {
  const auto reader = cp::reader::open(e.path);
  if (!reader) return std::nullopt;
  const auto text = reader->read_file(std::string(state_file));
  const auto state = text ? parse_state(*text) : result<train_state>(text.error());
  if (!state || state->config_toml.empty()) return std::nullopt;
  auto job = config::parse(state->config_toml, "the checkpoint's configuration");
  return job ? std::optional(std::move(*job)) : std::nullopt;
}

status check_folder(const config::job& job, const std::string& dir) {
  const auto all = cp::list(dir);
  if (!all) return {};  // whoever reads it says so
  const auto* tip = cp::tip_of(*all);
  const auto saver = tip ? saver_of(*tip) : std::nullopt;
  const auto other = saver ? other_job(*saver, job) : std::nullopt;
  if (!other) return {};
  return error{errc::bad_config,
               fmt::format("{} holds the checkpoints of another job: {} in {}", dir, *other,
                           tip->path.filename().string()),
               "name another checkpoint.dir, or set checkpoint.adopt=true to take it over"};
}

}  // namespace

std::optional<std::string> other_job(const config::job& saved, const config::job& now) {
  if (auto name = differs("name", saved.job.name, now.job.name)) return name;
  if (auto model = differs("model", shape_of(saved.model), shape_of(now.model))) return model;
  if (auto data = differs(now.data.source.empty() ? "data.path" : "data.source",
                          paths_of(saved.data), paths_of(now.data)))
    return data;
  return differs("data.tokenizer", saved.data.tokenizer, now.data.tokenizer);
}

status check_owner(const config::job& job) {
  if (job.checkpoint.adopt) return {};
  TROUPE_CHECK(check_folder(job, job.checkpoint.dir));
  return job.checkpoint.second.dir.empty() ? status{}
                                           : check_folder(job, job.checkpoint.second.dir);
}

}  // namespace troupe::checkpoint

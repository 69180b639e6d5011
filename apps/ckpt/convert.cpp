// `ckpt export` and `ckpt import`: checkpoints to and from Hugging Face folders.
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/job/catalog.hpp"
#include "apps/ckpt/progress_bar.hpp"
#include "apps/ckpt/verbs.hpp"
#include "apps/talk.hpp"
#include "apps/up/folders.hpp"
#include "gpu/device.hpp"
#include "gpu/model/hf_folder.hpp"
#include "gpu/model/saved_state.hpp"
#include "gpu/model/stage_shape.hpp"
#include "gpu/store/store.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/checkpoint/export.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/write_checkpoint.hpp"
#include "io/disk/storage.hpp"
#include "io/file.hpp"
#include "io/formats/model_folder.hpp"

namespace troupe::apps::ckpt {

namespace cp = io::checkpoint;
namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

namespace {

constexpr size_t max_small_bytes = 64 << 20;

/// The weights of a folder, one chunk at a time: no more than that is ever in memory.
class folder_weights {
 public:
  static result<folder_weights> open(const fs::path& folder) {
    TROUPE_TRY(model, gpu::read_folder_model(folder));
    TROUPE_TRY(tensors, io::tensor_store::open(folder));
    return folder_weights(model, std::move(tensors));
  }

  cp::plan_stage plan() const { return gpu::saved_chunks(chunks_); }

  /// Moments are zero.
  status fill(const cp::planned_piece& p, std::span<std::byte> out) {
    std::memset(out.data(), 0, out.size());
    if (p.what.which != cp::part::master) return {};
    if (loaded_ != p.chunk) TROUPE_CHECK(load(p.chunk));
    std::memcpy(out.data(), values_.data() + p.chunk_first, out.size());
    return {};
  }

 private:
  folder_weights(const model_config& model, io::tensor_store tensors)
      : model_(model), tensors_(std::move(tensors)), device_(gpu::make_host_device(1)) {
    for (auto& chunk : gpu::stage_chunks(model, gpu::whole_model(model, 1, 1, gpu::dtype::f32)))
      if (!chunk.tied_copy) chunks_.push_back(std::move(chunk));
  }

  status load(uint32_t chunk) {
    TROUPE_TRY(store,
               gpu::parameter_store::make(*device_, {chunks_[chunk]}, {gpu::dtype::f32, false}));
    TROUPE_CHECK(gpu::load_weights(*store, model_, tensors_));
    values_.resize(static_cast<size_t>(chunks_[chunk].count));
    TROUPE_CHECK(store->read(0, gpu::part::master, values_.data()));
    loaded_ = chunk;
    return {};
  }

  model_config model_;
  io::tensor_store tensors_;
  std::unique_ptr<gpu::device> device_;
  std::vector<gpu::chunk_info> chunks_;
  std::optional<uint32_t> loaded_;
  std::vector<float> values_;
};

/// config.json and the tokenizer's files, and a state to resume from at step 0.
result<std::vector<cp::small_file>> small_files(const fs::path& folder) {
  std::vector<cp::small_file> out;
  std::vector<std::string_view> names{"config.json", io::generation_config_file};
  names.insert(names.end(), io::tokenizer_files.begin(), io::tokenizer_files.end());
  names.insert(names.end(), io::tokenizer_companions.begin(), io::tokenizer_companions.end());
  for (const auto name : names) {
    std::error_code ignored;
    if (!fs::is_regular_file(folder / name, ignored)) continue;
    TROUPE_TRY(content, io::read_file(folder / name, max_small_bytes));
    out.push_back({std::string(name), std::move(content)});
  }
  out.push_back({std::string(checkpoint::state_file), checkpoint::format_state({})});
  return out;
}

status tell(const arguments& a, const json& facts) {
  if (!a.json) return {};
  return print(facts.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace

result<int> export_model(const arguments& a) {
  TROUPE_TRY(path, find(a.path));
  std::error_code none;
  if (!a.force && fs::exists(a.out, none) && !fs::is_empty(a.out, none))
    return error{errc::permission, fmt::format("{} is there already, and not empty", a.out),
                 "name another folder, or say --force to replace an earlier export"};
  TROUPE_TRY(held, cp::reading::begin(path));
  TROUPE_TRY(r, cp::reader::open(path));
  cp::export_options o;
  TROUPE_TRY(own, cp::export_type(r));
  const bool as_bf16 = a.dtype == "bfloat16" || a.dtype == "bf16";
  o.type = a.dtype == "auto" ? own : as_bf16 ? io::tensor_dtype::bf16 : io::tensor_dtype::f32;
  const bool bf16 = o.type == io::tensor_dtype::bf16;
  o.max_shard_bytes = a.max_shard_mb * 1'000'000;
  cp::export_report made;
  {
    progress_bar bar("export");
    o.work = {a.threads, bar.callback()};
    TROUPE_TRY(report, cp::export_model(r, a.out, o));
    made = report;
  }
  say(fmt::format("{}: {} of step {} as {}, {}", a.out, counted(made.tensors, "tensor"),
                  r.content().head.step, bf16 ? "bfloat16" : "float32", bytes_text(made.bytes)));
  TROUPE_CHECK(tell(a, {{"format", 1},
                        {"from", path.string()},
                        {"folder", a.out},
                        {"dtype", bf16 ? "bfloat16" : "float32"},
                        {"tensors", made.tensors},
                        {"bytes", made.bytes}}));
  return 0;
}

result<int> import_model(const arguments& a) {
  const fs::path from(a.path);
  TROUPE_TRY(weights, folder_weights::open(from));
  TROUPE_TRY(others, small_files(from));
  TROUPE_CHECK(io::make_folders(io::local_files(), fs::absolute(a.out).lexically_normal()));
  TROUPE_TRY(held, take_folder(a.out, io::this_process("ckpt import"), claim_of(a.break_lock)));
  const cp::plan_stage stage = weights.plan();
  cp::write_options o;
  o.dir = a.out;
  o.head.job = a.job.empty() ? fs::weakly_canonical(from).filename().string() : a.job;
  o.head.slot_bytes = a.slot_mb << 20;
  o.head.line = {{cp::draw_launch(), 0}};
  o.head.wall_time_ms =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count());
  fs::path made;
  {
    progress_bar bar("import");
    o.progress = bar.callback();
    TROUPE_TRY(path, cp::write_checkpoint(
                         o, std::span(&stage, 1),
                         [&](uint32_t, const cp::planned_piece& p, std::span<std::byte> out) {
                           return weights.fill(p, out);
                         },
                         others));
    made = path;
  }
  say(fmt::format("{}: the weights of {} as step 0, moments zero", made.string(), a.path));
  TROUPE_CHECK(tell(a, {{"format", 1}, {"from", a.path}, {"checkpoint", made.string()}}));
  return 0;
}

}  // namespace troupe::apps::ckpt

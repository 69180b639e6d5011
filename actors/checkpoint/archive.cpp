// Files around the tensors, and the one rename that makes them a checkpoint.
#include "actors/checkpoint/archive.hpp"

#include <fcntl.h>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/checkpoint/catalog.hpp"
#include "gpu/model/hf_folder.hpp"
#include "io/file.hpp"
#include "io/formats/hf_config.hpp"
#include "io/formats/safetensors.hpp"

namespace troupe::checkpoint {

namespace fs = std::filesystem;

namespace {

using self_pointer = traced_pointer<archive_actor, archive_state>;

constexpr size_t max_tokenizer_bytes = 64 << 20;

status failed(std::string_view what, const std::error_code& code) {
  return error::system(what, code.value());
}

/// model.safetensors.index.json where the model is in several shards.
status write_index(const fs::path& folder, const std::vector<io::file_sum>& files) {
  std::map<std::string, std::string> file_of;
  uint64_t bytes = 0;
  int shards = 0;
  for (const auto& [name, size, crc] : files) {
    if (!name.starts_with("model")) continue;
    ++shards;
    TROUPE_TRY(shard, io::tensor_store::open(folder / name));
    for (const auto& [tensor, view] : shard.tensors()) file_of[tensor] = name;
    bytes += shard.total_bytes();
  }
  if (shards < 2) return {};
  return io::write_atomic(folder / "model.safetensors.index.json",
                          io::safetensors_index(file_of, bytes));
}

/// The tokenizer's files, so that the folder can be used by itself.
status copy_tokenizer(const fs::path& folder, const std::string& source) {
  if (source == "bytes" || source.empty()) return {};
  std::vector<fs::path> files;
  std::error_code ignored;
  if (fs::is_directory(source, ignored)) {
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                             "tokenizer.model", "vocab.json", "merges.txt"})
      if (fs::is_regular_file(fs::path(source) / name, ignored))
        files.push_back(fs::path(source) / name);
  } else {
    files.emplace_back(source);
  }
  for (const auto& file : files) {
    TROUPE_TRY(content, io::read_file(file, max_tokenizer_bytes));
    TROUPE_CHECK(io::write_atomic(folder / file.filename(), content));
  }
  return {};
}

status remove_expired(const archive_options& options) {
  for (const auto& old : expired(list(options.dir), options.keep)) {
    std::error_code code;
    fs::remove_all(old.path, code);
    if (code) return failed(fmt::format("remove {}", old.path.string()), code);
  }
  return {};
}

result<fs::path> prepare(const archive_options& options, uint64_t step) {
  const auto partial = options.dir / partial_name(step);
  std::error_code code;
  fs::remove_all(partial, code);
  fs::create_directories(partial, code);
  if (code) return error::system(fmt::format("make the folder {}", partial.string()), code.value());
  return fs::absolute(partial);
}

}  // namespace

status commit(const archive_options& options, const fs::path& partial, const fs::path& complete,
              const std::vector<io::file_sum>& files, const std::string& state_json) {
  auto config = gpu::to_hf_config(options.model);
  config.torch_dtype = "float32";  // what write_weights stores, whatever was computed in
  TROUPE_CHECK(io::write_hf_config(partial, config));
  TROUPE_CHECK(write_index(partial, files));
  TROUPE_CHECK(copy_tokenizer(partial, options.tokenizer));
  TROUPE_CHECK(io::write_atomic(partial / "train_state.json", state_json));
  TROUPE_CHECK(io::write_manifest(partial, files));
  TROUPE_CHECK(io::fsync_directory(partial));
  std::error_code code;
  if (fs::exists(complete, code)) {  // the same step saved before, by a run resumed earlier
    if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, complete.c_str(), RENAME_EXCHANGE) != 0)
      return error::system(fmt::format("exchange with {}", complete.string()), errno);
    fs::remove_all(partial, code);
  } else {
    fs::rename(partial, complete, code);
    if (code) return failed(fmt::format("rename to {}", complete.string()), code);
  }
  return io::fsync_directory(complete.parent_path());
}

archive_actor::behavior_type archive(self_pointer self, archive_options options) {
  guard_mailbox(self);
  introduce(self, "archive");
  publish(self, "idle");
  self->state.options = std::move(options);
  auto folder = [self](const message_header& cause, const fs::path& path) {
    return make_msg<fbs::CheckpointFolder>(context_of(*self, cause),
                                           [&](auto& f) { f.directory = path.string(); });
  };
  return {
      status_handler(self),
      [self,
       folder](const msg<fbs::PrepareCheckpoint>& m) -> caf::result<msg<fbs::CheckpointFolder>> {
        auto made = prepare(self->state.options, m->step());
        if (!made) return to_caf(made.error());
        return folder(m.header(), *made);
      },
      [self,
       folder](const msg<fbs::CommitCheckpoint>& m) -> caf::result<msg<fbs::CheckpointFolder>> {
        const auto& o = self->state.options;
        const auto request = m.unpack();
        std::vector<io::file_sum> files;
        for (const auto& f : request.files) files.push_back({f->name, f->bytes, f->crc32c});
        const auto complete = fs::absolute(o.dir / folder_name(request.step));
        auto done = commit(o, o.dir / partial_name(request.step), complete, files, request.state);
        if (!done) return to_caf(done.error());
        if (auto removed = remove_expired(o); !removed)
          spdlog::warn("checkpoint retention: {}", render(removed.error()));
        return folder(m.header(), complete);
      },
  };
}

}  // namespace troupe::checkpoint

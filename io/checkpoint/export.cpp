// Streaming a checkpoint's weights into safetensors.
#include "io/checkpoint/export.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/folder/plain.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view config_name = "config.json";

/// Small files that are of training, not of the model.
bool of_training(std::string_view name) {
  return name == "train_state.json" || name.ends_with(".safetensors") ||
         name.ends_with(".safetensors.index.json");
}

/// out[c, r] = in[r, c] of elements of `width` bytes, in blocks that stay in the cache.
void transpose(std::span<const std::byte> in, uint64_t rows, uint64_t columns, size_t width,
               std::span<std::byte> out) {
  constexpr uint64_t block = 32;
  for (uint64_t r0 = 0; r0 < rows; r0 += block)
    for (uint64_t c0 = 0; c0 < columns; c0 += block)
      for (uint64_t r = r0; r < std::min(rows, r0 + block); ++r)
        for (uint64_t c = c0; c < std::min(columns, c0 + block); ++c)
          std::memcpy(out.data() + (c * rows + r) * width, in.data() + (r * columns + c) * width,
                      width);
}

float as_float(const std::byte* at, tensor_dtype type) {
  float value = 0;
  uint16_t bits = 0;
  if (type == tensor_dtype::f32) {
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::memcpy(&bits, at, sizeof bits);
  return type == tensor_dtype::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

/// The same numbers in another type.
std::vector<std::byte> convert(std::span<const std::byte> in, tensor_dtype from, tensor_dtype to) {
  if (from == to) return {in.begin(), in.end()};
  const size_t count = in.size() / size_of(from);
  std::vector<std::byte> out(count * size_of(to));
  for (size_t i = 0; i < count; ++i) {
    const float value = as_float(in.data() + i * size_of(from), from);
    const uint16_t bits = f32_to_bf16(value);
    if (to == tensor_dtype::f32)
      std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
    else
      std::memcpy(out.data() + i * sizeof bits, &bits, sizeof bits);
  }
  return out;
}

/// The part that is exported of a tensor.
const tensor_part* weights_of(const tensor_entry& t, tensor_dtype type) {
  const auto* master = t.find(part::master);
  const auto* weight = t.find(part::weight);
  const bool exact = weight && weight->type == type && type != tensor_dtype::f32;
  return exact || !master ? weight : master;
}

/// Gives tensor after tensor, some read ahead together: their slots are neighbours.
class exporter {
 public:
  exporter(const reader& from, const export_options& options)
      : from_(from), options_(options), counter_(options.work.progress, total()) {}

  std::vector<tensor_spec> specs() const {
    std::vector<tensor_spec> out;
    for (const auto& t : from_.content().tensors) {
      if (!weights_of(t, options_.type)) continue;
      auto shape = t.shape;
      if (t.transposed) std::swap(shape[0], shape[1]);
      out.push_back({t.name, options_.type, std::move(shape)});
    }
    return out;
  }

  using sink = std::function<status(std::span<const std::byte>)>;

  status give(const std::string& name, const sink& out) {
    if (!held_.contains(name)) TROUPE_CHECK(read_ahead(name));
    const auto at = held_.find(name);
    if (at != held_.end()) return pass(*at->second.tensor, bytes_of(at->second), out);
    const auto& t = tensors().at(index().at(name));
    return t.transposed ? give_matrix(t, out) : give_in_ranges(t, out);
  }

 private:
  struct held {
    const tensor_entry* tensor = nullptr;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  const std::vector<tensor_entry>& tensors() const { return from_.content().tensors; }
  const std::unordered_map<std::string_view, uint32_t>& index() const { return index_; }

  uint64_t bytes_in(const tensor_entry& t) const {
    const auto* p = weights_of(t, options_.type);
    return p ? t.elements() * size_of(p->type) : 0;
  }
  uint64_t total() const {
    uint64_t bytes = 0;
    for (const auto& t : tensors()) bytes += bytes_in(t);
    return bytes;
  }
  std::span<const std::byte> bytes_of(const held& h) const {
    return std::span<const std::byte>(buffer_).subspan(h.offset, h.bytes);
  }
  work_options quiet() const { return {options_.work.threads, {}}; }

  want whole(const tensor_entry& t, uint64_t destination) const {
    return {t.name, weights_of(t, options_.type)->which, 0, t.elements(), destination};
  }

  /// Reads `name` and those behind it that fit a batch; nothing if it alone does not.
  status read_ahead(const std::string& name) {
    held_.clear();
    std::vector<want> wants;
    uint64_t used = 0;
    for (size_t i = index().at(name); i < tensors().size(); ++i) {
      const auto& t = tensors()[i];
      const uint64_t bytes = bytes_in(t);
      if (bytes == 0) continue;
      if (bytes > options_.batch_bytes - used) break;
      held_[t.name] = {&t, used, bytes};
      wants.push_back(whole(t, used));
      used += bytes;
    }
    buffer_.resize(used);
    return from_.read(wants, buffer_, quiet());
  }

  /// A matrix too large for a batch: the whole of it is needed to turn it.
  status give_matrix(const tensor_entry& t, const sink& out) {
    buffer_.resize(bytes_in(t));
    const auto w = whole(t, 0);
    TROUPE_CHECK(from_.read(std::span(&w, 1), buffer_, quiet()));
    return pass(t, buffer_, out);
  }

  status give_in_ranges(const tensor_entry& t, const sink& out) {
    const auto& p = *weights_of(t, options_.type);
    const uint64_t most = std::max<uint64_t>(options_.batch_bytes / size_of(p.type), 1);
    for (uint64_t at = 0; at < t.elements();) {
      const uint64_t count = std::min(most, t.elements() - at);
      buffer_.resize(count * size_of(p.type));
      const want w{t.name, p.which, at, count, 0};
      TROUPE_CHECK(from_.read(std::span(&w, 1), buffer_, quiet()));
      TROUPE_CHECK(out(convert(buffer_, p.type, options_.type)));
      TROUPE_CHECK(counter_.add(buffer_.size()));
      at += count;
    }
    return {};
  }

  status pass(const tensor_entry& t, std::span<const std::byte> bytes, const sink& out) {
    auto values = convert(bytes, weights_of(t, options_.type)->type, options_.type);
    if (t.transposed) {
      std::vector<std::byte> turned(values.size());
      transpose(values, static_cast<uint64_t>(t.shape[0]), static_cast<uint64_t>(t.shape[1]),
                size_of(options_.type), turned);
      values = std::move(turned);
    }
    TROUPE_CHECK(out(values));
    return counter_.add(bytes.size());
  }

  const reader& from_;
  const export_options& options_;
  std::unordered_map<std::string_view, uint32_t> index_ = by_name(from_.content());
  byte_counter counter_;
  std::vector<std::byte> buffer_;
  std::unordered_map<std::string_view, held> held_;
};

/// config.json with the type that is written.
result<std::string> with_dtype(const std::string& text, tensor_dtype type) {
  auto config = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!config.is_object())
    return error{errc::bad_data, fmt::format("{} is not a JSON object", config_name)};
  config["torch_dtype"] = type == tensor_dtype::bf16 ? "bfloat16" : "float32";
  return config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// What an export makes of this checkpoint.
claim export_claim(const manifest& m, tensor_dtype type, std::vector<std::string> tensors) {
  claim c{folder_kind::model, m.head.job, {}, export_source(m.head, type)};
  for (const auto& f : m.files)
    if (!f.shard && !of_training(f.name)) c.files.push_back(f.name);
  for (auto& name : tensors) c.files.push_back(std::move(name));
  return c;
}

/// Everything of the export, into a folder made for it.
result<export_report> write_folder(const reader& from, const fs::path& folder,
                                   const export_options& options) {
  auto config = from.read_file(std::string(config_name));
  if (!config) return config.error();
  TROUPE_TRY(text, with_dtype(*config, options.type));
  exporter weights(from, options);
  const auto specs = weights.specs();
  if (specs.empty()) return error{errc::bad_data, "the checkpoint holds no weights"};
  TROUPE_CHECK(write_model_tensors(
      folder, specs,
      [&](const tensor_spec& spec, const exporter::sink& sink) {
        return weights.give(spec.name, sink);
      },
      options.max_shard_bytes));
  TROUPE_CHECK(write_atomic(folder / config_name, text));
  for (const auto& f : from.content().files) {
    if (f.shard || f.name == config_name || of_training(f.name)) continue;
    TROUPE_TRY(content, from.read_file(f.name));
    TROUPE_CHECK(write_atomic(folder / f.name, content));
  }
  export_report report{specs.size(), 0};
  for (const auto& spec : specs) report.bytes += byte_size(spec.type, spec.shape).value_or(0);
  return report;
}

fs::path partial_of(const fs::path& folder) {
  return folder.string() + ".partial";
}

/// Nothing, an empty folder, or one of ours.
status is_free(const fs::path& folder) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(folder, code))) return {};
  const auto mark = read_mark(folder);
  auto ours = check_claimed(folder, mark ? *mark : claim{folder_kind::model, {}, {}});
  if (ours && mark && mark->kind != folder_kind::model)
    ours = error{errc::permission,
                 fmt::format("{} is marked as {}", folder.string(), to_string(mark->kind))};
  if (ours && !mark && mark.error().code != errc::not_found)
    ours = error{errc::permission, mark.error().message};
  if (ours) return {};
  return error{ours.error().code, "the model cannot be exported: " + ours.error().message,
               "take it away yourself, or name another folder"};
}

/// `partial` gets the name `folder`; what had it goes (EX-1, EX-2). What came there while the
/// export was written stays.
status take_place(const fs::path& partial, const fs::path& folder) {
  TROUPE_CHECK(is_free(folder));
  std::error_code code;
  bool again = fs::exists(fs::symlink_status(folder, code));
  if (again) {
    TROUPE_TRY(exchanged, change_places(partial, folder));
    again = exchanged;
    if (!exchanged) TROUPE_CHECK(remove_owned(folder, folder_kind::model));  // EX-3
  }
  if (!again) {
    TROUPE_TRY(free, rename_to_free(partial, folder));
    if (!free) return error{errc::permission, folder.string() + " was made by somebody else"};
  }
  TROUPE_CHECK(fsync_directory(folder.parent_path()));
  return again ? remove_owned(partial, folder_kind::model) : status{};
}

}  // namespace

result<tensor_dtype> export_type(const reader& from) {
  TROUPE_TRY(text, from.read_file(std::string(config_name)));
  const auto config = nlohmann::json::parse(text, nullptr, false);
  for (const char* key : {"torch_dtype", "dtype"})
    if (config.is_object() && config.contains(key) && config[key] == "bfloat16")
      return tensor_dtype::bf16;
  return tensor_dtype::f32;
}

std::string export_source(const manifest_head& head, tensor_dtype type) {
  const auto mark = line_of(head).back();
  return fmt::format("{:016x}-{}-{}", mark.launch, mark.step,
                     type == tensor_dtype::bf16 ? "bf16" : "f32");
}

status check_export(const fs::path& folder) {
  const auto path = plain(folder);
  TROUPE_CHECK(is_free(path));
  return is_free(partial_of(path));
}

status remove_half_export(const fs::path& folder) {
  const auto partial = partial_of(plain(folder));
  std::error_code code;
  return fs::exists(partial, code) ? remove_owned(partial, folder_kind::model) : status{};
}

status replace_export(const fs::path& folder, const claim& ours,
                      const std::function<status(const fs::path&)>& write) {
  const auto path = plain(folder), partial = partial_of(path);
  TROUPE_CHECK(check_export(path));
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  if (code) return error::system("make the folder " + path.parent_path().string(), code.value());
  TROUPE_CHECK(remove_half_export(path));
  TROUPE_CHECK(make_owned(partial, ours));
  if (auto written = write(partial); !written) {
    static_cast<void>(remove_owned(partial, folder_kind::model));  // else the next export does
    return written;
  }
  auto placed = take_place(partial, path);
  if (!placed) static_cast<void>(remove_owned(partial, folder_kind::model));
  return placed;
}

result<export_report> export_model(const reader& from, const fs::path& folder,
                                   const export_options& options) {
  if (options.type != tensor_dtype::f32 && options.type != tensor_dtype::bf16)
    return error{errc::usage, "weights are exported as f32 or bf16"};
  const auto specs = exporter(from, options).specs();
  const auto ours =
      export_claim(from.content(), options.type, model_file_names(specs, options.max_shard_bytes));
  export_report report;
  TROUPE_CHECK(replace_export(folder, ours, [&](const fs::path& partial) -> status {
    TROUPE_TRY(written, write_folder(from, partial, options));
    report = written;
    return {};
  }));
  return report;
}

}  // namespace troupe::io::checkpoint

// Saving and restoring the store's f32 parts.
#include "gpu/model/state_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::gpu {

namespace {

struct saved_part {
  std::string_view prefix;
  part which;
};

constexpr std::array<saved_part, 3> saved_parts = {
    {{"master.", part::master}, {"exp_avg.", part::m}, {"exp_avg_sq.", part::v}}};

/// Which part and which tensor a name in the file means.
struct parsed_name {
  part which;
  std::string_view tensor;
};

std::optional<parsed_name> parse(std::string_view name) {
  for (const auto& [prefix, which] : saved_parts)
    if (name.starts_with(prefix)) return parsed_name{which, name.substr(prefix.size())};
  return std::nullopt;
}

/// One part of one chunk on the host.
struct part_copy {
  int chunk = -1;
  part which = part::master;
  std::vector<float> values;
};

/// The tensor `name` in one of the files; null if none has it.
const io::tensor_view* find(const std::vector<io::tensor_store>& files, std::string_view name) {
  for (const auto& file : files)
    if (const auto* view = file.find(name)) return view;
  return nullptr;
}

status read_part(parameter_store& store, int chunk, const saved_part& saved,
                 const std::vector<io::tensor_store>& files) {
  const chunk_info& info = store.info(chunk);
  std::vector<float> values(static_cast<size_t>(info.count), 0.0f);
  for (const auto& tensor : info.tensors) {
    const std::string name = std::string(saved.prefix) + tensor.name;
    const auto* view = find(files, name);
    if (!view) return error{errc::bad_data, fmt::format("the training state lacks {}", name)};
    if (view->type != io::tensor_dtype::f32 || view->shape != tensor.shape)
      return error{
          errc::bad_data,
          fmt::format("{} in the training state has another shape or type than the model", name)};
    std::memcpy(values.data() + tensor.offset, view->bytes.data(), view->bytes.size());
  }
  return store.write(chunk, saved.which, values.data());
}

}  // namespace

std::vector<io::tensor_spec> state_specs(const parameter_store& store) {
  std::vector<io::tensor_spec> specs;
  for (int c = 0; c < store.chunk_count(); ++c) {
    if (store.info(c).tied_copy) continue;
    for (const auto& saved : saved_parts)
      for (const auto& tensor : store.info(c).tensors)
        specs.push_back(
            {std::string(saved.prefix) + tensor.name, io::tensor_dtype::f32, tensor.shape});
  }
  return specs;
}

io::tensor_source state_source(const parameter_store& store) {
  auto copy = std::make_shared<part_copy>();
  return [&store, copy](const io::tensor_spec& spec,
                        const std::function<status(std::span<const std::byte>)>& sink) -> status {
    const auto name = parse(spec.name);
    const auto ref = name ? store.find(name->tensor) : std::nullopt;
    if (!ref) return error{errc::bug, fmt::format("this stage has no state {}", spec.name)};
    if (copy->chunk != ref->chunk || copy->which != name->which) {
      copy->values.resize(static_cast<size_t>(store.info(ref->chunk).count));
      TROUPE_CHECK(store.read(ref->chunk, name->which, copy->values.data()));
      copy->chunk = ref->chunk;
      copy->which = name->which;
    }
    const tensor_info& tensor = store.info(*ref);
    const std::span<const float> values(copy->values);
    return sink(std::as_bytes(
        values.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count))));
  };
}

status write_state(const parameter_store& store, const std::filesystem::path& path) {
  const auto specs = state_specs(store);
  TROUPE_TRY(writer, io::safetensors_writer::create(path, specs, {{"format", "troupe-state"}}));
  const auto source = state_source(store);
  for (const auto& spec : specs)
    TROUPE_CHECK(source(spec, [&](std::span<const std::byte> b) { return writer.write(b); }));
  return writer.finish();
}

status read_state(parameter_store& store, const std::vector<std::filesystem::path>& files) {
  std::vector<io::tensor_store> open;
  for (const auto& path : files) {
    auto file = io::tensor_store::open(path);
    if (!file) return file.error().within(path.string());
    open.push_back(std::move(*file));
  }
  for (int c = 0; c < store.chunk_count(); ++c)
    for (const auto& saved : saved_parts) TROUPE_CHECK(read_part(store, c, saved, open));
  return {};
}

}  // namespace troupe::gpu

// Encodes, decodes and checks predictors.
#include "io/perf/model_file.hpp"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "io/file.hpp"
#include "io/perf/table.hpp"

namespace troupe::io::perf {

namespace {

constexpr std::string_view model_magic = "TRPRED\r\n";
constexpr size_t head_bytes = 8 + 4 + 4 + 8, tail_bytes = 4;
constexpr uint8_t category_kind = static_cast<uint8_t>(feature_kind::category);

template <class T>
void put_number(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

template <class T>
T get_number(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return static_cast<T>(value);
}

template <class V>
bool finite(const V& values) {
  return std::all_of(values.begin(), values.end(), [](auto x) { return std::isfinite(x); });
}

/// What is wrong with a feature, or nothing.
std::string fault_of(const saved::FeatureT& f) {
  if (f.name.empty() || f.group.empty()) return "a feature without a name or group";
  if (f.kind > category_kind) return "a feature of an unknown kind";
  if (f.kind != category_kind && !f.levels.empty()) return "levels of a number";
  if (f.levels.size() > max_levels) return "too many levels";
  if (std::set<std::string>(f.levels.begin(), f.levels.end()).size() != f.levels.size())
    return "a level twice";
  if (!std::isfinite(f.median) || !std::isfinite(f.mean) || !std::isfinite(f.lowest) ||
      !std::isfinite(f.highest) || !std::isfinite(f.deviation) || !(f.deviation > 0))
    return "statistics of a feature that no numbers have";
  return {};
}

std::string fault_of_network(const ModelT& m) {
  const auto& n = *m.network;
  if (n.width == 0 || n.width > max_network_width || n.hidden == 0 ||
      n.hidden > max_network_width || n.heads == 0 || n.heads > max_network_heads)
    return "a network of an impossible shape";
  if (n.published && n.hidden != n.width) return "a published network of an impossible shape";
  if (!(n.share >= 0 && n.share <= 1) || !(n.reach > 0) || !std::isfinite(n.reach))
    return "an impossible share of the network";
  if (n.parameters.size() != network_parameters(m, n)) return "parameters of another shape";
  if (n.other_parameters.size() % n.parameters.size() != 0)
    return "parameters of further seeds cut short";
  if (!finite(n.other_parameters)) return "a parameter of a further seed that is not finite";
  if (n.curve_learned.size() != n.curve_passes.size() ||
      (!n.curve_held.empty() && n.curve_held.size() != n.curve_passes.size()) ||
      !std::is_sorted(n.curve_passes.begin(), n.curve_passes.end()) || !finite(n.curve_learned) ||
      !finite(n.curve_held))
    return "an impossible learning curve";
  return finite(n.parameters) ? "" : "a parameter that is not finite";
}

std::string fault_of_local(const ModelT& m) {
  const auto& l = *m.local;
  if (l.columns == 0 || l.embeddings.size() % l.columns != 0) return "neighbours cut short";
  if (l.columns != (m.network ? m.network->width : trunk_columns(m)))
    return "neighbours of another width";
  if (l.residuals.size() != l.embeddings.size() / l.columns * m.outputs.size())
    return "residuals of another number of rows";
  if (!(l.bandwidth > 0) || !(l.shrink >= 0) || !(l.unit > 0) || !std::isfinite(l.bandwidth) ||
      !std::isfinite(l.shrink) || !std::isfinite(l.unit))
    return "impossible numbers of the neighbours";
  return finite(l.embeddings) && finite(l.residuals) ? "" : "a neighbour that is not finite";
}

std::string fault_of_trunk(const ModelT& m) {
  const auto outputs = m.outputs.size();
  if (m.offsets.size() != outputs || m.scale.size() != outputs)
    return "offsets of another number of outputs";
  if (m.weights.empty() != m.column_means.empty()) return "a trunk cut short";
  if (!m.weights.empty() &&
      (m.column_means.size() != trunk_columns(m) || m.weights.size() != trunk_columns(m) * outputs))
    return "a trunk of another shape";
  if (!finite(m.offsets) || !finite(m.weights) || !finite(m.column_means) || !finite(m.scale))
    return "a weight that is not finite";
  return {};
}

/// The kind, and the parts that it is made of.
std::string fault_of_kind(const ModelT& m) {
  if (std::find(std::begin(model_kinds), std::end(model_kinds), m.kind) == std::end(model_kinds))
    return "an unknown kind";
  if (is_of_network(m.kind) && !m.network) return "a network is missing";
  if (m.kind.ends_with("+local") && !m.local) return "neighbours are missing";
  return {};
}

std::string fault_of_interval(const ModelT& m) {
  if (m.distances.empty() || m.distances.size() != m.halves.size()) return "an interval cut short";
  if (!finite(m.distances) || !finite(m.halves)) return "an interval that is not finite";
  if (!std::is_sorted(m.distances.begin(), m.distances.end()) ||
      !std::is_sorted(m.halves.begin(), m.halves.end()) || m.halves.front() < 0 ||
      !std::isfinite(m.far) || !(m.spread >= 0) || !std::isfinite(m.spread))
    return "an interval that does not grow";
  return {};
}

/// Whether a value of a train row is one that its feature may have.
bool fits(const saved::FeatureT& f, double value) {
  if (f.kind != category_kind) return !std::isinf(value);
  return std::isnan(value) || (value >= 1 && value <= static_cast<double>(f.levels.size()) &&
                               value == std::floor(value));
}

std::string fault_of_donors(const ModelT& m) {
  if (m.donors.empty() || m.donors.size() % m.features.size() != 0) return "train rows cut short";
  for (size_t at = 0; at < m.donors.size(); ++at)
    if (!fits(*m.features[at % m.features.size()], m.donors[at]))
      return "a train row of an impossible value";
  return {};
}

}  // namespace

size_t trunk_columns(const ModelT& m) noexcept {
  size_t out = 0;
  for (const auto& f : m.features)
    out += f->kind == category_kind ? f->levels.size() : f->marked ? 2 : 1;
  return out;
}

size_t network_parameters(const ModelT& m, const saved::NetworkT& shape) noexcept {
  const size_t d = shape.width, h = shape.hidden, a = d * shape.heads;
  size_t tokens = 0;
  std::set<std::string_view> groups;
  bool categories = false;
  for (const auto& f : m.features) {
    const bool category = f->kind == category_kind;
    tokens += (category ? f->levels.size() + 1 : 3) * d;
    if (!category) groups.insert(f->group);
    categories |= category;
  }
  const size_t blocks = groups.size() + (categories ? 1 : 0) + 1;
  const size_t block = 2 * d + d * 3 * a + a * d + 2 * d + d * h + h + h * d + d;
  const size_t outputs = m.outputs.size();
  return tokens + blocks * block + d * outputs + outputs;
}

status check(const ModelT& m, std::string_view name) {
  if (m.outputs.empty() || m.outputs.size() > max_outputs)
    return bad_model(name, "no outputs, or too many");
  if (m.features.empty() || m.features.size() > max_features)
    return bad_model(name, "no features, or too many");
  for (const auto& f : m.features)
    if (const auto fault = fault_of(*f); !fault.empty()) return bad_model(name, fault);
  for (const auto& fault :
       {fault_of_kind(m), fault_of_trunk(m), m.network ? fault_of_network(m) : "",
        m.local ? fault_of_local(m) : "", fault_of_interval(m), fault_of_donors(m)})
    if (!fault.empty()) return bad_model(name, fault);
  return {};
}

std::string encode(const ModelT& m) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(saved::Model::Pack(builder, &m));
  std::string out(model_magic);
  put_number(out, model_version);
  put_number(out, uint32_t{0});
  put_number(out, uint64_t{builder.GetSize()});
  out.append(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  put_number(out, crc32c(as_bytes(out)));
  return out;
}

result<ModelT> decode(std::string_view bytes, std::string_view name) {
  if (bytes.size() < head_bytes + tail_bytes || !bytes.starts_with(model_magic))
    return bad_model(name, "it is no predictor's file");
  const auto version = get_number<uint32_t>(bytes.substr(8));
  if (version != model_version) return model_of_other_version(name, version, model_version);
  const auto length = get_number<uint64_t>(bytes.substr(16));
  if (length != bytes.size() - head_bytes - tail_bytes || bytes.size() > max_model_bytes)
    return bad_model(name, "cut short, or longer than it says");
  const auto whole = bytes.substr(0, bytes.size() - tail_bytes);
  if (get_number<uint32_t>(bytes.substr(whole.size())) != crc32c(as_bytes(whole)))
    return bad_model(name, "its checksum does not fit: it is damaged");
  if (get_number<uint32_t>(bytes.substr(12)) != 0)
    return bad_model(name, "a reserved field is set");
  // FlatBuffers reads aligned numbers: the model gets memory of its own.
  std::vector<uint64_t> copy(length / 8 + 1);
  std::memcpy(copy.data(), bytes.data() + head_bytes, length);
  const auto* begin = reinterpret_cast<const uint8_t*>(copy.data());
  constexpr unsigned depth = 8, tables = 1 << 16;
  flatbuffers::Verifier verifier(begin, length, depth, tables);
  if (!saved::VerifyModelBuffer(verifier)) return bad_model(name, "its model does not verify");
  ModelT out;
  saved::GetModel(begin)->UnPackTo(&out);
  TROUPE_CHECK(check(out, name));
  return out;
}

status write_model(const std::filesystem::path& path, const ModelT& m, size_t most_bytes) {
  const auto bytes = encode(m);
  if (bytes.size() > most_bytes)
    return bad_model(path.string(), "a model of more bytes than may be read: it needs fewer rows");
  return write_atomic(path, bytes);
}

result<ModelT> read_model(const std::filesystem::path& path) {
  TROUPE_TRY(bytes, read_file(path, max_model_bytes));
  return decode(bytes, path.string());
}

}  // namespace troupe::io::perf

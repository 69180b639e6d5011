// A manifest as bytes and back: the envelope, and the FlatBuffer in it.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/schema.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace {

constexpr const char* manifest_identifier = "TRMF";
constexpr std::string_view manifest_magic = "TRMANIF\n";

struct raw_envelope {
  char magic[8];
  uint32_t version;
  uint32_t crc;
  uint64_t bytes;
};
static_assert(sizeof(raw_envelope) == 24);

error wrong_file(std::string_view what) {
  return {errc::bad_data, fmt::format("{}: {}", manifest_file, what)};
}

error other_version(std::string_view what) {
  return {errc::version_mismatch, fmt::format("{}: {}", manifest_file, what),
          "it was written by another version of Troupe"};
}

uint32_t crc_of(const raw_envelope& raw, std::span<const std::byte> body) {
  const auto version = crc32c(std::as_bytes(std::span(&raw.version, 1)));
  return crc32c(body, crc32c(std::as_bytes(std::span(&raw.bytes, 1)), version));
}

using builder = flatbuffers::FlatBufferBuilder;

flatbuffers::Offset<fbs::File> encode(builder& b, const file_entry& f) {
  const auto name = b.CreateString(f.name);
  return fbs::CreateFile(b, name, f.bytes, f.crc32c, f.shard, f.rank, f.stream_bytes, f.slot_digest,
                         f.slot_bytes);
}

/// The lowest version that can tell of it.
uint32_t version_of(const manifest& m) {
  const bool chunks = std::any_of(m.files.begin(), m.files.end(),
                                  [](const file_entry& f) { return f.slot_bytes > 0; });
  return chunks ? padded_version : packed_version;
}

bool is_known(uint32_t version) {
  return version == packed_version || version == padded_version;
}

flatbuffers::Offset<fbs::Tensor> encode(builder& b, const tensor_entry& t) {
  std::vector<flatbuffers::Offset<fbs::TensorPart>> parts;
  std::vector<fbs::Slice> slices;
  for (const auto& p : t.parts) {
    slices.clear();
    for (const auto& s : p.slices) slices.emplace_back(s.first, s.count, s.stream_offset, s.file);
    const auto list = b.CreateVectorOfStructs(slices);
    const auto type = type_of(p.type).value_or(fbs::Dtype::f32);
    parts.push_back(fbs::CreateTensorPart(b, static_cast<fbs::Part>(p.which), type, list));
  }
  const auto name = b.CreateString(t.name);
  const auto shape = b.CreateVector(t.shape);
  const auto list = b.CreateVector(parts);
  return fbs::CreateTensor(b, name, shape, t.transposed, list);
}

result<tensor_part> decode(const fbs::TensorPart& p) {
  const auto which = part_of(p.part());
  const auto type = type_of(p.dtype());
  if (!which || !type || !well_placed(*p.slices()))
    return wrong_file("a tensor has an unknown part or type, or misplaced slices");
  tensor_part out{*which, *type, {}};
  out.slices.reserve(p.slices()->size());
  for (const auto* s : *p.slices())
    out.slices.push_back({s->file(), s->first(), s->count(), s->stream_offset()});
  return out;
}

result<tensor_entry> decode(const fbs::Tensor& t) {
  const auto shape = shape_of(*t.shape());
  if (!shape || t.name()->size() > max_name_bytes || t.parts()->size() > part_count)
    return wrong_file("a tensor has an impossible name or shape, or too many parts");
  tensor_entry out{t.name()->str(), *shape, t.transposed(), {}};
  out.parts.reserve(t.parts()->size());
  for (const auto* p : *t.parts()) {
    TROUPE_TRY(one, decode(*p));
    out.parts.push_back(std::move(one));
  }
  return out;
}

manifest_head decode_head(const fbs::Manifest& root) {
  manifest_head h;
  h.job = root.job()->str();
  h.step = root.step();
  h.epoch = root.epoch();
  h.layout = layout_of(*root.layout());
  h.slot_bytes = root.slot_bytes();
  h.tokens = root.tokens();
  h.loss = root.loss();
  if (const auto loss = root.validation_loss(); loss) h.validation_loss = *loss;
  h.wall_time_ms = root.wall_time_ms();
  if (root.line())
    for (const auto* l : *root.line()) h.line.push_back({l->launch(), l->step()});
  return h;
}

/// Of a head that was not judged.
status well_formed(const fbs::Manifest& root) {
  if (!is_known(root.format())) return other_version(fmt::format("format {}", root.format()));
  if (root.job()->size() > max_name_bytes) return wrong_file("the job's name is too long");
  if (root.line() && (!well_placed(*root.line()) || root.line()->size() > max_launches))
    return wrong_file("its line is misplaced or too long");
  return {};
}

result<manifest> decode(const fbs::Manifest& root, uint64_t bytes) {
  TROUPE_CHECK(well_formed(root));
  manifest m;
  m.head = decode_head(root);
  m.files.reserve(root.files()->size());
  m.tensors.reserve(root.tensors()->size());
  for (const auto* f : *root.files()) {
    if (f->name()->size() > max_name_bytes) return wrong_file("invalid file name");
    m.files.push_back({f->name()->str(), f->bytes(), f->crc32c(), f->shard(), f->rank(),
                       f->stream_bytes(), f->slot_digest(), f->slot_bytes()});
    if (f->slot_bytes() > 0 && root.format() < padded_version)
      return wrong_file("a file has slots of its own, which its version does not know");
  }
  uint64_t slices = 0;  // MF-4: shared vectors may not add up to more than the bytes could hold
  for (const auto* t : *root.tensors()) {
    TROUPE_TRY(one, decode(*t));
    for (const auto& p : one.parts) slices += p.slices.size();
    if (slices > bytes / sizeof(fbs::Slice))
      return wrong_file("it has more slices than room for them");
    m.tensors.push_back(std::move(one));
  }
  TROUPE_CHECK(check(m));
  return m;
}

}  // namespace

result<std::string> encode_manifest(const manifest& m) {
  if (auto sound = check(m); !sound) return error{errc::bug, sound.error().message};
  builder b(64 << 10);
  std::vector<flatbuffers::Offset<fbs::File>> files;
  for (const auto& f : m.files) files.push_back(encode(b, f));
  std::vector<flatbuffers::Offset<fbs::Tensor>> tensors;
  for (const auto& t : m.tensors) tensors.push_back(encode(b, t));
  const auto& h = m.head;
  const auto job = b.CreateString(h.job);
  const auto layout = encode(b, h.layout);
  const auto file_list = b.CreateVector(files);
  const auto tensor_list = b.CreateVector(tensors);
  std::vector<fbs::Launch> launches;
  for (const auto& l : h.line) launches.emplace_back(l.launch, l.step);
  const auto line = b.CreateVectorOfStructs(launches);
  fbs::ManifestBuilder root(b);
  root.add_format(version_of(m));
  root.add_job(job);
  root.add_step(h.step);
  root.add_epoch(h.epoch);
  root.add_layout(layout);
  root.add_slot_bytes(h.slot_bytes);
  root.add_tokens(h.tokens);
  root.add_loss(h.loss);
  if (h.validation_loss) root.add_validation_loss(*h.validation_loss);
  root.add_wall_time_ms(h.wall_time_ms);
  root.add_files(file_list);
  root.add_tensors(tensor_list);
  if (!launches.empty()) root.add_line(line);
  b.Finish(root.Finish(), manifest_identifier);
  if (b.GetSize() > max_manifest_bytes)
    return error{errc::bug, fmt::format("a manifest of {} bytes is too long", b.GetSize())};
  const std::span body(reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize());
  raw_envelope raw{};
  std::memcpy(raw.magic, manifest_magic.data(), manifest_magic.size());
  raw.version = version_of(m);
  raw.bytes = body.size();
  raw.crc = crc_of(raw, body);
  std::string out(sizeof raw + body.size(), '\0');
  std::memcpy(out.data(), &raw, sizeof raw);
  std::memcpy(out.data() + sizeof raw, body.data(), body.size());
  return out;
}

namespace {

/// Verified; a view into `bytes`, or into `copy` where they lie badly.
result<const fbs::Manifest*> open_envelope(std::span<const std::byte> bytes,
                                           std::vector<uint64_t>& copy) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  raw_envelope raw;
  if (bytes.size() < sizeof raw) return wrong_file("it is cut short");
  if (!text.starts_with(manifest_magic)) return wrong_file("it does not begin as one");
  std::memcpy(&raw, bytes.data(), sizeof raw);
  const auto body = bytes.subspan(sizeof raw);
  if (raw.bytes != body.size())
    return wrong_file(fmt::format("it has {} bytes instead of {}", body.size(), raw.bytes));
  if (raw.crc != crc_of(raw, body)) return wrong_file("it is damaged");
  if (!is_known(raw.version)) return other_version(fmt::format("version {}", raw.version));
  const auto* root = verified_root<fbs::Manifest>(body, manifest_identifier, copy);
  if (!root) return wrong_file("it is not readable");
  if (is_known(root->format()) && root->format() != raw.version)
    return wrong_file("it says two versions of itself");
  return root;
}

}  // namespace

result<manifest> parse_manifest(std::span<const std::byte> bytes) {
  std::vector<uint64_t> copy;
  TROUPE_TRY(root, open_envelope(bytes, copy));
  return decode(*root, bytes.size() - sizeof(raw_envelope));
}

result<manifest_head> parse_manifest_head(std::span<const std::byte> bytes) {
  std::vector<uint64_t> copy;
  TROUPE_TRY(root, open_envelope(bytes, copy));
  TROUPE_CHECK(well_formed(*root));
  auto head = decode_head(*root);
  TROUPE_CHECK(check(head));
  return head;
}

}  // namespace troupe::io::checkpoint

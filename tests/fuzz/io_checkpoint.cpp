// Any bytes as what a checkpoint brings in: a manifest, a footer, a trailer, a folder's name. What
// is accepted must keep its promises and read back as the same.
//
// The first byte chooses the entry point; four entry points put a right checksum around the bytes,
// of either version, or hardly anything would get past it. tests/io/checkpoint/fuzz_test.cpp runs
// the same function from CTest with any compiler.
#include <algorithm>
#include <cstdint>
#include <span>

#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/checkpoint/restore_plan.hpp"
#include "tests/fuzz/must.hpp"
#include "tests/io/checkpoint/sign.hpp"

using namespace troupe::io::checkpoint;
using troupe::must;

namespace {

void look_at_manifest(std::span<const std::byte> bytes) {
  auto m = parse_manifest(bytes);
  auto head = parse_manifest_head(bytes);
  if (head) must(bool(check(*head)), "an accepted head is sound");
  if (!m) return;
  must(bool(head), "the head of an accepted manifest is accepted");
  must(bool(check(*m)), "an accepted manifest is sound");
  auto once = encode_manifest(*m);
  must(bool(once), "an accepted manifest can be written");
  auto again = parse_manifest(std::as_bytes(std::span(*once)));
  must(bool(again), "a written manifest can be read");
  must(encode_manifest(*again).has_value() && *encode_manifest(*again) == *once,
       "reading and writing a manifest changes nothing");
  uint64_t bytes_in_all = 0;
  for (const auto& f : m->files) bytes_in_all += f.stream_bytes;
  if (bytes_in_all > (1 << 20)) return;  // a plan is as long as what it reads
  const part all[] = {part::master, part::exp_avg, part::exp_avg_sq, part::weight};
  uint64_t wanted = 0;
  for (const auto& batch : batches_of(*m, all, 4096)) {
    auto plan = plan_restore(*m, batch);
    must(bool(plan), "all that a manifest holds can be wanted");
    wanted += plan->wanted_bytes;
  }
  const bool pads = std::any_of(m->files.begin(), m->files.end(),
                                [](const file_entry& f) { return f.slot_bytes > 0; });
  must(wanted == bytes_in_all || (pads && wanted < bytes_in_all),
       "all bytes of the streams belong to tensors, but for zeros in shards of chunks");
}

void look_at_tail(std::span<const std::byte> bytes, uint64_t file_bytes) {
  auto f = parse_tail(bytes, file_bytes);
  if (!f) return;
  auto tail = encode_tail(*f);
  must(bool(tail), "an accepted footer can be written");
  auto again = parse_tail(tail->bytes, tail->file_bytes);
  must(again && *again == *f, "a written footer is read as it was");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto rest = std::as_bytes(std::span(data + 2, size - 2));
  const uint64_t offset = uint64_t{data[1]} * alignment;
  switch (data[0] % 7) {
    case 0:
      look_at_manifest(rest);
      break;
    case 1:
      look_at_manifest(sign_manifest(rest));
      break;
    case 2:
      look_at_tail(rest, offset + rest.size());
      break;
    case 3: {
      const auto tail = sign_tail(rest, offset);
      look_at_tail(tail, offset + tail.size());
      break;
    }
    case 5:
      look_at_manifest(sign_manifest(rest, padded_version));
      break;
    case 6: {
      const auto tail = sign_tail(rest, offset, padded_version);
      look_at_tail(tail, offset + tail.size());
      break;
    }
    default: {
      const std::string_view name(reinterpret_cast<const char*>(rest.data()), rest.size());
      const auto folder = parse_folder_name(name);
      if (folder && folder->state == folder_state::complete)
        must(complete_name(folder->step) == name, "one name for one step");
    }
  }
  return 0;
}

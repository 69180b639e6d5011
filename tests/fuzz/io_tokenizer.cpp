// libFuzzer target: any bytes as a tokenizer.json; what loads must encode into its own vocabulary.
// The same bytes as a SentencePiece model: what is cut by one is one without a prefix, too.
#include <cstdlib>

#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/piece_cuts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe::io;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (piece_cuts(bytes) != text_cuts::nowhere && without_prefix(bytes).size() < 4) std::abort();
  auto parts = parse_tokenizer_json(bytes);
  if (!parts) return 0;
  auto made = hf_tokenizer::make(std::move(*parts));
  if (!made) return 0;
  auto ids = (*made)->encode("It's 128 lines\n\n  <s> \xc3\xa9\xf0\x9f\x8e\xad</s>x");
  if (!ids) return 0;
  for (int32_t id : *ids)
    if (id < 0 || id >= (*made)->vocab_size()) std::abort();
  if (!(*made)->decode(*ids)) return 0;
  return 0;
}

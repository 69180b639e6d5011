// The tokenizers that are no Hugging Face pipeline: bytes, SentencePiece, llm.c's decoding table.
#pragma once

#include <string>
#include <string_view>

#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

/// 256 ids, one a byte; any bytes are text to it; no end-of-text id.
tokenizer_ptr make_byte_tokenizer();

/// The tokenizer.json of one that makes the same ids of every valid UTF-8 text, for transformers: a
/// byte-level BPE without merges.
std::string byte_tokenizer_json();

/// A SentencePiece model (bytes of a .model file). encode adds no BOS or EOS; end_of_text is the
/// model's EOS. Error bad_data when the library refuses it.
result<tokenizer_ptr> make_sentencepiece_tokenizer(std::string_view model);

/// llm.c's gpt2_tokenizer.bin: 256 uint32 (magic 20240328, version 1 or 2, vocabulary, in version 2
/// the end-of-text id), then for each id a length byte and that many bytes. Decodes; encode is an
/// error.
result<tokenizer_ptr> make_llmc_tokenizer(std::string_view file);

/// Whether a file begins with llm.c's tokenizer magic.
bool is_llmc_tokenizer(std::string_view file) noexcept;

}  // namespace troupe::io

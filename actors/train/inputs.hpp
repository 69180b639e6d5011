// What a job reads before its first step: token files, or text that becomes one. The loader opens
// them here, and what is checked before a start (check_inputs) is found by the same functions.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/job/plan.hpp"
#include "io/data/batch_order.hpp"
#include "io/data/corpus.hpp"
#include "io/data/source_mix.hpp"
#include "io/data/text_source.hpp"
#include "io/data/token_file.hpp"

namespace troupe::train {

/// Slots of the shared memory in which batches are laid out ahead, by split.
constexpr int64_t train_slots = 4;
constexpr int64_t validation_slots = 2;

/// Hears how far tokenising has come; false ends it (errc::cancelled).
using tokenising = std::function<bool(const io::corpus_progress&)>;

/// A source's tokens, and what a person should know of them.
struct opened_data {
  io::token_files tokens;
  std::vector<std::string> notes;  ///< a sentence each: what is left out, what looks wrong
};

/// `source` (one of data_section::sources(), or validation()) as token files, or as texts. Errors:
/// not_found, bad_data, io.
result<io::token_files> find_tokens(const config::job& job, const config::source_spec& source);
result<io::text_source> find_text(const config::job& job, const config::source_spec& source);

/// What a person should know of texts (TXT-3), and of token files (TOK-3).
result<std::vector<std::string>> notes_of(const io::text_source& text);
std::vector<std::string> notes_of(const io::token_files& tokens);

/// The tokens of such a source: as they are, or the text tokenised into data.cache. Errors:
/// not_found, bad_data, io.
result<opened_data> open_tokens(const config::job& job, const config::source_spec& source,
                                const tokenising& progress);

/// How the data begins, on one line: the first tokens' text, or their ids where no tokenizer is
/// known.
std::string beginning_of(const config::job& job, const io::token_files& tokens);

/// How long the documents are between which attention is reset, where `ends` of all `tokens` are
/// `document_end`; a warning where they have no borders.
std::string documents_text(uint64_t tokens, uint64_t ends, int32_t document_end);

/// Where a run goes on in the data: `first_row` of the endless sequence of training windows is the
/// first of step `first_step`, from 0.
struct data_position {
  uint64_t first_step = 0;
  uint64_t first_row = 0;
  io::row_skips skipped = {};  ///< rows of it that no step has
};

/// Which tokens each batch holds; `validation_file`: of data.validation_path. Fails with bad_config
/// if there are too few tokens for a window.
result<io::batch_order> order_of(const config::job& job, uint64_t tokens, bool validation_file,
                                 data_position from = {});

/// The same of all that is trained on: `tokens` of each of data_section::sources().
result<io::mixed_order> mixed_order_of(const config::job& job, std::span<const uint64_t> tokens,
                                       const data_position& from);

/// How the sources of a job are mixed.
io::source_mix mix_of(const config::data_section& data);

/// What a job trains on of one of data_section::sources().
struct source_share {
  /// What is known once its tokens are counted.
  struct counts {
    uint64_t tokens = 0;
    uint64_t train_windows = 0;
    uint64_t validation_windows = 0;  ///< held out
    double passes = 0;                ///< over its training windows, in all steps
  };
  config::source_spec source;
  double share = 1;      ///< of all windows
  uint64_t windows = 0;  ///< that all steps train on, repeated ones too
  std::optional<counts> counted = {};
};

/// Of source number `source`; `order` where its tokens are counted.
source_share source_share_of(const config::job& job, const io::source_mix& mix, size_t source,
                             const io::batch_order* order);
/// Of each, by the configuration alone.
std::vector<source_share> source_shares_of(const config::job& job);

/// The same of a source of [[data.source]], on one line.
std::string share_text(const config::job& job, const source_share& s);

/// By what notes are begun: "data", "data (web)", "validation data".
std::string said_of(const config::source_spec& source);

}  // namespace troupe::train

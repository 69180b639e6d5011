// What many rooms do with text: sizes as people read them, patterns, quotes, near misses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// "640 B", "12.5 KiB", "3.0 MiB".
std::string bytes_text(uint64_t bytes);

/// Whether a text fits a pattern with * (any characters, none too) and ? (one). An empty pattern
/// fits all.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

/// As a JSON string, quotes included; what is no UTF-8 is replaced.
std::string json_string(std::string_view text);

/// As a TOML basic string, quotes included.
std::string quoted(std::string_view text);

/// Without blanks, tabs and carriage returns around it.
std::string_view without_blanks(std::string_view text) noexcept;

/// What stands between the commas of a line, each without blanks around it; one part where there is
/// no comma.
std::vector<std::string_view> comma_parts(std::string_view line);

/// Edits (insert, delete, replace, swap of neighbours) between two words.
size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest of some words, or empty if none is near: an edit distance of at most 2 or a third of
/// the word, or one the beginning of the other.
std::string nearest(std::string_view word, std::span<const std::string_view> words);

}  // namespace troupe

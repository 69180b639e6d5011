// An incident as a page for the person who comes on Monday, made of what incident_doc.hpp wrote. A
// file may be anybody's: nothing of it is believed.
//
// Invariants
//   PAG-1  Whatever the text is, there is a page or an error that says what is wrong with it; a key
//     that is missing, or of another kind than it should be, is as one that is not known.
//   PAG-2  The page is of a bounded length: of what is long the first are shown, and how many more
//     there are.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::report {

/// Levels of its JSON.
inline constexpr int max_incident_depth = 64;

/// What is no incident of ours, and of a later version.
inline constexpr error_kind<std::string_view> no_incident{
    "no_incident", errc::bad_data, "{}", "it was not written by this program, or is damaged"};
inline constexpr error_kind<std::string_view, int> later_incident{
    "later_incident", errc::version_mismatch, "{} has schema {}, which this version does not know",
    "look at it with the program that wrote it"};

/// The object, if it is one of ours. `name`: what the text is called in errors.
result<nlohmann::json> read_incident(std::string_view text, std::string_view name);

/// What a page says beside the object.
struct page_places {
  std::string output;  ///< where black boxes lie; empty: only their names are known
  std::string folder;  ///< of the incident; empty: it has none
};

/// Lines ending with '\n'.
std::string incident_page(const nlohmann::json& incident, const page_places& places);

/// One line of a list, without a line end: number, when, finding, node, what was done.
std::string incident_line(const nlohmann::json& incident);

}  // namespace troupe::report

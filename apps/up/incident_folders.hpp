// The folders in which incidents are kept: {output}/incidents/0001, by the incident's number.
//
//   incident.json   all that is known (apps/report/incident_doc.hpp)
//   waits.txt       the wait graph that named somebody, in words
//   waits.dot       the same for Graphviz
//
// The number goes on over all launches in an output folder (`last_incident`), so that the number
// which `troupe health` tells is the folder's name.
//
// Invariants
//   INF-1  Nothing that was there before is changed or removed: a folder that has the name
//     already is another's, whatever lies in it, and evidence is a person's to remove.
//   INF-2  A file appears whole under its name, and a later version takes its place whole (FILE-1).
//   INF-3  At most `most_incident_folders`, and of each file so many bytes. Where there are as
//     many, no more are made, which is an error to be told.
//   INF-4  Paths are made of numbers and of the names above alone: what a node calls itself is in
//     no path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// The folder in a job's output, and the file in each folder of an incident.
inline constexpr std::string_view incidents_folder = "incidents";
inline constexpr std::string_view incident_file = "incident.json";

/// INF-3.
inline constexpr size_t most_incident_folders = 1000;
inline constexpr size_t max_incident_bytes = 1 << 20;
inline constexpr size_t max_waits_bytes = 256 << 10;
/// Names of black boxes that an incident lists.
inline constexpr size_t most_black_boxes = 64;

inline constexpr error_kind<std::string_view> folder_is_there{
    "folder_is_there", errc::unavailable, "{} is there already, and stays as it is",
    "what was to be kept there is in incidents.jsonl as far as a line says it"};
inline constexpr error_kind<std::string_view, size_t> too_many_incidents{
    "too_many_incidents", errc::unavailable, "{} holds {} incidents already: no more are kept",
    "move away those that nobody needs; incidents.jsonl has a line for each all the same"};

/// "incidents/0001".
std::string incident_folder(uint64_t number);

/// The greatest number of an incident in an output folder, by the folders and by the last lines of
/// incidents.jsonl; 0: there is none.
uint64_t last_incident(const std::filesystem::path& output);

/// The numbers of the folders of an output, in order.
std::vector<uint64_t> kept_incidents(const std::filesystem::path& output);

/// Names of the black boxes in an output that were written since a moment of the wall clock, in
/// order, at most `most_black_boxes`.
std::vector<std::string> black_boxes_since(const std::filesystem::path& output,
                                           int64_t since_unix_ms);

/// What is kept of an incident.
struct incident_files {
  std::string json;
  std::string waits_text = {}, waits_dot = {};  ///< empty: no such file
};

class incident_folders {
 public:
  explicit incident_folders(std::filesystem::path output) : output_(std::move(output)) {}

  /// Makes the folder of an incident, or writes it again if it is the last one that this object
  /// made; the folder, as incident_folder() says. May block: not for an actor's shared thread.
  /// Errors: folder_is_there, too_many_incidents (INF-1, INF-3), permission, io: a full disk.
  result<std::string> write(uint64_t number, const incident_files& files);

 private:
  status make(uint64_t number);

  std::filesystem::path output_;
  std::optional<uint64_t> made_;  ///< the last
  bool durable_ = false;          ///< its name is
};

}  // namespace troupe::apps

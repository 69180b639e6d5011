// A voter's promises and records on the disk: {output}/votes/NAME, a journal (io/journal) of
// messages as they travel. NAME is a node's, or a head's address.
//
// Invariants
//   VST-1  What was granted is found by the next process of this voter, whatever ended the one
//     before: a promise that is forgotten may be given to two heads.
//   VST-2  A voter whose file cannot be read, or written, grants nothing: it counts as one that
//     cannot be reached.
//   VST-3  A voter that was told that the job is over keeps that, and of which epoch it is: where
//     a later one is promised the job has been begun again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "actors/heads/promises_policy.hpp"
#include "io/base/result.hpp"
#include "io/journal/journal.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/cluster_generated.h"

namespace troupe::heads {

/// The folder of votes in a job's.
inline constexpr std::string_view votes_folder = "votes";

/// How a job came to its end.
struct job_end {
  uint32_t epoch = 0;  ///< of the head that acted last
  std::string reason;
};

class vote_store {
 public:
  /// What is there, made if it is not. Errors: as of io::journal::open and create; io.
  static result<vote_store> open(io::file_system& files, const std::filesystem::path& output,
                                 const std::string& name);

  /// The answer, once it is durable. Errors: what keeps it from being so (VST-2).
  result<fbs::PromisedT> promise(uint32_t epoch, const std::string& head);
  result<fbs::PromisedT> hold(const fbs::HoldRecordT& what);
  /// The job is over; `epoch`: of the head that acted last (VST-3).
  status end_job(uint32_t epoch, const std::string& reason);
  /// What it says to one whom it does not follow.
  fbs::PromisedT refusal() const;

  const promises_policy& promises() const noexcept { return promises_; }

 private:
  explicit vote_store(io::journal journal) : journal_(std::move(journal)) {}
  status keep(const fbs::HoldRecordT& what);

  io::journal journal_;
  promises_policy promises_;
  std::optional<job_end> end_;
};

/// The kind of a record's content; none: it is no message that a voter holds.
std::optional<uint16_t> kind_of(const fbs::HeldRecordT& record);
fbs::HeldRecordT to_message(const held_record& record);
held_records records_in(const fbs::PromisedT& answer);

/// The greatest epoch that any voter whose file lies in this folder has promised; 0: none. What
/// cannot be read is left out.
uint32_t latest_promise(io::file_system& files, const std::filesystem::path& output);

/// How the job ended, by the files of voters in this folder: none where it has not, as far as they
/// say, or has been begun again since.
std::optional<job_end> end_of_job(io::file_system& files, const std::filesystem::path& output);

}  // namespace troupe::heads

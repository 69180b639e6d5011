// From files, environment and --set to a checked job, or to every reason why not.
//
// Layers, weakest first: the defaults of job.hpp, the included files, the file itself, the
// environment (TROUPE_TRAIN__LR for train.lr), --set. A later layer replaces a key of an earlier
// one; an array is replaced whole. Then what was left open is derived from the rest ("0 = batch /
// parallel.data") and the combination is checked.
//
// L-1 All problems are found in one go; a rule over several keys is left out when one of those keys
//     is already at fault, so that one mistake is reported once.
// L-2 A problem names its place (file:line:column, variable or flag), the key and what was
// expected. L-3 Nothing is read but the named file and its includes: no other file, no process
// environment.
// L-4 However often files include each other, each is read once, in the last of its places: what it
//     would have said in the earlier ones, it says again there.
// L-5 A warmup of a file, or of nobody, that is longer than the train.steps of a stronger layer
//     (--set, the environment) is shortened to what these leave of it, and a warning says so: who
//     tries a job with a few steps need not know its other keys. Within one layer it is a problem,
//     and so it is where a running job is changed (amend) or a settled one is read (parse). A job
//     that goes on from a checkpoint is read the same way, and tells of its other warmup among the
//     differences.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::config {

/// Which layer a value came from.
enum class source_kind : uint8_t { standard, derived, file, environment, flag };

/// Where a value came from; made by the struct's functions or the reader.
struct origin {
  source_kind kind = source_kind::standard;
  std::string name;   ///< the file's path, the variable or the flag; empty for the first two kinds
  uint32_t line = 0;  ///< from 1, files only
  uint32_t column = 0;  ///< from 1, files only
};

/// "base.toml:3:1", "environment TROUPE_TRAIN__LR", "--set", "default" or "default, derived".
std::string to_string(const origin& from);

/// One thing wrong with a configuration.
struct problem {
  origin at;         ///< name alone when a file is at fault as a whole
  std::string key;   ///< the key, may be empty
  std::string what;  ///< a sentence without a full stop
  std::string hint;  ///< the nearest valid name or another remedy, may be empty
  errc code = errc::bad_config;
};

/// "run.toml:4:1: train.lrr: unknown key; did you mean train.lr?"
std::string render(const problem& p);

/// One error for all of them, at least one: a line each, a line "hint: remedy" behind it where
/// there is one, and the code bad_config. Of a single one its code, and its remedy as the hint.
error as_error(const std::vector<problem>& problems);

/// What to read.
struct sources {
  std::string file;                      ///< path of the TOML file
  std::vector<std::string> environment;  ///< "NAME=value"; names without TROUPE_ and __ are ignored
  std::vector<std::string> sets;         ///< "train.lr=1e-3", in the order given
};

/// A checked job and where each of its keys came from.
struct loaded {
  job value;
  /// By key; every property has one. "inject": of the first drill, where there is one.
  std::map<std::string, origin, std::less<>> origins;
  std::vector<std::string> files;                      ///< every file read, includes first
  std::vector<std::string> warnings = {};  ///< what was fitted to the rest (L-5), for a person
};

/// A job as far as it could be read, and everything wrong with it.
struct read_result {
  loaded config;
  std::vector<problem> problems;  ///< empty: config is checked and settled
};

/// Reads all layers, derives and checks. Deepest include nesting 8, 1,024 includes in all, a
/// file at most 1 MiB.
read_result read(const sources& from);

/// read() as a result; the error is bad_config (not_found when the file does not exist) and its
/// message has a line per problem.
result<loaded> load(const sources& from);

/// A job from TOML text alone, e.g. what to_toml() wrote; `name` stands for the file in messages.
/// Includes are refused.
result<job> parse(std::string_view toml, std::string_view name);

/// The job with one key changed, e.g. by "train.lr=1e-4", checked as a whole.
result<job> amend(const job& base, std::string_view assignment);

/// Derives what is still open and checks again: for a job made or changed by code, e.g. after the
/// shape of model.path was filled in.
result<job> settle(const job& open);

/// The [cluster] of the environment and --set alone: what `troupe node` knows before it has joined
/// (TLS files, insecure, timeouts). Other sections may be set too and are only checked for their
/// types.
result<cluster_section> cluster_without_file(const std::vector<std::string>& environment,
                                             const std::vector<std::string>& sets);

/// TLS paths with "{node}" replaced by a node's name ("coordinator" for the coordinator).
tls_section tls_of(const tls_section& tls, std::string_view node);

/// TOML text that parse() turns into the same job.
std::string to_toml(const job& j);

/// The process's environment as `sources::environment` wants it.
std::vector<std::string> process_environment();

/// Whether an address or name means this machine only: 127.0.0.0/8, ::1, localhost.
bool is_loopback(std::string_view host);

}  // namespace troupe::config

// The exit codes of the program in one table: what scripts and schedulers decide by. The page
// docs/exit-codes.md says the same words; a test compares them.
#pragma once

#include <array>
#include <string_view>

namespace troupe::apps {

struct exit_meaning {
  int code;
  std::string_view name;     ///< of sysexits(3) or signal(7)
  std::string_view meaning;  ///< Markdown
};

/// EX_TEMPFAIL: `stop` or `drain` ended a run before its last step; started again, it goes on.
inline constexpr int stopped_early = 75;

inline constexpr std::array exit_meanings = {
    exit_meaning{0, "EX_OK",
                 "done; of `up`: the last step is made and saved, whoever asked to stop meanwhile"},
    exit_meaning{1, "", "training failed (the loss is not finite), or what was checked is wrong"},
    exit_meaning{64, "EX_USAGE",
                 "the command line is wrong, or an order would lose steps and nobody said --yes"},
    exit_meaning{65, "EX_DATAERR", "a file or a message does not verify"},
    exit_meaning{66, "EX_NOINPUT", "a file, a folder or a name, as a node's, does not exist"},
    exit_meaning{69, "EX_UNAVAILABLE",
                 "a node or a peer is lost and does not come again, or has another version"},
    exit_meaning{70, "EX_SOFTWARE", "a bug, or memory that is not there"},
    exit_meaning{74, "EX_IOERR", "a file, disk or socket operation failed, as the last save's"},
    exit_meaning{75, "EX_TEMPFAIL",
                 "start it again and it continues: `stop`, or `drain` of a node that the run "
                 "cannot do without, ended the run before its last step, nodes did not come in "
                 "time, or another process holds a folder of the job"},
    exit_meaning{77, "EX_NOPERM", "not allowed: a role, a certificate, a file's mode"},
    exit_meaning{78, "EX_CONFIG", "the configuration is impossible"},
    exit_meaning{129, "SIGHUP", "the terminal was closed; as 143"},
    exit_meaning{130, "SIGINT",
                 "Ctrl-C; as 143. Of `node`, also: an actor of it was killed at the console"},
    exit_meaning{137, "SIGKILL",
                 "killed, by a person or for want of memory; the last checkpoint "
                 "stands"},
    exit_meaning{143, "SIGTERM",
                 "a signal ended the run before its last step: saved, unless a second one came or "
                 "no step was made"},
};

}  // namespace troupe::apps

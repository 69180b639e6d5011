// A loop that signals end.
#include "apps/control/live_look.hpp"

#include <unistd.h>

#include <csignal>

#include "apps/talk.hpp"
#include "apps/up/signals.hpp"

namespace troupe::apps {

namespace {

constexpr int follow_every_ms = 500;

}  // namespace

result<int> look(const connect_options& connect, const live_look& how,
                 const std::function<std::string(const fbs::ClusterViewT&, int columns)>& shown) {
  TROUPE_TRY(signals, signal_queue::open());  // before the session's threads
  TROUPE_TRY(s, session::open(connect));
  const bool terminal = isatty(STDOUT_FILENO);
  for (;;) {
    auto view = s->view("", "", false);
    if (!view) return how.follow && s->lost() ? result<int>(0) : view.error();
    if (how.follow && terminal && !how.json) TROUPE_CHECK(print_unchanged("\x1b[H\x1b[2J"));
    TROUPE_CHECK(print(shown(*view, terminal ? terminal_columns(STDOUT_FILENO, 100) : 0)));
    if (!how.follow) return 0;
    const auto event = signals->wait(follow_every_ms);
    if (event && (*event == SIGINT || *event == SIGTERM || *event == SIGHUP)) return 128 + *event;
  }
}

}  // namespace troupe::apps

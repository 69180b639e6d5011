// Asking many actors the same kind of thing and going on when all have answered. While an answer is
// missing, the asking actor's stats name the one that owes it.
//
// Invariants
//   GTH-1  Each is told of every target once, all once behind the last; every request has a timeout
//     (ASK-2). Of gather(): exactly one of `all` and `failed` is called, once.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "actors/base/ask.hpp"

namespace troupe {

/// Sends `request(i)`, a tuple of message elements, to targets[i]; calls
/// each(i, const result<msg<R>>&, const Beside&...) as the answers come, in any order, and all()
/// behind the last. `wait(i)` says for the registry whom and what the caller waits for.
template <class R, class... Beside, class Self, class Handle, class Wait, class Request, class Each,
          class All>
void gather_each(Self* self, const std::vector<Handle>& targets, Wait&& wait, Request&& request,
                 Each each, All all) {
  if (targets.empty()) return all();
  auto missing = std::make_shared<size_t>(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    auto done = [missing, i, each, all](const result<msg<R>>& r, const Beside&... beside) mutable {
      each(i, r, beside...);
      if (--*missing == 0) all();
    };
    ask_either<R, Beside...>(self, targets[i], request(i), wait(i), std::move(done));
  }
}

/// As above; calls all(replies in order of targets), or failed(i, error) with the first error.
template <class R, class Self, class Handle, class Wait, class Request, class All, class Failed>
void gather(Self* self, const std::vector<Handle>& targets, Wait&& wait, Request&& request, All all,
            Failed failed) {
  struct progress {
    std::vector<msg<R>> replies;
    bool over = false;
  };
  auto p = std::make_shared<progress>();
  p->replies.resize(targets.size());
  gather_each<R>(
      self, targets, wait, request,
      [self, p, failed](size_t i, const result<msg<R>>& r) mutable {
        if (r) {
          p->replies[i] = *r;
          return;
        }
        self->stats().failed(r.error().message);
        if (!std::exchange(p->over, true)) failed(i, r.error());
      },
      [p, all]() mutable {
        if (!p->over) all(std::move(p->replies));
      });
}

}  // namespace troupe

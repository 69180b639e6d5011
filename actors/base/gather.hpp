// Asking many actors the same kind of thing and going on when all have answered.
//
// Invariants
//   GTH-1  Exactly one of `all` and `failed` is called, once; every request has a timeout (ASK-2).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "actors/base/ask.hpp"
#include "messages/actors.hpp"
#include "messages/errors.hpp"

namespace troupe {

/// Sends `request(i)`, a tuple of message elements, to targets[i]; calls all(replies in order of
/// targets) or failed(first error). Replies are msg<R>. `wait(i)` says for the registry whom and
/// what the caller waits for.
template <class R, class Self, class Handle, class Wait, class Request, class All, class Failed>
void gather(Self* self, const std::vector<Handle>& targets, Wait&& wait, Request&& request, All all,
            Failed failed) {
  struct progress {
    std::vector<msg<R>> replies;
    size_t missing;
    bool over = false;
  };
  auto p = std::make_shared<progress>();
  p->replies.resize(targets.size());
  p->missing = targets.size();
  if (targets.empty()) return all(std::move(p->replies));
  for (size_t i = 0; i < targets.size(); ++i) {
    auto on_reply = [p, i, all](const msg<R>& r) mutable {
      if (p->over) return;
      p->replies[i] = r;
      if (--p->missing > 0) return;
      p->over = true;
      all(std::move(p->replies));
    };
    auto on_error = [p, i, failed](const error& e) mutable {
      if (std::exchange(p->over, true)) return;
      failed(i, e);
    };
    ask_with<R>(self, targets[i], request(i), wait(i), std::move(on_reply), std::move(on_error));
  }
}

}  // namespace troupe

// A request that the board knows of: while it is open, the asking actor's card says whom it waits
// for and what is to come. The wait-for graph of a stuck cluster is made of these.
//
// Invariants
//   ASK-1  Exactly one of `ok` and `failed` is called, once, and the wait ends before it is.
#pragma once

#include <string>
#include <tuple>
#include <utility>

#include "actors/base/context.hpp"

namespace troupe {

/// Whom one waits for, and for what, in words.
struct awaited {
  std::string whom;  ///< an actor's path, e.g. "worker/3"; with * where any of a kind may answer
  std::string what;  ///< "forward of micro-batch 2"
};

/// Sends a tuple of message elements; calls `ok(const msg<R>&)` or `failed(const error&)`.
template <class R, class Self, class Handle, class Elements, class Timeout, class Ok, class Failed>
void ask_with(Self* self, const Handle& target, Timeout timeout, Elements&& elements, awaited wait,
              Ok ok, Failed failed) {
  const auto id =
      self->card().begin_wait(std::move(wait.whom), std::move(wait.what), now_ns(*self));
  auto on_reply = [self, id, ok = std::move(ok)](const msg<R>& r) mutable {
    self->card().end_wait(id);
    ok(r);
  };
  auto on_error = [self, id, failed = std::move(failed)](const caf::error& e) mutable {
    self->card().end_wait(id);
    auto why = from_caf(e);
    self->card().failed(why.message);
    failed(why);
  };
  std::apply(
      [&](auto&&... parts) {
        self->request(target, timeout, std::forward<decltype(parts)>(parts)...)
            .then(std::move(on_reply), std::move(on_error));
      },
      std::forward<Elements>(elements));
}

/// As above, of one message.
template <class R, class Self, class Handle, class T, class Timeout, class Ok, class Failed>
void ask_for(Self* self, const Handle& target, Timeout timeout, const msg<T>& m, awaited wait,
             Ok ok, Failed failed) {
  ask_with<R>(self, target, timeout, std::tuple(m), std::move(wait), std::move(ok),
              std::move(failed));
}

}  // namespace troupe

// A store behind a mailbox.
#include "actors/heads/voter.hpp"

#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/context.hpp"
#include "messages/text.hpp"

namespace troupe::heads {

namespace {

using voter_pointer = traced_pointer<voter_actor, voter_state>;

caf::result<msg<fbs::Promised>> answer(voter_pointer self, const message_header& cause,
                                       const result<fbs::PromisedT>& vote) {
  if (!vote) return to_caf(vote.error());
  const auto& promises = self->state.votes->promises();
  publish(self, "holding", [&](fbs::VoterStatusT& s) {
    s.promised = promises.epoch();
    s.head = promises.head();
  });
  return make_msg<fbs::Promised>(context_of(*self, cause), *vote);
}

}  // namespace

voter_actor::behavior_type voter(voter_pointer self, voter_options options) {
  guard_mailbox(self);
  introduce(self, fmt::format("voter/{}", options.name));
  auto& st = self->state;
  st.options = std::move(options);
  auto votes = vote_store::open(*st.options.files, st.options.output, st.options.name);
  if (votes) {
    st.votes = std::move(*votes);
  } else {
    st.broken = votes.error();
    spdlog::warn("node {} has no vote about heads: {}", st.options.name, render(votes.error()));
  }
  return {
      status_handler(self),
      [self](const msg<fbs::PromiseEpoch>& m) -> caf::result<msg<fbs::Promised>> {
        auto& s = self->state;
        if (!s.votes) return to_caf(*s.broken);
        return answer(self, m.header(), s.votes->promise(m->epoch(), text_of(m->head())));
      },
      [self](const msg<fbs::HoldRecord>& m) -> caf::result<msg<fbs::Promised>> {
        auto& s = self->state;
        if (!s.votes) return to_caf(*s.broken);
        return answer(self, m.header(), s.votes->hold(m.unpack()));
      },
  };
}

}  // namespace troupe::heads

// A queue in front of the persons.
#include "actors/train/run_answers.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"

namespace troupe::train {

namespace {

void deliver(run_pointer self, asked_by& whom, const result<reply>& said) {
  if (said)
    whom.promise.deliver(make_msg<fbs::Ack>(context_of(*self, whom.cause), [&](auto& a) {
      a.text = said->text;
      a.first_step = said->first_step;
    }));
  else
    whom.promise.deliver(to_caf(said.error()));
}

/// A record is on the disk, or is not and that was said.
void record_is_over(run_pointer self, uint64_t record) {
  auto& st = self->state;
  st.records_kept = std::max(st.records_kept, record);
  for (; !st.answers.empty() && st.answers.front().record <= st.records_kept;
       st.answers.pop_front())
    deliver(self, st.answers.front().whom, st.answers.front().said);
}

void say_it_is_not_kept(run_pointer self, const error& why) {
  auto& st = self->state;
  if (!std::exchange(st.is_kept, false) || st.job.state() == job_state::ended) return;  // RUN-3
  self->send(st.record.reporter,
             make_msg<fbs::Notice>(context_of(*self, st.record.epoch), [&](auto& n) {
               n.level = fbs::NoticeLevel::warning;
               n.text = fmt::format(
                   "a head that is started again will not know what was said last: {}",
                   why.message);
             }));
}

}  // namespace

void remember(run_pointer self) {
  auto& st = self->state;
  auto now = st.job.memory();
  if (!st.record.journal || now == st.remembered) return;
  st.remembered = std::move(now);
  const auto record = ++st.records;
  ask_for<fbs::Ack>(
      self, st.record.journal,
      make_msg<fbs::JobMemory>(context_of(*self, st.record.epoch), to_message(st.remembered)),
      {"journal", "what was said, on the disk"},
      [self, record](const msg<fbs::Ack>&) {
        self->state.is_kept = true;
        record_is_over(self, record);
      },
      [self, record](const error& e) {
        say_it_is_not_kept(self, e);
        record_is_over(self, record);
      });
}

void answer(run_pointer self, const todo::answer& what) {
  auto& st = self->state;
  auto asked = st.requests.extract(what.request);
  if (asked.empty()) return;
  remember(self);
  if (st.records_kept == st.records) return deliver(self, asked.mapped(), what.said);
  st.answers.push_back({st.records, std::move(asked.mapped()), what.said});
}

}  // namespace troupe::train

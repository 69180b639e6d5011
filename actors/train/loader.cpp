// Opening the data and keeping the slots filled.
#include "actors/train/loader.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/job/skipped_data.hpp"
#include "actors/train/inputs.hpp"
#include "actors/train/received_job.hpp"
#include "actors/train/tokenising_policy.hpp"
#include "io/data/document_bounds.hpp"

namespace troupe::train {

namespace {

using loader_pointer = traced_pointer<loader_actor, loader_state>;

constexpr int64_t tell_every_ns = 2'000'000'000;

/// Tells the run what a person should know of the data, where this loader is the one to do so.
void tell(loader_pointer self, const msg<fbs::OpenLoader>& m, std::string_view which,
          const std::vector<std::string>& notes) {
  const auto opener = caf::actor_cast<run_actor>(self->current_sender());
  if (!opener || !m->tells_progress()) return;
  for (const auto& note : notes)
    self->send(opener, make_msg<fbs::Notice>(context_of(*self, m.header()), [&](auto& n) {
                 n.text = fmt::format("{}: {}", which, note);
               }));
}

/// Tells the run how far tokenising has come, where this loader is the one to do so; ends it when
/// nobody needs it any more.
tokenising teller(loader_pointer self, const msg<fbs::OpenLoader>& m) {
  const auto opener = caf::actor_cast<run_actor>(self->current_sender());
  const auto over = self->state.over;
  if (!opener || !m->tells_progress())
    return [over](const io::corpus_progress&) { return !over.stop_requested(); };
  tokenising_policy pace(now_ns(*self), tell_every_ns);
  return [self, m, opener, pace, over](const io::corpus_progress& progress) mutable {
    if (auto text = pace.heard(now_ns(*self), progress))
      self->send(opener, make_msg<fbs::Notice>(context_of(*self, m.header()), [&](auto& n) {
                   n.text = std::move(*text);
                   n.progress = true;
                 }));
    return !over.stop_requested();
  };
}

using split_feeds = std::array<split_feed, 2>;

/// A source's tokens, checked and told of.
result<io::token_files> open_source(loader_pointer self, const msg<fbs::OpenLoader>& m,
                                    const config::job& job, const config::source_spec& source,
                                    const std::string& which) {
  TROUPE_TRY(data, open_tokens(job, source, teller(self, m)));
  data.notes.push_back("begins with " + beginning_of(job, data.tokens));
  tell(self, m, which, data.notes);
  TROUPE_TRY(document_end, document_end_of(job, m->vocab()));
  TROUPE_TRY(ends, data.tokens.check_and_count(m->vocab(), document_end.value_or(0)));  // LDR-3
  if (document_end) tell(self, m, which, {documents_text(data.tokens.size(), ends, *document_end)});
  return std::move(data.tokens);
}

/// What is trained on, and in which order.
status open_training(loader_pointer self, const msg<fbs::OpenLoader>& m, const config::job& job,
                     split_feed& train) {
  const auto sources = job.data.sources();
  std::vector<uint64_t> sizes;
  for (const auto& source : sources) {
    TROUPE_TRY(tokens, open_source(self, m, job, source, said_of(source)));
    sizes.push_back(tokens.size());
    train.tokens.push_back(std::move(tokens));
  }
  const data_position from{m->first_step() == 0 ? 0 : m->first_step() - 1, m->first_row(),
                           rows_of(skipped_in(m.unpack().skipped), job.train.seq_len)};
  TROUPE_TRY(order, mixed_order_of(job, sizes, from));
  if (!job.data.source.empty())
    for (size_t s = 0; s < sources.size(); ++s)
      tell(self, m, said_of(sources[s]),
           {share_text(job, source_share_of(job, order.mix(), s, &order.of(s)))});
  train.order = std::move(order);
  return {};
}

result<split_feeds> open_feeds(loader_pointer self, const msg<fbs::OpenLoader>& m,
                               const config::job& job) {
  split_feeds feeds;
  auto& train = feeds[static_cast<size_t>(fbs::Split::train)];
  auto& validation = feeds[static_cast<size_t>(fbs::Split::validation)];
  TROUPE_CHECK(open_training(self, m, job, train));
  train.slots = train_slots;
  validation.first_slot = train_slots;
  validation.slots = validation_slots;
  if (!job.data.validation_path.empty()) {
    TROUPE_TRY(held_out, open_source(self, m, job, job.data.validation(), "validation data"));
    TROUPE_TRY(held_out_order, order_of(job, held_out.size(), true));
    validation.tokens.push_back(std::move(held_out));
    validation.order.emplace(held_out_order);
  } else {
    validation.tokens = train.tokens;
    validation.order = train.order;
    validation.held_out = true;
  }
  return feeds;
}

/// Tokens of all its sources.
uint64_t tokens_of(const split_feed& feed) {
  uint64_t sum = 0;
  for (const auto& tokens : feed.tokens) sum += tokens.size();
  return sum;
}

/// Rows of a batch that those of so many data ranks are.
int64_t rows_of(const config::job& job, const std::vector<uint32_t>& data_ranks) {
  return job.grid().rows_each(job.train.batch) * static_cast<int64_t>(data_ranks.size());
}

/// Batch numbers count from 1. The arrays of a slot (batch_memory), of the rows of data_ranks.
void fill(loader_state& st, split_feed& feed, uint64_t number) {
  const int64_t at =
      feed.first_slot + static_cast<int64_t>(number % static_cast<uint64_t>(feed.slots));
  const auto batch = st.job.train.batch, seq = st.job.train.seq_len;
  const int64_t rows = rows_of(st.job, st.data_ranks);
  int32_t* tokens = st.memory->slot(at);
  std::vector<int32_t> window(static_cast<size_t>(seq) + 1);
  const auto lay_out = [&](uint64_t row) {
    const auto from =
        feed.held_out
            ? feed.order->validation_window((number - 1) * static_cast<uint64_t>(batch) + row)
            : feed.order->train_window(number - 1, static_cast<uint32_t>(row));
    feed.tokens[from.source].copy(from.first_token, window.size(), window.data());
    std::copy_n(window.data() + 1, seq, tokens + rows * seq);
    if (st.document_end)  // LDR-6
      io::find_documents({window.data(), static_cast<size_t>(seq)}, *st.document_end,
                         tokens + 2 * rows * seq, tokens + 3 * rows * seq);
    tokens = std::copy_n(window.data(), seq, tokens);
  };
  for (const auto data_rank : st.data_ranks) {
    const auto its = st.job.grid().rows_of(static_cast<int>(data_rank), batch);
    for (int64_t r = 0; r < its.count; ++r) lay_out(static_cast<uint64_t>(its.first + r));
  }
}

/// Whose rows those who ask need.
result<std::vector<uint32_t>> data_ranks_of(const config::job& job,
                                            const std::vector<uint32_t>& consumers) {
  const auto grid = job.grid();
  std::set<uint32_t> data_ranks;
  for (const auto rank : consumers) {
    if (!grid.holds(rank))
      return error{errc::bad_data,
                   fmt::format("no rank {} in a job of {} x {}", rank, grid.data, grid.pipeline)};
    data_ranks.insert(static_cast<uint32_t>(grid.place_of(static_cast<int>(rank)).data));
  }
  if (data_ranks.empty()) return error{errc::bad_data, "a loader without a rank that reads"};
  return std::vector(data_ranks.begin(), data_ranks.end());
}

/// Nobody has asked for anything yet; training goes on behind batch `before`.
void begin_feeds(split_feeds& feeds, const std::vector<uint32_t>& consumers, uint64_t before) {
  auto& train = feeds[static_cast<size_t>(fbs::Split::train)];
  train.first = before + 1;
  train.filled = before;
  for (const auto rank : consumers) {
    train.asked[rank] = before;
    feeds[static_cast<size_t>(fbs::Split::validation)].asked[rank] = 0;
  }
}

/// Fills every slot that is free (LDR-2).
void fill_ahead(loader_state& st, split_feed& feed) {
  const uint64_t limit = feed.floor() + static_cast<uint64_t>(feed.slots);
  while (feed.filled < limit) fill(st, feed, ++feed.filled);
}

/// All that decides what is opened. LDR-7
std::vector<uint8_t> order_in(const msg<fbs::OpenLoader>& m) {
  auto of = m.unpack();
  of.tells_progress = false;
  flatbuffers::FlatBufferBuilder out;
  out.Finish(fbs::OpenLoader::Pack(out, &of));
  return {out.GetBufferPointer(), out.GetBufferPointer() + out.GetSize()};
}

/// Where its batches will be.
msg<fbs::LoaderReady> ready(loader_pointer self, const msg<fbs::OpenLoader>& m) {
  const auto& st = self->state;
  const auto& train = st.feeds[static_cast<size_t>(fbs::Split::train)];
  return make_msg<fbs::LoaderReady>(context_of(*self, m.header()), [&](auto& r) {
    r.tokens = tokens_of(train);
    r.train_windows = train.order->train_windows();
    const auto& v = st.feeds[static_cast<size_t>(fbs::Split::validation)];
    r.validation_windows = v.held_out ? v.order->validation_windows() : v.order->train_windows();
    r.shared_memory = st.memory->path();
    r.slot_bytes = st.memory->slot_bytes();
    r.slots = static_cast<uint32_t>(st.memory->slots());
    r.rows = static_cast<uint32_t>(rows_of(st.job, st.data_ranks));
    r.data_ranks = st.data_ranks;
  });
}

caf::result<msg<fbs::LoaderReady>> open(loader_pointer self, const msg<fbs::OpenLoader>& m) {
  auto& st = self->state;
  auto order = order_in(m);
  if (st.memory && st.opened == order) return ready(self, m);  // LDR-7
  const auto received = received_job(m->config_toml());
  if (!received) return to_caf(received.error());
  const auto& job = *received;
  const auto consumers = m.unpack().consumers;
  auto data_ranks = data_ranks_of(*job, consumers);
  if (!data_ranks) return to_caf(data_ranks.error());
  const auto document_end = document_end_of(*job, m->vocab());
  if (!document_end) return to_caf(document_end.error());
  auto feeds = open_feeds(self, m, *job);
  if (!feeds) return to_caf(feeds.error());
  begin_feeds(*feeds, consumers, m->first_step() == 0 ? 0 : m->first_step() - 1);
  const auto rows = rows_of(*job, *data_ranks);
  auto memory = batch_memory::create({rows, job->train.seq_len, document_end->has_value()},
                                     train_slots + validation_slots);
  if (!memory) return to_caf(memory.error());
  for (auto& feed : st.feeds)
    for (auto& w : feed.waiting)
      w.answer.deliver(to_caf({errc::cancelled, "the data is opened anew"}));
  st.job = *job;  // LDR-5
  st.data_ranks = std::move(*data_ranks);
  st.document_end = *document_end;
  st.feeds = std::move(*feeds);
  st.memory.emplace(std::move(*memory));
  auto& train = st.feeds[static_cast<size_t>(fbs::Split::train)];
  st.opened = std::move(order);
  auto rp = self->make_response_promise<msg<fbs::LoaderReady>>();
  rp.deliver(ready(self, m));
  fill_ahead(st, train);
  return rp;
}

/// Answers every request whose batch is laid out (LDR-4).
void answer_waiting(loader_pointer self, split_feed& feed) {
  std::erase_if(feed.waiting, [&](waiting_request& w) {
    const uint64_t number = w.request->step();
    if (number > feed.filled) return false;
    w.answer.deliver(make_msg<fbs::BatchReady>(context_of(*self, w.request.header()), [&](auto& r) {
      r.step = number;
      r.slot = static_cast<uint32_t>(
          feed.first_slot + static_cast<int64_t>(number % static_cast<uint64_t>(feed.slots)));
    }));
    return true;
  });
}

caf::result<msg<fbs::BatchReady>> fetch(loader_pointer self, const msg<fbs::BatchRequest>& m) {
  auto& st = self->state;
  const auto split = static_cast<size_t>(m->split());
  if (!st.memory || split >= st.feeds.size()) return to_caf(loader_not_open());
  auto& feed = st.feeds[split];
  auto asked = feed.asked.find(m->consumer());
  if (asked == feed.asked.end()) return to_caf(no_consumer(m->consumer()));
  const uint64_t number = m->step();
  if (feed.held_out && feed.order->validation_windows() == 0) return to_caf(nothing_held_out());
  for (const auto& w : feed.waiting)  // LDR-4
    if (w.request->consumer() == m->consumer() && w.request->step() != number)
      return to_caf(waits_for_another(m->consumer(), number, w.request->step()));
  // A validation starts over at batch 1.
  if (m->split() == fbs::Split::validation && number == 1 && asked->second > 1) {
    for (auto& [rank, last] : feed.asked) last = 0;
    feed.filled = 0;
  }
  if (number < feed.first || number < asked->second || number > asked->second + 1)
    return to_caf(batch_out_of_order(m->consumer(), number, asked->second));
  st.opened.clear();
  asked->second = number;
  auto rp = self->make_response_promise<msg<fbs::BatchReady>>();
  feed.waiting.push_back({m, rp});
  fill_ahead(st, feed);
  answer_waiting(self, feed);
  publish(self, "open", [&](fbs::LoaderStatusT& s) {
    s.filled = feed.filled;
    s.floor = feed.floor();
  });
  return rp;
}

}  // namespace

uint64_t split_feed::floor() const {
  uint64_t least = filled;
  for (const auto& [rank, last] : asked) least = std::min(least, last == 0 ? 0 : last - 1);
  return least;
}

loader_actor::behavior_type loader(loader_pointer self, const spawn_record& record,
                                   const std::stop_token& over) {
  guard_mailbox(self);
  introduce(self, fmt::format("loader/{}", record.node), record.epoch);
  note_spawn_record(record);
  publish(self, "closed", [](fbs::LoaderStatusT&) {});
  self->state.over = over;
  return {
      status_handler(self),
      [self](const msg<fbs::OpenLoader>& m) { return open(self, m); },
      [self](const msg<fbs::BatchRequest>& m) { return fetch(self, m); },
  };
}

}  // namespace troupe::train

// Messages into records, and the last one back.
#include "actors/train/journal.hpp"

#include <span>
#include <utility>

#include "actors/base/context.hpp"
#include "messages/any_msg.hpp"
#include "messages/msg.hpp"

namespace troupe::train {

namespace {

using journal_pointer = traced_pointer<journal_actor, journal_state>;

constexpr uint8_t message_kind = 1;

/// What the last record says of the job. What is not understood is of another version.
std::optional<job_memory> memory_of(const io::journal_contents& found) {
  for (auto r = found.records.rbegin(); r != found.records.rend(); ++r) {
    if (r->kind != message_kind) continue;
    const auto* bytes = reinterpret_cast<const uint8_t*>(r->payload.data());
    const auto m = decode({bytes, r->payload.size()}, message_traits<fbs::JobMemory>::id);
    if (m) return memory_in(cast<fbs::JobMemory>(*m).unpack());
  }
  return std::nullopt;
}

result<io::journal> empty_journal(io::file_system& files, const std::filesystem::path& file) {
  auto made = io::journal::create(files, file);
  if (made || !made.error().is(io::journal_exists)) return made;
  TROUPE_TRY(there, io::journal::open(files, file));
  TROUPE_CHECK(there.writer.compact({}));
  return std::move(there.writer);
}

caf::result<msg<fbs::Ack>> remember(journal_pointer self, const msg<fbs::JobMemory>& m) {
  auto& st = self->state;
  const auto bytes = encode(m);
  const io::journal_record record{message_kind, {bytes.begin(), bytes.end()}};
  const auto kept = st.writer->is_long()
                        ? st.writer->compact({&record, 1})
                        : st.writer->append(message_kind, std::as_bytes(std::span(bytes)),
                                            io::durable::yes);
  st.records += kept ? 1 : 0;
  publish(self, kept ? "keeping" : "not keeping", [&](fbs::JournalStatusT& s) {
    s.records = st.records;
    s.bytes = st.writer->bytes();
    s.failure = kept ? "" : kept.error().message;
  });
  if (!kept) return to_caf(kept.error());
  return make_msg<fbs::Ack>(context_of(*self, m.header()), [](auto&) {});
}

}  // namespace

result<kept_journal> recall(io::file_system& files, const std::filesystem::path& output) {
  const auto file = output / io::journal_file;
  auto there = io::journal::open(files, file);
  if (!there && there.error().code == errc::not_found) return begin_journal(files, output);
  if (!there) return there.error();
  auto memory = memory_of(there->found);
  return kept_journal{std::move(there->writer), std::move(memory)};
}

result<kept_journal> begin_journal(io::file_system& files, const std::filesystem::path& output) {
  TROUPE_TRY(writer, empty_journal(files, output / io::journal_file));
  return kept_journal{std::move(writer), {}};
}

journal_actor::behavior_type journal(journal_pointer self, std::shared_ptr<kept_journal> kept) {
  guard_mailbox(self);
  introduce(self, "journal");
  self->state.writer = std::move(kept->writer);
  publish(self, "keeping", [&](fbs::JournalStatusT& s) { s.bytes = self->state.writer->bytes(); });
  return {
      status_handler(self),
      [self](const msg<fbs::JobMemory>& m) { return remember(self, m); },
  };
}

}  // namespace troupe::train

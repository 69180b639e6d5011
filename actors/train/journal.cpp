// Messages into records, and the last one back.
#include "actors/train/journal.hpp"

#include <span>
#include <utility>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "messages/any_msg.hpp"
#include "messages/msg.hpp"

namespace troupe::train {

namespace {

using journal_pointer = traced_pointer<journal_actor, journal_state>;

constexpr uint8_t message_kind = 1;

/// The last record of a message. What is not understood is of another version.
template <class T>
std::optional<typename T::NativeTableType> last_of(const io::journal_contents& found) {
  for (auto r = found.records.rbegin(); r != found.records.rend(); ++r) {
    if (r->kind != message_kind) continue;
    const auto* bytes = reinterpret_cast<const uint8_t*>(r->payload.data());
    const auto any = decode({bytes, r->payload.size()});
    if (const auto m = any ? cast<T>(*any) : msg<T>()) return m.unpack();
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

/// All that the next head may need of what was kept.
std::vector<io::journal_record> snapshot_of(const journal_state& st) {
  std::vector<io::journal_record> out;
  for (const auto& [id, record] : st.newest) out.push_back(record);
  return out;
}

/// The newest of its kind; its bytes.
template <class T>
std::vector<uint8_t> note(journal_state& st, const msg<T>& m) {
  auto bytes = encode(m);
  st.newest[message_traits<T>::id] = {message_kind, {bytes.begin(), bytes.end()}};
  return bytes;
}

/// JRA-3.
caf::result<msg<fbs::Ack>> have_it_held(journal_pointer self, const message_header& cause,
                                        std::vector<uint8_t> bytes) {
  auto rp = self->make_response_promise<msg<fbs::Ack>>();
  ask_either<fbs::Ack>(
      self, self->state.elector,
      std::tuple(make_msg<fbs::ShareRecord>(context_of(*self, cause),
                                            [&](auto& s) { s.content = std::move(bytes); })),
      {"elector", "a majority that holds a record"},
      [self, rp, cause](const result<msg<fbs::Ack>>& held) mutable {
        if (!held) return static_cast<void>(rp.deliver(to_caf(held.error())));
        rp.deliver(make_msg<fbs::Ack>(context_of(*self, cause), [](auto&) {}));
      });
  return rp;
}

template <class T>
caf::result<msg<fbs::Ack>> remember(journal_pointer self, const msg<T>& m) {
  auto& st = self->state;
  const auto bytes = note(st, m);
  const auto kept = st.writer->is_long()
                        ? st.writer->compact(snapshot_of(st))
                        : st.writer->append(message_kind, std::as_bytes(std::span(bytes)),
                                            io::durable::yes);
  st.records += kept ? 1 : 0;
  publish(self, kept ? "keeping" : "not keeping", [&](fbs::JournalStatusT& s) {
    s.records = st.records;
    s.bytes = st.writer->bytes();
    s.failure = kept ? "" : kept.error().message;
  });
  if (!kept) return to_caf(kept.error());
  if (st.elector) return have_it_held(self, m.header(), bytes);
  return make_msg<fbs::Ack>(context_of(*self, m.header()), [](auto&) {});
}

}  // namespace

result<kept_journal> recall(io::file_system& files, const std::filesystem::path& output) {
  const auto file = output / io::journal_file;
  auto there = io::journal::open(files, file);
  if (!there && there.error().code == errc::not_found) return begin_journal(files, output);
  if (!there) return there.error();
  kept_journal out{std::move(there->writer)};
  if (const auto memory = last_of<fbs::JobMemory>(there->found)) out.memory = memory_in(*memory);
  out.cluster = last_of<fbs::ClusterMemory>(there->found);
  return out;
}

result<kept_journal> begin_journal(io::file_system& files, const std::filesystem::path& output) {
  TROUPE_TRY(writer, empty_journal(files, output / io::journal_file));
  return kept_journal{std::move(writer)};
}

result<kept_journal> begin_journal_from(io::file_system& files,
                                        const std::filesystem::path& output,
                                        const heads::held_records& held) {
  TROUPE_TRY(out, begin_journal(files, output));
  io::journal_contents found;
  for (const auto& [kind, record] : held) {
    found.records.push_back({message_kind, record.content});
    TROUPE_CHECK(out.writer.append(message_kind, std::as_bytes(std::span(record.content)),
                                   io::durable::yes));
  }
  if (const auto memory = last_of<fbs::JobMemory>(found)) out.memory = memory_in(*memory);
  out.cluster = last_of<fbs::ClusterMemory>(found);
  return out;
}

journal_actor::behavior_type journal(journal_pointer self, std::shared_ptr<kept_journal> kept) {
  guard_mailbox(self);
  introduce(self, "journal");
  auto& st = self->state;
  st.elector = std::exchange(kept->elector, {});  // who keeps it keeps its thread, too
  st.writer = std::move(kept->writer);
  if (kept->memory) note(st, make_msg<fbs::JobMemory>({}, to_message(*kept->memory)));
  if (kept->cluster) note(st, make_msg<fbs::ClusterMemory>({}, *kept->cluster));
  publish(self, "keeping", [&](fbs::JournalStatusT& s) { s.bytes = self->state.writer->bytes(); });
  return {
      status_handler(self),
      [self](const msg<fbs::JobMemory>& m) { return remember(self, m); },
      [self](const msg<fbs::ClusterMemory>& m) { return remember(self, m); },
  };
}

}  // namespace troupe::train

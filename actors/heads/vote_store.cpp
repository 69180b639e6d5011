// Promises and records as messages in a journal: of each kind the last counts.
#include "actors/heads/vote_store.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "io/disk/storage.hpp"
#include "messages/any_msg.hpp"
#include "messages/text.hpp"

namespace troupe::heads {

namespace {

constexpr uint8_t message_kind = 1;
/// A vote is small, and so is what it is compacted to.
constexpr io::journal::options small{uint64_t{64} << 10};

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// A promise is a HoldRecord without content.
fbs::HoldRecordT as_record(uint32_t epoch, const std::string& head, const held_record& of = {}) {
  fbs::HoldRecordT out;
  out.head = head;
  out.record = std::make_unique<fbs::HeldRecordT>(to_message(of));
  if (of.content.empty()) out.record->epoch = epoch;
  return out;
}

io::journal_record encoded(const fbs::HoldRecordT& what) {
  const auto bytes = encode(make_msg<fbs::HoldRecord>({}, what));
  return {message_kind, {bytes.begin(), bytes.end()}};
}

std::optional<fbs::HoldRecordT> decoded(const io::journal_record& r) {
  if (r.kind != message_kind) return std::nullopt;
  const auto any = decode(bytes_of(r.payload));
  const auto m = any ? cast<fbs::HoldRecord>(*any) : msg<fbs::HoldRecord>();
  if (!m) return std::nullopt;
  auto out = m.unpack();
  if (!out.record) return std::nullopt;
  return out;
}

/// That the job is over is a HoldRecord of HeadEnds.
fbs::HoldRecordT as_record(const job_end& end, const std::string& head) {
  const auto bytes = encode(make_msg<fbs::HeadEnds>({}, [&](auto& e) { e.reason = end.reason; }));
  return as_record(end.epoch, head, {end.epoch, 0, {bytes.begin(), bytes.end()}});
}

std::optional<job_end> end_in(const fbs::HeldRecordT& record) {
  if (record.content.empty()) return std::nullopt;
  const auto any = decode(record.content);
  const auto m = any ? cast<fbs::HeadEnds>(*any) : msg<fbs::HeadEnds>();
  if (!m) return std::nullopt;
  return job_end{record.epoch, text_of(m->reason())};
}

/// As the file says them, one after the other.
void replay(promises_policy& promises, std::optional<job_end>& end,
            const io::journal_contents& found) {
  for (const auto& r : found.records) {
    const auto what = decoded(r);
    if (!what) continue;
    const auto kind = kind_of(*what->record);
    const auto& record = *what->record;
    if (auto over = end_in(record))
      end = std::move(over);
    else if (kind)
      promises.hold(*kind,
                    {record.epoch, record.number, {record.content.begin(), record.content.end()}},
                    what->head);
    else
      promises.promise(record.epoch, what->head);
  }
}

}  // namespace

std::optional<uint16_t> kind_of(const fbs::HeldRecordT& record) {
  if (record.content.empty()) return std::nullopt;
  const auto any = decode(record.content);
  if (!any) return std::nullopt;
  constexpr std::array held{message_traits<fbs::JobMemory>::id,
                            message_traits<fbs::ClusterMemory>::id};
  const auto kind = any->type();
  return std::find(held.begin(), held.end(), kind) == held.end() ? std::nullopt
                                                                 : std::optional(kind);
}

fbs::HeldRecordT to_message(const held_record& record) {
  fbs::HeldRecordT out;
  out.epoch = record.epoch;
  out.number = record.number;
  out.content.assign(record.content.begin(), record.content.end());
  return out;
}

held_records records_in(const fbs::PromisedT& answer) {
  held_records out;
  for (const auto& r : answer.held)
    if (const auto kind = kind_of(*r))
      out[*kind] = {r->epoch, r->number, {r->content.begin(), r->content.end()}};
  return out;
}

result<vote_store> vote_store::open(io::file_system& files, const std::filesystem::path& output,
                                    const std::string& name) {
  const auto folder = output / votes_folder;
  TROUPE_CHECK(io::make_folders(files, std::filesystem::absolute(folder).lexically_normal()));
  auto there = io::journal::open(files, folder / name, small);
  if (!there && there.error().code == errc::not_found) {
    TROUPE_TRY(made, io::journal::create(files, folder / name, small));
    return vote_store(std::move(made));
  }
  if (!there) return there.error();
  vote_store out(std::move(there->writer));
  replay(out.promises_, out.end_, there->found);
  return out;
}

status vote_store::keep(const fbs::HoldRecordT& what) {
  const auto record = encoded(what);
  if (!journal_.is_long() && journal_.health())
    return journal_.append(record.kind, std::as_bytes(std::span(record.payload)),
                           io::durable::yes);
  std::vector<io::journal_record> all;
  for (const auto& [kind, held] : promises_.held())
    all.push_back(encoded(as_record(held.epoch, promises_.head(), held)));
  all.push_back(encoded(as_record(promises_.epoch(), promises_.head())));
  if (end_) all.push_back(encoded(as_record(*end_, promises_.head())));
  all.push_back(record);
  return journal_.compact(all);
}

status vote_store::end_job(uint32_t epoch, const std::string& reason) {
  const job_end end{epoch, reason};
  TROUPE_CHECK(keep(as_record(end, promises_.head())));
  end_ = end;
  return {};
}

fbs::PromisedT vote_store::refusal() const {
  fbs::PromisedT out;
  out.epoch = promises_.epoch();
  out.head = promises_.head();
  return out;
}

result<fbs::PromisedT> vote_store::promise(uint32_t epoch, const std::string& head) {
  if (!promises_.may_promise(epoch, head)) return refusal();
  if (epoch != promises_.epoch() || head != promises_.head()) {
    TROUPE_CHECK(keep(as_record(epoch, head)));
    promises_.promise(epoch, head);
  }
  auto out = refusal();
  out.granted = true;
  for (const auto& [kind, record] : promises_.held())
    out.held.push_back(std::make_unique<fbs::HeldRecordT>(to_message(record)));
  return out;
}

result<fbs::PromisedT> vote_store::hold(const fbs::HoldRecordT& what) {
  const auto kind = what.record ? kind_of(*what.record) : std::nullopt;
  if (!kind) return error{errc::bad_data, "a voter holds no such record"};
  const held_record record{what.record->epoch,
                           what.record->number,
                           {what.record->content.begin(), what.record->content.end()}};
  if (!promises_.may_hold(record, what.head)) return refusal();
  TROUPE_CHECK(keep(what));
  promises_.hold(*kind, record, what.head);
  auto out = refusal();
  out.granted = true;
  return out;
}

namespace {

/// What all voters say whose files lie there.
struct all_votes {
  uint32_t latest = 0;         ///< the greatest epoch that is promised
  std::optional<job_end> end;  ///< the newest
};

all_votes votes_in(io::file_system& files, const std::filesystem::path& output) {
  all_votes out;
  const auto folder = output / votes_folder;
  const auto names = files.list(folder);
  if (!names) return out;
  for (const auto& entry : *names) {
    const auto found = io::read_journal(files, folder / entry.name);
    if (!found) continue;
    promises_policy promises;
    std::optional<job_end> end;
    replay(promises, end, *found);
    out.latest = std::max(out.latest, promises.epoch());
    if (end && (!out.end || end->epoch > out.end->epoch)) out.end = std::move(end);
  }
  return out;
}

}  // namespace

uint32_t latest_promise(io::file_system& files, const std::filesystem::path& output) {
  return votes_in(files, output).latest;
}

std::optional<job_end> end_of_job(io::file_system& files, const std::filesystem::path& output) {
  auto votes = votes_in(files, output);
  return votes.end && votes.end->epoch >= votes.latest ? std::move(votes.end) : std::nullopt;
}

}  // namespace troupe::heads

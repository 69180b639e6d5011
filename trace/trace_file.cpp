// Entries to bytes and back, and the checks of what stands in them.
#include "trace/trace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "io/folder/owned.hpp"
#include "messages/text.hpp"
#include "trace/batch.hpp"

namespace troupe::trace {

namespace {

constexpr uint32_t min_entry_bytes = sizeof(message_header) + trailer_bytes;

}  // namespace

// -- writing --------------------------------------------------------------------------------------

result<trace_writer> trace_writer::create(const std::filesystem::path& path) {
  io::unique_fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return error::system(fmt::format("create {}", path.string()), errno);
  trace_writer out(std::move(fd), path);
  TROUPE_CHECK(io::write_all(out.fd_.get(), io::as_bytes(file_magic), path.string()));
  out.size_ = file_magic.size();
  return out;
}

status trace_writer::append(const msg<fbs::TraceBatch>& batch) {
  const auto wire = encode(batch);
  const auto length = static_cast<uint32_t>(wire.size());
  std::vector<uint8_t> entry(sizeof(length) + wire.size());
  std::memcpy(entry.data(), &length, sizeof(length));  // H-1: this machine is little-endian
  std::memcpy(entry.data() + sizeof(length), wire.data(), wire.size());
  TROUPE_CHECK(io::write_all(fd_.get(), std::as_bytes(std::span(entry)), path_.string()));
  size_ += entry.size();
  ++batches_;
  return {};
}

status trace_writer::finish() {
  while (::fsync(fd_.get()) != 0) {
    if (errno == EINTR) continue;
    if (errno == EINVAL || errno == ENOTSUP) return {};  // a pipe or a device: nothing to sync
    return error::system(fmt::format("sync {}", path_.string()), errno);
  }
  const auto folder = path_.parent_path();
  return io::fsync_directory(folder.empty() ? "." : folder);
}

void trace_writer::discard() noexcept {
  static_cast<void>(io::remove_own_file(path_, fd_.get()));
}

// -- reading --------------------------------------------------------------------------------------

result<trace_reader> trace_reader::open(const std::filesystem::path& path) {
  trace_reader out(path.string());
  TROUPE_TRY(fd, io::open_read(path));
  out.fd_ = std::move(fd);
  TROUPE_CHECK(out.begin());
  return out;
}

/// As many bytes as there are, at most `wanted`.
result<size_t> trace_reader::read(uint8_t* to, size_t wanted) {
  size_t done = 0;
  while (done < wanted) {
    const auto n = ::read(fd_.get(), to + done, wanted - done);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error::system(fmt::format("read {}", name_), errno);
    done += static_cast<size_t>(n);
  }
  return done;
}

status trace_reader::begin() {
  uint8_t found[file_magic.size()];
  TROUPE_TRY(n, read(found, sizeof(found)));
  if (n == sizeof(found) && std::memcmp(found, file_magic.data(), n) == 0) {
    good_bytes_ = n;
    return {};
  }
  constexpr std::string_view stem = "troupe trace ";
  if (n >= stem.size() && std::memcmp(found, stem.data(), stem.size()) == 0)
    return trace_of_another_version(name_);
  return no_trace(name_);
}

error trace_reader::fault(std::string what) {
  broken_ = error{errc::bad_data,
                  fmt::format("{}: entry {} at byte {} {}", name_, batches_ + 1, good_bytes_, what),
                  fmt::format("the {} entries before it are whole", batches_)};
  return *broken_;
}

result<std::optional<msg<fbs::TraceBatch>>> trace_reader::next() {
  if (broken_) return *broken_;
  uint8_t head[sizeof(uint32_t)];
  TROUPE_TRY(had, read(head, sizeof(head)));
  if (had == 0) return std::optional<msg<fbs::TraceBatch>>();
  if (had < sizeof(head)) return fault("is cut within its length");
  uint32_t length = 0;
  std::memcpy(&length, head, sizeof(length));
  if (length < min_entry_bytes || length > max_entry_bytes)  // TF-1
    return fault(fmt::format("says it has {} bytes, which no message has", length));
  buffer_.resize(length);
  TROUPE_TRY(got, read(buffer_.data(), length));
  if (got < length) return fault(fmt::format("is cut: {} of {} bytes", got, length));
  auto m = decode(buffer_, message_traits<fbs::TraceBatch>::id);
  if (!m) return fault(fmt::format("is damaged: {}", m.error().message));
  good_bytes_ += sizeof(head) + length;
  ++batches_;
  return std::optional(msg<fbs::TraceBatch>(std::move(*m)));
}

// -- checks ---------------------------------------------------------------------------------------

namespace {

bool in_bounds(int64_t ns) {
  return ns > -time_bound_ns && ns < time_bound_ns;
}

std::vector<std::string> works_of(const fbs::TraceBatch& batch) {
  std::vector<std::string> out;
  if (const auto* works = batch.works())
    for (const auto* w : *works) out.push_back(text_of(w));
  return out;
}

void copy_facts(const fbs::TraceBatch& batch, checked_batch& out) {
  out.process = batch.process();
  out.node = text_of(batch.node());
  out.host = text_of(batch.host());
  out.pid = batch.pid();
  out.offset_ns = batch.offset_ns();
  out.bound_ns = batch.bound_ns();
  out.unix_ns = batch.unix_ns();
  out.sequence = batch.sequence();
  out.lost = batch.lost();
  out.dropped = batch.dropped();
  if (const auto* actors = batch.actors())
    for (const auto* a : *actors)
      out.actors.push_back({uint64_t{out.process} << 32 | a->number(), text_of(a->path()),
                            text_of(a->kind()), a->parent()});
}

void copy_messages(const fbs::TraceBatch& batch, checked_batch& out) {
  const auto* messages = batch.messages();
  if (messages == nullptr) return;
  for (const auto* m : *messages) {
    const auto* bytes = m->message();
    auto decoded = bytes != nullptr && in_bounds(m->begin_ns())
                       ? decode({bytes->data(), bytes->size()})
                       : result<any_msg>(error{errc::bad_data, "no message"});
    if (decoded)
      out.messages.push_back({m->actor(), m->begin_ns(), m->flags(), std::move(*decoded)});
    else
      ++out.bad_messages;
  }
}

}  // namespace

result<checked_batch> batch_checker::check(const fbs::TraceBatch& batch) {
  checked_batch out;
  if (!in_bounds(batch.offset_ns()) || !in_bounds(batch.unix_ns()) || batch.bound_ns() < -1 ||
      !in_bounds(batch.bound_ns()))
    return error{errc::bad_data, "a batch whose clock is out of bounds"};
  if (!works_.contains(batch.process()) && works_.size() >= process_limit)
    return too_many_processes(process_limit);
  TROUPE_TRY(records, records_of(batch));
  auto works = works_of(batch);
  const auto& known = works_[batch.process()];
  const auto names = std::max(works.size(), known.size());
  for (const auto& r : records) {
    if (!in_bounds(r.begin_ns) || !in_bounds(r.sent_ns) || r.handling_s < 0 || r.mailbox_s < 0)
      return error{errc::bad_data, "a record whose time is out of bounds"};
    if (r.kind != record_kind::handled && r.type > names)
      return error{errc::bad_data,
                   fmt::format("a record of work number {}, of {} that have names", r.type, names)};
  }
  if (works.size() > known.size()) works_[batch.process()] = std::move(works);
  out.records = std::move(records);
  copy_facts(batch, out);
  copy_messages(batch, out);
  return out;
}

result<trace_contents> read_traces(const std::vector<std::filesystem::path>& paths,
                                   uint64_t record_limit) {
  trace_contents out;
  batch_checker checker;
  for (const auto& path : paths) {
    TROUPE_TRY(reader, trace_reader::open(path));
    while (true) {
      auto batch = reader.next();
      if (!batch && batch.error().code != errc::bad_data) return batch.error();
      if (!batch) out.damage.push_back(batch.error());
      if (!batch || !*batch) break;
      auto checked = checker.check(***batch);
      if (!checked) {
        out.damage.push_back(
            checked.error().within(fmt::format("{}: entry {}", path.string(), reader.batches())));
        break;
      }
      out.records += checked->records.size();
      if (out.records > record_limit)
        return error{errc::no_memory,
                     fmt::format("{}: more than {} records", path.string(), record_limit),
                     "record a shorter time, or fewer actors"};
      out.batches.push_back(std::move(*checked));
    }
  }
  out.works = checker.works();
  return out;
}

}  // namespace troupe::trace

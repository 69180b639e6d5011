// Streams and links.
#include "actors/train/rank_copies.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace troupe::train {

namespace cp = io::checkpoint;

namespace {

std::string name_of(int owner) {
  return fmt::format("keep/{}", owner);
}

}  // namespace

result<std::unique_ptr<rank_copies>> rank_copies::make(gpu::device& device,
                                                       const engine_options& options) {
  std::unique_ptr<rank_copies> out(new rank_copies(options));
  TROUPE_TRY(stream, device.make_stream({"copies", 1}));
  out->stream_ = std::move(stream);
  return out;
}

result<std::vector<group_offer>> rank_copies::open(const std::string& host) {
  auto owners = options_.keeps;
  owners.push_back(options_.at.rank);
  std::sort(owners.begin(), owners.end());  // RCP-3
  std::vector<group_offer> out;
  for (const int owner : owners) {
    TROUPE_TRY(listener, gpu::pair_listener::open(host));
    const int own = owner == options_.at.rank ? 0 : 1;
    group_offer offer{name_of(owner), own, 2, {"", ""}};
    offer.addresses[static_cast<size_t>(1 - own)] = listener.address();
    out.push_back(std::move(offer));
    pending_.push_back({owner, std::move(listener)});
  }
  return out;
}

status rank_copies::connect(const engine::group_tables& tables, const std::stop_token& ending) {
  for (auto& [owner, listener] : pending_) {
    const auto name = name_of(owner);
    const auto table =
        std::find_if(tables.begin(), tables.end(), [&](const auto& t) { return t.first == name; });
    if (table == tables.end() || table->second.size() != 2)
      return error{errc::bad_data, fmt::format("no addresses for group {}", name)};
    const int own = owner == options_.at.rank ? 0 : 1;
    TROUPE_TRY(sockets, listener.connect(
                            name, own, table->second,
                            std::min(options_.group_timeout, defaults::group_timeout) / 3, ending));
    took(owner, std::make_unique<gpu::copy_link>(std::move(sockets[static_cast<size_t>(1 - own)]),
                                                 defaults::copy_timeout));
  }
  pending_.clear();
  return {};
}

/// A link is there.
void rank_copies::took(int owner, std::unique_ptr<gpu::copy_link> link) {
  std::lock_guard lock(mutex_);
  if (aborted_) link->abort();
  if (owner == options_.at.rank)
    to_keeper_ = std::move(link);
  else
    keepers_.push_back(std::make_unique<gpu::copy_keeper>(
        options_.copies, std::move(link), owner,
        cp::copy_shape{options_.at.grid, options_.checkpoint_slot_bytes, 0},
        [this, owner](const status& answered) { kept(owner, answered); }));
}

/// A frame of an owner is answered, or its link has ended.
void rank_copies::kept(int owner, const status& answered) {
  if (answered) {
    if (options_.on_save_progress) options_.on_save_progress();
    return;
  }
  std::lock_guard lock(mutex_);
  if (!aborted_)
    spdlog::warn("copies in memory of rank {} are not kept any more in this epoch: {}", owner,
                 answered.error().message);
}

void rank_copies::failed(const error& why) {
  std::lock_guard lock(mutex_);
  if (failed_++ == 0 && !aborted_)
    spdlog::warn("a copy in memory of rank {} has failed: {}{}", options_.at.rank, why.message,
                 unkept_ ? "; until the next epoch its loss is made good from the disk" : "");
}

std::shared_ptr<cp::memory_copy> rank_copies::begin(uint64_t step, const cp::copy_shape& shape) {
  if (unkept_) return {};  // RCP-2
  auto into = options_.copies->begin(options_.at.rank, {options_.epoch, step}, shape);
  if (into) return *into;
  failed(into.error());
  return {};
}

void rank_copies::ship(gpu::event_ptr captured, std::shared_ptr<cp::memory_copy> copy) {
  stream_->wait(std::move(captured));
  stream_->host_task([this, copy = std::move(copy)]() -> status {
    if (!copy->filled) {
      failed({errc::timeout, "the state was not copied off the device"});
      return {};  // RCP-2
    }
    copy->sum();
    options_.copies->seal(copy);
    if (const auto held = to_keeper_->put(*copy); !held) {
      to_keeper_->abort();
      unkept_ = true;
      failed(held.error());
      return {};
    }
    std::lock_guard lock(mutex_);
    copied_step_ = copy->tag().step;
    return {};
  });
  shipped_ = stream_->record();
  if (options_.on_save_progress)
    stream_->notify([told = options_.on_save_progress](const status&) { told(); });
}

result<std::shared_ptr<const cp::memory_copy>> rank_copies::take(cp::copy_tag tag, bool from_keeper,
                                                                 const cp::copy_shape& shape) {
  options_.copies->keep_only(tag);
  if (from_keeper) {
    TROUPE_TRY(into, options_.copies->begin(options_.at.rank, tag, shape));
    TROUPE_CHECK(to_keeper_->get(*into));
    options_.copies->seal(into);
  }
  auto held = options_.copies->find(options_.at.rank, tag);
  if (!held) return cp::copy_missing(options_.at.rank, tag.step);
  return held;
}

copy_facts rank_copies::facts() const {
  std::lock_guard lock(mutex_);
  return {copied_step_, options_.copies->bytes(), options_.keeper, failed_};
}

void rank_copies::abort() noexcept {
  std::lock_guard lock(mutex_);
  aborted_ = true;
  if (to_keeper_) to_keeper_->abort();
  for (auto& k : keepers_) k->abort();
}

}  // namespace troupe::train

// Operations of activations become events, memory and a file.
#include "gpu/swap/spiller.hpp"

#include <utility>

#include "io/base/memory_account.hpp"

namespace troupe::gpu {

namespace {

std::vector<int> frames_of(const spill_layout& layout) {
  std::vector<int> out;
  for (int r = 0; r < layout.records(); ++r) out.push_back(layout.frame_of(r));
  return out;
}

std::vector<spill_files::place> records_of(const stage_shape& shape, const spill_layout& layout) {
  std::vector<spill_files::place> out(static_cast<size_t>(layout.records()));
  for (const int layer : shape.spilling())
    for (int slot = 0; slot < static_cast<int>(shape.slots); ++slot)
      out[static_cast<size_t>(layout.record_of(slot, layer))] = {slot, layer};
  return out;
}

}  // namespace

spiller::spiller(const stage_model& model, std::shared_ptr<io::swap_io> io, spill_options options)
    : layout_(model.shape()),
      io_(std::move(io)),
      options_(std::move(options)),
      work_("the file of activations", options_.failed),
      order_(frames_of(layout_)) {
  for (auto& of_kind : events_) of_kind.resize(static_cast<size_t>(order_.frames()));
}

spiller::~spiller() = default;

result<std::unique_ptr<spiller>> spiller::make(device& owner, const stage_model& model,
                                               std::shared_ptr<io::swap_io> io,
                                               spill_options options) {
  std::unique_ptr<spiller> out(new spiller(model, std::move(io), std::move(options)));
  TROUPE_CHECK(out->make_frames(owner, model));
  const auto& how = out->options_;
  out->files_ = std::make_unique<spill_files>(
      out->io_, records_of(model.shape(), out->layout_), out->frames_.front().host.size(),
      spill_files::options{how.files, how.verify, how.wait});
  TROUPE_CHECK(out->files_->make());
  TROUPE_TRY(to, owner.make_stream({"spill-out", 1}));
  out->out_ = std::move(to);
  TROUPE_TRY(from, owner.make_stream({"spill-in", 1}));
  out->in_ = std::move(from);
  return out;
}

status spiller::make_frames(device& owner, const stage_model& model) {
  const io::memory_holder holder("activations on their way");
  for (const auto memory : model.spill_frames()) {
    frame f;
    if (owner.host_accessible()) {
      f.host = memory;
      f.owner = model.spill_memory();
    } else {
      TROUPE_TRY(twin, make_disk_memory(owner, memory.size()));
      f.host = twin.bytes;
      f.owner = std::move(twin.owner);
      f.pinned = std::move(twin.pinned);
      f.on_device = memory.data();
    }
    frames_.push_back(std::move(f));
  }
  return {};
}

// -- what streams do ------------------------------------------------------------------------------

void spiller::take_frame(stream& s, int slot, int layer) {
  carry_out(order_.take_frame(layout_.record_of(slot, layer)), s);
}

void spiller::spill(stream& s, int slot, int layer) {
  carry_out(order_.spill(layout_.record_of(slot, layer)), s);
}

void spiller::fetch(stream& s, int slot, int layer) {
  carry_out(order_.fetch(layout_.record_of(slot, layer)), s);
}

void spiller::release(stream& s, int slot, int layer) {
  carry_out(order_.release(layout_.record_of(slot, layer)), s);
}

void spiller::carry_out(const spill_policy::ops& ops, stream& compute) {
  for (const auto& op : ops) {
    auto& s = op.on == spill_lane::out ? *out_ : op.on == spill_lane::in ? *in_ : compute;
    for (const auto& point : op.behind) {
      if (!point) continue;
      const auto& awaited = event(*point);
      const bool on_its_way = op.on == spill_lane::compute && awaited && !awaited->done();
      if (on_its_way && options_.around_wait)
        options_.around_wait(s, layer_of(op.record), [&] { s.wait(awaited); });
      else
        s.wait(awaited);
    }
    if (op.what != spill_act::none) move(op, s);
    if (op.marks) event(*op.marks) = s.record();
  }
}

void spiller::move(const spill_op& op, stream& s) {
  const auto& f = frames_[static_cast<size_t>(order_.frame_of(op.record))];
  const auto enqueue = [&] {
    const bool writes = op.what == spill_act::write;
    if (writes && f.on_device != nullptr) s.copy(f.host.data(), f.on_device, f.host.size());
    work_.enqueue(s, [this, &f, writes, record = op.record] {
      return writes ? files_->write(record, f.host, f.owner)
                    : files_->read(record, f.host, f.owner);
    });
    if (!writes && f.on_device != nullptr) s.copy(f.on_device, f.host.data(), f.host.size());
  };
  if (options_.around)
    options_.around(s, op.what, layer_of(op.record), f.host.size(), enqueue);
  else
    enqueue();
  work_.watch(s);  // before any event behind it
}

}  // namespace troupe::gpu

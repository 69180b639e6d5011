// What an engine does with its state: it loads, saves, and keeps copies in memory.
#include <memory>
#include <utility>

#include "actors/job/catalog.hpp"
#include "actors/train/rank_engine.hpp"
#include "gpu/model/hf_folder.hpp"
#include "gpu/model/saved_state.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/reader.hpp"

namespace troupe::train {

void rank_engine::load(std::string folder, bool optimizer, completion done) {
  if (checkpoint::is_checkpoint(folder))
    return restore(folder, optimizer ? gpu::restored::everything : gpu::restored::weights,
                   std::move(done));
  load_by([this, folder = std::move(folder)] {
    return gpu::load_weights(model_->store(), options_.model, folder, ending_.get_token());
  });
  files_->notify(guarded(std::move(done)));
}

/// Behind what other ranks have sent: weights are quiet meanwhile. All replicas load.
void rank_engine::load_by(std::function<status()> work) {
  if (swap_) swap_->all_set_anew();
  files_->wait(data_->record());
  files_->wait(compute_->record());
  probed({pipeline_op::load, 0}, [&] { files_->host_task(std::move(work)); });
  watch(*files_);
}

/// The replicas of a stage read their slices each, and gather the weights from each other.
void rank_engine::restore(const std::string& folder, gpu::restored what, completion done) {
  auto read = [this, folder, what]() -> status {
    TROUPE_TRY(held, io::checkpoint::reading::begin(folder));  // of a job that goes on, too
    TROUPE_TRY(from, io::checkpoint::reader::open(folder));
    return judge_restored(folder,
                          gpu::restore_state(model_->store(), from, what, 0, ending_.get_token(),
                                             taker(folder, from, what)));
  };
  takes_files_ = false;
  load_by(std::move(read));
  gather_restored(std::move(done));
}

/// What others' slices hold comes from them.
void rank_engine::gather_restored(completion done) {
  compute_->wait(files_->record());
  for (int c = 0; c < model_->store().chunk_count(); ++c) gather_weights(c);
  data_->wait(compute_->record());
  data_->notify(guarded(std::move(done)));
}

void rank_engine::save(uint64_t step, const std::filesystem::path& partial, bool last,
                       gpu::state_saver::completion done) {
  if (auto broken = failure(); !broken) return done(broken.error());  // ENG-5
  saves_made_ = true;
  if (links_into(partial)) return save_by_links(step, partial, last, std::move(done));
  saver_->save(step, partial, compute_->record(), noting({}, std::move(done)));
}

void rank_engine::copy(uint64_t step, const std::filesystem::path& partial,
                       gpu::state_saver::completion done) {
  auto into = copies_ && failure() ? copies_->begin(step, saver_->shape()) : nullptr;
  if (!into) {
    if (!partial.empty()) save(step, partial, false, std::move(done));
    return;
  }
  copies_->ship(saver_->copy(step, into, partial, compute_->record(), std::move(done)), into);
}

void rank_engine::take_back(io::checkpoint::copy_tag tag, bool from_keeper, completion done) {
  auto read = [this, tag, from_keeper]() -> status {
    if (!copies_) return error{errc::unavailable, "this rank has no copies in memory"};
    TROUPE_TRY(held, copies_->take(tag, from_keeper, saver_->shape()));
    return saver_->put_back(*held, ending_.get_token());
  };
  load_by(std::move(read));
  gather_restored(std::move(done));
}

std::optional<copy_facts> rank_engine::copy_facts() const {
  return copies_ ? std::optional(copies_->facts()) : std::nullopt;
}

std::optional<gpu::saver_facts> rank_engine::saver_facts() const {
  return saver_ ? std::optional(saver_->facts()) : std::nullopt;
}

}  // namespace troupe::train

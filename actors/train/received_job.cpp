// The last text and what it says.
#include "actors/train/received_job.hpp"

#include <mutex>
#include <string>

#include <fmt/format.h>

#include "io/config/load.hpp"
#include "messages/text.hpp"

namespace troupe::train {

result<std::shared_ptr<const config::job>> received_job(const flatbuffers::String* toml) {
  static std::mutex mutex;
  static std::string last_text;
  static std::shared_ptr<const config::job> last;
  auto text = text_of(toml);
  std::lock_guard lock(mutex);
  if (last && text == last_text) return last;
  TROUPE_TRY(job, config::parse(text, std::string(sent_configuration)));
  last = std::make_shared<const config::job>(std::move(job));
  last_text = std::move(text);
  return last;
}

result<grid_rank> place_in(const config::job& job, const fbs::BuildStage& b) {
  const grid_rank out{job.grid(), static_cast<int>(b.rank())};
  const rank_grid grid(static_cast<int>(b.data_ranks()), 1, static_cast<int>(b.pipeline_ranks()));
  const grid_place place{static_cast<int>(b.data_rank()), 0, static_cast<int>(b.pipeline_rank())};
  if (grid != out.grid || !grid.holds(b.rank()) || place != out.place() ||
      b.first_layer() > b.last_layer())
    return error{errc::bad_data, fmt::format("rank {} has no place in a job of {} x {}", b.rank(),
                                             out.grid.data, out.grid.pipeline)};
  return out;
}

}  // namespace troupe::train

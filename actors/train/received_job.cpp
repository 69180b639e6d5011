// The last text and what it says.
#include "actors/train/received_job.hpp"

#include <mutex>
#include <string>

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
  TROUPE_TRY(job, config::parse(text, "the coordinator's configuration"));
  last = std::make_shared<const config::job>(std::move(job));
  last_text = std::move(text);
  return last;
}

}  // namespace troupe::train

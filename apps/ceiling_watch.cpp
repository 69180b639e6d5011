// A thread a sample: see ceiling_watch.hpp.
#include "apps/ceiling_watch.hpp"

#include <system_error>
#include <utility>

namespace troupe::apps {

ceiling_watch::ceiling_watch(double flops, sampler take) : flops_(flops), take_(std::move(take)) {}

ceiling_watch::ceiling_watch(const std::shared_ptr<ceiling>& of)
    : ceiling_watch(of->flops(), [of] {
        of->sample();
        return of->flops();
      }) {}

void ceiling_watch::ask() {
  if (busy_.exchange(true)) return;  // CEIL-4
  try {
    thread_ = std::jthread([this] {
      flops_ = take_();
      busy_ = false;
    });
  } catch (const std::system_error&) {
    busy_ = false;
  }
}

}  // namespace troupe::apps

// Whether a GPU is one job's alone, as far as clocks of its single operations go: while another
// process computes there, too, they would slow that.
//
// Pure.
//
// Invariants
//   SHR-1  A device is shared from the first look on that finds others there, and one job's again
//     once no look has found any for `alone_for_ns`: who comes and goes changes it no faster.
//   SHR-2  Each of both is news once: who comes and goes again and again fills nobody's log.
#pragma once

#include <cstdint>
#include <optional>

namespace troupe::gpu::controls {

class sharing_policy {
 public:
  enum class news : uint8_t { none, shared, alone };

  explicit sharing_policy(int64_t alone_for_ns) : alone_for_ns_(alone_for_ns) {}

  /// Another look, which finds so many processes of others. Whether it has changed. SHR-1
  bool look(unsigned others, int64_t now_ns);
  bool is_shared() const noexcept { return found_ns_.has_value(); }
  /// Of how many it is while it is shared: as many as were found last; else 0.
  unsigned others() const noexcept { return is_shared() ? others_ : 0; }
  /// Since it was asked last. SHR-2
  news take_news();

 private:
  const int64_t alone_for_ns_;
  std::optional<int64_t> found_ns_;  ///< when others were found last; none: it is one job's
  unsigned others_ = 0;
  news news_ = news::none;
  bool told_shared_ = false, told_alone_ = false;
};

}  // namespace troupe::gpu::controls

// Field by field.
#include "actors/train/recheck_message.hpp"

#include <utility>

namespace troupe::train {

std::unique_ptr<fbs::RecheckT> to_message(std::optional<health::recheck_result> told) {
  if (!told) return nullptr;
  auto out = std::make_unique<fbs::RecheckT>();
  out->layer = static_cast<uint32_t>(told->layer);
  out->likeness = told->likeness;
  out->digests = std::move(told->digests);
  out->again = std::move(told->again);
  out->known_wrong = told->known_wrong;
  return out;
}

std::optional<health::recheck_result> recheck_of(const fbs::Recheck* told) {
  if (told == nullptr) return std::nullopt;
  const auto values = [](const flatbuffers::Vector<uint64_t>* from) {
    return from == nullptr ? std::vector<uint64_t>() : std::vector(from->begin(), from->end());
  };
  return health::recheck_result{static_cast<int>(told->layer()), told->likeness(),
                                values(told->digests()), values(told->again()),
                                told->known_wrong()};
}

}  // namespace troupe::train

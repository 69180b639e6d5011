// Messages of swapping to plain structures.
#include "actors/train/swap_messages.hpp"

#include "messages/text.hpp"

namespace troupe::train {

opened_swap opened_swap_of(const fbs::SwapOpened& opened) {
  opened_swap out;
  if (const auto* places = opened.places())
    for (const auto* p : *places)
      out.places.push_back({text_of(p->directory()), p->links(), p->free_bytes()});
  out.consumes = opened.consumes();
  return out;
}

}  // namespace troupe::train

// Any bytes as a journal of a row's policy: refused with a line, or decided again to its end.
#include "actors/power/row_journal.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto replayed = power::row_journal::replay({reinterpret_cast<const char*>(data), size});
  if (!replayed) {
    must(replayed.error().is(power::bad_row_journal), "RJN-2");
    return 0;
  }
  must(replayed->decisions <= size, "RJN-2: a decision has a line");
  if (const auto& d = replayed->first_difference)
    must(d->expected != d->found, "RJN-1: what differs is written differently");
  return 0;
}

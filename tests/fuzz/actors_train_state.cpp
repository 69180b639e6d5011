// Any bytes as a checkpoint's train_state.json. What is accepted is written as what reads the same.
#include <cstdint>
#include <string_view>

#include "actors/job/train_state.hpp"
#include "tests/fuzz/must.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  const auto state =
      checkpoint::parse_state(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!state) return 0;
  const auto text = checkpoint::format_state(*state);
  const auto again = checkpoint::parse_state(text);
  must(again && checkpoint::format_state(*again) == text, "a written state is read as it was");
  return 0;
}

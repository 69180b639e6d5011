// Which folder a chunk's files are in, and what each folder holds.
#include "gpu/swap/chunk_places.hpp"

#include <doctest/doctest.h>

#include "gpu/model/stage_model.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "tests/gpu/model_samples.hpp"

namespace troupe::gpu {

TEST_CASE("CFO-1 CFO-2: folders take chunks in turn, and hold together what is on disk") {
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const bool two : {false, true}) {
      const auto model = testing::tiny_gpt2();
      auto shape = whole_model(model, 1, 7, type);
      shape.where = least_residency(model, shape, {0, false, 1});
      shape.where.speculates = two;
      const auto chunks = stage_chunks(model, shape);
      for (const size_t places : {size_t{1}, size_t{2}, size_t{3}, size_t{100}}) {
        const auto held = bytes_of_places(model, shape, places);
        REQUIRE(held.size() == places);
        uint64_t files = 0;
        for (size_t i = 0; i < places; ++i) {
          files += held[i].files;
          CHECK((held[i].files > 0) == (i < chunks.size()));
          CHECK(held[i].state * (two ? 2 : 1) <= held[i].files);
          if (type == dtype::f32) CHECK(held[i].state * (two ? 2 : 1) == held[i].files);
        }
        CHECK(files == plan_stage(model, shape).on_disk);
      }
      CHECK(place_of_chunk(0, 3) != place_of_chunk(1, 3));
      CHECK(place_of_chunk(4, 3) == place_of_chunk(1, 3));
    }
}

}  // namespace troupe::gpu

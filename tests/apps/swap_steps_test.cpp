// What is made of a step's operations before a drive is judged by them.
#include "apps/up/swap_steps.hpp"

#include <array>

#include <doctest/doctest.h>

#include "gpu/swap/kept_rates_policy.hpp"

using namespace troupe;
using train::pipeline_op;
using train::step_part;

TEST_CASE("SST-1: the drive was busy for as long as the longest of what read at once") {
  config::job job;
  job.train.batch = 2;
  job.train.seq_len = 8;
  job.parallel.pipeline = 1;
  const std::array parts{step_part{pipeline_op::forward, 10, 0, 32},
                         step_part{pipeline_op::read_weights, 900, 0, 1'000'000'000},
                         step_part{pipeline_op::read_state, 1000, 0, 2'000'000'000},
                         step_part{pipeline_op::read_activation, 200, 0, 1'000'000'000},
                         step_part{pipeline_op::write_chunk, 700, 0, 1'000'000'000},
                         step_part{pipeline_op::write_activation, 300, 0, 500'000'000},
                         step_part{pipeline_op::await_weights, 0, 40, 0},
                         step_part{pipeline_op::await_activations, 0, 2, 0}};
  const auto moved = apps::swap_of(parts, job);
  REQUIRE(moved);
  CHECK(moved->read_bytes == 4'000'000'000);
  CHECK(moved->written_bytes == 1'500'000'000);
  CHECK(moved->read_ms == 1000);
  CHECK(moved->write_ms == 700);
  CHECK(moved->wait_ms == 42);
  CHECK(moved->passes == 2);
  CHECK_FALSE(apps::swap_of(std::array{parts[0]}, job));

  // 4 GB/s for 1 s while it was asked is all that was measured, however long the step took.
  gpu::kept_rates_policy policy({1e15, 0, 4e9, 4e9, 1, 1e15});
  for (size_t i = 0; i < gpu::kept_rates_policy::steps_in_a_row; ++i)
    CHECK_FALSE(policy.stepped({1e9, 0, 4e9, 1.5e9, 1e6},
                               {4e9, 1.5e9, moved->read_ms / 1e3, moved->write_ms / 1e3, 1.8}));
  CHECK(policy.keeps_all());
}

TEST_CASE("status: of the last step rates while drives moved, and the share of its limit") {
  report::step_report r;
  r.step = 7;
  r.step_ms = 2000;
  CHECK(apps::status_of(r, 0, 0).read_bytes_per_s == 0);
  r.swap.emplace();
  auto& moved = *r.swap;
  moved.read_bytes = 3'000'000'000;
  moved.read_ms = 1000;
  moved.written_bytes = 1'000'000'000;
  moved.write_ms = 500;
  moved.wait_ms = 300;
  auto s = apps::status_of(r, 5'000'000'000, 600);
  CHECK(s.step == 7);
  CHECK(s.step_ms == 2000);
  CHECK(s.read_bytes == 3'000'000'000);
  CHECK(s.written_bytes == 1'000'000'000);
  CHECK(s.read_bytes_per_s == 3e9);
  CHECK(s.written_bytes_per_s == 2e9);
  CHECK(s.swap_wait_ms == 300);
  CHECK(s.job_written_bytes == 5'000'000'000);
  CHECK(s.rated_bytes == 600'000'000'000'000);
  CHECK(s.limit_ms == 0);
  CHECK(s.of_limit_percent == 0);
  moved.limit_ms = 1500;
  moved.limit_kept_ms = 1900;
  moved.bound_by = "disk";
  moved.write_ms = 0;  // no time was told
  s = apps::status_of(r, 0, 0);
  CHECK(s.limit_ms == 1500);
  CHECK(s.of_limit_percent == 75);
  CHECK(s.limit_kept_ms == 1900);
  CHECK(s.bound_by == "disk");
  CHECK(s.written_bytes_per_s == 0);
}

TEST_CASE("SST-2: steps that a power budget slowed down or held tell nothing of the drive") {
  report::step_report r;
  CHECK_FALSE(apps::tells_of_drive(r));  // all is in memory
  r.swap.emplace();
  CHECK(apps::tells_of_drive(r));
  r.pace_percent = 52;
  CHECK_FALSE(apps::tells_of_drive(r));
  r.pace_percent = 100;
  r.power_wait_ms = 3000;
  CHECK_FALSE(apps::tells_of_drive(r));
}

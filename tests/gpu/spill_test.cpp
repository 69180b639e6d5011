// Activations on a drive: what is told when it fails or gives back other bytes; that bits are those
// of activations in memory is tried with every choice (activation_choice_test.cpp).
#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <vector>

#include "gpu/model/init.hpp"
#include "gpu/swap/spiller.hpp"
#include "io/disk/faulty_disk.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/turn_bit.hpp"

namespace troupe::gpu {
namespace {

namespace fs = std::filesystem;

constexpr int64_t spill_rows = 2, spill_seq = 7;

/// A model all of whose layers spill, of which the first is read for backward.
class spilling_stage {
 public:
  spilling_stage(io::swap_io_options disk, const fs::path& file, bool verify = true)
      : owner_(make_reference_device()) {
    auto model = testing::tiny_gpt2();
    model.layers = 3;
    auto shape = whole_model(model, spill_rows, spill_seq, dtype::f32);
    shape.activations.assign(3, activation_choice::spill);
    auto stage = stage_model::make(*owner_, model, shape);
    REQUIRE(stage);
    stage_ = std::move(*stage);
    REQUIRE(initialize(stage_->store(), model, 42));
    auto io = io::swap_io::make(std::move(disk));
    REQUIRE(io);
    io_ = std::move(*io);
    spill_options how{{file}, verify};
    how.failed = [this](const status& s) { failures_.push_back(s.error()); };
    auto made = spiller::make(*owner_, *stage_, io_, how);
    REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
    spill_ = std::move(*made);
    stage_->set_activation_mover(spill_.get());
    auto s = owner_->make_stream({});
    REQUIRE(s);
    stream_ = std::move(*s);
    tokens_ = testing::some_tokens(spill_rows * spill_seq, model.vocab, 1);
  }

  /// Until everything that it has made is on the drive, or has failed.
  void forward() {
    const std::array one{stage_model::micro_batch{0, tokens_.data(), tokens_.data()}};
    stage_->forward(*stream_, one, 1.0f);
    for (const int layer : {1, 2}) spill_->take_frame(*stream_, 0, layer);
    REQUIRE(stream_->synchronize());
  }
  void backward() {
    const std::array one{stage_model::micro_batch{0, tokens_.data(), tokens_.data()}};
    stage_->backward(*stream_, one);
    REQUIRE(stream_->synchronize());
  }

  const std::vector<error>& failures() const { return failures_; }
  io::swap_io_facts facts() const { return io_->facts(); }

 private:
  std::unique_ptr<device> owner_;
  std::unique_ptr<stage_model> stage_;
  std::shared_ptr<io::swap_io> io_;
  std::vector<error> failures_;
  std::unique_ptr<spiller> spill_;
  std::unique_ptr<stream> stream_;
  std::vector<int32_t> tokens_;
};

io::swap_io_options failing_at(io::fault_site site, int times) {
  io::swap_io_options o;
  o.open_disk = [=](size_t depth) -> result<std::unique_ptr<io::disk>> {
    io::faulty_options how;
    how.depth = depth;
    how.plan = {{site, 0, io::fault_effect::fail, EIO, 0, times}};
    return std::unique_ptr<io::disk>(
        std::make_unique<io::faulty_disk>(io::crash_store::make(uint64_t{64} << 20), how));
  };
  return o;
}

}  // namespace

TEST_CASE("SPR-2: spill: a write or a read that fails is told once, and nothing moves behind it") {
  for (const auto site : {io::fault_site::write, io::fault_site::read}) {
    spilling_stage stage(failing_at(site, 1 << 20), "/activations");
    stage.forward();
    CHECK(stage.failures().empty() == (site == io::fault_site::read));
    stage.backward();
    REQUIRE(stage.failures().size() == 1);
    CHECK(stage.failures().front().kind == "EIO");
    const auto moved = stage.facts();
    stage.forward();
    CHECK(stage.facts().written_bytes == moved.written_bytes);
    CHECK(stage.failures().size() == 1);
  }
}

TEST_CASE("SPR-1: spill: a byte that changed on the drive is found, or not looked for") {
  for (const bool verify : {true, false}) {
    scratch dir;
    spilling_stage stage({}, dir / "activations", verify);
    stage.forward();
    turn_bit(dir / "activations", 100);
    stage.backward();
    CHECK(stage.failures().empty() == !verify);
    if (verify) CHECK(is_error(stage.failures().front(), spill_damaged, 0, 0));
  }
}

TEST_CASE("spill: the file's room is reserved, and what is in memory at the turn is not read") {
  scratch dir;
  spilling_stage stage({}, dir / "activations");
  const auto bytes = fs::file_size(dir / "activations");
  stage.forward();
  CHECK(stage.facts().written_bytes == bytes);
  stage.backward();
  CHECK(stage.facts().read_bytes == bytes / 3);
}

}  // namespace troupe::gpu

// The job that messages carry.
#include "actors/train/received_job.hpp"

#include <doctest/doctest.h>

#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

result<std::shared_ptr<const config::job>> receive(const std::string& toml) {
  flatbuffers::FlatBufferBuilder b;
  const auto at = b.CreateString(toml);
  b.Finish(at);
  return received_job(flatbuffers::GetRoot<flatbuffers::String>(b.GetBufferPointer()));
}

}  // namespace

TEST_CASE("received job: the same text is parsed once, another one anew, a wrong one is refused") {
  const std::string rest =
      "[job]\noutput = \"out\"\n[data]\npath = \"x\"\n"
      "[model]\nlayers = 1\nheads = 1\nhidden = 8\nvocab = 300\n[train]\n";
  const std::string text = rest + "steps = 7\n";
  const auto first = receive(text);
  REQUIRE_MESSAGE(first, (first ? std::string() : render(first.error())));
  CHECK((*first)->train.steps == 7);
  CHECK(receive(text)->get() == first->get());
  const auto wrong = receive("[train]\nsteps = \"many\"\n");
  REQUIRE(!wrong);
  CHECK(wrong.error().code == errc::bad_config);
  CHECK(mentions(wrong.error(), sent_configuration));
  const auto other = receive(rest + "steps = 8\n");
  REQUIRE(other);
  CHECK((*other)->train.steps == 8);
  CHECK((*first)->train.steps == 7);
  const auto none = received_job(nullptr);
  CHECK((!none || *none != *first));
}

// The table of operations against the messages that order them, and its rows against each other.
#include "messages/operations.hpp"

#include <doctest/doctest.h>

#include "messages/schemas/train_generated.h"

using namespace troupe;
using namespace troupe::train;

TEST_CASE("operations: what a stage can order has its row, of the same number and name") {
  for (const auto kind : fbs::EnumValuesOpKind()) {
    const auto& facts = facts_of(static_cast<pipeline_op>(kind));
    CHECK(facts.name == fbs::EnumNameOpKind(kind));
    CHECK(operation_named(facts.name) == &facts);
  }
  CHECK(operation_named("step") == nullptr);
}

TEST_CASE("operations: what is moved is moved with somebody, who does the opposite") {
  for (const auto& facts : operations) {
    CAPTURE(facts.name);
    CHECK((facts.resource == op_resource::transfer) == (facts.with != op_partner::none));
    if (facts.with != op_partner::none) CHECK(facts.releases == op_partner::none);
    if (facts.other_end == pipeline_op::count) continue;
    const auto& other = facts_of(facts.other_end);
    CHECK(facts.with == (other.with == op_partner::next ? op_partner::previous : op_partner::next));
    CHECK(facts.stream != other.stream);
  }
}

TEST_CASE("operations: none needs itself, and what is used in parts is of any number") {
  for (const auto& facts : operations)
    for (const auto& need : facts.needs) {
      CAPTURE(facts.name);
      CHECK(need.what != facts.kind);
      if (need.in_parts) CHECK_FALSE(need.same_number);
    }
}

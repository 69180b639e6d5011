// What persons say to a budget (budget.hpp), and what of the budget that needs: its parts alone
// include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "actors/power/budget.hpp"

namespace troupe::power {

/// So many names of children stand in a hint, and so much of a name that others said.
inline constexpr size_t names_in_a_hint = 8, shown_of_name = 64;

// -- of persons (budget_orders.cpp) ---------------------------------------------------------------

caf::result<msg<fbs::PowerTree>> read_tree(budget_pointer self, const msg<fbs::ReadPowerTree>& m);
/// BGA-3
caf::result<msg<fbs::Ack>> set_budget(budget_pointer self, const msg<fbs::SetPowerBudget>& m);
/// BGA-5
caf::result<msg<fbs::Ack>> set_brake(budget_pointer self, const msg<fbs::SetPowerBrake>& m);
caf::result<msg<fbs::GatewayFound>, caf::strong_actor_ptr> find_gateway(
    budget_pointer self, const msg<fbs::FindGateway>& m);
/// What an order has come to, before it is answered (BGA-10). 0: nobody keeps it.
void end_order(const budget_state& st, uint64_t order, const std::string& result);
msg<fbs::Ack> ack_of(budget_pointer self, const message_header& cause, const std::string& text);
/// By a person, for good. What the configuration says is nothing to remember.
void remember_budget(budget_state& st, int64_t mw, std::string by);

// -- of the budget (budget.cpp) -------------------------------------------------------------------

/// BGA-8
caf::result<msg<fbs::Ack>> answer_once_kept(budget_pointer self, const message_header& cause,
                                            std::string text, uint64_t order);
void show_budget(budget_pointer self);
/// `proved`: the name is of a key or a certificate.
error unknown_child(const budget_state& st, std::string_view name, bool proved);
/// Whether the schedule says what it has, where nothing is set for a time. BGA-6
bool follows(const budget_state& st);
/// What it has where nothing is set for a time.
int64_t standing_mw(const budget_state& st, int64_t now_ns);
/// BGA-3 and BGA-6
void settle_budget(budget_state& st, int64_t now_ns);
/// BGA-7
void note_pulled(budget_state& st);

}  // namespace troupe::power

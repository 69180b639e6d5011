// The factory of actor logs, and the tap on answers.
#include "actors/base/actor_log.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>
#include <caf/actor.hpp>
#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>

namespace troupe {

namespace {

/// Takes the place of the asker as long as the answer is due.
class answer_tap : public caf::monitorable_actor {
 public:
  answer_tap(caf::actor_config& config, caf::strong_actor_ptr asker, std::shared_ptr<actor_log> log,
             uint64_t request)
      : monitorable_actor(config),
        asker_(std::move(asker)),
        log_(std::move(log)),
        request_(request) {}

  const caf::strong_actor_ptr& asker() const { return asker_; }

  /// What is sent while the answer is due (the word of progress) was heard when it was sent.
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override {
    if (what->mid.is_response())
      log_->said(
          {fbs::ActorLogKind::answered, asker_, request_, what->copy_content_to_message(), {}});
    asker_->enqueue(std::move(what), host);
  }

 private:
  caf::strong_actor_ptr asker_;
  std::shared_ptr<actor_log> log_;
  uint64_t request_;
};

std::string name_of(caf::actor_id id, const caf::node_id& node) {
  return fmt::format("{}@{}", id, to_string(node));
}

}  // namespace

void actor_log_factory::set_maker(actor_log_maker maker) {
  std::lock_guard lock(mutex_);
  kept_.store(static_cast<bool>(maker));
  maker_ = maker ? std::make_shared<const actor_log_maker>(std::move(maker)) : nullptr;
}

std::shared_ptr<actor_log> actor_log_factory::make(const actor_stats& stats) {
  std::shared_ptr<const actor_log_maker> maker;
  {
    std::lock_guard lock(mutex_);
    maker = maker_;
  }
  return maker ? (*maker)(stats) : nullptr;
}

std::string handle_name(const caf::strong_actor_ptr& who) {
  const auto& asker = detail::asker_behind(who);
  return asker ? name_of(asker->id(), asker->node()) : std::string();
}

std::string handle_name(const caf::actor_addr& who) {
  return who ? name_of(who.id(), who.node()) : std::string();
}

namespace detail {

caf::strong_actor_ptr make_answer_tap(caf::actor_system& system, caf::strong_actor_ptr asker,
                                      std::shared_ptr<actor_log> log, uint64_t request) {
  caf::actor_config config;
  return caf::make_actor<answer_tap, caf::strong_actor_ptr>(system.next_actor_id(), system.node(),
                                                            &system, config, std::move(asker),
                                                            std::move(log), request);
}

const caf::strong_actor_ptr& asker_behind(const caf::strong_actor_ptr& sender) {
  const auto* tap = sender ? dynamic_cast<const answer_tap*>(sender->get()) : nullptr;
  return tap != nullptr ? tap->asker() : sender;
}

}  // namespace detail

bool as_recorded(bool here) {
  auto* log = detail::current_log;
  return log == nullptr ? here : log->read_clock(here ? 1 : 0) == 1;
}

// Of readings 0 stands for none.
size_t count_as_recorded(size_t here) {
  auto* log = detail::current_log;
  if (log == nullptr) return here;
  return static_cast<size_t>(
             std::max<int64_t>(1, log->read_clock(static_cast<int64_t>(here) + 1))) -
         1;
}

// A recording holds no reading as large as most doubles' bits.
double number_as_recorded(double here) {
  const auto bits = std::bit_cast<uint64_t>(here);
  const uint64_t low = count_as_recorded(bits & UINT32_MAX), high = count_as_recorded(bits >> 32);
  return std::bit_cast<double>(high << 32 | (low & UINT32_MAX));
}

}  // namespace troupe

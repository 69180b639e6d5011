// Who keeps lives, and the ear.
#include "actors/base/life.hpp"

#include <mutex>

#include <fmt/format.h>
#include <caf/actor.hpp>
#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>

namespace troupe {

namespace {

struct keeper {
  std::mutex mutex;
  std::shared_ptr<const life_maker> maker;
};

keeper& the_keeper() {
  static auto* one = new keeper;  // never destroyed: actors may outlive main's statics
  return *one;
}

/// Stands where the asker stood, as long as the answer is due.
class ear : public caf::monitorable_actor {
 public:
  ear(caf::actor_config& config, caf::strong_actor_ptr asker, std::shared_ptr<life> hearer,
      uint64_t request)
      : monitorable_actor(config),
        asker_(std::move(asker)),
        hearer_(std::move(hearer)),
        request_(request) {}

  const caf::strong_actor_ptr& asker() const { return asker_; }

  /// What is sent while the answer is due (the word of progress) was heard when it was sent.
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override {
    if (what->mid.is_response())
      hearer_->said(
          {fbs::LifeKind::answered, asker_, request_, what->copy_content_to_message(), {}});
    asker_->enqueue(std::move(what), host);
  }

 private:
  caf::strong_actor_ptr asker_;
  std::shared_ptr<life> hearer_;
  uint64_t request_;
};

std::string name_of(caf::actor_id id, const caf::node_id& node) {
  return fmt::format("{}@{}", id, to_string(node));
}

}  // namespace

void keep_lives(life_maker maker) {
  auto& k = the_keeper();
  std::lock_guard lock(k.mutex);
  detail::lives_are_kept.store(static_cast<bool>(maker));
  k.maker = maker ? std::make_shared<const life_maker>(std::move(maker)) : nullptr;
}

std::string handle_name(const caf::strong_actor_ptr& who) {
  if (!who) return {};
  if (const auto* stand_in = dynamic_cast<const ear*>(who->get()))
    return handle_name(stand_in->asker());
  return name_of(who->id(), who->node());
}

std::string handle_name(const caf::actor_addr& who) {
  return who ? name_of(who.id(), who.node()) : std::string();
}

namespace detail {

std::shared_ptr<life> begin_life(const actor_card& card) {
  std::shared_ptr<const life_maker> maker;
  {
    auto& k = the_keeper();
    std::lock_guard lock(k.mutex);
    maker = k.maker;
  }
  return maker ? (*maker)(card) : nullptr;
}

caf::strong_actor_ptr make_ear(caf::actor_system& system, caf::strong_actor_ptr asker,
                               std::shared_ptr<life> hearer, uint64_t request) {
  caf::actor_config config;
  return caf::make_actor<ear, caf::strong_actor_ptr>(system.next_actor_id(), system.node(), &system,
                                                     config, std::move(asker), std::move(hearer),
                                                     request);
}

}  // namespace detail

}  // namespace troupe

// What an engine tells from a thread of its own; one that ends meanwhile keeps it.
#pragma once

#include <future>
#include <memory>
#include <utility>

namespace troupe::apps {

template <class T>
class told {
 public:
  void operator()(T value) const { promise_->set_value(std::move(value)); }
  T wait() { return promise_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<T>> promise_ = std::make_shared<std::promise<T>>();
};

}  // namespace troupe::apps

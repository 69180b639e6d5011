// A move-only callable that lives inside itself: no allocation for an operation's arguments.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace troupe::gpu::host {

/// Callable as `void(Context&)`; the callable's state is at most `task_bytes`.
template <class Context>
class task {
 public:
  static constexpr size_t task_bytes = 208;

  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, task>>>
  task(F&& f) {  // NOLINT: implicit by design
    using body = std::decay_t<F>;
    static_assert(sizeof(body) <= task_bytes, "an operation's arguments must fit in a task");
    static_assert(alignof(body) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<body>);
    new (storage_) body(std::forward<F>(f));
    manage_ = [](void* self, void* to, Context* context) {
      auto& f_self = *static_cast<body*>(self);
      if (context != nullptr) return static_cast<void>(f_self(*context));
      if (to != nullptr) new (to) body(std::move(f_self));
      f_self.~body();
    };
  }
  task(task&& other) noexcept : manage_(other.manage_) {
    if (manage_ != nullptr) manage_(other.storage_, storage_, nullptr);
    other.manage_ = nullptr;
  }
  task& operator=(task&&) = delete;
  ~task() {
    if (manage_ != nullptr) manage_(storage_, nullptr, nullptr);
  }

  void operator()(Context& context) { manage_(storage_, nullptr, &context); }

 private:
  alignas(std::max_align_t) std::byte storage_[task_bytes];
  void (*manage_)(void*, void*, Context*) = nullptr;  // call, or move to and destroy, or destroy
};

}  // namespace troupe::gpu::host

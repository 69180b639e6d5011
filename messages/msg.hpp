// msg<T>: a message of table T. How one travels through CAF is messages/inspect.hpp's.
//
//   auto m = make_msg<fbs::RunStep>(context, [](auto& x) { x.step = 7; });  // T's object-API type
//   self->send(stage, m);                        // by reference: no copy, no verification
//   [](const msg<fbs::RunStep>& m) { use(m->step(), m.epoch()); }
//
// In one process a msg<T> is one pointer to an immutable block (any_msg.hpp).
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "messages/any_msg.hpp"
#include "messages/builder.hpp"
#include "messages/message_list.hpp"

namespace troupe {

/// A shared, immutable message of table T (a type of namespace troupe::fbs).
template <class T>
class msg : public any_msg {
 public:
  using table_type = T;
  /// The id of T in every header.
  static constexpr uint16_t type_id = message_traits<T>::id;

  msg() noexcept = default;
  /// From a message known to be of type T; use cast() where it may be another.
  explicit msg(any_msg m) noexcept : any_msg(std::move(m)) {}

  /// The table. The message must not be empty; valid as long as this message or a copy of it lives.
  const T* operator->() const noexcept { return get(); }
  const T& operator*() const noexcept { return *get(); }
  const T* get() const noexcept { return flatbuffers::GetRoot<T>(data()); }

  /// A mutable copy as T's object-API type.
  auto unpack() const {
    typename T::NativeTableType out;
    get()->UnPackTo(&out);
    return out;
  }
};

/// The message as a msg<T>, empty where it is of another type.
template <class T>
msg<T> cast(any_msg m) noexcept {
  return m.type() == message_traits<T>::id ? msg<T>(std::move(m)) : msg<T>();
}

/// Builds a message with `fill`, a function of the thread's builder that returns the root: the
/// fastest way, e.g. `[](auto& b) { return fbs::CreateAckDirect(b, "done"); }`.
/// Errors: bad_data where the payload is beyond max_message_bytes.
template <class T, class Fill>
result<msg<T>> try_build_msg(const message_context& context, Fill&& fill) {
  builder_loan loan;
  flatbuffers::Offset<T> root = fill(*loan);
  (*loan).Finish(root);
  auto length = (*loan).GetSize();
  auto done = detail::take(*loan, message_traits<T>::id, context);
  if (!done) return detail::take_error(length);
  return msg<T>(std::move(done));
}

/// As try_build_msg, for messages that are small by their nature: too large a one is a bug and
/// throws length_error.
template <class T, class Fill>
msg<T> build_msg(const message_context& context, Fill&& fill) {
  builder_loan loan;
  flatbuffers::Offset<T> root = fill(*loan);
  (*loan).Finish(root);
  auto length = (*loan).GetSize();
  auto done = detail::take(*loan, message_traits<T>::id, context);
  if (!done) throw std::length_error(detail::take_error(length).message);
  return msg<T>(std::move(done));
}

/// A message from T's object-API type. Errors: bad_data where the payload is beyond
/// max_message_bytes.
template <class T>
result<msg<T>> try_make_msg(const message_context& context,
                            const typename T::NativeTableType& native) {
  return try_build_msg<T>(context, [&](message_builder& b) { return T::Pack(b, &native); });
}

/// As try_make_msg, for messages that are small by their nature: too large a one is a bug and
/// throws length_error.
template <class T>
msg<T> make_msg(const message_context& context, const typename T::NativeTableType& native) {
  return build_msg<T>(context, [&](message_builder& b) { return T::Pack(b, &native); });
}

/// As above, the native value being filled by a function:
/// `make_msg<fbs::Validate>(ctx, [](auto& v) { v.step = 3; })`.
template <class T, class Fill>
requires std::is_invocable_v<Fill&, typename T::NativeTableType&> msg<T> make_msg(
    const message_context& context, Fill&& fill) {
  typename T::NativeTableType native;
  fill(native);
  return make_msg<T>(context, native);
}

/// A message of T with every field at its default.
template <class T>
msg<T> make_msg(const message_context& context = {}) {
  return make_msg<T>(context, typename T::NativeTableType{});
}

/// Short: CAF prints messages in diagnostics.
template <class T>
std::string to_string(const msg<T>& m) {
  return to_string(static_cast<const any_msg&>(m));
}

}  // namespace troupe

// A shared library loaded when it is first needed, and the functions taken from it.
//
// Why: the NVIDIA libraries are hundreds of megabytes and absent from most machines. Linked, they
// made every command 50 ms and 200 MB heavier and kept the program from starting where they are
// missing. Loaded here, the program is one binary that runs anywhere, and tests put fakes in the
// tables of functions.
//
// Invariants
// SHL-1 A library stays loaded for the life of the process: functions taken from it stay valid.
#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>

#include "io/base/result.hpp"

namespace troupe::gpu::cuda {

class shared_library {
 public:
  /// Loads the first of `names` that the dynamic linker finds (sonames, e.g. "libnccl.so.2").
  /// Fails with unavailable, naming them all and what the linker said of each; `hint` says what to
  /// install.
  static result<shared_library> open(std::initializer_list<const char*> names,
                                     const std::string& hint);

  /// Sets `function` to the symbol `name`. Fails with unavailable: the library is too old.
  template <class Function>
  status find(Function& function, const char* name) const {
    static_assert(std::is_pointer_v<Function> &&
                  std::is_function_v<std::remove_pointer_t<Function>>);
    TROUPE_TRY(found, address_of(name));
    function = reinterpret_cast<Function>(found);
    return {};
  }

  /// The name it was found under.
  const std::string& name() const noexcept { return name_; }

 private:
  shared_library(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  result<void*> address_of(const char* name) const;

  void* handle_;
  std::string name_;
};

}  // namespace troupe::gpu::cuda

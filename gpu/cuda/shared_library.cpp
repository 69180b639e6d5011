// dlopen and dlsym with errors that say what to install.
#include "gpu/cuda/shared_library.hpp"

#include <dlfcn.h>

namespace troupe::gpu::cuda {

result<shared_library> shared_library::open(std::initializer_list<const char*> names,
                                            const std::string& hint) {
  std::string tried;
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return shared_library(handle, name);
    const char* why = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why ? why : name);
  }
  return error(errc::unavailable, "cannot load a shared library: " + tried, hint);
}

result<void*> shared_library::address_of(const char* name) const {
  if (void* found = dlsym(handle_, name)) return found;
  return error(errc::unavailable, name_ + " has no function " + name,
               "install a newer version of it");
}

}  // namespace troupe::gpu::cuda

// Any bytes as a key: a file or a pipe of one (selector 0), or whom a peer says a key is for. What
// is accepted reads back as it was, and derives what its level may.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "io/file.hpp"
#include "io/tls/keyring.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

namespace {

result<tls::job_key> read_by_descriptor(std::string_view text) {
  const io::unique_fd fd(memfd_create("key", MFD_CLOEXEC));
  must(fd && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           lseek(fd.get(), 0, SEEK_SET) == 0,
       "a file in memory");
  return tls::job_key::read(fd.get());
}

void look_at_key(std::string_view text) {
  const auto key = read_by_descriptor(text);
  const auto parsed = tls::job_key::parse(text.substr(0, text.size() - text.ends_with('\n')));
  must(!key || parsed, "what a descriptor gives is parsed as text");
  if (!key) return;
  must(key->text() == text, "a key is written as it was read");
  const tls::bearer alice{tls::role::operator_, "alice"};
  const auto handed = key->handed_to(alice);
  if (const auto own = key->own()) must(key->of(*own).has_value(), "a name's key is its own");
  if (handed) must(handed->of(alice) == key->of(alice), "what is handed out is what is asked for");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0)
    look_at_key(text);
  else if (const auto who = tls::bearer_of(text))
    must(tls::to_text(*who) == text, "a bearer is written as he was read");
  return 0;
}

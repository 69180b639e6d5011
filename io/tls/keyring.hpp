// Keys by which processes without certificates prove to each other that they are of one job: a
// secret of the job, a key for each role derived from it, and a key for each name of a role derived
// from that. None of them is ever sent: two ends that hold the same one say so by TLS 1.3
// (actors/cluster/tls_keys.hpp).
//
//   secret --HKDF("node")-----> key of all nodes ------HKDF("node0")--> key of node0
//          --HKDF("operator")-> key of all operators --HKDF("alice")--> key of alice
//          --HKDF("reader")---> ...
//          --HKDF("power")----> key of all jobs ------HKDF("gpt-a")--> key of the job gpt-a
//
// So whoever owns the job can hand out a role, or one name of a role, and nothing more; who holds
// the key of nodes knows any node by name, and no person. A power budget's server has a secret too:
// the jobs that it grants watts to are of role power there, each by its name.
//
// Invariants
//   KEY-1  A key is read only from a file that belongs to this user (or root) and that nobody else
//     may read or write; it is written with mode 0600 to a file that was not there.
//   KEY-2  What is derived is of the level below, never above: a name's key derives nothing.
//   KEY-3  Text that comes from outside, of a file or of a peer, is bounded and parsed whole.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/base/result.hpp"
#include "io/tls/certs.hpp"

namespace troupe::tls {

/// Who proves himself by a key.
struct bearer {
  role as = role::reader;
  std::string name;
  friend bool operator==(const bearer&, const bearer&) = default;
};

/// "operator/alice": what is said before the proof, in clear.
std::string to_text(const bearer& who);
/// Nothing where it is no bearer's text (KEY-3).
std::optional<bearer> bearer_of(std::string_view text);

/// A secret, a role's key or a name's.
class job_key {
 public:
  static constexpr size_t size_bytes = 32;
  using bytes_type = std::array<uint8_t, size_bytes>;

  /// A secret of the kernel's chance.
  static result<job_key> make();
  /// From text(), without its newline. Errors: bad_data (nothing of the text is in it).
  static result<job_key> parse(std::string_view text);
  /// From a file (KEY-1). Errors: not_found, permission, bad_data, io.
  static result<job_key> read(const std::filesystem::path& file);
  /// From a descriptor until its end: a pipe. Errors: bad_data, io.
  static result<job_key> read(int descriptor);

  /// The key of a role: of a secret. Errors: permission for any other key (KEY-2).
  result<job_key> of(role as) const;
  /// The key by which somebody proves himself, if this one suffices to know it.
  std::optional<bytes_type> of(const bearer& who) const;
  /// Whom it is for; nothing where it is a secret or a whole role's.
  std::optional<bearer> own() const;
  /// The key for one name of a role, to be handed out. Errors: permission, usage for a bad name.
  result<job_key> handed_to(const bearer& who) const;

  /// One line of text with a newline: "troupe-key 1 operator/alice 6f0c...".
  std::string text() const;
  /// Writes text() to a new file (KEY-1). Errors: permission where there is one already, io.
  status write(const std::filesystem::path& file) const;

 private:
  std::optional<role> as_;  ///< none: a secret
  std::string name_;        ///< empty: of all names
  bytes_type bytes_{};
};

/// By which key a process knows others, and as whom it proves itself.
struct proof {
  job_key own;
  bearer self;
};

/// The proof of a process that holds a key: the key's own name where it has one, else the first of
/// `wanted` that the key makes. Errors: permission.
result<proof> proof_by(const job_key& own, std::span<const bearer> wanted);

}  // namespace troupe::tls

// A certificate authority and certificates for people who have none: what `troupe certs` writes.
//
// Why: beyond loopback a cluster speaks mutual TLS, and asking a new user to learn `openssl req`
// first is asking them to set insecure = true. The result is an ordinary PKI: EC P-256 keys, a CA
// that can sign nothing but end certificates, PEM files that any tool reads.
//
// TC-1 Nothing is overwritten: if one target exists, nothing is written.
// TC-2 Private keys are created with mode 0600, never widened after.
// TC-3 Every certificate is verified against the CA, from the bytes on disk.
// TC-4 Serial numbers are 127 random bits.
// TC-5 A certificate of role power is of a process that serves a power budget: it is no node of a
//   job, whoever signed both.
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::tls {

/// What the holder of a certificate, where it stands in the subject as OU, or of a key may do.
enum class role : uint8_t {
  node,       ///< OU=node: a process of the cluster, the coordinator among them
  operator_,  ///< OU=operator: a person who may command
  reader,     ///< OU=reader: a person or tool that may only look
  power,      ///< OU=power: a power budget; by key also a job at that budget
};

/// "node", "operator", "reader", "power".
std::string_view to_string(role r);

/// Whether a certificate or a key may bear the name: at most 64 letters, digits, '.', '_' and '-',
/// starting with none of '.' and '-'.
bool is_name(std::string_view name);

/// One certificate to make.
struct request {
  std::string name;  ///< CN, the first DNS name and the file name: letters, digits, . _ -
  std::vector<std::string> hosts;  ///< further names and addresses it is reached by
  role as = role::node;
};

/// One certificate and its key, as files.
struct files {
  std::string certificate;  ///< DIR/NAME.pem, mode 0644
  std::string key;          ///< DIR/NAME.key, mode 0600
};

/// What make() wrote.
struct made {
  files ca;                         ///< DIR/ca.pem and DIR/ca.key
  bool new_ca = false;              ///< false: an existing CA in DIR signed
  std::vector<files> certificates;  ///< in the order of the requests
};

/// How long certificates last, in days.
inline constexpr int ca_days = 3650;
inline constexpr int certificate_days = 825;

/// Makes DIR (mode 0700), a CA in it unless DIR/ca.pem and DIR/ca.key are there already, and the
/// certificates asked for. Errors: usage for a bad or double name, permission when a file would be
/// overwritten or a key is open to others, bad_data when the existing CA does not read, io.
result<made> make(const std::string& directory, const std::vector<request>& requests);

/// Who a certificate was made for, after its chain has been verified.
struct identity {
  std::string name;                ///< CN
  role as = role::node;            ///< from OU
  std::vector<std::string> hosts;  ///< DNS names and addresses of the SAN
  std::string serial;              ///< hexadecimal
  int64_t not_after_s = 0;         ///< end of validity, seconds since 1970
};

/// Who a certificate was made for. For one whose chain has been verified already, by a handshake; a
/// role that is none of ours becomes the least of them, a reader.
identity holder_of(X509* certificate);

/// Everything a process needs of its files to show who it is and to know others, in memory and
/// verified: files that change, or cannot be read later, change nothing of it.
struct credentials {
  std::shared_ptr<X509> certificate;
  std::vector<std::shared_ptr<X509>> chain;        ///< what follows it in its file
  std::vector<std::shared_ptr<X509>> authorities;  ///< at least one
  std::shared_ptr<EVP_PKEY> key;                   ///< none where no file was named
  identity who;
};

/// Reads each file once and verifies as verify() does.
result<credentials> read_credentials(const std::string& ca_file,
                                     const std::string& certificate_file,
                                     const std::string& key_file);

/// Whether a certificate is for a host: a name of it (without regard to case) or an address.
bool is_for_host(const identity& who, std::string_view host);

/// Verifies a certificate file against a CA file (chain, validity now, both TLS purposes) and, when
/// `key_file` is not empty, that the key is its own. Errors: bad_data with OpenSSL's reason,
/// not_found.
result<identity> verify(const std::string& ca_file, const std::string& certificate_file,
                        const std::string& key_file);

}  // namespace troupe::tls

// Reading certificates at the handshake, and output why one failed.
#include "actors/cluster/tls_links.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/defaults.hpp"
#include "actors/cluster/ingress.hpp"
#include "actors/cluster/loopback_user.hpp"
#include "actors/cluster/tls_keys.hpp"

namespace troupe::cluster {

namespace {

struct holders {
  std::mutex mutex;
  std::map<int, tls::identity> by_socket;
  std::set<int> given_up;
  std::map<uint16_t, std::set<std::string>> expected;  ///< hosts by port
  std::map<uint16_t, std::string> misplaced;  ///< what LNK-4 or LNK-6 refused last, by port
  std::map<uint16_t, std::chrono::milliseconds> bounds;  ///< of connecting, by port (LNK-5)
  tls::role nodes_as = tls::role::node;                  ///< of those that connect (LNK-6)
  tls::role budgets_as = tls::role::power;               ///< of those connected to (LNK-6)
};

holders& all() {
  static holders h;
  return h;
}

/// A mark on links whose failure has been counted: CAF asks twice, for reading and for writing.
int counted_mark() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

uint16_t port_in(const sockaddr* at) {
  return ntohs(at->sa_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(at)->sin6_port
                                         : reinterpret_cast<const sockaddr_in*>(at)->sin_port);
}

turned_away reason_of_verification(long outcome) {
  switch (outcome) {
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return turned_away::expired;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return turned_away::unknown_authority;
    default:
      return turned_away::bad_certificate;
  }
}

/// Why the handshake came to nothing, from what lies in OpenSSL's queue.
turned_away reason_of(const SSL* link, int kind) {
  const auto number = ERR_peek_error();
  if (kind != SSL_ERROR_SSL || number == 0) return turned_away::hung_up;
  if (ERR_GET_LIB(number) == ERR_LIB_SSL) switch (ERR_GET_REASON(number)) {
      case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return turned_away::no_certificate;
      case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return reason_of_verification(SSL_get_verify_result(link));
      case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        return turned_away::hung_up;
      case SSL_R_NO_SHARED_CIPHER:  // what OpenSSL calls a server that has neither
      case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
      case SSL_R_BINDER_DOES_NOT_VERIFY:
      case SSL_R_UNSUPPORTED_PROTOCOL:
        return key_context() != nullptr ? turned_away::no_key : turned_away::not_tls;
      default:
        break;
    }
  // Alerts: it did not like our certificate, and said so before it went.
  if (ERR_GET_LIB(number) == ERR_LIB_SSL && ERR_GET_REASON(number) > SSL_AD_REASON_OFFSET)
    return turned_away::hung_up;
  return turned_away::not_tls;
}

/// Who holds the link's certificate, or proved a key. Of a person with a key on this machine the
/// kernel knows the user better than the key does (LNK-3).
std::optional<tls::identity> holder_of(SSL* link, int fd) {
  if (auto who = bearer_of_link(link)) {
    tls::identity out;
    const bool person = who->as == tls::role::operator_ || who->as == tls::role::reader;
    const auto user = person ? loopback_user(fd) : std::nullopt;
    out.name = user ? *user : std::move(who->name);
    out.as = who->as;
    return out;
  }
  std::unique_ptr<X509, void (*)(X509*)> certificate(SSL_get1_peer_certificate(link), X509_free);
  if (!certificate) return std::nullopt;
  return tls::holder_of(certificate.get());
}

/// As what who shows a certificate of that role is taken; none: nobody who is heard (LNK-6).
std::optional<tls::role> taken_as(tls::role shown, bool accepted) {
  std::lock_guard lock(all().mutex);
  if (accepted) return shown == tls::role::node ? all().nodes_as : shown;
  if (shown == tls::role::power) return all().budgets_as;
  if (shown == tls::role::node && all().nodes_as != shown) return std::nullopt;
  return shown;
}

bool is_given_up(int fd) {
  std::lock_guard lock(all().mutex);
  return all().given_up.contains(fd);
}

/// LNK-4.
bool is_where_expected(int fd, const tls::identity& who) {
  if (tls::is_for_host(who, address_of_socket(fd))) return true;
  std::lock_guard lock(all().mutex);
  const auto it = all().expected.find(port_of_socket(fd));
  return it != all().expected.end() &&
         std::any_of(it->second.begin(), it->second.end(),
                     [&](const std::string& host) { return tls::is_for_host(who, host); });
}

/// Says it once, not at each of the tries that follow, and remembers it for who asks.
void note_misplaced(int fd, const std::string& text) {
  {
    std::lock_guard lock(all().mutex);
    if (std::exchange(all().misplaced[port_of_socket(fd)], text) == text) return;
  }
  spdlog::warn("{}: no link is made to it", text);
}

void keep(int fd, SSL* link, bool accepted) {
  auto who = holder_of(link, fd);
  if (!who) return;
  const bool by_certificate = !bearer_of_link(link);
  if (by_certificate && !accepted && !is_where_expected(fd, *who))
    return note_misplaced(fd, fmt::format("the certificate of {} is for {}, not for {}", who->name,
                                          fmt::join(who->hosts, ", "), address_of_socket(fd)));
  const auto as = by_certificate ? taken_as(who->as, accepted) : who->as;
  if (!as)
    return note_misplaced(
        fd, fmt::format("the certificate of {} is a node's, not a power budget's", who->name));
  who->as = *as;
  std::lock_guard lock(all().mutex);
  if (!accepted) all().misplaced.erase(port_of_socket(fd));
  all().by_socket[fd] = std::move(*who);
}

}  // namespace

void note_handshake(SSL* link, int outcome, bool accepted) noexcept {
  try {
    const int fd = SSL_get_fd(link);
    if (accepted && is_given_up(fd)) return;
    if (outcome == 1) return keep(fd, link, accepted);
    forget_socket(fd);  // LNK-1: what used this number before
    const int kind = SSL_get_error(link, outcome);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE || !accepted) return;
    if (SSL_get_ex_data(link, counted_mark()) != nullptr) return;
    SSL_set_ex_data(link, counted_mark(), link);
    const auto reason = reason_of(link, kind);
    const char* detail =
        reason == turned_away::hung_up ? nullptr : ERR_reason_error_string(ERR_peek_error());
    note_turned_away(reason, address_of_socket(fd), detail != nullptr ? detail : "");
  } catch (const std::exception&) {
    // Without memory for a note the link is one without a holder: nothing of it passes the gate.
  }
}

void expect_host(const std::string& host, uint16_t port) {
  std::lock_guard lock(all().mutex);
  all().expected[port].insert(host);
}

void bound_connect(uint16_t port, std::chrono::milliseconds most) {
  std::lock_guard lock(all().mutex);
  all().bounds[port] = most;
}

void expect_head(const std::string& host, uint16_t port) {
  expect_host(host, port);
  bound_connect(port, defaults::head_knock);
}

void take_nodes_as(tls::role as) {
  std::lock_guard lock(all().mutex);
  all().nodes_as = as;
}

void take_budgets_as(tls::role as) {
  std::lock_guard lock(all().mutex);
  all().budgets_as = as;
}

std::optional<std::chrono::milliseconds> connect_bound(const sockaddr* to) {
  if (to == nullptr || (to->sa_family != AF_INET && to->sa_family != AF_INET6)) return std::nullopt;
  std::lock_guard lock(all().mutex);
  const auto it = all().bounds.find(port_in(to));
  if (it == all().bounds.end()) return std::nullopt;
  return it->second;
}

std::chrono::milliseconds handshake_bound(int fd) {
  const auto port = port_of_socket(fd);
  std::lock_guard lock(all().mutex);
  const auto it = all().bounds.find(port);
  return it == all().bounds.end() ? defaults::connect_timeout : it->second;
}

std::optional<std::string> why_not(uint16_t port) {
  std::lock_guard lock(all().mutex);
  const auto it = all().misplaced.find(port);
  if (it == all().misplaced.end()) return std::nullopt;
  return it->second;
}

std::optional<tls::identity> holder_of_socket(int fd) {
  std::lock_guard lock(all().mutex);
  const auto it = all().by_socket.find(fd);
  if (it == all().by_socket.end()) return std::nullopt;
  return it->second;
}

void forget_socket(int fd) {
  std::lock_guard lock(all().mutex);
  all().by_socket.erase(fd);
  all().given_up.erase(fd);
}

void give_up_socket(int fd) {
  {
    std::lock_guard lock(all().mutex);
    all().by_socket.erase(fd);
    all().given_up.insert(fd);
  }
  shutdown(fd, SHUT_RDWR);
}

uint16_t port_of_socket(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) return 0;
  return port_in(reinterpret_cast<const sockaddr*>(&at));
}

std::string address_of_socket(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  char text[INET6_ADDRSTRLEN] = "";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0) {
    if (at.ss_family == AF_INET)
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(at).sin_addr, text, sizeof(text));
    else if (at.ss_family == AF_INET6)
      inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6&>(at).sin6_addr, text, sizeof(text));
  }
  return *text != '\0' ? text : "an unknown address";
}

}  // namespace troupe::cluster

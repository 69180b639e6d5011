// Those who are no ranks at the ports of a group (COM-6).
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <span>
#include <thread>

#include "gpu/collective/pair_links.hpp"
#include "gpu/collective/pair_proof.hpp"
#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/collective_cases.hpp"
#include "tests/loopback.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::collective_cases;

namespace {

const transport over_tcp{[] { return make_host_device(1); },
                         [](const group_options& o, device&) { return open_gloo_group(o); }};

/// Of an address on 127.0.0.1: family, four bytes, the port, the key.
uint16_t port_of(const std::string& address) {
  REQUIRE(address.size() == 1 + 4 + 2 + 32);
  uint16_t port = 0;
  std::memcpy(&port, address.data() + 5, 2);
  return ntohs(port);
}

/// A connection that says `bytes` and stays.
io::unique_fd stranger(uint16_t port, const std::string& bytes) {
  auto fd = loopback_connection(port);
  send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return fd;
}

/// Every kind of what strangers say: nothing, Gloo's own greeting, a half, a hello of a rank that
/// is not followed by a proof, the same with a wrong one, noise.
std::vector<std::string> sayings(uint32_t listener) {
  const auto hello = pair_hello{listener, listener + 1, {}}.text();
  return {"",    std::string(8, '\1'),         hello.substr(0, 20),
          hello, hello + std::string(32, 'x'), std::string(4096, '\xff')};
}

void raise_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Sums of a group of three, as bits.
std::vector<float> sum_of(std::vector<member>& all) {
  std::vector<std::vector<float>> data(all.size());
  for (size_t r = 0; r < all.size(); ++r)
    for (int i = 0; i < 4099; ++i)
      data[r].push_back(1.0f / static_cast<float>(1 + i * (static_cast<int>(r) + 1)));
  for (size_t r = 0; r < all.size(); ++r)
    all[r].group->all_reduce_sum(*all[r].stream, data[r].data(), 4099);
  for (auto& m : all) REQUIRE(m.stream->synchronize());
  CHECK(data[0] == data[1]);
  CHECK(data[0] == data[2]);
  return data[0];
}

}  // namespace

TEST_CASE("COM-6: a thousand strangers at the ports of a group change no bit and end nothing") {
  raise_descriptors();
  auto undisturbed = connected(over_tcp, 3);
  const auto expected = sum_of(undisturbed);
  auto all = listening(over_tcp, 3, std::chrono::minutes(5));
  const auto table = table_of(all);
  std::vector<io::unique_fd> strangers;
  for (uint32_t i = 0; i < 1000; ++i) {
    const uint32_t rank = i % 3;
    const auto kinds = sayings(rank);
    strangers.push_back(stranger(port_of(table[rank][(rank + 1) % 3]), kinds[i % kinds.size()]));
  }
  connect_all(all, table);
  CHECK(sum_of(all) == expected);
}

TEST_CASE("PLK-3: who has taken a rank's port is found out, and the group is refused by name") {
  const auto impostor = loopback_listener();
  const auto port = htons(port_of(impostor));
  std::thread answers([&] {
    const io::unique_fd fd(accept(impostor.get(), nullptr, nullptr));
    char hello[pair_hello::size];
    recv(fd.get(), hello, sizeof(hello), MSG_WAITALL);
    const std::string answer(48, 'x');
    send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    recv(fd.get(), hello, 1, 0);  // until it hangs up
  });
  auto all = listening(over_tcp, 2, std::chrono::minutes(5));
  auto offered = offered_to(table_of(all), 1);
  std::memcpy(offered[0].data() + 5, &port, 2);
  const auto made = all[1].pending->connect(offered);
  answers.join();
  REQUIRE_FALSE(made);
  CHECK(is_error(made, rank_not_proven, "test", 0));
}

TEST_CASE("COM-6: a rank of an earlier epoch is none of this one's") {
  auto before = listening(over_tcp, 2, std::chrono::minutes(5));
  auto now = listening(over_tcp, 2, std::chrono::minutes(5));
  const auto table = table_of(now);
  const auto connect = [&table](member& m, size_t rank) {
    return m.pending->connect(offered_to(table, rank)).has_value();
  };
  auto listener = std::async(std::launch::async, [&] { return connect(now[0], 0); });
  CHECK_FALSE(connect(before[1], 1));  // it dials where the rank 0 of today listens
  CHECK(connect(now[1], 1));
  CHECK(listener.get());
}

TEST_CASE("limits: a rank that announces more receives than anybody sends ends its group") {
  constexpr uint64_t most = 65'536;
  auto all = listening(over_tcp, 2, std::chrono::minutes(5));
  auto peer = pair_listener::open("127.0.0.1");
  REQUIRE(peer);
  auto offered = offered_to(table_of(all), 0);
  offered[1] = peer->address();
  auto connecting =
      std::async(std::launch::async, [&] { return all[0].pending->connect(offered); });
  auto links = peer->connect("test", 1, offered_to(table_of(all), 1), ample);
  auto group = connecting.get();
  REQUIRE(links);
  REQUIRE(group);
  auto& link = links->front();
  REQUIRE(fcntl(link.get(), F_SETFL, 0) == 0);  // blocking
  const auto announce = [&](uint64_t first, uint64_t count) {
    std::vector<uint64_t> frames;  // kind, slot, bytes (tensor_links.hpp)
    for (uint64_t tag = first; tag < first + count; ++tag)
      frames.insert(frames.end(), {1, (uint64_t{1} << 60) + tag, sizeof(float)});
    REQUIRE(io::write_all(link.get(), std::as_bytes(std::span(frames)), "frames"));
  };
  float value = 1;
  announce(0, most);
  (*group)->send(*all[0].stream, &value, sizeof value, 1, most - 1);
  REQUIRE(all[0].stream->synchronize());  // all of them have come
  announce(most, 2);
  shutdown(link.get(), SHUT_WR);  // else a receive would wait where nobody ends it
  (*group)->receive(*all[0].stream, &value, sizeof value, 1, 0);
  const auto ended = all[0].stream->synchronize();
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == errc::unavailable);
  CHECK_MESSAGE(
      ended.error().message.find("rank 1 receives more than anybody sends") != std::string::npos,
      ended.error().message);
}

TEST_CASE("COM-6: the port of a group is closed when the group is made") {
  auto all = listening(over_tcp, 2, std::chrono::minutes(5));
  const auto table = table_of(all);
  connect_all(all, table);
  const auto fd = loopback_socket();
  const auto to = loopback_address(port_of(table[0][1]));
  CHECK(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0);
}

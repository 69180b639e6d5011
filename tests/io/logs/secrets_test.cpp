// What looks like a secret is not told; what names a device or a place is.
#include "io/logs/secrets.hpp"

#include <doctest/doctest.h>

using troupe::io::without_secrets;

TEST_CASE("SCR-1: what looks like a secret is not told, by table") {
  const std::string hex(64, 'e');
  struct row {
    std::string line, told;
  };
  for (const auto& [line, told] : {
           row{"password=hunter2 now", "password=*** now"},
           row{"DB_PASSWORD: 'hunter2', next", "DB_PASSWORD: '***', next"},
           row{R"({"api_key":"k-1","a":2})", R"({"api_key":"***","a":2})"},
           row{"AWS_SECRET_ACCESS_KEY=ab/cd+ef", "AWS_SECRET_ACCESS_KEY=***"},
           row{"Authorization: Bearer abc.def", "Authorization: Bearer ***"},
           row{"curl --token t0k3n url", "curl --token *** url"},
           row{"sent bearer abcdefgh12", "sent bearer ***"},
           row{"https://me:pw@host/x failed", "https://***@host/x failed"},
           row{"troupe-key 1 operator/alice " + hex, "troupe-key 1 operator/alice ***"},
           row{"hf_" + std::string(34, 'a'), "hf_***"},
           row{"password=a\xff\xff"
               "b c",
               "password=*** c"},
       }) {
    CAPTURE(line);
    CHECK(without_secrets(line) == told);
    CHECK(without_secrets(told) == told);
  }
}

TEST_CASE("secrets: lines of kernels and libraries are told as they are") {
  for (const char* line :
       {"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.",
        "NVRM: GPU at PCI:0000:3b:00: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
        "nvme nvme0: I/O tag 641 (c281) opcode 0x1 (I/O Cmd) QID 8 timeout, aborting",
        "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading",
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2 misc/socket.cc:483 NCCL WARN socketProgress",
        "host:1:2 [0] init.cc:1 NCCL WARN Cuda failure 2 'out of memory'"})
    CHECK(without_secrets(line) == line);
}

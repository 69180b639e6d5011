// What the person and the log are told of a node that has joined.
#include <utility>

#include <fmt/format.h>

#include "actors/cluster/coordinating.hpp"
#include "io/base/counted.hpp"

namespace troupe::cluster::coordinating {

namespace {

fbs::JoinedNodeT joined_node(const member& who, bool is_spare) {
  fbs::JoinedNodeT out;
  out.node = who.name;
  out.is_spare = is_spare;
  if (!who.hello.hardware) return out;
  const auto& machine = *who.hello.hardware;
  out.host = machine.hostname;
  out.processor = machine.cpu_model;
  out.cores = machine.cores;
  out.memory_bytes = machine.memory_bytes;
  out.gpus = machine.gpus;
  out.gpu_driver = machine.gpu_driver;
  return out;
}

}  // namespace

void say_joined(coordinator_pointer self, const member& who, bool is_spare) {
  auto joined = joined_node(who, is_spare);
  const std::string processor = who.hello.hardware ? joined.processor : "unknown";
  self->send(self->state.record.reporter, make_msg<fbs::Notice>(context(self), [&](auto& n) {
               n.level = fbs::NoticeLevel::info;
               n.text =
                   fmt::format("{} {} joined from {} ({}, {})", is_spare ? "spare" : "node",
                               who.name, who.hello.host, processor, counted(joined.cores, "core"));
               n.joined = std::make_unique<fbs::JoinedNodeT>(std::move(joined));
             }));
}

}  // namespace troupe::cluster::coordinating

// Rows of the property table: the run, its cluster, and what it prints.
#include "io/config/job_table.hpp"

namespace troupe::config::detail {

namespace {

using job_s = job_section;
using cluster_s = cluster_section;

constinit const property run_rows[] = {
    key<&job::job, &job_s::name>("job.name",
                                 "Names the run and its folder: letters, digits, '.', '_', '-'"),
    key<&job::job, &job_s::seed>("job.seed",
                                 "Seeds weights, shuffling and sampling; same seed, same losses",
                                 within(0, 9e15)),
    key<&job::job, &job_s::output>(
        "job.output", "Folder of log.jsonl and the summary; {name} is replaced by job.name"),

    key<&job::cluster, &cluster_s::nodes>(
        "cluster.nodes",
        "Number of nodes, called node0, node1 ...; [[cluster.node]] lists them instead",
        within(1, 16384)),
    key<&job::cluster, &cluster_s::spares>(
        "cluster.spares",
        "Number of further nodes, called after the others, that stand in for lost ones; in a list "
        "of [[cluster.node]] those with spare = true",
        within(0, 16384)),
    key<&job::cluster, &cluster_s::launch>(
        "cluster.launch",
        "Who starts the node processes: this machine (local), ssh, or a scheduler (external)"),
    key<&job::cluster, &cluster_s::listen>(
        "cluster.listen",
        "Address the coordinator listens on; beyond loopback it needs cluster.tls or insecure"),
    key<&job::cluster, &cluster_s::port>(
        "cluster.port", "TCP port of the coordinator; 0 = a free one that the system picks",
        within(0, 65535)),
    key<&job::cluster, &cluster_s::advertise>(
        "cluster.advertise",
        "Address the nodes are told to join; empty = cluster.listen, or this "
        "machine's name when that is a wildcard"),
    key<&job::cluster, &cluster_s::heads>(
        "cluster.heads",
        "Addresses (HOST:PORT) of heads, one of which acts while the others stand by; empty = one "
        "head, as cluster.listen and cluster.port say"),
    key<&job::cluster, &cluster_s::workers_per_node>(
        "cluster.workers_per_node", "Workers (one device each) on a node that does not say itself",
        within(1, 64)),
    key<&job::cluster, &cluster_s::device>(
        "cluster.device",
        "What workers compute on; auto = GPUs when every node has one for each of its workers, "
        "else the host; with cuda more workers than GPUs share them"),
    key<&job::cluster, &cluster_s::threads>(
        "cluster.threads",
        "Compute threads of one worker; 0 = the node's cores divided by its workers",
        within(0, 4096)),
    key<&job::cluster, &cluster_s::heartbeat_interval_ms>(
        "cluster.heartbeat_interval_ms", "Milliseconds between two heartbeats of a node",
        within(10, 3600e3)),
    key<&job::cluster, &cluster_s::suspect_after_ms>(
        "cluster.suspect_after_ms",
        "Milliseconds without a heartbeat after which a node is suspect", within(10, 3600e3)),
    key<&job::cluster, &cluster_s::dead_after_ms>(
        "cluster.dead_after_ms", "Milliseconds without a heartbeat after which a node is given up",
        within(10, 3600e3)),
    key<&job::cluster, &cluster_s::join_timeout_ms>(
        "cluster.join_timeout_ms", "Milliseconds within which every node must have joined",
        within(100, 24 * 3600e3)),
    key<&job::cluster, &cluster_s::insecure>(
        "cluster.insecure",
        "Allow to listen beyond loopback without certificates: keys of the job's secret are then "
        "the only proof; includes clear_text_tensors"),
    key<&job::cluster, &cluster_s::clear_text_tensors>(
        "cluster.clear_text_tensors",
        "Allow tensors to travel between hosts in the clear while messages use TLS: the data plane "
        "(Gloo) has none, so the network between the hosts must be trusted"),
    key<&job::cluster, &cluster_s::ssh_command>(
        "cluster.ssh_command",
        "Program and options that run a command on another host, for launch "
        "\"ssh\""),
    key<&job::cluster, &cluster_s::remote_binary>("cluster.remote_binary",
                                                  "Path of the troupe program on the other hosts"),
    key<&job::cluster, &cluster_s::tls, &tls_section::ca>(
        "cluster.tls.ca", "PEM file of the authority that every peer's certificate must come from"),
    key<&job::cluster, &cluster_s::tls, &tls_section::certificate>(
        "cluster.tls.certificate",
        "PEM file of this process's certificate; {node} is replaced by the "
        "node's name (\"coordinator\" for the coordinator)"),
    key<&job::cluster, &cluster_s::tls, &tls_section::key>(
        "cluster.tls.key", "PEM file of its private key; {node} is replaced by the node's name"),
};

constinit const property log_rows[] = {
    key<&job::log, &log_section::format>("log.format",
                                         "How steps are printed; auto = one line that rewrites "
                                         "itself on a terminal, plain lines otherwise"),
    key<&job::log, &log_section::every>(
        "log.every", "Steps between two printed lines (log.jsonl always has every step)",
        within(1, 1e9)),
};

}  // namespace

std::span<const property> run_table() {
  return run_rows;
}
std::span<const property> log_table() {
  return log_rows;
}

}  // namespace troupe::config::detail

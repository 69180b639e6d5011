// Rows of the property table: what the machines of a run draw.
#include "io/config/job_table.hpp"

namespace troupe::config::detail {

namespace {

constinit const property power_rows[] = {
    key<&job::power, &power_section::meter_interval_ms>(
        "power.meter_interval_ms",
        "Milliseconds between two readings of a node's meters (GPUs, processor packages, sensors); "
        "0 = none are read",
        within(0, 3'600'000)),
    key<&job::power, &power_section::model_idle_w>(
        "power.model_idle_w",
        "Watts that a machine, without its GPUs, draws while it does nothing, where neither a "
        "processor package nor another chip says a power (most virtual machines); watts so "
        "calculated are marked (~61 W). 0, and model_core_w 0 = they are unknown there",
        within(0.0, 100'000.0)),
    key<&job::power, &power_section::model_core_w>(
        "power.model_core_w",
        "Watts more for each processor (hardware thread) that works all the time, where "
        "model_idle_w counts",
        within(0.0, 10'000.0)),
    key<&job::power, &power_section::budget_w>(
        "power.budget_w",
        "Watts that the machines of the job may draw together: steps are made slower, at one pace "
        "for all ranks, so that what meters say stays within; `troupe console` sets another. "
        "0 = no budget",
        within(0.0, 1e9)),
    key<&job::power, &power_section::parent>(
        "power.parent",
        "The power budget (`troupe power serve`) that grants the job its watts: auto = the one of "
        "this user on this machine that has the job, auto:NAME = the one of that name, else "
        "HOST:PORT; no step begins before it has granted some. "
        "Of it and budget_w the less holds. Empty = none"),
    key<&job::power, &power_section::parent_key>(
        "power.parent_key",
        "File with the key (`troupe key --role power`) that proves the job to a power.parent given "
        "as HOST:PORT; without it the certificates of cluster.tls do, beyond loopback they alone"),
    key<&job::power, &power_section::control>(
        "power.control",
        "What makes steps slower where there is a budget; of several each rank takes the first "
        "that its device and machine offer. pace = operations are held back, on any device and "
        "without rights; cgroup = the threads that compute are in a control group with a quota, "
        "which needs a cpu controller that this user may write; cpufreq = the highest clock of the "
        "processors, and rapl = the power limit of their packages, which need root; nvml_clocks = "
        "the highest clock of each rank's GPU, and nvml_limit = its power limit, which need root. "
        "Empty = pace"),
    key<&job::power, &power_section::agent_socket>(
        "power.agent_socket",
        "The socket of each machine's agent (`troupe power agent --socket`), a whole path: what a "
        "process of the job may not set itself that one is asked for, by the words of control. "
        "Empty = nobody is asked"),
    key<&job::power, &power_section::ramp_w_s>(
        "power.ramp_w_s",
        "By how many watts a second what the machines of the job draw together may rise, at a "
        "start, a resume and a greater cap: paces of steps rise as slowly. 0 = at once",
        within(0.0, 1e9)),
    key<&job::power, &power_section::dry_run>(
        "power.dry_run",
        "What budget_w, parent and ramp_w_s come to is decided and written into power.jsonl, and "
        "nothing is held back; to a power budget above it the job can draw all that it may"),
    key<&job::power, &power_section::textfile>(
        "power.textfile",
        "A file that the head replaces each 5 s by what `troupe power status --prometheus` prints, "
        "for node_exporter; empty = none"),
    key<&job::power, &power_section::slack>(
        "power.slack",
        "Whether operations that delay nobody run at lower clocks, while no budget paces the job: "
        "plan = by clocks that are planned from power.profile (docs/power-frontier.md), which "
        "power.control = nvml_clocks or cpufreq sets; off = all run at the highest"),
    key<&job::power, &power_section::profile>(
        "power.profile",
        "File that says what each stage's forward and backward takes and draws at each clock: "
        "stage,instruction,frequency,time,energy (MHz, s, J). One that does not exist is measured "
        "in the job's first steps, with power.slack; empty = clocks.csv in job.output"),
    key<&job::power, &power_section::blocking_w>(
        "power.blocking_w", "Watts of a device that waits for another stage, beside power.profile",
        within(0.0, 20'000.0)),
};

}  // namespace

std::span<const property> power_table() {
  return power_rows;
}

}  // namespace troupe::config::detail

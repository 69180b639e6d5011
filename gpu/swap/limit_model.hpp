// How long a step that swaps must take at least, by what it moves and computes and by how fast the
// machine's parts do that: the roofline of Fuyou's section 4 (arXiv 2403.06504), with drives that
// may read and write at the same time.
//
// Pure. A phase (forward; backward with its updates; or a step as a whole) keeps each part of the
// machine busy for its work over its rate; all parts may work at once, so that the slowest of them
// bounds it. A drive that reads and writes at once does the longer of both in its time and, of the
// shorter, as much as `duplex` says for nothing:
//
//   disk(rd, wr) = max(rd/r, wr/w) + (1 - duplex) x min(rd/r, wr/w)
//
// Where a device's memory is the host's, products, the optimizer's updates and the sums of what the
// drive is given and gives back (CRC32C) are made by the same processors, which make only one of
// them at a time. So they are busy for all three, however these are shared out among them:
//
//   processors = flops/R + updates/P + summed bytes/S
//
// with what all processors together make of each in a second where they do nothing else. Products
// of a device with memory of its own, and its updates, are made there: on the host's processors are
// the sums alone. What the program does besides (copies, asking for I/O) is not counted, so that
// this is a bound.
//
// Invariants
//   ROOF-1  More work, or a lower rate, never makes a bound shorter.
//   ROOF-2  A step as a whole is bounded by no more than the sum of its phases.
//   ROOF-3  With processors that several share a bound is never below the one without them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::gpu {

/// What all processors of the hosts make in a second, of each kind as if they did nothing else; 0:
/// others make it, or it is not known.
struct processor_rates {
  double flops_s = 0;      ///< of a layer's products
  double updates_s = 0;    ///< parameters of the optimizer's rule
  double sum_bytes_s = 0;  ///< whose CRC32C is made
};

/// What the parts of a machine do in a second; 0: there is no such part, its work is none.
struct machine_rates {
  double flops_s = 0;        ///< of a layer's products, as it computes them
  double link_bytes_s = 0;   ///< between host and device, each way
  double read_bytes_s = 0;   ///< of the drives
  double write_bytes_s = 0;  ///< the same
  double duplex = 0;         ///< 0: a drive reads or writes; 1: each as if there were no other
  double updates_s = 0;      ///< parameters of the optimizer's rule, by the streams that make them
  processor_rates processors = {};
};

/// What a phase of a step does.
struct phase_work {
  double flops = 0;
  double link_bytes = 0;  ///< of the direction that has more
  double read_bytes = 0, written_bytes = 0;
  double updates = 0;  ///< parameters
  double summed_bytes = 0;

  phase_work& operator+=(const phase_work& other);
};

/// The part of the machine that a phase waits for.
enum class bound_by : uint8_t {
  products,
  link,
  disk,
  updates,
  processors,  ///< which make several of products, updates and sums
};
/// "products", "link", "disk", "updates", "processors".
std::string_view to_string(bound_by part);

struct time_limit {
  double seconds = 0;
  bound_by part = bound_by::products;
};

/// Of a drive alone.
double disk_seconds(double read_bytes, double written_bytes, const machine_rates& rates);

/// Of the processors, for all that they make.
double seconds_of_processors(const phase_work& work, const machine_rates& rates);

/// The least time of one phase.
time_limit limit_of(const phase_work& work, const machine_rates& rates);

/// A decoder whose whole state is on drives and whose weights pass a link to the device, trained as
/// Fuyou does: forward with its weights; backward with them again, the state read, updated and
/// written. For comparing the model with what others have measured.
struct published_run {
  std::string name;
  double parameters = 0;
  double layers = 0, hidden = 0, seq = 0, batch = 0;
  machine_rates rates;
  double state_bytes = 14;  ///< of a parameter: 12, or 14 with weights of their own
  double recompute = 1;     ///< share of the forward that backward makes again
  double measured_s = 0;
};

/// Forward, and backward with the updates.
std::vector<phase_work> phases_of(const published_run& run);

/// Runs from a table (io/perf/csv.hpp), which errors call `file`: a line of names (name,
/// parameters, layers, hidden, seq, batch, flops_s, pcie_bytes_s, read_bytes_s, write_bytes_s,
/// duplex, adam_parameters_s, state_bytes, recompute, measured_s), in any order, then a line for
/// each run. Errors: io::perf::bad_csv.
result<std::vector<published_run>> parse_published_runs(std::string_view text,
                                                        const std::string& file);

}  // namespace troupe::gpu

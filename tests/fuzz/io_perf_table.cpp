// Any bytes as a table, a schema beside a table, or a split: read whole or refused, never a crash.
#include "io/perf/readers.hpp"
#include "io/perf/spec_text.hpp"
#include "io/perf/split.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace io::perf;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const label_filter all = [](std::string_view) { return true; };
  switch (data[0] % 4) {
    case 0: {
      const auto made = parse_csv(text, "fuzz");
      must(made || made.error().is(bad_csv), "CSV-3");
      if (!made) break;
      for (const auto& r : made->rows) must(r.cells.size() == made->columns.size(), "CSV-1");
      (void)read_spr(*made, "spr_CINT2017", all);
      (void)read_spec17(*made, "spec17_Int_rate", all);
      (void)read_vtrain(*made, all);
      break;
    }
    case 1: {
      const auto file = parse_csv("id,a,b\nx,1,2\ny,,z\n", "fuzz");
      const auto made = read_own(*file, text, "fuzz.toml", "own", all);
      if (!made) break;
      for (const auto& r : made->rows)
        must(r.numbers.size() == made->features.size() && r.labels.size() == made->outputs.size(),
             "TAB-1");
      break;
    }
    case 2: {
      const auto made = parse_split(text, "fuzz");
      must(made || made.error().is(bad_csv), "PSP-1");
      break;
    }
    default: {
      const auto m = parse_memory(text);
      must(!(m.total_gb <= 0) && !(m.dimms <= 0), "absent, never 0");
      must(!(cache_kib(text) <= 0), "absent, never 0");
      (void)parse_cpu_name(text);
      (void)os_version(text);
      (void)version_number(compiler_version(text));
    }
  }
  return 0;
}

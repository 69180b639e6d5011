// Tables of performance data: CSV, SPEC's free text, schemas, splits.
#include "io/perf/readers.hpp"

#include <cmath>
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "io/perf/spec_text.hpp"
#include "io/perf/split.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io::perf;

namespace {

label_filter all_labels() {
  return [](std::string_view) { return true; };
}

std::string fault_of_csv(const std::string& text) {
  const auto made = parse_csv(text, "x.csv");
  if (made) return "";
  CHECK(made.error().is(bad_csv));
  return made.error().message.substr(0, made.error().message.find(' '));
}

perf_table own_table(const std::string& text, const std::string& schema) {
  auto file = parse_csv(text, "own.csv");
  REQUIRE(file);
  auto made = read_own(*file, schema, "own.toml", "own", all_labels());
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return std::move(*made);
}

const std::string own_schema_text =
    "id = \"host\"\ncpu_model = \"cpu\"\nlabels = [\"score\"]\n"
    "[[feature]]\ncolumn = \"cores\"\ngroup = \"cpu\"\nkind = \"log\"\nunit = \"1\"\n"
    "[[feature]]\ncolumn = \"cpu\"\ngroup = \"cpu\"\nkind = \"category\"\n";

}  // namespace

TEST_CASE("CSV-1 quotes, commas and lines within them, marks and blanks around names are read") {
  const auto made =
      parse_csv("\xef\xbb\xbf a\t,\"b, c\"\r\n1,\"x \"\"y\"\", z\nw\"\r\n\r\n2,\n", "x.csv");
  REQUIRE(made);
  CHECK(made->columns == std::vector<std::string>{"a", "b, c"});
  REQUIRE(made->rows.size() == 2);
  CHECK(made->rows[0].cells == std::vector<std::string>{"1", "x \"y\", z\nw"});
  CHECK(made->rows[1].line == 5);
  CHECK(made->rows[1].cells == std::vector<std::string>{"2", ""});
}

TEST_CASE("CSV-1 CSV-2 what is no table is refused with its line") {
  CHECK(fault_of_csv("") == "x.csv:1:");
  CHECK(fault_of_csv("a,b\n1,2\n1\n") == "x.csv:3:");
  CHECK(fault_of_csv("a,b\n1,2,3\n") == "x.csv:2:");
  CHECK(fault_of_csv("a, a\n") == "x.csv:1:");
  CHECK(fault_of_csv("a,\n") == "x.csv:1:");
  CHECK(fault_of_csv("a\n\"x\n") == "x.csv:2:");
  CHECK(fault_of_csv("a\n\"x\"y\n") == "x.csv:2:");
}

TEST_CASE("CSV-1 a heading that ends in a name without cells is read without it") {
  const auto made = parse_csv("a,b,c\n1,2\n3,4\n", "x.csv");
  REQUIRE(made);
  CHECK(made->columns == std::vector<std::string>{"a", "b"});
  CHECK(fault_of_csv("a,b,c\n1,2\n3,4,5\n") == "x.csv:3:");
}

TEST_CASE("CSV-3 limits: a table with too many columns or rows is refused") {
  CHECK(fault_of_csv(std::string(max_csv_columns, ',')) == "x.csv:1:");
  std::string rows = "a\n";
  for (size_t i = 0; i <= max_csv_rows; ++i) rows += "1\n";
  CHECK(fault_of_csv(rows) == "x.csv:1048578:");
}

TEST_CASE("CSV-3 limits: a table that is too long is refused before it is read") {
  const std::string_view never_read(own_schema_text.data(), max_csv_bytes + 1);
  CHECK(parse_csv(never_read, "x.csv").error().is(bad_csv));
}

TEST_CASE("CSV-3 limits: a table with too many cells is refused") {
  CHECK(parse_csv("a,b\n1,2\n3,4\n", "x.csv", 4));
  const auto made = parse_csv("a,b\n1,2\n3,4\n5,6\n", "x.csv", 5);
  REQUIRE_FALSE(made);
  CHECK(made.error().is(bad_csv));
  CHECK(made.error().message.starts_with("x.csv:4:"));
}

TEST_CASE("SPEC's memory text becomes numbers, and what it does not say is absent") {
  const auto m = parse_memory("1 TB (16 x 64 GB 2Rx4 PC5-4800B-R, running at 4400)");
  CHECK(m.total_gb == 1024);
  CHECK(m.dimms == 16);
  CHECK(m.dimm_gb == 64);
  CHECK(m.ranks == 2);
  CHECK(m.width_bits == 4);
  CHECK(m.rated_mts == 4800);
  CHECK(m.running_mts == 4400);
  CHECK_FALSE(m.hbm);
  const auto stacked = parse_memory("4 TB (16 x 256 GB 2S4Rx4 PC5-4800AA-R)");
  CHECK(stacked.ranks == 8);
  CHECK(stacked.running_mts == 4800);
  const auto package = parse_memory("128 GB (8 x 16 GB HBM)");
  CHECK(package.hbm);
  CHECK(package.total_gb == 128);
  CHECK(std::isnan(package.dimms));
  CHECK(std::isnan(parse_memory("").total_gb));
}

TEST_CASE("SPEC's caches, processors and versions become numbers and words") {
  CHECK(cache_kib("32 KB I + 48 KB D on chip per core", true) == 48);
  CHECK(cache_kib("32 KB I + 48 KB D on chip per core", false) == 32);
  CHECK(cache_kib("22.5 MB I+D on chip per chip") == 22.5 * 1024);
  CHECK(std::isnan(cache_kib("None")));
  const auto gold = parse_cpu_name("Intel Xeon Gold 6438Y+");
  CHECK(gold.tier == "Xeon Gold 6");
  CHECK(gold.generation == "4");
  CHECK(gold.suffix == "Y");
  CHECK(parse_cpu_name("Intel Xeon Gold 5420+").suffix == "none");
  CHECK(parse_cpu_name("Xeon E5-2699 v4").generation == "v4");
  CHECK(compiler_version("C/C++: Version 2023.2.3 of Intel oneAPI") == "2023.2.3");
  CHECK(version_number("2023.2.3") == 2023.2);
  CHECK(os_version("SUSE Linux Enterprise Server 15 SP4, Kernel 5") == 15.4);
  CHECK(os_version("Red Hat Enterprise Linux release 9.2 (Plow)") == 9.2);
}

TEST_CASE("TAB-1 a person's own table is read by its schema, absent values and labels included") {
  const auto t = own_table("host,cpu,cores,score\nb,X,8,1.5\na,,,0\nc,Y,4,\n", own_schema_text);
  REQUIRE(t.rows.size() == 3);
  CHECK(t.rows[0].id == "a");  // TAB-2
  CHECK(std::isnan(t.rows[0].numbers[0]));
  CHECK(t.rows[0].words[1].empty());
  CHECK_FALSE(t.rows[0].labelled());  // not above 0
  CHECK(t.rows[1].labels[0] == 1.5);
  CHECK_FALSE(t.rows[2].labelled());
}

TEST_CASE(
    "a schema that names what is not there, or a label as a feature, is refused by its line") {
  const auto file = *parse_csv("host,cpu,cores,score\n", "own.csv");
  const auto line_of = [&](const std::string& schema) {
    const auto made = read_own(file, schema, "own.toml", "own", all_labels());
    REQUIRE_FALSE(made);
    CHECK(made.error().is(bad_schema));
    return made.error().message.substr(0, made.error().message.find(' '));
  };
  CHECK(line_of("id = \"hosts\"\n") == "own.toml:1:");
  CHECK(line_of("idd = 1\n") == "own.toml:1:");
  CHECK(line_of("id = \n") == "own.toml:1:");
  const std::string head = "id = \"host\"\nlabels = [\"score\"]\n";
  CHECK(line_of(head + "[[feature]]\ncolumn = \"score\"\nkind = \"log\"\n") == "own.toml:3:");
  CHECK(line_of(head + "[[feature]]\ncolumn = \"cores\"\nkind = \"lg\"\n") == "own.toml:3:");
  const std::string cores = head + "[[feature]]\ncolumn = \"cores\"\nkind = \"log\"\n";
  for (const auto* line : {"defning = true", "units = \"MHz\"", "defining = \"yes\"", "group = 3",
                           "group = \"\"", "unit = 1", "defining = 1"}) {
    CAPTURE(line);
    CHECK(line_of(cores + line + "\n") == "own.toml:6:");
  }
  CHECK(line_of(cores + "[[feature]]\ncolumn = \"cores\"\nkind = \"number\"\n") == "own.toml:6:");
}

TEST_CASE("a label or a number of one's own that is none, or cannot be, is refused with its line") {
  for (const auto* row : {"b,X,8,12O0", "b,X,8,\"1,234\"", "b,X,eight,1", "b,X,0,1", "b,X,-8,1"}) {
    CAPTURE(row);
    const auto file =
        *parse_csv("host,cpu,cores,score\na,X,4,1\n" + std::string(row) + "\n", "own.csv");
    const auto made = read_own(file, own_schema_text, "own.toml", "own", all_labels());
    REQUIRE_FALSE(made);
    CHECK(made.error().is(bad_csv));
    CHECK(made.error().message.starts_with("own.csv:3:"));
  }
}

TEST_CASE("limits: a schema that is too long, or names too many labels or features, is refused") {
  std::string heading = "host", labels, features;
  for (size_t i = 0; i <= max_outputs; ++i) {
    heading += ",l" + std::to_string(i);
    labels += (i == 0 ? "\"l" : ",\"l") + std::to_string(i) + "\"";
  }
  for (size_t i = 0; i <= max_features; ++i)
    features += "[[feature]]\ncolumn = \"host\"\nkind = \"category\"\n";
  const auto file = *parse_csv(heading + "\n", "own.csv");
  const std::string id = "id = \"host\"\n";
  for (const auto& schema :
       {id + "labels = [" + labels + "]\n", id + "labels = [\"l0\"]\n" + features})
    CHECK(read_own(file, schema, "own.toml", "own", all_labels()).error().is(bad_schema));
  scratch dir;
  std::ofstream(dir / "own.csv") << "host\n";
  std::ofstream(dir / "own.toml") << std::string(max_schema_bytes + 1, '\n');
  const auto made = read_dataset(dir.path, "own", all_labels());
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::bad_data);
}

TEST_CASE("TAB-2 two rows of one id are refused with both lines") {
  const auto file = *parse_csv("host,cpu,cores,score\nb,X,1,1\na,X,1,1\nb,X,2,2\n", "own.csv");
  const auto made = read_own(file, own_schema_text, "own.toml", "own", all_labels());
  REQUIRE_FALSE(made);
  CHECK(made.error().is(same_id));
  CHECK(made.error().message.starts_with("own.csv:4:"));
}

TEST_CASE("SPEC's times are no features: a table without them is the same table") {
  const std::string heading =
      "file,vendor,model_name,nominal_mhz,max_mhz,cpus,threads_per_core,cores_per_socket,sockets,"
      "numas,l1d_cache_kb,l1i_cache_kb,l2_cache_kb,l3_cache_kb,mem_kb,mem_channels,channel_kb,"
      "mem_data_rate,storage_gb,os_name,os_vid,compiler,parallel,file_system,threads_or_copies";
  const std::string row =
      "cpu2017-20230101-1,Dell,Intel Xeon Gold 6438Y+,2000,3800,64,2,32,1,1,48,32,2048,61440,"
      "1048576,8,131072,4800,480,SLES,15.4,Version 2023.2.3 of Intel oneAPI,No,xfs,64";
  const auto read = [](const std::string& text) {
    return *read_spec17(*parse_csv(text, "x.csv"), "spec17_Int_rate", all_labels());
  };
  const auto without = read(heading + ",500.perlbench_r\n" + row + ",300\n");
  const auto with = read(heading + ",t_500.perlbench_r,500.perlbench_r\n" + row + ",4711,300\n");
  CHECK(with.outputs == without.outputs);
  CHECK(with.features == without.features);
  REQUIRE(with.rows.size() == 1);
  CHECK(with.rows[0].labels == std::vector<double>{300});
  CHECK(with.rows[0].words == without.rows[0].words);
  for (size_t i = 0; i < with.features.size(); ++i) {
    const double a = with.rows[0].numbers[i], b = without.rows[0].numbers[i];
    CHECK((a == b || (std::isnan(a) && std::isnan(b))));
    CHECK(a != 4711);
  }
}

TEST_CASE("TAB-3 labels that nobody wants are not read, even where they are no numbers") {
  const auto file = *parse_csv("host,cpu,cores,score\na,X,1,oops\nb,X,2,2\n", "own.csv");
  const auto t = *read_own(file, own_schema_text, "own.toml", "own",
                           [](std::string_view id) { return id == "b"; });
  CHECK_FALSE(t.rows[0].labelled());
  CHECK(t.rows[1].labelled());
}

TEST_CASE("PSP-1 a split is read whatever the order of its lines, and its faults have lines") {
  const auto a = *parse_split("dataset,row_id,split\nx,1,train\nx,2,test\n", "s.csv");
  const auto b = *parse_split("dataset,row_id,split\nx,2,test\nx,1,train\n", "s.csv");
  CHECK(a.sets.at("x").at("1").part == b.sets.at("x").at("1").part);
  for (const auto* text :
       {"dataset,row_id,split\nx,1,train\nx,1,test\n", "dataset,row_id,split\nx,2,val\nx,1,tset\n",
        "dataset,row_id,split\nx,2,val\nx,,test\n"}) {
    const auto made = parse_split(text, "s.csv");
    REQUIRE_FALSE(made);
    CHECK(made.error().is(bad_csv));
    CHECK(made.error().message.starts_with("s.csv:3:"));
  }
}

TEST_CASE("PSP-1 a split that names a row that is not in the data is refused with its line") {
  const auto t = own_table("host,cpu,cores,score\nb,X,8,1.5\n", own_schema_text);
  const auto s = *parse_split("dataset,row_id,split\nown,b,train\nown,z,test\n", "s.csv");
  CHECK(rows_of(s, t, split_part::train)->size() == 1);
  const auto missing = rows_of(s, t, split_part::test);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.starts_with("s.csv:3:"));
}

TEST_CASE("PSP-2 a split by CPU model has each model in one part, by date the newest in test") {
  std::string text = "host,cpu,cores,score,day\n";
  for (int i = 0; i < 200; ++i)
    text += "h" + std::to_string(i) + ",m" + std::to_string(i % 20) + ",4,1," +
            std::to_string(20200101 + i) + "\n";
  const auto t = own_table(text, "date = \"day\"\n" + own_schema_text);
  const auto parts = *make_split(t, split_by::cpu, 3, {0.2, 0.2});
  std::map<std::string, std::set<split_part>> by_model;
  for (const auto& r : t.rows) by_model[r.cpu_model].insert(parts.at(r.id));
  std::set<split_part> seen;
  for (const auto& [model, of] : by_model) {
    CHECK(of.size() == 1);
    seen.insert(*of.begin());
  }
  CHECK(seen.size() == 3);
  CHECK(parts != *make_split(t, split_by::cpu, 4, {0.2, 0.2}));
  const auto dated = *make_split(t, split_by::date, 0, {0.1, 0.25});
  CHECK(dated.at("h199") == split_part::test);
  CHECK(dated.at("h150") == split_part::test);
  CHECK(dated.at("h149") == split_part::val);
  CHECK(dated.at("h0") == split_part::train);
}

TEST_CASE("the public data sets are read, each id of their split, as their provenance says") {
  const auto folder = shared_folder() / "data" / "perfcast";
  if (!std::filesystem::exists(folder / "splits_public.csv")) {
    MESSAGE("SKIPPED: no ../shared/data/perfcast");
    return;
  }
  const auto s = *read_split(folder / "splits_public.csv");
  CHECK(s.sets.size() == 10);
  for (const auto& [name, rows] : s.sets) {
    CAPTURE(name);
    const auto t = read_dataset(folder, name, all_labels());
    REQUIRE_MESSAGE(t, (t ? "" : t.error().message));
    size_t found = 0;
    for (const auto part : {split_part::train, split_part::val, split_part::test}) {
      const auto some = rows_of(s, *t, part);
      REQUIRE_MESSAGE(some, (some ? "" : some.error().message));
      for (const auto* r : *some) found += r->labelled() ? 1 : 0;
    }
    CHECK(found == rows.size());
    for (const auto& f : t->features) CHECK_FALSE(f.name.starts_with("t_"));
  }
}

TEST_CASE("caches that the sample tells as totals of a machine become those of an instance") {
  const auto folder = shared_folder() / "data" / "perfcast";
  if (!std::filesystem::exists(folder / "splits_public.csv")) {
    MESSAGE("SKIPPED: no ../shared/data/perfcast");
    return;
  }
  const auto t = *read_dataset(folder, "perfcastdb_sample", all_labels());
  size_t l1d = 0;
  while (t.features[l1d].name != "l1d_kb") ++l1d;
  for (const auto& r : t.rows) {
    CHECK(r.numbers[l1d] == doctest::Approx(48));
    CHECK(r.numbers[l1d + 1] == doctest::Approx(32));
    CHECK(r.numbers[l1d + 2] == doctest::Approx(2048));
  }
}

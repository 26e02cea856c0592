// The paper's table from the simulator: its bounds, and what each free choice of the profile is worth, as docs/simulator.md
// shows it.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/simulator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "tests/paths.h"
#include "tools/fit.h"
#include "tools/intervals.h"
#include "tools/machines.h"
#include "tools/rows.h"

namespace colonnade::tools {
namespace {

using engine::Machine;

constexpr int kPaperRows = 5;

Machine Titan() {
  absl::StatusOr<Machine> machine = OpenMachine("titan-2013");
  EXPECT_TRUE(machine.ok()) << machine.status();
  return *std::move(machine);
}

const layers::LayerGraph& Alexnet() {
  static const layers::LayerGraph& graph = *new layers::LayerGraph(*models::BuildModel("alexnet2012", {}));
  return graph;
}

const Row& PaperRow(const std::string& name) {
  const std::vector<Row>& rows = PaperTable().rows;
  return *std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
}

std::vector<Row> MeasuredRows() {
  std::vector<Row> rows;
  for (const Row& row : PaperTable().rows) {
    if (row.published_step_sec > 0) rows.push_back(row);
  }
  return rows;
}

using Change = std::function<void(partition::Plan&)>;

program::RepresentativeProgram Lowered(const Row& row, const Machine& machine, const Change& change = nullptr) {
  absl::StatusOr<partition::Plan> plan = PlanOfRow(row, Alexnet(), machine);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (change) change(*plan);
  absl::StatusOr<program::RepresentativeProgram> program = LowerRow(row, Alexnet(), machine, *plan);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

double SecondsOf(const program::RepresentativeProgram& program, const Machine& machine) {
  absl::StatusOr<engine::Simulation> simulation = engine::Simulate(program, machine);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return absl::ToDoubleSeconds(simulation->step);
}

// The paper's rows, lowered; the profile is fitted to those that are named.
struct Rows {
  std::vector<Row> rows = MeasuredRows();
  std::vector<program::RepresentativeProgram> programs;

  explicit Rows(const Machine& machine, const Change& change = nullptr) {
    for (const Row& row : rows) programs.push_back(Lowered(row, machine, change));
  }
  std::vector<MeasuredStep> StepsOf(const std::vector<std::string>& names) const {
    std::vector<MeasuredStep> steps;
    for (const std::string& name : names) {
      for (size_t r = 0; r < rows.size(); ++r) {
        if (rows[r].name != name) continue;
        steps.push_back({name, rows[r].model, rows[r].global_batch, &programs[r], rows[r].published_step_sec});
      }
    }
    return steps;
  }
  std::vector<double> DaysOn(const Machine& machine) const {
    std::vector<double> days;
    for (size_t r = 0; r < rows.size(); ++r) {
      days.push_back(PaperTable().DaysOf(SecondsOf(programs[r], machine), rows[r].global_batch));
    }
    return days;
  }
};

// Days of the paper's rows on `machine`, fitted to those named.
std::vector<double> Days(Machine machine, const std::vector<std::string>& fit, const Change& change = nullptr) {
  const Rows rows(machine, change);
  const absl::StatusOr<Fit> fitted = FitTo(machine, rows.StepsOf(fit));
  EXPECT_TRUE(fitted.ok()) << fitted.status();
  return rows.DaysOn(machine);
}

std::vector<double> PaperDays() {
  std::vector<double> days;
  for (const Row& row : MeasuredRows()) days.push_back(PaperTable().DaysOf(row.published_step_sec, row.global_batch));
  return days;
}

std::vector<double> Errors(const std::vector<double>& days) {
  std::vector<double> errors;
  for (int r = 0; r < kPaperRows; ++r) errors.push_back(std::abs(days[r] / PaperDays()[r] - 1));
  return errors;
}

std::vector<int> Order(const std::vector<double>& days) {
  std::vector<int> order(days.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return days[a] < days[b]; });
  return order;
}

TEST(PaperTable, HoldsTheDaysOfThePaper) {
  const std::vector<double> days = PaperDays(), paper = {10.5, 6.6, 7.0, 7.2, 4.8};
  ASSERT_EQ(days.size(), paper.size());
  for (size_t r = 0; r < paper.size(); ++r) EXPECT_NEAR(days[r], paper[r], 1e-9);
}

TEST(PaperTable, OneFittedNumberGivesTheOrderAndSeventeenPercent) {
  const std::vector<double> days = Days(Titan(), {"1"});
  EXPECT_EQ(Order(days), Order(PaperDays()));
  std::vector<double> errors = Errors(days);
  EXPECT_LT(errors[0], 1e-6) << "the row that is fitted";
  for (double error : errors) EXPECT_LE(error, 0.17);
  std::sort(errors.begin() + 1, errors.end());
  EXPECT_LE((errors[2] + errors[3]) / 2, 0.10) << "the median of the rows that are not fitted";
}

TEST(PaperTable, OneMoreRowGivesTheOthersWithinSixPercent) {
  const std::vector<double> errors = Errors(Days(Titan(), {"1", "2-model"}));
  EXPECT_LT(errors[0], 1e-6) << "the first row that is fitted";
  EXPECT_LT(errors[1], 1e-6) << "the second row that is fitted";
  for (double error : errors) EXPECT_LE(error, 0.06);
}

TEST(PaperTable, TheProfileHoldsWhatTheFirstRowFits) {
  Machine machine = Titan();
  const Machine shipped = machine;
  const Rows rows(machine);
  const absl::StatusOr<Fit> fit = FitTo(machine, rows.StepsOf({"1"}));
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(shipped.step_sec.value, fit->step_sec, 1e-3);
  EXPECT_EQ(fit->kernel_factor, 1);
  EXPECT_EQ(shipped.step_sec.origin, engine::Origin::kFitted);
  EXPECT_EQ(shipped.fitted_to.model, machine.fitted_to.model);
  EXPECT_EQ(shipped.fitted_to.batch, machine.fitted_to.batch);
  EXPECT_NEAR(shipped.fitted_to.step_sec, machine.fitted_to.step_sec, 1e-5);
}

TEST(PaperTable, ThePlannersChoiceIsATenthFasterThanThePapersHybrid) {
  const Machine machine = Titan();
  const auto seconds = [&](const char* row) { return SecondsOf(Lowered(PaperRow(row), machine), machine); };
  EXPECT_GE(seconds("4-hybrid") / seconds("4-auto"), 1.10);
}

void ForConvolutions(Machine& machine, const std::function<void(engine::OpRate&)>& change) {
  for (engine::OpRate& op : machine.ops) {
    if (op.op.rfind("conv_", 0) == 0) change(op);
  }
}
void ForLinks(Machine& machine, const char* node, const std::function<void(engine::Link&)>& change) {
  for (engine::Link& link : machine.links) {
    if (link.a.rfind(node, 0) == 0) change(link);
  }
}

// One choice of the profile, or of the rows, made otherwise.
struct Flip {
  const char* choice;
  std::function<void(Machine&)> machine;
  Change plan = nullptr;
  bool fits_kernels = false;  // the first row fits a factor on kernels, not time of the host
};

std::vector<Flip> Flips() {
  const auto curve = [](std::vector<std::pair<double, double>> points) {
    return [points](Machine& m) {
      ForConvolutions(m, [&](engine::OpRate& op) {
        if (!op.batch_curve.empty()) op.batch_curve = points;
      });
    };
  };
  const auto peers = [](double rate) {
    return [rate](Machine& m) { ForLinks(m, "gpu", [&](engine::Link& l) { l.bytes_per_sec.value = rate; }); };
  };
  return {
      {"as shipped", [](Machine&) {}},
      {"kernels at a Titan Black's rates, not scaled to a TITAN's peak",
       [](Machine& m) {
         ForConvolutions(m, [](engine::OpRate& op) {
           for (auto& p : op.points) p.rate *= 5.12 / 4.50;
         });
       }},
      {"what is left of the 1-GPU row is slower kernels, not time that no plan splits",
       [](Machine& m) { m.step_sec.value = 0; }, nullptr, true},
      {"batch 64 as fast as 128", curve({{32, 1}, {256, 1}})},
      {"batch 64 at 0.92, 32 at 0.79, as measured of cuDNN 5", curve({{32, 0.79}, {64, 0.92}, {128, 1}})},
      {"fully connected layers at 0.9 of the peak at every batch",
       [](Machine& m) {
         for (engine::OpRate& op : m.ops) {
           if (op.op.rfind("fully", 0) == 0) op.points[0].rate = 0.9 * 4.5e12, op.batch_curve.clear();
         }
       }},
      {"memory at the data sheet's rate", [](Machine& m) { m.memory_bytes_per_sec.value = 2.884e11; }},
      {"launches cost nothing", [](Machine& m) { m.launch_sec.value = 0; }},
      {"peers at 3 GB/s", peers(3e9)},
      {"peers at 10 GB/s (PCI-e 3)", peers(1e10)},
      {"each card its own way to the host",
       [](Machine& m) {
         ForLinks(m, "switch", [](engine::Link& l) {
           if (l.b == "host") l.bytes_per_sec.value *= 2;
         });
       }},
      {"no boundary between the sockets",
       [](Machine& m) {
         ForLinks(m, "switch0", [](engine::Link& l) {
           if (l.b == "switch1") l.bytes_per_sec.value = 1e12, l.one_transfer_bytes_per_sec.value = 0;
         });
       }},
      {"no peer access between the sockets: through the host",
       [](Machine& m) {
         m.staged = {{"gpu0", "gpu2"}, {"gpu0", "gpu3"}, {"gpu1", "gpu2"}, {"gpu1", "gpu3"}};
       }},
      {"one copy engine a card", [](Machine& m) { m.copy_engines = 1; }},
      {"transfers of a card share its link instead of queueing", [](Machine& m) { m.copy_engines = 0; }},
      {"gradients by a ring of all-reduces, not through a master",
       [](Machine& m) { m.collectives = engine::CollectiveAlgorithm::kRing; },
       [](partition::Plan& p) { p.reduction = partition::Reduction::kAllReduce; }},
      {"transfers beside compute", [](Machine&) {}, [](partition::Plan& p) { p.overlap = true; }},
      {"the hybrid's replicas, not its columns, on one switch", [](Machine&) {},
       [](partition::Plan& p) {
         if (p.mesh.device_count() == 4 && p.mesh.axes[1].size == 2) p.device_order = {0, 2, 1, 3};
       }},
  };
}

std::vector<double> DaysOf(const Flip& flip) {
  Machine machine = Titan();
  flip.machine(machine);
  const Rows rows(machine, flip.plan);
  const std::vector<MeasuredStep> first = rows.StepsOf({"1"});
  const absl::Status fitted = flip.fits_kernels ? FitKernels(machine, first[0]).status() : FitTo(machine, first).status();
  EXPECT_TRUE(fitted.ok()) << fitted;
  return rows.DaysOn(machine);
}

// A row of the page for each choice: what the four rows that are not fitted become.
std::string PageTable() {
  std::string page;
  const std::vector<double> paper = PaperDays();
  for (const Flip& flip : Flips()) {
    const std::vector<double> days = DaysOf(flip);
    EXPECT_NEAR(days[0], paper[0], 1e-5 * paper[0]) << flip.choice << ": the row that is fitted";
    absl::StrAppend(&page, "| ", flip.choice, " |");
    for (int r = 1; r < kPaperRows; ++r)
      absl::StrAppendFormat(&page, " %.2f (%+.0f %%) |", days[r], 100 * (days[r] / paper[r] - 1));
    absl::StrAppend(&page, Order(days) == Order(paper) ? " yes |\n" : " no |\n");
  }
  return page;
}

TEST(PaperTable, ThePageShowsWhatEachChoiceIsWorth) {
  std::ifstream file(std::string(kSourceDir) + "/docs/simulator.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_THAT(page.str(), ::testing::HasSubstr(PageTable())) << "the table in docs/simulator.md is to be:\n" << PageTable();
}

TEST(Machines, AllShippedProfilesAreGood) {
  for (const data::EmbeddedFile& file : ShippedMachines()) {
    absl::StatusOr<Machine> machine = engine::MachineFromJson(file.bytes);
    ASSERT_TRUE(machine.ok()) << file.name << ": " << machine.status();
    EXPECT_TRUE(machine->warnings.empty()) << file.name << ": " << machine->warnings[0];
  }
  EXPECT_GE(ShippedMachines().size(), 4u);
}

}  // namespace
}  // namespace colonnade::tools

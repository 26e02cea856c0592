#include "cli/table.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "cli/command_line/config.h"
#include "cli/command_line/errors.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/prediction/prediction.h"
#include "cli/session/devices.h"
#include "cli/session/named_files.h"
#include "cli/session/network.h"
#include "cli/session/session.h"
#include "cpu/threads/cores.h"
#include "engine/io/file.h"
#include "engine/precision.h"
#include "engine/simulator.h"
#include "engine/statistics.h"
#include "tools/host_memory.h"
#include "tools/machines.h"
#include "tools/measure.h"
#include "tools/memory_fit.h"
#include "tools/planning.h"

namespace colonnade::cli {
namespace {

constexpr int kMeasuredSteps = 5;
constexpr int64_t kLargestRowsFile = int64_t{1} << 20;

// Gives the paper's rows the network and batch that the flags ask for. Their times stay where nothing is otherwise.
void ForgetTimesOfOthers(const TableFlags& flags, const engine::Machine& machine, tools::RowTable& paper) {
  for (tools::Row& row : paper.rows) {
    const bool as_measured = machine.name == paper.machine && row.model == flags.model && row.global_batch == flags.batch;
    if (!as_measured) row.published_step_sec = 0;
    row.model = flags.model;
    row.global_batch = flags.batch;
  }
}

absl::StatusOr<tools::RowTable> RowsOf(const TableFlags& flags) {
  if (flags.rows.empty()) return tools::PaperTable();
  ASSIGN_OR_RETURN(const std::string json, engine::ReadFile(flags.rows, kLargestRowsFile));
  absl::StatusOr<tools::RowTable> table = tools::RowsFromJson(json);
  if (table.ok()) return table;
  return base::WithContext(table.status(), flags.rows);
}

// Names of the rows to fit the profile to, none or one or two.
absl::StatusOr<std::vector<std::string>> RowsToFit(const TableFlags& flags, const tools::RowTable& table) {
  std::vector<std::string> published;
  for (const tools::Row& row : table.rows) {
    if (row.published_step_sec > 0) published.push_back(row.name);
  }
  std::vector<std::string> names = flags.fit;
  if (names.empty() && flags.rows.empty() && !published.empty()) names = {table.rows[0].name};
  if (!names.empty() && published.empty()) {
    return absl::FailedPreconditionError(
        flags.rows.empty()
            ? "--fit: expected --machine=titan-2013 --model=alexnet2012 --batch=256, of which the paper has times"
            : absl::StrFormat("--fit: expected a row that states a time, found none in %s", flags.rows));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const bool is_there = absl::c_linear_search(published, names[i]);
    if (!is_there || (i > 0 && names[i] == names[0])) {
      return absl::FailedPreconditionError(
          absl::StrFormat("--fit: expected %s row that states a time, one of %s; found \"%s\"", i > 0 ? "another" : "a",
                          absl::StrJoin(published, ", "), names[i]));
    }
  }
  return names;
}

absl::StatusOr<TableRow> Lowered(const tools::Row& row, const engine::Machine& machine, Networks& networks) {
  RETURN_IF_ERROR(tools::CheckDevices(machine, row.devices));
  TableRow lowered;
  lowered.row = row;
  ASSIGN_OR_RETURN(const layers::LayerGraph* graph, networks.Of(row));
  lowered.network = graph->name;
  ASSIGN_OR_RETURN(lowered.plan, tools::PlanOfRow(row, *graph, machine));
  ASSIGN_OR_RETURN(lowered.program, tools::LowerRow(row, *graph, machine, lowered.plan));
  return lowered;
}

void AddNote(const std::string& note, TableRow& row) {
  row.note = row.note.empty() ? note : absl::StrCat(row.note, "; ", note);
}

// The row of `file` lowered. Of the paper, where there is no file, nothing where the machine is too small for it, or the
// network or batch does not split so.
absl::StatusOr<std::optional<TableRow>> LoweredIfItCan(const tools::Row& row, const engine::Machine& machine,
                                                       Networks& networks, const std::string& file,
                                                       std::vector<std::string>& left_out) {
  absl::StatusOr<TableRow> lowered = Lowered(row, machine, networks);
  if (lowered.ok()) return *std::move(lowered);
  if (file.empty() && absl::IsFailedPrecondition(lowered.status())) {
    left_out.push_back(absl::StrFormat("row %s is left out: %s", row.name, lowered.status().message()));
    return std::nullopt;
  }
  if (file.empty()) return lowered.status();
  const bool is_wrong = absl::IsFailedPrecondition(lowered.status());  // what the file has
  return absl::Status(is_wrong ? absl::StatusCode::kInvalidArgument : lowered.status().code(),
                      absl::StrFormat("%s: row %s: %s", file, row.name, lowered.status().message()));
}

// What a fit changed, as far as the digits shown tell; nothing where the profile gave those rows as it was.
void SayFit(const std::vector<std::string>& names, double step_sec_before, const tools::Fit& fit) {
  const std::string step_sec = absl::StrFormat("%.4g", fit.step_sec), before = absl::StrFormat("%.4g", step_sec_before);
  const std::string factor = absl::StrFormat("%.4g", fit.kernel_factor);
  std::vector<std::string> changes;
  if (step_sec != before) changes.push_back(absl::StrFormat("step_sec %s s, was %s", step_sec, before));
  if (factor != "1") changes.push_back(absl::StrFormat("kernels take %s times as long", factor));
  if (changes.empty()) return;
  Say(absl::StrFormat("fitted to row %s: %s", absl::StrJoin(names, " and row "), absl::StrJoin(changes, "; ")));
}

// Fits the table's machine to the rows of those names.
absl::Status FitToRows(const std::vector<std::string>& names, const std::vector<tools::MeasuredStep>& steps, Table& table) {
  if (names.empty()) return absl::OkStatus();
  if (steps.size() != names.size()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--fit: expected rows that machine %s has devices for and whose network and batch split so, found %s",
        table.machine.Title(), absl::StrJoin(names, ", ")));
  }
  const double before = table.machine.step_sec.value;
  const bool rates_are_of_type = engine::DTypeOf(table.machine.precision) == steps[0].program->program.dtype;
  ASSIGN_OR_RETURN(table.fit, tools::FitTo(table.machine, steps));
  for (TableRow& row : table.rows) {
    row.is_fitted = std::find(names.begin(), names.end(), row.row.name) != names.end();
    if (row.is_fitted) AddNote("the profile was fitted to it", row);
  }
  SayFit(names, before, *table.fit);
  constexpr double kDoubtful = 0.5;  // twice as fast as a data sheet says
  if (rates_are_of_type && table.fit->kernel_factor < kDoubtful) {
    Warn(absl::StrFormat("kernels would be %.3g times as fast as the profile states: is a link too slow, or a unit wrong?",
                         1 / table.fit->kernel_factor));
  }
  return absl::OkStatus();
}

std::vector<tools::MeasuredStep> StepsOf(const std::vector<std::string>& names, const Table& table) {
  std::vector<tools::MeasuredStep> steps;
  for (const std::string& name : names) {
    for (const TableRow& row : table.rows) {
      if (row.row.name != name) continue;
      steps.push_back({name, row.row.model, row.row.global_batch, &row.program, row.row.published_step_sec,
                       /*is_as_named=*/row.row.batch_norm_samples == 0, row.row.has_f32_pixels});
    }
  }
  return steps;
}

// Gives rows that leave it to the planner its choice on the fitted machine; rows that were fitted to keep the plan of the
// fit.
absl::Status PlanOnFitted(Networks& networks, Table& table) {
  for (TableRow& row : table.rows) {
    if (row.row.plan != partition::kAutoPlan || row.is_fitted) continue;
    absl::StatusOr<TableRow> lowered = Lowered(row.row, table.machine, networks);
    if (!lowered.ok())
      return base::WithContext(lowered.status(), absl::StrCat("row ", row.row.name, " on the fitted profile"));
    TableRow planned = *std::move(lowered);
    row.plan = std::move(planned.plan);
    row.program = std::move(planned.program);
  }
  return absl::OkStatus();
}

// Warns of each network of the rows once.
absl::Status WarnOfFitOfRows(const engine::Machine& machine, Networks& networks, const Table& table) {
  std::set<std::string> said;
  for (const TableRow& row : table.rows) {
    ASSIGN_OR_RETURN(const layers::LayerGraph* graph, networks.Of(row.row));
    if (said.insert(graph->name).second) WarnOfFit(machine, *graph);
  }
  return absl::OkStatus();
}

// Simulates all rows on the profile, and on draws of it, each fitted anew.
absl::Status SimulateRows(const TableFlags& flags, const engine::Machine& profile,
                          const std::vector<tools::MeasuredStep>& steps, Table& table) {
  std::vector<const program::RepresentativeProgram*> programs;
  std::vector<double> seconds;
  for (TableRow& row : table.rows) {
    ASSIGN_OR_RETURN(engine::Simulation simulation, engine::Simulate(row.program, table.machine, {.trace = false}));
    row.simulated_sec = absl::ToDoubleSeconds(simulation.step);
    programs.push_back(&row.program);
    seconds.push_back(row.simulated_sec);
  }
  if (flags.draws.count == 0) return absl::OkStatus();
  const tools::Refit to_rows = [&](engine::Machine& drawn) { return tools::FitTo(drawn, steps).status(); };
  const tools::Refit refit = steps.empty() ? RefitOrWarn(profile) : to_rows;
  ASSIGN_OR_RETURN(const std::optional<tools::DrawnSteps> drawn,
                   DrawOrWarn(flags.draws, profile, programs, refit, steps.empty() ? "fitted_to" : "the rows of --fit"));
  if (!drawn.has_value()) return absl::OkStatus();
  table.draws = drawn->draws();
  for (size_t r = 0; r < table.rows.size(); ++r) table.rows[r].interval = drawn->Of(r);
  table.part_in_order = drawn->PartInOrder(seconds);
  return absl::OkStatus();
}

// Notes which rows a device of the machine has no memory for.
void NoteWhatDoesNotFit(Table& table) {
  const double memory = table.machine.memory_bytes.value;
  for (TableRow& row : table.rows) {
    double needed = 0;
    for (const tools::MemoryParts& parts : tools::MemoryOf(row.program.program)) {
      needed = std::max(needed, static_cast<double>(parts.total));
    }
    if (memory == 0 || needed <= memory) continue;
    const std::string note =
        absl::StrFormat("does not fit: a device needs %.0f MB and has %.0f MB", needed / 1e6, memory / 1e6);
    Say(absl::StrFormat("row %s %s", row.row.name, note));
    AddNote(note, row);
  }
}

// One that this machine has the devices for.
absl::Status MeasureRow(const TableFlags& flags, Networks& networks, TableRow& row) {
  const bool on_gpus = flags.backend.name == "cuda";
  const std::string where = on_gpus ? "" : absl::StrCat(" on ", base::Counted(row.row.devices, "core"));
  Say(absl::StrCat("measuring row \"", row.row.label, "\"", where));
  CountProgress progress(absl::StrCat("measuring row \"", row.row.label, "\"", where, ":"));
  ASSIGN_OR_RETURN(const layers::LayerGraph* graph, networks.Of(row.row));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags.backend, row.row.devices, /*threads_per_device=*/0));
  partition::LowerOptions lower = tools::LowerOptionsOf(row.row, *graph);
  lower.dtype = DTypeOf(flags.backend);
  if (const absl::Status fits = on_gpus ? absl::OkStatus() : tools::CheckHostMemory(*graph, row.plan, lower); !fits.ok()) {
    AddNote(absl::StrCat("not measured: ", fits.message()), row);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<tools::StepMeter> meter,
                   tools::StepMeter::Create(*graph, row.plan, lower, std::move(backend)));
  RETURN_IF_ERROR(meter->Run(kMeasuredSteps, absl::ZeroDuration(),
                             [&](int64_t done, int64_t all) { progress.Show(done, all, " steps"); }));
  row.measured_sec = engine::TrimmedMean(meter->step_seconds());
  return absl::OkStatus();
}

// Rows that this machine has cores for, when the profile is of this machine; on GPUs those that there are GPUs for.
absl::Status MeasureRows(const TableFlags& flags, Networks& networks, Table& table) {
  const bool on_gpus = flags.backend.name == "cuda";
  ASSIGN_OR_RETURN(tools::Gpus gpus, on_gpus ? FindGpus() : tools::Gpus{});
  const int most = on_gpus ? gpus.count : cpu::UsableCores();
  for (TableRow& row : table.rows) {
    if (!on_gpus && flags.profile.machine != "local") {
      AddNote("not measured: only --machine=local is", row);
      continue;
    }
    if (row.row.dtype != engine::DTypeOf(flags.backend.dtype)) {
      AddNote(absl::StrFormat("not measured: the row is in %s, --dtype is %s", engine::PrecisionOf(row.row.dtype),
                              flags.backend.dtype),
              row);
      continue;
    }
    if (row.row.devices > most) {
      AddNote(absl::StrFormat("not measured: %d devices on %s measure nothing", row.row.devices,
                              base::Counted(most, on_gpus ? "GPU" : "core")),
              row);
      continue;
    }
    RETURN_IF_ERROR(MeasureRow(flags, networks, row));
  }
  return absl::OkStatus();
}

// The profile for the element type of the rows, since --dtype is of what is measured here.
absl::StatusOr<engine::Machine> OpenMachineOfRows(TableFlags flags, const tools::RowTable& about) {
  const auto is_bf16 = [](const tools::Row& row) { return row.dtype == program::DType::kBF16; };
  const auto in_bf16 = std::count_if(about.rows.begin(), about.rows.end(), is_bf16);
  const bool all = in_bf16 == static_cast<int64_t>(about.rows.size());
  flags.backend.dtype = all ? "bf16" : "fp32";
  ASSIGN_OR_RETURN(engine::Machine machine, OpenMachine(flags.profile, flags.backend));
  flags.backend.dtype = "bf16";
  const std::string warning = in_bf16 > 0 && !all ? tools::KernelWarning(machine, KernelsOf(flags.backend)) : "";
  if (!warning.empty()) Warn(warning);
  return machine;
}

// Rows have an element type of their own, in which they are simulated. The default of --dtype was not asked for.
void WarnOfWhatIsNotSimulated(const BackendFlags& flags, const tools::RowTable& about) {
  if (flags.dtype == "fp32") return;
  const auto is_of_dtype = [&](const tools::Row& row) { return row.dtype == engine::DTypeOf(flags.dtype); };
  if (!absl::c_any_of(about.rows, is_of_dtype)) {
    Warn(absl::StrFormat(
        "--dtype=%s is of what is measured here, and no row is in it: rows are simulated in their own types", flags.dtype));
  }
}

absl::StatusOr<Table> MakeTable(TableFlags flags) {
  ASSIGN_OR_RETURN(tools::RowTable about, RowsOf(flags));
  WarnOfWhatIsNotSimulated(flags.backend, about);
  const bool is_of_file = flags.profile.machine.empty() && !about.machine.empty() && !flags.rows.empty();
  if (flags.profile.machine.empty()) flags.profile.machine = about.machine.empty() ? "local" : about.machine;
  absl::StatusOr<engine::Machine> opened = OpenMachineOfRows(flags, about);
  if (!opened.ok() && is_of_file) {
    const bool is_unknown = absl::IsFailedPrecondition(opened.status());  // its name, which the file has
    return absl::Status(is_unknown ? absl::StatusCode::kInvalidArgument : opened.status().code(),
                        absl::StrFormat("%s: machine: %s", flags.rows, opened.status().message()));
  }
  ASSIGN_OR_RETURN(engine::Machine machine, std::move(opened));
  if (flags.rows.empty()) ForgetTimesOfOthers(flags, machine, about);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, RowsToFit(flags, about));
  if (!flags.out.empty() && names.empty()) {
    return absl::FailedPreconditionError("--out: expected --fit, which makes the profile that is written");
  }
  Table table{.about = std::move(about), .machine = machine, .is_papers = flags.rows.empty()};
  Networks networks;
  std::vector<std::string> left_out;
  for (const tools::Row& row : table.about.rows) {
    ASSIGN_OR_RETURN(std::optional<TableRow> lowered, LoweredIfItCan(row, machine, networks, flags.rows, left_out));
    if (lowered.has_value()) table.rows.push_back(*std::move(lowered));
  }
  if (table.rows.empty()) return Lowered(table.about.rows[0], machine, networks).status();  // why not
  for (const std::string& row : left_out) Say(row);
  if (names.empty()) RETURN_IF_ERROR(WarnOfFitOfRows(machine, networks, table));
  const std::vector<tools::MeasuredStep> steps = StepsOf(names, table);
  RETURN_IF_ERROR(FieldAsFlag(FitToRows(names, steps, table), "fit"));
  if (table.fit.has_value()) RETURN_IF_ERROR(PlanOnFitted(networks, table));
  RETURN_IF_ERROR(SimulateRows(flags, machine, steps, table));
  RETURN_IF_ERROR(MeasureRows(flags, networks, table));
  NoteWhatDoesNotFit(table);
  return table;
}

// --out: the profile as it was fitted.
absl::Status WriteProfile(const TableFlags& flags, const Table& table) {
  if (flags.out.empty()) return absl::OkStatus();
  engine::Machine fitted = table.machine;
  engine::LimitRates(fitted);
  const std::string profile = engine::MachineToJson(fitted);
  const absl::Status readable = engine::MachineFromJson(profile).status();
  if (!readable.ok()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--out: the fit makes a profile that no machine has: %s; is a unit wrong in the row or in machine %s?",
        readable.message(), table.machine.Title()));
  }
  RETURN_IF_ERROR(engine::ReplaceFile(flags.out, profile));
  Say(absl::StrCat("fitted profile: ", flags.out));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const layers::LayerGraph*> Networks::Of(const tools::Row& row) {
  const std::pair key(row.model, row.batch_norm_samples);
  const auto found = graphs_.find(key);
  if (found != graphs_.end()) return &found->second;
  NetworkFlags flags{.model = row.model};
  if (row.batch_norm_samples > 0) flags.batch_norm = absl::StrCat("ghost:", row.batch_norm_samples);
  ASSIGN_OR_RETURN(layers::LayerGraph graph, BuildNetwork(flags));
  return &graphs_.emplace(key, std::move(graph)).first->second;
}

namespace {

absl::Status RunTable(const TableFlags& flags) {
  RETURN_IF_ERROR(CheckBackend(flags.backend));
  const std::vector<NamedFile> read = {{"--config", flags.config}, {"--rows", flags.rows}};
  const PlotFiles plots = PlotFilesOf(flags);
  const std::vector<NamedFile> written = {{"--out", flags.out, FileKind::kProfile},
                                          {"--plots", plots.speedup, FileKind::kDrawing},
                                          {"--plots", plots.error_against_time, FileKind::kDrawing}};
  RETURN_IF_ERROR(CheckWrittenFiles(written, read));  // a profile may be fitted in place
  std::vector<NamedFile> others = read;
  others.insert(others.end(), written.begin(), written.end());
  others.push_back({"--machine", IfFile(flags.profile.machine)});
  RETURN_IF_ERROR(CheckWrittenFiles({{"--report", flags.report, FileKind::kPage}}, others));
  ASSIGN_OR_RETURN(Table table, MakeTable(flags));
  RETURN_IF_ERROR(WriteProfile(flags, table));
  RETURN_IF_ERROR(WriteTableReport(flags, table));
  if (!flags.json) PrintTable(table);  // the second plot trains for minutes
  RETURN_IF_ERROR(WritePlots(flags, table));
  if (flags.json) PrintJson(TableJson(table));
  return absl::OkStatus();
}

}  // namespace

SubCommand AddTable(CLI::App& app) {
  CLI::App* table =
      app.add_subcommand("table", "The 1/2/4-device table of the paper: paper, simulated, measured, side by side.");
  const auto flags = std::make_shared<TableFlags>();
  CLI::Option* model =
      table->add_option("--model", flags->model, "network of the zoo, or a file of one (default: alexnet2012)")
          ->type_name("MODEL");
  CLI::Option* batch =
      table->add_option("--batch", flags->batch, "global batch (default: 256)")->check(CLI::Range(int64_t{4}, kMostBatch));
  table
      ->add_option("--rows", flags->rows,
                   "a table of one's own instead, JSON: rows with model, batch, devices, plan and time")
      ->type_name("FILE")
      ->excludes(model)
      ->excludes(batch);
  table
      ->add_option("--fit", flags->fit,
                   "one or two rows whose times the profile is changed to give, so that the others can be compared "
                   "(default: 1, the paper's row of one GPU, where it is on that machine)")
      ->delimiter(',')
      ->expected(1, 2);
  table->add_option("--out", flags->out, "where to write the profile as --fit made it")->type_name("FILE");
  AddProfileFlag(*table, flags->profile);
  CLI::Option* machine = table->get_option("--machine");
  machine->description(absl::StrCat(machine->get_description(),
                                    " (default: titan-2013; with --rows the machine that the file names, or local)"));
  AddMeasuringFlags(*table, flags->backend);
  AddDrawFlags(*table, flags->draws);
  table->add_option("--plots", flags->plots, "writes the table's plots, SVG files whose names begin with this")
      ->type_name("FILE");
  table->add_option("--curve-steps", flags->curve_steps, "steps of the training run whose error is plotted against time")
      ->check(CLI::Range(int64_t{20}, int64_t{1} << 30))
      ->capture_default_str();
  AddReportFlag(*table, flags->report);
  AddJsonFlag(*table, flags->json);
  AddConfigFlag(*table, flags->config);
  table->footer(
      "Examples:\n  colonnade table --plots=paper\n  colonnade table --machine=local --batch=32 --json\n"
      "  colonnade table --rows=mine.json --machine=dgx1-v100 --fit=1-gpu --out=fitted.json\n"
      "  colonnade table --machine=hgx-h100 --backend=cuda --dtype=tf32");
  return {table, [=] {
            flags->resolved = ResolvedFlags(*table);
            return RunTable(*flags);
          }};
}

}  // namespace colonnade::cli

#include "tests/program/mutate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "program/meetings.h"
#include "program/text/fields.h"

namespace colonnade::program {
namespace {

// Puts the tasks old[0], old[1], … in this order; waits follow the first copy of what they name, and go with it.
void Reorder(Program& program, const std::vector<int>& old) {
  std::vector<int> new_id(program.tasks.size(), -1);
  for (size_t i = 0; i < old.size(); ++i) {
    if (new_id[old[i]] < 0) new_id[old[i]] = static_cast<int>(i);
  }
  std::vector<Task> tasks;
  for (size_t i = 0; i < old.size(); ++i) {
    Task& task = tasks.emplace_back(program.tasks[old[i]]);
    task.id.value = static_cast<int32_t>(i);
    const auto follow = [&](auto& waits) {
      const auto gone = [&](TaskId wait) { return new_id[wait.value] < 0; };
      waits.erase(std::remove_if(waits.begin(), waits.end(), gone), waits.end());
      for (TaskId& wait : waits) wait.value = new_id[wait.value];
    };
    follow(task.waits);
    follow(task.waits_previous);
  }
  program.tasks = std::move(tasks);
}

std::vector<int> Sequence(const Program& program) {
  std::vector<int> order(program.tasks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  return order;
}

std::vector<std::vector<Piece>*> PiecesOf(Program& program) {
  std::vector<std::vector<Piece>*> all;
  for (Parameter& p : program.parameters) {
    for (std::vector<Piece>& pieces : p.state) all.push_back(&pieces);
  }
  for (Input& input : program.inputs) all.push_back(&input.pieces);
  for (Output& output : program.outputs) all.push_back(&output.pieces);
  std::erase_if(all, [](const std::vector<Piece>* pieces) { return pieces->empty(); });
  return all;
}

}  // namespace

int64_t Mutator::Other(int64_t value) {
  const int64_t others[] = {value + 1, value - 1, value + 1, value - 1, 0, 1, value * 2, value / 2, int64_t{1} << 40};
  return others[Any(std::size(others))];
}

void Mutator::Change(Program& program) {
  using Way = void (Mutator::*)(Program&);
  static constexpr Way kWays[] = {
      &Mutator::ChangeOperand, &Mutator::SwapOperands,      &Mutator::ChangeBox,   &Mutator::ChangeBoxesAlike,
      &Mutator::ChangeAccess,  &Mutator::ChangeLane,        &Mutator::ChangeWaits, &Mutator::ChangeAttribute,
      &Mutator::ChangeMeeting, &Mutator::ChangeType,        &Mutator::ChangeShape, &Mutator::ChangeStorage,
      &Mutator::ChangeBucket,  &Mutator::ChangeLifetime,    &Mutator::ChangePiece, &Mutator::ChangeDeclaration,
      &Mutator::MergeOperands, &Mutator::ChangeLayout,      &Mutator::DropTask,    &Mutator::RepeatTask,
      &Mutator::MoveTask,      &Mutator::MeetInAnotherOrder};
  for (size_t count = OneIn(2) ? 1 : 1 + Any(3); count > 0 && !program.tasks.empty(); --count)
    (this->*AnyOf(kWays))(program);
}

// Another buffer of the device, as a rule one of equal shape and type.
void Mutator::ChangeOperand(Program& program) {
  Task& task = AnyOf(program.tasks);
  if (task.uses.empty()) return;
  BufferUse& use = AnyOf(task.uses);
  const Buffer& from = program.buffer(use.buffer);
  const bool alike = !OneIn(8);
  std::vector<BufferId> others;
  for (const Buffer& buffer : program.buffers) {
    if (!alike || (buffer.device == from.device && buffer.shape == from.shape && buffer.dtype == from.dtype)) {
      others.push_back(buffer.id);
    }
  }
  use.buffer = AnyOf(others);
}

void Mutator::SwapOperands(Program& program) {
  Task& task = AnyOf(program.tasks);
  if (task.uses.empty()) return;
  BufferUse &a = AnyOf(task.uses), &b = AnyOf(task.uses);
  std::swap(a.buffer, b.buffer);
  std::swap(a.region, b.region);
}

// Where a task writes a buffer of the shape of one that it reads: it and those after it use that one instead, as if the task
// could work in place.
void Mutator::MergeOperands(Program& program) {
  std::vector<std::pair<const Task*, std::pair<BufferId, BufferId>>> found;  // read, written
  for (const Task& task : program.tasks) {
    for (const BufferUse& from : task.uses) {
      for (const BufferUse& to : task.uses) {
        const Buffer &read = program.buffer(from.buffer), &written = program.buffer(to.buffer);
        const bool alike = read.shape == written.shape && read.dtype == written.dtype;
        if (alike && from.access == Access::kRead && to.access == Access::kWrite && read.id != written.id) {
          found.push_back({&task, {read.id, written.id}});
        }
      }
    }
  }
  if (found.empty()) return;
  const auto [task, ids] = AnyOf(found);
  for (size_t i = task->id.value; i < program.tasks.size(); ++i) {
    for (BufferUse& use : program.tasks[i].uses) {
      if (use.buffer == ids.second) use.buffer = ids.first;
    }
  }
}

void Mutator::ShiftBox(Region& region, const Shape& inside) {
  if (region.size.empty()) return;
  const size_t d = Any(region.size.size());
  switch (Any(4)) {
    case 0:
      region.size[d] = (region.size[d] + 1) / 2;
      return;
    case 1:
      region.offset[d] += d < inside.size() ? inside[d] - region.size[d] - region.offset[d] : 1;
      return;
    case 2:
      region.offset[d] = Other(region.offset[d]);
      return;
    default:
      region.size[d] = Other(region.size[d]);
  }
}

void Mutator::ChangeBox(Program& program) {
  Task& task = AnyOf(program.tasks);
  if (task.uses.empty()) return;
  BufferUse& use = AnyOf(task.uses);
  ShiftBox(use.region, program.buffer(use.buffer).shape);
}

// Halves or shifts along one dimension the boxes of all sides and operands that have the same extent there.
void Mutator::ChangeBoxesAlike(Program& program) {
  const Meetings meetings(program);
  const Task& task = AnyOf(program.tasks);
  if (task.uses.empty() || AnyOf(task.uses).region.size.empty()) return;
  const size_t d = Any(task.uses[0].region.size.size() + 1);
  if (d >= task.uses[0].region.size.size()) return;
  const int64_t extent = task.uses[0].region.size[d], size = (extent + 1) / 2, offset = OneIn(2) ? 0 : extent - size;
  for (TaskId side : meetings.SidesOf(task.id)) {
    for (BufferUse& use : program.tasks[side.value].uses) {
      if (d >= use.region.size.size() || use.region.size[d] != extent) continue;
      use.region.offset[d] += offset;
      use.region.size[d] = size;
    }
  }
}

void Mutator::ChangeAccess(Program& program) {
  Task& task = AnyOf(program.tasks);
  if (!task.uses.empty()) AnyOf(task.uses).access = static_cast<Access>(Any(3));
}

void Mutator::ChangeLane(Program& program) {
  const auto lane = static_cast<Lane>(Any(kLaneCount));
  const Task& task = AnyOf(program.tasks);
  const bool all = OneIn(4);  // of one device's tasks that share a lane
  const Lane from = task.lane;
  const int device = task.device;
  const int32_t id = task.id.value;
  for (Task& other : program.tasks) {
    if (other.id.value == id || (all && other.device == device && other.lane == from)) other.lane = lane;
  }
}

void Mutator::ChangeWaits(Program& program) {
  Task& task = AnyOf(program.tasks);
  const TaskId other{static_cast<int32_t>(Any(program.tasks.size()))};
  switch (Any(4)) {
    case 0:
      task.waits.clear();
      return;
    case 1:
      task.waits_previous.clear();
      return;
    case 2:
      task.waits.push_back(other);
      return;
    default:
      task.waits_previous.push_back(other);
  }
}

void Mutator::ChangeAttribute(Program& program) {
  Task& task = AnyOf(program.tasks);
  size_t count = 0;
  auto counter = [&](const char*, auto&) { ++count; };
  std::visit(VisitFields{counter}, task.body);
  if (count == 0) return;
  size_t left = Any(count);
  auto change = [&](const char*, auto& value) {
    using T = std::decay_t<decltype(value)>;
    if (left-- != 0) return;
    if constexpr (std::is_same_v<T, bool>) {
      value = !value;
    } else if constexpr (std::is_same_v<T, double>) {
      const double others[] = {0, 1, -value, value / 2, 1e30};
      value = AnyOf(others);
    } else if constexpr (std::is_same_v<T, SgdForm>) {
      value = AnyOf(kSgdForms);
    } else if constexpr (std::is_same_v<T, AdamW>) {
      value.beta2 = -value.beta2;
    } else if constexpr (std::is_same_v<T, Factors>) {
      value.push_back(0.5);
    } else if constexpr (std::is_same_v<T, Shape>) {
      if (!value.empty()) AnyOf(value) = Other(value[0]);
    } else if constexpr (std::is_same_v<T, Window>) {
      int64_t* sizes[] = {&value.size_h,  &value.size_w,   &value.stride_h,   &value.stride_w,
                          &value.pad_top, &value.pad_left, &value.pad_bottom, &value.pad_right};
      int64_t* size = AnyOf(sizes);
      *size = Other(*size);
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(Other(value));
    }
  };
  std::visit(VisitFields{change}, task.body);
}

// The same change to all sides of a collective, or to a message's numbers.
void Mutator::ChangeMeeting(Program& program) {
  const Meetings meetings(program);
  if (meetings.all().empty()) return;
  const Meeting& meeting = AnyOf(meetings.all());
  const size_t way = Any(6);
  const auto kind = static_cast<CollectiveKind>(Any(6));
  const int number = static_cast<int>(Any(3));
  for (TaskId side : meeting.sides) {
    Task& task = program.tasks[side.value];
    if (auto* collective = std::get_if<Collective>(&task.body)) {
      if (way == 0) collective->kind = kind;
      if (way == 1) collective->root = number;
      if (way == 2) collective->dim_to = number;
      if (way == 3) collective->dim_from = number;
      if (way == 4) collective->instance += 1;
      if (way == 5 && number < static_cast<int>(program.groups.size())) collective->group = number;
    } else {
      Exchange& exchange = std::get<Exchange>(task.body);
      if (way == 0) exchange.message += number;
      if (way >= 1 && way <= 3 && task.uses.size() == 2) std::swap(task.uses[0].buffer, task.uses[1].buffer);
      if (way >= 4 && task.uses.size() == 2) task.uses[1].buffer = task.uses[0].buffer;
    }
  }
}

void Mutator::ChangeType(Program& program) {
  const DType types[] = {DType::kF32, DType::kF64, DType::kI32, DType::kU8, DType::kBF16};
  const DType from = AnyOf(program.buffers).dtype, to = AnyOf(types);
  if (!OneIn(2)) {
    AnyOf(program.buffers).dtype = to;
    return;
  }
  for (Buffer& buffer : program.buffers) {
    if (buffer.dtype == from) buffer.dtype = to;
  }
}

void Mutator::ChangeShape(Program& program) {
  Buffer& buffer = AnyOf(program.buffers);
  if (buffer.shape.empty()) return;
  const Shape before = buffer.shape;
  AnyOf(buffer.shape) = Other(buffer.shape[0]);
  for (Task& task : program.tasks) {
    for (BufferUse& use : task.uses) {
      if (use.buffer == buffer.id && use.region == Region::Whole(before)) use.region = Region::Whole(buffer.shape);
    }
  }
}

// Memory of its own, or a member of some bucket.
void Mutator::ChangeStorage(Program& program) {
  Buffer& buffer = AnyOf(program.buffers);
  if (OneIn(3)) {
    buffer.storage = Root{};
    return;
  }
  std::vector<BufferId> buckets;
  for (const Buffer& other : program.buffers) {
    if (other.device == buffer.device && std::holds_alternative<Bucket>(other.storage)) buckets.push_back(other.id);
  }
  if (!buckets.empty()) buffer.storage = BucketMember{AnyOf(buckets), static_cast<int>(Any(2))};
}

void Mutator::ChangeLifetime(Program& program) {
  Buffer& buffer = AnyOf(program.buffers);
  buffer.lifetime = buffer.lifetime == Lifetime::kStep ? Lifetime::kPersistent : Lifetime::kStep;
  buffer.name += "'";  // persistent names are told apart
}

void Mutator::ChangeLayout(Program& program) {
  AnyOf(program.buffers).layout_as.value = static_cast<int32_t>(Any(program.buffers.size()));
}

void Mutator::ChangeBucket(Program& program) {
  std::vector<Bucket*> buckets;
  for (Buffer& buffer : program.buffers) {
    if (auto* bucket = std::get_if<Bucket>(&buffer.storage)) buckets.push_back(bucket);
  }
  if (buckets.empty()) return;
  Bucket& bucket = *AnyOf(buckets);
  int64_t* numbers[] = {&bucket.parts, &bucket.first_part, &bucket.held_parts};
  int64_t* number = AnyOf(numbers);
  if (OneIn(3) && bucket.members.size() > 1) {
    std::swap(AnyOf(bucket.members), AnyOf(bucket.members));
  } else {
    *number = Other(*number);
  }
}

void Mutator::ChangePiece(Program& program) {
  const std::vector<std::vector<Piece>*> all = PiecesOf(program);
  if (all.empty()) return;
  std::vector<Piece>& pieces = *AnyOf(all);
  switch (Any(4)) {
    case 0:
      ShiftBox(AnyOf(pieces).region, {});
      return;
    case 1:
      pieces.push_back(AnyOf(pieces));
      return;
    case 2:
      AnyOf(pieces).buffer.value = static_cast<int32_t>(Any(program.buffers.size()));
      return;
    default:
      pieces.pop_back();
  }
}

void Mutator::ChangeDeclaration(Program& program) {
  switch (Any(6)) {
    case 0:
      if (!program.parameters.empty()) program.parameters.pop_back();
      return;
    case 1:
      if (!program.parameters.empty())
        program.parameters.push_back(program.parameters[0]), program.parameters.back().name = "x";
      return;
    case 2:
      if (!program.inputs.empty()) AnyOf(program.inputs).name = AnyOf(program.inputs).name;
      return;
    case 3:
      if (!program.inputs.empty()) AnyOf(program.inputs).host_dtype = static_cast<DType>(Any(5));
      return;
    case 4:
      if (!program.outputs.empty()) AnyOf(program.outputs).kind = static_cast<Output::Kind>(Any(3));
      return;
    default:
      if (!program.inputs.empty()) AnyOf(program.inputs).shape.push_back(1);
  }
}

void Mutator::DropTask(Program& program) {
  std::vector<int> order = Sequence(program);
  order.erase(order.begin() + static_cast<int64_t>(Any(order.size())));
  Reorder(program, order);
}

void Mutator::RepeatTask(Program& program) {
  std::vector<int> order = Sequence(program);
  const int task = AnyOf(order);
  order.insert(order.begin() + static_cast<int64_t>(Any(order.size() + 1)), task);
  Reorder(program, order);
}

void Mutator::MoveTask(Program& program) {
  std::vector<int> order = Sequence(program);
  const size_t from = Any(order.size()), to = OneIn(2) ? Any(order.size()) : std::min(from + 1, order.size() - 1);
  const int task = order[from];
  order.erase(order.begin() + static_cast<int64_t>(from));
  order.insert(order.begin() + static_cast<int64_t>(to), task);
  Reorder(program, order);
}

// Of two meetings of one device, one behind the other on a lane, the second comes first, and the other devices keep their
// order. Where both are collectives of one group, whose order has a rule of its own, the second gets a group for itself.
void Mutator::MeetInAnotherOrder(Program& program) {
  const Meetings meetings(program);
  std::vector<std::pair<TaskId, TaskId>> neighbours;
  for (int device = 0; device < program.device_count; ++device) {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      std::vector<TaskId> tasks = LaneOrder(program, device, static_cast<Lane>(lane));
      std::erase_if(tasks, [&](TaskId task) { return meetings.IndexOf(task) < 0; });
      for (size_t i = 1; i < tasks.size(); ++i) neighbours.push_back({tasks[i - 1], tasks[i]});
    }
  }
  if (neighbours.empty()) return;
  const auto [first, second] = AnyOf(neighbours);
  const auto* one = std::get_if<Collective>(&program.task(first).body);
  const auto* other = std::get_if<Collective>(&program.task(second).body);
  if (one != nullptr && other != nullptr && one->group == other->group) {
    program.groups.push_back(program.groups[other->group]);
    for (TaskId side : meetings.SidesOf(second)) {
      std::get<Collective>(program.tasks[side.value].body).group = static_cast<int>(program.groups.size()) - 1;
    }
  }
  std::vector<int> order = Sequence(program);
  order.erase(order.begin() + second.value);
  order.insert(order.begin() + first.value, second.value);
  Reorder(program, order);
  for (Task& task : program.tasks) {  // what now comes later can be waited for no more
    const auto later = [&](TaskId wait) { return wait >= task.id; };
    task.waits.erase(std::remove_if(task.waits.begin(), task.waits.end(), later), task.waits.end());
  }
}

std::string Mutator::Change(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::string &line = AnyOf(lines), &other = AnyOf(lines);
  if (OneIn(6)) {
    const std::string copy = other;
    switch (Any(3)) {
      case 0:
        std::swap(line, other);
        break;
      case 1:
        line.clear();
        break;
      default:
        lines.insert(lines.begin() + static_cast<int64_t>(Any(lines.size())), copy);
    }
    return absl::StrJoin(lines, "\n");
  }
  // Tokens: runs of letters and digits; what stands between them stays.
  const auto tokens = [](const std::string& in) {
    std::vector<std::pair<size_t, size_t>> found;  // begin, size
    for (size_t i = 0; i < in.size(); ++i) {
      const bool part = absl::ascii_isalnum(static_cast<unsigned char>(in[i])) || in[i] == '_';
      if (part && (found.empty() || found.back().first + found.back().second < i)) found.push_back({i, 0});
      if (part) ++found.back().second;
    }
    return found;
  };
  const auto mine = tokens(line), theirs = tokens(other);
  if (mine.empty() || theirs.empty()) return text;
  const auto [begin, size] = AnyOf(mine);
  const auto [from, length] = AnyOf(theirs);
  line.replace(begin, size, std::string(other.substr(from, length)));
  return absl::StrJoin(lines, "\n");
}

}  // namespace colonnade::program

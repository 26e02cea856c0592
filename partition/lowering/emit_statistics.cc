// Sums over devices that only state is updated by: the buckets in which they lie, and their reductions.

#include "partition/lowering/emission.h"
#include "partition/task_work.h"

namespace colonnade::partition {

void EmitAllReduce(Emission& e, const std::function<Group(int)>& group_of, const ByPosition& buffers, int64_t bytes,
                   const program::Provenance& from) {
  constexpr auto kKind = program::CollectiveKind::kAllReduce;
  e.builder.ForGroups(group_of, [&](const Group& group) {
    const auto member_of = [&](size_t m) -> program::Member {
      return {.uses = {e.builder.Accumulate(buffers[group[m]])},
              .work = {.bytes_read = bytes,
                       .bytes_written = bytes,
                       .bytes_sent = BytesSent(kKind, bytes, static_cast<int64_t>(group.size()))}};
    };
    e.builder.AddCollective(group, {.kind = kKind}, member_of, from);
  });
}

void PlaceStatistics(Emission& e) {
  for (const StatisticsBucket& bucket : e.lowering.statistics) {
    ByPosition& made = e.statistics.emplace_back(e.builder.NoBuffers());
    for (int p : e.builder.positions()) {
      program::Builder::BucketSpec spec{
          .device = e.builder.device_at(p), .name = bucket.name, .dtype = *e.lowering.value(bucket.values[0]).dtype};
      for (ValueId id : bucket.values) {
        const Value& value = e.lowering.value(id);
        spec.member_names.push_back(value.name);
        spec.member_shapes.push_back(LocalShape(e.builder.mesh(), value.placement, value.shape));
      }
      made[p] = e.builder.program().AddBucket(spec);
      for (size_t member = 0; member < bucket.values.size(); ++member) {
        e.values.Place(bucket.values[member], p, e.builder.MemberOf(made[p], static_cast<int>(member)));
      }
    }
  }
}

void Emit(Emission& e, const Action& action, const ReduceStatistics& reduce) {
  const StatisticsBucket& bucket = e.lowering.statistics[reduce.bucket];
  e.values.MakeOutputs(action);
  int64_t bytes = 0;
  for (ValueId id : bucket.values) {
    bytes += e.lowering.LocalElements(id) * program::SizeInBytes(*e.lowering.value(id).dtype);
  }
  EmitAllReduce(
      e, [&](int p) { return e.builder.mesh().AxesGroup(p, bucket.axes); }, e.statistics[reduce.bucket], bytes,
      action.provenance);
}

}  // namespace colonnade::partition

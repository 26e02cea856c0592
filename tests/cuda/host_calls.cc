#include "host_calls.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "run_kernel.h"

namespace colonnade::cuda {
namespace {

void Run(const Kernel& kernel) { RunKernelOnHost(kernel); }
void Run(const CopyBytes& copy) {
  // CUDA's copies are of areas that do not overlap.
  const char *to = static_cast<const char*>(copy.to), *from = static_cast<const char*>(copy.from);
  if (to < from + copy.bytes && from < to + copy.bytes) ADD_FAILURE() << "a copy of " << copy.bytes << " bytes overlaps";
  if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
}
void Run(const ClearBytes& clear) { std::memset(clear.data, 0, clear.bytes); }

double Get(const void* data, program::DType dtype, int64_t i) {
  if (dtype == program::DType::kBF16) return static_cast<const program::BFloat16*>(data)[i];
  return static_cast<const float*>(data)[i];
}
void Put(double value, void* data, program::DType dtype, int64_t i) {
  if (dtype == program::DType::kBF16) {
    static_cast<program::BFloat16*>(data)[i] = program::BFloat16(static_cast<float>(value));
  } else {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

// Calls f(x index, filter index, y index) for every product of a convolution.
template <class F>
void ForEachProduct(const Convolution& c, F f) {
  const program::Window& w = c.window;
  const int64_t inputs = c.c / c.groups, outputs = c.k / c.groups;
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t k = 0; k < c.k; ++k) {
      for (int64_t p = 0; p < c.p; ++p) {
        for (int64_t q = 0; q < c.q; ++q) {
          for (int64_t r = 0; r < w.size_h; ++r) {
            for (int64_t s = 0; s < w.size_w; ++s) {
              const int64_t h = p * w.stride_h + r - w.pad_top, column = q * w.stride_w + s - w.pad_left;
              if (h < 0 || h >= c.h || column < 0 || column >= c.w) continue;
              for (int64_t i = 0; i < inputs; ++i) {
                f(((n * c.h + h) * c.w + column) * c.c + k / outputs * inputs + i,
                  ((k * w.size_h + r) * w.size_w + s) * inputs + i, ((n * c.p + p) * c.q + q) * c.k + k);
              }
            }
          }
        }
      }
    }
  }
}

void Run(const Convolution& c) {
  const int64_t x_count = c.n * c.h * c.w * c.c, y_count = c.n * c.p * c.q * c.k;
  const int64_t w_count = c.k * c.window.size_h * c.window.size_w * (c.c / c.groups);
  const auto write = [&](const std::vector<double>& sums, void* to) {
    for (size_t i = 0; i < sums.size(); ++i)
      Put(sums[i], to, c.writes_f32 ? program::DType::kF32 : c.dtype, static_cast<int64_t>(i));
  };
  const auto read = [&](const void* from, int64_t i) { return Get(from, c.dtype, i); };
  switch (c.direction) {
    case Convolution::Direction::kForward: {
      std::vector<double> y(y_count);
      for (int64_t i = 0; i < y_count && c.bias != nullptr; ++i) y[i] = read(c.bias, i % c.k);
      ForEachProduct(c, [&](int64_t ix, int64_t iw, int64_t iy) { y[iy] += read(c.x, ix) * read(c.filter, iw); });
      for (double& value : y) value = c.relu ? std::max(value, 0.0) : value;
      return write(y, c.y);
    }
    case Convolution::Direction::kBackwardData: {
      std::vector<double> x(x_count);
      ForEachProduct(c, [&](int64_t ix, int64_t iw, int64_t iy) { x[ix] += read(c.y, iy) * read(c.filter, iw); });
      return write(x, c.x);
    }
    case Convolution::Direction::kBackwardWeights: {
      std::vector<double> w(w_count);
      ForEachProduct(c, [&](int64_t ix, int64_t iw, int64_t iy) { w[iw] += read(c.x, ix) * read(c.y, iy); });
      return write(w, c.filter);
    }
  }
}

void Run(const MatrixProduct& p) {
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.columns; ++j) {
      double sum = p.bias != nullptr ? Get(p.bias, p.c_dtype, j) : 0;
      for (int64_t d = 0; d < p.depth; ++d) {
        const double a = Get(p.a, p.dtype, p.transpose_a ? d * p.lda + i : i * p.lda + d);
        const double b = Get(p.b, p.dtype, p.transpose_b ? j * p.ldb + d : d * p.ldb + j);
        sum += a * b;
      }
      Put(p.relu ? std::max(sum, 0.0) : sum, p.c, p.c_dtype, i * p.ldc + j);
    }
  }
}

void Run(const RankCall&) {}  // when its group ends

template <class T>
void RunCollective(const std::vector<RankCall>& ranks) {
  using program::CollectiveKind;
  const RankCall& first = ranks[0];
  const auto count = static_cast<size_t>(first.count), all = count * ranks.size();
  const auto from = [&](size_t rank) { return static_cast<const T*>(ranks[rank].from); };
  // Results before any is written: operands may be results.
  std::vector<typename AccumulatorOf<T>::Type> result(
      first.kind == CollectiveKind::kAllGather || first.kind == CollectiveKind::kReduceScatter ? all : count);
  if (first.kind == CollectiveKind::kAllGather) {
    for (size_t r = 0; r < ranks.size(); ++r) std::copy(from(r), from(r) + count, result.begin() + r * count);
  } else if (first.kind == CollectiveKind::kBroadcast) {
    std::copy(from(first.root), from(first.root) + count, result.begin());
  } else {
    // Backwards, since NCCL's order is its own.
    for (size_t r = ranks.size(); r-- > 0;) {
      for (size_t i = 0; i < result.size(); ++i) result[i] += from(r)[i];
    }
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (first.kind == CollectiveKind::kReduce && static_cast<int>(r) != first.root) continue;
    const bool part = first.kind == CollectiveKind::kReduceScatter;
    const auto begin = result.begin() + (part ? r * count : 0);
    std::transform(begin, part ? begin + count : result.end(), static_cast<T*>(ranks[r].to),
                   [](auto value) { return static_cast<T>(value); });
  }
}

// The memory that a kernel between devices touches. By their types, so that a member of another name does not compile.
std::vector<const void*> AddressesIn(const CopyElements& copy) { return {copy.x, copy.y}; }
template <class T, int lanes>
std::vector<const void*> AddressesIn(const SumElements<T, lanes>& sum) {
  std::vector<const void*> addresses(sum.x, sum.x + sum.terms);
  addresses.insert(addresses.end(), {sum.y, sum.partial});
  return addresses;
}
template <class Other>
std::vector<const void*> AddressesIn(const Other&) {
  return {};
}

std::vector<const void*> AddressesOf(const Call& call) {
  const auto* kernel = std::get_if<Kernel>(&call);
  if (kernel == nullptr) return {};
  return std::visit([](const auto& k) { return AddressesIn(k); }, *kernel);
}

}  // namespace

HostCalls::~HostCalls() {
  EXPECT_EQ(events_alive_, 0);
  EXPECT_EQ(allocated_bytes_, 0);
  for (const Block& block : blocks_) {
    if (options_.has_memory) std::free(block.begin);
  }
}

absl::StatusOr<void*> HostCalls::Allocate(int gpu, int64_t bytes) {
  if (allocations_++ == options_.fail_allocation_at) return absl::ResourceExhaustedError("cudaMalloc: out of memory");
  Block block{nullptr, bytes, gpu};
  if (options_.has_memory) {
    block.begin = static_cast<char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    std::memset(block.begin, 0, bytes);
  } else {
    if (next_address_ == nullptr) next_address_ = reinterpret_cast<char*>(uintptr_t{1} << 41);
    block.begin = next_address_;
    next_address_ += (bytes + 255) / 256 * 256;
  }
  blocks_.push_back(block);
  allocated_bytes_ += bytes;
  return block.begin;
}

void HostCalls::Free(int, void* data) {
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.begin == data; });
  allocated_bytes_ -= block->bytes;
  if (options_.has_memory) std::free(data);
  blocks_.erase(block);
}

absl::StatusOr<void*> HostCalls::AllocateHost(int64_t bytes) { return std::calloc(1, bytes); }
void HostCalls::FreeHost(void* host) { std::free(host); }

absl::StatusOr<Stream> HostCalls::MakeStream(int gpu, bool goes_first) {
  goes_first_.push_back(goes_first);
  return Stream{gpu, reinterpret_cast<void*>(static_cast<intptr_t>(stream_count_++))};
}

absl::StatusOr<Event> HostCalls::MakeEvent(int gpu, bool) {
  ++events_alive_;
  gpu_of_event_[event_count_ + 1] = gpu;
  return reinterpret_cast<Event>(static_cast<intptr_t>(++event_count_));  // never null
}

absl::Status HostCalls::Record(Event event, const Stream& stream) {
  if (gpu_of_event_.at(Number(event)) != stream.gpu) return absl::InternalError("cudaEventRecord: invalid resource handle");
  if (capture_.has_value()) {
    in_captures_.insert(Number(event));
  } else {
    in_captures_.erase(Number(event));
  }
  Add({Noted::Kind::kRecord, Number(stream.handle), Number(event), {}}, nullptr, stream.gpu);
  return absl::OkStatus();
}

absl::Status HostCalls::Synchronize(Event event) {
  if (options_.hang_from >= 0 && waits_ >= options_.hang_from) {
    ++waits_;
    return absl::UnavailableError("a step was not over after 10m");
  }
  ++waits_;
  if (in_captures_.contains(Number(event))) return absl::InternalError("cudaEventSynchronize: operation not permitted");
  for (auto index = static_cast<int64_t>(noted_.size()) - 1; index > waited_for_; --index) {
    if (noted_[index].kind == Noted::Kind::kRecord && noted_[index].event == Number(event)) waited_for_ = index;
  }
  return absl::OkStatus();
}

absl::Status HostCalls::Wait(const Stream& stream, Event event) {
  if (!capture_.has_value() && in_captures_.contains(Number(event))) {
    return absl::InternalError("cudaStreamWaitEvent: dependency created on uncaptured work in another stream");
  }
  Add({Noted::Kind::kWait, Number(stream.handle), Number(event), {}}, nullptr, stream.gpu);
  return absl::OkStatus();
}

int HostCalls::GpuWith(const void* data) const {
  for (const Block& block : blocks_) {
    if (block.begin <= data && data < block.begin + block.bytes) return block.gpu;
  }
  return -1;
}

absl::Status HostCalls::CheckReach(int gpu, const void* data) const {
  for (const Block& block : blocks_) {
    const bool inside = block.begin <= data && data < block.begin + block.bytes;
    if (inside && !CanReach(gpu, block.gpu)) {
      return absl::InternalError(absl::StrCat("a kernel on GPU ", gpu, " reaches into GPU ", block.gpu));
    }
  }
  return absl::OkStatus();
}

void HostCalls::Add(const Noted& noted, const Call* call, int gpu) {
  if (!capture_.has_value()) {
    noted_.push_back(noted);
  } else {
    capture_->push_back({noted, call == nullptr ? std::nullopt : std::optional<Call>(*call), gpu});
  }
}

absl::Status HostCalls::Enqueue(const Stream& stream, const Call& call) {
  const bool is_rank = std::holds_alternative<RankCall>(call);
  Add({Noted::Kind::kCall, Number(stream.handle), 0, range_, is_rank ? group_count_ : -1}, &call, stream.gpu);
  if (calls_++ == options_.fail_at) return absl::InternalError("cudaLaunchKernel: an illegal memory access was encountered");
  return capture_.has_value() ? absl::OkStatus() : RunNow(stream.gpu, call);
}

absl::Status HostCalls::RunNow(int gpu, const Call& call) {
  if (const auto* rank = std::get_if<RankCall>(&call)) {
    if (!in_group_now_) return absl::InternalError("a rank's call outside a group");
    in_group_.emplace_back(gpu, *rank);
    return absl::OkStatus();
  }
  if (!options_.has_memory) return absl::OkStatus();
  if (const auto* copy = std::get_if<CopyBytes>(&call); copy != nullptr && copy->bytes > 0) {
    if (GpuWith(copy->to) != copy->to_gpu || GpuWith(copy->from) != copy->from_gpu) {
      return absl::InternalError(absl::StrCat("a copy from GPU ", GpuWith(copy->from), " to ", GpuWith(copy->to),
                                              " said to be from ", copy->from_gpu, " to ", copy->to_gpu));
    }
  }
  for (const void* data : AddressesOf(call)) {
    if (absl::Status s = CheckReach(gpu, data); !s.ok()) return s;
  }
  std::visit([](const auto& what) { Run(what); }, call);
  return absl::OkStatus();
}

absl::Status HostCalls::BeginCapture(const Stream& stream) {
  if (capture_.has_value()) return absl::InternalError("a capture in a capture");
  capture_.emplace();
  capture_stream_ = Number(stream.handle);
  return absl::OkStatus();
}

// Every wait in a capture must be for a record in it; every stream must have joined; what was enqueued must be on streams
// that the capture has reached.
absl::StatusOr<Graph> HostCalls::EndCapture(const Stream&) {
  std::vector<Captured> captured = *std::move(capture_);
  capture_.reset();
  if (!options_.captures || capture_count_++ == options_.fail_capture_at) {
    return absl::Status(options_.capture_fault, "cudaStreamEndCapture: operation not permitted");
  }
  std::map<int, size_t> record_of;  // by event
  std::map<int, size_t> last_of;    // by stream: its last command
  std::set<int> reached = {capture_stream_};
  for (size_t i = 0; i < captured.size(); ++i) {
    const Noted& noted = captured[i].noted;
    if (noted.kind == Noted::Kind::kWait) {
      if (!record_of.contains(noted.event))
        return absl::InternalError("cudaStreamWaitEvent: a dependency of uncaptured work");
      reached.insert(noted.stream);
    }
    if (!reached.contains(noted.stream)) return absl::InternalError("work on a stream that is not captured");
    if (noted.kind == Noted::Kind::kRecord) record_of[noted.event] = i;
    last_of[noted.stream] = i;
  }
  for (const auto& [stream, last] : last_of) {
    // By a record behind all else, for which another stream waits.
    const Noted& end = captured[last].noted;
    const bool is_awaited =
        std::any_of(captured.begin() + static_cast<ptrdiff_t>(last), captured.end(),
                    [&](const Captured& c) { return c.noted.kind == Noted::Kind::kWait && c.noted.event == end.event; });
    const bool is_joined = stream == capture_stream_ || (end.kind == Noted::Kind::kRecord && is_awaited);
    if (!is_joined) return absl::InternalError("cudaStreamEndCapture: work that was not joined");
  }
  graphs_.push_back(std::move(captured));
  ++graphs_alive_;
  return reinterpret_cast<Graph>(graphs_.size());
}

// Its commands run on streams, and with events, that nothing else knows, but for the stream of the launch.
absl::Status HostCalls::Launch(Graph graph, const Stream& stream) {
  ++graph_launches_;
  std::map<int, int> streams = {{capture_stream_, Number(stream.handle)}}, events;
  for (const Captured& command : graphs_[reinterpret_cast<size_t>(graph) - 1]) {
    Noted noted = command.noted;
    if (!streams.contains(noted.stream)) streams[noted.stream] = stream_count_++;
    noted.stream = streams[noted.stream];
    if (noted.kind != Noted::Kind::kCall) {
      if (!events.contains(noted.event)) events[noted.event] = ++event_count_;
      noted.event = events[noted.event];
    }
    noted_.push_back(noted);
    if (command.call.has_value()) {
      if (absl::Status s = RunNow(command.gpu, *command.call); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> HostCalls::MakeCommunicator(absl::Span<const int> gpus) {
  const std::vector<int> wanted(gpus.begin(), gpus.end());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::count(wanted.begin(), wanted.end(), wanted[i]) > 1) return absl::InternalError("two ranks on one GPU");
  }
  const auto found = std::find(communicators_.begin(), communicators_.end(), wanted);
  if (found != communicators_.end()) return static_cast<int>(found - communicators_.begin());
  communicators_.push_back(wanted);
  return static_cast<int>(communicators_.size()) - 1;
}

absl::Status HostCalls::BeginGroup() {
  if (capture_.has_value()) return absl::InternalError("collectives of NCCL in a capture");
  if (in_group_now_) return absl::InternalError("a group in a group");
  in_group_now_ = true;
  in_group_.clear();
  return absl::OkStatus();
}

absl::Status HostCalls::EndGroup() {
  in_group_now_ = false;
  if (in_group_.empty()) return absl::InternalError("a group without a collective");
  ++group_count_;
  const int communicator = in_group_[0].second.communicator;
  if (communicator < 0 || communicator >= static_cast<int>(communicators_.size())) {
    return absl::InternalError("no such communicator");
  }
  const std::vector<int>& gpus = communicators_[communicator];
  std::vector<RankCall> ranks(gpus.size());
  std::vector<bool> here(gpus.size(), false);
  for (const auto& [gpu, call] : in_group_) {
    if (call.communicator != communicator || here[call.rank] || gpus[call.rank] != gpu) {
      return absl::InternalError("a rank twice, of another communicator, or on another GPU");
    }
    here[call.rank] = true;
    ranks[call.rank] = call;
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (!here[r] || ranks[r].kind != ranks[0].kind || ranks[r].count != ranks[0].count || ranks[r].root != ranks[0].root ||
        ranks[r].dtype != ranks[0].dtype) {
      return absl::InternalError("ranks that do not agree");
    }
  }
  rank_calls_ += static_cast<int64_t>(ranks.size());
  return options_.has_memory ? RunRanks(ranks) : absl::OkStatus();
}

absl::Status HostCalls::RunRanks(const std::vector<RankCall>& ranks) const {
  // A rank touches its own GPU's memory alone.
  const std::vector<int>& gpus = communicators_[ranks[0].communicator];
  for (const RankCall& rank : ranks) {
    for (const Block& block : blocks_) {
      for (const void* data : {rank.from, static_cast<const void*>(rank.to)}) {
        const bool inside = block.begin <= data && data < block.begin + block.bytes;
        if (inside && block.gpu != gpus[rank.rank]) return absl::InternalError("a rank on another GPU's memory");
      }
    }
  }
  switch (ranks[0].dtype) {
    case program::DType::kF32:
      RunCollective<float>(ranks);
      return absl::OkStatus();
    case program::DType::kF64:
      RunCollective<double>(ranks);
      return absl::OkStatus();
    case program::DType::kI32:
      RunCollective<int32_t>(ranks);
      return absl::OkStatus();
    case program::DType::kU8:
      RunCollective<uint8_t>(ranks);
      return absl::OkStatus();
    case program::DType::kBF16:
      RunCollective<program::BFloat16>(ranks);
      return absl::OkStatus();
  }
  return absl::InternalError("a collective of no type");
}

absl::StatusOr<int64_t> HostCalls::Prepare(int, Call& call) {
  const auto* convolution = std::get_if<Convolution>(&call);
  if (convolution != nullptr && !convolution->deterministic) convolutions_are_deterministic_ = false;
  if (convolution != nullptr && !options_.fuses &&
      (convolution->bias != nullptr || convolution->relu || convolution->writes_f32)) {
    return absl::UnimplementedError("a convolution alone, please");
  }
  const auto* product = std::get_if<MatrixProduct>(&call);
  if (product != nullptr && !options_.fuses && (product->bias != nullptr || product->relu)) {
    return absl::UnimplementedError("a product alone, please");
  }
  // Some, so that tests see where it lies.
  return convolution != nullptr ? 1024 : 512;
}

}  // namespace colonnade::cuda

#include "engine/machine_quantities.h"

namespace colonnade::engine {
namespace {

constexpr Bounds kLaunchTimes{0, 10, "s"};  // of a launch
constexpr Bounds kHostTimes{0, 1e5, "s"};   // of a step
constexpr Bounds kSizes{1, 1e18, "byte"};
constexpr Bounds kCoreCounts{1, 1 << 20, ""};

constexpr MachineQuantity kQuantities[] = {
    {"memory_bytes", &Machine::memory_bytes, kSizes, /*is_needed=*/true, /*is_whole=*/false, /*is_drawn=*/false},
    {"flops_per_sec", &Machine::flops_per_sec, kFlopRates, /*is_needed=*/true},
    {"memory_bytes_per_sec", &Machine::memory_bytes_per_sec, kMemoryRates, /*is_needed=*/true},
    {"peak_memory_bytes_per_sec", &Machine::peak_memory_bytes_per_sec, kMemoryRates, false, false, /*is_drawn=*/false},
    {"shared_memory_bytes_per_sec", &Machine::shared_memory_bytes_per_sec, kMemoryRates},
    {"launch_sec", &Machine::launch_sec, kLaunchTimes},
    {"handoff_sec", &Machine::handoff_sec, kLaunchTimes},
    {"skew", &Machine::skew, kPartsOfCompute},
    {"cores", &Machine::cores, kCoreCounts, false, /*is_whole=*/true, /*is_drawn=*/false},
    {"step_sec", &Machine::step_sec, kHostTimes},
    {"step_sec_per_device", &Machine::step_sec_per_device, kHostTimes},
    {"step_sec_per_image", &Machine::step_sec_per_image, kLaunchTimes},
    {"step_sec_per_task", &Machine::step_sec_per_task, kLaunchTimes},
    {"input_images_per_sec", &Machine::input_images_per_sec, kImageRates},
    {"overlap_slowdown", &Machine::overlap_slowdown, kPartsOfCompute},
    {"staging_piece_bytes", &Machine::staging_piece_bytes, kSizes},
    {"switch_bytes_per_sec", &Machine::switch_bytes_per_sec, kLinkRates},
    {"server_bytes_per_sec", &Machine::server_bytes_per_sec, kMemoryRates},
};

}  // namespace

absl::Span<const MachineQuantity> MachineQuantities() { return kQuantities; }

}  // namespace colonnade::engine

// The network that --model and the flags that shape it ask for.
#ifndef COLONNADE_CLI_SESSION_NETWORK_H_
#define COLONNADE_CLI_SESSION_NETWORK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/command_line/flags.h"
#include "data/sample_set.h"
#include "layers/graph.h"
#include "tools/network_file.h"

namespace colonnade::cli {

// Returns what --model names: a network of the zoo as the flags ask for it (where they leave channels and size open, those
// of the data's images, to which --pad has added `pad`, if all are alike; `samples` may be null), or a file as it stands, or
// what weights state.
absl::StatusOr<tools::Network> OpenNetwork(const NetworkFlags& flags, const data::SampleSet* samples = nullptr,
                                           int64_t pad = 0);
absl::StatusOr<layers::LayerGraph> BuildNetwork(const NetworkFlags& flags);  // without data

// Returns "; --auxiliary-heads=on …" where a message about weights names a parameter that --model has with those heads
// alone, and the network is without; else nothing.
std::string AdviceOnHeads(const NetworkFlags& flags, absl::string_view message);

// Returns FailedPrecondition, saying what would help, where the network takes other images than the data's, or tells fewer
// classes apart.
absl::Status CheckImages(const NetworkFlags& flags, int64_t pad, const tools::Network& network,
                         const data::SampleSet& samples);

// Says so where the network tells more classes apart than the `classes` of the data; `advises` how to make one of as many.
void NoteFewerClasses(const NetworkFlags& flags, const layers::LayerGraph& graph, int64_t classes, bool advises);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_NETWORK_H_
